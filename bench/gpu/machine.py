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


def gather_facts(report):
    report.facts["system"] = platform.platform()
    report.facts["python"] = platform.python_version()
    report.facts["cpus"] = len(os.sched_getaffinity(0))
    report.facts["libraries"] = libraries(report.root)
    code, out, _ = report.run(["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader"], 60)
    gpus = [dict(zip(QUERY.split(","), [part.strip() for part in line.split(",")])) for line in out.splitlines()]
    report.facts["gpus"] = gpus if code == 0 else []
    for name, command in {"nvidia-smi": ["nvidia-smi"], "throttling": ["nvidia-smi", "-q", "-d", "CLOCK,PERFORMANCE,POWER"]}.items():
        code, out, _ = report.run(command, 60)
        if code == 0:
            report.facts[name] = out
    for file in ("/etc/os-release", "/proc/driver/nvidia/version", "/proc/meminfo"):
        if pathlib.Path(file).exists():
            report.facts[file] = "\n".join(pathlib.Path(file).read_text().splitlines()[:8])


def gpu_of(report, autotuned):
    """The name of the GPU that the program sees and its trainer can use, or why there is none."""
    code, out, err = report.run([autotuned, "doctor", "--json"], DOCTOR_SECONDS, environment())
    try:
        told = json.loads(out)
    except ValueError:
        return None, last_line(err) or f"autotuned doctor: exit code {code}"
    trainer = [one for one in find(told, "findings") or [] if one.get("subject") == "trainer"]
    if trainer and trainer[0].get("health") == "broken":
        return None, trainer[0]["text"]
    gpus = find(told, "gpus") or []
    if gpus and trainer and "CPU only" in trainer[0]["text"]:
        return None, trainer[0]["text"]
    if gpus:
        return gpus[0]["name"] if isinstance(gpus[0], dict) else str(gpus[0]), ""
    return None, find(told, "gpu_reason") or "the program sees no GPU"
