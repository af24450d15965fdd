# SPDX-License-Identifier: Apache-2.0
"""The job of recipes/fashion_cnn.yaml in PyTorch, written by hand as fast as we know how.

Speaks as much of docs/trainer-protocol.md as a benchmark needs (load, prepare, run, stop) on descriptor 3.
The data lies in memory as one uint8 tensor; a batch is one indexed read and one fused conversion; the loss
stays a tensor until the block is over. `prepare` takes the settings that a person would try:

    {"batch_size": 32, "channels_last": true, "compile": false, "threads": 2, "autocast": false}
"""

import gzip
import json
import os
import socket
import struct
import time

import numpy as np
import torch
from torch import nn

FOLDER = os.environ.get("AUTOTUNED_FASHION_MNIST", "/usr/share/datasets/fashion-mnist")
MEAN, STD = 0.286, 0.353


class FashionCnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.linear = nn.Linear(64 * 7 * 7, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.linear(torch.flatten(x, 1))


def read_idx(name: str) -> torch.Tensor:
    with gzip.open(os.path.join(FOLDER, name)) as file:
        data = file.read()
    dimensions = data[3]
    shape = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
    array = np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * dimensions).reshape(shape)
    return torch.from_numpy(array.copy())


class Job:
    def __init__(self) -> None:
        self.images = read_idx("train-images-idx3-ubyte.gz").unsqueeze(1)
        self.labels = read_idx("train-labels-idx1-ubyte.gz").long()
        self.settings = None

    def prepare(self, settings: dict) -> None:
        if settings == self.settings:
            return
        torch.manual_seed(1)
        self.settings = settings
        torch.set_num_threads(settings["threads"])
        self.batch_size = settings["batch_size"]
        self.format = torch.channels_last if settings["channels_last"] else torch.contiguous_format
        self.model = FashionCnn().to(memory_format=self.format)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, fused=settings["fused"])
        self.forward = torch.compile(self.loss_of) if settings["compile"] else self.loss_of
        self.order = torch.randperm(len(self.images))
        self.position = 0
        for _ in range(5):
            self.step()

    def loss_of(self, raw: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = raw.float().mul_(1 / (255 * STD)).sub_(MEAN / STD)
        x = x.contiguous(memory_format=self.format)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.settings["autocast"]):
            scores = self.model(x)
        return nn.functional.cross_entropy(scores.float(), labels)

    def step(self) -> torch.Tensor:
        if self.position + self.batch_size > len(self.order):
            self.order = torch.randperm(len(self.images))
            self.position = 0
        batch = self.order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(self.images[batch], self.labels[batch])
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def run(self, minimum_ns: int, minimum_steps: int) -> dict:
        start = time.monotonic_ns()
        steps = 0
        while True:
            loss = self.step()
            steps += 1
            if steps == 1:
                first = loss
            end = time.monotonic_ns()
            if end - start >= minimum_ns and steps >= minimum_steps:
                break
        return {
            "start_ns": start, "end_ns": end, "duration_ns": end - start, "steps": steps,
            "samples": steps * self.batch_size, "first_loss": float(first), "last_loss": float(loss),
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


def main() -> None:
    connection = socket.socket(fileno=3)

    def send(value: dict) -> None:
        text = json.dumps(value).encode()
        connection.sendall(struct.pack("<I", len(text)) + text)

    send({"hello": {"protocol": 1, "trainer": "PyTorch by hand", "libtorch": torch.__version__,
                    "pid": os.getpid(), "devices": ["cpu"], "cuda_reason": "not used", "knobs": []}})
    job = Job()
    while True:
        (length,) = struct.unpack("<I", receive(connection, 4))
        request = json.loads(receive(connection, length))
        answer = {}
        if request["request"] == "prepare":
            job.prepare(request["configuration"])
        elif request["request"] == "run":
            answer = job.run(request["minimum_ns"], request.get("minimum_steps", 1))
        send({"id": request["id"], "ok": answer})
        if request["request"] == "stop":
            return


if __name__ == "__main__":
    main()
