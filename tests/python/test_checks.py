# SPDX-License-Identifier: Apache-2.0
"""The checks in this process: what they find, and what they cannot follow."""

import itertools
import threading
import unittest
from types import SimpleNamespace
from unittest import mock

import torch
from torch import nn

from autotuned.agent.check_request import begin_check
from autotuned.checks import room
from autotuned.checks.compare import Side, compare
from autotuned.checks.cotangent import CotangentCheck
from autotuned.checks.shadow import Shadow
from autotuned.checks.twin import TwinCheck
from autotuned.knobs.knobs import Knobs
from autotuned.loop.hooks import Hooks
from autotuned.loop.script import Script
from autotuned.loop.watch import Watch
from autotuned.parts.draws import OtherMasks
from autotuned.protocol import RequestError


class Loop:
    """A loop that is watched, without a session; `extra` is what the script does besides."""

    def __init__(self, kind=torch.optim.SGD, **options):
        torch.manual_seed(4)
        self.script = Script()
        self.watch = Watch(self.script)
        self.hooks = Hooks(self.script, self.watch)
        self.hooks.install()
        self.failures = []
        self.watch.on_failure = self.failures.append
        self.model = nn.Sequential(
            nn.Conv2d(1, 6, 3),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Flatten(),
            nn.Linear(216, 3),
        )
        self.optimizer = kind(self.model.parameters(), **{"lr": 0.05, **options})
        self.after_backward = self.after_step = lambda: None
        self.loss_of = nn.functional.cross_entropy

    def step(self):
        self.optimizer.zero_grad()
        out = self.model(torch.randn(8, 1, 8, 8))
        self.loss_of(out, torch.randint(0, 3, (8,))).backward()
        self.after_backward()
        self.optimizer.step()
        self.after_step()

    def known(self):
        for _ in range(8):
            self.step()
        assert self.script.detector.is_known
        self.knobs = Knobs(self.script)
        return self

    def check(self, change, kind=TwinCheck, steps=4, spoil=None, rounded=False):
        shadows = [Shadow(self.script, self.knobs, self.knobs.whole(change), is_rounded=rounded)]
        check = kind(self.script, self.knobs, shadows, steps)
        if spoil is not None:
            spoil(check, shadows[0])
        self.watch.check = check
        for _ in range(steps):
            self.step()
            if check.is_over():
                break
        self.watch.check = None
        (answer,) = check.result()
        return answer

    def close(self):
        self.hooks.remove(keeps_forward=False, keeps_loaders=False, keeps_zero_grad=False)


class ScaledLoop(Loop):
    """Its loss is multiplied by a scale."""

    def __init__(self, kind, clips, **options):
        super().__init__(kind, **options)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
        self.clips = clips

    def step(self):
        self.optimizer.zero_grad()
        out = self.model(torch.randn(8, 1, 8, 8))
        self.scaler.scale(self.loss_of(out, torch.randint(0, 3, (8,)))).backward()
        if self.clips:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), 0.01)
        self.after_backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()


def worst(answer):
    """The least cosine, and the ratio farthest from 1, of parameters that move."""
    largest = max(one["reference_norm"] for one in answer["parameters"])
    moving = [one for one in answer["parameters"] if one["reference_norm"] > 1e-3 * largest]
    return (
        min(one["cosine"] for one in moving),
        max((max(one["norm_ratio"], 1 / one["norm_ratio"]) for one in moving)),
    )


