# SPDX-License-Identifier: Apache-2.0
"""Whether a GPU has room for a check.

A shadow that finds no memory ends a check; but where a shadow leaves none, the script's own step
fails, and with it the training.
"""

from __future__ import annotations

import torch

from ..loop.script import Script

_USED_RATIO = 0.9  # what is free is free in pieces
_GIB = 1 << 30


def shortage_of(script: Script, method: str, shadows: int) -> str:
    """Why there is no room for this many shadows beside the script; empty: there is."""
    device = script.device()
    if device.type != "cuda":
        return ""
    held = torch.cuda.memory_allocated(device)
    # Where no block was timed yet, since the process began.
    peak = max(held, script.peak_device_bytes or torch.cuda.max_memory_allocated(device))
    parameters = sum(one.numel() * one.element_size() for one in script.parameters())
    if method == "twin":
        # Their activations are there at once, beside the script's; and all begin from copies.
        more = shadows * peak + (2 + shadows) * parameters
    else:
        # The configuration in force is computed again too, one after the other, where the
        # script's own activations have gone: values, sums and gradients of the parameters.
        more = 3 * (1 + shadows) * parameters
    needed = peak - held + more
    free = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - held
    if needed <= _USED_RATIO * free:
        return ""
    return (
        f"the GPU has no room for a second training beside the script's: about "
        f"{needed / _GIB:.1f} GiB, and {free / _GIB:.1f} GiB are free"
    )
