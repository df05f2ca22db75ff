"""The network that every tool trains; LeakPro and SACRO-ML read it from this file."""

from __future__ import annotations

import torch
from torch import nn

RATE, MOMENTUM = 0.01, 0.9  # PrivacyGuard's, which cannot be changed there


class Net(nn.Module):
    """784 inputs, 128 hidden units, 10 classes: ML Privacy Meter's own MLP, which cannot be changed there."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(784, 128), nn.Linear(128, 10)

    def forward(self, x):
        """Logits."""
        return self.two(torch.tanh(self.one(x)))


def in_sequence():
    """The same layers, in a form that our trainer knows to write out by hand."""
    return nn.Sequential(nn.Linear(784, 128), nn.Tanh(), nn.Linear(128, 10))


def optimizer(model):
    """Of the network's weights."""
    return torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)


def step(model, update, x, y):
    """One batch; its loss."""
    update.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    update.step()
    return loss


def train(model, dataloader, epochs):
    """What SACRO-ML and LeakPro want of their user: the plain loop, on a data loader."""
    update = optimizer(model)
    model.train()
    for _ in range(epochs):
        for x, y in dataloader:
            step(model, update, x, y)
    return model.eval()
