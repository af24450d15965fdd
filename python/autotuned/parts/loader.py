# SPDX-License-Identifier: Apache-2.0
"""Iterates over a DataLoader whose workers can be changed between two batches: none is lost,
doubled or out of order.

One iterator of index batches is shared. Each engine (PyTorch's own iterator over a copy of the
loader) draws from it through a gate. A switch closes the gate of the old engine, which then hands
out what it has been promised and ends; behind it the new one begins. The random numbers that the
script's own iterator would draw are drawn, once, and no others.

An engine with other settings than the script's own may fail: its processes may be killed, hang, or
never start, or our threads cannot read a file. Then it ends, and what it was promised is made as
the script makes it.
"""

from __future__ import annotations

import collections
import contextlib
import shutil
import time
from typing import Any, Callable

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import dataloader as torch_dataloader

from .engines import Engine, Gate, LoaderSettings, Shared
from .native import NativeEngine
from .tensors import RandomState, equal_trees


def obstacle_of(loader: DataLoader) -> str:
    """Why the batches of this loader come from PyTorch's own iterator only.

    Empty: they can be switched.
    """
    if isinstance(loader.dataset, IterableDataset):
        return "the data set is an IterableDataset, which keeps its place in its workers"
    if type(loader).__iter__ is not DataLoader.__iter__:
        return f"{type(loader).__name__} iterates by itself"
    if not getattr(loader, "in_order", True):  # not before PyTorch 2.6
        return "the loader hands out batches in any order"
    if type(loader.dataset).__module__.startswith("torch.utils.data.datapipes"):
        return "a DataPipe keeps its place in its workers"
    return ""


def start_method_of(loader: DataLoader) -> str:
    """How worker processes of this loader start."""
    context = loader.multiprocessing_context
    if context is not None:
        return str(context.get_start_method())
    chosen = torch.multiprocessing.get_start_method(allow_none=True)
    # The first is what is taken where nothing is chosen; to ask for it would choose it.
    return str(chosen or torch.multiprocessing.get_all_start_methods()[0])


_SHARED_MEMORY = "/dev/shm"


def lack_of_memory(settings: LoaderSettings, batch_bytes: int) -> str:
    """Why the batches of these workers would not fit into shared memory; empty: they fit."""
    if settings.native_threads > 0:
        return ""  # threads share the memory of the process
    needed = 2 * settings.workers * settings.prefetch_batches * batch_bytes
    try:
        free = shutil.disk_usage(_SHARED_MEMORY).free
    except OSError:
        return ""  # PyTorch has another way then
    if needed <= free:
        return ""
    return f"{_SHARED_MEMORY} has {free >> 20} MiB left, and the batches take {needed >> 20} MiB"


_PROBES = 16


