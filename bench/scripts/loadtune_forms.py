# SPDX-License-Identifier: Apache-2.0
"""Scripts in the form that the tuner loadtune takes: parts, from which it makes loop and `DataLoader` by itself.

Models, data sets and losses are those of the script, which lies in the working folder with its data (jobs.py); batch
size and optimizer are what the script says. beside_loadtune.py names the script in BENCH_FORM. loadtune loads it.
"""

import importlib.util
import os
import sys
from typing import Any, Callable

import torch
from loadtune.workload import Workload
from torch import nn
from torch.nn import functional
from torchvision import datasets, models, transforms

Loss = Callable[[Any, Any], torch.Tensor]  # of model and batch


def module_of(file: str) -> Any:
    """The script as a module: what it does not guard by its name is run, without arguments."""
    arguments, sys.argv = sys.argv, [file]
    try:
        spec = importlib.util.spec_from_file_location("script", file)
        module = importlib.util.module_from_spec(spec)
        sys.modules["script"] = module
        spec.loader.exec_module(module)
    finally:
        sys.argv = arguments
    return module


def workload(name: str, make_dataset: Callable, make_model: Callable, loss_of: Loss, make_optimizer: Callable,
             batch: int) -> Workload:
    def step(model, optimizer, one, device):
        optimizer.zero_grad()
        loss = loss_of(model, one)
        loss.backward()
        optimizer.step()
        return loss

    return Workload(name=name, make_dataset=make_dataset, make_model=make_model, train_step=step,
                    make_optimizer=lambda model: make_optimizer(model.parameters()), default_batch_size=batch)


def pictures() -> Workload:
    script = module_of("pictures_cnn.py")
    return workload("pictures", lambda: datasets.ImageFolder("pictures", script.TRANSFORM), script.make_model,
                    lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
                    lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9), script.BATCH)


def mnist() -> Workload:
    script = module_of("main.py")
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    return workload("mnist", lambda: datasets.MNIST("../data", train=True, transform=transform), script.Net,
                    lambda model, batch: functional.nll_loss(model(batch[0]), batch[1]),
                    lambda parameters: torch.optim.Adadelta(parameters, lr=1.0), 64)


def vae() -> Workload:
    script = module_of("main.py")

    def loss_of(model, batch):
        recon, mu, logvar = model(batch[0])
        return script.loss_function(recon, batch[0], mu, logvar)

    return workload("vae", lambda: datasets.MNIST("../data", train=True, transform=transforms.ToTensor()), script.VAE,
                    loss_of, lambda parameters: torch.optim.Adam(parameters, lr=1e-3), 128)


def siamese() -> Workload:
    script = module_of("main.py")
    criterion = nn.BCELoss()
    return workload("siamese", lambda: script.APP_MATCHER("../data", train=True), script.SiameseNetwork,
                    lambda model, batch: criterion(model(batch[0], batch[1]).squeeze(), batch[2]),
                    lambda parameters: torch.optim.Adadelta(parameters, lr=1.0), 16)


def imagenet() -> Workload:
    return workload("imagenet", lambda: datasets.FakeData(1281167, (3, 224, 224), 1000, transforms.ToTensor()),
                    models.resnet18, lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
                    lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9, weight_decay=1e-4), 8)


def lightning() -> Workload:
    script = module_of("backbone_image_classifier.py")
    return workload("lightning",
                    lambda: datasets.MNIST("../../Datasets", train=True, transform=transforms.ToTensor()),
                    script.Backbone, lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
                    lambda parameters: torch.optim.Adam(parameters, lr=0.0001), 32)


def accelerate() -> Workload:
    script = module_of("cv_example.py")
    mean, std = (torch.tensor(values)[None, :, None, None] for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    names = sorted(name for name in os.listdir("pets") if name.endswith(".jpg"))
    labels = {label: number for number, label in enumerate(sorted({script.extract_label(name) for name in names}))}
    crop = script.Compose([script.RandomResizedCrop((224, 224), scale=(0.5, 1.0)), script.ToTensor()])

    def make_model():
        model = script.create_model("resnet50d", pretrained=True, num_classes=len(labels))
        for parameter in model.parameters():
            parameter.requires_grad = False
        for parameter in model.get_classifier().parameters():
            parameter.requires_grad = True
        return model

    files = [os.path.join("pets", name) for name in names]
    return workload("accelerate", lambda: script.PetsDataset(files, crop, labels), make_model,
                    lambda model, batch: functional.cross_entropy(model((batch["image"] - mean) / std), batch["label"]),
                    lambda parameters: torch.optim.Adam(parameters, lr=3e-2 / 25), 64)


FORMS = {form.__name__: form for form in (pictures, mnist, vae, siamese, imagenet, lightning, accelerate)}


def get_workload() -> Workload:
    return FORMS[os.environ["BENCH_FORM"]]()
