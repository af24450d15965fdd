# SPDX-License-Identifier: Apache-2.0
"""What was kept, as a change of the script's text."""

import ast
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
from torch import nn

from autotuned.loop.script import ForwardSettings, Root
from stand_in import ROOT

PLAIN = '''\
"""Trains."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader


def train(args, model, loader, optimizer):
    model.train()
    for step, (data, target) in enumerate(loader):
        data = data.to("cpu")
        optimizer.zero_grad(set_to_none=False)
        output = model(data)
        # the usual one
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(loss.item())


def test(model, loader):
    model.eval()
    with torch.no_grad():
        return sum(model(data).sum() for data, _ in loader)


def main():
    model = nn.Sequential(nn.Conv2d(1, 2, 3))
    train_kwargs = {"batch_size": 4}
    train_loader = DataLoader(dataset(), **train_kwargs)
    test_loader = DataLoader(dataset(), batch_size=8)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    train(None, model, train_loader, optimizer)


if __name__ == "__main__":
    main()
'''


def line_of(text, part):
    return text[: text.index(part)].count("\n") + 1


def change(before, after, gain="1.20 x (1.10 to 1.30)"):
    return {"from": before, "to": after, "gain": gain}


class PatchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, text, name="train.py"):
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def places(self, text, name="train.py", **parts):
        """As the agent tells them: what stands in these lines."""
        path = str(self.folder / name)
        known = {
            "model": 'output = model(data)',
            "optimizer": "optim.AdamW(",
            "type": "AdamW",
            "loader": "DataLoader(dataset(), **",
            "dims": [4],
            "output": [2],
            "device": "cpu",
            **parts,
        }
        places = {"device": known["device"], "roots": [], "optimizers": [], "loaders": []}
        if known["model"]:
            place = f"{path}:{line_of(text, known['model'])}"
            places["roots"] = [
                {
                    "called_at": place,
                    "input_dims": known["dims"],
                    "output_dims": known["output"],
                }
            ]
        if known["optimizer"]:
            place = f"{path}:{line_of(text, known['optimizer'])}"
            places["optimizers"] = [{"made_at": place, "type": known["type"]}]
        if known["loader"]:
            place = f"{path}:{line_of(text, known['loader'])}"
            places["loaders"] = [
                {"made_at": place, "type": "DataLoader", "is_trained_from": True}
            ]
        return places

    def ask(self, changes, places, name="train.py", **more):
        """The answer in JSON, and what the program prints for people."""
        question = {"script": name, "run": "r-1", "changes": changes, "places": places, **more}
        program = "import sys; sys.path.insert(0, sys.argv.pop(1)); "
        program += "from autotuned.patching.patch import main; sys.exit(main())"
        printed = [
            subprocess.run(
                [sys.executable, "-I", "-B", "-S", "-c", program, str(ROOT / "python"), asked],
                cwd=self.folder,
                capture_output=True,
                check=True,
            ).stdout
            for asked in (json.dumps({**question, "as_json": True}), json.dumps(question))
        ]
        return json.loads(printed[0]), printed[1]

    def patched(self, changes, places, name="train.py", **more):
        """The text with the diff in it, as `patch -p0` and `git apply` make it; and the words."""
        before = (self.folder / name).read_bytes()
        answer, printed = self.ask(changes, places, name, **more)
        self.assertEqual((self.folder / name).read_bytes(), before, "nothing is written")
        if not answer["diff"]:
            return None, answer["words"]
        results = []
        for tool in (["patch", "-p0", "--quiet"], ["git", "apply", "-p0"]):
            if shutil.which(tool[0]) is None:
                continue
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / name).write_bytes(before)
                environment = {**os.environ, "GIT_CEILING_DIRECTORIES": folder}
                subprocess.run(tool, input=printed, cwd=folder, env=environment, check=True)
                results.append((Path(folder) / name).read_bytes())
        if not results:
            self.skipTest("neither patch nor git is here")
        self.assertEqual(len(set(results)), 1)
        ast.parse(results[0])
        return results[0].decode(), answer["words"]

    def test_every_setting_is_found_in_the_patched_script(self):
        self.write(PLAIN)
        changes = {
            "loader.workers": change(0, 2, "1.57 x (1.35 to 1.89)"),
            "loader.prefetch_batches": change(2, 4),
            "loader.persistent_workers": change(False, True),
            "loader.pin_memory": change(False, True),
            "optimizer.fused": change(False, True),
            "optimizer.set_to_none": change(False, True),
            "precision.autocast": change("off", "bf16"),
            "precision.tf32": change(False, True),
            "layout.memory_format": change("contiguous", "channels_last"),
            "threads.intra_op": change(2, 1),
            "cudnn.benchmark": change(False, True),
            "model.compile": change("off", "default"),
        }
        text, words = self.patched(changes, self.places(PLAIN))
        self.assertEqual(words, [])
        for part in (
            '**{**train_kwargs, "num_workers": 2, "prefetch_factor": 4, "pin_memory": True, '
            '"persistent_workers": True})\n',
            "test_loader = DataLoader(dataset(), batch_size=8)\n",
            "    model = nn.Sequential(nn.Conv2d(1, 2, 3))\n",
            "    model.compile()\n"
            "    optimizer = optim.AdamW(model.parameters(), lr=1e-3, fused=True)\n",
            "optimizer.zero_grad(set_to_none=True)",
            '        with torch.autocast("cpu", dtype=torch.bfloat16):\n'
            "            output = model(data.to(memory_format=torch.channels_last)).float()\n"
            "        # the usual one\n"
            "        loss = F.nll_loss(output, target)\n"
            "        loss.backward()\n",
            "from torch.utils.data import DataLoader\n"
            'torch.set_float32_matmul_precision("high")\n'
            "torch.set_num_threads(1)\n"
            "torch.backends.cudnn.benchmark = True\n",
            "model(data).sum() for data",
        ):
            self.assertIn(part, text)

    def test_each_hunk_says_what_it_gives(self):
        self.write(PLAIN)
        changes = {
            "loader.workers": change(0, 2, "1.57 x (1.35 to 1.89)"),
            "optimizer.set_to_none": change(False, True, "1.10 x (1.05 to 1.15)"),
        }
        answer, _ = self.ask(changes, self.places(PLAIN))
        hunks = [line for line in answer["diff"].splitlines() if line.startswith("@@")]
        self.assertEqual(len(hunks), 2)
        self.assertIn("@@ optimizer.set_to_none off -> on, 1.10 x (1.05 to 1.15)", hunks[0])
        self.assertIn("@@ loader.workers 0 -> 2, 1.57 x (1.35 to 1.89)", hunks[1])
        changed = [line for line in answer["diff"].splitlines() if line[:1] in "+-"]
        self.assertEqual(len(changed), 2 + 2 + 2, "no other line is touched")

    def test_threads_take_the_place_of_a_loader(self):
        self.write(PLAIN)
        changes = {
            "loader.native_threads": change(0, 2),
            "loader.workers": change(0, 1),
            "loader.prefetch_batches": change(2, 4),
            "loader.pin_memory": change(False, True),
        }
        text, words = self.patched(changes, self.places(PLAIN))
        self.assertEqual(words, [])
        self.assertIn(
            'train_loader = autotuned.Loader.of(DataLoader(dataset(), **{**train_kwargs, '
            '"pin_memory": True}), workers=2, prefetch_factor=4)\n',
            text,
        )
        self.assertIn("import DataLoader\nimport autotuned\n", text)
        self.assertIn("test_loader = DataLoader(dataset(), batch_size=8)\n", text)
        self.write(PLAIN.replace("import argparse\n", "import argparse\nimport autotuned\n"))
        places = self.places((self.folder / "train.py").read_text())
        text, _ = self.patched({"loader.native_threads": change(0, 1)}, places)
        self.assertEqual(text.count("import autotuned\n"), 1)
        self.assertIn("of(DataLoader(dataset(), **train_kwargs), workers=1)\n", text)
        places["loaders"] = []
        _, words = self.patched({"loader.native_threads": change(0, 1)}, places)
        self.assertIn("autotuned.Loader.of(DataLoader(...), workers=1)", words[-1])

    def test_arguments_that_are_there_are_replaced(self):
        text = PLAIN.replace(
            "DataLoader(dataset(), **train_kwargs)",
            "DataLoader(\n        dataset(),\n        num_workers=1,  # few\n"
            "        shuffle=True,\n    )",
        ).replace("lr=1e-3)", "lr=1e-3, foreach=True,)")
        self.write(text)
        places = self.places(text, loader="DataLoader(\n")
        changes = {"loader.workers": change(1, 0), "optimizer.fused": change(False, True)}
        new, words = self.patched(changes, places, best={"loader.workers": 0})
        self.assertEqual(words, [])
        self.assertIn("num_workers=0,  # few\n", new)
        self.assertIn("shuffle=True, persistent_workers=False, prefetch_factor=None,\n", new)
        self.assertIn("lr=1e-3, foreach=False, fused=True,)", new.replace("\n", ""))

    def test_what_is_not_plain_gets_words_and_the_code(self):
        cases = {
            "several calls": (
                PLAIN.replace("        output = model(data)", "        output = model(data)\n"
                              "        other = model(data)"),
                {"precision.autocast": change("off", "bf16")},
                {},
                "called several times",
            ),
            "several tensors": (
                PLAIN,
                {"precision.autocast": change("off", "bf16")},
                {"output": []},
                "return one tensor",
            ),
            "images that are made in the call": (
                PLAIN.replace("model(data)", "model(data.float())"),
                {"layout.memory_format": change("contiguous", "channels_last")},
                {"model": "output = model(data.float())"},
                "plain images",
            ),
            "another function makes it": (
                PLAIN.replace("optim.AdamW(", "make_AdamW("),
                {"optimizer.fused": change(False, True)},
                {"optimizer": "make_AdamW("},
                "no call of optimizer",
            ),
            "whose parameters": (
                PLAIN.replace("model.parameters()", "groups"),
                {"model.compile": change("off", "default")},
                {},
                "whose parameters",
            ),
            "the script sets it by itself": (
                PLAIN.replace("def main():", "def main():\n    if False:\n"
                              "        torch.set_num_threads(3)"),
                {"threads.intra_op": change(2, 1)},
                {},
                "by itself",
            ),
            "no place": (
                PLAIN,
                {"loader.workers": change(0, 2)},
                {"loader": None},
                "which loader trains",
            ),
            "no change of a text": (
                PLAIN,
                {"memory.malloc": change("default", "keep")},
                {},
                "say it",
            ),
        }
        for name, (text, changes, parts, why) in cases.items():
            with self.subTest(name):
                self.write(text)
                new, words = self.patched(changes, self.places(text, **parts))
                self.assertIsNone(new)
                told = "\n".join(words)
                self.assertIn(why, told)
                self.assertIn("1.20 x (1.10 to 1.30)", told)
                self.assertGreater(len(words), 1, "with the code to paste")

    def test_what_is_written_trains_as_what_was_measured(self):
        """To the last bit."""
        module = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.Conv2d(6, 8, 3, padding=1),
        )
        classifier = nn.Sequential(copy.deepcopy(module), nn.Flatten(), nn.Linear(8 * 36, 3))
        usual = """
def train(model, parameters):
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    for _ in range(6):
        data = torch.randn(4, 1, 6, 6)
        optimizer.zero_grad()
        CALL
        loss.backward()
        optimizer.step()
"""
        head = "import torch\nimport torch.nn.functional as F\n"
        forms = {
            "alone": "output = model(data)\n"
            "        loss = F.cross_entropy(output, target(output))",
            "inside": "truth = target(data)\n"
            "        loss = F.cross_entropy(model(data), truth)",
            "in a condition": "if (out := model(data)) is not None:\n"
            "            loss = F.cross_entropy(out, target(out))",
        }
        measured = {
            "precision.autocast": {"autocast": torch.bfloat16},
            "layout.memory_format": {"channels_last": True},
        }
        for net, dims in ((classifier, 2), (module, 4)):
            for form, call in forms.items():
                for names in (*((one,) for one in measured), tuple(measured)):
                    with self.subTest(dims=dims, form=form, names=names):
                        text = head + usual.replace("CALL", call)
                        self.write(text)
                        places = self.places(
                            text, optimizer=None, loader=None, output=[dims], model="model(data)"
                        )
                        values = {
                            "precision.autocast": change("off", "bf16"),
                            "layout.memory_format": change("contiguous", "channels_last"),
                        }
                        new, words = self.patched({name: values[name] for name in names}, places)
                        self.assertEqual(words, [])
                        settings = {}
                        for name in names:
                            settings |= measured[name]
                        want = self.trained(text, net, ForwardSettings(**settings))
                        got = self.trained(new, net, None)
                        own = self.trained(text, net, None)
                        self.assertEqual(got, want)
                        if "precision.autocast" in names:
                            self.assertNotEqual(own, want)

    @staticmethod
    def trained(text, net, settings):
        """The parameters behind the steps of this script; under settings of the agent's."""
        net = copy.deepcopy(net)
        root = Root(net, 0, "")

        def model(*args, **kwargs):
            return root.run(settings, args, kwargs)

        def target(like):
            return torch.zeros(like.shape[:1] + like.shape[2:], dtype=torch.long)

        def of_images(like):
            return target(like) if net[-1].weight.dim() == 4 else target(like[:, 0, 0])

        names = {"target": of_images if "target(data)" in text else target}
        exec(compile(text, "train.py", "exec"), names)
        torch.manual_seed(2)
        names["train"](net if settings is None else model, list(net.parameters()))
        return [parameter.tolist() for parameter in net.parameters()]

    def test_a_place_of_another_text_is_not_edited(self):
        self.write(PLAIN)
        places = self.places(PLAIN)
        places["loaders"][0]["made_at"] = str(self.folder / "train.py") + ":3"
        new, words = self.patched({"loader.workers": change(0, 2)}, places)
        self.assertIsNone(new)
        self.assertIn("no call of DataLoader in line 3", words[0])

    def test_one_that_finds_no_place_leaves_the_others(self):
        self.write(PLAIN)
        changes = {"loader.workers": change(0, 2), "memory.malloc": change("default", "keep")}
        new, words = self.patched(changes, self.places(PLAIN))
        self.assertIn('"num_workers": 2', new)
        self.assertIn("MALLOC_TRIM_THRESHOLD_", "\n".join(words))

    def test_tabs_ends_of_lines_and_other_letters_stay(self):
        text = PLAIN.replace("    ", "\t").replace("the usual one", "die übliche ÄÖ")
        text = text.replace('model.train()', 'model.train(); name = "Ä"').rstrip("\n")
        for name, content in (("LF", text), ("CRLF", text.replace("\n", "\r\n"))):
            with self.subTest(name):
                self.write(content)
                changes = {
                    "precision.autocast": change("off", "bf16"),
                    "threads.intra_op": change(2, 1),
                }
                new, words = self.patched(changes, self.places(text))
                self.assertEqual(words, [])
                end = "\r\n" if name == "CRLF" else "\n"
                self.assertIn(
                    f'\t\twith torch.autocast("cpu", dtype=torch.bfloat16):{end}'
                    f"\t\t\toutput = model(data).float(){end}\t\t# die übliche ÄÖ{end}",
                    new,
                )
                self.assertEqual(new.count("\n"), text.count("\n") + 2)

    def test_parts_of_other_files_are_changed_there(self):
        (self.folder / "lib").mkdir()
        text = PLAIN.replace("train(None", "engine.train(None")
        self.write("import torch\n" + text[text.index("def train"):], "lib/engine.py")
        self.write(PLAIN)
        other = "import torch\n" + text[text.index("def train"):]
        places = self.places(PLAIN)
        places["roots"] = self.places(other, "lib/engine.py")["roots"]
        answer, _ = self.ask({"precision.autocast": change("off", "bf16")}, places)
        self.assertIn("--- lib/engine.py\n+++ lib/engine.py\n", answer["diff"])
        self.assertNotIn("train.py\n", answer["diff"])

    def test_an_installed_package_is_left_alone(self):
        self.write(PLAIN)
        package = self.folder / "site-packages"
        package.mkdir()
        self.write(PLAIN, "site-packages/engine.py")
        places = self.places(PLAIN, "site-packages/engine.py")
        new, words = self.patched({"loader.workers": change(0, 2)}, places)
        self.assertIsNone(new)
        self.assertIn("installed package", words[0])

    def test_numbers_that_are_read_at_every_step_are_named_on_a_gpu(self):
        often = PLAIN.replace("        optimizer.step()", "        total = loss.item()\n"
                              "        optimizer.step()")
        self.write(often)
        for device, number in (("cuda:0", 1), ("cpu", 0)):
            places = self.places(often, device=device)
            answer, _ = self.ask({"threads.intra_op": change(2, 1)}, places)
            told = [line for line in answer["words"] if "waits until the GPU is done" in line]
            self.assertEqual(len(told), number)
        self.write(PLAIN)
        answer, _ = self.ask({}, self.places(PLAIN, device="cuda:0"))
        self.assertEqual(answer["words"], [], "every tenth step is seldom enough")

    def test_copies_that_are_waited_for_are_named_on_a_gpu(self):
        loop = "        optimizer.zero_grad"
        copies = PLAIN.replace(
            loop,
            "        data, target = data.to(device), target.cuda()\n"
            "        data.to(device, non_blocking=True)\n"
            "        model.to(device)\n" + loop,
            1,
        )
        self.assertNotEqual(copies, PLAIN)
        self.write(copies)
        line = line_of(copies, "data.to(device), target")
        for device, best, number in (
            ("cuda:0", {"loader.pin_memory": True}, 1),
            ("cuda:0", {"loader.pin_memory": False}, 0),
            ("cpu", {"loader.pin_memory": True}, 0),
        ):
            answer, _ = self.ask({}, self.places(copies, device=device), best=best)
            told = [one for one in answer["words"] if "non_blocking=True" in one]
            self.assertEqual(len(told), number, answer)
            if told:
                self.assertIn(f"train.py:{line} copies a batch", told[0])


if __name__ == "__main__":
    unittest.main()
