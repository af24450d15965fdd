# SPDX-License-Identifier: Apache-2.0
"""Random numbers that do not depend on how a tensor lies in memory, nor on its precision.

PyTorch fills a tensor in the order of memory and in the tensor's own type. So another layout or
precision draws other masks from the same seed, and a check would compare two different trainings.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten
_FILLING = {
    _aten.bernoulli_.float,
    _aten.bernoulli_.Tensor,
    _aten.normal_.default,
    _aten.uniform_.default,
    _aten.exponential_.default,
}
_MAKING = {
    _aten.randn_like.default,
    _aten.rand_like.default,
    _aten.bernoulli.default,
    _aten.bernoulli.p,
}
# Kernels that draw the weights to drop by themselves, each in an order of its own.
_ATTENTION = {
    getattr(_aten, name).default
    for name in (
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_fused_attention_overrideable",
    )
    if hasattr(_aten, name)
}
_SIXTEEN_BITS = (torch.bfloat16, torch.float16)


class Unshadowable(Exception):
    """The script does something that a shadow cannot follow."""


class OtherMasks(Unshadowable):
    """Dropout would draw other masks than the reference."""


def _drops_weights(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an attention function drops some of its weights."""
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args)), **kwargs}
    return given.get("dropout_p", 0.0) > 0.0


class AlignedDraws(TorchDispatchMode):
    """Draws in the order of indices; with `in_float32`, in 32 bits where 16 are wanted."""

    def __init__(self, in_float32: bool) -> None:
        super().__init__()
        self._in_float32 = in_float32

    def _differs(self, tensor: torch.Tensor) -> bool:
        return not tensor.is_contiguous() or (self._in_float32 and tensor.dtype in _SIXTEEN_BITS)

    def _aligned(self, tensor: torch.Tensor) -> torch.Tensor:
        """An empty tensor of the same shape that is filled as the reference's would be."""
        dtype = (
            torch.float32 if self._in_float32 and tensor.dtype in _SIXTEEN_BITS else tensor.dtype
        )
        return torch.empty(tensor.shape, dtype=dtype, device=tensor.device)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _FILLING and self._differs(args[0]):
            drawn = self._aligned(args[0])
            rest = [one.contiguous() if isinstance(one, torch.Tensor) else one for one in args[1:]]
            func(drawn, *rest, **kwargs)
            return args[0].copy_(drawn)
        if func in _MAKING and self._differs(args[0]):
            like = self._aligned(args[0]).copy_(args[0])
            generator = {key: value for key, value in kwargs.items() if key == "generator"}
            return torch.empty_like(args[0]).copy_(func(like, *args[1:], **generator))
        if func is _aten.native_dropout.default:
            tensor, probability, is_training = args
            if is_training and self._differs(tensor):
                # By the same kernel: on a GPU it draws in an order of its own.
                _, kept = func(self._aligned(tensor).fill_(1.0), probability, is_training)
                mask = torch.empty_like(tensor, dtype=torch.bool).copy_(kept)
                return tensor * mask / (1 - probability), mask
        if func in _ATTENTION and self._in_float32 and args[0].dtype in _SIXTEEN_BITS:
            # In 32 bits another kernel is taken, with another mask.
            if _drops_weights(func, args, kwargs):
                raise OtherMasks("attention drops other weights in 16 bits")
        return func(*args, **kwargs)
