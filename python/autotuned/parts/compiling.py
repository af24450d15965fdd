# SPDX-License-Identifier: Apache-2.0
"""Forward passes through `torch.compile`: where that is possible, and what it takes.

The module stays as it is: only the function that its call runs is compiled, as
`torch.nn.Module.compile` does it. So names in a state dictionary do not change, and to undo it is
to run the function itself. The module imports PyTorch's compiler when something is compiled
first, which takes seconds.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
import sysconfig
import time
from typing import Any, Callable, Iterator

import torch

OFF = "off"
# As PyTorch names them.
MODES = ["default", "reduce-overhead", "max-autotune-no-cudagraphs"]
# With CUDA graphs.
GRAPHS = "reduce-overhead"
_MOST_VARIANTS = 64
_TREES = "torch._inductor.cudagraph_trees"  # which PyTorch's compiler imports when it is used
# PyTorch's code generator for GPUs is made for these.
_LEAST_CAPABILITY = (7, 0)


def obstacle_of(device: torch.device) -> str:
    """Why nothing can be compiled for this device; empty: it can."""
    if device.type == "cuda":
        if torch.cuda.get_device_capability(device) < _LEAST_CAPABILITY:
            return "needs a GPU of compute capability 7.0"
        return "" if importlib.util.find_spec("triton") else "needs the Python package triton"
    if device.type != "cpu":
        return f"is not known for {device.type}"
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        return f"needs a C++ compiler: there is no {compiler}"
    if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        return "needs the headers of Python (Python.h)"
    return ""


class CompileClock:
    """Time in which PyTorch has compiled in this process, by its own callbacks."""

    def __init__(self) -> None:
        self.total_ns = 0
        self.is_ours = False  # what is compiled now
        self.scripts_own = False  # the script has compiled something by itself
        self._began_ns = 0
        self._handler: Any = None

    def start(self) -> None:
        """Starts the clock. Further calls change nothing."""
        if self._handler is not None:
            return
        before_ns = time.monotonic_ns()
        self.scripts_own = self.scripts_own or _TREES in sys.modules
        from torch._dynamo.callback import callback_handler

        callback_handler.register_start_callback(self._begin)
        callback_handler.register_end_callback(self._end)
        self._handler = callback_handler
        self.total_ns += time.monotonic_ns() - before_ns  # of the import

    def stop(self) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            with contextlib.suppress(ValueError):  # somebody has cleared the callbacks
                handler.remove_start_callback(self._begin)
                handler.remove_end_callback(self._end)

    def _begin(self, _: Any) -> None:
        self.scripts_own = self.scripts_own or not self.is_ours
        self._began_ns = time.monotonic_ns()

    def _end(self, _: Any) -> None:
        self.total_ns += time.monotonic_ns() - self._began_ns


clock = CompileClock()


@contextlib.contextmanager
def _how(falls_back: bool) -> Iterator[None]:
    import torch._dynamo.config
    import torch._functorch.config

    dynamo, functorch = torch._dynamo.config, torch._functorch.config
    with dynamo.patch(
        suppress_errors=falls_back,
        # Each setting of precision and threads that is tried takes one.
        recompile_limit=max(_MOST_VARIANTS, dynamo.recompile_limit),
    ), functorch.patch(
        # The backward pass is compiled with the forward pass, so that all that can fail fails
        # there, where the forward pass can still be made as before, and all time is seen there.
        force_non_lazy_backward_lowering=True,
        # A script may keep its graph and go backward through it again.
        donated_buffer=False,
    ):
        yield


def compiled(mode: str) -> Callable[[torch.nn.Module, bool, Any, Any], Any]:
    """The call of a module through the compiler: (module, falls_back, args, kwargs).

    With `falls_back`, a part that cannot be compiled runs uncompiled; else that is an exception.
    It does not keep the module alive.
    """
    clock.start()

    # A function of ours: PyTorch compiles none of its own, and would run `_call_impl` as it is.
    def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        return torch.nn.Module._call_impl(module, *args, **kwargs)

    through = torch.compile(call, mode=None if mode == "default" else mode)

    def run(module: torch.nn.Module, falls_back: bool, args: Any, kwargs: Any) -> Any:
        was_ours, clock.is_ours = clock.is_ours, True
        try:
            with _how(falls_back):
                return through(module, *args, **kwargs)
        finally:
            clock.is_ours = was_ours

    return run


def release_graphs() -> None:
    """Gives back the memory of all CUDA graphs of PyTorch's compiler.

    What was compiled with them cannot run any more, also what the script has compiled: then they
    stay.
    """
    trees = sys.modules.get(_TREES)
    if trees is not None and not clock.scripts_own:
        trees.reset_cudagraph_trees()
        torch.cuda.empty_cache()


class GraphGradients:
    """Gradients of the parameters of a module that runs through CUDA graphs.

    Graphs write them to the same place each time, and PyTorch raises where one is used behind the
    next forward pass (pytorch/pytorch#169545). That would be in the script's backward pass, which
    adds to a gradient that the script has not released.
    """

    def __init__(self) -> None:
        # By identity of the parameter: where its gradient was at the last forward pass.
        self._places: dict[int, int] | None = None

    def keep(self, module: torch.nn.Module) -> None:
        """Called before a forward pass: moves gradients out of the memory of graphs.

        One that has not moved since the last time was only added to; it can be the script's.
        """
        known, self._places = self._places, {}
        for parameter in module.parameters():
            if parameter.grad is None:
                continue
            if known is not None and known.get(id(parameter)) != parameter.grad.data_ptr():
                parameter.grad = parameter.grad.detach().clone()
            self._places[id(parameter)] = parameter.grad.data_ptr()


@contextlib.contextmanager
def without_dropout(module: torch.nn.Module) -> Iterator[bool]:
    """Dropout of this module does nothing, as far as it shows in attributes.

    Whether it has any.
    """
    quiet: list[tuple[torch.nn.Module, str, Any]] = []
    for part in module.modules():
        if isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.training:
            quiet.append((part, "training", part.training))
            part.training = False
        # Attention and recurrent modules, and many modules of users, have such an attribute.
        elif isinstance(part.__dict__.get("dropout"), float) and part.dropout > 0:
            quiet.append((part, "dropout", part.dropout))
            part.dropout = 0.0
    try:
        yield bool(quiet)
    finally:
        for part, name, value in quiet:
            setattr(part, name, value)
