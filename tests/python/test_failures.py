# SPDX-License-Identifier: Apache-2.0
"""What fails under a change that is tried, or in the package itself, never reaches the script."""

import collections
import multiprocessing
import os
import signal
import tempfile
import textwrap
import time
import unittest
from pathlib import Path
from unittest import mock

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, get_worker_info

from autotuned.loop.script import ForwardSettings, Root, Script
from autotuned.loop.watch import Guard, Watch
from autotuned.parts import engines
from autotuned.parts.loader import LoaderSettings, SwitchableBatches
from autotuned.parts.tensors import map_tensors
from forks import Running, alone
from test_checks import Loop

QUIET = {"PYTHONWARNINGS": "ignore"}
WORKERS = LoaderSettings(2, 2, False, False)


class Numbers(Dataset):
    """Does `spoil` in a worker when it makes this sample."""

    def __init__(self, spoil=None, at=20):
        self.spoil = spoil
        self.at = at

    def __len__(self):
        return 48

    def __getitem__(self, index):
        if index == self.at and get_worker_info() is not None and self.spoil is not None:
            self.spoil()
        return torch.tensor([index])


def fail():
    raise ValueError("not in a worker")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def hang():
    time.sleep(1000)


class LoaderFailuresTest(unittest.TestCase):
    def batches(self, dataset, choose, **options):
        """All of an epoch, under settings that `choose` says by the number of the batch."""
        loader = DataLoader(dataset, batch_size=4, **options)
        seen, self.refused = [], []
        batches = SwitchableBatches(
            loader,
            lambda: choose(len(seen)) or LoaderSettings.own(loader),
            lambda *_: None,
            True,
            {},
            {},
            lambda settings, error: self.refused.append((settings, str(error))),
        )
        for batch in batches:
            seen.append(batch.flatten().tolist())
        return seen

    def assert_all(self, seen):
        self.assertEqual(seen, [list(range(first, first + 4)) for first in range(0, 48, 4)])
        self.assertEqual([settings for settings, _ in self.refused], [WORKERS])

    def test_a_worker_that_fails(self):
        self.assert_all(self.batches(Numbers(fail), lambda number: WORKERS))
        self.assertIn("not in a worker", self.refused[0][1])

    def test_behind_the_scripts_own_and_before_it(self):
        """The failed ones were promised before those that are promised already."""
        other = LoaderSettings(1, 1, False, False)

        def choose(number):
            return WORKERS if 1 <= number < 4 else other if number == 4 else None

        self.assert_all(self.batches(Numbers(fail, at=16), choose))

    def test_workers_of_the_scripts_own_make_what_was_promised(self):
        # The script's own worker process makes sample 20 as well, only later.
        spoil = Numbers(lambda: fail() if get_worker_info().num_workers == 2 else None)
        seen = self.batches(spoil, lambda number: WORKERS if number else None, num_workers=1)
        self.assert_all(seen)

    def test_a_worker_that_is_killed(self):
        # As where /dev/shm is full. Nothing is raised while the script does something else.
        def choose(number):
            if number == 2:
                time.sleep(2)
            return WORKERS

        self.assert_all(self.batches(Numbers(die), choose))

    def test_a_worker_that_hangs(self):
        with mock.patch.object(engines, "_MOST_WAIT_S", 2.0):
            self.assert_all(self.batches(Numbers(hang), lambda number: WORKERS))
        self.assertIn("no batch came", self.refused[0][1])

    def test_processes_that_cannot_be_started(self):
        for when in (0, 3):
            with self.subTest(when):
                with mock.patch.object(
                    multiprocessing.process.BaseProcess, "start", side_effect=OSError("no fork")
                ):
                    seen = self.batches(
                        Numbers(), lambda number: WORKERS if number >= when else None
                    )
                self.assert_all(seen)
                self.assertIn("no fork", self.refused[0][1])

    def test_what_spawn_cannot_pass_on(self):
        before = multiprocessing.get_start_method()
        multiprocessing.set_start_method("spawn", force=True)
        self.addCleanup(multiprocessing.set_start_method, before, force=True)
        self.assert_all(self.batches(Numbers(lambda: None), lambda number: WORKERS))

    def test_a_sampler_that_fails_does_so_behind_its_batches(self):
        class Broken:
            def __iter__(self):
                yield from ([0, 1], [2, 3], [4, 5])
                raise ValueError("no more")

            def __len__(self):
                return 9

        loader = DataLoader(Numbers(), batch_sampler=Broken())
        batches = SwitchableBatches(loader, lambda: WORKERS, lambda *_: None, True, {}, {})
        seen = []
        with self.assertRaisesRegex(ValueError, "no more"):
            for batch in batches:
                seen.append(batch.flatten().tolist())
        self.assertEqual(seen, [[0, 1], [2, 3], [4, 5]])

    def test_what_the_script_cannot_make_fails_as_it_does_alone(self):
        class Damaged(Numbers):
            def __getitem__(self, index):
                if index == 9:
                    raise OSError("damaged")
                return torch.tensor([index])

        def all_of(iterator):
            seen = []
            while True:
                try:
                    seen.append(next(iterator).flatten().tolist())
                except OSError:
                    seen.append("damaged")
                except StopIteration:
                    return seen

        loader = DataLoader(Damaged(), batch_size=4)
        for settings in (LoaderSettings.own(loader), WORKERS):
            ours = SwitchableBatches(loader, lambda: settings, lambda *_: None, True, {}, {})
            self.assertEqual(all_of(ours), all_of(iter(loader)))


