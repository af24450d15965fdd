# SPDX-License-Identifier: Apache-2.0
"""The native loader, libautotuned_loader.so, by ctypes.

The header trainer/input/library/autotuned_loader.h describes each function. ctypes releases the
interpreter's lock during a call, so that other threads run while one waits for a batch.
"""

from __future__ import annotations

import ctypes
import functools
import json
import weakref
from typing import Any, Sequence

from ..installation.programs import find_loader_library

_INTERFACE = 2  # AUTOTUNED_LOADER_INTERFACE
# A capsule keeps this pointer; DLPack's consumers look for the name.
_DLTENSOR = ctypes.c_char_p(b"dltensor")

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_is_capsule = ctypes.pythonapi.PyCapsule_IsValid
_is_capsule.restype = ctypes.c_int
_is_capsule.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _Batch(ctypes.Structure):
    _fields_ = [("images", ctypes.c_void_p), ("targets", ctypes.c_void_p)]


@functools.lru_cache(maxsize=None)
def _functions() -> ctypes.CDLL:
    path = find_loader_library()
    opened = ctypes.CDLL(str(path))
    found = opened.autotuned_loader_interface()
    if found != _INTERFACE:
        raise RuntimeError(
            f"{path} has interface {found}, and this package needs {_INTERFACE}; "
            "install the wheel again"
        )
    text = ctypes.POINTER(ctypes.c_void_p)
    opened.autotuned_loader_open.restype = ctypes.c_void_p
    opened.autotuned_loader_open.argtypes = [ctypes.c_char_p, text, text]
    opened.autotuned_loader_start.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
        text,
    ]
    opened.autotuned_loader_next.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Batch), text]
    opened.autotuned_loader_give.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_void_p,
        ctypes.c_int64,
        text,
    ]
    for name in ("close", "give_back", "free_text"):
        function = getattr(opened, f"autotuned_loader_{name}")
        function.restype = None
        function.argtypes = [ctypes.c_void_p]
    return opened


def _taken(text: ctypes.c_void_p) -> str:
    if not text.value:
        return "autotuned.Loader: no memory"
    copy = ctypes.string_at(text.value).decode("utf-8", "backslashreplace")
    _functions().autotuned_loader_free_text(text)
    return copy


def _tensor_of(address: int) -> Any:
    """A PyTorch tensor over this memory, which it gives back when it is freed."""
    import torch

    capsule = _new_capsule(address, _DLTENSOR, None)
    try:
        return torch.from_dlpack(capsule)
    finally:
        if _is_capsule(capsule, _DLTENSOR):  # nobody has consumed it
            _functions().autotuned_loader_give_back(address)


class NativeLoader:
    """One loader of the library. One thread at a time."""

    def __init__(self, settings: dict[str, Any]) -> None:
        functions = _functions()
        text = json.dumps(settings, ensure_ascii=False, allow_nan=False)
        description, error = ctypes.c_void_p(), ctypes.c_void_p()
        handle = functions.autotuned_loader_open(
            text.encode("utf-8", "surrogateescape"),
            ctypes.byref(description),
            ctypes.byref(error),
        )
        if not handle:
            raise ValueError(_taken(error))
        self._handle = handle
        self.close = weakref.finalize(self, functions.autotuned_loader_close, handle)
        self.description: dict[str, Any] = json.loads(_taken(description))

    def start(self, epoch: int, sample: int) -> None:
        error = ctypes.c_void_p()
        if not _functions().autotuned_loader_start(
            self._handle, epoch, sample, ctypes.byref(error)
        ):
            raise RuntimeError(_taken(error))

    def give(self, epoch: int, sample: int, indices: Sequence[int]) -> None:
        """The samples of the next batch, of a loader with `given_batches`."""
        error = ctypes.c_void_p()
        try:
            numbers = (ctypes.c_uint32 * len(indices))(*indices)
        except TypeError as wrong:
            raise ValueError(f"the samples of a batch are whole numbers: {wrong}") from None
        if not _functions().autotuned_loader_give(
            self._handle, epoch, sample, numbers, len(numbers), ctypes.byref(error)
        ):
            raise ValueError(_taken(error))

    def next(self) -> tuple[Any, Any]:
        """Images and targets, as tensors."""
        batch, error = _Batch(), ctypes.c_void_p()
        if not _functions().autotuned_loader_next(
            self._handle, ctypes.byref(batch), ctypes.byref(error)
        ):
            raise RuntimeError(_taken(error))
        try:
            images = _tensor_of(batch.images)
        except BaseException:
            _functions().autotuned_loader_give_back(batch.targets)
            raise
        return images, _tensor_of(batch.targets)
