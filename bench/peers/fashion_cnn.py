# SPDX-License-Identifier: Apache-2.0
"""The job of recipes/fashion_cnn.yaml in PyTorch, written by hand as fast as we know how.

The data lies in memory as one uint8 tensor; a batch is one indexed read and one fused conversion; the loss
stays a tensor until the block is over.
"""

import gzip
import itertools
import os
import struct

import torch
from torch import nn

import blocks

FOLDER = os.environ.get("AUTOTUNED_FASHION_MNIST", "/usr/share/datasets/fashion-mnist")
MEAN, STD = 0.286, 0.353


class FashionCnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.linear = nn.Linear(64 * 7 * 7, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.linear(torch.flatten(x, 1))


def read_idx(name: str) -> torch.Tensor:
    with gzip.open(os.path.join(FOLDER, name)) as file:
        data = file.read()
    dimensions = data[3]
    shape = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
    return torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=4 + 4 * dimensions).reshape(shape)


class Job:
    def __init__(self) -> None:
        self.images = read_idx("train-images-idx3-ubyte.gz").unsqueeze(1)
        self.labels = read_idx("train-labels-idx1-ubyte.gz").long()
        self.chosen = None

    def settings(self) -> list:
        autocasts = [False, True] if blocks.has_bf16() else [False]
        threads = range(1, len(os.sched_getaffinity(0)) + 1)
        return [
            {"batch_size": batch_size, "channels_last": channels_last, "threads": count,
             "compile": compiled, "autocast": autocast, "fused": True}
            for batch_size, channels_last, count, compiled, autocast in itertools.product(
                [32, 64, 128, 256, 512], [False, True], threads, [False, True], autocasts)
        ]

    def prepare(self, settings: dict) -> None:
        if settings == self.chosen:
            return
        torch.manual_seed(1)
        self.chosen = settings
        torch.set_num_threads(settings["threads"])
        self.batch_size = settings["batch_size"]
        self.format = torch.channels_last if settings["channels_last"] else torch.contiguous_format
        self.model = FashionCnn().to(memory_format=self.format)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, fused=settings["fused"])
        self.forward = torch.compile(self.loss_of) if settings["compile"] else self.loss_of
        self.order = torch.randperm(len(self.images))
        self.position = 0
        for _ in range(5):
            self.step()

    def loss_of(self, raw: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = raw.float().mul_(1 / (255 * STD)).sub_(MEAN / STD)
        x = x.contiguous(memory_format=self.format)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.chosen["autocast"]):
            scores = self.model(x)
        return nn.functional.cross_entropy(scores.float(), labels)

    def step(self) -> torch.Tensor:
        if self.position + self.batch_size > len(self.order):
            self.order = torch.randperm(len(self.images))
            self.position = 0
        batch = self.order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(self.images[batch], self.labels[batch])
        loss.backward()
        self.optimizer.step()
        return loss.detach()


if __name__ == "__main__":
    blocks.serve(Job)
