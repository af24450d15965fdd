# SPDX-License-Identifier: Apache-2.0
"""Pictures for tests of the native loader, and stages as torchvision would have them."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import torch

from stand_in import ROOT

# What PIL and torchvision made of pictures; make_fixtures.py there says how.
FIXTURES = ROOT / "tests" / "trainer" / "input" / "data"
FACTS: dict[str, dict[str, Any]] = json.loads((FIXTURES / "fixtures.json").read_text())


def fixture(name: str) -> torch.Tensor:
    facts = FACTS[name]
    content = bytearray((FIXTURES / f"{name}.raw").read_bytes())
    return torch.frombuffer(content, dtype=getattr(torch, facts["type"])).view(facts["shape"])


def png(pixels: torch.Tensor, filter_type: int = 0) -> bytes:
    """A PNG file of bytes (3, rows, columns). There is no filter above 4."""

    def chunk(name: bytes, body: bytes) -> bytes:
        end = struct.pack(">I", zlib.crc32(name + body))
        return struct.pack(">I", len(body)) + name + body + end

    _, height, width = pixels.shape
    begin = bytes([filter_type])
    rows = b"".join(begin + bytes(row.flatten().tolist()) for row in pixels.permute(1, 2, 0))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + content


def write_png(path: Path, pixels: torch.Tensor, filter_type: int = 0) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(pixels, filter_type))
    return str(path)


def stage(name: str, module: str = "transforms", **fields: Any) -> Any:
    """As torchvision.transforms.<module> would have made it: a class, and public attributes."""
    made = type(name, (), {"__repr__": lambda self: f"{name}({fields})"})
    made.__module__ = f"torchvision.transforms.{module}"
    one = made()
    one.__dict__.update(fields)
    return one
