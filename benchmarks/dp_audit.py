"""Bounds on ε from canaries: how often they are wrong, how much of the truth they prove, and on real training.

    python benchmarks/dp_audit.py games [--runs 2000]     error rates and tightness over simulated games
    python benchmarks/dp_audit.py published               the published numbers, and members at normal quantiles
    python benchmarks/dp_audit.py training                DP-SGD on MNIST: ε = 1, 4, 8 and none, records and gradients

Prints tables in Markdown.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from pathlib import Path

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import binom

import divulge as dv
from divulge import canaries
from divulge.evaluation import GaussianMechanism, SubsampledGaussian, epsilon_lower_bound, epsilon_one_run
from divulge.evaluation.families import largest

DELTA = 1e-5
RATE = 0.3


def strength(family, epsilon):
    """The strength at which a family is (ε, δ)-DP."""
    return largest(lambda s: family.epsilon(s, DELTA) <= epsilon)


def mechanisms(epsilon):
    """Name, scores of coins, and the families that hold of it."""
    mu, inverse = strength(GaussianMechanism(), epsilon), strength(SubsampledGaussian(RATE), epsilon)
    return {
        "randomised response": (
            lambda rng, used: (
                np.where(rng.random(len(used)) < expit(epsilon), used, ~used) + 0.1 * rng.random(len(used))
            ),
            {"any": {}},
        ),
        "Gaussian": (
            lambda rng, used: rng.normal(size=len(used)) + mu * used,
            {"any": {}, "f-DP": {"family": "gaussian", "bound": "f-dp"}, "tight": {"family": "gaussian"}},
        ),
        f"Gaussian, rate {RATE}": (
            lambda rng, used: rng.normal(size=len(used)) + inverse * (used & (rng.random(len(used)) < RATE)),
            {"any": {}, "tight": {"family": SubsampledGaussian(RATE)}},
        ),
    }


def games(runs):
    """Share of games in which the bound exceeds the truth, and the median share of the truth that is proven."""
    print(f"{runs} games per cell, 95 % bounds, δ = {DELTA:g}; beyond chance: above .05 at 1e-4 over all cells.\n")
    print("| mechanism | ε | canaries | bound | wrong | median bound / ε |")
    print("|---|---|---|---|---|---|")
    cells, beyond = 0, 0
    for epsilon, n in itertools.product((0.0, 0.5, 1.0, 2.0, 4.0, 8.0), (100, 1000, 10_000)):
        for name, (mechanism, bounds) in mechanisms(epsilon).items():
            rng = np.random.default_rng(cells)
            lows = {bound: [] for bound in bounds if not (bound == "f-DP" and n > 1000)}
            for _ in range(runs):
                used = rng.random(n) < 0.5
                scores = mechanism(rng, used)
                for bound in lows:
                    delta = 0.0 if name.startswith("random") else DELTA
                    lows[bound].append(epsilon_one_run(scores, used, delta, **bounds[bound]).low)
            for bound, found in lows.items():
                wrong = int((np.array(found) > epsilon + 1e-6).sum())
                cells += 1
                beyond += wrong > binom.isf(1e-4 / 130, runs, 0.05)
                share = "" if epsilon == 0 else f"{np.median(found) / epsilon:.2f}"
                print(f"| {name} | {epsilon:g} | {n} | {bound} | {wrong / runs:.3f} | {share} |", flush=True)
    print(f"\n{cells} cells, {beyond} of them beyond chance.")


def published():
    """Known answers, and 10,000 members at normal quantiles shifted by μ beside 10,000 non-members at them."""
    counts = {"canaries": 10_000, "guesses": 2_500, "wrong": 364, "delta": DELTA}
    for how in ({}, {"family": "gaussian", "bound": "f-dp"}, {"family": "gaussian"}):
        print(f"{counts}, {how or 'any mechanism'}: {dv.evaluation.one_run_bound(**counts, **how).low:.3f}")
    print(f"truth at μ = 1: {GaussianMechanism().epsilon(1.0, DELTA):.3f}\n")
    z, members = ndtri((np.arange(10_000) + 0.5) / 10_000), np.arange(20_000) < 10_000
    print("| shift | truth | one run, any | one run, tight | many runs, any | many runs, Gaussian |")
    print("|---|---|---|---|---|---|")
    for mu in (1, 2, 4):
        scores = np.append(z + mu, z)
        row = [
            GaussianMechanism().epsilon(mu, 1e-6),
            epsilon_one_run(scores, members, 1e-6).low,
            epsilon_one_run(scores, members, 1e-6, family="gaussian").low,
            epsilon_lower_bound(scores, members, 1e-6).low,
            epsilon_lower_bound(scores, members, 1e-6, family="gaussian").low,
        ]
        print(f"| {mu} | " + " | ".join(f"{value:.3f}" for value in row) + " |")


def training(count=1000, records=4000, epochs=20, batch=400):
    """DP-SGD of an MLP on MNIST with 1,000 canaries: one run each, by records and by gradients."""
    import torch
    from torch import nn

    path = Path(os.environ.get("DIVULGE_DATA", "../shared/data")) / "mnist.npz"
    if not path.is_file():
        raise SystemExit(f"{path} is needed: set DIVULGE_DATA")
    from opacus import GradSampleModule
    from opacus.accountants.utils import get_noise_multiplier
    from opacus.optimizers import DPOptimizer

    arrays = np.load(path)
    x = arrays["x_train"][: 2 * records].reshape(2 * records, -1).astype(np.float32) / 255
    y = arrays["y_train"][: 2 * records].astype(np.int64)
    data, holdout = dv.Records(x[:records], y[:records]), dv.Records(x[records:], y[records:])
    rate = batch / records
    steps = round(epochs / rate)
    planted = canaries.make(data, kind="mislabelled", count=count, seed=0)

    def train(noise, given, seed, gradients=None):
        torch.manual_seed(seed)
        module = GradSampleModule(nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10)))
        optimizer = DPOptimizer(
            torch.optim.SGD(module.parameters(), lr=0.5),
            noise_multiplier=noise,
            max_grad_norm=1.0,
            expected_batch_size=batch,
        )
        if gradients is not None:
            gradients.attach(optimizer)
        inputs, labels = torch.from_numpy(given.x).requires_grad_(), torch.from_numpy(given.y)
        for _ in range(steps):
            at = torch.rand(len(labels)) < rate
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(inputs[at]), labels[at]).backward()
            optimizer.step()
        return module.to_standard_module()

    print(f"MLP 784-64-10, {records} records, {count} canaries, {steps} steps at rate {rate:g}, δ = {DELTA:g}.\n")
    print("| claimed ε | noise | canaries | any mechanism | Gaussian | verdict (Gaussian) | accuracy | s |")
    print("|---|---|---|---|---|---|---|---|")
    for epsilon in (1.0, 4.0, 8.0, None):
        noise = (
            0.0
            if epsilon is None
            else get_noise_multiplier(target_epsilon=epsilon, target_delta=DELTA, sample_rate=rate, steps=steps)
        )
        claim = dv.Claim(8.0 if epsilon is None else epsilon, DELTA)
        gradients = canaries.GradientCanaries(count, clip=1.0, rate=rate, seed=1)
        for kind in ("records", "gradients"):
            began = time.perf_counter()
            given = (
                data
                if kind == "gradients"
                else dv.Records(np.concatenate([data.x, planted.insert.x]), np.concatenate([data.y, planted.insert.y]))
            )
            model = train(noise, given, 0, gradients if kind == "gradients" else None)
            if kind == "records":
                found = canaries.audit(model, planted, claim=claim, family="gaussian")
            else:
                found = gradients.audit(claim=claim, family="gaussian")
            right = (dv.targets.TorchTarget(model, device="cpu").labels(holdout) == holdout.y).mean()
            stated = "none (tested against 8)" if epsilon is None else f"{epsilon:g}"
            print(
                f"| {stated} | {noise:.2f} | {kind} | {found.proof.others['of any mechanism'].low:.2f} | "
                f"{found.epsilon.low:.2f} | {found.proof.answer} | {right:.3f} | {time.perf_counter() - began:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("games", "published", "training"))
    parser.add_argument("--runs", type=int, default=2000)
    asked = parser.parse_args()
    {"games": lambda: games(asked.runs), "published": published, "training": training}[asked.part]()
