# SPDX-License-Identifier: Apache-2.0
"""What the machine is: driver, GPUs, clocks, libraries; and whether the program sees a GPU."""

import json
import os
import pathlib
import platform
import re
import time

from report import last_line

DOCTOR_SECONDS = 300  # LibTorch for CUDA has 3.6 GB of libraries
SMI_SECONDS = 30  # without persistence the driver starts anew each time
QUERY = ("name,uuid,driver_version,memory.total,memory.free,memory.used,clocks.sm,clocks.max.sm,clocks.mem,"
         "temperature.gpu,power.draw,power.limit,compute_mode,mig.mode.current,persistence_mode")


def find(value, key):
    """The first member of that name, at whatever depth."""
    if isinstance(value, dict):
        if key in value:
            return value[key]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            found = find(one, key)
            if found is not None:
                return found
    return None


def link_libtorch(root, folder):
    place = root / ".deps/python"
    if folder is None or place.exists():
        return
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(folder.resolve())


def environment():
    """Of programs that are started here: GPUs are numbered as nvidia-smi numbers them."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **os.environ}


def libraries(root):
    """The versions of LibTorch and of NVIDIA's libraries beside it, as their wheels say."""
    place = root / ".deps/python"
    versions = {}
    for folder in place.glob("*.dist-info"):
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        if name.startswith(("torch", "nvidia")):
            versions[name] = version
    version = place / "torch/version.py"
    if version.exists():
        told = re.search(r"__version__ = '([^']+)'", version.read_text())
        versions["torch"] = told.group(1) if told else "?"
    return versions


def warm(root, seconds):
    """Reads the libraries once, so that what is timed later is not the disk. (bytes, seconds)"""
    begin = time.monotonic()
    count = 0
    place = root / ".deps/python"
    files = [*place.glob("torch/lib/*.so*"), *place.glob("nvidia/**/*.so*"), *(root / "build/release").rglob("*.so*")]
    for file in files:
        if time.monotonic() - begin > seconds:
            break
        with open(file, "rb", buffering=0) as opened:
            while part := opened.read(1 << 24):
                count += len(part)
                if time.monotonic() - begin > seconds:
                    break
    return count, time.monotonic() - begin


def gpu_states(report):
    """What nvidia-smi tells of each GPU at the moment: a list, empty where it tells nothing."""
    code, out, _ = report.run(["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader"], SMI_SECONDS)
    gpus = [dict(zip(QUERY.split(","), [part.strip() for part in line.split(",")])) for line in out.splitlines()]
    return gpus if code == 0 else []


def gather_facts(report):
    report.facts["system"] = platform.platform()
    report.facts["python"] = platform.python_version()
    report.facts["cpus"] = len(os.sched_getaffinity(0))
    report.facts["libraries"] = libraries(report.root)
    report.facts["gpus"] = gpu_states(report)
    for name, command in {"nvidia-smi": ["nvidia-smi"], "throttling": ["nvidia-smi", "-q", "-d", "CLOCK,PERFORMANCE,POWER"]}.items():
        code, out, _ = report.run(command, SMI_SECONDS)
        if code == 0:
            report.facts[name] = out
    for file in ("/etc/os-release", "/proc/driver/nvidia/version", "/proc/meminfo"):
        if pathlib.Path(file).exists():
            report.facts[file] = "\n".join(pathlib.Path(file).read_text().splitlines()[:8])


def gpu_of(report, autotuned, seconds):
    """(the name of the GPU that the program sees and its trainer can use, or None; why there is none; whether that is a
    failure: there is one all the same, or the trainer does not even start)"""
    code, out, err = report.run([autotuned, "doctor", "--json"], min(DOCTOR_SECONDS, seconds), environment())
    try:
        told = json.loads(out)
    except ValueError:
        return None, last_line(err) or f"autotuned doctor: exit code {code}", True
    trainer = ([one for one in find(told, "findings") or [] if one.get("subject") == "trainer"] or [{}])[0]
    gpus = find(told, "gpus") or []
    if trainer.get("health") == "broken":
        return None, trainer["text"], True
    if "CPU only" in trainer.get("text", ""):
        # The doctor warns of that where the machine has a GPU, whether NVML lists it or not.
        is_there = bool(gpus) or trainer.get("health") == "warning"
        return None, trainer["text"] if is_there else find(told, "gpu_reason") or trainer["text"], is_there
    if gpus:
        return gpus[0]["name"] if isinstance(gpus[0], dict) else str(gpus[0]), "", False
    if "cuda:0" in trainer.get("text", ""):
        return "one that the driver's management library does not list", "", False
    return None, find(told, "gpu_reason") or "the program sees no GPU", False
