# SPDX-License-Identifier: Apache-2.0
"""Parameters, buffers and images that the reference and the tests (formula.hpp) compute alike, exactly."""
import json
import math
import pathlib

import torch
from torch import nn

DATA = pathlib.Path(__file__).parent / "data"
IMAGES = 1_000_000  # the number that the images have in the formula


def numbers(count: int, which: int) -> torch.Tensor:
    """`count` doubles from -1 to below 1 that look random; element j of tensor `which`."""
    word = 0xFFFFFFFF
    h = torch.arange(count, dtype=torch.int64) * 0x9E3779B1 + (which * 0x85EBCA6B & word) & word
    h ^= h >> 15
    h = h * 0x2C1B3C6D & word
    h ^= h >> 12
    h = h * 0x297A2D39 & word
    h ^= h >> 15
    return h.double() / 2147483648.0 - 1.0


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


def write(name: str, entries: list[dict]) -> None:
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    (DATA / name).write_text(f"[\n{lines}\n]\n")
