# SPDX-License-Identifier: Apache-2.0
"""What was found in the user's script, and the configuration under which its modules, optimizers
and loaders work now.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import weakref
from typing import Any, Callable

import torch
from torch import nn
from torch.utils.data import DataLoader

from ..parts import compiling, rows
from ..parts.flags import Flags
from ..parts.loader import LoaderSettings, SwitchableBatches
from ..parts.tensors import RandomState, as_channels_last, map_tensors, tensors_in
from .loaders import FoundLoader, kind_of
from .places import place_of_caller
from .steps import StepClock, StepDetector

_KINDS_OF_SEVERAL = {"DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule"}


def failure_text(error: BaseException) -> str:
    """The type and first line of an exception; of a worker's traceback, the last line."""
    lines = str(error).strip().splitlines()
    if any(line.startswith("Original Traceback") for line in lines):
        return lines[-1]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


@dataclasses.dataclass(frozen=True)
class ForwardSettings:
    """How the forward pass of outermost modules runs; the default is the script's own way."""

    autocast: torch.dtype | None = None
    channels_last: bool = False
    compiled: str = compiling.OFF  # or a mode of torch.compile
    selects_rows: bool = False  # where it gathers whole rows
    is_shadow: bool = False  # of a check

    def changes_nothing(self) -> bool:
        return (
            self.autocast is None
            and not self.channels_last
            and not self.selects_rows
            and self.compiled == compiling.OFF
        )


class Entry:
    """The wrapper of a watched module's calls. It is not saved or copied with the module."""

    def __init__(
        self, called: Callable[[Any, Any], Any], own_call: Callable[..., Any] | None
    ) -> None:
        self._called = called
        self.own_call = own_call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._called(args, kwargs)

    def __reduce__(self) -> Any:
        return type(None), ()


class Root:
    """An outermost module that the script calls in training mode. The module stays the script's:
    it can go at any time.
    """

    def __init__(self, module: torch.nn.Module, index: int, called_at: str) -> None:
        self._module = weakref.ref(module)
        self.index = index
        self.called_at = called_at
        self.is_used = True  # since the step was learned last
        self.casts_by_itself = False
        self.input_dims: list[int] | None = None  # of the tensors that it is called with
        # The dimensions of the tensor that it returns as the script is; None if it returns none.
        self.output_dims: list[int] | None = None
        self._compiled: dict[str, Callable[..., Any]] = {}  # by mode
        self._gradients = compiling.GraphGradients()
        self._compile_ns: dict[ForwardSettings, int] = {}
        parameters = list(module.parameters())
        self.device = parameters[0].device if parameters else torch.device("cpu")

    @property
    def module(self) -> torch.nn.Module:
        """The module. Only valid for a root of Script.roots, or during its call."""
        module = self._module()
        assert module is not None
        return module

    def is_there(self) -> bool:
        return self._module() is not None

    @property
    def own_call(self) -> Callable[..., Any] | None:
        """The compiled call of a module that the script has compiled itself."""
        entry = self.module.__dict__.get("_compiled_call_impl")
        return entry.own_call if isinstance(entry, Entry) else entry

    @property
    def call(self) -> Callable[..., Any]:
        return self.own_call or self.module._call_impl

    def enter_through(self, called: Callable[[Any, Any], Any]) -> None:
        self.module.__dict__["_compiled_call_impl"] = Entry(called, self.own_call)

    def leave(self) -> None:
        """From now on the module is called as the script calls it."""
        own_call = self.own_call
        if own_call is None:
            self.module.__dict__.pop("_compiled_call_impl", None)
        else:
            self.module.__dict__["_compiled_call_impl"] = own_call

    @property
    def is_compiled(self) -> bool:
        return self.own_call is not None or type(self.module).__name__ == "OptimizedModule"

    def compile_ns(self, settings: ForwardSettings) -> int:
        """The time that compiling the forward pass took for these settings.

        Where a check did it first, what the check took: the training found it done.
        """
        beside = dataclasses.replace(settings, is_shadow=True)
        return max(self._compile_ns.get(settings, 0), self._compile_ns.get(beside, 0))

    def _call(self, settings: ForwardSettings, falls_back: bool, args: Any, kwargs: Any) -> Any:
        mode = settings.compiled
        if mode == compiling.OFF:
            return self.call(*args, **kwargs)
        if mode == compiling.GRAPHS:
            self._gradients.keep(self.module)
        before_ns = compiling.clock.total_ns
        if mode not in self._compiled:
            self._compiled[mode] = compiling.compiled(mode)
        try:
            out = self._compiled[mode](self.module, falls_back, args, kwargs)
        finally:
            spent_ns = compiling.clock.total_ns - before_ns
            self._compile_ns[settings] = self._compile_ns.get(settings, 0) + spent_ns
        # The next forward pass writes where this one has put its results.
        return map_tensors(torch.clone, out) if mode == compiling.GRAPHS else out

    def leave_graphs(self) -> bool:
        """Stops the use of CUDA graphs in this module. Returns whether it used any."""
        if self._compiled.pop(compiling.GRAPHS, None) is None:
            return False
        self._gradients.keep(self.module)
        return True

    def run(
        self, settings: ForwardSettings, args: Any, kwargs: Any, falls_back: bool = False
    ) -> Any:
        """The forward pass. With `falls_back`, what cannot be compiled runs uncompiled."""
        if self.input_dims is None:
            self.input_dims = [tensor.dim() for tensor in tensors_in((args, kwargs))]
        if settings.changes_nothing():
            out = self.call(*args, **kwargs)
            self.output_dims = [out.dim()] if isinstance(out, torch.Tensor) else None
            return out
        if settings.channels_last:
            # Convolutions follow their input. Parameters stay as they are: the script may save
            # them, look at them as vectors, or hold others that share their memory.
            args, kwargs = map_tensors(as_channels_last, (args, kwargs))
        with contextlib.ExitStack() as around:
            if settings.autocast is not None:
                around.enter_context(torch.autocast(self.device.type, settings.autocast))
            if settings.selects_rows:
                around.enter_context(rows.selected())
            out = self._call(settings, falls_back, args, kwargs)

        def restore(tensor: torch.Tensor) -> torch.Tensor:
            if settings.autocast is not None and tensor.dtype == settings.autocast:
                tensor = tensor.float()
            # The script may call view() on what it gets.
            return (
                tensor.contiguous() if settings.channels_last and tensor.dim() == 4 else tensor
            )

        return map_tensors(restore, out)


