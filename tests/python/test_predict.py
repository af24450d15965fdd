# SPDX-License-Identifier: Apache-2.0
"""What a trained model answers: `autotuned predict`, and the code of docs/recipe.md in PyTorch."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
import zipfile
import zlib
from collections.abc import Iterator

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 240
NAMES = ["cat", "dog", "emu"]
ROWS, COLUMNS, EACH = 8, 12, 16

RECIPE = """autotuned: 1
name: photos
device: cpu
model: {type: fashion_cnn, classes: 3}
data: {type: image_files, files: photos/*/*.png}
input:
  - decode
  - random_flip
  - to_float
optimizer: {type: adamw, lr: 0.01}
train: {epochs: 12, batch_size: 8}
evaluate: {data: {type: image_files, files: photos/*/*.png}}
tune: {budget: 0s}
output: {dir: out/photos}
"""


def chunk(name: bytes, content: bytes) -> bytes:
    crc = struct.pack(">I", zlib.crc32(name + content))
    return struct.pack(">I", len(content)) + name + content + crc


def write_png(file: pathlib.Path, pixels: torch.Tensor) -> None:
    """Of bytes (rows, columns, 3)."""
    rows, columns, _ = pixels.shape
    lines = b"".join(b"\0" + bytes(row.flatten().tolist()) for row in pixels)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    file.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def write_photos(folder: pathlib.Path) -> tuple[list[str], torch.Tensor]:
    """Pictures that are lighter in the channel of their class: paths, and their bytes.

    The bytes have the shape (samples, channels, rows, columns).
    """
    random = torch.Generator().manual_seed(5)
    paths, samples = [], []
    for number, name in enumerate(NAMES):
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(EACH):
            pixels = torch.randint(0, 160, (ROWS, COLUMNS, 3), generator=random)
            pixels[:, :, number] += 90
            path = f"photos/{name}/{i:02}.png"
            write_png(folder / path, pixels)
            paths.append(path)
            samples.append(pixels.permute(2, 0, 1))
    return paths, torch.stack(samples)


def code_in_docs() -> str:
    text = (ROOT / "docs" / "recipe.md").read_text(encoding="utf-8")
    section = text.split("\n## Use the trained model\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    assert len(blocks) == 1, section
    return blocks[0]


def run_in(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [os.environ["AUTOTUNED_PROGRAM"], *arguments, "--history", "history.sqlite"],
        cwd=folder,
        env={**os.environ, "AUTOTUNED_LOCKS": str(folder / "locks")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


class Predict(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.scene = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scene.name)
        cls.addClassCleanup(cls.scene.cleanup)
        cls.paths, cls.pixels = write_photos(cls.folder)
        (cls.folder / "recipe.yaml").write_text(RECIPE)
        done = run_in(cls.folder, "run", "recipe.yaml", "--no-daemon")
        assert done.returncode == 0, done.stdout + done.stderr
        cls.card = done.stdout
        summary = json.loads((cls.folder / "out/photos/summary.json").read_text())
        cls.training = summary["training"]

    def predicted(self, model: str, *options: str) -> list[dict]:
        done = run_in(self.folder, "predict", model, *self.paths, "--json", *options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["target"], "classes")
        self.assertEqual([one["file"] for one in answer["pictures"]], self.paths)
        return [one["outputs"] for one in answer["pictures"]]

    def test_the_card_names_the_command(self) -> None:
        self.assertRegex(self.card, r"autotuned predict r-\S+ PICTURE\.png")

    def test_the_summary_says_what_the_outputs_are(self) -> None:
        self.assertEqual(self.training["class_names"], NAMES)
        self.assertEqual(self.training["sample_shape"], [3, ROWS, COLUMNS])
        self.assertEqual(self.training["stored_as"], "picture_file")

    def test_answers_are_those_of_the_evaluation(self) -> None:
        answers = self.predicted("out/photos")
        right = sum(
            outputs[0]["name"] == NAMES[i // EACH] for i, outputs in enumerate(answers)
        )
        self.assertEqual(right / len(answers), self.training["test_accuracy"])
        self.assertGreater(right, len(answers) / 2)
        self.assertEqual(self.predicted("last"), answers)

    def test_the_code_of_the_documentation_answers_the_same(self) -> None:
        names = {"images": self.pixels.float() / 255}
        told = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(told):
            exec(compile(code_in_docs(), "docs/recipe.md", "exec"), names)
        self.assertEqual(names["names"], NAMES)
        for outputs, expected in zip(
            self.predicted("out/photos", "--top", "3"), names["probabilities"], strict=True
        ):
            self.assertEqual(len(outputs), 3)
            for one in outputs:
                self.assertAlmostEqual(
                    one["probability"], expected[one["number"]].item(), delta=1e-5
                )
        self.assertEqual(len(told.getvalue().splitlines()), len(self.paths))

    def test_without_json_there_is_a_line_for_each_picture(self) -> None:
        done = run_in(self.folder, "predict", "out/photos", *self.paths[:2], "--top", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[1], rf"^{self.paths[1]}   ({'|'.join(NAMES)}) [0-9.]+ %$")

    def test_damaged_files_get_an_error_each_and_the_others_their_answer(self) -> None:
        (self.folder / "bad.png").write_bytes(b"no picture")
        (self.folder / "cut.png").write_bytes((self.folder / self.paths[0]).read_bytes()[:60])
        files = [self.paths[0], "bad.png", "cut.png", self.paths[1]]
        done = run_in(self.folder, "predict", "out/photos", *files)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        told = [line.split()[0] for line in done.stdout.splitlines()]
        self.assertEqual(told, self.paths[:2])
        self.assertRegex(done.stderr, r"error: bad\.png: .*\nerror: cut\.png: ")
        done = run_in(self.folder, "predict", "out/photos", *files, "--json")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        pictures = json.loads(done.stdout)["pictures"]
        self.assertEqual([one["file"] for one in pictures], files)
        self.assertEqual(["error" in one for one in pictures], [False, True, True, False])

    def test_a_folder_that_was_copied_needs_no_data(self) -> None:
        expected = self.predicted("out/photos")
        with tempfile.TemporaryDirectory() as name:
            elsewhere = pathlib.Path(name)
            for file in ("model.pt", "summary.json"):
                (elsewhere / file).write_bytes((self.folder / "out/photos" / file).read_bytes())
            recipe = (self.folder / "out/photos/best.yaml").read_text()
            self.assertIn(f"{self.folder}/photos", recipe)
            (elsewhere / "best.yaml").write_text(
                recipe.replace(f"{self.folder}/photos", "/nowhere/photos")
            )
            self.assertEqual(self.predicted(str(elsewhere)), expected)

    @contextlib.contextmanager
    def copied(self) -> Iterator[pathlib.Path]:
        """The output folder, to change something in it."""
        with tempfile.TemporaryDirectory() as name:
            for file in ("best.yaml", "model.pt", "summary.json"):
                shutil.copy(self.folder / "out/photos" / file, name)
            yield pathlib.Path(name)

    def refusal(self, model: pathlib.Path, *options: str) -> str:
        done = run_in(self.folder, "predict", str(model), self.paths[0], *options)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_a_damaged_model_is_refused(self) -> None:
        with self.copied() as folder:
            weights = folder / "model.pt"
            with zipfile.ZipFile(weights) as archive:
                largest = max(archive.infolist(), key=lambda record: record.file_size)
                content = archive.read(largest)
            damaged = bytearray(weights.read_bytes())
            damaged[damaged.index(content) + len(content) // 2] ^= 1
            weights.write_bytes(damaged)
            self.assertIn("model.pt: it is not what run r-", self.refusal(folder))
            record = largest.filename.removeprefix("archive/")
            self.assertIn(
                f"the file is damaged: record {record} has another checksum",
                self.refusal(folder, "--weights", str(weights)),
            )

    def test_the_model_of_another_run_is_refused_unless_it_is_named(self) -> None:
        with self.copied() as folder:
            weights = folder / "model.pt"
            other = {name: one + 0.5 for name, one in torch.load(weights).items()}
            torch.save(other, weights)
            self.assertIn("model.pt: it is not what run r-", self.refusal(folder))
            named = self.predicted(str(folder), "--weights", str(weights))
            self.assertNotEqual(named, self.predicted("out/photos"))
            # Older versions noted no digest.
            file = folder / "summary.json"
            summary = json.loads(file.read_text())
            self.assertEqual(list(summary["training"].pop("model_sha256")), ["model.pt"])
            file.write_text(json.dumps(summary))
            self.assertEqual(self.predicted(str(folder)), named)

    def test_a_damaged_summary_is_refused(self) -> None:
        with self.copied() as folder:
            file = folder / "summary.json"
            file.write_bytes(file.read_bytes().replace(b"class_names", b"class_na\x00es"))
            self.assertIn("summary.json: it cannot be read: ", self.refusal(folder))
            file.write_text("[]")
            self.assertIn("summary.json: it cannot be read: ", self.refusal(folder))


if __name__ == "__main__":
    unittest.main()
