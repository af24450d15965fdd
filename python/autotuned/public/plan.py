# SPDX-License-Identifier: Apache-2.0
"""The batches of a DataLoader, made by the native loader: whether it can, and how.

The order stays that of the DataLoader's sampler: its indices are given batch by batch. Classes are
known by their names, so neither PyTorch nor torchvision is imported here.
"""

from __future__ import annotations

import csv
import dataclasses
import os
import sys
import tempfile
from typing import Any, Sequence

from ..installation.programs import ProgramMissing, find_loader_library
from .library import NativeLoader
from .translation import Described, UnknownStage, described, draws, resizes

_FOLDER = "torchvision.datasets.folder"
_ENDINGS = (".jpg", ".jpeg", ".png")
# Later ones resize rows before columns where that is less work, and round otherwise.
_LAST_PILLOW = 12
_MOST_INDEX_BYTES = 1 << 30
_MEMORY_SHARE = 8  # one of so many parts of the free memory is for the index

Files = Sequence[tuple[str, int]]  # with the class of each


class NoPlan(Exception):
    """Why the native loader cannot make the batches of a DataLoader. A clause for people."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the native loader needs to know."""

    files: Files
    entries: tuple[Any, ...]  # those of `files` when they were looked at
    numbers: Sequence[int] | None  # of a Subset: the file of each of its samples
    transforms: Described
    batch_size: int
    draws: bool  # random numbers, other ones than the DataLoader's
    rounds: bool  # pixels may differ by rounding

    def is_of(self, loader: Any) -> bool:
        """Whether the loader is still as it was.

        The entries of an ImageFolder are tuples: one that could change by itself is not seen.
        """
        try:
            now = plan_of(loader, self.files)
        except NoPlan:
            return False
        return (
            now.files is self.files
            and now.entries == self.entries
            and (now.numbers is self.numbers or now.numbers == self.numbers)
            and now.transforms == self.transforms
            and now.batch_size == self.batch_size
        )

    def open(self, threads: int, prefetch_batches: int, seed: int) -> "GivenBatches":
        """ValueError, OSError or RuntimeError: it cannot."""
        return GivenBatches(self, threads, prefetch_batches, seed)

    def picture(self, index: int) -> Any:
        """The decoded picture of a sample: bytes, by channel, row and column."""
        file = self.files[self.file_of(index)]
        bare = dataclasses.replace(
            self,
            files=[file],
            entries=(file,),
            numbers=None,
            transforms=[],
            batch_size=1,
            draws=False,
        )
        batches = GivenBatches(bare, 0, 1, 1)
        batches.begin()
        batches.give([0])
        return batches.next()[0][0]

    def file_of(self, index: Any) -> int:
        """As a list is indexed: the last one may be asked for by -1."""
        number = int(index)
        if self.numbers is not None:
            number = int(self.numbers[number])
        return number + len(self.files) if number < 0 else number


