# SPDX-License-Identifier: Apache-2.0
"""Batches of the native input pipeline, in a loop of the user's (docs/python.md)."""

from __future__ import annotations

import glob
import os
import threading
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence

from .library import NativeLoader
from .replacement import ReplacedLoader
from .translation import described

_DEFAULT_INDEX_BYTES = 1 << 30


def _data_of(dataset: Any, shuffle: bool) -> dict[str, Any]:
    """The entry `data` of a recipe for this data set."""
    if isinstance(dataset, Mapping):
        if "shuffle" in dataset:
            raise ValueError("shuffle is an argument of Loader, not of its data")
        return {**dataset, "shuffle": bool(shuffle)}
    patterns = [dataset] if isinstance(dataset, (str, os.PathLike)) else list(dataset)
    here = glob.escape(os.getcwd())
    files = [os.path.join(here, os.fspath(pattern)) for pattern in patterns]
    return {"type": "image_files", "files": files, "shuffle": bool(shuffle)}


@dataclass
class _Place:
    """The position of a loop."""

    epoch: int
    batch: int  # given so far
    is_over: bool = False


class _Loop:
    """One loop over the batches of an epoch."""

    def __init__(self, loader: Loader, place: _Place) -> None:
        self._loader = loader  # which has the place, but not the loop: no cycle keeps it
        self._place = place

    def __iter__(self) -> _Loop:
        return self

    def __next__(self) -> tuple[Any, Any]:
        return self._loader._next_of(self._place)


class Loader:
    """Batches of pictures and their targets, made by threads of C++ instead of Python processes.

    `dataset` is a pattern of JPEG and PNG files such as "photos/*/*.jpg", whose folders are the
    classes, a list of patterns, or a mapping as `data` of a recipe. `transforms` is a Compose of
    torchvision, a list of its stages, or a list as `input` of a recipe; pictures are decoded
    before.

    Each loop over it is an epoch of its own and gives (images, targets): tensors over memory that
    nobody else writes to, for as long as they live. `workers` are threads, each with
    `prefetch_factor` batches ready; 0 works in the thread that asks. The samples of an epoch
    depend on `seed`, the number of the epoch, `batch_size`, `drop_last`, `rank` and `world_size`,
    not on workers, and are those of a recipe with the same numbers.

    `cache_bytes` of memory keep pictures as they are before the first random transform, up to
    `index_bytes` an index of JPEG files, by which a crop is decoded without the rest of its
    picture.

    ValueError: settings or data that cannot be used. RuntimeError in a loop: a file that cannot
    be read, which it names; or a process that was forked from the one of the loader.
    """

    def __init__(
        self,
        dataset: str | os.PathLike[str] | Sequence[Any] | Mapping[str, Any],
        transforms: Any = None,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        workers: int = 0,
        prefetch_factor: int = 2,
        drop_last: bool = False,
        seed: int = 1,
        rank: int = 0,
        world_size: int = 1,
        cache_bytes: int = 0,
        index_bytes: int = _DEFAULT_INDEX_BYTES,
    ) -> None:
        self.batch_size = batch_size
        self._native = NativeLoader(
            {
                "data": _data_of(dataset, shuffle),
                "input": described(transforms),
                "batch_size": batch_size,
                "drop_last": bool(drop_last),
                "workers": workers,
                "prefetch_factor": prefetch_factor,
                "seed": seed,
                "rank": rank,
                "ranks": world_size,
                "cache_bytes": cache_bytes,
                "index_bytes": index_bytes,
            }
        )
        description = self._native.description
        self.samples: int = description["samples"]  # of an epoch, of this rank
        self.classes: list[str] = description["classes"]  # their names; empty if they have none
        self._batches: int = description["batches"]
        # On what the sequence of batches depends.
        self._order = {
            "samples": self.samples,
            "batch_size": batch_size,
            "drop_last": bool(drop_last),
            "shuffle": bool(shuffle),
            "seed": seed,
            "rank": rank,
            "world_size": world_size,
        }
        self._process = os.getpid()
        self._lock = threading.Lock()  # the native loader serves one thread at a time
        self._place: _Place | None = None  # of the loop that has the native loader
        self._next = (0, 0)  # epoch and batch at which the next loop begins

    @staticmethod
    def of(loader: Any, *, workers: int = 0, prefetch_factor: int | None = None) -> ReplacedLoader:
        """The batches of a DataLoader, in the order of its sampler.

        `workers` are threads, each with `prefetch_factor` batches ready (that of the DataLoader,
        or 2). Transforms that draw random numbers draw others. ValueError: the data set is no
        ImageFolder, or something else of the DataLoader is not known, which it names.
        """
        ahead = prefetch_factor or loader.prefetch_factor or 2
        return ReplacedLoader(loader, workers, ahead)

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        return self._batches

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        self._check_process()
        with self._lock:
            self._check_open()
            epoch, batch = self._next
            if batch < self._batches:
                self._native.start(epoch, batch * self.batch_size)
            self._place = _Place(epoch, batch)
            self._next = (epoch + 1, 0)
            return _Loop(self, self._place)

    def set_epoch(self, epoch: int) -> None:
        """The next loop is this epoch, from its beginning; loops after it are those that follow.

        If a state was loaded that is within this epoch, the loop begins there.
        """
        if epoch < 0:
            raise ValueError(f"there is no epoch {epoch}: the first is 0")
        if epoch != self._next[0]:
            self._next = (epoch, 0)

    def state_dict(self) -> dict[str, Any]:
        """The position of the training: after the last batch that the loop gave."""
        place = self._place
        epoch, batch = self._next if place is None else (place.epoch, place.batch)
        return {"epoch": epoch, "batch": batch, "order": dict(self._order)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop gives exactly the batches of its epoch that are left."""
        other = [
            f"{name} was {state['order'].get(name)!r} and is {value!r}"
            for name, value in self._order.items()
            if state["order"].get(name) != value
        ]
        if other:
            raise ValueError("the state is of other batches: " + ", ".join(other))
        epoch, batch = int(state["epoch"]), int(state["batch"])
        if epoch < 0 or not 0 <= batch <= self._batches:
            raise ValueError(f"there is no batch {batch} in epoch {epoch}")
        self._place = None
        self._next = (epoch, batch)

    def close(self) -> None:
        """Ends the threads; tensors stay. A loader without an owner is closed by itself."""
        if os.getpid() == self._process:
            with self._lock:
                self._native.close()

    def __reduce__(self) -> Any:
        raise TypeError(
            "an autotuned.Loader cannot be sent to another process: its threads are in this one; "
            "make it there"
        )

    def _next_of(self, place: _Place) -> tuple[Any, Any]:
        self._check_process()
        with self._lock:
            if place.is_over:
                raise StopIteration
            self._check_open()
            if place is not self._place:
                raise RuntimeError(
                    "this loop has ended: another loop over the loader has begun, or a state was "
                    "loaded"
                )
            if place.batch == self._batches:
                place.is_over = True
                self._place = None
                raise StopIteration
            batch = self._native.next()
            place.batch += 1
            return batch

    def _check_open(self) -> None:
        if not self._native.close.alive:
            raise RuntimeError("the loader was closed")

    def _check_process(self) -> None:
        # Before the lock, which another thread may have held while the process was forked.
        if os.getpid() != self._process:
            raise RuntimeError(
                "this process was forked from the one that made the autotuned.Loader, and lacks "
                "its threads; make the loader in the process that uses it"
            )
