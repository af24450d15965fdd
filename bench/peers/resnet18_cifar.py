# SPDX-License-Identifier: Apache-2.0
"""The job of recipes/resnet18_cifar.yaml in PyTorch, written by hand as fast as we know how.

A batch is one indexed read of uint8 images, one resize of the whole batch in uint8 and channels_last (the
fastest form that torchvision has), one conversion; the loss stays a tensor until the block is over.
Batch 16 throughout: this job does not allow another.
"""

import os

import torch
import torchvision
from torch import nn
from torchvision.transforms.v2 import functional

import blocks

SAMPLES = 10_000


class Job:
    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        images = torch.randint(0, 256, (SAMPLES, 3, 32, 32), dtype=torch.uint8, generator=generator)
        self.images = images.contiguous(memory_format=torch.channels_last)
        self.labels = torch.arange(SAMPLES) % 10
        self.batch_size = 16
        self.chosen = None

    def settings(self) -> list:
        cpus = len(os.sched_getaffinity(0))
        autocasts = [False, True] if blocks.has_bf16() else [False]
        eager = [{"channels_last": channels_last, "autocast": autocast, "threads": threads, "compile": False}
                 for channels_last in (False, True) for autocast in autocasts for threads in range(1, cpus + 1)]
        # Compiling takes minutes: only on top of what is best without it, and once without.
        compiled = [{"channels_last": channels_last, "autocast": autocasts[-1], "threads": cpus, "compile": True}
                    for channels_last in (False, True)]
        return eager + compiled

    def prepare(self, settings: dict) -> None:
        if settings == self.chosen:
            return
        torch.manual_seed(1)
        self.chosen = settings
        torch.set_num_threads(settings["threads"])
        self.format = torch.channels_last if settings["channels_last"] else torch.contiguous_format
        self.model = torchvision.models.resnet18(num_classes=1000).to(memory_format=self.format)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001, momentum=0.9, fused=True)
        self.forward = torch.compile(self.loss_of) if settings["compile"] else self.loss_of
        self.order = torch.randperm(SAMPLES)
        self.position = 0
        for _ in range(3):
            self.step()

    def loss_of(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = images.float().mul_(2 / 255).sub_(1)
        x = x.contiguous(memory_format=self.format)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.chosen["autocast"]):
            scores = self.model(x)
        return nn.functional.cross_entropy(scores.float(), labels)

    def step(self) -> torch.Tensor:
        if self.position + self.batch_size > len(self.order):
            self.order = torch.randperm(SAMPLES)
            self.position = 0
        batch = self.order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        images = functional.resize(self.images[batch], [224, 224], antialias=True)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(images, self.labels[batch])
        loss.backward()
        self.optimizer.step()
        return loss.detach()


if __name__ == "__main__":
    blocks.serve(Job)
