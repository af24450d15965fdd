# SPDX-License-Identifier: Apache-2.0
"""Modules through torch.compile: numbers, names, time, failures, and how long a script trains."""

import os
import re
import shutil
import sys
import sysconfig
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch
from torch import nn
from torch._dynamo.utils import counters

from autotuned.checks.cotangent import CotangentCheck
from autotuned.knobs.knobs import Knobs
from autotuned.loop import length
from autotuned.loop.script import ForwardSettings, Root, Script
from autotuned.parts import compiling
from autotuned.protocol import RequestError
from stand_in import Running, alone
from test_checks import Loop, worst

COMPILED = ForwardSettings(compiled="default")
CAN_COMPILE = compiling.obstacle_of(torch.device("cpu")) == ""
STANDARD = sysconfig.get_paths()["stdlib"]
NEEDS_COMPILER = "this machine has no compiler for torch.compile"

SCRIPT = """
import torch
from torch import nn

def train(model, optimizer, epochs):
    for epoch in range(epochs):
        for number in range(10):
            optimizer.zero_grad()
            rows = 6 if (epoch, number) == (3, 9) else 8
            model(torch.randn(rows, 12)).square().mean().backward()
            optimizer.step()

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
train(model, optimizer, 12)
print(sorted(model.state_dict()))
"""
NAMES = "['0.bias', '0.weight', '2.bias', '2.weight']\n"


COMPILES = """
import sys
import torch
from torch import nn
from torch._dynamo.utils import counters

how = sys.argv[1]
torch.manual_seed(1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.last = nn.Linear(8, 1)
    def forward(self, x):
        x = self.first(x)
        if how == "broken":
            torch._dynamo.graph_break()
        return self.last(x)

model = Net()
forward = model
if how == "function":
    @torch.compile(backend="eager")
    def forward(x):
        return model(x).square()
elif how == "in place":
    model.compile(backend="eager")
else:
    forward = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(24):
    optimizer.zero_grad()
    forward(torch.randn(3, 4)).square().mean().backward()
    optimizer.step()
    if step % 8 == 7:
        model.eval()
        with torch.no_grad():
            forward(torch.randn(3, 4))
        model.train()
print(counters["stats"]["unique_graphs"], dict(counters["frames"]), len(counters["graph_break"]))
print(model.last.weight.tolist())
"""


def setUpModule():
    """What is compiled is kept for later processes: not here, and not for these."""
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    variables = {
        "TORCHINDUCTOR_CACHE_DIR": folder.name,
        # Else each process that compiles looks whether the vector units work that the CPU says it
        # has: it compiles a program for them, and starts PyTorch once more to load it.
        "TORCHINDUCTOR_VEC_ISA_OK": "1",
    }
    environment = mock.patch.dict(os.environ, variables)
    environment.start()
    unittest.addModuleCleanup(environment.stop)


