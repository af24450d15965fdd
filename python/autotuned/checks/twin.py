# SPDX-License-Identifier: Apache-2.0
"""The check "twin": real steps of the script, with shadows that go along under other
configurations.

Each tensor that leaves an outermost module carries the shadows' tensors with it. Every function
of PyTorch that the script calls on it is done once more on each of them. So the script's own loss
is computed for all, and its own optimizer steps for all.
"""

from __future__ import annotations

import copy
from typing import Any, Callable

import torch

from ..knobs.knobs import FLAG_KNOBS, SET_TO_NONE, Knobs
from ..loop.script import Root, Script
from ..loop.watch import Check, Original
from ..parts.draws import Unshadowable
from ..parts.flags import place_step_counters
from ..parts.tensors import RandomState, map_tensors
from ..protocol import RequestError
from .compare import Json, Side, compare, copies
from .shadow import APPLIED_KNOBS, Shadow, reaches_any

# The check that goes on; tensors that the script keeps outlive it.
_active: "TwinCheck | None" = None

# A parameter right before a normalisation has a gradient of zero but for rounding; Adam, which
# divides by the gradient's own size, makes whole updates of that. Such a gradient is under this
# share of the largest one, and the candidate's, by coarser rounding, under the other (the one
# that tuner/checks.hpp allows for updates).
_ROUNDING_SHARE, _CANDIDATE_SHARE = 1e-5, 1e-2

_HOOKS = (torch.Tensor.register_hook, torch.Tensor.register_post_accumulate_grad_hook)
_COPIES = (torch.Tensor.__reduce_ex__, torch.Tensor.__deepcopy__)


class Twin(torch.Tensor):
    """What the script sees is the reference's tensor, with its own graph.

    `_shadows` are the others'.
    """

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        check = _active
        with torch._C.DisableTorchFunctionSubclass():
            if func in _COPIES:
                return func(*_plain(args), **_plain(kwargs))
            # backward() comes to the check by its own way.
            if check is None or func is torch.Tensor.backward:
                return func(*args, **kwargs)
            return check.call(func, args, kwargs)


