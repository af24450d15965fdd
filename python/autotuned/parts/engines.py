# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own iterators over a copy of a loader, each with settings of its own.

They draw from one iterator of index batches, and know what they have been promised.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
import time
import warnings
from typing import Any, Callable, Iterable, Iterator

import torch
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as torch_dataloader


@dataclasses.dataclass(frozen=True)
class LoaderSettings:
    workers: int
    prefetch_batches: int  # per worker
    pin_memory: bool
    persistent_workers: bool
    native_threads: int = 0  # which make the batches; 0: the DataLoader does

    def without_idle(self, own: "LoaderSettings") -> "LoaderSettings":
        """Where native threads make the batches, settings of processes say nothing."""
        if self.native_threads == 0:
            return self
        return dataclasses.replace(
            self, workers=own.workers, persistent_workers=own.persistent_workers
        )

    @property
    def outlives_switches(self) -> bool:
        """Whether to begin costs time: an engine of these waits for its next turn."""
        return self.workers > 0 or self.native_threads > 0

    @staticmethod
    def own(loader: DataLoader) -> "LoaderSettings":
        return LoaderSettings(
            loader.num_workers,
            loader.prefetch_factor or 2,
            bool(loader.pin_memory),
            bool(loader.persistent_workers),
        )


class Shared:
    """The index batches of an epoch.

    A failure of the script's sampler comes behind the batches that it has given before.
    """

    def __init__(self, indices: Iterator[Any]) -> None:
        self._indices = indices
        self._returned: collections.deque[Any] = collections.deque()
        self.failure: Exception | None = None

    def __next__(self) -> Any:
        if self._returned:
            return self._returned.popleft()
        if self.failure is not None:
            raise StopIteration
        try:
            return next(self._indices)
        except StopIteration:
            raise
        except Exception as error:
            self.failure = error
            raise StopIteration from None

    def take_back(self, indices: Iterable[Any]) -> None:
        """Takes back index batches, which are then given again next."""
        self._returned.extendleft(reversed(list(indices)))


class Gate:
    """The index batches, for one engine, until it is closed."""

    def __init__(self, source: Any, length: int) -> None:
        self._source = source
        self._length = length
        self.promised: collections.deque[Any] = collections.deque()  # and not handed out yet
        self.is_open = True

    def __iter__(self) -> "Gate":
        return self

    def __len__(self) -> int:
        return self._length

    def __next__(self) -> Any:
        if not self.is_open:
            raise StopIteration
        index = next(self._source)
        self.promised.append(index)
        return index


# Without a batch for so long, the workers of an engine hang.
_MOST_WAIT_S = 120.0
_LOOK_S = 1.0  # between two looks whether they live
_MOST_END_S = 30.0


class _OtherBatches(torch_dataloader._MultiProcessingDataLoaderIter):
    """PyTorch's iterator with workers that the script did not ask for.

    One that dies or hangs is an exception in the call for the next batch, and nowhere else.
    """

    def __init__(self, loader: DataLoader) -> None:
        # The destructor of a half-made loader reads it where a process cannot be started.
        self._shutdown = True
        self._worker_pids_set = False
        self._workers: list[Any] = []
        self._workers_status = [True] * loader.num_workers
        super().__init__(loader)
        # Otherwise the handler of SIGCHLD raises, wherever the script is.
        torch_dataloader._utils.signal_handling._remove_worker_pids(id(self))
        self._worker_pids_set = False

    def _get_data(self) -> Any:
        limit_s = self._timeout or _MOST_WAIT_S
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if self._pin_memory and not self._pin_memory_thread.is_alive():
                raise RuntimeError("the thread that pins memory has ended")
            is_there, data = self._try_get_data(_LOOK_S)
            if is_there:
                return data
        raise RuntimeError(f"no batch came within {limit_s:.0f} s")

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            super().__del__()


class Engine:
    def __init__(
        self,
        settings: LoaderSettings,
        loader: DataLoader,
        gate: Gate,
        generator: torch.Generator,
    ) -> None:
        self.settings = settings
        self.gate = gate
        self.is_own = settings == LoaderSettings.own(loader)
        self.is_alone = False  # for what another one was promised, and for nothing else
        self._copy = object.__new__(DataLoader)
        fields = self._copy.__dict__
        fields.update(loader.__dict__)
        fields["num_workers"] = settings.workers
        fields["prefetch_factor"] = settings.prefetch_batches if settings.workers else None
        fields["pin_memory"] = settings.pin_memory
        # Workers outlive a switch; who made them ends them.
        fields["persistent_workers"] = settings.workers > 0
        if not settings.workers:
            fields["timeout"] = 0
        fields["batch_sampler" if loader._auto_collation else "sampler"] = gate
        fields["generator"] = generator
        kind: Any = torch_dataloader._SingleProcessDataLoaderIter
        if settings.workers:
            kind = (
                torch_dataloader._MultiProcessingDataLoaderIter if self.is_own else _OtherBatches
            )
        with contextlib.nullcontext() if self.is_own else warnings.catch_warnings():
            if not self.is_own:
                warnings.simplefilter("ignore")
            self.batches = kind(self._copy)

    def begin_again(self, gate: Gate) -> None:
        self.gate = gate
        self.batches._index_sampler = gate
        self.batches._reset(self._copy)

    def next(self) -> tuple[Any, Any]:
        """The index of the next batch, and the batch."""
        before = self._tasks_over()
        try:
            batch = next(self.batches)
        except StopIteration:
            raise
        except Exception:
            # A batch that the script cannot make is over: the one behind it is next.
            is_over = not self.settings.workers or self._tasks_over() > before
            if self.is_own and is_over and self.gate.promised:
                self.gate.promised.popleft()
            raise
        return self.gate.promised.popleft(), batch

    def _tasks_over(self) -> int:
        return int(getattr(self.batches, "_rcvd_idx", 0))

    def end(self) -> None:
        if self.settings.workers:
            self.batches._persistent_workers = False
            self.batches._shutdown_workers()

    def end_after_failure(self) -> None:
        """Ends the engine after a failure. Its workers may hang."""
        end_in_time(self.end)


def end_in_time(end: Callable[[], None]) -> None:
    """Ends something as far as it comes: the script does not wait for ever."""

    def try_to_end() -> None:
        with contextlib.suppress(Exception):
            end()

    thread = threading.Thread(target=try_to_end, daemon=True)
    thread.start()
    thread.join(_MOST_END_S)
