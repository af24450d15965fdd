# SPDX-License-Identifier: Apache-2.0
"""bench/gpu/run in an unpacked package, with a program that plays one with a GPU, or without."""
import argparse
import contextlib
import fnmatch
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
import unittest
import unittest.mock

SOURCE = pathlib.Path(os.environ["AUTOTUNED_SOURCE_DIR"])
# Says what it is told to, and writes down how it was called.
AUTOTUNED = """
import json, pathlib, subprocess, sys, time
here = pathlib.Path(__file__).parent
plan = json.loads((here / "plan.json").read_text())
with open(here / "calls.jsonl", "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "doctor":
    time.sleep(plan["doctor_seconds"])
    print(json.dumps({"findings": [{"subject": "trainer", "health": plan["health"], "text": plan["trainer"]}],
                      "machine": plan["machine"]}))
    sys.exit(0)
if plan["refusal"]:
    print(json.dumps(plan["refusal"]))
    sys.exit(2)
if plan["fails"]:
    print("autotuned: error: the trainer ended", file=sys.stderr)
    sys.exit(1)
if sys.argv[1] == "run" and "--" in sys.argv:
    print("autotuned: script.py is " + plan["says"], file=sys.stderr)
    sys.exit(subprocess.run(sys.argv[sys.argv.index("--") + 1:], check=False).returncode)
if sys.argv[1] == "show" and plan["is_untuned"]:
    print("autotuned: error: the history has no run", file=sys.stderr)
    sys.exit(1)
if sys.argv[1] == "profile":
    print(json.dumps({"step_us": plan["step_us"], "events": 90, "notes": ["2 records lost"], "damage": [],
                      "kernels": [{"name": "sgemm", "calls": plan["kernels"]}]}))
    sys.exit(0)
if sys.argv[1] == "analyze":
    is_torchs = "_torch." in sys.argv[2]
    print(json.dumps({"steps": 10, "kernels": [{"name": "sgemm", "calls": plan["their_calls"] if is_torchs else 70,
                                                "total_us": plan["their_us"] if is_torchs else 5000.0}]}))
    sys.exit(0)
print(f"run r-20261123-000001 of job on {plan['device']}", file=sys.stderr)
print(json.dumps({"event": "noise"}))
print(json.dumps({
    "baseline": {"samples_per_second": plan["rate"]}, "training": {"shortage": "tune.budget is too small"},
    "best": {"samples_per_second": 4000.0, "speedup": 4.0, "speedup_low": plan["speedup_low"], "speedup_high": None},
    "trials": [{"change": {"cuda.graph": True}, "verdict": "accepted"},
               {"change": {"precision.tf32": True}, "verdict": "rejected"}]}))
"""
GATHER = """
import sys
print(f"(8, 196, 768) keep 98: {' '.join(sys.argv[1:])}")
"""
# As GoogleTest lists its tests and writes its results.
TESTS = """
import json, pathlib, sys, time
here = pathlib.Path(__file__).parent
plan = json.loads((here / "plan.json").read_text())
suite, tests = plan["suite"], plan["tests"]
if sys.argv[1] == "--gtest_list_tests":
    print("\\n".join(["Running main() from gmock_main.cc", f"{suite}.", *(f"  {name}" for name in tests)]))
    sys.exit(0)
wanted = sys.argv[1].removeprefix("--gtest_filter=")
output = sys.argv[2].removeprefix("--gtest_output=json:")
with open(here / "calls.jsonl", "a") as calls:
    calls.write(json.dumps(wanted) + "\\n")
kind = tests[wanted.removeprefix(f"{suite}.")]
if kind == "crashes":
    print("Segmentation fault", file=sys.stderr)
    sys.exit(139)
if kind == "hangs":
    time.sleep(600)
test = {"name": wanted, "classname": suite, "result": "COMPLETED", "time": "0.5s"}
if kind == "skipped":
    test |= {"result": "SKIPPED"}
    print(f"[----------] 1 test from {suite}\\n[ RUN      ] {wanted}\\nlooks for a GPU\\nfile.cpp:20: Skipped\\nno driver\\n\\n"
          f"[  SKIPPED ] {wanted} (0 ms)\\n[  SKIPPED ] 1 test, listed below:\\n[  SKIPPED ] {wanted}")
if kind == "failed":
    test["failures"] = [{"failure": "file.cpp:1\\nit differs"}]
pathlib.Path(output).write_text(json.dumps({"testsuites": [{"testsuite": [test]}]}))
sys.exit(1 if kind == "failed" else 0)
"""
# In the place of script.py.
SCRIPT = """
import json
print(json.dumps({"samples_per_second": 900.0, "device": "DEVICE"}))
"""
# In the place of torch_peer.py.
PEER = """
import json, pathlib, sys
if sys.argv[1] == "trace":
    pathlib.Path(sys.argv[2]).write_text("{}")
print(json.dumps({"samples_per_second": 800.0, "steps": 10, "torch": "2.11.0"}))
"""
WITHOUT = {"gpus": [], "gpu_reason": "no NVIDIA driver"}
WITH = {"gpus": [{"name": "NVIDIA Imaginary"}]}
FINE = "LibTorch 2.11.0, can train on CUDA"


