# SPDX-License-Identifier: Apache-2.0
"""Several ranks of a recipe against DistributedDataParallel, to the last bit."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

import torch
import torch._dynamo  # noqa: F401  for forks: the first optimizer of each would import it

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "scripts"))

import data_parallel  # noqa: E402

PATIENCE_S = 240
STEPS = 50
BATCH = 8
# Neither two nor three ranks share them evenly, and batches do not fill an epoch.
SAMPLES = 173
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
FASHION_BATCH = 32


def write_idx(folder: pathlib.Path, images: torch.Tensor, labels: torch.Tensor) -> None:
    """The data for both sides."""
    torch.save({"images": images, "labels": labels}, folder / "data.pt")
    count, _, height, width = images.shape
    (folder / "images").write_bytes(
        struct.pack(">IIII", 0x0803, count, height, width) + bytes(images.flatten().tolist())
    )
    (folder / "labels").write_bytes(struct.pack(">II", 0x0801, count) + bytes(labels.tolist()))


def write_job(folder: pathlib.Path, start: str = "", tune: str = "budget: 0s") -> None:
    """The data for both sides, and the parameters that both start from."""
    torch.manual_seed(3)
    side = data_parallel.SIDE
    images = torch.randint(0, 256, (SAMPLES, 1, side, side), dtype=torch.uint8)
    write_idx(folder, images, torch.randint(0, data_parallel.CLASSES, (SAMPLES,)))
    torch.save(dict(data_parallel.Mlp().state_dict()), folder / "start.pt")
    rate = data_parallel.JOBS["mlp"].rate
    (folder / "recipe.yaml").write_text(
        f"""autotuned: 1
name: ranks
device: cpu
model:
  type: mlp
  hidden: {data_parallel.HIDDEN}
  classes: {data_parallel.CLASSES}
  weights: start.pt
data: {{type: idx, images: images, labels: labels, shuffle: false}}
input:
  - scale: {{by: 1/256}}
optimizer: {{type: sgd, lr: {rate}, momentum: {data_parallel.MOMENTUM}}}
train: {{steps: {STEPS}, batch_size: {BATCH}}}
start: {{threads.intra_op: 1{start}}}
tune: {{{tune}}}
"""
    )


def read_fashion(name: str, header: int, count: int) -> bytes:
    with gzip.open(FASHION / name) as file:
        return file.read(header + count)[header:]


def write_fashion_job(folder: pathlib.Path) -> None:
    """recipes/fashion_cnn.yaml over its first pictures in their order.

    Without tuning, and without rounding of pixels.
    """
    count, side = 2 * STEPS * FASHION_BATCH, 28
    pixels = read_fashion("train-images-idx3-ubyte.gz", 16, count * side * side)
    labels = read_fashion("train-labels-idx1-ubyte.gz", 8, count)
    images = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(count, 1, side, side)
    write_idx(folder, images, torch.frombuffer(bytearray(labels), dtype=torch.uint8).long())
    torch.manual_seed(3)
    torch.save(dict(data_parallel.FashionCnn().state_dict()), folder / "start.pt")
    rate = data_parallel.JOBS["fashion_cnn"].rate
    (folder / "recipe.yaml").write_text(
        f"""autotuned: 1
name: ranks
device: cpu
model: {{type: fashion_cnn, classes: 10, weights: start.pt}}
data: {{type: idx, images: images, labels: labels, shuffle: false}}
input:
  - scale: {{by: 1/256}}