class GivenBatches:
    """Batches that the native loader makes ahead, of the samples that it is given."""

    def __init__(self, plan: Plan, threads: int, prefetch_batches: int, seed: int) -> None:
        self.plan = plan
        self.ahead = max(1, threads * prefetch_batches)
        self._begun = 0
        self._sample = 0  # since begin()
        # The library reads the table once, now.
        with tempfile.NamedTemporaryFile(
            "w", suffix=".csv", newline="", encoding="utf-8", errors="surrogateescape"
        ) as table:
            rows = csv.writer(table, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
            rows.writerows((os.path.abspath(path), int(label)) for path, label in plan.files)
            table.flush()
            self._native = NativeLoader(
                {
                    "data": {"type": "image_index", "index": table.name, "shuffle": False},
                    "input": plan.transforms,
                    "batch_size": plan.batch_size,
                    "workers": threads,
                    "prefetch_factor": prefetch_batches,
                    "seed": seed,
                    "index_bytes": _index_bytes() if plan.draws else 0,
                    "given_batches": True,
                }
            )

    def begin(self) -> None:
        """Batches that were given before and not taken are forgotten."""
        self._begun += 1
        self._sample = 0
        self._native.start(0, 0)

    def give(self, indices: Sequence[Any]) -> None:
        """The samples of the batch that comes behind those given before."""
        self._native.give(self._begun, self._sample, [self.plan.file_of(one) for one in indices])
        self._sample += len(indices)

    def next(self) -> list[Any]:
        """As the DataLoader gives it: images and targets."""
        return list(self._native.next())

    def close(self) -> None:
        self._native.close()


def _index_bytes() -> int:
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
    return max(0, min(_MOST_INDEX_BYTES, free // _MEMORY_SHARE))


def _is(one: Any, module: str, name: str) -> bool:
    """Whether it is of this very class."""
    return type(one).__module__ == module and type(one).__name__ == name


def _name(one: Any) -> str:
    return str(getattr(one, "__name__", type(one).__name__))


def plan_of(loader: Any, known_files: Files | None = None) -> Plan:
    """How the native loader makes the batches of this DataLoader; NoPlan says why not.

    `known_files` have been looked at before.
    """
    batches = loader.batch_sampler
    if batches is None:
        raise NoPlan("the loader makes no batches (batch_size=None)")
    for sampler in (batches, getattr(batches, "sampler", None)):
        if not type(sampler).__module__.startswith("torch.utils.data"):
            raise NoPlan(f"its sampler is the script's own ({type(sampler).__name__})")
    if not _is(batches, "torch.utils.data.sampler", "BatchSampler"):
        raise NoPlan(f"its batch_sampler is a {type(batches).__name__}, and known is BatchSampler")
    collate = loader.collate_fn
    if (getattr(collate, "__module__", ""), getattr(collate, "__name__", "")) != (
        "torch.utils.data._utils.collate",
        "default_collate",
    ):
        raise NoPlan(f"its collate_fn is {_name(collate)}, and known is default_collate")
    if loader.worker_init_fn is not None:
        raise NoPlan("it has a worker_init_fn, which threads do not call")
    dataset, numbers = _without_subsets(loader.dataset)
    transforms = _transforms_of(dataset)
    files = dataset.samples
    if files is not known_files:
        _check_files(files)
    return Plan(
        files,
        tuple(files),
        numbers,
        transforms,
        int(batches.batch_size),
        draws(transforms),
        resizes(transforms) and not _resizes_as_known(),
    )


def _without_subsets(dataset: Any) -> tuple[Any, Sequence[int] | None]:
    """The data set with files, and which of them each sample is; nothing: all, in their order."""
    numbers: Sequence[int] | None = None
    while _is(dataset, "torch.utils.data.dataset", "Subset"):
        inner = dataset.indices
        numbers = inner if numbers is None else [inner[number] for number in numbers]
        dataset = dataset.dataset
    if not _is(dataset, _FOLDER, "ImageFolder"):
        kind = type(dataset)
        raise NoPlan(f"the data set is a {kind.__name__}, and known is ImageFolder of torchvision")
    return dataset, numbers


def _transforms_of(dataset: Any) -> Described:
    if dataset.target_transform is not None:
        raise NoPlan(f"the data set has a target_transform ({_name(dataset.target_transform)})")
    reads = dataset.loader
    if getattr(reads, "__module__", "") != _FOLDER or _name(reads) not in (
        "default_loader",
        "pil_loader",
    ):
        raise NoPlan(f"the data set reads pictures by {_name(reads)}, and known is PIL")
    backend = getattr(sys.modules.get("torchvision"), "get_image_backend", lambda: "PIL")()
    if _name(reads) == "default_loader" and backend != "PIL":
        raise NoPlan(f"torchvision reads pictures by {backend}, and known is PIL")
    if dataset.transform is None:
        raise NoPlan("the data set has no transforms, and gives PIL images")
    given = [dataset.transform]
    if any(isinstance(one, (str, dict, list, tuple)) for one in given):
        raise NoPlan("its transform is no transform of torchvision")
    try:
        return described(given)
    except UnknownStage as error:
        raise NoPlan(error.why) from None


def _check_files(files: Files) -> None:
    if not files:
        raise NoPlan("the data set has no files")
    other = next((path for path, _ in files if not path.lower().endswith(_ENDINGS)), None)
    if other is not None:
        raise NoPlan(f"{os.path.basename(other)} is neither JPEG nor PNG")
    if any("\n" in path or "\r" in path for path, _ in files):
        raise NoPlan("the name of a file has an end of line in it")
    try:
        find_loader_library()
    except ProgramMissing as error:
        raise NoPlan(str(error)) from None


def _resizes_as_known() -> bool:
    version = str(getattr(sys.modules.get("PIL"), "__version__", ""))
    major = version.partition(".")[0]
    return major.isdigit() and int(major) <= _LAST_PILLOW
