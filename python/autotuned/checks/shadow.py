# SPDX-License-Identifier: Apache-2.0
"""A second training beside the script's.

The same modules with parameters and buffers of their own, under another configuration.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import torch
from torch.nn.utils import stateless

from ..knobs.knob import Configuration, Value
from ..knobs.knobs import Knobs
from ..loop.script import ForwardSettings, Root, Script
from ..parts import compiling
from ..parts.draws import AlignedDraws

# Knobs that take effect in the forward pass: the field of ForwardSettings, and what it is for a
# value of the knob beside the script's own.
_FORWARD_KNOBS: dict[str, tuple[str, Callable[[Value, Value], Any]]] = {
    "layout.memory_format": (
        "channels_last",
        lambda value, own: value == "channels_last" and value != own,
    ),
    "precision.autocast": (
        "autocast",
        lambda value, own: torch.bfloat16 if value == "bf16" else None,
    ),
    # Graphs want the parameters where they were recorded; the kernels are the same.
    "model.compile": (
        "compiled",
        lambda value, own: "default" if value == compiling.GRAPHS else str(value),
    ),
    "rewrite.gather": ("selects_rows", lambda value, own: value == "indexing"),
}
# Settings of the process that hold while the shadow computes.
_GLOBAL_KNOBS = ("threads.intra_op", "precision.tf32")

# All that a shadow computes with. A change without an effect on it would pass any check, so none
# judges other knobs unless it applies them itself.
APPLIED_KNOBS = frozenset({*_FORWARD_KNOBS, *_GLOBAL_KNOBS})


class Shadow:
    """A configuration, with copies of the script's parameters and buffers.

    `is_rounded`: its parameters start rounded to 16 bits.
    """

    def __init__(
        self, script: Script, knobs: Knobs, configuration: Configuration, is_rounded: bool
    ) -> None:
        self._script = script
        self._knobs = knobs
        self.configuration = configuration
        self.is_rounded = is_rounded
        self.failure: Exception | None = None
        fields = {
            field: value_of(configuration[name], knobs.own[name])
            for name, (field, value_of) in _FORWARD_KNOBS.items()
        }
        self.forward = ForwardSettings(**fields, is_shadow=True)
        changes_precision = configuration["precision.autocast"] != knobs.own["precision.autocast"]
        # The reference draws as the script would; a shadow in another precision draws in 32 bits
        # as it does.
        self._draws_in_float32 = changes_precision
        self.parameters: dict[int, torch.nn.Parameter] = {}  # by identity of the script's
        self.of_root: dict[int, dict[str, torch.Tensor]] = {}  # by index: names with shadows

    def take_over(self) -> None:
        """Starts from the script's parameters and buffers as they are now."""
        self.parameters = {}
        buffers: dict[int, torch.Tensor] = {}
        for root in self._script.roots:
            for parameter in root.module.parameters():
                self._add(parameter)
            for buffer in root.module.buffers():
                buffers.setdefault(id(buffer), buffer.detach().clone())
        for parameter in self._script.parameters():
            self._add(parameter)
        for root in self._script.roots:
            named: dict[str, torch.Tensor] = {
                name: self.parameters[id(parameter)]
                for name, parameter in root.module.named_parameters(remove_duplicate=False)
            }
            named.update(
                {
                    name: buffers[id(buffer)]
                    for name, buffer in root.module.named_buffers(remove_duplicate=False)
                }
            )
            self.of_root[root.index] = named

    def _add(self, parameter: torch.Tensor) -> None:
        if id(parameter) in self.parameters:
            return
        value = parameter.detach().clone()
        if self.is_rounded and value.dtype == torch.float32:
            value = value.to(torch.bfloat16).to(torch.float32)
        shadow = torch.nn.Parameter(value, requires_grad=parameter.requires_grad)
        if parameter.grad is not None:  # a script may go on adding to it
            shadow.grad = parameter.grad.detach().clone()
        self.parameters[id(parameter)] = shadow

    def leaves(self) -> list[torch.nn.Parameter]:
        return [shadow for shadow in self.parameters.values() if shadow.requires_grad]

    def buffers(self, names: list[str]) -> list[torch.Tensor]:
        """The buffers by the names of Script.names()."""
        found: dict[str, torch.Tensor] = {}
        for root in self._script.roots:
            prefix = f"{root.index}." if len(self._script.roots) > 1 else ""
            for name, tensor in self.of_root[root.index].items():
                found[prefix + name] = tensor
        return [found[name] for name in names]

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """A context in which the settings of the process are those of this configuration."""
        changed = [
            name for name in _GLOBAL_KNOBS if self.configuration[name] != self._knobs.now[name]
        ]
        try:
            for name in changed:
                self._knobs.knobs[name].set(self.configuration[name])
            yield
        finally:
            for name in changed:
                self._knobs.knobs[name].set(self._knobs.now[name])

    def run(self, root: Root, args: Any, kwargs: Any) -> Any:
        """The forward pass with the shadow's parameters and buffers."""
        # Nothing is compiled under a mode that looks at operators, and what is compiled draws in
        # the order of indices by itself.
        draws = (
            AlignedDraws(self._draws_in_float32)
            if self.forward.compiled == compiling.OFF
            else contextlib.nullcontext()
        )
        with self.in_force(), draws, stateless._reparametrize_module(
            root.module, self.of_root[root.index], tie_weights=True
        ):
            return root.run(self.forward, args, kwargs)

    def draws_otherwise_than(self, other: ForwardSettings) -> bool:
        """Compiled code draws other random numbers from the same state than uncompiled code."""
        return (self.forward.compiled == compiling.OFF) != (other.compiled == compiling.OFF)

    def fail(self, error: Exception) -> None:
        # Without what its frames hold: the script's own step may need the memory.
        self.failure = self.failure or error.with_traceback(None)


def reaches_any(tensors: list[torch.Tensor], leaves: set[int]) -> bool:
    """Whether the graph behind the tensors ends in one of these leaves."""
    todo = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set(todo)
    while todo:
        node = todo.pop()
        variable = getattr(node, "variable", None)
        if variable is not None and id(variable) in leaves:
            return True
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                todo.append(following)
    return False
