# SPDX-License-Identifier: Apache-2.0
"""The input of recipes/photo_masking.yaml on SPDL: its threads and FFmpeg decode and crop, PyTorch does the rest.

FFmpeg enlarges colours its own way, so that pixels differ from ours and PIL's.
"""

import glob
import itertools
import os
import random

import spdl.io
import torch
from spdl.pipeline import PipelineBuilder

import blocks
from photo_masking import FOLDER, RATIO, SAMPLES, SCALED_MATRIX, SCALED_OFFSET, SIZE, dilated

BATCH = 32


def decoded(file: str) -> torch.Tensor:
    packets = spdl.io.demux_image(file)
    top, left = random.randint(0, packets.height - SIZE), random.randint(0, packets.width - SIZE)
    frames = spdl.io.decode_packets(packets, filter_desc=f"crop={SIZE}:{SIZE}:{left}:{top},format=pix_fmts=rgb24")
    return spdl.io.to_torch(spdl.io.convert_frames(frames))


def made(file: str) -> torch.Tensor:
    part = decoded(file).permute(2, 0, 1).float()
    part.mul_(~dilated(torch.randint(0, 256, (SIZE, SIZE), dtype=torch.uint8) < int(256 * RATIO)))
    return torch.addmm(SCALED_OFFSET, SCALED_MATRIX, part.view(3, -1)).view(3, SIZE, SIZE)


FORMS = {"decode": decoded, "all": made}


def shuffled():
    names = sorted(glob.glob(os.path.join(FOLDER, "*.jpg")))
    if not names:
        raise SystemExit(f"no photos in {FOLDER}: run scripts/setup --photos")
    samples = [names[i % len(names)] for i in range(SAMPLES)]
    for _ in itertools.count():
        random.shuffle(samples)
        yield from samples


class Job:
    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.batch_size = BATCH
        self.pipeline = None

    def settings(self) -> list:
        cpus = len(os.sched_getaffinity(0))
        return [{"form": form, "threads": cpus} for form in FORMS]

    def prepare(self, settings: dict) -> None:
        self.pause()
        threads = settings["threads"]
        self.pipeline = (PipelineBuilder().add_source(shuffled()).pipe(FORMS[settings["form"]], concurrency=threads)
                         .aggregate(BATCH).pipe(torch.stack).add_sink(2).build(num_threads=threads))
        self.pipeline.start()
        self.batches = self.pipeline.get_iterator()
        for _ in range(6):  # threads, codecs and memory are set up, and the queues as full as they get
            self.step()

    def pause(self) -> None:
        if self.pipeline:
            self.pipeline.stop()
        self.pipeline = None

    def step(self) -> torch.Tensor:
        return next(self.batches)[0].flatten()[0].float()


if __name__ == "__main__":
    blocks.serve(Job)
