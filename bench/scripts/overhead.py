#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the agent in a script costs where nothing is tried: processes with and without it take turns.

    python3 bench/scripts/overhead.py --seconds 600 [-- train.py ARGS]

"watched": the agent measures blocks of the script as it is, as in a tuning. "released": the tuning is over and kept
nothing. The script must train for longer than the measurement takes; without one it is small_gpt.py. Prints Markdown.
Ends with 1 when the cost of either may be above --most: the upper end of its interval (95 %) decides.
"""

import argparse
import pathlib
import sys
import tempfile

import arms

SMALL_GPT = [str(arms.HERE / "small_gpt.py"), "--steps", "100000000"]


def cost_of(rounds: arms.Rounds, way: str) -> tuple[float, float, float]:
    """How much longer a step takes than untouched, as a share of it: the median over rounds and its ends."""
    median, low, high = arms.ratio_of(rounds, "untouched", reference=way)
    return median - 1.0, low - 1.0, high - 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="of the measurement")
    parser.add_argument("--block", type=float, default=0.5, help="seconds of a turn")
    parser.add_argument("--most", type=float, default=0.005, help="the cost that is permitted, as a share of a step")
    parser.add_argument("script", nargs="*", help="the script and its arguments, behind --")
    options = parser.parse_args()
    script = [str(pathlib.Path(options.script[0]).resolve()), *options.script[1:]] if options.script else SMALL_GPT
    command = [sys.executable, *script]
    with tempfile.TemporaryDirectory() as folder:
        variables = {"PYTHONWARNINGS": "ignore"}
        ways = [arms.Arm(way, command, pathlib.Path(folder), variables) for way in ("untouched", "watched", "released")]
        try:
            rounds = arms.take_turns(ways, options.seconds, options.block)
        except arms.Failed as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    print("| agent | step longer by | interval | rounds |\n|---|---|---|---|")
    is_within = True
    for way in ("watched", "released"):
        cost, low, high = (100.0 * value for value in cost_of(rounds, way))
        print(f"| {way} | {cost:.2f} % | {low:.2f} to {high:.2f} % | {len(rounds)} |")
        is_within = is_within and high <= 100.0 * options.most
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(main())
