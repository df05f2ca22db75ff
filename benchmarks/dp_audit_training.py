"""Real training with DP-SGD: one run with 1,000 canaries, and many runs from worst-case initial weights."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import opacus
import torch
from opacus.accountants.utils import get_noise_multiplier
from opacus.optimizers import DPOptimizer
from safetensors.torch import load_file
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

import divulge as dv
from divulge import canaries
from divulge.evaluation import GaussianMechanism, SubsampledGaussian, epsilon_lower_bound, epsilon_one_run
from divulge.references import private, stacked
from divulge.references.hyperparameters import Hyperparameters, Private
from dp_audit_games import DELTA, strength

CANARIES, RECORDS, RATE, STEPS, CLIP, LR = 1000, 4000, 0.1, 100, 1.0, 0.5


def folder():
    """Where the data are."""
    path = Path(os.environ.get("DIVULGE_DATA", "../shared/data"))
    if not (path / "mnist.npz").is_file():
        raise SystemExit(f"{path / 'mnist.npz'} is needed: set DIVULGE_DATA")
    return path


def network():
    """An MLP of 50,890 parameters."""
    return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


class Watched(private.GhostClipping):
    """Divulge's own DP-SGD with gradient canaries."""

    planted: canaries.GradientCanaries

    def release(self, totals):
        """The sums of clipped gradients and canaries, with their noise."""
        self.planted.plant(totals)
        released = super().release(totals)
        self.planted.observe(released)
        return released


def by_divulge(x, y, noise, gradients):
    """A network trained by DP-SGD of divulge.references."""
    size = round(RATE * len(y))
    config = Hyperparameters(network, lr=LR, momentum=0.0, batch_size=size, privacy=Private(noise, CLIP))
    torch.manual_seed(0)
    module = network()
    step_type = private.GhostClipping if gradients is None else Watched
    step = step_type(config, module, stacked.mlp_layers(module), 0)
    step.planted = gradients
    for batch in private.poisson_batches(np.arange(len(y)), 0, 0, STEPS, size):
        step(x[batch], y[batch], LR)
    return module


def by_opacus(x, y, noise, gradients):
    """The same by Opacus."""
    torch.manual_seed(0)
    module = opacus.GradSampleModule(network())
    optimizer = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=LR),
        noise_multiplier=noise,
        max_grad_norm=CLIP,
        expected_batch_size=round(RATE * len(y)),
    )
    if gradients is not None:
        gradients.attach(optimizer)
    inputs = x.clone().requires_grad_()
    for _ in range(STEPS):
        batch = torch.rand(len(y)) < RATE
        optimizer.zero_grad()
        cross_entropy(module(inputs[batch]), y[batch]).backward()
        optimizer.step()
    return module.to_standard_module()