def is_running(process):
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # one that has ended, and nobody has asked how


class GpuRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # What this machine hides is not told of one that is played.
        variables = unittest.mock.patch.dict(os.environ)
        variables.start()
        self.addCleanup(variables.stop)
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        self.root = pathlib.Path(folder.name) / "package"
        shutil.copytree(SOURCE / "bench/gpu", self.root / "bench/gpu", ignore=shutil.ignore_patterns("__pycache__"))
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

    def play(self, machine, tests, suite="Gpu", **plan):
        """`plan` says what the programs play."""
        known = {"machine": machine, "trainer": FINE, "health": "ok", "fails": False, "kernels": 7, "device": "cuda:0",
                 "their_us": 5010.0, "their_calls": 70, "step_us": 8100.0, "speedup_low": 3.1, "says": "tuned",
                 "is_untuned": False, "doctor_seconds": 0, "rate": 1000.0, "refusal": None}
        self.assertEqual(set(plan) - set(known), set())
        (self.bin / "plan.json").write_text(json.dumps(known | plan))
        (self.tests / "plan.json").write_text(json.dumps({"suite": suite, "tests": tests}))

    def run_stage(self, stage, machine, tests, *options, suite="Gpu", **plan):
        """(exit code, table, result) of a stage."""
        self.play(machine, tests, suite, **plan)
        output = self.root / "result.json"
        # A PATH without nvidia-smi and compute-sanitizer, whatever the machine has.
        done = subprocess.run(
            [sys.executable, "-B", self.root / "bench/gpu/run", "--stage", stage, "--minutes", "3", "--output", output,
             *options],
            capture_output=True, text=True, timeout=180, check=False, env={**os.environ, "PATH": str(self.root)})
        self.assertTrue(output.exists(), done.stderr)
        return done.returncode, done.stdout, json.loads(output.read_text())

    def calls(self, folder):
        return [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]

    def kept(self, folder):
        """The texts in the one archive that is there, by the names of the files."""
        (archive,) = folder.iterdir()
        with tarfile.open(archive) as packed:
            return {pathlib.Path(one.name).name: packed.extractfile(one).read().decode() for one in packed.getmembers()}

    def module(self, name):
        """One of bench/gpu."""
        sys.path.insert(0, str(SOURCE / "bench/gpu"))
        self.addCleanup(sys.path.remove, str(SOURCE / "bench/gpu"))
        sys.dont_write_bytecode = True
        return importlib.import_module(name)

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

    def test_with_a_gpu_every_recipe_is_tuned_in_its_share_of_the_time(self):
        code, table, result = self.run_stage("tune", WITH, {})
        self.assertEqual(code, 0)
        self.assertIn("| GPU | found | NVIDIA Imaginary |  |", table)
        self.assertIn("| launch_bound | done | 1000 to 4000 samples/s, 4.00 x (3.10 to unknown) | cuda.graph: True |", table)
        recipes = ["launch_bound", "resnet18_cifar", "resnet50_amp", "simple_cnn_cifar", "vit_patch_dropout_gpu"]
        self.assertEqual(sorted(result["runs"]), recipes)
        runs = [call for call in self.calls(self.bin) if call[0] == "run"]
        self.assertEqual(len(runs), len(recipes))
        for call in runs[1:]:
            self.assertTrue((SOURCE / pathlib.Path(call[1]).relative_to(self.root)).exists(), call[1])
        budgets = [int(call[call.index("--budget") + 1].removesuffix("s")) for call in runs]
        self.assertTrue(all(10 <= budget <= 165 * 0.8 for budget in budgets), budgets)
        for call in runs:
            self.assertIn("--tune-only", call)
            self.assertIn("--no-daemon", call)

    def test_a_rate_is_that_of_the_start(self):
        program = pathlib.Path(os.environ.get("AUTOTUNED_BUILD_DIR", "")) / "bin/autotuned"
        if "AUTOTUNED_BUILD_DIR" not in os.environ or not (program.parent / "autotuned-trainer").exists():
            self.skipTest("needs the program and its trainer")
        jobs = self.module("jobs")
        recipe = self.root / "small.yaml"
        recipe.write_text(textwrap.dedent("""\
            autotuned: 1
            name: small
            device: cpu
            model: {type: mlp, hidden: 12, classes: 4}
            data: {type: synthetic, samples: 64, shape: [1, 8, 8], classes: 4}
            input: [to_float]
            optimizer: {type: sgd, lr: 0.001, momentum: 0.9}
            train: {steps: 20, batch_size: 8}
            tune: {plugins: [set_to_none], allow: [numerics]}
            output: {dir: out}
            """))
        report = self.module("report").Report(self.root, self.root / "kept")
        measured = jobs.Jobs(report, program, time.monotonic() + 120)
        self.assertIsNone(measured.rate(recipe))
        self.assertEqual(measured.why_no_rate, "the job was not on a GPU")
        with unittest.mock.patch.object(jobs, "on_gpu", lambda _: True):
            self.assertGreater(measured.rate(recipe) or 0, 0)
        said = (self.root / "kept/001-autotuned.txt").read_text()
        self.assertIn('"trials":[]', said)

    def test_a_rate_that_there_is_not_says_why(self):
        for why, plan in (("device: no CUDA", {"refusal": {"run": None, "error": "device: no CUDA"}}),
                          ("the job was not on a GPU", {"device": "cpu"}), ("nothing was measured", {"rate": 0.0})):
            code, table, _ = self.run_stage("rates", WITH, {}, **plan)
            self.assertEqual(code, 1)
            self.assertIn(f"| rate of resnet18 | failed |  | there is none: {why} |", table)

    def test_a_run_that_measured_nothing_is_a_failure(self):
        code, table, _ = self.run_stage("tune", WITH, {}, "--recipe", "mine.yaml", rate=0.0)
        self.assertEqual(code, 1)
        self.assertRegex(table, r"\| mine \| failed \| 0 to 4000 samples/s, .* \| tune.budget is too small \|")

    def test_a_tuning_below_its_aim_does_not_pass(self):
        code, table, _ = self.run_stage("tune", WITH, {}, speedup_low=2.5)
        self.assertEqual(code, 1)
        figure = "1000 to 4000 samples/s, 4.00 x (2.50 to unknown)"
        self.assertIn(f"| launch_bound | done | {figure} | cuda.graph: True |", table)
        self.assertIn(f"| resnet18_cifar | below | {figure} | cuda.graph: True; the aim is 3 x at the lower end |", table)

    def test_recipes_of_ones_own_take_the_place_of_the_others(self):
        code, _, result = self.run_stage("tune", WITH, {}, "--recipe", "mine.yaml")
        self.assertEqual(code, 0)
        self.assertEqual(sorted(result["runs"]), ["mine"])

    def test_photos_are_tuned_where_they_are(self):
        photos = self.root / ".deps/photos"
        photos.mkdir(parents=True)
        (photos / "one.jpg").write_bytes(b"")
        _, _, result = self.run_stage("tune", WITH, {})
        self.assertIn("photo_masking_gpu", result["runs"])

    def test_a_job_on_the_cpu_is_a_failure(self):
        code, table, _ = self.run_stage("tune", WITH, {}, "--recipe", "mine.yaml", device="cpu")
        self.assertEqual(code, 1)
        self.assertIn("| mine | failed | 1000 to 4000 samples/s, 4.00 x (3.10 to unknown) | the job was not on a GPU |", table)

    def test_rates_are_beside_those_of_pytorch(self):
        (self.root / "bench/gpu/torch_peer.py").write_text(PEER)
        code, table, result = self.run_stage("rates", WITH, {}, "--python", sys.executable)
        self.assertEqual(code, 0)
        for name in ("resnet18", "resnet50"):
            self.assertIn(f"| rate of {name} | done | 1000 and 1000 samples/s |", table)
            self.assertIn(f"| rate of {name}, torch.compile | done | "
                          "800 samples/s, ours is 1.250 to 1.250 of it |  |", table)
            self.assertIn(f"| rate of {name}, with layout.memory_format=channels_last, optimizer.fused=on, cudnn.benchmark=on "
                          "| done | 1000 samples/s, 1.250 of torch.compile |  |", table)
        self.assertRegex(table, r"\| rate of picture_bound, DataLoader with \d+ workers \| done \| "
                                r"800 samples/s, ours is 5\.000 of it \|")
        self.assertEqual(sorted(result["runs"]), ["picture_bound"])

    def test_a_comparison_that_cannot_be_made_beside_a_gpu_is_a_failure(self):
        code, table, _ = self.run_stage("rates", WITH, {})
        self.assertEqual(code, 1)
        self.assertIn("| rate of resnet18 | done | 1000 samples/s |", table)
        why = "left out although there is a GPU: needs --python, one that has torch"
        self.assertIn(f"| rate of resnet18, PyTorch eager | failed |  | {why} |", table)
        code, table, _ = self.run_stage("trace", WITH, {})
        self.assertEqual(code, 1)
        self.assertIn(f"| kernels of resnet18 beside torch.profiler | failed |  | {why} |", table)

    def test_a_rate_below_that_of_pytorch_does_not_pass(self):
        (self.root / "bench/gpu/torch_peer.py").write_text(PEER.replace("800.0", "1100.0"))
        code, table, _ = self.run_stage("rates", WITH, {}, "--python", sys.executable)
        self.assertEqual(code, 1)
        self.assertIn("| rate of resnet50, PyTorch eager | below | 1100 samples/s, ours is 0.909 to 0.909 of it | "
                      "the aim is 0.97 |", table)

    def test_kernels_are_beside_those_of_torch_profiler(self):
        (self.root / "bench/gpu/torch_peer.py").write_text(PEER)
        name = "kernels of resnet18 beside torch.profiler"
        code, table, _ = self.run_stage("trace", WITH, {}, "--python", sys.executable)
        self.assertEqual(code, 0)
        self.assertIn(f"| {name} | done | 0.500 ms a step, 0.501 ms by torch.profiler, ratio 0.9980 |", table)
        # Clocks alone make more than the aim of it.
        code, table, _ = self.run_stage("trace", WITH, {}, "--python", sys.executable, their_us=5100.0)
        self.assertEqual(code, 0)
        self.assertIn(f"| {name} | done | 0.500 ms a step, 0.510 ms by torch.profiler, ratio 0.9804 | "
                      "the aim is a difference of 0.01, and 0.05 fails |", table)
        code, table, _ = self.run_stage("trace", WITH, {}, "--python", sys.executable, their_us=5300.0)
        self.assertEqual(code, 1)
        self.assertIn(f"| {name} | failed | 0.500 ms a step, 0.530 ms by torch.profiler, ratio 0.9434 |", table)

    def test_a_kernel_that_is_called_more_often_than_with_torch_profiler_is_a_failure(self):
        (self.root / "bench/gpu/torch_peer.py").write_text(PEER)
        code, table, _ = self.run_stage("trace", WITH, {}, "--python", sys.executable, their_us=5000.0, their_calls=80)
        self.assertEqual(code, 1)
        self.assertIn("| kernels of resnet18 beside torch.profiler | failed | 0.500 ms a step, 0.500 ms by torch.profiler, "
                      "ratio 1.0000 | sgemm: 7 calls a step, 8 by torch.profiler |", table)

    def test_recording_is_measured_between_two_runs_without_it(self):
        (self.root / "bench/gpu/torch_peer.py").write_text(PEER)
        kept = str(self.root / "kept.pt.trace.json.gz")
        code, table, _ = self.run_stage("trace", WITH, {}, "--trace", kept, "--python", sys.executable)
        self.assertEqual(code, 0)
        self.assertIn("| recording of launch_bound | done | "
                      "step 8.000 ms without, 8.100 ms with, 8.000 ms after it: 1.012 of one without | "
                      "90 events, 7 kernels; 2 records lost |", table)
        self.assertIn("| removed plugin on this trace | left out |", table)
        first = [call for call in self.calls(self.bin) if call[0] in ("run", "profile")][:3]
        self.assertEqual([call[0] for call in first], ["run", "profile", "run"])
        self.assertIn(kept, first[1])

    def test_a_recording_that_costs_too_much_does_not_pass(self):
        (self.root / "bench/gpu/torch_peer.py").write_text(PEER)
        code, table, _ = self.run_stage("trace", WITH, {}, "--python", sys.executable, step_us=96000.0)
        self.assertEqual(code, 1)
        self.assertIn("| recording of resnet18 | below | "
                      "step 64.000 ms without, 96.000 ms with, 64.000 ms after it: 1.500 of one without | "
                      "90 events, 7 kernels; 2 records lost; over the aim of 1.03 |", table)
        # Of many small launches it is told.
        code, table, _ = self.run_stage("trace", WITH, {}, "--python", sys.executable, step_us=12000.0)
        self.assertEqual(code, 0)
        self.assertIn("| recording of launch_bound | done | "
                      "step 8.000 ms without, 12.000 ms with, 8.000 ms after it: 1.500 of one without | "
                      "90 events, 7 kernels; 2 records lost |", table)

    def test_a_trace_without_kernels_is_a_failure(self):
        code, table, _ = self.run_stage("trace", WITH, {}, kernels=0)
        self.assertEqual(code, 1)
        self.assertIn("| recording of launch_bound: kernels | failed |  | the trace has none |", table)

    def test_the_removed_plugin_reads_the_trace(self):
        script = self.program("bench/peers/trace_oracle.py", "import sys; print(' '.join(sys.argv[1:2])); sys.exit(1)")
        self.assertTrue(script.exists())
        code, table, _ = self.run_stage("trace", WITH, {}, "--oracle", sys.executable)
        self.assertEqual(code, 1)
        self.assertIn("| removed plugin on this trace | failed | --compare |  |", table)

    def test_gather_runs_on_the_gpu(self):
        _, table, _ = self.run_stage("trace", WITH, {})
        self.assertIn("| gather (8, 196, 768) keep 98 | done | --device cuda --rounds 50 |  |", table)
        self.assertIn("| gather --deterministic (8, 196, 768) keep 98 | done | "
                      "--device cuda --rounds 50 --deterministic |  |", table)

    def test_a_run_that_fails_says_why(self):
        code, table, result = self.run_stage("tune", WITH, {}, fails=True)
        self.assertEqual(code, 1)
        self.assertIn("| launch_bound | failed |  | autotuned: error: the trainer ended |", table)
        self.assertEqual(result["runs"]["launch_bound"], None)

    def test_a_recipe_that_is_refused_says_why(self):
        diagnostic = {"file": "mine.yaml", "line": 3, "column": 1, "message": "unknown key \"devize\""}
        code, table, _ = self.run_stage("tune", WITH, {}, "--recipe", "mine.yaml",
                                        refusal={"ok": False, "diagnostics": [diagnostic]})
        self.assertEqual(code, 1)
        self.assertIn('| mine | failed |  | mine.yaml:3:1: unknown key "devize" |', table)
        _, table, _ = self.run_stage("tune", WITH, {}, "--recipe", "mine.yaml",
                                     refusal={"run": None, "error": "device: no CUDA"})
        self.assertIn("| mine | failed |  | device: no CUDA |", table)

    def test_all_that_was_said_is_kept_in_one_archive(self):
        folder = self.root.parent / "kept"
        code, table, _ = self.run_stage("tests", WITH, {"One": "crashes"}, "--keep", str(folder))
        self.assertEqual(code, 1)
        self.assertIn(next(folder.iterdir()).name, table)
        texts = self.kept(folder)
        self.assertIn("| Gpu.One | failed |", texts["result.md"])
        self.assertEqual(json.loads(texts["result.json"])["rows"][0]["what"], "libraries")
        self.assertTrue(any("--gtest_filter=Gpu.One" in text and "Segmentation fault" in text for text in texts.values()))

    def test_an_archive_leaves_out_what_is_too_large(self):
        report = self.module("report")
        folder = self.root.parent / "many"
        folder.mkdir()
        (folder / "small.txt").write_text("small")
        (folder / "large").write_bytes(os.urandom(report.MOST_KEPT_BYTES + 1))
        archive = self.root.parent / "one.tar.gz"
        self.assertEqual(report.pack(folder, archive), ["large"])
        with tarfile.open(archive) as packed:
            self.assertEqual(packed.getnames(), ["one/small.txt"])

    def test_stages_can_be_named_together(self):
        _, table, _ = self.run_stage("env,tests", WITHOUT, {"TellsItsMemory": "skipped", "Other": "passed"}, suite="GpuJob")
        self.assertIn("| GpuJob.Other | passed | 0.5s |  |", table)
        self.assertCountEqual(self.calls(self.tests), ["GpuJob.TellsItsMemory", "GpuJob.Other"], "no test runs twice")
        self.assertNotIn("recording", table)
        refused = subprocess.run([sys.executable, "-B", self.root / "bench/gpu/run", "--stage", "env,test"],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("there is no stage 'test': env, tests, trace, rates, script, tune, or all", refused.stderr)

    def test_a_mistake_of_ours_in_one_stage_leaves_the_others_and_what_was_kept(self):
        # What it prints for a GPU lacks nearly all that is asked for.
        self.program("nvidia-smi", "print('an imaginary one')")
        folder = self.root.parent / "kept"
        code, table, _ = self.run_stage("env,tests", WITH, {"One": "passed"}, "--keep", str(folder))
        self.assertEqual(code, 1)
        self.assertIn("| stage env | failed |  | KeyError: 'driver_version' |", table)
        self.assertIn("| Gpu.One | passed | 0.5s |  |", table)
        texts = self.kept(folder)
        self.assertIn("| Gpu.One | passed |", texts["result.md"])
        self.assertIn("in stage_env", texts["stage_env.txt"])

    def test_a_folder_that_cannot_keep_anything_is_refused_at_the_start(self):
        (self.root / "file").write_text("")
        for folder, why in (("", "the folder has no name"), (self.root / "file/below", "Not a directory")):
            done = subprocess.run([sys.executable, "-B", self.root / "bench/gpu/run", "--keep", folder],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)

    def started(self, *arguments):
        """bench/gpu/run, which goes on beside the test."""
        running = subprocess.Popen([sys.executable, "-B", self.root / "bench/gpu/run", *arguments],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "PATH": str(self.root)})
        self.addCleanup(running.stderr.close)
        return running

    def end_once_there_is(self, file, running):
        while not file.exists():
            self.assertIsNone(running.poll(), f"it ended before {file} was there")
            time.sleep(0.01)
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
        self.assertEqual(running.returncode, 143)

    def test_what_was_found_until_it_was_killed_is_there(self):
        self.play(WITHOUT, {"One": "passed", "Two": "hangs"})
        folder = self.root.parent / "kept"
        running = self.started("--stage", "rates,tests", "--keep", folder)
        self.assertTrue(any("passed   Gpu.One" in line for line in running.stderr), "it ended before the first test did")
        running.kill()
        running.wait(timeout=60)
        (rows,) = folder.glob("*-rows.jsonl")
        told = [json.loads(line) for line in rows.read_text().splitlines()]
        self.assertEqual(told[-1]["what"], "Gpu.One")
        rows.unlink()
        # That of the stage before.
        self.assertIn("| rates | left out |", self.kept(folder)["result.md"])

    def test_a_long_stage_is_packed_while_it_goes_on(self):
        module = self.module("report")
        folder = self.root.parent / "kept"
        folder.mkdir()
        report = module.Report(self.root, self.root.parent / "files", folder / "one.tar.gz")
        report.run(["true"], 10)
        self.assertEqual(list(folder.iterdir()), [])
        with unittest.mock.patch.object(module, "PACK_SECONDS", 0):
            report.run(["true"], 10)
        self.assertIn("002-true.txt", self.kept(folder))

    def test_what_was_said_until_it_was_ended_is_kept(self):
        self.play(WITHOUT, {"One": "passed"}, doctor_seconds=600)
        folder = self.root.parent / "kept"
        self.end_once_there_is(self.bin / "calls.jsonl", self.started("--stage", "tests", "--keep", folder))
        self.assertIn("| libraries | read |", self.kept(folder)["result.md"])

    def test_tests_end_with_the_program_that_runs_them(self):
        self.play(WITHOUT, {f"Test{number}": "hangs" for number in range(9)})
        self.end_once_there_is(self.tests / "calls.jsonl", self.started("--stage", "tests"))
        self.assertLessEqual(len(self.calls(self.tests)), self.module("gpu_tests").AT_ONCE, "no other test began")

    def test_nothing_of_a_command_goes_on_after_its_time(self):
        report = self.module("report")
        told = self.root / "child"
        code, _, err = report.Report(self.root).run(
            ["/bin/sh", "-c", f"sleep 600 & echo $! > {told}; echo said >&2; wait"], 1)
        self.assertEqual(code, -1)
        self.assertEqual(err.splitlines(), ["said", "took longer than 1 s"])
        while is_running(told.read_text().strip()):
            time.sleep(0.01)  # until the kernel has ended it

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

    def test_a_script_is_measured_by_itself_and_tuned(self):
        (self.root / "bench/gpu/script.py").write_text(SCRIPT.replace("DEVICE", "cuda:0"))
        code, table, result = self.run_stage("script", WITH, {}, "--python", sys.executable)
        self.assertEqual(code, 0, table)
        self.assertIn("| script | done | 900 samples/s by itself, 1000 to 4000 as it is tuned, 4.00 x (3.10 to unknown), "
                      "900 at its end | cuda.graph: True |", table)
        self.assertEqual(sorted(result["runs"]), ["script"])
        run, show = self.calls(self.bin)[1:]
        self.assertEqual(run[:4], ["run", "--allow", "numerics", "--budget"])
        self.assertEqual(pathlib.Path(run[run.index("--") + 3]).name, "script.py")
        self.assertEqual(show[:3], ["show", "last", "--json"])

    def test_a_script_that_is_not_on_the_gpu_or_not_tuned_is_a_failure(self):
        file = self.root / "bench/gpu/script.py"
        file.write_text(SCRIPT.replace("DEVICE", "cpu"))
        code, table, _ = self.run_stage("script", WITH, {}, "--python", sys.executable)
        self.assertEqual(code, 1)
        self.assertIn("| the script was not on a GPU |", table)
        file.write_text(SCRIPT.replace("DEVICE", "cuda:0"))
        code, table, _ = self.run_stage("script", WITH, {}, "--python", sys.executable, says="not tuned: no step",
                                        is_untuned=True)
        self.assertEqual(code, 1)
        self.assertIn("| script | failed |  | autotuned: script.py is not tuned: no step |", table)
        file.write_text("raise SystemExit('no module torch')\n")
        code, table, _ = self.run_stage("script", WITH, {}, "--python", sys.executable)
        self.assertEqual(code, 1)
        self.assertIn("| script | failed |  | no module torch |", table)

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

    def test_what_decides_about_libraries_is_noted(self):
        self.program("ldconfig", r"print('4 libs found\n\tlibcuda.so.1 (libc6) => /x/libcuda.so.1\n\tlibc.so.6 => /y')")
        with unittest.mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "7"}):
            _, _, result = self.run_stage("env", WITHOUT, {"TellsItsMemory": "skipped"}, suite="GpuJob")
        self.assertEqual(result["facts"]["environment"]["CUDA_VISIBLE_DEVICES"], "7")
        self.assertNotIn("HOME", result["facts"]["environment"])
        self.assertEqual(result["facts"]["driver_libraries"], ["libcuda.so.1 (libc6) => /x/libcuda.so.1"])

    def test_logs_of_runs_are_kept(self):
        folder = self.root.parent / "kept"
        self.run_stage("tune", WITH, {}, "--recipe", "mine.yaml", "--keep", str(folder))
        run = next(call for call in self.calls(self.bin) if call[0] == "run")
        output = pathlib.Path(run[run.index("--output") + 1])
        self.assertRegex(output.name, r"^\d{3}-mine$")
        self.assertEqual(output.parent, pathlib.Path(run[run.index("--history") + 1]).parent)

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
        # Of another version it is of no use, and what is needed is told.
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


