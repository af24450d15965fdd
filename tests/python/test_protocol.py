# SPDX-License-Identifier: Apache-2.0
"""Frames: whole, in pieces, too long, broken."""

import inspect
import json
import math
import re
import socket
import struct
import unittest

from autotuned.protocol import Closed, Link, without_nan
from stand_in import ROOT


def frame(value):
    body = json.dumps(value).encode()
    return struct.pack("<I", len(body)) + body


class LinkTest(unittest.TestCase):
    def setUp(self):
        self.other, ours = socket.socketpair()
        self.link = Link(ours.detach())

    def tearDown(self):
        self.other.close()
        self.link.abandon()

    def test_a_frame_arrives_whole(self):
        self.other.sendall(frame({"request": "load"}) + frame({"request": "place"}))
        self.assertEqual(self.link.receive(), {"request": "load"})
        self.assertEqual(self.link.receive(), {"request": "place"})

    def test_poll_waits_for_nothing_and_loses_nothing(self):
        data = frame({"request": "cancel"})
        self.assertIsNone(self.link.poll())
        self.other.sendall(data[:7])
        self.assertIsNone(self.link.poll())
        self.other.sendall(data[7:])
        self.assertEqual(self.link.poll(), {"request": "cancel"})

    def test_what_is_not_a_number_travels_as_null(self):
        self.link.send({"ok": {"loss": math.nan, "norms": [1.5, math.inf]}})
        (length,) = struct.unpack("<I", self.other.recv(4))
        self.assertEqual(
            json.loads(self.other.recv(length)), {"ok": {"loss": None, "norms": [1.5, None]}}
        )
        self.assertEqual(without_nan((1, "a", None)), [1, "a", None])

    def test_a_silent_session_is_not_waited_for(self):
        self.other.sendall(frame({"request": "load"})[:3])
        with self.assertRaisesRegex(Closed, "has said nothing"):
            self.link.receive(limit_s=0)

    def test_a_session_that_waits_for_its_turn_is_waited_for(self):
        source = (ROOT / "daemon" / "session" / "script_session.cpp").read_text(encoding="utf-8")
        (minutes,) = re.findall(r"kMaxTurnWait = std::chrono::minutes\((\d+)\)", source)
        limit_s = inspect.signature(Link.receive).parameters["limit_s"].default
        self.assertGreaterEqual(limit_s, 2 * 60 * int(minutes))

    def test_the_end_of_the_session_is_seen(self):
        self.other.close()
        with self.assertRaises(Closed):
            self.link.receive()

    def test_a_frame_that_is_no_frame_closes(self):
        for data in (struct.pack("<I", 1 << 30), struct.pack("<I", 3) + b"{x}", frame([1])):
            with self.subTest(data=data):
                other, ours = socket.socketpair()
                link = Link(ours.detach())
                other.sendall(data)
                with self.assertRaises(Closed):
                    link.receive()
                other.close()
                link.abandon()

    def test_the_last_frame_is_read_although_requests_were_not(self):
        self.other.sendall(frame({"request": "load"}))
        self.link.send({"end": {}})
        self.link.close()
        self.assertEqual(self.other.recv(100), frame({"end": {}}))
        self.assertEqual(self.other.recv(100), b"")


if __name__ == "__main__":
    unittest.main()
