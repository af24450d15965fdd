# SPDX-License-Identifier: Apache-2.0
"""A gather whose index is the same along the rest of a row selects whole rows.

PyTorch reads an index for each element, and adds up the gradient element by element, on one
thread. Copying rows gives the same numbers, bit for bit: each element of a gradient is summed in
the same order. Only on a CPU, for 32 and 64 bits: sums of 16 bits are rounded otherwise.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, Callable, Iterator

import torch

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_NAMES = ("input", "dim", "index")  # of gather; of the method the first has no name


class _SelectedRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, source: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """`source` has two dimensions, `rows` one."""
        ctx.save_for_backward(rows)
        ctx.shape = source.shape
        return source.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (rows,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.shape).index_add_(0, rows, gradient), None


def _selection(source: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor | None:
    """Which rows of the source, seen as (batches x rows, length), this gather selects.

    None: it is another gather, or it would fail.
    """
    if (
        type(source) not in _PLAIN
        or type(index) is not torch.Tensor
        or source.dtype not in (torch.float32, torch.float64)
        or index.dtype is not torch.int64
        or source.device.type != "cpu"
        or index.device.type != "cpu"
        or source.dim() != index.dim()
        or index.numel() == 0
    ):
        return None
    dim = dim + source.dim() if dim < 0 else dim
    behind = range(dim + 1, source.dim())
    if not 0 < dim < source.dim() - 1 or any(index.stride(one) != 0 for one in behind):
        return None
    if any(index.shape[one] != source.shape[one] for one in range(source.dim()) if one != dim):
        return None
    selected = index[(..., *(0 for _ in behind))].reshape(-1, index.shape[dim])
    count = source.shape[dim]
    if int(selected.min()) < 0 or int(selected.max()) >= count:
        return None  # gather says what is wrong
    first = torch.arange(0, selected.shape[0] * count, count).unsqueeze(1)
    return (selected + first).reshape(-1)


def _rewritten(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def gather(*args: Any, **kwargs: Any) -> torch.Tensor:
        named = {**dict(zip(_NAMES, args)), **kwargs}
        # Neither PyTorch's compiler nor its function transforms know what this does.
        if (
            len(args) + len(kwargs) != len(_NAMES)
            or set(named) != set(_NAMES)
            or not isinstance(named["dim"], int)
            or torch.compiler.is_compiling()
            or torch._C._are_functorch_transforms_active()
        ):
            return original(*args, **kwargs)
        source, dim, index = (named[name] for name in _NAMES)
        rows = _selection(source, dim, index)
        if rows is None:
            return original(*args, **kwargs)
        length = math.prod(source.shape[dim % source.dim() + 1 :])
        return _SelectedRows.apply(source.reshape(-1, length), rows).reshape(index.shape)

    return gather


@contextlib.contextmanager
def selected() -> Iterator[None]:
    """Makes calls of gather select rows inside of this context."""
    owners: tuple[Any, ...] = (torch, torch.Tensor)
    before = [vars(owner).get("gather") for owner in owners]
    ours = [_rewritten(owner.gather) for owner in owners]
    for owner, rewritten in zip(owners, ours):
        owner.gather = rewritten
    try:
        yield
    finally:
        for owner, own, rewritten in zip(owners, before, ours):
            if owner.gather is not rewritten:
                continue  # somebody else has wrapped it since
            if own is None:  # the method is that of a class above
                del owner.gather
            else:
                owner.gather = own
