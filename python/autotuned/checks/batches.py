# SPDX-License-Identifier: Apache-2.0
"""The check of knobs that do not reach the arithmetic.

Real steps under the candidate, whose batches are made once more.
"""

from __future__ import annotations

from typing import Any

import torch

from ..loop.script import Script
from ..loop.watch import Check
from .compare import Json, Side, compare, copies


class BatchCheck(Check):
    """Begins at a boundary, with the candidate in force.

    After each step the caller asks is_over(); result() ends it.
    """

    method = "batches"

    def __init__(self, script: Script, steps: int, makes_again: bool = True) -> None:
        """`makes_again`: whether batches may be made a second time, for a comparison."""
        super().__init__(script)
        self._steps_left = steps
        self._makes_again = makes_again
        self._parameters = script.parameters()
        self._start = copies(self._parameters)
        names = script.names()
        self._names = [names[id(parameter)] for parameter in self._parameters]
        self._losses: list[torch.Tensor | None] = []
        self.differing: list[str] = []
        self.compared = 0

    def on_batch(self, batches: Any, index: Any, batch: Any) -> None:
        if not self._makes_again:
            return
        self.compared += 1
        if not batches.is_as_made_here(index, batch):
            self.differing.append(f"batch {batches.batches_made}")

    def is_over(self) -> bool:
        self._steps_left -= 1
        self._losses.append(self._script.last_loss)
        return self._steps_left <= 0

    def result(self) -> list[Json]:
        """Reference and candidate made the same steps: what can differ is a batch."""
        side = Side(self._start, self._parameters)
        nothing = Side([], [])
        answer = compare(self._names, side, side, [], nothing, nothing)
        losses = [None if one is None else float(one) for one in self._losses]
        notes = (
            [f"{self.compared} batches compared"]
            if self._makes_again
            else ["no batch compared: the script's own code makes them, once"]
        )
        if self.differing:
            notes.append(
                "differ from those that the script's own process makes: "
                + ", ".join(self.differing[:5])
            )
        return [
            {
                **answer,
                "equal": answer["equal"] and not self.differing,
                "reference_losses": losses,
                "candidate_losses": losses,
                "notes": notes,
            }
        ]
