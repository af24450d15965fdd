# SPDX-License-Identifier: Apache-2.0
"""The input of recipes/photo_masking.yaml by autotuned.Loader in a plain loop of PyTorch, loading alone: the work that
photo_masking.py does with a DataLoader. With `index`, a crop is decoded without the rest of its photo, once a file was
read.

Needs the release build, and of Python only PyTorch. The photos are those of photo_masking.py.
"""

import os
import sys
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ.setdefault("AUTOTUNED_PROGRAM", os.path.join(ROOT, "build/release/bin/autotuned"))

import torch  # noqa: E402

import autotuned  # noqa: E402
import blocks  # noqa: E402

FOLDER = os.environ.get("PHOTOS", os.path.join(ROOT, ".deps/photos"))
DATA = {"type": "jpeg_files", "files": os.path.join(FOLDER, "*.jpg"), "repeat_to": 10_000, "labels": "random",
        "classes": 10}
TRANSFORMS = [{"random_crop": {"size": 256}}, {"random_mask": {"ratio": 0.25, "dilate": "4-neighbour"}}, "rgb_to_yuv",
              {"scale": {"by": 1 / 255}}]
PREFETCH_FACTOR = 2


class Job:
    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.batch_size = 32
        self.chosen = None

    def settings(self) -> list:
        cpus = len(os.sched_getaffinity(0))
        return [{"workers": workers, "index": index} for workers in (0, cpus) for index in (False, True)]

    def prepare(self, settings: dict) -> None:
        if settings != self.chosen:
            self.chosen = settings
            self.batches = self.endless(autotuned.Loader(
                DATA, TRANSFORMS, batch_size=self.batch_size, shuffle=True, drop_last=True,
                workers=settings["workers"], prefetch_factor=PREFETCH_FACTOR,
                index_bytes=1 << 30 if settings["index"] else 0))
        # What was made while nobody looked is not counted.
        for _ in range(PREFETCH_FACTOR * settings["workers"] + 1):
            self.step()

    @staticmethod
    def endless(loader):
        while True:
            yield from loader

    def pause(self) -> None:
        # Its threads rest once all batches ahead are ready; then the process uses no time.
        while True:
            before = time.process_time()
            time.sleep(0.005)
            if time.process_time() - before < 0.0005:
                return

    def step(self) -> torch.Tensor:
        images, _ = next(self.batches)
        return images[0, 0, 0, 0]


if __name__ == "__main__":
    blocks.serve(Job)
