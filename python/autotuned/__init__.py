# SPDX-License-Identifier: Apache-2.0
"""Tunes a PyTorch script from inside, and what a program of yours may call.

`compare(a, b)` says which of two callables is faster; `tune(step)` and `session()` tune a loop of
the caller's (docs/python.md). The rest serves a tuning session from inside of a script that
somebody else wrote: `startup/sitecustomize.py` loads it, it watches the script's own training loop
and answers requests at the ends of steps (docs/trainer-protocol.md, "Trainers that do not own
their loop"). docs/architecture.md lists the modules.
"""

from typing import Any

VERSION = "0.1.0"


def __getattr__(name: str) -> Any:
    """Loaded when it is asked for: this file is run in every script that is tuned."""
    if name in ("compare", "Comparison"):
        from . import timing

        return getattr(timing, name)
    if name in ("session", "tune", "Tuned"):
        from . import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module 'autotuned' has no attribute '{name}'")
