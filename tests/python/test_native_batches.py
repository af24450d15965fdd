# SPDX-License-Identifier: Apache-2.0
"""Batches of a script's DataLoader that threads of C++ make: the same samples in the same order,
whatever changes or fails between two of them.
"""

import random
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset

import autotuned
import fake_torchvision
from autotuned.checks.batches import BatchCheck
from autotuned.loop.script import Script
from autotuned.parts import native
from autotuned.parts.loader import LoaderSettings, SwitchableBatches
from autotuned.protocol import RequestError
from forks import Running, alone
from photo_folder import DRAWING, EXACT, PhotosTest, spoil, write_photos

THREADS = LoaderSettings(0, 2, False, False, 2)
QUIET = {"PYTHONWARNINGS": "ignore"}


class Epochs:
    """Epochs over one loader, with settings that `choose` changes behind each batch."""

    def __init__(self, loader, choose):
        self.loader = loader
        self.choose = choose
        self.settings = choose()
        self.kept = {}
        self.refused = []
        self.made_by = []

    def __call__(self, is_first):
        return SwitchableBatches(
            self.loader,
            lambda: self.settings,
            self.on_batch,
            is_first,
            self.kept,
            {},
            lambda settings, error: self.refused.append((settings, str(error))),
            lambda settings: settings.native_threads > 0,
        )

    def on_batch(self, batches, indexed, wait_ns):
        self.made_by.append(batches.made_by)
        self.settings = self.choose()

    def end(self):
        for engine in self.kept.values():
            engine.end()


