# SPDX-License-Identifier: Apache-2.0
"""A script on a GPU, as far as it shows without one."""

import contextlib
import os
import sys
import unittest
from types import SimpleNamespace
from unittest import mock

import torch
from torch.utils.data import DataLoader, TensorDataset

from autotuned.agent import description
from autotuned.agent.activities import Block, Profile, Trace
from autotuned.agent.session import Session
from autotuned.checks.room import shortage_of
from autotuned.knobs.knob_compile import compile_knob
from autotuned.knobs.knobs import Knobs
from autotuned.loop.script import ForwardSettings, Root, Script
from autotuned.loop.watch import Watch
from autotuned.parts import compiling
from autotuned.parts.tensors import RandomState
from autotuned.protocol import Closed, RequestError


@contextlib.contextmanager
def gpu_of(held, reserved, free):
    """A GPU on which the script trains, with so much memory in use."""
    with (
        mock.patch.object(Script, "device", return_value=torch.device("cuda:1")),
        mock.patch.object(torch.cuda, "memory_allocated", return_value=held),
        mock.patch.object(torch.cuda, "memory_reserved", return_value=reserved),
        mock.patch.object(torch.cuda, "mem_get_info", return_value=(free, 1 << 34)),
    ):
        yield


def session_of(model):
    """One that nobody asks, of a script that trains this model."""
    script = Script()
    script.kept = model
    script.roots = [Root(model, 0, "")]
    link = SimpleNamespace(send=lambda frame: None, close=lambda: None)
    return Session(link, script, Watch(script), lambda: None, lambda text: None), script


