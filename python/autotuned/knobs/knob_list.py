# SPDX-License-Identifier: Apache-2.0
"""The knobs of arithmetic, loader and process, with the names of recipes/knobs.cpp."""

from __future__ import annotations

import ctypes
import dataclasses
import os
from typing import Callable

import torch
from torch.utils.data import DataLoader

from ..loop.loaders import FoundLoader
from ..loop.script import Script
from ..parts import loader as loaders
from ..parts.data import has_own_data, has_own_sampler
from ..parts.tensors import is_channels_last
from ..protocol import RequestError
from .knob import Knob, Value

# mallopt(): of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# Where the adjustment that malloc makes by itself ends (mallopt(3)). Setting a threshold switches
# that off for good, so this is what a long-running process has by default.
_DEFAULT_THRESHOLDS = (64 << 20, 32 << 20)
_KEEP_THRESHOLDS = ((1 << 31) - 1, (1 << 31) - 1)


# A text; or one that is told only where a knob is not permitted: {"text", "unless_permitted"}.
Note = str | dict[str, str]


def arithmetic(script: Script) -> list[Knob]:
    no_root = "" if script.roots else "the script calls no module in training mode"
    is_cuda = script.device().type == "cuda"

    def set_autocast(value: Value) -> None:
        dtype = torch.bfloat16 if value == "bf16" else None
        script.forward = dataclasses.replace(script.forward, autocast=dtype)

    autocast = Knob(
        "precision.autocast",
        "off",
        "numerics",
        "Outermost modules run matrix products and convolutions in 16 bit.",
        set_autocast,
        choices=["off", "bf16", "fp16"],
        warmup_steps=2,
        unavailable_choices={"fp16": "needs the loss scaled, which the script does not do"},
    )
    autocast.unavailable = no_root
    if any(root.casts_by_itself for root in script.roots):
        autocast.unavailable = "the script uses autocast by itself"
    elif any(parameter.dtype != torch.float32 for parameter in script.parameters()):
        autocast.unavailable = "the parameters are not in 32 bit"
    elif any(isinstance(root.module, torch.jit.ScriptModule) for root in script.roots):
        autocast.unavailable = "a module is TorchScript, whose autocast differs"

    def set_layout(value: Value) -> None:
        script.forward = dataclasses.replace(
            script.forward, channels_last=value == "channels_last"
        )

    layout = Knob(
        "layout.memory_format",
        "contiguous",
        "numerics",
        "Order of the dimensions of images in memory.",
        set_layout,
        choices=["contiguous", "channels_last"],
        warmup_steps=2,
    )
    images = [parameter for parameter in script.parameters() if parameter.dim() == 4]
    if not images:
        layout.unavailable = no_root or "no parameter has four dimensions"
    elif any(is_channels_last(parameter) for parameter in images):
        layout.default = "channels_last"
        layout.unavailable = "the script chose channels_last"

    def set_tf32(value: Value) -> None:
        torch.set_float32_matmul_precision("high" if value else own_precision)

    try:
        own_precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # it has no name where the script has set that of a backend
        own_precision = ""
    tf32 = Knob(
        "precision.tf32",
        own_precision not in ("", "highest"),
        "numerics",
        "Matrix products of 32-bit numbers in TF32.",
        set_tf32,
    )
    if not is_cuda:
        tf32.unavailable = "needs a CUDA GPU"
    elif not own_precision:
        tf32.unavailable = "the script chose the precision of torch.backends"
    elif own_precision != "highest":
        tf32.unavailable = f"the script chose the precision '{own_precision}'"

    def set_benchmark(value: Value) -> None:
        torch.backends.cudnn.benchmark = bool(value)

    benchmark = Knob(
        "cudnn.benchmark",
        bool(torch.backends.cudnn.benchmark),
        "numerics",
        "Time cuDNN's algorithms once for every shape and keep the fastest.",
        set_benchmark,
        switch="restart",
        one_time_cost="timing algorithms for every shape",
    )
    if not is_cuda:
        benchmark.unavailable = "needs a CUDA GPU"
    elif benchmark.default:
        benchmark.unavailable = "the script has it on"
    return [autocast, layout, tf32, benchmark, _gather(script, no_root)]


def _gather(script: Script, no_root: str) -> Knob:
    def set_rows(value: Value) -> None:
        script.forward = dataclasses.replace(script.forward, selects_rows=value == "indexing")

    knob = Knob(
        "rewrite.gather",
        "gather",
        "exact",
        "indexing: where outermost modules gather whole rows, rows are copied.",
        set_rows,
        choices=["gather", "indexing"],
        warmup_steps=2,
        unavailable=no_root,
    )
    if script.device().type != "cpu":
        knob.unavailable = "is for CPUs: a GPU gathers all elements at once"
    return knob


def training_obstacle(script: Script) -> str:
    """Why no settings of a loader can be changed; empty: there is one that can."""
    found = script.training_loader()
    if found is None:
        several = sum(one.is_trained_from for one in script.loaders) > 1
        return "several loaders train" if several else "no DataLoader feeds the training"
    return found.obstacle or ("the loader is gone" if found.loader is None else "")


