# SPDX-License-Identifier: Apache-2.0
"""bench/verdicts on noise that is made up: the columns of its table are about the same verdicts."""

import os
import pathlib
import random
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["AUTOTUNED_VERDICTS"]


NAMES = ("quiet2", "disturbed2", "disturbed1")


def write_traces(folder: str, blocks: int) -> None:
    rolls = random.Random(1)
    for name in NAMES:
        lines = ["start_ns,duration_ns,steps"]
        lines += [f"{i * 1_000_000_000},{int(1e9 * (0.9 + 0.1 * rolls.random()))},100" for i in range(blocks)]
        (pathlib.Path(folder) / f"{name}.csv").write_text("\n".join(lines) + "\n")


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *arguments], text=True, capture_output=True, timeout=60)


def table(*arguments: str) -> list[dict]:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    assert all(len(row) == len(rows[0]) for row in rows), text
    return [dict(zip(rows[0], row)) for row in rows[2:]]


def share(text: str) -> float:
    return float(text.removesuffix("%"))


class Verdicts(unittest.TestCase):
    def test_tells_how_many_pairs_a_doubling_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            write_traces(folder, 40)
            rows = table("--data", folder, "--windows", "40")
        self.assertEqual(len(rows), 9)
        column = "accepted within 8 pairs"
        for row in rows:
            self.assertLessEqual(share(row[column]), share(row["accepted"]) + 0.1, row)
        # Noise of a tenth hides no doubling: seven pairs of one sign are enough.
        self.assertEqual([row[column] for row in rows if row["true gain"] == "+100 %"], ["100.0 %"] * 3)
        self.assertLess(max(share(row[column]) for row in rows if row["true gain"] == "+0 %"), 10)

    def test_refuses_a_trace_that_is_shorter_than_a_window(self):
        for blocks in (0, 1, 20):
            with tempfile.TemporaryDirectory() as folder:
                write_traces(folder, blocks)
                done = run("--data", folder, "--windows", "1")
            self.assertEqual(done.returncode, 1, blocks)
            self.assertIn("quiet2.csv: the trace has", done.stderr)

    def test_times_equal_work_a_little_less_and_half_of_it(self):
        # Figures are for a quiet machine: here only what the rows are about.
        for disturbers, name in (((), "live"), (("--disturb", "1"), "live, disturbed")):
            rows = table("--live", "--verdicts", "1", "--block-ms", "1", "--pairs", "2", *disturbers)
            self.assertEqual([row["true gain"] for row in rows], ["+0 %", "+5 %", "+100 %"])
            self.assertEqual({row["noise"] for row in rows}, {name})


if __name__ == "__main__":
    unittest.main()