class CompileTest(unittest.TestCase):
    def test_what_it_needs_is_said(self):
        with mock.patch.object(shutil, "which", return_value=None):
            self.assertIn("C++ compiler", compiling.obstacle_of(torch.device("cpu")))
        with mock.patch.object(sysconfig, "get_paths", return_value={"include": "/nowhere"}):
            if shutil.which("g++"):
                self.assertIn("Python.h", compiling.obstacle_of(torch.device("cpu")))
        gpu = torch.device("cuda")
        with mock.patch.object(torch.cuda, "get_device_capability", return_value=(6, 1)):
            self.assertIn("capability 7.0", compiling.obstacle_of(gpu))
        with mock.patch.object(torch.cuda, "get_device_capability", return_value=(9, 0)):
            with mock.patch("importlib.util.find_spec", return_value=None):
                self.assertIn("triton", compiling.obstacle_of(gpu))
            with mock.patch("importlib.util.find_spec", return_value=object()):
                self.assertEqual(compiling.obstacle_of(gpu), "")

    def test_obstacles_of_scripts(self):
        def knob_of(*modules):
            script = Script()
            script.roots = [Root(module, index, "") for index, module in enumerate(modules)]
            return Knobs(script).knobs["model.compile"]

        compiled = nn.Linear(2, 2)
        compiled.compile()
        for words, modules in (
            ("no module", ()),
            ("TorchScript", (torch.jit.script(nn.Linear(2, 2)),)),
            ("by itself", (compiled,)),
            ("by itself", (torch.compile(nn.Linear(2, 2)),)),
        ):
            self.assertIn(words, knob_of(*modules).unavailable)
        knob = knob_of(nn.Linear(2, 2))
        with self.assertRaises(RequestError):
            knob.check("reduce-overhead")  # without a GPU

    def test_a_script_that_differentiates_twice_is_not_compiled(self):
        def penalty(out, target):
            (slope,) = torch.autograd.grad(out.sum(), loop.model[0].weight, create_graph=True)
            return out.square().mean() + slope.square().mean()

        loop = Loop()
        self.addCleanup(loop.close)
        loop.loss_of = penalty
        loop.known()
        self.assertIn("second", loop.knobs.knobs["model.compile"].unavailable)

    @unittest.skipUnless(CAN_COMPILE, NEEDS_COMPILER)
    def test_the_module_stays_as_it_is_and_its_numbers_too(self):
        torch.manual_seed(3)
        module = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
        counters.clear()
        names, own = list(module.state_dict()), set(module.__dict__)
        root = Root(module, 0, "")
        inputs = torch.randn(5, 6)
        results = []
        for settings in (ForwardSettings(), COMPILED, ForwardSettings()):
            module.zero_grad()
            out = root.run(settings, (inputs,), {})
            out.square().sum().backward()
            results.append([out.detach(), *(one.grad.clone() for one in module.parameters())])
        for own_way, compiled, back in zip(*results):
            self.assertTrue(torch.allclose(own_way, compiled, rtol=1e-4, atol=1e-6))
            self.assertTrue(torch.equal(own_way, back), "undone")
        self.assertEqual((list(module.state_dict()), set(module.__dict__)), (names, own))
        self.assertEqual(counters["stats"]["unique_graphs"], 1)
        taken_ns = root.compile_ns(COMPILED)
        self.assertGreater(taken_ns, 0)
        self.assertEqual(root.compile_ns(ForwardSettings()), 0)
        root.run(COMPILED, (inputs,), {})
        self.assertEqual(root.compile_ns(COMPILED), taken_ns, "it is compiled once")

    @unittest.skipUnless(CAN_COMPILE, NEEDS_COMPILER)
    def test_what_the_script_compiles_is_told_apart(self):
        compiling.clock.start()
        module = nn.Linear(3, 2)
        root = Root(module, 0, "")
        with mock.patch.object(compiling.clock, "scripts_own", False):
            root.run(COMPILED, (torch.randn(4, 3),), {}).sum().backward()
            self.assertGreater(root.compile_ns(COMPILED), 0)
            self.assertFalse(compiling.clock.scripts_own)
            torch.compile(lambda x: x * 3, backend="eager")(torch.ones(2))
            self.assertTrue(compiling.clock.scripts_own)

    @unittest.skipUnless(CAN_COMPILE, NEEDS_COMPILER)
    def test_a_check_really_compiles_and_compares(self):
        loop = Loop()
        self.addCleanup(loop.close)
        loop.known()
        counters.clear()
        before = [one.detach().clone() for one in loop.model.parameters()]
        with self.assertRaises(RequestError) as raised:
            loop.check({"model.compile": "default"})
        self.assertIn("other random numbers", raised.exception.what)
        answer = loop.check({"model.compile": "default"}, kind=CotangentCheck, steps=2)
        self.assertEqual(loop.failures, [])
        self.assertIn("dropout is off", answer["notes"][0])
        self.assertTrue(loop.model[3].training, "it is on again")
        cosine, ratio = worst(answer)
        self.assertGreater(cosine, 0.999)
        self.assertLess(ratio, 1.01)
        self.assertGreater(loop.script.roots[0].compile_ns(COMPILED), 0)
        self.assertGreater(counters["stats"]["unique_graphs"], 0)
        self.assertFalse(
            all(torch.equal(one, now) for one, now in zip(before, loop.model.parameters())),
            "the steps were real",
        )

    @unittest.skipUnless(CAN_COMPILE, NEEDS_COMPILER)
    def test_without_draws_real_steps_are_compared(self):
        loop = Loop(torch.optim.Adam, lr=1e-3)
        self.addCleanup(loop.close)
        loop.model[3] = nn.Identity()
        loop.known()
        cosine, ratio = worst(loop.check({"model.compile": "default", "optimizer.fused": True}))
        self.assertGreater(cosine, 0.99)
        self.assertLess(ratio, 1.01)

    def run_script(self, **environment):
        """The answers to `load` and to a block of compiled steps, and the end of the script."""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "one.py"
            script.write_text(SCRIPT, encoding="utf-8")
            environment["PYTHONWARNINGS"] = "ignore"
            running = Running(str(script), environment=environment)
            self.addCleanup(running.socket.close)
            loaded = running.load()
            change = {"model.compile": "default"}
            running.must("prepare", configuration=change)
            answer = running.ask("run", minimum_ns=1, minimum_steps=45, warmup_steps=3)
            running.must("finish", configuration={} if "error" in answer else change)
            return loaded, answer, running.rest()

    @unittest.skipUnless(CAN_COMPILE, NEEDS_COMPILER)
    def test_a_script_is_charged_and_saves_under_its_own_names(self):
        loaded, answer, (code, out, error) = self.run_script()
        self.assertEqual((code, out), (0, NAMES))
        # PyTorch's compiler may warn of what it does not find; we say nothing.
        self.assertNotIn("autotuned", error)
        self.assertNotIn("Traceback", error)
        self.assertGreater(answer["ok"]["one_time_ns"], 0)
        self.assertGreater(
            answer["ok"]["steps_seen"], answer["ok"]["steps"], "of the other shape, one compiled"
        )
        # No loader says how many steps an epoch has.
        self.assertEqual((loaded["steps_left"], loaded["length_told_by"]), (0, ""))

    @unittest.skipUnless(CAN_COMPILE, NEEDS_COMPILER)
    def test_what_cannot_be_compiled_is_a_failed_trial_only(self):
        with tempfile.TemporaryDirectory() as folder:
            _, answer, (code, out, _) = self.run_script(
                CXX="/bin/false", TORCHINDUCTOR_CACHE_DIR=folder
            )
        self.assertIn("error", answer)
        self.assertEqual(answer["error"]["kind"], "unsupported")
        self.assertEqual((code, out), (0, NAMES))


    def test_a_script_that_compiles_by_itself_compiles_the_same(self):
        """As often, with the same graphs, and without a word more."""

        def told(error):
            # Lines of PyTorch's log begin with the time.
            return [line for line in error.splitlines() if not re.match(r"[IWE]\d{4} ", line)]

        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "compiles.py"
            script.write_text(COMPILES, encoding="utf-8")
            for how in ("module", "function", "in place", "broken"):
                with self.subTest(how):
                    command = (str(script), how)
                    code, out, error = alone(*command, environment={"PYTHONWARNINGS": "default"})
                    self.assertEqual(code, 0, error)
                    running = Running(*command, environment={"PYTHONWARNINGS": "default"})
                    self.addCleanup(running.end)
                    running.load()
                    running.must("steps", count=2)
                    running.must("finish", configuration={})
                    got = running.rest()
                    self.assertEqual(got[:2], (code, out))
                    self.assertEqual(told(got[2]), told(error))


