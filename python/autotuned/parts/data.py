# SPDX-License-Identifier: Apache-2.0
"""Whether samples are made by code of the script's own.

Each worker has a copy of that code: what it counts, caches or draws stays there. And to make a
sample once more, beside the training, could change the next one.
"""

from __future__ import annotations

import enum
import functools
import types
from typing import Any

import torch
from torch.utils.data import DataLoader

_MOST_DEPTH = 16
_PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    slice,
    enum.Enum,
    torch.Tensor,
    torch.Size,
    torch.dtype,
    torch.device,
)


def has_own_sampler(loader: DataLoader) -> bool:
    """Whether indices come from a class of the script's, also from one inside of PyTorch's.

    It may draw random numbers when asked, and prefetching asks earlier.
    """
    batches = getattr(loader, "batch_sampler", None)
    samplers = [getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None)]
    return any(
        one is not None and not type(one).__module__.startswith("torch.utils.data")
        for one in samplers
    )


def has_own_data(loader: DataLoader) -> bool:
    """Whether a class or a function of the script's makes the samples or joins them.

    Also one that is given to a data set or a transform of torchvision.
    """
    if not getattr(loader.collate_fn, "__module__", "").startswith("torch.utils.data"):
        return True
    return loader.worker_init_fn is not None or _is_own_data(loader.dataset)


def _is_own_data(dataset: Any) -> bool:
    module = type(dataset).__module__
    if module.startswith("torchvision.datasets"):
        return any(_is_own(value) for value in vars(dataset).values())
    if not module.startswith("torch.utils.data"):
        return True
    parts = getattr(dataset, "datasets", [])
    parts = list(parts.values()) if isinstance(parts, dict) else list(parts)
    parts.append(getattr(dataset, "dataset", None))
    return any(_is_own_data(part) for part in parts if part is not None)


def _is_known(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in ("torch", "torchvision")


def _is_own(part: Any, depth: int = 0) -> bool:
    """Whether it is neither plain data nor of PyTorch and torchvision, with all that is in it.

    A random generator is none of these: what it has drawn shows nowhere else.
    """
    if isinstance(part, _PLAIN):
        return False
    if depth > _MOST_DEPTH or isinstance(part, torch.Generator):
        return True
    if isinstance(part, (list, tuple, set, frozenset)):
        rest = [one for one in part if not isinstance(one, _PLAIN)]
        # The list of files of a data set can be long, but its kinds of parts are few.
        if all(isinstance(one, tuple) for one in rest):
            rest = list({tuple(map(type, one)): one for one in rest}.values())
        return any(_is_own(one, depth + 1) for one in rest)
    if isinstance(part, dict):
        return _is_own(list(part.values()), depth + 1)
    if isinstance(part, functools.partial):
        return _is_own([part.func, part.args, part.keywords], depth + 1)
    if isinstance(part, type):
        return not (_is_known(part.__module__) or part.__module__ == "builtins")
    if type(part).__module__ == "numpy" and type(part).__name__ in ("ndarray", "dtype"):
        return False
    if isinstance(part, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        owner = getattr(part, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            return _is_own(owner, depth + 1)
        return not (_is_known(part.__module__) or part.__module__ in ("builtins", "math"))
    if not _is_known(type(part).__module__):
        return True
    inside = list(vars(part).values()) if hasattr(part, "__dict__") else []
    return any(_is_own(value, depth + 1) for value in inside)
