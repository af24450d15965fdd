# SPDX-License-Identifier: Apache-2.0
"""What happens at each event of the script's loop. Hooks call it; a session listens at the ends
of steps.

Only the main thread of the process that attached is watched. A failure of this package never
reaches the script: it is handed to `on_failure`, which lets go.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from typing import Any, Callable

import torch

from ..parts import compiling
from ..parts.tensors import RandomState, samples_in, tensors_in
from .script import Root, Script
from .steps import Step

Original = Callable[..., Any]


# Without the end of a step for so long, the script does something else than training.
_MOST_WAIT_NS = 300 * 10**9
# How long a step is searched for, from the first event on.
_MOST_LEARNING_NS = 600 * 10**9


class Check:
    """Follows real steps. Its results are those that the script would get without it.

    This one does nothing; a check looks at the events that it needs.
    """

    def __init__(self, script: Script) -> None:
        self._script = script

    def forward(self, root: Root, args: Any, kwargs: Any) -> Any:
        return self._script.run_forward(root, args, kwargs)

    def backward(self, original: Original, tensors: Any, args: Any, kwargs: Any) -> Any:
        return original(tensors, *args, **kwargs)

    def clipped(
        self, original: Original, parameters: list[torch.Tensor], args: Any, kwargs: Any
    ) -> None:
        """Called when `original` has clipped the gradients of these parameters."""

    def unscaled(
        self, optimizer: torch.optim.Optimizer, unscale: Callable[[torch.optim.Optimizer], None]
    ) -> None:
        """A GradScaler has divided its gradients; `unscale` does the same to another one's."""

    def before_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        pass

    def after_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        pass

    def on_batch(self, batches: Any, index: Any, batch: Any) -> None:
        """Called when the script gets this batch, made from this index."""

    def end(self) -> None:
        """Ends the check: it no longer follows the steps."""


class Guard:
    """The first steps of a new configuration.

    A forward pass that fails is done again as before. So is one that leaves a buffer in another
    type: the script would save that.
    """

    def __init__(self, steps: int, go_back: Callable[[], None]) -> None:
        self.steps = steps
        self.failure: Exception | None = None
        self._go_back = go_back

    def run(self, script: Script, root: Root, args: Any, kwargs: Any) -> Any:
        random, buffers, failure = None, [], None
        try:
            random = RandomState()
            buffers = [
                (module, name, buffer, buffer.clone())
                for module in root.module.modules()
                for name, buffer in module._buffers.items()
                if buffer is not None
            ]
            out = root.run(script.forward, args, kwargs)
            for module, name, buffer, _ in buffers:
                now = module._buffers.get(name)
                if now is not None and now.dtype != buffer.dtype:
                    raise TypeError(f"the buffer '{name}' would become {now.dtype}")
            return out
        except Exception as error:
            # Without what its frames hold: there may be no memory left.
            failure = error.with_traceback(None)
        self.failure = failure
        self.steps = 0
        self._go_back()
        if random is not None:
            random.restore()
        with contextlib.suppress(Exception), torch.no_grad():
            for module, name, buffer, value in buffers:
                module._buffers[name] = buffer.copy_(value)
        return script.run_forward(root, args, kwargs)


