# SPDX-License-Identifier: Apache-2.0
"""Where bench/gpu/run finds LibTorch, and what it says where it does not."""

import shutil
import subprocess
import sys
import unittest

import gpu_package
from gpu_package import WITHOUT


class GpuLibTorch(gpu_package.Case):
    def test_all_libraries_are_read(self):
        machine = self.module("machine")
        files = {"build/release/lib/autotuned/libautotuned_cuda.so": 1,
                 ".deps/python/torch/lib/libtorch_cuda.so": (1 << 24) + 1,
                 ".deps/python/nvidia/cu13/lib/libcublas.so.13": 100,
                 ".deps/python/nvidia/cudnn/lib/libcudnn.so.9": 10}
        for name, size in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_bytes(bytes(size))
        count, _ = machine.warm(self.root, 60)
        self.assertEqual(count, sum(files.values()))
        self.assertEqual(machine.warm(self.root, 0)[0], 0, "no longer than it may")

    def test_libtorch_elsewhere_is_linked(self):
        libtorch = self.root.parent / "libtorch"
        (libtorch / "torch/lib").mkdir(parents=True)
        (libtorch / "torch/lib/libtorch.so").write_bytes(bytes(1 << 20))
        (libtorch / "torch/version.py").write_text("__version__ = '2.11.0+cu130'\n")
        _, table, result = self.run_stage("env", WITHOUT, {}, "--libtorch", str(libtorch))
        self.assertEqual((self.root / ".deps/python").resolve(), libtorch.resolve())
        self.assertIn("| torch | found | 2.11.0+cu130 |", table)
        self.assertEqual(result["facts"]["libraries"], {"torch": "2.11.0+cu130"})
        # Without the option the link stays, and with another folder it is replaced.
        self.run_stage("env", WITHOUT, {})
        self.assertEqual((self.root / ".deps/python").resolve(), libtorch.resolve())
        other = self.root.parent / "other"
        shutil.copytree(libtorch, other)
        self.run_stage("env", WITHOUT, {}, "--libtorch", str(other))
        self.assertEqual((self.root / ".deps/python").resolve(), other.resolve())

    def test_a_wrong_folder_of_libtorch_is_told(self):
        machine = self.module("machine")
        place = self.root / ".deps/python"
        nowhere = self.root / "nowhere"
        self.assertEqual(machine.link_libtorch(self.root, nowhere, None), f"--libtorch {nowhere}: there is no such folder")
        self.assertEqual(machine.link_libtorch(self.root, self.bin, None), f"--libtorch {self.bin}: it holds no torch/")
        self.assertFalse(place.is_symlink())
        libtorch = self.root.parent / "libtorch"
        (libtorch / "torch").mkdir(parents=True)
        (place / "torch").mkdir(parents=True)
        self.assertIn("is no link that could be replaced", machine.link_libtorch(self.root, libtorch, None))
        self.assertFalse(place.is_symlink())

    def test_a_package_where_nothing_can_be_written_is_told(self):
        libtorch = self.root.parent / "libtorch"
        (libtorch / "torch").mkdir(parents=True)
        (self.root / ".deps").write_text("a file: root may write into any folder")
        done = subprocess.run([sys.executable, "-B", self.root / "bench/gpu/run", "--libtorch", libtorch],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(".deps/python: cannot be made: ", done.stderr)
        self.assertIn("unpack the package where files can be written", done.stderr)

    def test_the_torch_of_python3_is_taken_where_none_is_given(self):
        site = self.root.parent / "site-packages"
        (site / "torch/lib").mkdir(parents=True)
        (site / "torch/__init__.py").write_text("raise SystemExit('nobody imports it')\n")
        (site / "torch/version.py").write_text("__version__ = '2.11.0+cu130'\n")
        (self.root / "scripts").mkdir()
        (self.root / "scripts/requirements.txt").write_text("# LibTorch\ntorch==2.11.0 --hash=sha256:7a\n")
        place = self.root / ".deps/python"
        # Another version is of no use, and the message says which one is needed.
        python = self.program("python3", f"""
            import os, sys
            os.execve({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]], {{**os.environ, "PYTHONPATH": {str(site)!r}}})
            """)
        self.assertEqual(python, self.root)
        (site / "torch/version.py").write_text("__version__ = '2.10.0+cu128'\n")
        _, table, _ = self.run_stage("env", WITHOUT, {})
        self.assertFalse(place.exists())
        self.assertRegex(table, r"\| LibTorch \| missing \|  \| there is none: .* a Python with torch 2\.11\.0; "
                                r".* has 2\.10\.0\+cu128 \|")
        (site / "torch/version.py").write_text("__version__ = '2.11.0+cu130'\n")
        _, table, result = self.run_stage("env", WITHOUT, {})
        self.assertEqual(place.resolve(), site.resolve())
        self.assertNotIn("| LibTorch |", table)
        self.assertEqual(result["facts"]["libraries"], {"torch": "2.11.0+cu130"})


if __name__ == "__main__":
    unittest.main()
