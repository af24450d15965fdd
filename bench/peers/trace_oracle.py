# SPDX-License-Identifier: Apache-2.0
"""What the profiler plugin of TensorBoard, which PyTorch has removed, says about traces: the oracle of
`autotuned analyze`.

usage: python3 -m venv ORACLE && ORACLE/bin/pip install 'setuptools<80' torch-tb-profiler==0.4.3
       ORACLE/bin/python bench/peers/trace_oracle.py TRACE...
       ORACLE/bin/python bench/peers/trace_oracle.py --compare AUTOTUNED TRACE...

Prints JSON by file name; tests/profiler/data/oracle.json is its record. --compare prints every figure that differs
from that of `autotuned analyze` by more than 1 % instead, and exits with 1 where one does. What differs on purpose
(docs/metrics.md) is in it, but for the use of tensor cores, of which the plugin knows fewer names.

The plugin is older than today's traces, and some are put into its words first:
- It does not know the categories cuda_runtime and cuda_driver, drops the DataLoader's annotations, and takes the
  device's copies of annotations for annotations of the host.
- Where Kineto knows no operator of a launch it writes the correlation as external id (older versions always do),
  which the plugin takes for any operator of that number: such a launch gets the id of what holds it.
- It knows five collective operations of the host by name, and kernels by the id of one of these: every operation of
  NCCL gets such a name, and every kernel that bears NCCL's name such an id.
- It adds microseconds since 1970 as floating point numbers, which rounds them to a quarter, and drops operators that
  overlap then: it gets whole nanoseconds since the first event.
"""

import bisect
import decimal
import gzip
import json
import logging
import os
import re
import subprocess
import sys

logging.disable(logging.CRITICAL)
from torch_tb_profiler.profiler.data import RunProfileData  # noqa: E402
from torch_tb_profiler.profiler.event_parser import ProfileRole  # noqa: E402
from torch_tb_profiler.profiler.trace import NcclOpNameSet  # noqa: E402

NAMES = {"Kernel": ProfileRole.Kernel, "Memcpy": ProfileRole.Memcpy, "Memset": ProfileRole.Memset,
         "Communication": ProfileRole.Communication, "Runtime": ProfileRole.Runtime,
         "DataLoader": ProfileRole.DataLoader, "CPU Exec": ProfileRole.CpuOp, "Other": ProfileRole.Other}


ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
TOLERANCE = 0.01
OPERATOR_FIGURES = ("calls", "host_total_us", "host_self_us", "device_total_us", "device_self_us")
KERNEL_FIGURES = ("calls", "total_us", "max_us", "min_us", "blocks_per_sm", "occupancy_percent")


class Holders:
    """The external id of the innermost operator of a thread at a moment."""

    def __init__(self, events):
        self.moments, self.ids = {}, {}
        threads = {}
        for event in events:
            if event.get("ph") != "X" or event.get("cat") not in ("cpu_op", "user_annotation"):
                continue
            if event["cat"] == "cpu_op" or event["name"].startswith("ProfilerStep#") or event["name"] in NcclOpNameSet:
                threads.setdefault(event["tid"], []).append(event)
        for thread, held in threads.items():
            held.sort(key=lambda event: (event["ts"], -event["dur"]))
            moments, ids, open_events = [], [], []

            def close_until(moment):
                while open_events and (moment is None or end_of(open_events[-1]) <= moment):
                    moments.append(end_of(open_events.pop()))
                    ids.append(id_of(open_events[-1]) if open_events else None)

            for event in held:
                close_until(event["ts"])
                open_events.append(event)
                moments.append(event["ts"])
                ids.append(id_of(event))
            close_until(None)
            self.moments[thread], self.ids[thread] = moments, ids

    def of(self, event):
        place = bisect.bisect_right(self.moments.get(event["tid"], []), event["ts"])
        return self.ids[event["tid"]][place - 1] if place else None


def end_of(event):
    return event["ts"] + event["dur"]


def id_of(event):
    return event.get("args", {}).get("External id", event.get("args", {}).get("external id"))


def set_id(event, identity):
    event["args"].pop("external id", None)
    event["args"]["External id"] = identity


def name_collectives(events):
    for event in events:
        if event.get("cat") == "user_annotation" and event["name"].startswith("nccl:"):
            event["name"] = "nccl:all_reduce"


