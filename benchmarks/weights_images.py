"""Figures 2 and 3 on MNIST: fully connected and convolutional networks by side length (a part of `weights.py`)."""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path

import numpy as np

from divulge import margin
from divulge.signals import margin as signals
from weights_tables import attack, columns, table

MEMBERS = np.arange(220) < 20
NAMES = ["side", "on margin", "test ≥ m", "NNLS AUC", "TPR@1 %", "abs(Φ) AUC", "TPR@1 %", "reached", "s"]


@functools.cache
def pixels():
    """20,000 MNIST digits in [0, 1] and their parity as ±1; None where the file is absent."""
    path = Path(os.environ.get("DIVULGE_DATA", "")) / "mnist.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as found:
        label = found["y_train"][:20_000]
        return found["x_train"][:20_000].astype(float) / 255, np.where(label % 2, 1.0, -1.0)


def digits(side):
    """Images averaged down to ``side``, the mean image taken off, and their parity."""
    x, parity = pixels()
    step = 28 // side
    x = x.reshape(len(x), side, step, side, step).mean(axis=(2, 4))
    return x - x.mean(axis=0), parity


def drawn(images, parity, seed):
    """20 members and 200 fresh records."""
    chosen = np.random.default_rng(seed).permutation(len(images))[:220]
    return images[chosen], parity[chosen]


def connected(runs, quick):
    if pixels() is None:
        print("\nFigure 2: skipped, DIVULGE_DATA has no mnist.npz")
        return
    title = f"Figure 2: MNIST odd/even, one hidden layer of 1000, mean image taken off, {runs} runs"
    table(title, NAMES, (_connected(side, runs) for side in (7, 14, 28)))


def _connected(side, runs):
    images, parity = digits(side)
    found, reached, start = [], 0, time.process_time()
    for seed in range(runs):
        x, y = drawn(images, parity, seed)
        x = x.reshape(220, -1)
        run = margin.train(x[:20], y[:20], width=1000, target_margin=100.0, seed=seed)
        reached += run.reached
        found.append(_rates(np.abs(run.net(x)), run.margin[-1], signals.kkt_nnls(run.net, x, y)))
    return [side, *columns(found, 6), f"{reached}/{runs}", f"{time.process_time() - start:.1f}"]


def _rates(outputs, m, weights):
    on, above = (outputs[:20] <= 1.1 * m).mean(), (outputs[20:] >= m).mean()
    return [on, above, *attack(weights, MEMBERS), *attack(outputs, MEMBERS)]


def convolutional(runs, quick):
    if pixels() is None:
        print("\nFigure 3: skipped, DIVULGE_DATA has no mnist.npz")
        return
    title = f"Figure 3: MNIST odd/even, convolutions 32/64 + linear without biases, {runs} runs: nothing is proven"
    table(title, NAMES, (_convolutional(side, runs) for side in ((14,) if quick else (7, 14, 28))))


def _convolutional(side, runs):
    import torch

    from divulge.signals.homogeneous import deep_multipliers

    images, parity = digits(side)
    found, reached, start = [], 0, time.process_time()
    for seed in range(runs):
        x, y = drawn(images, parity, seed)
        x = x[:, None].astype(np.float32)
        torch.manual_seed(seed)
        net = layers(torch, side)
        m = climb(torch, net, torch.tensor(x[:20]), torch.tensor(y[:20], dtype=torch.float32))
        reached += m >= TARGET
        with torch.no_grad():
            outputs = np.abs(net(torch.tensor(x)).numpy()[:, 0].astype(float))
        found.append(_rates(outputs, m, deep_multipliers(net, x, y)))
    return [side, *columns(found, 6), f"{reached}/{runs}", f"{time.process_time() - start:.1f}"]


def layers(torch, side):
    """Two convolutions (32 and 64 channels) and a linear layer; no biases, so homogeneous of degree 3."""
    nn = torch.nn
    stride = 2 if side > 7 else 1
    body = nn.Sequential(
        nn.Conv2d(1, 32, 3, stride, bias=False),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride, bias=False),
        nn.ReLU(),
        nn.Flatten(),
    )
    width = body(torch.zeros(1, 1, side, side)).shape[1]
    net = nn.Sequential(*body, nn.Linear(width, 1, bias=False))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(0.5)
    return net


TARGET = 1000.0


def climb(torch, net, x, y, steps=3000):
    """Gradient steps on log Σ exp(-yΦ), longer while the loss falls, until the margin is 1000; the last margin."""
    parameters = list(net.parameters())
    rate, last, m = 1e-3, np.inf, -np.inf
    for _ in range(steps):
        outputs = net(x)[:, 0] * y
        loss, m = torch.logsumexp(-outputs, 0), float(outputs.detach().min())
        if m >= TARGET:
            break
        value = float(loss.detach())
        rate, last = rate * 1.03 if value < last else rate * 0.5, value
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= rate * gradient
    return m
