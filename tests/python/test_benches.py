# SPDX-License-Identifier: Apache-2.0
"""bench/scripts says whether public scripts train the same, and faster: here of small ones."""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import io
import json
import os
import pathlib
import struct
import sys
import tempfile
import unittest
from unittest import mock

from stand_in import ROOT, SCRIPTS, alone

sys.path.insert(0, str(ROOT / "bench" / "scripts"))

import arms  # noqa: E402
import beside_loadtune  # noqa: E402
import data  # noqa: E402
import idle_cost  # noqa: E402
import jobs  # noqa: E402
import lost  # noqa: E402
import prepare  # noqa: E402
import refuse  # noqa: E402
import run  # noqa: E402
import soak  # noqa: E402

# The copy of the folder of scripts holds common.py, too.
CLASSIFIER = jobs.Job(
    "classifier",
    "python",
    "scripts",
    ("classifier.py", "--zeros", "--epochs", "{length}"),
    lambda place, length: None,
    short=12,
    tuned=12,
)
PROGRAM = pathlib.Path(os.environ.get("AUTOTUNED_PROGRAM", "autotuned"))


class FunctionsTest(unittest.TestCase):
    def test_verdicts(self):
        self.assertEqual(
            [run.verdict_of(*ends) for ends in ((1.01, 1.2), (0.9, 1.1), (0.8, 0.9))],
            ["faster", "not shown", "SLOWER"],
        )
        self.assertEqual(
            [run.same("a", "a"), run.same("a", "b"), run.same("", "b")],
            ["yes", "NO", "not repeatable"],
        )

    def test_figures_are_of_pairs(self):
        drifts = (1, 5, 2, 1, 3, 4)
        rounds = [{"untouched": 10.0 * drift, "kept": 15.0 * drift} for drift in drifts]
        self.assertEqual(arms.ratio_of(rounds, "kept"), (1.5, 1.5, 1.5))
        cost = idle_cost.cost_of([{"untouched": 10.0, "watched": 8.0}] * 6, "watched")
        self.assertEqual(cost, (0.25, 0.25, 0.25))

    def test_what_is_refused(self):
        def knob(name, default, **fields):
            return {
                "name": name,
                "type": "choice",
                "default": default,
                "available": True,
                "switch": "live",
                "risk": "numerics",
                **fields,
            }

        found = refuse.candidates(
            [
                knob("a", True, type="boolean", risk="exact"),
                knob("b", 0, type="integer", minimum=0, maximum=4),
                knob("c", "off", choices=["off", "x", "y"], unavailable_choices={"y": "no"}),
                knob("d", False, type="boolean", available=False),
                knob("e", False, type="boolean", switch="restart"),
                knob("model.compile", "off", choices=["off", "default"]),
            ]
        )
        self.assertEqual(
            found, [({"a": False}, True), ({"b": 1}, False), ({"c": "x"}, False)]
        )

    def test_data_is_the_same_each_time(self):
        def made(folder):
            place = pathlib.Path(folder)
            data.mnist(place / "data", 50, 20)
            data.corpus(place / "text")
            data.characters(place / "letters")
            data.word_tokenizer(place / "tokenizer")
            files = sorted(path for path in place.rglob("*") if path.is_file())
            return {str(path.relative_to(place)): path.read_bytes() for path in files}

        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            first = made(one)
            self.assertEqual(first, made(other))
        images = first["data/MNIST/raw/train-images-idx3-ubyte"]
        self.assertEqual(images[:16], bytes.fromhex("00000803 00000032 0000001c 0000001c"))
        self.assertEqual(len(images), 16 + 50 * 28 * 28)
        self.assertEqual(len(first["data/MNIST/raw/t10k-labels-idx1-ubyte"]), 8 + 20)
        known = json.loads(first["tokenizer/tokenizer.json"])["model"]["vocab"]
        self.assertLessEqual(set(first["text/train.txt"].decode().split()), set(known))

    def test_a_public_script_is_prepared(self):
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            script = folder / "mine" / "word_language_model" / "main.py"
            script.parent.mkdir(parents=True)
            script.write_text("print('trains')\n")
            words = ["prepare.py", str(folder / "mine"), "word_language_model", str(folder / "to")]
            with contextlib.redirect_stdout(said), mock.patch.object(sys, "argv", words):
                self.assertEqual(prepare.main(), 0)
            place, *command = said.getvalue().splitlines()
            self.assertEqual(
                (folder / "to" / place / command[0]).read_text(), "print('trains')\n"
            )
            self.assertTrue((folder / "to" / place / "text" / "train.txt").is_file())
            script.unlink()
            with contextlib.redirect_stderr(said), mock.patch.object(sys, "argv", words):
                self.assertEqual(prepare.main(), 2)

    def test_what_is_missing_is_said(self):
        job = jobs.Job("x", "examples", "x", ("main.py",), jobs._nothing, 1, 1)
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("there is no", job.missing(pathlib.Path(folder)))
            other = jobs.dataclasses.replace(job, modules=("no_such_package",))
            self.assertIn("no_such_package", other.missing(pathlib.Path(folder)))
            said = io.StringIO()
            with contextlib.redirect_stdout(said), mock.patch.object(run, "JOBS", [other]):
                with mock.patch.object(sys, "argv", ["run.py", folder]):
                    self.assertEqual(run.main(), 0)
        self.assertIn("| x | | | | | | | | | not run: needs the Python package", said.getvalue())


