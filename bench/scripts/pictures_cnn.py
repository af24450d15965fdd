# SPDX-License-Identifier: Apache-2.0
"""A training that waits for its pictures: a small network on a folder of JPEG files, written as people write it.

    python3 bench/scripts/pictures_cnn.py FOLDER --epochs 2

One of the scripts of beside_loadtune.py.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

BATCH = 32
TRANSFORM = transforms.Compose([
    transforms.Resize(72), transforms.CenterCrop(64), transforms.ToTensor(),
    transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))])


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(32 * 16, 10))


def main() -> None:
    parser = argparse.ArgumentParser(description="A small network on a folder of pictures.")
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    pictures = datasets.ImageFolder(arguments.folder, TRANSFORM)
    loader = DataLoader(pictures, batch_size=BATCH, shuffle=True, drop_last=True)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(arguments.epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