def give_launches_their_operators(events):
    holders, of_correlation = Holders(events), {}
    launches = [event for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    for event in launches:
        correlation = event.get("args", {}).get("correlation")
        if correlation is not None and id_of(event) == correlation:
            of_correlation[correlation] = holders.of(event) or 0
            set_id(event, of_correlation[correlation])
    host_collectives = [id_of(event) for event in events if event.get("name") in NcclOpNameSet and id_of(event)]
    for event in events:
        if event.get("cat") not in ON_DEVICE:
            continue
        correlation = event.get("args", {}).get("correlation")
        if correlation is not None and id_of(event) == correlation:
            set_id(event, of_correlation.get(correlation, 0))
        if event["cat"] == "kernel" and event["name"].startswith("nccl") and host_collectives:
            set_id(event, host_collectives[0])


def count_nanoseconds(events):
    timed = [event for event in events if event.get("ph") in ("X", "i") and "ts" in event]
    first = min(event["ts"] for event in timed)
    for event in timed:
        event["ts"] = round((event["ts"] - first) * 1000)
        if "dur" in event:
            event["dur"] = round(event["dur"] * 1000)


def in_its_words(trace):
    events = []
    # Without marked steps the recording is one, from the first operator to the last: no loading in it.
    has_steps = any(event["name"].startswith("ProfilerStep#") for event in trace["traceEvents"])
    name_collectives(trace["traceEvents"])
    give_launches_their_operators(trace["traceEvents"])
    count_nanoseconds(trace["traceEvents"])
    for event in trace["traceEvents"]:
        category = event.get("cat")
        if category == "gpu_user_annotation":
            continue
        if category in ("cuda_runtime", "cuda_driver"):
            event["cat"] = "Runtime"
        if has_steps and category == "user_annotation" and event["name"].startswith("enumerate(Data"):
            event["cat"] = "cpu_op"
        events.append(event)
    trace["traceEvents"] = events
    return trace


def read(path):
    """With times as they are written; everything else in floating point numbers."""
    opened = gzip.open(path) if path.endswith(".gz") else open(path, "rb")
    with opened as source:
        trace = json.load(source, parse_float=decimal.Decimal)
    for event in trace["traceEvents"]:
        for name, value in event.get("args", {}).items():
            if isinstance(value, decimal.Decimal):
                event["args"][name] = float(value)
    return trace


def figures(path):
    profile = RunProfileData.from_json("worker", "span", in_its_words(read(path)))
    costs = profile.avg_costs.costs
    gpu = profile.gpu_metrics_parser
    devices = sorted(gpu.gpu_ids)
    result = {
        "step_us": costs[ProfileRole.Total] / 1000,
        "parts_us": {name: costs[role] / 1000 for name, role in NAMES.items()},
        "operators": [{"name": row.name, "calls": row.calls, "host_total_us": row.host_duration / 1000,
                       "host_self_us": row.self_host_duration / 1000,
                       "device_total_us": row.device_duration / 1000,
                       "device_self_us": row.self_device_duration / 1000}
                      for row in profile.op_list_groupby_name],
        "kernels": [],
        "gpu": None,
    }
    if devices:
        device = devices[0]
        result["gpu"] = {"utilization": gpu.gpu_utilization[device],
                         "sm_efficiency": gpu.avg_approximated_sm_efficiency_per_device[device],
                         "achieved_occupancy_percent": gpu.avg_occupancy_per_device[device],
                         "tensor_core_ratio": profile.tc_used_ratio}
        result["kernels"] = [
            {"name": name, "calls": int(row["count"]), "total_us": row["sum"] / 1000,
             "max_us": row["max"] / 1000, "min_us": row["min"] / 1000,
             "blocks_per_sm": float(row["blocks_per_sm"]), "occupancy_percent": float(row["occupancy"])}
            for name, row in profile.kernel_stat.iterrows()]
    return result


def flat(figures):
    """All figures by name."""
    named = {"step_us": figures["step_us"], **figures["parts_us"]}
    for name, value in (figures["gpu"] or {}).items():
        if name != "tensor_core_ratio":
            named[name] = value
    for table, columns in (("operators", OPERATOR_FIGURES), ("kernels", KERNEL_FIGURES)):
        for row in figures[table]:
            for column in columns:
                named[f"{column} of {row['name']}"] = row[column]
    return named


def compare(program, path):
    printed = subprocess.run([program, "analyze", "--json", path], check=True, capture_output=True, text=True).stdout
    ours, theirs = flat(json.loads(printed)), flat(figures(path))
    differences = 0
    for name in sorted(ours.keys() | theirs.keys()):
        own, other = ours.get(name, 0) or 0, theirs.get(name, 0) or 0
        least = 0.01 if name.endswith("_us") or "_us of " in name or name in NAMES else 1e-6
        if abs(own - other) > max(TOLERANCE * abs(other), least):
            differences += 1
            print(f"  {name}: {own} here, {other} there")
    print(f"{os.path.basename(path)}: {len(ours.keys() | theirs.keys())} figures, {differences} differ by more than 1 %")
    return differences


def main():
    if sys.argv[1] == "--compare":
        program, paths = sys.argv[2], sys.argv[3:]
        return 1 if sum(compare(program, path) for path in paths) else 0
    record = {os.path.basename(path): figures(path) for path in sys.argv[1:]}
    rounded = json.loads(json.dumps(record), parse_float=lambda text: round(float(text), 4))
    rows = []
    for trace in rounded.values():  # a line for each row keeps differences readable
        for table in ("operators", "kernels"):
            rows += trace[table]
            trace[table] = ["row %d" % number for number in range(len(rows) - len(trace[table]), len(rows))]
    text = json.dumps(rounded, indent=1)
    print(re.sub(r'"row (\d+)"', lambda match: json.dumps(rows[int(match[1])]), text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
