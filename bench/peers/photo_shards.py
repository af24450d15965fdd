# SPDX-License-Identifier: Apache-2.0
"""The input of bench/peers/photo_shards.yaml with WebDataset: the same photos in tar shards, the transforms of
photo_masking.py.

    bench/peers/photo_shards.py DIR      packs the photos of .deps/photos, or of PHOTOS, into shards in DIR

The peer reads the shards of .deps/photo-shards, or of the folder SHARDS.
"""

import glob
import io
import os
import sys
import tarfile

import torch
import torchvision
import webdataset

import blocks
import photo_masking

FOLDER = os.environ.get("SHARDS", os.path.join(os.path.dirname(__file__), "../../.deps/photo-shards"))
SHARDS = 4
SAMPLES = 1000  # in all


def pack(folder: str) -> None:
    files = sorted(glob.glob(os.path.join(photo_masking.FOLDER, "*.jpg")))
    os.makedirs(folder, exist_ok=True)
    for shard in range(SHARDS):
        with tarfile.open(os.path.join(folder, f"photos-{shard}.tar"), "w", format=tarfile.USTAR_FORMAT) as tar:
            for sample in range(shard, SAMPLES, SHARDS):
                with open(files[sample % len(files)], "rb") as file:
                    photo = file.read()
                for ending, data in (("jpg", photo), ("cls", str(sample % 10).encode())):
                    entry = tarfile.TarInfo(f"{sample:05}.{ending}")
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))


def best(photo: bytes) -> torch.Tensor:
    pixels = torchvision.io.decode_jpeg(torch.frombuffer(bytearray(photo), dtype=torch.uint8))
    return photo_masking.best_of(pixels)


FORMS = {"published": lambda photo: photo_masking.published(io.BytesIO(photo)),
         "tuned": lambda photo: photo_masking.tuned(io.BytesIO(photo)),
         "best": best}


class Job(photo_masking.Job):
    forms = FORMS

    def make_loader(self, form: str, workers: int):
        shards = sorted(glob.glob(os.path.join(FOLDER, "*.tar")))
        if not shards:
            raise SystemExit(f"no shards in {FOLDER}: run bench/peers/photo_shards.py {FOLDER}")
        data = (webdataset.WebDataset(shards, shardshuffle=len(shards)).repeat().shuffle(100).to_tuple("jpg", "cls")
                .map_tuple(self.forms[form], int).batched(self.batch_size, partial=False))
        return webdataset.WebLoader(data, batch_size=None, num_workers=workers, persistent_workers=workers > 0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        pack(sys.argv[1])
    else:
        blocks.serve(Job)
