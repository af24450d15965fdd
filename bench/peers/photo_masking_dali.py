# SPDX-License-Identifier: Apache-2.0
"""The input of recipes/photo_masking.yaml on DALI's CPU pipeline: decoding alone, of whole photos and
of crops, all but the dilation, and all.

By default DALI decodes with the cheaper of libjpeg's ways to enlarge colours, so that its
pixels differ from ours and PIL's. Its own random numbers, one for each pixel, take longer than all else together,
and it has no dilation, so that NumPy makes the masks of a batch.
"""

import glob
import os

import numpy
import torch
from nvidia.dali import fn, pipeline_def, types

import blocks

FOLDER = os.environ.get("PHOTOS", os.path.join(os.path.dirname(__file__), "../../.deps/photos"))
SAMPLES = 10_000
SIZE = 256
RATIO = 0.25
BATCH = 32
MATRIX = [0.299, 0.587, 0.114, -0.16874, -0.33126, 0.5, 0.5, -0.41869, -0.08131]
OFFSET = [0.0, 128.0, 128.0]


def masks(is_dilated: bool):
    """Gives the pixels of a batch that are kept, 1 or 0."""
    draw = numpy.random.default_rng(1)

    def batch() -> numpy.ndarray:
        seeds = numpy.frombuffer(draw.bytes(BATCH * SIZE * SIZE), numpy.uint8).reshape(BATCH, SIZE, SIZE, 1)
        mask = seeds < 256 * RATIO
        if not is_dilated:
            return (~mask).view(numpy.uint8)
        wide = mask.copy()
        wide[:, 1:] |= mask[:, :-1]
        wide[:, :-1] |= mask[:, 1:]
        wide[:, :, 1:] |= mask[:, :, :-1]
        wide[:, :, :-1] |= mask[:, :, 1:]
        return (~wide).view(numpy.uint8)

    return batch


@pipeline_def
def photos(form: str):
    names = sorted(glob.glob(os.path.join(FOLDER, "*.jpg")))
    if not names:
        raise SystemExit(f"no photos in {FOLDER}: run scripts/setup --photos")
    files = [names[i % len(names)] for i in range(SAMPLES)]
    encoded, labels = fn.readers.file(files=files, labels=[i % 10 for i in range(SAMPLES)], shuffle_after_epoch=True)
    if form == "decode whole":
        return fn.decoders.image(encoded, output_type=types.RGB), labels
    pixels = fn.decoders.image_crop(encoded, crop=[SIZE, SIZE], crop_pos_x=fn.random.uniform(range=[0.0, 1.0]),
                                    crop_pos_y=fn.random.uniform(range=[0.0, 1.0]), output_type=types.RGB)
    if form == "decode":
        return pixels, labels
    kept = fn.external_source(masks(form == "all"), batch=True, dtype=types.UINT8, ndim=3)
    points = fn.reshape(pixels * kept, shape=[SIZE * SIZE, 3])
    yuv = fn.coord_transform(points, M=[value / 255 for value in MATRIX], T=[value / 255 for value in OFFSET])
    return fn.transpose(fn.reshape(yuv, shape=[SIZE, SIZE, 3]), perm=[2, 0, 1]), labels


class Job:
    def __init__(self) -> None:
        self.batch_size = BATCH
        self.chosen = None
        self.pipeline = None

    def settings(self) -> list:
        cpus = len(os.sched_getaffinity(0))
        return [{"form": form, "threads": cpus} for form in ("decode whole", "decode", "no dilation", "all")]

    def prepare(self, settings: dict) -> None:
        if settings != self.chosen:
            self.chosen = settings
            self.pipeline = photos(settings["form"], batch_size=BATCH, num_threads=settings["threads"], device_id=None,
                                   seed=1)
            self.pipeline.build()
        # What was made while nobody looked is not counted. DALI has two batches ready, then its threads sleep.
        for _ in range(4):
            self.step()

    def step(self) -> torch.Tensor:
        images, _ = self.pipeline.run()
        return torch.tensor(float(numpy.asarray(images.at(0))[0, 0, 0]))


if __name__ == "__main__":
    blocks.serve(Job)
