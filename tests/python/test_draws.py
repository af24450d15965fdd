# SPDX-License-Identifier: Apache-2.0
"""Random numbers of a shadow: those of the training beside which it goes."""

import unittest

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from autotuned.parts.draws import AlignedDraws, OtherMasks

DROPOUT = torch.ops.aten.native_dropout.default


class Calls(TorchDispatchMode):
    """What is asked of PyTorch's kernels."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.made.append((func, args))
        return func(*args, **(kwargs or {}))


class DrawsTest(unittest.TestCase):
    def test_dropout_draws_by_its_own_kernel(self):
        # Which on a GPU draws in another order than bernoulli_().
        for tensor in (
            torch.ones(3, 5, dtype=torch.bfloat16),
            torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last),
        ):
            with self.subTest(tensor.dtype):
                torch.manual_seed(1)
                _, expected = torch.native_dropout(torch.ones(tensor.shape), 0.5, True)
                self.assertTrue(0 < int(expected.sum()) < expected.numel())
                torch.manual_seed(1)
                with Calls() as calls, AlignedDraws(in_float32=True):
                    out, mask = torch.native_dropout(tensor, 0.5, True)
                self.assertTrue(torch.equal(mask, expected))
                self.assertTrue(torch.equal(out, tensor * 2 * expected))
                self.assertEqual((out.dtype, mask.dtype), (tensor.dtype, torch.bool))
                (drawn,) = [args[0] for func, args in calls.made if func is DROPOUT]
                self.assertEqual(drawn.dtype, torch.float32)
                self.assertTrue(drawn.is_contiguous())
                self.assertNotIn(torch.ops.aten.bernoulli_.float, [one for one, _ in calls.made])

    def test_attention_that_drops_weights_is_refused_in_16_bits(self):
        # This is how GPUs do it; on a CPU it draws by bernoulli_().
        def call(name, dtype, dropout, in_float32=True):
            one = torch.empty(1, 2, 4, 8, dtype=dtype, device="meta")
            between = {"flash": (), "efficient": (None, False), "cudnn": (None, False)}[name]
            with AlignedDraws(in_float32):
                attention = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention")
                return attention(one, one, one, *between, *dropout)[0]

        for name in ("flash", "efficient", "cudnn"):
            with self.subTest(name):
                with self.assertRaisesRegex(OtherMasks, "other weights in 16 bits"):
                    call(name, torch.bfloat16, (0.5,))
                for dtype, dropout, in_float32 in (
                    (torch.bfloat16, (), True),
                    (torch.bfloat16, (0.0,), True),
                    (torch.float32, (0.5,), True),
                    (torch.bfloat16, (0.5,), False),  # the script's own 16 bits
                ):
                    self.assertEqual(call(name, dtype, dropout, in_float32).dtype, dtype)


if __name__ == "__main__":
    unittest.main()
