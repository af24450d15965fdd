# SPDX-License-Identifier: Apache-2.0
"""Rows of results, and all that commands said and wrote, kept as one archive."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import threading
import time

MOST_KEPT_BYTES = 16 << 20
MOST_FILE_BYTES = 4 * MOST_KEPT_BYTES  # before it is packed
PIPE_SECONDS = 10
PACK_SECONDS = 60  # from one archive to the next, which takes its place


class Report:
    """`keep`: a folder for files to be kept, or None. `archive`: what they are packed into as they come, or None: who is
    killed (SIGKILL) packs nothing any more. Rows are beside it, one a line, until the last archive has them. Several
    threads may use it."""

    def __init__(self, root, keep=None, archive=None):
        self.rows = []
        self.facts = {}
        self.runs = {}
        self.root = root
        self.keep = keep
        self.commands = 0
        self.archive = archive
        self.packed = time.monotonic()
        self.lock = threading.RLock()
        self.running = set()  # processes of run()

    def add(self, what, result, figure="", note=""):
        with self.lock:
            self.rows.append({"what": what, "result": result, "figure": figure, "note": note})
            if self.archive:
                with contextlib.suppress(OSError), open(self.rows_file(), "a") as file:
                    file.write(json.dumps(self.rows[-1]) + "\n")
            print(f"{result:<8} {what}: {figure or note}", file=sys.stderr, flush=True)

    def rows_file(self):
        return self.archive.with_name(self.archive.name.split(".")[0] + "-rows.jsonl")

    def pack(self):
        """Files that are too large for the archive."""
        self.place("result.json", None).write_text(self.to_json())
        self.place("result.md", None).write_text(self.table() + "\n")
        part = self.archive.with_name(self.archive.name + ".part")
        left_out = pack(self.keep, part)
        part.replace(self.archive)
        self.packed = time.monotonic()
        return left_out

    def table(self):
        lines = ["| what | result | figure | note |", "|---|---|---|---|"]
        for row in self.rows:
            lines.append("| " + " | ".join(" ".join(str(cell).replace("|", "/").split()) for cell in row.values()) + " |")
        return "\n".join(lines)

    def has_failures(self):
        """`below`: it ran, and did not reach its aim."""
        return any(row["result"] in ("failed", "below") for row in self.rows)

    def to_json(self):
        return json.dumps({"facts": self.facts, "rows": self.rows, "runs": self.runs}, indent=2) + "\n"

    def place(self, name, otherwise):
        """Where a file is to be written that is worth keeping; below `otherwise` where nothing is kept."""
        folder = pathlib.Path(self.keep or otherwise)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def place_of_next(self, name, otherwise):
        """The same with the number of the next command in front, beside what that command says."""
        return self.place(f"{self.commands + 1:03}-{name}", otherwise)

    def run(self, command, seconds, environment=None):
        """(exit code, standard output, standard error); -1 when it took longer."""
        command = [str(part) for part in command]
        with self.lock:
            self.commands += 1
            number = self.commands
        begin = time.monotonic()
        result = finished(command, self.root, max(1, seconds), environment, self)
        if self.keep:
            name = f"{number:03}-{pathlib.Path(command[0]).name}.txt"
            took = time.monotonic() - begin
            self.place(name, None).write_text(f"$ {' '.join(command)}\nexit code {result[0]}, {took:.1f} s\n"
                                              f"--- output\n{result[1]}\n--- errors\n{result[2]}\n")
        # Between commands nothing is measured.
        with self.lock:
            if self.archive and time.monotonic() - self.packed >= PACK_SECONDS:
                with contextlib.suppress(OSError):
                    self.pack()
        return result

    def end_running(self):
        """Ends what other threads have started; their run() returns."""
        with self.lock:
            for process in self.running:
                end_group(process)


def finished(command, folder, seconds, environment, report):
    """As Report.run(). Nothing that it started in its group goes on with the GPU afterwards."""
    try:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   errors="replace", env=environment, start_new_session=True)
    except OSError as error:
        return 127, "", str(error)
    with report.lock:
        report.running.add(process)
    try:
        out, err = process.communicate(timeout=seconds)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        end_group(process)
        out, err = "", ""
        with contextlib.suppress(subprocess.TimeoutExpired):  # somebody outside of the group holds the pipes
            out, err = process.communicate(timeout=PIPE_SECONDS)
        return -1, out, f"{err.rstrip()}\ntook longer than {seconds:.0f} s"
    except BaseException:
        end_group(process)
        raise
    finally:
        with report.lock:
            report.running.discard(process)


def end_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def reason(code, out, err):
    """Why a command failed: the error or the first diagnostic of its JSON, for which nothing may be on standard error."""
    if code != -1:
        with contextlib.suppress(ValueError, KeyError, TypeError, IndexError, AttributeError):
            told = json.loads(last_line(out))
            if told.get("error"):
                return str(told["error"])
            first = told["diagnostics"][0]
            return f"{first['file']}:{first['line']}:{first['column']}: {first['message']}"
    return last_line(err) or f"exit code {code}"


def pack(folder, archive):
    """All files of the folder in one archive of at most 16 MiB: the largest are left out until it is. Their names."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    left_out = [file for file in files if file.stat().st_size > MOST_FILE_BYTES]
    files = [file for file in files if file not in left_out]
    while True:
        with tarfile.open(archive, "w:gz") as packed:
            for file in files:
                packed.add(file, arcname=f"{archive.name.split('.')[0]}/{file.relative_to(folder)}")
        if archive.stat().st_size <= MOST_KEPT_BYTES or not files:
            return [str(file.relative_to(folder)) for file in left_out]
        largest = max(files, key=lambda file: file.stat().st_size)
        files.remove(largest)
        left_out.append(largest)