class Narrow(nn.Module):
    """Fails in 16 bits from some step on, and draws a random number in each."""

    def __init__(self, fails_from):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.fails_from = fails_from
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        out = self.linear(x) * torch.rand(1)
        if out.dtype != torch.float32 or self.linear(x).dtype != torch.float32:
            if self.calls >= self.fails_from:
                raise RuntimeError("not in 16 bits")
        return out


class ForwardFailuresTest(unittest.TestCase):
    def test_it_is_made_again_as_the_script_does_it(self):
        script, failures = Script(), []
        script.on_forward_failed = failures.append
        script.forward = ForwardSettings(autocast=torch.bfloat16)
        model = Narrow(0)
        root = Root(model, 0, "")
        x = torch.randn(2, 4)
        torch.manual_seed(3)
        want = model.linear(x) * torch.rand(1)
        torch.manual_seed(3)
        out = script.run_forward(root, (x,), {})
        self.assertTrue(torch.equal(out, want))
        self.assertEqual([str(one) for one in failures], ["not in 16 bits"])
        self.assertIsNone(failures[0].__traceback__, "it holds no tensors")

    def test_what_the_script_cannot_do_either_is_its_own_failure(self):
        script, failures = Script(), []
        script.on_forward_failed = failures.append
        script.forward = ForwardSettings(autocast=torch.bfloat16)
        model = nn.Linear(4, 4)  # a root keeps none alive
        root = Root(model, 0, "")
        with self.assertRaisesRegex(RuntimeError, "shapes cannot be multiplied"):
            script.run_forward(root, (torch.randn(2, 5),), {})
        self.assertEqual(failures, [])

    def test_a_guard_that_cannot_take_a_copy_guards_nothing(self):
        class Uncopied(torch.Tensor):
            def clone(self, *args, **kwargs):
                raise torch.OutOfMemoryError("no room")

        model = nn.Linear(4, 4)
        model.register_buffer("large", torch.zeros(2).as_subclass(Uncopied))
        script = Script()
        guard = Guard(3, lambda: None)
        out = guard.run(script, Root(model, 0, ""), (torch.randn(2, 4),), {})
        self.assertEqual(out.shape, (2, 4))

    SCRIPT = """
    import sys, torch
    from torch import nn
    torch.manual_seed(1)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
        def forward(self, x):
            y = self.first(x) * torch.rand(1)
            if step >= int(sys.argv[1]) and self.first(x).dtype != torch.float32:
                raise RuntimeError("not in 16 bits")
            return y
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    dtypes = set()
    model.first.register_forward_hook(lambda module, args, out: dtypes.add(out.dtype))
    for step in range(80):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        if step > int(sys.argv[1]):
            dtypes.clear() if step == int(sys.argv[1]) + 1 else None
    print("done", dtypes)
    """

    def start(self, fails_from):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        script = Path(folder.name) / "narrow.py"
        script.write_text(textwrap.dedent(self.SCRIPT), encoding="utf-8")
        running = Running(str(script), str(fails_from), environment=QUIET)
        self.addCleanup(running.end)
        running.load()
        return running

    def test_behind_the_guarded_steps_the_request_fails(self):
        running = self.start(30)
        change = {"precision.autocast": "bf16"}
        running.must("prepare", configuration=change)
        answer = running.ask("run", minimum_ns=1 << 60)
        self.assertEqual(answer["error"]["kind"], "unsupported")
        self.assertIn("not in 16 bits", answer["error"]["what"])
        self.assertEqual(running.must("prepare", configuration={})["changed"], [])
        running.must("finish", configuration={})
        self.assertEqual(running.rest(), (0, "done {torch.float32}\n", ""))

    def test_behind_finish_it_is_one_line(self):
        running = self.start(40)
        running.must("finish", configuration={"precision.autocast": "bf16"})
        code, out, error = running.rest()
        self.assertEqual((code, out), (0, "done {torch.float32}\n"))
        self.assertEqual(error.count("\n"), 1, error)
        self.assertIn("autotuned: what was kept fails in the forward pass", error)
        self.assertIn("not in 16 bits", error)


