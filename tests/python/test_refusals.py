# SPDX-License-Identifier: Apache-2.0
"""Scripts that are not tuned, and are left alone then; and what is not done beside a script."""

import tempfile
import textwrap
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch
from torch import nn

from autotuned.loop import watch as watch_module
from autotuned.loop.script import Root, Script
from forks import Running, alone
from stand_in import Ended
from test_checks import Loop

QUIET = {"PYTHONWARNINGS": "ignore"}

LOOP = """
    import os, tempfile, torch
    from torch import nn
    torch.manual_seed(1)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    def step(called=None):
        optimizer.zero_grad()
        (called or model)(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
"""


class RefusalsTest(unittest.TestCase):
    def write(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        script = Path(folder.name) / "train.py"
        script.write_text(textwrap.dedent(LOOP) + textwrap.dedent(text), encoding="utf-8")
        return str(script)

    def start(self, text):
        running = Running(self.write(text), environment=QUIET)
        self.addCleanup(running.end)
        return running

    def assert_detached(self, running, words):
        self.assertEqual(running.last["detached"]["kind"], "unsupported")
        self.assertIn(words, running.last["detached"]["what"])

    def test_several_processes_that_train_together(self):
        running = self.start(
            """
            store = os.path.join(tempfile.mkdtemp(), "store")
            torch.distributed.init_process_group(
                "gloo", init_method=f"file://{store}", rank=0, world_size=1)
            parallel = nn.parallel.DistributedDataParallel(model)
            for _ in range(20):
                step(parallel)
            torch.distributed.destroy_process_group()
            print("done")
            """
        )
        running.hello()
        with self.assertRaises(Ended):
            running.ask("load")
        self.assert_detached(running, "several processes train together")
        code, out, error = running.rest()
        self.assertEqual((code, out), (0, "done\n"), error)
        self.assertNotIn("autotuned", error)

    def test_several_processes_are_known_by_their_number(self):
        script = Script()
        script.kept = nn.Linear(2, 2)
        script.roots = [Root(script.kept, 0, "")]
        self.assertFalse(script.trains_with_others())
        group = torch.distributed
        with mock.patch.object(group, "is_available", return_value=True):
            with mock.patch.object(group, "is_initialized", return_value=True):
                for number, expected in ((1, False), (4, True)):
                    with mock.patch.object(
                        group, "get_world_size", return_value=number, create=True
                    ):
                        self.assertEqual(script.trains_with_others(), expected)

    def test_one_process_on_several_gpus(self):
        script = Script()
        script.kept = parallel = nn.DataParallel(nn.Linear(2, 2))
        script.roots = [Root(parallel, 0, "")]
        for ids, expected in (([], False), ([0], False), ([0, 1], True)):
            parallel.device_ids = ids
            self.assertEqual(bool(script.trains_on_several()), expected)
        script.kept = plain = nn.Linear(2, 2)
        script.roots = [Root(plain, 0, "")]
        for places, expected in (
            (("cuda:0", "cuda:0"), False),
            (("cpu", "cuda:1"), False),  # a part that is kept in the host's memory
            (("cuda:0", "cuda:1"), True),
        ):
            parts = [SimpleNamespace(device=torch.device(place)) for place in places]
            with mock.patch.object(Script, "parameters", return_value=parts):
                self.assertEqual(bool(script.trains_on_several()), expected)

    def test_a_script_on_several_gpus_is_left_alone(self):
        running = self.start(
            """
            parallel = nn.DataParallel(model)
            parallel.forward = lambda x: model(x)
            parallel.device_ids = [0, 1]
            for _ in range(20):
                step(parallel)
            print("done")
            """
        )
        running.hello()
        with self.assertRaises(Ended):
            running.ask("load")
        self.assert_detached(running, "trains on several GPUs")
        code, out, error = running.rest()
        self.assertEqual((code, out), (0, "done\n"), error)

    def test_where_nothing_repeats(self):
        text = """
            plain = nn.Module._wrapped_call_impl.__code__
            for number in range(5000):
                model(torch.randn(1, 4))
            backward = torch.autograd.backward
            print("hooked:", nn.Module._wrapped_call_impl.__code__ is plain,
                  backward.__code__.co_filename.endswith("hooks.py"),
                  model._compiled_call_impl is not None)
            """
        running = self.start(text)
        running.hello()
        with self.assertRaises(Ended):
            running.ask("load")
        self.assert_detached(running, "nothing repeated within 4096 events")
        code, out, error = running.rest()
        self.assertEqual((code, out, error), (0, "hooked: False False False\n", ""))

    def test_where_no_step_is_found_for_long(self):
        for is_trained in (False, True):
            with self.subTest(is_trained):
                loop = Loop()
                self.addCleanup(loop.close)
                told = []
                loop.watch.on_given_up = told.append
                if is_trained:
                    loop.known()
                else:
                    loop.model(torch.randn(8, 1, 8, 8))
                with mock.patch.object(watch_module, "_MOST_LEARNING_NS", 0):
                    loop.model.eval()
                    for _ in range(2):
                        loop.model(torch.randn(8, 1, 8, 8))
                    loop.model.train()
                    loop.step()
                self.assertEqual(bool(told), not is_trained)
                loop.close()
                for words in told:
                    self.assertIn("no step was found within", words)

    def test_a_script_that_profiles_itself(self):
        text = """
            from torch.profiler import ProfilerActivity, profile, schedule
            def profiled(steps):
                with profile(activities=[ProfilerActivity.CPU]) as one:
                    for _ in range(steps):
                        step()
                print("events:", any(event.key == "aten::addmm" for event in one.key_averages()))
            for _ in range(10):
                step()
            with profile(activities=[ProfilerActivity.CPU],
                         schedule=schedule(wait=0, warmup=2, active=2, repeat=1)) as scheduled:
                for _ in range(4):
                    step()
                    scheduled.step()
            for _ in range(20):
                step()
            profiled(5)
            for _ in range(30):
                step()
            print("weight:", model.weight.tolist())
            """
        path = self.write(text)
        want = alone(path, environment=QUIET)
        self.assertEqual(want[0], 0, want[2])
        running = Running(path, environment=QUIET)
        self.addCleanup(running.end)
        running.load()
        while running.must("place")["steps"] < 11:  # the script's profiler warms up
            running.must("steps", count=1)
        answer = running.ask("profile", count=2)
        self.assertEqual(answer["error"]["kind"], "unsupported", answer)
        self.assertIn("by itself", answer["error"]["what"])
        running.must("steps", count=1)
        self.assertIn("error", running.ask("trace", path="/tmp/never.json"))  # it is active
        running.must("steps", count=6)
        running.must("profile", count=2)
        answer = running.ask("profile", count=1000)  # the script's begins in the middle
        self.assertEqual(answer["error"]["kind"], "unsupported", answer)
        running.must("steps", count=8)
        running.must("profile", count=2)
        running.must("finish", configuration={})
        self.assertEqual(running.rest()[:2], want[:2])


class OwnDataTest(unittest.TestCase):
    def test_a_data_set_that_counts_is_left_alone(self):
        """What is refused changes nothing, also not by a check of it."""
        text = """
            from torch.utils.data import DataLoader, Dataset
            class Counts(Dataset):
                calls = 0
                def __len__(self):
                    return 40
                def __getitem__(self, index):
                    self.calls += 1
                    return torch.full((4,), self.calls / 100)
            data = Counts()
            for _ in range(8):
                for x in DataLoader(data, batch_size=4):
                    optimizer.zero_grad()
                    model(x).square().mean().backward()
                    optimizer.step()
            print(data.calls, model.weight.tolist())
            """
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "train.py"
            script.write_text(textwrap.dedent(LOOP) + textwrap.dedent(text), encoding="utf-8")
            want = alone(str(script), environment=QUIET)
            running = Running(str(script), environment=QUIET)
            self.addCleanup(running.end)
            running.load()
            answer = running.must("check", configuration={"memory.malloc": "keep"}, steps=4)
            self.assertEqual((answer["method"], answer["equal"]), ("batches", True))
            self.assertIn("no batch compared", answer["notes"][0])
            running.must("finish", configuration={})
            self.assertEqual(running.rest(), want)


if __name__ == "__main__":
    unittest.main()
