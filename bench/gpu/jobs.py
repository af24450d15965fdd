# SPDX-License-Identifier: Apache-2.0
"""Jobs on the GPU: what recording costs and shows, and what tuning gives; beside PyTorch in Python where that is there."""

import json
import os
import pathlib
import re
import tempfile
import time

from machine import environment, torch_of
from report import last_line, reason

# The model of vit_patch_dropout.yaml: a step of many small kernels, which the host starts one by one: what cuda.graph is for.
# With loading and copies beside the step, so that nothing but the launches is waited for.
LAUNCH_BOUND = """autotuned: 1
name: launch-bound
device: cuda
model: {type: vit, size: tiny, patch: 16, patch_dropout: 0.5, classes: 1000}
data: {type: synthetic_normal, samples: 512, shape: [3, 224, 224], classes: 1000}
optimizer: {type: sgd, lr: 0.001, momentum: 0.9}
train: {steps: 1000, batch_size: 8}
start: {loader.workers: 4, loader.pin_memory: on, transfer.non_blocking: on}
tune: {plugins: [cuda_graph], allow: [numerics]}
output: {dir: out}
"""
LAUNCH_BOUND_BATCH = 8
# Large pictures, turned into colours and numbers: what pages that stay in memory and work moved to the device are for.
PICTURE_BOUND = """autotuned: 1
name: picture-bound
device: cuda
model: {type: pooling_cnn, hidden_channels: 30, classes: 10}
data: {type: synthetic, samples: 512, shape: [3, 320, 320], classes: 10}
input:
  - random_crop: {size: 256}
  - rgb_to_yuv
  - scale: {by: 1/255}
optimizer: {type: sgd, lr: 0.001, momentum: 0.9}
train: {steps: 200, batch_size: 64}
start: {loader.workers: 1}
tune: {plugins: [num_workers, pinned_memory, device_pixels], allow: [numerics]}
output: {dir: out}
"""
# The network of torch_peer.py, on pictures that need no loading to speak of.
RESNET = """autotuned: 1
name: resnet18-plain
device: cuda
model: {type: resnet18, classes: 1000}
data: {type: synthetic, samples: 512, shape: [3, 224, 224], classes: 1000}
input: [to_float]
optimizer: {type: sgd, lr: 0.001, momentum: 0.9}
train: {steps: 200, batch_size: 64}
start: {loader.workers: 4, loader.pin_memory: on, transfer.non_blocking: on}
tune: {plugins: [], allow: [numerics]}
output: {dir: out}
"""
# As resnet50_amp.yaml: the published rates of GPUs are of this network in 16 bits.
RESNET50 = """autotuned: 1
name: resnet50-plain
device: cuda
model: {type: resnet50, classes: 1000}
data: {type: synthetic, samples: 1024, shape: [3, 224, 224], classes: 1000}
input: [to_float]
optimizer: {type: sgd, lr: 0.1, momentum: 0.9, weight_decay: 0.0001}
train: {steps: 100, batch_size: 256}
start: {loader.workers: 8, loader.pin_memory: on, transfer.non_blocking: on, precision.autocast: fp16}
tune: {plugins: [], allow: [numerics]}
output: {dir: out}
"""
RESNET_BATCH = 64
RESNET50_BATCH = 256
# What torch_peer.py is told to do the same.
RESNET_PEER = ["--model", "resnet18", "--batch", RESNET_BATCH]
RESNET50_PEER = ["--model", "resnet50", "--batch", RESNET50_BATCH, "--autocast", "--lr", "0.1", "--weight-decay", "0.0001"]
# What plugins propose for these networks that torch.compile does as well, or that anybody has by a switch: another order of
# the dimensions, one kernel for the update, algorithms of cuDNN that were timed. The arithmetic has as many bits.
COMPILER_LIKE = ["layout.memory_format=channels_last", "optimizer.fused=on", "cudnn.benchmark=on"]
PICTURE_BATCH = 64
SCRIPT_SECONDS = 12  # of script.py by itself
# A run spends no budget that holds no trial, 5.4 s of blocks at least, and measures nothing then.
LEAST_BUDGET = 10
WITHOUT_TORCH = "needs --python, one that has torch"
MOST_WORKERS = 16  # of the DataLoader beside us
LEAST_OF_EAGER = 0.97  # of PyTorch's rate, ours
# The time of a step that is recorded, over that of one that is not. The kernels of the step must keep the GPU busy:
# where the host starts small kernels one by one, what CUPTI does in each launch is a large share of the step in any
# recorder.
MOST_RECORDING = 1.03
RECIPES = ["resnet18_cifar.yaml", "simple_cnn_cifar.yaml", "vit_patch_dropout_gpu.yaml", "resnet50_amp.yaml"]
PHOTOS = "photo_masking_gpu.yaml"
# Ours beside that of torch.profiler, the time of all kernels of a step. The clock of a GPU alone moves it by more than the
# aim between two processes, so the aim is told, and the rest fails.
AIM_OF_DIFFERENCE = 0.01
MOST_DIFFERENCE = 0.05
MOST_NAMED_KERNELS = 3
# What tuning gives at least, as the lower end of the interval.
LEAST_SPEEDUP = {"launch_bound": 2.0, "resnet18_cifar": 3.0}