class LengthTest(unittest.TestCase):
    def told(self, source, steps_per_epoch=10, ask=length.whole_steps, **names):
        names["ask"] = lambda: ask(sys._getframe(1), steps_per_epoch, (STANDARD,))
        exec(compile(source, "/project/train.py", "exec"), names)
        return names["told"]

    def test_variables_of_the_script_tell(self):
        class Namespace:
            def __init__(self, **fields):
                self.__dict__.update(fields)

        self.assertEqual(self.told("max_iters = 600\ntold = ask()"), (600, "max_iters"))
        self.assertEqual(self.told("num_epochs = 3\ntold = ask()"), (30, "num_epochs"))
        self.assertEqual(self.told("told = ask()", args=Namespace(epochs=14)), (140, "epochs"))
        self.assertEqual(self.told("told = ask()", config={"max_steps": 50}), (50, "max_steps"))
        self.assertEqual(
            self.told("def train(args):\n    return ask()\ntold = train(A)\nepochs = 2",
                      A=Namespace(epochs=5)),
            (50, "epochs"),
            "nearest to the loop",
        )
        self.assertEqual(
            self.told("epochs, max_steps = 9, 20\ntold = ask()"), (20, "max_steps"), "the fewest"
        )

    def test_what_says_nothing_is_not_taken(self):
        for source in ("epoch = 3", "steps = 7", "epochs = True", "epochs = 2.5"):
            self.assertEqual(self.told(source + "\ntold = ask()"), (0, ""), source)
        self.assertEqual(self.told("epochs = 3\ntold = ask()", steps_per_epoch=0), (0, ""))

    def test_a_budget_goes_by_the_most_epochs(self):
        def most(source, **options):
            return self.told(source, ask=length.most_steps, **options)

        in_function = "def train(n_steps=1000, epochs=2):\n    return ask()\n"
        self.assertEqual(most(in_function + "num_epochs = 9\ntold = train()"), (90, "num_epochs"))
        self.assertEqual(most("max_iters = 600\ntold = ask()"), (0, ""), "of what, is not known")
        self.assertEqual(most("epochs = 3\ntold = ask()", steps_per_epoch=0), (0, ""))


if __name__ == "__main__":
    unittest.main()
