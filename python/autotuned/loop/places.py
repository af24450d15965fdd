# SPDX-License-Identifier: Apache-2.0
"""Where in the script something is made or called."""

from __future__ import annotations

import os
import sys

import torch

OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TORCH_FOLDER = os.path.dirname(os.path.abspath(torch.__file__))


def _absolute(name: str) -> str:
    try:
        return os.path.abspath(name)
    except OSError:  # the working folder is gone
        return name


def place_of_caller() -> str:
    """file:line of the script's frame that led here.

    Of an installed package if no frame is the script's.
    """
    best = ""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        is_ours = name.startswith((OWN_FOLDER, TORCH_FOLDER)) or name.startswith("<")
        if not is_ours:
            place = f"{_absolute(name)}:{frame.f_lineno}"
            if "site-packages" not in name and "dist-packages" not in name:
                return place
            best = best or place
        frame = frame.f_back
    return best
