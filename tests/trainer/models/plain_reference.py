# SPDX-License-Identifier: Apache-2.0
"""Writes data/plain_models.json: what torchvision's networks compute, written here with the layers of torch.nn.

The names, shapes and initial values are torchvision's, so are the orders in which random numbers are drawn. The
numbers of parameters that torchvision publishes are compared in models_test.cpp.

    python tests/trainer/models/plain_reference.py    (torch alone; a minute)
"""
import math
from functools import partial

import torch
from formula import describe, write
from torch import nn


class Permute(nn.Module):
    def __init__(self, *order: int):
        super().__init__()
        self.order = order

    def forward(self, x):
        return x.permute(self.order)


class StochasticDepth(nn.Module):
    def __init__(self, ratio: float):
        super().__init__()
        self.ratio = ratio

    def forward(self, x):
        if not self.training or self.ratio == 0.0:
            return x
        kept = torch.empty([x.size(0), 1, 1, 1], dtype=x.dtype).bernoulli_(1.0 - self.ratio)
        return x * (kept / (1.0 - self.ratio))


# --- ResNet-34 ---


class BasicBlock(nn.Module):
    def __init__(self, channels: int, width: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or channels != width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x):
        out = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, depths: list[int], classes: int):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        channels = 64
        for i, depth in enumerate(depths):
            width = 64 << i
            blocks = []
            for j in range(depth):
                blocks.append(BasicBlock(channels, width, 2 if i > 0 and j == 0 else 1))
                channels = width
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


# --- ConvNeXt ---


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, width: int, ratio: float):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(width, width, 7, padding=3, groups=width),
            Permute(0, 2, 3, 1),
            nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            Permute(0, 3, 1, 2),
        )
        self.layer_scale = nn.Parameter(torch.ones(width, 1, 1) * 1e-6)
        self.stochastic_depth = StochasticDepth(ratio)

    def forward(self, x):
        return self.stochastic_depth(self.layer_scale * self.block(x)) + x


class ConvNext(nn.Module):
    def __init__(self, stages: list[tuple[int, int]], ratio: float, classes: int):
        super().__init__()
        width = stages[0][0]
        layers = [nn.Sequential(nn.Conv2d(3, width, 4, 4), LayerNorm2d(width, eps=1e-6))]
        count, every = 0, sum(blocks for _, blocks in stages)
        for i, (width, blocks) in enumerate(stages):
            if i > 0:
                before = stages[i - 1][0]
                layers.append(
                    nn.Sequential(LayerNorm2d(before, eps=1e-6), nn.Conv2d(before, width, 2, 2))
                )
            ratios = [ratio * (count + j) / (every - 1.0) for j in range(blocks)]
            layers.append(nn.Sequential(*[ConvNextBlock(width, each) for each in ratios]))
            count += blocks
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            LayerNorm2d(width, eps=1e-6), nn.Flatten(1), nn.Linear(width, classes)
        )
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3), keepdim=True))


# --- inverted residuals ---


def conv_norm(channels, width, kernel, stride, groups, norm, activation):
    layers = [
        nn.Conv2d(channels, width, kernel, stride, kernel // 2, groups=groups, bias=False),
        norm(width),
    ]
    return nn.Sequential(*layers, *([] if activation is None else [activation()]))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeezed: int, activation, scale):
        super().__init__()
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation = activation()
        self.scale = scale()

    def forward(self, x):
        pooled = x.mean((2, 3), keepdim=True)
        return self.scale(self.fc2(self.activation(self.fc1(pooled)))) * x


class InvertedResidual(nn.Module):
    def __init__(self, channels, kernel, expanded, width, squeezed, stride, parts, ratio=0.0):
        super().__init__()
        norm, activation, squeeze_activation, scale = parts
        layers = []
        if expanded != channels:
            layers.append(conv_norm(channels, expanded, 1, 1, 1, norm, activation))
        layers.append(conv_norm(expanded, expanded, kernel, stride, expanded, norm, activation))
        if squeezed > 0:
            layers.append(SqueezeExcitation(expanded, squeezed, squeeze_activation, scale))
        layers.append(conv_norm(expanded, width, 1, 1, 1, norm, None))
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(ratio)
        self.has_shortcut = stride == 1 and channels == width

    def forward(self, x):
        out = self.block(x)
        return self.stochastic_depth(out) + x if self.has_shortcut else out


