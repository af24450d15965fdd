# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel over a job of test_ranks.py."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable

import torch
from torch import distributed
from torch.nn import functional
from torch.utils.data.distributed import DistributedSampler

CLASSES = 5
HIDDEN = 24
SIDE = 8
MOMENTUM = 0.9


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(SIDE * SIDE, HIDDEN)
        self.output = torch.nn.Linear(HIDDEN, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.output(torch.relu(self.hidden(images.flatten(1))))


class FashionCnn(torch.nn.Module):
    """That of recipes/fashion_cnn.yaml."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(32, 64, 3, padding=1)
        self.linear = torch.nn.Linear(64 * 7 * 7, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = torch.relu(functional.max_pool2d(self.conv1(images), 2))
        x = torch.relu(functional.max_pool2d(self.conv2(x), 2))
        return self.linear(x.flatten(1))


def values_of_bytes() -> torch.Tensor:
    """What becomes of each byte of a picture. By a power of two: no rounding."""
    return torch.arange(256, dtype=torch.float32) / 256


@dataclasses.dataclass(frozen=True)
class Job:
    make: Callable[[], torch.nn.Module]
    rate: float


JOBS = {"mlp": Job(Mlp, 0.1), "fashion_cnn": Job(FashionCnn, 0.01)}


def train(
    folder: pathlib.Path, name: str, rank: int, ranks: int, steps: int, batch: int
) -> None:
    """One rank. That of number 0 leaves the parameters in expected.pt of the folder."""
    job = JOBS[name]
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    data = torch.load(folder / "data.pt")
    values = values_of_bytes()
    model = job.make()
    model.load_state_dict(torch.load(folder / "start.pt"))
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=job.rate, momentum=MOMENTUM)
    sampler = DistributedSampler(
        data["labels"], num_replicas=ranks, rank=rank, shuffle=False, drop_last=True
    )
    order = list(sampler)
    batches = [order[i : i + batch] for i in range(0, len(order) - batch + 1, batch)]
    for step in range(steps):
        chosen = batches[step % len(batches)]
        optimizer.zero_grad()
        logits = parallel(values[data["images"][chosen].long()])
        functional.cross_entropy(logits, data["labels"][chosen]).backward()
        optimizer.step()
    if rank == 0:
        torch.save(model.state_dict(), folder / "expected.pt")
    distributed.destroy_process_group()
