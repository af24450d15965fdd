# SPDX-License-Identifier: Apache-2.0
"""Batches whose workers change.

None lost, doubled or out of order, and no other random number drawn.
"""

import enum
import functools
import multiprocessing
import random
import unittest
from unittest import mock

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, Sampler
from torch.utils.data import Subset, TensorDataset

from autotuned.parts.data import has_own_data, has_own_sampler
from autotuned.parts.loader import (
    LoaderSettings,
    SwitchableBatches,
    draws_of,
    lack_of_memory,
    obstacle_of,
    start_method_of,
)


class Numbers(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        return torch.tensor([index, index * index])


class Noise(Numbers):
    def __getitem__(self, index):
        return torch.rand(2)


class Backwards(Sampler):
    def __iter__(self):
        return iter(range(47, -1, -1))

    def __len__(self):
        return 48


class Epochs:
    """Epochs over one loader, as a script sees them with settings that change."""

    def __init__(self, loader, choose=None):
        self.loader = loader
        self.settings = LoaderSettings.own(loader)
        self.choose = choose
        self.kept = {}
        self.is_first = True
        self.seen = []

    def batches(self):
        is_first, self.is_first = self.is_first, False
        return SwitchableBatches(
            self.loader, lambda: self.settings, self.on_batch, is_first, self.kept, {}
        )

    def on_batch(self, batches, indexed, wait_ns):
        index, batch = indexed
        self.seen.append(batches.is_as_made_here(index, batch))
        if self.choose is not None:
            self.settings = self.choose()


def epochs_of(iterate, count, **options):
    """Batches, and the state of the main generator behind each of them."""
    torch.manual_seed(11)
    loader = DataLoader(Numbers(), batch_size=4, shuffle=True, **options)
    source = iterate(loader)
    seen = []
    for _ in range(count):
        for batch in source():
            torch.rand(1)  # the script draws too
            seen.append((batch.tolist(), torch.get_rng_state().sum().item()))
    return seen


class SwitchableBatchesTest(unittest.TestCase):
    def test_the_same_as_the_loader_alone(self):
        for options in ({}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}):
            with self.subTest(**options):
                alone = epochs_of(lambda loader: lambda: iter(loader), 2, **options)
                ours = epochs_of(lambda loader: Epochs(loader).batches, 2, **options)
                self.assertEqual(ours, alone)

    def test_the_same_whatever_changes_between_batches(self):
        alone = epochs_of(lambda loader: lambda: iter(loader), 2)
        coin = random.Random(5)

        def choose():
            workers = coin.choice([0, 1, 2])
            return LoaderSettings(workers, coin.choice([1, 2]), False, coin.random() < 0.5)

        epochs = []

        def begin(loader):
            epochs.append(Epochs(loader, choose))
            return epochs[0].batches

        self.assertEqual(epochs_of(begin, 2), alone)
        self.assertEqual(epochs[0].seen, [True] * 24)

    def test_an_epoch_that_is_left_early(self):
        loader = DataLoader(Numbers(), batch_size=4)
        epochs = Epochs(loader)
        epochs.settings = LoaderSettings(1, 2, False, True)
        for _ in epochs.batches():
            break
        self.assertEqual([batch[0, 0].item() for batch in epochs.batches()], list(range(0, 48, 4)))
        self.assertEqual(len(epochs.kept), 1)

    def test_two_epochs_at_once(self):
        epochs = Epochs(DataLoader(Numbers(), batch_size=4))
        epochs.settings = LoaderSettings(1, 2, False, True)
        pairs = [
            (one[0, 0].item(), other[0, 0].item())
            for one, other in zip(epochs.batches(), epochs.batches())
        ]
        self.assertEqual(pairs, [(number, number) for number in range(0, 48, 4)])

    def test_another_batch_is_seen(self):
        epochs = Epochs(DataLoader(Noise(), batch_size=4))
        epochs.settings = LoaderSettings(1, 2, False, False)
        list(epochs.batches())
        self.assertNotIn(True, epochs.seen)

    def test_length_and_attributes_are_those_of_pytorch(self):
        batches = Epochs(DataLoader(Numbers(), batch_size=5, drop_last=True)).batches()
        self.assertEqual(len(batches), 9)
        self.assertEqual(batches._num_workers, 0)
        self.assertFalse(hasattr(batches, "no_such_attribute"))


