# SPDX-License-Identifier: Apache-2.0
"""What a script saves while a change is tried on it: no more and no less than without us."""

import tempfile
import unittest
from pathlib import Path

from forks import Running, alone

QUIET = {"PYTHONWARNINGS": "ignore"}

# Saves in every way that scripts know, in the middle of each step, and says what the files hold:
# names, types, layouts and settings, but no values. One that cannot be saved ends the script.
SCRIPT = """
import copy, io, pickle, sys
import torch
from torch import nn
torch.manual_seed(1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8 * 36, 2)
    def forward(self, x):
        return self.head(self.body(x).flatten(1))

class Careful(Net):
    # Some modules say by themselves what is saved of them.
    def __getstate__(self):
        return self.__dict__.copy()

def shown(value):
    if isinstance(value, torch.Tensor):
        # as_subclass() and the like would be seen here
        return type(value).__name__, value.dtype, tuple(value.shape), value.stride()
    if isinstance(value, dict):
        return type(value).__name__, [(key, shown(one)) for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [shown(one) for one in value]
    return value if isinstance(value, (bool, int, float, str)) else type(value).__name__

def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)

def of_module(module):
    assert module._compiled_call_impl is None  # what PyTorch calls instead of the module
    own = set(module.__dict__) - set(nn.Module().__dict__) - {"_compiled_call_impl"}
    return type(module).__name__, sorted(own), [
        (name, shown(one)) for name, one in module.state_dict().items()]

def of_optimizer(optimizer):
    groups = [{**group, "params": len(group["params"])} for group in optimizer.param_groups]
    return shown(optimizer.state_dict()), shown(groups)

told = []
def tell(model, optimizer, loss):
    told.append(repr([
        shown(saved({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                     "loss": loss.detach(), "epoch": 1})),
        shown(pickle.loads(pickle.dumps(model.state_dict()))),
        of_module(saved(model)), of_module(copy.deepcopy(model)),
        of_optimizer(saved(optimizer)), of_optimizer(copy.deepcopy(optimizer)),
        [tuple(one.view(-1).shape) for one in model.parameters()],
    ]))

model = Careful() if "careful" in sys.argv else Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(60):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 3, 8, 8)).square().mean()
    tell(model, optimizer, loss)
    loss.backward()
    optimizer.step()
    tell(model, optimizer, loss)
print(told[-1])
print("the same in all steps with moments:", len(set(told[2:])) == 1)
copied = copy.deepcopy(model)
images = torch.randn(4, 3, 8, 8)
with torch.no_grad():
    model.head.weight.zero_()
print("a copy is its own:", bool(copied(images).std(0).count_nonzero()))
"""


def change_of(knob):
    """Another value of a knob that can be switched; nothing where there is none."""
    if knob["unavailable"] or knob["switch"] != "live":
        return None
    if knob["type"] == "boolean":
        return not knob["default"]
    return next(
        (
            value
            for value in knob.get("choices", [])
            if value != knob["default"] and value not in knob["unavailable_choices"]
        ),
        None,
    )


class SavingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.script = Path(folder.name) / "saves.py"
        self.script.write_text(SCRIPT, encoding="utf-8")

    def assert_the_same_files(self, *arguments):
        command = (str(self.script), *arguments)
        want = alone(*command, environment=QUIET)
        self.assertEqual(want[0], 0, want[2])
        self.assertIn("the same in all steps with moments: True", want[1])
        running = Running(*command, environment=QUIET)
        self.addCleanup(running.end)
        changes = {knob["name"]: change_of(knob) for knob in running.load()["knobs"]}
        changes = {name: value for name, value in changes.items() if value is not None}
        # test_compile.py looks at its names; it would take a minute here.
        changes.pop("model.compile", None)
        for name in ("precision.autocast", "layout.memory_format", "optimizer.fused"):
            self.assertIn(name, changes)
        for name, value in changes.items():
            running.must("prepare", configuration={name: value})
            self.make_a_step(running)
        running.must("prepare", configuration={})
        running.must("check", configuration={"precision.autocast": "bf16"}, steps=2)
        running.must("prepare", configuration=changes)
        self.make_a_step(running)
        # And behind the end of the tuning.
        running.must("finish", configuration=changes)
        self.assertEqual(running.rest(), want)

    def make_a_step(self, running):
        """One in which the script saves is not clean."""
        answer = running.ask("run", minimum_ns=1, maximum_ns=0)
        self.assertEqual(answer["error"]["kind"], "timeout", answer)

    def test_files_are_those_of_an_untouched_script(self):
        self.assert_the_same_files()

    def test_also_of_a_module_that_says_by_itself_what_is_saved(self):
        self.assert_the_same_files("careful")


if __name__ == "__main__":
    unittest.main()