def draws_of(loader: DataLoader) -> list[str]:
    """Which global random generators the making of a batch draws from, by some samples.

    They are spread over the data. All generators are put back. Not for data of the script's own
    (data.has_own_data), which could keep something of it.
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


def _make(loader: DataLoader, index: Any) -> Any:
    fetcher = torch_dataloader._DatasetKind.create_fetcher(
        loader._dataset_kind,
        loader.dataset,
        loader._auto_collation,
        loader.collate_fn,
        loader.drop_last,
    )
    return fetcher.fetch(index)


class SwitchableBatches:
    """The result of `iter(loader)`.

    The batches of one epoch, made as `wanted()` says at that moment. Of settings that are not the
    script's own and that fail, `on_refused` is told; they are not used any more.
    """

    def __init__(
        self,
        loader: DataLoader,
        wanted: Callable[[], LoaderSettings],
        on_batch: Callable[["SwitchableBatches", Any, int], None],
        is_first: bool,
        kept: dict[LoaderSettings, Any],
        start_ns: dict[LoaderSettings, int],
        on_refused: Callable[[LoaderSettings, Exception], None] | None = None,
        keeps: Callable[[LoaderSettings], bool] = lambda settings: False,
    ) -> None:
        """`keeps`: whether an engine that is not in force waits for later epochs all the same."""
        self.loader = loader
        self._wanted = wanted
        self._on_batch = on_batch
        self._on_refused = on_refused
        self._own = LoaderSettings.own(loader)
        self._refused: set[LoaderSettings] = set()
        self._keeps = keeps
        self._kept = kept  # engines with workers that no epoch uses now
        self._mine: dict[LoaderSettings, Any] = {}  # those of this epoch
        self._start_ns = start_ns  # what it took to start processes, by settings
        self.batches_made = 0
        self.made_by = self._own  # the settings under which the last batch was made
        self._shared = Shared(iter(loader._index_sampler))
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
        # Index and batch, or the exception that comes in its place, and who made it.
        self._ready: collections.deque[tuple[Any, Any, Exception | None, LoaderSettings]]
        self._ready = collections.deque()
        self._engines: list[Any] = []
        self._engines = [self._started(self._now())]

    def __iter__(self) -> "SwitchableBatches":
        return self

    def __len__(self) -> int:
        return self._length

    def __getattr__(self, name: str) -> Any:
        # Attributes of PyTorch's iterator that scripts read.
        engines = self.__dict__.get("_engines")
        if not engines:
            raise AttributeError(name)
        return getattr(engines[-1].batches, name)

    def __next__(self) -> Any:
        began_ns = time.monotonic_ns()
        index, batch = self._fetch()
        self.batches_made += 1
        self._on_batch(self, (index, batch), time.monotonic_ns() - began_ns)
        return batch

    def made_here(self, index: Any) -> Any:
        """The batch that the script's own process makes of this index.

        Nothing is drawn from a generator by that.
        """
        state = RandomState(others=True)
        try:
            return _make(self.loader, index)
        finally:
            state.restore()

    def is_as_made_here(self, index: Any, batch: Any) -> bool:
        return equal_trees(self.made_here(index), batch)

    def is_stale(self) -> bool:
        """Whether the last batch was prepared before the settings that are in force now."""
        return self.made_by != self._now()

    def __del__(self) -> None:
        # An epoch that the script leaves early. At the end of the interpreter PyTorch's own
        # clean-up is enough.
        try:
            if self.__dict__.get("_mine"):
                self._leave()
        except Exception:
            pass

    def _now(self) -> LoaderSettings:
        settings = self._wanted()
        return self._own if settings in self._refused else settings

    def _started(self, settings: LoaderSettings) -> Any:
        """An engine for the following batches; if it cannot start, one like the script's own."""
        try:
            return self._engine(settings, None)
        except Exception as error:
            if settings == self._own:
                raise
            self._refuse(settings, error)
        return self._engine(self._own, None)

    def _engine(self, settings: LoaderSettings, promised: list[Any] | None) -> Any:
        """An engine for all following batches, or for these indices."""
        gate = Gate(self._shared if promised is None else iter(promised), self._length)
        began_ns = time.monotonic_ns()
        idle = None
        if promised is None:
            idle = self._mine.pop(settings, None) or self._kept.pop(settings, None)
        try:
            if idle is not None:
                idle.begin_again(gate)
                engine = idle
            else:
                generator = torch.Generator()
                generator.set_state(self._generator.get_state())
                kind: Any = NativeEngine if settings.native_threads > 0 else Engine
                engine = kind(settings, self.loader, gate, generator)
        except Exception:
            if promised is None:
                self._shared.take_back(gate.promised)
            if idle is not None:
                idle.end_after_failure()
            raise
        engine.is_alone = promised is not None
        if settings.outlives_switches and not engine.is_alone:
            self._mine[settings] = engine
            if idle is None:
                self._start_ns[settings] = time.monotonic_ns() - began_ns
        return engine

    def _fetch(self) -> tuple[Any, Any]:
        if not self._ready:
            self._follow_settings()
        while True:
            if self._ready:
                index, batch, error, self.made_by = self._ready.popleft()
                if error is not None:
                    raise error
                return index, batch
            try:
                made = self._engines[0].next()
                self.made_by = self._engines[0].settings
                return made
            except StopIteration:
                if len(self._engines) == 1:
                    self._leave()
                    failure, self._shared.failure = self._shared.failure, None
                    if failure is not None:
                        raise failure from None
                    raise
                self._drop_first()
            except Exception as error:
                if self._engines[0].is_own:
                    raise
                self._replace_first(error)

    def _follow_settings(self) -> None:
        settings = self._now()
        if self._engines and settings == self._engines[-1].settings:
            return
        if self._engines:
            self._engines[-1].gate.is_open = False
            if self._engines[-1].settings.native_threads > 0:
                # No generator of the script's was drawn from for what it has ready. So the next
                # engine makes that, and the steps behind a switch are measured as all others.
                self._shared.take_back(self._engines.pop().give_up())
        if any(engine.settings == settings for engine in self._engines):
            # This engine still has batches that it was promised before: they come first.
            self._drain()
            settings = self._now()  # one of them may have failed
        self._engines.append(self._started(settings))

    def _drain(self) -> None:
        while self._engines:
            engine = self._engines[0]
            before = len(engine.gate.promised)
            try:
                self._ready.append((*engine.next(), None, engine.settings))
            except StopIteration:
                self._drop_first()
            except Exception as error:
                if not engine.is_own:
                    self._replace_first(error, is_last=False)
                    continue
                self._ready.append((None, None, error, engine.settings))
                if len(engine.gate.promised) >= before > 0:  # it fails for good
                    self._drop_first()

    def _drop_first(self) -> None:
        engine = self._engines.pop(0)
        if engine.is_alone:
            engine.end()

    def _replace_first(self, error: Exception, is_last: bool | None = None) -> None:
        """Replaces a failed engine: its promised batches are made as the script makes them."""
        engine = self._engines.pop(0)
        self._refuse(engine.settings, error)
        promised = list(engine.gate.promised)
        if self._mine.get(engine.settings) is engine:
            del self._mine[engine.settings]
        engine.end_after_failure()
        if self._engines if is_last is None else not is_last:
            # The engines behind it have been promised the batches that follow.
            self._engines.insert(0, self._engine(self._own, promised))
        else:
            self._shared.take_back(promised)
            self._engines.append(self._engine(self._own, None))

    def _refuse(self, settings: LoaderSettings, error: Exception) -> None:
        self._refused.add(settings)
        if self._on_refused is not None:
            with contextlib.suppress(Exception):
                self._on_refused(settings, error)

    def _leave(self) -> None:
        """Called after the last batch: workers stay alive only if the settings say so."""
        stays = self._now()
        for settings, engine in self._mine.items():
            is_native = settings.native_threads > 0
            waits = settings == stays and (settings.persistent_workers or is_native)
            if (waits or self._keeps(settings)) and settings not in self._kept:
                self._kept[settings] = engine
            elif engine.is_own:
                engine.end()
            else:
                with contextlib.suppress(Exception):
                    engine.end()
        self._mine = {}
        self._engines = self._engines[-1:]
