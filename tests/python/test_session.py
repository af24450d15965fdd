# SPDX-License-Identifier: Apache-2.0
"""Requests and answers: what is found, blocks, errors, cancel, and the ends."""

import gzip
import json
import tempfile
import unittest
from pathlib import Path

import stand_in
from forks import Running, alone
from stand_in import Ended

QUIET = {"PYTHONWARNINGS": "ignore"}
LONG = ("classifier.py", "--epochs", "40")

FAILS_IN_16_BITS = """
import torch
torch.manual_seed(1)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(1))
    def forward(self, x):
        self.calls += 1
        torch.rand(1)
        y = self.first(x)
        if y.dtype != torch.float32:
            raise RuntimeError("not in 16 bits")
        return y

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(40):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
print(model.calls.item(), model.first.weight.sum().item())
"""

HOOKED = """
import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook, register_optimizer_step_pre_hook)
before, behind = [], []
register_optimizer_step_pre_hook(lambda *_: before.append(1))
register_optimizer_step_post_hook(lambda *_: behind.append(1))
torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(40):
    optimizer.zero_grad(set_to_none=False)
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
print("before", len(before), "behind", len(behind), model.weight.sum().item())
"""


class SessionTest(unittest.TestCase):
    def start(self, *command, **options):
        running = Running(*command, environment=QUIET, **options)
        self.addCleanup(running.end)
        return running

    def error(self, answer):
        self.assertIn("error", answer)
        return answer["error"]["kind"]

    def test_requests(self):
        running = stand_in.Running(*LONG, environment=QUIET)
        self.addCleanup(running.end)
        hello = running.hello()
        self.assertEqual(
            (hello["protocol"], hello["owns_loop"], hello["pid"]), (1, False, running.process.pid)
        )
        self.assertIn("loader.workers", hello["knobs"])
        self.assertEqual(self.error(running.ask("run", minimum_ns=1)), "invalid")
        loaded = running.must("load")
        self.assertEqual(loaded["step"], ["batch 0", "forward 0", "backward", "optimizer 0"])
        self.assertEqual((loaded["samples_per_step"], loaded["train_samples"]), (8, 96))
        self.assertTrue(loaded["has_filters"])
        # 40 epochs of 12 batches.
        self.assertEqual(loaded["length_told_by"], "epochs")
        self.assertEqual(loaded["steps"] + loaded["steps_left"], 480)
        self.assertEqual(loaded["samples_left"], 8 * loaded["steps_left"])
        self.assertEqual(loaded["most_samples_left"], loaded["samples_left"])
        self.assertEqual(loaded["most_told_by"], "epochs")
        self.assertRegex(loaded["roots"][0]["called_at"], r"classifier\.py:\d+$")
        self.assertRegex(loaded["optimizers"][0]["made_at"], r"classifier\.py:\d+$")
        self.assertRegex(loaded["loaders"][0]["made_at"], r"classifier\.py:\d+$")
        self.assertEqual({knob["name"] for knob in loaded["knobs"]}, set(hello["knobs"]))
        self.assertEqual(set(loaded["configuration"]), set(hello["knobs"]))

        with self.subTest("a block"):
            before = running.must("place")["steps"]
            block = running.must("run", minimum_ns=1, minimum_steps=5)
            self.assertGreaterEqual(block["steps"], 5)
            self.assertEqual(block["samples"], 8 * block["steps"])
            self.assertLessEqual(block["duration_ns"], block["end_ns"] - block["start_ns"])
            self.assertEqual(running.must("place")["steps"], before + block["steps_seen"])
        with self.subTest("never fewer than two clean steps"):
            self.assertGreaterEqual(running.must("run", minimum_ns=0, minimum_steps=0)["steps"], 2)
        with self.subTest("steps, with every loss"):
            block = running.must("steps", count=3)
            self.assertEqual((block["steps"], len(block["losses"])), (3, 3))
            self.assertEqual(block["losses"][-1], block["last_loss"])
        with self.subTest("an evaluation is not in a block"):
            block = running.must("run", minimum_ns=1, minimum_steps=30)
            self.assertGreater(block["steps_seen"], block["steps"])
        with self.subTest("what cannot be"):
            for fields in (
                {"configuration": {"loader.workers": -1}},
                {"configuration": {"loader.workers": True}},
                {"configuration": {"batch_size": 8}},
                {"configuration": {"precision.autocast": "fp16"}},
                {"configuration": {"precision.tf32": True}},
                {},
            ):
                self.assertEqual(self.error(running.ask("prepare", **fields)), "invalid", fields)
            self.assertEqual(self.error(running.ask("train")), "unsupported")
            self.assertEqual(self.error(running.ask("run", minimum_ns="soon")), "invalid")
            self.assertEqual(
                self.error(running.ask("check", configuration={}, steps=1, method="luck")),
                "invalid",
            )
            self.assertEqual(self.error(running.ask("trace", path="trace.txt")), "invalid")
            self.assertEqual(
                self.error(
                    running.ask(
                        "check",
                        configuration={"optimizer.fused": True},
                        steps=1,
                        method="cotangent",
                    )
                ),
                "unsupported",
            )
        with self.subTest("no time"):
            self.assertEqual(
                self.error(running.ask("run", minimum_ns=1 << 60, maximum_ns=0)), "timeout"
            )
        with self.subTest("a cancel"):
            running.send({"request": "cancel"})  # nothing is in progress
            running.send({"id": 99, "request": "run", "minimum_ns": 1 << 60})
            running.send({"request": "cancel"})
            answer = running.receive()
            self.assertEqual((answer["id"], self.error(answer)), (99, "cancelled"))
        with self.subTest("the check of loader knobs compares batches"):
            answer = running.must("check", configuration={"loader.workers": 1}, steps=3)
            self.assertEqual((answer["method"], answer["equal"]), ("batches", True))
            self.assertTrue(any(one["reference_norm"] > 0 for one in answer["parameters"]))
            self.assertEqual(running.must("prepare", configuration={})["changed"], [])
        with self.subTest("a profile"):
            before = running.must("place")["steps"]
            profile = running.must("profile", count=2)
            # PyTorch allows no profiler to begin inside of what another one has seen begin.
            self.assertGreaterEqual(running.must("place")["steps"] - before, 3)
            ratios = [
                profile["metrics"][f"step.{part}_ratio"]
                for part in ("data_wait", "forward", "backward", "optimizer", "zero_grad", "other")
            ]
            self.assertTrue(all(0 <= ratio <= 1 for ratio in ratios), ratios)
            self.assertEqual(profile["metrics"]["parameters.count"], loaded["parameters"])
            self.assertTrue(0 <= profile["metrics"]["cpu.kernel_ratio"] <= 1)
            self.assertGreaterEqual(profile["metrics"]["memory.page_faults_per_step"], 0)
            self.assertTrue(any("conv" in operator["name"] for operator in profile["operators"]))
        with self.subTest("a trace"), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "one.pt.trace.json.gz"
            answer = running.must("trace", path=str(path), active=2)
            self.assertEqual((answer["steps"], answer["bytes"]), (2, path.stat().st_size))
            with gzip.open(path) as file:
                self.assertGreater(len(json.load(file)["traceEvents"]), 0)
            self.assertEqual([one.name for one in Path(folder).iterdir()], [path.name])
        with self.subTest("finish"):
            running.must("finish", configuration={"precision.autocast": "bf16"})
            with self.assertRaises(Ended):
                running.receive()
            self.assertEqual(running.last["end"]["steps"], 40 * 12, "to the end of the script")
        code, out, error = running.close()
        self.assertEqual((code, error), (0, ""))
        self.assertIn("digest", out)

    def test_a_forward_pass_that_fails_is_done_again_as_before(self):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "narrow.py"
            script.write_text(FAILS_IN_16_BITS, encoding="utf-8")
            running = self.start(str(script))
            running.load()
            check = running.ask("check", configuration={"precision.autocast": "bf16"}, steps=2)
            self.assertEqual(self.error(check), "unsupported")
            self.assertIn("not in 16 bits", check["error"]["what"])
            running.must("prepare", configuration={"precision.autocast": "bf16"})
            answer = running.ask("run", minimum_ns=1)
            self.assertEqual(self.error(answer), "unsupported")
            self.assertIn("not in 16 bits", answer["error"]["what"])
            # The configuration before is in force.
            self.assertEqual(running.must("prepare", configuration={})["changed"], [])
            running.must("finish", configuration={})
            tried = running.rest()
            running = self.start(str(script))
            running.load()
            running.must("finish", configuration={})
            self.assertEqual(tried, running.rest())
            self.assertEqual(tried[1].split()[0], "40.0")

    def test_steps_are_counted_to_the_end(self):
        """Also where an optimizer is not there to count them by, and several batches make one."""
        for name in ("by_hand", "accumulation", "gan"):
            with self.subTest(name):
                watched, finished = self.start(f"{name}.py"), self.start(f"{name}.py")
                for running in (watched, finished):
                    running.load()
                finished.must("finish", configuration={})
                watched.send({"id": 2, "request": "run", "minimum_ns": 1 << 60})
                if name == "accumulation":
                    # The end of the script in the middle of a block.
                    with self.assertRaises(Ended):
                        watched.receive()
                    self.assertTrue(watched.last["end"]["steps_known"])
                for running in (watched, finished):
                    running.rest()
                told = [running.last["end"]["steps"] for running in (watched, finished)]
                self.assertLessEqual(abs(told[0] - told[1]), 1, told)
                self.assertGreater(told[1], 20)

    def test_hooks_of_the_scripts_own_for_all_optimizers(self):
        """PyTorch is going through them when the session lets go."""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "hooked.py"
            script.write_text(HOOKED, encoding="utf-8")
            untouched = alone(str(script), environment=QUIET)
            self.assertIn("before 40 behind 40", untouched[1])
            for ending in ("finish", "kept", "closed"):
                with self.subTest(ending):
                    running = self.start(str(script))
                    running.load()
                    if ending == "closed":
                        self.assertEqual(running.close(), untouched)
                        continue
                    change = {"optimizer.set_to_none": True} if ending == "kept" else {}
                    running.must("finish", configuration=change)
                    self.assertEqual(running.rest(), untouched)
                    self.assertEqual(running.last["end"]["steps"], 40)

    def test_a_session_that_dies_leaves_the_script_alone(self):
        running = self.start("accumulation.py")
        running.load()
        running.must("prepare", configuration={"optimizer.fused": True})
        code, out, error = running.close()
        self.assertEqual((code, error), (0, ""))
        self.assertIn("digest", out)

    def test_a_failure_of_ours_is_one_line(self):
        """A sitecustomize of the test's makes the package fail in the middle of a block."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "sitecustomize.py").write_text(
                """
