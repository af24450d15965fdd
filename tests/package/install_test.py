# SPDX-License-Identifier: Apache-2.0
"""The installed programs find each other and their plugins, and nothing of the build is left in them."""

import json
import pathlib
import shutil
import sys
import unittest

import installation


class Installed(installation.Case):
    def test_finds_the_built_in_plugins_beside_it(self):
        plugins = self.plugins()
        self.assertGreaterEqual(len(plugins), 11)
        for plugin in plugins.values():
            self.assertEqual(plugin["state"], "ready", plugin)
            self.assertTrue(plugin["path"].startswith(f"{self.prefix}/lib/autotuned/plugins/"), plugin)

    def test_may_be_moved(self):
        shutil.copytree(self.prefix, self.home / "elsewhere")
        self.environment["PATH"] = f"{self.home}/elsewhere/bin:/usr/bin:/bin"
        for plugin in self.plugins().values():
            self.assertEqual(plugin["state"], "ready", plugin)
            self.assertTrue(plugin["path"].startswith(f"{self.home}/elsewhere/lib/"), plugin)
        self.autotuned("plugins", "new", "moved")

    def test_writes_a_run_as_one_page_with_the_licence_of_its_charts(self):
        self.use_fake_trainer({"optimizer.set_to_none=on": 1.3})
        run = self.tune("set_to_none")
        self.autotuned("export", run["run"], "--html", "run.html")
        page = (self.home / "run.html").read_text()
        self.assertIn(run["run"], page)
        self.assertIn("Permission is hereby granted", page)
        licence = self.prefix / "share/doc/autotuned/chart.js-licence"
        self.assertIn("Permission is hereby granted", licence.read_text())

    def test_runs_a_job(self):
        self.use_fake_trainer({"optimizer.set_to_none=on": 1.3})
        run = self.tune("set_to_none")
        self.assertEqual([trial["verdict"] for trial in run["trials"]][0], "accepted")

    def test_the_trainer_beside_it_finds_libtorch(self):
        trainer = self.prefix / "bin" / "autotuned-trainer"
        if not trainer.exists():
            self.skipTest("built without LibTorch")
        self.assertNotIn(b"$ORIGIN", trainer.read_bytes())
        self.assertNotIn(b"$ORIGIN", (self.prefix / "bin/autotuned").read_bytes())
        findings = json.loads(self.autotuned("doctor", "--json").stdout)["findings"]
        found = [finding for finding in findings if finding["subject"] == "trainer"]
        self.assertEqual(found[0]["health"], "ok", found)

    def test_python_finds_the_loader_beside_it(self):
        library = (self.prefix / "lib/autotuned/libautotuned_loader.so").read_bytes()
        self.assertNotIn(b"$ORIGIN", library)
        if b"__asan_init" in library or b"__tsan_init" in library:
            self.skipTest("Python is built without sanitizers")
        self.environment["PYTHONPATH"] = f"{self.prefix}/share/autotuned/python"
        text = ("import autotuned\n"
                "data = {'type': 'synthetic', 'samples': 6, 'shape': [3, 4, 4], 'classes': 2}\n"
                "print(len(autotuned.Loader(data, ['to_float'], batch_size=4, workers=1)))\n")
        self.assertEqual(self.call(sys.executable, "-S", "-c", text).stdout, "2\n")

    def test_libtorch_may_lie_elsewhere(self):
        trainer = self.prefix / "bin" / "autotuned-trainer"
        if not trainer.exists():
            self.skipTest("built without LibTorch")
        dynamic = self.call("readelf", "-d", trainer).stdout
        libtorch = pathlib.Path(dynamic.split("Library rpath: [")[1].split("]")[0])
        shutil.copytree(self.prefix, self.home / "elsewhere")
        program = self.home / "elsewhere/bin/autotuned"
        (self.home / "change.cmake").write_text(
            f'file(RPATH_CHANGE FILE "{self.home}/elsewhere/bin/autotuned-trainer"\n'
            f'  OLD_RPATH "{libtorch}" NEW_RPATH "/nowhere")\n')
        self.call("cmake", "-P", "change.cmake")
        done = self.call(program, "doctor", code=4)
        self.assertIn("AUTOTUNED_LIBTORCH", done.stdout)
        self.environment["AUTOTUNED_LIBTORCH"] = str(libtorch.parent)
        self.call(program, "doctor")

    def test_brings_a_unit_that_systemd_takes(self):
        unit = self.prefix / "lib/systemd/user/autotuned.service"
        text = unit.read_text()
        self.assertIn(f"\nExecStart={self.prefix}/bin/autotuned serve\n", text)
        # Exit codes that say that trying again is of no use.
        self.assertIn("\nRestartPreventExitStatus=2 4\n", text)
        if not self.have("systemd-analyze"):
            self.skipTest("no systemd-analyze here")
        done = self.call("systemd-analyze", "verify", "--user", unit)
        self.assertEqual(done.stderr, "")  # what it only warns of does not change its exit code

    def test_tells_when_there_is_no_trainer(self):
        shutil.copytree(self.prefix, self.home / "elsewhere")
        (self.home / "elsewhere/bin/autotuned-trainer").unlink(missing_ok=True)
        self.environment["PATH"] = f"{self.home}/elsewhere/bin:/usr/bin:/bin"
        (self.home / "recipe.yaml").write_text(installation.RECIPE.replace("PLUGIN", "amp"))
        done = self.autotuned("run", "recipe.yaml", code=1)
        self.assertIn(f"{self.home}/elsewhere/bin/autotuned-trainer", done.stderr)


if __name__ == "__main__":
    unittest.main()
