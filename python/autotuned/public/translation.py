# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms as those of recipes, stage by stage.

Only stages that give the same bytes are translated: for a random stage, after the same draws. Each
other one is named in the error. torchvision is not imported; a stage is known by its class.
"""

from __future__ import annotations

import struct
from typing import Any, Callable, Iterable

Described = list[Any]  # transforms as a recipe has them

# The input of a stage: a PIL image, a tensor of bytes, a tensor of floats.
_PICTURE, _BYTES, _FLOATS = "a PIL image", "a tensor of bytes", "a tensor of floats"

# 1/255 as a float32, by which torchvision's v2 multiplies; its v1 divides by 255.
_SHARE_OF_255 = struct.unpack("f", struct.pack("f", 1 / 255))[0]


class _Unknown(Exception):
    """A stage that has no exact counterpart; the text says why."""


class UnknownStage(ValueError):
    """Transforms that are not translated. `why` is a clause that names the stage."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(text)
        self.why = why


def _is_of_torchvision(stage: Any) -> bool:
    return type(stage).__module__.startswith("torchvision.transforms.")


def _is_v2(stage: Any) -> bool:
    return type(stage).__module__.startswith("torchvision.transforms.v2.")


def _flat(stages: Iterable[Any]) -> list[Any]:
    """The stages, with each Compose replaced by the stages that it holds."""
    found: list[Any] = []
    for stage in stages:
        if _is_of_torchvision(stage) and type(stage).__name__ == "Compose":
            found += _flat(stage.transforms)
        else:
            found.append(stage)
    return found


def _needs(got: str, *wanted: str) -> None:
    if got not in wanted:
        raise _Unknown(f"it would get {got}, and is known only for {' and '.join(wanted)}")


def _needs_interpolation(stage: Any, wanted: str) -> None:
    # An enumeration, or in older versions a number of PIL's.
    given = getattr(stage.interpolation, "value", stage.interpolation)
    if given not in (wanted, {"nearest": 0, "bilinear": 2}[wanted]):
        raise _Unknown(f"its interpolation is {given}, and only {wanted} is known")


def _numbers(value: Any, what: str) -> list[float]:
    try:
        return [float(one) for one in value]
    except (TypeError, ValueError):
        raise _Unknown(f"its {what} is {value!r}") from None


def _sizes(value: Any) -> list[int]:
    """A size as one or two whole numbers."""
    given = [value] if isinstance(value, int) else value
    if not isinstance(given, (list, tuple)) or len(given) not in (1, 2):
        raise _Unknown(f"its size is {value!r}")
    return [int(one) for one in given]


def _pair(value: Any) -> list[int]:
    sizes = _sizes(value)
    return sizes if len(sizes) == 2 else sizes * 2


def _fill(value: Any, what: str = "fill") -> dict[str, Any]:
    if value is None or value == 0:
        return {}
    return {what: value if isinstance(value, (int, float)) else _numbers(value, what)}


def _margin(stage: Any) -> Described:
    """The margins for `padding` of Pad and RandomCrop."""
    padding = stage.padding
    if padding is None or padding == 0:
        return []
    sides = [padding] if isinstance(padding, int) else [int(side) for side in padding]
    by = {1: lambda: sides[0], 2: lambda: sides * 2, 4: lambda: sides}.get(len(sides))
    if by is None:
        raise _Unknown(f"its padding is {padding!r}")
    return [{"pad": {"by": by(), "mode": str(stage.padding_mode), **_fill(stage.fill)}}]


def _resize(stage: Any, got: str) -> Described:
    _needs(got, _PICTURE)
    _needs_interpolation(stage, "bilinear")
    if getattr(stage, "max_size", None) is not None:
        raise _Unknown(f"its max_size is {stage.max_size}")
    sizes = _sizes(stage.size)
    if len(sizes) == 1:
        return [{"resize_shorter": {"size": sizes[0]}}]
    return [{"resize": {"size": sizes}}]


def _center_crop(stage: Any, got: str) -> Described:
    return [{"center_crop": {"size": _pair(stage.size)}}]


def _random_crop(stage: Any, got: str) -> Described:
    if stage.pad_if_needed:
        raise _Unknown("its pad_if_needed is set")
    return [*_margin(stage), {"random_crop": {"size": _pair(stage.size)}}]


def _random_resized_crop(stage: Any, got: str) -> Described:
    _needs(got, _PICTURE)
    _needs_interpolation(stage, "bilinear")
    return [
        {
            "random_resized_crop": {
                "size": _pair(stage.size),
                "scale": _numbers(stage.scale, "scale"),
                "ratio": _numbers(stage.ratio, "ratio"),
            }
        }
    ]


def _random_flip(stage: Any, got: str) -> Described:
    return [{"random_flip": {"probability": float(stage.p)}}]


def _pad(stage: Any, got: str) -> Described:
    return _margin(stage)


def _color_jitter(stage: Any, got: str) -> Described:
    _needs(got, _PICTURE)
    amounts = {}
    for name in ("brightness", "contrast", "saturation", "hue"):
        amount = getattr(stage, name)
        if amount is not None:
            amounts[name] = _numbers(amount, name)
    return [{"color_jitter": amounts}] if amounts else []


