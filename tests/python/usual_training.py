# SPDX-License-Identifier: Apache-2.0
"""A training in PyTorch, for tests that compare one of `autotuned run` with it.

The usual loop, with torch.optim, torch.optim.lr_scheduler, clip_grad_norm_ and clip_grad_value_,
and AveragedModel. MixUp and CutMix compute what those of torchvision 0.26 do
(transforms/v2/_augment.py); their random numbers are drawn as trainer/feed/batch_mix.cpp does.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

CLASSES = 4
ALL_BITS = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
SEED = 1  # of a recipe that names none

MakeOptimizer = Callable[[nn.Module], Optimizer]
MakeScheduler = Callable[[Optimizer], Any]


# --- MixUp and CutMix ---------------------------------------------------------------------


def mix64(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & ALL_BITS
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & ALL_BITS
    return value ^ (value >> 31)


class Draws:
    """The random numbers of a batch, by the position of its first sample in its epoch."""

    def __init__(self, epoch: int, sample: int) -> None:
        seed = mix64(SEED ^ 0x6D69786564) + epoch
        self._state = mix64((mix64((seed + GAMMA) & ALL_BITS) + sample * GAMMA) & ALL_BITS)
        self._count = 0

    def _next(self) -> int:
        self._count += 1
        return mix64((self._state + self._count * GAMMA) & ALL_BITS)

    def below(self, bound: int) -> int:
        return (self._next() * bound) >> 64

    def _uniform(self) -> float:
        return ((self._next() >> 11) + 1) * 2.0**-53

    def _normal(self) -> float:
        radius = math.sqrt(-2.0 * math.log(self._uniform()))
        return radius * math.cos(2.0 * math.pi * self._uniform())

    def _log_gamma_variate(self, alpha: float) -> float:
        if alpha < 1.0:
            of_next = self._log_gamma_variate(alpha + 1.0)
            return of_next + math.log(self._uniform()) / alpha
        d = alpha - 1.0 / 3.0
        c = 1.0 / math.sqrt(9.0 * d)
        while True:
            x = self._normal()
            v = (1.0 + c * x) ** 3
            if v <= 0.0:
                continue
            if math.log(self._uniform()) < 0.5 * x * x + d - d * v + d * math.log(v):
                return math.log(d * v)

    def beta(self, alpha: float) -> float:
        own = self._log_gamma_variate(alpha)
        other = self._log_gamma_variate(alpha)
        return 1.0 / (1.0 + math.exp(other - own))


class Box(NamedTuple):
    left: int
    top: int
    right: int
    bottom: int
    is_clipped: bool


def box_around(x: int, y: int, lam: float, height: int, width: int) -> Box:
    """CutMix.make_params()."""
    r = 0.5 * math.sqrt(1.0 - lam)
    half_width, half_height = int(r * width), int(r * height)
    whole = (x - half_width, y - half_height, x + half_width, y + half_height)
    cut = (max(whole[0], 0), max(whole[1], 0), min(whole[2], width), min(whole[3], height))
    return Box(*cut, is_clipped=cut != whole)


@dataclasses.dataclass
class Mix:
    """One batch after another is mixed; what was drawn for them is kept."""

    mixup_alpha: float | None = None
    cutmix_alpha: float | None = None
    shares: list[float] = dataclasses.field(default_factory=list)  # of MixUp
    boxes: list[Box] = dataclasses.field(default_factory=list)  # of CutMix

    def __call__(
        self, images: torch.Tensor, labels: torch.Tensor, epoch: int, sample: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        draws = Draws(epoch, sample)
        cuts = self.mixup_alpha is None
        if self.mixup_alpha is not None and self.cutmix_alpha is not None:
            cuts = draws.below(2) == 1
        alpha = self.cutmix_alpha if cuts else self.mixup_alpha
        assert alpha is not None
        lam = draws.beta(alpha)
        if not cuts:
            self.shares.append(lam)
            mixed = images.roll(1, 0).mul_(1.0 - lam).add_(images.mul(lam))
        else:
            height, width = images.shape[-2:]
            y = draws.below(height)
            x = draws.below(width)
            box = box_around(x, y, lam, height, width)
            self.boxes.append(box)
            rows, columns = slice(box.top, box.bottom), slice(box.left, box.right)
            mixed = images.clone()
            mixed[..., rows, columns] = images.roll(1, 0)[..., rows, columns]
            area = (box.right - box.left) * (box.bottom - box.top)
            lam = 1.0 - area / (width * height)
        shares = nn.functional.one_hot(labels, CLASSES).float()
        return mixed, shares.roll(1, 0).mul_(1.0 - lam).add_(shares.mul(lam))


# --- the loop -----------------------------------------------------------------------------


def constant(optimizer: Optimizer) -> None:
    return None


@dataclasses.dataclass(frozen=True)
class Course:
    """How a model is trained."""

    optimizer: MakeOptimizer
    epochs: int = 3
    batch: int = 8
    accumulate: int = 1
    per_step: MakeScheduler = constant
    per_epoch: MakeScheduler = constant
    per_evaluation: MakeScheduler = constant  # after each epoch, with the loss of all samples
    loss: nn.Module = dataclasses.field(default_factory=nn.CrossEntropyLoss)
    clip_norm: float | None = None
    clip_value: float | None = None
    ema_decay: float | None = None
    mix: Mix | None = None

    def without(self, **changes: Any) -> Course:
        """The same course with these changes, and without mixing."""
        return dataclasses.replace(self, **{"mix": None, **changes})


@dataclasses.dataclass
class Trained:
    weights: dict[str, torch.Tensor]
    averages: dict[str, torch.Tensor]
    norms: list[float]  # of all gradients together, in each step before it is clipped
    largest: list[float]  # the same of the largest element


def trained(
    model: nn.Module, images: torch.Tensor, labels: torch.Tensor, course: Course
) -> Trained:
    """Trains `model` on the samples in their order."""
    model.train()
    optimizer = course.optimizer(model)
    per_step, per_epoch = course.per_step(optimizer), course.per_epoch(optimizer)
    per_evaluation = course.per_evaluation(optimizer)
    average = None
    if course.ema_decay is not None:
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(course.ema_decay))
    parameters = list(model.parameters())
    part = course.batch // course.accumulate
    result = Trained({}, {}, [], [])
    for epoch in range(course.epochs):
        for first in range(0, len(images), course.batch):
            some = images[first : first + course.batch]
            wanted = labels[first : first + course.batch]
            if course.mix is not None:
                some, wanted = course.mix(some, wanted, epoch, first)
            optimizer.zero_grad()
            for begin in range(0, course.batch, part):
                outputs = model(some[begin : begin + part])
                loss = course.loss(outputs, wanted[begin : begin + part])
                (loss / course.accumulate).backward()
            gradients = [one.grad for one in parameters if one.grad is not None]
            result.norms.append(float(torch.stack([one.norm() for one in gradients]).norm()))
            result.largest.append(max(float(one.abs().max()) for one in gradients))
            if course.clip_norm is not None:
                nn.utils.clip_grad_norm_(parameters, course.clip_norm)
            if course.clip_value is not None:
                nn.utils.clip_grad_value_(parameters, course.clip_value)
            optimizer.step()
            if average is not None:
                average.update_parameters(model)
            if per_step is not None:
                per_step.step()
        if per_epoch is not None:
            per_epoch.step()
        if per_evaluation is not None:
            model.eval()
            with torch.no_grad():
                per_evaluation.step(course.loss(model(images), labels))
            model.train()
    result.weights = {name: one.detach().clone() for name, one in model.state_dict().items()}
    if average is not None:
        result.averages = dict(average.module.state_dict())
    return result