class _Stepping:
    """An optimizer that has stepped. It stays the script's: it can go at any time."""

    def __init__(self, optimizer: torch.optim.Optimizer, made_at: str) -> None:
        self.made_at = made_at
        self.take(optimizer)

    def take(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = weakref.ref(optimizer)
        self.type = type(optimizer)
        self.is_used = True  # since the step was learned last

    @property
    def optimizer(self) -> torch.optim.Optimizer | None:
        return self._optimizer()


class Script:
    """All that is known of a script. Used by the main thread only.

    Models, optimizers and loaders are the script's: nothing here keeps them alive.
    """

    def __init__(self) -> None:
        self.detector = StepDetector()
        self.clock = StepClock()
        self._roots: list[Root] = []
        self._roots_found = 0
        self._stepping: list[_Stepping] = []
        self.flags = Flags()
        self.made_at: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self.loaders: list[FoundLoader] = []
        self.differentiates_twice = False  # goes backward through a backward pass
        self.zero_grad_keeps = False  # the script asks for gradients that are filled with zeros
        self.last_loss: torch.Tensor | None = None
        self.peak_device_bytes = 0  # in steps that were timed on a GPU
        self.is_tuned = True  # until end_trials()
        # The configuration in force.
        self.forward = ForwardSettings()
        self.loader_changes: dict[str, Any] = {}  # fields of LoaderSettings
        self.releases_gradients = False  # whatever the script asks for
        # Called when the forward pass or the loader has failed, and the script's own was used
        # instead.
        self.on_forward_failed: Callable[[Exception], None] = lambda error: None
        self.on_loader_failed: Callable[[Exception], None] = lambda error: None

    # --- what was found

    @property
    def roots(self) -> list[Root]:
        """The roots that still exist and were called since the step was last learned."""
        return [root for root in self._roots if root.is_there() and root.is_used]

    @roots.setter
    def roots(self, roots: list[Root]) -> None:
        self._roots = list(roots)
        self._roots_found = len(roots)

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """The optimizers that still exist and have stepped since the step was last learned."""
        found = (one.optimizer for one in self._stepping if one.is_used)
        return [optimizer for optimizer in found if optimizer is not None]

    @optimizers.setter
    def optimizers(self, optimizers: list[torch.optim.Optimizer]) -> None:
        self._stepping = [_Stepping(one, self.made_at.get(one, "")) for one in optimizers]

    def root_of(self, module: torch.nn.Module) -> Root | None:
        every = self.every_root()
        return next((root for root in every if root.module is module), None)

    def every_root(self) -> list[Root]:
        """Every root that still exists, whether or not the script calls it now."""
        return [root for root in self._roots if root.is_there()]

    def add_root(self, module: torch.nn.Module) -> Root:
        root = Root(module, self._roots_found, place_of_caller())
        self._roots_found += 1
        self._roots = [*self.every_root(), root]
        return root

    def index_of(self, optimizer: torch.optim.Optimizer) -> int:
        """The index of an optimizer that steps."""
        for index, known in enumerate(self._stepping):
            if known.optimizer is optimizer:
                known.is_used = True
                return index
        made_at = self.made_at.get(optimizer, "")
        for index, known in enumerate(self._stepping):
            # A script may make its optimizer anew again and again, at the same place. One that
            # the step was learned with is not replaced unnoticed.
            is_gone = known.optimizer is None and ("optimizer", index) not in self.detector.pattern
            if is_gone and known.made_at == made_at and known.type is type(optimizer):
                known.take(optimizer)
                return index
        self._stepping.append(_Stepping(optimizer, made_at))
        return len(self._stepping) - 1

    def learn_again(self) -> None:
        """Forgets the step and the trained objects: from here on, only new events count."""
        self.detector = StepDetector()
        self.peak_device_bytes = 0
        for root in self._roots:
            root.is_used = False
        for known in self._stepping:
            known.is_used = False
        for loader in self.loaders:
            loader.is_trained_from = False

    def kind(self) -> Any:
        """The structure of what is trained, without values: equal kinds can be compared."""
        return [
            [
                (
                    type(one).__name__,
                    [tuple(p.shape) for group in one.param_groups for p in group["params"]],
                )
                for one in self.optimizers
            ],
            [
                (type(root.module).__name__, [tuple(p.shape) for p in root.module.parameters()])
                for root in self.roots
            ],
            [kind for kind, _ in self.detector.pattern],
        ]

    def found(self, loader: DataLoader) -> FoundLoader:
        for one in self.loaders:
            if one.loader is loader:
                return one
        made_at = self.made_at.get(loader, "")
        for one in self.loaders:
            # A script may make its loader anew in each epoch, at the same place.
            if one.loader is None and one.made_at == made_at and one.kind == kind_of(loader):
                one.take(loader)
                return one
        self.loaders.append(FoundLoader(loader, len(self.loaders), made_at))
        return self.loaders[-1]

    def is_known_loader(self, loader: DataLoader) -> bool:
        return any(one.loader is loader and one.is_iterated for one in self.loaders)

    def is_made_anew(self, loader: DataLoader) -> bool:
        """Whether this loader replaces that of the training, which is gone."""
        training = self.training_loader()
        return (
            training is not None
            and training.loader is None
            and training.made_at != ""
            and training.made_at == self.made_at.get(loader, "")
            and training.kind == kind_of(loader)
        )

    def put_flags_anew(self, optimizer: torch.optim.Optimizer) -> None:
        """Sets the flags of a new optimizer that replaces a tuned one."""
        made_at = self.made_at.get(optimizer, "")
        for known in self._stepping:
            if made_at and known.made_at == made_at and known.type is type(optimizer):
                self.flags.put(optimizer)
                if known.optimizer is None:
                    known.take(optimizer)
                else:
                    self._stepping.append(_Stepping(optimizer, made_at))
                return

    def training_loader(self) -> FoundLoader | None:
        """The loader of the training; None if none or several train."""
        training = [one for one in self.loaders if one.is_trained_from]
        return training[0] if len(training) == 1 else None

    def device(self) -> torch.device:
        parameters = self.parameters()
        return parameters[0].device if parameters else torch.device("cpu")

    def trains_with_others(self) -> bool:
        """Whether other processes train the same model: they would wait for this one."""
        distributed = torch.distributed
        if (
            distributed.is_available()
            and distributed.is_initialized()
            and distributed.get_world_size() > 1
        ):
            return True
        kinds = {kind.__name__ for root in self.roots for kind in type(root.module).__mro__}
        return bool(kinds & _KINDS_OF_SEVERAL)

    def trains_on_several(self) -> str:
        """Other processes or devices that take part in the training; empty: none."""
        if self.trains_with_others():
            return "several processes train together"
        devices = {one.device for one in self.parameters() if one.device.type == "cuda"}
        if len(devices) > 1:
            return "it trains on several GPUs"
        # Parameters of these are all on the first.
        parallel = (one.module for one in self.roots if isinstance(one.module, nn.DataParallel))
        is_split = any(len(module.device_ids) > 1 for module in parallel)
        return "it trains on several GPUs" if is_split else ""

    def synchronize(self) -> None:
        device = self.device()
        if device.type == "cuda":  # which need not be the current one
            torch.cuda.synchronize(device)

    def parameters(self) -> list[torch.Tensor]:
        """The trained parameters: of the optimizers or, if there are none, of the modules."""
        if self.optimizers:
            every = (
                parameter
                for optimizer in self.optimizers
                for group in optimizer.param_groups
                for parameter in group["params"]
            )
        else:
            every = (
                parameter
                for root in self.roots
                for parameter in root.module.parameters()
                if parameter.requires_grad
            )
        return list({id(parameter): parameter for parameter in every}.values())

    def names(self) -> dict[int, str]:
        """The names of parameters and buffers, by identity.

        With the root's number in front where there are several.
        """
        names: dict[int, str] = {}
        for root in self.roots:
            prefix = f"{root.index}." if len(self.roots) > 1 else ""
            for name, tensor in itertools.chain(
                root.module.named_parameters(), root.module.named_buffers()
            ):
                names.setdefault(id(tensor), prefix + name)
        for number, parameter in enumerate(self.parameters()):
            names.setdefault(id(parameter), f"parameter {number}")
        return names

    def buffers(self) -> list[torch.Tensor]:
        every = (buffer for root in self.roots for buffer in root.module.buffers())
        return list({id(buffer): buffer for buffer in every}.values())

    # --- batches

    def wanted(self, found: FoundLoader) -> LoaderSettings:
        is_trained_from = self.training_loader() is found
        return found.settings(self.loader_changes if is_trained_from else {})

    def lack_of(self, settings: LoaderSettings) -> str:
        """Why the training's loader cannot have these settings; empty: no reason is known."""
        found = self.training_loader()
        return "" if found is None else found.lack_of(settings)

    def end_trials(self) -> None:
        """Nothing waits any more for a change that was not kept."""
        self.is_tuned = False
        for found in self.loaders:
            found.end_native(self.wanted(found))

    def batches_of(
        self, loader: DataLoader, on_batch: Callable[..., None]
    ) -> SwitchableBatches | None:
        """The switchable batches of a loader; None if only PyTorch's own iterator works."""
        found = self.found(loader)
        is_first, found.is_iterated = not found.is_iterated, True
        if found.obstacle:
            return None

        def refuse(settings: LoaderSettings, error: Exception) -> None:
            found.refused[settings] = failure_text(error)
            self.loader_changes.clear()
            self.on_loader_failed(error)

        return SwitchableBatches(
            loader,
            lambda: self.wanted(found),
            on_batch,
            is_first,
            found.kept_engines,
            found.start_ns,
            refuse,
            lambda settings: self.is_tuned and found.keeps(settings),
        )

    # --- forward passes

    def run_forward(self, root: Root, args: Any, kwargs: Any, falls_back: bool = False) -> Any:
        """The forward pass under the configuration in force; if that fails, the script's own."""
        if self.forward.changes_nothing():
            return root.run(self.forward, args, kwargs)
        try:
            random = RandomState()
        except Exception:  # a GPU has none to give while its work is being recorded
            random = None
        try:
            return root.run(self.forward, args, kwargs, falls_back)
        except Exception as error:
            # Without what its frames hold: there may be no memory left.
            failure = error.with_traceback(None)
        if random is not None:
            random.restore()
        # An exception here is the script's own failure.
        out = root.run(ForwardSettings(), args, kwargs)
        self.forward = ForwardSettings()
        with contextlib.suppress(Exception):
            self.on_forward_failed(failure)
        return out
