# SPDX-License-Identifier: Apache-2.0
"""Trains on pictures in folders, with transforms of torchvision."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch import nn
from torch.utils.data import DataLoader

import fake_torchvision

sys.modules.update(fake_torchvision.modules())

from torchvision import datasets, transforms

from common import finish


def stages():
    flips = [transforms.RandomHorizontalFlip()] if arguments.draws else []
    ends = [transforms.ToTensor(), transforms.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.25])]
    return transforms.Compose([transforms.CenterCrop(8), *flips, *ends])


def main():
    torch.manual_seed(7)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = datasets.ImageFolder(arguments.root, stages())
    loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=arguments.workers)
    for _ in range(arguments.epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
    finish(model)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--draws", action="store_true")
    arguments = parser.parse_args()
    main()
