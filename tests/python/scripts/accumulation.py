# SPDX-License-Identifier: Apache-2.0
"""Gradients of three batches in one step, AdamW, no DataLoader."""

import torch
from torch import nn

from common import finish

torch.manual_seed(5)
model = nn.Sequential(
    nn.Embedding(32, 16), nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 32)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
text = torch.randint(0, 32, (4096,))
for step in range(40):
    optimizer.zero_grad(set_to_none=True)
    for _ in range(3):
        places = torch.randint(0, 4096 - 9, (8,))
        rows = torch.stack([text[place : place + 9] for place in places])
        logits = model(rows[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, 32), rows[:, 1:].reshape(-1)) / 3
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
finish(model)
