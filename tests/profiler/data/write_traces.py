# SPDX-License-Identifier: Apache-2.0
"""Writes the small CPU traces of this folder with torch.profiler.

usage: python3 write_traces.py FOLDER     (needs PyTorch; the tree's were written with 2.11)

classifier.pt.trace.json.gz   a small CNN, a DataLoader without workers over 8-bit images, shapes and memory
workers.pt.trace.json.gz      the same with two workers, gradients filled with zeros, loss read every step
unmarked.pt.trace.json.gz     no schedule, so no steps are marked
stacks.pt.trace.json.gz       one step with the calls of Python functions
"""

import gzip
import os
import sys
import tempfile

import torch
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(1)
        self.images = torch.randint(0, 256, (count, 3, 16, 16), dtype=torch.uint8, generator=generator)
        self.labels = torch.randint(0, 10, (count,), generator=generator)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index].to(torch.float32).div(255), self.labels[index]


def model():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(32 * 8 * 8, 10))


def save(profiler, path):
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(plain)
        with open(plain, "rb") as source, gzip.GzipFile(path, "wb", mtime=0) as target:
            text = source.read().replace(plain.encode(), b"trace.json")
            target.write(text)


def train(path, workers, steps, set_to_none, reads_loss, marks_steps, **options):
    torch.manual_seed(1)
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    loss_function = torch.nn.CrossEntropyLoss()
    loader = DataLoader(Images((steps + 3) * 4), batch_size=4, num_workers=workers)
    plan = schedule(wait=1, warmup=1, active=steps, repeat=1) if marks_steps else None
    written = lambda profiler: save(profiler, path) if marks_steps else None
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=written,
                 **options) as profiler:
        for images, labels in loader:
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = loss_function(network(images), labels)
            loss.backward()
            optimizer.step()
            if reads_loss:
                loss.item()
            if marks_steps:
                profiler.step()
    if not marks_steps:
        save(profiler, path)


def main():
    torch.set_num_threads(1)
    folder = sys.argv[1]
    train(os.path.join(folder, "classifier.pt.trace.json.gz"), workers=0, steps=4, set_to_none=True,
          reads_loss=False, marks_steps=True, record_shapes=True, profile_memory=True)
    train(os.path.join(folder, "workers.pt.trace.json.gz"), workers=2, steps=6, set_to_none=False,
          reads_loss=True, marks_steps=True)
    train(os.path.join(folder, "unmarked.pt.trace.json.gz"), workers=0, steps=1, set_to_none=True,
          reads_loss=False, marks_steps=False)
    train(os.path.join(folder, "stacks.pt.trace.json.gz"), workers=0, steps=1, set_to_none=True,
          reads_loss=False, marks_steps=True, with_stack=True)


if __name__ == "__main__":
    main()
