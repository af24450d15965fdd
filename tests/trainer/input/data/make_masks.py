#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes class masks beside this script: masks.json and classes_37x51.png.

usage: make_masks.py

masks.json has what transforms of torchvision.transforms.v2 make of tv_tensors.Mask. The tests
of trainer/input compare with it. It is kept in the tree, so that no test needs Python. Made with
torch 2.11.0 and torchvision 0.26.0.
"""

import json
import pathlib
import struct
import zlib

FOLDER = pathlib.Path(__file__).resolve().parent
NO_CLASS = 255


def chunk(name: bytes, content: bytes) -> bytes:
    crc = struct.pack(">I", zlib.crc32(name + content))
    return struct.pack(">I", len(content)) + name + content + crc


def make_png() -> None:
    """A mask for pictures of 37 x 51 pixels: two classes, and an edge that does not count."""
    height, width = 37, 51
    rows = b""
    for y in range(height):
        distance = [(y - 18) ** 2 + (x - 25) ** 2 for x in range(width)]
        row = [NO_CLASS if 100 <= d < 130 else int(d < 100) for d in distance]
        rows += b"\0" + bytes(row)
    palette = bytes(c for i in range(256) for c in (i, 255 - i, (i * 7) % 256))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"PLTE", palette)
    content += chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    (FOLDER / "classes_37x51.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)


def make_cases() -> None:
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    def mask(height, width):
        y = torch.arange(height).view(-1, 1)
        x = torch.arange(width).view(1, -1)
        return tv_tensors.Mask(((y * 37 + x * 11) % 251).to(torch.uint8)[None])

    cases = []

    def add(height, width, kind, parameters, transform):
        made = transform(mask(height, width))
        cases.append(
            {
                "shape": [height, width],
                "transform": {"type": kind, "parameters": parameters},
                "result_shape": list(made.shape[-2:]),
                "result": made.flatten().tolist(),
            }
        )

    for height, width, to in [
        (17, 23, [8, 8]),
        (17, 23, [31, 40]),
        (16, 16, [24, 8]),
        (9, 7, [9, 7]),
        (30, 13, [7, 26]),
        (13, 29, [3, 11]),
    ]:
        add(height, width, "resize", {"size": to}, v2.Resize(to))
    add(17, 23, "resize_shorter", {"size": 9}, v2.Resize(9))
    add(23, 17, "resize_shorter", {"size": 20}, v2.Resize(20))
    add(17, 23, "center_crop", {"size": [8, 9]}, v2.CenterCrop([8, 9]))
    for mode in ("constant", "edge", "reflect", "symmetric"):
        parameters = {"by": [1, 2, 3, 4], "mode": mode, "fill": 7}
        transform = v2.Pad([1, 2, 3, 4], fill={tv_tensors.Mask: NO_CLASS}, padding_mode=mode)
        add(7, 9, "pad", parameters, transform)
    add(6, 9, "random_flip", {"probability": 1}, v2.RandomHorizontalFlip(1))
    for angle in (90, 180, 270):
        turned = v2.RandomRotation((angle, angle), fill={tv_tensors.Mask: NO_CLASS})
        add(11, 11, "random_rotation", {"degrees": [angle, angle], "fill": 3}, turned)
    lines = [json.dumps(case, separators=(",", ":")) for case in cases]
    (FOLDER / "masks.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    make_png()
    make_cases()
