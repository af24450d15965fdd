# SPDX-License-Identifier: Apache-2.0
"""No optimizer object: the script updates its parameters itself."""

import torch
from torch import nn

from common import finish

torch.manual_seed(6)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
inputs = torch.randn(256, 8)
targets = inputs.sum(1, keepdim=True)
for step in range(40):
    rows = torch.randint(0, 256, (16,))
    model.zero_grad()
    loss = ((model(inputs[rows]) - targets[rows]) ** 2).mean()
    loss.backward()
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.01)
finish(model)
