# SPDX-License-Identifier: Apache-2.0
"""Requests that make steps.

Each is asked behind every step of the script whether it is over, and then has an answer.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import time
from typing import Any, Callable, Protocol

import torch

from ..loop.script import Script
from ..loop.steps import Step
from ..parts import compiling
from ..protocol import RequestError

Json = dict[str, Any]
_FEWEST_CLEAN_STEPS = 2
_PROFILER_LOG = "KINETO_LOG_LEVEL"
_TEARDOWN = "TEARDOWN_CUPTI"
_LEAST_CUDA = (12, 6)  # before, letting go of a GPU ended processes with CUDA graphs
PROFILES_BY_ITSELF = "the script uses PyTorch's profiler by itself"


class Activity(Protocol):
    def on_step(self, step: Step) -> Json | None:
        """The answer, once it is over. Steps that come before the first call are not its own."""

    def abandon(self) -> None:
        """Ends the request without an answer."""


def peak_host_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class _Limit:
    """The time that a request may take, without that in which PyTorch compiles."""

    def __init__(self, maximum_ns: int | None) -> None:
        self._end_ns = None if maximum_ns is None else self._now_ns() + maximum_ns

    @staticmethod
    def _now_ns() -> int:
        return time.monotonic_ns() - compiling.clock.total_ns

    def is_over(self) -> bool:
        return self._end_ns is not None and self._now_ns() >= self._end_ns

    @staticmethod
    def error(clean: int) -> RequestError:
        return RequestError(
            "timeout",
            f"{clean} clean steps in the time allowed",
            "the script's loop",
            "allow more time: the script may be evaluating",
        )


class Block:
    """`run` and `steps`: the clean steps are timed."""

    def __init__(
        self,
        script: Script,
        minimum_ns: int,
        minimum_steps: int,
        warmup_steps: int,
        maximum_ns: int | None,
        reads_losses: bool,
        one_time_ns: Callable[[], int],
    ) -> None:
        self._script = script
        self._minimum_ns = minimum_ns
        self._minimum_steps = minimum_steps
        self._warmup_left = warmup_steps
        self._limit = _Limit(maximum_ns)
        self._reads_losses = reads_losses
        self._one_time_ns = one_time_ns
        self._device = script.device()
        self._is_on_device = self._device.type == "cuda"
        if self._is_on_device:
            torch.cuda.reset_peak_memory_stats(self._device)
        self._start()

    def _start(self) -> None:
        self._script.synchronize()
        self._start_ns = time.monotonic_ns()
        self._cpu_start_ns = time.process_time_ns()
        self._clean: list[Step] = []
        self._seen = 0
        self._losses: list[float | None] = []

    def on_step(self, step: Step) -> Json | None:
        if self._warmup_left > 0:
            self._warmup_left -= step.is_clean
            if self._limit.is_over():
                raise _Limit.error(0)
            self._start()
            return None
        self._seen += 1
        if step.is_clean:
            self._clean.append(step)
            if self._reads_losses:
                self._losses.append(self._loss())
        elif self._is_on_device:
            # Work of the clean steps before may have ended in this one.
            self._clean = []
            self._losses = []
            self._script.synchronize()
        duration_ns = sum(one.duration_ns for one in self._clean)
        is_over = duration_ns >= self._minimum_ns and len(self._clean) >= self._minimum_steps
        if not is_over and self._limit.is_over():
            if len(self._clean) < _FEWEST_CLEAN_STEPS:
                raise _Limit.error(len(self._clean))
            is_over = True
        return self._answer(duration_ns) if is_over else None

    def abandon(self) -> None:
        pass

    def _loss(self) -> float | None:
        loss = self._script.last_loss
        return None if loss is None else float(loss)

    def _answer(self, duration_ns: int) -> Json:
        before_ns = time.monotonic_ns()
        self._script.synchronize()
        end_ns = time.monotonic_ns()
        cpu_ns = time.process_time_ns() - self._cpu_start_ns
        peak = torch.cuda.max_memory_allocated(self._device) if self._is_on_device else 0
        self._script.peak_device_bytes = max(self._script.peak_device_bytes, peak)

        def total(field: str) -> int:
            return sum(getattr(one, field) for one in self._clean)

        return {
            "start_ns": self._start_ns,
            "end_ns": end_ns,
            "duration_ns": duration_ns + (end_ns - before_ns),
            "steps": len(self._clean),
            "steps_seen": self._seen,
            "samples": total("samples"),
            "first_loss": self._losses[0] if self._losses else None,
            "last_loss": self._loss(),
            "losses": self._losses,
            "data_wait_ns": total("data_wait_ns"),
            "forward_ns": total("forward_ns"),
            "backward_ns": total("backward_ns"),
            "optimizer_ns": total("optimizer_ns"),
            "peak_host_memory_bytes": peak_host_bytes(),
            "peak_device_memory_bytes": peak,
            "cpu_ns": cpu_ns,
            "one_time_ns": self._one_time_ns(),
            "one_time_samples": 0,
        }


def _lets_go_of_gpus() -> bool:
    """Whether PyTorch's profiler lets go of a GPU once it has recorded one.

    Else each launch of the script goes through the profiler's library to the end: 10 to 20 % of a
    training (pytorch/pytorch#146604).
    """
    parts = (torch.version.cuda or "").split(".")[:2]
    version = tuple(int(part) for part in parts if part.isdigit())
    return version >= _LEAST_CUDA and os.environ.get(_TEARDOWN, "1") == "1"


class Recording:
    """Clean steps under `torch.profiler`; the basis of `profile` and `trace`.

    It begins behind the next step, not at once. A request is answered inside of what PyTorch
    records by itself, such as `Optimizer.step`. Where a profiler has seen that begin and another
    one is there when it ends, PyTorch writes the time of the end into freed memory of the first.
    """

    _needs_gpu = False  # where the script trains on one

    def __init__(
        self,
        script: Script,
        steps: int,
        warmup_steps: int,
        maximum_ns: int | None,
        shapes: bool = False,
        memory: bool = False,
        stacks: bool = False,
        others: Any = None,
    ) -> None:
        """`others`: the profilers of the script's that run."""
        self.script = script
        self.clean: list[Step] = []
        self.seen = 0
        self._wanted = steps
        self._warmup_left = warmup_steps
        self._limit = _Limit(maximum_ns)
        activities = [torch.profiler.ProfilerActivity.CPU]
        lets_go = _lets_go_of_gpus()
        self._has_gpu = script.device().type == "cuda" and (lets_go or self._needs_gpu)
        if self._has_gpu:
            activities.append(torch.profiler.ProfilerActivity.CUDA)
            if lets_go:
                # To stay: the profiler asks again when it has let go, some time after its end.
                os.environ[_TEARDOWN] = "1"
        self.profiler = torch.profiler.profile(
            activities=activities,
            record_shapes=shapes,
            profile_memory=memory,
            with_stack=stacks,
            acc_events=True,
        )
        self._is_recording = False
        self._others = set() if others is None else others
        self._expect_no_other()
        self.cpu_ns = 0
        self.kernel_cpu_ns = 0  # of that, in the operating system's kernel
        self.page_faults = 0

    def is_its_own(self, profiler: Any) -> bool:
        """Whether the profiler that begins is the one of this recording."""
        return profiler is self.profiler.profiler

    def _expect_no_other(self) -> None:
        """There is room for one profiler; one that warms up takes it, too."""
        if self._others or getattr(torch.autograd.profiler, "_is_profiler_enabled", False):
            raise RequestError("unsupported", PROFILES_BY_ITSELF, "torch.profiler", "")

    def _begin(self) -> None:
        self._expect_no_other()
        self.script.synchronize()
        self._count_cpu(-1)
        # Its log goes to the script's standard error otherwise. It is read when the profiler is
        # first used.
        is_ours = _PROFILER_LOG not in os.environ
        os.environ.setdefault(_PROFILER_LOG, "5")
        self.profiler.start()
        self._others.discard(self.profiler.profiler)  # our own
        if is_ours:
            os.environ.pop(_PROFILER_LOG, None)
        self._is_recording = True

    def on_step(self, step: Step) -> Json | None:
        if not self._is_recording:
            self._warmup_left -= step.is_clean
            if self._limit.is_over() and self._warmup_left > 0:
                raise _Limit.error(0)
            if self._warmup_left <= 0:
                self._begin()
            return None
        self.seen += 1
        if step.is_clean:
            self.clean.append(step)
        if len(self.clean) < self._wanted and not (self._limit.is_over() and self.clean):
            if self._limit.is_over():
                raise _Limit.error(0)
            return None
        self.script.synchronize()
        self.abandon()
        return self.answer()

    def abandon(self) -> None:
        if self._is_recording:
            self._is_recording = False
            self._count_cpu(1)
            self.profiler.stop()

    def _count_cpu(self, sign: int) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        kernel_ns = int(usage.ru_stime * 1e9)
        self.kernel_cpu_ns += sign * kernel_ns
        self.cpu_ns += sign * (kernel_ns + int(usage.ru_utime * 1e9))
        self.page_faults += sign * usage.ru_minflt

    def answer(self) -> Json:
        raise NotImplementedError


class Trace(Recording):
    _needs_gpu = True

    def __init__(self, script: Script, path: str, **options: Any) -> None:
        if not path.endswith((".json", ".json.gz")):
            raise RequestError(
                "invalid", "a trace is a .json or .json.gz file", path, "name it so"
            )
        super().__init__(script, **options)
        self._path = path

    def answer(self) -> Json:
        plain = self._path.removesuffix(".gz")
        try:
            self.profiler.export_chrome_trace(plain)
            if plain != self._path:
                with open(plain, "rb") as source, gzip.open(
                    self._path, "wb", compresslevel=1
                ) as target:
                    shutil.copyfileobj(source, target)
                os.remove(plain)
            size = os.path.getsize(self._path)
        except OSError as error:
            raise RequestError(
                "io", f"cannot be written: {error.strerror}", self._path, "check the folder"
            ) from error
        return {
            "steps": len(self.clean),
            "events": len(self.profiler.events() or []),
            "bytes": size,
            "duration_ns": sum(step.duration_ns for step in self.clean),
            "notes": (
                [f"{self.seen - len(self.clean)} steps that are not clean are in it"]
                if self.seen > len(self.clean)
                else []
            ),
        }


class Profile(Recording):
    _GATHER = ("gather", "SelectedRows")
    _GEMM_CONV = (
        "mm",
        "bmm",
        "addmm",
        "baddbmm",
        "linear",
        "conv",
        "mkldnn",
        "scaled_dot_product",
    )

    def __init__(self, script: Script, path: str, **options: Any) -> None:
        super().__init__(script, **options)
        self._path = path

    def answer(self) -> Json:
        steps = len(self.clean)
        total_ns = max(1, sum(step.duration_ns for step in self.clean))
        samples = sum(step.samples for step in self.clean)
        parts = {
            part: sum(getattr(step, f"{part}_ns") for step in self.clean)
            for part in ("data_wait", "forward", "backward", "optimizer", "zero_grad")
        }
        operators = [
            {
                "name": one.key,
                "calls": one.count,
                "total_ns": int(one.cpu_time_total * 1000),
                "self_ns": int(one.self_cpu_time_total * 1000),
            }
            for one in self.profiler.key_averages()
            if one.key.startswith("aten::")
        ]
        operators.sort(key=lambda one: -one["self_ns"])
        self_ns = sum(one["self_ns"] for one in operators)
        calls = sum(one["calls"] for one in operators)

        def share_of(names: tuple[str, ...]) -> float:
            found = sum(
                one["self_ns"]
                for one in operators
                if one["name"].removeprefix("aten::").lstrip("_").startswith(names)
            )
            return found / max(1, self_ns)

        cpus = len(os.sched_getaffinity(0))
        parameters = self.script.parameters()
        device = self.script.device()
        metrics: dict[str, float] = {
            f"step.{part}_ratio": ns / total_ns for part, ns in parts.items()
        }
        metrics.update(
            {
                "step.other_ratio": max(0.0, 1.0 - sum(parts.values()) / total_ns),
                "step.duration_ns": total_ns / steps,
                "step.samples": samples / steps,
                "samples_per_second": samples * 1e9 / total_ns,
                "parameters.count": sum(one.numel() for one in parameters),
                "parameters.bytes": sum(one.numel() * one.element_size() for one in parameters),
                "memory.peak_host_bytes": peak_host_bytes(),
                "memory.peak_device_bytes": (
                    torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
                ),
                "memory.page_faults_per_step": self.page_faults / max(1, self.seen),
                "operators.count_per_step": calls / max(1, self.seen),
                "operators.mean_ns": self_ns / max(1, calls),
                "operators.gemm_conv_ratio": share_of(self._GEMM_CONV),
                "operators.gather_ratio": self._gather_ns() / max(1, self_ns),
                "operators.fill_ratio": share_of(("fill", "zero")),
            }
        )
        if self._has_gpu:
            copies_us = sum(
                one.device_time_total
                for one in self.profiler.key_averages()
                if one.key.startswith("Memcpy HtoD")
            )
            metrics["step.transfer_ratio"] = min(1.0, copies_us * 1000 / total_ns)
        if self.cpu_ns > 0:
            metrics["cpu.kernel_ratio"] = self.kernel_cpu_ns / self.cpu_ns
        if self.seen == steps:
            metrics["cpu.utilization_ratio"] = self.cpu_ns / total_ns / cpus
        spans = [
            {"name": part, "count": steps, "total_ns": ns, "self_ns": ns}
            for part, ns in parts.items()
        ]
        answer = {"metrics": metrics, "spans": spans, "operators": operators[:200]}
        if self._path:
            try:
                with open(self._path, "w", encoding="utf-8") as file:
                    json.dump(answer, file)
            except OSError as error:
                raise RequestError(
                    "io", f"cannot be written: {error.strerror}", self._path, "check the folder"
                ) from error
        return answer

    def _gather_ns(self) -> int:
        """Gather with its backward, whose work is done by other operators; or what replaces it."""
        return sum(
            int(one.cpu_time_total * 1000)
            for one in self.profiler.key_averages()
            if one.key.removeprefix("aten::").lstrip("_").startswith(self._GATHER)
        )


class CheckSteps:
    """Steps with a check that goes along.

    `fallback` begins another check where the first is not possible. `follow_up` begins a second
    one, with its fallback, after a first one of the batches: the answer has the figures of the
    second, and the batches of the first.
    """

    def __init__(
        self,
        check: Any,
        steps: int,
        maximum_ns: int | None,
        fallback: Callable[[], Any] | None,
        on_end: Callable[[], None],
        follow_up: Callable[[], tuple[Any, Callable[[], Any] | None]] | None = None,
    ) -> None:
        self._follow_up = follow_up
        self._of_batches: Json | None = None
        self._check = check
        self._steps = steps
        self._limit = _Limit(maximum_ns)
        self._fallback = fallback
        self._notes: list[str] = []
        self._on_end = on_end

    def on_step(self, step: Step) -> Json | None:
        if not self._check.is_over():
            if self._limit.is_over():
                raise _Limit.error(0)
            return None
        try:
            comparisons = self._check.result()
        except RequestError as error:
            if self._fallback is None or error.kind != "unsupported":
                raise
            self._notes.append(f"{self._check.method}: {error.what}")
            fallback, self._fallback = self._fallback, None
            self._check = fallback()
            return None
        if self._follow_up is not None:
            (self._of_batches,) = comparisons
            follow_up, self._follow_up = self._follow_up, None
            self._check, self._fallback = follow_up()
            return None
        answer = {"method": self._check.method, "steps": self._steps, **comparisons[0]}
        answer["notes"] = self._notes + answer.get("notes", [])
        if self._of_batches is not None:
            answer["equal"] = answer["equal"] and self._of_batches["equal"]
            answer["notes"] = self._of_batches["notes"] + answer["notes"]
            for inputs in ("reference_inputs", "candidate_inputs"):
                answer[inputs] = self._of_batches[inputs]
        if len(comparisons) > 1:
            answer["rounded"] = comparisons[1]
        return answer

    def abandon(self) -> None:
        self._check.end()
        self._on_end()