class PeerCopies(unittest.TestCase):
    """The order of copies and steps of torch_peer.py, with a torch that notes what it is asked for."""

    def test_the_next_batch_is_copied_beside_the_step_on_a_stream_of_its_own(self):
        said = []
        streams = ["step"]

        class Part:
            def __init__(self, name):
                self.name = name

            def to(self, device, non_blocking):
                said.append(f"copy {self.name} to {device} on {streams[-1]}, {non_blocking}")
                return self

            def record_stream(self, stream):
                said.append(f"{self.name} is used on {stream.name}")

        @contextlib.contextmanager
        def on(stream):
            streams.append(stream.name)
            yield
            streams.pop()

        def named(name):
            stream = unittest.mock.Mock()
            stream.name = name
            stream.wait_stream.side_effect = lambda other: said.append(f"{name} waits for {other.name}")
            return stream

        torch = unittest.mock.MagicMock()
        torch.cuda.Stream.return_value = named("copies")
        torch.cuda.current_stream.return_value = named("step")
        torch.cuda.stream.side_effect = on
        loss = torch.amp.GradScaler.return_value.scale.return_value
        loss.backward.side_effect = lambda: said.append("backward")
        torch.amp.GradScaler.return_value.step.side_effect = lambda optimizer: said.append("optimizer")
        given = argparse.Namespace(device="cuda", lr=0.1, weight_decay=0.0, autocast=False, compile=False)
        with unittest.mock.patch.object(sys, "path", [str(SOURCE / "bench/gpu"), *sys.path]):
            peer = importlib.import_module("torch_peer")
        job = peer.Job(torch, unittest.mock.MagicMock(), iter([[Part("first")], [Part("second")], [Part("third")]]), given)
        job.loss = unittest.mock.Mock()
        job.take = unittest.mock.Mock(side_effect=lambda take=job.take: [*take(), "labels"])
        job.step()
        job.step()
        self.assertEqual(said, [
            "copy first to cuda on copies, True", "step waits for copies", "first is used on step",
            "backward", "copy second to cuda on copies, True", "optimizer",
            "step waits for copies", "second is used on step",
            "backward", "copy third to cuda on copies, True", "optimizer"])


