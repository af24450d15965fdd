# SPDX-License-Identifier: Apache-2.0
"""Which knobs the checks judge: those whose change they apply, and no others."""

import functools
import types
import unittest

import torch
from test_checks import Loop

from autotuned.agent.check_request import begin_check
from autotuned.checks.cotangent import CotangentCheck
from autotuned.checks.shadow import _FORWARD_KNOBS, Shadow
from autotuned.checks.twin import TwinCheck
from autotuned.knobs.knob import Knob
from autotuned.knobs.knobs import names
from autotuned.protocol import RequestError


class JudgedKnobsTest(unittest.TestCase):
    def setUp(self):
        self.loop = Loop()
        self.addCleanup(self.loop.close)

    def test_each_check_knows_the_knobs_that_it_judges(self):
        knobs = self.loop.known().knobs

        def unknown():
            return [
                (check.method, name)
                for check, judged in (
                    (TwinCheck, ("updates", "optimizer")),
                    (CotangentCheck, ("updates",)),
                )
                for name, knob in knobs.knobs.items()
                if knob.switch == "live"
                and knob.reaches in judged
                and name not in check.applied_knobs
            ]

        self.assertEqual(unknown(), [])
        self.assertLessEqual(TwinCheck.applied_knobs | CotangentCheck.applied_knobs, set(names()))
        knobs.knobs["some.knob"] = Knob("some.knob", False, "numerics", "", print)
        self.assertEqual(unknown(), [("twin", "some.knob"), ("cotangent", "some.knob")])

    def test_a_knob_that_a_check_does_not_apply_is_not_judged(self):
        loop = self.loop
        loop.optimizer.zero_grad = functools.partial(loop.optimizer.zero_grad, set_to_none=False)
        knobs = loop.known().knobs
        set_values = []
        for name, reaches in (("some.knob", "updates"), ("a.slip", "update")):
            knobs.knobs[name] = Knob(name, False, "exact", "", set_values.append, reaches=reaches)
            knobs.own[name] = knobs.now[name] = False
        for change, method, words in (
            ({"some.knob": True}, "auto", "the check does not know this knob"),
            ({"some.knob": True}, "twin", "the check does not know this knob"),
            ({"some.knob": True}, "cotangent", "the check does not know this knob"),
            ({"a.slip": True}, "auto", "the check does not know this knob"),
            ({"a.slip": True, "memory.malloc": "keep"}, "auto", "does not know this knob"),
            ({"optimizer.set_to_none": True}, "cotangent", "gradients do not show"),
        ):
            with self.subTest(method=method, **change):
                with self.assertRaises(RequestError) as refused:
                    begin_check(
                        loop.script,
                        loop.watch,
                        knobs,
                        {"steps": 2, "method": method},
                        knobs.whole(change),
                    )
                self.assertEqual(refused.exception.kind, "unsupported")
                self.assertIn(words, refused.exception.what)
        self.assertEqual(set_values, [])
        self.assertIsNone(loop.watch.check)

    def test_each_knob_of_the_forward_pass_changes_a_shadow(self):
        loop = self.loop.known()

        def forward(**change):
            configuration = {**loop.knobs.own, **change}
            return Shadow(loop.script, loop.knobs, configuration, is_rounded=False).forward

        for name in _FORWARD_KNOBS:
            knob = loop.knobs.knobs[name]
            others = [
                one
                for one in knob.choices
                if one != knob.default and one != "fp16"  # which no script can have
            ]
            self.assertNotEqual(others, [])
            for value in others:
                self.assertNotEqual(forward(**{name: value}), forward(), f"{name}: {value}")

    def test_batches_are_compared_beside_the_arithmetic(self):
        loop = self.loop
        knobs = loop.known().knobs
        set_values = []
        knobs.knobs["some.loader"] = Knob(
            "some.loader", False, "exact", "", set_values.append, reaches="batches"
        )
        knobs.own["some.loader"] = knobs.now["some.loader"] = False
        change = {"some.loader": True, "layout.memory_format": "channels_last"}
        for batch, is_equal in ((torch.ones(2, 3), True), (torch.zeros(2, 3), False)):
            with self.subTest(is_equal=is_equal):
                set_values.clear()
                request = {"steps": 2, "method": "auto"}
                steps = begin_check(loop.script, loop.watch, knobs, request, knobs.whole(change))
                self.assertEqual(loop.watch.check.method, "batches")
                self.assertEqual(set_values, [True])
                batches = types.SimpleNamespace(
                    is_stale=lambda: False,
                    made_by=types.SimpleNamespace(native_threads=0),
                    batches_made=1,
                    made_here=lambda index: [torch.ones(2, 3)],
                )
                loop.watch.check.on_batch(batches, [0, 1], [batch])
                answer = None
                for _ in range(4):
                    self.assertIsNone(answer)
                    loop.step()
                    answer = steps.on_step(None)
                steps.abandon()
                loop.watch.check = None
                self.assertEqual(answer["method"], "twin")
                self.assertEqual(set_values, [True, False])
                self.assertIn("1 batches compared", answer["notes"])
                same = answer["reference_inputs"] == answer["candidate_inputs"]
                self.assertEqual((len(answer["reference_inputs"]), same), (1, is_equal))
                if not is_equal:
                    self.assertFalse(answer["equal"])


if __name__ == "__main__":
    unittest.main()
