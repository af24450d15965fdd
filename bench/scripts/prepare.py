#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a public script with its data below a folder, as run.py does for each process that it starts.

    python3 bench/scripts/prepare.py CHECKOUT SCRIPT FOLDER

CHECKOUT is the checkout of its repository, SCRIPT a name of jobs.py. The folder must not be there yet. Prints where the
script runs, below FOLDER, and the words behind the interpreter, a line each: with the length that no measurement
reaches. Needs no PyTorch.
"""

import argparse
import dataclasses
import pathlib
import sys

from jobs import JOBS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("script", choices=[job.name for job in JOBS])
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    checkout = options.checkout.resolve()
    job = next(job for job in JOBS if job.name == options.script)
    job = dataclasses.replace(job, repository=checkout.name)
    if not job.script_in(checkout.parent).is_file():
        print(f"error: there is no {job.script_in(checkout.parent)}", file=sys.stderr)
        return 2
    place = job.prepare(checkout.parent, options.folder, job.long)
    print("\n".join([str(place.relative_to(options.folder)), *job.words(job.long)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
