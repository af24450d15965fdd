# SPDX-License-Identifier: Apache-2.0
"""What the profiler plugin of TensorBoard, which PyTorch has removed, says about traces: the oracle of
`autotuned analyze`. Prints JSON by file name; tests/profiler/data/oracle.json is its record.

usage: python3 -m venv ORACLE && ORACLE/bin/pip install 'setuptools<80' torch-tb-profiler==0.4.3
       ORACLE/bin/python bench/peers/trace_oracle.py TRACE...

The plugin is older than today's traces: it does not know the categories cuda_runtime and cuda_driver, drops
the DataLoader's annotations, and takes the device's copies of annotations for annotations of the host. They
are put into its words first.
"""

import gzip
import json
import logging
import os
import re
import sys

logging.disable(logging.CRITICAL)
from torch_tb_profiler.profiler.data import RunProfileData  # noqa: E402
from torch_tb_profiler.profiler.event_parser import ProfileRole  # noqa: E402

NAMES = {"Kernel": ProfileRole.Kernel, "Memcpy": ProfileRole.Memcpy, "Memset": ProfileRole.Memset,
         "Communication": ProfileRole.Communication, "Runtime": ProfileRole.Runtime,
         "DataLoader": ProfileRole.DataLoader, "CPU Exec": ProfileRole.CpuOp, "Other": ProfileRole.Other}


def in_its_words(trace):
    events = []
    # Without marked steps the recording is one, from the first operator to the last: no loading in it.
    has_steps = any(event["name"].startswith("ProfilerStep#") for event in trace["traceEvents"])
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


def figures(path):
    opened = gzip.open(path) if path.endswith(".gz") else open(path, "rb")
    with opened as source:
        profile = RunProfileData.from_json("worker", "span", in_its_words(json.load(source)))
    costs = profile.avg_costs.costs
    gpu = profile.gpu_metrics_parser
    devices = sorted(gpu.gpu_ids)
    result = {
        "step_us": costs[ProfileRole.Total],
        "parts_us": {name: costs[role] for name, role in NAMES.items()},
        "operators": [{"name": row.name, "calls": row.calls, "host_total_us": row.host_duration,
                       "host_self_us": row.self_host_duration, "device_total_us": row.device_duration,
                       "device_self_us": row.self_device_duration}
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
            {"name": name, "calls": int(row["count"]), "total_us": float(row["sum"]),
             "max_us": float(row["max"]), "min_us": float(row["min"]),
             "blocks_per_sm": float(row["blocks_per_sm"]), "occupancy_percent": float(row["occupancy"])}
            for name, row in profile.kernel_stat.iterrows()]
    return result


def main():
    record = {os.path.basename(path): figures(path) for path in sys.argv[1:]}
    rounded = json.loads(json.dumps(record), parse_float=lambda text: round(float(text), 4))
    rows = []
    for trace in rounded.values():  # a line for each row keeps differences readable
        for table in ("operators", "kernels"):
            rows += trace[table]
            trace[table] = ["row %d" % number for number in range(len(rows) - len(trace[table]), len(rows))]
    text = json.dumps(rounded, indent=1)
    print(re.sub(r'"row (\d+)"', lambda match: json.dumps(rows[int(match[1])]), text))


if __name__ == "__main__":
    main()
