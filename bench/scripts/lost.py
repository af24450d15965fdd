# SPDX-License-Identifier: Apache-2.0
"""What a tuning takes from the training of a script, by a clock that is not ours: its steps and when they ended.

The tuning lasts from the first step of the script to the line on standard error that says what the tuning took. All of
it counts: learning what a step is, profiles, checks, blocks of what is slower, compiling. The steps in it are steps of
the training, so the time that the untouched script takes for them is not lost. That time comes from the same process
behind the tuning: there the script trains with what was kept, whose rate beside the untouched script is measured.
Evaluations and what the script saves are part of both times.
"""

import dataclasses
import pathlib
import subprocess
import time

from arms import INSTRUMENT, StepCount, environment

_ENDED = b"autotuned: tuning "  # the line of a tuning that came to its end
_POLL_S = 0.05
_FEWEST_STEPS = 20  # fewer steps behind the tuning say nothing about their time


@dataclasses.dataclass(frozen=True)
class Course:
    """Of a tuned script: the steps up to the end of its tuning, and those behind it."""

    tuning_s: float
    tuning_steps: int
    after_s: float
    after_steps: int

    def lost_s(self, ratio: float) -> float | None:
        """Seconds. `ratio`: the rate behind the tuning, as a multiple of the rate of the untouched script. Negative
        where the steps of the tuning were faster than untouched ones; None: too few steps came behind it."""
        if self.after_steps < _FEWEST_STEPS:
            return None
        return self.tuning_s - self.tuning_steps * ratio * self.after_s / self.after_steps


class _Log:
    """Looks for a text in a file that grows, in each part of it once."""

    def __init__(self, file: pathlib.Path, text: bytes) -> None:
        self._file = open(file, "rb")
        self._text = text
        self._tail = b""

    def has_it(self) -> bool:
        part = self._tail + self._file.read()
        self._tail = part[-len(self._text):]
        return self._text in part

    def close(self) -> None:
        self._file.close()


def watch(process: subprocess.Popen, steps: StepCount, log: pathlib.Path) -> Course | None:
    """Until the script ends. None: its tuning did not come to its end."""
    first: tuple[int, int] | None = None
    tuned: tuple[int, int] | None = None
    lines = _Log(log, _ENDED)
    try:
        while True:
            # Asked first, so that what was written before the end is read once more behind it.
            is_over = process.poll() is not None
            now = steps.read()
            if first is None and now[0] > 0:
                first = now
            if first is not None and tuned is None and lines.has_it():
                tuned = now
            if is_over:
                break
            time.sleep(_POLL_S)
    finally:
        lines.close()
    if first is None or tuned is None:
        return None
    return Course((tuned[1] - first[1]) / 1e9, tuned[0] - first[0], (now[1] - tuned[1]) / 1e9, now[0] - tuned[0])


def run(command: list[str], place: pathlib.Path, variables: dict[str, str]) -> tuple[int, Course | None]:
    """Runs a script that is tuned in its folder, and watches it: its exit status, and watch(). It writes log.txt."""
    steps = StepCount(place / "steps")
    given = environment([INSTRUMENT], {**variables, "BENCH_STEPS": str(steps.file)})
    with open(place / "log.txt", "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=place, env=given, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        course = watch(process, steps, place / "log.txt")
    steps.close()
    return process.returncode, course


def lost_text(lost_s: float | None, tuning_s: float, told_ns: int | None) -> str:
    """"3.1 s of 58 s, 0.09 % of an hour (told 2.2 s)"."""
    told = f"told {told_ns / 1e9:.1f} s" if told_ns is not None else "not told"
    if lost_s is None:
        return f"not known ({told})"
    return f"{lost_s:.1f} s of {tuning_s:.0f} s, {lost_s / 36.0:.2f} % of an hour ({told})"