class SwitchedTest(PhotosTest):
    def run_of(self, loader, source, count=3):
        """Batches, and what the script draws behind each of them."""
        seen, drawn = [], []
        for epoch in range(count):
            for batch in source(epoch == 0):
                seen.append([one.clone() for one in batch])
                drawn.append(torch.rand(1).item())
        return seen, drawn

    def compare(self, choose, stages=None, **options):
        torch.manual_seed(11)
        loader = self.loader(stages, **options)
        wanted, drawn = self.run_of(loader, lambda _: iter(loader))
        torch.manual_seed(11)
        epochs = Epochs(self.loader(stages, **options), choose)
        self.addCleanup(epochs.end)
        ours, ours_drawn = self.run_of(epochs.loader, epochs)
        self.assertEqual(ours_drawn, drawn)
        return epochs, ours, wanted

    def test_the_same_as_the_loader_alone(self):
        for options in ({}, {"drop_last": True}, {"shuffle": False}, {"num_workers": 1}):
            for threads in (1, 3):
                with self.subTest(threads=threads, **options):
                    workers = options.get("num_workers", 0)
                    settings = LoaderSettings(workers, 2, False, False, threads)
                    epochs, ours, wanted = self.compare(lambda: settings, **options)
                    self.assert_same(ours, wanted)
                    self.assertEqual(set(epochs.made_by), {settings})
                    self.assertEqual(epochs.refused, [])
                    self.assertEqual(list(epochs.kept), [settings], "for the next epoch")

    def test_the_same_whatever_changes_between_batches(self):
        coin = random.Random(5)

        def choose():
            threads = coin.choice([0, 0, 1, 2])
            workers = 0 if threads else coin.choice([0, 0, 1])
            return LoaderSettings(workers, 2, False, False, threads)

        epochs, ours, wanted = self.compare(choose)
        self.assert_same(ours, wanted)
        self.assertEqual(epochs.refused, [])
        self.assertGreater(len(set(epochs.made_by)), 2)

    def test_a_part_of_a_data_set(self):
        photos = self.photos()
        loader = DataLoader(Subset(Subset(photos, [5, 2, 9, 0]), [3, 1, 1]), batch_size=2)
        batches = SwitchableBatches(loader, lambda: THREADS, lambda *_: None, True, {}, {})
        self.assert_same(list(batches), list(loader))

    def test_an_epoch_that_is_left_early(self):
        epochs = Epochs(self.loader(shuffle=False), lambda: THREADS)
        self.addCleanup(epochs.end)
        for _ in epochs(True):
            break
        self.assert_same(list(epochs(False)), list(epochs.loader))
        pairs = list(zip(epochs(False), epochs(False)))  # two at once
        for one, other in pairs:
            self.assertTrue(torch.equal(one[0], other[0]))

    def test_random_stages_draw_from_nothing_of_the_scripts(self):
        torch.manual_seed(11)
        loader = self.loader(DRAWING)
        expected = [targets for _, targets in loader]
        torch.manual_seed(11)
        batches = SwitchableBatches(loader, lambda: THREADS, lambda *_: None, True, {}, {})
        before = None
        for (images, targets), wanted in zip(batches, expected):
            self.assertTrue(torch.equal(targets, wanted), "the order is the sampler's")
            self.assertEqual(images.shape[1:], (3, 8, 8))
            state = torch.get_rng_state()
            self.assertTrue(before is None or torch.equal(state, before))
            before = state

    def test_what_fails_is_made_as_the_script_makes_it(self):
        path = Path(self.photos().samples[9][0])
        spoil(path)
        epochs, ours, wanted = self.compare(lambda: THREADS)
        self.assert_same(ours, wanted)
        self.assertEqual(len({settings for settings, _ in epochs.refused}), 1)
        self.assertIn(path.name, epochs.refused[0][1])
        self.assertEqual(epochs.kept, {})

    def test_transforms_that_change_between_epochs(self):
        epochs = Epochs(self.loader(shuffle=False), lambda: THREADS)
        self.addCleanup(epochs.end)
        self.assert_same(list(epochs(True)), list(epochs.loader))
        epochs.loader.dataset.transform.transforms[:] = [fake_torchvision.Invert(), *EXACT]
        self.assert_same(list(epochs(False)), list(epochs.loader))
        self.assertIn("has changed", epochs.refused[0][1])

    def test_labels_that_change_between_epochs(self):
        epochs = Epochs(self.loader(shuffle=False), lambda: THREADS)
        self.addCleanup(epochs.end)
        self.assert_same(list(epochs(True)), list(epochs.loader))
        samples = epochs.loader.dataset.samples
        samples[:] = [(path, 1 - label) for path, label in samples]
        self.assert_same(list(epochs(False)), list(epochs.loader))
        self.assertIn("has changed", epochs.refused[0][1])

    def test_a_library_that_is_not_there(self):
        with mock.patch.dict("os.environ", AUTOTUNED_PROGRAM="/nowhere/bin/autotuned"):
            epochs, ours, wanted = self.compare(lambda: THREADS)
        self.assert_same(ours, wanted)
        self.assertIn("libautotuned_loader.so", epochs.refused[0][1])


