# SPDX-License-Identifier: Apache-2.0
"""What can be changed, how, and back again."""

import unittest
from unittest import mock

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from autotuned.knobs import knob_list
from autotuned.knobs import knobs as knob_table
from autotuned.knobs.knobs import Knobs
from autotuned.loop.script import Root, Script
from autotuned.parts.tensors import is_channels_last
from autotuned.protocol import RequestError


def script_of(*modules, optimizers=()):
    script = Script()
    script.kept = (modules, optimizers)  # a script keeps nothing alive
    script.roots = [Root(module, index, "") for index, module in enumerate(modules)]
    script.optimizers = list(optimizers)
    return script


class KnobsTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        self.model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.step()
        self.script = script_of(self.model, optimizers=[self.optimizer])
        self.knobs = Knobs(self.script)

    def step(self):
        self.optimizer.zero_grad()
        self.model(torch.randn(3, 2, 4, 4)).square().sum().backward()
        self.optimizer.step()

    def apply(self, **change):
        return self.knobs.apply(
            self.knobs.whole({name.replace("__", "."): value for name, value in change.items()})
        )

    def test_every_known_knob_is_described(self):
        self.assertEqual(sorted(self.knobs.knobs), knob_table.names())
        for knob in self.knobs.knobs.values():
            json = knob.to_json()
            knob.check(knob.default)
            self.assertEqual(json["available"], not json["unavailable"])
            self.assertIn(json["risk"], ("exact", "numerics", "semantics"))
            if json["type"] == "integer":
                self.assertTrue(json["minimum"] <= json["default"] <= json["maximum"])
            if json["type"] == "choice":
                self.assertIn(json["default"], json["choices"])

    def test_a_layout_is_inside_of_the_module_only(self):
        weight = self.model[0].weight
        alias, moments = weight.detach(), self.optimizer.state[weight]
        self.assertEqual(
            self.apply(layout__memory_format="channels_last"), ["layout.memory_format"]
        )
        seen = []
        self.model[1].register_forward_hook(
            lambda module, args, out: seen.append(is_channels_last(args[0]))
        )
        for channels in (2, 1):
            self.model[0] = nn.Conv2d(channels, 4, 3)
            images = torch.randn(3, channels, 4, 4)
            out = self.script.roots[0].run(self.script.forward, (images,), {})
            self.assertEqual((out.shape, images.is_contiguous()), ((3, 2), True))
            out.square().sum().backward()
            self.assertTrue(self.model[0].weight.grad.is_contiguous())
        self.assertEqual(seen, [True, True], "also where the images have one channel")
        # What the script holds of its parameters goes on to be theirs.
        self.assertEqual(alias.data_ptr(), weight.data_ptr())
        for tensor in (weight, weight.grad, moments["exp_avg"], moments["exp_avg_sq"]):
            self.assertTrue(tensor.is_contiguous())
            tensor.view(-1)
        self.knobs.undo()
        self.assertTrue(self.script.forward.changes_nothing())

    def test_an_image_that_the_module_returns_is_as_the_script_expects_it(self):
        images = nn.Conv2d(2, 4, 3)
        script = script_of(images)
        knobs = Knobs(script)
        knobs.apply(knobs.whole({"layout.memory_format": "channels_last"}))
        script.roots[0].run(script.forward, (torch.randn(3, 2, 4, 4),), {}).view(3, -1)

    def test_16_bits_are_inside_of_the_module_only(self):
        self.apply(precision__autocast="bf16")
        seen = []
        self.model[3].register_forward_hook(lambda module, args, out: seen.append(out.dtype))
        out = self.script.roots[0].run(self.script.forward, (torch.randn(3, 2, 4, 4),), {})
        self.assertEqual((seen, out.dtype), ([torch.bfloat16], torch.float32))

    def test_implementations_of_the_optimizer(self):
        group = self.optimizer.param_groups[0]
        own = (group["fused"], group["foreach"])
        for change, flags in (
            ({"optimizer__fused": True}, (True, False)),
            ({"optimizer__foreach": True}, (False, True)),
            ({"optimizer__fused": True, "optimizer__foreach": True}, (True, False)),
            ({}, own),
        ):
            with self.subTest(**change):
                self.apply(**change)
                self.assertEqual((group["fused"], group["foreach"]), flags)
                self.step()

    def test_what_is_saved_has_the_scripts_own_flags(self):
        own = self.optimizer.state_dict()["param_groups"]
        self.apply(optimizer__fused=True)
        self.step()
        flags = self.script.flags
        saved = flags.own_state(self.optimizer, self.optimizer.state_dict())
        self.assertEqual(saved["param_groups"], own)
        self.assertIs(type(saved["state"]), dict)
        moments = self.optimizer.state[self.model[0].weight]["exp_avg"]
        self.assertIs(saved["state"][0]["exp_avg"], moments, "the same tensors, as without us")
        pickled = flags.own_state(self.optimizer, self.optimizer.__getstate__())
        self.assertIsNone(pickled["param_groups"][0]["fused"])
        self.assertIs(self.optimizer.param_groups[0]["fused"], True, "it goes on with it")
        with self.subTest("a state that is loaded brings flags of the script's"):
            self.optimizer.load_state_dict(saved)
            self.assertIsNone(self.optimizer.param_groups[0]["fused"])
            flags.restored(self.optimizer)
            self.assertIs(self.optimizer.param_groups[0]["fused"], True)
            self.knobs.undo()
            self.assertIsNone(self.optimizer.param_groups[0]["fused"])
        with self.subTest("nothing in force, nothing copied"):
            state = self.optimizer.state_dict()
            self.assertIs(flags.own_state(self.optimizer, state), state)

    def test_a_group_that_is_added_later_has_its_own_flags(self):
        self.apply(optimizer__fused=True)
        self.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
        self.knobs.undo()
        flags = [(group["fused"], group["foreach"]) for group in self.optimizer.param_groups]
        self.assertEqual(flags, [(None, None), (None, None)])

    def test_threads(self):
        own = torch.get_num_threads()
        knob = self.knobs.knobs["threads.intra_op"]
        other = knob.maximum if knob.maximum != own else knob.minimum
        self.apply(threads__intra_op=other)
        self.assertEqual(torch.get_num_threads(), other)
        self.knobs.undo()
        self.assertEqual(torch.get_num_threads(), own)

    def test_malloc_goes_both_ways(self):
        self.assertEqual(self.apply(memory__malloc="keep"), ["memory.malloc"])
        self.assertEqual(self.apply(), ["memory.malloc"])

    def test_a_value_outside_changes_nothing(self):
        for change in (
            {"threads__intra_op": 0},
            {"threads__intra_op": 1.0},
            {"optimizer__fused": 1},
            {"layout__memory_format": "rows"},
            {"loader__workers": 1},
            {"no__knob": 1},
        ):
            with self.subTest(**change), self.assertRaises(RequestError) as raised:
                self.apply(precision__autocast="bf16", **change)
            self.assertEqual(raised.exception.kind, "invalid")
            self.assertEqual(self.knobs.now, self.knobs.own)

    def test_obstacles(self):
        def obstacle(name, script):
            return Knobs(script).knobs[name].unavailable

        half = nn.Linear(2, 2).to(torch.bfloat16)
        self.assertIn("32 bit", obstacle("precision.autocast", script_of(half)))
        self.assertIn("no module", obstacle("precision.autocast", script_of()))
        self.assertIn(
            "TorchScript",
            obstacle("precision.autocast", script_of(torch.jit.script(nn.Linear(2, 2)))),
        )
        casting = script_of(nn.Linear(2, 2))
        casting.roots[0].casts_by_itself = True
        self.assertIn("by itself", obstacle("precision.autocast", casting))
        self.assertIn(
            "four dimensions", obstacle("layout.memory_format", script_of(nn.Linear(2, 2)))
        )
        images = nn.Conv2d(2, 2, 3).to(memory_format=torch.channels_last)
        self.assertIn("chose", obstacle("layout.memory_format", script_of(images)))
        model = nn.Linear(2, 2)
        self.assertIn(
            "Adadelta",
            obstacle(
                "optimizer.fused",
                script_of(model, optimizers=[torch.optim.Adadelta(model.parameters())]),
            ),
        )
        elsewhere = nn.Linear(2, 2, device="meta")
        adagrad = torch.optim.Adagrad(elsewhere.parameters())
        self.assertIn(
            "on the CPU alone",
            obstacle("optimizer.fused", script_of(elsewhere, optimizers=[adagrad])),
        )
        self.assertIn(
            "chose",
            obstacle(
                "optimizer.fused",
                script_of(model, optimizers=[torch.optim.Adam(model.parameters(), fused=True)]),
            ),
        )
        self.assertIn("without an optimizer", obstacle("optimizer.fused", script_of(model)))
        self.assertIn("no DataLoader", obstacle("loader.workers", script_of(model)))
        self.assertEqual(obstacle("optimizer.set_to_none", script_of(model)), "the script does it")

    def test_a_precision_that_the_script_set_for_a_backend(self):
        # PyTorch then raises where it is asked for the one of all backends.
        matmul = torch.backends.cuda.matmul
        if not hasattr(matmul, "fp32_precision"):
            self.skipTest("this PyTorch has no precision of a backend")
        own = matmul.fp32_precision
        self.addCleanup(setattr, matmul, "fp32_precision", own)
        matmul.fp32_precision = "tf32"
        with self.assertRaises(RuntimeError):
            torch.get_float32_matmul_precision()
        self.assertIn("needs a CUDA GPU", Knobs(self.script).knobs["precision.tf32"].unavailable)
        with mock.patch.object(Script, "device", return_value=torch.device("cuda:0")):
            (knob,) = [
                one for one in knob_list.arithmetic(self.script) if one.name == "precision.tf32"
            ]
        self.assertIn("torch.backends", knob.unavailable)

    def test_gradients_of_zeros_can_be_released(self):
        self.script.zero_grad_keeps = True
        knobs = Knobs(self.script)
        self.assertFalse(knobs.own["optimizer.set_to_none"])
        knobs.apply(knobs.whole({"optimizer.set_to_none": True}))
        self.assertTrue(self.script.releases_gradients)
        knobs.undo()
        self.assertFalse(self.script.releases_gradients)

    def test_settings_of_the_loader_that_trains(self):
        other = DataLoader(TensorDataset(torch.zeros(8)))
        training = DataLoader(TensorDataset(torch.zeros(8)))
        found = self.script.found(training)
        found.is_trained_from = True
        knobs = Knobs(self.script)
        self.assertEqual(knobs.knobs["loader.workers"].risk, "exact")
        own = self.script.wanted(found)
        knobs.apply(knobs.whole({"loader.workers": 1, "loader.prefetch_batches": 4}))
        self.assertEqual(
            (self.script.wanted(found).workers, self.script.wanted(found).prefetch_batches), (1, 4)
        )
        self.assertEqual(self.script.wanted(self.script.found(other)).workers, 0)
        knobs.undo()
        self.assertEqual(self.script.wanted(found), own)
        self.assertEqual(self.script.loader_changes, {})

    def test_a_data_set_of_the_script_makes_workers_another_training(self):
        class Noise(torch.utils.data.Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, index):
                return torch.rand(1)

        loader = DataLoader(Noise())
        self.script.found(loader).is_trained_from = True
        knobs = Knobs(self.script)
        self.assertEqual(knobs.knobs["loader.workers"].risk, "semantics")
        self.assertIn("the script's own", knobs.notes[0]["text"])
        self.assertEqual(knobs.notes[0]["unless_permitted"], "loader.workers")

    def test_obstacles_of_workers(self):
        loader = DataLoader(TensorDataset(torch.zeros(8)))
        found = self.script.found(loader)
        found.is_trained_from = True

        def obstacle():
            return Knobs(self.script).knobs["loader.workers"].unavailable

        self.assertEqual(obstacle(), "")
        with mock.patch.object(torch.multiprocessing, "get_start_method", return_value="spawn"):
            self.assertIn("'spawn'", obstacle())
        found.look_at((torch.zeros(1, 2, device="meta"),))
        self.assertIn("on a GPU", obstacle())
        found.is_on_device = False
        found.look_at([torch.zeros(1024)])
        self.assertEqual(found.batch_bytes, 4096)
        with mock.patch("shutil.disk_usage", return_value=mock.Mock(free=8000)):
            self.assertIn("/dev/shm", obstacle())
        knobs = Knobs(self.script)
        change = knobs.whole({"loader.workers": 1, "loader.prefetch_batches": 8})
        with mock.patch("shutil.disk_usage", return_value=mock.Mock(free=60_000)):
            with self.assertRaises(RequestError) as raised:
                knobs.apply(change)
        self.assertEqual(raised.exception.kind, "unsupported")
        self.assertEqual(knobs.now, knobs.own)

    def test_settings_that_failed_are_refused(self):
        loader = DataLoader(TensorDataset(torch.zeros(8)))
        found = self.script.found(loader)
        found.is_trained_from = True
        knobs = Knobs(self.script)
        change = knobs.whole({"loader.workers": 1})
        knobs.apply(change)
        found.refused[self.script.wanted(found)] = "a worker was killed"
        self.assertEqual(self.script.wanted(found).workers, 0)
        knobs.undo_loader()
        with self.assertRaisesRegex(RequestError, "was killed"):
            knobs.apply(change)
        knobs.apply(knobs.whole({"loader.workers": 1, "loader.prefetch_batches": 1}))

    def test_no_sample_of_the_scripts_own_data_is_made_beside_the_training(self):
        class Counts(torch.utils.data.Dataset):
            made = 0

            def __len__(self):
                return 4

            def __getitem__(self, index):
                Counts.made += 1
                return torch.zeros(1)

        for workers in (0, 1):
            with self.subTest(workers):
                loader = DataLoader(Counts(), num_workers=workers)
                script = script_of(self.model, optimizers=[self.optimizer])
                script.found(loader).is_trained_from = True
                knobs = Knobs(script)
                self.assertEqual(knobs.knobs["loader.workers"].risk, "semantics")
                risk = knobs.knobs["loader.pin_memory"].risk
                self.assertEqual(risk, "semantics" if workers else "exact")
                self.assertFalse(knobs.may_make_again(knobs.whole({"memory.malloc": "keep"})))
                change = knobs.whole({"loader.workers": 1 - workers})
                self.assertTrue(knobs.may_make_again(change))
        self.assertEqual(Counts.made, 0)

    def test_one_knob_that_cannot_go_back_keeps_no_other(self):
        def refuse(value):
            raise OSError("no")

        self.apply(precision__autocast="bf16", memory__malloc="keep", optimizer__fused=True)
        self.knobs.knobs["precision.autocast"].set = refuse
        self.knobs.undo()
        self.assertIsNone(self.optimizer.param_groups[0]["fused"])
        self.assertEqual(self.knobs.now["memory.malloc"], "default")

    def test_what_cannot_be_taken_back_is_set_once(self):
        knob = self.knobs.knobs["threads.intra_op"]
        knob.switch = "restart"
        own = knob.default
        other = knob.maximum if knob.maximum != own else knob.minimum
        if other == own:
            self.skipTest("the machine has one CPU")
        self.addCleanup(torch.set_num_threads, own)
        self.apply(threads__intra_op=other)
        with self.assertRaises(RequestError):
            self.apply()
        self.knobs.undo()
        self.assertEqual(self.knobs.now["threads.intra_op"], other)


if __name__ == "__main__":
    unittest.main()