class TorchPeer(unittest.TestCase):
    """What is beside us, on the CPU: all of it but the device."""

    def told_by(self, *arguments, program="torch_peer.py"):
        torch = SOURCE / ".deps/python/torch"
        modules = SOURCE / ".deps/python-modules"
        if sys.version_info[:2] != (3, 11) or not torch.exists() or not modules.exists():
            self.skipTest("needs Python 3.11 and what scripts/setup fetches for it")
        libraries = [os.environ["AUTOTUNED_CUDA_STAND_INS"], str(torch.parent / "nvidia/cu13/lib")]
        done = subprocess.run(
            [sys.executable, "-B", SOURCE / "bench/gpu" / program, *arguments, "--device", "cpu", "--batch", "2",
             "--seconds", "0.1"],
            capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "PYTHONPATH": f"{torch.parent}:{modules}", "LD_LIBRARY_PATH": ":".join(libraries)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_it_measures_the_rate_of_a_resnet(self):
        self.assertGreater(self.told_by("rate")["samples_per_second"], 0)

    def test_it_measures_the_rate_of_a_data_loader(self):
        self.assertGreater(self.told_by("pictures", "--workers", "1")["samples_per_second"], 0)

    def test_the_script_trains(self):
        told = self.told_by("--pictures", "8", program="script.py")
        self.assertGreater(told["samples_per_second"], 0)
        self.assertEqual(told["device"], "cpu")

    def test_it_writes_a_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace.json"
            self.assertEqual(self.told_by("trace", str(trace))["steps"], 10)
            self.assertIn("traceEvents", json.loads(trace.read_text()))


if __name__ == "__main__":
    unittest.main()
