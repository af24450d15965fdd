# SPDX-License-Identifier: Apache-2.0
"""Compares `autotuned analyze` with HolisticTraceAnalysis on GPU traces, where both define a figure alike:
kernels (calls, total, shortest, longest), time in computation, time in anything on the GPU, idle time, and how
much of the communication hides behind computation. Exits with 1 where they differ by more than 1 %.

usage: bench/peers/setup-hta
       .deps/hta/bin/python bench/peers/trace_hta.py AUTOTUNED TRACE...
       .deps/hta/bin/python bench/peers/trace_hta.py --record TRACE...

--record prints what HolisticTraceAnalysis says, by file name: tests/profiler/data/hta.json is that record, which a
test compares with ours.

Both get a copy of each trace with one step that holds everything: theirs leaves out the last step, ours takes
figures over steps. What the host says of collective operations is not in it: theirs counts kernels only. An
event without a length counts for neither.
"""

import gzip
import json
import logging
import os
import subprocess
import sys
import tempfile
import warnings

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")  # it divides by the time of communication, which may be 0
from hta.trace_analysis import TraceAnalysis  # noqa: E402

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
KEPT = ON_DEVICE + ("cuda_runtime", "cuda_driver", "hip_runtime", "cpu_op")
TOLERANCE = 0.01


def one_step(path, target):
    opened = gzip.open(path) if path.endswith(".gz") else open(path, "rb")
    with opened as source:
        trace = json.load(source)
    events = [event for event in trace["traceEvents"]
              if str(event.get("cat", "")).lower() in KEPT and event.get("ph") == "X"
              and not event["name"].startswith(("nccl:", "gloo:"))]
    start = min(event["ts"] for event in events)
    end = max(event["ts"] + event["dur"] for event in events)
    host = next(event for event in events if event["cat"] not in ON_DEVICE)
    events.append({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": host["pid"],
                   "tid": host["tid"], "ts": start, "dur": end - start, "args": {}})
    trace["traceEvents"] = events
    trace["distributedInfo"] = {"backend": "nccl", "rank": 0, "world_size": 1}
    with gzip.open(target, "wt") as written:
        json.dump(trace, written)


def theirs_of(path):
    analysis = TraceAnalysis(trace_files={0: path})
    breakdown = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    _, kernels = analysis.get_gpu_kernel_breakdown(
        visualize=False, num_kernels=1_000_000, duration_ratio=1.0, include_memory_kernels=False)
    figures = {"computation_us": breakdown["compute_time(us)"],
               "busy_us": breakdown["kernel_time(us)"] - breakdown["idle_time(us)"]}
    names = {row["name"] for _, row in kernels.iterrows()}
    for _, row in kernels.iterrows():
        if row["name"] == "others":
            continue
        for figure in ("sum", "min", "max"):
            figures[f"{figure} of {row['name']}"] = row[f"{figure} (us)"]
    overlap = analysis.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"]
    if any("nccl" in name.lower() for name in names):
        figures["overlapped_percent"] = overlap
    return figures


def ours_of(program, path):
    printed = subprocess.run([program, "analyze", "--json", "--view", "distributed", path],
                             check=True, capture_output=True, text=True).stdout
    analysis = json.loads(printed)
    parts = analysis["parts_us"]
    figures = {"computation_us": parts["Kernel"],
               "busy_us": sum(parts[part] for part in ("Kernel", "Memcpy", "Memset", "Communication"))}
    for row in analysis["kernels"]:
        figures[f"sum of {row['name']}"] = row["total_us"]
        figures[f"min of {row['name']}"] = row["min_us"]
        figures[f"max of {row['name']}"] = row["max_us"]
    overlapped = analysis["views"]["distributed"][0]["rows"][0]["overlapped_ratio"]
    if overlapped is not None:
        figures["overlapped_percent"] = 100 * overlapped
    return figures


def compare(program, path, folder):
    copy = os.path.join(folder, "copy.json.gz")
    one_step(path, copy)
    theirs, ours = theirs_of(copy), ours_of(program, copy)
    differences = 0
    for name, figure in theirs.items():
        own = ours.get(name)
        if own is None or abs(own - figure) > TOLERANCE * abs(figure) + 0.01:
            differences += 1
            print(f"  {name}: {own} here, {figure} there")
    print(f"{os.path.basename(path)}: {len(theirs)} figures, {differences} differ by more than 1 %; "
          f"computation {ours['computation_us']:.0f} us here, {theirs['computation_us']:.0f} us there")
    return differences


def record(paths, folder):
    figures = {}
    for path in paths:
        copy = os.path.join(folder, "copy.json.gz")
        one_step(path, copy)
        figures[os.path.basename(path)] = {name: round(float(figure), 4) for name, figure in theirs_of(copy).items()}
    print(json.dumps(figures, indent=1))


def main():
    program, paths = sys.argv[1], sys.argv[2:]
    if program == "--record":
        with tempfile.TemporaryDirectory() as folder:
            record(paths, folder)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        differences = sum(compare(program, path, folder) for path in paths)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
