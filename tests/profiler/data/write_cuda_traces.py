# SPDX-License-Identifier: Apache-2.0
"""Writes CUDA traces in Kineto's form for machines without a GPU: the figures are made up, the form is not.

usage: python3 write_cuda_traces.py FOLDER

rank0.pt.trace.json.gz, rank1.pt.trace.json.gz   a distributed job: two streams, kernels that overlap, copies
from memory that is not pinned, fills, collective operations, reads of single numbers, calls of the driver
"""

import gzip
import json
import os
import random
import sys

KERNELS = {
    "aten::add": ("void at::native::vectorized_elementwise_kernel<4, AddFunctor<float>>(int)", 2.0, 75),
    "aten::mm": ("ampere_sgemm_128x64_nn", 0.75, 25),
    "aten::contiguous": ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>", 4.5, 100),
    "aten::cudnn_convolution":
        ("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32", 0.4, 13),
    "aten::sum": ("void at::native::reduce_kernel<512, 1, ReduceOp<float>>(float)", 0.1, 6),
}
MAIN, BACKWARD = 100, 101  # threads; the process is 100 too


class Job:
    def __init__(self, rank):
        self.random = random.Random(7 + rank)
        self.rank = rank
        self.events = []
        self.external = 0
        self.correlation = 100
        self.free = {7: 0, 20: 0}

    def ns(self, low, high):
        return self.random.randint(low, high)

    def event(self, cat, name, start, length, pid, tid, **args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid,
                            "ts": start / 1000, "dur": length / 1000, "args": args})

    def call(self, now, thread, external, name, work, cat="cuda_runtime", length=None):
        """A call of the runtime, and the work that it starts: (cat, name, stream, length, args)."""
        self.correlation += 1
        length = length or self.ns(2500, 9000)
        ids = {"External id": external, "correlation": self.correlation}
        self.event(cat, name, now, length, 100, thread, cbid=211, **ids)
        if work:
            work_cat, work_name, stream, work_length, args = work
            start = max(now + length + self.ns(-1500, 4000), self.free[stream])
            self.free[stream] = start + work_length
            self.event(work_cat, work_name, start, work_length, self.rank, stream, device=self.rank,
                       context=1, stream=stream, **ids, **args)
        return now + length

    def operator(self, now, thread, name, inner=None, cat="cpu_op"):
        """An operator: what `inner(now, external)` does, between two stretches of its own."""
        self.external += 1
        external = self.external
        end = now + self.ns(1000, 5000)
        if inner:
            end = inner(end, external)
        end += self.ns(500, 3000)
        self.event(cat, name, now, end - now, 100, thread, **{"External id": external})
        # The oracle adds up in floating point and drops events that touch the one before.
        return end + 10

    def compute(self, now, thread, name, stream=7):
        kernel, blocks, occupancy = KERNELS[name]
        args = {"queued": 0, "registers per thread": 32, "shared memory": 0, "blocks per SM": blocks,
                "warps per SM": 8 * blocks, "grid": [64, 1, 1], "block": [256, 1, 1],
                "est. achieved occupancy %": occupancy}
        is_driver = name == "aten::cudnn_convolution"
        return self.operator(now, thread, name, lambda at, external: self.call(
            at, thread, external, "cuLaunchKernel" if is_driver else "cudaLaunchKernel",
            ("kernel", kernel, stream, self.ns(3000, 60000), args),
            cat="cuda_driver" if is_driver else "cuda_runtime"))

    def copy(self, now, thread, name, direction, size, waits):
        def inner(at, external):
            length = self.ns(20000, 60000)
            at = self.call(at, thread, external, "cudaMemcpyAsync",
                           ("gpu_memcpy", "Memcpy " + direction, 7, length,
                            {"bytes": size, "memory bandwidth (GB/s)": size / length}))
            if not waits:
                return at
            end = max(at + 2000, self.free[7] + 1500)
            return self.call(at, thread, external, "cudaStreamSynchronize", None, length=end - at)
        return self.operator(now, thread, name, inner)

    def step(self, now, number):
        begin = now
        self.external += 1
        step_external = self.external
        load = self.ns(40000, 90000)
        self.event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", now,
                   load, 100, MAIN, **{"External id": step_external + 10 ** 6})
        now += load
        now = self.copy(now, MAIN, "aten::to", "HtoD (Pageable -> Device)", 602112, waits=True)
        for _ in range(3):
            now = self.operator(now, MAIN, "aten::conv2d", lambda at, _: self.operator(
                at, MAIN, "aten::convolution", lambda at, _: self.compute(
                    self.compute(at, MAIN, "aten::contiguous"), MAIN, "aten::cudnn_convolution")))
            now = self.compute(now, MAIN, "aten::add", stream=self.random.choice([7, 20]))
        now = self.operator(now, MAIN, "aten::linear", lambda at, _: self.compute(at, MAIN, "aten::mm"))
        now = self.compute(now, MAIN, "aten::sum")
        back = now
        for _ in range(4):
            back = self.operator(
                back, BACKWARD, "autograd::engine::evaluate_function: MmBackward0",
                lambda at, _: self.operator(at, BACKWARD, "MmBackward0", lambda at, _: self.compute(
                    self.compute(at, BACKWARD, "aten::mm"), BACKWARD, "aten::mm")))
            back += self.ns(0, 4000)
        now = back
        # It waits for the gradients, and what follows waits for it.
        self.free[20] = max(self.free.values())
        now = self.operator(now, MAIN, "nccl:all_reduce", lambda at, external: self.call(
            at, MAIN, external, "cudaLaunchKernelExC",
            ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 20, self.ns(30000, 90000),
             {"blocks per SM": 0.2, "est. achieved occupancy %": 2})), cat="user_annotation")
        self.free[7] = self.free[20]
        reset = now
        now = self.operator(now, MAIN, "aten::zero_", lambda at, external: self.call(
            at, MAIN, external, "cudaMemsetAsync",
            ("gpu_memset", "Memset (Device)", 7, self.ns(1500, 4000), {"bytes": 4096})))
        self.event("user_annotation", "Optimizer.zero_grad#SGD.zero_grad", reset - 300, now - reset + 600,
                   100, MAIN, **{"External id": step_external + 2 * 10 ** 6})
        now += 1000
        now = self.operator(now, MAIN, "aten::item", lambda at, _: self.copy(
            at, MAIN, "aten::_local_scalar_dense", "DtoH (Device -> Pinned)", 4, waits=True))
        for _ in range(2):
            now = self.compute(now, MAIN, "aten::add")
        now += self.ns(1000, 20000)
        self.event("user_annotation", "ProfilerStep#%d" % number, begin - 500, now - begin + 700, 100, MAIN,
                   **{"External id": step_external})
        self.event("gpu_user_annotation", "ProfilerStep#%d" % number, begin + 50000, now - begin,
                   self.rank, 7, **{"External id": step_external})
        return now + 1000

    def write(self, path):
        now = 4411714000000000 // 1000
        self.free = {7: now, 20: now}
        for number in range(5, 9):
            now = self.step(now, number)
        self.event("Trace", "PyTorch Profiler (0)", 4411714000000 - 5000, now - 4411714000000 + 9000,
                   "Spans", "PyTorch Profiler")
        device = {"name": "NVIDIA A10G", "totalGlobalMem": 23836033024, "computeMajor": 8, "computeMinor": 6,
                  "numSms": 80, "maxThreadsPerMultiprocessor": 1536}
        trace = {"schemaVersion": 1, "deviceProperties": [{"id": i, **device} for i in range(2)],
                 "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": 2},
                 "displayTimeUnit": "ms", "baseTimeNanoseconds": 1790857026000000000,
                 "traceEvents": self.events, "traceName": os.path.basename(path)[:-3]}
        with gzip.GzipFile(path, "wb", mtime=0) as target:
            target.write(json.dumps(trace, indent=0).encode())


def main():
    for rank in range(2):
        Job(rank).write(os.path.join(sys.argv[1], "rank%d.pt.trace.json.gz" % rank))


if __name__ == "__main__":
    main()