def _plain(tree: Any) -> Any:
    def one(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_subclass(torch.Tensor) if isinstance(tensor, Twin) else tensor

    return map_tensors(one, tree)


def _part(tree: Any, number: int) -> Any:
    """The tree with the tensors of one of the shadows."""

    def one(tensor: torch.Tensor) -> torch.Tensor:
        shadows = tensor.__dict__.get("_shadows") if isinstance(tensor, Twin) else None
        return tensor if shadows is None else shadows[number]

    return map_tensors(one, tree)


def _joined(reference: Any, shadows: list[Any]) -> Any:
    def one(tensor: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        twin = tensor if isinstance(tensor, Twin) else tensor.as_subclass(Twin)
        twin._shadows = others
        return twin

    return map_tensors(one, reference, *shadows)


def obstacle_of(script: Script) -> str:
    """Why this script cannot be followed; empty: it can."""
    if not script.optimizers:
        return "the script updates its parameters without an optimizer"
    if not script.roots:
        return "the script calls no module in training mode"
    for optimizer in script.optimizers:
        kind = type(optimizer)
        if kind is torch.optim.LBFGS:
            return "LBFGS evaluates the model by itself"
        if not kind.__module__.startswith("torch.optim"):
            return f"{kind.__name__} is not one of PyTorch's optimizers"
        if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
            return "the script hooks its optimizer"
    return ""


class TwinCheck(Check):
    """Begins at a boundary. After each step the caller asks is_over(); result() ends it."""

    method = "twin"
    applied_knobs = APPLIED_KNOBS | {*FLAG_KNOBS, SET_TO_NONE}

    def __init__(self, script: Script, knobs: Knobs, shadows: list[Shadow], steps: int) -> None:
        super().__init__(script)
        self._knobs = knobs
        self._shadows = shadows
        self._steps_left = steps
        self._parameters = script.parameters()
        self._real = {
            id(parameter) for root in script.roots for parameter in root.module.parameters()
        }
        self._real |= {id(parameter) for parameter in self._parameters}
        names = script.names()
        self._names = [names[id(parameter)] for parameter in self._parameters]
        buffers = script.buffers()
        self._buffer_names = [names[id(buffer)] for buffer in buffers]
        self._start = copies(self._parameters)
        self._buffer_start = copies(buffers)
        self._shadow_starts: list[list[torch.Tensor]] = []
        self._optimizers: list[dict[int, Any]] = []
        for shadow in shadows:
            shadow.take_over()
            self._shadow_starts.append(
                copies([shadow.parameters[id(one)] for one in self._parameters])
            )
            self._optimizers.append(
                {id(optimizer): self._copied(optimizer, shadow) for optimizer in script.optimizers}
            )
        self._losses: list[list[torch.Tensor | None]] = [[] for _ in range(len(shadows) + 1)]
        self._last_losses: list[torch.Tensor | None] = [None] * (len(shadows) + 1)
        # As the last backward pass or clipping left them.
        self._gradients: dict[int, tuple[int, int]] = {}
        self._after_step: dict[int, torch.Tensor] = {}
        # By number, the reference's first: sums of squared norms of gradients that optimizers
        # were given.
        self._gradient_squares: list[list[float]] = [
            [0.0] * len(self._parameters) for _ in range(len(shadows) + 1)
        ]
        self._positions = {
            id(parameter): position for position, parameter in enumerate(self._parameters)
        }
        global _active
        _active = self

    def _copied(self, optimizer: torch.optim.Optimizer, shadow: Shadow) -> Any:
        copied = copy.copy(optimizer)
        copied.__dict__ = dict(optimizer.__dict__)
        copied.__dict__.pop("step", None)  # a scheduler's wrapper counts the script's own steps
        copied.param_groups = []
        forced = self._knobs.forced_flags(shadow.configuration)
        for group, own in zip(optimizer.param_groups, self._script.flags.own(optimizer)):
            fields = copy.deepcopy({key: group[key] for key in group if key != "params"})
            fields["params"] = [shadow.parameters[id(one)] for one in group["params"]]
            if "foreach" in fields:
                fields["fused"], fields["foreach"] = forced or own
            copied.param_groups.append(fields)
        copied.state = type(optimizer.state)(dict)
        for parameter, state in optimizer.state.items():
            copied.state[shadow.parameters[id(parameter)]] = {
                key: (
                    value.detach().clone()
                    if isinstance(value, torch.Tensor)
                    else copy.deepcopy(value)
                )
                for key, value in state.items()
            }
        place_step_counters(copied)  # its flags can be others than the script's
        return copied

    # --- what the watch calls

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Handles a function of PyTorch that the script calls on a twin."""
        before = RandomState()
        out = func(*args, **kwargs)
        if func in _HOOKS:
            self._fail_all(Unshadowable("the script hooks gradients of what a module returned"))
            return out
        after = RandomState()
        outs = []
        for number, shadow in enumerate(self._shadows):
            if shadow.failure is not None:
                return out
            before.restore()
            try:
                with shadow.in_force():
                    outs.append(func(*_part(args, number), **_part(kwargs, number)))
            except Exception as error:
                self._fail_all(error)
                return out
            finally:
                after.restore()
        return self._join(out, outs)

    def _plain(self, trees: Any) -> Any:
        """The script's own value, without the twins that we have put into it."""
        try:
            return _plain(trees)
        except Exception as error:  # a structure that cannot be built again
            self._fail_all(Unshadowable(f"what a module gets cannot be copied: {error}"))
            return trees

    def _join(self, out: Any, outs: list[Any]) -> Any:
        try:
            return _joined(out, outs)
        except Exception as error:  # a structure that cannot be built again
            self._fail_all(Unshadowable(f"what a module returns cannot be copied: {error}"))
            return out

    def forward(self, root: Root, args: Any, kwargs: Any) -> Any:
        before = RandomState()
        own_args, own_kwargs = self._plain((args, kwargs))
        out = self._script.run_forward(root, own_args, own_kwargs)
        if self._has_failed():
            return out
        draws_otherwise = any(
            shadow.draws_otherwise_than(self._script.forward) for shadow in self._shadows
        )
        if draws_otherwise and before.drawn_since():
            self._fail_all(Unshadowable("a compiled module draws other random numbers"))
            return out
        after = RandomState()
        outs = []
        for number, shadow in enumerate(self._shadows):
            before.restore()
            try:
                self._expect_own_parameters()
                outs.append(shadow.run(root, _part(args, number), _part(kwargs, number)))
            except Exception as error:
                self._fail_all(error)
                return out
            finally:
                after.restore()
        return self._join(out, outs)

    def backward(self, original: Original, tensors: Any, args: Any, kwargs: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            try:
                self._mirror_gradients()
            except Exception as error:
                self._fail_all(error)
            before = RandomState()
            own_tensors, own_args, own_kwargs = self._plain((tensors, args, kwargs))
            result = original(own_tensors, *own_args, **own_kwargs)
            if self._has_failed():
                return result
            after = RandomState()
            self._last_losses[0] = self._script.last_loss
            for number, shadow in enumerate(self._shadows):
                before.restore()
                try:
                    self._backward_of(number, shadow, original, tensors, args, kwargs)
                except Exception as error:
                    self._fail_all(error)
                    break
                finally:
                    after.restore()
            self._remember_gradients()
            return result

    def _backward_of(
        self, number: int, shadow: Shadow, original: Original, tensors: Any, args: Any, kwargs: Any
    ) -> None:
        if kwargs.get("inputs") is not None or len(args) > 4:
            raise Unshadowable("backward() is asked for gradients of certain tensors")
        listed = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        if not all(
            isinstance(tensor, Twin) and "_shadows" in tensor.__dict__ for tensor in listed
        ):
            raise Unshadowable("the loss does not come from what a module returned")
        losses = _part(listed, number)
        if reaches_any(losses, self._real):
            raise Unshadowable("the loss uses parameters otherwise than by calling a module")
        rest = {key: value for key, value in kwargs.items() if key != "inputs"}
        with shadow.in_force():
            original(
                losses, *_part(args, number)[:3], **_part(rest, number), inputs=shadow.leaves()
            )
        self._last_losses[number + 1] = (
            losses[0].detach() if len(losses) == 1 and losses[0].numel() == 1 else None
        )

    def clipped(
        self, original: Original, parameters: list[torch.Tensor], args: Any, kwargs: Any
    ) -> None:
        if self._has_failed():
            return
        for shadow in self._shadows:
            if any(id(parameter) not in shadow.parameters for parameter in parameters):
                self._fail_all(Unshadowable("gradients of other tensors are clipped"))
                return
            original(
                [shadow.parameters[id(parameter)] for parameter in parameters], *args, **kwargs
            )
        self._remember_gradients()

    def unscaled(
        self, optimizer: torch.optim.Optimizer, unscale: Callable[[torch.optim.Optimizer], None]
    ) -> None:
        if self._has_failed():
            return
        try:
            for copied_by_id in self._optimizers:
                if id(optimizer) in copied_by_id:
                    unscale(copied_by_id[id(optimizer)])
        except Exception as error:
            self._fail_all(error)
        self._remember_gradients()

    def before_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        if self._has_failed():
            return
        self._sum_gradients(0, optimizer, None)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                seen = self._gradients.get(id(parameter))
                if seen is not None and seen != (id(parameter.grad), parameter.grad._version):
                    self._fail_all(Unshadowable("the script changes gradients by itself"))
                    return

    def after_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        if self._has_failed():
            return
        for number, (shadow, copied_by_id) in enumerate(zip(self._shadows, self._optimizers)):
            copied = copied_by_id.get(id(optimizer))
            try:
                if copied is None:
                    raise Unshadowable("an optimizer is new")
                self._sum_gradients(number + 1, optimizer, shadow)
                self._step_of(copied, optimizer, shadow)
            except Exception as error:
                self._fail_all(error)
                return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._after_step[id(parameter)] = parameter.detach().clone()

    def _sum_gradients(
        self, number: int, optimizer: torch.optim.Optimizer, shadow: Shadow | None
    ) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                gradient = (
                    parameter.grad if shadow is None else shadow.parameters[id(parameter)].grad
                )
                position = self._positions.get(id(parameter))
                if gradient is not None and position is not None:
                    self._gradient_squares[number][position] += float(
                        gradient.detach().double().square().sum()
                    )

    def _step_of(self, copied: Any, optimizer: torch.optim.Optimizer, shadow: Shadow) -> None:
        for fields, group in zip(copied.param_groups, optimizer.param_groups):
            for parameter in group["params"]:
                own = shadow.parameters[id(parameter)].grad
                if (own is None) != (parameter.grad is None) and not (
                    own is None and _is_zero(parameter.grad)
                ):
                    raise Unshadowable("a gradient does not reach the shadow")
            # Schedulers change groups.
            fields.update(
                {
                    key: value
                    for key, value in group.items()
                    if key not in ("params", "fused", "foreach")
                }
            )
        # A GradScaler hands these over for the time of a step.
        for name in ("grad_scale", "found_inf"):
            setattr(copied, name, getattr(optimizer, name, None))
        step = type(copied).step
        with shadow.in_force():
            getattr(step, "__wrapped__", step)(copied)  # without the hooks

    # --- what the session asks

    def is_over(self) -> bool:
        """Whether the check is over. Called after each step."""
        self._steps_left -= 1
        for losses, last in zip(self._losses, self._last_losses):
            losses.append(last)
        return self._steps_left <= 0 or self._has_failed()

    def end(self) -> None:
        global _active
        _active = None

    def result(self) -> list[Json]:
        """A comparison for each of the shadows."""
        self.end()
        if not self._has_failed():
            try:
                self._expect_own_parameters()
            except Unshadowable as error:
                self._fail_all(error)
        if self._has_failed():
            raise_failure(self._shadows)
        losses = [[None if one is None else float(one) for one in some] for some in self._losses]
        reference = Side(self._start, self._parameters)
        buffers = Side(self._buffer_start, self._script.buffers())
        answers = []
        for number, shadow in enumerate(self._shadows):
            candidate = Side(
                self._shadow_starts[number],
                [shadow.parameters[id(one)] for one in self._parameters],
            )
            answer = compare(
                self._names,
                reference,
                candidate,
                self._buffer_names,
                buffers,
                Side(self._buffer_start, shadow.buffers(self._buffer_names)),
            )
            rounding = self._rounding_only(number + 1)
            answer["rounding_only"] = [
                one for one in answer["parameters"] if one["name"] in rounding
            ]
            answer["parameters"] = [
                one for one in answer["parameters"] if one["name"] not in rounding
            ]
            answers.append(
                {**answer, "reference_losses": losses[0], "candidate_losses": losses[number + 1]}
            )
        return answers

    def _rounding_only(self, number: int) -> set[str]:
        """Names of parameters whose gradients are nothing but rounding.

        What an optimizer makes of them says nothing.
        """
        reference, candidate = self._gradient_squares[0], self._gradient_squares[number]
        largest = max(reference, default=0.0)
        return {
            name
            for name, one, other in zip(self._names, reference, candidate)
            if one < _ROUNDING_SHARE**2 * largest and other < _CANDIDATE_SHARE**2 * largest
        }

    # --- parts

    def _has_failed(self) -> bool:
        return any(shadow.failure is not None for shadow in self._shadows)

    def _fail_all(self, error: Exception) -> None:
        for shadow in self._shadows:
            shadow.fail(error)

    def _mirror_gradients(self) -> None:
        """Does to the shadows' gradients what the script did to its own: released or zeroed."""
        for parameter in self._parameters:
            is_released = parameter.grad is None
            is_zero = not is_released and _is_zero(parameter.grad)
            for shadow in self._shadows:
                own = shadow.parameters[id(parameter)]
                if is_released or (is_zero and shadow.configuration[SET_TO_NONE]):
                    own.grad = None
                elif is_zero:
                    own.grad = torch.zeros_like(own)

    def _remember_gradients(self) -> None:
        self._gradients = {
            id(parameter): (id(parameter.grad), parameter.grad._version)
            for parameter in self._parameters
            if parameter.grad is not None
        }

    def _expect_own_parameters(self) -> None:
        for parameter in self._parameters:
            after = self._after_step.pop(id(parameter), None)
            if after is not None and not torch.equal(after, parameter.detach()):
                raise Unshadowable("the script changes parameters by itself")


def _is_zero(gradient: torch.Tensor) -> bool:
    return not bool(gradient.count_nonzero())


def raise_failure(shadows: list[Shadow]) -> None:
    """The first failure as the answer to the request."""
    error = next(shadow.failure for shadow in shadows if shadow.failure is not None)
    kind = "out_of_memory" if isinstance(error, torch.OutOfMemoryError) else "unsupported"
    text = str(error).splitlines()
    raise RequestError(
        kind,
        (
            f"{type(error).__name__}: {text[0] if text else ''}"
            if not isinstance(error, Unshadowable)
            else text[0]
        ),
        "check",
        "",
    )
