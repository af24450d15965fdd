# SPDX-License-Identifier: Apache-2.0
"""Tunes a training loop for the program that has it: in a notebook, or anywhere in Python.

A process of the program `autotuned` is the session, as beside a script; the rest of this package
is loaded as its agent, under the name that it has in a script.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Sequence

from ..installation.programs import find_program

_WORD = "agent-session"
_AGENT = "_autotuned_script"  # as in startup/sitecustomize.py
_PACKAGE = Path(__file__).absolute().parent.parent
_PATIENCE_S = 10.0  # for the session to store its last rows

_running: TuningSession | None = None
_is_agent_ours = False


@dataclass(frozen=True)
class Tuned:
    """What became of the tuning.

    `change` is what is in force from now on, as the terminal shows it; empty: nothing was
    confirmed to be faster. `speedup` is the measured ratio of rates with its interval. `why` is
    not empty where the tuning did not come to its end. `run` is for `autotuned explain`.
    """

    run: str = ""
    change: str = ""
    configuration: dict[str, Any] = field(default_factory=dict)
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    why: str = ""


def _load_agent() -> Any:
    """Loads the package again under its other name: its hooks serve one script only."""
    global _is_agent_ours
    if _AGENT in sys.modules:
        if not _is_agent_ours:
            raise RuntimeError("this program runs under `autotuned run`, which tunes it already")
        return importlib.import_module(_AGENT + ".agent.attach")
    spec = importlib.util.spec_from_file_location(
        _AGENT, str(_PACKAGE / "__init__.py"), submodule_search_locations=[str(_PACKAGE)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[_AGENT] = package
    spec.loader.exec_module(package)
    _is_agent_ours = True
    return importlib.import_module(_AGENT + ".agent.attach")


class TuningSession:
    """Made by session(). Tunes the steps that are made inside of the `with` block."""

    def __init__(
        self, name: str, content: str, allow: Sequence[str], budget_seconds: float
    ) -> None:
        for word in allow:
            if word not in ("numerics", "semantics") and "." not in word:
                raise ValueError(f"allow: expected numerics, semantics or a knob, found {word!r}")
        if not budget_seconds > 0:
            raise ValueError("budget_seconds must be above 0")
        self._request = {
            "name": name,
            "command": [name],
            "content": hashlib.sha256(content.encode()).hexdigest(),
            "budget_ns": int(budget_seconds * 1e9),
            "allow": list(allow),
        }
        self._process: subprocess.Popen[str] | None = None
        self._agent: Any = None
        self.result: Tuned | None = None

    @property
    def is_over(self) -> bool:
        """Whether the tuning has ended; the loop may go on."""
        return self._agent is None or self._agent.is_over

    def __enter__(self) -> TuningSession:
        global _running
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("only the main thread's training is tuned")
        if _running is not None:
            raise RuntimeError("another session is open in this program")
        attach = _load_agent()
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [str(find_program()), _WORD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # an interrupt is the program's own
            )
            request = {**self._request, "agent": theirs.fileno()}
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            self._agent = attach.attach(ours.detach())
        except Exception as error:
            process.kill()
            process.communicate()
            raise RuntimeError(f"the session does not start: {error}") from error
        self._process = process
        _running = self
        return self

    def __exit__(self, *raised: Any) -> None:
        global _running
        _running = None
        if not self._agent.is_over:
            protocol = importlib.import_module(_AGENT + ".protocol")
            why = "the session was closed before its tuning ended"
            self._agent.detach(protocol.RequestError("cancelled", why))
        assert self._process is not None
        try:
            # The training that it tunes is over. It would not see that its standard input is
            # closed where workers of a loader hold the other end, too.
            said, _ = self._process.communicate("end\n", timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            said, _ = self._process.communicate()
        self.result = _result_of(said)


def _result_of(said: str) -> Tuned:
    events: dict[str, dict[str, Any]] = {}
    for line in said.splitlines():
        try:
            event = json.loads(line)
        except ValueError:  # it was killed in the middle of a line
            continue
        events[event.get("event", "")] = event
    run = events.get("run", {}).get("run", "")
    if "tuned" not in events:
        why = events.get("untuned", {}).get("text") or "the session ended before its tuning did"
        return Tuned(run=run, why=why)
    tuned = events["tuned"]
    if not tuned["change"]:
        return Tuned(run=run, configuration=tuned["configuration"])
    return Tuned(
        run,
        tuned["change"],
        tuned["configuration"],
        tuned["speedup"],
        tuned["speedup_low"],
        tuned["speedup_high"],
    )


def session(
    name: str = "",
    *,
    allow: Sequence[str] = (),
    budget_seconds: float = 120.0,
) -> TuningSession:
    """A `with` block whose training steps are tuned, on themselves.

    `name` is what the history knows the loop by: a stored configuration of that name is verified
    and used. `allow` is that of `autotuned run --allow`. What was kept stays in force behind the
    block, and `result` of the session says what it is.
    """
    name = name or os.path.basename(sys.argv[0]) or "notebook"
    return TuningSession(name, name, allow, budget_seconds)


def tune(
    step: Callable[[], Any],
    *,
    name: str = "",
    allow: Sequence[str] = (),
    budget_seconds: float = 120.0,
) -> Tuned:
    """Calls `step`, one training step of the caller's, until it is known what makes it faster.

    Each call is a real step: the model is trained by them. A function that trains nothing is
    called for a while beyond the budget, and `why` says what was missing.
    """
    name = name or getattr(step, "__name__", "step")
    try:
        content = inspect.getsource(step)
    except (OSError, TypeError):  # made at run time
        content = name
    opened = TuningSession(name, content, allow, budget_seconds)
    end = time.monotonic() + 2 * budget_seconds + 30
    with opened:
        while not opened.is_over and time.monotonic() < end:
            step()
    assert opened.result is not None
    return opened.result
