# SPDX-License-Identifier: Apache-2.0
"""Iterates over a DataLoader whose workers can be changed between two batches: none is lost,
doubled or out of order.

One iterator of index batches is shared. Each engine (PyTorch's own iterator over a copy of the
loader) draws from it through a gate. A switch closes the gate of the old engine, which then hands
out what it has been promised and ends; behind it the new one begins. The random numbers that the
script's own iterator would draw are drawn, once, and no others.
"""

from __future__ import annotations

import collections
import dataclasses
import time
from typing import Any, Callable, Iterator

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import dataloader as torch_dataloader

from .tensors import RandomState, equal_trees


@dataclasses.dataclass(frozen=True)
class LoaderSettings:
    workers: int
    prefetch_batches: int  # per worker
    pin_memory: bool
    persistent_workers: bool

    @staticmethod
    def own(loader: DataLoader) -> "LoaderSettings":
        return LoaderSettings(
            loader.num_workers,
            loader.prefetch_factor or 2,
            bool(loader.pin_memory),
            bool(loader.persistent_workers),
        )


def obstacle_of(loader: DataLoader) -> str:
    """Why the batches of this loader come from PyTorch's own iterator only.

    Empty: they can be switched.
    """
    if isinstance(loader.dataset, IterableDataset):
        return "the data set is an IterableDataset, which keeps its place in its workers"
    if type(loader).__iter__ is not DataLoader.__iter__:
        return f"{type(loader).__name__} iterates by itself"
    if not loader.in_order:
        return "the loader hands out batches in any order"
    if type(loader.dataset).__module__.startswith("torch.utils.data.datapipes"):
        return "a DataPipe keeps its place in its workers"
    return ""


_PROBES = 16


def draws_of(loader: DataLoader) -> list[str]:
    """Which global random generators the making of a batch draws from, by some samples.

    They are spread over the data. All generators are put back.
    """
    before = RandomState(others=True)
    try:
        length = len(loader.dataset)
        for probe in range(min(_PROBES, length)):
            index = probe * length // min(_PROBES, length)
            _make(loader, [index] if loader._auto_collation else index)
        return before.drawn_since()
    except Exception:  # an index that is not a number, say
        return ["an unknown generator"]
    finally:
        before.restore()


def has_own_sampler(loader: DataLoader) -> bool:
    """Whether indices come from a class of the script's, also from one inside of PyTorch's.

    It may draw random numbers when asked, and prefetching asks earlier.
    """
    batches = getattr(loader, "batch_sampler", None)
    samplers = [getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None)]
    return any(
        one is not None and not type(one).__module__.startswith("torch.utils.data")
        for one in samplers
    )


def has_own_data(loader: DataLoader) -> bool:
    """Whether a class or a function of the script's makes the samples or joins them.

    Each worker has a copy of it: what it counts, caches or draws stays there.
    """
    if not getattr(loader.collate_fn, "__module__", "").startswith("torch.utils.data"):
        return True
    return _is_own_data(loader.dataset)


def _is_own_data(dataset: Any) -> bool:
    module = type(dataset).__module__
    if module.startswith("torchvision.datasets"):
        return False
    if not module.startswith("torch.utils.data"):
        return True
    parts = [getattr(dataset, "dataset", None), *getattr(dataset, "datasets", [])]
    return any(_is_own_data(part) for part in parts if part is not None)


def _make(loader: DataLoader, index: Any) -> Any:
    fetcher = torch_dataloader._DatasetKind.create_fetcher(
        loader._dataset_kind,
        loader.dataset,
        loader._auto_collation,
        loader.collate_fn,
        loader.drop_last,
    )
    return fetcher.fetch(index)


class _Gate:
    """The index batches, for one engine, until it is closed."""

    def __init__(self, shared: Iterator[Any], drawn: collections.deque[Any], length: int) -> None:
        self._shared = shared
        self._drawn = drawn
        self._length = length
        self.is_open = True

    def __iter__(self) -> "_Gate":
        return self

    def __len__(self) -> int:
        return self._length

    def __next__(self) -> Any:
        if not self.is_open:
            raise StopIteration
        index = next(self._shared)
        self._drawn.append(index)
        return index


class _Engine:
    def __init__(
        self, settings: LoaderSettings, loader: DataLoader, gate: _Gate, generator: torch.Generator
    ) -> None:
        self.settings = settings
        self.gate = gate
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
        kind = (
            torch_dataloader._MultiProcessingDataLoaderIter
            if settings.workers
            else torch_dataloader._SingleProcessDataLoaderIter
        )
        self.batches = kind(self._copy)

    def begin_again(self, gate: _Gate) -> None:
        self.gate = gate
        self.batches._index_sampler = gate
        self.batches._reset(self._copy)

    def end(self) -> None:
        if self.settings.workers:
            self.batches._persistent_workers = False
            self.batches._shutdown_workers()


