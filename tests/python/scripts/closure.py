# SPDX-License-Identifier: Apache-2.0
"""LBFGS evaluates the model in a closure, as often as it likes."""

import torch
from torch import nn

from common import finish

torch.manual_seed(8)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
inputs = torch.randn(64, 4)
targets = inputs.sin().sum(1, keepdim=True)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    return loss


for _ in range(16):
    optimizer.step(closure)
finish(model)
