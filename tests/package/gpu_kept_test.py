# SPDX-License-Identifier: Apache-2.0
"""What bench/gpu/run keeps, also where it is killed, and that nothing goes on after it."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import time
import unittest
import unittest.mock

import gpu_package
from gpu_package import WITH, WITHOUT, end_processes, groups_of


def is_running(process):
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # one that has ended, and nobody has asked how


class GpuKept(gpu_package.Case):
    def test_all_that_was_said_is_kept_in_one_archive(self):
        folder = self.root.parent / "kept"
        code, table, _ = self.run_stage("tests", WITH, {"One": "crashes"}, "--keep", str(folder))
        self.assertEqual(code, 1)
        self.assertIn(next(folder.iterdir()).name, table)
        texts = self.kept(folder)
        self.assertIn("| Gpu.One | failed |", texts["result.md"])
        self.assertEqual(json.loads(texts["result.json"])["rows"][0]["what"], "libraries")
        self.assertTrue(any("--gtest_filter=Gpu.One" in text and "Segmentation fault" in text for text in texts.values()))

    def test_an_archive_leaves_out_what_is_too_large(self):
        report = self.module("report")
        folder = self.root.parent / "many"
        folder.mkdir()
        (folder / "small.txt").write_text("small")
        (folder / "large").write_bytes(os.urandom(report.MOST_KEPT_BYTES + 1))
        archive = self.root.parent / "one.tar.gz"
        self.assertEqual(report.pack(folder, archive), ["large"])
        with tarfile.open(archive) as packed:
            self.assertEqual(packed.getnames(), ["one/small.txt"])

    def test_a_mistake_of_ours_in_one_stage_leaves_the_others_and_what_was_kept(self):
        # What it prints for a GPU lacks nearly all that is asked for.
        self.program("nvidia-smi", "print('an imaginary one')")
        folder = self.root.parent / "kept"
        code, table, _ = self.run_stage("env,tests", WITH, {"One": "passed"}, "--keep", str(folder))
        self.assertEqual(code, 1)
        self.assertIn("| stage env | failed |  | KeyError: 'driver_version' |", table)
        self.assertIn("| Gpu.One | passed | 0.5s |  |", table)
        texts = self.kept(folder)
        self.assertIn("| Gpu.One | passed |", texts["result.md"])
        self.assertIn("in stage_env", texts["stage_env.txt"])

    def test_a_folder_that_cannot_keep_anything_is_refused_at_the_start(self):
        (self.root / "file").write_text("")
        for folder, why in (("", "the folder has no name"), (self.root / "file/below", "Not a directory")):
            done = subprocess.run([sys.executable, "-B", self.root / "bench/gpu/run", "--keep", folder],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)

    def end_once_there_is(self, file, running):
        self.wait_for(file, running)
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
        self.assertEqual(running.returncode, 143)

    def test_what_was_found_until_it_was_killed_is_there(self):
        self.play(WITHOUT, {"One": "passed", "Two": "hangs"})
        folder = self.root.parent / "kept"
        running = self.started("--stage", "rates,tests", "--keep", folder)
        self.assertTrue(any("passed   Gpu.One" in line for line in running.stderr), "it ended before the first test did")
        running.kill()
        running.wait(timeout=60)
        (rows,) = folder.glob("*-rows.jsonl")
        told = [json.loads(line) for line in rows.read_text().splitlines()]
        self.assertEqual(told[-1]["what"], "Gpu.One")
        rows.unlink()
        # That of the stage before.
        self.assertIn("| rates | left out |", self.kept(folder)["result.md"])

    def test_a_long_stage_is_packed_while_it_goes_on(self):
        module = self.module("report")
        folder = self.root.parent / "kept"
        folder.mkdir()
        report = module.Report(self.root, self.root.parent / "files", folder / "one.tar.gz")
        report.run(["true"], 10)
        self.assertEqual(list(folder.iterdir()), [])
        with unittest.mock.patch.object(module, "PACK_SECONDS", 0):
            report.run(["true"], 10)
        self.assertIn("002-true.txt", self.kept(folder))

    def test_what_was_said_until_it_was_ended_is_kept(self):
        self.play(WITHOUT, {"One": "passed"}, doctor_seconds=600)
        folder = self.root.parent / "kept"
        self.end_once_there_is(self.bin / "calls.jsonl", self.started("--stage", "tests", "--keep", folder))
        self.assertIn("| libraries | read |", self.kept(folder)["result.md"])

    def test_tests_end_with_the_program_that_runs_them(self):
        self.play(WITHOUT, {f"Test{number}": "hangs" for number in range(9)})
        self.end_once_there_is(self.tests / "calls.jsonl", self.started("--stage", "tests"))
        self.assertLessEqual(len(self.calls(self.tests)), self.module("gpu_tests").AT_ONCE, "no other test began")

    def test_nothing_of_a_command_goes_on_after_its_time(self):
        report = self.module("report")
        told = self.root / "child"
        code, _, err = report.Report(self.root).run(
            ["/bin/sh", "-c", f"sleep 600 & echo $! > {told}; echo said >&2; wait"], 1)
        self.assertEqual(code, -1)
        self.assertEqual(err.splitlines(), ["said", "took longer than 1 s"])
        while is_running(told.read_text().strip()):
            time.sleep(0.01)  # until the kernel has ended it

    def test_what_is_left_behind_ends_with_the_test(self):
        self.play(WITHOUT, {"One": "hangs"})
        running = self.started("--stage", "tests")
        self.wait_for(self.tests / "calls.jsonl", running)
        running.kill()
        running.wait(timeout=60)
        self.assertNotEqual(groups_of(self.root), [])
        end_processes(self.root)
        self.assertEqual(groups_of(self.root), [])


if __name__ == "__main__":
    unittest.main()
