# SPDX-License-Identifier: Apache-2.0
"""The command of the wheel, with a program that says how it was started."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from stand_in import ROOT

from autotuned.installation import launch

START = "import sys; from autotuned.installation.launch import main; sys.exit(main())"
PROGRAM = """\
#!/bin/sh
echo "arguments $*"
echo "libtorch $AUTOTUNED_LIBTORCH"
echo "startup $AUTOTUNED_STARTUP"
exit 7
"""


class LaunchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = Path(folder.name) / "site"
        shutil.copytree(
            ROOT / "python" / "autotuned",
            self.site / "autotuned",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        self.program = self.site / "autotuned" / "prefix" / "bin" / "autotuned"
        self.program.parent.mkdir(parents=True)
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def install_torch(self, version):
        folder = self.site / "torch"
        folder.mkdir()
        (folder / "__init__.py").write_text("raise SystemExit('it was imported')\n")
        (folder / "version.py").write_text(f"from x import y\n__version__ = '{version}'\n")
        return folder

    def start(self, *arguments, **variables):
        done = subprocess.run(
            # Without the site-packages of this machine, which may have a PyTorch.
            [sys.executable, "-S", "-c", START, *arguments],
            env={"PYTHONPATH": str(self.site), "PATH": os.environ["PATH"], **variables},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout.splitlines(), done.stderr

    def test_becomes_the_program(self):
        torch = self.install_torch("2.11.0+cu130")
        code, said, error = self.start("run", "recipe.yaml", "--budget", "1min")
        self.assertEqual((code, error), (7, ""))
        self.assertEqual(
            said,
            [
                "arguments run recipe.yaml --budget 1min",
                f"libtorch {torch}",
                f"startup {self.site}/autotuned/startup",
            ],
        )

    def test_analyzes_without_pytorch(self):
        code, said, error = self.start("analyze", "some.json")
        self.assertEqual((code, error), (7, ""))
        self.assertEqual(said[:2], ["arguments analyze some.json", "libtorch "])

    def test_a_recipe_needs_pytorch(self):
        code, said, error = self.start("run", "recipe.yaml")
        self.assertEqual((code, said), (launch.ENVIRONMENT_UNUSABLE, []))
        self.assertIn("there is no PyTorch in this environment; pip install 'torch==2", error)

    def test_a_recipe_needs_this_pytorch(self):
        self.install_torch("2.9.1+cpu")
        code, said, error = self.start("profile", "recipe.yaml")
        self.assertEqual((code, said), (launch.ENVIRONMENT_UNUSABLE, []))
        self.assertIn("this environment has PyTorch 2.9.1+cpu", error)

    def test_a_script_brings_its_own(self):
        self.install_torch("2.9.1+cpu")
        for command in ("run train.py --epochs 2", "run -- python -m pkg"):
            code, said, error = self.start(*command.split())
            self.assertEqual((code, error), (7, ""))
            self.assertEqual(said[:2], [f"arguments {command}", "libtorch "])

    def test_the_doctor_is_asked_all_the_same(self):
        code, said, error = self.start("doctor")
        self.assertEqual((code, said[0]), (7, "arguments doctor"))
        self.assertTrue(error.startswith("autotuned: warning: recipes are trained with"), error)

    def test_what_somebody_has_set_is_left_alone(self):
        self.install_torch("2.9.1+cpu")
        code, said, error = self.start(
            "run", "recipe.yaml", AUTOTUNED_LIBTORCH="mine", AUTOTUNED_STARTUP="my/startup"
        )
        self.assertEqual((code, error), (7, ""))
        self.assertEqual(said[1:], ["libtorch mine", "startup my/startup"])

    def test_says_that_its_program_is_missing(self):
        self.program.unlink()
        code, _, error = self.start("analyze", "some.json")
        self.assertEqual(code, launch.ENVIRONMENT_UNUSABLE)
        self.assertIn("this installation has no program", error)

    def test_scripts_run_in_the_virtual_environment(self):
        with mock.patch.multiple(sys, prefix="/venv", executable="/venv/bin/python"):
            path = launch.environment_for({"PATH": "/usr/bin"}, None)["PATH"]
            self.assertEqual(path, "/venv/bin:/usr/bin")
            active = launch.environment_for({"PATH": "/x:/venv/bin"}, None)["PATH"]
            self.assertEqual(active, "/x:/venv/bin")
        with mock.patch.multiple(sys, prefix="/usr", base_prefix="/usr"):
            self.assertEqual(launch.environment_for({"PATH": "/a"}, None)["PATH"], "/a")


if __name__ == "__main__":
    unittest.main()
