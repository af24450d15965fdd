# SPDX-License-Identifier: Apache-2.0
"""Operator totals of `autotuned profile` beside those of torch.profiler on the same model and batch.

usage: python3 bench/peers/operator_totals.py build/release/bin/autotuned [ROUNDS]

Both record ResNet-18 on batches of 16 pictures of 224 x 224, forward, loss and backward, in turn; the same
`autotuned analyze` reads both traces. Prints Markdown: calls per step, and the median total per step with the
quartiles of the rounds.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

import torch
import torchvision
from torch.profiler import ProfilerActivity, profile, schedule

STEPS, WARMUP = 4, 2
RECIPE = "recipes/resnet18_cifar_cpu.yaml"


def record_peer(path: str) -> None:
    torch.manual_seed(1)
    model = torchvision.models.resnet18(num_classes=1000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    images, labels = torch.rand(16, 3, 224, 224), torch.arange(16)
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=WARMUP, active=STEPS),
                 on_trace_ready=lambda done: done.export_chrome_trace(path)) as recording:
        for _ in range(WARMUP + STEPS):
            optimizer.zero_grad(set_to_none=False)
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            recording.step()


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
    program = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            path = os.path.join(folder, "ours.pt.trace.json.gz")
            subprocess.run([program, "profile", RECIPE, "--steps", str(STEPS), "--warmup", str(WARMUP), "--output", path],
                           stdout=subprocess.DEVNULL, check=True)
            ours.append(totals(program, path))
            path = os.path.join(folder, "theirs.pt.trace.json")
            record_peer(path)
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
