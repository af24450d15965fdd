# SPDX-License-Identifier: Apache-2.0
"""Writes data/gpt.json and data/gpt_state_dict.pt: what nanoGPT's model gives, built of torch.nn.

What both sides compute by the same formula, exactly, is not stored: formula.py.

    python tests/trainer/models/gpt_reference.py    (torch; a few seconds)
"""
import math

import torch
from formula import DATA, fill, names_of, norms, short, write
from torch import nn
from torch.nn import functional


class LayerNorm(nn.Module):
    def __init__(self, width: int, bias: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    def __init__(self, spec: dict):
        super().__init__()
        width = spec["width"]
        self.c_attn = nn.Linear(width, 3 * width, bias=spec["bias"])
        self.c_proj = nn.Linear(width, width, bias=spec["bias"])
        self.resid_dropout = nn.Dropout(spec["dropout"])
        self.heads, self.dropout = spec["heads"], spec["dropout"]

    def forward(self, x):
        samples, tokens, width = x.size()
        parts = [
            part.view(samples, tokens, self.heads, width // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        ]
        y = functional.scaled_dot_product_attention(
            *parts, dropout_p=self.dropout if self.training else 0, is_causal=True
        )
        y = y.transpose(1, 2).contiguous().view(samples, tokens, width)
        return self.resid_dropout(self.c_proj(y))


class Mlp(nn.Module):
    def __init__(self, spec: dict):
        super().__init__()
        width = spec["width"]
        self.c_fc = nn.Linear(width, 4 * width, bias=spec["bias"])
        self.c_proj = nn.Linear(4 * width, width, bias=spec["bias"])
        self.dropout = nn.Dropout(spec["dropout"])

    def forward(self, x):
        return self.dropout(self.c_proj(functional.gelu(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, spec: dict):
        super().__init__()
        self.ln_1 = LayerNorm(spec["width"], spec["bias"])
        self.attn = Attention(spec)
        self.ln_2 = LayerNorm(spec["width"], spec["bias"])
        self.mlp = Mlp(spec)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, spec: dict):
        super().__init__()
        width, vocabulary = spec["width"], spec["vocabulary"]
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocabulary, width),
                "wpe": nn.Embedding(spec["context"], width),
                "drop": nn.Dropout(spec["dropout"]),
                "h": nn.ModuleList([Block(spec) for _ in range(spec["layers"])]),
                "ln_f": LayerNorm(width, spec["bias"]),
            }
        )
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        if spec["tied"]:
            self.transformer.wte.weight = self.lm_head.weight
        self.apply(self.initialise)
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, mean=0.0, std=0.02 / math.sqrt(2 * spec["layers"]))

    @staticmethod
    def initialise(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens):
        parts = self.transformer
        x = parts.drop(parts.wte(tokens) + parts.wpe(torch.arange(tokens.size(1))))
        for block in parts.h:
            x = block(x)
        return self.lm_head(parts.ln_f(x))


def blocks_of(samples: int, length: int, vocabulary: int) -> torch.Tensor:
    """As the test makes them: `length` tokens each."""
    places = torch.arange(samples * length)
    return ((places * places * 3 + 1) % vocabulary).view(samples, length)


def describe(samples: int, tokens: int, **other) -> dict:
    """Counts, names, the initial state, and what the model computes of blocks of tokens."""
    spec = {"layers": 2, "heads": 2, "width": 16, "context": 8, "vocabulary": 11}
    spec |= {"dropout": 0.0, "bias": True, "tied": True, **other}
    torch.manual_seed(3)
    model = Gpt(spec)
    entry = {
        "model": {"type": "gpt", **spec},
        "samples": samples,
        "tokens": tokens,
        "parameters": sum(p.numel() for p in model.parameters()),
        "names": names_of(model),
        "initial_norms": norms(model.parameters()),
    }
    # In double precision: what is left are differences of the mathematics.
    fill(model)
    model.double()
    blocks = blocks_of(samples, tokens + 1, spec["vocabulary"])
    inputs, targets = blocks[:, :-1], blocks[:, 1:]
    model.eval()
    with torch.no_grad():
        entry["eval_output"] = short(model(inputs).flatten().tolist())
    model.train()
    torch.manual_seed(5)
    logits = model(inputs)
    loss = functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))
    loss.backward()
    entry["loss"] = loss.item()
    entry["gradient_norms"] = norms(p.grad for p in model.parameters())
    return entry


def save_state() -> None:
    """A tied parameter stands under both names."""
    spec = {"layers": 1, "heads": 2, "width": 8, "context": 6, "vocabulary": 11}
    model = Gpt(spec | {"dropout": 0.0, "bias": True, "tied": True})
    fill(model)
    torch.save(dict(model.state_dict()), DATA / "gpt_state_dict.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    write(
        "gpt.json",
        [
            describe(2, 6),
            describe(2, 8, bias=False, tied=False, heads=4),
            describe(3, 5, layers=1, dropout=0.25),
        ],
    )
    save_state()
