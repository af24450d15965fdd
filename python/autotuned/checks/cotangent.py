# SPDX-License-Identifier: Apache-2.0
"""The check "cotangent": for scripts that a shadow cannot follow.

The forward passes of real steps are repeated, from the same inputs, buffers and random numbers,
under the configuration in force and under the others. The gradient that the script's own loss
sent into what a module returned is pulled back through all of them, and the gradients of the
parameters are compared instead of updates.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from ..knobs.knobs import Knobs
from ..loop.script import Root, Script
from ..loop.watch import Check, Original
from ..parts import compiling
from ..parts.draws import OtherMasks, Unshadowable
from ..parts.tensors import RandomState, map_tensors, tensors_in
from .compare import Json, Side, compare
from .shadow import APPLIED_KNOBS, Shadow
from .twin import raise_failure


def obstacle_of(script: Script) -> str:
    if not script.roots:
        return "the script calls no module in training mode"
    return ""


class _Call:
    """A real forward pass, with everything that is needed to repeat it."""

    def __init__(self, root: Root, args: Any, kwargs: Any) -> None:
        def kept(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.detach().clone()

        self.root = root
        self.args = map_tensors(kept, args)
        self.kwargs = map_tensors(kept, kwargs)
        self.random = RandomState()
        self.cotangents: dict[int, torch.Tensor] = {}  # by the number of the output
        self.shadow_values: list[dict[str, torch.Tensor]] = []

    def watch(self, out: Any) -> None:
        for number, tensor in enumerate(tensors_in(out)):
            if tensor.requires_grad:
                tensor.register_hook(lambda gradient, number=number: self._add(number, gradient))

    def _add(self, number: int, gradient: torch.Tensor) -> None:
        known = self.cotangents.get(number)
        self.cotangents[number] = gradient.detach().clone() if known is None else known + gradient


class CotangentCheck(Check):
    """Begins at a boundary. After each step the caller asks is_over(); result() ends it."""

    method = "cotangent"
    applied_knobs = APPLIED_KNOBS

    def __init__(self, script: Script, knobs: Knobs, shadows: list[Shadow], steps: int) -> None:
        super().__init__(script)
        self._steps_left = steps
        # The first is the configuration in force itself, so that all are computed in the same
        # way.
        self._shadows = [Shadow(script, knobs, dict(knobs.now), is_rounded=False), *shadows]
        self._parameters = [
            parameter for parameter in script.parameters() if parameter.requires_grad
        ]
        names = script.names()
        self._names = [names[id(parameter)] for parameter in self._parameters]
        self._sums = [
            [
                torch.zeros_like(parameter, memory_format=torch.contiguous_format)
                for parameter in self._parameters
            ]
            for _ in self._shadows
        ]
        self._calls: list[_Call] = []
        self._losses: list[torch.Tensor | None] = []
        self._has_pulled = False
        # Then masks of dropout would differ, and nothing would be said about the rounding.
        self._is_compiled = any(
            shadow.draws_otherwise_than(self._shadows[0].forward) for shadow in shadows
        )
        self._why_without_dropout = "compiled, it draws other masks" if self._is_compiled else ""
        self._has_dropout = False

    def forward(self, root: Root, args: Any, kwargs: Any) -> Any:
        call = None
        try:
            if not self._has_failed():
                call = _Call(root, args, kwargs)
                self._take_over(call)
        except Exception as error:
            self._fail(error)
        out = self._script.run_forward(root, args, kwargs)
        try:
            if call is not None and not self._has_failed():
                call.watch(out)
                self._calls.append(call)
        except Exception as error:
            self._fail(error)
        return out

    def _take_over(self, call: _Call) -> None:
        """Copies parameters and buffers as they are before this forward pass."""
        for shadow in self._shadows:
            shadow.take_over()
            call.shadow_values.append(shadow.of_root[call.root.index])

    def backward(self, original: Original, tensors: Any, args: Any, kwargs: Any) -> Any:
        for call in self._calls:
            call.cotangents = {}
        result = original(tensors, *args, **kwargs)
        now = RandomState()
        try:
            if not self._has_failed():
                self._pull_all()
        except Exception as error:
            self._fail(error)
        finally:
            now.restore()
        return result

    def _pull_all(self) -> None:
        try:
            for call in self._calls:
                self._pull(call)
        except OtherMasks as error:
            if self._why_without_dropout:
                raise
            # From here on, and nothing of before.
            self._why_without_dropout = str(error)
            for sums in self._sums:
                for one in sums:
                    one.zero_()
            self._pull_all()

    def _pull(self, call: _Call) -> None:
        if not call.cotangents:
            return
        for number, shadow in enumerate(self._shadows):
            named = call.shadow_values[number]
            shadow.of_root[call.root.index] = {
                # Buffers move at each repetition; a second backward pass through the same call
                # starts as the first did.
                name: value if isinstance(value, torch.nn.Parameter) else value.clone()
                for name, value in named.items()
            }
            call.random.restore()
            outs = tensors_in(self._run(shadow, call))
            of_parameter = {
                id(parameter): named.get(name)
                for name, parameter in call.root.module.named_parameters(remove_duplicate=False)
            }
            wanted = [
                (position, of_parameter[id(parameter)])
                for position, parameter in enumerate(self._parameters)
                if of_parameter.get(id(parameter)) is not None
            ]
            gradients = torch.autograd.grad(
                [outs[place] for place in call.cotangents],
                [leaf for _, leaf in wanted],
                [cotangent.to(outs[place].dtype) for place, cotangent in call.cotangents.items()],
                allow_unused=True,
            )
            for (position, _), gradient in zip(wanted, gradients):
                if gradient is not None:
                    self._sums[number][position] += gradient
                    self._has_pulled = True

    def _run(self, shadow: Shadow, call: _Call) -> Any:
        if not self._why_without_dropout:
            return shadow.run(call.root, call.args, call.kwargs)
        before = RandomState()
        with compiling.without_dropout(call.root.module) as has_dropout:
            out = shadow.run(call.root, call.args, call.kwargs)
        self._has_dropout = self._has_dropout or has_dropout
        if self._is_compiled and shadow is self._shadows[0] and before.drawn_since():
            raise Unshadowable("a compiled module draws other random numbers")
        return out

    def after_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        self._calls = []

    def is_over(self) -> bool:
        self._steps_left -= 1
        self._losses.append(self._script.last_loss)
        self._calls = []
        return self._steps_left <= 0 or self._has_failed()

    def end(self) -> None:
        self._calls = []

    def result(self) -> list[Json]:
        self.end()
        if not self._has_failed() and not self._has_pulled:
            self._fail(RuntimeError("no gradient reached what a module returned"))
        if self._has_failed():
            raise_failure(self._shadows)
        zeros = [torch.zeros_like(one) for one in self._sums[0]]
        losses = [None if one is None else float(one) for one in self._losses]
        nothing = Side([], [])
        notes = [f"dropout is off in both: {self._why_without_dropout}"]
        return [
            {
                **compare(
                    self._names,
                    Side(zeros, self._sums[0]),
                    Side(zeros, sums),
                    [],
                    nothing,
                    nothing,
                ),
                "reference_losses": losses,
                "candidate_losses": losses,
                "notes": notes if self._has_dropout else [],
            }
            for sums in self._sums[1:]
        ]

    def _has_failed(self) -> bool:
        return any(shadow.failure is not None for shadow in self._shadows)

    def _fail(self, error: Exception) -> None:
        for shadow in self._shadows:
            shadow.fail(error)