class WhatIsKnownTest(unittest.TestCase):
    def test_obstacles(self):
        class Stream(IterableDataset):
            def __iter__(self):
                return iter(range(4))

        class OwnLoader(DataLoader):
            def __iter__(self):
                return super().__iter__()

        self.assertEqual(obstacle_of(DataLoader(Numbers())), "")
        self.assertIn("IterableDataset", obstacle_of(DataLoader(Stream())))
        self.assertIn("OwnLoader", obstacle_of(OwnLoader(Numbers())))
        self.assertIn("order", obstacle_of(DataLoader(Numbers(), num_workers=1, in_order=False)))

    def test_draws_are_seen_and_taken_back(self):
        before = torch.get_rng_state()
        self.assertEqual(draws_of(DataLoader(Noise())), ["torch"])
        self.assertEqual(draws_of(DataLoader(Numbers())), [])
        self.assertTrue(torch.equal(before, torch.get_rng_state()))

    def test_a_sampler_of_the_scripts_own(self):
        self.assertTrue(has_own_sampler(DataLoader(Numbers(), sampler=Backwards())))
        self.assertFalse(has_own_sampler(DataLoader(TensorDataset(torch.zeros(4)), shuffle=True)))
        inside = BatchSampler(Backwards(), 2, True)
        self.assertTrue(has_own_sampler(DataLoader(Numbers(), batch_sampler=inside)))
        plain = [[0, 1], [2, 3]]  # no class of PyTorch's at all
        self.assertTrue(has_own_sampler(DataLoader(Numbers(), batch_sampler=plain)))

    def test_a_data_set_that_draws_for_some_samples_only(self):
        class SomeNoise(Numbers):
            def __getitem__(self, index):
                return torch.rand(1) if index % 8 == 7 else torch.zeros(1)

        self.assertEqual(draws_of(DataLoader(SomeNoise())), ["torch"])

    def test_data_of_the_scripts_own(self):
        tensors = TensorDataset(torch.zeros(4))
        self.assertFalse(has_own_data(DataLoader(tensors)))
        self.assertFalse(has_own_data(DataLoader(Subset(tensors, [0, 1]))))
        self.assertTrue(has_own_data(DataLoader(Numbers())))
        self.assertTrue(has_own_data(DataLoader(Subset(Numbers(), [0, 1]))))
        self.assertTrue(has_own_data(DataLoader(tensors, collate_fn=lambda parts: parts)))
        self.assertTrue(has_own_data(DataLoader(tensors, worker_init_fn=print)))

    def test_what_the_script_gives_to_a_data_set_of_torchvision_is_its_own(self):
        def of_torchvision(name, *bases, module="torchvision.transforms.transforms"):
            def init(part, **fields):
                super(kind, part).__init__()
                vars(part).update(fields)

            kind = type(name, bases, {"__init__": init, "__module__": module})
            return kind

        Images = of_torchvision("Images", Dataset, module="torchvision.datasets.folder")
        Compose = of_torchvision("Compose", object)
        Lambda = of_torchvision("Lambda", object)
        Normalize = of_torchvision("Normalize", torch.nn.Module)

        class Noise:
            def __init__(self):
                self.random = random.Random(3)

        class Stage(enum.Enum):
            NEAREST = "nearest"

        usual = [Normalize(mean=[0.5], std=(0.5,), inplace=False), Compose(how=Stage.NEAREST)]
        files = [("a.jpg", 0), ("b.jpg", 1)]

        def is_own(**fields):
            return has_own_data(DataLoader(Images(samples=files, root="photos", **fields)))

        self.assertFalse(is_own(transform=None, target_transform=int))
        self.assertFalse(is_own(transform=Compose(transforms=usual)))
        self.assertFalse(is_own(transform=functools.partial(torch.flatten, start_dim=1)))
        for part in (
            Noise(),
            random.Random(3).random,
            torch.Generator(),
            lambda image: image,
            functools.partial(lambda image, by: image, by=2),
            Lambda(lambd=lambda image: image),
            Compose(transforms=[*usual, Noise()]),
            Compose(transforms=[Compose(transforms=[Normalize(generator=torch.Generator())])]),
        ):
            with self.subTest(part=part):
                self.assertTrue(is_own(transform=part))
                self.assertTrue(is_own(target_transform=part))
                self.assertTrue(is_own(transforms=Compose(transform=part)))
        self.assertTrue(is_own(loader=lambda path: path))

    def test_what_workers_need(self):
        loader = DataLoader(Numbers())
        self.assertIn(start_method_of(loader), multiprocessing.get_all_start_methods())
        with mock.patch.object(torch.multiprocessing, "get_start_method", return_value="spawn"):
            self.assertEqual(start_method_of(loader), "spawn")
        with mock.patch.object(torch.multiprocessing, "get_start_method", return_value=None):
            first = multiprocessing.get_all_start_methods()[0]
            self.assertEqual(start_method_of(loader), first)
        other = DataLoader(Numbers(), num_workers=1, multiprocessing_context="forkserver")
        self.assertEqual(start_method_of(other), "forkserver")
        usage = mock.Mock(free=64 << 20)
        with mock.patch("shutil.disk_usage", return_value=usage):
            two = LoaderSettings(2, 4, False, False)
            self.assertEqual(lack_of_memory(two, 4 << 20), "")
            self.assertIn("64 MiB left", lack_of_memory(two, 5 << 20))


if __name__ == "__main__":
    unittest.main()
