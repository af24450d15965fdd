#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does one run find what a person finds by trying all? Tunes a recipe, times all combinations of some knobs, and
compares what the run kept with the best of them in blocks that alternate.

    python3 bench/within.py recipes/photo_masking_only.yaml [--knob KNOB=VALUE,VALUE ...]

Prints Markdown. Ends with 1 when kept / best may be below --least: the lower end of its interval (95 %) decides.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile


def default_knobs() -> list[str]:
    cpus = len(os.sched_getaffinity(0))
    workers = ",".join(str(count) for count in sorted({1, max(1, cpus // 2), cpus}))
    return [f"loader.workers={workers}", "loader.prefetch_batches=2,4", "input.decode=full,crop",
            "input.jpeg_index=off,on", "input.dilation=convolution,bits", "input.point_ops=per_sample,fused"]


def text_of(configuration: dict) -> str:
    """KNOB=VALUE KNOB=VALUE ..., as bench/scan reads it."""
    def value(one) -> str:
        return ("on" if one else "off") if isinstance(one, bool) else str(one)

    return " ".join(f"{name}={value(one)}" for name, one in sorted(configuration.items()) if one != "")


def interval(values: list[float]) -> tuple[float, float]:
    """The ends between which the median lies with 95 %, whatever the distribution; all of it for fewer than 6."""
    ordered = sorted(values)
    count = len(ordered)
    below, skipped = 0.0, 0
    while skipped < count // 2:
        below += math.comb(count, skipped) / 2.0 ** count
        if 2.0 * below > 0.05:
            break
        skipped += 1
    return (ordered[skipped - 1], ordered[count - skipped]) if skipped else (-math.inf, math.inf)


def ended_well(command: list[str], environment: dict, **more) -> subprocess.CompletedProcess:
    done = subprocess.run(command, env=environment, text=True, check=False, **more)
    if done.returncode != 0:
        print(f"error: {' '.join(command[:2])} ended with {done.returncode}", file=sys.stderr)
        raise SystemExit(2)
    return done


def tuned(options, folder: str, environment: dict) -> dict:
    command = [os.path.join(options.bin, "autotuned"), "run", options.recipe, "--tune-only", "--retune", "--json",
               "--no-daemon", "--history", os.path.join(folder, "history.db"), "--output", os.path.join(folder, "out")]
    if options.budget:
        command += ["--budget", options.budget]
    for name in options.without:
        command += ["--without", name]
    return json.loads(ended_well(command, environment, stdout=subprocess.PIPE).stdout.splitlines()[-1])


def scanned(options, folder: str, environment: dict, arguments: list[str], rounds: int) -> dict:
    output = os.path.join(folder, "scan.json")
    command = [os.path.join(options.bin, "scan"), options.recipe, *arguments, "--rounds", str(rounds), "--block",
               str(options.block), "--rates-only", "--output", output]
    ended_well(command, environment, stdout=subprocess.DEVNULL)
    with open(output) as file:
        return json.load(file)


def figure(value) -> str:
    return "-" if value is None else f"{value:.2f}"


def print_run(run: dict) -> None:
    print("| plugin | change | verdict | ratio | interval |\n|---|---|---|---|---|")
    for trial in run["trials"]:
        print(f"| {trial['plugin']} | `{text_of(trial['change'])}` | {trial['verdict']} | "
              f"{figure(trial.get('ratio'))} | {figure(trial.get('ratio_low'))} to {figure(trial.get('ratio_high'))} |")
    best = run["best"]
    print(f"\n{figure(best['speedup'])} x the start ({figure(best['speedup_low'])} to {figure(best['speedup_high'])}) "
          f"in {run['tuning_seconds']:.0f} s.\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    parser.add_argument("--budget", help="time for tuning, instead of the recipe's")
    parser.add_argument("--without", action="append", default=[], help="leave this plugin out of the run")
    parser.add_argument("--knob", action="append", default=[], help="KNOB=VALUE,VALUE: what is tried by hand")
    parser.add_argument("--rounds", type=int, default=3, help="blocks of each combination")
    parser.add_argument("--pairs", type=int, default=20, help="pairs of blocks of kept and best")
    parser.add_argument("--block", type=float, default=0.7, help="seconds of a block")
    parser.add_argument("--least", type=float, default=0.95, help="what kept / best has to be")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # A first run: no index of files is known yet.
        environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(folder, "cache"))
        run = tuned(options, folder, environment)
        print_run(run)
        knobs = [argument for knob in options.knob or default_knobs() for argument in ("--knob", knob)]
        scan = scanned(options, folder, environment, knobs, options.rounds)
        best = max(scan["points"], key=lambda point: statistics.median(point["samples_per_second"]))
        kept = run["best"]["configuration"]
        by_hand = {**scan["start"], **best["change"]}
        print(f"Kept: `{text_of({name: value for name, value in kept.items() if value != scan['start'].get(name)})}`.")
        print(f"Best of {len(scan['points'])} by hand: `{text_of(best['change'])}`.\n")
        if kept == by_hand:
            print("They are the same.")
            return 0
        texts = [text_of(kept), text_of(by_hand)]
        compared = scanned(options, folder, environment, [part for text in texts for part in ("-c", text)],
                           options.pairs)
        rates = {point["name"]: point["samples_per_second"] for point in compared["points"]}
        logs = [math.log(ours / theirs) for ours, theirs in zip(*(rates[text] for text in texts))]
        low, high = (math.exp(end) for end in interval(logs))
        print("| kept, samples/s | best, samples/s | kept / best | interval | pairs |\n|---|---|---|---|---|")
        print(f"| {statistics.median(rates[texts[0]]):.0f} | {statistics.median(rates[texts[1]]):.0f} | "
              f"{math.exp(statistics.median(logs)):.3f} | {low:.3f} to {high:.3f} | {len(logs)} |")
        return 0 if low >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
