# SPDX-License-Identifier: Apache-2.0
"""What is put into PyTorch so that a script's events are seen, and taken out again."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch
from torch.nn.modules import module as torch_module
from torch.nn.utils import clip_grad as torch_clip
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as torch_dataloader

from ..parts.tensors import RandomState
from .script import Script, place_of_caller
from .steps import StepCounter
from .watch import Watch


class Hooks:
    """Installed once, behind `import torch`.

    What a script has imported by name stays a plain call once it is removed.
    """

    def __init__(self, script: Script, watch: Watch) -> None:
        self._script = script
        self._watch = watch
        self._undo: list[tuple[str, Callable[[], None]]] = []
        self._observers: list[Any] = []
        self._depth = 0

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
    ) -> None:
        """Takes out all that the configuration does not need.

        Outermost modules stay wrapped where the forward pass needs it.
        """
        self._stop_observing()
        keeps = {"loaders": keeps_loaders, "zero_grad": keeps_zero_grad, "states": keeps_states}
        for kind, undo in self._undo:
            if not keeps.get(kind, False):
                undo()
        self._undo = []
        if not keeps_forward:
            for root in self._script.every_root():
                root.leave()

    def count(self, counter: StepCounter) -> None:
        """All that is left when the script goes on without a session, but for its end."""
        if counter.kind == "optimizer":
            torch_optimizer.register_optimizer_step_post_hook(lambda *_: counter.add())
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
                    script.made_at[optimizer] = place_of_caller()

            return init

        self._replace("optimizers", torch.optim.Optimizer, "__init__", make)
        for handle in (
            torch_optimizer.register_optimizer_step_pre_hook(watch.before_optimizer),
            torch_optimizer.register_optimizer_step_post_hook(watch.after_optimizer),
        ):
            self._undo.append(("optimizers", handle.remove))

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
        """Which modules are outermost: seen by hooks on all modules, until the step is known."""
        watch, script = self._watch, self._script
        self._stop_observing()
        self._depth = 0

        def before(module: Any, args: Any) -> None:
            if not watch.watches():
                return
            is_outermost = self._depth == 0
            self._depth += 1
            if (
                is_outermost
                and module.training
                and torch.is_grad_enabled()
                and script.root_of(module) is None
                and any(parameter.requires_grad for parameter in module.parameters())
            ):
                watch.safely(watch.found_root, module)

        def after(module: Any, args: Any, out: Any) -> None:
            if watch.watches():
                self._depth = max(0, self._depth - 1)

        self._observers = [
            torch_module.register_module_forward_pre_hook(before),
            torch_module.register_module_forward_hook(after, always_call=True),
        ]

    def _stop_observing(self) -> None:
        for observer in self._observers:
            observer.remove()
        self._observers = []

    def _watch_loaders(self) -> None:
        watch, script = self._watch, self._script

        def make_init(original: Any) -> Any:
            def init(loader: Any, *args: Any, **kwargs: Any) -> None:
                original(loader, *args, **kwargs)
                if watch.watches():
                    script.made_at.setdefault(loader, place_of_caller())

            return init

        def make_iter(original: Any) -> Any:
            def iterate(loader: Any) -> Any:
                if not watch.is_here() or not (
                    watch.is_watching or script.is_known_loader(loader)
                ):
                    return original(loader)
                random = RandomState()
                generator = None if loader.generator is None else loader.generator.get_state()
                found = script.found(loader)
                try:
                    batches = script.batches_of(
                        loader, lambda *args: watch.on_switchable_batch(found.index, *args)
                    )
                except Exception as error:
                    random.restore()
                    if generator is not None:
                        loader.generator.set_state(generator)
                    watch.on_failure(error)
                    batches = None
                if batches is not None:
                    return batches
                iterator = original(loader)
                watch.iterator_made(iterator, found.index)
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

        def make_clip(original: Any) -> Any:
            def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
                return watch.clip(original, parameters, args, kwargs)

            return clip

        for name in ("clip_grad_norm_", "clip_grad_value_"):
            self._replace("clip", torch_clip, name, make_clip)
            wrapped = getattr(torch_clip, name)
            self._replace("clip", torch.nn.utils, name, lambda original, wrapped=wrapped: wrapped)
