# SPDX-License-Identifier: Apache-2.0
"""A session's side of the socket, for tests.

Starts a script as a session does, asks, and waits for its end.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STARTUP = ROOT / "python" / "autotuned" / "startup"
SCRIPTS = HERE / "scripts"
# Long: it ends a test that hangs, and says nothing about speed.
PATIENCE_S = 240
# Where a script dies of a signal, its standard error says in what.
TELLS_SIGNALS = {"PYTHONFAULTHANDLER": "1"}


class Ended(Exception):
    """The script's last frame, or nothing where the socket was closed."""


class Running:
    """A script that is tuned."""

    def __init__(
        self, *command: str, environment: dict[str, str] | None = None, **options: Any
    ) -> None:
        ours, theirs = socket.socketpair()
        self.process = self.started(command, theirs.fileno(), environment or {}, options)
        theirs.close()
        self.socket = ours
        ours.settimeout(PATIENCE_S)
        self.last: dict[str, Any] = {}
        self._id = 0

    def started(
        self,
        command: tuple[str, ...],
        session: int,
        environment: dict[str, str],
        options: dict[str, Any],
    ) -> Any:
        variables = {**os.environ, **TELLS_SIGNALS, **environment}
        variables["AUTOTUNED_SCRIPT_SOCKET"] = str(session)
        variables["PYTHONPATH"] = os.pathsep.join(
            [str(STARTUP), *([variables["PYTHONPATH"]] if variables.get("PYTHONPATH") else [])]
        )
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("cwd", SCRIPTS)
        return subprocess.Popen(
            [sys.executable, *command], env=variables, pass_fds=[session], **options
        )

    def end(self) -> None:
        """At the end of a test, however far the script has come."""
        if self.process.poll() is None:
            self.process.kill()
        self.socket.close()
        self.process.communicate()

    def receive(self) -> dict[str, Any]:
        (length,) = struct.unpack("<I", self._exactly(4))
        frame = json.loads(self._exactly(length))
        if "end" in frame or "detached" in frame:
            self.last = frame
            raise Ended(frame)
        return frame

    def send(self, frame: dict[str, Any]) -> None:
        body = json.dumps(frame).encode()
        try:
            self.socket.sendall(struct.pack("<I", len(body)) + body)
        except OSError as error:
            raise Ended({}) from error

    def hello(self) -> dict[str, Any]:
        return self.receive()["hello"]

    def ask(self, request: str, **fields: Any) -> dict[str, Any]:
        """The whole answer."""
        self._id += 1
        self.send({"id": self._id, "request": request, **fields})
        answer = self.receive()
        assert answer["id"] == self._id, answer
        return answer

    def must(self, request: str, **fields: Any) -> dict[str, Any]:
        answer = self.ask(request, **fields)
        assert "ok" in answer, answer
        return answer["ok"]

    def load(self) -> dict[str, Any]:
        self.hello()
        return self.must("load")

    def rest(self) -> tuple[int, str, str]:
        """Waits for the last frame and the end of the script.

        Exit code, standard output and error.
        """
        try:
            while True:
                self.receive()
        except (Ended, OSError):
            pass
        return self.close()

    def close(self) -> tuple[int, str, str]:
        self.socket.close()
        out, error = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, (out or b"").decode(), (error or b"").decode()

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise Ended({})
            data += piece
        return data


def alone(
    *command: str, environment: dict[str, str] | None = None, **options: Any
) -> tuple[int, str, str]:
    """The script without any of this."""
    options.setdefault("cwd", SCRIPTS)
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **TELLS_SIGNALS, **(environment or {})},
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        **options,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()
