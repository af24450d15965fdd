# SPDX-License-Identifier: Apache-2.0
"""bench/tuning_time.py over two programs that answer at once."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench/tuning_time.py"

AUTOTUNED = """#!{python}
import json, sys
assert sys.argv[1:3] == ["run", "job.yaml"] and "--tune-only" in sys.argv and "--budget=9s" in sys.argv, sys.argv
print("progress")
print(json.dumps({{"tuning_seconds": {seconds}, "trials": [{{}}, {{}}], "best": {{"speedup": 1.5}}}}))
"""


class TuningTime(unittest.TestCase):
    def test_compares_the_times_of_two_builds(self):
        with tempfile.TemporaryDirectory() as folder:
            programs = []
            for name, seconds in (("old", 40.0), ("new", 50.0)):
                program = pathlib.Path(folder) / name
                program.write_text(AUTOTUNED.format(python=sys.executable, seconds=seconds))
                program.chmod(0o755)
                programs.append(str(program))
            done = subprocess.run([sys.executable, "-B", str(SCRIPT), *programs, "job.yaml", "--runs", "2",
                                   "--option=--budget=9s"], text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line for line in done.stdout.splitlines() if line.startswith("| ")][1:]
        self.assertEqual(sorted(row.split(" | ")[1] for row in rows), ["new", "new", "old", "old"])
        self.assertIn("new over old: median 1.25 (1.25 to 1.25 over 2 pairs)", done.stdout)


if __name__ == "__main__":
    unittest.main()
