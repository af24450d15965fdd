# SPDX-License-Identifier: Apache-2.0
"""A classifier with dropout and batch normalisation; evaluates and saves after each epoch."""

import argparse
import io
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from common import finish, images


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(8 * 16, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return F.log_softmax(self.head(self.drop(torch.flatten(x, 1))), dim=1)


def train(model, loader, optimizer):
    model.train()
    for data, target in loader:
        optimizer.zero_grad(set_to_none=not arguments.zeros)
        loss = F.nll_loss(model(data), target)
        loss.backward()
        if arguments.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def test(model, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for data, target in loader:
            right += int((model(data).argmax(1) == target).sum())
    print("right", right)
    torch.save(model.state_dict(), io.BytesIO())


def main():
    torch.manual_seed(7)
    model = Net()
    if arguments.optimizer == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    train_loader = DataLoader(
        images(),
        batch_size=8,
        shuffle=True,
        num_workers=arguments.workers,
        persistent_workers=arguments.persistent,
    )
    test_loader = DataLoader(images(32, 2), batch_size=16)
    for _ in range(arguments.epochs):
        train(model, train_loader, optimizer)
        test(model, test_loader)
        scheduler.step()
    print("pid", os.getpid())
    finish(model)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--zeros", action="store_true")
    parser.add_argument("--clip", action="store_true")
    arguments = parser.parse_args()
    main()
