# SPDX-License-Identifier: Apache-2.0
"""The job of recipes/resnet18_cifar.yaml as the study wrote it, for the tuner loadtune 0.3:

    .deps/peers/bin/loadtune tune bench/peers/resnet18_cifar_loadtune.py --steps 15 --warmup 2
"""

import torch
import torchvision
from loadtune.workload import Workload
from PIL import Image
from torch import nn
from torchvision import transforms


class RandomImages(torch.utils.data.Dataset):
    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self.images = torch.randint(0, 256, (10_000, 32, 32, 3), dtype=torch.uint8, generator=generator).numpy()
        self.transform = transforms.Compose([
            transforms.Resize(224), transforms.ToTensor(),
            transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))])

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int):
        return self.transform(Image.fromarray(self.images[index])), index % 10


def train_step(model, optimizer, batch, device):
    images, labels = batch[0].to(device), batch[1].to(device)
    optimizer.zero_grad(set_to_none=False)
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss


def get_workload() -> Workload:
    return Workload(
        name="resnet18-cifar", make_dataset=RandomImages,
        make_model=lambda: torchvision.models.resnet18(num_classes=1000), train_step=train_step,
        make_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9),
        default_batch_size=16)
