# SPDX-License-Identifier: Apache-2.0
"""What a recipe trains is what the usual loop in PyTorch trains.

`autotuned run` trains a small model on arrays in their order, from given weights, and
usual_training.py trains the same one. The weights at the end are compared. Without the tested
feature PyTorch's weights must be others.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer, lr_scheduler

from usual_training import CLASSES, Course, MakeOptimizer, MakeScheduler, Mix, Trained, trained

PATIENCE_S = 240
SAMPLES, ROWS, COLUMNS = 48, 8, 10
EPOCH_STEPS = 6  # of 8 samples
STEPS = 18
# Weights are between -1 and 1. The trainer and this process may use other kernels of PyTorch.
SAME = 5e-5
ANOTHER = 1e-3

MLP = "{type: mlp, hidden: 12, classes: 4, weights: initial.pt}"
DATA = "{type: npy, images: images.npy, labels: labels.npy, shuffle: false}"
SGD = "{type: sgd, lr: 0.1, momentum: 0.9}"


class Mlp(nn.Module):
    """As docs/recipe.md describes `mlp`."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(ROWS * COLUMNS, 12)
        self.output = nn.Linear(12, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(torch.relu(self.hidden(x.flatten(1))))


class Normed(nn.Module):
    """With statistics that depend on which samples go through it together."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.output = nn.Linear(6, CLASSES)

    def forward(self, x):  # TorchScript takes it for a tensor
        return self.output(torch.relu(self.norm(self.conv(x))).mean([2, 3]))


def write_npy(file: pathlib.Path, tensor: torch.Tensor) -> None:
    kind = {torch.float32: "<f4", torch.int64: "<i8"}[tensor.dtype]
    shape = tuple(tensor.shape)
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    content = bytes(tensor.contiguous().view(torch.uint8).flatten().tolist())
    front = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    file.write_bytes(front + content)


def of(kind: type[Optimizer], **options: Any) -> MakeOptimizer:
    return lambda model: kind(model.parameters(), **options)


def scheduled(kind: type, **options: Any) -> MakeScheduler:
    return lambda optimizer: kind(optimizer, **options)


def warmup(steps: int) -> MakeScheduler:
    return scheduled(lr_scheduler.LinearLR, start_factor=0.01, total_iters=steps)


def after_warmup(steps: int, then: MakeScheduler) -> MakeScheduler:
    return lambda optimizer: lr_scheduler.SequentialLR(
        optimizer, [warmup(steps)(optimizer), then(optimizer)], milestones=[steps]
    )


def distance(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys(), (list(one), list(other))
    return max(float((one[name].double() - other[name].double()).abs().max()) for name in one)


def told(*arguments: str, folder: pathlib.Path) -> str:
    done = subprocess.run(
        [os.environ["AUTOTUNED_PROGRAM"], *arguments],
        cwd=folder,
        env={**os.environ, "AUTOTUNED_LOCKS": str(folder / "locks")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        scene = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scene.cleanup)
        cls.folder = pathlib.Path(scene.name)
        torch.manual_seed(7)
        cls.labels = torch.randint(0, CLASSES, (SAMPLES,))
        cls.labels[:CLASSES] = torch.arange(CLASSES)
        # Lighter in the rows of its class, so that there is something to learn.
        cls.images = torch.randn(SAMPLES, 1, ROWS, COLUMNS)
        for image, label in zip(cls.images, cls.labels, strict=True):
            first = 2 * int(label)
            image[:, first : first + 2] += 1.0
        write_npy(cls.folder / "images.npy", cls.images)
        write_npy(cls.folder / "labels.npy", cls.labels)
        cls.mlp = Mlp()
        torch.save(dict(cls.mlp.state_dict()), cls.folder / "initial.pt")
        cls.normed = Normed()
        torch.jit.script(cls.normed).save(str(cls.folder / "normed.pt"))

    def run_recipe(
        self, optimizer: str, train: str = "", model: str = MLP, **other: str
    ) -> pathlib.Path:
        """The output folder."""
        name = self.id().rpartition(".")[2]
        parts = {
            "autotuned": "1",
            "name": name,
            "device": "cpu",
            "model": model,
            "data": DATA,
            "optimizer": optimizer,
            "train": f"{{epochs: 3, batch_size: 8{train}}}",
            "tune": "{budget: 0s}",
            "output": f"{{dir: out/{name}, keep_state: false}}",
            **other,
        }
        recipe = "".join(f"{key}: {value}\n" for key, value in parts.items())
        (self.folder / f"{name}.yaml").write_text(recipe)
        history = f"{name}.sqlite"
        told("run", f"{name}.yaml", "--no-daemon", "--history", history, folder=self.folder)
        return self.folder / "out" / name

    def usual(
        self, course: Course, model: nn.Module | None = None, frozen: str | None = None
    ) -> Trained:
        copy = type(model or self.mlp)()
        copy.load_state_dict((model or self.mlp).state_dict())
        if frozen is not None:
            copy.get_submodule(frozen).requires_grad_(False)
        return trained(copy, self.images, self.labels, course)

    def expect_same(self, found: pathlib.Path, expected: dict[str, torch.Tensor]) -> None:
        self.assertLess(distance(torch.load(found), expected), SAME)

    def expect_other(self, one: Trained, other: Trained) -> None:
        self.assertGreater(distance(one.weights, other.weights), ANOTHER)

    # --- optimizers and schedules ---------------------------------------------------------------

    def expect_course(
        self, optimizer: str, schedule: str, course: Course, plain: MakeOptimizer
    ) -> None:
        """Neither the schedule nor an option of the optimizer is without effect."""
        expected = self.usual(course)
        out = self.run_recipe(optimizer, schedule=schedule)
        self.expect_same(out / "model.pt", expected.weights)
        constant = course.without(per_step=lambda _: None, per_epoch=lambda _: None)
        self.expect_other(expected, self.usual(constant))
        self.expect_other(expected, self.usual(course.without(optimizer=plain)))

    def test_sgd_with_nesterov_and_cosine(self) -> None:
        cosine = scheduled(lr_scheduler.CosineAnnealingLR, T_max=STEPS - 4, eta_min=0.01)
        options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.02}
        self.expect_course(
            "{type: sgd, lr: 0.1, momentum: 0.9, weight_decay: 0.02, nesterov: true}",
            "{type: cosine, warmup_steps: 4, min_lr_ratio: 0.1}",
            Course(
                of(torch.optim.SGD, nesterov=True, **options), per_step=after_warmup(4, cosine)
            ),
            of(torch.optim.SGD, **options),
        )

    def test_adam_and_one_cycle(self) -> None:
        self.expect_course(
            "{type: adam, lr: 0.01, weight_decay: 0.1}",
            "{type: one_cycle}",
            Course(
                of(torch.optim.Adam, lr=0.01, weight_decay=0.1),
                per_step=scheduled(
                    lr_scheduler.OneCycleLR, max_lr=0.01, total_steps=STEPS, cycle_momentum=False
                ),
            ),
            of(torch.optim.Adam, lr=0.01),
        )

    def test_adamw_and_polynomial(self) -> None:
        left = STEPS - EPOCH_STEPS
        polynomial = scheduled(lr_scheduler.PolynomialLR, total_iters=left, power=2.0)
        self.expect_course(
            "{type: adamw, lr: 0.01, betas: [0.8, 0.95], weight_decay: 0.5}",
            "{type: polynomial, power: 2, warmup_epochs: 1}",
            Course(
                of(torch.optim.AdamW, lr=0.01, betas=(0.8, 0.95), weight_decay=0.5),
                per_step=after_warmup(EPOCH_STEPS, polynomial),
            ),
            of(torch.optim.AdamW, lr=0.01, betas=(0.8, 0.95), weight_decay=0.0),
        )

    def test_rmsprop_and_multi_step(self) -> None:
        options = {"lr": 0.003, "momentum": 0.5}
        self.expect_course(
            "{type: rmsprop, lr: 0.003, momentum: 0.5, centered: true}",
            "{type: multi_step, epochs: [1, 2], gamma: 0.5, warmup_steps: 4}",
            Course(
                of(torch.optim.RMSprop, centered=True, **options),
                per_step=warmup(4),
                per_epoch=scheduled(lr_scheduler.MultiStepLR, milestones=[1, 2], gamma=0.5),
            ),
            of(torch.optim.RMSprop, **options),
        )

    def test_nadam_and_exponential(self) -> None:
        self.expect_course(
            "{type: nadam, lr: 0.01, weight_decay: 0.1}",
            "{type: exponential, gamma: 0.5}",
            Course(
                of(torch.optim.NAdam, lr=0.01, weight_decay=0.1),
                per_epoch=scheduled(lr_scheduler.ExponentialLR, gamma=0.5),
            ),
            of(torch.optim.NAdam, lr=0.01),
        )

    def test_adagrad_and_step(self) -> None:
        self.expect_course(
            "{type: adagrad, lr: 0.05, lr_decay: 0.1}",
            "{type: step, step_epochs: 1}",
            Course(
                of(torch.optim.Adagrad, lr=0.05, lr_decay=0.1),
                per_epoch=scheduled(lr_scheduler.StepLR, step_size=1),
            ),
            of(torch.optim.Adagrad, lr=0.05),
        )

    def test_frozen_layers(self) -> None:
        course = Course(of(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.05))
        expected = self.usual(course, frozen="hidden")
        out = self.run_recipe(
            "{type: sgd, lr: 0.1, momentum: 0.9, weight_decay: 0.05}",
            model=MLP.replace("}", ", freeze: [hidden]}"),
        )
        self.expect_same(out / "model.pt", expected.weights)
        self.assertTrue(
            torch.equal(torch.load(out / "model.pt")["hidden.weight"], self.mlp.hidden.weight)
        )
        self.expect_other(expected, self.usual(course))

    def test_defaults_are_those_of_pytorch(self) -> None:
        schema = json.loads(told("schema", "--json", folder=self.folder))

        def written(part: str) -> dict[str, dict[str, Any]]:
            """The defaults of each type, where they are values of JSON."""
            found: dict[str, dict[str, Any]] = {}
            for entry in schema["properties"][part]["oneOf"]:
                fields = dict(entry["properties"])
                kind = fields.pop("type").get("const")
                values = found.setdefault(kind, {})
                for key, field in fields.items():
                    text = re.search(r"Default: (.+)\.$", field.get("description", ""))
                    try:
                        values[key] = json.loads(text[1]) if text else None
                    except json.JSONDecodeError:
                        values[key] = text[1] if text else None
            return found

        optimizers = written("optimizer")
        self.assertIsNone(optimizers["sgd"].pop("lr"), "a recipe has to name it")
        for name, kind in {
            "sgd": torch.optim.SGD,
            "adam": torch.optim.Adam,
            "adamw": torch.optim.AdamW,
            "adagrad": torch.optim.Adagrad,
            "nadam": torch.optim.NAdam,
            "rmsprop": torch.optim.RMSprop,
        }.items():
            theirs = kind([nn.Parameter(torch.zeros(1))]).defaults
            ours = optimizers[name]
            self.assertTrue(ours.pop("decay_norms_and_biases"))
            for key, value in ours.items():
                expected = theirs[key]
                expected = list(expected) if isinstance(expected, tuple) else expected
                self.assertEqual(value, expected, f"{name}: {key}")
        schedules = written("schedule")
        names = {"anneal": "anneal_strategy"}
        for name, kind, keys in (
            ("step", lr_scheduler.StepLR, ["gamma"]),
            ("multi_step", lr_scheduler.MultiStepLR, ["gamma"]),
            ("polynomial", lr_scheduler.PolynomialLR, ["power"]),
            (
                "one_cycle",
                lr_scheduler.OneCycleLR,
                ["pct_start", "div_factor", "final_div_factor", "anneal"],
            ),
            ("plateau", lr_scheduler.ReduceLROnPlateau, ["factor", "patience", "threshold"]),
        ):
            theirs = inspect.signature(kind.__init__).parameters
            for key in keys:
                expected = theirs[names.get(key, key)].default
                self.assertEqual(schedules[name][key], expected, f"{name}: {key}")

    # --- what a step does -----------------------------------------------------------------------

    def test_clipping_by_norm(self) -> None:
        course = Course(of(torch.optim.SGD, lr=0.1, momentum=0.9))
        plain = self.usual(course)
        limit = round(sorted(plain.norms)[len(plain.norms) // 2], 3)
        expected = self.usual(course.without(clip_norm=limit))
        self.assertGreater(max(expected.norms), limit)
        out = self.run_recipe(SGD, f", clip_norm: {limit}")
        self.expect_same(out / "model.pt", expected.weights)
        self.expect_other(expected, plain)

    def test_clipping_by_value(self) -> None:
        course = Course(of(torch.optim.SGD, lr=0.1, momentum=0.9))
        plain = self.usual(course)
        limit = round(min(plain.largest) / 2, 4)
        expected = self.usual(course.without(clip_value=limit))
        out = self.run_recipe(SGD, f", clip_value: {limit}")
        self.expect_same(out / "model.pt", expected.weights)
        self.expect_other(expected, plain)

    def test_label_smoothing_and_class_weights_of_parts(self) -> None:
        # The weighted mean is that of a part, so it matters how a batch is divided.
        weights = torch.tensor([1.0, 2.0, 0.5, 4.0])
        course = Course(
            of(torch.optim.SGD, lr=0.1, momentum=0.9),
            loss=nn.CrossEntropyLoss(weight=weights, label_smoothing=0.2),
            accumulate=2,
        )
        expected = self.usual(course)
        loss = "{type: cross_entropy, label_smoothing: 0.2, class_weights: [1, 2, 0.5, 4]}"
        out = self.run_recipe(SGD, ", accumulate: 2", loss=loss)
        self.expect_same(out / "model.pt", expected.weights)
        for other in (
            course.without(accumulate=1),
            course.without(loss=nn.CrossEntropyLoss(weight=weights)),
            course.without(loss=nn.CrossEntropyLoss(label_smoothing=0.2)),
        ):
            self.expect_other(expected, self.usual(other))

    def test_accumulation_and_averages_of_a_model_with_norms(self) -> None:
        # The two groups that are usual in PyTorch: what has one dimension does not decay.
        def groups(model: nn.Module) -> Optimizer:
            parameters = list(model.parameters())
            decayed = [one for one in parameters if one.dim() > 1]
            others = [one for one in parameters if one.dim() <= 1]
            return torch.optim.SGD(
                [{"params": decayed}, {"params": others, "weight_decay": 0.0}],
                lr=0.1,
                weight_decay=0.05,
            )

        course = Course(groups, accumulate=2, ema_decay=0.9)
        usual = functools.partial(self.usual, model=self.normed)
        expected = usual(course)
        out = self.run_recipe(
            "{type: sgd, lr: 0.1, weight_decay: 0.05, decay_norms_and_biases: false}",
            ", accumulate: 2, ema_decay: 0.9",
            "{type: torchscript, file: normed.pt}",
        )
        self.expect_same(out / "model.pt", expected.weights)
        self.expect_same(out / "model_ema.pt", expected.averages)
        self.assertEqual(expected.averages["norm.num_batches_tracked"], 2 * STEPS)
        self.assertGreater(distance(expected.averages, expected.weights), ANOTHER)
        self.expect_other(expected, usual(course.without(accumulate=1)))
        everything = of(torch.optim.SGD, lr=0.1, weight_decay=0.05)
        self.expect_other(expected, usual(course.without(optimizer=everything)))

    # --- batches that are mixed -----------------------------------------------------------------

    def expect_mixed(self, mix: Mix, keys: str, **other: Any) -> None:
        loss = nn.CrossEntropyLoss(**other)
        course = Course(of(torch.optim.SGD, lr=0.1, momentum=0.9), loss=loss, mix=mix)
        expected = self.usual(course)
        options = "".join(f", {key}: {value}" for key, value in other.items())
        out = self.run_recipe(SGD, keys, loss=f"{{type: cross_entropy{options}}}")
        self.expect_same(out / "model.pt", expected.weights)
        self.expect_other(expected, self.usual(course.without()))

    def test_mixup(self) -> None:
        mix = Mix(mixup_alpha=0.4)
        self.expect_mixed(mix, ", mixup_alpha: 0.4")
        self.assertEqual(len(mix.shares), STEPS)
        self.assertGreater(max(mix.shares) - min(mix.shares), 0.5)

    def test_cutmix(self) -> None:
        mix = Mix(cutmix_alpha=1.0)
        self.expect_mixed(mix, ", cutmix_alpha: 1")
        self.assertEqual(len(mix.boxes), STEPS)
        # The share in the labels is that of the pixels, and not what was drawn.
        self.assertTrue(any(box.is_clipped for box in mix.boxes))

    def test_either_of_both_with_label_smoothing(self) -> None:
        mix = Mix(mixup_alpha=0.4, cutmix_alpha=1.0)
        self.expect_mixed(mix, ", mixup_alpha: 0.4, cutmix_alpha: 1", label_smoothing=0.1)
        self.assertGreater(len(mix.shares), 0)
        self.assertGreater(len(mix.boxes), 0)
        self.assertEqual(len(mix.shares) + len(mix.boxes), STEPS)


if __name__ == "__main__":
    unittest.main()
