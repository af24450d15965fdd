# SPDX-License-Identifier: Apache-2.0
"""What public scripts read, in the formats that they expect: made here, not downloaded. The same call makes the same.

Each function writes below the folder in which the script runs.
"""

import array
import json
import pathlib
import pickle
import random
import struct

_SIDE = 28
_CLASSES = 10


def mnist(folder: pathlib.Path, pictures: int, tests: int = 1000) -> None:
    """Files of MNIST, of classes that can be told apart: a pattern, and noise in a part of it."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    draws = random.Random(1)
    patterns = [draws.randbytes(_SIDE * _SIDE) for _ in range(_CLASSES)]
    noisy = _SIDE * _SIDE // 3
    for name, count in (("train", pictures), ("t10k", tests)):
        images, labels = bytearray(), bytearray()
        for _ in range(count):
            label, begin = draws.randrange(_CLASSES), draws.randrange(_SIDE * _SIDE - noisy)
            pattern = patterns[label]
            images += pattern[:begin] + draws.randbytes(noisy) + pattern[begin + noisy:]
            labels.append(label)
        (raw / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, _SIDE, _SIDE) + images)
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels)


def words(count: int, vocabulary: int, seed: int) -> str:
    """Lines of ten words, of which few are frequent."""
    weights = [1.0 / rank for rank in range(1, vocabulary + 1)]
    drawn = random.Random(seed).choices(range(vocabulary), weights, k=count)
    lines = (drawn[first:first + 10] for first in range(0, count, 10))
    return "".join(" ".join(f"w{word}" for word in line) + "\n" for line in lines)


def corpus(folder: pathlib.Path, vocabulary: int = 2000) -> None:
    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate((("train", 60_000), ("valid", 4_000), ("test", 4_000))):
        (folder / f"{name}.txt").write_text(words(count, vocabulary, seed), encoding="utf-8")


def characters(folder: pathlib.Path, vocabulary: int = 65) -> None:
    """Tokens of nanoGPT's shakespeare_char. Each depends on the one before it."""
    folder.mkdir(parents=True, exist_ok=True)
    draws = random.Random(1)
    for name, count in (("train", 200_000), ("val", 20_000)):
        token, tokens = 0, array.array("H")
        for _ in range(count):
            token = (token + draws.randrange(3)) % vocabulary
            tokens.append(token)
        (folder / f"{name}.bin").write_bytes(tokens.tobytes())
    letters = [chr(33 + token) for token in range(vocabulary)]
    meta = {"vocab_size": vocabulary, "itos": dict(enumerate(letters)),
            "stoi": {letter: token for token, letter in enumerate(letters)}}
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def _pictures(classes: int, side: int):
    """One of each class, which PIL can save."""
    from PIL import Image

    draws = random.Random(1)
    for _ in range(classes):
        small = Image.frombytes("RGB", (8, 8), draws.randbytes(8 * 8 * 3))
        yield small.resize((side, side), Image.Resampling.BICUBIC)


def pets(folder: pathlib.Path, pictures: int, side: int = 256) -> None:
    """JPEG files of the names of the Oxford pets; those of one class are one file under many names."""
    folder.mkdir(parents=True)
    for number, picture in enumerate(_pictures(_CLASSES, side)):
        picture.save(folder / f"breed{number}_0.jpg", quality=90)
    for number in range(_CLASSES, pictures):
        breed = f"breed{number % _CLASSES}"
        (folder / f"{breed}_{number}.jpg").hardlink_to(folder / f"{breed}_0.jpg")


def image_folder(folder: pathlib.Path, pictures: int, side: int = 320) -> None:
    """JPEG files in a folder for each class; those of one class are one file under many names."""
    for number, picture in enumerate(_pictures(_CLASSES, side)):
        place = folder / f"class{number}"
        place.mkdir(parents=True)
        picture.save(place / "0.jpg", quality=90)
        for count in range(1, pictures // _CLASSES):
            (place / f"{count}.jpg").hardlink_to(place / "0.jpg")


def timm_stand_in(folder: pathlib.Path) -> None:
    """The script asks timm for trained weights, which would be downloaded: it gets a network without training."""
    (folder / "timm.py").write_text('''"""A stand-in: a network of torchvision's, without training."""
import torchvision


def create_model(name, pretrained, num_classes):
    model = torchvision.models.resnet18(num_classes=num_classes)
    model.get_classifier = lambda: model.fc
    model.default_cfg = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    return model
''', encoding="utf-8")


def word_tokenizer(folder: pathlib.Path, vocabulary: int = 2000) -> None:
    """A tokenizer of the `transformers` library for the texts of words()."""
    folder.mkdir(parents=True)
    known = {"<unk>": 0, "<eos>": 1, **{f"w{word}": word + 2 for word in range(vocabulary)}}
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
             "model": {"type": "WordLevel", "vocab": known, "unk_token": "<unk>"}}
    (folder / "tokenizer.json").write_text(json.dumps(whole), encoding="utf-8")
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "eos_token": "<eos>",
            "model_max_length": 1024}
    (folder / "tokenizer_config.json").write_text(json.dumps(kind), encoding="utf-8")