def _random_rotation(stage: Any, got: str) -> Described:
    _needs(got, _PICTURE)
    _needs_interpolation(stage, "nearest")
    if stage.expand or stage.center is not None:
        raise _Unknown("it has expand or a center")
    degrees = _numbers(stage.degrees, "degrees")
    return [{"random_rotation": {"degrees": degrees, **_fill(stage.fill)}}]


def _rand_augment(stage: Any, got: str) -> Described:
    _needs(got, _PICTURE)
    _needs_interpolation(stage, "nearest")
    if _is_v2(stage):
        raise _Unknown("only that of torchvision.transforms is known, not that of v2")
    changes = {
        "operations": stage.num_ops,
        "magnitude": stage.magnitude,
        "bins": stage.num_magnitude_bins,
    }
    return [{"rand_augment": {**changes, **_fill(stage.fill)}}]


def _random_erasing(stage: Any, got: str) -> Described:
    _needs(got, _FLOATS)
    if isinstance(stage.value, str):
        raise _Unknown(f"its value is {stage.value!r}")
    erased = {
        "probability": float(stage.p),
        "scale": _numbers(stage.scale, "scale"),
        "ratio": _numbers(stage.ratio, "ratio"),
    }
    return [{"random_erasing": {**erased, **_fill(stage.value, "value")}}]


def _to_tensor(stage: Any, got: str) -> Described:
    _needs(got, _PICTURE)
    return ["to_float"]


def _to_bytes(stage: Any, got: str) -> Described:
    _needs(got, _PICTURE)
    return []


def _unchanged(stage: Any, got: str) -> Described:
    _needs(got, _BYTES, _FLOATS)
    return []


def _convert(stage: Any, got: str) -> Described:
    """Translates ConvertImageDtype, and ToDtype of v2."""
    _needs(got, _BYTES, _FLOATS)
    if str(stage.dtype) != "torch.float32":
        raise _Unknown(f"its dtype is {stage.dtype}, and only torch.float32 is known")
    if got == _FLOATS:
        return []
    if not _is_v2(stage):
        return ["to_float"]
    return [{"scale": {"by": _SHARE_OF_255 if getattr(stage, "scale", True) else 1}}]


def _normalize(stage: Any, got: str) -> Described:
    _needs(got, _FLOATS)

    def each(value: Any, what: str) -> Any:
        numbers = _numbers([value] if isinstance(value, (int, float)) else value, what)
        return numbers if len(numbers) > 1 else numbers[0]

    return [{"normalize": {"mean": each(stage.mean, "mean"), "std": each(stage.std, "std")}}]


# By class: how to describe it, and what it gives where that is another kind.
_STAGES: dict[str, tuple[Callable[[Any, str], Described], str | None]] = {
    "CenterCrop": (_center_crop, None),
    "ColorJitter": (_color_jitter, None),
    "ConvertImageDtype": (_convert, _FLOATS),
    "Normalize": (_normalize, None),
    "PILToTensor": (_to_bytes, _BYTES),
    "Pad": (_pad, None),
    "RandAugment": (_rand_augment, None),
    "RandomCrop": (_random_crop, None),
    "RandomErasing": (_random_erasing, None),
    "RandomHorizontalFlip": (_random_flip, None),
    "RandomResizedCrop": (_random_resized_crop, None),
    "RandomRotation": (_random_rotation, None),
    "Resize": (_resize, None),
    "ToDtype": (_convert, _FLOATS),
    "ToImage": (_to_bytes, _BYTES),
    "ToPureTensor": (_unchanged, None),
    "ToTensor": (_to_tensor, _FLOATS),
}


def described(transforms: Any) -> Described:
    """A Compose of torchvision or a list of its stages, as a recipe has them.

    Anything else is taken as a list of descriptions already. ValueError names a stage that is not
    known.
    """
    if transforms is None:
        return []
    given = list(transforms) if isinstance(transforms, (list, tuple)) else [transforms]
    if all(isinstance(one, (str, dict)) for one in given):
        return given
    got = _PICTURE
    found: Described = []
    for stage in _flat(given):
        name = type(stage).__name__
        try:
            if not _is_of_torchvision(stage) or name not in _STAGES:
                raise _Unknown(f"known are {', '.join(sorted(_STAGES))}")
            describe, gives = _STAGES[name]
            found += describe(stage, got)
            got = gives or got
        except _Unknown as error:
            raise UnknownStage(
                f"autotuned.Loader cannot do exactly what {stage!r} does: {error}; take it out, "
                "or describe the transforms as a recipe does (docs/recipe.md)",
                f"what {stage!r} does is not known exactly: {error}",
            ) from None
    if got == _PICTURE:
        why = "the transforms end with a PIL image"
        raise UnknownStage(
            f"{why}: add ToTensor() for floats from 0 to 1, or PILToTensor() for bytes", why
        )
    return found


_DRAWING = {
    "color_jitter",
    "rand_augment",
    "random_crop",
    "random_erasing",
    "random_flip",
    "random_resized_crop",
    "random_rotation",
}
_RESIZING = {"random_resized_crop", "resize", "resize_shorter"}


def _names(stages: Described) -> set[str]:
    return {one if isinstance(one, str) else next(iter(one)) for one in stages}


def draws(stages: Described) -> bool:
    """Whether any of what described() gives draws random numbers."""
    return bool(_names(stages) & _DRAWING)


def resizes(stages: Described) -> bool:
    """Whether any of them computes pixels between others, which libraries round differently."""
    return bool(_names(stages) & _RESIZING)
