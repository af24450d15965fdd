# SPDX-License-Identifier: Apache-2.0
"""Which DataLoaders threads of C++ can stand in for, and the knob of it."""

import sys
import unittest
from unittest import mock

import torch
from torch.utils.data import BatchSampler, DataLoader, Sampler, Subset

import fake_torchvision
from autotuned.knobs.knobs import Knobs
from autotuned.loop.script import Script
from autotuned.parts.loader import LoaderSettings
from autotuned.protocol import RequestError
from autotuned.public.plan import NoPlan, plan_of
from photo_folder import DRAWING, EXACT, PhotosTest
from pictures import stage

THREADS = LoaderSettings(0, 2, False, False, 2)


class PlanTest(PhotosTest):
    def why_not(self, loader):
        with self.assertRaises(NoPlan) as refused:
            plan_of(loader)
        return str(refused.exception)

    def test_what_is_known(self):
        plan = plan_of(self.loader())
        self.assertEqual((plan.draws, plan.rounds, plan.batch_size), (False, False, 4))
        self.assertTrue(plan_of(self.loader(DRAWING)).draws)
        self.assertFalse(plan.is_of(self.loader()), "of another data set")

    def test_each_reason_is_told(self):
        class Backwards(Sampler):
            def __iter__(self):
                return iter(range(22, -1, -1))

            def __len__(self):
                return 23

        class Photos(fake_torchvision.ImageFolder):
            pass

        def changed(**fields):
            data = self.photos()
            vars(data).update(fields)
            return DataLoader(data, batch_size=4)

        def joined(samples):
            return samples

        own = Photos(str(self.folder), fake_torchvision.Compose(EXACT))
        order = BatchSampler(Backwards(), 2, False)
        reasons = {
            "batch_size=None": self.loader(batch_size=None, shuffle=False),
            "sampler is the script's own (Backwards)": self.loader(
                shuffle=False, sampler=Backwards()
            ),
            "the script's own (list)": DataLoader(self.photos(), batch_sampler=[[0], [1, 2]]),
            "script's own (Backwards)": DataLoader(self.photos(), batch_sampler=order),
            "its collate_fn is joined": self.loader(collate_fn=joined),
            "worker_init_fn": self.loader(worker_init_fn=print),
            "is a Photos, and known is ImageFolder": DataLoader(own),
            "has a target_transform (int)": changed(target_transform=int),
            "reads pictures by open": changed(loader=open),
            "no transforms": changed(transform=None),
            "Invert": self.loader([fake_torchvision.Invert(), *EXACT]),
            "end with a PIL image": self.loader([fake_torchvision.CenterCrop(8)]),
            "no files": changed(samples=[]),
            "b.bmp is neither JPEG nor PNG": changed(samples=[("a.png", 0), ("b.bmp", 0)]),
            "end of line": changed(samples=[("a\nb.png", 0)]),
        }
        for words, loader in reasons.items():
            with self.subTest(words):
                self.assertIn(words, self.why_not(loader))
        torchvision = sys.modules["torchvision"]
        with mock.patch.object(torchvision, "get_image_backend", lambda: "accimage"):
            self.assertIn("by accimage", self.why_not(self.loader()))
        with mock.patch.dict("os.environ", AUTOTUNED_PROGRAM="/nowhere/bin/autotuned"):
            self.assertIn("libautotuned_loader.so", self.why_not(self.loader()))

    def test_pixels_between_others_are_rounded_by_pillow_as_it_does(self):
        resize = stage(
            "Resize", "transforms", size=[8, 8], interpolation="bilinear", max_size=None
        )
        loader = self.loader([resize, *EXACT[1:]])
        self.assertFalse(plan_of(loader).rounds)
        for version in ("13.0.0", "unknown"):
            with mock.patch.object(sys.modules["PIL"], "__version__", version):
                self.assertTrue(plan_of(loader).rounds, version)
                self.assertFalse(plan_of(self.loader()).rounds, "nothing is resized")

    def test_a_change_of_the_data_set_is_seen(self):
        loader = self.loader()
        plan = plan_of(loader)
        self.assertTrue(plan.is_of(loader))
        loader.dataset.transform.transforms.append(fake_torchvision.Normalize([0.1], [0.2]))
        self.assertFalse(plan.is_of(loader))

    def test_a_change_of_an_entry_is_seen(self):
        loader = self.loader()
        plan = plan_of(loader)
        samples = loader.dataset.samples
        path, label = samples[3]
        samples[3] = (path, 1 - label)
        self.assertFalse(plan.is_of(loader))
        samples[3] = (path, label)
        self.assertTrue(plan.is_of(loader))
        samples.append(samples[3])
        self.assertFalse(plan.is_of(loader))

    def test_the_decoded_picture(self):
        data = Subset(self.photos(), [7, 3])
        plan = plan_of(DataLoader(data, batch_size=2))
        for place in (0, 1, -1):
            path = data.dataset.samples[data.indices[place]][0]
            self.assertTrue(
                torch.equal(plan.picture(place), fake_torchvision.default_loader(path).pixels)
            )


class KnobTest(PhotosTest):
    def knobs(self, loader):
        script = Script()
        self.script = script
        self.kept = loader  # a script keeps nothing alive
        script.found(loader).is_trained_from = True
        return Knobs(script)

    def test_its_class(self):
        def risk(stages):
            return self.knobs(self.loader(stages)).knobs["loader.native_threads"].risk

        self.assertEqual(risk(EXACT), "exact")
        self.assertEqual(risk(DRAWING), "semantics")

    def test_its_obstacle(self):
        tensors = torch.utils.data.TensorDataset(torch.zeros(8))
        knob = self.knobs(DataLoader(tensors)).knobs["loader.native_threads"]
        self.assertIn("known is ImageFolder", knob.unavailable)
        with self.assertRaises(RequestError):
            knob.check(1)

        class Odd(fake_torchvision.ImageFolder):
            pass

        Odd.__module__, Odd.__name__ = fake_torchvision.FOLDER, "ImageFolder"
        odd = Odd(str(self.folder), fake_torchvision.Compose(EXACT))
        del odd.samples
        knob = self.knobs(DataLoader(odd)).knobs["loader.native_threads"]
        self.assertIn("cannot be read: AttributeError", knob.unavailable)

    def test_processes_say_nothing_beside_threads(self):
        knobs = self.knobs(self.loader(num_workers=1))
        knobs.apply(knobs.whole({"loader.native_threads": 1, "loader.workers": 0}))
        found = self.script.training_loader()
        one = self.script.wanted(found)
        self.assertEqual((one.native_threads, one.workers), (1, 1))
        knobs.apply(knobs.whole({"loader.native_threads": 1}))
        self.assertEqual(self.script.wanted(found), one)
        knobs.undo()
        self.assertEqual(self.script.wanted(found).native_threads, 0)

    def test_what_waits_ends_with_the_trials(self):
        self.knobs(self.loader())
        found = self.script.training_loader()
        engines = [mock.Mock(), mock.Mock(), mock.Mock()]
        own = LoaderSettings.own(self.kept)
        kinds = [THREADS, LoaderSettings(0, 2, False, False, 1), own]
        self.assertTrue(found.keeps(THREADS))
        found.kept_engines.update(zip(kinds, engines))
        self.assertFalse(found.keeps(LoaderSettings(0, 2, False, False, 4)), "two are enough")
        self.script.loader_changes = {"native_threads": 2}
        self.script.end_trials()
        self.assertEqual(list(found.kept_engines), [THREADS, own])
        engines[1].end.assert_called_once_with()
        self.assertFalse(self.script.is_tuned)


if __name__ == "__main__":
    unittest.main()
