# SPDX-License-Identifier: Apache-2.0
"""The knob of PyTorch's compiler."""

from __future__ import annotations

import dataclasses

import torch

from ..loop.memory import shortage_of_graphs
from ..loop.script import Script
from ..parts import compiling
from .knob import Knob, Value


def compile_knob(script: Script) -> Knob:
    def set_mode(value: Value) -> None:
        if value == compiling.GRAPHS:
            # Memory that was kept for steps without graphs is no use to them.
            torch.cuda.empty_cache()
        script.forward = dataclasses.replace(script.forward, compiled=str(value))

    knob = Knob(
        "model.compile",
        compiling.OFF,
        "numerics",
        "Outermost modules run through torch.compile, in the mode of this name.",
        set_mode,
        choices=[compiling.OFF, *compiling.MODES],
        warmup_steps=3,
        one_time_cost="compiling the forward and backward pass",
    )
    if not script.roots:
        knob.unavailable = "the script calls no module in training mode"
    elif any(root.is_compiled for root in script.roots):
        knob.unavailable = "the script compiles by itself"
    elif any(isinstance(root.module, torch.jit.ScriptModule) for root in script.roots):
        knob.unavailable = "a module is TorchScript"
    elif script.differentiates_twice:
        knob.unavailable = "compiled code has no second derivative, which the script takes"
    else:
        knob.unavailable = compiling.obstacle_of(script.device())
    kinds = [kind for kind, _ in script.detector.pattern]
    if script.device().type != "cuda":
        knob.unavailable_choices = {compiling.GRAPHS: "CUDA graphs need a CUDA GPU"}
    elif kinds.count("forward") != 1 or kinds.count("backward") != 1:
        # A graph writes its results to the same place each time.
        knob.unavailable_choices = {
            compiling.GRAPHS: "a step has several forward or backward passes"
        }
    elif shortage := shortage_of_graphs(script):
        knob.unavailable_choices = {compiling.GRAPHS: shortage}
    return knob
