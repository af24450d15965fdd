# SPDX-License-Identifier: Apache-2.0
"""The input of recipes/resnet18_cifar.yaml in PyTorch, loading alone: small pictures in memory, made 224 x 224 and floats.

    bench/peers/small_pictures.py FILE      writes 10,000 random ones to FILE, in the binary form of CIFAR-10

The peer and bench/peers/small_pictures.yaml read .deps/small-pictures/pictures.bin. The forms:

    published   picture by picture on PIL, as the study has it
    v2          a batch at a time, as bytes in channels_last, which torchvision resizes fastest; then floats
    bytes       the same batch left as bytes, for floats that are made on the device (transfer.dtype: uint8)

All begin with the same bytes of 224 x 224: those of PIL and torchvision are compared before anything is timed.
"""

import os
import sys

import numpy
import torch
from PIL import Image
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler
from torchvision import transforms
from torchvision.transforms import v2

import blocks
import photo_masking

FILE = os.path.join(os.path.dirname(__file__), "../../.deps/small-pictures/pictures.bin")
SAMPLES = 10_000
SHAPE = (3, 32, 32)
SIZE = 224

ON_PIL = transforms.Compose([transforms.Resize((SIZE, SIZE)), transforms.ToTensor(), transforms.Normalize(0.5, 0.5)])
RESIZE = v2.Resize((SIZE, SIZE), antialias=True)
TO_FLOATS = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)])


def write(file: str) -> None:
    """Records of a label and the red, green and blue bytes."""
    records = numpy.random.default_rng(1).integers(0, 256, (SAMPLES, 1 + 3 * 32 * 32), dtype=numpy.uint8)
    records[:, 0] = numpy.arange(SAMPLES) % 10
    os.makedirs(os.path.dirname(os.path.abspath(file)), exist_ok=True)
    records.tofile(file)


def read(file: str) -> tuple:
    if not os.path.exists(file):
        raise SystemExit(f"no pictures: run bench/peers/small_pictures.py {file}")
    records = numpy.fromfile(file, dtype=numpy.uint8).reshape(-1, 1 + 3 * 32 * 32)
    return records[:, 1:].reshape(-1, *SHAPE).copy(), records[:, 0].astype(numpy.int64)


class OneByOne(Dataset):
    def __init__(self, pictures: numpy.ndarray, labels: numpy.ndarray) -> None:
        self.pictures = numpy.ascontiguousarray(pictures.transpose(0, 2, 3, 1))
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def image(self, index: int) -> Image.Image:
        return Image.fromarray(self.pictures[index])

    def __getitem__(self, index: int) -> tuple:
        return ON_PIL(self.image(index)), int(self.labels[index])


class Batches(Dataset):
    """Asked for the indices of a whole batch."""

    def __init__(self, pictures: numpy.ndarray, labels: numpy.ndarray, makes_floats: bool) -> None:
        self.pictures = torch.from_numpy(pictures).contiguous(memory_format=torch.channels_last)
        self.labels = torch.from_numpy(labels)
        self.makes_floats = makes_floats

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, batch: list) -> tuple:
        images = RESIZE(self.pictures[batch])
        return TO_FLOATS(images) if self.makes_floats else images, self.labels[batch]


class Job(photo_masking.Job):
    forms = ("published", "v2", "bytes")

    def __init__(self) -> None:
        super().__init__()
        self.data = read(FILE)
        self.check()

    def check(self) -> None:
        count = 2 * self.batch_size
        single = OneByOne(*self.data)
        of_pil = [numpy.asarray(single.image(i).resize((SIZE, SIZE), Image.Resampling.BILINEAR)) for i in range(count)]
        of_v2 = Batches(*self.data, makes_floats=False)[list(range(count))][0]
        if not torch.equal(torch.from_numpy(numpy.stack(of_pil)).permute(0, 3, 1, 2), of_v2):
            raise SystemExit("torchvision's bytes are not PIL's")

    def make_loader(self, form: str, workers: int) -> DataLoader:
        if form == "published":
            return DataLoader(OneByOne(*self.data), batch_size=self.batch_size, shuffle=True, drop_last=True,
                              num_workers=workers, persistent_workers=workers > 0)
        data = Batches(*self.data, makes_floats=form == "v2")
        batches = BatchSampler(RandomSampler(data), self.batch_size, drop_last=True)
        return DataLoader(data, sampler=batches, batch_size=None, num_workers=workers, persistent_workers=workers > 0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write(sys.argv[1])
    else:
        blocks.serve(Job)
