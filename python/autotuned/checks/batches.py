# SPDX-License-Identifier: Apache-2.0
"""The check of knobs that do not reach the arithmetic.

Real steps under the candidate, whose batches are made once more.
"""

from __future__ import annotations

from typing import Any

import torch

from ..loop.script import Script, failure_text
from ..loop.watch import Check
from ..parts.native import fault_of
from ..parts.tensors import equal_trees, tensors_in
from ..protocol import RequestError
from .compare import Json, Side, compare, copies

# Batches that were prepared before the candidate was in force, for which a check waits at most.
_MOST_STALE = 64
_SIGNS_SEED = 17


class _Inputs:
    """What the tuner compares of batches: the images, what else is in them, and projections.

    A projection is the sum of a sample with signs that are the same for all samples: of pixels
    that differ by rounding it is nearly the same.
    """

    def __init__(self) -> None:
        self.of_reference: list[Json] = []
        self.of_candidate: list[Json] = []
        self._signs = torch.empty(0, dtype=torch.float64)

    def add(self, reference: Any, candidate: Any) -> None:
        ones, others = tensors_in(reference), tensors_in(candidate)
        same_images = equal_trees(ones[:1], others[:1])
        same_rest = equal_trees(ones[1:], others[1:])
        if not ones:  # no tensors at all
            same_images = same_rest = equal_trees(reference, candidate)
        projections = self._projections(ones)
        if not projections:  # nothing tells rounding from other samples
            same_rest = same_rest and same_images
        number = str(len(self.of_reference) + 1)
        self.of_reference.append({"labels": number, "images": number, "projections": projections})
        self.of_candidate.append(
            {
                "labels": number if same_rest else "others",
                "images": number if same_images else "others",
                "projections": self._projections(others),
            }
        )

    def _projections(self, tensors: list[torch.Tensor]) -> list[float]:
        if not tensors or tensors[0].dim() < 2 or tensors[0].is_complex():
            return []
        samples = tensors[0].detach().flatten(1)
        if len(self._signs) != samples.shape[1]:
            generator = torch.Generator().manual_seed(_SIGNS_SEED)
            coins = torch.randint(0, 2, (samples.shape[1],), generator=generator)
            self._signs = (2 * coins - 1).to(torch.float64)
        signs = self._signs.to(samples.device)
        return [float(sample.to(torch.float64) @ signs) for sample in samples]


class BatchCheck(Check):
    """Begins at a boundary, with the candidate in force.

    After each step the caller asks is_over(); result() ends it.
    """

    method = "batches"

    def __init__(
        self, script: Script, steps: int, makes_again: bool = True, expects_same: bool = True
    ) -> None:
        """`makes_again`: whether batches may be made a second time, for a comparison.
        `expects_same`: whether the change claims the same batches, but for rounding.
        """
        super().__init__(script)
        self._steps_left = steps
        self._makes_again = makes_again
        self._expects_same = expects_same
        self._inputs = _Inputs()
        self._fault = ""
        self._stale = 0
        self._is_stale = False  # the batch of this step
        self._parameters = script.parameters()
        self._start = copies(self._parameters)
        names = script.names()
        self._names = [names[id(parameter)] for parameter in self._parameters]
        self._losses: list[torch.Tensor | None] = []
        self.differing: list[str] = []
        self.compared = 0

    def on_batch(self, batches: Any, index: Any, batch: Any) -> None:
        # Not of the candidate: to wait for others shows more.
        self._is_stale = batches.is_stale() and self._stale < _MOST_STALE
        self._stale += self._is_stale
        if self._is_stale or not self._makes_again:
            return
        self.compared += 1
        if not batches.made_by.native_threads:
            self._compare(batches, index, batch)
            return
        # Its own code has read what the script's may stumble over.
        try:
            fault = self._compare(batches, index, batch)
        except Exception as error:
            fault = f"it cannot be compared: {failure_text(error)}"
        if fault and not self._fault:
            self._fault = f"batch {batches.batches_made}: {fault}"

    def _compare(self, batches: Any, index: Any, batch: Any) -> str:
        """What no check lets pass; empty: nothing of that kind."""
        own = batches.made_here(index)
        if self._expects_same:
            self._inputs.add(own, batch)
        if equal_trees(own, batch):
            return ""
        self.differing.append(f"batch {batches.batches_made}")
        if not batches.made_by.native_threads:
            return ""
        return fault_of(batches.loader, index, own, batch, self._expects_same)

    def is_over(self) -> bool:
        if self._is_stale:
            self._is_stale = False
            return False
        self._steps_left -= 1
        self._losses.append(self._script.last_loss)
        return self._steps_left <= 0

    def result(self) -> list[Json]:
        """Reference and candidate made the same steps: what can differ is a batch."""
        if self._fault:
            raise RequestError("unsupported", self._fault, "DataLoader", "leave the knob as it is")
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
                "reference_inputs": self._inputs.of_reference,
                "candidate_inputs": self._inputs.of_candidate,
                "notes": notes,
            }
        ]
