#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the photos of recipes/photo_masking.yaml: each 800 x 533, JPEG of quality 90.

usage: photos.py OUT PICTURE...

Needs PIL (Debian: python3-pil). The same pictures and the same PIL give the same bytes.
"""

import pathlib
import sys

from PIL import Image, ImageOps

SIZE = (800, 533)
QUALITY = 90


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True)
    for file in sorted(sys.argv[2:]):
        with Image.open(file) as picture:
            # The largest middle part of these proportions.
            photo = ImageOps.fit(picture.convert("RGB"), SIZE, Image.Resampling.LANCZOS)
        photo.save(out / (pathlib.Path(file).stem + ".jpg"), quality=QUALITY)


if __name__ == "__main__":
    main()
