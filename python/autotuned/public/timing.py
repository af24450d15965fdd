# SPDX-License-Identifier: Apache-2.0
"""Which of two callables is faster: blocks of calls in turn, judged by the statistics of trials.

The program `autotuned` decides, by the same code as in a run (docs/statistics.md); this module
only takes the times.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable

from ..installation.programs import find_program

_WORD = "pairs-process"

_SENTENCES = {
    "faster": "B is faster",
    "slower": "B is slower",
    "no_gain": "B gains less than is worth having",
    "totals": "B's median block is faster, all of its blocks together are hardly so: rare stalls",
    "undecided_in_time": "undecided: the time did not suffice to show a difference",
}


@dataclass(frozen=True)
class Comparison:
    """How fast B is beside A.

    `ratio` is the median over pairs of blocks of the rate of B over that of A. The true ratio is
    below `low` with a probability of at most 1 %, and above `high` with as much, although it was
    looked at after every pair; None: too few pairs to say. `verdict` is "faster", "slower",
    "no_gain", "totals" or "undecided_in_time".
    """

    verdict: str
    ratio: float
    low: float | None
    high: float | None
    pairs: int
    a_per_second: float
    b_per_second: float

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            ends = f"{self.low:.3f} to {self.high:.3f}"
        elif self.low is not None:
            ends = f"at least {self.low:.3f}"
        elif self.high is not None:
            ends = f"at most {self.high:.3f}"
        else:
            ends = "too few pairs for an interval"
        return (
            f"{_SENTENCES.get(self.verdict, self.verdict)}: {self.ratio:.3f} x "
            f"({ends}) over {self.pairs} pair{'' if self.pairs == 1 else 's'}; "
            f"A {self.a_per_second:,.4g}, B {self.b_per_second:,.4g} calls/s"
        )


class _Judge:
    """The process that judges the pairs."""

    def __init__(self, min_gain: float) -> None:
        self._process = subprocess.Popen(
            [str(find_program()), _WORD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._say({"min_gain_ratio": min_gain})

    def _say(self, line: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has said why, or answers nothing

    def judge(self, a: tuple[float, int], b: tuple[float, int]) -> dict[str, Any]:
        assert self._process.stdout is not None
        self._say({"a_seconds": a[0], "a_calls": a[1], "b_seconds": b[0], "b_calls": b[1]})
        text = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(text) if text else {"error": "it ended"}
        if "error" in answer:
            raise ValueError(f"autotuned cannot compare: {answer['error']}")
        return answer

    def end(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            try:
                stream.close()
            except OSError:
                pass
        self._process.wait()


def _wait_for_device() -> None:
    """Waits for the GPU: work that a call has started there belongs to its time."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


class _Arm:
    """One of the two callables, and how many of its calls make a block."""

    def __init__(self, call: Callable[[], Any], clock: Callable[[], float]) -> None:
        self._call = call
        self._clock = clock
        self.calls = 1

    def block(self) -> float:
        """Makes a block of calls and returns its duration, in seconds."""
        _wait_for_device()
        call = self._call
        start = self._clock()
        for _ in range(self.calls):
            call()
        _wait_for_device()
        return self._clock() - start

    def warm_up(self, block_seconds: float) -> None:
        """Untimed calls, until a block is long enough; the first may compile or fill caches."""
        self.block()
        while True:
            seconds = self.block()
            if seconds >= block_seconds:
                return
            wanted = block_seconds / seconds if seconds > 0 else 10.0
            self.calls = max(self.calls + 1, round(self.calls * min(10.0, 1.1 * wanted)))


def compare(
    a: Callable[[], Any],
    b: Callable[[], Any],
    *,
    seconds: float = 30.0,
    min_gain: float = 0.02,
    block_seconds: float = 0.1,
    clock: Callable[[], float] = time.perf_counter,
    seed: int | None = None,
) -> Comparison:
    """Whether `b` is faster than `a`, and how much.

    Both are called without arguments, in blocks of about `block_seconds` that take turns; a coin
    decides which comes first in each pair. It ends when the verdict is certain, or after
    `seconds`.
    A gain below `min_gain` is not worth having: once it is ruled out, the verdict is "no_gain".
    Equal callables are told apart with a probability of at most 1 % to either side.
    """
    if not (block_seconds > 0 and seconds > 0):
        raise ValueError("seconds and block_seconds must be above 0")
    coins = random.Random(seed)  # of its own: the callables may draw from the module's
    arms = {"a": _Arm(a, clock), "b": _Arm(b, clock)}
    judge = _Judge(min_gain)
    try:
        for arm in arms.values():
            arm.warm_up(block_seconds)
        start = clock()
        while True:
            order = ("a", "b") if coins.random() < 0.5 else ("b", "a")
            took = {name: (arms[name].block(), arms[name].calls) for name in order}
            answer = judge.judge(took["a"], took["b"])
            if answer["is_decided"] or clock() - start >= seconds:
                break
    finally:
        judge.end()
    return Comparison(
        **{name: answer[name] for name in Comparison.__dataclass_fields__}  # the same names
    )
