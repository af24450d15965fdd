#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tuner loadtune and autotuned on scripts with a `DataLoader`, side by side.

    python3 bench/scripts/beside_loadtune.py [--bin build/release/bin] [--steps 100] [--seconds 120]
    python3 bench/scripts/beside_loadtune.py --checkouts CHECKOUTS --script mnist

loadtune (PyPI, 0.3.0) searches settings of a `DataLoader`: from one profile, a table of rules proposes up to six
trials, each in a process of its own whose steps train nothing. It goes first, as its own command does it, with the
parts of the script that loadtune_forms.py hands to it. autotuned then tunes the script itself with --allow numerics, on
its own steps, for the time that loadtune took.

At the end three processes of the script take turns: untouched, with what loadtune chose, and with what autotuned kept.
instrument/ counts the steps, the same in all, and gives the script what loadtune chose. `lost` is the time in which
nothing was trained: all that loadtune took; of autotuned, what lost.py says.

The script is pictures_cnn.py, which waits for its data, or one of run.py's. Some of these have no form: nanogpt and
word_language_model have no `DataLoader`, dcgan trains where it is imported, and of transformers the `Trainer` makes the
`DataLoader`. Run it with a Python that has PyTorch, torchvision and loadtune (bench/peers/setup makes one,
.deps/peers). Prints Markdown. Ends with 1 if autotuned is shown to be behind, with 2 if something is missing or fails.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import arms
import data
import lost
from jobs import JOBS, Job

PICTURES = Job("pictures", arms.HERE.name, "", ("pictures_cnn.py", "pictures", "--epochs", "{length}"),
               lambda place, length: data.image_folder(place / "pictures", 2000), 1, 1, modules=("torchvision", "PIL"))
# Names of loadtune_forms.py, and the workers of the script as it is.
FORMS = {"pictures": 0, "mnist": 0, "vae": 0, "siamese": 0, "imagenet": 2, "lightning": 0, "accelerate": 4}
_LEAST_BUDGET_S = 20
_HEADER = ("| tuner | chose | told | took | lost | rate beside the untouched script | rounds |\n"
           "|---|---|---|---|---|---|---|")
# What the command of loadtune recommends, by its own rule; it does not write that down.
_CHOICE = """
import json, sys
from loadtune.experiment import Trial, best_trial
from loadtune.knobs import Knobs
with open(sys.argv[1], encoding="utf-8") as file:
    raw = json.load(file)
trials = [Trial(Knobs.from_dict(one["knobs"]), "", one["result"]) for one in raw["trials"]]
best, before = best_trial(trials), raw["baseline"]["throughput"]
if best is None or best.throughput <= before:
    print(json.dumps({"knobs": {}, "label": "nothing", "trials": len(trials)}))
else:
    print(json.dumps({"knobs": best.knobs.to_dict(), "label": best.knobs.label(), "trials": len(trials),
                      "ratio": best.throughput / before}))
"""


def lacking(job: Job, checkouts: pathlib.Path) -> str:
    """What is not there, and how to get it; empty: nothing."""
    if lack := job.missing(checkouts):
        return lack
    try:
        importlib.metadata.version("loadtune")
    except importlib.metadata.PackageNotFoundError:
        return (f"the Python package loadtune is not installed in {sys.executable}: pip install loadtune==0.3.0, or "
                "run bench/peers/setup and use .deps/peers/bin/python")
    return ""


