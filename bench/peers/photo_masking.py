# SPDX-License-Identifier: Apache-2.0
"""The input of recipes/photo_masking.yaml in PyTorch, loading alone: as a study published it, with all that its
author then did by hand, with torchvision's own decoder and transforms (v2), and as fast as we know how.

The photos are those of .deps/photos (scripts/setup --photos), or of the folder PHOTOS, repeated to 10,000 samples.
"""

import atexit
import glob
import os
import signal

import torch
import torchvision
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import functional, v2

import blocks

FOLDER = os.environ.get("PHOTOS", os.path.join(os.path.dirname(__file__), "../../.deps/photos"))
SAMPLES = 10_000
SIZE = 256
RATIO = 0.25
MATRIX = torch.tensor([[0.299, 0.587, 0.114], [-0.16874, -0.33126, 0.5], [0.5, -0.41869, -0.08131]])
OFFSET = torch.tensor([0.0, 128.0, 128.0])
CROSS = torch.tensor([[[[0.0, 1, 0], [1, 1, 1], [0, 1, 0]]]])


def place(height: int, width: int) -> tuple:
    top = int(torch.randint(0, height - SIZE + 1, ()))
    left = int(torch.randint(0, width - SIZE + 1, ()))
    return top, left, SIZE, SIZE


def dilated(mask: torch.Tensor) -> torch.Tensor:
    wide = mask.clone()
    wide[1:] |= mask[:-1]
    wide[:-1] |= mask[1:]
    wide[:, 1:] |= mask[:, :-1]
    wide[:, :-1] |= mask[:, 1:]
    return wide


def published(file: str) -> torch.Tensor:
    with Image.open(file) as image:
        pixels = functional.pil_to_tensor(image.convert("RGB"))
    pixels = functional.crop(pixels, *place(*pixels.shape[1:]))
    seeds = (torch.rand(1, 1, SIZE, SIZE) < RATIO).float()
    mask = torch.nn.functional.conv2d(seeds, CROSS, padding=1)[0, 0] > 0
    pixels = pixels * ~mask
    yuv = torch.tensordot(MATRIX, pixels.float(), dims=1) + OFFSET[:, None, None]
    return yuv * (1 / 255)


def tuned(file: str) -> torch.Tensor:
    with Image.open(file) as image:
        top, left, height, width = place(image.height, image.width)
        pixels = functional.pil_to_tensor(image.crop((left, top, left + width, top + height)))
    pixels = pixels * ~dilated(torch.rand(SIZE, SIZE) < RATIO)
    yuv = torch.tensordot(MATRIX, pixels.float(), dims=1) + OFFSET[:, None, None]
    return yuv * (1 / 255)


SCALED_MATRIX = MATRIX / 255
SCALED_OFFSET = (OFFSET / 255)[:, None]


class Masked(torch.nn.Module):
    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels * ~dilated(torch.rand(SIZE, SIZE) < RATIO)


class ToYuv(torch.nn.Module):
    """Of numbers from 0 to 1."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return torch.tensordot(MATRIX, pixels, dims=1) + SCALED_OFFSET[:, None]


TRANSFORMS = v2.Compose([v2.RandomCrop(SIZE), Masked(), v2.ToDtype(torch.float32, scale=True), ToYuv()])


def by_v2(file: str) -> torch.Tensor:
    return TRANSFORMS(torchvision.io.decode_image(file, mode=torchvision.io.ImageReadMode.RGB))


def best(file: str) -> torch.Tensor:
    return best_of(torchvision.io.decode_jpeg(torchvision.io.read_file(file)))


def best_of(pixels: torch.Tensor) -> torch.Tensor:
    top, left, height, width = place(*pixels.shape[1:])
    part = pixels[:, top : top + height, left : left + width].float()
    part.mul_(~dilated(torch.randint(0, 256, (SIZE, SIZE), dtype=torch.uint8) < int(256 * RATIO)))
    return torch.addmm(SCALED_OFFSET, SCALED_MATRIX, part.view(3, -1)).view(3, SIZE, SIZE)


FORMS = {"published": published, "tuned": tuned, "v2": by_v2, "best": best}


class Photos(Dataset):
    def __init__(self, make) -> None:
        self.files = sorted(glob.glob(os.path.join(FOLDER, "*.jpg")))
        if not self.files:
            raise SystemExit(f"no photos in {FOLDER}: run scripts/setup --photos")
        self.make = make

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple:
        return self.make(self.files[index % len(self.files)]), index % 10


class Job:
    forms = FORMS

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.batch_size = 32
        self.chosen = None
        self.loader = None
        atexit.register(self.signal, signal.SIGCONT)  # what is stopped cannot end

    def settings(self) -> list:
        cpus = len(os.sched_getaffinity(0))
        return [{"form": form, "workers": workers} for form in self.forms for workers in (0, cpus)]

    def prepare(self, settings: dict) -> None:
        if settings != self.chosen:
            self.signal(signal.SIGCONT)
            self.batches = self.loader = None
            self.chosen = settings
            self.loader = self.make_loader(**settings)
            self.batches = iter(self.loader)
        self.signal(signal.SIGCONT)
        # What was made while nobody looked is not counted.
        for _ in range(2 * settings["workers"] + 1):
            self.step()

    def make_loader(self, form: str, workers: int):
        return DataLoader(Photos(self.forms[form]), batch_size=self.batch_size, shuffle=True, drop_last=True,
                          num_workers=workers, persistent_workers=workers > 0)

    def signal(self, number: int) -> None:
        """To the worker processes, which would otherwise go on while another is timed."""
        for worker in getattr(getattr(self, "batches", None), "_workers", []):
            os.kill(worker.pid, number)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def step(self) -> torch.Tensor:
        try:
            images, _ = next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            images, _ = next(self.batches)
        return images[0, 0, 0, 0]


if __name__ == "__main__":
    blocks.serve(Job)
