# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms on the native loader: which are taken, and that they give its bytes."""

import importlib.util
import tempfile
import unittest
from pathlib import Path

import torch

import autotuned
from autotuned.public.translation import described
from pictures import FACTS, FIXTURES, fixture, stage, write_png

NO_TORCHVISION = "" if importlib.util.find_spec("torchvision") else "torchvision is not installed"

TO_TENSOR = stage("ToTensor")
TO_BYTES = stage("PILToTensor")
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class TranslationTest(unittest.TestCase):
    """Stages as torchvision has them, beside what it made."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def made(self, pixels, transforms):
        """The only picture of a loader."""
        file = write_png(self.folder / "some" / "picture.png", pixels)
        ((images, _),) = autotuned.Loader(file, transforms)
        return images[0]

    def check(self, reference, transforms):
        made = self.made(fixture(FACTS[reference]["source"]), transforms)
        self.assertEqual(made.dtype, fixture(reference).dtype, reference)
        self.assertTrue(torch.equal(made, fixture(reference)), reference)

    def test_decodes_as_pil_does(self):
        names = [name for name, facts in FACTS.items() if "jpeg" in facts or "png" in facts]
        self.assertGreater(len(names), 20)
        for name in names:
            file = FIXTURES / (FACTS[name].get("jpeg") or FACTS[name]["png"])
            ((images, _),) = autotuned.Loader(file, [TO_BYTES])
            self.assertTrue(torch.equal(images[0], fixture(name)), name)

    def test_resizes_as_pil_does(self):
        for number in range(8):
            size = FACTS[f"resize_{number}"]["shape"][1:]
            resize = stage("Resize", size=size, interpolation="bilinear", max_size=None)
            self.check(f"resize_{number}", [resize, TO_BYTES])

    def test_crops_the_middle(self):
        self.check("center_10x9", [stage("CenterCrop", size=(10, 9)), TO_BYTES])
        # Pixels are only moved, before and after they become numbers.
        late = self.made(
            fixture("numbers_source"), [TO_TENSOR, stage("CenterCrop", size=(11, 8))]
        )
        self.assertTrue(torch.equal(late, fixture("center_11x8").float() / 255))

    def test_makes_the_same_floats(self):
        self.check("to_float", [TO_TENSOR])
        convert = stage("ConvertImageDtype", dtype=torch.float32)
        self.check("to_float", [TO_BYTES, convert, convert])
        normalize = stage("Normalize", mean=MEAN, std=tuple(STD))
        self.check("normalized", [stage("Compose", transforms=[TO_TENSOR, normalize])])

    def test_makes_the_floats_of_v2(self):
        pixels = torch.arange(256, dtype=torch.uint8).view(1, 16, 16).repeat(3, 1, 1)
        to_image = stage("ToImage", "v2._type_conversion")
        to_pure = stage("ToPureTensor", "v2._type_conversion")
        for scales, expected in (
            (True, pixels.to(torch.float32).mul_(1.0 / 255)),
            (False, pixels.to(torch.float32)),
        ):
            to_dtype = stage("ToDtype", "v2._misc", dtype=torch.float32, scale=scales)
            made = self.made(pixels, [to_image, to_dtype, to_pure])
            self.assertTrue(torch.equal(made, expected), scales)

    def test_changes_colours_as_torchvision_does(self):
        for reference, facts in FACTS.items():
            changes = facts.get("changes", {})
            if len(changes) != 1:  # several come in a random order
                continue
            amounts = dict.fromkeys(("brightness", "contrast", "saturation", "hue")) | changes
            self.check(reference, [stage("ColorJitter", **amounts), TO_BYTES])

    def test_describes_random_stages(self):
        flip = stage("RandomHorizontalFlip", p=0.25)
        crop = stage(
            "RandomCrop",
            size=[32, 30],
            padding=(4, 2),
            pad_if_needed=False,
            fill=0,
            padding_mode="reflect",
        )
        resized = stage(
            "RandomResizedCrop",
            size=(28, 28),
            scale=(0.5, 1.0),
            ratio=(0.75, 1.25),
            interpolation="bilinear",
        )
        erasing = stage("RandomErasing", p=0.1, scale=(0.02, 0.3), ratio=(0.3, 3.3), value=0)
        self.assertEqual(
            described([crop, resized, flip, TO_TENSOR, erasing]),
            [
                {"pad": {"by": [4, 2, 4, 2], "mode": "reflect"}},
                {"random_crop": {"size": [32, 30]}},
                {"random_resized_crop": {"size": [28, 28], "scale": [0.5, 1.0],
                                         "ratio": [0.75, 1.25]}},
                {"random_flip": {"probability": 0.25}},
                "to_float",
                {"random_erasing": {"probability": 0.1, "scale": [0.02, 0.3],
                                    "ratio": [0.3, 3.3]}},
            ],
        )

    def test_the_loader_takes_what_is_described(self):
        rotation = stage(
            "RandomRotation", degrees=[-5.0, 5.0], interpolation="nearest", expand=False,
            center=None, fill=(1, 2, 3),
        )
        augment = stage(
            "RandAugment", "autoaugment", num_ops=1, magnitude=3, num_magnitude_bins=31,
            interpolation="nearest", fill=None,
        )
        pad = stage("Pad", padding=[2], fill=7, padding_mode="constant")
        made = self.made(fixture("numbers_source"), [rotation, augment, pad, TO_TENSOR])
        self.assertEqual(made.shape, (3, 28, 21))
        self.assertTrue(torch.equal(made[:, 0], torch.full((3, 21), 7.0) / 255))

    def test_a_flip_that_is_certain_flips(self):
        made = self.made(
            fixture("numbers_source"), [stage("RandomHorizontalFlip", p=1.0), TO_BYTES]
        )
        self.assertTrue(torch.equal(made, fixture("numbers_source").flip(-1)))

    def test_a_stage_that_is_not_known_is_named(self):
        unknown = {
            "GaussianBlur": stage("GaussianBlur"),
            "bicubic": stage("Resize", size=8, interpolation="bicubic"),
            "max_size": stage("Resize", size=8, interpolation="bilinear", max_size=9),
            "pad_if_needed": stage("RandomCrop", size=8, pad_if_needed=True),
            "expand": stage(
                "RandomRotation", degrees=[0, 1], interpolation="nearest", expand=True,
                center=None,
            ),
        }
        for word, one in unknown.items():
            with self.assertRaisesRegex(ValueError, f"exactly.*{word}"):
                described([one, TO_TENSOR])
        with self.assertRaisesRegex(ValueError, "lambda"):
            described([TO_TENSOR, lambda image: image])
        named_like_one = type("ToTensor", (), {})()  # of the user's own
        with self.assertRaisesRegex(ValueError, "exactly"):
            described([named_like_one])

    def test_a_stage_of_tensors_is_not_that_of_pictures(self):
        resize = stage("Resize", size=8, interpolation="bilinear")
        with self.assertRaisesRegex(ValueError, "a tensor of bytes"):
            described([TO_BYTES, resize])
        with self.assertRaisesRegex(ValueError, "a PIL image"):
            described([stage("Normalize", mean=MEAN, std=STD), TO_TENSOR])
        with self.assertRaisesRegex(ValueError, "add ToTensor"):
            described([resize])

    @unittest.skipIf(NO_TORCHVISION, NO_TORCHVISION)
    def test_each_stage_beside_torchvision(self):
        from PIL import Image
        from torchvision import transforms as v1
        from torchvision.transforms import v2

        def stages_of(version):
            yield from (version.Resize(29), version.Resize([60, 20]), version.CenterCrop((13, 16)))
            yield from (version.Pad(3, fill=9), version.Pad((2, 1), fill=(1, 2, 3)))
            for mode in ("edge", "reflect", "symmetric"):
                yield version.Pad((1, 2, 3, 4), padding_mode=mode)
            yield from (version.RandomHorizontalFlip(1.0), version.RandomHorizontalFlip(0.0))
            yield version.RandomRotation((17, 17), fill=5)
            for name, amount in {"brightness": 0.7, "contrast": 1.4, "saturation": 0.3,
                                 "hue": -0.2}.items():
                yield version.ColorJitter(**{name: (amount, amount)})

        # Tensors of bytes, then of floats, by each version's own ways.
        ends = {
            v1: (
                [v1.PILToTensor()],
                [v1.ToTensor(), v1.Normalize(MEAN, STD)],
                [v1.PILToTensor(), v1.ConvertImageDtype(torch.float32), v1.Normalize(0.5, 0.25)],
                [v1.ToTensor(), v1.CenterCrop(12), v1.RandomHorizontalFlip(1.0)],
            ),
            v2: (
                [v2.PILToTensor()],
                [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)],
                [v2.ToImage(), v2.ToDtype(torch.float32), v2.ToPureTensor()],
                [v2.ToImage(), v2.CenterCrop(12), v2.ConvertImageDtype(torch.float32)],
            ),
        }
        checked = 0
        for version, endings in ends.items():
            composes = [version.Compose([one, *endings[0]]) for one in stages_of(version)]
            composes += [version.Compose(end) for end in endings]
            for compose in composes:
                for file in (FIXTURES / "420_37x51.jpg", FIXTURES / "png_palette.png"):
                    with Image.open(file) as image:
                        expected = compose(image.convert("RGB"))
                    ((images, _),) = autotuned.Loader(file, compose)
                    self.assertEqual(images.dtype, expected.dtype, compose)
                    self.assertTrue(torch.equal(images[0], expected), f"{compose} of {file.name}")
                    checked += 1
        self.assertEqual(checked, 2 * 2 * (15 + 4))

    @unittest.skipIf(NO_TORCHVISION, NO_TORCHVISION)
    def test_real_torchvision(self):
        from PIL import Image
        from torchvision import transforms

        file = FIXTURES / "420_37x51.jpg"
        compose = transforms.Compose(
            [
                transforms.Resize(32),
                transforms.CenterCrop(28),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        )
        with Image.open(file) as image:
            expected = compose(image.convert("RGB"))
        ((images, _),) = autotuned.Loader(file, compose)
        self.assertTrue(torch.equal(images[0], expected))
        # All that have an exact counterpart, as this version makes them.
        both = [
            transforms.ColorJitter(0.1, hue=0.1),
            transforms.RandAugment(),
            transforms.RandomRotation(5),
            transforms.RandomCrop(24, padding=2),
            transforms.RandomHorizontalFlip(),
            transforms.Pad(2),
            transforms.RandomResizedCrop(16),
            transforms.PILToTensor(),
            transforms.ConvertImageDtype(torch.float32),
            transforms.RandomErasing(),
        ]
        ((images, _),) = autotuned.Loader(file, both)
        self.assertEqual(images.shape, (1, 3, 16, 16))


if __name__ == "__main__":
    unittest.main()
