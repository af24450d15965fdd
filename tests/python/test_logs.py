# SPDX-License-Identifier: Apache-2.0
"""The loggers that a script uses are told what was kept, and cannot harm the script.

Weights & Biases, MLflow and TensorBoard are small stand-ins here, and the real ones where they are
installed: without a network, and with their files in a folder of the test.
"""

import contextlib
import importlib.util
import sys
import tempfile
import textwrap
import threading
import types
import unittest
from pathlib import Path
from unittest import mock

from autotuned.agent import logs
from forks import Running, alone

KEPT = {
    "run": "r-20261123-5d0c1e",
    "change": "optimizer.set_to_none off → on",
    "speedup": 1.49,
    "faster": "1.49 x (1.22 to 1.57)",
}
TEXT = "optimizer.set_to_none off → on: 1.49 x (1.22 to 1.57), run r-20261123-5d0c1e"
WRITER = "torch.utils.tensorboard.writer"


class SummaryWriter:
    """As PyTorch's: one that was closed has no file, and opens another when it is written to."""

    def __init__(self):
        self.file_writer = object()
        self.told = []

    def add_text(self, tag, text_string, global_step=None):
        self.told.append((tag, text_string, global_step))


class Config:
    def __init__(self):
        self.now = {"lr": 0.1}

    def update(self, values, allow_val_change=None):
        if not allow_val_change and set(values) & set(self.now):
            raise ValueError("a value would change")
        self.now.update(values)


def wandb(config):
    return types.SimpleNamespace(run=types.SimpleNamespace(config=config))


class MLflow:
    """With an active run, in the thread that made it."""

    def __init__(self, run_id="7"):
        self._run_id = run_id
        self._thread = threading.get_ident()
        self.tags = {}

    def active_run(self):
        if self._run_id is None or threading.get_ident() != self._thread:
            return None
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=self._run_id))

    def MlflowClient(self):
        return self

    def set_tag(self, run_id, key, value):
        self.tags[run_id, key] = value


