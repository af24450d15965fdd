# SPDX-License-Identifier: Apache-2.0
"""Which of its implementations an optimizer steps with: `fused` and `foreach` of its groups.

The script's own choice is remembered beside the one in force. Only the script's own is saved: a
file must be what an untouched script could have written.
"""

from __future__ import annotations

import copy
import weakref
from typing import Any, Sequence

import torch

Pair = tuple[Any, Any]  # fused, foreach
Groups = Sequence[dict[str, Any]]


class Flags:
    """The flags of all optimizers of a script."""

    def __init__(self) -> None:
        self.forced: Pair | None = None  # in force for every group; nothing: the script's own
        self._own: weakref.WeakKeyDictionary[Any, list[Pair]] = weakref.WeakKeyDictionary()

    def changes_anything(self) -> bool:
        return self.forced is not None

    def own(self, optimizer: torch.optim.Optimizer) -> list[Pair]:
        """The script's own flags by group, whichever are in force."""
        known = self._own.setdefault(optimizer, [])
        # A group that the script adds later has flags of the script's own.
        for group in optimizer.param_groups[len(known) :]:
            known.append((group.get("fused"), group.get("foreach")))
        return known

    def put(self, optimizer: torch.optim.Optimizer) -> None:
        """Sets the flags that are in force."""
        for group, own in zip(optimizer.param_groups, self.own(optimizer)):
            if "foreach" in group:
                group["fused"], group["foreach"] = self.forced or own
        place_step_counters(optimizer)

    def restored(self, optimizer: torch.optim.Optimizer) -> None:
        """Called when the script has loaded a state with flags of its own."""
        if self._own.pop(optimizer, None) is None:
            return
        self.own(optimizer)
        if self.forced is not None:
            self.put(optimizer)

    def own_groups(self, optimizer: torch.optim.Optimizer, groups: Groups) -> list[dict[str, Any]]:
        """Copies of groups of this optimizer, in their order, with the script's own flags."""
        copied = [dict(group) for group in groups]
        for group, own in zip(copied, self.own(optimizer)):
            if "foreach" in group:
                group["fused"], group["foreach"] = own
        return copied

    def own_state(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
        """What state_dict() or __getstate__() of it has given, as of the script's own flags.

        Moments are the optimizer's own tensors still.
        """
        if self.forced is None or optimizer not in self._own:
            return state
        groups = self.own_groups(optimizer, state["param_groups"])
        moments = copy.copy(state["state"])
        for group in groups:
            for parameter in group["params"]:
                one = moments.get(parameter)
                if not one or _counts_on_device(group):
                    continue
                step = one.get("step")
                if isinstance(step, torch.Tensor) and step.device.type != "cpu":
                    moments[parameter] = {**one, "step": step.cpu()}
        return {**state, "state": moments, "param_groups": groups}


def _counts_on_device(group: dict[str, Any]) -> bool:
    return bool(group.get("fused") or group.get("capturable"))


def place_step_counters(optimizer: torch.optim.Optimizer) -> None:
    """Fused and capturable forms count steps on the device, the others on the CPU."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            step = optimizer.state.get(parameter, {}).get("step")
            if not isinstance(step, torch.Tensor) or parameter.device.type == "cpu":
                continue
            optimizer.state[parameter]["step"] = step.to(
                parameter.device if _counts_on_device(group) else "cpu", torch.float32
            )
