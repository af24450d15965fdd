# SPDX-License-Identifier: Apache-2.0
"""A GAN with two modules and two Adam optimizers."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader

from common import finish, images

torch.manual_seed(3)
generator = nn.Sequential(
    nn.ConvTranspose2d(8, 16, 4),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.ConvTranspose2d(16, 1, 4, 2, 1),
    nn.Tanh(),
)
critic = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 1, 4))
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
loss_of = nn.BCEWithLogitsLoss()
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
    for real, _ in DataLoader(images(), batch_size=8, shuffle=True):
        critic.zero_grad()
        answer = critic(real).view(-1)
        loss_of(answer, torch.ones_like(answer)).backward()
        fake = generator(torch.randn(real.size(0), 8, 1, 1))
        answer = critic(fake.detach()).view(-1)
        loss_of(answer, torch.zeros_like(answer)).backward()
        critic_optimizer.step()
        generator.zero_grad()
        answer = critic(fake).view(-1)
        loss_of(answer, torch.ones_like(answer)).backward()
        generator_optimizer.step()
finish(generator, critic)
