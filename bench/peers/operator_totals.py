# SPDX-License-Identifier: Apache-2.0
"""Operator totals of `autotuned profile` beside those of torch.profiler on the same model and batch.

usage: python3 bench/peers/operator_totals.py [--malloc default] build/release/bin/autotuned [ROUNDS]

Both record ResNet-18 on batches of 16 pictures of 224 x 224, forward, loss and backward, in turn; the same
`autotuned analyze` reads both traces. Prints Markdown: calls per step, and the median total per step with the
quartiles of the rounds.

Each records in a process of its own in every round, with threads that sleep between operators (as the trainer's do)
and, unless `--malloc default` is given, a C library that keeps what is freed (memory.malloc: keep): else it depends on
what else a process allocated whether an output of some megabytes costs its page faults anew in every step, which is a
large part of the time of operators that only pass over memory.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile

STEPS, WARMUP = 4, 2
RECIPE = "recipes/resnet18_cifar_cpu.yaml"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h


def keep_freed_memory() -> None:
    for threshold in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD):
        if ctypes.CDLL(None).mallopt(threshold, 2**31 - 1) != 1:
            raise SystemExit("the C library refused mallopt()")


def record_peer(path: str) -> None:
    import torch
    import torchvision
    from torch.profiler import ProfilerActivity, profile, schedule

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(1)
    model = torchvision.models.resnet18(num_classes=1000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    # Smooth, as pictures of 32 x 32 are that the recipe makes larger: how often the largest so far changes in a window
    # of max_pool2d depends on that, and so does its time.
    small = torch.randint(0, 256, (16, 3, 32, 32)).float()
    images = torch.nn.functional.interpolate(small, 224, mode="bilinear", antialias=True) / 127.5 - 1
    labels = torch.arange(16) % 10
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=WARMUP, active=STEPS),
                 on_trace_ready=lambda done: done.export_chrome_trace(path)) as recording:
        for _ in range(WARMUP + STEPS):
            optimizer.zero_grad(set_to_none=False)
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            recording.step()


def run_peer(path: str, malloc: str) -> None:
    subprocess.run([sys.executable, os.path.abspath(__file__), "--malloc", malloc, "--record-peer", path],
                   env=dict(os.environ, OMP_WAIT_POLICY="passive"), check=True)


def run_ours(program: str, path: str, malloc: str) -> None:
    subprocess.run([program, "profile", RECIPE, "--steps", str(STEPS), "--warmup", str(WARMUP), "--output", path,
                    "-s", f"memory.malloc={malloc}"], stdout=subprocess.DEVNULL, check=True)


def totals(program: str, path: str) -> dict:
    read = subprocess.run([program, "analyze", path, "--json"], stdout=subprocess.PIPE, check=True)
    operators = json.loads(read.stdout.splitlines()[-1])["operators"]
    return {one["name"]: (one["calls"] / STEPS, one["host_total_us"] / STEPS / 1000) for one in operators}


def spread(values: list) -> tuple:
    """Lower quartile, median, upper quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--malloc", choices=["keep", "default"], default="keep")
    parser.add_argument("--record-peer", metavar="TRACE", help="only record torch.profiler's trace, in this process")
    parser.add_argument("program", nargs="?")
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    given = parser.parse_args()
    if given.record_peer:
        if given.malloc == "keep":
            keep_freed_memory()
        record_peer(given.record_peer)
        return
    if given.program is None:
        parser.error("name the program: build/release/bin/autotuned")
    program = os.path.abspath(given.program)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(given.rounds):
            path = os.path.join(folder, "ours.pt.trace.json.gz")
            run_ours(program, path, given.malloc)
            ours.append(totals(program, path))
            path = os.path.join(folder, "theirs.pt.trace.json")
            run_peer(path, given.malloc)
            theirs.append(totals(program, path))
    print("| operator | calls (ours, theirs) | ms a step (ours) | ms a step (theirs) | ratio |\n|---|---|---|---|---|")
    names = sorted(theirs[0], key=lambda name: -theirs[0][name][1])
    for name in [name for name in names if name in ours[0]][:14]:
        our_ms = spread([one[name][1] for one in ours])
        their_ms = spread([one[name][1] for one in theirs])
        print(f"| `{name}` | {ours[0][name][0]:.0f}, {theirs[0][name][0]:.0f} "
              f"| {our_ms[1]:.2f} ({our_ms[0]:.2f} to {our_ms[2]:.2f}) "
              f"| {their_ms[1]:.2f} ({their_ms[0]:.2f} to {their_ms[2]:.2f}) | {our_ms[1] / their_ms[1]:.2f} |")


if __name__ == "__main__":
    main()
