# SPDX-License-Identifier: Apache-2.0
"""Writes a state dictionary beside this file, for model_start_test.cpp: as a dict, and as PyTorch's OrderedDict."""

import pathlib

import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(64, 2)
        self.output = nn.Linear(2, 4)


if __name__ == "__main__":
    model = Mlp()
    with torch.no_grad():
        model.hidden.weight.copy_(torch.arange(128.0).reshape(2, 64))
        model.hidden.bias.copy_(torch.tensor([1.0, 2.0]))
        model.output.weight.copy_(torch.arange(8.0).reshape(4, 2))
        model.output.bias.copy_(torch.tensor([0.5, -0.5, 0.25, 1.0]))
    folder = pathlib.Path(__file__).parent
    torch.save(dict(model.state_dict()), folder / "mlp_state_dict.pt")
    torch.save(model.state_dict(), folder / "mlp_ordered_dict.pt")
