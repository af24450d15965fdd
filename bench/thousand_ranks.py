# SPDX-License-Identifier: Apache-2.0
"""What more ranks than one machine has would need: store traffic of a join, and the time of a switch.

    python3 bench/thousand_ranks.py                       # the simulation; needs nothing
    .deps/peers/bin/python bench/thousand_ranks.py --join # counts what PyTorch's Gloo asks of its store

A switch is a request that goes from the first rank to all others, the work of each rank, and an answer that comes back. Flat is
what `autotuned-trainer` does on one machine: the first rank writes to each of the others, and reads the answers of all. In a tree
each rank passes the request on before it begins its own work, puts the answers of its children together with its own, and sends
one answer up. The model: a message costs its sender and its receiver some time each, during which they do nothing else, and takes
some time on its way, which is longer between machines. The work of a rank is drawn (log-normal), the same for flat and tree.
"""

from __future__ import annotations

import argparse
import random
import statistics

COLUMNS = ("ranks", "fan-out", "messages of the first rank", "beyond the slowest, median", "largest")


class Network:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.per_machine = arguments.per_machine
        self.message_ms = arguments.message_us / 1e3
        self.local_ms = arguments.local_us / 1e3
        self.remote_ms = arguments.remote_us / 1e3

    def way_ms(self, one: int, other: int) -> float:
        is_local = one // self.per_machine == other // self.per_machine
        return self.local_ms if is_local else self.remote_ms

    def children(self, ranks: int, fan_out: int) -> list[list[int]]:
        """Of each rank. The first one of a machine has the others of that machine, in a tree of machines."""
        below: list[list[int]] = [[] for _ in range(ranks)]
        if fan_out == 0:
            below[0] = list(range(1, ranks))
            return below
        firsts = list(range(0, ranks, self.per_machine))
        for i, first in enumerate(firsts):
            # Those that are far away first: theirs is the longer way.
            below[first] += firsts[i * fan_out + 1 : (i + 1) * fan_out + 1]
            below[first] += range(first + 1, min(first + self.per_machine, ranks))
        return below

    def beyond_ms(self, below: list[list[int]], own_ms: list[float]) -> float:
        """How long a switch takes beyond the slowest rank's own work."""

        def answered(rank: int, asked: float) -> float:
            now = asked
            arrivals = []
            for child in below[rank]:
                now += self.message_ms
                way = self.way_ms(rank, child)
                arrivals.append(answered(child, now + way + self.message_ms) + way)
            now += own_ms[rank]
            for arrival in sorted(arrivals):
                now = max(now, arrival) + self.message_ms
            return now if rank == 0 else now + self.message_ms

        return answered(0, 0.0) - max(own_ms)


def simulate(arguments: argparse.Namespace) -> None:
    network = Network(arguments)
    rows = []
    for ranks in arguments.ranks:
        for fan_out in arguments.fan_outs:
            if fan_out > 0 and ranks <= network.per_machine:
                continue
            below = network.children(ranks, fan_out)
            dice = random.Random(arguments.seed)
            beyond = []
            for _ in range(arguments.switches):
                own = [arguments.own_ms * dice.lognormvariate(0.0, arguments.spread) for _ in range(ranks)]
                beyond.append(network.beyond_ms(below, own))
            rows.append((ranks, fan_out or "flat", 2 * len(below[0]),
                         f"{statistics.median(beyond):.2f} ms", f"{max(beyond):.2f} ms"))
    print_table(COLUMNS, rows)


# What one rank of Gloo's full mesh asks of the store.
def join(arguments: argparse.Namespace) -> None:
    import threading

    from torch import distributed

    class Counted(distributed.Store):
        def __init__(self, behind: distributed.Store) -> None:
            super().__init__()
            self.behind = behind
            self.lock = threading.Lock()
            self.asked = {"set": 0, "get": 0, "wait": 0, "bytes": 0}

        def count(self, what: str, size: int = 0) -> None:
            with self.lock:
                self.asked[what] += 1
                self.asked["bytes"] += size

        def set(self, key, value) -> None:
            self.count("set", len(value))
            self.behind.set(key, value)

        def get(self, key):
            value = self.behind.get(key)
            self.count("get", len(value))
            return value

        def wait(self, keys, *rest) -> None:
            self.count("wait")
            self.behind.wait(keys, *rest)

    rows = []
    for ranks in arguments.join_ranks:
        behind = distributed.HashStore()
        stores = [Counted(behind) for _ in range(ranks)]
        groups: list = [None] * ranks

        def enter(rank: int, stores: list = stores, groups: list = groups) -> None:
            groups[rank] = distributed.ProcessGroupGloo(stores[rank], rank, len(stores))

        threads = [threading.Thread(target=enter, args=(rank,)) for rank in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asked = {what: sum(store.asked[what] for store in stores) for what in stores[0].asked}
        rows.append((ranks, asked["set"], asked["get"], asked["wait"], f"{asked['bytes'] / 1e3:.1f} kB"))
    print_table(("ranks", "set", "get", "wait", "bytes"), rows)


def print_table(columns: tuple, rows: list) -> None:
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=numbers, default=[8, 64, 256, 1024])
    parser.add_argument("--per-machine", type=int, default=8)
    parser.add_argument("--fan-outs", type=numbers, default=[0, 2, 4, 16], help="0: flat")
    parser.add_argument("--switches", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--own-ms", type=float, default=1.0, help="median of a rank's own switch")
    parser.add_argument("--spread", type=float, default=0.3, help="of its logarithm")
    parser.add_argument("--message-us", type=float, default=20.0, help="for its sender, and for its receiver")
    parser.add_argument("--local-us", type=float, default=10.0, help="on its way, within a machine")
    parser.add_argument("--remote-us", type=float, default=50.0, help="on its way, between machines")
    parser.add_argument("--join", action="store_true")
    parser.add_argument("--join-ranks", type=numbers, default=[2, 4, 8, 16])
    arguments = parser.parse_args()
    if arguments.join:
        join(arguments)
    else:
        simulate(arguments)


if __name__ == "__main__":
    main()