class Comparison:
    def __init__(self, job: Job, options: argparse.Namespace, folder: pathlib.Path) -> None:
        self._job = job
        self._options = options
        self._folder = folder
        self._variables = {"PYTHONWARNINGS": "ignore", "MPLBACKEND": "Agg", "HF_HOME": str(folder / "hf"),
                           "XDG_RUNTIME_DIR": str(folder), "AUTOTUNED_LOCKS": str(folder),
                           "AUTOTUNED_PROGRAM": str(options.bin / "autotuned"), **job.variables}
        self._words = [sys.executable, *job.words(job.long)]

    def _place(self, name: str) -> pathlib.Path:
        return self._job.prepare(self._options.checkouts, self._folder / name, self._job.long)

    def loadtune(self) -> tuple[dict, float]:
        """What it chose, and the seconds that it took."""
        raw = self._folder / "raw.json"
        command = [sys.executable, "-m", "loadtune.cli", "tune", str(arms.HERE / "loadtune_forms.py"),
                   "--steps", str(self._options.steps), "--warmup", str(self._options.warmup),
                   "--workers", str(FORMS[self._job.name]), "--no-plots", "--out", str(self._folder / "report.md"),
                   "--save-raw", str(raw)]
        place = self._place("loadtune")
        began = time.monotonic()
        done = subprocess.run(command, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              env={**os.environ, **self._variables, "BENCH_FORM": self._job.name})
        took = time.monotonic() - began
        if done.returncode != 0 or not raw.is_file():
            raise arms.Failed(f"loadtune ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-400:]}")
        chosen = subprocess.run([sys.executable, "-c", _CHOICE, str(raw)], cwd=self._folder, capture_output=True,
                                text=True, check=True)
        return json.loads(chosen.stdout), took

    def autotuned(self, budget_s: int) -> tuple[dict, lost.Course | None]:
        """What the history says of the run, and its steps."""
        place = self._place("autotuned")
        history = ["--history", str(self._folder / "history.db")]
        program = str(self._options.bin / "autotuned")
        # Long enough for the tuning and for steps behind it.
        variables = {**self._variables, "BENCH_SECONDS": str(2 * budget_s + 60)}
        command = [program, "run", "--allow", "numerics", "--budget", f"{budget_s}s", *history, "--"]
        code, course = lost.run([*command, *self._words], place, variables)
        if code != 0:
            said = (place / "log.txt").read_text(encoding="utf-8", errors="replace").strip()
            raise arms.Failed(f"autotuned ended with {code}: {said[-400:]}")
        done = subprocess.run([program, "show", "last", "--json", *history], capture_output=True, text=True, check=True)
        return json.loads(done.stdout), course

    def turns(self, knobs: dict, configuration: dict) -> arms.Rounds:
        ways = []
        for way, change in (("untouched", None), ("loadtune", None), ("kept", configuration)):
            given = {"BENCH_KNOBS": json.dumps(knobs)} if way == "loadtune" and knobs else {}
            ways.append(arms.Arm(way, self._words, self._place(way), {**self._variables, **given}, change))
        return arms.take_turns(ways, self._options.seconds, self._options.block)


def verdict_of(low: float, high: float) -> str:
    if low > 1.0:
        return "ahead"
    return "BEHIND" if high < 1.0 else "not shown"


def compare(job: Job, options: argparse.Namespace, folder: pathlib.Path) -> bool:
    """Prints all; false: autotuned is behind."""
    comparison = Comparison(job, options, folder)
    choice, took_s = comparison.loadtune()
    if choice["knobs"].get("compile"):
        raise arms.Failed("loadtune chose torch.compile, which cannot be given to a script from outside")
    budget_s = options.budget or max(_LEAST_BUDGET_S, round(took_s))
    run, course = comparison.autotuned(budget_s)
    change = run["best"].get("change") or {}
    rounds = comparison.turns(choice["knobs"], change)
    kept = arms.ratio_of(rounds, "kept")
    print(_HEADER)
    name = f"loadtune {importlib.metadata.version('loadtune')}, {choice['trials']} trials"
    told = f"{choice['ratio']:.2f}" if "ratio" in choice else ""
    rate = arms.interval_text(*arms.ratio_of(rounds, "loadtune"))
    print(f"| {name} | {choice['label']} | {told} | {took_s:.0f} s | {took_s:.0f} s | {rate} | {len(rounds)} |")
    chose = ", ".join(f"`{name}` {value}" for name, value in change.items()) or "nothing"
    best = run["best"]
    told = arms.interval_text(best["speedup"], best["speedup_low"], best["speedup_high"]) if change else ""
    took, lost_s = "not ended", None
    if course is not None:
        took, lost_s = f"{course.tuning_s:.0f} s", course.lost_s(kept[0])
    print(f"| autotuned | {chose} | {told} | {took} | {'not known' if lost_s is None else f'{lost_s:.0f} s'} "
          f"| {arms.interval_text(*kept)} | {len(rounds)} |")
    ratio = arms.ratio_of(rounds, "kept", reference="loadtune")
    verdict = verdict_of(*ratio[1:])
    print(f"\nautotuned / loadtune: {arms.interval_text(*ratio)}: {verdict}")
    return verdict != "BEHIND"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=arms.ROOT / "build" / "release" / "bin")
    parser.add_argument("--script", default="pictures", choices=list(FORMS))
    parser.add_argument("--checkouts", type=pathlib.Path, default=pathlib.Path("."), help="as for run.py")
    parser.add_argument("--steps", type=int, default=100, help="of each trial of loadtune; 100 is its own default")
    parser.add_argument("--warmup", type=int, default=10, help="steps before them; 10 is its own default")
    parser.add_argument("--budget", type=int, help="seconds for autotuned, in place of the time that loadtune took")
    parser.add_argument("--seconds", type=float, default=120.0, help="of the measurement in turns")
    parser.add_argument("--block", type=float, default=1.0, help="seconds of a turn in it")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    job = next(job for job in [PICTURES, *JOBS] if job.name == options.script)
    options.checkouts = arms.HERE.parent if job is PICTURES else options.checkouts.resolve()
    if lack := lacking(job, options.checkouts):
        print(f"error: {lack}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        try:
            return 0 if compare(job, options, pathlib.Path(folder)) else 1
        except (arms.Failed, OSError, subprocess.CalledProcessError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
