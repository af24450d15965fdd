#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the tuner mends a bad start of two ranks on a slow connection.

    python3 bench/slow_link.py build/release/bin/autotuned

bench/jobs/slow_link.yaml starts with all gradients in one bucket, and in 32 bits. It is tuned in a network namespace of its
own, whose loopback device `tc` limits to --rate. The device carries both directions, so its default stands for a connection of
1 Gbit/s each way. Nothing outside of the namespace is slowed, and the namespace ends with its last process.

Prints Markdown. Exit status 0: both settings were changed and that was confirmed; 1: not so; 77: no network device can be
limited here, and why. Needs `ip` and `tc` (Debian: iproute2), `unshare`, and root or the right to make user namespaces.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

JOB = pathlib.Path(__file__).resolve().parent / "jobs" / "slow_link.yaml"
SKIPPED = 77  # for CTest
KNOBS = ("ddp.bucket_cap_mb", "ddp.comm_hook", "ddp.gradient_as_bucket_view")
# The queue is long enough for all that two ranks have on their way: nothing is dropped and sent again.
LIMIT = (
    'ip link set lo up && tc qdisc add dev lo root tbf rate "$0" burst 256kb limit 16mb && exec "$@"'
)
# What the device carries in a second, in megabytes.
TRANSFER = """
import socket, threading, time
MEGABYTES = 64
server = socket.create_server(("127.0.0.1", 0))
def take():
    connection, _ = server.accept()
    left = MEGABYTES * 10**6
    while left > 0:
        left -= len(connection.recv(1 << 20))
taker = threading.Thread(target=take)
taker.start()
sender = socket.create_connection(server.getsockname())
start = time.monotonic()
sender.sendall(bytes(MEGABYTES * 10**6))
taker.join()
print(MEGABYTES / (time.monotonic() - start))
"""


def limited(rate: str, command: list[str]) -> list[str]:
    """The command in a namespace whose loopback device has that rate."""
    namespace = ["unshare", "--net"]
    if os.geteuid() != 0:
        namespace[1:1] = ["--user", "--map-root-user"]
    return [*namespace, "sh", "-c", LIMIT, rate, *command]


def environment(folder: str) -> dict[str, str]:
    """Locks of its own: those of this user may belong to somebody else in a user namespace."""
    locks = os.path.join(folder, "locks")
    os.makedirs(locks, mode=0o700, exist_ok=True)
    path = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    return {**os.environ, "PATH": path, "AUTOTUNED_LOCKS": locks}


def transfer_rate(rate: str, folder: str) -> float:
    try:
        done = subprocess.run(
            limited(rate, [sys.executable, "-c", TRANSFER]), env=environment(folder),
            capture_output=True, text=True, timeout=120)
    except FileNotFoundError as error:
        done = subprocess.CompletedProcess([], 1, "", f"{error.filename} is missing")
    if done.returncode != 0:
        print(f"skipped: no device can be limited here: {done.stderr.strip()}", file=sys.stderr)
        sys.exit(SKIPPED)
    return float(done.stdout)


def tune(program: str, rate: str, budget: str | None, folder: str) -> dict:
    command = [
        os.path.abspath(program), "run", str(JOB), "--tune-only", "--retune", "--no-daemon", "--json",
        "--history", os.path.join(folder, "history.db"), "--output", os.path.join(folder, "out")]
    if budget is not None:
        command += ["--budget", budget]
    done = subprocess.run(limited(rate, command), env=environment(folder), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def text_of(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def interval(one: dict) -> str:
    if one["ratio"] is None:
        return ""
    return f"{one['ratio']:.2f} ({one['ratio_low']:.2f} to {one['ratio_high']:.2f})"


def report(run: dict, rate: str, megabytes: float) -> None:
    start, best = run["starting"]["configuration"], run["best"]
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} CPUs. Loopback at {rate}: {megabytes:.0f} MB/s measured. "
          f"Tuning took {run['tuning_seconds']:.0f} s.\n")
    print("| | start | kept |")
    print("|---|---|---|")
    for knob in KNOBS:
        print(f"| `{knob}` | {text_of(start[knob])} | {text_of(best['configuration'].get(knob, start[knob]))} |")
    print(f"| samples/s | {run['baseline']['samples_per_second']:.0f} | {best['samples_per_second']:.0f} |")
    print(f"| faster | | {best['speedup']:.2f} x ({best['speedup_low']:.2f} to {best['speedup_high']:.2f}) |\n")
    print("| trial | change | verdict | ratio (interval) | pairs | why it was tried |")
    print("|---|---|---|---|---|---|")
    for trial in run["trials"]:
        change = ", ".join(f"{knob} {text_of(trial['reference'].get(knob))} → {text_of(value)}"
                           for knob, value in trial["change"].items())
        print(f"| {trial['number']}, {trial['plugin']} | {change} | {trial['verdict']} | {interval(trial)} "
              f"| {trial['pairs']} | {trial['proposal_reason']} |")


def is_mended(run: dict) -> bool:
    start = run["starting"]["configuration"]
    kept = {**start, **run["best"]["configuration"]}
    return (kept["ddp.bucket_cap_mb"] < start["ddp.bucket_cap_mb"] and kept["ddp.comm_hook"] != "none"
            and run["best"]["speedup_low"] > 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Whether the tuner mends a bad start on a slow connection.")
    parser.add_argument("program", help="`autotuned`")
    parser.add_argument("--rate", default="2gbit", help="of the loopback device, as `tc` writes it (%(default)s)")
    parser.add_argument("--budget", help="for tuning, instead of the recipe's")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="autotuned-slow-link-") as folder:
        megabytes = transfer_rate(arguments.rate, folder)
        run = tune(arguments.program, arguments.rate, arguments.budget, folder)
    report(run, arguments.rate, megabytes)
    if not is_mended(run):
        sys.exit("error: the start was not mended")


if __name__ == "__main__":
    main()