def initialise_convolutions(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


class EfficientNet(nn.Module):
    def __init__(self, stages: list[tuple], dropout: float, ratio: float, classes: int):
        super().__init__()
        norm = nn.BatchNorm2d
        parts = (norm, nn.SiLU, nn.SiLU, nn.Sigmoid)
        layers = [conv_norm(3, stages[0][3], 3, 2, 1, norm, nn.SiLU)]
        count, every = 0, sum(stage[-1] for stage in stages)
        for expansion, kernel, stride, channels, width, blocks in stages:
            stage = []
            for j in range(blocks):
                shape = (channels, kernel, channels * expansion, width, channels // 4)
                stage.append(
                    InvertedResidual(*shape, 1 if j else stride, parts, ratio * count / every)
                )
                channels = width
                count += 1
            layers.append(nn.Sequential(*stage))
        layers.append(conv_norm(width, 4 * width, 1, 1, 1, norm, nn.SiLU))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(4 * width, classes))
        initialise_convolutions(self)
        limit = 1.0 / math.sqrt(classes)
        nn.init.uniform_(self.classifier[1].weight, -limit, limit)
        nn.init.zeros_(self.classifier[1].bias)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class MobileNet(nn.Module):
    def __init__(self, blocks: list[tuple], hidden: int, dropout: float, classes: int):
        super().__init__()
        norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        layers = [conv_norm(3, blocks[0][0], 3, 2, 1, norm, nn.Hardswish)]
        for channels, kernel, expanded, width, squeezed, activation, stride in blocks:
            parts = (norm, activation, nn.ReLU, nn.Hardsigmoid)
            layers.append(
                InvertedResidual(channels, kernel, expanded, width, squeezed, stride, parts)
            )
        layers.append(conv_norm(width, 6 * width, 1, 1, 1, norm, nn.Hardswish))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(6 * width, hidden),
            nn.Hardswish(),
            nn.Dropout(dropout),
            nn.Linear(hidden, classes),
        )
        initialise_convolutions(self)
        for layer in (self.classifier[0], self.classifier[3]):
            nn.init.normal_(layer.weight, 0, 0.01)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


CONVNEXT_TINY = [(96, 3), (192, 3), (384, 9), (768, 3)]
# Expansion, kernel, stride, channels before and after, blocks.
EFFICIENTNET_B0 = [
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
]


def squeezed(expanded: int) -> int:
    """A quarter of the channels, as a multiple of 8 that is at most a tenth less."""
    quarter = expanded // 4
    rounded = max(8, (quarter + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * quarter else rounded


def mobile(*rows: tuple) -> list[tuple]:
    """From channels, kernel, expanded, width, squeeze and excitation, hard swish, stride."""
    return [
        (*row[:4], squeezed(row[2]) if row[4] else 0, nn.Hardswish if row[5] else nn.ReLU, row[6])
        for row in rows
    ]


MOBILENET_LARGE = mobile(
    (16, 3, 16, 16, False, False, 1),
    (16, 3, 64, 24, False, False, 2),
    (24, 3, 72, 24, False, False, 1),
    (24, 5, 72, 40, True, False, 2),
    (40, 5, 120, 40, True, False, 1),
    (40, 5, 120, 40, True, False, 1),
    (40, 3, 240, 80, False, True, 2),
    (80, 3, 200, 80, False, True, 1),
    (80, 3, 184, 80, False, True, 1),
    (80, 3, 184, 80, False, True, 1),
    (80, 3, 480, 112, True, True, 1),
    (112, 3, 672, 112, True, True, 1),
    (112, 5, 672, 160, True, True, 2),
    (160, 5, 960, 160, True, True, 1),
    (160, 5, 960, 160, True, True, 1),
)
MOBILENET_SMALL = mobile(
    (16, 3, 16, 16, True, False, 2),
    (16, 3, 72, 24, False, False, 2),
    (24, 3, 88, 24, False, False, 1),
    (24, 5, 96, 40, True, True, 2),
    (40, 5, 240, 40, True, True, 1),
    (40, 5, 240, 40, True, True, 1),
    (40, 5, 120, 48, True, True, 1),
    (48, 5, 144, 48, True, True, 1),
    (48, 5, 288, 96, True, True, 2),
    (96, 5, 576, 96, True, True, 1),
    (96, 5, 576, 96, True, True, 1),
)


def models() -> list[dict]:
    both = {"samples": 4, "training": True}
    small = [3, 64, 64]
    drop = {"dropout": 0.2}
    deep = {"stochastic_depth": 0.5}  # so that some samples lose some blocks
    return [
        describe(
            {"type": "resnet34", "classes": 10}, small, lambda: ResNet([3, 4, 6, 3], 10), both
        ),
        describe(
            {"type": "convnext_tiny", **deep, "classes": 10},
            small,
            lambda: ConvNext(CONVNEXT_TINY, 0.5, 10),
            both,
        ),
        describe(
            {"type": "efficientnet_b0", **drop, **deep, "classes": 10},
            small,
            lambda: EfficientNet(EFFICIENTNET_B0, 0.2, 0.5, 10),
            both,
        ),
        describe(
            {"type": "mobilenet_v3_large", **drop, "classes": 10},
            small,
            lambda: MobileNet(MOBILENET_LARGE, 1280, 0.2, 10),
            both,
        ),
        describe(
            {"type": "mobilenet_v3_small", **drop, "classes": 10},
            small,
            lambda: MobileNet(MOBILENET_SMALL, 1024, 0.2, 10),
            both,
        ),
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("plain_models.json", models())