def loader_of_training(script: Script, notes: list[Note]) -> list[Knob]:
    """What is worth a word goes into `notes`."""
    found = script.training_loader()
    loader = found.loader if found is not None else None

    def change(field: str) -> Callable[[Value], None]:
        def set_field(value: Value) -> None:
            if value == getattr(own, field):
                script.loader_changes.pop(field, None)
            else:
                script.loader_changes[field] = value

        return set_field

    own = loaders.LoaderSettings(0, 2, False, False)
    obstacle, risk = training_obstacle(script), "exact"
    if not obstacle and found is not None and loader is not None:
        own = loaders.LoaderSettings.own(loader)
        obstacle = _obstacle_of_workers(found, loader, own)
        # First: making samples of it to see what they draw could change it.
        if has_own_data(loader):
            risk = "semantics"
            text = (
                "the data set is the script's own: workers have copies of it, and what it counts "
                "or draws stays in them (--allow loader.workers permits that)"
            )
            notes.append({"text": text, "unless_permitted": "loader.workers"})
        elif not obstacle and (drawn := loaders.draws_of(loader)):
            risk = "semantics"
            notes.append(
                f"the data set draws random numbers ({', '.join(drawn)}): with another number of "
                "workers it draws others"
            )
        elif has_own_sampler(loader):
            risk = "semantics"
            notes.append("the sampler is the script's own: workers ask it earlier")
    cpus = len(os.sched_getaffinity(0))
    workers = Knob(
        "loader.workers",
        own.workers,
        risk,
        "Processes that prepare batches.",
        change("workers"),
        minimum=0,
        maximum=max(cpus, own.workers),
        unit="processes",
        warmup_steps=2,
        one_time_cost="starting the processes",
        unavailable=obstacle,
        reaches="batches",
    )
    prefetch = Knob(
        "loader.prefetch_batches",
        own.prefetch_batches,
        risk,
        "How many batches each worker may be ahead of the step.",
        change("prefetch_batches"),
        minimum=1,
        maximum=max(16, own.prefetch_batches),
        unit="batches per worker",
        warmup_steps=2,
        one_time_cost="starting the processes",
        unavailable=obstacle,
        reaches="batches",
    )
    pin = Knob(
        "loader.pin_memory",
        own.pin_memory,
        # With workers, other ones are started.
        risk if own.workers > 0 else "exact",
        "Copy batches into page-locked memory, from which a GPU copies faster.",
        change("pin_memory"),
        warmup_steps=2,
        one_time_cost="starting the processes",
        unavailable=obstacle,
        reaches="batches",
    )
    if not obstacle and script.device().type != "cuda":
        pin.unavailable = "needs a CUDA GPU"
    # A copy of the data set lives on in the workers: what the script changes in its own
    # between epochs does not reach it.
    persistent = Knob(
        "loader.persistent_workers",
        own.persistent_workers,
        "semantics",
        "Workers live from one epoch to the next, with their copy of the data set.",
        change("persistent_workers"),
        unavailable=obstacle,
        reaches="batches",
    )
    return [workers, prefetch, pin, persistent]


def _obstacle_of_workers(
    found: FoundLoader, loader: DataLoader, own: loaders.LoaderSettings
) -> str:
    """Why worker processes cannot make the batches."""
    method = loaders.start_method_of(loader)
    if own.workers == 0 and method != "fork":
        return f"worker processes start by '{method}' here, which the script may not be made for"
    if found.is_on_device:
        return "the batches are made on a GPU, which worker processes cannot use"
    least = loaders.LoaderSettings(1, 1, False, False)
    return loaders.lack_of_memory(least, found.batch_bytes)


def process() -> list[Knob]:
    def set_threads(value: Value) -> None:
        torch.set_num_threads(int(value))

    own_threads = torch.get_num_threads()
    cpus = len(os.sched_getaffinity(0))
    threads = Knob(
        "threads.intra_op",
        own_threads,
        "numerics",
        "Threads that share the work of one operator.",
        set_threads,
        minimum=1,
        maximum=max(cpus, own_threads),
        unit="threads",
        warmup_steps=2,
    )
    malloc = Knob(
        "memory.malloc",
        "default",
        "exact",
        "keep: large blocks of memory are not returned to the system between steps.",
        lambda value: set_malloc(str(value)),
        choices=["default", "keep"],
        warmup_steps=2,
        unavailable=malloc_obstacle(),
        reaches="batches",
    )
    return [threads, malloc]


def malloc_obstacle() -> str:
    try:
        if "glibc" not in os.confstr("CS_GNU_LIBC_VERSION"):
            return "the C library is not glibc"
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            mapped = maps.read()
    except (OSError, ValueError, TypeError):
        return "the C library is not glibc"
    for other in ("jemalloc", "tcmalloc", "mimalloc"):
        if other in mapped:
            return f"memory comes from {other}"
    return ""


def set_malloc(value: str) -> None:
    trim_bytes, mmap_bytes = _KEEP_THRESHOLDS if value == "keep" else _DEFAULT_THRESHOLDS
    libc = ctypes.CDLL(None)
    if (
        libc.mallopt(_M_MMAP_THRESHOLD, mmap_bytes) != 1
        or libc.mallopt(_M_TRIM_THRESHOLD, trim_bytes) != 1
    ):
        raise RequestError(
            "unsupported", "the C library refused it", "memory.malloc", "leave the knob as it is"
        )
