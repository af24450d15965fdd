# SPDX-License-Identifier: Apache-2.0
"""The job of recipes/fashion_cnn.yaml on two ranks: fashion_cnn.py with DistributedDataParallel over Gloo, one thread each.

Rank 0 answers bench/peers.cpp and starts rank 1. How many steps a block has rank 0 says before its clock starts, so that
nothing is exchanged within it but gradients. The batch size is that of the recipe, of each rank: compare with

    build/release/bin/peers recipes/fashion_cnn.yaml --ranks 2 --script bench/peers/fashion_cnn_ddp.py \\
      -s threads.intra_op=1 -s layout.memory_format=channels_last -s ddp.gradient_as_bucket_view=on
"""

import math
import os
import subprocess
import sys
import tempfile
import time

import torch
from torch import distributed

import blocks
import fashion_cnn

RANKS = 2
BATCH = 32
# The kinds of messages from rank 0 to the other.
STOP, PREPARE, STEPS = range(3)


class Rank:
    def __init__(self, rank: int, store: str) -> None:
        torch.set_num_threads(1)
        distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
        self.rank = rank
        self.images = fashion_cnn.read_idx("train-images-idx3-ubyte.gz").unsqueeze(1)
        self.labels = fashion_cnn.read_idx("train-labels-idx1-ubyte.gz").long()

    def settings(self) -> list:
        return [{"channels_last": channels_last, "bucket_view": bucket_view}
                for channels_last in (False, True) for bucket_view in (False, True)]

    def start(self, settings: dict) -> None:
        torch.manual_seed(1)
        self.format = torch.channels_last if settings["channels_last"] else torch.contiguous_format
        model = fashion_cnn.FashionCnn().to(memory_format=self.format)
        self.model = torch.nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=settings["bucket_view"])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, fused=True)
        self.shuffle()

    # As DistributedSampler: one order, dealt out in turn.
    def shuffle(self) -> None:
        self.order = torch.randperm(len(self.images))[self.rank::RANKS]
        self.position = 0

    def step(self) -> torch.Tensor:
        if self.position + BATCH > len(self.order):
            self.shuffle()
        batch = self.order[self.position : self.position + BATCH]
        self.position += BATCH
        x = self.images[batch].float().mul_(1 / (255 * fashion_cnn.STD)).sub_(fashion_cnn.MEAN / fashion_cnn.STD)
        x = x.contiguous(memory_format=self.format)
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(self.model(x), self.labels[batch])
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class Job(Rank):
    """Rank 0."""

    WARMUP_STEPS = 20

    def __init__(self) -> None:
        folder = tempfile.mkdtemp()
        store = os.path.join(folder, "store")
        self.other = subprocess.Popen([sys.executable, __file__, store])
        super().__init__(0, store)
        self.batch_size = BATCH * RANKS  # samples of a step
        self.chosen = None

    def tell(self, what: int, number: int) -> None:
        distributed.broadcast(torch.tensor([what, number]), src=0)

    def prepare(self, settings: dict) -> None:
        if settings == self.chosen:
            return
        self.chosen = settings
        self.tell(PREPARE, self.settings().index(settings))
        self.start(settings)
        self.tell(STEPS, self.WARMUP_STEPS)
        for step in range(self.WARMUP_STEPS):
            if step == self.WARMUP_STEPS // 2:
                begin = time.monotonic_ns()
            self.step()
        self.step_ns = (time.monotonic_ns() - begin) / (self.WARMUP_STEPS - self.WARMUP_STEPS // 2)

    def count(self, minimum_ns: int, minimum_steps: int) -> int:
        steps = max(minimum_steps, math.ceil(minimum_ns / self.step_ns))
        self.tell(STEPS, steps)
        return steps

    def stop(self) -> None:
        self.tell(STOP, 0)
        self.other.wait()


def follow(store: str) -> None:
    rank = Rank(1, store)
    while True:
        told = torch.zeros(2, dtype=torch.long)
        distributed.broadcast(told, src=0)
        what, number = told.tolist()
        if what == STOP:
            return
        if what == PREPARE:
            rank.start(rank.settings()[number])
        for _ in range(number if what == STEPS else 0):
            rank.step()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        follow(sys.argv[1])
    else:
        blocks.serve(Job)
