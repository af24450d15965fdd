# SPDX-License-Identifier: Apache-2.0
"""autotuned.compare() over a clock that the callables move, judged by the real program."""

import os
import random
import subprocess
import sys
import unittest
from unittest import mock

import autotuned
from autotuned.installation.programs import ProgramMissing
from autotuned.public.timing import Comparison


class Clock:
    """Stands still between calls."""

    def __init__(self):
        self.now = 100.0
        self.random = random.Random(7)
        self.called = []

    def __call__(self):
        return self.now

    def callable(self, name, seconds, noise=0.05):
        def call():
            self.called.append(name)
            self.now += seconds * self.random.lognormvariate(0, noise)

        return call


class CompareTest(unittest.TestCase):
    def compare(self, a_seconds, b_seconds, **options):
        self.clock = Clock()
        return autotuned.compare(
            self.clock.callable("a", a_seconds),
            self.clock.callable("b", b_seconds),
            clock=self.clock,
            seed=3,
            **options,
        )

    def test_a_gain_of_a_fifth_is_found(self):
        done = self.compare(0.024, 0.020)
        self.assertEqual(done.verdict, "faster")
        self.assertGreater(done.low, 1.0)
        self.assertLess(done.low, 1.2)
        self.assertGreater(done.high, 1.2)
        self.assertAlmostEqual(done.ratio, 1.2, delta=0.05)
        self.assertAlmostEqual(done.a_per_second, 1 / 0.024, delta=2)
        self.assertRegex(str(done), r"^B is faster: 1\.\d+ x \(1\.\d+ to 1\.\d+\) over \d+ pairs;")

    def test_an_end_that_is_not_known_is_left_out(self):
        def text(low, high, pairs=3):
            return str(Comparison("undecided_in_time", 1.1, low, high, pairs, 1.0, 1.1))

        self.assertTrue(text(1.05, None).startswith("undecided: "))
        self.assertIn("over 1 pair;", text(None, None, pairs=1))
        self.assertIn("1.100 x (at least 1.050) over 3 pairs", text(1.05, None))
        self.assertIn("1.100 x (at most 1.200) over 3 pairs", text(None, 1.2))
        self.assertIn("1.100 x (too few pairs for an interval) over", text(None, None))

    def test_a_loss_is_told_as_one(self):
        done = self.compare(0.020, 0.024)
        self.assertEqual(done.verdict, "slower")
        self.assertLess(done.high, 1.0)

    def test_equal_callables_are_not_told_apart(self):
        done = self.compare(0.020, 0.020, seconds=40.0)
        self.assertIn(done.verdict, ("no_gain", "undecided_in_time"))
        self.assertAlmostEqual(done.ratio, 1.0, delta=0.03)

    def test_it_ends_with_the_time(self):
        done = self.compare(0.020, 0.020, seconds=0.5)
        self.assertEqual(done.verdict, "undecided_in_time")
        self.assertIsNone(done.high)
        self.assertLess(self.clock.now, 110.0)

    def test_a_least_gain_that_is_ruled_out_is_no_gain(self):
        self.assertEqual(self.compare(0.022, 0.020, min_gain=0.5).verdict, "no_gain")

    def test_a_coin_decides_which_comes_first(self):
        self.compare(0.15, 0.15, seconds=12.0)
        # One call makes a block here; the first two of each warm up.
        called = "".join(self.clock.called[4:])
        self.assertEqual({called[i : i + 2] for i in range(0, len(called), 2)}, {"ab", "ba"})

    def test_what_a_callable_raises_reaches_the_caller(self):
        def broken():
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            autotuned.compare(broken, broken)

    def test_refuses_a_least_gain_that_is_none(self):
        with self.assertRaisesRegex(ValueError, "least gain"):
            self.compare(0.1, 0.1, min_gain=-1.0)

    def test_draws_nothing_from_the_random_numbers_of_the_program(self):
        before = random.getstate()
        self.compare(0.15, 0.15, seconds=1.0)
        self.assertEqual(random.getstate(), before)

    def test_says_that_the_program_is_missing(self):
        with mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            del os.environ["AUTOTUNED_PROGRAM"]
            with self.assertRaisesRegex(ProgramMissing, "AUTOTUNED_PROGRAM"):
                self.compare(0.1, 0.1)

    def test_needs_no_pytorch(self):
        text = (
            "import sys, autotuned\n"
            "print(autotuned.compare(lambda: None, lambda: None, seconds=0.1).pairs > 0)\n"
            "print('torch' in sys.modules)\n"
        )
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        self.assertEqual(done.stdout.split(), ["True", "False"], done.stderr)

    def test_program_and_package_are_of_one_version(self):
        program = os.environ["AUTOTUNED_PROGRAM"]
        said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        self.assertEqual(said.split(), ["autotuned", autotuned.VERSION])

    def test_the_package_has_nothing_else_to_offer(self):
        with self.assertRaisesRegex(AttributeError, "no attribute 'tuning'"):
            autotuned.tuning


if __name__ == "__main__":
    unittest.main()
