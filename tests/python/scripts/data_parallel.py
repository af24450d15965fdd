# SPDX-License-Identifier: Apache-2.0
"""One rank of DistributedDataParallel over the job of test_ranks.py.

data_parallel.py FOLDER RANK RANKS STEPS BATCH: rank 0 leaves the parameters in FOLDER/expected.pt.
"""

from __future__ import annotations

import pathlib
import sys

import torch
from torch import distributed
from torch.utils.data.distributed import DistributedSampler

CLASSES = 5
HIDDEN = 24
SIDE = 8
RATE = 0.1
MOMENTUM = 0.9


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(SIDE * SIDE, HIDDEN)
        self.output = torch.nn.Linear(HIDDEN, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.output(torch.relu(self.hidden(images.flatten(1))))


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    rank, ranks, steps, batch = map(int, sys.argv[2:6])
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    data = torch.load(folder / "data.pt")
    model = Mlp()
    model.load_state_dict(torch.load(folder / "start.pt"))
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=RATE, momentum=MOMENTUM)
    sampler = DistributedSampler(
        data["labels"], num_replicas=ranks, rank=rank, shuffle=False, drop_last=True
    )
    order = list(sampler)
    batches = [order[i : i + batch] for i in range(0, len(order) - batch + 1, batch)]
    for step in range(steps):
        chosen = batches[step % len(batches)]
        optimizer.zero_grad()
        # A power of two: no rounding.
        logits = parallel(data["images"][chosen].float() * (1 / 256))
        torch.nn.functional.cross_entropy(logits, data["labels"][chosen]).backward()
        optimizer.step()
    if rank == 0:
        torch.save(model.state_dict(), folder / "expected.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