optimizer: {{type: sgd, lr: {rate}, momentum: {data_parallel.MOMENTUM}}}
train: {{steps: {STEPS}, batch_size: {FASHION_BATCH}}}
start: {{threads.intra_op: 1}}
tune: {{budget: 0s}}
"""
    )


def train_in_pytorch(
    folder: pathlib.Path, job: str, ranks: int, batch: int
) -> dict[str, torch.Tensor]:
    # Forks need not import PyTorch, which takes longer than they train.
    fork = multiprocessing.get_context("fork")
    started = [
        fork.Process(
            target=data_parallel.train,
            args=(folder, job, rank, ranks, STEPS, batch),
            daemon=True,  # the test's end is that of one that hangs
        )
        for rank in range(ranks)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(timeout=PATIENCE_S)
        assert process.exitcode == 0, process.exitcode
    return torch.load(folder / "expected.pt")


def run_in(
    folder: pathlib.Path, program: list[str], *options: str
) -> subprocess.CompletedProcess[str]:
    own = ["run", "recipe.yaml", "--no-daemon", "--history", "history.sqlite", "--output", "out"]
    return subprocess.run(
        [*program, *own, *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


class Ranks(unittest.TestCase):
    def expect_as_in_pytorch(
        self, folder: pathlib.Path, job: str, ranks: int, batch: int
    ) -> None:
        expected = train_in_pytorch(folder, job, ranks, batch)
        program = os.environ["AUTOTUNED_PROGRAM"]
        done = run_in(folder, [program], "--ranks", str(ranks))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        trained = torch.load(folder / "out" / "model.pt")
        start = torch.load(folder / "start.pt")
        self.assertEqual(sorted(trained), sorted(expected))
        for parameter, value in expected.items():
            self.assertTrue(torch.equal(trained[parameter], value), parameter)
            self.assertFalse(torch.equal(start[parameter], value), parameter)

    def test_they_train_as_distributed_data_parallel_does(self) -> None:
        # Two numbers have one sum; three have one for each order, and Gloo's is the same in both.
        for ranks in (2, 3):
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                write_job(folder)
                self.expect_as_in_pytorch(folder, "mlp", ranks, BATCH)

    @unittest.skipUnless(FASHION.is_dir(), "needs the Debian package dataset-fashion-mnist")
    def test_they_train_the_main_job_as_distributed_data_parallel_does(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_fashion_job(folder)
            self.expect_as_in_pytorch(folder, "fashion_cnn", 2, FASHION_BATCH)

    def test_they_are_tuned_and_torchrun_starts_them(self) -> None:
        # What plugin set_to_none then proposes to change.
        start = ", optimizer.set_to_none: off"
        tune = "budget: 8s, plugins: [set_to_none, gradient_buckets]"
        program = os.environ["AUTOTUNED_PROGRAM"]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        torchrun += ["--nproc-per-node", "2", "--no-python"]
        # Each process in a shell of its own, as in a script.
        torchrun += ["sh", "-c", '"$0" "$@"; exit $?']
        for launcher in ([], torchrun):
            with self.subTest(launcher=launcher), tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                write_job(folder, start, tune)
                options = () if launcher else ("--ranks", "2")
                done = run_in(folder, [*launcher, program], "--json", *options)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                run = json.loads(done.stdout.strip().splitlines()[-1])
                self.assertEqual(run["training"]["steps"], STEPS)
                self.assertGreater(run["baseline"]["samples_per_second"], 0.0)
                for trial in run["trials"]:
                    self.assertNotEqual(trial["verdict"], "failed", trial)

    # Two agents on this machine stand for two machines.
    def test_torchrun_on_several_machines_is_refused_on_each(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_job(folder)
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
            torchrun += ["--nproc-per-node", "1", "--master-addr", "127.0.0.1"]
            torchrun += ["--master-port", str(port), "--no-python"]
            command = [os.environ["AUTOTUNED_PROGRAM"], "run", "recipe.yaml", "--no-daemon"]
            command += ["--history", "history.sqlite", "--output", "out"]
            agents = [
                subprocess.Popen(
                    [*torchrun, "--node-rank", str(node), *command],
                    cwd=folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                for node in range(2)
            ]
            for agent in agents:
                said, _ = agent.communicate(timeout=PATIENCE_S)
                self.assertNotEqual(agent.returncode, 0, said)
                self.assertIn("2 processes on several machines (1 on this one)", said)
            self.assertFalse((folder / "history.sqlite").exists(), "nothing was begun")
            self.assertFalse((folder / "out").exists(), "nothing was begun")


if __name__ == "__main__":
    unittest.main()