class CheckedTest(PhotosTest):
    def batches(self, loader):
        return types.SimpleNamespace(
            loader=loader,
            batches_made=3,
            made_by=THREADS,
            is_stale=lambda: False,
            made_here=lambda index: [part.clone() for part in self.own],
        )

    def check(self, loader, index, candidate, expects_same):
        """The only batch of a check."""
        script = Script()
        model = nn.Linear(1, 1)
        script.optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
        self.kept = (model, script.optimizers)
        check = BatchCheck(script, 1, True, expects_same)
        check.on_batch(self.batches(loader), index, candidate)
        self.assertTrue(check.is_over())
        (answer,) = check.result()
        return answer

    def test_exact_batches_are_the_tuners_to_judge(self):
        loader = self.loader(shuffle=False)
        self.own = next(iter(loader))
        answer = self.check(loader, [0, 1, 2, 3], [one.clone() for one in self.own], True)
        self.assertTrue(answer["equal"])
        self.assertEqual(answer["reference_inputs"], answer["candidate_inputs"])
        self.assertEqual(len(answer["reference_inputs"][0]["projections"]), 4)
        other = [self.own[0].flip(0), self.own[1]]
        answer = self.check(loader, [0, 1, 2, 3], other, True)
        self.assertFalse(answer["equal"])
        (one,), (two,) = answer["reference_inputs"], answer["candidate_inputs"]
        self.assertEqual(one["labels"], two["labels"])
        self.assertNotEqual(one["images"], two["images"])
        self.assertEqual(one["projections"], two["projections"][::-1])

    def test_numbers_that_no_sum_tells_apart_are_equal(self):
        loader = self.loader(shuffle=False)
        self.own = [torch.tensor([0, 1, 2, 3]), torch.zeros(4, 2)]
        other = [self.own[0] + 1, self.own[1]]
        answer = self.check(loader, [0, 1, 2, 3], other, True)
        (one,), (two,) = answer["reference_inputs"], answer["candidate_inputs"]
        self.assertEqual(one["projections"], [])
        self.assertNotEqual(one["labels"], two["labels"])
        answer = self.check(loader, [0, 1, 2, 3], [part.clone() for part in self.own], True)
        self.assertEqual(answer["reference_inputs"], answer["candidate_inputs"])

    def test_batches_of_other_draws_have_the_same_samples(self):
        loader = self.loader(DRAWING, shuffle=False)
        self.own = next(iter(loader))
        flipped = [self.own[0].flip(3), self.own[1]]
        answer = self.check(loader, [0, 1, 2, 3], flipped, False)
        self.assertFalse(answer["equal"])
        self.assertEqual(answer["reference_inputs"], [], "they cannot be the same")

        def refusal(candidate, index=(0, 1, 2, 3)):
            with self.assertRaises(RequestError) as refused:
                self.check(loader, list(index), candidate, False)
            return refused.exception.what

        self.assertIn("batch 3: its targets", refusal([flipped[0], self.own[1] + 1]))
        self.assertIn("instead of", refusal([flipped[0].double(), self.own[1]]))
        self.assertIn("not finite", refusal([flipped[0] / 0, self.own[1]]))
        with mock.patch.object(native.Plan, "picture", return_value=torch.zeros(1)):
            self.assertIn("other pixels", refusal(flipped))
        with mock.patch.object(native.Plan, "picture", side_effect=RuntimeError("damaged")):
            self.assertIn("damaged", refusal(flipped))

    def test_pixels_that_may_be_rounded_otherwise(self):
        loader = self.loader(shuffle=False)
        self.own = next(iter(loader))
        level = 1 / 255 / 0.2
        with mock.patch("autotuned.public.plan.resizes", return_value=True), mock.patch.object(
            sys.modules["PIL"], "__version__", "13.0"
        ):
            answer = self.check(loader, [0], [self.own[0] + level, self.own[1]], True)
            self.assertFalse(answer["equal"])
            with self.assertRaisesRegex(RequestError, "differs by 3.0 of 256 levels"):
                self.check(loader, [0], [self.own[0] + 3 * level, self.own[1]], True)

    def test_batches_that_were_prepared_before_are_not_counted(self):
        loader = self.loader(shuffle=False)
        self.own = next(iter(loader))
        script = Script()
        check = BatchCheck(script, 2)
        batches = self.batches(loader)
        batches.is_stale = lambda: True
        for _ in range(3):
            check.on_batch(batches, [0], self.own)
            self.assertFalse(check.is_over())
        self.assertEqual(check.compared, 0)
        batches.is_stale = lambda: False
        check.on_batch(batches, [0], self.own)
        self.assertFalse(check.is_over())
        check.on_batch(batches, [0], self.own)
        self.assertTrue(check.is_over())


