# SPDX-License-Identifier: Apache-2.0
"""Writes data/schedules.json: the learning rates that PyTorch's schedulers give, for schedule_test.cpp.

Needs PyTorch. Epochs have 5 steps; the base learning rate is 1.
"""

import json
import math
import pathlib

import torch
from torch.optim import lr_scheduler

EPOCH = 5
DATA = pathlib.Path(__file__).parent / "data"


def course(steps: int, per_step=(), per_epoch=()) -> list[float]:
    """The learning rate of each step; the schedulers are made of the optimizer in this order."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    of_steps = [make(optimizer) for make in per_step]
    of_epochs = [make(optimizer) for make in per_epoch]
    rates = []
    for step in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        for scheduler in of_steps:
            scheduler.step()
        if (step + 1) % EPOCH == 0:
            for scheduler in of_epochs:
                scheduler.step()
    return rates


def warmup(iterations: int):
    return lambda o: lr_scheduler.LinearLR(o, start_factor=0.01, total_iters=iterations)


def then(first, second, iterations: int):
    return lambda o: lr_scheduler.SequentialLR(o, [first(o), second(o)], milestones=[iterations])


def cases() -> list[tuple[str, list[float]]]:
    return [
        (
            "{type: multi_step, epochs: [1, 3], gamma: 0.5}",
            course(20, per_epoch=[lambda o: lr_scheduler.MultiStepLR(o, [1, 3], gamma=0.5)]),
        ),
        (
            "{type: exponential, gamma: 0.9}",
            course(20, per_epoch=[lambda o: lr_scheduler.ExponentialLR(o, gamma=0.9)]),
        ),
        (
            "{type: polynomial, power: 2}",
            course(20, [lambda o: lr_scheduler.PolynomialLR(o, total_iters=20, power=2.0)]),
        ),
        (
            "{type: polynomial, warmup_epochs: 1}",
            course(
                20,
                [
                    then(
                        warmup(5),
                        lambda o: lr_scheduler.PolynomialLR(o, total_iters=15, power=1.0),
                        5,
                    )
                ],
            ),
        ),
        (
            "{type: cosine, warmup_steps: 4}",
            course(
                20,
                [then(warmup(4), lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=16), 4)],
            ),
        ),
        (
            "{type: constant, warmup_epochs: 0.8}",
            course(20, [warmup(4)]),
        ),
        (
            "{type: step, step_epochs: 1, warmup_steps: 7}",
            course(
                20,
                [warmup(7)],
                [lambda o: lr_scheduler.StepLR(o, step_size=1, gamma=0.1)],
            ),
        ),
        (
            "{type: one_cycle}",
            course(
                20,
                [
                    lambda o: lr_scheduler.OneCycleLR(
                        o, max_lr=1.0, total_steps=20, cycle_momentum=False
                    )
                ],
            ),
        ),
        (
            "{type: one_cycle, pct_start: 0.25, div_factor: 10, final_div_factor: 100, "
            "anneal: linear}",
            course(
                20,
                [
                    lambda o: lr_scheduler.OneCycleLR(
                        o,
                        max_lr=1.0,
                        total_steps=20,
                        pct_start=0.25,
                        div_factor=10,
                        final_div_factor=100,
                        anneal_strategy="linear",
                        cycle_momentum=False,
                    )
                ],
            ),
        ),
    ]


if __name__ == "__main__":
    lines = []
    for schedule, rates in cases():
        assert all(math.isfinite(rate) for rate in rates)
        lines.append(json.dumps({"schedule": schedule, "rates": rates}, separators=(",", ":")))
    DATA.mkdir(exist_ok=True)
    (DATA / "schedules.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
