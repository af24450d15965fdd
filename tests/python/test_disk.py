# SPDX-License-Identifier: Apache-2.0
"""A disk that fills up under a tuned script loses nothing: neither what the script has saved, nor
what the history has acknowledged.
"""

import functools
import os
import re
import resource
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from stand_in import PATIENCE_S, alone

# Saves a checkpoint now and then, as scripts do that must not lose the last one: beside it, then
# renamed. With a file to fill in its variables, it fills the disk once the history is there, and
# frees it for its last steps.
SCRIPT = """
import io, os, sys
import torch
from torch import nn
place, steps = sys.argv[1], int(sys.argv[2])
filling = os.environ.get("FILLING")
is_full = False
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
saved = failed = 0

def save(step):
    global saved, failed
    content = io.BytesIO()
    torch.save({"step": step, "model": model.state_dict()}, content)
    beside = os.path.join(place, "model.pt.new")
    try:
        with open(beside, "wb") as file:
            file.write(content.getvalue())
        os.replace(beside, os.path.join(place, "model.pt"))
        saved += 1
    except OSError:
        failed += 1
        os.remove(beside)

def fill():
    with open(filling, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass

for step in range(steps):
    if filling and not is_full and (os.path.exists(place + "/history.db") or step == steps // 10):
        is_full = True
        fill()
        save(step)
    if filling and step == 8 * steps // 10:
        os.remove(filling)
    optimizer.zero_grad(set_to_none=False)
    model(torch.randn(32, 16)).square().mean().backward()
    optimizer.step()
    if step % (steps // 20) == steps // 20 - 1:
        save(step)
print("step", step, "sum", float(sum(one.double().sum() for one in model.parameters())))
print("saved or not", saved + failed, "not saved", failed, file=sys.stderr)
"""
STEPS = 30_000
# What there is to say of a history that does not fit.
FULL = "is full|No space left|too large|free space|disk I/O"


class DiskTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.script = Path(folder.name) / "train.py"
        cls.script.write_text(SCRIPT, encoding="utf-8")
        cls.wanted_place = Path(folder.name) / "alone"
        cls.wanted_place.mkdir()
        command = (str(cls.script), str(cls.wanted_place), str(STEPS))
        code, cls.wanted, error = alone(*command, environment={"PYTHONWARNINGS": "ignore"})
        assert code == 0, error

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(self.folder),
            "XDG_STATE_HOME": str(self.folder),
            "AUTOTUNED_LOCKS": str(self.folder),
            "PYTHONWARNINGS": "ignore",
            # Python does not notice that a file of bytecode is cut off.
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def program(self, *words, history, variables=None, **options):
        program = os.environ["AUTOTUNED_PROGRAM"]
        command = [program, words[0], "--history", str(history), *words[1:]]
        return subprocess.run(
            command,
            env={**self.environment, **(variables or {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            **options,
        )

    def tuned(self, place, history, **options):
        words = ("run", "--budget", "3s", "--", sys.executable, str(self.script), str(place))
        return self.program(*words, str(STEPS), history=history, **options)

    def assert_trained(self, done):
        """To its end, as alone. The lines that say that the disk is why it is not tuned."""
        self.assertEqual((done.returncode, done.stdout), (0, self.wanted), done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        lines = [line for line in done.stderr.splitlines() if " tuned: " in line]
        return [line for line in lines if "history.db" in line and re.search(FULL, line)]

    def assert_whole(self, place):
        """The last checkpoint is that of the script alone, and nothing lies beside it."""
        self.assertEqual(
            (place / "model.pt").read_bytes(), (self.wanted_place / "model.pt").read_bytes()
        )
        self.assertFalse((place / "model.pt.new").exists())

    def assert_history_is_whole(self, history):
        """And the next run, which has room, is on record."""
        again = self.tuned(self.folder, history)
        self.assertEqual(self.assert_trained(again), [])
        run = re.search(r"\(run (r-[0-9a-f-]+)\)", again.stderr)
        self.assertIsNotNone(run, again.stderr)
        runs = self.program("history", "--json", history=history)
        self.assertEqual(runs.returncode, 0, runs.stderr)
        self.assertIn(run[1], runs.stdout)
        database = sqlite3.connect(history)
        self.addCleanup(database.close)
        self.assertEqual(database.execute("PRAGMA integrity_check").fetchall(), [("ok",)])

    def test_a_history_that_may_not_grow(self):
        """A file may have so many bytes: enough for the checkpoint."""
        told = []
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        for limit in (20_000, 150_000):
            with self.subTest(limit):
                history = self.folder / str(limit) / "history.db"
                history.parent.mkdir()
                done = self.tuned(
                    history.parent,
                    history,
                    preexec_fn=functools.partial(
                        resource.setrlimit, resource.RLIMIT_FSIZE, (limit, hard)
                    ),
                )
                told += self.assert_trained(done)
                self.assert_whole(history.parent)
                self.assertIn("saved or not 20 not saved 0\n", done.stderr)
                self.assert_history_is_whole(history)
        self.assertGreaterEqual(len(told), 1)

    def test_a_disk_that_the_script_fills(self):
        """Its checkpoints and the history are on one small disk."""
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m", "autotuned-test", str(disk)],
            capture_output=True,
            text=True,
            check=False,
        )
        if mounted.returncode != 0:
            self.skipTest(f"mounting a file system is not permitted here: {mounted.stderr}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(disk)], check=True)
        history = disk / "history.db"
        done = self.tuned(disk, history, variables={"FILLING": str(disk / "filling")})
        self.assertEqual(len(self.assert_trained(done)), 1, done.stderr)
        # The script itself has seen that a checkpoint did not fit.
        self.assertRegex(done.stderr, "saved or not 21 not saved [1-9]")
        self.assert_whole(disk)
        self.assert_history_is_whole(history)


if __name__ == "__main__":
    unittest.main()
