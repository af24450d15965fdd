# SPDX-License-Identifier: Apache-2.0
"""The way in: called once, right behind the script's first `import torch`."""

from __future__ import annotations

import atexit
import os
import sys
import traceback

from ..loop.hooks import Hooks
from ..loop.script import Script
from ..loop.watch import Watch
from ..parts import compiling
from ..protocol import Link, RequestError
from .session import Session


def warn(text: str) -> None:
    """Writes a line to standard error. Ignores failures."""
    try:
        sys.stderr.write(f"autotuned: {text}\n")
    except (OSError, ValueError, AttributeError):
        pass


def place_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""


def attach(descriptor: int) -> Session:
    """Connects to the session behind that descriptor, which belongs to the package from now on."""
    link = Link(descriptor)
    script = Script()
    watch = Watch(script)
    hooks = Hooks(script, watch)

    def let_go() -> None:
        watch.is_watching = False
        watch.check = None
        watch.guard = None
        compiling.clock.stop()
        # A loader whose iterator the script would have kept keeps the one that it has got
        # instead.
        hooks.remove(
            keeps_forward=not script.forward.changes_nothing(),
            keeps_loaders=bool(script.loader_changes)
            or any(
                found.loader is not None and found.loader.persistent_workers
                for found in script.loaders
            ),
            keeps_zero_grad=script.releases_gradients,
            keeps_states=script.flags.changes_anything(),
            keeps_optimizers=script.flags.changes_anything(),
        )
        if session.counter is not None:
            hooks.count(session.counter)

    session = Session(link, script, watch, let_go, warn)

    def on_failure(error: Exception) -> None:
        if session.is_over:
            return
        place = place_of(error)
        warn(f"stops tuning: {type(error).__name__} at {place}; the script goes on as it is")
        session.detach(
            RequestError("internal", f"{type(error).__name__}: {error}", place, "report it")
        )

    def in_child() -> None:
        watch.is_watching = False
        watch.check = None
        session.is_over = True
        session.counter = None
        link.abandon()

    watch.on_failure = on_failure
    hooks.install()
    os.register_at_fork(after_in_child=in_child)
    atexit.register(session.end)
    return session
