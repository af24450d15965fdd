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


def write_traces(folder: str, blocks: int, block_s: float = 1.0) -> None:
    rolls = random.Random(1)
    for name in NAMES:
        lines = ["start_ns,duration_ns,steps"]
        for i in range(blocks):
            duration_s = block_s * (0.9 + 0.1 * rolls.random())
            lines.append(f"{int(i * block_s * 1e9)},{int(duration_s * 1e9)},100")
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

    def test_replays_whole_runs_of_placebos_alone_and_beside_a_true_gain(self):
        with tempfile.TemporaryDirectory() as folder:
            write_traces(folder, 400, block_s=0.12)
            rows = table("--data", folder, "--runs", "3", "--placebos", "2")
        self.assertEqual([row["noise"] for row in rows], [name for name in NAMES for _ in range(2)])
        self.assertEqual([row["true gain beside them"] for row in rows], ["none", "+10 %"] * 3)
        for row in rows:
            self.assertEqual(row["runs"], "3")
            # Each of two live and two restart knobs.
            self.assertGreaterEqual(float(row["trials of a run"]), 4)
            self.assertLessEqual(share(row["a placebo was kept"]), share(row["a placebo won"]) + 0.01, row)
        # Noise of three per cent hides no tenth: a command that accepted nothing would show no error either.
        self.assertEqual([row["the gain was kept"] for row in rows], ["", "100.00 %"] * 3)

    def test_refuses_whole_runs_on_a_trace_that_is_too_short(self):
        with tempfile.TemporaryDirectory() as folder:
            write_traces(folder, 20)
            done = run("--data", folder, "--runs", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("quiet2.csv: the trace has", done.stderr)

    def test_times_equal_work_a_little_less_and_half_of_it(self):
        # Figures are for a quiet machine: here only what the rows are about.
        for disturbers, name in (((), "live"), (("--disturb", "1"), "live, disturbed")):
            rows = table("--live", "--verdicts", "1", "--block-ms", "1", "--pairs", "2", *disturbers)
            self.assertEqual([row["true gain"] for row in rows], ["+0 %", "+5 %", "+100 %"])
            self.assertEqual({row["noise"] for row in rows}, {name})


if __name__ == "__main__":
    unittest.main()