import sys, threading
class Breaks:
    def find_spec(self, name, path=None, target=None):
        if name == "_autotuned_script.agent.activities":
            sys.meta_path.remove(self)
            import importlib.util
            spec = importlib.util.find_spec(name)
            run = spec.loader.exec_module
            def execute(module):
                run(module)
                def broken(block, step):
                    raise ZeroDivisionError("on purpose")
                module.Block.on_step = broken
            spec.loader.exec_module = execute
            return spec
        return None
sys.meta_path.insert(0, Breaks())
""",
                encoding="utf-8",
            )
            running = stand_in.Running(
                "accumulation.py", environment={**QUIET, "PYTHONPATH": f"{folder}:{self._path()}"}
            )
            self.addCleanup(running.end)
            running.load()
            running.must("prepare", configuration={"precision.autocast": "bf16"})
            with self.assertRaises(Ended):
                running.ask("run", minimum_ns=1)
            self.assertEqual(running.last["detached"]["kind"], "internal")
            self.assertIn("on purpose", running.last["detached"]["what"])
            code, out, error = running.rest()
            self.assertEqual((code, error.count("\n")), (0, 1), error)
            self.assertRegex(error, "^autotuned: stops tuning: ZeroDivisionError at ")
            self.assertIn("digest", out)

    @staticmethod
    def _path():
        import os

        return os.environ.get("PYTHONPATH", "")


if __name__ == "__main__":
    unittest.main()
