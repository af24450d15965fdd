# SPDX-License-Identifier: Apache-2.0
"""Answers the requests of a session at the ends of steps (docs/trainer-protocol.md)."""

from __future__ import annotations

import time
from typing import Any, Callable

import torch

from ..knobs.knobs import Knobs
from ..loop import memory
from ..loop.script import Script, failure_text
from ..loop.steps import Step, StepCounter
from ..loop.watch import Guard, Watch
from ..protocol import Closed, Link, RequestError
from . import description, logs
from .activities import (
    PROFILES_BY_ITSELF,
    Activity,
    Block,
    Profile,
    Recording,
    Trace,
)
from .check_request import begin_check, integer, limit_of

Json = dict[str, Any]

_GUARDED_STEPS = 3


class Session:
    """The script's side of a session.

    `let_go` undoes what the package has put into PyTorch, except what the configuration needs.
    """

    def __init__(
        self,
        link: Link,
        script: Script,
        watch: Watch,
        let_go: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self._link = link
        self._script = script
        self._watch = watch
        self._let_go = let_go
        self._warn = warn
        self._knobs: Knobs | None = None
        # The kind and domains of what the script trained at `load`: the session knows these.
        self._kind: Any = None
        self._domains: Json = {}
        self._prepared: list[dict[str, Any]] = []  # configurations for which there was room
        self._activity: Activity | None = None
        self._request: Json = {}
        # Why the configuration in force failed, and how to leave it.
        self._failure: tuple[RequestError, Callable[[], None]] | None = None
        self._kept: Knobs | None = None  # behind finish()
        self._has_warned = False
        self._is_at_boundary = False
        self.is_over = False
        self.counter: StepCounter | None = None  # behind finish()
        watch.on_boundary = self.on_boundary
        watch.on_lost = self.on_lost
        watch.on_stalled = self.on_stalled
        watch.on_renewed = self.on_renewed
        watch.on_given_up = self.on_given_up
        watch.on_profiler = self.on_profiler
        script.on_forward_failed = self.on_forward_failed
        script.on_loader_failed = self.on_loader_failed
        link.send({"hello": description.of_agent()})

    # --- the ends

    def end(self) -> None:
        """Called when the script is about to exit by itself."""
        if self.is_over and self.counter is None:
            return
        self.is_over = True
        detector = self._script.detector
        counter = self.counter or self._script.clock
        why = "" if detector.is_known else detector.seen()
        if not detector.is_known and self._watch.other_threads:
            why += "; another thread than the main one trains"
        try:
            self._link.send(
                {
                    "end": {
                        "steps": counter.steps,
                        "steps_known": detector.is_known,
                        "why": why,
                    }
                }
            )
        except (Closed, RequestError):
            pass
        self._link.close()

    def detach(self, error: RequestError | None) -> None:
        """Back to the script's own configuration.

        The last frame says why, if somebody still listens.
        """
        if self.is_over:
            return
        self.is_over = True
        if self._activity is not None:
            activity, self._activity = self._activity, None
            self._watch.safely(activity.abandon)
        self._watch.check = None
        self._watch.safely(self._go_back)
        self._watch.safely(self._script.end_trials)
        if self._is_at_boundary:
            self._watch.safely(self._give_back)
        self._knobs = None
        if error is not None:
            try:
                self._link.send({"detached": error.to_json()})
            except (Closed, RequestError):
                pass
        self._link.close()
        self._watch.safely(self._let_go)

    def _go_back(self) -> None:
        """Goes back to the script's own configuration."""
        self._watch.guard = None
        if self._knobs is not None:
            self._knobs.undo()

    # --- in the middle of a step

    def on_lost(self) -> None:
        """Called when steps no longer end: takes the candidate back."""
        self.detach(
            RequestError(
                "unsupported",
                "the script trains in another way than it did: its step does not end any more",
                "",
                "",
            )
        )

    def on_stalled(self) -> None:
        """Called when the script does something else for long: takes the candidate back."""
        if self._activity is not None:
            self._interrupt(
                RequestError("timeout", "no step in the time allowed", "the script's loop", "")
            )

    def on_given_up(self, why: str) -> None:
        """Called when no step can be found."""
        self.detach(RequestError("unsupported", why, "", ""))

    def on_profiler(self, profiler: Any) -> None:
        """Called when a profiler begins: ours ends, so that the script's need not wait."""
        activity = self._activity
        if isinstance(activity, Recording):
            if activity.is_its_own(profiler):
                return
            activity.abandon()
            error = RequestError("unsupported", PROFILES_BY_ITSELF, "torch.profiler", "")
            self._failure = (error, lambda: None)
        if isinstance(profiler, torch.autograd.profiler.profile):
            self._watch.profilers.add(profiler)

    def on_forward_failed(self, failure: Exception) -> None:
        """Called when a forward pass failed and was repeated as the script does it."""
        kind = "out_of_memory" if isinstance(failure, torch.OutOfMemoryError) else "unsupported"
        self._on_failure_in_force(kind, failure, "forward pass", Knobs.undo)

    def on_loader_failed(self, failure: Exception) -> None:
        """Called when the loader failed; it goes on with the script's own settings."""
        self._on_failure_in_force("unsupported", failure, "DataLoader", Knobs.undo_loader)

    def _on_failure_in_force(
        self, kind: str, failure: Exception, where: str, leave: Callable[[Knobs], None]
    ) -> None:
        if self._kept is not None:
            leave(self._kept)
            if not self._has_warned:
                self._has_warned = True
                text = (
                    f"what was kept fails in the {where}: {failure_text(failure)}; "
                    "the script goes on as it is"
                )
                self._warn(text)
                self._tell(text, {})
        knobs = self._knobs
        if self.is_over or knobs is None:
            return
        leave(knobs)
        error = RequestError(kind, failure_text(failure), where, "leave the knobs as they were")
        self._failure = (error, lambda: leave(knobs))

    def on_renewed(self) -> None:
        """The script has made an optimizer, and perhaps a model, anew.

        What is in force belongs to the ones before. The step is learned again; the session may
        ask once more then.
        """
        if self.is_over:
            return
        self._interrupt(
            RequestError(
                "busy",
                "the script has made its optimizer anew",
                "the script's loop",
                "ask again",
            )
        )
        self._knobs = None
        if not self.is_over:
            self._watch.learn_again()

    def _give_back(self) -> None:
        """Frees, at the end, memory that only changes needed which were not kept."""
        memory.release_graphs(self._script)
        knobs, pins = self._knobs, "loader.pin_memory"
        if knobs is not None and not knobs.now[pins] and any(one[pins] for one in self._prepared):
            memory.release_pinned()

    def _tell_kept(self, kept: Any) -> None:
        """Tells the script's loggers what was kept; nothing if nothing was."""
        if isinstance(kept, dict) and kept.get("change"):
            text = f"{kept['change']}: {kept.get('faster', '')}, run {kept.get('run', '')}"
            self._tell(text, {name: kept[name] for name in ("run", "speedup") if name in kept})

    def _tell(self, text: str, facts: Json) -> None:
        steps = (self.counter or self._script.clock).steps
        self._watch.safely(logs.tell, text, facts, steps, self._warn)

    def _interrupt(self, error: RequestError) -> None:
        was_asked = self._activity is not None
        self._failure = None
        self._finish_activity()
        self._go_back()
        if not was_asked:
            return
        try:
            self._refuse(error)
        except Closed:
            self.detach(None)

    # --- at the end of a step

    def on_boundary(self, step: Step) -> None:
        self._is_at_boundary = True
        try:
            if self._activity is not None and not self._continue(step):
                return
            if self._kind is not None and self._knobs is None and not self._take_renewed():
                return
            self._serve()
        except Closed:
            self.detach(None)
        finally:
            self._is_at_boundary = False

    def _take_renewed(self) -> bool:
        """Whether the session can go on with what the script trains now."""
        self._knobs = Knobs(self._script)
        if self._script.kind() == self._kind and self._domains_now() == self._domains:
            return True
        self.detach(
            RequestError(
                "unsupported",
                "the script trains another model now, or with another optimizer or other data",
                "",
                "",
            )
        )
        return False

    def _domains_now(self) -> Json:
        assert self._knobs is not None
        return {
            name: (knob.default, knob.unavailable, knob.minimum, knob.maximum, knob.risk)
            for name, knob in self._knobs.knobs.items()
        }

    def _continue(self, step: Step) -> bool:
        """Whether the request in progress has got its answer."""
        assert self._activity is not None
        guard = self._watch.guard
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                self._watch.guard = None
                raise failure[0]
            if guard is not None and guard.failure is not None:
                self._watch.guard = None
                raise RequestError(
                    (
                        "out_of_memory"
                        if isinstance(guard.failure, torch.OutOfMemoryError)
                        else "unsupported"
                    ),
                    failure_text(guard.failure),
                    "forward pass",
                    "leave the knobs as they were",
                )
            if self._is_cancelled():
                raise RequestError("cancelled", "the session asked to stop", "", "")
            answer = self._activity.on_step(step)
            if answer is None:
                return False
            self._finish_activity()
            self._answer(answer)
        except RequestError as error:
            self._finish_activity()
            if failure is not None:
                failure[1]()  # the end of a check puts back what was before it
            self._refuse(error)
        return True

    def _finish_activity(self) -> None:
        activity, self._activity = self._activity, None
        self._watch.check = None
        if activity is not None:
            activity.abandon()

    def _is_cancelled(self) -> bool:
        frame = self._link.poll()
        if frame is None:
            return False
        if frame.get("request") != "cancel":
            raise Closed("a request came before the answer to the one in progress")
        return True

    def _serve(self) -> None:
        """Answers requests until the session lets the script go on."""
        while not self.is_over and self._activity is None:
            self._request = self._link.receive()
            name = self._request.get("request")
            if name == "cancel":  # nothing is in progress
                continue
            handlers: dict[Any, Callable[[Json], Json | None]] = {
                "load": self._load,
                "prepare": self._prepare,
                "run": self._run,
                "steps": self._steps,
                "place": self._place,
                "profile": self._profile,
                "trace": self._trace,
                "check": self._check,
                "finish": self._finish,
            }
            if name in ("load", "prepare", "check") and (why := self._script.trains_on_several()):
                self.detach(RequestError("unsupported", why, "", ""))
                return
            try:
                if name not in handlers:
                    raise RequestError(
                        "unsupported", "a script does not know this request", str(name), ""
                    )
                if name not in ("load", "finish", "place") and self._knobs is None:
                    raise RequestError(
                        "invalid", "nothing is loaded", str(name), "ask for load first"
                    )
                answer = handlers[name](self._request)
            except RequestError as error:
                self._refuse(error)
                continue
            if answer is not None:
                self._answer(answer)
                if name == "finish":
                    self.is_over = True
                    self._kept, self._knobs = self._knobs, None
                    # The link stays, for the number of steps in the end.
                    script = self._script
                    self.counter = StepCounter(script.detector.pattern, script.clock.steps)
                    self._let_go()
                    self._tell_kept(self._request.get("kept"))

    def _answer(self, answer: Json) -> None:
        self._link.send({"id": self._request.get("id"), "ok": answer})

    def _refuse(self, error: RequestError) -> None:
        self._link.send({"id": self._request.get("id"), "error": error.to_json()})

    # --- requests

    def _load(self, request: Json) -> Json:
        script = self._script
        if self._knobs is None:
            self._knobs = Knobs(script)
        self._kind, self._domains = script.kind(), self._domains_now()
        return description.of_script(script, self._knobs)

    def _configuration(self, request: Json) -> dict[str, Any]:
        wanted = request.get("configuration")
        if not isinstance(wanted, dict):
            raise RequestError("invalid", "expected an object", "configuration", "")
        if self._knobs is None:  # finish before load
            if wanted:
                raise RequestError(
                    "invalid", "nothing is loaded", "configuration", "ask for load first"
                )
            return {}
        return self._knobs.whole(wanted)

    def _prepare(self, request: Json) -> Json:
        assert self._knobs is not None
        configuration = self._configuration(request)
        if configuration != self._knobs.own and configuration not in self._prepared:
            if shortage := memory.shortage_of_changes(self._script):
                raise RequestError("out_of_memory", shortage, "prepare", "")
        before = dict(self._knobs.now)
        began_ns = time.monotonic_ns()
        changed = self._knobs.apply(configuration)
        if configuration not in self._prepared:
            self._prepared.append(configuration)
        if changed:
            knobs = self._knobs
            self._watch.guard = Guard(_GUARDED_STEPS, lambda: knobs.go_back(before))
        return {"changed": changed, "switch_ns": time.monotonic_ns() - began_ns}

    def _run(self, request: Json) -> None:
        self._activity = Block(
            self._script,
            integer(request, "minimum_ns"),
            max(2, integer(request, "minimum_steps", 2)),
            integer(request, "warmup_steps", 0),
            limit_of(request),
            False,
            self._switch_ns,
        )

    def _steps(self, request: Json) -> None:
        self._activity = Block(
            self._script,
            0,
            integer(request, "count", None, 1),
            0,
            limit_of(request),
            True,
            self._switch_ns,
        )

    def _switch_ns(self) -> int:
        """Time in which processes of the loader were started and modules were compiled."""
        script = self._script
        found = script.training_loader()
        started_ns = found.start_ns.get(script.wanted(found), 0) if found is not None else 0
        return started_ns + sum(root.compile_ns(script.forward) for root in script.roots)

    def _place(self, request: Json) -> Json:
        return {"steps": self._script.clock.steps}

    def _profile(self, request: Json) -> None:
        self._activity = Profile(
            self._script,
            str(request.get("path", "")),
            steps=integer(request, "count", None, 1),
            warmup_steps=integer(request, "warmup_steps", 0),
            maximum_ns=limit_of(request),
            others=self._watch.profilers,
        )

    def _trace(self, request: Json) -> None:
        self._activity = Trace(
            self._script,
            str(request.get("path", "")),
            steps=integer(request, "active", 1, 1),
            warmup_steps=integer(request, "warmup", 0),
            maximum_ns=limit_of(request),
            shapes=bool(request.get("shapes")),
            memory=bool(request.get("memory")),
            stacks=bool(request.get("stacks")),
            others=self._watch.profilers,
        )

    def _check(self, request: Json) -> None:
        assert self._knobs is not None
        configuration = self._configuration(request)
        self._activity = begin_check(
            self._script, self._watch, self._knobs, request, configuration
        )

    def _finish(self, request: Json) -> Json:
        configuration = self._configuration(request)
        if self._knobs is not None:
            self._knobs.apply(configuration)
        self._watch.safely(self._script.end_trials)
        self._watch.safely(self._give_back)
        return {"steps": self._script.clock.steps}
