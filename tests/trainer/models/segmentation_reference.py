# SPDX-License-Identifier: Apache-2.0
"""Writes data/segmentation.json: what a U-Net and the losses of masks compute in torch.nn.

The network is that of github.com/milesial/Pytorch-UNet without bilinear, of any width and depth.

    python tests/trainer/models/segmentation_reference.py    (torch alone; seconds)
"""
import json
import math

import torch
from formula import DATA, describe, fill, images_of, norms, numbers, short
from torch import nn
from torch.nn import functional

NO_CLASS = 255
MASKS = 2_000_000  # the numbers of masks and logits in the formula
LOGITS = 3_000_000


class DoubleConv(nn.Module):
    def __init__(self, channels: int, width: int):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, channels: int, width: int):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(channels, width))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, channels // 2, 2, stride=2)
        self.conv = DoubleConv(channels, channels // 2)

    def forward(self, x, skipped):
        return self.conv(torch.cat([skipped, self.up(x)], dim=1))


class OutConv(nn.Module):
    def __init__(self, channels: int, classes: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, classes, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, channels: int, width: int, depth: int, classes: int):
        super().__init__()
        self.depth = depth
        self.inc = DoubleConv(channels, width)
        for i in range(1, depth + 1):
            setattr(self, f"down{i}", Down(width << (i - 1), width << i))
        for i in range(1, depth + 1):
            setattr(self, f"up{i}", Up(width << (depth - i + 1)))
        self.outc = OutConv(width, classes)

    def forward(self, x):
        found = [self.inc(x)]
        for i in range(1, self.depth + 1):
            found.append(getattr(self, f"down{i}")(found[-1]))
        x = found.pop()
        for i in range(1, self.depth + 1):
            x = getattr(self, f"up{i}")(x, found.pop())
        return self.outc(x)


def masks_of(shape: list[int], classes: int) -> torch.Tensor:
    """Classes, and one more number for pixels that do not count."""
    drawn = ((numbers(math.prod(shape), MASKS) + 1) / 2 * (classes + 1)).long().reshape(shape)
    return torch.where(drawn == classes, NO_CLASS, drawn)


def cross_entropy(logits, masks, weight=None, smoothing=0.0):
    return functional.cross_entropy(
        logits, masks, weight=weight, ignore_index=NO_CLASS, label_smoothing=smoothing
    )


def dice(logits, masks, smooth=1e-5):
    """Sample by sample and class by class, as its definition says."""
    shares = torch.softmax(logits, 1)
    values = []
    for i in range(logits.size(0)):
        counts = masks[i] != NO_CLASS
        for k in range(logits.size(1)):
            found = shares[i, k][counts]
            there = (masks[i][counts] == k).to(logits.dtype)
            overlap = (found * there).sum()
            values.append((2 * overlap + smooth) / (found.sum() + there.sum() + smooth))
    return 1 - torch.stack(values).mean()


def of_network() -> list[dict]:
    small = [2, 8, 12]
    spec = {"type": "unet", "width": 4, "depth": 2, "classes": 3}
    entry = describe(spec, small, lambda: UNet(2, 4, 2, 3))
    model = UNet(2, 4, 2, 3)
    fill(model)
    model.double()
    images = images_of([2, *small]).double()
    model.eval()
    with torch.no_grad():
        entry["eval_output"] = short(model(images).flatten().tolist())
    model.train()
    loss = cross_entropy(model(images), masks_of([2, 8, 12], 3))
    loss.backward()
    entry["loss"] = loss.item()
    entry["gradient_norms"] = norms(p.grad for p in model.parameters())
    entry["buffer_sums"] = short(b.double().sum().item() for b in model.buffers())
    usual = {"type": "unet", "width": 64, "depth": 4, "classes": 2}
    return [entry, describe(usual, [3, 32, 32], lambda: UNet(3, 64, 4, 2))]


def of_losses() -> list[dict]:
    masks = masks_of([3, 4, 5], 4)
    masks[2][masks[2] == 1] = 0  # a class that a sample does not have
    entries = []
    for parameters, compute in [
        ({"type": "cross_entropy"}, cross_entropy),
        (
            {"type": "cross_entropy", "label_smoothing": 0.1},
            lambda x, y: cross_entropy(x, y, smoothing=0.1),
        ),
        (
            {"type": "cross_entropy", "class_weights": [1, 2, 0.5, 3]},
            lambda x, y: cross_entropy(x, y, torch.tensor([1, 2, 0.5, 3])),
        ),
        (
            {"type": "cross_entropy", "class_weights": [1, 2, 0.5, 3], "label_smoothing": 0.2},
            lambda x, y: cross_entropy(x, y, torch.tensor([1, 2, 0.5, 3]), 0.2),
        ),
        ({"type": "dice"}, dice),
        ({"type": "dice", "smooth": 1}, lambda x, y: dice(x, y, 1.0)),
        ({"type": "dice_ce"}, lambda x, y: cross_entropy(x, y) + dice(x, y)),
        (
            {"type": "dice_ce", "class_weights": [1, 2, 0.5, 3], "dice_weight": 0.25},
            lambda x, y: cross_entropy(x, y, torch.tensor([1, 2, 0.5, 3])) + 0.25 * dice(x, y),
        ),
    ]:
        logits = (3 * numbers(240, LOGITS)).to(torch.float32).reshape(3, 4, 4, 5)
        logits.requires_grad_()
        loss = compute(logits, masks)
        loss.backward()
        entries.append(
            {
                "parameters": parameters,
                "loss": loss.item(),
                "gradient": short(logits.grad.flatten().tolist()),
            }
        )
    return entries


if __name__ == "__main__":
    torch.set_num_threads(1)
    lines = [json.dumps(entry, separators=(",", ":")) for entry in [*of_network(), *of_losses()]]
    (DATA / "segmentation.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