class SwitchableBatches:
    """What `iter(loader)` gives.

    The batches of one epoch, made as `wanted()` says at that moment.
    """

    def __init__(
        self,
        loader: DataLoader,
        wanted: Callable[[], LoaderSettings],
        on_batch: Callable[["SwitchableBatches", Any, int], None],
        is_first: bool,
        kept: dict[LoaderSettings, _Engine],
        start_ns: dict[LoaderSettings, int],
    ) -> None:
        self.loader = loader
        self._wanted = wanted
        self._on_batch = on_batch
        self._kept = kept  # engines with workers that no epoch uses now
        self._mine: dict[LoaderSettings, _Engine] = {}  # those of this epoch
        self.indices: collections.deque[Any] = (
            collections.deque()
        )  # of batches that are not handed out yet
        self._start_ns = start_ns  # what it took to start processes, by settings
        self.batches_made = 0
        self._shared = iter(loader._index_sampler)
        try:
            self._length = len(loader._index_sampler)
        except TypeError:
            self._length = 0
        # The script's own iterator draws a seed for its workers, except one that is kept from the
        # epoch before.
        source = loader.generator if loader.generator is not None else torch.default_generator
        self._generator = torch.Generator()
        self._generator.set_state(source.get_state())
        if is_first or not (loader.persistent_workers and loader.num_workers > 0):
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        self._ready: collections.deque[Any] = collections.deque()
        self._engines: list[_Engine] = [self._engine(wanted())]

    def __iter__(self) -> "SwitchableBatches":
        return self

    def __len__(self) -> int:
        return self._length

    def __getattr__(self, name: str) -> Any:
        # What scripts read of PyTorch's iterator.
        engines = self.__dict__.get("_engines")
        if not engines:
            raise AttributeError(name)
        return getattr(engines[-1].batches, name)

    def __next__(self) -> Any:
        began_ns = time.monotonic_ns()
        batch = self._ready.popleft() if self._ready else self._fetch()
        self.batches_made += 1
        index = self.indices.popleft()
        self._on_batch(self, (index, batch), time.monotonic_ns() - began_ns)
        return batch

    def is_as_made_here(self, index: Any, batch: Any) -> bool:
        """Whether the script's own process makes the same batch of this index.

        Nothing is drawn from a generator by that.
        """
        state = RandomState(others=True)
        try:
            return equal_trees(_make(self.loader, index), batch)
        finally:
            state.restore()

    def __del__(self) -> None:
        # An epoch that the script leaves early. At the end of the interpreter PyTorch's own
        # clean-up is enough.
        try:
            if self.__dict__.get("_mine"):
                self._leave()
        except Exception:
            pass

    def _engine(self, settings: LoaderSettings) -> _Engine:
        gate = _Gate(self._shared, self.indices, self._length)
        began_ns = time.monotonic_ns()
        idle = self._mine.get(settings) or self._kept.pop(settings, None)
        if idle is not None:
            self._mine[settings] = idle
            idle.begin_again(gate)
            return idle
        generator = torch.Generator()
        generator.set_state(self._generator.get_state())
        engine = _Engine(settings, self.loader, gate, generator)
        if settings.workers:
            self._mine[settings] = engine
            self._start_ns[settings] = time.monotonic_ns() - began_ns
        return engine

    def _fetch(self) -> Any:
        settings = self._wanted()
        if settings != self._engines[-1].settings:
            self._engines[-1].gate.is_open = False
            if any(engine.settings == settings for engine in self._engines):
                # It still hands out what it was promised before: that comes first.
                for engine in self._engines:
                    self._ready.extend(engine.batches)
                self._engines = []
            self._engines.append(self._engine(settings))
        if self._ready:
            return self._ready.popleft()
        while True:
            try:
                return next(self._engines[0].batches)
            except StopIteration:
                if len(self._engines) == 1:
                    self._leave()
                    raise
                self._engines.pop(0)

    def _leave(self) -> None:
        """Behind the last batch: workers live on only where the settings say so."""
        stays = self._wanted()
        for settings, engine in self._mine.items():
            if settings == stays and settings.persistent_workers and settings not in self._kept:
                self._kept[settings] = engine
            else:
                engine.end()
        self._mine = {}
        self._engines = self._engines[-1:]