class Watch:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.is_watching = True
        self.check: Check | None = None
        self.guard: Guard | None = None
        self.on_boundary: Callable[[Step], None] = lambda step: None
        self.on_known: Callable[[], None] = lambda: None
        self.on_failure: Callable[[Exception], None] = lambda error: None
        # The script trains, but not by the step that was learned; it has not trained for long; it
        # trains with an optimizer that it has made since.
        self.on_lost: Callable[[], None] = lambda: None
        self.on_stalled: Callable[[], None] = lambda: None
        self.on_renewed: Callable[[], None] = lambda: None
        # No step can be found; a profiler of PyTorch's begins.
        self.on_given_up: Callable[[str], None] = lambda why: None
        self.on_profiler: Callable[[Any], None] = lambda profiler: None
        self.observe: Callable[[], None] = lambda: None  # begins to look for outermost modules
        self._process = os.getpid()
        self._thread = threading.main_thread().ident
        self._is_inside = False
        self._pending_batch: tuple[int, int] | None = None
        self._iterators: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._optimizer_began_ns = 0
        self._was_known = False
        self._first_ns = 0  # of the first event of a step that is not known
        self.profilers: weakref.WeakSet[Any] = weakref.WeakSet()  # of the script's, that run
        self.other_threads = False  # something was trained in another thread

    def is_here(self) -> bool:
        """Whether the call is in the watched process and thread."""
        return threading.get_ident() == self._thread and os.getpid() == self._process

    def watches(self) -> bool:
        if not self.is_watching:
            return False
        if not self.is_here():
            self.other_threads = self.other_threads or os.getpid() == self._process
            return False
        return True

    def safely(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:  # whatever it is: the script goes on
            self.fail(error)
            return None

    def fail(self, error: Exception) -> None:
        """Handles a failure of this package. If it cannot be reported, watching just ends."""
        try:
            self.on_failure(error)
        except Exception:
            self.is_watching = False
            self.check = None
            self.guard = None

    # --- modules

    def found_root(self, module: torch.nn.Module) -> None:
        """An outermost module in training mode is about to run for the first time."""
        root = self.script.add_root(module)
        root.enter_through(lambda args, kwargs: self.forward(root, args, kwargs))

    def forward(self, root: Root, args: Any, kwargs: Any) -> Any:
        if not self.is_here() or self._is_inside:
            return root.call(*args, **kwargs)
        if not (root.module.training and torch.is_grad_enabled()):
            self.script.detector.disturb()
            self._look_at_clock()
            return root.call(*args, **kwargs)
        if self.is_watching:
            self.safely(self._note_forward, root)
        began_ns = time.monotonic_ns()
        compiled_ns = compiling.clock.total_ns
        self._is_inside = True
        try:
            if self.check is not None:
                return self.check.forward(root, args, kwargs)
            if self.guard is not None and self.guard.steps > 0:
                return self.guard.run(self.script, root, args, kwargs)
            return self.script.run_forward(root, args, kwargs, falls_back=True)
        finally:
            self._is_inside = False
            self._leave_out_compiling(compiled_ns)
            self.script.clock.forward_ns += time.monotonic_ns() - began_ns

    def _leave_out_compiling(self, before_ns: int) -> None:
        """Leaves out the time of compiling, such as for another shape: it is charged once."""
        spent_ns = compiling.clock.total_ns - before_ns
        if spent_ns > 0:
            self.script.detector.disturb()
            self.script.clock.leave_out(spent_ns)

    def _note_forward(self, root: Root) -> None:
        script = self.script
        root.is_used = True
        if torch.is_autocast_enabled(root.device.type):
            root.casts_by_itself = True
        # In a script without optimizer, everything up to here belongs to the step before.
        if script.detector.ends_before_forward() and root.index == 0:
            self._end_step()
        if self._pending_batch is not None:
            loader, samples = self._pending_batch
            self._pending_batch = None
            script.loaders[loader].is_trained_from = True
            self._note(("batch", loader))
            script.clock.samples += samples
        self._note(("forward", root.index))

    # --- backward

    def backward(self, original: Original, tensors: Any, args: Any, kwargs: Any) -> Any:
        if not self.watches() or self._is_inside:
            return original(tensors, *args, **kwargs)
        self.safely(self._note_backward, tensors)
        began_ns = time.monotonic_ns()
        compiled_ns = compiling.clock.total_ns
        self._is_inside = True
        try:
            if self.check is not None:
                return self.check.backward(original, tensors, args, kwargs)
            return original(tensors, *args, **kwargs)
        finally:
            self._is_inside = False
            self._leave_out_compiling(compiled_ns)
            self.script.clock.backward_ns += time.monotonic_ns() - began_ns

    def _note_backward(self, tensors: Any) -> None:
        found = tensors_in(tensors)
        is_loss = len(found) == 1 and found[0].numel() == 1
        self.script.last_loss = found[0].detach().as_subclass(torch.Tensor) if is_loss else None
        self._note(("backward", 0))

    # --- optimizers

    def before_optimizer(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if not self.watches():
            return
        self._optimizer_began_ns = time.monotonic_ns()
        if (len(args) > 1 and args[1] is not None) or kwargs.get("closure") is not None:
            self.script.detector.note_closure()
        if self.check is not None:
            self.safely(self.check.before_optimizer, optimizer)

    def after_optimizer(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if not self.watches():
            return
        self.script.clock.optimizer_ns += time.monotonic_ns() - self._optimizer_began_ns
        if self.check is not None:
            self.safely(self.check.after_optimizer, optimizer)
        self.safely(self._note_optimizer, optimizer)

    def _note_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        if self._note(("optimizer", self.script.index_of(optimizer))):
            self._end_step()

    def clip(self, original: Original, parameters: Any, args: Any, kwargs: Any) -> Any:
        if self.check is None or not self.watches():
            return original(parameters, *args, **kwargs)
        listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        result = original(listed, *args, **kwargs)
        self.safely(self.check.clipped, original, listed, args, kwargs)
        return result

    def unscale(
        self, original: Original, scaler: Any, optimizer: Any, args: Any, kwargs: Any
    ) -> Any:
        """Called when a GradScaler divides gradients: (inv_scale, found_inf, ...)."""
        result = original(scaler, optimizer, *args, **kwargs)
        if self.check is None or not self.watches():
            return result

        def again(other: Any) -> None:
            # Copies: the values that it finds in other gradients must not reach the script.
            own = [one.clone() if isinstance(one, torch.Tensor) else one for one in args]
            original(scaler, other, *own, **kwargs)

        self.safely(self.check.unscaled, optimizer, again)
        return result

    # --- batches

    def iterator_made(self, iterator: Any, loader: int) -> None:
        self._iterators[iterator] = loader

    def next_batch(self, original: Original, iterator: Any) -> Any:
        """Gets the next batch of PyTorch's own iterator."""
        loader = self._iterators.get(iterator) if self.watches() else None
        if loader is None:
            return original(iterator)
        began_ns = time.monotonic_ns()
        batch = original(iterator)
        self.safely(self._note_batch, loader, batch, time.monotonic_ns() - began_ns)
        return batch

    def on_switchable_batch(self, loader: int, batches: Any, indexed: Any, wait_ns: int) -> None:
        if not self.watches():
            return
        index, batch = indexed
        if self.check is not None:
            self.safely(self.check.on_batch, batches, index, batch)
        self.safely(self._note_batch, loader, batch, wait_ns)

    def _note_batch(self, loader: int, batch: Any, wait_ns: int) -> None:
        self.script.clock.data_wait_ns += wait_ns
        self.script.loaders[loader].look_at(batch)
        self._pending_batch = (loader, samples_in(batch))
        self._look_at_clock()
        self.look_at_patience()

    # --- the rest

    def learn_again(self) -> None:
        """Called when the script trains an object that it has made since."""
        self.script.learn_again()
        self._was_known = False
        self._first_ns = 0
        self._pending_batch = None
        self.observe()

    def look_at_patience(self) -> None:
        """Ends the watching of a script in which no step was found for a long time."""
        detector = self.script.detector
        if detector.is_known or not self.is_watching:
            return
        now_ns = time.monotonic_ns()
        self._first_ns = self._first_ns or now_ns
        if detector.has_given_up:
            self.safely(self.on_given_up, detector.seen())
        elif now_ns - self._first_ns > _MOST_LEARNING_NS:
            minutes = _MOST_LEARNING_NS // (60 * 10**9)
            why = f"no step was found within {minutes} minutes: {detector.seen()}"
            self.safely(self.on_given_up, why)

    def _look_at_clock(self) -> None:
        if self.is_watching and self.script.clock.since_ns() > _MOST_WAIT_NS:
            self.safely(self.on_stalled)

    def disturb(self) -> None:
        if self.watches():
            self.script.detector.disturb()

    def zero_grad(self, original: Original, owner: Any, set_to_none: bool) -> Any:
        if not self.is_here():
            return original(owner, set_to_none)
        if not set_to_none:
            self.script.zero_grad_keeps = True
        began_ns = time.monotonic_ns()
        try:
            return original(owner, set_to_none or self.script.releases_gradients)
        finally:
            self.script.clock.zero_grad_ns += time.monotonic_ns() - began_ns

    def _note(self, token: tuple[str, int]) -> bool:
        detector = self.script.detector
        ends = detector.add(token)
        self.look_at_patience()
        if detector.is_known and not self._was_known:
            self._was_known = True
            self.script.clock.steps += detector.steps_before
            self.on_known()
        elif not ends and detector.is_renewed():
            self.on_renewed()
        elif not ends and detector.is_lost(self.script.clock.since_ns()):
            self.on_lost()
        return ends

    def _end_step(self) -> None:
        clock = self.script.clock
        step = clock.close(self.script.detector.close())
        if self.guard is not None and self.guard.steps > 0:
            self.guard.steps -= 1
        self.on_boundary(step)
        clock.begin()
