# SPDX-License-Identifier: Apache-2.0
"""A DataLoader whose batches the native loader makes: `autotuned.Loader.of()`."""

from __future__ import annotations

import os
from typing import Any, Iterator

from .plan import GivenBatches, NoPlan, plan_of


class ReplacedLoader:
    """In the place of a DataLoader. Its sampler still says which samples come, and in which order.

    What it has no attribute for is asked of the DataLoader: `dataset`, `sampler`, `batch_size`.
    """

    def __init__(self, loader: Any, workers: int, prefetch_factor: int) -> None:
        try:
            self._plan = plan_of(loader)
        except NoPlan as error:
            raise ValueError(
                f"autotuned.Loader cannot make the batches of this DataLoader: {error}; "
                "leave the DataLoader as it is"
            ) from None
        self._loader = loader
        self._workers = workers
        self._prefetch_factor = prefetch_factor
        self._batches: GivenBatches | None = None
        self._process = os.getpid()
        self._loops = 0
        self._seed = 0

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_loader" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__dict__["_loader"], name)

    def __iter__(self) -> Iterator[list[Any]]:
        import torch

        if os.getpid() != self._process:
            raise RuntimeError(
                "this process was forked from the one that made the loader, and lacks its "
                "threads; make the loader in the process that uses it"
            )
        indices = iter(self._loader._index_sampler)
        # As the iterator of the DataLoader does, which draws once where its workers stay: what is
        # drawn behind it stays the same.
        stays = self._loader.persistent_workers and self._loader.num_workers > 0
        if self._loops == 0 or not stays:
            drawn = torch.empty((), dtype=torch.int64).random_(generator=self._loader.generator)
            self._seed = int(drawn)
        if self._batches is None or not self._plan.is_of(self._loader):
            try:
                self._plan = plan_of(self._loader)
            except NoPlan as error:
                raise ValueError(f"the DataLoader is not as it was: {error}") from None
            seed = (self._seed + self._loops) % (1 << 53)
            self._batches = self._plan.open(self._workers, self._prefetch_factor, seed)
        self._loops += 1
        return self._loop(self._batches, indices, self._loops)

    def _loop(
        self, batches: GivenBatches, indices: Iterator[Any], number: int
    ) -> Iterator[list[Any]]:
        batches.begin()
        waiting = 0
        while True:
            if number != self._loops:
                raise RuntimeError("this loop has ended: another loop over the loader has begun")
            while waiting <= batches.ahead:
                index = next(indices, None)
                if index is None:
                    break
                batches.give(index)
                waiting += 1
            if waiting == 0:
                return
            batch = batches.next()
            waiting -= 1
            if self._loader.pin_memory:
                batch = pinned(batch)
            yield batch


def pinned(batch: list[Any]) -> list[Any]:
    """In page-locked memory, where there is a GPU; as a DataLoader does it."""
    import torch

    if not torch.cuda.is_available():
        return batch
    return [one.pin_memory() for one in batch]
