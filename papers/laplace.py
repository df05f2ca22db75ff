"""Draws from a Laplace posterior of one reference model, beside attacks that take the model as it is.

    nice DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/laplace.py --out FOLDER

After Liu et al. 2025 (arXiv:2503.07482), of which we had the abstract and others' summaries: the last layer's weights
are drawn 50 times from a normal distribution about the trained ones, whose precision is the loss's Kronecker-factored
curvature on the reference's records plus a prior, chosen by marginal likelihood; the score is the t statistic of the
target's hinge among the hinges of these draws. Targets and records are those of `membership.py`, kept in ``--out``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

import divulge as dv
from divulge.attacks import RMIA, BaVarIA, Learned, LiRA, Threshold
from divulge.evidence import signals_from_logits
from divulge.signals import classification
from membership import SIZES, Case
from membership_tables import TITLES

DRAWS, REFERENCES = 50, 4
PRIORS = np.logspace(-4, 4, 161)
ATTACKS = {
    "LOSS": ("scaled-logit", Threshold()),
    "LiRA": ("scaled-logit", LiRA()),
    "BaVarIA": ("scaled-logit", BaVarIA()),
    "RMIA": ("confidence", RMIA()),
    "learned-few": ("scaled-logit", Learned(few=True)),
}


def hidden(net: nn.Sequential, x: np.ndarray) -> np.ndarray:
    """What the last layer reads, and a column of ones for its bias."""
    with torch.inference_mode():
        return np.hstack([net[:-1](torch.from_numpy(x)).double().numpy(), np.ones((len(x), 1))])


def weights(net: nn.Sequential) -> np.ndarray:
    """The last layer's, with its bias as the last column."""
    return torch.hstack([net[-1].weight, net[-1].bias[:, None]]).detach().double().numpy()


def posterior(net: nn.Sequential, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws of the last layer, ``[draws, classes, width + 1]``."""
    output_weights = weights(net)
    read = hidden(net, x)
    p = torch.from_numpy(read @ output_weights.T).softmax(1).numpy()
    # The curvature in its eigenbasis: sums over records of what is read, times the softmax's mean curvature.
    wide, sideways = np.linalg.eigh(read.T @ read)
    steep, upright = np.linalg.eigh(np.diag(p.mean(axis=0)) - p.T @ p / len(x))
    curvature = np.outer(np.maximum(steep, 0), np.maximum(wide, 0))
    evidence = [-(prior * (output_weights**2).sum() + np.log1p(curvature / prior).sum()) / 2 for prior in PRIORS]
    spread = 1 / np.sqrt(curvature + PRIORS[int(np.argmax(evidence))])
    return output_weights + upright @ (rng.normal(size=(DRAWS, *spread.shape)) * spread) @ sideways.T


def t_statistic(target: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Of one value of each record among its draws, ``[n]`` and ``[draws, n]``."""
    return (target - draws.mean(axis=0)) / (draws.std(axis=0, ddof=1) * np.sqrt(1 + 1 / len(draws)))


def scores(case: Case, number: int) -> dict[str, np.ndarray]:
    """Of the candidates, under each attack with the same reference model."""
    candidates, population = case.candidates, case.held(False)
    free = population[len(population) // 5 :]
    rng = np.random.default_rng([case.seed, number])
    training_rows = np.sort(rng.permutation(free)[: len(free) // 2])
    classes = int(case.data.y.max()) + 1
    net = case.settings().train_model(case.records[training_rows], seed=5000 + 10 * case.seed + number, classes=classes)
    outputs, logits = case.target.logits(case.records), hidden(net, case.data.x) @ weights(net).T
    scores_by_attack = {}
    for name, (signal, attack) in ATTACKS.items():
        ours, reference_signals = (signals_from_logits(z, case.data.y, (signal,))[:, 0] for z in (outputs, logits))
        evidence = dv.Evidence(
            ours[candidates], reference_signals[None, candidates], None, ours[free], reference_signals[None, free],
            population_trained_on=np.isin(free, training_rows)[None],
        )  # fmt: skip
        scores_by_attack[name] = attack.score(evidence)
    read, y = hidden(net, case.data.x[candidates]), case.data.y[candidates]
    layers = posterior(net, case.data.x[training_rows], case.data.y[training_rows], rng)
    posterior_draws = np.stack([classification.hinge(read @ layer.T, y) for layer in layers])
    return {**scores_by_attack, "Laplace": t_statistic(classification.hinge(outputs[candidates], y), posterior_draws)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", nargs="*", default=list(SIZES), choices=SIZES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = (*ATTACKS, "Laplace")
    print(f"| set | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    for key in arguments.set:
        rates_by_attack: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for seed in range(3):
            case = Case(key, seed, arguments.out)
            member = case.candidates < case.size.members
            for number in range(REFERENCES):
                for name, values in scores(case, number).items():
                    auc = dv.evaluation.auc(values, member).value
                    rates_by_attack[name].append((auc, dv.evaluation.tpr_at_fpr(values, member, 0.01).value))
        cells = ("{:.3f} / {:.3f}".format(*np.mean(rates_by_attack[name], axis=0)) for name in names)
        print(f"| {TITLES[key][0]} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