def training():
    """DP-SGD of an MLP on MNIST with 1,000 canaries: one run each, by records and by gradients."""
    arrays = np.load(folder() / "mnist.npz")
    x = arrays["x_train"][: 2 * RECORDS].reshape(2 * RECORDS, -1).astype(np.float32) / 255
    y = arrays["y_train"][: 2 * RECORDS].astype(np.int64)
    data, holdout = dv.Records(x[:RECORDS], y[:RECORDS]), dv.Records(x[RECORDS:], y[RECORDS:])
    planted = canaries.make(data, kind="mislabelled", count=CANARIES, seed=0)
    family = SubsampledGaussian(RATE, STEPS)
    print(
        f"MLP 784-64-10 on {RECORDS} records of MNIST, {CANARIES} canaries, {STEPS} steps at rate {RATE:g}, clip "
        f"{CLIP:g}, δ = {DELTA:g}, one run each; Opacus {opacus.__version__}. The last bound takes the training for a "
        "Gaussian mechanism (records) or for one that is subsampled so (gradients); it decides.\n"
    )
    print("| claimed ε | noise | trained by | canaries | ε ≥, any | ε ≥, f-DP | ε ≥, family | answer | accuracy | s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for epsilon in (1.0, 4.0, 8.0, None):
        noise = 0.0
        if epsilon is not None:
            noise = get_noise_multiplier(
                target_epsilon=epsilon, target_delta=DELTA, sample_rate=RATE, steps=STEPS, accountant="prv"
            )
        claim = dv.Claim(epsilon or 8.0, DELTA)
        for trainer, canary_form in ((t, k) for t in (by_divulge, by_opacus) for k in ("records", "gradients")):
            began = time.perf_counter()
            gradients, training_arrays = None, [data.x, data.y]
            if canary_form == "gradients":
                gradients = canaries.GradientCanaries(CANARIES, clip=CLIP, rate=RATE, noise=noise, seed=1)
            else:
                training_arrays = [
                    np.concatenate(array_pair)
                    for array_pair in zip(training_arrays, (planted.insert.x, planted.insert.y), strict=True)
                ]
            model = trainer(*map(torch.from_numpy, training_arrays), noise, gradients)
            result = (
                canaries.audit(model, planted, claim=claim, family="gaussian")
                if gradients is None
                else gradients.audit(claim=claim, family=family, score="likelihood" if noise else "sum")
            )
            loosely = epsilon_one_run(result.scores, result.included, DELTA, family="gaussian", bound="f-dp").low
            right = (dv.targets.TorchTarget(model, device="cpu").labels(holdout) == holdout.y).mean()
            stated = "none (tested: 8)" if epsilon is None else f"{epsilon:g}"
            print(
                f"| {stated} | {noise:.2f} | {trainer.__name__[3:].capitalize()} | {canary_form} | "
                f"{result.proof.others['of any mechanism'].low:.2f} | {loosely:.2f} | {result.epsilon.low:.2f} | "
                f"{result.proof.answer} | {right:.3f} | {time.perf_counter() - began:.0f} |",
                flush=True,
            )


class Cnn(nn.Module):
    """The network of the initial weights of bb-audit."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 5), nn.Conv2d(16, 32, 4)
        self.fc1, self.fc2 = nn.Linear(512, 32), nn.Linear(32, 10)

    def forward(self, x):
        """Logits of images ``[n, 1, 28, 28]``."""
        for conv in (self.conv1, self.conv2):
            x = nn.functional.max_pool2d(torch.tanh(conv(x)), 2)
        return self.fc2(torch.tanh(self.fc1(x.flatten(1))))


def worst(runs, records=100, steps=10, epsilon=10.0, lr=0.1):
    """Full-batch DP-SGD from weights that fit the data already: one blank canary, included by a coin per run."""
    module = Cnn()
    start = load_file(folder() / "models" / "cnn_mnist_half.safetensors")
    module.load_state_dict(start)
    arrays = np.load(folder() / "mnist.npz")
    x = (torch.from_numpy(arrays["x_train"][:records]).float()[:, None] / 255 - 0.1307) / 0.3081
    y = torch.from_numpy(arrays["y_train"][:records]).long()
    canary = torch.full((1, 1, 28, 28), -0.1307 / 0.3081)
    wrong = module(canary).argmin(1)  # the label that surprises the initial weights most
    mu = strength(GaussianMechanism(), epsilon)
    noise = np.sqrt(steps) / mu

    def loss(parameters, record, label):
        return cross_entropy(functional_call(module, parameters, record[None]), label[None])

    each = vmap(grad(loss), (None, 0, 0))
    rng, scores, coins = np.random.default_rng(0), [], []
    began = time.perf_counter()
    for run in range(runs):
        generator = torch.Generator().manual_seed(run)
        coins.append(bool(rng.random() < 0.5))
        inputs, labels = (torch.cat([x, canary]), torch.cat([y, wrong])) if coins[-1] else (x, y)
        weights = {name: value.clone() for name, value in start.items()}
        for _ in range(steps):
            slopes = each(weights, inputs, labels)
            norms = sum(slope.flatten(1).square().sum(1) for slope in slopes.values()).sqrt()
            factor = (CLIP / (norms + 1e-6)).clamp(max=1.0)
            for name, slope in slopes.items():
                total = torch.tensordot(factor, slope, 1)
                total += noise * CLIP * torch.randn(total.shape, generator=generator)
                weights[name] = weights[name] - lr * total / records
        with torch.no_grad():
            scores.append(-float(loss(weights, canary[0], wrong[0])))
    score_array, included = np.array(scores), np.array(coins)
    print(
        f"CNN of bb-audit, {records} records, {steps} full-batch steps at σ = {noise:.2f}, claim ε = {epsilon:g} at "
        f"δ = {DELTA:g}, {runs} runs, black box, {time.perf_counter() - began:.0f} s. Published: 7.21 (more runs).\n"
    )
    print("| bound | ε ≥ |\n|---|---|")
    for name, bound in {
        "many runs, any": epsilon_lower_bound(score_array, included, DELTA),
        "many runs, Gaussian": epsilon_lower_bound(score_array, included, DELTA, family="gaussian"),
        "a coin per run, any": epsilon_one_run(score_array, included, DELTA),
        "a coin per run, Gaussian": epsilon_one_run(score_array, included, DELTA, family="gaussian"),
    }.items():
        print(f"| {name} | {bound.low:.2f} |")
    gap = (score_array[included].mean() - score_array[~included].mean()) / np.sqrt(
        (score_array[included].var() + score_array[~included].var()) / 2
    )
    print(f"\nThe scores lie {gap:.2f} standard deviations apart, of the {mu:.2f} that the claim allows.")