def bound(ratio):
    return "unknown" if ratio is None else f"{ratio:.2f}"


def kept_text(result):
    """What a run has kept, in one clause."""
    return "; ".join(", ".join(f"{knob}: {value}" for knob, value in trial["change"].items())
                     for trial in result["trials"] if trial["verdict"] == "accepted") or "nothing kept"


def told_by_script(out):
    """What script.py says at its end, or None."""
    try:
        told = json.loads(last_line(out))
        return told if told["samples_per_second"] > 0 and told["device"] else None
    except (ValueError, KeyError, TypeError):
        return None


def on_gpu(err):
    """Whether the program said that the job is on a GPU."""
    return re.search(r"^(run|continuing) .* on cuda:\d+", err, re.M) is not None


def other_calls(ours, theirs):
    """Kernels that are not called as often in a step of ours as in one of theirs, one clause each."""
    names = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name, 0) != theirs.get(name, 0))
    told = [f"{name[:80]}: {ours.get(name, 0):g} calls a step, {theirs.get(name, 0):g} by torch.profiler"
            for name in names[:MOST_NAMED_KERNELS]]
    return told + ([f"{len(names) - len(told)} more kernels differ"] if len(names) > len(told) else [])


class Jobs:
    def __init__(self, report, autotuned, deadline, python=None):
        self.report = report
        self.autotuned = autotuned
        self.deadline = deadline
        self.python = python
        self.why_no_rate = ""  # of the last one

    def left(self, most):
        return min(most, self.deadline - time.monotonic())

    def leave_out(self, name, why):
        """Of a comparison with PyTorch. These stages run beside a GPU alone, where nothing may be left out."""
        self.report.add(name, "failed", note=f"left out although there is a GPU: {why}")

    def beside_python(self):
        """The environment of a Python program. One without a torch of its own may have been given for that of .deps/python."""
        return environment() | ({} if torch_of(self.python) else {"PYTHONPATH": f"{self.report.root}/.deps/python"})

    def call(self, command, seconds):
        return self.report.run([self.autotuned, *command], seconds, environment())

    def tune(self, recipe, budget):
        name = pathlib.Path(recipe).stem
        with tempfile.TemporaryDirectory() as folder:
            history = self.report.place(f"{name}.db", folder)
            code, out, err = self.call(
                ["run", recipe, "--tune-only", "--retune", "--no-daemon", "--json", "--budget", f"{budget:.0f}s",
                 "--history", history, "--output", self.report.place_of_next(name, folder)], self.left(3 * budget + 60))
        try:
            result = json.loads(last_line(out))
            best = result["best"]
        except (ValueError, KeyError, TypeError):
            self.report.add(name, "failed", note=reason(code, out, err))
            return None
        figure = (f"{result['baseline']['samples_per_second']:.0f} to {best['samples_per_second']:.0f} samples/s, "
                  f"{best['speedup']:.2f} x ({bound(best['speedup_low'])} to {bound(best['speedup_high'])})")
        aim = LEAST_SPEEDUP.get(name, 0.0)
        note = kept_text(result)
        if not on_gpu(err):
            self.report.add(name, "failed", figure, "the job was not on a GPU")
        elif result["baseline"]["samples_per_second"] <= 0:
            self.report.add(name, "failed", figure, (result.get("training") or {}).get("shortage") or "nothing was measured")
        elif (best["speedup_low"] or 0.0) < aim:
            self.report.add(name, "below", figure, f"{note}; the aim is {aim:g} x at the lower end")
        else:
            self.report.add(name, "done", figure, note)
        return result

    def rate(self, recipe, settings=()):
        """Samples per second of blocks without any recording; nothing where it failed, or was on a CPU: why_no_rate. With
        `settings` of knobs instead of those of the recipe."""
        # Where no plugin is asked only the start is measured.
        recipe = pathlib.Path(recipe)
        with tempfile.TemporaryDirectory() as folder:
            untuned = pathlib.Path(folder) / recipe.name
            untuned.write_text(re.sub(r"\bplugins: \[[^]]*\]", "plugins: []", recipe.read_text()))
            code, out, err = self.call(
                ["run", untuned, "--tune-only", "--retune", "--no-daemon", "--json", "--budget", f"{LEAST_BUDGET}s",
                 "--history", f"{folder}/history.db", "--output", self.report.place_of_next(recipe.stem, folder),
                 *(part for setting in settings for part in ("-s", setting))],
                self.left(120))
        try:
            rate = json.loads(last_line(out))["baseline"]["samples_per_second"]
        except (ValueError, KeyError, TypeError):
            self.why_no_rate = reason(code, out, err)
            return None
        self.why_no_rate = "the job was not on a GPU" if not on_gpu(err) else "nothing was measured" if rate <= 0 else ""
        return None if self.why_no_rate else rate

    def record(self, recipe, batch, trace, most=None):
        """What it costs to record the GPU, and whether anything of it stays. Each is a trainer of its own. With `most` it has
        an aim. Whether there is a trace."""
        name = f"recording of {recipe.stem}"
        before = self.rate(recipe)
        code, out, err = self.call(["profile", recipe, "--steps", "20", "--json", "--output", trace], self.left(120))
        try:
            recorded = json.loads(last_line(out))
            with_it = recorded["step_us"] / 1000
            notes = list(recorded["notes"]) + list(recorded["damage"])
            kernels = sum(row["calls"] for row in recorded["kernels"])
        except (ValueError, KeyError, TypeError):
            self.report.add(name, "failed", note=reason(code, out, err))
            return False
        after = self.rate(recipe)
        if before is None or after is None:
            self.report.add(name, "failed", note=f"no rate without recording: {self.why_no_rate}")
        else:
            without = [1000 * batch / before, 1000 * batch / after]
            share = with_it / (sum(without) / 2)
            is_cheap = most is None or share <= most
            if not is_cheap:
                notes.append(f"over the aim of {most}")
            self.report.add(name, "done" if is_cheap else "below", f"step {without[0]:.3f} ms without, {with_it:.3f} ms with, "
                            f"{without[1]:.3f} ms after it: {share:.3f} of one without",
                            "; ".join([f"{recorded['events']} events, {kernels} kernels", *notes]))
        if kernels == 0:
            self.report.add(f"{name}: kernels", "failed", note="the trace has none")
        return True

    def ask_removed_plugin(self, trace, oracle, oracle_script):
        if oracle is None or not oracle_script.exists():
            self.report.add("removed plugin on this trace", "left out", note="needs --oracle and bench/peers")
            return
        code, out, err = self.report.run([oracle, oracle_script, "--compare", self.autotuned, trace], self.left(60))
        self.report.add("removed plugin on this trace", "done" if code == 0 else "failed", last_line(out), last_line(err))

    def gather(self, program):
        if not program.exists():
            self.report.add("gather", "left out", note="bin/gather is not built")
            return
        for mode in ([], ["--deterministic"]):
            code, out, err = self.report.run([program, "--device", "cuda", "--rounds", "50", *mode], self.left(60),
                                             environment())
            name = " ".join(["gather", *mode])
            if code != 0:
                self.report.add(name, "failed", note=reason(code, out, err))
            for line in out.splitlines() if code == 0 else []:
                shape, _, figure = line.partition(": ")
                self.report.add(f"{name} {shape}", "done", figure)

    # --- a script of PyTorch ------------------------------------------------------------------------

    def script(self, file, budget):
        """A training script by itself, and tuned by `autotuned run` while it trains: its rates, and that of its end."""
        name = "script"
        if self.python is None:
            self.leave_out(name, WITHOUT_TORCH)
            return None
        with tempfile.TemporaryDirectory() as folder:
            history = self.report.place(f"{name}.db", folder)
            command = [self.python, "-B", file, "--seconds"]
            _, out, alone_err = self.report.run([*command, SCRIPT_SECONDS], self.left(120), self.beside_python())
            alone = told_by_script(out)
            if alone is None:
                self.report.add(name, "failed", note=last_line(alone_err) or "it says nothing at its end")
                return None
            # What comes after the tuning is trained with what was kept.
            code, out, err = self.report.run(
                [self.autotuned, "run", "--allow", "numerics", "--budget", f"{budget:.0f}s", "--history", history, "--",
                 *command, f"{2 * budget:.0f}"], self.left(3 * budget + 60), self.beside_python())
            tuned = told_by_script(out)
            _, shown, show_err = self.call(["show", "last", "--json", "--history", history], self.left(30))
        if tuned is None:
            self.report.add(name, "failed", note=reason(code, out, err))
            return None
        try:
            result = json.loads(last_line(shown))
            best, start = result["best"], result["baseline"]["samples_per_second"]
        except (ValueError, KeyError, TypeError):
            said = [line for line in err.splitlines() if line.startswith("autotuned: ")]
            self.report.add(name, "failed", note=said[-1] if said else last_line(show_err))
            return None
        figure = (f"{alone['samples_per_second']:.0f} samples/s by itself, {start:.0f} to {best['samples_per_second']:.0f} as it "
                  f"is tuned, {best['speedup']:.2f} x ({bound(best['speedup_low'])} to {bound(best['speedup_high'])}), "
                  f"{tuned['samples_per_second']:.0f} at its end")
        if not all(one["device"].startswith("cuda") for one in (alone, tuned)):
            self.report.add(name, "failed", figure, "the script was not on a GPU")
        elif start <= 0:
            self.report.add(name, "failed", figure, result.get("error") or "it was not tuned")
        else:
            self.report.add(name, "done", figure, kept_text(result))
        return result

    # --- beside PyTorch in Python ---------------------------------------------------------------------

    def peer(self, arguments, seconds, share=0.25):
        """What torch_peer.py says, as JSON; else why it says nothing. That share of what is left at most: the rest of the
        stage is for our own jobs."""
        if self.python is None:
            return None, WITHOUT_TORCH
        script = pathlib.Path(__file__).parent / "torch_peer.py"
        code, out, err = self.report.run([self.python, "-B", script, *arguments], min(seconds, share * self.left(1e9)),
                                         self.beside_python())
        try:
            return json.loads(last_line(out)), ""
        except ValueError:
            return None, reason(code, out, err)

    def kernels(self, trace):
        """(calls in a step by the names of kernels, their time in ms, ""), or why there are none as the last."""
        code, out, err = self.call(["analyze", trace, "--json"], self.left(60))
        try:
            told = json.loads(last_line(out))
            steps = max(1, told["steps"])
            calls = {row["name"]: row["calls"] / steps for row in told["kernels"]}
            return calls, sum(row["total_us"] for row in told["kernels"]) / steps / 1000, ""
        except (ValueError, KeyError, TypeError):
            return {}, 0.0, reason(code, out, err)

    def compare_kernels(self, ours):
        """The kernels of a step of ResNet-18: those of our trace, and torch.profiler's."""
        name = "kernels of resnet18 beside torch.profiler"
        with tempfile.TemporaryDirectory() as folder:
            theirs = self.report.place("resnet18_torch.pt.trace.json", folder)
            told, why = self.peer(["trace", theirs, *RESNET_PEER], 180)
            if told is None:
                self.leave_out(name, why)
                return
            our_calls, our_ms, why = self.kernels(ours)
            their_calls, their_ms, their_why = self.kernels(theirs)
        if not our_ms or not their_ms:
            self.report.add(name, "failed", note=why or their_why or "there are none")
            return
        difference = abs(our_ms / their_ms - 1)
        notes = other_calls(our_calls, their_calls)
        has_failed = bool(notes) or difference > MOST_DIFFERENCE
        if difference > AIM_OF_DIFFERENCE:
            notes.append(f"the aim is a difference of {AIM_OF_DIFFERENCE}, and {MOST_DIFFERENCE} fails")
        self.report.add(name, "failed" if has_failed else "done",
                        f"{our_ms:.3f} ms a step, {their_ms:.3f} ms by torch.profiler, ratio {our_ms / their_ms:.4f}",
                        "; ".join(notes))

    def compare_rates(self, recipe, arguments):
        """The rate of a network without tuning: ours before PyTorch's and after it; eager, and compiled."""
        name = f"rate of {recipe.stem}"
        ours = [self.rate(recipe)]
        if ours[0] is None:
            self.report.add(name, "failed", note=f"there is none: {self.why_no_rate}")
            return
        theirs = {}
        for mode, (more, share) in {"PyTorch eager": ([], 0.25), "torch.compile": (["--compile"], 0.5)}.items():
            told, why = self.peer(["rate", *arguments, *more], 240, share)
            if told is None:
                self.leave_out(f"{name}, {mode}", why)
            else:
                theirs[mode] = told["samples_per_second"]
        if theirs:
            ours.append(self.rate(recipe))
        self.compare_with_compiler(name, recipe, theirs.get("torch.compile"))
        ours = sorted(rate for rate in ours if rate is not None)
        self.report.add(name, "done", " and ".join(f"{rate:.0f}" for rate in ours) + " samples/s")
        for mode, rate in theirs.items():
            # torch.compile fuses what eager PyTorch and we do not: it is told, and no aim.
            is_below = mode == "PyTorch eager" and ours[0] / rate < LEAST_OF_EAGER
            self.report.add(f"{name}, {mode}", "below" if is_below else "done",
                            f"{rate:.0f} samples/s, ours is {ours[0] / rate:.3f} to {ours[-1] / rate:.3f} of it",
                            f"the aim is {LEAST_OF_EAGER}" if is_below else "")

    def compare_with_compiler(self, name, recipe, compiled):
        """What our own changes of the kind that torch.compile makes give beside it."""
        rate = self.rate(recipe, COMPILER_LIKE)
        name = f"{name}, with {', '.join(COMPILER_LIKE)}"
        if rate is None:
            self.report.add(name, "failed", note=self.why_no_rate)
            return
        beside = "" if compiled is None else f", {rate / compiled:.3f} of torch.compile"
        self.report.add(name, "done", f"{rate:.0f} samples/s{beside}")

    def compare_loading(self, run):
        """The rate of large pictures: ours as tuned, and that of a DataLoader with a worker for each CPU."""
        workers = min(MOST_WORKERS, len(os.sched_getaffinity(0)))
        name = f"rate of picture_bound, DataLoader with {workers} workers"
        told, why = (None, "there is no rate of ours")
        if run is not None:
            told, why = self.peer(["pictures", "--batch", PICTURE_BATCH, "--workers", workers], 120)
        if told is None:
            self.leave_out(name, why)
            return
        theirs = told["samples_per_second"]
        ours = run["best"]["samples_per_second"]
        self.report.add(name, "done", f"{theirs:.0f} samples/s, ours is {ours / theirs:.3f} of it")
