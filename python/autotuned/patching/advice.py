# SPDX-License-Identifier: Apache-2.0
"""What costs time in the loop of a script on a GPU, and only its author can change.

No check can show that a change of these is right: what the script does with a number that is not
there yet, or with a batch that is still being copied, is known to its author only.
"""

from __future__ import annotations

import ast

from .edits import Source, last_name


def advice(source: Source, call: ast.Call, is_pinned: bool) -> list[str]:
    """Of the loop around a call of the module. `is_pinned`: batches are in page-locked memory."""
    loops = [one for one in source.parents(call) if isinstance(one, (ast.For, ast.While))]
    if not loops:
        return []
    return _numbers(source, loops[0]) + (_copies(source, loops[0]) if is_pinned else [])


def _numbers(source: Source, loop: ast.For | ast.While) -> list[str]:
    """The numbers that the script reads from the GPU at every step."""
    inside = set(ast.walk(loop))
    return [
        f"{source.path}:{read.lineno} reads a number from the GPU at every step, which waits "
        "until the GPU is done. Keep the tensor (detach()), and read it where you print it."
        for read in source.calls(loop)
        if last_name(read.func) == "item"
        and not any(isinstance(one, ast.If) and one in inside for one in source.parents(read))
    ]


def _copies(source: Source, loop: ast.For | ast.While) -> list[str]:
    """The copies of the batch, by name, for which the script waits."""
    if not isinstance(loop, ast.For):
        return []
    names = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
    lines = sorted(
        {
            copy.lineno
            for copy in source.calls(loop)
            if isinstance(copy.func, ast.Attribute)
            and _names_a_gpu(copy)
            and isinstance(copy.func.value, ast.Name)
            and copy.func.value.id in names
            and not any(keyword.arg in ("non_blocking", None) for keyword in copy.keywords)
        }
    )
    return [
        f"{source.path}:{line} copies a batch to the GPU and waits for it. With non_blocking=True "
        "it does not wait; nothing may write into the batch on the CPU afterwards."
        for line in lines
    ]


def _names_a_gpu(copy: ast.Call) -> bool:
    """Whether the arguments name a GPU: `to()` also changes types, and copies to the CPU."""
    name = last_name(copy.func)
    if name != "to":
        return name == "cuda"
    devices = [keyword.value for keyword in copy.keywords if keyword.arg == "device"]
    target = (devices or copy.args or [None])[0]
    if target is None or isinstance(target, ast.Attribute) and last_name(target.value) == "torch":
        return False
    return not (isinstance(target, ast.Constant) and str(target.value).startswith("cpu"))