class ChecksTest(unittest.TestCase):
    def loop(self, *args, of=Loop, **options):
        loop = of(*args, **options)
        self.addCleanup(loop.close)
        return loop

    def assert_refuses(self, loop, words, **options):
        with self.assertRaises(RequestError) as raised:
            loop.check({"precision.autocast": "bf16"}, **options)
        self.assertEqual(raised.exception.kind, "unsupported")
        self.assertIn(words, raised.exception.what)
        self.assertEqual(loop.failures, [])

    def test_the_same_configuration_trains_the_same_bits(self):
        for kind, options in (
            (torch.optim.SGD, {"momentum": 0.9}),
            (torch.optim.Adam, {"lr": 1e-3}),
            (torch.optim.AdamW, {"lr": 1e-3, "amsgrad": True}),
            (torch.optim.RMSprop, {"lr": 1e-3}),
        ):
            with self.subTest(kind.__name__):
                loop = Loop(kind, **options).known()
                answer = loop.check({})
                loop.close()
                self.assertTrue(answer["equal"])
                self.assertEqual(answer["reference_losses"], answer["candidate_losses"])
                self.assertEqual(len(answer["reference_losses"]), 4)
                self.assertTrue(all(one["equal"] for one in answer["buffers"]))
                self.assertGreater(max(one["reference_norm"] for one in answer["parameters"]), 0)

    def test_a_scaled_loss_is_followed(self):
        for kind, fused, clips in itertools.product(
            (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW), (False, True), (False, True)
        ):
            with self.subTest(kind=kind.__name__, fused=fused, clips=clips):
                loop = ScaledLoop(kind, clips, lr=1e-3, fused=fused).known()
                answer = loop.check({})
                loop.close()
                self.assertEqual(loop.failures, [])
                self.assertTrue(answer["equal"])
                self.assertEqual(worst(answer)[1], 1.0)

    def test_gradients_that_the_script_changes_behind_a_scaler(self):
        loop = self.loop(torch.optim.SGD, clips=True, of=ScaledLoop)
        loop.known()
        loop.after_backward = lambda: [one.grad.mul_(0.5) for one in loop.model.parameters()]
        self.assert_refuses(loop, "changes gradients")

    def test_rounding_passes(self):
        loop = self.loop(momentum=0.9).known()
        for change in (
            {"precision.autocast": "bf16"},
            {"layout.memory_format": "channels_last"},
            {"optimizer.fused": True},
            {"optimizer.foreach": True},
        ):
            with self.subTest(**change):
                cosine, ratio = worst(loop.check(change))
                self.assertGreater(cosine, 0.95)
                self.assertLess(ratio, 1.1)

    def test_a_shadow_counts_steps_where_its_kernels_look_for_them(self):
        # The fused kernel of a GPU takes the address of a counter for one of its own memory. That
        # ends the whole process, the script's training.
        parameter, own = (nn.Parameter(torch.empty(2, device="meta")) for _ in range(2))
        optimizer = torch.optim.AdamW([parameter])
        moment = torch.empty(2, device="meta")
        optimizer.state[parameter] = {
            "step": torch.tensor(3.0),
            "exp_avg": moment,
            "exp_avg_sq": moment,
        }
        for forced, place in ((True, False), "meta"), ((False, True), "cpu"):
            check = SimpleNamespace(
                _script=Script(), _knobs=SimpleNamespace(forced_flags=lambda _: forced)
            )
            shadow = SimpleNamespace(parameters={id(parameter): own}, configuration={})
            copied = TwinCheck._copied(check, optimizer, shadow)
            self.assertEqual(copied.state[own]["step"].device.type, place)
            self.assertEqual(optimizer.state[parameter]["step"].device.type, "cpu")

    def test_another_training_is_seen(self):
        def slower(check, shadow):
            for copied in check._optimizers[0].values():
                copied.param_groups[0]["params"] = copied.param_groups[0]["params"][:-2]

        def turned(check, shadow):
            with torch.no_grad():
                for parameter in shadow.parameters.values():
                    parameter.mul_(-1)

        def forgetful(check, shadow):
            for copied in check._optimizers[0].values():
                copied.state.clear()

        loop = self.loop(torch.optim.SGD, momentum=0.99).known()
        for spoil in (slower, turned, forgetful):
            with self.subTest(spoil.__name__):
                answer = loop.check({}, spoil=spoil)
                largest = max(one["reference_norm"] for one in answer["parameters"])
                self.assertFalse(answer["equal"])
                self.assertTrue(
                    any(
                        one["cosine"] < 0.8
                        or one["norm_ratio"] is None
                        or not 0.8 < one["norm_ratio"] < 1.25
                        for one in answer["parameters"]
                        if one["reference_norm"] > 1e-3 * largest
                    )
                )

    def test_the_reference_is_untouched(self):
        def trained(change, kind):
            loop = Loop(torch.optim.Adam, lr=1e-3).known()
            if kind is None:
                for _ in range(4):
                    loop.step()
            else:
                loop.check(change, kind=kind)
            loop.step()
            loop.close()
            return [tensor.clone() for tensor in loop.model.state_dict().values()]

        want = trained({}, None)
        for kind in (TwinCheck, CotangentCheck):
            for change in (
                {"precision.autocast": "bf16"},
                {"layout.memory_format": "channels_last"},
            ):
                with self.subTest(kind=kind.method, **change):
                    got = trained(change, kind)
                    self.assertTrue(all(torch.equal(one, other) for one, other in zip(want, got)))

    def test_a_start_that_is_rounded(self):
        loop = self.loop().known()
        answer = loop.check({}, rounded=True)
        self.assertFalse(answer["equal"])
        self.assertGreater(worst(answer)[0], 0.9)

    def test_a_gradient_that_is_rounding_only_is_told_apart(self):
        loop = self.loop(torch.optim.Adam, lr=1e-3).known()
        answer = loop.check({"precision.autocast": "bf16"})
        self.assertEqual(
            [one["name"] for one in answer["rounding_only"]], ["0.bias"]
        )  # a BatchNorm follows
        self.assertNotIn("0.bias", [one["name"] for one in answer["parameters"]])
        self.assertGreater(worst(answer)[0], 0.8)

    def test_gradients_that_the_script_changes(self):
        loop = self.loop().known()
        loop.after_backward = lambda: [one.grad.mul_(0.5) for one in loop.model.parameters()]
        self.assert_refuses(loop, "changes gradients")

    def test_clipping_is_mirrored(self):
        loop = self.loop()
        loop.after_backward = lambda: nn.utils.clip_grad_norm_(loop.model.parameters(), 0.01)
        self.assertTrue(loop.known().check({})["equal"])

    def test_parameters_that_the_script_changes(self):
        loop = self.loop().known()

        def clamp():
            for one in loop.model.parameters():
                one.data.clamp_(-0.01, 0.01)

        loop.after_step = clamp
        self.assert_refuses(loop, "changes parameters")

    def test_a_loss_that_uses_parameters_by_itself(self):
        loop = self.loop().known()
        usual = loop.loss_of
        loop.loss_of = lambda out, target: usual(out, target) + sum(
            one.square().sum() for one in loop.model.parameters()
        )
        self.assert_refuses(loop, "uses parameters otherwise")
        # Their gradient through the module can be compared all the same.
        cosine, _ = worst(loop.check({"precision.autocast": "bf16"}, kind=CotangentCheck))
        self.assertGreater(cosine, 0.95)

    def test_a_loss_of_the_scripts_own_function(self):
        class Own(torch.autograd.Function):
            @staticmethod
            def forward(ctx, out):
                ctx.save_for_backward(out)
                return out.square().mean()

            @staticmethod
            def backward(ctx, gradient):
                (out,) = ctx.saved_tensors
                return gradient * 2 * out / out.numel()

        loop = self.loop().known()
        loop.loss_of = lambda out, target: Own.apply(out)
        try:
            answer = loop.check({})
        except RequestError as error:
            self.assertEqual(error.kind, "unsupported")
        else:
            self.assertTrue(answer["equal"])
        self.assertGreater(
            worst(loop.check({"precision.autocast": "bf16"}, kind=CotangentCheck))[0], 0.9
        )

    def test_gradients_are_compared_without_masks_that_cannot_be_the_same(self):
        class Attention(nn.Module):
            """As it is on a GPU."""

            def __init__(self):
                super().__init__()
                self.dropout = 0.5

            def forward(self, x):
                if x.dtype == torch.bfloat16 and self.dropout > 0:
                    raise OtherMasks("attention drops other weights in 16 bits")
                return nn.functional.dropout(x, self.dropout)

        loop = self.loop()
        loop.model.append(Attention())
        loop.known()
        self.assert_refuses(loop, "other weights in 16 bits")
        answer = loop.check({"precision.autocast": "bf16"}, kind=CotangentCheck)
        self.assertIn("dropout is off in both: attention", answer["notes"][0])
        self.assertGreater(worst(answer)[0], 0.95)
        self.assertEqual(loop.model[-1].dropout, 0.5, "it is on again")

    def test_gradients_are_compared_without_a_shadow(self):
        loop = self.loop().known()
        self.assertTrue(loop.check({}, kind=CotangentCheck)["equal"])
        answer = loop.check({"precision.autocast": "bf16"}, kind=CotangentCheck)
        self.assertFalse(answer["equal"])
        self.assertGreater(worst(answer)[0], 0.95)

    def test_a_tensor_that_outlives_its_check_is_a_tensor(self):
        loop = self.loop().known()
        kept = []
        usual = loop.loss_of

        def keep(out, target):
            kept.append(out)
            return usual(out, target)

        loop.loss_of = keep
        loop.check({})
        self.assertTrue(torch.isfinite(kept[0].detach() * 2 + 1).all())
        self.assertEqual(
            kept[0].detach().sum().item(), torch.tensor(kept[0].tolist()).sum().item()
        )

    def test_no_shadow_is_made_where_the_gpu_has_no_room(self):
        loop = self.loop().known()

        def method_of(change, method="auto", rounded=False, no_room_for=()):
            request = {"steps": 2, "method": method, "rounded": rounded}
            counts = []

            def shortage_of(script, name, shadows):
                counts.append(shadows)
                return "no room" if name in no_room_for else ""

            with mock.patch.object(room, "shortage_of", shortage_of):
                steps = begin_check(
                    loop.script, loop.watch, loop.knobs, request, loop.knobs.whole(change)
                )
            steps.abandon()
            loop.watch.check = None
            self.assertEqual(set(counts), {2 if rounded else 1})
            return steps._check.method

        layout = {"layout.memory_format": "channels_last"}
        self.assertEqual(method_of(layout), "twin")
        self.assertEqual(method_of(layout, rounded=True), "twin")
        self.assertEqual(method_of(layout, no_room_for=["twin"]), "cotangent")
        for change, method, no_room_for in (
            (layout, "twin", ["twin"]),
            (layout, "auto", ["twin", "cotangent"]),
            # Gradients would not show what another optimizer makes of them.
            ({"optimizer.foreach": True}, "auto", ["twin"]),
        ):
            with self.assertRaises(RequestError) as refused:
                method_of(change, method, no_room_for=no_room_for)
            error = refused.exception
            self.assertEqual((error.kind, error.what), ("out_of_memory", "no room"))

    def test_a_failed_shadow_holds_no_memory(self):
        def fails(check, shadow):
            def run(root, args, kwargs):
                held = torch.zeros(4)
                raise RuntimeError(f"no memory beside {held.numel()} numbers")

            shadow.run = run

        loop = self.loop().known()
        shadows = []
        with self.assertRaisesRegex(RequestError, "no memory beside 4 numbers"):
            loop.check({}, spoil=lambda check, one: (fails(check, one), shadows.append(one)))
        self.assertIsNone(shadows[0].failure.__traceback__)

    def test_figures_of_updates(self):
        start = [torch.zeros(2), torch.zeros(2)]
        reference = Side(start, [torch.tensor([3.0, 4.0]), torch.zeros(2)])
        candidate = Side(start, [torch.tensor([4.0, -3.0]), torch.tensor([0.0, 2.0])])
        nothing = Side([], [])
        answer = compare(["a", "b"], reference, candidate, [], nothing, nothing)
        self.assertEqual(
            answer["parameters"],
            [
                {
                    "name": "a",
                    "reference_norm": 5.0,
                    "candidate_norm": 5.0,
                    "norm_ratio": 1.0,
                    "cosine": 0.0,
                },
                {
                    "name": "b",
                    "reference_norm": 0.0,
                    "candidate_norm": 2.0,
                    "norm_ratio": None,
                    "cosine": 0.0,
                },
            ],
        )
        self.assertFalse(answer["equal"])
        broken = Side(start, [torch.tensor([float("nan"), 0.0]), torch.zeros(2)])
        self.assertFalse(compare(["a", "b"], reference, broken, [], nothing, nothing)["finite"])

    def test_hooks_are_taken_out_again(self):
        def parts():
            return [
                nn.Module.zero_grad,
                torch.optim.Optimizer.zero_grad,
                torch.optim.Optimizer.__init__,
                torch.save,
                torch.autograd.backward,
                torch.utils.data.DataLoader.__init__,
                torch.utils.data.DataLoader.__iter__,
                nn.utils.clip_grad_norm_,
                nn.utils.clip_grad.clip_grad_norm_,
                torch.amp.GradScaler._unscale_grads_,
            ]

        before = parts()
        call = nn.Module._wrapped_call_impl.__code__
        loop = Loop()
        self.assertIsNot(nn.Module._wrapped_call_impl.__code__, call)
        loop.known()
        self.assertIs(nn.Module._wrapped_call_impl.__code__, call)
        self.assertFalse(any(one is other for one, other in zip(before, parts())))
        loop.close()
        self.assertTrue(all(one is other for one, other in zip(before, parts())))
        self.assertNotIn("_compiled_call_impl", loop.model.__dict__)

    def test_only_the_main_thread_is_watched(self):
        loop = self.loop().known()
        before = loop.script.clock.steps
        thread = threading.Thread(target=loop.step)
        thread.start()
        thread.join()
        self.assertEqual(loop.script.clock.steps, before)


if __name__ == "__main__":
    unittest.main()
