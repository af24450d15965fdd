# SPDX-License-Identifier: Apache-2.0
"""What a step is, learned from events."""

import unittest

from autotuned.loop.steps import StepDetector, last_of_cycle

BATCH, FORWARD, BACKWARD, STEP = ("batch", 0), ("forward", 0), ("backward", 0), ("optimizer", 0)
OTHER = ("optimizer", 1)


def feed(detector, *tokens):
    """Numbers of the tokens behind which a step was over, and whether it was clean."""
    ends = []
    for number, token in enumerate(tokens):
        if token[0] == "forward" and detector.ends_before_forward():
            ends.append((number, detector.close()))
        if detector.add(token):
            ends.append((number, detector.close()))
    return ends


class StepDetectorTest(unittest.TestCase):
    def known(self, *group, times=12):
        detector = StepDetector()
        feed(detector, *(group * times))
        self.assertTrue(detector.is_known)
        feed(detector, *group)
        return detector

    def test_a_usual_loop(self):
        detector = self.known(BATCH, FORWARD, BACKWARD, STEP)
        self.assertEqual(detector.pattern, (BATCH, FORWARD, BACKWARD, STEP))
        self.assertEqual(detector.boundary, STEP)
        self.assertEqual(
            feed(detector, BATCH, FORWARD, BACKWARD, STEP, BATCH, FORWARD, BACKWARD, STEP),
            [(3, True), (7, True)],
        )

    def test_an_optimizer_in_place_of_the_one_that_was_learned(self):
        detector = self.known(FORWARD, BACKWARD, STEP)
        for _ in range(3):  # one beside it, now and then
            self.assertEqual(feed(detector, FORWARD, BACKWARD, OTHER), [])
            self.assertFalse(detector.is_renewed())
            self.assertEqual(feed(detector, FORWARD, BACKWARD, STEP), [(2, False)])
        feed(detector, FORWARD, BACKWARD, OTHER, FORWARD, BACKWARD, OTHER)
        self.assertTrue(detector.is_renewed())

    def test_a_boundary_that_does_not_come(self):
        minutes_ns = 60 * 10**9
        detector = self.known(FORWARD, BACKWARD, STEP)
        self.assertFalse(detector.is_lost(60 * minutes_ns), "nothing is trained: it evaluates")
        for _ in range(200):
            feed(detector, FORWARD, BACKWARD)
        self.assertFalse(detector.is_lost(0))
        self.assertTrue(detector.is_lost(5 * minutes_ns))
        self.assertEqual(feed(detector, STEP), [(0, False)])
        self.assertFalse(detector.is_lost(5 * minutes_ns), "it has come")
        for _ in range(300):
            feed(detector, FORWARD, BACKWARD)
        self.assertTrue(detector.is_lost(0))

    def test_a_closure_is_evaluated_many_times(self):
        detector = StepDetector()
        detector.note_closure()
        feed(detector, *(((FORWARD, BACKWARD) * 20 + (STEP,)) * 8))
        feed(detector, *((FORWARD, BACKWARD) * 125))
        self.assertFalse(detector.is_lost(60 * 60 * 10**9))

    def test_a_step_without_end_takes_no_memory(self):
        detector = self.known(FORWARD, BACKWARD, STEP)
        for _ in range(10_000):
            feed(detector, FORWARD, BACKWARD)
        self.assertLess(len(detector._tokens), 5000)

    def test_a_step_with_other_events_is_not_clean(self):
        detector = self.known(FORWARD, BACKWARD, STEP)
        self.assertEqual(feed(detector, FORWARD, FORWARD, BACKWARD, STEP), [(3, False)])
        self.assertEqual(feed(detector, FORWARD, BACKWARD, STEP), [(2, True)])

    def test_a_disturbed_step_is_not_clean(self):
        detector = self.known(FORWARD, BACKWARD, STEP)
        detector.disturb()
        self.assertEqual(
            feed(detector, FORWARD, BACKWARD, STEP, FORWARD, BACKWARD, STEP),
            [(2, False), (5, True)],
        )

    def test_the_step_in_which_it_is_learned_is_not_clean(self):
        detector = StepDetector()
        ends = feed(detector, *((FORWARD, BACKWARD, STEP) * 8))
        self.assertEqual([clean for _, clean in ends], [False] + [True] * (len(ends) - 1))
        self.assertGreater(len(ends), 1)

    def test_gradients_of_several_batches(self):
        group = (FORWARD, BACKWARD) * 4 + (STEP,)
        detector = self.known(*group)
        self.assertEqual(detector.pattern, group)

    def test_two_optimizers(self):
        group = (FORWARD, BACKWARD, STEP, ("forward", 1), BACKWARD, OTHER)
        detector = self.known(*group)
        self.assertEqual(detector.boundary, OTHER)
        self.assertEqual(feed(detector, *group, *group), [(5, True), (11, True)])

    def test_one_optimizer_steps_more_often_than_the_other(self):
        group = (BACKWARD, STEP) * 3 + (BACKWARD, OTHER)
        detector = self.known(*group)
        self.assertEqual(feed(detector, *group, *group), [(7, True), (15, True)])
        group = (BACKWARD, OTHER) + (BACKWARD, STEP) * 3
        detector = self.known(*group)
        self.assertEqual(feed(detector, *group, *group), [(7, True), (15, True)])

    def test_no_optimizer(self):
        detector = self.known(FORWARD, BACKWARD)
        self.assertEqual(detector.boundary, FORWARD)
        ends = feed(detector, FORWARD, BACKWARD, FORWARD, BACKWARD, FORWARD)
        self.assertEqual([number for number, _ in ends], [0, 2, 4])
        self.assertTrue(all(clean for _, clean in ends))

    def test_a_closure_is_evaluated_as_often_as_it_likes(self):
        detector = StepDetector()
        detector.note_closure()
        feed(detector, *((FORWARD, BACKWARD, FORWARD, BACKWARD, STEP) * 8))
        self.assertTrue(detector.is_known)
        self.assertEqual(feed(detector, *((FORWARD, BACKWARD) * 7), STEP), [(14, True)])

    def test_says_what_was_seen(self):
        detector = StepDetector()
        self.assertIn("no forward pass", detector.seen())
        feed(detector, FORWARD, FORWARD, BACKWARD)
        self.assertEqual(detector.seen(), "only 2 x forward 0, 1 x backward")

    def test_gives_up_where_nothing_repeats(self):
        detector = StepDetector()
        feed(detector, *([FORWARD] * 5000))
        self.assertFalse(detector.is_known)
        self.assertIn("nothing repeated", detector.seen())

    def test_the_cycle_does_not_begin_inside_of_a_row(self):
        self.assertEqual(last_of_cycle([0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0]), (1, 1))
        self.assertIsNone(last_of_cycle([0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0]))


if __name__ == "__main__":
    unittest.main()
