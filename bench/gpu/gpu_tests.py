# SPDX-License-Identifier: Apache-2.0
"""Tests labelled gpu, each in a process of its own: what one leaves behind on the device, or takes down, is not the next
one's affair. No test asserts on time, so several run at once. Where there is a GPU, a test that skips itself has failed."""

import concurrent.futures
import fnmatch
import json
import pathlib
import re
import shutil
import tempfile
import time

from machine import environment
from report import last_line

# Most take a second or two; one that hangs must leave the others their time.
TEST_SECONDS = 60
AT_ONCE = 4  # most of a test's time is the start of LibTorch and CUDA in its process
LIST_SECONDS = 180  # the first that loads LibTorch
# What else depends on: memory, a trace, a graph that is refused.
SMOKE = ["GpuJob.TellsItsMemory", "GpuJob.GoesOnAfterItRanOutOfMemory", "GpuTrace.*", "GpuGraph.ARefusedRecording*",
         "GpuTrainer.IsOnTheGpuThatWasExpected"]
# What reads and writes the memory of batches: the copies, and the short last one.
SANITIZED = ["GpuJob.CopiesBesideTheStepMindShortBatches"]
SANITIZER_SECONDS = 300
LEAST_SANITIZER_SECONDS = 60  # the checker makes each kernel many times slower
# Without LibTorch's cache each tensor has memory of its own, and what lies behind one is nobody's.
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
# An error of the checker itself: some virtual machines do not let it look at the device.
CANNOT_CHECK = "Device not supported"


def is_one_of(name, patterns):
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def seconds_to(deadline, most):
    return max(1, min(most, deadline - time.monotonic()))


def programs(report, build, deadline):
    """Those of a package, or those that ctest knows."""
    packed = report.root / "RUN-GPU-TESTS"
    if packed.exists():
        return [report.root / name for name in re.findall(r"^(build/\S+)", packed.read_text(), re.M)]
    code, out, err = report.run(["ctest", "--test-dir", build, "-L", "^gpu$", "--show-only=json-v1"],
                                seconds_to(deadline, LIST_SECONDS))
    if code != 0:
        raise RuntimeError(f"ctest: {last_line(err) or f'exit code {code}'}")
    return [pathlib.Path(name) for name in
            sorted({test["command"][0] for test in json.loads(out)["tests"] if "command" in test})]


def tests_of(report, program, deadline):
    code, out, err = report.run([program, "--gtest_list_tests"], seconds_to(deadline, LIST_SECONDS), environment())
    if code != 0:
        raise RuntimeError(last_line(err) or last_line(out) or f"exit code {code}")
    names, suite = [], ""
    for line in out.splitlines():
        if re.match(r"^\S+\.\s*(#.*)?$", line):
            suite = line.split()[0]
        elif suite and line.startswith("  "):
            names.append(suite + line.split()[0])
    return names


def why_skipped(out):
    """What a test that skipped itself said of it: GoogleTest writes that to standard output alone."""
    told = re.search(r"^\[ RUN +\][^\n]*\n(.*?)^\[  SKIPPED \]", out, re.M | re.S)
    lines = [line.strip() for line in told.group(1).splitlines() if line.strip()] if told else []
    places = [number for number, line in enumerate(lines) if line.endswith(": Skipped")]
    return " ".join(lines[places[-1] + 1:] if places else lines)


def run_one(report, program, name, has_gpu, seconds):
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.json"
        code, out, err = report.run([program, f"--gtest_filter={name}", f"--gtest_output=json:{result}"], seconds,
                                    environment())
        tests = ([test for suite in json.loads(result.read_text())["testsuites"] for test in suite["testsuite"]]
                 if result.exists() else [])
    for test in tests:
        if test.get("failures"):
            report.add(name, "failed", note=test["failures"][0]["failure"].splitlines()[-1])
        elif test["result"] == "SKIPPED":
            why = why_skipped(out) or "it does not say why"
            report.add(name, "failed" if has_gpu else "skipped",
                       note=f"skipped although there is a GPU: {why}" if has_gpu else why)
        elif code == 0:
            report.add(name, "passed", test["time"])
    if code != 0 and not any(test.get("failures") for test in tests):
        report.add(name, "failed", note=last_line(err) or last_line(out) or f"exit code {code}")


def run_tests(report, build, has_gpu, deadline, wanted=("*",)):
    try:
        found = [(program, name) for program in programs(report, build, deadline)
                 for name in tests_of(report, program, deadline)]
    except (RuntimeError, OSError, ValueError) as error:
        report.add("tests labelled gpu", "failed", note=str(error))
        return
    chosen = [one for one in found if is_one_of(one[1], wanted)]
    if not chosen:
        report.add("tests labelled gpu", "failed", note="none were found: build the tests")
    # The time may not suffice for all of them.
    chosen.sort(key=lambda one: not is_one_of(one[1], SMOKE))

    def run_in_time(program, name):
        left = deadline - time.monotonic()
        if left < 5:
            report.add(name, "failed", note="no time was left for it")
        else:
            run_one(report, program, name, has_gpu, min(TEST_SECONDS, left))

    runners = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
    try:
        for done in [runners.submit(run_in_time, *one) for one in chosen]:
            done.result()
    except BaseException:  # of a signal, too: nothing begins, and nothing goes on with the GPU
        runners.shutdown(wait=False, cancel_futures=True)
        report.end_running()
        raise
    runners.shutdown()


def sanitize(report, build, has_gpu, deadline):
    """The tests of copies under NVIDIA's checker of memory, where it is installed and time is left."""
    checker = shutil.which("compute-sanitizer")
    if not has_gpu or checker is None:
        report.add("compute-sanitizer", "left out", note="no GPU" if not has_gpu else "compute-sanitizer is not installed")
        return
    try:
        chosen = [(program, name) for program in programs(report, build, deadline)
                  for name in tests_of(report, program, deadline) if name in SANITIZED]
    except (RuntimeError, OSError, ValueError) as error:
        report.add("compute-sanitizer", "failed", note=str(error))
        return
    for program, name in chosen:
        what = f"compute-sanitizer {name}"
        if deadline - time.monotonic() < LEAST_SANITIZER_SECONDS:
            report.add(what, "left out", note="no time was left")
            continue
        code, out, err = report.run([checker, "--error-exitcode", "9", program, f"--gtest_filter={name}"],
                                    seconds_to(deadline, SANITIZER_SECONDS), environment() | UNCACHED)
        # The time says nothing about the memory.
        why = CANNOT_CHECK if code != 0 and CANNOT_CHECK in out + err else last_line(err) if code == -1 else ""
        if why:
            report.add(what, "left out", note=why)
        else:
            report.add(what, "passed" if code == 0 else "failed", note="" if code == 0 else last_line(out) or last_line(err))
