# SPDX-License-Identifier: Apache-2.0
"""The knobs of a script, and the configuration in force: how it is changed and taken back."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from ..loop.script import Script
from ..parts.data import has_own_data
from ..parts.flags import Pair
from ..parts.loader import LoaderSettings
from ..protocol import RequestError
from . import knob_list
from .knob import Configuration, Knob, Value
from .knob_compile import compile_knob
from .knob_native import native_knob

_FUSED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad)
_FUSED_ON_CPU = (torch.optim.Adagrad,)  # alone; elsewhere its step would fail

FLAG_KNOBS = ("optimizer.fused", "optimizer.foreach")  # what forced_flags() obeys
SET_TO_NONE = "optimizer.set_to_none"


def names() -> list[str]:
    """All that the package knows; what a script has, describe() says."""
    return sorted(
        [
            "cudnn.benchmark",
            "layout.memory_format",
            "loader.native_threads",
            "loader.persistent_workers",
            "loader.pin_memory",
            "loader.prefetch_batches",
            "loader.workers",
            "memory.malloc",
            "model.compile",
            "optimizer.foreach",
            "optimizer.fused",
            "optimizer.set_to_none",
            "precision.autocast",
            "precision.tf32",
            "rewrite.gather",
            "threads.intra_op",
        ]
    )


def _loader_settings(configuration: Configuration) -> LoaderSettings:
    return LoaderSettings(
        int(configuration["loader.workers"]),
        int(configuration["loader.prefetch_batches"]),
        bool(configuration["loader.pin_memory"]),
        bool(configuration["loader.persistent_workers"]),
        int(configuration["loader.native_threads"]),
    )


class Knobs:
    """The knobs of one script, and the configuration in force."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.notes: list[knob_list.Note] = []
        training = script.training_loader()
        loader = training.loader if training is not None else None
        self._has_own_data = loader is not None and has_own_data(loader)
        self.knobs = {
            knob.name: knob
            for knob in [
                *knob_list.arithmetic(script),
                compile_knob(script),
                *self._optimizer(),
                *knob_list.loader_of_training(script, self.notes),
                native_knob(script),
                *knob_list.process(),
            ]
        }
        self.own = {name: knob.default for name, knob in self.knobs.items()}
        self.now = dict(self.own)
        self._was_switched: set[str] = set()  # knobs that cannot be taken back

    def whole(self, configuration: Configuration) -> Configuration:
        """A value for every knob; `invalid` if one of the given values cannot be."""
        for name, value in configuration.items():
            if name not in self.knobs:
                raise RequestError(
                    "invalid", "the script does not have this knob", name, "see the answer of load"
                )
            self.knobs[name].check(value)
        return {**self.own, **configuration}

    def changed(self, configuration: Configuration) -> list[str]:
        """The knobs in which a whole configuration differs from the one in force."""
        return [name for name, value in configuration.items() if value != self.now[name]]

    def apply(self, configuration: Configuration) -> list[str]:
        """Makes a whole configuration the one in force. Returns the knobs that have changed."""
        changed = self.changed(configuration)
        for name in changed:
            if self.knobs[name].switch == "restart" and name in self._was_switched:
                raise RequestError(
                    "invalid",
                    "this knob cannot be taken back in one process",
                    name,
                    "set it once, before the first block",
                )
        lack = self._script.lack_of(_loader_settings(configuration))
        if lack:
            raise RequestError(
                "unsupported", lack, "DataLoader", "leave the knobs of the loader as they are"
            )
        for name in changed:
            self.knobs[name].set(configuration[name])
            self.now[name] = configuration[name]
            self._was_switched.add(name)
        return changed

    def go_back(self, configuration: Configuration) -> None:
        """To a whole configuration that was in force before; what cannot be taken back stays.

        It raises nothing: a knob that fails does not keep the others from going back.
        """
        for name in self.changed(configuration):
            if self.knobs[name].switch == "live":
                with contextlib.suppress(Exception):
                    self.knobs[name].set(configuration[name])
                    self.now[name] = configuration[name]

    def may_make_again(self, configuration: Configuration) -> bool:
        """Whether a batch may be made twice, to check this change.

        What the script's own code keeps of that is another training: that is permitted where what
        is tried is one, too.
        """
        return not self._has_own_data or any(
            self.knobs[name].risk == "semantics" for name in self.changed(configuration)
        )

    def claims_same_batches(self, configuration: Configuration) -> bool:
        """Whether this change leaves the batches as they are, but for rounding."""
        return all(self.knobs[name].risk != "semantics" for name in self.changed(configuration))

    def part(self, configuration: Configuration, reaches: str) -> Configuration:
        """The configuration in force with the change in those knobs only that reach this."""
        return {
            name: value if self.knobs[name].reaches == reaches else self.now[name]
            for name, value in configuration.items()
        }

    def changes_that_reach(self, configuration: Configuration, *reaches: str) -> list[str]:
        return [
            name for name in self.changed(configuration) if self.knobs[name].reaches in reaches
        ]

    def undo(self) -> None:
        """Goes back to the script's own values."""
        self.go_back(self.own)

    def undo_loader(self) -> None:
        own = {name: value for name, value in self.own.items() if name.startswith("loader.")}
        self.go_back({**self.now, **own})

    # --- optimizer

    def _optimizer(self) -> list[Knob]:
        script = self._script
        groups = [group for optimizer in script.optimizers for group in optimizer.param_groups]
        for optimizer in script.optimizers:
            script.flags.own(optimizer)  # before anything is changed

        def set_flags(name: str, value: Value) -> None:
            # The other knob of the two stays as it is in force.
            script.flags.forced = self.forced_flags({**self.now, name: value})
            for optimizer in script.optimizers:
                script.flags.put(optimizer)

        def set_to_none(value: Value) -> None:
            script.releases_gradients = bool(value)

        obstacle = ""
        if not groups:
            obstacle = "the script updates its parameters without an optimizer"
        elif any("foreach" not in group for group in groups):
            obstacle = "an optimizer is not one of PyTorch's with several implementations"
        fused = Knob(
            "optimizer.fused",
            bool(groups) and all(bool(group.get("fused")) for group in groups),
            "numerics",
            "Update a parameter and its state in one kernel, in one pass.",
            lambda value: set_flags("optimizer.fused", value),
            reaches="optimizer",
        )
        other = next(
            (type(one).__name__ for one in script.optimizers if type(one) not in _FUSED), ""
        )
        on_cpu_alone = any(type(one) in _FUSED_ON_CPU for one in script.optimizers)
        fused.unavailable = obstacle
        if not obstacle and other:
            fused.unavailable = f"{other} has no fused form"
        elif not obstacle and on_cpu_alone and script.device().type != "cpu":
            fused.unavailable = "Adagrad has a fused form on the CPU alone"
        elif not obstacle and any(group.get("differentiable") for group in groups):
            fused.unavailable = "an optimizer is differentiable"
        elif fused.default:
            fused.unavailable = "the script chose it"

        # PyTorch's default: foreach on a GPU, a loop on a CPU.
        is_cuda = script.device().type == "cuda"
        foreach = Knob(
            "optimizer.foreach",
            bool(groups)
            and all(
                is_cuda if group.get("foreach") is None else bool(group["foreach"])
                for group in groups
            ),
            "numerics",
            "Update many parameters by each call of an operator.",
            lambda value: set_flags("optimizer.foreach", value),
            reaches="optimizer",
        )
        foreach.unavailable = obstacle or (
            "the script chose the fused form" if fused.default else ""
        )

        release = Knob(
            SET_TO_NONE,
            not script.zero_grad_keeps,
            "exact",
            "Release gradients before the backward pass instead of filling them with zeros.",
            set_to_none,
            # An optimizer leaves a parameter without a gradient alone; one whose gradient is zero
            # it may move.
            reaches="optimizer",
        )
        if release.default:
            release.unavailable = "the script does it"
        return [fused, foreach, release]

    def forced_flags(self, configuration: Configuration) -> Pair | None:
        """`fused` and `foreach` of every group; nothing: as the script set them."""
        fused, foreach = FLAG_KNOBS
        if configuration[fused] != self.own[fused]:
            return True, False
        if configuration[foreach] != self.own[foreach]:
            return False, configuration[foreach]
        return None
