# SPDX-License-Identifier: Apache-2.0
"""Scripts that make their optimizer or model anew, or train otherwise, in the middle of a trial.
"""

import gc
import tempfile
import textwrap
import unittest
import weakref
from pathlib import Path

import torch
from torch import nn

from autotuned.loop.hooks import Hooks
from autotuned.loop.script import Script
from autotuned.loop.watch import Watch
from forks import Running, alone
from stand_in import Ended

QUIET = {"PYTHONWARNINGS": "ignore"}
CANDIDATE = {"precision.autocast": "bf16", "optimizer.fused": True}

LOOP = """
    import sys
    import torch
    torch.manual_seed(1)
    def make(width=4):
        model = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 1))
        return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    seen = []
    def train(model, optimizer, steps):
        hook = model[0].register_forward_hook(lambda module, args, out: seen.append(out.dtype))
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        hook.remove()
    def values(model):
        return [parameter.sum().item() for parameter in model.parameters()]
"""


class RenewalTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)

    def start(self, text):
        path = Path(self._folder.name) / "train.py"
        path.write_text(textwrap.dedent(LOOP) + textwrap.dedent(text), encoding="utf-8")
        self.script = str(path)
        running = Running(self.script, environment=QUIET)
        self.addCleanup(running.end)
        running.load()
        return running

    def begin_trial(self, running):
        running.must("prepare", configuration=CANDIDATE)
        return running.ask("run", minimum_ns=1 << 60, maximum_ns=1 << 60)

    def test_it_goes_on_with_the_new_ones(self):
        for what in ("model, optimizer = make()", "optimizer = make_optimizer(model)"):
            with self.subTest(what):
                running = self.start(
                    f"""
                    def make_optimizer(model):
                        return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
                    model, optimizer = make()
                    train(model, optimizer, 30)
                    {what}
                    seen.clear()
                    train(model, optimizer, 60)
                    print(torch.float32 in seen, seen[-1], optimizer.param_groups[0]["fused"])
                    """
                )
                answer = self.begin_trial(running)
                self.assertEqual(answer["error"]["kind"], "busy", answer)
                # What is in force now is the script's own, of the new ones.
                self.assertEqual(running.must("prepare", configuration={})["changed"], [])
                changed = running.must("prepare", configuration=CANDIDATE)["changed"]
                self.assertEqual(sorted(changed), sorted(CANDIDATE))
                self.assertGreater(running.must("run", minimum_ns=1, minimum_steps=5)["steps"], 4)
                running.must("finish", configuration=CANDIDATE)
                code, out, error = running.rest()
                self.assertEqual((code, out, error), (0, "True torch.bfloat16 True\n", ""))

    def test_one_of_another_kind_ends_the_tuning(self):
        running = self.start(
            """
            model, optimizer = make()
            train(model, optimizer, 30)
            model, optimizer = make(width=6)
            seen.clear()
            train(model, optimizer, 40)
            print(set(seen), optimizer.param_groups[0]["fused"])
            """
        )
        self.assertEqual(self.begin_trial(running)["error"]["kind"], "busy")
        with self.assertRaises(Ended):
            running.receive()
        self.assertIn("another model", running.last["detached"]["what"])
        code, out, error = running.rest()
        self.assertEqual((code, out, error), (0, "{torch.float32} None\n", ""))

    def test_data_of_another_class_of_risk_end_the_tuning(self):
        running = self.start(
            """
            from torch.utils.data import DataLoader, Sampler, TensorDataset
            data = TensorDataset(torch.ones(32, 4))
            class Backwards(Sampler):
                def __init__(self):
                    pass
                def __iter__(self):
                    return iter(range(31, -1, -1))
                def __len__(self):
                    return 32
            def train_on(loader, model, optimizer, epochs):
                for _ in range(epochs):
                    for (x,) in loader:
                        optimizer.zero_grad()
                        model(x).square().mean().backward()
                        optimizer.step()
            def optimizer_of(model):
                return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
            model, _ = make()
            optimizer = optimizer_of(model)
            train_on(DataLoader(data, batch_size=4), model, optimizer, 4)
            optimizer = optimizer_of(model)
            train_on(DataLoader(data, batch_size=4, sampler=Backwards()), model, optimizer, 8)
            """
        )
        self.assertEqual(self.begin_trial(running)["error"]["kind"], "busy")
        with self.assertRaises(Ended):
            running.receive()
        self.assertIn("other data", running.last["detached"]["what"])
        self.assertEqual(running.rest()[0], 0)

    def test_one_that_steps_now_and_then_changes_nothing(self):
        running = self.start(
            """
            model, optimizer = make()
            other, rare = make()
            for _ in range(8):
                train(model, optimizer, 10)
                train(other, rare, 1)
            """
        )
        running.must("prepare", configuration=CANDIDATE)
        answer = running.must("run", minimum_ns=1, minimum_steps=40)
        self.assertGreater(answer["steps_seen"], answer["steps"])
        running.must("finish", configuration={})
        self.assertEqual(running.rest()[0], 0)

    def test_a_step_that_does_not_come_again_ends_the_trial(self):
        text = """
            model, optimizer = make()
            train(model, optimizer, 30)
            for _ in range(600):
                model.zero_grad()
                model(torch.randn(8, 4)).square().mean().backward()
            model[0].register_forward_hook(
                lambda module, args, out: print(out.dtype, optimizer.param_groups[0]["fused"]))
            model(torch.randn(8, 4))
            """
        running = self.start(text)
        running.must("prepare", configuration=CANDIDATE)
        with self.assertRaises(Ended):
            running.ask("run", minimum_ns=1 << 60, maximum_ns=1 << 60)
        self.assertIn("does not end any more", running.last["detached"]["what"])
        code, out, error = running.rest()
        self.assertEqual((code, out, error), (0, "torch.float32 None\n", ""))

    def test_a_script_that_is_refused_everything_trains_its_own_bits(self):
        running = self.start(
            """
            for _ in range(4):
                model, optimizer = make()
                train(model, optimizer, 20)
                print(values(model))
            """
        )
        answer = running.ask("run", minimum_ns=1 << 60, maximum_ns=1 << 60)
        self.assertEqual(answer["error"]["kind"], "busy", answer)
        running.must("run", minimum_ns=1, minimum_steps=3)
        running.must("finish", configuration={})
        self.assertEqual(running.rest(), alone(self.script, environment=QUIET))


    def test_what_was_kept_is_for_those_that_are_made_later(self):
        running = self.start(
            """
            from torch.utils.data import DataLoader, TensorDataset
            data = TensorDataset(torch.ones(32, 4))
            def loader_of(batch_size=4):
                return DataLoader(data, batch_size=batch_size)
            def optimizer_of(model):
                return torch.optim.SGD(model.parameters(), lr=0.01)
            def train_on(model, optimizer):
                iterator = iter(loader_of())
                for (x,) in iterator:
                    optimizer.zero_grad()
                    model(x).sum().backward()
                    optimizer.step()
                return iterator._num_workers
            model, _ = make()
            optimizer = optimizer_of(model)
            for epoch in range(8):
                workers = train_on(model, optimizer)
            print(workers, iter(loader_of(8))._num_workers)
            del optimizer
            optimizer = optimizer_of(model)
            print(optimizer.param_groups[0]["fused"])
            other = torch.optim.SGD(model.parameters(), lr=0.01)
            print(other.param_groups[0]["fused"], train_on(model, optimizer))
            """
        )
        kept = {"optimizer.fused": True, "loader.workers": 1}
        running.must("prepare", configuration=kept)
        running.must("steps", count=3)
        running.must("finish", configuration=kept)
        code, out, error = running.rest()
        self.assertEqual((code, out, error), (0, "1 0\nTrue\nNone 1\n", ""))


