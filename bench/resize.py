#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Resizes pictures of bytes in one thread, ours, PIL's and torchvision's, in blocks that alternate.

usage: bench/resize.py PROGRAM [--side 32] [--target 224] [--rounds 9] [--seconds 0.5] [--batch 32]

PROGRAM is build/release/bin/resize_pictures. Needs Pillow, torch and torchvision (bench/peers/setup). First it
compares every byte of ours with PIL's and torchvision's.
"""

import argparse
import random
import statistics
import subprocess
import tempfile
import time

import numpy
import torch
from PIL import Image
from torchvision.transforms.v2 import functional

COUNT = 64


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--target", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--batch", type=int, default=32)
    return parser.parse_args()


def timed(step, pictures, seconds):
    start = time.monotonic()
    done = 0
    while time.monotonic() - start < seconds:
        step()
        done += pictures
    return done / (time.monotonic() - start)


def main():
    options = parse()
    torch.set_num_threads(1)
    target = (options.target, options.target)
    pictures = torch.randint(0, 256, (COUNT, 3, options.side, options.side), dtype=torch.uint8)
    images = [Image.fromarray(one.permute(1, 2, 0).contiguous().numpy()) for one in pictures]
    batch = pictures[torch.arange(options.batch) % COUNT].contiguous(memory_format=torch.channels_last)
    next_image = iter(range(1 << 62))

    def pil():
        images[next(next_image) % COUNT].resize(target, Image.Resampling.BILINEAR)

    def torchvision():
        functional.resize(batch, list(target), antialias=True)

    with tempfile.TemporaryDirectory() as folder:
        source, result = f"{folder}/source", f"{folder}/result"
        pictures.numpy().tofile(source)
        ours = subprocess.Popen(
            [options.program, source, result, str(COUNT), str(options.side), str(options.target)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if ours.stdout.readline() != "ready\n":
            raise SystemExit("the program did not start")
        made = torch.from_numpy(numpy.fromfile(result, dtype=numpy.uint8)).view(COUNT, 3, *target)

        def by_ours(seconds):
            print(seconds, file=ours.stdin, flush=True)
            return float(ours.stdout.readline())

        by_pil = torch.stack([torch.from_numpy(numpy.array(image.resize(target, Image.Resampling.BILINEAR)))
                              for image in images]).permute(0, 3, 1, 2)
        by_torchvision = functional.resize(pictures.contiguous(memory_format=torch.channels_last),
                                           list(target), antialias=True)
        print(f"bytes that differ from PIL: {(made != by_pil).sum()}, from torchvision: "
              f"{(made != by_torchvision).sum()}, of {made.numel()}")
        sides = {"ours": by_ours, "PIL": lambda s: timed(pil, 1, s),
                 "torchvision v2, uint8 channels_last": lambda s: timed(torchvision, options.batch, s)}
        rates = {name: [] for name in sides}
        for _ in range(options.rounds):
            for name in random.sample(list(sides), len(sides)):
                rates[name].append(sides[name](options.seconds))
        print("| one thread | pictures/s, median | least | most | ours / it, median of rounds |")
        print("|---|---|---|---|---|")
        for name, values in rates.items():
            ratio = statistics.median(own / other for own, other in zip(rates["ours"], values))
            print(f"| {name} | {statistics.median(values):.0f} | {min(values):.0f} | {max(values):.0f} | "
                  f"{ratio:.2f} |")
        ours.stdin.close()
        ours.wait()


if __name__ == "__main__":
    main()
