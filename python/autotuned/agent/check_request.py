# SPDX-License-Identifier: Apache-2.0
"""Reads the numbers of a request, and begins the check that it asks for."""

from __future__ import annotations

from typing import Any, Callable

from ..checks import cotangent, room, twin
from ..checks.batches import BatchCheck
from ..checks.shadow import Shadow
from ..knobs.knob import Configuration
from ..knobs.knobs import Knobs
from ..loop.script import Script
from ..loop.watch import Watch
from ..protocol import RequestError
from .activities import CheckSteps

Json = dict[str, Any]


def integer(request: Json, name: str, default: int | None = None, minimum: int = 0) -> int:
    value = request.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise RequestError("invalid", f"expected a whole number of at least {minimum}", name, "")
    return value


def limit_of(request: Json) -> int | None:
    return integer(request, "maximum_ns") if request.get("maximum_ns") is not None else None


def begin_check(
    script: Script, watch: Watch, knobs: Knobs, request: Json, configuration: Configuration
) -> CheckSteps:
    """Begins a check of this configuration beside the following steps of the script."""
    steps = integer(request, "steps", None, 1)
    before = dict(knobs.now)
    is_restart = [
        name for name in knobs.changed(configuration) if knobs.knobs[name].switch == "restart"
    ]
    if is_restart:
        raise RequestError(
            "unsupported",
            "a knob that cannot be taken back is not checked beside the script",
            is_restart[0],
            "",
        )
    rest = knobs.part(configuration, "batches")
    method = str(request.get("method", "auto"))
    is_rounded = bool(request.get("rounded"))
    limit_ns = limit_of(request)

    def begin_numeric() -> tuple[Any, Callable[[], Any] | None]:
        knobs.go_back(before)
        check = _numeric_check(script, knobs, method, configuration, steps, is_rounded)
        watch.check = check
        if method != "auto" or check.method != "twin":
            return check, None

        def begin_other() -> Any:
            watch.check = _numeric_check(
                script, knobs, "cotangent", configuration, steps, is_rounded
            )
            return watch.check

        return check, begin_other

    fallback: Callable[[], Any] | None = None
    follow_up: Callable[[], tuple[Any, Callable[[], Any] | None]] | None = None
    if rest == before:
        check, fallback = begin_numeric()
    else:
        if rest != configuration:
            # What cannot be checked is refused now. A numeric check does not see batches.
            _numeric_kind(script, knobs, method, configuration, is_rounded)
            follow_up = begin_numeric
        makes_again = knobs.may_make_again(rest)
        expects_same = knobs.claims_same_batches(rest)
        knobs.apply(rest)
        check = watch.check = BatchCheck(script, steps, makes_again, expects_same)
    return CheckSteps(check, steps, limit_ns, fallback, lambda: knobs.go_back(before), follow_up)


def _numeric_kind(
    script: Script, knobs: Knobs, method: str, configuration: Configuration, is_rounded: bool
) -> Any:
    """The class of a check of the arithmetic; raises what makes it impossible."""
    obstacles = {"twin": twin.obstacle_of(script), "cotangent": cotangent.obstacle_of(script)}
    steps_otherwise = bool(knobs.changes_that_reach(configuration, "optimizer"))
    count = 2 if is_rounded else 1
    if method == "auto":
        is_too_large = not steps_otherwise and room.shortage_of(script, "twin", count)
        is_other = (obstacles["twin"] or is_too_large) and not obstacles["cotangent"]
        method = "cotangent" if is_other else "twin"
    if method not in obstacles:
        raise RequestError(
            "invalid", "there is no such method", method, "ask for auto, twin or cotangent"
        )
    if obstacles[method]:
        raise RequestError("unsupported", obstacles[method], method, "")
    if method == "cotangent" and steps_otherwise:
        raise RequestError(
            "unsupported",
            "gradients do not show what an optimizer makes of them",
            method,
            "leave the knobs of the optimizer as they are",
        )
    make = twin.TwinCheck if method == "twin" else cotangent.CotangentCheck
    # A check that does not apply such knobs would compare without their change, and pass.
    unknown = [
        name
        for name in knobs.changed(configuration)
        if knobs.knobs[name].reaches != "batches" and name not in make.applied_knobs
    ]
    if unknown:
        raise RequestError(
            "unsupported",
            "the check does not know this knob",
            unknown[0],
            "leave the knob as it is",
        )
    shortage = room.shortage_of(script, method, count)
    if shortage:
        raise RequestError("out_of_memory", shortage, method, "use smaller batches")
    return make


def _numeric_check(
    script: Script,
    knobs: Knobs,
    method: str,
    configuration: Configuration,
    steps: int,
    is_rounded: bool,
) -> Any:
    """Makes a check of the arithmetic, which begins now."""
    make = _numeric_kind(script, knobs, method, configuration, is_rounded)
    shadows = [Shadow(script, knobs, configuration, is_rounded=False)]
    if is_rounded:
        shadows.append(Shadow(script, knobs, dict(knobs.now), is_rounded=True))
    return make(script, knobs, shadows, steps)
