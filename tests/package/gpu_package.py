# SPDX-License-Identifier: Apache-2.0
"""An unpacked package whose programs are played, with a GPU or without: for tests of bench/gpu/run."""

import contextlib
import importlib
import json
import os
import pathlib
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


def groups_of(folder):
    """The process groups, other than this one, in which somebody runs a program of this folder."""
    groups = set()
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if os.fsencode(f"{folder}/") in (place / "cmdline").read_bytes():
                groups.add(os.getpgid(int(place.name)))
    return sorted(groups - {os.getpgrp()})


def end_processes(folder):
    """Ends what was started from this folder. Who is killed (SIGKILL) leaves behind what it has started itself."""
    while groups := groups_of(folder):
        for group in groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        time.sleep(0.01)


class Case(unittest.TestCase):
    """A package for each test, of which nothing goes on after the test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # What this machine hides is not told of one that is played.
        variables = unittest.mock.patch.dict(os.environ)
        variables.start()
        self.addCleanup(variables.stop)
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        self.root = pathlib.Path(folder.name).resolve() / "package"
        self.addCleanup(end_processes, self.root)
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

    def started(self, *arguments):
        """bench/gpu/run, which goes on beside the test, in a group of its own."""
        running = subprocess.Popen([sys.executable, "-B", self.root / "bench/gpu/run", *arguments],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "PATH": str(self.root)}, start_new_session=True)
        for ending in (running.stderr.close, running.wait, running.kill):  # the last one first
            self.addCleanup(ending)
        return running

    def wait_for(self, file, running):
        while not file.exists():
            self.assertIsNone(running.poll(), f"it ended before {file} was there")
            time.sleep(0.01)

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
