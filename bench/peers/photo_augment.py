# SPDX-License-Identifier: Apache-2.0
"""The input of recipes/photo_augment.yaml in PyTorch, loading alone: as examples of ImageNet have it, on PIL, and with
torchvision's own decoder and transforms (v2) on bytes.

The photos are those of photo_masking.py.
"""

import torch
import torchvision
from PIL import Image
from torchvision import transforms
from torchvision.transforms import v2

import blocks
import photo_masking

SIZE = 224
COLORS = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

ON_PIL = transforms.Compose([
    transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip(), transforms.ColorJitter(**COLORS),
    transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
ON_BYTES = v2.Compose([
    v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip(), v2.ColorJitter(**COLORS),
    v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])


def published(file: str) -> torch.Tensor:
    with Image.open(file) as image:
        return ON_PIL(image.convert("RGB"))


def by_v2(file: str) -> torch.Tensor:
    return ON_BYTES(torchvision.io.decode_image(file, mode=torchvision.io.ImageReadMode.RGB))


class Job(photo_masking.Job):
    forms = {"published": published, "v2": by_v2}


if __name__ == "__main__":
    blocks.serve(Job)
