# SPDX-License-Identifier: Apache-2.0
"""How two updates of the same parameters differ: the answer of the protocol's `compare`."""

from __future__ import annotations

from typing import Any, Sequence

import torch

Json = dict[str, Any]


def _figures(name: str, reference: torch.Tensor, candidate: torch.Tensor) -> Json:
    """The figures of two updates."""
    one = reference.detach().to(torch.float64).flatten()
    other = candidate.detach().to(torch.float64).flatten()
    one_norm, other_norm = float(one.norm()), float(other.norm())
    ratio: float | None = 1.0
    if one_norm > 0:
        ratio = other_norm / one_norm
    elif other_norm > 0:
        ratio = None  # only the candidate moves
    if one_norm > 0 and other_norm > 0:
        cosine = float(one @ other.to(one.device)) / (one_norm * other_norm)
    else:
        cosine = 1.0 if one_norm == other_norm else 0.0
    return {
        "name": name,
        "reference_norm": one_norm,
        "candidate_norm": other_norm,
        "norm_ratio": ratio,
        "cosine": cosine,
    }


class Side:
    """One of the two trainings that are compared.

    Where its tensors started and where they are.
    """

    def __init__(self, start: Sequence[torch.Tensor], end: Sequence[torch.Tensor]) -> None:
        self.start = start
        self.end = end

    def updates(self) -> list[torch.Tensor]:
        return [
            end.detach().to(torch.float64) - start.to(torch.float64)
            for start, end in zip(self.start, self.end)
        ]


def _is_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(torch.equal(one.detach(), other.detach()))


def compare(
    names: Sequence[str],
    reference: Side,
    candidate: Side,
    buffer_names: Sequence[str],
    reference_buffers: Side,
    candidate_buffers: Side,
) -> Json:
    """The answer of the protocol's `compare`.

    `equal` is about parameters and buffers, value for value; `finite` about the candidate's.
    """
    equal = finite = True
    for one, other in zip(reference.end, candidate.end):
        equal = equal and _is_equal(one, other)
        finite = finite and bool(torch.isfinite(other).all())
    parameters = [
        _figures(name, one, other)
        for name, one, other in zip(names, reference.updates(), candidate.updates())
    ]
    buffers = []
    for name, one, other, one_end, other_end in zip(
        buffer_names,
        reference_buffers.updates(),
        candidate_buffers.updates(),
        reference_buffers.end,
        candidate_buffers.end,
    ):
        is_floating = bool(one_end.is_floating_point())
        is_same = _is_equal(one_end, other_end)
        equal = equal and is_same
        if is_floating:
            finite = finite and bool(torch.isfinite(other_end).all())
        buffers.append({**_figures(name, one, other), "floating": is_floating, "equal": is_same})
    return {"equal": equal, "finite": finite, "parameters": parameters, "buffers": buffers}


def copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in tensors]
