# SPDX-License-Identifier: Apache-2.0
"""How long a script still trains, as far as its own variables tell.

A script that counts epochs or steps keeps their number under a name that says so. That is no
proof: it decides whether something is worth a try that costs time once, and how long the script is
tuned at most, never whether a change is right. For the first, the fewest steps count that a
variable near the loop tells. For the second only epochs count, and the most of them: a number of
steps may be one of something else (of a diffusion, of a solver), and would end the tuning early.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from types import FrameType
from typing import Any, Iterator

from .places import OWN_FOLDER, TORCH_FOLDER
from .script import Script

_STEPS = re.compile(r"(max|total|num|n|train)_?(train_?)?(steps|iters|iterations)")
_EPOCHS = re.compile(r"(max|total|num|n)_?(train_?)?epochs?|(train_?)?epochs")
# Objects whose attributes are looked at as well.
_SETTINGS = re.compile(r"(args?|arguments|opts?|options|flags|config|cfg|conf|hparams?|hp|params)")
_MOST = 10**9


def _is_own(frame: FrameType, folders: tuple[str, ...]) -> bool:
    name = frame.f_code.co_filename
    return not (
        name.startswith(folders)
        or name.startswith("<")
        or "site-packages" in name
        or "dist-packages" in name
    )


def _attributes(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    own = getattr(value, "__dict__", None)
    return own if isinstance(own, dict) else {}


def _named_numbers(variables: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in list(variables.items()):
        if not isinstance(name, str):
            continue
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST:
            yield name, value
        elif _SETTINGS.fullmatch(name.lower()):
            for inner, number in list(_attributes(value).items()):
                if (
                    isinstance(inner, str)
                    and isinstance(number, int)
                    and not isinstance(number, bool)
                    and 0 < number < _MOST
                ):
                    yield inner, number


def _scopes(frame: FrameType | None, not_in: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Variables of the frames from this one outwards that are of no file under `not_in`."""
    folders = tuple(os.path.join(folder, "") for folder in not_in)
    seen_globals: set[int] = set()
    while frame is not None:
        if _is_own(frame, folders):
            yield frame.f_locals
            if id(frame.f_globals) not in seen_globals:
                seen_globals.add(id(frame.f_globals))
                yield frame.f_globals
        frame = frame.f_back


def whole_steps(
    frame: FrameType | None, steps_per_epoch: int, not_in: tuple[str, ...]
) -> tuple[int, str]:
    """Steps of the whole training, and the variable that says so; (0, "") where nothing does.

    Of the frames from this one outwards that are the script's: of no file under `not_in`. The
    number nearest to the loop counts; of several there, the one that makes fewest steps.
    """
    for scope in _scopes(frame, not_in):
        found = [
            (number if _STEPS.fullmatch(name.lower()) else number * steps_per_epoch, name)
            for name, number in _named_numbers(scope)
            if _STEPS.fullmatch(name.lower())
            or (steps_per_epoch > 0 and _EPOCHS.fullmatch(name.lower()))
        ]
        if found:
            return min(found)
    return 0, ""


def most_steps(
    frame: FrameType | None, steps_per_epoch: int, not_in: tuple[str, ...]
) -> tuple[int, str]:
    """The same of variables that count epochs: of all of those frames, the one with most steps."""
    found = [
        (number * steps_per_epoch, name)
        for scope in _scopes(frame, not_in)
        for name, number in _named_numbers(scope)
        if _EPOCHS.fullmatch(name.lower())
    ]
    return max(found) if found and steps_per_epoch > 0 else (0, "")


def left_of(script: Script, loader: Any, samples_per_step: int) -> dict[str, Any]:
    """What is left of the training of the script that has called us, for the answer of `load`.

    Of a script whose samples are not counted, a step counts as one.
    """
    batches = sum(kind == "batch" for kind, _ in script.detector.pattern)
    try:
        steps_per_epoch = len(loader) // max(1, batches)
    except (TypeError, AttributeError, NotImplementedError):
        steps_per_epoch = 0
    others = (OWN_FOLDER, TORCH_FOLDER, sysconfig.get_paths()["stdlib"])
    steps, told_by = whole_steps(sys._getframe(1), steps_per_epoch, others)
    most, most_told_by = most_steps(sys._getframe(1), steps_per_epoch, others)
    left = max(0, steps - script.clock.steps)
    most_left = max(0, most - script.clock.steps)
    return {
        "steps_left": left,
        "samples_left": left * (samples_per_step or 1),
        "length_told_by": told_by,
        "most_samples_left": most_left * (samples_per_step or 1),
        "most_told_by": most_told_by,
    }
