#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A script is trained again and again under `autotuned run`, while parts of autotuned are killed. Each training must
end as if nothing had happened: with the exit code, the steps and, bit for bit, the parameters of the script alone.

    python3 bench/scripts/soak.py --seconds 3600 --every 10 [--bin build/release/bin] [-- train.py ARGS]
    python3 bench/scripts/soak.py --seconds 3600 --checkouts CHECKOUTS --job nanogpt

Every --every seconds a coin decides what is killed: the session (SIGKILL), the session as by a plugin that crashes in
it (SIGSEGV), or a daemon that serves beside it (SIGKILL; another one is started). A session is not started again, so
the next training gets the next one. Without a script it is small_gpt.py, whose output must be the same, too. Only
exact changes are tried. Run it with the Python that has PyTorch. Prints Markdown; ends with 1 if a training ended in
another way than alone.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import arms
from jobs import JOBS

_KINDS = ("session", "plugin", "daemon")
_SMALL_GPT = [str(arms.HERE / "small_gpt.py"), "--steps", "1200"]
_JOB_LENGTH = 1200  # of a job: steps of nanoGPT


def session_of(command: int) -> int:
    """The process of the session that this command has started; 0: there is none now."""
    try:
        children = pathlib.Path(f"/proc/{command}/task/{command}/children").read_text(encoding="ascii").split()
    except OSError:
        return 0
    for child in children:
        try:
            words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"session-process" in words:
            return int(child)
    return 0


class Daemon:
    def __init__(self, program: str, variables: dict[str, str], log) -> None:
        self._command = [program, "serve"]
        self._variables = {**os.environ, **variables}
        self._log = log
        self._process = self._start()

    def _start(self) -> subprocess.Popen:
        return subprocess.Popen(self._command, env=self._variables, stdin=subprocess.DEVNULL, stdout=self._log,
                                stderr=self._log)

    def kill(self) -> bool:
        """Whether one served; another one does from then on."""
        was_there = self._process.poll() is None
        self._process.kill()
        self._process.wait()
        self._process = self._start()
        return was_there

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()


class Soak:
    def __init__(self, options: argparse.Namespace, folder: pathlib.Path) -> None:
        self._options = options
        self._folder = folder
        self._program = str(options.bin.resolve() / "autotuned")
        self._job = next((job for job in JOBS if job.name == options.job), None)
        self._coins = random.Random(options.seed)
        self._places = 0
        self.killed: collections.Counter[str] = collections.Counter()
        # One thread, so that the script alone is repeatable.
        self._variables = {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1", "XDG_RUNTIME_DIR": str(folder),
                           "XDG_STATE_HOME": str(folder), "AUTOTUNED_LOCKS": str(folder)}
        self.daemon: Daemon | None = None

    def _words(self) -> list[str]:
        if self._job is not None:
            return [sys.executable, *self._job.words(_JOB_LENGTH)]
        script = self._options.script or _SMALL_GPT
        return [sys.executable, str(pathlib.Path(script[0]).resolve()), *script[1:]]

    def _start(self, before: list[str]) -> tuple[subprocess.Popen, pathlib.Path]:
        self._places += 1
        place = self._folder / str(self._places)
        variables = dict(self._variables)
        if self._job is not None:
            place = self._job.prepare(self._options.checkouts.resolve(), place, _JOB_LENGTH)
            variables |= {**self._job.variables, **self._job.stop(_JOB_LENGTH)}
        else:
            place.mkdir()
        variables["BENCH_RESULT"] = str(place / "result.json")
        given = arms.environment([arms.INSTRUMENT], variables)
        with open(place / "out.txt", "wb") as out, open(place / "error.txt", "wb") as error:
            process = subprocess.Popen([*before, *self._words()], cwd=place, env=given, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=error)
        return process, place

    def _end_of(self, process: subprocess.Popen, place: pathlib.Path) -> tuple:
        """What must be the same: exit code, steps, parameters, and the output of the script of ours."""
        try:
            result = json.loads((place / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            result = {}
        is_ours = self._job is None and not self._options.script
        out = (place / "out.txt").read_text(encoding="utf-8", errors="replace") if is_ours else ""
        return process.returncode, result.get("steps"), result.get("parameters"), out

    def alone(self) -> tuple:
        process, place = self._start([])
        process.wait()
        return self._end_of(process, place)

    def start_daemon(self, log) -> None:
        self.daemon = Daemon(self._program, self._variables, log)

    def _kill_one(self, command: int) -> None:
        kind = self._coins.choice(_KINDS)
        if kind == "daemon":
            self.killed[kind] += self.daemon is not None and self.daemon.kill()
            return
        session = session_of(command)
        if session == 0:
            self.killed["no session was left"] += 1
            return
        os.kill(session, signal.SIGKILL if kind == "session" else signal.SIGSEGV)
        self.killed[kind] += 1

    def train(self) -> tuple[tuple, pathlib.Path]:
        """Under autotuned, with kills."""
        history = str(self._folder / "history.db")
        process, place = self._start([self._program, "run", "--retune", "--history", history, "--"])
        # The first at any time of the tuning, also before it has begun.
        due = time.monotonic() + self._coins.random() * self._options.every
        while process.poll() is None:
            if time.monotonic() >= due:
                self._kill_one(process.pid)
                due += self._options.every
            time.sleep(0.05)
        return self._end_of(process, place), place


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two kills")
    parser.add_argument("--bin", type=pathlib.Path, default=arms.ROOT / "build" / "release" / "bin")
    parser.add_argument("--checkouts", type=pathlib.Path, default=pathlib.Path("."), help="as for run.py, for --job")
    parser.add_argument("--job", default="", choices=["", *(job.name for job in JOBS)], help="one of run.py's scripts")
    parser.add_argument("--seed", type=int, help="of the coins")
    parser.add_argument("script", nargs="*", help="a script and its arguments, behind --")
    options = parser.parse_args()
    if options.job:
        job = next(job for job in JOBS if job.name == options.job)
        if lack := job.missing(options.checkouts.resolve()):
            parser.error(lack)
    trainings = 0
    with tempfile.TemporaryDirectory() as name, open(pathlib.Path(name) / "daemon.txt", "wb") as log:
        soak = Soak(options, pathlib.Path(name))
        wanted = soak.alone()
        if wanted[0] != 0 or not wanted[2] or soak.alone() != wanted:
            print(f"error: alone, the script does not end twice in the same way: {wanted}", file=sys.stderr)
            return 2
        soak.start_daemon(log)
        wrong: list[str] = []
        try:
            end = time.monotonic() + options.seconds
            while time.monotonic() < end:
                trainings += 1
                found, place = soak.train()
                if found != wanted:
                    error = (place / "error.txt").read_text(encoding="utf-8", errors="replace").strip()
                    wrong.append(f"training {trainings} ended with {found}, alone with {wanted}: {error[-400:]}")
                shutil.rmtree(place)
        finally:
            if soak.daemon is not None:
                soak.daemon.end()
    kills = ", ".join(f"{count} {kind}" for kind, count in sorted(soak.killed.items()))
    print("| trainings | killed | ended otherwise than alone |\n|---|---|---|")
    print(f"| {trainings} | {kills} | {len(wrong)} |")
    for text in wrong:
        print(f"\n{text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