class ReplacedLoaderTest(PhotosTest):
    def test_it_gives_the_batches_of_the_data_loader(self):
        torch.manual_seed(5)
        loader = self.loader()
        wanted = [list(loader), list(loader)]
        drawn = torch.rand(1)
        for workers in (0, 2):
            torch.manual_seed(5)
            ours = autotuned.Loader.of(self.loader(), workers=workers)
            self.assertEqual(len(ours), len(loader))
            self.assertEqual((len(ours.dataset), ours.batch_size), (23, 4))
            for epoch in wanted:
                self.assert_same(list(ours), epoch)
            self.assertTrue(torch.equal(torch.rand(1), drawn))

    def test_it_draws_as_often_as_the_data_loader(self):
        options = {"num_workers": 1, "persistent_workers": True}
        torch.manual_seed(5)
        loader = self.loader(**options)
        wanted = [list(loader), list(loader)]
        drawn = torch.rand(1)
        torch.manual_seed(5)
        ours = autotuned.Loader.of(self.loader(**options), workers=1)
        for epoch in wanted:
            self.assert_same(list(ours), epoch)
        self.assertTrue(torch.equal(torch.rand(1), drawn))

    def test_another_loop_ends_the_one_before(self):
        ours = autotuned.Loader.of(self.loader(shuffle=False), workers=1)
        first = iter(ours)
        next(first)
        self.assert_same(list(ours), list(self.loader(shuffle=False)))
        with self.assertRaisesRegex(RuntimeError, "another loop"):
            next(first)

    def test_it_says_why_not(self):
        tensors = torch.utils.data.TensorDataset(torch.zeros(8))
        with self.assertRaisesRegex(ValueError, "known is ImageFolder"):
            autotuned.Loader.of(DataLoader(tensors))
        loader = self.loader()
        ours = autotuned.Loader.of(loader)
        loader.dataset.transform.transforms[:] = [fake_torchvision.Invert(), *EXACT]
        with self.assertRaisesRegex(ValueError, "not as it was.*Invert"):
            iter(ours)


class ScriptTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        write_photos(self.root, 41)

    def start(self, *arguments):
        running = Running("photos.py", self.root, *arguments, environment=QUIET)
        self.addCleanup(running.end)
        loaded = running.load()
        (knob,) = [one for one in loaded["knobs"] if one["name"] == "loader.native_threads"]
        return running, knob

    def test_a_script_trains_the_same_bits(self):
        for arguments in ((), ("--workers", "1")):
            with self.subTest(arguments=arguments):
                want = alone("photos.py", self.root, *arguments, environment=QUIET)
                running, knob = self.start(*arguments)
                self.assertEqual((knob["unavailable"], knob["risk"]), ("", "exact"))
                change = {"loader.native_threads": 2}
                answer = running.must("check", configuration=change, steps=4)
                self.assertTrue(answer["equal"], answer["notes"])
                self.assertEqual(answer["reference_inputs"], answer["candidate_inputs"])
                self.assertEqual(len(answer["reference_inputs"]), 4)
                for _ in range(3):
                    running.must("prepare", configuration=change)
                    running.must("run", minimum_ns=1)
                    running.must("prepare", configuration={})
                    running.must("run", minimum_ns=1)
                running.must("finish", configuration=change)
                self.assertEqual(running.rest(), want)

    def test_draws_are_another_training(self):
        running, knob = self.start("--draws")
        self.assertEqual((knob["unavailable"], knob["risk"]), ("", "semantics"))
        change = {"loader.native_threads": 1}
        answer = running.must("check", configuration=change, steps=3)
        self.assertEqual((answer["equal"], answer["finite"]), (False, True))
        running.must("finish", configuration=change)
        code, out, error = running.rest()
        self.assertEqual((code, error), (0, ""))
        self.assertIn("digest", out)

    def test_a_failure_behind_finish_is_one_line(self):
        want = alone("photos.py", self.root, environment=QUIET)
        running, _ = self.start()
        for path in Path(self.root).glob("*/*.png"):
            spoil(path)
        running.must("finish", configuration={"loader.native_threads": 1})
        code, out, error = running.rest()
        self.assertEqual((code, out), want[:2])
        self.assertEqual(error.count("\n"), 1, error)
        self.assertIn("autotuned: what was kept fails in the DataLoader", error)
        self.assertIn("the script goes on as it is", error)


if __name__ == "__main__":
    unittest.main()
