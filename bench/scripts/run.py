#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten public scripts, unchanged, with and without autotuned.

    python3 bench/scripts/run.py CHECKOUTS [--only mnist,vae] [--bin build/release/bin] [--budget 60s] [--seconds 120]

CHECKOUTS holds checkouts of pytorch/examples, nanoGPT, pytorch-lightning, accelerate and transformers under these
names. Nothing in it is changed, and nothing is downloaded: data.py makes what the scripts read. Run it with the Python
that has PyTorch; a script whose packages are missing there gets a row that says so.

For each script:
  same      the parameters at its end are bit for bit those of the untouched script: "refused" where each change was
            checked, exact ones were tried, and all were refused (refuse.py); "exact" in a tuning without --allow.
            "not repeatable": two untouched runs differ
  kept      by a tuning with --allow numerics, to the end of the script
  holds     the rate of what was kept, beside that of the untouched script in processes that take turns
  patched   the same of the script with the diff of `autotuned patch` in it, without autotuned; "*": the diff does not
            have all of it

Prints Markdown. Ends with 1 if a script failed, trained other bits, or if what was kept is shown to be slower.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import arms
import refuse
from jobs import JOBS, Job

HEADER = ("| script | refused: same | exact: same | tuned: kept | told | holds | patched | rounds | verdict |\n"
          "|---|---|---|---|---|---|---|---|---|")
# In the place of a setting that no diff has.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "2147483647", "MALLOC_TRIM_THRESHOLD_": "2147483647"}


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

    def tuned(self) -> dict:
        """What the history says of the run."""
        command = [*self._autotuned("run"), "--allow", "numerics", "--budget", self._options.budget, "--"]
        self._run(command, self._job.tuned, False)
        done = subprocess.run(self._autotuned("show", "last", "--json"), capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def patch(self) -> tuple[str, bool]:
        """Of the run before: the diff, and whether it has all that was kept."""
        done = subprocess.run(self._autotuned("patch", "--json", self._job.command[0]), cwd=self._last,
                              capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        return answer["diff"], all(line.startswith(("memory.malloc", " ")) for line in answer["words"])

    def compared(self, configuration: dict, diff: str) -> arms.Rounds:
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
        return arms.take_turns(ways, self._options.seconds, self._options.block)


def same(digest: str, other: str) -> str:
    return "not repeatable" if not digest else "yes" if digest == other else "NO"


def interval_text(ratio: float, low: float, high: float) -> str:
    return f"{ratio:.2f} ({low:.2f} to {high:.2f})"


def verdict_of(low: float, high: float) -> str:
    if low > 1.0:
        return "faster"
    return "SLOWER" if high < 1.0 else "not shown"


def row_of(job: Job, options: argparse.Namespace, folder: pathlib.Path) -> tuple[list[str], bool]:
    """Its cells, and whether all is as it must be."""
    bench = Bench(job, options, folder)
    digest = bench.untouched()
    refused, checked, tried = bench.refused()
    equal = [same(digest, refused), same(digest, bench.exact())]
    cells = [job.name, f"{equal[0]} ({checked} checked, {tried} tried)", equal[1]]
    run = bench.tuned()
    change = run["best"].get("change") or {}
    if not change:
        why = run["training"].get("untuned") or "nothing kept"
        return [*cells, "nothing", "", "", "", "", why], "NO" not in equal
    best = run["best"]
    told = interval_text(best["speedup"], best["speedup_low"], best["speedup_high"])
    diff, is_whole = bench.patch()
    rounds = bench.compared(change, diff)
    kept, patched = (arms.ratio_of(rounds, way) for way in ("kept", "patched"))
    text = ", ".join(f"`{name}` {value}" for name, value in change.items())
    verdict = verdict_of(*kept[1:])
    cells += [text, told, interval_text(*kept), interval_text(*patched) + ("" if is_whole else " *")]
    cells += [str(len(rounds)), verdict]
    return cells, "NO" not in equal and verdict != "SLOWER"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=pathlib.Path)
    parser.add_argument("--only", default="", help="names of scripts, with commas")
    parser.add_argument("--bin", type=pathlib.Path, default=arms.ROOT / "build" / "release" / "bin")
    parser.add_argument("--budget", default="60s", help="of the tuning with --allow numerics")
    parser.add_argument("--exact-budget", default="10s", help="of the tuning without --allow")
    parser.add_argument("--seconds", type=float, default=120.0, help="of the independent measurement")
    parser.add_argument("--block", type=float, default=1.0, help="seconds of a turn in it")
    options = parser.parse_args()
    options.checkouts, options.bin = options.checkouts.resolve(), options.bin.resolve()
    names = options.only.split(",") if options.only else [job.name for job in JOBS]
    if unknown := set(names) - {job.name for job in JOBS}:
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}")
    print(HEADER, flush=True)
    is_good = True
    for job in JOBS:
        if job.name not in names:
            continue
        if lack := job.missing(options.checkouts):
            print(f"| {job.name} | | | | | | | | not run: {lack} |", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                cells, is_one_good = row_of(job, options, pathlib.Path(folder))
            except (arms.Failed, OSError, subprocess.CalledProcessError) as error:
                cells, is_one_good = [job.name, *[""] * 7, f"FAILED: {error}"], False
        print("| " + " | ".join(cells) + " |", flush=True)
        is_good = is_good and is_one_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