class Driven:
    """In place of a process: at each question whether it has ended, it does the next thing."""

    def __init__(self, *things):
        self._things = list(things)

    def poll(self):
        if not self._things:
            return 0
        self._things.pop(0)()
        return None


class LostTest(unittest.TestCase):
    """What a tuning took, from the steps of a script and its lines."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "log.txt"
        self.log.write_bytes(b"the script says something\n")

    def watched(self, *things):
        steps = arms.StepCount(self.folder / "steps")
        self.addCleanup(steps.close)
        with mock.patch.object(lost.time, "sleep"):
            return lost.watch(Driven(*things), steps, self.log)

    def makes(self, count, seconds):
        def write():
            text = struct.pack("<qq", count, int(seconds * 1e9))
            with open(self.folder / "steps", "r+b") as file:
                file.write(text)

        return write

    def says(self, text):
        def write():
            with open(self.log, "ab") as file:
                file.write(text)

        return write

    def test_its_course(self):
        course = self.watched(
            lambda: None,
            self.makes(1, 100.0),
            self.says(b"autotuned: tun"),
            self.makes(201, 160.0),
            self.says(b"ing   58.0 s, 2.2 s more than its steps take\n"),
            self.makes(601, 200.0),
        )
        self.assertEqual(course, lost.Course(60.0, 200, 40.0, 400))
        # 200 untouched steps take 30 s where what was kept makes them 1.5 x as fast.
        self.assertAlmostEqual(course.lost_s(1.5), 30.0)
        self.assertAlmostEqual(course.lost_s(1.0), 40.0)

    def test_a_tuning_that_does_not_end(self):
        self.assertIsNone(self.watched(self.makes(1, 100.0), self.makes(50, 110.0)))

    def test_what_is_written_last_counts(self):
        def both():
            self.makes(3, 103.0)()
            self.says(b"autotuned: tuning   2.0 s\n")()

        course = self.watched(self.makes(1, 100.0), both)
        self.assertEqual(course, lost.Course(3.0, 2, 0.0, 0))
        self.assertIsNone(course.lost_s(1.0))

    def test_the_cell(self):
        course = lost.Course(60.0, 200, 40.0, 400)
        self.assertEqual(
            run.lost_cell(course, 1.5, 2_200_000_000, 72.0),
            ("30.0 s of 60 s, 0.83 % of an hour (told 2.2 s)", True),
        )
        self.assertFalse(run.lost_cell(course, 1.5, None, 20.0)[1])
        self.assertEqual(
            run.lost_cell(lost.Course(3.0, 2, 0.0, 0), 1.0, None, 72.0),
            ("not known (not told)", True),
        )
        self.assertEqual(run.lost_cell(None, 1.0, 5, 72.0), ("the tuning did not end", True))


class BesideLoadtuneTest(unittest.TestCase):
    def test_that_it_is_not_installed_is_said(self):
        said = io.StringIO()
        missing = importlib.metadata.PackageNotFoundError("loadtune")
        with mock.patch("importlib.util.find_spec", return_value=object()):
            with mock.patch("importlib.metadata.version", side_effect=missing):
                with mock.patch.object(sys, "argv", ["beside_loadtune.py"]):
                    with contextlib.redirect_stderr(said):
                        self.assertEqual(beside_loadtune.main(), 2)
        self.assertIn("loadtune is not installed in", said.getvalue())
        self.assertIn("pip install loadtune==0.3.0", said.getvalue())

    def test_a_script_gets_what_it_chose(self):
        knobs = {"num_workers": 2, "persistent_workers": True, "num_threads": 1, "amp": True}
        text = (
            "import torch; from torch.utils.data import DataLoader\n"
            "loader = DataLoader(list(range(8)), batch_size=4, num_workers=0)\n"
            "print(loader.batch_size, loader.num_workers, loader.persistent_workers)\n"
            "print(torch.get_num_threads(), (torch.ones(2, 2) @ torch.ones(2, 2)).dtype)\n"
        )
        wanted = "4 2 True\n1 torch.bfloat16\n"
        self.assertEqual(self.said_with(knobs, text), wanted)
        # Without workers, there are no options of workers.
        none = {"num_workers": 0, "persistent_workers": True, "prefetch_factor": 4}
        self.assertTrue(self.said_with(none, text).startswith("4 0 False\n"))

    def test_what_it_chose_stands_in_for_what_a_script_gives_its_loaders(self):
        text = (
            "import torch; from torch.utils.data import DataLoader\n"
            "loader = DataLoader(list(range(8)), 4, None, None, None, 3, prefetch_factor=5,\n"
            "    persistent_workers=True, timeout=60, multiprocessing_context='fork')\n"
            "print(loader.num_workers, loader.prefetch_factor, loader.persistent_workers)\n"
            "print(loader.timeout, loader.multiprocessing_context is None, loader.batch_size)\n"
            "print(len(list(loader)) if loader.num_workers == 0 else 'workers')\n"
        )
        self.assertEqual(self.said_with({"num_workers": 0}, text), "0 None False\n0 True 4\n2\n")
        several = {"num_workers": 2, "persistent_workers": True}
        self.assertEqual(self.said_with(several, text), "2 5 True\n60 False 4\nworkers\n")

    def said_with(self, knobs, text):
        with tempfile.TemporaryDirectory() as folder:
            variables = {
                "BENCH_KNOBS": json.dumps(knobs),
                "BENCH_RESULT": str(pathlib.Path(folder) / "result.json"),
                "PYTHONWARNINGS": "ignore",
            }
            given = arms.environment([arms.INSTRUMENT], variables)
            code, out, error = alone("-c", text, environment=given)
        self.assertEqual((code, error), (0, ""))
        return out

    def test_each_script_is_known(self):
        known = {job.name for job in [beside_loadtune.PICTURES, *jobs.JOBS]}
        self.assertLessEqual(set(beside_loadtune.FORMS), known)
        file = ROOT / "bench" / "scripts" / "loadtune_forms.py"
        text = file.read_text(encoding="utf-8")
        for name in beside_loadtune.FORMS:
            self.assertIn(f"\ndef {name}() -> Workload:\n", text)

    def test_verdicts(self):
        ends = ((1.01, 1.2), (0.9, 1.1), (0.8, 0.9))
        self.assertEqual(
            [beside_loadtune.verdict_of(*pair) for pair in ends], ["ahead", "not shown", "BEHIND"]
        )


class SharesTest(unittest.TestCase):
    def test_each_script_gets_a_part_of_what_is_left(self):
        with mock.patch.object(run.time, "monotonic") as clock:
            clock.return_value = 1000.0
            shares = run.Shares(minutes=10.0)
            self.assertTrue(shares.begin(4))  # 150 s
            clock.return_value = 1050.0
            self.assertEqual(shares.seconds_of(500.0), 70.0)
            self.assertEqual(shares.seconds_of(40.0), 40.0)
            clock.return_value = 1400.0
            self.assertEqual(shares.seconds_of(500.0), run._LEAST_SECONDS)
            self.assertTrue(shares.begin(2))  # 100 s
            self.assertEqual(shares.seconds_of(500.0), 70.0)
            clock.return_value = 1600.0
            self.assertFalse(shares.begin(1))
            unlimited = run.Shares(0.0)
            self.assertTrue(unlimited.begin(3))
            self.assertEqual(unlimited.seconds_of(120.0), 120.0)

    def test_options(self):
        usual, quick = run.parsed(["."]), run.parsed([".", "--quick", "--seconds", "7"])
        self.assertEqual((usual.budget, usual.seconds, usual.minutes), ("60s", 120.0, 0.0))
        self.assertEqual((quick.budget, quick.seconds, quick.minutes), ("20s", 7.0, 45.0))

    def test_a_series_ends_in_time(self):
        job = jobs.Job("x", "", "", ("main.py",), jobs._nothing, 1, 1)
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "main.py").write_text("")
            with contextlib.redirect_stdout(said), mock.patch.object(run, "JOBS", [job]):
                words = ["run.py", folder, "--minutes", "1e-9"]
                with mock.patch.object(sys, "argv", words):
                    self.assertEqual(run.main(), 0)
        self.assertIn("| not run: the time of --minutes is over |", said.getvalue())


class InstrumentTest(unittest.TestCase):
    def result_of(self, *command, **variables):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "result.json"
            variables |= {"BENCH_RESULT": str(file), "PYTHONWARNINGS": "ignore"}
            given = arms.environment([arms.INSTRUMENT], variables)
            code, out, error = alone(*command, environment=given)
            self.assertEqual((code, error), (0, ""))
            return json.loads(file.read_text()), out

    def test_it_tells_trainings_apart(self):
        command = ("classifier.py", "--epochs")
        (one, out), (same, _) = (self.result_of(*command, "2") for _ in range(2))
        other, _ = self.result_of(*command, "3")
        self.assertEqual(one, same)
        self.assertIn("digest", out)
        # 24 steps, and the backward pass before the first one.
        self.assertEqual(one["steps"], 25)
        self.assertNotEqual(one["parameters"], other["parameters"])

    def test_a_script_without_optimizer(self):
        one, same = (self.result_of("by_hand.py")[0] for _ in range(2))
        self.assertEqual((one, one["steps"]), (same, 40))
        shorter, _ = self.result_of("by_hand.py", BENCH_STOP="30")
        self.assertEqual(shorter["steps"], 30)
        self.assertNotEqual(one["parameters"], shorter["parameters"])

    def test_it_ends_behind_a_time(self):
        # Its first step already is behind it.
        result, _ = self.result_of("by_hand.py", BENCH_SECONDS="1e-10")
        self.assertEqual(result["steps"], 1)
        whole, _ = self.result_of("by_hand.py", BENCH_SECONDS="1000")
        self.assertEqual(whole["steps"], 40)

    def test_what_only_looks_for_pytorch_uses_nothing_up(self):
        text = "import importlib.util; importlib.util.find_spec('torch'); import by_hand"
        result, _ = self.result_of("-c", text)
        self.assertEqual(result["steps"], 40)


class TrainingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.options = argparse.Namespace(
            checkouts=SCRIPTS.parent.parent, bin=PROGRAM.parent, exact_budget="2s"
        )

    def test_refused_and_exact_changes_train_the_same(self):
        bench = run.Bench(CLASSIFIER, self.options, self.folder)
        digest = bench.untouched()
        self.assertNotEqual(digest, "")
        refused, checked, tried = bench.refused()
        self.assertEqual(refused, digest)
        self.assertGreaterEqual(checked, 3)
        self.assertGreaterEqual(tried, 2)
        self.assertEqual(bench.exact(), digest)

    def test_a_script_that_fails_says_how(self):
        job = jobs.dataclasses.replace(CLASSIFIER, command=("classifier.py", "--no-such"))
        with self.assertRaisesRegex(arms.Failed, "ended with 2: .*--no-such"):
            run.Bench(job, self.options, self.folder).untouched()

    def test_processes_take_turns(self):
        command = [sys.executable, str(SCRIPTS / "classifier.py"), "--zeros", "--epochs", "100000"]
        change = {"optimizer.set_to_none": True}
        ways = [
            arms.Arm(way, command, self.folder, {"PYTHONWARNINGS": "ignore"}, change)
            for way in ("untouched", "watched", "kept")
        ]
        rounds = arms.take_turns(ways, 0.5, 0.05, seed=1)
        self.assertGreaterEqual(len(rounds), 1)
        for one in rounds:
            self.assertEqual(set(one), {"untouched", "watched", "kept"})
            self.assertGreater(min(one.values()), 0.0)
        self.assertEqual([arm.process.poll() for arm in ways], [-9, -9, -9])

    def test_an_arm_that_ends_is_an_error(self):
        command = [sys.executable, str(SCRIPTS / "classifier.py"), "--epochs", "2"]
        ways = [arms.Arm("kept", command, self.folder, {}, {})]
        with self.assertRaises(arms.Failed):
            arms.take_turns(ways, 60.0, 0.01)

    def test_kills_leave_the_training_as_it_is(self):
        options = argparse.Namespace(
            bin=PROGRAM.parent,
            job="",
            script=[str(SCRIPTS / "classifier.py"), "--zeros", "--epochs", "150"],
            seed=3,
            every=2.0,
        )
        made = soak.Soak(options, self.folder)
        wanted = made.alone()
        self.assertEqual(wanted[0], 0)
        with mock.patch.object(soak, "_KINDS", ("session", "plugin")):
            found, _ = made.train()
        self.assertEqual(found, wanted)
        self.assertEqual(made.killed["session"] + made.killed["plugin"], 1)


if __name__ == "__main__":
    unittest.main()
