# SPDX-License-Identifier: Apache-2.0
"""bench/peers/search_tpe.py on a small grid, with a stand-in for Optuna that asks for points by chance."""

import json
import os
import pathlib
import random
import sys
import tempfile
import types
import unittest

PEERS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"
sys.path.insert(0, str(PEERS))

import search_tpe  # noqa: E402

START = {"loader.workers": 0, "input.decode": "full", "batch_size": 32}


class Trial:
    def __init__(self, study, given):
        self.study, self.given = study, given

    def suggest_int(self, name, low, high):
        return self.given[name] if name in self.given else self.study.random.randint(low, high)

    def suggest_categorical(self, name, choices):
        return self.given[name] if name in self.given else self.study.random.choice(choices)


class Study:
    def __init__(self, sampler):
        self.random, self.given, self.is_stopped = random.Random(sampler), [], False

    def enqueue_trial(self, given):
        self.given.append(given)

    def stop(self):
        self.is_stopped = True

    def optimize(self, objective, n_trials):
        for _ in range(n_trials):
            if not self.is_stopped:
                objective(Trial(self, self.given.pop(0) if self.given else {}))


OPTUNA = types.SimpleNamespace(
    create_study=lambda direction, sampler: Study(sampler),
    samplers=types.SimpleNamespace(TPESampler=lambda seed, multivariate: seed),
)


def grid():
    points = []
    for workers in (0, 1, 2, 3):
        for decode in ("full", "crop"):
            rate = 100 + 10 * workers + (5 if decode == "crop" else 0)
            change = {"loader.workers": workers, "input.decode": decode}
            points.append({"name": "", "change": {name: value for name, value in change.items() if value != START[name]},
                           "samples_per_second": [rate - 1, rate, rate + 1]})
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "grid.json")
        with open(path, "w") as file:
            json.dump({"start": START, "points": points}, file)
        return search_tpe.read(path)


class SearchTpe(unittest.TestCase):
    def test_reads_what_varies(self):
        names, values, rates, start, best = grid()
        self.assertEqual(names, ["input.decode", "loader.workers"])
        self.assertEqual(values["loader.workers"], [0, 1, 2, 3])
        self.assertEqual(rates["crop", 3], 135)
        self.assertEqual(start, {"input.decode": "full", "loader.workers": 0})
        self.assertEqual(best, 135)

    def test_stops_at_the_regret_that_was_asked_for(self):
        for seed in range(20):
            few, much = search_tpe.search(OPTUNA, grid(), seed, 0.15)
            many, little = search_tpe.search(OPTUNA, grid(), seed, 0.0)
            self.assertLessEqual(much, 0.15)
            self.assertLessEqual(little, 0.0)
            self.assertLessEqual(few, many)
            self.assertLessEqual(many, 7)  # all but the start

    def test_does_not_count_a_start_that_is_good_enough(self):
        self.assertEqual(search_tpe.search(OPTUNA, grid(), 1, 0.5)[0], 0)

    def test_takes_no_luck_for_a_rate(self):
        rolls = random.Random(1)
        best = [search_tpe.best_rate([[100 + rolls.gauss(0, 5) for _ in range(5)] for _ in range(40)])
                for _ in range(100)]
        self.assertAlmostEqual(sum(best) / len(best), 100, delta=1)


if __name__ == "__main__":
    unittest.main()
