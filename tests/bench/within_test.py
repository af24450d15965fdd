# SPDX-License-Identifier: Apache-2.0
"""bench/within.py over an `autotuned` and a `scan` that answer at once."""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import within  # noqa: E402

START = {"batch_size": 64, "input.decode": "full", "input.jpeg_index": False, "loader.workers": 1}
KEPT = {**START, "input.decode": "crop", "loader.workers": 2}

AUTOTUNED = """
import json
print("progress")
print(json.dumps({"trials": [{"plugin": "num_workers", "change": {"loader.workers": 2}, "verdict": "accepted",
                              "ratio": 1.9, "ratio_low": 1.8, "ratio_high": None}],
                  "best": {"speedup": 3.0, "speedup_low": 2.5, "speedup_high": None, "configuration": KEPT},
                  "tuning_seconds": 12.0}))
"""

# The scan by hand finds the index; the comparison is of whole configurations.
SCAN = """
import json, sys
arguments = sys.argv
points = [{"name": "a", "change": {"loader.workers": 2}, "samples_per_second": [50, 60, 70]},
          {"name": "b", "change": BEST, "samples_per_second": [100, 90, 110]}]
if "-c" in arguments:
    assert "--knob" not in arguments
    texts = [arguments[i + 1] for i, one in enumerate(arguments) if one == "-c"]
    assert len(texts) == 2 and "input.jpeg_index=off" in texts[0] and "input.jpeg_index=on" in texts[1], texts
    rounds = int(arguments[arguments.index("--rounds") + 1])
    points = [{"name": texts[1], "change": {}, "samples_per_second": [100.0] * rounds},
              {"name": texts[0], "change": {}, "samples_per_second": [RATE] * rounds}]
with open(arguments[arguments.index("--output") + 1], "w") as file:
    json.dump({"start": START, "points": points}, file)
"""


class Within(unittest.TestCase):
    def run_with(self, rate: float, best: dict, *arguments: str) -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("autotuned", AUTOTUNED), ("scan", SCAN)):
                values = f"START = {START}\nKEPT = {KEPT}\nBEST = {best}\nRATE = {rate}\n"
                program = os.path.join(folder, name)
                with open(program, "w") as file:
                    file.write(f"#!{sys.executable}\n{values}{text}")
                os.chmod(program, 0o755)
            return subprocess.run([sys.executable, "-B", str(BENCH / "within.py"), "recipe.yaml", "--bin", folder,
                                   *arguments], text=True, capture_output=True, check=False)

    def test_is_content_when_the_lower_end_is_not_too_low(self):
        done = self.run_with(96.0, {**KEPT, "input.jpeg_index": True})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| 96 | 100 | 0.960 | 0.960 to 0.960 | 20 |", done.stdout)
        self.assertIn("| num_workers | `loader.workers=2` | accepted | 1.90 | 1.80 to - |", done.stdout)
        self.assertIn("Kept: `input.decode=crop loader.workers=2`.", done.stdout)

    def test_ends_with_1_when_it_is(self):
        self.assertEqual(self.run_with(94.0, {**KEPT, "input.jpeg_index": True}).returncode, 1)
        self.assertEqual(self.run_with(94.0, {**KEPT, "input.jpeg_index": True}, "--least", "0.9").returncode, 0)
        # Five pairs show nothing.
        self.assertEqual(self.run_with(99.0, {**KEPT, "input.jpeg_index": True}, "--pairs", "5").returncode, 1)

    def test_compares_nothing_with_itself(self):
        done = self.run_with(1.0, KEPT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("They are the same.", done.stdout)

    def test_says_which_program_failed(self):
        done = self.run_with("1/0", KEPT)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "error: .*/autotuned run ended with 1")

    def test_writes_values_as_they_are_read(self):
        self.assertEqual(within.text_of({"b": True, "a": 2, "c": "x", "env.UNSET": ""}), "a=2 b=on c=x")

    def test_knows_the_ends_of_a_median(self):
        self.assertEqual(within.interval([3.0, 1.0, 2.0]), (-math.inf, math.inf))
        self.assertEqual(within.interval([float(i) for i in range(6)]), (0.0, 5.0))
        self.assertEqual(within.interval([float(i) for i in range(20)]), (5.0, 14.0))


if __name__ == "__main__":
    unittest.main()
