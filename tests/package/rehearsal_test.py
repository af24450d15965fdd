# SPDX-License-Identifier: Apache-2.0
"""Parts of the rehearsals on empty systems that need no empty system."""

import os
import pathlib
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ["AUTOTUNED_SOURCE_DIR"])


def bash(text, *arguments):
    """With the functions of scripts/lib; what it says."""
    sourced = f'set -euo pipefail; source "{SOURCE}/scripts/lib/common.sh"; source "{SOURCE}/scripts/lib/rehearsal.sh"; '
    done = subprocess.run(["bash", "-c", sourced + text, "bash", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


class Rehearsal(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        bash('write_until_tuned "$1"', str(self.folder / "until-tuned"))

    def until_tuned(self, text):
        command = ["sh", str(self.folder / "until-tuned"), str(self.folder), "sh", "-c", text]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return done.stdout, time.monotonic() - began

    def test_a_script_is_ended_behind_its_tuning(self):
        said, seconds = self.until_tuned('pwd; echo "autotuned: tuning   3.1 s, 0.2 s more"; exec sleep 100')
        self.assertEqual(said, f"{self.folder.resolve()}\nautotuned: tuning   3.1 s, 0.2 s more\n")
        self.assertLess(seconds, 60.0)

    def test_one_that_ends_before_is_told(self):
        said, seconds = self.until_tuned("echo it is not tuned; exit 3")
        self.assertEqual(said, "it is not tuned\n")
        self.assertLess(seconds, 60.0)

    def test_times_are_told_in_seconds(self):
        self.assertEqual(bash("in_seconds 61250; echo; in_seconds 40"), "61.2 s\n0.0 s")


if __name__ == "__main__":
    unittest.main()
