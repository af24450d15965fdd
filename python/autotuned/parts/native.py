# SPDX-License-Identifier: Apache-2.0
"""Batches of a script's loader that threads of C++ make, and their check.

NativeEngine is an engine like those of engines.py: it draws index batches through a gate, and it
knows which of them it still has to turn into batches.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

import torch
from torch.utils.data import DataLoader

from ..public.plan import GivenBatches, NoPlan, Plan, plan_of
from ..public.replacement import pinned
from .engines import Gate, LoaderSettings, end_in_time
from .tensors import equal_trees, tensors_in

# Where libraries round differently, a pixel may differ by this many of 256 levels.
_MOST_LEVELS = 2.0
_MOST_SEED = 1 << 53  # every reader of JSON takes a smaller number for a whole one
# Where transforms draw random numbers, both sides decode this many pictures of a batch.
_DECODED = 2


class NativeEngine:
    is_own = False
    is_alone = False
    batches = None  # PyTorch's iterator

    def __init__(
        self,
        settings: LoaderSettings,
        loader: DataLoader,
        gate: Gate,
        generator: torch.Generator,
    ) -> None:
        self.settings = settings
        # The number comes from a copy of the script's generator, as the seed of workers does. Each
        # engine draws its own.
        drawn = torch.empty((), dtype=torch.int64).random_(generator=generator)
        seed = (int(drawn) + settings.native_threads) % _MOST_SEED
        self._loader = weakref.ref(loader)  # the script owns it
        self._given: GivenBatches = plan_of(loader).open(
            settings.native_threads, settings.prefetch_batches, seed
        )
        self.begin_again(gate)

    def begin_again(self, gate: Gate) -> None:
        self.gate = gate
        loader = self._loader()
        if loader is None or not self._given.plan.is_of(loader):
            raise RuntimeError("the script has changed its data set or its transforms")
        self._given.begin()
        for _ in range(self._given.ahead):
            self._draw()

    def _draw(self) -> None:
        index = next(self.gate, None)
        if index is not None:
            self._given.give(index)

    def next(self) -> tuple[Any, Any]:
        """Return the index of the next batch, and the batch."""
        self._draw()  # a failure loses nothing: another engine makes what the gate has promised
        if not self.gate.promised:
            raise StopIteration
        batch = self._given.next()
        if self.settings.pin_memory:
            batch = pinned(batch)
        return self.gate.promised.popleft(), batch

    def give_up(self) -> list[Any]:
        """Return the indices of the promised batches. The threads rest until begin_again()."""
        promised = list(self.gate.promised)
        self.gate.promised.clear()
        with contextlib.suppress(Exception):  # it fails in a process that was forked
            self._given.begin()
        return promised

    def end(self) -> None:
        self._given.close()

    def end_after_failure(self) -> None:
        end_in_time(self.end)


def fault_of(loader: DataLoader, index: Any, own: Any, native: Any, expects_same: bool) -> str:
    """Say why a native batch cannot replace the batch that the script's own process makes.

    The answer is empty if it can, or if it claims to have the same values: another check
    judges that claim.
    """
    try:
        plan = plan_of(loader)
    except NoPlan as error:
        return str(error)
    if expects_same and not plan.rounds:
        return ""
    if len(own) != 2 or not isinstance(own[0], torch.Tensor):
        return "the script's loader gives something else than images and targets"
    images, others = native[0], own[0]
    if not equal_trees(own[1], native[1]):
        return "its targets are not those of the script's loader"
    if (images.shape, images.dtype) != (others.shape, others.dtype):
        return (
            f"its images are {tuple(images.shape)} {images.dtype} instead of "
            f"{tuple(others.shape)} {others.dtype}"
        )
    if not all(bool(torch.isfinite(one).all()) for one in tensors_in(images)):
        return "its images are not finite"
    if plan.draws:
        return _fault_of_decoding(loader, plan, index)
    levels = float((images.double() - others.double()).abs().max()) / _level_of(plan)
    if levels > _MOST_LEVELS:
        return f"a pixel differs by {levels:.1f} of 256 levels"
    return ""


def _fault_of_decoding(loader: DataLoader, plan: Plan, index: Any) -> str:
    """Compare the pixels before the transforms, because these draw other numbers on each side."""
    dataset: Any = loader.dataset
    while hasattr(dataset, "indices"):  # it is a Subset
        dataset = dataset.dataset
    for number in list(index)[:_DECODED]:
        path = plan.files[plan.file_of(number)][0]
        image = dataset.loader(path)
        width, height = image.size
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        expected = pixels.view(height, width, 3).permute(2, 0, 1)
        if not torch.equal(plan.picture(number), expected):
            return f"{path} is decoded to other pixels"
    return ""


def _level_of(plan: Plan) -> float:
    """Return the size of one of 256 levels after the transforms: the largest of the channels."""
    level = 1.0
    for stage in plan.transforms:
        name, options = (stage, {}) if isinstance(stage, str) else next(iter(stage.items()))
        if name == "to_float":
            level /= 255
        elif name == "scale":
            level *= float(options["by"])
        elif name == "normalize":
            std = options["std"]
            level /= min(std) if isinstance(std, list) else float(std)
    return level
