# SPDX-License-Identifier: Apache-2.0
"""A loader of the script, and what is known of it."""

from __future__ import annotations

import weakref
from typing import Any

from torch.utils.data import DataLoader

from ..parts.engines import LoaderSettings
from ..parts.loader import obstacle_of
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

    @property
    def loader(self) -> DataLoader | None:
        return self._loader()
