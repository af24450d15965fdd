#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a whole tuning takes with one build and with another, side by side.

    python3 bench/tuning_time.py OLD/bin/autotuned NEW/bin/autotuned recipes/fashion_cnn.yaml --runs 3

The builds alternate, in an order that a coin decides pair by pair, each with a history and an output folder of its own.
Prints Markdown: the tuning's time in each run, what it found, and the ratio of NEW over OLD, pair by pair.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time


def cpu_seconds() -> dict[str, float]:
    """Of all CPUs since the boot: used by anybody, and given to other machines by the hypervisor."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:]]
    user, nice, system, idle, waiting, interrupts, soft, stolen = (ticks + [0] * 8)[:8]
    tick = os.sysconf("SC_CLK_TCK")
    return {"busy": (user + nice + system + interrupts + soft) / tick, "stolen": stolen / tick,
            "all": (user + nice + system + idle + waiting + interrupts + soft + stolen) / tick}


def tune(program: str, recipe: str, options: list[str]) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        before, start = cpu_seconds(), time.monotonic()
        done = subprocess.run([program, "run", recipe, "--tune-only", "--json", "--history",
                               os.path.join(folder, "history.db"), "--output", os.path.join(folder, "out"), *options],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        seconds, after = time.monotonic() - start, cpu_seconds()
    if done.returncode != 0:
        sys.exit(f"{program} ended with {done.returncode}:\n{done.stderr}")
    result = json.loads(done.stdout.splitlines()[-1])
    every = max(after["all"] - before["all"], 1e-9)
    return {"seconds": seconds, "tuning_seconds": result["tuning_seconds"], "trials": len(result["trials"]),
            "speedup": result["best"]["speedup"], "busy": (after["busy"] - before["busy"]) / every,
            "stolen": (after["stolen"] - before["stolen"]) / every}


def main() -> None:
    parser = argparse.ArgumentParser(description="The time of a whole tuning, one build beside another.")
    parser.add_argument("old", help="`autotuned` of the one build")
    parser.add_argument("new", help="of the other")
    parser.add_argument("recipe")
    parser.add_argument("--runs", type=int, default=3, help="of each build")
    parser.add_argument("--option", action="append", default=[], help="for `autotuned run`, such as --option=--budget=60s")
    arguments = parser.parse_args()
    builds = {"old": arguments.old, "new": arguments.new}
    print("| run | build | whole command | tuning | trials | speed-up | CPUs busy | stolen |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    ratios = []
    for run in range(1, arguments.runs + 1):
        took = {}
        for build in random.sample(list(builds), 2):
            one = tune(builds[build], arguments.recipe, arguments.option)
            took[build] = one["tuning_seconds"]
            print(f"| {run} | {build} | {one['seconds']:.1f} s | {one['tuning_seconds']:.1f} s | {one['trials']} "
                  f"| {one['speedup']:.2f} | {100 * one['busy']:.0f} % | {100 * one['stolen']:.0f} % |", flush=True)
        ratios.append(took["new"] / took["old"])
    print(f"\nTuning time, new over old: median {statistics.median(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f} over {len(ratios)} pairs).")


if __name__ == "__main__":
    main()
