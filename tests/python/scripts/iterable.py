# SPDX-License-Identifier: Apache-2.0
"""An IterableDataset in a worker of the script's own."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from common import finish


class Stream(IterableDataset):
    def __iter__(self):
        generator = torch.Generator().manual_seed(1)
        for _ in range(160):
            sample = torch.randn(6, generator=generator)
            yield sample, sample.sum()


if __name__ == "__main__":
    torch.manual_seed(9)
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        for sample, target in DataLoader(Stream(), batch_size=8, num_workers=1):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(sample).squeeze(1), target).backward()
            optimizer.step()
    finish(model)
