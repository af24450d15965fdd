# SPDX-License-Identifier: Apache-2.0
"""Processes of one script that take turns, each under a way of its own, and the rates of their steps.

All but the one whose turn it is are stopped (SIGSTOP, of the whole process group, so also workers of a loader). Steps
are counted by instrument/, the same in all.
"""

import mmap
import os
import pathlib
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "python"), str(HERE.parent)]

from autotuned.protocol import Closed, Link  # noqa: E402
from within import interval  # noqa: E402

STARTUP = ROOT / "python" / "autotuned" / "startup"
INSTRUMENT = HERE / "instrument"
# Until a step of a script is known, and until one is over: long, for it only ends what hangs.
PATIENCE_S = 900.0
_WITHOUT_AUTOTUNED = ("untouched", "patched", "loadtune")
_WATCHED_NS = 250_000_000  # of a block, as a session asks for it


class Failed(Exception):
    """A script ended, or answered an error, where it was to train."""


def environment(folders: list[pathlib.Path], variables: dict[str, str]) -> dict[str, str]:
    """Of a script whose Python looks into these folders first."""
    given = {**os.environ, **variables}
    rest = [given["PYTHONPATH"]] if given.get("PYTHONPATH") else []
    given["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *rest])
    return given


class Agent:
    """A script with the agent in it, asked from here in place of a session."""

    def __init__(self, command: list[str], folder: pathlib.Path, variables: dict[str, str], log) -> None:
        ours, theirs = socket.socketpair()
        given = environment([STARTUP, INSTRUMENT], variables)
        given["AUTOTUNED_SCRIPT_SOCKET"] = str(theirs.fileno())
        self.process = subprocess.Popen(command, cwd=folder, env=given, stdout=log, stderr=log,
                                        stdin=subprocess.DEVNULL, start_new_session=True, pass_fds=[theirs.fileno()])
        theirs.close()
        self._link = Link(ours.detach())
        self._id = 0

    def _receive(self) -> dict:
        frame = self._link.receive(PATIENCE_S)
        if "end" in frame or "detached" in frame:
            raise Closed(str(frame))
        return frame

    def load(self) -> dict:
        self._receive()  # the hello
        return self.ask("load")

    def say(self, request: str, **fields) -> None:
        self._id += 1
        self._link.send({"id": self._id, "request": request, **fields})

    def answer(self, request: str, **fields) -> dict:
        """With `ok` or `error`."""
        self.say(request, **fields)
        return self._receive()

    def ask(self, request: str, **fields) -> dict:
        answer = self.answer(request, **fields)
        if "ok" not in answer:
            raise Failed(f"{request}: {answer['error'].get('what')}")
        return answer["ok"]

    def see_out(self) -> None:
        """Until the script has nothing more to say."""
        try:
            while True:
                self._receive()
        except Closed:
            self._link.close()


class StepCount:
    """The file into which instrument/ counts the steps of a script: its variable BENCH_STEPS."""

    def __init__(self, file: pathlib.Path) -> None:
        self.file = file
        file.write_bytes(bytes(16))
        with open(file, "r+b") as opened:
            self._bytes = mmap.mmap(opened.fileno(), 16)

    def read(self) -> tuple[int, int]:
        """How many, and when the last one ended (ns). It is read until nobody writes meanwhile."""
        while True:
            one, other = (struct.unpack("<qq", self._bytes[:16]) for _ in range(2))
            if one == other:
                return one

    def close(self) -> None:
        self._bytes.close()
        self.file.unlink()


class Arm:
    """A process of the script that is stopped except at its turn.

    `way`: "untouched", "patched" or "loadtune", without autotuned; "watched", where the agent measures blocks of the
    script as it is, as in a tuning; any other goes on with `configuration` and without a session, as behind a tuning.
    """

    def __init__(self, way: str, command: list[str], folder: pathlib.Path, variables: dict[str, str],
                 configuration: dict | None = None) -> None:
        self.way = way
        self._configuration = configuration or {}
        self._folder = folder
        self._steps = StepCount(folder / f"steps-{way}")
        given = {**variables, "BENCH_STEPS": str(self._steps.file)}
        self._log = open(folder / f"log-{way}.txt", "w+", encoding="utf-8", errors="replace")
        self._agent = None
        if way in _WITHOUT_AUTOTUNED:
            self.process = subprocess.Popen(command, cwd=folder, env=environment([INSTRUMENT], given), stdout=self._log,
                                            stderr=self._log, stdin=subprocess.DEVNULL, start_new_session=True)
        else:
            self._agent = Agent(command, folder, given, self._log)
            self.process = self._agent.process

    def begin(self) -> None:
        """Until it trains in its way; then it is stopped."""
        if self._agent is not None:
            try:
                self._agent.load()
                if self.way == "watched":
                    threading.Thread(target=self._keep_asking, daemon=True).start()
                else:
                    self._agent.ask("finish", configuration=self._configuration)
            except Closed as error:
                raise Failed(f"{self.way}: {error}; {self.tail()}") from error
        # Cold steps belong to nobody.
        self._wait(self._steps.read()[0] + 10)
        self.stop()

    def _keep_asking(self) -> None:
        try:
            while True:
                self._agent.ask("run", minimum_ns=_WATCHED_NS)
        except (Closed, Failed, OSError):
            pass  # the script has ended

    def _wait(self, count: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while self._steps.read()[0] < count:
            if self.process.poll() is not None or time.monotonic() > end:
                raise Failed(f"{self.way}: the script makes no more steps; {self.tail()}")
            time.sleep(0.0005)

    def tail(self) -> str:
        self._log.flush()
        self._log.seek(0)
        return " / ".join(self._log.read().strip().splitlines()[-2:])

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def turn(self, seconds: float) -> float:
        """Steps per second. The step in which it was stopped before belongs to no turn."""
        self._signal(signal.SIGCONT)
        try:
            self._wait(self._steps.read()[0] + 1)
            first, began_ns = self._steps.read()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(max(0.0, min(0.01, end - time.monotonic())))
            self._wait(first + 2)
            last, ended_ns = self._steps.read()
        finally:
            self.stop()
        return (last - first) * 1e9 / (ended_ns - began_ns)

    def end(self) -> None:
        self._signal(signal.SIGKILL)
        self._signal(signal.SIGCONT)
        self.process.wait()
        self._log.close()
        self._steps.close()


Rounds = list[dict[str, float]]


def interval_text(ratio: float, low: float, high: float) -> str:
    return f"{ratio:.2f} ({low:.2f} to {high:.2f})"


def take_turns(arms: list[Arm], seconds: float, block_seconds: float, seed: int | None = None) -> Rounds:
    """By rounds, the rate of each way. In each round a coin decides the order."""
    coins = random.Random(seed)
    rounds: Rounds = []
    try:
        for arm in arms:
            arm.begin()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            rounds.append({arm.way: arm.turn(block_seconds) for arm in coins.sample(arms, len(arms))})
    finally:
        for arm in arms:
            arm.end()
    return rounds


def ratio_of(rounds: Rounds, way: str, reference: str = "untouched") -> tuple[float, float, float]:
    """Of the rates: median over rounds, and the ends between which it lies with 95 %."""
    ratios = [one[way] / one[reference] for one in rounds]
    return (statistics.median(ratios), *interval(ratios))
