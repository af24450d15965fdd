#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten public scripts, unchanged, with and without autotuned.

    python3 bench/scripts/run.py CHECKOUTS [--quick] [--only mnist,vae] [--bin build/release/bin]

CHECKOUTS holds checkouts of pytorch/examples, nanoGPT, pytorch-lightning, accelerate and transformers under these
names. Nothing in it is changed, and nothing is downloaded: data.py makes what the scripts read. Run it with the Python
that has PyTorch; a script whose packages are missing there gets a row that says so.

For each script:
  same      the parameters at its end are bit for bit those of the untouched script: "refused" where each change was
            checked, exact ones were tried, and all were refused (refuse.py); "exact" in a tuning without --allow.
            "not repeatable": two untouched runs differ
  kept      by a tuning with --allow numerics
  told      the gain that this tuning tells
  lost      to it: the seconds from the first step of the tuned script to the end of its tuning, less the seconds that
            the untouched script takes for the same number of steps (lost.py); "told": what the history says
  holds     the rate of what was kept, beside that of the untouched script in processes that take turns
  patched   the same of the script with the diff of `autotuned patch` in it, without autotuned; "*": the diff does not
            have all of it

Each tuned script runs to its end, or for --tuned-seconds. --quick is for all ten within 45 minutes on two cores: it
sets --budget 20s, --exact-budget 5s, --tuned-seconds 60, --seconds 40, --block 0.5 and --minutes 45, where
nothing else is given.
With --minutes, each script gets the same part of the time that is left; the independent measurement is cut to it, to
10 s at least, and a script that would begin behind it is not run. In so short a time, little is kept of scripts whose
steps last a second, and intervals are wide.

Prints Markdown. Ends with 1 if a script failed, trained other bits, if what was kept is shown to be slower, or if a
tuning lost more than --most-lost seconds.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

import arms
import lost
import refuse
from jobs import JOBS, Job

HEADER = ("| script | refused: same | exact: same | tuned: kept | told | lost | holds | patched | rounds | verdict |\n"
          "|---|---|---|---|---|---|---|---|---|---|")
FULL = {"budget": "60s", "exact_budget": "10s", "tuned_seconds": 0.0, "seconds": 120.0, "block": 1.0,
        "minutes": 0.0}
QUICK = {"budget": "20s", "exact_budget": "5s", "tuned_seconds": 60.0, "seconds": 40.0, "block": 0.5,
         "minutes": 45.0}
_STARTS_S = 30.0  # until three processes of a script train
_LEAST_SECONDS = 10.0
# In the place of a setting that no diff has.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "2147483647", "MALLOC_TRIM_THRESHOLD_": "2147483647"}


