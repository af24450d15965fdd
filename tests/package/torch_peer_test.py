# SPDX-License-Identifier: Apache-2.0
"""What bench/gpu measures beside us: torch_peer.py and script.py, on a torch that is played and on the CPU."""

import argparse
import contextlib
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

SOURCE = pathlib.Path(os.environ["AUTOTUNED_SOURCE_DIR"])


class PeerCopies(unittest.TestCase):
    """The order of copies and steps of torch_peer.py, with a torch that notes what it is asked for."""

    def test_the_next_batch_is_copied_beside_the_step_on_a_stream_of_its_own(self):
        said = []
        streams = ["step"]

        class Part:
            def __init__(self, name):
                self.name = name

            def to(self, device, non_blocking):
                said.append(f"copy {self.name} to {device} on {streams[-1]}, {non_blocking}")
                return self

            def record_stream(self, stream):
                said.append(f"{self.name} is used on {stream.name}")

        @contextlib.contextmanager
        def on(stream):
            streams.append(stream.name)
            yield
            streams.pop()

        def named(name):
            stream = unittest.mock.Mock()
            stream.name = name
            stream.wait_stream.side_effect = lambda other: said.append(f"{name} waits for {other.name}")
            return stream

        torch = unittest.mock.MagicMock()
        torch.cuda.Stream.return_value = named("copies")
        torch.cuda.current_stream.return_value = named("step")
        torch.cuda.stream.side_effect = on
        loss = torch.amp.GradScaler.return_value.scale.return_value
        loss.backward.side_effect = lambda: said.append("backward")
        torch.amp.GradScaler.return_value.step.side_effect = lambda optimizer: said.append("optimizer")
        given = argparse.Namespace(device="cuda", lr=0.1, weight_decay=0.0, autocast=False, compile=False)
        with unittest.mock.patch.object(sys, "path", [str(SOURCE / "bench/gpu"), *sys.path]):
            peer = importlib.import_module("torch_peer")
        job = peer.Job(torch, unittest.mock.MagicMock(), iter([[Part("first")], [Part("second")], [Part("third")]]), given)
        job.loss = unittest.mock.Mock()
        job.take = unittest.mock.Mock(side_effect=lambda take=job.take: [*take(), "labels"])
        job.step()
        job.step()
        self.assertEqual(said, [
            "copy first to cuda on copies, True", "step waits for copies", "first is used on step",
            "backward", "copy second to cuda on copies, True", "optimizer",
            "step waits for copies", "second is used on step",
            "backward", "copy third to cuda on copies, True", "optimizer"])


class TorchPeer(unittest.TestCase):
    """What is beside us, on the CPU: all of it but the device."""

    def told_by(self, *arguments, program="torch_peer.py"):
        torch = SOURCE / ".deps/python/torch"
        modules = SOURCE / ".deps/python-modules"
        if sys.version_info[:2] != (3, 11) or not torch.exists() or not modules.exists():
            self.skipTest("needs Python 3.11 and what scripts/setup fetches for it")
        libraries = [os.environ["AUTOTUNED_CUDA_STAND_INS"], str(torch.parent / "nvidia/cu13/lib")]
        done = subprocess.run(
            [sys.executable, SOURCE / "bench/gpu" / program, *arguments, "--device", "cpu", "--batch", "1",
             "--seconds", "0.1"],
            capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "PYTHONPATH": f"{torch.parent}:{modules}", "LD_LIBRARY_PATH": ":".join(libraries),
                 # Other tests run beside it: threads that wait for each other would wait for those, too.
                 "OMP_NUM_THREADS": "1",
                 "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": os.environ["AUTOTUNED_BYTECODE"]})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_it_measures_the_rate_of_a_resnet(self):
        self.assertGreater(self.told_by("rate")["samples_per_second"], 0)

    def test_it_measures_the_rate_of_a_data_loader(self):
        self.assertGreater(self.told_by("pictures", "--workers", "1")["samples_per_second"], 0)

    def test_the_script_trains(self):
        told = self.told_by("--pictures", "8", program="script.py")
        self.assertGreater(told["samples_per_second"], 0)
        self.assertEqual(told["device"], "cpu")

    def test_it_writes_a_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace.json"
            self.assertEqual(self.told_by("trace", str(trace))["steps"], 10)
            self.assertIn("traceEvents", json.loads(trace.read_text()))


if __name__ == "__main__":
    unittest.main()
