# SPDX-License-Identifier: Apache-2.0
"""Counts the steps of a script and, at its end, writes what its parameters are; with and without autotuned alike.

A step is a step of an optimizer or, in a script without one, a backward pass. The variables, which no child of the
script sees:
  BENCH_STEPS   a file of 16 bytes, made by its reader: the number of steps, and when the last one ended (monotonic, ns)
  BENCH_RESULT  a file of JSON, written at the end: "steps", and "parameters", a digest of their bytes in any order
  BENCH_STOP    behind so many steps the script ends, with exit code 0
  BENCH_SECONDS the same behind so many seconds since its first step
  BENCH_KNOBS   JSON: what the tuner loadtune chose, by its names. All loaders of the script are made with it
"""

import importlib.util
import os
import sys


# What a loader refuses where it has no workers.
_OF_WORKERS = ("persistent_workers", "prefetch_factor", "timeout", "multiprocessing_context")


class _Finder:
    """Acts once, behind the first `import torch`."""

    def __init__(self, *settings):
        self._settings = settings

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)  # while it looks: the others are asked then
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            sys.meta_path[:] = [one for one in sys.meta_path if one is not self]
            execute(module)
            _watch(module, *self._settings)

        spec.loader.exec_module = exec_module
        return spec


def _apply(torch, knobs):
    """As loadtune itself does it for its trials, but for torch.compile."""
    import functools
    import inspect

    from torch.utils.data import DataLoader

    if knobs.get("num_threads"):
        torch.set_num_threads(knobs["num_threads"])
    if knobs.get("amp"):
        # For the whole script, as nothing leaves it. So parameters in 16 bits must not be kept from step to step.
        torch.autocast("cpu", torch.bfloat16, cache_enabled=False).__enter__()
    workers = knobs.get("num_workers", 0)
    options = {"num_workers": workers, "pin_memory": bool(knobs.get("pin_memory"))}
    if workers > 0:
        options["persistent_workers"] = bool(knobs.get("persistent_workers"))
        if knobs.get("prefetch_factor") is not None:
            options["prefetch_factor"] = knobs["prefetch_factor"]
    own = DataLoader.__init__
    signature = inspect.signature(own)

    @functools.wraps(own)
    def made(self, *args, **kwargs):
        given = dict(signature.bind(self, *args, **kwargs).arguments)  # by name, also what has only a place
        if workers == 0:
            for name in _OF_WORKERS:
                given.pop(name, None)
        own(**{**given, **options})

    DataLoader.__init__ = made


def _watch(torch, steps, result, stop, seconds, knobs):
    import atexit
    import ctypes
    import gc
    import hashlib
    import json
    import mmap
    import struct
    import time

    from torch.optim.optimizer import register_optimizer_step_post_hook

    process = os.getpid()
    if knobs:
        _apply(torch, json.loads(knobs))
    place = None
    if steps:
        with open(steps, "r+b") as file:
            place = mmap.mmap(file.fileno(), 16)
    optimizers, parameters = [], []
    counted = 0
    end_ns = 0

    def tick():
        nonlocal counted, end_ns
        if os.getpid() != process:
            return
        counted += 1
        now_ns = time.monotonic_ns()
        if place is not None:
            struct.pack_into("<qq", place, 0, counted, now_ns)
        end_ns = end_ns or now_ns + int(seconds * 1e9)
        if counted == stop or (seconds > 0.0 and now_ns >= end_ns):
            raise SystemExit(0)

    def behind_step(optimizer, args, kwargs):
        if not any(one is optimizer for one in optimizers):
            optimizers.append(optimizer)
        tick()

    own_backward = torch.Tensor.backward

    def backward(self, *args, **kwargs):
        own_backward(self, *args, **kwargs)
        if optimizers:
            return
        if not parameters and counted == 0:
            found = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Parameter)]
            parameters.extend(one for one in found if one.grad is not None)
        # The first backward pass of a script with an optimizer counts as well; its steps count from then on.
        tick()

    def digest_of(tensor):
        plain = tensor.detach().cpu().contiguous()
        return hashlib.sha256(ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size())).hexdigest()

    def write_result():
        if os.getpid() != process:
            return
        every = [one for optimizer in optimizers for group in optimizer.param_groups for one in group["params"]]
        unique = {id(one): one for one in every or parameters}.values()
        digests = sorted(digest_of(one) for one in unique)
        whole = hashlib.sha256("".join(digests).encode()).hexdigest() if digests else ""
        with open(result, "w", encoding="utf-8") as file:
            json.dump({"steps": counted, "parameters": whole}, file)

    register_optimizer_step_post_hook(behind_step)
    torch.Tensor.backward = backward
    if result:
        atexit.register(write_result)


_NAMES = ("STEPS", "RESULT", "STOP", "SECONDS", "KNOBS")
_steps, _result, _stop, _seconds, _knobs = (os.environ.pop(f"BENCH_{name}", "") for name in _NAMES)
if _steps or _result:
    sys.meta_path.insert(0, _Finder(_steps, _result, int(_stop or 0), float(_seconds or 0.0), _knobs))