class DeviceTest(unittest.TestCase):
    def test_the_hello_leaves_cuda_to_the_script(self):
        # Each of these starts CUDA, which then knows its GPUs for good: the script has not had a
        # line yet in which to choose one.
        asked = [
            (torch.cuda, "is_available"),
            (torch.cuda, "device_count"),
            (torch.cuda, "get_device_properties"),
            (torch.cuda, "init"),
            (torch.accelerator, "is_available"),
        ]
        with contextlib.ExitStack() as patches:
            for module, name in asked:
                patches.enter_context(
                    mock.patch.object(module, name, side_effect=AssertionError(name))
                )
            hello = description.of_agent()
        self.assertEqual((hello["devices"], hello["device_uuids"]), (["cpu"], []))
        self.assertIn("has not used CUDA yet", hello["cuda_reason"])

    def test_gpus_that_are_in_use_are_told(self):
        # The second is told as a PyTorch before 2.4 does.
        gpus = [SimpleNamespace(uuid="2a3c"), SimpleNamespace()]
        with (
            mock.patch.object(torch.cuda, "is_initialized", return_value=True),
            mock.patch.object(torch.cuda, "device_count", return_value=2),
            mock.patch.object(torch.cuda, "get_device_properties", side_effect=gpus.__getitem__),
        ):
            hello = description.of_agent()
        self.assertEqual(hello["devices"], ["cpu", "cuda:0", "cuda:1"])
        self.assertEqual(hello["device_uuids"], ["2a3c", ""])
        self.assertEqual((hello["cuda_reason"], hello["cupti_reason"]), ("", ""))

    def activities_of(self, kind, cuda, teardown=None):
        """What PyTorch's profiler is asked to record, and whether it is told to let go."""
        environment = {"TEARDOWN_CUPTI": teardown} if teardown is not None else {}
        with (
            mock.patch.object(Script, "device", return_value=torch.device("cuda:0")),
            mock.patch.object(torch.version, "cuda", cuda),
            mock.patch.object(torch.profiler, "profile") as profile,
            mock.patch.dict(os.environ, environment),
        ):
            if teardown is None:
                os.environ.pop("TEARDOWN_CUPTI", None)
            kind(Script(), "trace.json", steps=1, warmup_steps=1, maximum_ns=None)
            names = [one.name for one in profile.call_args.kwargs["activities"]]
            return names, os.environ.get("TEARDOWN_CUPTI")

    def test_a_profile_does_not_slow_the_rest_of_the_training(self):
        # The profiler's library stays behind every launch where it is not told to let go.
        self.assertEqual(self.activities_of(Profile, "13.0"), (["CPU", "CUDA"], "1"))
        self.assertEqual(self.activities_of(Profile, "12.4"), (["CPU"], None))
        self.assertEqual(self.activities_of(Profile, None), (["CPU"], None))
        self.assertEqual(self.activities_of(Profile, "13.0", "0"), (["CPU"], "0"))
        # Somebody has asked for it by name.
        self.assertEqual(self.activities_of(Trace, "12.4"), (["CPU", "CUDA"], None))
        self.assertEqual(self.activities_of(Trace, "13.0"), (["CPU", "CUDA"], "1"))

    def test_a_block_is_of_the_gpu_that_trains(self):
        gpu = torch.device("cuda:1")  # not the current one
        script = Script()
        with (
            mock.patch.object(Script, "device", return_value=gpu),
            mock.patch.object(torch.cuda, "synchronize") as synchronize,
            mock.patch.object(torch.cuda, "reset_peak_memory_stats") as reset,
            mock.patch.object(torch.cuda, "max_memory_allocated", return_value=7) as peak,
        ):
            block = Block(
                script,
                minimum_ns=0,
                minimum_steps=2,
                warmup_steps=0,
                maximum_ns=None,
                reads_losses=False,
                one_time_ns=lambda: 0,
            )
            answer = block._answer(0)
        self.assertEqual((answer["peak_device_memory_bytes"], script.peak_device_bytes), (7, 7))
        for called in (synchronize, reset, peak):
            self.assertEqual({call.args for call in called.call_args_list}, {(gpu,)})

    def test_a_gradient_of_a_graph_outlives_the_next_forward_pass(self):
        # PyTorch's graphs take back what they gave when the next forward pass begins.
        pool = torch.zeros(2)
        model = torch.nn.Linear(2, 1, bias=False)
        parameter = model.weight
        parameter.grad = own = torch.full((1, 2), 5.0)  # the script's, not of a graph
        root = Root(model, 0, "")
        graphs = ForwardSettings(compiled=compiling.GRAPHS)

        def replay(module, falls_back, args, kwargs):
            pool.fill_(float("nan"))
            return module(*args)

        def forward(settings=graphs):
            root.run(settings, (torch.ones(2),), {})

        def backward():
            if parameter.grad is None:
                pool.fill_(3.0)
                parameter.grad = pool.view(1, 2)
            else:
                parameter.grad += 3.0

        with mock.patch.object(compiling, "compiled", return_value=replay):
            forward()
            backward()
            forward()
            self.assertIs(parameter.grad, own)
            self.assertEqual(own.tolist(), [[8.0, 8.0]])
            parameter.grad = None
            backward()
            forward()
            backward()
            self.assertEqual(parameter.grad.tolist(), [[6.0, 6.0]])
            parameter.grad = None  # between two forward passes, and others go another way
            forward()
            backward()
            forward(ForwardSettings())
            backward()
            forward()
            self.assertEqual(parameter.grad.tolist(), [[6.0, 6.0]])

    def test_what_a_gpu_draws_is_seen(self):
        now = [torch.tensor([1]), torch.tensor([2])]
        with (
            mock.patch.object(torch.cuda, "is_initialized", return_value=True),
            mock.patch.object(torch.cuda, "get_rng_state_all", side_effect=lambda: list(now)),
        ):
            before = RandomState()
            self.assertEqual(before.drawn_since(), [])
            now[1] = torch.tensor([3])
            self.assertEqual(before.drawn_since(), ["torch"])

    def test_a_check_leaves_the_script_its_memory(self):
        # A GPU of 16 GiB. The script holds 2 GiB between its steps and 6 GiB at most.
        gib = 1 << 30
        script = Script()
        script.peak_device_bytes = 6 * gib
        parameter = torch.empty(gib // 8, device="meta")  # half a GiB

        def words(method, shadows, free):
            with (
                mock.patch.object(Script, "parameters", return_value=[parameter]),
                gpu_of(held=2 * gib, reserved=6 * gib, free=free * gib),
            ):
                return shortage_of(script, method, shadows)

        self.assertEqual(words("twin", 1, 10), "")  # 4 + 6 + 1.5 of 14
        self.assertEqual(
            words("twin", 1, 8),
            "the GPU has no room for a second training beside the script's: about 11.5 GiB, "
            "and 12.0 GiB are free",  # in pieces
        )
        self.assertIn("about 18.0 GiB", words("twin", 2, 10))
        self.assertEqual(words("cotangent", 1, 6), "")  # 4 + 3 of 10
        self.assertEqual(words("cotangent", 2, 6), "")  # 4 + 4.5 of 10
        self.assertIn("about 7.0 GiB", words("cotangent", 1, 2))
        script.learn_again()  # perhaps another model: what the process has held at most
        with mock.patch.object(torch.cuda, "max_memory_allocated", return_value=3 * gib):
            self.assertEqual(words("twin", 1, 8), "")  # 1 + 3 + 1.5
        self.assertEqual(shortage_of(Script(), "twin", 1), "")  # on a CPU

    def test_graphs_have_memory_of_their_own(self):
        script = Script()
        model = torch.nn.Linear(2, 2)
        script.roots = [Root(model, 0, "")]
        script.detector.pattern = [("forward", 0), ("backward", 0), ("optimizer", 0)]
        gib = 1 << 30
        script.peak_device_bytes = 6 * gib

        def knob(free):
            with (
                gpu_of(held=2 * gib, reserved=6 * gib, free=free * gib),
                mock.patch.object(compiling, "obstacle_of", return_value=""),
            ):
                return compile_knob(script)

        self.assertEqual(knob(5).unavailable_choices, {})  # 8 of 9
        short = knob(4)  # 8 of 8
        self.assertEqual(short.unavailable, "")
        self.assertIn("no room", short.unavailable_choices[compiling.GRAPHS])
        with mock.patch.object(torch.cuda, "empty_cache") as empty:
            short.set("default")
            empty.assert_not_called()
            short.set(compiling.GRAPHS)
            empty.assert_called_once_with()

    def test_graphs_that_are_not_kept_leave_their_memory(self):
        trees = SimpleNamespace(reset_cudagraph_trees=mock.Mock())
        graphs = ForwardSettings(compiled=compiling.GRAPHS)

        def at_the_end(has_run=True, kept=ForwardSettings(), scripts_own=False, end="finish"):
            """Whether graphs were given back, and whether the module's gradient was kept."""
            model = torch.nn.Linear(2, 1, bias=False)
            session, script = session_of(model)
            (root,) = script.roots
            trees.reset_cudagraph_trees.reset_mock()
            with (
                mock.patch.object(compiling, "compiled", return_value=lambda m, _, a, k: m(*a)),
                mock.patch.object(compiling.clock, "scripts_own", scripts_own),
                mock.patch.dict(sys.modules, {compiling._TREES: trees}),
                mock.patch.object(torch.cuda, "empty_cache") as empty,
            ):
                out = root.run(graphs if has_run else ForwardSettings(), (torch.ones(2),), {})
                out.backward()
                gradient = model.weight.grad
                script.forward = kept
                if end == "finish":
                    session._finish({"configuration": {}})
                elif end == "detach":
                    session._serve = mock.Mock(side_effect=Closed())
                    session.on_boundary(None)
                else:
                    session.on_lost()
                is_released = trees.reset_cudagraph_trees.called
                self.assertEqual(empty.called, is_released)
            return is_released, model.weight.grad is not gradient

        self.assertEqual(at_the_end(), (True, True))
        self.assertEqual(at_the_end(end="detach"), (True, True))
        self.assertEqual(at_the_end(has_run=False), (False, False))
        self.assertEqual(at_the_end(kept=graphs), (False, False))
        # The backward pass that follows would fail.
        self.assertEqual(at_the_end(end="within a step"), (False, False))
        # And functions that the script has compiled.
        self.assertEqual(at_the_end(scripts_own=True), (False, True))

    def test_page_locked_memory_that_is_not_kept_is_given_back(self):
        pins = "loader.pin_memory"

        def at_the_end(prepared, kept, is_initialized=True):
            session, script = session_of(torch.nn.Linear(2, 2))
            loader = DataLoader(TensorDataset(torch.zeros(8)))
            script.found(loader).is_trained_from = True
            session._knobs = Knobs(script)
            session._knobs.knobs[pins].unavailable = ""  # as on a GPU
            with (
                mock.patch.object(torch.cuda, "is_initialized", return_value=is_initialized),
                mock.patch.object(torch._C, "_host_emptyCache", create=True) as empty,
                mock.patch.object(torch.cuda, "empty_cache"),
            ):
                for value in prepared:
                    session._prepare({"configuration": {pins: value}})
                session._finish({"configuration": {pins: kept}})
            return empty.called

        self.assertTrue(at_the_end([True, False], False))
        self.assertTrue(at_the_end([True], False))
        self.assertFalse(at_the_end([False], False))
        self.assertFalse(at_the_end([False, True], True))
        self.assertFalse(at_the_end([True], False, is_initialized=False))

    def test_no_change_is_tried_where_the_script_fills_its_gpu(self):
        # A backward pass that finds no memory is the script's end.
        gib = 1 << 30
        session, script = session_of(torch.nn.Linear(2, 2))
        session._knobs = Knobs(script)
        change = {"precision.autocast": "bf16"}

        def prepare(change, peak, free, held=2):
            script.peak_device_bytes = peak * gib
            with gpu_of(held=held * gib, reserved=held * gib, free=free * gib):
                return session._prepare({"configuration": change})["changed"]

        with self.assertRaises(RequestError) as refused:
            prepare(change, peak=12, free=11)  # 10 of 11
        error = refused.exception
        self.assertEqual(error.kind, "out_of_memory")
        self.assertIn("too little of its GPU", error.what)
        self.assertTrue(script.forward.changes_nothing())
        self.assertEqual(prepare({}, peak=12, free=11), [])
        self.assertEqual(prepare(change, peak=12, free=12), list(change))
        self.assertEqual(prepare({}, peak=12, free=11), list(change))
        self.assertEqual(prepare(change, peak=12, free=11), list(change), "it had room")
        other = {"rewrite.gather": "indexing", **change}
        with self.assertRaises(RequestError):
            prepare(other, peak=12, free=11)
        self.assertEqual(prepare(other, peak=0, free=0), ["rewrite.gather"], "nothing is known")


if __name__ == "__main__":
    unittest.main()
