"""Figures 2 and 3 on MNIST: fully connected and convolutional networks by input dimension (a part of `weights.py`).

Digits are resized bicubically and labelled by parity; 20 of the training images are members, 5,000 test images fresh.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np

from divulge import margin
from divulge.signals import margin as signals
from weights_figures import shares
from weights_tables import attack, columns, table

N, FRESH, POOL = 20, 5_000, 200
EPOCHS = 4_000
WIDTH = 1_000
STRIDE = 2
MEMBERS = np.arange(N + POOL) < N
ATTACKS = ["NNLS AUC", "TPR@1 %", "abs(Φ) AUC", "TPR@1 %"]


@functools.cache
def pixels():
    """MNIST digits in [0, 1] and their parity as ±1, training and test; None where the file is absent."""
    path = Path(os.environ.get("DIVULGE_DATA", "")) / "mnist.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as arrays:
        return tuple(
            (arrays[f"x_{part}"][:count].astype(float) / 255, np.where(arrays[f"y_{part}"][:count] % 2, 1.0, -1.0))
            for part, count in (("train", 20_000), ("test", FRESH))
        )


@functools.cache
def digits(side):
    """Images of both parts, ``[n, side, side]``, the mean training image taken off, and their parity."""
    import torch

    (x, y), (fresh, label) = pixels()
    small = [
        torch.nn.functional.interpolate(
            torch.tensor(part)[:, None], size=(side, side), mode="bicubic", antialias=True
        )[:, 0].numpy()
        for part in (x, fresh)
    ]  # fmt: skip
    return (small[0] - small[0].mean(axis=0), y), (small[1] - small[0].mean(axis=0), label)


def drawn(side, seed):
    """20 training images with their parity, and the fresh ones with theirs."""
    (x, y), fresh = digits(side)
    chosen = np.random.default_rng(seed).permutation(len(x))[:N]
    return x[chosen], y[chosen], *fresh


def connected(runs, quick):
    if pixels() is None:
        print("\nFigure 2: skipped, DIVULGE_DATA has no mnist.npz")
        return
    title = f"Figure 2: x = input dimension; one hidden layer of {WIDTH:,}, {runs} runs"
    names = ["d", f"{EPOCHS:,} epochs: (a)", "(b)", "m", "separated"]
    names += ["margin 100: (a)", "(b)", *ATTACKS, "reached"]
    sides = (7, 28) if quick else (4, 7, 10, 14, 20, 28, 40)
    table(title, names, (_connected(side, runs) for side in sides))


def _connected(side, runs):
    plain, trained_rows, right, reached = [], [], 0, 0
    for seed in range(runs):
        x, y, fresh, label = (part.reshape(len(part), -1) if part.ndim == 3 else part for part in drawn(side, seed))
        run = margin.descend(x, y, width=WIDTH, steps=EPOCHS, learning_rate=0.1, seed=seed)
        training_outputs = run.net(x)
        right += bool((training_outputs * y > 0).all())
        plain.append((*shares(training_outputs, run.net(fresh)), np.abs(training_outputs).min()))
        run = margin.train(x, y, width=WIDTH, target_margin=100.0, seed=seed)
        reached += run.reached
        pool, labels = np.concatenate([x, fresh[:POOL]]), np.concatenate([y, label[:POOL]])
        trained_rows.append(_rates(run.net(x), run.net(fresh), signals.kkt_nnls(run.net, pool, labels)))
    return [side**2, *columns(plain, 3), f"{right}/{runs}", *columns(trained_rows, 6), f"{reached}/{runs}"]


def _rates(training_outputs, fresh, weights):
    outputs = np.abs(np.concatenate([training_outputs, fresh[:POOL]]))
    return [*shares(training_outputs, fresh), *attack(weights, MEMBERS), *attack(outputs, MEMBERS)]


def convolutional(runs, quick):
    if pixels() is None:
        print("\nFigure 3: skipped, DIVULGE_DATA has no mnist.npz")
        return
    title = f"Figure 3: x = input dimension; convolutions 32/64 of stride {STRIDE} and a linear layer, {runs} runs"
    names = ["d", "(a)", "(b)", *ATTACKS, "margin (least)", f"{TARGET:,.0f} reached"]
    table(title, names, (_convolutional(side, runs) for side in ((14,) if quick else (7, 10, 14, 20, 28))))


def _convolutional(side, runs):
    import torch

    from divulge.signals.margin import deep_multipliers

    rates_found, margins = [], []
    for seed in range(runs):
        x, y, fresh, label = drawn(side, seed)
        images = torch.tensor(np.concatenate([x, fresh])[:, None].astype(np.float32))
        torch.manual_seed(seed)
        net = layers(torch, side)
        margins.append(climb(torch, net, images[:N], torch.tensor(y, dtype=torch.float32)))
        with torch.no_grad():
            outputs = net(images).numpy()[:, 0].astype(float)
        pool = deep_multipliers(net, images[: N + POOL].numpy(), np.concatenate([y, label[:POOL]]))
        rates_found.append(_rates(outputs[:N], outputs[N:], pool))
    reached = f"{sum(m >= TARGET for m in margins)}/{runs}"
    return [side**2, *columns(rates_found, 6), f"{min(margins):.0f}", reached]


def layers(torch, side):
    """Two convolutions (32 and 64 channels) and a linear layer; no biases, so homogeneous of degree 3."""
    nn = torch.nn
    body = nn.Sequential(
        nn.Conv2d(1, 32, 3, STRIDE, bias=False),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, STRIDE, bias=False),
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


def climb(torch, net, x, y):
    """Gradient steps on log Σ exp(-yΦ), longer while the loss falls, until the margin is 1000; the last margin."""
    parameters = list(net.parameters())
    rate, last_loss, m = 1e-3, np.inf, -np.inf
    for _ in range(EPOCHS):
        outputs = net(x)[:, 0] * y
        loss, m = torch.logsumexp(-outputs, 0), float(outputs.detach().min())
        if m >= TARGET:
            break
        value = float(loss.detach())
        rate, last_loss = rate * 1.03 if value < last_loss else rate * 0.5, value
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= rate * gradient
    return m
