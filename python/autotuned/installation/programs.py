# SPDX-License-Identifier: Apache-2.0
"""Finds the programs of this installation, and the PyTorch beside them.

Imports no PyTorch and needs none.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path

# The trainer of recipes is linked with its libraries, of this release and no other.
TORCH_RELEASE = "2.11"

_PACKAGE = Path(os.path.abspath(__file__)).parent.parent


class ProgramMissing(RuntimeError):
    """The package is here, the program that belongs to it is not."""


def bundled_program() -> Path | None:
    """The program that came with this package: in the same wheel, or below the same prefix."""
    for folder in (_PACKAGE / "prefix", *_PACKAGE.parents[3:4]):
        program = folder / "bin" / "autotuned"
        if os.access(program, os.X_OK):
            return program
    return None


def find_program() -> Path:
    """$AUTOTUNED_PROGRAM, the one of this installation, or the one in PATH."""
    named = os.environ.get("AUTOTUNED_PROGRAM")
    if named:
        return Path(named)
    program = bundled_program() or shutil.which("autotuned")
    if program is None:
        raise ProgramMissing(
            "the program `autotuned` is neither beside this package nor in PATH; "
            "install the wheel, or name it in AUTOTUNED_PROGRAM"
        )
    return Path(program)


def find_loader_library() -> Path:
    """libautotuned_loader.so, which lies in the same installation as the program."""
    program = Path(os.path.realpath(find_program()))
    library = program.parent.parent / "lib" / "autotuned" / "libautotuned_loader.so"
    if not library.is_file():
        raise ProgramMissing(f"there is no {library}; install the wheel again")
    return library


def find_torch() -> tuple[Path | None, str]:
    """The folder of what `import torch` would load here, and its version; it is not imported."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        return None, ""
    folder = Path(spec.origin).parent
    try:
        text = (folder / "version.py").read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = re.search(r"^__version__ = '([^']+)'", text, re.MULTILINE)
    return folder, found.group(1) if found else "of no known version"


def is_torch_of_trainer(version: str) -> bool:
    return version.split(".")[:2] == TORCH_RELEASE.split(".")
