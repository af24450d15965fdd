# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 in PyTorch on the GPU, the settings those of the recipe RESNET of jobs.py. Prints one line of JSON.

usage: torch_peer.py rate [--batch 64] [--compile]
       torch_peer.py trace FILE [--batch 64]
"""

import argparse
import json
import time

STEPS, WARMUP = 10, 5
RATE_SECONDS = 10


def basic_block(torch, inputs, outputs, stride):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or inputs != outputs:
                self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                                nn.BatchNorm2d(outputs))

        def forward(self, x):
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            return self.relu(y + (x if self.downsample is None else self.downsample(x)))

    return Block()


def resnet18(torch):
    nn = torch.nn
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [basic_block(torch, channels, outputs, stride), basic_block(torch, outputs, outputs, 1)]
        channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Job:
    def __init__(self, torch, batch, is_compiled):
        torch.manual_seed(1)
        self.torch = torch
        self.batch = batch
        self.model = resnet18(torch).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001, momentum=0.9)
        # As much as a loader would have ready: batches in page-locked memory, copied beside the step.
        self.pictures = [torch.rand(batch, 3, 224, 224).pin_memory() for _ in range(4)]
        self.labels = [(torch.arange(batch) % 1000).pin_memory() for _ in range(4)]
        self.loss = torch.compile(self.loss_of) if is_compiled else self.loss_of
        self.steps = 0

    def loss_of(self, pictures, labels):
        return self.torch.nn.functional.cross_entropy(self.model(pictures), labels)

    def step(self):
        place = self.steps % len(self.pictures)
        self.steps += 1
        pictures = self.pictures[place].cuda(non_blocking=True)
        labels = self.labels[place].cuda(non_blocking=True)
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(pictures, labels).backward()
        self.optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["rate", "trace"])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--compile", action="store_true")
    given = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("torch sees no GPU")
    job = Job(torch, given.batch, given.compile)
    for _ in range(WARMUP):
        job.step()
    torch.cuda.synchronize()
    if given.what == "rate":
        begin, steps = time.monotonic(), 0
        while time.monotonic() - begin < RATE_SECONDS:
            for _ in range(STEPS):
                job.step()
            torch.cuda.synchronize()
            steps += STEPS
        seconds = time.monotonic() - begin
        print(json.dumps({"samples_per_second": steps * given.batch / seconds, "torch": torch.__version__}))
        return
    from torch.profiler import ProfilerActivity, profile, schedule

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                 schedule=schedule(wait=0, warmup=WARMUP, active=STEPS),
                 on_trace_ready=lambda done: done.export_chrome_trace(given.file)) as recording:
        for _ in range(WARMUP + STEPS):
            job.step()
            recording.step()
    print(json.dumps({"steps": STEPS, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
