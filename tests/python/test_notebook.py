# SPDX-License-Identifier: Apache-2.0
"""session() and tune() in a program of their own, with the real session beside it."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from stand_in import PATIENCE_S

LOOP = """
    import autotuned
    import torch
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    made = 0
    def step():
        global made
        made += 1
        optimizer.zero_grad(set_to_none=False)
        model(torch.randn(32, 64)).square().mean().backward()
        optimizer.step()
    def digest():
        return float(sum(parameter.double().sum() for parameter in model.parameters()))
"""


class NotebookTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {
            **os.environ,
            "AUTOTUNED_HISTORY": str(self.folder / "history.db"),
            "XDG_RUNTIME_DIR": str(self.folder),
            "AUTOTUNED_LOCKS": str(self.folder),
            "PYTHONWARNINGS": "ignore",
        }

    def program(self, text, **variables):
        """What it prints, line by line, and what is on its standard error."""
        file = self.folder / "program.py"
        file.write_text(textwrap.dedent(LOOP) + textwrap.dedent(text), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(file)],
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines(), done.stderr

    def history(self):
        command = [os.environ["AUTOTUNED_PROGRAM"], "history", "--json"]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True
        ).stdout

    def test_tune_makes_real_steps_and_exact_changes_alone(self):
        lines, error = self.program(
            """
            tuned = autotuned.tune(step, budget_seconds=6)
            print(type(tuned.change).__name__, tuned.why == "", tuned.run[:2])
            tuned_digest, steps = digest(), made
            torch.manual_seed(1)
            for layer in model:
                if hasattr(layer, "reset_parameters"):
                    layer.reset_parameters()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for _ in range(steps):
                step()
            print(tuned_digest == digest(), steps > 10)
            """
        )
        self.assertEqual(lines, ["str True r-", "True True"], error)
        self.assertIn("autotuned: step is tuned on its own steps", error)
        self.assertIn('"step"', self.history())

    def test_where_nothing_was_kept_there_is_no_change(self):
        """A budget in which nothing can be tried."""
        lines, error = self.program(
            """
            tuned = autotuned.tune(step, budget_seconds=0.001)
            print(repr(tuned.change), repr(tuned.why), tuned.speedup)
            """
        )
        self.assertEqual(lines, ["'' '' None"], error)

    def test_a_session_that_is_closed_early_lets_the_loop_go_on(self):
        lines, error = self.program(
            """
            before = torch.optim.Optimizer.__init__
            with autotuned.session("early") as opened:
                print(torch.optim.Optimizer.__init__ is before)
                for _ in range(30):
                    step()
                print(opened.is_over)
            print(opened.is_over, opened.result.change == "", "closed before" in opened.result.why)
            for _ in range(3):
                step()
            print(torch.optim.Optimizer.__init__ is before, made)
            """
        )
        self.assertEqual(lines, ["False", "False", "True True True", "True 33"], error)
        self.assertIn("autotuned: early is no longer tuned: ", error)

    def test_what_is_raised_inside_reaches_the_program(self):
        lines, _ = self.program(
            """
            try:
                with autotuned.session("raises"):
                    raise KeyError("mine")
            except KeyError as error:
                print("raised", error)
            """
        )
        self.assertEqual(lines, ["raised 'mine'"])

    def test_refuses_what_cannot_be_tuned(self):
        lines, _ = self.program(
            """
            import threading
            def attempt(function):
                try:
                    function()
                except (RuntimeError, ValueError) as error:
                    print(error)
            def twice():
                with autotuned.session("one"), autotuned.session("two"):
                    pass
            attempt(lambda: autotuned.session("x", allow=["everything"]))
            attempt(lambda: autotuned.session("x", budget_seconds=0))
            attempt(twice)
            other = threading.Thread(target=lambda: attempt(autotuned.session("x").__enter__))
            other.start()
            other.join()
            """
        )
        self.assertEqual(
            lines,
            [
                "allow: expected numerics, semantics or a knob, found 'everything'",
                "budget_seconds must be above 0",
                "another session is open in this program",
                "only the main thread's training is tuned",
            ],
        )

    def test_a_session_that_does_not_start_is_an_error(self):
        lines, _ = self.program(
            """
            try:
                with autotuned.session("x"):
                    step()
                    print("went on")
            except RuntimeError as error:
                print("refused")
            """,
            AUTOTUNED_PROGRAM="/bin/false",
        )
        # It may die before the first word or behind it; the loop is unharmed in either case.
        self.assertIn(lines, (["refused"], ["went on"]))


if __name__ == "__main__":
    unittest.main()
