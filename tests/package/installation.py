# SPDX-License-Identifier: Apache-2.0
"""`cmake --install` into a temporary prefix, and commands in the home of somebody who uses it."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["AUTOTUNED_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["AUTOTUNED_SOURCE_DIR"])

RECIPE = """\
autotuned: 1
name: small
device: cpu
model: {type: mlp, hidden: 16, classes: 4}
data: {type: synthetic, samples: 64, shape: [1, 8, 8], classes: 4}
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 1, batch_size: 8}
start: {optimizer.set_to_none: off}
tune: {plugins: [PLUGIN]}
output: {dir: out}
"""


class Case(unittest.TestCase):
    """An installation for all tests of a class, an empty home for each."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="autotuned-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = pathlib.Path(folder.name).resolve() / "prefix"
        subprocess.run([os.environ["CMAKE"], "--install", BUILD, "--prefix", cls.prefix],
                       check=True, stdout=subprocess.DEVNULL)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="autotuned-test-")
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name).resolve()
        self.environment = {
            "PATH": f"{self.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "CMAKE_GENERATOR": "Ninja",  # which builds this tree; make need not be there
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "XDG_RUNTIME_DIR": str(self.home),
            "AUTOTUNED_LOCKS": str(self.home),
        }
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                self.environment[name] = os.environ[name]

    def call(self, *command, code=0, folder=None):
        """Runs a command in the home; its exit code must be `code`."""
        done = subprocess.run([str(word) for word in command], cwd=folder or self.home, text=True,
                              capture_output=True, env=self.environment, check=False)
        self.assertEqual(done.returncode, code, f"{command}\n{done.stdout}\n{done.stderr}")
        return done

    def autotuned(self, *arguments, code=0, folder=None):
        return self.call("autotuned", *arguments, code=code, folder=folder)

    def plugins(self, *arguments):
        """What `autotuned plugins` says, by name."""
        found = json.loads(self.autotuned("plugins", "--json", *arguments).stdout)
        return {plugin["name"]: plugin for plugin in found}

    def use_fake_trainer(self, factors):
        """From here on a job's rate changes by these factors: {"loader.workers=1": 1.5}."""
        behaviour = self.home / "behaviour.json"
        behaviour.write_text(json.dumps({"factors": factors}))
        trainer = self.home / "trainer"
        trainer.write_text(f"#!/bin/sh\nAUTOTUNED_FAKE='{behaviour}' exec {BUILD}/tests/fake_trainer\n")
        trainer.chmod(0o755)
        self.environment["AUTOTUNED_TRAINER"] = str(trainer)

    def tune(self, plugin, *options):
        """`run --json --tune-only` of a small recipe that asks this plugin alone."""
        (self.home / "recipe.yaml").write_text(RECIPE.replace("PLUGIN", plugin))
        done = self.autotuned("run", "recipe.yaml", "--tune-only", "--json", *options)
        return json.loads(done.stdout.splitlines()[-1])

    def have(self, program):
        return shutil.which(program, path=self.environment["PATH"]) is not None