class LogsTest(unittest.TestCase):
    def tell(self, **modules):
        """The warnings. `writer` stands for the module of TensorBoard's writer."""
        if "writer" in modules:
            modules[WRITER] = modules.pop("writer")
        warnings = []
        with mock.patch.dict(sys.modules, modules):
            before = set(sys.modules)
            logs.tell("a gain", {"run": "r-1", "speedup": 1.5}, 70, warnings.append)
            self.assertEqual(set(sys.modules) - before, set())
        return warnings

    def test_every_open_writer_is_told(self):
        class Own(SummaryWriter):
            pass

        writers = [SummaryWriter(), Own(), SummaryWriter()]
        writers[2].file_writer = None  # closed
        writer = types.SimpleNamespace(SummaryWriter=SummaryWriter)
        self.assertEqual(self.tell(writer=writer), [])
        told = [("autotuned/kept", "a gain", 70)]
        self.assertEqual([one.told for one in writers], [told, told, []])

    def test_the_run_of_wandb_is_told_without_a_step(self):
        config = Config()
        for _ in range(2):  # a second tuning of one program
            self.assertEqual(self.tell(wandb=wandb(config)), [])
        kept = {"kept": "a gain", "run": "r-1", "speedup": 1.5}
        self.assertEqual(config.now, {"lr": 0.1, "autotuned": kept})

    def test_the_active_run_of_mlflow_is_told(self):
        mlflow = MLflow()
        self.assertEqual(self.tell(mlflow=mlflow), [])
        self.assertEqual(
            mlflow.tags,
            {
                ("7", "autotuned.kept"): "a gain",
                ("7", "autotuned.run"): "r-1",
                ("7", "autotuned.speedup"): "1.5",
            },
        )

    def test_what_is_not_in_use_is_left_alone(self):
        idle = MLflow(run_id=None)
        warnings = self.tell(
            wandb=types.SimpleNamespace(run=None),
            mlflow=idle,
            writer=types.SimpleNamespace(SummaryWriter=SummaryWriter),
        )
        self.assertEqual((warnings, idle.tags), ([], {}))
        # Modules that are still being imported are empty.
        empty = types.SimpleNamespace()
        self.assertEqual(self.tell(wandb=empty, mlflow=empty, writer=empty), [])

    def test_one_that_fails_is_one_line_and_keeps_no_other(self):
        class Full(SummaryWriter):
            def add_text(self, *args):
                raise OSError("No space left on device")

        config, writer = Config(), Full()
        warnings = self.tell(
            writer=types.SimpleNamespace(SummaryWriter=SummaryWriter),
            mlflow=types.SimpleNamespace(active_run=lambda: 1 / 0),
            wandb=wandb(config),
        )
        del writer
        self.assertEqual(len(warnings), 2)
        self.assertIn("MLflow was not told what was kept: ZeroDivisionError", warnings[0])
        self.assertIn("TensorBoard was not told what was kept: OSError: No space", warnings[1])
        self.assertIn("autotuned", config.now)

    def test_one_that_hangs_does_not_keep_the_script(self):
        class Hanging(Config):
            def update(self, values, allow_val_change=None):
                hangs.wait()
                super().update(values, allow_val_change)
                is_over.set()

        hangs, is_over = threading.Event(), threading.Event()
        with mock.patch.object(logs, "_PATIENCE_S", 0.01):
            self.assertEqual(self.tell(wandb=wandb(Hanging())), [])
        self.assertFalse(is_over.is_set())
        hangs.set()
        self.assertTrue(is_over.wait(60))

    @unittest.skipUnless(importlib.util.find_spec("tensorboard"), "tensorboard is not installed")
    def test_the_real_tensorboard(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from torch.utils.tensorboard import SummaryWriter as Real

        with tempfile.TemporaryDirectory() as folder:
            warnings = []
            with contextlib.closing(Real(folder)):
                logs.tell("a gain", {}, 70, warnings.append)
            self.assertEqual(warnings, [])
            events = EventAccumulator(folder).Reload()
            (event,) = events.Tensors("autotuned/kept/text_summary")
            self.assertEqual(event.step, 70)
            self.assertEqual([one.decode() for one in event.tensor_proto.string_val], ["a gain"])

    @unittest.skipUnless(importlib.util.find_spec("wandb"), "wandb is not installed")
    def test_the_real_wandb(self):
        import wandb as real

        with tempfile.TemporaryDirectory() as folder:
            run = real.init(project="tests", mode="offline", dir=folder, config={"lr": 0.1})
            try:
                run.log({"loss": 1.0})
                step = run.step
                warnings = []
                with mock.patch.object(logs, "_PATIENCE_S", 60.0):
                    for _ in range(2):  # a second tuning of one program
                        logs.tell("a gain", {"speedup": 1.5}, 70, warnings.append)
                kept = dict(run.config)
                self.assertEqual((warnings, run.step), ([], step))
            finally:
                run.finish()
        self.assertEqual(kept["lr"], 0.1)
        self.assertEqual(dict(kept["autotuned"]), {"kept": "a gain", "speedup": 1.5})

    @unittest.skipUnless(importlib.util.find_spec("mlflow"), "mlflow is not installed")
    def test_the_real_mlflow(self):
        import mlflow as real

        before = real.get_tracking_uri()
        self.addCleanup(real.set_tracking_uri, before)
        with tempfile.TemporaryDirectory() as folder:
            real.set_tracking_uri(f"sqlite:///{folder}/runs.db")
            real.create_experiment("tests", artifact_location=Path(folder, "files").as_uri())
            real.set_experiment("tests")
            warnings = []
            with real.start_run() as run, mock.patch.object(logs, "_PATIENCE_S", 60.0):
                logs.tell("a gain", {"run": "r-1", "speedup": 1.5}, 70, warnings.append)
            self.assertEqual(warnings, [])
            tags = real.get_run(run.info.run_id).data.tags
        told = {name: value for name, value in tags.items() if name.startswith("autotuned.")}
        self.assertEqual(
            told,
            {"autotuned.kept": "a gain", "autotuned.run": "r-1", "autotuned.speedup": "1.5"},
        )


SCRIPT = """
import torch, wandb
torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(40):
    optimizer.zero_grad(set_to_none=False)
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
print(model.weight.sum().item())
print(wandb.told, file=open("told.txt", "w", encoding="utf-8"))
"""
NARROW = """class Net(torch.nn.Linear):
    calls = 0
    def forward(self, x):
        Net.calls += 1
        y = super().forward(x)
        if Net.calls > 30 and y.dtype != torch.float32:
            raise RuntimeError("not in 16 bits")
        return y
model = Net(4, 1)"""
STAND_IN = """
told = []
class Config:
    def update(self, values, allow_val_change):
        told.append(values)
        {then}
class run:
    config = Config()
"""


class ScriptTest(unittest.TestCase):
    """The whole way: what the session says at the end of the tuning is in the script's logger."""

    _untouched = {}  # by the model: what a script does by itself, which never speaks to a logger

    def written(self, then, model="model = torch.nn.Linear(4, 1)"):
        """The folder of the script, and what it does by itself."""
        name = tempfile.TemporaryDirectory()
        self.addCleanup(name.cleanup)
        folder = Path(name.name)
        text = textwrap.dedent(STAND_IN).format(then=then)
        (folder / "wandb.py").write_text(text, encoding="utf-8")
        script = SCRIPT.replace("model = torch.nn.Linear(4, 1)", model)
        (folder / "train.py").write_text(script, encoding="utf-8")
        if model not in self._untouched:
            self._untouched[model] = alone("train.py", cwd=folder)
        return folder, self._untouched[model]

    def tuned(self, script, change=None, **finish):
        """What the logger was told, and what is on standard error besides."""
        folder, untouched = script
        running = Running("train.py", cwd=folder)
        self.addCleanup(running.end)
        running.load()
        exact = {"optimizer.set_to_none": True}
        running.must("finish", configuration=change or exact, **finish)
        code, out, error = running.rest()
        self.assertEqual(code, 0)
        if change is None:
            self.assertEqual(out, untouched[1])
        told = (folder / "told.txt").read_text(encoding="utf-8").strip()
        return told, error.removeprefix(untouched[2])

    def test_it_is_told_once_what_was_kept(self):
        told, error = self.tuned(self.written("pass"), kept=KEPT)
        kept = {"kept": TEXT, "run": KEPT["run"], "speedup": 1.49}
        self.assertEqual((told, error), (str([{"autotuned": kept}]), ""))

    def test_a_failure_of_it_is_one_line(self):
        _, error = self.tuned(self.written("raise OSError('no route')"), kept=KEPT)
        line = "autotuned: Weights & Biases was not told what was kept: OSError: no route\n"
        self.assertEqual(error, line)

    def test_what_was_kept_and_fails_later_is_told(self):
        change = {"precision.autocast": "bf16"}
        told, error = self.tuned(self.written("pass", NARROW), change, kept=KEPT)
        line = (
            "what was kept fails in the forward pass: RuntimeError: not in 16 bits; "
            "the script goes on as it is"
        )
        self.assertIn(f"{{'autotuned': {{'kept': '{line}'}}}}]", told)
        self.assertEqual(error, f"autotuned: {line}\n")

    def test_where_nothing_was_kept_nothing_is_told(self):
        script = self.written("pass")
        for finish in ({}, {"kept": None}, {"kept": {"change": ""}}):
            (script[0] / "told.txt").unlink(missing_ok=True)  # of the run before
            self.assertEqual(self.tuned(script, **finish), ("[]", ""))


if __name__ == "__main__":
    unittest.main()
