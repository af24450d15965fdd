# SPDX-License-Identifier: Apache-2.0
"""The wheel of scripts/wheel: what is in it, and that nothing else of this system is needed."""

import configparser
import email
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(os.environ["AUTOTUNED_SOURCE_DIR"])
EVERYWHERE = re.compile(r"(linux-vdso|ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil|libmvec|libstdc\+\+|libgcc_s)\.so")
OF_TORCH = re.compile(r"lib(torch|c10|gomp|cudart|cupti)")
ELF = b"\x7fELF"


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        wheels = sorted((SOURCE / "build/wheel").glob("*.whl"))
        if not wheels:
            raise unittest.SkipTest("there is no wheel: scripts/wheel makes one")
        sources = [*(SOURCE / "python").rglob("*.py"), SOURCE / "build/release/bin/autotuned"]
        if any(file.exists() and file.stat().st_mtime > wheels[0].stat().st_mtime for file in sources):
            raise unittest.SkipTest("the wheel is older than what it is made of: scripts/wheel makes a new one")
        cls.wheels = wheels
        cls.packed = zipfile.ZipFile(wheels[0])
        cls.addClassCleanup(cls.packed.close)
        cls.names = cls.packed.namelist()
        folder = tempfile.TemporaryDirectory(prefix="autotuned-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.site = pathlib.Path(folder.name)
        for entry in cls.packed.infolist():
            unpacked = pathlib.Path(cls.packed.extract(entry, cls.site))
            unpacked.chmod(entry.external_attr >> 16 & 0o777 or 0o644)
        cls.prefix = cls.site / "autotuned/prefix"

    def information(self, name):
        """A file of the dist-info folder."""
        (path,) = (one for one in self.names if one.endswith(f".dist-info/{name}"))
        return self.packed.read(path).decode()

    def elf_files(self):
        files = [file for file in self.site.rglob("*") if file.is_file() and file.open("rb").read(4) == ELF]
        self.assertGreater(len(files), 18)
        return files

    def test_one_wheel_for_every_python(self):
        self.assertEqual(len(self.wheels), 1)
        self.assertRegex(self.wheels[0].name, r"^autotuned-[0-9.]+-py3-none-manylinux_2_\d+_x86_64\.whl$")
        about = email.message_from_string(self.information("METADATA"))
        self.assertEqual(about["Requires-Python"], ">=3.10")
        self.assertEqual(about.get_all("Requires-Dist"), ['torch==2.11.*; extra == "torch"'])

    def test_one_command(self):
        entries = configparser.ConfigParser()
        entries.read_string(self.information("entry_points.txt"))
        self.assertEqual(dict(entries["console_scripts"]), {"autotuned": "autotuned.installation.launch:main"})

    def test_the_whole_package_and_once(self):
        package = SOURCE / "python"
        wanted = {str(file.relative_to(package)) for file in (package / "autotuned").rglob("*.py")}
        self.assertEqual({name for name in self.names if name.endswith(".py")}, wanted)

    def test_programs_plugins_and_headers(self):
        built = SOURCE / "build/release"
        for folder in ("lib/autotuned/plugins", "include/autotuned", "share/autotuned/templates", "lib/cmake"):
            wanted = {str(file.relative_to(built)) for file in (built / folder).rglob("*") if file.is_file()}
            packed = {str(file.relative_to(self.prefix)) for file in (self.prefix / folder).rglob("*") if file.is_file()}
            self.assertEqual(packed, wanted)
        for program in ("autotuned", "autotuned-trainer"):
            self.assertTrue(os.access(self.prefix / "bin" / program, os.X_OK), program)
        self.assertEqual(sorted(file.name for file in (self.prefix / "bin").iterdir()), ["autotuned", "autotuned-trainer"])

    def test_every_library_comes_along_or_is_everywhere(self):
        bundled = {file.name for file in (self.prefix / "lib/system").iterdir()}
        self.assertTrue(any(name.startswith("libyaml-cpp") for name in bundled), bundled)
        self.assertEqual({name for name in bundled if OF_TORCH.match(name)}, set())
        licences = {file.name for file in (self.prefix / "share/doc/autotuned/licences").iterdir()}
        self.assertTrue(any(name.startswith("libyaml-cpp") for name in licences), licences)
        missing = set()
        for file in self.elf_files():
            dynamic = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
            for name in re.findall(r"\(NEEDED\)\s+Shared library: \[(.+?)\]", dynamic):
                if name not in bundled and not EVERYWHERE.match(name) and not OF_TORCH.match(name):
                    missing.add(f"{file.name}: {name}")
            run_path = re.findall(r"(?:RPATH|RUNPATH)\)\s+Library r\w*path: \[(.*?)\]", dynamic)
            for folder in run_path:
                self.assertTrue(folder.startswith("$ORIGIN/"), f"{file}: {folder}")
                leads_to = (file.parent / folder.removeprefix("$ORIGIN/")).resolve()
                self.assertEqual(leads_to, (self.prefix / "lib/system").resolve(), file)
        self.assertEqual(missing, set())

    def test_nothing_names_the_folder_of_the_build(self):
        for file in self.site.rglob("*"):
            if file.is_file():
                self.assertNotIn(str(SOURCE).encode(), file.read_bytes(), file)

    def test_the_program_runs_where_it_was_unpacked(self):
        done = subprocess.run(
            [sys.executable, "-S", "-c", "from autotuned.installation.launch import main; main()", "plugins", "--json"],
            capture_output=True, text=True, cwd=self.site, check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.site), "PYTHONPATH": str(self.site),
                 "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"ready"', done.stdout)

    def test_the_loader_opens_where_it_was_unpacked(self):
        text = ("import autotuned\n"
                "data = {'type': 'synthetic', 'samples': 6, 'shape': [3, 4, 4], 'classes': 2}\n"
                "print(len(autotuned.Loader(data, ['to_float'], batch_size=4, workers=1)))\n")
        done = subprocess.run([sys.executable, "-S", "-c", text], capture_output=True, text=True, cwd=self.site,
                              check=False, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(self.site),
                                                "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual((done.returncode, done.stdout), (0, "2\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
