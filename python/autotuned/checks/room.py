# SPDX-License-Identifier: Apache-2.0
"""Whether a GPU has room for a check.

A shadow that finds no memory ends a check; but where a shadow leaves none, the script's own step
fails, and with it the training.
"""

from __future__ import annotations

from ..loop.memory import USED_RATIO, memory_of
from ..loop.script import Script

_GIB = 1 << 30


def shortage_of(script: Script, method: str, shadows: int) -> str:
    """Why the memory does not suffice for this many shadows; empty: it does."""
    memory = memory_of(script)
    if memory is None:
        return ""
    held, peak, free = memory
    parameters = sum(one.numel() * one.element_size() for one in script.parameters())
    if method == "twin":
        # The shadows' activations exist at the same time as the script's, and all start from
        # copies.
        more = shadows * peak + (2 + shadows) * parameters
    else:
        # The configuration in force is computed again too, one after the other, where the
        # script's own activations have gone: values, sums and gradients of the parameters.
        more = 3 * (1 + shadows) * parameters
    needed = peak - held + more
    if needed <= USED_RATIO * free:
        return ""
    return (
        f"the GPU has no room for a second training beside the script's: about "
        f"{needed / _GIB:.1f} GiB, and {free / _GIB:.1f} GiB are free"
    )