class OwnFailuresTest(unittest.TestCase):
    def test_a_failure_that_cannot_be_told_is_over_too(self):
        watch = Watch(Script())
        watch.on_failure = lambda error: 1 / 0
        self.assertIsNone(watch.safely(lambda: {}["no such key"]))
        self.assertFalse(watch.is_watching)

    def test_trees_keep_what_they_are(self):
        class Named(dict):
            def __init__(self, *, required):
                super().__init__()
                self.required = required

        class Listed(list):
            def __init__(self, first, second):
                super().__init__([first, second])

        Pair = collections.namedtuple("Pair", "one other")
        tensor = torch.ones(2)
        named = Named(required=3)
        named[7] = tensor  # no name of an argument
        for tree in (named, Listed(tensor, 2), Pair(tensor, 1), [tensor], {"a": (tensor,)}):
            with self.subTest(type(tree).__name__):
                self.assertIs(map_tensors(lambda one: one, tree), tree)
                changed = map_tensors(lambda one: one + 1, tree)
                self.assertIs(type(changed), type(tree))
                self.assertIsNot(changed, tree)
        self.assertEqual(map_tensors(lambda one: one + 1, named).required, 3)
        self.assertEqual(map_tensors(lambda one: one + 1, named)[7].tolist(), [2.0, 2.0])
        self.assertEqual(named[7].tolist(), [1.0, 1.0])

    def test_a_working_folder_that_is_gone(self):
        loop = Loop().known()
        self.addCleanup(loop.close)
        # A name that is not absolute: as of a script that another program runs.
        text = """
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        loader = DataLoader(TensorDataset(torch.ones(4, 4)))
        """
        names = {"torch": torch, "DataLoader": DataLoader, "TensorDataset": TensorDataset}
        names["model"] = loop.model
        with mock.patch("os.getcwd", side_effect=FileNotFoundError("gone")):
            exec(compile(textwrap.dedent(text), "train.py", "exec"), names)
        self.assertEqual(loop.failures, [])
        self.assertEqual(loop.script.made_at[names["optimizer"]], "train.py:2")
        self.assertEqual(loop.script.made_at[names["loader"]], "train.py:3")


class LoaderOfAScriptTest(unittest.TestCase):
    SCRIPT = """
    import torch
    from torch.utils.data import DataLoader, Dataset, get_worker_info
    from torch import nn
    class Own(Dataset):
        def __len__(self):
            return 64
        def __getitem__(self, index):
            if get_worker_info() is not None and index > 40:
                raise OSError("only in the script's process")
            return torch.full((4,), float(index)), torch.ones(1)
    torch.manual_seed(1)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    for epoch in range(6):
        for x, y in DataLoader(Own(), batch_size=4):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    print(model.weight.tolist())
    """

    def test_the_request_fails_and_the_script_trains_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "own.py"
            script.write_text(textwrap.dedent(self.SCRIPT), encoding="utf-8")
            want = alone(str(script), environment=QUIET)
            running = Running(str(script), environment=QUIET)
            self.addCleanup(running.end)
            running.load()
            change = {"loader.workers": 1}
            running.must("prepare", configuration=change)
            answer = running.ask("run", minimum_ns=1 << 60)
            self.assertEqual(answer["error"]["kind"], "unsupported", answer)
            self.assertIn("only in the script's process", answer["error"]["what"])
            # They are refused from now on, and the script's own are in force.
            again = running.ask("prepare", configuration=change)
            self.assertEqual(again["error"]["kind"], "unsupported", again)
            self.assertEqual(running.must("prepare", configuration={})["changed"], [])
            running.must("steps", count=2)
            running.must("finish", configuration={})
            self.assertEqual(running.rest(), want)


if __name__ == "__main__":
    unittest.main()
