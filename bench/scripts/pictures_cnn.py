# SPDX-License-Identifier: Apache-2.0
"""A training that waits for its pictures: a small network on a folder of JPEG files, written as people write it.

    python3 bench/scripts/pictures_cnn.py FOLDER --epochs 2

For beside_loadtune.py. The options set what the tuner loadtune can choose; without them the `DataLoader` is PyTorch's
plain one. loadtune builds the `DataLoader` by itself, from the parts that get_workload() hands to it.
"""

import argparse
import contextlib
import os

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

BATCH = 32


def make_dataset(folder: str) -> datasets.ImageFolder:
    return datasets.ImageFolder(folder, transforms.Compose([
        transforms.Resize(72), transforms.CenterCrop(64), transforms.ToTensor(),
        transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))]))


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(32 * 16, 10))


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch, device) -> torch.Tensor:
    images, labels = batch[0].to(device), batch[1].to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss


def get_workload():
    from loadtune.workload import Workload

    # loadtune gives its workloads no arguments.
    return Workload(name="pictures", make_dataset=lambda: make_dataset(os.environ["PICTURES"]), make_model=make_model,
                    train_step=train_step, make_optimizer=make_optimizer, default_batch_size=BATCH)


def main() -> None:
    parser = argparse.ArgumentParser(description="A small network on a folder of pictures.")
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--prefetch", type=int)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    loader = DataLoader(make_dataset(arguments.folder), batch_size=BATCH, shuffle=True, drop_last=True,
                        num_workers=arguments.workers, prefetch_factor=arguments.prefetch,
                        persistent_workers=arguments.persistent, pin_memory=arguments.pin)
    device = torch.device("cpu")
    model = make_model()
    if arguments.compile:
        model = torch.compile(model)
    optimizer = make_optimizer(model)
    precision = torch.autocast("cpu", torch.bfloat16) if arguments.amp else contextlib.nullcontext()
    for epoch in range(arguments.epochs):
        for batch in loader:
            with precision:
                loss = train_step(model, optimizer, batch, device)
        print(f"epoch {epoch}: loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
