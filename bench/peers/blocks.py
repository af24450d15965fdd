# SPDX-License-Identifier: Apache-2.0
"""Serves a job written by hand to bench/peers.cpp.

Speaks as much of docs/trainer-protocol.md as a benchmark needs (load, prepare, run, stop) on descriptor 3.
A job has `settings()`, a list of what a person would try, `prepare(settings)`, `step()`, which returns the
loss as a tensor and does not wait for it, and `batch_size`; if it has threads or processes that go on between
two blocks, also `pause()`, which stops them until `prepare()`. One whose processes must make the same steps has
`count(minimum_ns, minimum_steps)` as well, which says how many those are, and is asked before the clock
starts; and one that has something to end has `stop()`.
"""

import json
import os
import socket
import struct
import time

import torch


def timed(job, minimum_ns: int, minimum_steps: int) -> dict:
    if hasattr(job, "count"):
        minimum_steps, minimum_ns = job.count(minimum_ns, minimum_steps), 0
    start = time.monotonic_ns()
    steps = 0
    while True:
        loss = job.step()
        steps += 1
        if steps == 1:
            first = loss
        end = time.monotonic_ns()
        if end - start >= minimum_ns and steps >= minimum_steps:
            break
    return {
        "start_ns": start, "end_ns": end, "duration_ns": end - start, "steps": steps,
        "samples": steps * job.batch_size, "first_loss": float(first), "last_loss": float(loss),
        "losses": [], "data_wait_ns": 0, "cpu_ns": 0, "peak_host_memory_bytes": 0,
        "peak_device_memory_bytes": 0,
    }


def receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise SystemExit(0)
        data += part
    return data


def serve(make_job) -> None:
    connection = socket.socket(fileno=3)

    def send(value: dict) -> None:
        text = json.dumps(value).encode()
        connection.sendall(struct.pack("<I", len(text)) + text)

    send({"hello": {"protocol": 1, "trainer": "PyTorch by hand", "libtorch": torch.__version__,
                    "pid": os.getpid(), "devices": ["cpu"], "cuda_reason": "not used", "knobs": []}})
    job = make_job()
    while True:
        (length,) = struct.unpack("<I", receive(connection, 4))
        request = json.loads(receive(connection, length))
        answer = {}
        if request["request"] == "load":
            answer = {"settings": job.settings()}
        elif request["request"] == "prepare":
            job.prepare(request["configuration"])
        elif request["request"] == "run":
            answer = timed(job, request["minimum_ns"], request.get("minimum_steps", 1))
            if hasattr(job, "pause"):
                job.pause()
        elif request["request"] == "stop" and hasattr(job, "stop"):
            job.stop()
        send({"id": request["id"], "ok": answer})
        if request["request"] == "stop":
            return


def has_bf16() -> bool:
    """Whether this CPU computes in bfloat16; elsewhere it is emulated, and never the fastest."""
    with open("/proc/cpuinfo") as file:
        flags = file.read()
    return "avx512_bf16" in flags or "amx_bf16" in flags
