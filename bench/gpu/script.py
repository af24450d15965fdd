# SPDX-License-Identifier: Apache-2.0
"""A training script as people write them, for `autotuned run`: a small network on pictures of a DataLoader, nothing tuned.

usage: script.py [--seconds 20] [--device cuda]

Trains that long, and prints one line of JSON: the rate of the last quarter of the time, and the device.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LAST_PART = 0.75  # of the time, where the last quarter begins


def pictures(count):
    return TensorDataset(torch.rand(count, 3, 64, 64), torch.arange(count) % 10)


def network():
    layers = []
    for inputs, outputs in ((3, 64), (64, 128), (128, 256), (256, 256)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(256, 10))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--pictures", type=int, default=8192)
    parser.add_argument("--batch", type=int, default=128)
    given = parser.parse_args()
    device = torch.device(given.device)
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    torch.manual_seed(1)
    model = network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(pictures(given.pictures), batch_size=given.batch, shuffle=True, drop_last=True)
    begin = time.monotonic()
    last_part = None  # when it began
    samples = 0
    is_over = False
    while not is_over:
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
            seconds = time.monotonic() - begin
            if last_part is not None:
                samples += len(labels)
                is_over = seconds >= given.seconds
                if is_over:
                    break
            elif seconds >= LAST_PART * given.seconds:
                synchronize()
                last_part = time.monotonic()
    synchronize()
    seconds = time.monotonic() - last_part
    print(json.dumps({"samples_per_second": samples / seconds, "device": str(next(model.parameters()).device)}))


if __name__ == "__main__":
    main()
