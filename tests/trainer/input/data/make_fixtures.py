#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what PyTorch, torchvision and PIL make of small pictures, beside this script.

usage: make_fixtures.py

The tests of trainer/input compare with these files. They are kept in the tree, so that no test needs
Python. Made with Pillow 13.0.0, torch 2.11.0 and torchvision 0.29.2.

A file NAME.raw holds numbers alone, in the order channel, row, column; its shape and type are in
fixtures.json.
"""

import io
import json
import pathlib
import struct
import tarfile
import zlib

import numpy
import torch
import torchvision.transforms.functional as F
from PIL import Image

FOLDER = pathlib.Path(__file__).resolve().parent
index = {}


def save(name, tensor, **facts):
    """A tensor (channel, row, column) as NAME.raw."""
    tensor = tensor.contiguous()
    (FOLDER / f"{name}.raw").write_bytes(tensor.numpy().tobytes())
    index[name] = {"shape": list(tensor.shape), "type": str(tensor.dtype).removeprefix("torch."), **facts}


def picture(height, width, seed):
    """Smooth colours, edges and some noise, so that upsampling and rounding show."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.linspace(0, 1, height).view(1, -1, 1)
    x = torch.linspace(0, 1, width).view(1, 1, -1)
    phase = torch.tensor([0.0, 2.1, 4.2]).view(3, 1, 1)
    waves = torch.sin(9 * x + phase) * torch.cos(7 * y - phase) * 90 + 128
    edges = 60 * (((x * 6).floor() + (y * 5).floor()) % 2)
    noise = torch.randint(-12, 13, (3, height, width), generator=generator)
    return (waves + edges + noise).clamp(0, 255).to(torch.uint8)


def pixels(image):
    return F.pil_to_tensor(image.convert("RGB"))


def make_jpegs():
    """Every file decoded as Image.open(file).convert("RGB") does."""
    subsamplings = {"444": 0, "422": 1, "420": 2}
    kinds = [(name, {"subsampling": value}) for name, value in subsamplings.items()]
    kinds.append(("progressive", {"subsampling": 2, "progressive": True}))
    kinds.append(("restarts", {"subsampling": 2, "restart_marker_blocks": 3}))
    for name, options in kinds:
        for height, width in ((37, 51), (16, 32)):
            image = F.to_pil_image(picture(height, width, seed=height))
            file = f"{name}_{height}x{width}.jpg"
            image.save(FOLDER / file, quality=88, **options)
            with Image.open(FOLDER / file) as read:
                save(f"{name}_{height}x{width}", pixels(read), jpeg=file)
    for height, width in ((37, 51), (1, 1)):
        image = F.to_pil_image(picture(height, width, seed=3)).convert("L")
        file = f"grey_{height}x{width}.jpg"
        image.save(FOLDER / file, quality=75)
        with Image.open(FOLDER / file) as read:
            save(f"grey_{height}x{width}", pixels(read), jpeg=file)
    F.to_pil_image(picture(16, 16, seed=4)).convert("CMYK").save(FOLDER / "cmyk.jpg")


def png_file(height, width, bits, kind, rows, interlaced=False):
    """What PIL does not write. `rows` with the byte of the filter in front of each."""

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, interlaced)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def interlaced_png(tensor):
    """RGB pixels in the seven passes of Adam7."""
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    rows = b""
    for top, left, down, across in passes:
        part = tensor[:, top::down, left::across].permute(1, 2, 0)
        if part.numel():
            rows += b"".join(b"\0" + row.contiguous().numpy().tobytes() for row in part)
    return png_file(tensor.shape[1], tensor.shape[2], 8, 2, rows, interlaced=True)


def random_png(height, width, bits, kind, channels, seed):
    row_bytes = (width * channels * bits + 7) // 8
    bytes_of = torch.randint(0, 256, (height, row_bytes), generator=torch.Generator().manual_seed(seed))
    rows = b"".join(b"\0" + row.to(torch.uint8).numpy().tobytes() for row in bytes_of)
    return png_file(height, width, bits, kind, rows)


def make_pngs():
    """Every kind of pixel, decoded as Image.open(file).convert("RGB") does."""
    image = F.to_pil_image(picture(19, 26, seed=31))
    alpha = F.to_pil_image(picture(19, 26, seed=32)[:1])
    grey = image.convert("L")
    see_through = image.copy()
    see_through.putalpha(alpha)
    grey_see_through = grey.copy()
    grey_see_through.putalpha(alpha)
    palette = image.quantize(200)
    kinds = {"rgb": (image, {}), "rgba": (see_through, {}), "grey": (grey, {}), "grey_alpha": (grey_see_through, {}),
             "bilevel": (image.convert("1"), {}), "palette": (palette, {}), "palette_2bit": (image.quantize(4), {}),
             "palette_transparent": (palette, {"transparency": 3}), "rgb_transparent": (image, {"transparency": (1, 2, 3)})}
    for name, (made, options) in kinds.items():
        made.save(FOLDER / f"png_{name}.png", **options)
    by_hand = {"interlaced": interlaced_png(picture(19, 26, seed=33)),
               "grey_2bit": random_png(9, 13, 2, 0, 1, seed=1), "grey_4bit": random_png(9, 13, 4, 0, 1, seed=2),
               "rgb16": random_png(9, 13, 16, 2, 3, seed=3), "grey_alpha16": random_png(9, 13, 16, 4, 2, seed=4)}
    for name, file in by_hand.items():
        (FOLDER / f"png_{name}.png").write_bytes(file)
    for name in [*kinds, *by_hand]:
        with Image.open(FOLDER / f"png_{name}.png") as read:
            save(f"png_{name}", pixels(read), png=f"png_{name}.png")
    Image.new("I;16", (5, 4), 70).save(FOLDER / "grey16.png")


