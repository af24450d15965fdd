# SPDX-License-Identifier: Apache-2.0
"""The hello of the package and its description of the script (docs/trainer-protocol.md)."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

import torch

from .. import VERSION
from ..checks import cotangent, twin
from ..knobs import knobs as knob_table
from ..knobs.knobs import Knobs
from ..loop import length
from ..loop.loaders import FoundLoader
from ..loop.script import Script
from ..loop.steps import name_of

Json = dict[str, Any]

PROTOCOL = 1


def _uuid_of(device: Any) -> str:
    """The UUID of a GPU. PyTorch tells it since 2.4."""
    return str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))


def of_agent() -> Json:
    """The hello, sent before the script's first line behind `import torch`.

    Whoever asks CUDA first, were it only whether there is a GPU, decides for the script: from
    then on CUDA_VISIBLE_DEVICES changes nothing, and no child that is forked can use a GPU.
    """
    has_cuda = torch.cuda.is_initialized()
    count = torch.cuda.device_count() if has_cuda else 0
    reason = "" if has_cuda else "the script has not used CUDA yet"
    return {
        "protocol": PROTOCOL,
        "trainer": f"autotuned-script {VERSION}",
        "libtorch": torch.__version__,
        "pid": os.getpid(),
        "owns_loop": False,
        "python": platform.python_version(),
        "script": sys.argv[0],
        "devices": ["cpu"] + [f"cuda:{number}" for number in range(count)],
        "device_uuids": [_uuid_of(number) for number in range(count)],
        "cuda_reason": reason,
        "cupti_reason": reason,
        "knobs": knob_table.names(),
    }


def of_script(script: Script, knobs: Knobs) -> Json:
    """The answer of `load`."""
    parameters = script.parameters()
    device = script.device()
    is_cuda = device.type == "cuda"
    training = script.training_loader()
    loader = training.loader if training is not None else None
    return {
        "step": [name_of(token) for token in script.detector.pattern],
        "boundary": name_of(script.detector.boundary),
        "steps": script.clock.steps,
        "samples_per_step": _samples_per_step(script),
        "roots": [
            {
                "type": type(root.module).__name__,
                "parameters": sum(one.numel() for one in root.module.parameters()),
                "device": str(root.device),
                "called_at": root.called_at,
                "input_dims": root.input_dims or [],
                "output_dims": root.output_dims or [],
                "training": root.module.training,
            }
            for root in script.roots
        ],
        "optimizers": [
            {
                "type": type(one).__name__,
                "parameters": sum(
                    p.numel() for group in one.param_groups for p in group["params"]
                ),
                "made_at": script.made_at.get(one, ""),
            }
            for one in script.optimizers
        ],
        "loaders": [_loader(found) for found in script.loaders],
        "parameters": sum(one.numel() for one in parameters),
        "parameter_bytes": sum(one.numel() * one.element_size() for one in parameters),
        "has_filters": any(one.dim() == 4 for one in parameters),
        "train_samples": _length(loader),
        **length.left_of(script, loader, _samples_per_step(script)),
        "device": str(device),
        "device_uuid": _uuid_of(device) if is_cuda else "",
        "device_memory_bytes": (
            torch.cuda.get_device_properties(device).total_memory if is_cuda else 0
        ),
        "configuration": dict(knobs.own),
        "knobs": [knob.to_json() for knob in knobs.knobs.values()],
        "checks": {
            "twin": twin.obstacle_of(script),
            "cotangent": cotangent.obstacle_of(script),
        },
        "notes": list(knobs.notes),
    }


def _samples_per_step(script: Script) -> int:
    training = script.training_loader()
    loader = training.loader if training is not None else None
    size = getattr(loader, "batch_size", None)
    return (size or 0) * sum(kind == "batch" for kind, _ in script.detector.pattern)


def _length(loader: Any) -> int:
    try:
        return len(loader.dataset)
    except (TypeError, AttributeError, NotImplementedError):
        return 0


def _loader(found: FoundLoader) -> Json:
    loader = found.loader
    return {
        "type": type(loader).__name__ if loader is not None else "",
        "made_at": found.made_at,
        "batch_size": getattr(loader, "batch_size", None) or 0,
        "is_trained_from": found.is_trained_from,
        "obstacle": found.obstacle,
    }
