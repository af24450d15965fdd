# SPDX-License-Identifier: Apache-2.0
"""The command `autotuned` of the wheel.

Finds the PyTorch of this environment for the trainer, and becomes the program.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Mapping, Sequence

from .programs import TORCH_RELEASE, bundled_program, find_torch, is_torch_of_trainer

ENVIRONMENT_UNUSABLE = 4  # as in docs/commands.md

# These start a trainer whatever else is said, and cannot do without.
_TRAINING = ("run", "profile")
# These say what they could not do.
_ASKING = ("check", "doctor", "serve")


def is_of_script(arguments: Sequence[str]) -> bool:
    """Whether `run` is of a script, which brings its own PyTorch."""
    return any(word == "--" or word.endswith(".py") for word in arguments)


def lack_of_torch(folder: Path | None, version: str) -> str:
    """Why the trainer of recipes cannot start here; empty where it can."""
    if folder is None:
        found = "there is no PyTorch in this environment"
    elif not is_torch_of_trainer(version):
        found = f"this environment has PyTorch {version}"
    else:
        return ""
    return (
        f"recipes are trained with the libraries of PyTorch {TORCH_RELEASE}, and {found}; "
        f"pip install 'torch=={TORCH_RELEASE}.*'"
    )


def environment_for(variables: Mapping[str, str], torch: Path | None) -> dict[str, str]:
    """The variables of the program.

    `torch` is the folder whose libraries the trainer takes.
    """
    given = dict(variables)
    given.setdefault("AUTOTUNED_STARTUP", str(Path(__file__).absolute().parent.parent / "startup"))
    if torch is not None:
        given.setdefault("AUTOTUNED_LIBTORCH", str(torch))
    # `autotuned run train.py` takes the python3 of PATH: that of the virtual environment in which
    # autotuned lies, although nobody activated it.
    if sys.prefix != sys.base_prefix:
        folder = os.path.dirname(sys.executable)
        rest = given.get("PATH", os.defpath)
        if folder not in rest.split(os.pathsep):
            given["PATH"] = folder + os.pathsep + rest
    return given


def main() -> int:
    program = bundled_program()
    if program is None:
        sys.stderr.write(
            "autotuned: error: this installation has no program; install the wheel again\n"
        )
        return ENVIRONMENT_UNUSABLE
    arguments = sys.argv[1:]
    command = arguments[0] if arguments else ""
    folder, version = find_torch()
    lack = lack_of_torch(folder, version)
    is_for_us_to_say = not (
        is_of_script(arguments)
        or "--help" in arguments
        or "AUTOTUNED_LIBTORCH" in os.environ
        or "AUTOTUNED_TRAINER" in os.environ
    )
    if lack and is_for_us_to_say and command in _TRAINING:
        sys.stderr.write(f"autotuned: error: {lack}\n")
        return ENVIRONMENT_UNUSABLE
    if lack and is_for_us_to_say and command in _ASKING:
        sys.stderr.write(f"autotuned: warning: {lack}\n")
    environment = environment_for(os.environ, None if lack else folder)
    sys.stderr.flush()
    os.execve(program, ["autotuned", *arguments], environment)
