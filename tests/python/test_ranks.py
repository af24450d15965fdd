# SPDX-License-Identifier: Apache-2.0
"""Several ranks of a recipe against DistributedDataParallel, to the last bit."""

from __future__ import annotations

import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "scripts"))

import data_parallel  # noqa: E402

PATIENCE_S = 240
STEPS = 50
BATCH = 8
# Neither two nor three ranks share them evenly, and batches do not fill an epoch.
SAMPLES = 173


def write_job(folder: pathlib.Path) -> None:
    """The data for both sides, and the parameters that both start from."""
    torch.manual_seed(3)
    side = data_parallel.SIDE
    images = torch.randint(0, 256, (SAMPLES, 1, side, side), dtype=torch.uint8)
    labels = torch.randint(0, data_parallel.CLASSES, (SAMPLES,))
    torch.save({"images": images, "labels": labels}, folder / "data.pt")
    torch.save(dict(data_parallel.Mlp().state_dict()), folder / "start.pt")
    (folder / "images").write_bytes(
        struct.pack(">IIII", 0x0803, SAMPLES, side, side) + bytes(images.flatten().tolist())
    )
    (folder / "labels").write_bytes(struct.pack(">II", 0x0801, SAMPLES) + bytes(labels.tolist()))
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
optimizer: {{type: sgd, lr: {data_parallel.RATE}, momentum: {data_parallel.MOMENTUM}}}
train: {{steps: {STEPS}, batch_size: {BATCH}}}
start: {{threads.intra_op: 1}}
tune: {{budget: 0s}}
"""
    )


def train_in_pytorch(folder: pathlib.Path, ranks: int) -> dict[str, torch.Tensor]:
    script = HERE / "scripts" / "data_parallel.py"
    started = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder)]
            + [str(number) for number in (rank, ranks, STEPS, BATCH)]
        )
        for rank in range(ranks)
    ]
    for process in started:
        assert process.wait(timeout=PATIENCE_S) == 0
    return torch.load(folder / "expected.pt")


class Ranks(unittest.TestCase):
    def test_they_train_as_distributed_data_parallel_does(self) -> None:
        # Two numbers have one sum; three have one for each order, and Gloo's is the same in both.
        for ranks in (2, 3):
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                write_job(folder)
                expected = train_in_pytorch(folder, ranks)
                done = subprocess.run(
                    [
                        os.environ["AUTOTUNED_PROGRAM"],
                        "run",
                        "recipe.yaml",
                        "--ranks",
                        str(ranks),
                        "--no-daemon",
                        "--history",
                        "history.sqlite",
                        "--output",
                        "out",
                    ],
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE_S,
                    check=False,
                )
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                trained = torch.load(folder / "out" / "model.pt")
                start = torch.load(folder / "start.pt")
                self.assertEqual(sorted(trained), sorted(expected))
                for parameter, value in expected.items():
                    self.assertTrue(torch.equal(trained[parameter], value), parameter)
                    self.assertFalse(torch.equal(start[parameter], value), parameter)


if __name__ == "__main__":
    unittest.main()
