# SPDX-License-Identifier: Apache-2.0
"""scripts/package: what it packs runs on a system that has glibc, libstdc++ and LibTorch, and nothing else of this one."""

import os
import pathlib
import re
import subprocess
import tarfile
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["AUTOTUNED_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["AUTOTUNED_SOURCE_DIR"])
EVERYWHERE = re.compile(r"(linux-vdso|ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil|libmvec|libstdc\+\+|libgcc_s)\.so")
LIBTORCH = re.compile(r"lib(torch|c10|gomp|cudart|cupti)")
# The size of the archive without photos. A lent machine may take no more than 64 MiB, this tree included.
MOST_BYTES = 40 << 20


@unittest.skipUnless(BUILD == SOURCE / "build/release", "packages are made of the release build")
class Packed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="autotuned-test-")
        cls.addClassCleanup(folder.cleanup)
        archive = pathlib.Path(folder.name) / "package.tar.gz"
        done = subprocess.run([SOURCE / "scripts/package", archive], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        cls.told = done.stdout
        cls.archive_bytes = archive.stat().st_size
        with tarfile.open(archive) as packed:
            packed.extractall(folder.name)
        cls.root = pathlib.Path(folder.name) / "autotuned"
        cls.release = cls.root / "build/release"

    def binaries(self):
        for file in sorted(self.release.rglob("*")):
            if file.is_file() and not file.is_symlink() and file.read_bytes()[:4] == b"\x7fELF":
                yield file

    def needed(self, file):
        dynamic = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
        return re.findall(r"\(NEEDED\)\s+Shared library: \[(.+?)\]", dynamic)

    def test_every_library_is_packed_or_everywhere(self):
        packed = {file.name for file in (self.release / "lib/system").iterdir()}
        self.assertTrue(any(name.startswith("libyaml-cpp") for name in packed), packed)
        binaries = list(self.binaries())
        self.assertGreater(len(binaries), 20)
        missing = {f"{file.name}: {name}" for file in binaries for name in self.needed(file)
                   if name not in packed and not EVERYWHERE.match(name) and not LIBTORCH.match(name)}
        self.assertEqual(missing, set())

    def test_programs_take_the_packed_libraries(self):
        packed = self.release / "lib/system"
        programs = [self.release / "bin/autotuned", *(self.release / "tests").iterdir()]
        for program in programs:
            told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
            found = re.findall(r"^\s*(\S+) => (/\S+)", told, re.M)
            self.assertTrue(found, program)
            for name, path in found:
                if EVERYWHERE.match(name) or LIBTORCH.match(name):
                    continue
                self.assertEqual(pathlib.Path(path).resolve().parent, packed.resolve(), f"{program}: {name}")

    def test_the_program_runs_where_it_was_unpacked(self):
        done = subprocess.run([self.release / "bin/autotuned", "plugins", "--json"], capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin", "HOME": str(self.root)}, cwd=self.root, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"ready"', done.stdout)

    def test_no_link_leads_out_of_the_package(self):
        for link in self.root.rglob("*"):
            if link.is_symlink():
                self.assertTrue(link.resolve().is_relative_to(self.root.resolve()), f"{link} -> {link.readlink()}")

    def test_the_agent_of_scripts_is_packed(self):
        self.assertTrue((self.release / "share/autotuned/python/autotuned/agent/attach.py").is_file())

    def test_each_packed_library_has_its_licence(self):
        licences = {file.name for file in (self.release / "share/doc/autotuned/licences").iterdir()}
        self.assertTrue(any(name.startswith("libyaml-cpp") for name in licences), licences)

    def test_photos_are_packed_where_there_are_some(self):
        photos = {file.name for file in (SOURCE / ".deps/photos").glob("*.jpg")}
        self.assertEqual({file.name for file in (self.root / ".deps/photos").glob("*.jpg")}, photos)

    def test_of_the_benchmarks_only_those_of_a_gpu_are_packed(self):
        there = {file.name for file in (BUILD / "bin").iterdir()}
        self.assertEqual({file.name for file in (self.release / "bin").iterdir()},
                         {"autotuned", "autotuned-trainer", "gather"} & there)
        # What bench/gpu/run starts.
        used = re.findall(r"BUILD / \"(bin/\w+)\"", (SOURCE / "bench/gpu/run").read_text())
        self.assertIn("bin/autotuned", used)
        for name in used:
            self.assertEqual((self.release / name).exists(), (BUILD / name).exists(), name)

    def test_it_is_small_enough_to_be_carried(self):
        photos = sum(file.stat().st_size for file in (self.root / ".deps/photos").glob("*.jpg"))
        self.assertLess(self.archive_bytes - photos, MOST_BYTES)

    def test_it_says_what_the_system_must_have(self):
        self.assertRegex(self.told, r"needs GLIBC_2\.\d+ or newer")
        self.assertRegex(self.told, r"needs GLIBCXX_3\.\d+(\.\d+)? or newer")


if __name__ == "__main__":
    unittest.main()
