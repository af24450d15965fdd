# SPDX-License-Identifier: Apache-2.0
"""Tests with a folder of pictures, and loaders over it as a script makes them."""

import sys
import tempfile
import unittest
from pathlib import Path

import torch
from torch.utils.data import DataLoader

import fake_torchvision
from pictures import write_png

NORMALIZE = fake_torchvision.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.25])
EXACT = [fake_torchvision.CenterCrop(8), fake_torchvision.ToTensor(), NORMALIZE]
DRAWING = [fake_torchvision.CenterCrop(8), fake_torchvision.RandomHorizontalFlip()] + EXACT[1:]


def spoil(path):
    """The stand-in reads it as before; a decoder that looks at filters does not."""
    write_png(Path(path), fake_torchvision.default_loader(str(path)).pixels, 9)


def write_photos(folder, count=23):
    generator = torch.Generator().manual_seed(3)
    for number in range(count):
        size = (3, 9 + number % 4, 10 + number % 3)
        pixels = torch.randint(0, 256, size, dtype=torch.uint8, generator=generator)
        write_png(Path(folder) / "ab"[number % 2] / f"{number:02}, a.png", pixels)


class PhotosTest(unittest.TestCase):
    """With a folder of pictures, and the stand-in for torchvision."""

    def setUp(self):
        for name, module in fake_torchvision.modules().items():
            before = sys.modules.get(name)
            sys.modules[name] = module
            if before is None:
                self.addCleanup(sys.modules.pop, name)
            else:
                self.addCleanup(sys.modules.__setitem__, name, before)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        write_photos(self.folder)

    def photos(self, stages=None):
        chosen = list(EXACT if stages is None else stages)
        return fake_torchvision.ImageFolder(str(self.folder), fake_torchvision.Compose(chosen))

    def loader(self, stages=None, **options):
        return DataLoader(self.photos(stages), **{"batch_size": 4, "shuffle": True, **options})

    def assert_same(self, ours, wanted):
        self.assertEqual(len(ours), len(wanted))
        for one, other in zip(ours, wanted):
            self.assertIs(type(one), type(other))
            for tensor, expected in zip(one, other):
                self.assertEqual(tensor.dtype, expected.dtype)
                self.assertTrue(torch.equal(tensor, expected))
