#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tuner loadtune and autotuned on one script that waits for its data, side by side.

    python3 bench/scripts/beside_loadtune.py [--bin build/release/bin] [--steps 100] [--seconds 120]

loadtune (PyPI, 0.3.0) searches settings of a `DataLoader`: from one profile, a table of rules proposes up to six
trials, each in a process of its own whose steps train nothing. It goes first, as its own command does it. autotuned
then tunes the same script (pictures_cnn.py) with --allow numerics, on its own steps, for the time that loadtune took.

At the end three processes of the script take turns: untouched, with what loadtune chose, and with what autotuned kept.
The steps are counted by instrument/, the same in all. `lost` is the time in which nothing was trained: all that
loadtune took; of autotuned, what lost.py says.

Run it with a Python that has PyTorch, torchvision and loadtune (bench/peers/setup makes one, .deps/peers). Prints
Markdown. Ends with 1 if autotuned is shown to be behind, and with 2 if something is missing or fails.
"""

import argparse
import importlib.metadata
import importlib.util
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

SCRIPT = arms.HERE / "pictures_cnn.py"
_LEAST_BUDGET_S = 20
_FOREVER = "100000000"  # epochs
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


def lacking() -> str:
    """What is not there, and how to get it; empty: nothing."""
    for name in ("torch", "torchvision", "PIL"):
        if importlib.util.find_spec(name) is None:
            return f"the Python package {name} is not installed in {sys.executable}"
    try:
        importlib.metadata.version("loadtune")
    except importlib.metadata.PackageNotFoundError:
        return (f"the Python package loadtune is not installed in {sys.executable}: pip install loadtune==0.3.0, or "
                "run bench/peers/setup and use .deps/peers/bin/python")
    return ""


def words_of(knobs: dict) -> list[str]:
    """What loadtune chose, as options of the script."""
    words = []
    for knob, word in (("num_workers", "--workers"), ("prefetch_factor", "--prefetch"), ("num_threads", "--threads")):
        if knobs.get(knob) is not None:
            words += [word, str(knobs[knob])]
    # Without workers, loadtune leaves them out, too.
    if knobs.get("persistent_workers") and knobs.get("num_workers"):
        words.append("--persistent")
    return words + [word for knob, word in (("pin_memory", "--pin"), ("amp", "--amp"), ("compile", "--compile"))
                    if knobs.get(knob)]


class Comparison:
    def __init__(self, options: argparse.Namespace, folder: pathlib.Path) -> None:
        self._options = options
        self._folder = folder
        self._pictures = folder / "pictures"
        data.image_folder(self._pictures, options.pictures)
        self._variables = {"PYTHONWARNINGS": "ignore", "XDG_RUNTIME_DIR": str(folder), "AUTOTUNED_LOCKS": str(folder),
                           "AUTOTUNED_PROGRAM": str(options.bin / "autotuned")}

    def _words(self, *more: str) -> list[str]:
        return [sys.executable, str(SCRIPT), str(self._pictures), "--epochs", _FOREVER, *more]

    def loadtune(self) -> tuple[dict, float]:
        """What it chose, and the seconds that it took."""
        raw = self._folder / "raw.json"
        command = [sys.executable, "-m", "loadtune.cli", "tune", str(SCRIPT), "--steps", str(self._options.steps),
                   "--no-plots", "--out", str(self._folder / "report.md"), "--save-raw", str(raw)]
        began = time.monotonic()
        done = subprocess.run(command, cwd=self._folder, env={**os.environ, "PICTURES": str(self._pictures)},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        took = time.monotonic() - began
        if done.returncode != 0 or not raw.is_file():
            raise arms.Failed(f"loadtune ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-400:]}")
        chosen = subprocess.run([sys.executable, "-c", _CHOICE, str(raw)], cwd=self._folder, capture_output=True,
                                text=True, check=True)
        return json.loads(chosen.stdout), took

    def autotuned(self, budget_s: int) -> tuple[dict, lost.Course | None]:
        """What the history says of the run, and its steps."""
        steps = arms.StepCount(self._folder / "steps")
        log = self._folder / "log.txt"
        history = ["--history", str(self._folder / "history.db")]
        program = str(self._options.bin / "autotuned")
        # Long enough for the tuning and for steps behind it.
        given = arms.environment([arms.INSTRUMENT], {**self._variables, "BENCH_STEPS": str(steps.file),
                                                     "BENCH_SECONDS": str(2 * budget_s + 60)})
        with open(log, "w", encoding="utf-8") as file:
            command = [program, "run", "--allow", "numerics", "--budget", f"{budget_s}s", *history, "--"]
            process = subprocess.Popen([*command, *self._words()], cwd=self._folder, env=given,
                                       stdin=subprocess.DEVNULL, stdout=file, stderr=file)
            course = lost.watch(process, steps, log)
        steps.close()
        if process.returncode != 0:
            said = log.read_text(encoding="utf-8", errors="replace").strip()
            raise arms.Failed(f"autotuned ended with {process.returncode}: {said[-400:]}")
        done = subprocess.run([program, "show", "last", "--json", *history], capture_output=True, text=True, check=True)
        return json.loads(done.stdout), course

    def turns(self, knobs: dict, configuration: dict) -> arms.Rounds:
        ways = [arms.Arm("untouched", self._words(), self._folder, self._variables),
                arms.Arm("loadtune", self._words(*words_of(knobs)), self._folder, self._variables),
                arms.Arm("kept", self._words(), self._folder, self._variables, configuration)]
        return arms.take_turns(ways, self._options.seconds, self._options.block)


def interval_text(ratio: float, low: float, high: float) -> str:
    return f"{ratio:.2f} ({low:.2f} to {high:.2f})"


def verdict_of(low: float, high: float) -> str:
    if low > 1.0:
        return "ahead"
    return "BEHIND" if high < 1.0 else "not shown"


def compare(options: argparse.Namespace, folder: pathlib.Path) -> bool:
    """Prints all; false: autotuned is behind."""
    comparison = Comparison(options, folder)
    choice, took_s = comparison.loadtune()
    budget_s = options.budget or max(_LEAST_BUDGET_S, round(took_s))
    run, course = comparison.autotuned(budget_s)
    change = run["best"].get("change") or {}
    rounds = comparison.turns(choice["knobs"], change)
    kept = arms.ratio_of(rounds, "kept")
    print(_HEADER)
    name = f"loadtune {importlib.metadata.version('loadtune')}, {choice['trials']} trials"
    told = f"{choice['ratio']:.2f}" if "ratio" in choice else ""
    rate = interval_text(*arms.ratio_of(rounds, "loadtune"))
    print(f"| {name} | {choice['label']} | {told} | {took_s:.0f} s | {took_s:.0f} s | {rate} | {len(rounds)} |")
    chose = ", ".join(f"`{name}` {value}" for name, value in change.items()) or "nothing"
    best = run["best"]
    told = interval_text(best["speedup"], best["speedup_low"], best["speedup_high"]) if change else ""
    took, lost_s = "not ended", None
    if course is not None:
        took, lost_s = f"{course.tuning_s:.0f} s", course.lost_s(kept[0])
    print(f"| autotuned | {chose} | {told} | {took} | {'not known' if lost_s is None else f'{lost_s:.0f} s'} "
          f"| {interval_text(*kept)} | {len(rounds)} |")
    ratio = arms.ratio_of(rounds, "kept", reference="loadtune")
    verdict = verdict_of(*ratio[1:])
    print(f"\nautotuned / loadtune: {interval_text(*ratio)}: {verdict}")
    return verdict != "BEHIND"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=arms.ROOT / "build" / "release" / "bin")
    parser.add_argument("--steps", type=int, default=100, help="of each trial of loadtune; 100 is its own default")
    parser.add_argument("--budget", type=int, help="seconds for autotuned, in place of the time that loadtune took")
    parser.add_argument("--seconds", type=float, default=120.0, help="of the measurement in turns")
    parser.add_argument("--block", type=float, default=1.0, help="seconds of a turn in it")
    parser.add_argument("--pictures", type=int, default=2000)
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    if lack := lacking():
        print(f"error: {lack}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        try:
            return 0 if compare(options, pathlib.Path(folder)) else 1
        except (arms.Failed, OSError, subprocess.CalledProcessError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
