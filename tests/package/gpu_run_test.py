# SPDX-License-Identifier: Apache-2.0
"""bench/gpu/run in an unpacked package: what it finds of a GPU, and the tests that it runs."""

import fnmatch
import os
import re
import subprocess
import sys
import time
import unittest
import unittest.mock

import gpu_package
from gpu_package import SOURCE, WITH, WITHOUT


class GpuRun(gpu_package.Case):
    def test_without_a_gpu_the_tests_run_and_nothing_is_tuned(self):
        smoke = {"TellsItsMemory": "skipped", "KnowsItsDevice": "passed"}
        code, table, result = self.run_stage("all", WITHOUT, smoke, suite="GpuJob")
        self.assertEqual(code, 4)
        self.assertIn("| GPU | missing |  | no NVIDIA driver |", table)
        self.assertIn("| GpuJob.TellsItsMemory | skipped |  | no driver |", table)
        self.assertIn("| GpuJob.KnowsItsDevice | passed | 0.5s |  |", table)
        self.assertIn("| recording | left out |  | it needs a GPU |", table)
        self.assertIn("| rates | left out |  | they need a GPU |", table)
        self.assertIn("| script | left out |  | it needs a GPU |", table)
        self.assertIn("| benchmarks | left out |  | they need a GPU |", table)
        self.assertEqual(result["runs"], {})
        self.assertEqual([call[0] for call in self.calls(self.bin)], ["doctor"])

    def test_each_test_has_a_process_of_its_own(self):
        code, table, _ = self.run_stage("tests", WITH, {"One": "passed", "Two": "crashes", "Three": "passed"})
        self.assertEqual(code, 1)
        self.assertIn("| Gpu.One | passed | 0.5s |  |", table)
        self.assertIn("| Gpu.Two | failed |  | Segmentation fault |", table)
        self.assertIn("| Gpu.Three | passed | 0.5s |  |", table)
        self.assertCountEqual(self.calls(self.tests), ["Gpu.One", "Gpu.Two", "Gpu.Three"])

    def test_what_else_depends_on_comes_first(self):
        others = [f"Copies{number}" for number in range(2 * self.module("gpu_tests").AT_ONCE)]
        tests = {name: "passed" for name in [*others, "TellsItsMemory"]}
        for stage in ("tests", "env,tests"):
            (self.tests / "calls.jsonl").unlink(missing_ok=True)
            self.run_stage(stage, WITH, tests, suite="GpuJob")
            calls = self.calls(self.tests)
            self.assertIn("GpuJob.TellsItsMemory", calls[:self.module("gpu_tests").AT_ONCE], stage)
            self.assertCountEqual(calls, [f"GpuJob.{name}" for name in tests], stage)

    def test_a_test_that_hangs_leaves_the_others_their_time(self):
        gpu_tests = self.module("gpu_tests")
        self.assertLessEqual(gpu_tests.TEST_SECONDS, 60)
        self.play(WITH, {"One": "hangs", "Two": "passed"})
        report = self.module("report").Report(self.root)
        with unittest.mock.patch.object(gpu_tests, "TEST_SECONDS", 1):
            gpu_tests.run_tests(report, self.root / "build", True, time.monotonic() + 60)
        self.assertCountEqual([(row["what"], row["result"], row["note"]) for row in report.rows],
                              [("Gpu.One", "failed", "took longer than 1 s"), ("Gpu.Two", "passed", "")])

    def test_a_test_that_skips_itself_beside_a_gpu_has_failed(self):
        code, table, _ = self.run_stage("tests", WITH, {"One": "skipped"})
        self.assertEqual(code, 1)
        self.assertIn("| Gpu.One | failed |  | skipped although there is a GPU: no driver |", table)

    def test_a_failed_test_is_named(self):
        code, table, _ = self.run_stage("tests", WITHOUT, {"One": "failed", "Two": "passed"})
        self.assertEqual(code, 1)
        self.assertIn("| Gpu.One | failed |  | it differs |", table)
        self.assertIn("| Gpu.Two | passed |", table)

    def test_no_tests_at_all_are_a_failure(self):
        code, table, _ = self.run_stage("env", WITH, {"NoneOfThose": "passed"})
        self.assertEqual(code, 1)
        self.assertIn("| tests labelled gpu | failed |  | none were found: build the tests |", table)

    def test_the_tests_that_it_names_exist(self):
        gpu_tests = self.module("gpu_tests")
        sources = "".join(file.read_text() for file in (SOURCE / "tests").rglob("gpu_*_test.cpp"))
        known = [".".join(found) for found in re.findall(r"^TEST(?:_F)?\((\w+), (\w+)\)", sources, re.M)]
        for name in [*gpu_tests.SMOKE, *gpu_tests.SANITIZED]:
            self.assertTrue(any(fnmatch.fnmatch(test, name) for test in known), f"{name} is none of {known}")

    def test_a_gpu_that_the_trainer_cannot_use_is_a_failure(self):
        cannot = "LibTorch 2.11.0, CPU only: no driver"
        code, table, _ = self.run_stage("tests", WITH, {"One": "skipped"}, trainer=cannot)
        self.assertEqual(code, 1)
        self.assertIn(f"| GPU | failed |  | {cannot} |", table)
        # The doctor warns of a device file without a driver that works.
        code, table, _ = self.run_stage("tests", WITHOUT, {"One": "skipped"}, trainer=cannot, health="warning")
        self.assertEqual(code, 1)
        self.assertIn(f"| GPU | failed |  | {cannot} |", table)
        code, table, _ = self.run_stage("tests", WITHOUT, {"One": "skipped"}, trainer=cannot)
        self.assertEqual(code, 4)
        self.assertIn("| GPU | missing |  | no NVIDIA driver |", table)

    def test_a_trainer_that_does_not_start_is_a_failure(self):
        code, table, _ = self.run_stage("tests", WITHOUT, {"One": "skipped"}, trainer="no LibTorch", health="broken")
        self.assertEqual(code, 1)
        self.assertIn("| GPU | failed |  | no LibTorch |", table)

    def test_a_gpu_that_nvml_does_not_list_is_one(self):
        code, table, _ = self.run_stage("tests", WITHOUT, {"One": "skipped"},
                                        trainer="LibTorch 2.11.0, cuda:0 is a part of a GPU")
        self.assertEqual(code, 1)
        self.assertIn("| GPU | found |", table)
        self.assertIn("| Gpu.One | failed |  | skipped although there is a GPU: no driver |", table)

    def test_the_variable_that_hides_gpus_is_named(self):
        with unittest.mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": ""}):
            _, table, _ = self.run_stage("env", WITHOUT, {"TellsItsMemory": "skipped"}, suite="GpuJob")
            self.assertIn('| GPU | missing |  | no NVIDIA driver; CUDA_VISIBLE_DEVICES is "" |', table)
            _, table, _ = self.run_stage("env", WITH, {"TellsItsMemory": "passed"}, suite="GpuJob")
            self.assertIn("| GPU | found | NVIDIA Imaginary |  |", table)
            told = 'LibTorch 2.11.0, CPU only: no device; CUDA_VISIBLE_DEVICES is "" here'
            _, table, _ = self.run_stage("env", WITH, {"TellsItsMemory": "passed"}, suite="GpuJob", trainer=told)
            self.assertIn(f"| GPU | failed |  | {told} |", table)

    def test_every_stage_notes_what_the_machine_is(self):
        self.program("nvidia-smi", """
            import sys
            _, _, asked = "".join(sys.argv[1:2]).partition("--query-gpu=")
            print(", ".join(f"its {name}" for name in asked.split(",")) if asked else "all of it")
            """)
        for stage in ("env", "tests", "trace", "rates", "script", "tune"):
            _, _, result = self.run_stage(stage, WITHOUT, {"TellsItsMemory": "skipped"}, suite="GpuJob")
            for when in ("gpus", "gpus_after"):
                self.assertEqual([gpu["driver_version"] for gpu in result["facts"][when]], ["its driver_version"], stage)
            self.assertEqual(result["facts"]["nvidia-smi"], "all of it\n")

    def test_what_decides_about_libraries_is_noted(self):
        self.program("ldconfig", r"print('4 libs found\n\tlibcuda.so.1 (libc6) => /x/libcuda.so.1\n\tlibc.so.6 => /y')")
        with unittest.mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "7"}):
            _, _, result = self.run_stage("env", WITHOUT, {"TellsItsMemory": "skipped"}, suite="GpuJob")
        self.assertEqual(result["facts"]["environment"]["CUDA_VISIBLE_DEVICES"], "7")
        self.assertNotIn("HOME", result["facts"]["environment"])
        self.assertEqual(result["facts"]["driver_libraries"], ["libcuda.so.1 (libc6) => /x/libcuda.so.1"])

    def test_stages_can_be_named_together(self):
        _, table, _ = self.run_stage("env,tests", WITHOUT, {"TellsItsMemory": "skipped", "Other": "passed"}, suite="GpuJob")
        self.assertIn("| GpuJob.Other | passed | 0.5s |  |", table)
        self.assertCountEqual(self.calls(self.tests), ["GpuJob.TellsItsMemory", "GpuJob.Other"], "no test runs twice")
        self.assertNotIn("recording", table)
        refused = subprocess.run([sys.executable, "-B", self.root / "bench/gpu/run", "--stage", "env,test"],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("there is no stage 'test': env, tests, trace, rates, script, tune, or all", refused.stderr)

    def test_the_copies_are_checked_for_errors_of_memory(self):
        suite, _, name = self.module("gpu_tests").SANITIZED[0].partition(".")
        tests = {name: "passed", "Other": "passed"}
        for code, result in ((0, "passed"), (9, "failed")):
            self.program("compute-sanitizer", f"""
                import sys
                print("ERROR SUMMARY", *sys.argv[4:])
                sys.exit({code})
                """)
            _, table, _ = self.run_stage("tests", WITH, tests, suite=suite)
            self.assertIn(f"| compute-sanitizer {suite}.{name} | {result} |", table)
        self.assertNotIn("compute-sanitizer GpuJob.Other", table)
        self.program("compute-sanitizer", "import sys; print('Device not supported'); sys.exit(1)")
        _, table, _ = self.run_stage("tests", WITH, tests, suite=suite)
        self.assertIn(f"| compute-sanitizer {suite}.{name} | left out |  | Device not supported |", table)

    def test_a_check_of_memory_without_time_says_nothing(self):
        gpu_tests = self.module("gpu_tests")
        self.program("compute-sanitizer", "")
        suite, _, name = gpu_tests.SANITIZED[0].partition(".")
        self.play(WITH, {name: "passed"}, suite)
        report = self.module("report").Report(self.root)
        with unittest.mock.patch.dict(os.environ, {"PATH": str(self.root)}):
            gpu_tests.sanitize(report, self.root / "build", True,
                               time.monotonic() + gpu_tests.LEAST_SANITIZER_SECONDS / 2)
        self.assertEqual(report.rows, [{"what": f"compute-sanitizer {suite}.{name}", "result": "left out", "figure": "",
                                        "note": "no time was left"}])


if __name__ == "__main__":
    unittest.main()
