# SPDX-License-Identifier: Apache-2.0
"""The memory of a script's GPU: whether changes have room there, and what they leave behind.

A forward pass that finds none is made again as the script does it. A backward pass or an optimizer
is not: it is the end of the script.
"""

from __future__ import annotations

import torch

from ..parts import compiling
from .script import Script

USED_RATIO = 0.9  # what is free is free in pieces


def memory_of(script: Script) -> tuple[int, int, int] | None:
    """Bytes of its GPU: held between steps, held at most, and free for more than the first.

    Nothing where it trains on none.
    """
    device = script.device()
    if device.type != "cuda":
        return None
    held = torch.cuda.memory_allocated(device)
    # Where no block was timed yet, since the process began.
    peak = max(held, script.peak_device_bytes or torch.cuda.max_memory_allocated(device))
    free = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - held
    return held, peak, free


def shortage_of_changes(script: Script) -> str:
    """Why no change is tried; empty: the memory suffices, or no block was timed yet."""
    memory = memory_of(script) if script.peak_device_bytes else None
    if memory is None:
        return ""
    held, peak, free = memory
    is_short = peak - held > USED_RATIO * free
    return "the script leaves too little of its GPU to try changes" if is_short else ""


def shortage_of_graphs(script: Script) -> str:
    """Why there are no CUDA graphs: they have memory of their own, beside that of other steps."""
    memory = memory_of(script)
    if memory is None:
        return ""
    held, peak, free = memory
    return "the GPU has no room for them" if 2 * (peak - held) > USED_RATIO * free else ""


def release_graphs(script: Script) -> None:
    """At the end of the tuning, where they were not kept.

    Not within a step: a backward pass through them may be yet to come.
    """
    if script.forward.compiled == compiling.GRAPHS:
        return
    left = [root.leave_graphs() for root in script.every_root()]
    if any(left):
        script.synchronize()
        compiling.release_graphs()


def release_pinned() -> None:
    """Gives back page-locked memory that PyTorch keeps for batches to come."""
    empty = getattr(torch._C, "_host_emptyCache", None)
    if empty is not None and torch.cuda.is_initialized():
        empty()
