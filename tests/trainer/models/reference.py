# SPDX-License-Identifier: Apache-2.0
"""Writes data/*.json: what PyTorch, torchvision and timm say about the models and optimizers of trainer/.

What both sides compute by the same formula, exactly, is not stored: formula.py.

    python tests/trainer/models/reference.py    (torch, torchvision and timm; a minute)
"""
import math

import timm
import torch
import torchvision
from formula import describe, numbers, write
from torch import nn


def convolution(channels: int, outputs: int) -> nn.Module:
    return nn.Conv2d(channels, outputs, 3, padding=1)


def halved(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.max_pool2d(nn.functional.relu(x), 2)


class SimpleCnn(nn.Module):
    def __init__(self, size: int, classes: int):
        super().__init__()
        self.conv1 = convolution(3, 128)
        self.conv2 = convolution(128, 128)
        self.conv3 = convolution(128, 128)
        self.conv4 = convolution(128, 128)
        self.hidden = nn.Linear(128 * (size // 16) ** 2, 256)
        self.output = nn.Linear(256, classes)

    def forward(self, x):
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = halved(layer(x))
        return self.output(nn.functional.relu(self.hidden(x.flatten(1))))


class PoolingCnn(nn.Module):
    def __init__(self, size: int, hidden: int, classes: int):
        super().__init__()
        self.first = convolution(3, hidden)
        halvings = int(math.log2(size))
        self.halving = nn.ModuleList([convolution(hidden, hidden) for _ in range(halvings)])
        self.last = convolution(hidden, classes)

    def forward(self, x):
        x = nn.functional.relu(self.first(x))
        for layer in self.halving:
            x = halved(layer(x))
        return self.last(x).flatten(1)


def vit_spec(size: str, classes: int, **other) -> dict:
    values = {"type": "vit", "size": size, "patch": 16, "pool": "token", "patch_dropout": 0.0}
    return {**values, "classes": classes, **other}


def vit(size: str, classes: int, **other):
    return lambda: timm.create_model(f"vit_{size}_patch16_224", num_classes=classes, **other)


def small_vit(classes: int, **other):
    shape = {"img_size": 32, "patch_size": 8, "depth": 2, "embed_dim": 32, "num_heads": 4}
    return vit("tiny", classes, **{**shape, **other})


def models() -> list[dict]:
    both = {"samples": 4, "training": True}
    forward = {"samples": 2, "training": False}
    colour = [3, 224, 224]
    small = {"patch": 8, "depth": 2, "embed": 32, "heads": 4}
    resnets = torchvision.models
    return [
        describe(
            {"type": "simple_cnn", "classes": 10}, [3, 32, 32], lambda: SimpleCnn(32, 10), both
        ),
        describe(
            {"type": "pooling_cnn", "hidden_channels": 30, "classes": 10},
            [3, 32, 32],
            lambda: PoolingCnn(32, 30, 10),
            both,
        ),
        describe({"type": "resnet18", "classes": 1000}, colour, resnets.resnet18),
        describe({"type": "resnet50", "classes": 1000}, colour, resnets.resnet50),
        describe(
            {"type": "resnet18", "classes": 10},
            [3, 64, 64],
            lambda: resnets.resnet18(num_classes=10),
            both,
        ),
        describe(
            {"type": "resnet50", "classes": 10},
            [3, 64, 64],
            lambda: resnets.resnet50(num_classes=10),
            both,
        ),
        describe(vit_spec("tiny", 1000), colour, vit("tiny", 1000)),
        describe(vit_spec("small", 1000), colour, vit("small", 1000)),
        describe(vit_spec("base", 1000), colour, vit("base", 1000)),
        describe(vit_spec("tiny", 10), colour, vit("tiny", 10), forward),
        describe(vit_spec("tiny", 10, **small), [3, 32, 32], small_vit(10), both),
        describe(
            vit_spec("tiny", 10, **small, pool="avg"),
            [3, 32, 32],
            small_vit(10, global_pool="avg"),
            both,
        ),
        describe(
            vit_spec("tiny", 10, **{**small, "depth": 0}),
            [3, 32, 32],
            small_vit(10, depth=0),
            both,
        ),
        # The noise that chooses the patches comes from manual_seed(5) on both sides.
        describe(
            vit_spec("tiny", 10, **small, patch_dropout=0.5),
            [3, 32, 32],
            small_vit(10, patch_drop_rate=0.5),
            both,
        ),
    ]


class Lion(torch.optim.Optimizer):
    """PyTorch has none: program 1 of "Symbolic Discovery of Optimization Algorithms"."""

    def __init__(self, parameters, lr: float, betas: list[float], weight_decay: float):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        for group in self.param_groups:
            rate, (beta1, beta2) = group["lr"], group["betas"]
            for parameter in group["params"]:
                mean = self.state[parameter].setdefault("mean", torch.zeros_like(parameter))
                parameter.mul_(1 - rate * group["weight_decay"])
                mixture = mean.mul(beta1).add_(parameter.grad, alpha=1 - beta1)
                parameter.add_(mixture.sign_(), alpha=-rate)
                mean.mul_(beta2).add_(parameter.grad, alpha=1 - beta2)


def optimizers() -> list[dict]:
    """Five steps; the bits of the parameters afterwards."""
    betas = {"betas": [0.9, 0.99], "eps": 1e-8}
    cases = [
        ({"type": "sgd", "momentum": m, "weight_decay": d, "nesterov": n}, torch.optim.SGD)
        for m, d, n in [(0.0, 0.0, False), (0.9, 0.01, False), (0.9, 0.01, True)]
    ]
    for decay in (0.0, 0.01):
        cases.append(({"type": "adam", **betas, "weight_decay": decay}, torch.optim.Adam))
        cases.append(({"type": "adamw", **betas, "weight_decay": decay}, torch.optim.AdamW))
    for rate_decay, initial, decay in [(0.0, 0.0, 0.0), (0.1, 0.5, 0.01)]:
        spec = {"type": "adagrad", "lr_decay": rate_decay, "eps": 1e-10}
        spec |= {"initial_accumulator_value": initial, "weight_decay": decay}
        cases.append((spec, torch.optim.Adagrad))
    for decay in (0.0, 0.01):
        spec = {"type": "nadam", **betas, "momentum_decay": 0.004, "weight_decay": decay}
        cases.append((spec, torch.optim.NAdam))
        cases.append(({"type": "lion", "betas": [0.9, 0.99], "weight_decay": decay}, Lion))
    for momentum, centered, decay in [(0.0, False, 0.0), (0.5, False, 0.01), (0.5, True, 0.01)]:
        spec = {"type": "rmsprop", "alpha": 0.9, "eps": 1e-8, "momentum": momentum}
        spec |= {"centered": centered, "weight_decay": decay}
        cases.append((spec, torch.optim.RMSprop))
    entries = []
    for spec, kind in cases:
        parameters = [
            nn.Parameter(numbers(count, i).to(torch.float32)) for i, count in enumerate([7, 40])
        ]
        arguments = {key: value for key, value in spec.items() if key != "type"}
        optimizer = kind(parameters, lr=0.1, **arguments)
        for step in range(5):
            for i, parameter in enumerate(parameters):
                gradient = numbers(parameter.numel(), 100 + 10 * step + i)
                parameter.grad = gradient.to(torch.float32)
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + step)
            optimizer.step()
        bits = [p.detach().view(torch.int32).tolist() for p in parameters]
        entries.append({"optimizer": spec, "bits": bits})
    return entries


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("models.json", models())
    write("optimizers.json", optimizers())
