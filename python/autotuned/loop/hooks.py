# SPDX-License-Identifier: Apache-2.0
"""What is put into PyTorch so that a script's events are seen, and taken out again."""

from __future__ import annotations

import contextlib
import functools
from types import CodeType
from typing import Any, Callable

import torch
from torch.nn.modules import module as torch_module
from torch.nn.utils import clip_grad as torch_clip
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as torch_dataloader

from ..parts.tensors import RandomState
from .places import place_of_caller
from .script import Script
from .steps import StepCounter
from .watch import Watch


def _code_of_observed_call() -> CodeType:
    """In place of that of torch.nn.Module._wrapped_call_impl, among the names of its module.

    Only the code changes: PyTorch's compiler knows the function, and takes another one for a call
    of the script's own. In what it compiles, and what runs there, nothing is observed.
    """

    def _wrapped_call_impl(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        if _autotuned_is_compiled() or _autotuned_compiler() is not None:  # noqa: F821
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            return self._call_impl(*args, **kwargs)
        is_counted = _autotuned_begins(self)  # noqa: F821
        try:
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            return self._call_impl(*args, **kwargs)
        finally:
            if is_counted:
                _autotuned_ends()  # noqa: F821

    own = torch.nn.Module._wrapped_call_impl.__code__
    # As if it stood there: the compiler leaves the frames of that file alone.
    names = {"co_filename", "co_firstlineno", "co_name", "co_qualname"} & set(dir(own))
    return _wrapped_call_impl.__code__.replace(**{name: getattr(own, name) for name in names})


def _names_of_the_compiler() -> dict[str, Callable[[], Any]]:
    """What says whether PyTorch's compiler reads this code, or looks at the frames that run."""
    names: dict[str, Callable[[], Any]] = {
        "_autotuned_is_compiled": bool,  # never, of another PyTorch
        "_autotuned_compiler": type(None),
    }
    with contextlib.suppress(ImportError, AttributeError):
        names["_autotuned_is_compiled"] = torch.compiler.is_compiling
    with contextlib.suppress(ImportError, AttributeError):
        from torch._C._dynamo.eval_frame import get_eval_frame_callback

        names["_autotuned_compiler"] = get_eval_frame_callback
    return names


class OptimizerHook:
    """One of PyTorch's hooks for all optimizers.

    While PyTorch goes through them none may be added or taken out: the optimizer's step would
    fail, in the script. One that is to go then stays, and does nothing.
    """

    def __init__(self, register: Callable[[Any], Any], call: Callable[..., None]) -> None:
        self._call: Callable[..., None] | None = call
        self._is_running = False
        self._handle = register(self)

    def __call__(self, *args: Any) -> None:
        if self._call is None:
            return
        self._is_running = True
        try:
            self._call(*args)
        finally:
            self._is_running = False

    def remove(self) -> None:
        self._call = None
        if not self._is_running:
            self._handle.remove()

    def becomes(self, call: Callable[..., None]) -> bool:
        """It goes on with that. Whether it is still there."""
        if not self._is_running:
            return False
        self._call = call
        return True


class Hooks:
    """Installed once, behind `import torch`.

    What a script has imported by name stays a plain call once it is removed.
    """

    def __init__(self, script: Script, watch: Watch) -> None:
        self._script = script
        self._watch = watch
        self._undo: list[tuple[str, Callable[[], None]]] = []
        self._observed_call: CodeType | None = None
        self._depth = 0
        self._keeps_optimizers = False
        self._behind_step: OptimizerHook | None = None

    def install(self) -> None:
        self._watch_optimizers()
        self._watch_states()
        self._watch_backward()
        self._observe()
        self._watch_loaders()
        self._watch_the_rest()
        self._watch.on_known = self._stop_observing
        self._watch.observe = self._observe

    def remove(
        self,
        keeps_forward: bool,
        keeps_loaders: bool,
        keeps_zero_grad: bool,
        keeps_states: bool = False,
        keeps_optimizers: bool = False,
    ) -> None:
        """Takes out all that the configuration does not need.

        Outermost modules stay wrapped where the forward pass needs it.
        """
        self._stop_observing()
        self._keeps_optimizers = keeps_optimizers
        keeps = {
            "loaders": keeps_loaders,
            "zero_grad": keeps_zero_grad,
            "states": keeps_states,
            "new optimizers": keeps_optimizers,
        }
        for kind, undo in self._undo:
            if not keeps.get(kind, False):
                with contextlib.suppress(Exception):
                    undo()
        self._undo = []
        if not keeps_forward:
            for root in self._script.every_root():
                with contextlib.suppress(Exception):
                    root.leave()

    def count(self, counter: StepCounter) -> None:
        """All that is left when the script goes on without a session, but for its end."""
        if counter.kind == "optimizer":

            def add(*_: Any) -> None:
                counter.add()

            known = self._behind_step
            if known is None or not known.becomes(add):
                register = torch_optimizer.register_optimizer_step_post_hook
                self._behind_step = OptimizerHook(register, add)
            return

        def make(original: Any) -> Any:
            def backward(*args: Any, **kwargs: Any) -> Any:
                counter.add()
                return original(*args, **kwargs)

            return backward

        self._replace("count", torch.autograd, "backward", make)

    def _replace(self, kind: str, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        ours = functools.wraps(original)(make(original))
        setattr(owner, name, ours)

        def undo() -> None:
            # Somebody else may have wrapped it since.
            if getattr(owner, name) is ours:
                setattr(owner, name, original)

        self._undo.append((kind, undo))

    def _watch_optimizers(self) -> None:
        watch, script = self._watch, self._script

        def make(original: Any) -> Any:
            def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
                original(optimizer, *args, **kwargs)
                if watch.watches():
                    watch.safely(note, optimizer)
                elif self._keeps_optimizers and watch.is_here():
                    with contextlib.suppress(Exception):
                        note(optimizer)
                        script.put_flags_anew(optimizer)

            return init

        def note(optimizer: Any) -> None:
            script.made_at[optimizer] = place_of_caller()

        self._replace("new optimizers", torch.optim.Optimizer, "__init__", make)
        before = OptimizerHook(
            torch_optimizer.register_optimizer_step_pre_hook, watch.before_optimizer
        )
        self._behind_step = OptimizerHook(
            torch_optimizer.register_optimizer_step_post_hook, watch.after_optimizer
        )
        for hook in (before, self._behind_step):
            self._undo.append(("optimizers", hook.remove))

        def make_zero_grad(original: Any) -> Any:
            def zero_grad(owner: Any, set_to_none: bool = True) -> Any:
                return watch.zero_grad(original, owner, set_to_none)

            return zero_grad

        self._replace("zero_grad", torch.optim.Optimizer, "zero_grad", make_zero_grad)
        self._replace("zero_grad", torch.nn.Module, "zero_grad", make_zero_grad)

    def _watch_states(self) -> None:
        """What the script saves of an optimizer is what it could have saved without us."""
        watch, script = self._watch, self._script

        def make_save(original: Any) -> Any:
            def save(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
                state = original(optimizer, *args, **kwargs)
                return watch.safely(script.flags.own_state, optimizer, state) or state

            return save

        def make_load(original: Any) -> Any:
            def load(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
                result = original(optimizer, *args, **kwargs)
                watch.safely(script.flags.restored, optimizer)
                return result

            return load

        self._replace("states", torch.optim.Optimizer, "state_dict", make_save)
        self._replace("states", torch.optim.Optimizer, "__getstate__", make_save)
        self._replace("states", torch.optim.Optimizer, "load_state_dict", make_load)

    def _watch_backward(self) -> None:
        watch, script = self._watch, self._script

        def note(makes_graph: Any) -> None:
            if makes_graph and watch.watches():
                script.differentiates_twice = True

        def make(original: Any) -> Any:
            # Tensor.backward() comes here too.
            def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
                note(kwargs.get("create_graph") or any(args[2:3]))
                return watch.backward(original, tensors, args, kwargs)

            return backward

        self._replace("backward", torch.autograd, "backward", make)

        def make_grad(original: Any) -> Any:
            def grad(*args: Any, **kwargs: Any) -> Any:
                note(kwargs.get("create_graph") or any(args[4:5]))
                return original(*args, **kwargs)

            return grad

        self._replace("backward", torch.autograd, "grad", make_grad)

    def _observe(self) -> None:
        """Which modules are outermost: seen in the calls of all, until the step is known."""
        self._stop_observing()
        self._depth = 0
        names = vars(torch_module)
        names.update(_names_of_the_compiler())
        names["_autotuned_begins"] = self._module_begins
        names["_autotuned_ends"] = self._module_ends
        call = torch.nn.Module._wrapped_call_impl
        names.setdefault("_autotuned_own", call.__code__)
        self._observed_call = call.__code__ = _code_of_observed_call()

    def _stop_observing(self) -> None:
        call = torch.nn.Module._wrapped_call_impl
        # The names stay: calls that are under way need them.
        if self._observed_call is not None and call.__code__ is self._observed_call:
            call.__code__ = vars(torch_module)["_autotuned_own"]
        self._observed_call = None

    def _module_begins(self, module: Any) -> bool:
        """Whether its end is to be told, too."""
        watch = self._watch
        if not watch.watches():
            return False
        self._depth += 1
        if self._depth == 1:
            watch.safely(self._outermost, module)
        return True

    def _module_ends(self) -> None:
        self._depth = max(0, self._depth - 1)

    def _outermost(self, module: Any) -> None:
        self._watch.look_at_patience()
        if (
            module.training
            and torch.is_grad_enabled()
            and self._script.root_of(module) is None
            and any(parameter.requires_grad for parameter in module.parameters())
        ):
            self._watch.found_root(module)

    def _watch_loaders(self) -> None:
        watch, script = self._watch, self._script

        def note(loader: Any) -> None:
            script.made_at.setdefault(loader, place_of_caller())

        def make_init(original: Any) -> Any:
            def init(loader: Any, *args: Any, **kwargs: Any) -> None:
                original(loader, *args, **kwargs)
                if watch.watches():
                    watch.safely(note, loader)
                elif watch.is_here():  # what was kept is for the next one, too
                    with contextlib.suppress(Exception):
                        note(loader)

            return init

        def is_wanted(loader: Any) -> bool:
            if not watch.is_here():
                return False
            try:
                return (
                    watch.is_watching
                    or script.is_known_loader(loader)
                    or script.is_made_anew(loader)
                )
            except Exception:
                return False

        def make_iter(original: Any) -> Any:
            def iterate(loader: Any) -> Any:
                if not is_wanted(loader):
                    return original(loader)
                random = generator = found = batches = None
                try:
                    random = RandomState()
                    if loader.generator is not None:
                        generator = loader.generator.get_state()
                    found = script.found(loader)
                    index = found.index
                    batches = script.batches_of(
                        loader, lambda *args: watch.on_switchable_batch(index, *args)
                    )
                except Exception as error:
                    if random is not None:
                        random.restore()
                    if generator is not None:
                        loader.generator.set_state(generator)
                    watch.fail(error)
                if batches is not None:
                    return batches
                iterator = original(loader)
                if found is not None:
                    watch.safely(watch.iterator_made, iterator, found.index)
                return iterator

            return iterate

        def make_next(original: Any) -> Any:
            def following(iterator: Any) -> Any:
                return watch.next_batch(original, iterator)

            return following

        self._replace("loaders", DataLoader, "__init__", make_init)
        self._replace("loaders", DataLoader, "__iter__", make_iter)
        self._replace("batches", torch_dataloader._BaseDataLoaderIter, "__next__", make_next)

    def _watch_the_rest(self) -> None:
        watch = self._watch

        def make_save(original: Any) -> Any:
            def save(*args: Any, **kwargs: Any) -> Any:
                watch.disturb()
                return original(*args, **kwargs)

            return save

        self._replace("save", torch, "save", make_save)

        def make_start(original: Any) -> Any:
            def start(profiler: Any, *args: Any, **kwargs: Any) -> Any:
                if watch.watches():
                    watch.safely(watch.on_profiler, profiler)
                return original(profiler, *args, **kwargs)

            return start

        def make_exit(original: Any) -> Any:
            def leave(profiler: Any, *args: Any, **kwargs: Any) -> Any:
                watch.profilers.discard(profiler)
                return original(profiler, *args, **kwargs)

            return leave

        # Only one profiler can run at a time; those of torch.profiler use the first of these.
        profilers = torch.autograd.profiler
        for owner, name, make in (
            (profilers.profile, "_prepare_trace", make_start),
            (profilers.profile, "__exit__", make_exit),
            (profilers.emit_nvtx, "__enter__", make_start),
            (profilers.emit_itt, "__enter__", make_start),
        ):
            if hasattr(owner, name):
                self._replace("profiler", owner, name, make)

        def make_clip(original: Any) -> Any:
            def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
                return watch.clip(original, parameters, args, kwargs)

            return clip

        def make_unscale(original: Any) -> Any:
            def unscale(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
                return watch.unscale(original, scaler, optimizer, args, kwargs)

            return unscale

        scaler = getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)
        if hasattr(scaler, "_unscale_grads_"):
            self._replace("scaler", scaler, "_unscale_grads_", make_unscale)
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            self._replace("clip", torch_clip, name, make_clip)
            wrapped = getattr(torch_clip, name)
            self._replace("clip", torch.nn.utils, name, lambda original, wrapped=wrapped: wrapped)
