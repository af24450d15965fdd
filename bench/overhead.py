#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What autotuned itself costs: the start of a command, and the session process beside a running job.

    python3 bench/overhead.py build/release/bin/autotuned recipes/fashion_cnn.yaml

Prints Markdown. Reads CPU time from /proc/PID/schedstat (nanoseconds on a CPU).
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time


def start_times_ms(command: list[str], count: int) -> list[float]:
    times = []
    for _ in range(count):
        start = time.monotonic_ns()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append((time.monotonic_ns() - start) / 1e6)
    return times


def children_of(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:
        return []


def cpu_ns(pid: int) -> int:
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total


def session_share(program: str, recipe: str, folder: str, budget: str) -> tuple[float, float, float]:
    """Seconds observed, and the shares of one core that session and supervisor used."""
    command = [program, "run", recipe, "--tune-only", "--retune", "--budget", budget, "--output", folder,
               "--history", os.path.join(folder, "history.db")]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in run.stderr:  # the baseline is measured: set-up is over
        if line.startswith("start"):
            break
    session = children_of(run.pid)[0]
    start = time.monotonic_ns()
    first = {pid: cpu_ns(pid) for pid in (session, run.pid)}
    last, end = dict(first), start
    while run.poll() is None:
        try:
            now = {pid: cpu_ns(pid) for pid in (session, run.pid)}
        except (FileNotFoundError, ProcessLookupError):
            break
        last, end = now, time.monotonic_ns()
        time.sleep(0.2)
    run.stderr.read()
    run.wait()
    seconds = (end - start) / 1e9
    return seconds, (last[session] - first[session]) / 1e9 / seconds, (last[run.pid] - first[run.pid]) / 1e9 / seconds


def main() -> None:
    program, recipe = sys.argv[1], sys.argv[2]
    budget = sys.argv[3] if len(sys.argv) > 3 else "60s"
    with tempfile.TemporaryDirectory() as folder:
        seconds, session, supervisor = session_share(program, recipe, folder, budget)
        history = os.path.join(folder, "history.db")
        listing = start_times_ms([program, "history", "--history", history], 50)
        nothing = start_times_ms(["/bin/true"], 50)
    print("| what | figure |")
    print("|---|---|")
    print(f"| `autotuned history`, whole process, median of 50 | {statistics.median(listing):.1f} ms "
          f"(`/bin/true` in the same way: {statistics.median(nothing):.1f} ms) |")
    print(f"| session process while tuning, over {seconds:.0f} s | {100 * session:.2f} % of one core |")
    print(f"| supervisor (`run`) beside it | {100 * supervisor:.2f} % of one core |")


if __name__ == "__main__":
    main()