class WatchTest(unittest.TestCase):
    """Without a session."""

    def setUp(self):
        self.script = Script()
        self.watch = Watch(self.script)
        self.hooks = Hooks(self.script, self.watch)
        self.hooks.install()
        self.addCleanup(
            self.hooks.remove, keeps_forward=False, keeps_loaders=False, keeps_zero_grad=False
        )

    def train(self, steps):
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(steps):
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        return weakref.ref(model), weakref.ref(optimizer)

    def test_models_and_optimizers_are_the_scripts(self):
        gone = []
        gc.disable()  # as soon as without us, not when the collector comes
        self.addCleanup(gc.enable)
        for _ in range(5):
            gone += self.train(8)
        self.assertEqual([one() for one in gone], [None] * 10)
        self.assertEqual((self.script.roots, self.script.optimizers), ([], []))
        self.assertLess(len(self.script._stepping), 3, "one at the same place is the same")

    def test_an_evaluation_of_minutes_is_not_under_a_candidate(self):
        stalled = []
        self.watch.on_stalled = lambda: stalled.append(True)
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(8):
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        model.eval()
        model(torch.randn(8, 4))
        self.assertEqual(stalled, [])
        self.script.clock._began_ns -= 301 * 10**9
        model(torch.randn(8, 4))
        self.assertEqual(stalled, [True])


if __name__ == "__main__":
    unittest.main()