class Shares:
    """The time of a series: each script gets the same part of what is left."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60.0 * minutes if minutes > 0.0 else math.inf
        self._until = self._end

    def begin(self, scripts_left: int) -> bool:
        """Of one script; false: there is no time left."""
        now = time.monotonic()
        self._until = now + (self._end - now) / scripts_left
        return now < self._end

    def seconds_of(self, most: float) -> float:
        """For the independent measurement, which comes last."""
        return min(most, max(_LEAST_SECONDS, self._until - time.monotonic() - _STARTS_S))


class Bench:
    """One script. Each process has a copy of its own, of which nothing is left."""

    def __init__(self, job: Job, options: argparse.Namespace, folder: pathlib.Path) -> None:
        self._job = job
        self._options = options
        self._folder = folder
        self._count = 0
        self._last: pathlib.Path | None = None  # where the last script ran

    def _place(self, length: int) -> pathlib.Path:
        self._count += 1
        self._last = self._job.prepare(self._options.checkouts, self._folder / str(self._count), length)
        return self._last

    def _variables(self, place: pathlib.Path, length: int, is_exact: bool) -> dict[str, str]:
        # One thread: with more, sums may be rounded in another order from run to run.
        threads = {"OMP_NUM_THREADS": "1"} if is_exact else {}
        return {"PYTHONWARNINGS": "ignore", "MPLBACKEND": "Agg", "HF_HOME": str(self._folder / "hf"),
                "XDG_RUNTIME_DIR": str(self._folder), "AUTOTUNED_LOCKS": str(self._folder), **threads,
                **self._job.variables, **self._job.stop(length), "BENCH_RESULT": str(place / "result.json")}

    def _result(self, place: pathlib.Path, code: int) -> dict:
        log = place / "log.txt"
        if code != 0 or not (place / "result.json").is_file():
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:] or [""]
            raise arms.Failed(f"ended with {code}: {said[0]}")
        return json.loads((place / "result.json").read_text(encoding="utf-8"))

    def _run(self, command: list[str], length: int, is_exact: bool) -> dict:
        """To its end."""
        place = self._place(length)
        variables = self._variables(place, length, is_exact)
        with open(place / "log.txt", "w", encoding="utf-8") as log:
            done = subprocess.run([*command, *self._words(length)], cwd=place, stdout=log, stderr=log, check=False,
                                  env=arms.environment([arms.INSTRUMENT], variables), stdin=subprocess.DEVNULL)
        return self._result(place, done.returncode)

    def _words(self, length: int) -> list[str]:
        return [sys.executable, *self._job.words(length)]

    def untouched(self) -> str:
        """The digest of its parameters; empty: two runs differ."""
        first, second = (self._run([], self._job.short, True)["parameters"] for _ in range(2))
        return first if first == second else ""

    def refused(self) -> tuple[str, int, int]:
        place = self._place(self._job.short)
        with open(place / "log.txt", "w", encoding="utf-8") as log:
            agent = arms.Agent(self._words(self._job.short), place, self._variables(place, self._job.short, True), log)
            checked, tried = refuse.refuse(agent)
            code = agent.process.wait()
        return self._result(place, code)["parameters"], checked, tried

    def _autotuned(self, *words: str) -> list[str]:
        return [str(self._options.bin / "autotuned"), *words, "--history", str(self._folder / "history.db")]

    def exact(self) -> str:
        command = [*self._autotuned("run"), "--budget", self._options.exact_budget, "--"]
        return self._run(command, self._job.short, True)["parameters"]

    def tuned(self) -> tuple[dict, lost.Course | None]:
        """What the history says of the run, and its steps."""
        length = self._job.tuned
        place = self._place(length)
        variables = self._variables(place, length, False)
        if self._options.tuned_seconds > 0.0:
            variables["BENCH_SECONDS"] = str(self._options.tuned_seconds)
        command = [*self._autotuned("run"), "--allow", "numerics", "--budget", self._options.budget, "--"]
        code, course = lost.run([*command, *self._words(length)], place, variables)
        self._result(place, code)
        done = subprocess.run(self._autotuned("show", "last", "--json"), capture_output=True, text=True, check=True)
        return json.loads(done.stdout), course

    def patch(self) -> tuple[str, bool]:
        """Of the run before: the diff, and whether it has all that was kept."""
        done = subprocess.run(self._autotuned("patch", "--json", self._job.command[0]), cwd=self._last,
                              capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        return answer["diff"], all(line.startswith(("memory.malloc", " ")) for line in answer["words"])

    def compared(self, configuration: dict, diff: str, seconds: float) -> arms.Rounds:
        """Of three processes: untouched, kept and patched."""
        ways = []
        for way, change in (("untouched", None), ("kept", configuration), ("patched", None)):
            place = self._place(self._job.long)
            variables = self._variables(place, self._job.long, False)
            if way == "patched":
                if diff:
                    subprocess.run(["patch", "-p0", "--quiet"], input=diff, text=True, cwd=place, check=True)
                variables |= MALLOC if configuration.get("memory.malloc") == "keep" else {}
            ways.append(arms.Arm(way, self._words(self._job.long), place, variables, change))
        return arms.take_turns(ways, seconds, self._options.block)


def same(digest: str, other: str) -> str:
    return "not repeatable" if not digest else "yes" if digest == other else "NO"


def verdict_of(low: float, high: float) -> str:
    if low > 1.0:
        return "faster"
    return "SLOWER" if high < 1.0 else "not shown"


def lost_cell(course: lost.Course | None, ratio: float, told_ns: int | None, most_s: float) -> tuple[str, bool]:
    """Its text, and whether it is not known to be more than `most_s`."""
    if course is None:
        return "the tuning did not end", True
    lost_s = course.lost_s(ratio)
    return lost.lost_text(lost_s, course.tuning_s, told_ns), lost_s is None or lost_s <= most_s


def row_of(job: Job, options: argparse.Namespace, folder: pathlib.Path, shares: Shares) -> tuple[list[str], bool]:
    """Its cells, and whether all is as it must be."""
    bench = Bench(job, options, folder)
    digest = bench.untouched()
    refused, checked, tried = bench.refused()
    equal = [same(digest, refused), same(digest, bench.exact())]
    cells = [job.name, f"{equal[0]} ({checked} checked, {tried} tried)", equal[1]]
    run, course = bench.tuned()
    change = run["best"].get("change") or {}
    told_ns = run["training"].get("tuning_cost_ns")
    if not change:
        why = run["training"].get("untuned") or "nothing kept"
        text, is_little = lost_cell(course, 1.0, told_ns, options.most_lost)
        return [*cells, "nothing", "", text, "", "", "", why], "NO" not in equal and is_little
    best = run["best"]
    told = arms.interval_text(best["speedup"], best["speedup_low"], best["speedup_high"])
    diff, is_whole = bench.patch()
    rounds = bench.compared(change, diff, shares.seconds_of(options.seconds))
    kept, patched = (arms.ratio_of(rounds, way) for way in ("kept", "patched"))
    lost_text, is_little = lost_cell(course, kept[0], told_ns, options.most_lost)
    verdict = verdict_of(*kept[1:])
    cells += [", ".join(f"`{name}` {value}" for name, value in change.items()), told, lost_text]
    cells += [arms.interval_text(*kept), arms.interval_text(*patched) + ("" if is_whole else " *")]
    cells += [str(len(rounds)), verdict]
    return cells, "NO" not in equal and is_little and verdict != "SLOWER"


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="all ten within 45 minutes on two cores (above)")
    parser.add_argument("--only", default="", help="names of scripts, with commas")
    parser.add_argument("--bin", type=pathlib.Path, default=arms.ROOT / "build" / "release" / "bin")
    parser.add_argument("--budget", help="of the tuning with --allow numerics (60s)")
    parser.add_argument("--exact-budget", help="of the tuning without --allow (10s)")
    parser.add_argument("--tuned-seconds", type=float,
                        help="from its first step, behind which the tuned script is ended; 0: at its own end (0)")
    parser.add_argument("--seconds", type=float, help="of the independent measurement (120)")
    parser.add_argument("--block", type=float, help="seconds of a turn in it (1)")
    parser.add_argument("--minutes", type=float, help="of the whole series; 0: without a limit (0)")
    parser.add_argument("--most-lost", type=float, default=72.0, help="seconds to a tuning (72, 2 %% of an hour)")
    options = parser.parse_args(words)
    for name, value in (QUICK if options.quick else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.checkouts, options.bin = options.checkouts.resolve(), options.bin.resolve()
    options.names = options.only.split(",") if options.only else [job.name for job in JOBS]
    if unknown := set(options.names) - {job.name for job in JOBS}:
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}")
    return options


def main() -> int:
    options = parsed()
    print(HEADER, flush=True)
    jobs = [job for job in JOBS if job.name in options.names]
    shares = Shares(options.minutes)
    is_good = True
    for number, job in enumerate(jobs):
        lack = job.missing(options.checkouts)
        if not lack and not shares.begin(len(jobs) - number):
            lack = "the time of --minutes is over"
        if lack:
            print(f"| {job.name} | | | | | | | | | not run: {lack} |", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                cells, is_one_good = row_of(job, options, pathlib.Path(folder), shares)
            except (arms.Failed, OSError, subprocess.CalledProcessError) as error:
                cells, is_one_good = [job.name, *[""] * 8, f"FAILED: {error}"], False
        print("| " + " | ".join(cells) + " |", flush=True)
        is_good = is_good and is_one_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
