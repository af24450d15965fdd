# SPDX-License-Identifier: Apache-2.0
"""Writes data/*.json: what PyTorch, torchvision and timm say about the models and optimizers of trainer/.

Parameters, buffers and images are not stored: both sides compute them by the same formula, exactly.

    python tests/trainer/models/reference.py    (torch, torchvision, timm and numpy; a minute)
"""
import json
import math
import pathlib

import numpy
import timm
import torch
import torchvision
from torch import nn

DATA = pathlib.Path(__file__).parent / "data"
IMAGES = 1_000_000  # the number that the images have in the formula


def numbers(count: int, which: int) -> torch.Tensor:
    """`count` doubles from -1 to below 1 that look random; element j of tensor `which`."""
    with numpy.errstate(over="ignore"):
        h = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(0x9E3779B1)
        h += numpy.uint32(which * 0x85EBCA6B & 0xFFFFFFFF)
        h ^= h >> 15
        h *= numpy.uint32(0x2C1B3C6D)
        h ^= h >> 12
        h *= numpy.uint32(0x297A2D39)
        h ^= h >> 15
    return torch.from_numpy(h.astype(numpy.float64) / 2147483648.0 - 1.0)


def fill(model: nn.Module) -> None:
    """By name: what keeps activations of about the same size through the layers."""
    with torch.no_grad():
        tensors = list(model.named_parameters()) + list(model.named_buffers())
        for i, (name, tensor) in enumerate(tensors):
            if not tensor.is_floating_point():
                continue
            values = numbers(tensor.numel(), i)
            if name.endswith("running_var"):
                values = 1.0 + 0.5 * values
            elif "." not in name:  # cls_token, pos_embed
                values = 0.5 * values
            elif tensor.dim() > 1:
                values = math.sqrt(3.0 * tensor.size(0) / tensor.numel()) * values
            elif name.endswith("weight"):
                values = 1.0 + 0.1 * values
            else:
                values = 0.1 * values
            tensor.copy_(values.to(torch.float32).reshape(tensor.shape))


def images_of(shape: list[int]) -> torch.Tensor:
    return numbers(math.prod(shape), IMAGES).to(torch.float32).reshape(shape)


def short(values) -> list[float]:
    return [float(f"{value:.10g}") for value in values]


def norms(tensors) -> list[float]:
    return short(tensor.detach().double().norm().item() for tensor in tensors)


def names_of(model: nn.Module) -> list[str]:
    return [f"{name} {list(tensor.shape)}" for name, tensor in model.named_parameters()]


def describe(spec: dict, sample: list[int], build, outputs: dict | None = None, seed=None) -> dict:
    """Counts and names; with `outputs` (samples, training), what the model computes."""
    torch.manual_seed(3)
    model = build()
    entry = {
        "model": spec,
        "sample": sample,
        "parameters": sum(p.numel() for p in model.parameters()),
        "names": names_of(model),
        "buffers": [name for name, _ in model.named_buffers()],
        # The initial state after manual_seed(3).
        "initial_norms": norms(model.parameters()),
    }
    if outputs is None:
        return entry
    # In double precision: what is left are differences of the mathematics.
    fill(model)
    model.double()
    images = images_of([outputs["samples"], *sample]).double()
    entry["samples"] = outputs["samples"]
    model.eval()
    with torch.no_grad():
        entry["eval_output"] = short(model(images).flatten().tolist())
    if not outputs["training"]:
        return entry
    model.train()
    torch.manual_seed(5)
    logits = model(images)
    labels = torch.arange(outputs["samples"]) % logits.size(1)
    loss = nn.functional.cross_entropy(logits, labels)
    loss.backward()
    entry["loss"] = loss.item()
    entry["gradient_norms"] = norms(p.grad for p in model.parameters())
    entry["buffer_sums"] = short(b.double().sum().item() for b in model.buffers())
    return entry


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
        bits = [p.detach().numpy().view(numpy.int32).tolist() for p in parameters]
        entries.append({"optimizer": spec, "bits": bits})
    return entries


def write(name: str, entries: list[dict]) -> None:
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    (DATA / name).write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    DATA.mkdir(exist_ok=True)
    write("models.json", models())
    write("optimizers.json", optimizers())
