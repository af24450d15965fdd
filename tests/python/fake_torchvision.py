# SPDX-License-Identifier: Apache-2.0
"""As much of torchvision and PIL as a script with pictures in folders uses, for PNG files.

The classes have the modules, names and attributes of torchvision's, and give its numbers.
"""

from __future__ import annotations

import os
import struct
import types
import zlib
from pathlib import Path
from typing import Any

import torch

FOLDER = "torchvision.datasets.folder"
TRANSFORMS = "torchvision.transforms.transforms"


class Image:
    """Of PIL: pixels of three bytes."""

    mode = "RGB"

    def __init__(self, pixels: torch.Tensor) -> None:
        self.pixels = pixels  # by channel, row, column
        self.size = (pixels.shape[2], pixels.shape[1])

    def tobytes(self) -> bytes:
        return bytes(self.pixels.permute(1, 2, 0).flatten().tolist())


def default_loader(path: str) -> Image:
    """Of the PNG files that pictures.py writes."""
    content = Path(path).read_bytes()
    width, height = struct.unpack(">II", content[16:24])
    place, body = 8, b""
    while place < len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        if content[place + 4 : place + 8] == b"IDAT":
            body += content[place + 8 : place + 8 + length]
        place += 12 + length
    rows = zlib.decompress(body)
    line = 1 + 3 * width
    pixels = b"".join(rows[row * line + 1 : (row + 1) * line] for row in range(height))
    flat = torch.frombuffer(bytearray(pixels), dtype=torch.uint8)
    return Image(flat.view(height, width, 3).permute(2, 0, 1).contiguous())


class ImageFolder(torch.utils.data.Dataset):
    def __init__(self, root: str, transform: Any = None, target_transform: Any = None) -> None:
        self.root = root
        self.loader = default_loader
        self.transform = transform
        self.target_transform = target_transform
        self.classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.samples = [
            (str(path), self.class_to_idx[name])
            for name in self.classes
            for path in sorted(Path(root, name).iterdir())
        ]
        self.targets = [label for _, label in self.samples]
        self.imgs = self.samples

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, target = self.samples[index]
        sample = self.loader(path)
        if self.transform is not None:
            sample = self.transform(sample)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return sample, target

    def __len__(self) -> int:
        return len(self.samples)


class Compose:
    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, image: Any) -> Any:
        for one in self.transforms:
            image = one(image)
        return image


class ToTensor:
    def __call__(self, image: Image) -> torch.Tensor:
        return image.pixels.to(torch.float32).div(255)


class CenterCrop:
    def __init__(self, size: int) -> None:
        self.size = (size, size)

    def __call__(self, image: Image) -> Image:
        height, width = self.size
        top = int(round((image.size[1] - height) / 2.0))
        left = int(round((image.size[0] - width) / 2.0))
        return Image(image.pixels[:, top : top + height, left : left + width])


class RandomHorizontalFlip:
    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, image: Image) -> Image:
        return Image(image.pixels.flip(2)) if torch.rand(1) < self.p else image


class Normalize:
    def __init__(self, mean: list[float], std: list[float]) -> None:
        self.mean = mean
        self.std = std
        self.inplace = False

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        mean, std = (torch.tensor(one).view(-1, 1, 1) for one in (self.mean, self.std))
        return tensor.sub(mean).div(std)


class Invert:
    """Of torchvision too, but none that is known."""

    def __call__(self, image: Image) -> Image:
        return Image(255 - image.pixels)


def modules() -> dict[str, types.ModuleType]:
    """By name, for sys.modules."""
    for part in (ImageFolder, default_loader):
        part.__module__ = FOLDER
    stages = (Compose, ToTensor, CenterCrop, RandomHorizontalFlip, Normalize, Invert)
    for stage in stages:
        stage.__module__ = TRANSFORMS
    made = {
        name: types.ModuleType(name)
        for name in ("PIL", "torchvision", "torchvision.datasets", "torchvision.transforms")
    }
    vars(made["PIL"])["__version__"] = "11.3.0"
    vars(made["torchvision"])["get_image_backend"] = lambda: "PIL"
    vars(made["torchvision.datasets"])["ImageFolder"] = ImageFolder
    for stage in stages:
        vars(made["torchvision.transforms"])[stage.__name__] = stage
    for name in ("datasets", "transforms"):
        vars(made["torchvision"])[name] = made[f"torchvision.{name}"]
    return made
