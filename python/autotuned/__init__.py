# SPDX-License-Identifier: Apache-2.0
"""Tunes a PyTorch script from inside, and has functions for programs of the user.

`compare(a, b)` says which of two callables is faster; `tune(step)` and `session()` tune a training
loop of the caller; `Loader` makes batches of pictures (docs/python.md). The other modules serve a
tuning session from inside of a script: `startup/sitecustomize.py` loads them, they watch the
script's training loop and answer requests at the ends of steps (docs/trainer-protocol.md,
"Trainers that do not own their loop"). docs/architecture.md lists the modules.
"""

from typing import Any

VERSION = "0.1.0"


def __getattr__(name: str) -> Any:
    """Loaded when it is asked for: this file is run in every script that is tuned."""
    if name in ("compare", "Comparison"):
        from .public import timing

        return getattr(timing, name)
    if name in ("session", "tune", "Tuned"):
        from .public import notebook

        return getattr(notebook, name)
    if name == "Loader":
        from .public import loader

        return loader.Loader
    raise AttributeError(f"module 'autotuned' has no attribute '{name}'")
