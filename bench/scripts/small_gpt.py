# SPDX-License-Identifier: Apache-2.0
"""A small GPT on tokens that it makes itself: what overhead.py and soak.py run where no other script is named.

    python3 bench/scripts/small_gpt.py --steps 200

The same arguments print the same lines.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(self.norms[0](x)).split(width, 2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))


def main() -> None:
    parser = argparse.ArgumentParser(description="A small GPT.")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--batch", type=int, default=12)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    # Each token depends on the one before it, so there is something to learn.
    text = (torch.randint(0, 3, (4096 * arguments.length + 1,)).cumsum(0)) % 64
    inputs, targets = text[:-1].view(-1, arguments.length), text[1:].view(-1, arguments.length)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=arguments.batch, shuffle=True)
    model = GPT(64, arguments.length, arguments.width, 4, arguments.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    step = 0
    while step < arguments.steps:
        for tokens, following in loader:
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), following.flatten())
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % 20 == 0 or step == arguments.steps:
                print(f"step {step}: loss {loss.item():.9f}", flush=True)
            if step == arguments.steps:
                break
    weights = sum(parameter.double().sum().item() for parameter in model.parameters())
    print(f"sum of all parameters: {weights:.12f}")


if __name__ == "__main__":
    main()
