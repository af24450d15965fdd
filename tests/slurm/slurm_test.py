# SPDX-License-Identifier: Apache-2.0
"""submit, status, cancel and history import with a real Slurm, which cluster.py starts.

Both nodes are this machine, so what is not tested is what needs two: a file system that they
share, and a folder for temporary files that they do not.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cluster import Cluster, missing  # noqa: E402

SKIPPED = 77  # for CTest
PATIENCE_S = 60
ENDED = {"completed", "failed", "cancelled", "timeout", "node_fail"}
RECIPE = """\
autotuned: 1
name: {name}
device: cpu
model: {{type: mlp, hidden: 16, classes: 4}}
data: {{type: synthetic, samples: 64, shape: [1, 8, 8], classes: 4}}
optimizer: {{type: sgd, lr: 0.1}}
train: {{epochs: 1, batch_size: 8}}
start: {{optimizer.set_to_none: off}}
tune: {{plugins: [set_to_none], budget: 20s}}
output: {{dir: {out}}}
"""


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="autotuned-jobs-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in ("run", "tmp", "state"):
            (self.folder / name).mkdir(mode=0o700)
        trainer = self.folder / "trainer"
        trainer.write_text(
            "#!/bin/sh\n"
            f"AUTOTUNED_FAKE='{self.folder}/behaviour.json'\n"
            "export AUTOTUNED_FAKE\n"
            f"exec {os.environ['AUTOTUNED_FAKE_TRAINER']}\n"
        )
        trainer.chmod(0o755)
        self.behave({"factors": {"optimizer.set_to_none=on": 1.3}})
        self.environment = {
            "PATH": self.cluster.environment()["PATH"],
            "SLURM_CONF": str(self.cluster.config),
            "LANG": "C.UTF-8",
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "AUTOTUNED_LOCKS": str(self.folder / "run"),
            "AUTOTUNED_HISTORY": str(self.folder / "state" / "history.db"),
            "AUTOTUNED_TRAINER": str(trainer),
        }

    def behave(self, behaviour):
        (self.folder / "behaviour.json").write_text(json.dumps(behaviour))

    def recipe(self, name):
        file = self.folder / f"{name}.yaml"
        file.write_text(RECIPE.format(name=name, out=self.folder / f"out-{name}"))
        return file.name

    def autotuned(self, *words, code=0):
        """What the command answers, as JSON."""
        words = [str(word) for word in words]
        # Behind -- the words are those of sbatch.
        end = words.index("--") if "--" in words else len(words)
        done = subprocess.run(
            [os.environ["AUTOTUNED_PROGRAM"], *words[:end], "--json", *words[end:]],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr + self.cluster.logs())
        return json.loads(done.stdout) if done.stdout.strip() else done.stderr

    def wait(self, is_done, what):
        end = time.monotonic() + PATIENCE_S
        while not is_done():
            if time.monotonic() > end:
                logs = "".join(
                    f"--- {log.name}\n{log.read_text(errors='replace')}"
                    for log in sorted((self.folder / "autotuned-slurm").glob("*.log"))
                )
                self.fail(f"{what}\n{logs}{self.cluster.logs()}")
            time.sleep(0.2)

    def states(self, job):
        return {one["id"]: one["state"] for one in self.autotuned("status", job)["jobs"]}

    def wait_for_end(self, job):
        self.wait(lambda: set(self.states(job).values()) <= ENDED, f"{job} does not end")
        return self.states(job)

    def log_of(self, run):
        return Path(run["log"]).read_text()

    def runs(self):
        return self.autotuned("history")

    def test_a_run_is_a_job_and_its_history_comes_back(self):
        submitted = self.autotuned("submit", self.recipe("small"), "--", "--nodelist", "n2")
        job = submitted["job"]
        (run,) = submitted["runs"]
        self.assertRegex(job, r"^slurm:[0-9]+$")
        self.assertEqual(run["id"], job)
        self.assertTrue(Path(submitted["script"]).is_file())
        self.assertEqual(self.wait_for_end(job), {job: "completed"}, self.log_of(run))
        (shown,) = self.autotuned("status", job)["jobs"]
        self.assertEqual((shown["job"], shown["nodes"]), ("small", "n2"))
        self.assertIn(job, [one["id"] for one in self.autotuned("status", "slurm")["jobs"]])
        self.assertIn("history  ", self.log_of(run))
        self.assertTrue((self.folder / "out-small" / "model.pt").exists(), self.log_of(run))
        self.assertEqual(list((self.folder / "tmp").iterdir()), [], "nothing stays on the node")

        self.assertFalse((self.folder / "state" / "history.db").exists())
        (imported,) = self.autotuned("history", "import", run["history"])["files"]
        self.assertEqual(len(imported["runs"]), 1)
        self.assertEqual(imported["best"], 1)
        (again,) = self.autotuned("history", "import", run["history"])["files"]
        self.assertEqual((again["runs"], again["known"], again["best"]), ([], 1, 0))
        (stored,) = self.runs()
        self.assertEqual((stored["run"], stored["state"]), (imported["runs"][0], "finished"))

        # The next job begins with it: it verifies what is stored.
        next_one = self.autotuned("submit", "small.yaml", "--tune-only")
        self.wait_for_end(next_one["job"])
        history = next_one["runs"][0]["history"]
        (more,) = self.autotuned("history", "import", history)["files"]
        self.assertEqual((len(more["runs"]), more["known"]), (1, 1))
        trials = self.autotuned("show", "last")["trials"]
        self.assertEqual(trials[0]["kind"], "verification")

    def test_an_array_has_a_job_for_each_recipe(self):
        submitted = self.autotuned("submit", self.recipe("one"), self.recipe("two"), "--tune-only")
        job = submitted["job"]
        runs = submitted["runs"]
        self.assertEqual([run["id"] for run in runs], [f"{job}_0", f"{job}_1"])
        states = self.wait_for_end(job)
        self.assertEqual(
            states, {f"{job}_0": "completed", f"{job}_1": "completed"}, self.log_of(runs[0])
        )
        self.assertEqual(self.states(f"{job}_1"), {f"{job}_1": "completed"})
        files = [run["history"] for run in runs]
        for imported in self.autotuned("history", "import", *files)["files"]:
            self.assertEqual(len(imported["runs"]), 1)
        self.assertEqual({run["recipe"] for run in self.runs()}, {"one", "two"})

    def test_cancel_stops_a_run_that_can_be_continued(self):
        self.behave({"train_step_lasts_ms": 100, "train_steps": 3000})
        submitted = self.autotuned("submit", self.recipe("long"), "--budget", "0s")
        job = submitted["job"]
        (run,) = submitted["runs"]
        requests = self.folder / "requests.jsonl"
        self.wait(
            lambda: requests.exists() and requests.read_text().count("train_step") > 2,
            "the job does not train",
        )
        self.assertEqual(self.states(job), {job: "running"})
        self.autotuned("cancel", job)
        self.assertNotEqual(self.wait_for_end(job), {job: "completed"}, self.log_of(run))
        self.assertIn("history  ", self.log_of(run), "it was brought back")
        self.autotuned("history", "import", run["history"])
        (stored,) = self.runs()
        self.assertEqual(stored["state"], "cancelled", self.log_of(run))
        self.assertIn("has ended", self.autotuned("cancel", job, code=2))

        self.behave({"train_steps": 3000})
        again = self.autotuned("submit", "long.yaml", "--budget", "0s")
        self.wait_for_end(again["job"])
        (continued,) = self.autotuned("history", "import", again["runs"][0]["history"])["files"]
        self.assertEqual(continued["runs"], [], "it is the same run")
        self.assertEqual(continued["renewed"], [stored["run"]])
        self.assertEqual(self.runs()[0]["state"], "finished")

    def test_cancel_takes_a_job_out_of_the_queue(self):
        job = self.autotuned("submit", self.recipe("later"), "--", "--begin=now+1hour")["job"]
        self.assertEqual(self.states(job), {job: "pending"})
        self.autotuned("cancel", job)
        self.assertEqual(self.wait_for_end(job), {job: "cancelled"})

    def srun(self, *words):
        """What it says, and its exit code."""
        done = subprocess.run(
            ["srun", *words, os.environ["AUTOTUNED_PROGRAM"], "run", self.recipe("small")],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        return done.stdout + done.stderr + self.cluster.logs(), done.returncode

    def test_srun_of_one_node_makes_one_run(self):
        said, code = self.srun("--nodes=1", "--ntasks=2")
        self.assertEqual(code, 0, said)
        self.assertIn("srun has started 2 processes: this run trains with 2 ranks", said)
        (stored,) = self.runs()
        self.assertEqual((stored["recipe"], stored["state"]), ("small", "finished"))

    def test_srun_of_several_nodes_is_refused_on_each(self):
        said, code = self.srun("--nodes=2", "--ntasks=2")
        self.assertNotEqual(code, 0, said)
        self.assertEqual(said.count("2 processes on several machines (2 nodes)"), 2, said)
        self.assertFalse((self.folder / "state" / "history.db").exists(), "nothing was begun")

    def test_mistakes_are_said(self):
        self.recipe("small")
        said = self.autotuned("submit", "small.yaml", "--", "--partition=none", code=1)
        self.assertIn("partition", said)
        self.assertEqual(list((self.folder / "autotuned-slurm").iterdir()), [])
        self.assertIn("does not know", self.autotuned("status", "slurm:4000000", code=2))
        self.assertIn("does not know", self.autotuned("cancel", "slurm:4000000", code=2))
        self.assertIn("one node", self.autotuned("submit", "small.yaml", "--", "-N2", code=2))


if __name__ == "__main__":
    reason = missing()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main()
