# SPDX-License-Identifier: Apache-2.0
"""Jobs of bench/gpu/run: rates, recordings, what tuning gives, and a script, beside PyTorch where that is there."""

import os
import pathlib
import sys
import textwrap
import time
import unittest
import unittest.mock

import gpu_package
from gpu_package import PEER, SCRIPT, SOURCE, WITH


class GpuJobs(gpu_package.Case):
    def test_with_a_gpu_every_recipe_is_tuned_in_its_share_of_the_time(self):
        code, table, result = self.run_stage("tune", WITH, {})
        self.assertEqual(code, 0)
        self.assertIn("| GPU | found | NVIDIA Imaginary |  |", table)
        self.assertIn("| launch_bound | done | 1000 to 4000 samples/s, 4.00 x (3.10 to unknown) | cuda.graph: True |", table)
        recipes = ["launch_bound", "resnet18_cifar", "resnet50_amp", "simple_cnn_cifar", "vit_patch_dropout_gpu"]
        self.assertEqual(sorted(result["runs"]), recipes)
        runs = [call for call in self.calls(self.bin) if call[0] == "run"]
        self.assertEqual(len(runs), len(recipes))
        for call in runs[1:]:
            self.assertTrue((SOURCE / pathlib.Path(call[1]).relative_to(self.root)).exists(), call[1])
        budgets = [int(call[call.index("--budget") + 1].removesuffix("s")) for call in runs]
        self.assertTrue(all(10 <= budget <= 165 * 0.8 for budget in budgets), budgets)
        for call in runs:
            self.assertIn("--tune-only", call)
            self.assertIn("--no-daemon", call)

    def test_a_rate_is_that_of_the_start(self):
        program = pathlib.Path(os.environ.get("AUTOTUNED_BUILD_DIR", "")) / "bin/autotuned"
        if "AUTOTUNED_BUILD_DIR" not in os.environ or not (program.parent / "autotuned-trainer").exists():
            self.skipTest("needs the program and its trainer")
        jobs = self.module("jobs")
        recipe = self.root / "small.yaml"
        recipe.write_text(textwrap.dedent("""\
            autotuned: 1
            name: small
            device: cpu
            model: {type: mlp, hidden: 12, classes: 4}
            data: {type: synthetic, samples: 64, shape: [1, 8, 8], classes: 4}
            input: [to_float]
            optimizer: {type: sgd, lr: 0.001, momentum: 0.9}
            train: {steps: 20, batch_size: 8}
            tune: {plugins: [set_to_none], allow: [numerics]}
            output: {dir: out}
            """))
        report = self.module("report").Report(self.root, self.root / "kept")
        measured = jobs.Jobs(report, program, time.monotonic() + 120)
        self.assertIsNone(measured.rate(recipe))
        self.assertEqual(measured.why_no_rate, "the job was not on a GPU")
        with unittest.mock.patch.object(jobs, "on_gpu", lambda _: True):
            self.assertGreater(measured.rate(recipe) or 0, 0)
        said = (self.root / "kept/001-autotuned.txt").read_text()
        self.assertIn('"trials":[]', said)

    def test_a_rate_that_there_is_not_says_why(self):
        for why, plan in (("device: no CUDA", {"refusal": {"run": None, "error": "device: no CUDA"}}),
                          ("the job was not on a GPU", {"device": "cpu"}), ("nothing was measured", {"rate": 0.0})):
            code, table, _ = self.run_stage("rates", WITH, {}, **plan)
            self.assertEqual(code, 1)
            self.assertIn(f"| rate of resnet18 | failed |  | there is none: {why} |", table)

    def test_a_run_that_measured_nothing_is_a_failure(self):
        code, table, _ = self.run_stage("tune", WITH, {}, "--recipe", "mine.yaml", rate=0.0)
        self.assertEqual(code, 1)
        self.assertRegex(table, r"\| mine \| failed \| 0 to 4000 samples/s, .* \| tune.budget is too small \|")

    def test_a_tuning_below_its_aim_does_not_pass(self):
        code, table, _ = self.run_stage("tune", WITH, {}, speedup_low=2.5)
        self.assertEqual(code, 1)
        figure = "1000 to 4000 samples/s, 4.00 x (2.50 to unknown)"
        self.assertIn(f"| launch_bound | done | {figure} | cuda.graph: True |", table)
        self.assertIn(f"| resnet18_cifar | below | {figure} | cuda.graph: True; the aim is 3 x at the lower end |", table)

    def test_recipes_of_ones_own_take_the_place_of_the_others(self):
        code, _, result = self.run_stage("tune", WITH, {}, "--recipe", "mine.yaml")
        self.assertEqual(code, 0)
        self.assertEqual(sorted(result["runs"]), ["mine"])

    def test_photos_are_tuned_where_they_are(self):
        photos = self.root / ".deps/photos"
        photos.mkdir(parents=True)
        (photos / "one.jpg").write_bytes(b"")
        _, _, result = self.run_stage("tune", WITH, {})
        self.assertIn("photo_masking_gpu", result["runs"])

    def test_a_job_on_the_cpu_is_a_failure(self):
        code, table, _ = self.run_stage("tune", WITH, {}, "--recipe", "mine.yaml", device="cpu")
        self.assertEqual(code, 1)
        self.assertIn("| mine | failed | 1000 to 4000 samples/s, 4.00 x (3.10 to unknown) | the job was not on a GPU |", table)

    def test_rates_are_beside_those_of_pytorch(self):
        (self.root / "bench/gpu/torch_peer.py").write_text(PEER)
        code, table, result = self.run_stage("rates", WITH, {}, "--python", sys.executable)
        self.assertEqual(code, 0)
        for name in ("resnet18", "resnet50"):
            self.assertIn(f"| rate of {name} | done | 1000 and 1000 samples/s |", table)
            self.assertIn(f"| rate of {name}, torch.compile | done | "
                          "800 samples/s, ours is 1.250 to 1.250 of it |  |", table)
            self.assertIn(f"| rate of {name}, with layout.memory_format=channels_last, optimizer.fused=on, cudnn.benchmark=on "
                          "| done | 1000 samples/s, 1.250 of torch.compile |  |", table)
        self.assertRegex(table, r"\| rate of picture_bound, DataLoader with \d+ workers \| done \| "
                                r"800 samples/s, ours is 5\.000 of it \|")
        self.assertEqual(sorted(result["runs"]), ["picture_bound"])

    def test_a_comparison_that_cannot_be_made_beside_a_gpu_is_a_failure(self):
        code, table, _ = self.run_stage("rates", WITH, {})
        self.assertEqual(code, 1)
        self.assertIn("| rate of resnet18 | done | 1000 samples/s |", table)
        why = "left out although there is a GPU: needs --python, one that has torch"
        self.assertIn(f"| rate of resnet18, PyTorch eager | failed |  | {why} |", table)
        code, table, _ = self.run_stage("trace", WITH, {})
        self.assertEqual(code, 1)
        self.assertIn(f"| kernels of resnet18 beside torch.profiler | failed |  | {why} |", table)

    def test_a_rate_below_that_of_pytorch_does_not_pass(self):
        (self.root / "bench/gpu/torch_peer.py").write_text(PEER.replace("800.0", "1100.0"))
        code, table, _ = self.run_stage("rates", WITH, {}, "--python", sys.executable)
        self.assertEqual(code, 1)
        self.assertIn("| rate of resnet50, PyTorch eager | below | 1100 samples/s, ours is 0.909 to 0.909 of it | "
                      "the aim is 0.97 |", table)

    def test_kernels_are_beside_those_of_torch_profiler(self):
        (self.root / "bench/gpu/torch_peer.py").write_text(PEER)
        name = "kernels of resnet18 beside torch.profiler"
        code, table, _ = self.run_stage("trace", WITH, {}, "--python", sys.executable)
        self.assertEqual(code, 0)
        self.assertIn(f"| {name} | done | 0.500 ms a step, 0.501 ms by torch.profiler, ratio 0.9980 |", table)
        # Clocks alone make more than the aim of it.
        code, table, _ = self.run_stage("trace", WITH, {}, "--python", sys.executable, their_us=5100.0)
        self.assertEqual(code, 0)
        self.assertIn(f"| {name} | done | 0.500 ms a step, 0.510 ms by torch.profiler, ratio 0.9804 | "
                      "the aim is a difference of 0.01, and 0.05 fails |", table)
        code, table, _ = self.run_stage("trace", WITH, {}, "--python", sys.executable, their_us=5300.0)
        self.assertEqual(code, 1)
        self.assertIn(f"| {name} | failed | 0.500 ms a step, 0.530 ms by torch.profiler, ratio 0.9434 |", table)

    def test_a_kernel_that_is_called_more_often_than_with_torch_profiler_is_a_failure(self):
        (self.root / "bench/gpu/torch_peer.py").write_text(PEER)
        code, table, _ = self.run_stage("trace", WITH, {}, "--python", sys.executable, their_us=5000.0, their_calls=80)
        self.assertEqual(code, 1)
        self.assertIn("| kernels of resnet18 beside torch.profiler | failed | 0.500 ms a step, 0.500 ms by torch.profiler, "
                      "ratio 1.0000 | sgemm: 7 calls a step, 8 by torch.profiler |", table)

    def test_recording_is_measured_between_two_runs_without_it(self):
        (self.root / "bench/gpu/torch_peer.py").write_text(PEER)
        kept = str(self.root / "kept.pt.trace.json.gz")
        code, table, _ = self.run_stage("trace", WITH, {}, "--trace", kept, "--python", sys.executable)
        self.assertEqual(code, 0)
        self.assertIn("| recording of launch_bound | done | "
                      "step 8.000 ms without, 8.100 ms with, 8.000 ms after it: 1.012 of one without | "
                      "90 events, 7 kernels; 2 records lost |", table)
        self.assertIn("| removed plugin on this trace | left out |", table)
        first = [call for call in self.calls(self.bin) if call[0] in ("run", "profile")][:3]
        self.assertEqual([call[0] for call in first], ["run", "profile", "run"])
        self.assertIn(kept, first[1])

    def test_a_recording_that_costs_too_much_does_not_pass(self):
        (self.root / "bench/gpu/torch_peer.py").write_text(PEER)
        code, table, _ = self.run_stage("trace", WITH, {}, "--python", sys.executable, step_us=96000.0)
        self.assertEqual(code, 1)
        self.assertIn("| recording of resnet18 | below | "
                      "step 64.000 ms without, 96.000 ms with, 64.000 ms after it: 1.500 of one without | "
                      "90 events, 7 kernels; 2 records lost; over the aim of 1.03 |", table)
        # Many small launches are named.
        code, table, _ = self.run_stage("trace", WITH, {}, "--python", sys.executable, step_us=12000.0)
        self.assertEqual(code, 0)
        self.assertIn("| recording of launch_bound | done | "
                      "step 8.000 ms without, 12.000 ms with, 8.000 ms after it: 1.500 of one without | "
                      "90 events, 7 kernels; 2 records lost |", table)

    def test_a_trace_without_kernels_is_a_failure(self):
        code, table, _ = self.run_stage("trace", WITH, {}, kernels=0)
        self.assertEqual(code, 1)
        self.assertIn("| recording of launch_bound: kernels | failed |  | the trace has none |", table)

    def test_the_removed_plugin_reads_the_trace(self):
        script = self.program("bench/peers/trace_oracle.py", "import sys; print(' '.join(sys.argv[1:2])); sys.exit(1)")
        self.assertTrue(script.exists())
        code, table, _ = self.run_stage("trace", WITH, {}, "--oracle", sys.executable)
        self.assertEqual(code, 1)
        self.assertIn("| removed plugin on this trace | failed | --compare |  |", table)

    def test_gather_runs_on_the_gpu(self):
        _, table, _ = self.run_stage("trace", WITH, {})
        self.assertIn("| gather (8, 196, 768) keep 98 | done | --device cuda --rounds 50 |  |", table)
        self.assertIn("| gather --deterministic (8, 196, 768) keep 98 | done | "
                      "--device cuda --rounds 50 --deterministic |  |", table)

    def test_a_run_that_fails_says_why(self):
        code, table, result = self.run_stage("tune", WITH, {}, fails=True)
        self.assertEqual(code, 1)
        self.assertIn("| launch_bound | failed |  | autotuned: error: the trainer ended |", table)
        self.assertEqual(result["runs"]["launch_bound"], None)

    def test_a_recipe_that_is_refused_says_why(self):
        diagnostic = {"file": "mine.yaml", "line": 3, "column": 1, "message": "unknown key \"devize\""}
        code, table, _ = self.run_stage("tune", WITH, {}, "--recipe", "mine.yaml",
                                        refusal={"ok": False, "diagnostics": [diagnostic]})
        self.assertEqual(code, 1)
        self.assertIn('| mine | failed |  | mine.yaml:3:1: unknown key "devize" |', table)
        _, table, _ = self.run_stage("tune", WITH, {}, "--recipe", "mine.yaml",
                                     refusal={"run": None, "error": "device: no CUDA"})
        self.assertIn("| mine | failed |  | device: no CUDA |", table)

    def test_a_script_is_measured_by_itself_and_tuned(self):
        (self.root / "bench/gpu/script.py").write_text(SCRIPT.replace("DEVICE", "cuda:0"))
        code, table, result = self.run_stage("script", WITH, {}, "--python", sys.executable)
        self.assertEqual(code, 0, table)
        self.assertIn("| script | done | 900 samples/s by itself, 1000 to 4000 as it is tuned, 4.00 x (3.10 to unknown), "
                      "900 at its end | cuda.graph: True |", table)
        self.assertEqual(sorted(result["runs"]), ["script"])
        run, show = self.calls(self.bin)[1:]
        self.assertEqual(run[:4], ["run", "--allow", "numerics", "--budget"])
        self.assertEqual(pathlib.Path(run[run.index("--") + 3]).name, "script.py")
        self.assertEqual(show[:3], ["show", "last", "--json"])

    def test_a_script_that_is_not_on_the_gpu_or_not_tuned_is_a_failure(self):
        file = self.root / "bench/gpu/script.py"
        file.write_text(SCRIPT.replace("DEVICE", "cpu"))
        code, table, _ = self.run_stage("script", WITH, {}, "--python", sys.executable)
        self.assertEqual(code, 1)
        self.assertIn("| the script was not on a GPU |", table)
        file.write_text(SCRIPT.replace("DEVICE", "cuda:0"))
        code, table, _ = self.run_stage("script", WITH, {}, "--python", sys.executable, says="not tuned: no step",
                                        is_untuned=True)
        self.assertEqual(code, 1)
        self.assertIn("| script | failed |  | autotuned: script.py is not tuned: no step |", table)
        file.write_text("raise SystemExit('no module torch')\n")
        code, table, _ = self.run_stage("script", WITH, {}, "--python", sys.executable)
        self.assertEqual(code, 1)
        self.assertIn("| script | failed |  | no module torch |", table)

    def test_logs_of_runs_are_kept(self):
        folder = self.root.parent / "kept"
        self.run_stage("tune", WITH, {}, "--recipe", "mine.yaml", "--keep", str(folder))
        run = next(call for call in self.calls(self.bin) if call[0] == "run")
        output = pathlib.Path(run[run.index("--output") + 1])
        self.assertRegex(output.name, r"^\d{3}-mine$")
        self.assertEqual(output.parent, pathlib.Path(run[run.index("--history") + 1]).parent)


if __name__ == "__main__":
    unittest.main()
