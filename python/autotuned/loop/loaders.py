# SPDX-License-Identifier: Apache-2.0
"""A loader of the script, what is known of it, and the settings that it can have."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

from torch.utils.data import DataLoader

from ..parts.engines import LoaderSettings
from ..parts.loader import lack_of_memory, obstacle_of
from ..parts.tensors import tensors_in


def kind_of(loader: DataLoader) -> tuple[Any, ...]:
    """What tells a loader of training data from one of test data made at the same place."""
    return type(loader), type(loader.dataset), type(loader.sampler), loader.batch_size


class FoundLoader:
    def __init__(self, loader: DataLoader, index: int, made_at: str) -> None:
        self.index = index
        self.made_at = made_at
        self.is_trained_from = False
        self.start_ns: dict[LoaderSettings, int] = {}  # what it took to start processes
        self.refused: dict[LoaderSettings, str] = {}  # settings that failed, and how
        self.batch_bytes = 0  # of the largest batch so far
        self.is_on_device = False  # batches come as tensors of a GPU
        self.take(loader)

    def take(self, loader: DataLoader) -> None:
        # Workers that wait for its next epoch go with it.
        self._loader = weakref.ref(loader, lambda _: self.kept_engines.clear())
        self.kind = kind_of(loader)
        self.obstacle = obstacle_of(loader)
        self.is_iterated = False
        self.kept_engines: dict[LoaderSettings, Any] = {}

    def look_at(self, batch: Any) -> None:
        tensors = tensors_in(batch)
        size = sum(one.numel() * one.element_size() for one in tensors)
        self.batch_bytes = max(self.batch_bytes, size)
        self.is_on_device = self.is_on_device or any(one.device.type != "cpu" for one in tensors)

    def settings(self, changes: dict[str, Any]) -> LoaderSettings:
        """Its own with these changes; its own alone where these have failed."""
        own = self.own()
        if not changes:
            return own
        wanted = dataclasses.replace(own, **changes).without_idle(own)
        return own if wanted in self.refused else wanted

    def own(self) -> LoaderSettings:
        loader = self.loader
        if loader is None:
            return LoaderSettings(0, 2, False, False)
        return LoaderSettings.own(loader)

    def lack_of(self, settings: LoaderSettings) -> str:
        """Why it cannot have these; empty: it can, as far as is known."""
        own = self.own()
        wanted = settings.without_idle(own)
        if self.loader is None or wanted == own:
            return ""
        return self.refused.get(wanted, "") or lack_of_memory(wanted, self.batch_bytes)

    def keeps(self, settings: LoaderSettings) -> bool:
        """Of native threads those of the two configurations that a trial compares."""
        waiting = sum(one.native_threads > 0 for one in self.kept_engines)
        return settings.native_threads > 0 and waiting < 2 and settings not in self.refused

    def end_native(self, stays: LoaderSettings) -> None:
        """All engines of native threads that wait, but for those of these settings."""
        for settings in [one for one in self.kept_engines if one.native_threads and one != stays]:
            self.kept_engines.pop(settings).end()

    @property
    def loader(self) -> DataLoader | None:
        return self._loader()
