# SPDX-License-Identifier: Apache-2.0
"""bench/verdicts on noise that is made up: the columns of its table are about the same verdicts."""

import os
import pathlib
import random
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["AUTOTUNED_VERDICTS"]


def table(*arguments: str) -> list[dict]:
    text = subprocess.run([PROGRAM, *arguments], text=True, capture_output=True, check=True).stdout
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    assert all(len(row) == len(rows[0]) for row in rows), text
    return [dict(zip(rows[0], row)) for row in rows[2:]]


def share(text: str) -> float:
    return float(text.removesuffix("%"))


class Verdicts(unittest.TestCase):
    def test_tells_how_many_pairs_a_doubling_takes(self):
        rolls = random.Random(1)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("quiet2", "disturbed2", "disturbed1"):
                lines = ["start_ns,duration_ns,steps"]
                lines += [f"{i * 1_000_000_000},{int(1e9 * (0.9 + 0.1 * rolls.random()))},100" for i in range(40)]
                (pathlib.Path(folder) / f"{name}.csv").write_text("\n".join(lines) + "\n")
            rows = table("--data", folder, "--windows", "40")
        self.assertEqual(len(rows), 9)
        column = "accepted within 8 pairs"
        for row in rows:
            self.assertLessEqual(share(row[column]), share(row["accepted"]) + 0.1, row)
        # Noise of a tenth hides no doubling: seven pairs of one sign are enough.
        self.assertEqual([row[column] for row in rows if row["true gain"] == "+100 %"], ["100.0 %"] * 3)
        self.assertLess(max(share(row[column]) for row in rows if row["true gain"] == "+0 %"), 10)


if __name__ == "__main__":
    unittest.main()
