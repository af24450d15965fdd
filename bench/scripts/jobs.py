# SPDX-License-Identifier: Apache-2.0
"""Ten public scripts: where each lies in a checkout, how it is started on a CPU, and what it reads."""

import dataclasses
import importlib.util
import pathlib
import shutil
from typing import Callable

import data


@dataclasses.dataclass(frozen=True)
class Job:
    """`command`: the words behind the interpreter; "{length}" stands for one of the three lengths.

    With `is_stopped` the length is a number of steps behind which the script is ended, for its own end is too far away.
    """

    name: str
    repository: str  # the folder of its checkout
    folder: str  # in that; it is copied as a whole
    command: tuple[str, ...]
    make_data: Callable[[pathlib.Path, int], None]  # of the folder in which it runs, and a length
    short: int  # for the comparison of bits
    tuned: int  # some minutes
    long: int = 10_000_000  # longer than any measurement
    modules: tuple[str, ...] = ()  # besides torch
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    is_stopped: bool = False

    def words(self, length: int) -> list[str]:
        return [word.replace("{length}", str(length)) for word in self.command]

    def stop(self, length: int) -> dict[str, str]:
        return {"BENCH_STOP": str(length)} if self.is_stopped and length < self.long else {}

    def missing(self, checkouts: pathlib.Path) -> str:
        """Why it cannot be run here; empty: it can."""
        lacking = [name for name in ("torch", *self.modules) if importlib.util.find_spec(name) is None]
        if lacking:
            return f"needs the Python package {', '.join(lacking)}"
        place = self.script_in(checkouts)
        return "" if place.is_file() else f"there is no {place}"

    def script_in(self, checkouts: pathlib.Path) -> pathlib.Path:
        return checkouts / self.repository / self.folder / self.command[0]

    def prepare(self, checkouts: pathlib.Path, folder: pathlib.Path, length: int) -> pathlib.Path:
        """A copy of the script with its data, below a folder that is not there yet. The folder in which it runs."""
        # Deep enough for scripts that keep data two folders above their own.
        place = folder / "a" / "b" / (pathlib.PurePath(self.folder).name or self.repository)
        shutil.copytree(checkouts / self.repository / self.folder, place, ignore=shutil.ignore_patterns(".git"))
        self.make_data(place, length)
        return place


def _mnist_above(place: pathlib.Path, length: int) -> None:
    data.mnist(place.parent / "data", 6000)


def _mnist_of_lightning(place: pathlib.Path, length: int) -> None:
    data.mnist(place.parent.parent / "Datasets", 60_000)
    data.mnist(place / "data", 100)


def _nothing(place: pathlib.Path, length: int) -> None:
    pass


def _pets(place: pathlib.Path, length: int) -> None:
    data.pets(place / "pets", length)
    data.timm_stand_in(place)


def _text(place: pathlib.Path, length: int) -> None:
    (place / "train.txt").write_text(data.words(60_000, 2000, 1), encoding="utf-8")
    data.word_tokenizer(place / "tokenizer")


_NANO = ("train.py config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=10 --eval_interval=500 "
         "--log_interval=50 --block_size=64 --batch_size=12 --n_layer=4 --n_head=4 --n_embd=128 --max_iters={length} "
         "--lr_decay_iters={length} --dropout=0.0")
_CLM = ("run_clm.py --model_type gpt2 --config_overrides n_layer=2,n_head=2,n_embd=128,n_positions=64,vocab_size=2002,"
        "bos_token_id=1,eos_token_id=1 --tokenizer_name tokenizer --train_file train.txt --block_size 64 --do_train "
        "--per_device_train_batch_size 8 --num_train_epochs {length} --output_dir out --report_to none "
        "--save_strategy no --use_cpu --seed 1")
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false"}

JOBS = [
    Job("mnist", "examples", "mnist", ("main.py", "--epochs", "{length}"), _mnist_above, 1, 40,
        modules=("torchvision",)),
    Job("imagenet", "examples", "imagenet",
        tuple("main.py --dummy -a resnet18 -b 8 -j 2 --epochs 1 -p 50 --seed 1".split()), _nothing, 20, 150,
        modules=("torchvision",), is_stopped=True),
    Job("word_language_model", "examples", "word_language_model",
        tuple("main.py --data ./text --emsize 100 --nhid 100 --epochs {length} --save model.pt".split()),
        lambda place, length: data.corpus(place / "text"), 1, 80,
        variables={"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}),
    Job("vae", "examples", "vae", ("main.py", "--epochs", "{length}"), _mnist_above, 2, 200, modules=("torchvision",)),
    Job("dcgan", "examples", "dcgan",
        tuple("main.py --manualSeed 1 --dataset fake --batchSize 16 --ngf 16 --ndf 16 --niter {length} "
              "--outf .".split()), _nothing, 1, 45, modules=("torchvision",)),
    Job("siamese", "examples", "siamese_network", ("main.py", "--batch-size", "16", "--epochs", "{length}"),
        _mnist_above, 1, 8, modules=("torchvision", "numpy")),
    Job("nanogpt", "nanoGPT", "", tuple(_NANO.split()),
        lambda place, length: data.characters(place / "data" / "shakespeare_char"), 60, 6000, modules=("numpy",)),
    Job("lightning", "pytorch-lightning", "examples/pytorch/basics",
        tuple("backbone_image_classifier.py --trainer.max_epochs={length} --trainer.accelerator=cpu "
              "--trainer.enable_progress_bar=false".split()), _mnist_of_lightning, 1, 30,
        modules=("lightning", "jsonargparse", "torchvision"),
        # It loads the checkpoint that it has written, which may hold more than tensors.
        variables={"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}),
    Job("accelerate", "accelerate", "examples", ("cv_example.py", "--data_dir", "pets", "--cpu"), _pets, 320, 3200,
        long=60_000, modules=("accelerate", "torchvision", "PIL", "numpy"), variables=_OFFLINE),
    Job("transformers", "transformers", "examples/pytorch/language-modeling", tuple(_CLM.split()), _text, 1, 40,
        modules=("transformers", "datasets", "evaluate", "accelerate"), variables=_OFFLINE),
]
