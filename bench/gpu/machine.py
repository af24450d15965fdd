# SPDX-License-Identifier: Apache-2.0
"""What the machine is: driver, GPUs, clocks, libraries; and whether the program sees a GPU."""

import concurrent.futures
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import time

from report import last_line

DOCTOR_SECONDS = 300  # LibTorch for CUDA has 3.6 GB of libraries
SMI_SECONDS = 30  # without persistence the driver starts anew each time
READERS = 8  # files read at a time: a disk behind a network answers several sooner than one after the other
QUERY = ("name,uuid,driver_version,memory.total,memory.free,memory.used,clocks.sm,clocks.max.sm,clocks.mem,"
         "temperature.gpu,power.draw,power.limit,compute_mode,mig.mode.current,persistence_mode")
# What decides which libraries and which GPU a program finds.
OF_GPUS = re.compile(r"(CUDA|CUDNN|CUBLAS|NVIDIA|NCCL|PYTORCH|TORCH|AUTOTUNED|LD_|PATH$)")


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


def torch_of(python):
    """The folder of torch that this Python would import, or None. Nothing is imported."""
    code = "import importlib.util as u; found = u.find_spec('torch'); print(found.origin if found else '')"
    try:
        done = subprocess.run([python, "-c", code], cwd="/", capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    origin = done.stdout.strip()
    return pathlib.Path(origin).parent if done.returncode == 0 and origin else None


def python_with_torch(given):
    """The Python that PyTorch is measured with: the given one, or python3 if that has torch. None: there is none."""
    if given is not None:
        return given
    python = shutil.which("python3")
    return pathlib.Path(python) if python and torch_of(python) else None


def version_of(torch):
    file = torch / "version.py"
    told = re.search(r"__version__ = '([^']+)'", file.read_text()) if file.exists() else None
    return told.group(1) if told else "?"


def wanted_version(root):
    """Of torch, as the build has it; None where the list is not there."""
    file = root / "scripts/requirements.txt"
    told = re.search(r"^torch==([0-9.]+)", file.read_text(), re.M) if file.exists() else None
    return told.group(1) if told else None


def link_libtorch(root, folder, python):
    """Makes .deps/python where there is none: a link to the folder, or to where this Python has its torch. A folder that is
    given takes the place of an earlier link. Why the programs will not find LibTorch; empty if they will."""
    place = root / ".deps/python"
    wanted = wanted_version(root)
    if folder is not None and not (folder / "torch").is_dir():
        return f"--libtorch {folder}: " + ("it holds no torch/" if folder.is_dir() else "there is no such folder")
    if folder is not None and not place.is_symlink() and place.exists() and place.resolve() != folder.resolve():
        return f"--libtorch {folder} was not used: {place} is no link that could be replaced; move it away"
    if not place.exists() or folder is not None and place.is_symlink():
        torch = torch_of(python) if folder is None and python is not None else None
        if torch is not None and wanted in (None, version_of(torch).partition("+")[0]):
            folder = torch.parent
        if folder is None:
            found = f"; {python} has {version_of(torch)}" if torch is not None else ""
            return (f"there is none: give --libtorch the folder that holds torch/ and nvidia/, such as the site-packages of "
                    f"a Python with torch {wanted or 'of the build'}{found}")
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)  # a link to what is gone
        place.symlink_to(folder.resolve())
    there = version_of(place / "torch")
    if wanted not in (None, there.partition("+")[0]):
        return f"{place.resolve()} has torch {there}, and the programs were built with {wanted}"
    return ""


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
    if (place / "torch/version.py").exists():
        versions["torch"] = version_of(place / "torch")
    return versions


def warm(root, seconds):
    """Reads the libraries once, so that what is timed later is not the disk. (bytes, seconds)"""
    begin = time.monotonic()
    place = root / ".deps/python"
    files = [*(root / "build/release").rglob("*.so*"), *place.glob("torch/lib/*.so*"), *place.glob("nvidia/**/*.so*")]

    def read(file):
        count = 0
        with open(file, "rb", buffering=0) as opened:
            while time.monotonic() - begin < seconds and (part := opened.read(1 << 24)):
                count += len(part)
        return count

    with concurrent.futures.ThreadPoolExecutor(READERS) as readers:
        count = sum(readers.map(read, [file for file in files if file.is_file()]))
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
    for name, command in {"nvidia-smi": ["nvidia-smi"], "listed": ["nvidia-smi", "-L"],
                          "throttling": ["nvidia-smi", "-q", "-d", "CLOCK,PERFORMANCE,POWER"]}.items():
        code, out, _ = report.run(command, SMI_SECONDS)
        if code == 0:
            report.facts[name] = out
    report.facts["environment"] = {name: value for name, value in sorted(os.environ.items()) if OF_GPUS.match(name)}
    _, out, _ = report.run(["ldconfig", "-p"], SMI_SECONDS)
    report.facts["driver_libraries"] = [line.strip() for line in out.splitlines()
                                        if "libcuda.so" in line or "libnvidia-ml.so" in line]
    for file in ("/etc/os-release", "/proc/driver/nvidia/version", "/proc/meminfo"):
        if pathlib.Path(file).exists():
            report.facts[file] = "\n".join(pathlib.Path(file).read_text().splitlines()[:8])


def hidden_text(why):
    """What hides GPUs, where none is visible and the program does not name it itself."""
    name = "CUDA_VISIBLE_DEVICES"
    return f'; {name} is "{os.environ[name]}"' if name in os.environ and name not in why else ""


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
