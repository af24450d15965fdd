# SPDX-License-Identifier: Apache-2.0
"""What a script has trained in the end is bit for bit what it trains alone, as long as nothing
but exact changes is tried.
"""

import random
import unittest

import forks
import stand_in
from forks import Running
from stand_in import Ended

QUIET = {"PYTHONWARNINGS": "ignore"}
CHECKED = {"precision.autocast": "bf16"}


def output_without_pid(text):
    return [line for line in text.splitlines() if not line.startswith("pid")]


class ScriptsTest(unittest.TestCase):
    def assert_same(self, name, *arguments, talk, kind=Running):
        command = (f"{name}.py", *arguments)
        want = forks.alone(*command, environment=QUIET)
        self.assertEqual(want[0], 0, want[2])
        running = kind(*command, environment=QUIET)
        self.addCleanup(running.end)
        try:
            talk(running)
        except Ended:
            self.fail(f"the script ended too early: {running.last}")
        code, out, error = running.rest()
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(output_without_pid(out), output_without_pid(want[1]))
        self.assertIn("digest", out)

    def look_and_go_on(self, running):
        """Everything that tries nothing: a block, checks of a candidate, a profile."""
        loaded = running.load()
        running.must("run", minimum_ns=1)
        for method in ("twin", "cotangent"):
            answer = running.ask(
                "check", configuration=CHECKED, steps=2, method=method, rounded=True
            )
            obstacle = loaded["checks"][method]
            self.assertEqual("error" in answer, bool(obstacle), answer)
            if not obstacle:
                self.assertTrue(answer["ok"]["finite"])
                self.assertFalse(answer["ok"]["equal"])
        running.must("profile", count=1)
        running.must("finish", configuration={})

    def stay_attached(self, running):
        """Up to the last step without a word: the script waits for nobody."""
        running.load()
        running.send({"id": 9, "request": "run", "minimum_ns": 1 << 60})

    def test_a_classifier(self):
        kind = stand_in.Running  # from the start of Python on
        self.assert_same("classifier", talk=self.look_and_go_on, kind=kind)

    def test_a_classifier_to_its_end(self):
        self.assert_same(
            "classifier", "--optimizer", "adam", "--clip", "--zeros", talk=self.stay_attached
        )

    def test_a_classifier_with_workers_of_its_own(self):
        self.assert_same("classifier", "--workers", "1", "--persistent", talk=self.look_and_go_on)

    def test_a_gan(self):
        self.assert_same("gan", talk=self.look_and_go_on)

    def test_gradients_of_several_batches(self):
        self.assert_same("accumulation", talk=self.look_and_go_on)

    def test_no_optimizer(self):
        self.assert_same("by_hand", talk=self.look_and_go_on)

    def test_a_closure(self):
        self.assert_same("closure", talk=self.look_and_go_on)

    def test_an_iterable_data_set(self):
        self.assert_same("iterable", talk=self.look_and_go_on)

    def test_exact_knobs_change_no_bit(self):
        def talk(running):
            running.load()
            coin = random.Random(2)
            for _ in range(12):
                running.must(
                    "prepare",
                    configuration={
                        "loader.workers": coin.choice([0, 1, 2]),
                        "loader.prefetch_batches": coin.choice([1, 3]),
                        "memory.malloc": coin.choice(["default", "keep"]),
                    },
                )
                running.must("steps", count=coin.choice([1, 2, 3]))
            running.must("finish", configuration={"loader.workers": 1})

        self.assert_same("classifier", "--epochs", "6", talk=talk)

    def test_numerics_that_were_taken_back_leave_the_scripts_own_way(self):
        """Not the same bits, but the same settings: what is left is what the script set."""
        running = Running("classifier.py", "--epochs", "4", environment=QUIET)
        self.addCleanup(running.end)
        own = running.load()["configuration"]
        changed = running.must(
            "prepare",
            configuration={
                "precision.autocast": "bf16",
                "layout.memory_format": "channels_last",
                "optimizer.fused": True,
                "threads.intra_op": 1,
            },
        )["changed"]
        self.assertIn("precision.autocast", changed)
        running.must("steps", count=3)
        self.assertEqual(
            sorted(running.must("prepare", configuration={})["changed"]), sorted(changed)
        )
        running.must("steps", count=2)
        self.assertEqual(running.must("load")["configuration"], own)
        running.must("finish", configuration={})
        self.assertEqual(running.rest()[0], 0)


if __name__ == "__main__":
    unittest.main()
