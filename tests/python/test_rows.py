# SPDX-License-Identifier: Apache-2.0
"""A gather of whole rows as a copy of rows: the same numbers; every other gather is as it was."""

import unittest

import torch
from torch import nn

from autotuned.agent.activities import Profile
from autotuned.checks.cotangent import CotangentCheck
from autotuned.knobs.knobs import Knobs
from autotuned.loop.script import ForwardSettings, Root, Script
from autotuned.parts import rows
from test_checks import Loop

INDEXING = ForwardSettings(selects_rows=True)


class Keep(nn.Module):
    """Keeps some of the rows of each picture, some of them twice."""

    def __init__(self, kept=5):
        super().__init__()
        self.kept = kept
        self.before = nn.Linear(8, 8)

    def forward(self, x):
        tokens = self.before(x.flatten(2) if x.dim() == 4 else x)
        chosen = torch.randint(0, tokens.shape[1], (tokens.shape[0], self.kept))
        return tokens.gather(1, chosen.unsqueeze(-1).expand(-1, -1, tokens.shape[2]))


def calls(source, dim, index):
    """Each way to call it."""
    return [
        lambda: torch.gather(source, dim, index),
        lambda: torch.gather(source, dim, index=index),
        lambda: torch.gather(input=source, dim=dim, index=index),
        lambda: source.gather(dim, index),
        lambda: source.gather(dim=dim, index=index),
    ]


class RowsTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)

    def both(self, call, *leaves):
        """Value and gradients, as PyTorch and as rows; and what the last value was made by."""
        results = []
        for is_selected in (False, True):
            for leaf in leaves:
                leaf.grad = None
            if is_selected:
                with rows.selected():
                    out = call()
            else:
                out = call()
            (out * torch.arange(1, out.numel() + 1).view(out.shape).sin()).sum().backward()
            results.append([out.detach(), *(leaf.grad.clone() for leaf in leaves)])
        return results, type(out.grad_fn).__name__

    def assert_equal_bits(self, results):
        for one, other in zip(*results):
            self.assertEqual(one.shape, other.shape)
            self.assertEqual(one.stride(), other.stride())
            # Bits are compared, because 0 and -0 are equal as numbers.
            kind = torch.int32 if one.dtype == torch.float32 else torch.int64
            bits = [tensor.contiguous().view(kind) for tensor in (one, other)]
            self.assertTrue(torch.equal(*bits))

    def test_the_same_bits(self):
        shapes = (((4, 9, 6), 1), ((4, 9, 6), -2), ((2, 3, 7, 4), 2), ((3, 6, 2, 5), 1))
        for dtype in (torch.float32, torch.float64):
            for shape, dim in shapes:
                with self.subTest(dtype=dtype, shape=shape, dim=dim):
                    source = torch.randn(shape, dtype=dtype)
                    source[0] = 0.0
                    place = dim % len(shape)
                    chosen = torch.randint(0, shape[place], (*shape[:place], 20))  # with repeats
                    chosen = chosen[(..., *(None for _ in shape[place + 1 :]))]
                    index = chosen.expand(*chosen.shape[: place + 1], *shape[place + 1 :])
                    source.requires_grad_()
                    for call in calls(source, dim, index):
                        results, node = self.both(call, source)
                        self.assertEqual(node, "ViewBackward0")
                        self.assert_equal_bits(results)

    def test_also_of_what_is_not_contiguous_and_of_a_second_derivative(self):
        leaf = torch.randn(4, 6, 9, requires_grad=True)
        index = torch.randint(0, 9, (4, 5, 1)).expand(-1, -1, 6)
        results, _ = self.both(lambda: leaf.transpose(1, 2).gather(1, index), leaf)
        self.assert_equal_bits(results)

        def slope():
            out = leaf.transpose(1, 2).gather(1, index)
            (first,) = torch.autograd.grad(out.pow(3).sum(), leaf, create_graph=True)
            return first

        results, _ = self.both(slope, leaf)
        self.assert_equal_bits(results)

    def test_other_gathers_are_pytorchs(self):
        source = torch.randn(4, 9, 6, requires_grad=True)
        rows_of = torch.randint(0, 9, (4, 5, 1))
        for name, value, dim, index in (
            ("elements", source, 1, torch.randint(0, 9, (4, 5, 6))),
            ("the last dimension", source, 2, torch.randint(0, 6, (4, 9, 3))),
            ("the first dimension", source, 0, torch.zeros(2, 1, 1).long().expand(-1, 9, 6)),
            ("a part of the row", source, 1, rows_of.expand(-1, -1, 3)),
            ("fewer batches", source, 1, rows_of[:2].expand(-1, -1, 6)),
            ("16 bits", source.to(torch.bfloat16), 1, rows_of.expand(-1, -1, 6)),
            ("no rows", source, 1, rows_of[:, :0].expand(-1, -1, 6)),
        ):
            with self.subTest(name):
                results, node = self.both(lambda: torch.gather(value, dim, index), source)
                self.assertEqual(node, "GatherBackward0")
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(*results)))

    def test_what_fails_fails_as_before(self):
        source = torch.randn(4, 9, 6)
        errors = (RuntimeError, IndexError)
        for index in (torch.full((4, 5, 1), 9), torch.full((4, 5, 1), -1)):
            with rows.selected(), self.assertRaisesRegex(errors, "out of bounds"):
                source.gather(1, index.expand(-1, -1, 6))
        with rows.selected(), self.assertRaises(TypeError):
            torch.gather(source, 1)
        with rows.selected(), self.assertRaisesRegex(RuntimeError, "int64"):
            source.gather(1, torch.zeros(4, 5, 1).expand(-1, -1, 6))

    def test_it_is_taken_out_again(self):
        own, inherited = torch.gather, "gather" in vars(torch.Tensor)
        with self.assertRaises(ZeroDivisionError), rows.selected():
            self.assertIsNot(torch.gather, own)
            1 / 0
        self.assertIs(torch.gather, own)
        self.assertEqual("gather" in vars(torch.Tensor), inherited)
        with rows.selected():
            torch.gather = wrapped = lambda *args: None  # by somebody else
        self.assertIs(torch.gather, wrapped)
        torch.gather = own

    def test_a_function_transform_gets_pytorchs(self):
        source, index = torch.randn(3, 9, 6), torch.randint(0, 9, (3, 5, 1)).expand(-1, -1, 6)
        with rows.selected():
            out = torch.vmap(lambda one, where: one.unsqueeze(0).gather(1, where.unsqueeze(0)))(
                source, index
            )
        self.assertTrue(torch.equal(out.squeeze(1), source.gather(1, index)))


class KnobTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(6)

    def test_it_is_inside_of_the_module_only(self):
        model = Keep()
        script = Script()
        script.roots = [Root(model, 0, "")]
        knobs = Knobs(script)
        knob = knobs.knobs["rewrite.gather"]
        self.assertEqual((knob.unavailable, knob.risk), ("", "exact"))
        own = torch.gather
        knobs.apply(knobs.whole({"rewrite.gather": "indexing"}))
        self.assertEqual(script.forward, INDEXING)
        seen = []
        model.register_forward_hook(lambda *_: seen.append(torch.gather is own))
        out = script.roots[0].run(script.forward, (torch.randn(2, 7, 8),), {})
        self.assertEqual((type(out.grad_fn).__name__, seen), ("ViewBackward0", [False]))
        self.assertIs(torch.gather, own)
        knobs.undo()
        self.assertTrue(script.forward.changes_nothing())

    def loop(self, kept=5):
        loop = Loop()
        self.addCleanup(loop.close)
        loop.model = nn.Sequential(Keep(kept), nn.Flatten(), nn.Linear(kept * 8, 3))
        loop.optimizer = torch.optim.SGD(loop.model.parameters(), lr=0.05)

        def step():
            loop.optimizer.zero_grad()
            out = loop.model(torch.randn(8, 7, 8))
            loop.loss_of(out, torch.randint(0, 3, (8,))).backward()
            loop.optimizer.step()

        loop.step = step
        return loop.known()

    def test_checks_find_the_same_bits(self):
        loop = self.loop()
        change = {"rewrite.gather": "indexing"}
        self.assertTrue(loop.check(change)["equal"])
        self.assertTrue(loop.check(change, kind=CotangentCheck)["equal"])
        self.assertEqual(loop.failures, [])

    def test_a_check_would_find_others(self):
        loop = self.loop()
        own = rows._SelectedRows.backward
        rows._SelectedRows.backward = staticmethod(
            lambda ctx, gradient: (own(ctx, gradient)[0] * 1.0000001, None)
        )
        self.addCleanup(setattr, rows._SelectedRows, "backward", own)
        self.assertFalse(loop.check({"rewrite.gather": "indexing"})["equal"])

    def test_a_profile_counts_its_backward_too(self):
        loop = self.loop(kept=7)
        shares, scattered = [], []
        for settings in (ForwardSettings(), INDEXING):
            loop.script.forward = settings
            profile = Profile(loop.script, "", steps=3, warmup_steps=0, maximum_ns=None)
            answers = []
            loop.watch.on_boundary = lambda step: answers.append(profile.on_step(step))
            for _ in range(10):
                if not any(answers):
                    loop.step()
            (answer,) = (one for one in answers if one)
            operators = answer["operators"]
            whole = sum(one["self_ns"] for one in operators)
            scatter = sum(one["self_ns"] for one in operators if "scatter" in one["name"])
            scattered.append(scatter / whole)
            shares.append(answer["metrics"]["operators.gather_ratio"])
        loop.script.forward = ForwardSettings()
        self.assertTrue(all(0.0 < share < 1.0 for share in shares), shares)
        self.assertGreater(shares[0], scattered[0])
        self.assertGreater(scattered[0], 0.0)
        self.assertNotIn("aten::gather", [one["name"] for one in operators], "it is replaced")


if __name__ == "__main__":
    unittest.main()
