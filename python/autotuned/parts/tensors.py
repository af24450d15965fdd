# SPDX-License-Identifier: Apache-2.0
"""Trees of tensors, as modules take and return them, and the state of random generators."""

from __future__ import annotations

import copy
import random
import sys
from typing import Any, Callable

import torch


def map_tensors(change: Callable[..., Any], *trees: Any) -> Any:
    """Applies `change` to each tensor of a tree.

    With several trees of one shape, `change` gets the tensors at the same place of each. What has
    no tensor that changes stays the same object.
    """
    first = trees[0]
    if isinstance(first, torch.Tensor):
        return change(*trees)
    if isinstance(first, (list, tuple)):
        parts = [map_tensors(change, *some) for some in zip(*trees)]
        if len(parts) == len(first) and all(new is old for new, old in zip(parts, first)):
            return first
        if isinstance(first, tuple):
            return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
        changed = [] if type(first) is list else copy.copy(first)
        changed[:] = parts
        return changed
    if isinstance(first, dict):
        named = {key: map_tensors(change, *(tree[key] for tree in trees)) for key in first}
        if all(named[key] is first[key] for key in named):
            return first
        if type(first) is dict:
            return named
        # A subclass of dict may have another constructor, and more than its items.
        copied = copy.copy(first)
        for key, value in named.items():
            copied[key] = value
        return copied
    return first


def tensors_in(tree: Any) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, (list, tuple)):
        return [tensor for part in tree for tensor in tensors_in(part)]
    if isinstance(tree, dict):
        return [tensor for part in tree.values() for tensor in tensors_in(part)]
    return []


def samples_in(batch: Any) -> int:
    """The first dimension of the first tensor; 0 where there is none."""
    for tensor in tensors_in(batch):
        if tensor.dim() > 0:
            return tensor.shape[0]
    return 0


def equal_trees(one: Any, other: Any) -> bool:
    """Value for value; two NaN at one place are equal."""
    if isinstance(one, torch.Tensor):
        if (
            not isinstance(other, torch.Tensor)
            or one.shape != other.shape
            or one.dtype != other.dtype
        ):
            return False
        if one.is_floating_point() or one.is_complex():
            return bool(torch.isclose(one, other, rtol=0.0, atol=0.0, equal_nan=True).all())
        return bool(torch.equal(one, other))
    if isinstance(one, (list, tuple)):
        return (
            isinstance(other, (list, tuple))
            and len(one) == len(other)
            and all(equal_trees(a, b) for a, b in zip(one, other))
        )
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(equal_trees(value, other[key]) for key, value in one.items())
        )
    try:
        return type(one) is type(other) and bool(one == other)
    except (TypeError, ValueError):  # an array, say: compared by what it prints
        return repr(one) == repr(other)


class RandomState:
    """PyTorch's generators of CPU and devices as they are now.

    With `others`, those of Python and NumPy too.
    """

    def __init__(self, others: bool = False) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
        self._python = random.getstate() if others else None
        numpy = sys.modules.get("numpy") if others else None
        self._numpy = numpy.random.get_state() if numpy is not None else None

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        if self._python is not None:
            random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)

    def drawn_since(self) -> list[str]:
        """Which of these generators have moved since."""
        now = RandomState(others=self._python is not None)
        moved = []
        pairs = zip(self._cuda or [], now._cuda or [])
        if not torch.equal(self._cpu, now._cpu) or not all(torch.equal(*pair) for pair in pairs):
            moved.append("torch")
        if self._python != now._python:
            moved.append("random")
        if self._numpy is not None and repr(self._numpy) != repr(now._numpy):
            moved.append("numpy")
        return moved


def is_channels_last(tensor: torch.Tensor) -> bool:
    return (
        tensor.dim() == 4
        and not tensor.is_contiguous()
        and tensor.is_contiguous(memory_format=torch.channels_last)
    )


def as_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    # contiguous() would leave strides as they are where there is one channel or one pixel, and
    # convolutions would go by them.
    is_image = tensor.dim() == 4 and tensor.is_floating_point()
    return tensor.to(memory_format=torch.channels_last) if is_image else tensor
