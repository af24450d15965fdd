# SPDX-License-Identifier: Apache-2.0
"""bench/placebos counts the trials of a file right. No trainer is started."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["AUTOTUNED_PLACEBOS"]


def trial(**fields):
    return {"recipe": "small", "kind": "restart", "gain_ratio": 0.0, "disturbers": 0,
            "verdict": "rejected", "reason": "", "ratio": 1.0, "low": 0.98, "high": 1.02, "pairs": 9,
            "seconds": 3.0, "others_ratio": 0.0, "stolen_ratio": 0.0, **fields}


class Placebos(unittest.TestCase):
    def table_of(self, trials, *options):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "trials.jsonl"
            file.write_text("".join(json.dumps(one) + "\n" for one in trials))
            done = subprocess.run([PROGRAM, "small.yaml", "--trials", "0", "--json", str(file), *options],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [[cell.strip() for cell in line.strip("|\n").split("|")]
                for line in done.stdout.splitlines()[2:]]

    def test_counts_winners_and_intervals(self):
        rows = self.table_of([trial()] * 17 + [trial(high=0.99, low=0.9, ratio=0.95),
                                               trial(verdict="accepted", low=1.01, ratio=1.05),
                                               trial(verdict="accepted", low=1.02, high=1.1, ratio=1.05),
                                               trial(verdict="failed", low=0.0, high=0.0, ratio=1.0)])
        self.assertEqual(len(rows), 1)
        self.assertEqual(rows[0][4:9], ["20", "1", "2 (10.0 %; 1.2 to 31.7 %)",
                                        "1 (5.0 %; 0.1 to 24.9 %)", "2 (10.0 %; 1.2 to 31.7 %)"])

    def test_a_gain_counts_as_found_within_the_limit(self):
        found = trial(gain_ratio=0.05, verdict="accepted", low=1.02, high=1.08, ratio=1.05, seconds=20.0)
        rows = self.table_of([found, {**found, "seconds": 70.0}, trial()], "--seconds", "60")
        self.assertEqual([row[2] for row in rows], ["+0 %", "+5 %"])
        self.assertTrue(rows[1][6].startswith("1 (50.0 %"), rows[1])
        self.assertTrue(rows[1][7].startswith("0 "), rows[1])


if __name__ == "__main__":
    unittest.main()
