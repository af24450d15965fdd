# SPDX-License-Identifier: Apache-2.0
"""Tells the loggers that the script uses what was kept: TensorBoard, Weights & Biases, MLflow.

None of them is imported here: what a script uses is in sys.modules already. Nothing is opened for
them either: a writer, or a run, is told only while the script has it open.
"""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any, Callable, Iterator

from ..loop.script import failure_text

Warn = Callable[[str], None]
_Call = Callable[[], Any]

_TAG = "autotuned"
# How long the script waits for its loggers. A logger that waits for a server goes on alone.
_PATIENCE_S = 2.0
# SummaryWriter of the first is PyTorch's; scripts without the package tensorboard use the other.
_WRITERS = ("torch.utils.tensorboard.writer", "tensorboardX.writer")


def tell(text: str, facts: dict[str, Any], step: int, warn: Warn) -> None:
    """`text` is for people, `facts` for tables, `step` that of the script's training.

    A logger that fails is one line by `warn`. It raises nothing.
    """
    calls: list[tuple[str, _Call]] = []
    for name, find in (
        ("TensorBoard", _tensorboard),
        ("Weights & Biases", _wandb),
        ("MLflow", _mlflow),
    ):
        try:
            calls += [(name, call) for call in find(text, facts, step)]
        except Exception as error:
            _warn_of(name, error, warn)
    if not calls:
        return

    def tell_all() -> None:
        for name, call in calls:
            try:
                call()
            except Exception as error:
                _warn_of(name, error, warn)

    try:
        thread = threading.Thread(target=tell_all, name="autotuned-logs", daemon=True)
        thread.start()
        thread.join(_PATIENCE_S)
    except RuntimeError as error:  # no thread can be had
        _warn_of("a logger", error, warn)


def _warn_of(name: str, error: Exception, warn: Warn) -> None:
    warn(f"{name} was not told what was kept: {failure_text(error)}")


def _tensorboard(text: str, facts: dict[str, Any], step: int) -> Iterator[_Call]:
    """All writers that are open: nothing else knows which the script has made."""
    known = (getattr(sys.modules.get(name), "SummaryWriter", None) for name in _WRITERS)
    classes = tuple(one for one in known if isinstance(one, type))
    if not classes:
        return
    # By its type: to ask an object of a stranger for its class can run code of the stranger.
    writers = [one for one in gc.get_objects() if issubclass(type(one), classes)]
    for writer in writers:
        # A closed writer would open another file.
        if getattr(writer, "file_writer", None) is not None:
            yield lambda writer=writer: writer.add_text(f"{_TAG}/kept", text, step)


def _wandb(text: str, facts: dict[str, Any], step: int) -> Iterator[_Call]:
    run = getattr(sys.modules.get("wandb"), "run", None)
    if run is not None:
        # Not log(): that would count as a step of the script's.
        yield lambda: run.config.update({_TAG: {"kept": text, **facts}}, allow_val_change=True)


def _mlflow(text: str, facts: dict[str, Any], step: int) -> Iterator[_Call]:
    mlflow = sys.modules.get("mlflow")
    # Both calls are made in this thread, because the active run belongs to a thread.
    active_run = getattr(mlflow, "active_run", None)
    run = active_run() if active_run is not None else None
    if run is None:
        return
    client = mlflow.MlflowClient()  # type: ignore[union-attr]
    run_id = run.info.run_id
    # Tags: a parameter of a run cannot be set again.
    for name, value in {"kept": text, **facts}.items():
        yield lambda name=name, value=value: client.set_tag(run_id, f"{_TAG}.{name}", str(value))
