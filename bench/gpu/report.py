# SPDX-License-Identifier: Apache-2.0
"""Rows of results, and all that commands said and wrote, kept as one archive."""

import json
import pathlib
import subprocess
import sys
import tarfile
import time

MOST_KEPT_BYTES = 16 << 20


class Report:
    """`keep`: a folder for files to be kept, or None."""

    def __init__(self, root, keep=None):
        self.rows = []
        self.facts = {}
        self.runs = {}
        self.root = root
        self.keep = keep
        self.commands = 0

    def add(self, what, result, figure="", note=""):
        self.rows.append({"what": what, "result": result, "figure": figure, "note": note})
        print(f"{result:<8} {what}: {figure or note}", file=sys.stderr, flush=True)

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

    def run(self, command, seconds, environment=None):
        """(exit code, standard output, standard error); -1 when it took longer."""
        command = [str(part) for part in command]
        begin = time.monotonic()
        try:
            done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, errors="replace",
                                  timeout=max(1, seconds), check=False, env=environment)
            result = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            said = (late.stderr or b"").decode(errors="replace")
            result = -1, "", f"{said}\ntook longer than {seconds:.0f} s"
        except OSError as error:
            result = 127, "", str(error)
        if self.keep:
            self.commands += 1
            name = f"{self.commands:03}-{pathlib.Path(command[0]).name}.txt"
            took = time.monotonic() - begin
            self.place(name, None).write_text(f"$ {' '.join(command)}\nexit code {result[0]}, {took:.1f} s\n"
                                              f"--- output\n{result[1]}\n--- errors\n{result[2]}\n")
        return result


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def pack(folder, archive):
    """All files of the folder in one archive of at most 16 MiB: the largest are left out until it is. Their names."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    left_out = []
    while True:
        with tarfile.open(archive, "w:gz") as packed:
            for file in files:
                packed.add(file, arcname=f"{archive.name.split('.')[0]}/{file.relative_to(folder)}")
        if archive.stat().st_size <= MOST_KEPT_BYTES or len(files) <= 1:
            return left_out
        largest = max(files, key=lambda file: file.stat().st_size)
        files.remove(largest)
        left_out.append(str(largest.relative_to(folder)))
