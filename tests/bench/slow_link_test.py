# SPDX-License-Identifier: Apache-2.0
"""bench/slow_link.py over programs that only pretend: no namespace, no limited device, no tuning."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench/slow_link.py"
START = {"ddp.bucket_cap_mb": 100, "ddp.comm_hook": "none", "ddp.gradient_as_bucket_view": False}


def run_of(kept):
    trial = {"number": 1, "plugin": "gradient_buckets", "reference": START, "change": {"ddp.bucket_cap_mb": 3},
             "verdict": "accepted", "ratio": 1.3, "ratio_low": 1.2, "ratio_high": 1.4, "pairs": 9,
             "proposal_reason": "it waits"}
    return {"starting": {"configuration": START}, "baseline": {"samples_per_second": 100.0}, "tuning_seconds": 30.0,
            "best": {"configuration": {**START, **kept}, "samples_per_second": 180.0, "speedup": 1.8, "speedup_low": 1.7,
                     "speedup_high": 1.9},
            "trials": [trial]}


class SlowLink(unittest.TestCase):
    def measure(self, kept, tc="exit 0"):
        with tempfile.TemporaryDirectory() as folder:
            result = json.dumps(run_of(kept))
            programs = {
                "unshare": 'while test "$1" != sh; do shift; done; exec "$@"',
                "ip": "exit 0",
                "tc": tc,
                "autotuned": f'test "$1" = run || exit 9\ncat <<\'END\'\n{result}\nEND',
            }
            for name, text in programs.items():
                program = pathlib.Path(folder) / name
                program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
                program.chmod(0o755)
            return subprocess.run(
                [sys.executable, "-B", str(SCRIPT), str(pathlib.Path(folder) / "autotuned")], text=True, capture_output=True,
                env={**os.environ, "PATH": f"{folder}:/usr/bin:/bin"})

    def test_tells_what_was_changed(self):
        done = self.measure({"ddp.bucket_cap_mb": 3, "ddp.comm_hook": "bf16"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| `ddp.bucket_cap_mb` | 100 | 3 |", done.stdout)
        self.assertIn("| `ddp.gradient_as_bucket_view` | off | off |", done.stdout)
        self.assertIn("| faster | | 1.80 x (1.70 to 1.90) |", done.stdout)
        self.assertIn("| 1, gradient_buckets | ddp.bucket_cap_mb 100 → 3 | accepted | 1.30 (1.20 to 1.40) | 9 | it waits |",
                      done.stdout)

    def test_fails_where_one_setting_stays(self):
        self.assertEqual(self.measure({"ddp.bucket_cap_mb": 3}).returncode, 1)
        self.assertEqual(self.measure({"ddp.comm_hook": "bf16"}).returncode, 1)

    def test_is_skipped_where_no_device_can_be_limited(self):
        done = self.measure({}, tc='echo "kind is unknown" >&2; exit 2')
        self.assertEqual(done.returncode, 77)
        self.assertIn("skipped: no device can be limited here: kind is unknown", done.stderr)


if __name__ == "__main__":
    unittest.main()
