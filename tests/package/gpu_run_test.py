# SPDX-License-Identifier: Apache-2.0
"""bench/gpu/run in an unpacked package, with a program that plays one with a GPU, or without."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

SOURCE = pathlib.Path(os.environ["AUTOTUNED_SOURCE_DIR"])
# Says what it is told to, and writes down how it was called.
AUTOTUNED = """
import json, pathlib, sys
here = pathlib.Path(__file__).parent
plan = json.loads((here / "plan.json").read_text())
with open(here / "calls.jsonl", "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "doctor":
    print(json.dumps({"checks": [plan["doctor"]]}))
    sys.exit(0)
if plan["fails"]:
    print("autotuned: error: the trainer ended", file=sys.stderr)
    sys.exit(1)
if sys.argv[1] == "profile":
    print(json.dumps({"step_us": 12000.0, "events": 90, "notes": ["2 records lost"], "damage": [],
                      "kernels": [{"name": "sgemm", "calls": plan.get("kernels", 7)}]}))
    sys.exit(0)
print(json.dumps({"event": "noise"}))
print(json.dumps({
    "baseline": {"samples_per_second": 1000.0},
    "best": {"samples_per_second": 2000.0, "speedup": 2.0, "speedup_low": 1.9, "speedup_high": None},
    "trials": [{"change": {"cuda.graph": True}, "verdict": "accepted"},
               {"change": {"precision.tf32": True}, "verdict": "rejected"}]}))
"""
GATHER = """
import sys
print(f"(8, 196, 768) keep 98: {' '.join(sys.argv[1:])}")
"""
# As GoogleTest writes its results.
TESTS = """
import json, pathlib, sys
plan = json.loads((pathlib.Path(__file__).parent / "plan.json").read_text())
output = sys.argv[1].removeprefix("--gtest_output=json:")
if plan["crashes"]:
    print("Segmentation fault", file=sys.stderr)
    sys.exit(139)
tests = []
for name, kind in plan["tests"].items():
    test = {"name": name, "classname": "Gpu", "result": "COMPLETED", "time": "0.5s"}
    if kind == "skipped":
        test |= {"result": "SKIPPED", "skipped": [{"message": "no driver"}]}
    if kind == "failed":
        test["failures"] = [{"failure": "file.cpp:1\\nit differs"}]
    tests.append(test)
pathlib.Path(output).write_text(json.dumps({"testsuites": [{"testsuite": tests}]}))
sys.exit(1 if "failed" in plan["tests"].values() else 0)
"""
WITHOUT = {"gpus": [], "gpu_reason": "no NVIDIA driver"}
WITH = {"gpus": [{"name": "NVIDIA Imaginary"}]}


class GpuRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "package"
        (self.root / "bench/gpu").mkdir(parents=True)
        shutil.copy(SOURCE / "bench/gpu/run", self.root / "bench/gpu/run")
        self.bin = self.program("build/release/bin/autotuned", AUTOTUNED)
        self.program("build/release/bin/gather", GATHER)
        self.tests = self.program("build/release/tests/gpu_test", TESTS)
        (self.root / "RUN-GPU-TESTS").write_text("#!/bin/sh\nstatus=0\n"
                                                  'build/release/tests/gpu_test "$@" || status=$?\n')

    def program(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
        file.chmod(0o755)
        return file.parent

    def run_all(self, doctor, tests, *options, fails=False, crashes=False, kernels=7):
        (self.bin / "plan.json").write_text(json.dumps({"doctor": doctor, "fails": fails, "kernels": kernels}))
        (self.tests / "plan.json").write_text(json.dumps({"tests": tests, "crashes": crashes}))
        output = self.root / "result.json"
        done = subprocess.run(
            [sys.executable, "-B", self.root / "bench/gpu/run", "--minutes", "3", "--output", output, *options],
            capture_output=True, text=True, timeout=180, check=False)
        self.assertTrue(output.exists(), done.stderr)
        return done.returncode, done.stdout, json.loads(output.read_text())

    def calls(self):
        return [json.loads(line) for line in (self.bin / "calls.jsonl").read_text().splitlines()]

    def test_without_a_gpu_the_tests_run_and_nothing_is_tuned(self):
        code, table, result = self.run_all(WITHOUT, {"One": "skipped", "Two": "passed"})
        self.assertEqual(code, 4)
        self.assertIn("| GPU | missing |  | no NVIDIA driver |", table)
        self.assertIn("| Gpu.One | skipped |  | no driver |", table)
        self.assertIn("| Gpu.Two | passed | 0.5s |  |", table)
        self.assertIn("| benchmarks | left out |  | they need a GPU |", table)
        self.assertEqual([row["what"] for row in result["rows"]], ["GPU", "Gpu.One", "Gpu.Two", "benchmarks"])
        self.assertEqual(result["runs"], {})
        self.assertEqual([call[0] for call in self.calls()], ["doctor"])

    def test_with_a_gpu_every_recipe_is_tuned_in_its_share_of_the_time(self):
        code, table, result = self.run_all(WITH, {"One": "passed"})
        self.assertEqual(code, 0)
        self.assertIn("| GPU | found | NVIDIA Imaginary |  |", table)
        self.assertIn("| launch_bound | done | 1000 to 2000 samples/s, 2.00 x (1.90 to unknown) | cuda.graph: True |", table)
        self.assertEqual(sorted(result["runs"]),
                         ["launch_bound", "picture_bound", "resnet18_cifar", "simple_cnn_cifar", "vit_patch_dropout"])
        runs = [call for call in self.calls() if call[0] == "run" and call[call.index("--budget") + 1] != "0s"]
        self.assertEqual(len(runs), 5)
        budgets = [int(call[call.index("--budget") + 1].removesuffix("s")) for call in runs]
        self.assertTrue(all(5 <= budget <= 165 / 2 for budget in budgets), budgets)
        for call in runs:
            self.assertIn("--tune-only", call)
            self.assertIn("--no-daemon", call)

    def test_recipes_of_ones_own_take_the_place_of_the_others(self):
        code, _, result = self.run_all(WITH, {}, "--recipe", "mine.yaml")
        self.assertEqual(code, 0)
        self.assertEqual(sorted(result["runs"]), ["launch_bound", "mine", "picture_bound"])

    def test_photos_are_tuned_where_they_are(self):
        photos = self.root / ".deps/photos"
        photos.mkdir(parents=True)
        (photos / "one.jpg").write_bytes(b"")
        _, _, result = self.run_all(WITH, {})
        self.assertIn("photo_masking", result["runs"])

    def test_recording_is_measured_between_two_runs_without_it(self):
        code, table, _ = self.run_all(WITH, {}, "--trace", str(self.root / "kept.pt.trace.json.gz"))
        self.assertEqual(code, 0)
        self.assertIn("| recording of launch_bound | done | step 8.000 ms without, 12.000 ms with, 8.000 ms after it | "
                      "90 events, 7 kernels; 2 records lost |", table)
        self.assertIn("| removed plugin on this trace | left out |", table)
        first = [call for call in self.calls() if call[0] in ("run", "profile")][:3]
        self.assertEqual([call[0] for call in first], ["run", "profile", "run"])
        self.assertIn(str(self.root / "kept.pt.trace.json.gz"), first[1])

    def test_a_trace_without_kernels_is_a_failure(self):
        code, table, _ = self.run_all(WITH, {}, kernels=0)
        self.assertEqual(code, 1)
        self.assertIn("| recording of launch_bound: kernels | failed |  | the trace has none |", table)

    def test_the_removed_plugin_reads_the_trace(self):
        script = self.program("bench/peers/trace_oracle.py", "import sys; print(' '.join(sys.argv[1:2])); sys.exit(1)")
        self.assertTrue(script.exists())
        code, table, _ = self.run_all(WITH, {}, "--oracle", sys.executable)
        self.assertEqual(code, 1)
        self.assertIn("| removed plugin on this trace | failed | --compare |  |", table)

    def test_gather_runs_on_the_gpu(self):
        _, table, _ = self.run_all(WITH, {})
        self.assertIn("| gather (8, 196, 768) keep 98 | done | --device cuda --rounds 50 |  |", table)
        self.assertIn("| gather --deterministic (8, 196, 768) keep 98 | done | "
                      "--device cuda --rounds 50 --deterministic |  |", table)

    def test_a_failed_test_is_named(self):
        code, table, _ = self.run_all(WITHOUT, {"One": "failed", "Two": "passed"})
        self.assertEqual(code, 1)
        self.assertIn("| Gpu.One | failed |  | it differs |", table)
        self.assertIn("| Gpu.Two | passed |", table)

    def test_a_program_that_crashes_is_named(self):
        code, table, _ = self.run_all(WITHOUT, {}, crashes=True)
        self.assertEqual(code, 1)
        self.assertIn("| gpu_test | failed |  | Segmentation fault |", table)

    def test_a_run_that_fails_says_why(self):
        code, table, result = self.run_all(WITH, {"One": "passed"}, fails=True)
        self.assertEqual(code, 1)
        self.assertIn("| launch_bound | failed |  | autotuned: error: the trainer ended |", table)
        self.assertEqual(result["runs"]["launch_bound"], None)

    def test_libtorch_elsewhere_is_linked(self):
        libtorch = self.root.parent / "libtorch"
        (libtorch / "torch").mkdir(parents=True)
        self.run_all(WITHOUT, {"One": "passed"}, "--libtorch", str(libtorch))
        self.assertEqual((self.root / ".deps/python").resolve(), libtorch.resolve())
        # What is there already is left alone.
        self.run_all(WITHOUT, {"One": "passed"}, "--libtorch", str(self.root))
        self.assertEqual((self.root / ".deps/python").resolve(), libtorch.resolve())


if __name__ == "__main__":
    unittest.main()
