# SPDX-License-Identifier: Apache-2.0
"""Frames over the socket of a session, and the errors that travel in them.

Knows nothing of PyTorch.
"""

from __future__ import annotations

import json
import math
import select
import socket
import struct
import time
from typing import Any

MOST_FRAME_BYTES = 16 * 1024 * 1024
_LENGTH = struct.Struct("<I")
# A script may have to wait for a turn beside other runs, a minute each time (daemon/session), and
# the session stores what it has measured.
_MOST_SILENCE_S = 150.0


class RequestError(Exception):
    """The refusal of a request. The kinds are those of base/result.hpp."""

    def __init__(self, kind: str, what: str, where: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.where = where
        self.remedy = remedy

    def to_json(self) -> dict[str, str]:
        return {"kind": self.kind, "what": self.what, "where": self.where, "remedy": self.remedy}


class Closed(Exception):
    """The session has closed the socket, or died."""


def without_nan(value: Any) -> Any:
    """A number that is NaN or infinite travels as null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: without_nan(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(one) for one in value]
    return value


class Link:
    """One end of the socket.

    An interrupted receive() loses nothing: the bytes that have come are kept.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self._socket.setblocking(True)
        self._received = bytearray()

    def send(self, frame: dict[str, Any]) -> None:
        body = json.dumps(without_nan(frame), allow_nan=False).encode()
        if len(body) > MOST_FRAME_BYTES:
            raise RequestError(
                "unsupported",
                f"an answer of {len(body)} bytes is too long",
                "",
                "ask for less at once",
            )
        try:
            self._socket.sendall(_LENGTH.pack(len(body)) + body)
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self, limit_s: float = _MOST_SILENCE_S) -> dict[str, Any]:
        """Waits for the next frame, but not for ever: the script stands still meanwhile."""
        end = time.monotonic() + limit_s
        while True:
            frame = self._take()
            if frame is not None:
                return frame
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                raise Closed(f"the session has said nothing for {limit_s:.0f} s")
            self._read()

    def poll(self) -> dict[str, Any] | None:
        """The next frame, if it is there already."""
        while True:
            frame = self._take()
            if frame is not None:
                return frame
            if not select.select([self._socket], [], [], 0)[0]:
                return None
            self._read()

    def close(self) -> None:
        """What was not read is read first.

        Otherwise the other side could see a reset before the last frame.
        """
        try:
            self._socket.setblocking(False)
            while self._socket.recv(65536):
                pass
        except OSError:
            pass
        self._socket.close()

    def abandon(self) -> None:
        """In a forked child: only this process lets go of the socket."""
        self._socket.close()

    def _read(self) -> None:
        try:
            piece = self._socket.recv(65536)
        except OSError as error:
            raise Closed(str(error)) from error
        if not piece:
            raise Closed("the session has ended")
        self._received += piece

    def _take(self) -> dict[str, Any] | None:
        if len(self._received) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._received)
        if length > MOST_FRAME_BYTES:
            raise Closed(f"a frame of {length} bytes")
        end = _LENGTH.size + length
        if len(self._received) < end:
            return None
        body = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        try:
            frame = json.loads(body)
        except ValueError as error:
            raise Closed("a frame that is not JSON") from error
        if not isinstance(frame, dict):
            raise Closed("a frame that is no object")
        return frame
