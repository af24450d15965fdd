# SPDX-License-Identifier: Apache-2.0
"""Scripts as forks of one process that has imported PyTorch, which takes longer than most train.

`Running` and `alone` are those of stand_in.py. A fork runs startup/sitecustomize.py, as each
Python does that a session starts; PyTorch is there already, so it attaches at once. Then the
script runs as __main__, and Python ends as it does behind any script. A test of the way in, of
warnings, or of variables that Python reads when it starts, needs one that stand_in.py starts.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import stand_in
from stand_in import PATIENCE_S, SCRIPTS, STARTUP, TELLS_SIGNALS

QUIET = {"PYTHONWARNINGS": "ignore"}
_MOST_BYTES = 1 << 16  # of what is told to the parent
_NUMBER = struct.Struct("<i")


# --- in the test --------------------------------------------------------------------------


@functools.cache
def _parent() -> socket.socket:
    """Takes what is to be forked. One for all tests of a module."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, __file__, str(theirs.fileno())],
        env={**os.environ, **TELLS_SIGNALS, **QUIET},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.kill()
        process.wait()

    atexit.register(end)
    return ours


class Fork:
    """A script that runs, as far as stand_in.py uses subprocess.Popen."""

    def __init__(
        self,
        command: tuple[str, ...],
        environment: dict[str, str] | None = None,
        session: int | None = None,
        cwd: Path = SCRIPTS,
    ) -> None:
        assert environment in (None, {}, QUIET), "Python has started already"
        self.returncode: int | None = None
        self._written: tuple[bytes, bytes] | None = None
        self._files = [tempfile.TemporaryFile() for _ in range(2)]
        self._told, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._told.settimeout(PATIENCE_S)
        descriptors = [theirs.fileno(), *(file.fileno() for file in self._files)]
        if session is not None:
            descriptors.append(session)
        what = {"command": command, "folder": str(cwd)}
        socket.send_fds(_parent(), [json.dumps(what).encode()], descriptors)
        theirs.close()
        self.pid = self._number()

    def _number(self) -> int:
        told = self._told.recv(_NUMBER.size)
        assert told, "the parent of the scripts has ended"
        return _NUMBER.unpack(told)[0]

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], timeout)[0]:
            self.returncode = self._number()
            self._told.close()
        return self.returncode

    def poll(self) -> int | None:
        return self._wait(0.0)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        if self._wait(timeout) is None:
            raise subprocess.TimeoutExpired("a fork", timeout or 0.0)
        if self._written is None:
            for file in self._files:
                file.seek(0)
            out, error = (file.read() for file in self._files)
            for file in self._files:
                file.close()
            self._written = out, error
        return self._written


class Running(stand_in.Running):
    def started(
        self,
        command: tuple[str, ...],
        session: int,
        environment: dict[str, str],
        options: dict[str, Any],
    ) -> Fork:
        return Fork(command, environment, session, **options)


def alone(
    *command: str, environment: dict[str, str] | None = None, **options: Any
) -> tuple[int, str, str]:
    """The script without any of this."""
    fork = Fork(command, environment, **options)
    out, error = fork.communicate(PATIENCE_S)
    assert fork.returncode is not None
    return fork.returncode, out.decode(), error.decode()


# --- in the parent, and in its forks ------------------------------------------------------


def fork_until_the_end(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Returns in each fork, with what it is to do, and in the parent when the test has ended."""
    import torch  # noqa: F401
    import torch._dynamo  # noqa: F401  which the first optimizer of a process imports

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # of those that wait, who tell by themselves
    while True:
        text, descriptors, _, _ = socket.recv_fds(control, _MOST_BYTES, 4)
        if not text:
            return None
        if os.fork() != 0:
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        control.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        told, *others = descriptors
        script = os.fork()
        if script == 0:
            os.close(told)
            return json.loads(text), others
        # This one waits for it.
        for descriptor in others:
            os.close(descriptor)
        # The test may have ended before.
        with contextlib.suppress(OSError), socket.socket(fileno=told) as link:
            link.send(_NUMBER.pack(script))
            _, status = os.waitpid(script, 0)
            link.send(_NUMBER.pack(os.waitstatus_to_exitcode(status)))
        os._exit(0)


def attach(session: int) -> None:
    """As when Python starts."""
    os.environ["AUTOTUNED_SCRIPT_SOCKET"] = str(session)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(STARTUP), *([before] if before else [])])
    sys.path.insert(0, str(STARTUP))
    file = STARTUP / "sitecustomize.py"
    spec = importlib.util.spec_from_file_location("sitecustomize", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def run(what: dict[str, Any], out: int, error: int, session: int | None = None) -> None:
    """The script, as Python runs it."""
    for descriptor, usual in ((out, 1), (error, 2)):
        os.dup2(descriptor, usual)
        os.close(descriptor)
    os.chdir(what["folder"])
    sys.argv[:] = what["command"]
    del sys.path[0]  # the folder of this file
    if session is not None:
        attach(session)
    file = os.path.abspath(sys.argv[0])
    sys.path.insert(0, os.path.dirname(file))
    main = types.ModuleType("__main__")
    main.__file__ = file
    sys.modules["__main__"] = main
    with open(file, "rb") as source:
        code = compile(source.read(), file, "exec", dont_inherit=True)
    exec(code, main.__dict__)


if __name__ == "__main__":
    given = fork_until_the_end(socket.socket(fileno=int(sys.argv[1])))
    if given is not None:
        run(given[0], *given[1])
