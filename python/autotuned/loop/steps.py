# SPDX-License-Identifier: Apache-2.0
"""What one step of a loop is, learned from the events that repeat in it. Knows nothing of
PyTorch.

An event is a token: ("batch", loader), ("forward", root), ("backward", 0) or ("optimizer",
optimizer), each with an index in the order of first appearance. A step ends with the last
optimizer step of the repeating group or, in a script without an optimizer, right before the
forward pass that follows a backward pass.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter

Token = tuple[str, int]

# How many optimizer steps (or backward passes, without an optimizer) are needed to find what
# repeats.
_FEWEST_STEPS = 6
# A step of many events, as gradients are accumulated over many batches, is known earlier.
_MANY_TOKENS = 48
# The same for a script with several optimizers: at least two rounds.
_FEWEST_OF_SEVERAL = 8
# A loop in which nothing repeats is not watched for ever.
_MOST_TOKENS = 4096
# A step that was learned and does not end: after so many times its own length, or after twice its
# length in so much time, the script trains another way.
_MOST_LENGTHS = 64
_LEAST_LENGTH = 8
_LONG_NS = 120 * 10**9
# An optimizer that evaluates the model by itself makes a step so many times longer.
_CLOSURE_LENGTHS = 32


@dataclasses.dataclass
class Step:
    """One step that is over. Times are nanoseconds."""

    duration_ns: int
    is_clean: bool
    samples: int = 0
    data_wait_ns: int = 0
    forward_ns: int = 0
    backward_ns: int = 0
    optimizer_ns: int = 0
    zero_grad_ns: int = 0


def name_of(token: Token) -> str:
    return token[0] if token[0] == "backward" else f"{token[0]} {token[1]}"


def last_of_cycle(optimizers: list[int]) -> tuple[int, int] | None:
    """The optimizer that ends the shortest repeating group, and how often it steps in a row
    there.
    """
    # The beginning may be a warm-up of the script's own.
    tail = optimizers[len(optimizers) // 3 :]
    for period in range(1, len(tail) // 2 + 1):
        if all(tail[i] == tail[i + period] for i in range(len(tail) - period)):
            cycle = tail[:period]
            start = cycle.index(optimizers[0]) if optimizers[0] in cycle else 0
            # A group of several in a row begins with the first of them.
            while period > 1 and cycle[start - 1] == cycle[start] and len(set(cycle)) > 1:
                start = (start - 1) % period
            cycle = cycle[start:] + cycle[:start]
            in_a_row = 1
            while in_a_row < period and cycle[-1 - in_a_row] == cycle[-1]:
                in_a_row += 1
            return cycle[-1], in_a_row
    return None


class StepDetector:
    """Learns what a step is, then tells where each step ends and whether it was a usual one."""

    def __init__(self) -> None:
        self.is_known = False
        self.pattern: tuple[Token, ...] = ()
        self.boundary: Token | None = None
        self.has_given_up = False
        self.steps_before = 0  # those that it was learned from
        self._in_a_row = 1
        self._run = 0
        self._tokens: list[Token] = []
        # Since the last boundary, once the step is known.
        self._events = 0
        self._strange: Counter[Token] = Counter()  # steps of optimizers that no usual step has
        self._saw_closure = False
        self._after_backward = False
        self._is_disturbed = False

    def note_closure(self) -> None:
        """An optimizer that evaluates the model by itself does so a varying number of times.

        Order and number do not count.
        """
        self._saw_closure = True

    def disturb(self) -> None:
        """Notes an event that is no part of a usual step."""
        self._is_disturbed = True

    def ends_before_forward(self) -> bool:
        """Whether the beginning forward pass ends the step, in a script without an optimizer."""
        return self.boundary == ("forward", 0) and self._after_backward

    def add(self, token: Token) -> bool:
        """Adds a token. Returns whether the step is over after it.

        While nothing is known yet, that is never so.
        """
        if token[0] == "backward":
            self._after_backward = True
        if self.has_given_up:
            return False
        if len(self._tokens) <= _MOST_TOKENS:
            self._tokens.append(token)
        if not self.is_known:
            if token[0] in ("optimizer", "backward"):
                self._learn()
            if not self.is_known and len(self._tokens) > _MOST_TOKENS:
                self.has_given_up = True
                self._tokens = []
            # The step in which it was learned is over, but it was no usual one for the clock.
            return False
        self._events += 1
        if token[0] == "optimizer":
            self._run = self._run + 1 if token == self.boundary else 0
            if token not in self.pattern:
                self._strange[token] += 1
        return token == self.boundary and self._run == self._in_a_row

    def close(self) -> bool:
        """Ends the step. Returns whether it was a usual one."""
        is_clean = not self._is_disturbed and self._signature(self._tokens) == self.pattern
        self._tokens = []
        self._events = 0
        self._strange.clear()
        self._run = 0
        self._after_backward = False
        self._is_disturbed = False
        return is_clean

    def is_renewed(self) -> bool:
        """Whether another optimizer steps in place of the one that was learned.

        One that steps now and then beside it does not.
        """
        return max(self._strange.values(), default=0) > 1

    def is_lost(self, since_ns: int) -> bool:
        """Whether the script trains, but not as it was learned.

        The step under way began `since_ns` ago.
        """
        length = max(len(self.pattern), _LEAST_LENGTH)
        if self._saw_closure:
            length *= _CLOSURE_LENGTHS
        return self.is_known and (
            self._events > _MOST_LENGTHS * length
            or (self._events > 2 * length and since_ns > _LONG_NS)
        )

    def seen(self) -> str:
        """What was seen so far, for a script whose step is not known."""
        if not self._tokens and not self.has_given_up:
            return "no forward pass of a module in training mode and no optimizer step was seen"
        if self.has_given_up:
            return f"nothing repeated within {_MOST_TOKENS} events"
        count = Counter(name_of(token) for token in self._tokens)
        return "only " + ", ".join(f"{number} x {name}" for name, number in count.items())

    def _signature(self, tokens: list[Token]) -> tuple[Token, ...]:
        return tuple(dict.fromkeys(tokens)) if self._saw_closure else tuple(tokens)

    def _learn(self) -> None:
        optimizers = [index for kind, index in self._tokens if kind == "optimizer"]
        if not optimizers:
            if sum(kind == "backward" for kind, _ in self._tokens) >= _FEWEST_STEPS:
                self._learn_without_optimizer()
            return
        if len(set(optimizers)) == 1:
            enough = len(optimizers) >= _FEWEST_STEPS or (
                len(optimizers) >= 3 and len(self._tokens) >= _MANY_TOKENS
            )
            if not enough:
                return
            self.boundary, self._in_a_row = ("optimizer", optimizers[0]), 1
        else:
            if len(optimizers) < _FEWEST_OF_SEVERAL:
                return
            last = last_of_cycle(optimizers)
            if last is None:
                return
            self.boundary, self._in_a_row = ("optimizer", last[0]), last[1]
        groups: list[tuple[Token, ...]] = []
        group: list[Token] = []
        run = 0
        for token in self._tokens:
            group.append(token)
            if token[0] == "optimizer":
                run = run + 1 if token == self.boundary else 0
            if token == self.boundary and run == self._in_a_row:
                groups.append(self._signature(group))
                group = []
                run = 0
        self._finish_learning(groups, group)

    def _learn_without_optimizer(self) -> None:
        # A backward pass may come from a module that is not called: then nothing says where a
        # step ends.
        if ("forward", 0) not in self._tokens:
            return
        self.boundary = ("forward", 0)
        groups: list[tuple[Token, ...]] = []
        group: list[Token] = []
        after_backward = False
        for token in self._tokens:
            # A batch belongs to the forward pass behind it.
            if after_backward and token[0] in ("forward", "batch"):
                groups.append(self._signature(group))
                group = []
                after_backward = False
            group.append(token)
            after_backward = after_backward or token[0] == "backward"
        self._finish_learning(groups, group)

    def _finish_learning(self, groups: list[tuple[Token, ...]], rest: list[Token]) -> None:
        # The first group may hold what a script does before its loop.
        usual = Counter(groups[1:] or groups).most_common(1)
        if not usual:
            return
        self.pattern = usual[0][0]
        self.is_known = True
        self.steps_before = len(groups)
        self._tokens = list(rest)
        # A step that is under way was not timed from its beginning.
        self._is_disturbed = True


class StepCounter:
    """Counts steps when only one kind of event is watched any more."""

    def __init__(self, pattern: tuple[Token, ...], steps: int) -> None:
        kinds = [kind for kind, _ in pattern]
        self.kind = "optimizer" if "optimizer" in kinds else "backward"
        self._per_step = max(1, kinds.count(self.kind))
        self._before = steps
        self._events = 0

    def add(self) -> None:
        self._events += 1

    @property
    def steps(self) -> int:
        return self._before + self._events // self._per_step


class StepClock:
    """Times of the step under way.

    The time in which the script waits for the session belongs to no step.
    """

    def __init__(self) -> None:
        self._began_ns = time.monotonic_ns()
        self.steps = 0
        self._reset()

    def _reset(self) -> None:
        self.samples = 0
        self.data_wait_ns = 0
        self.forward_ns = 0
        self.backward_ns = 0
        self.optimizer_ns = 0
        self.zero_grad_ns = 0

    def close(self, is_clean: bool) -> Step:
        self.steps += 1
        step = Step(
            time.monotonic_ns() - self._began_ns,
            is_clean,
            self.samples,
            self.data_wait_ns,
            self.forward_ns,
            self.backward_ns,
            self.optimizer_ns,
            self.zero_grad_ns,
        )
        self._reset()
        return step

    def begin(self) -> None:
        self._began_ns = time.monotonic_ns()

    def leave_out(self, time_ns: int) -> None:
        """Leaves out time of the present step in which the script did something else."""
        self._began_ns += time_ns

    def since_ns(self) -> int:
        """How long ago the step under way began."""
        return time.monotonic_ns() - self._began_ns
