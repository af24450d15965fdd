#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which figure of the blocks of two processes says best how much faster one is?

    python3 bench/error_rates/block_estimators.py bench/data/placebos/process_blocks.txt

Reads what `placebos --blocks FILE` has written, and prints Markdown: for each estimator of the log-ratio, over pairs of
processes with so many pairs of blocks each, its mean, its deviation, and how often it is below 1 %.
"""

import collections
import math
import statistics
import sys


def faster_half(rates):
    kept = sorted(rates, reverse=True)[: (len(rates) + 1) // 2]
    return statistics.fmean(map(math.log, kept))


ESTIMATORS = {
    "median of the ratios": lambda own, other: statistics.median(
        math.log(a / b) for a, b in zip(own, other)
    ),
    "ratio of the medians": lambda own, other: math.log(
        statistics.median(own) / statistics.median(other)
    ),
    "ratio of the totals": lambda own, other: math.log(
        statistics.harmonic_mean(own) / statistics.harmonic_mean(other)
    ),
    "ratio of the faster halves": lambda own, other: faster_half(own) - faster_half(other),
}


def read(file):
    """Rates of the candidate's and the reference's blocks, by pair of processes."""
    found = collections.defaultdict(lambda: ([], []))
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            trial, processes, _, is_candidate, _, samples, _, duration_ns = map(int, line.split())
            rate = samples / duration_ns * 1e9
            found[trial, processes][0 if is_candidate else 1].append(rate)
    return list(found.values())


def main():
    pairs = read(sys.argv[1])
    most = min(len(other) for _, other in pairs)
    print("| blocks | estimator | pairs of processes | mean | deviation | below 1 % |")
    print("|---|---|---|---|---|---|")
    for count in (5, 7, 10, 14, most):
        for name, estimator in ESTIMATORS.items():
            values = [
                estimator(own[at : at + count], other[at : at + count])
                for own, other in pairs
                for at in range(0, most - count + 1, count)
            ]
            below = sum(value < 0.01 for value in values) / len(values)
            print(
                f"| {count} | {name} | {len(values)} | {100 * statistics.fmean(values):.1f} % | "
                f"{100 * statistics.stdev(values):.1f} % | {100 * below:.1f} % |"
            )


if __name__ == "__main__":
    main()