def make_tars():
    """Three samples each, in folders whose names need what the format has for long ones."""
    picture = (FOLDER / "grey_1x1.jpg").read_bytes()
    for name, form, length in (("ustar", tarfile.USTAR_FORMAT, 120), ("gnu", tarfile.GNU_FORMAT, 300),
                               ("pax", tarfile.PAX_FORMAT, 300)):
        with tarfile.open(FOLDER / f"shard_{name}.tar", "w", format=form) as shard:
            for label, key in enumerate("abc"):
                for end, content in (("jpg", picture), ("cls", str(label).encode())):
                    member = tarfile.TarInfo(f"{'d' * length}/{key}.{end}")
                    member.size = len(content)
                    shard.addfile(member, io.BytesIO(content))


def make_arrays():
    """Two samples of 2 x 3 x 2 numbers as numpy.save writes them, and their labels."""
    numbers = numpy.arange(24, dtype=numpy.float32).reshape(2, 2, 3, 2)
    numpy.save(FOLDER / "floats.npy", numbers)
    with open(FOLDER / "bytes_v2.npy", "wb") as file:
        numpy.lib.format.write_array(file, numbers.astype(numpy.uint8), version=(2, 0))
    numpy.save(FOLDER / "fortran.npy", numpy.asfortranarray(numbers))
    numpy.save(FOLDER / "labels.npy", numpy.array([1, 0]))


def make_resized():
    """Image.resize with BILINEAR, up, down, along one side, from odd sizes and single pixels.

    In two calls, as Pillow 13 resizes rows first where that is less work; before, columns always came first.
    """
    cases = [((32, 32), (70, 70)), ((37, 51), (16, 23)), ((37, 51), (37, 20)), ((37, 51), (53, 51)),
             ((37, 51), (37, 51)), ((40, 3), (7, 64)), ((1, 1), (5, 4)), ((61, 47), (1, 1))]
    for number, (source, target) in enumerate(cases):
        tensor = picture(*source, seed=10 + number)
        resized = F.to_pil_image(tensor)
        for size in ((target[1], source[0]), (target[1], target[0])):
            resized = resized.resize(size, Image.Resampling.BILINEAR)
        save(f"resize_{number}_source", tensor)
        save(f"resize_{number}", pixels(resized), source=f"resize_{number}_source")


def make_dilated():
    """A mask dilated by a convolution with a cross, cells outside counting as clear."""
    cross = torch.tensor([[0.0, 1, 0], [1, 1, 1], [0, 1, 0]]).view(1, 1, 3, 3)
    for height, width in ((9, 64), (20, 131), (1, 5), (6, 1)):
        generator = torch.Generator().manual_seed(width)
        mask = (torch.rand((1, height, width), generator=generator) < 0.1).float()
        dilated = torch.nn.functional.conv2d(mask.unsqueeze(0), cross, padding=1).squeeze(0) > 0
        save(f"mask_{height}x{width}", mask.to(torch.uint8))
        save(f"dilated_{height}x{width}", dilated.to(torch.uint8), source=f"mask_{height}x{width}")


def make_numbers():
    """Colour, and what torchvision makes of bytes."""
    tensor = picture(24, 17, seed=7)
    matrix = torch.tensor([[0.299, 0.587, 0.114], [-0.16874, -0.33126, 0.5], [0.5, -0.41869, -0.08131]])
    yuv = (matrix @ tensor.float().reshape(3, -1)).view(3, 24, 17)
    yuv = yuv + torch.tensor([0.0, 128, 128]).view(3, 1, 1)
    save("numbers_source", tensor)
    save("yuv", yuv, source="numbers_source")
    as_float = F.to_tensor(F.to_pil_image(tensor))
    save("to_float", as_float, source="numbers_source")
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    save("normalized", F.normalize(as_float, mean, std), source="numbers_source")
    save("center_10x9", F.center_crop(tensor, [10, 9]), source="numbers_source")
    save("center_11x8", F.center_crop(tensor, [11, 8]), source="numbers_source")


def make_jittered():
    """torchvision's changes of colour to a PIL image: one by one, and all in one order."""
    adjust = {"brightness": F.adjust_brightness, "contrast": F.adjust_contrast,
              "saturation": F.adjust_saturation, "hue": F.adjust_hue}
    tensor = picture(37, 51, seed=21)
    tensor[:, :4, :6] = torch.tensor([128, 0, 255], dtype=torch.uint8).view(3, 1, 1)
    tensor[:, :4, 6:12] = 77  # without any colour
    save("jitter_source", tensor)
    for name, factors in {"brightness": (0.5, 1.7), "contrast": (0.4, 1.9), "saturation": (0.2, 1.8),
                          "hue": (0.1, -0.35)}.items():
        for number, factor in enumerate(factors):
            changed = adjust[name](F.to_pil_image(tensor), factor)
            save(f"jitter_{name}_{number}", pixels(changed), source="jitter_source",
                 changes={name: [factor, factor]})
    changes = {"saturation": 1.3, "brightness": 1.2, "hue": 0.1, "contrast": 0.8}
    image = F.to_pil_image(tensor)
    for name, factor in changes.items():
        image = adjust[name](image, factor)
    save("jitter_all", pixels(image), source="jitter_source",
         changes={name: [factor, factor] for name, factor in changes.items()})


if __name__ == "__main__":
    make_jpegs()
    make_pngs()
    make_tars()
    make_arrays()
    make_resized()
    make_dilated()
    make_numbers()
    make_jittered()
    (FOLDER / "fixtures.json").write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")
    total = sum(file.stat().st_size for file in FOLDER.iterdir())
    print(f"{len(index)} fixtures, {total} bytes in all")
