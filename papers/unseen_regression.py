"""LOSS and quantile regression alone, on targets of `unseen_models.py`: what the other `unseen_*` scripts measure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import numpy as np
from scipy.stats import rankdata

import unseen_models as models
from divulge import Evidence, evaluation
from divulge.attacks import QuantileRegression
from divulge.attacks.regressors import Boosted, Booster
from divulge.signals import classification as signals
from unseen_classes import Found, auc, features, over_seeds, tpr

ATTACKS = ("LOSS", "quantile, hinge", "quantile, gap")
GAIN = "hinge less LOSS"


def scored(case: models.Case, population: np.ndarray, candidates: np.ndarray) -> Found:
    """Scores of the candidates ``asked``; the regressor learns from all of ``population``, as the source's does."""
    logits = models.target(case)["logits"].astype(np.float64)
    table = features(case, population)
    regression = QuantileRegression(Boosted(Booster(rounds=100), folds=3), conformal=False, seed=case.seed)

    def score(signal: np.ndarray) -> np.ndarray:
        return regression.score(
            Evidence(
                signal[candidates],
                features=table[candidates],
                labels=case.y[candidates],
                population=signal[population],
                population_features=table[population],
                population_labels=case.y[population],
            )
        )

    return {
        "member": candidates < case.data.members,
        "LOSS": signals.negative_loss(logits, case.y)[candidates],
        "quantile, hinge": score(signals.hinge(logits, case.y)),
        "quantile, gap": score(signals.top_two_gap(logits)),
    }


def accuracy(case: models.Case) -> tuple[float, float]:
    """Of the target, in per cent, on its members and on the non-members among the candidates."""
    right = models.target(case)["logits"].argmax(axis=1) == case.y
    members = np.arange(len(right)) < case.data.members
    return 100 * float(right[members].mean()), 100 * float(right[case.candidates][~members[case.candidates]].mean())


def candidates(case: models.Case) -> np.ndarray:
    return np.arange(case.candidates.stop)


def table(head: str, columns: Iterable[str], cells: dict[str, list[str]]) -> None:
    """Markdown: an attack a row."""
    names = list(columns)
    print(f"| {head} | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names))
    for key, cells_shown in cells.items():
        print(f"| {key} | " + " | ".join(cells_shown) + " |")


def measures(level: float = 0.01) -> tuple[tuple[str, Callable[[np.ndarray, np.ndarray], float], int], ...]:
    """TPR at ``level`` in per cent, and AUC: name, function and digits."""
    return (f"TPR at FPR {100 * level:g} %, %", lambda s, m: tpr(s, m, level), 2), ("AUC", auc, 3)


def spread(cells: dict[tuple[int, int], Found], key: str, measure: Callable, digits: int) -> str:
    """Mean over the cells of each seed, with Student's interval over seeds; ``GAIN`` is taken cell by cell."""
    if key == GAIN:
        return over_seeds(
            cells, lambda c: measure(c[ATTACKS[1]], c["member"]) - measure(c[ATTACKS[0]], c["member"]), digits, "+"
        )
    return over_seeds(cells, lambda c: measure(c[key], c["member"]), digits)


def pooled(cells: list[Found], key: str) -> tuple[np.ndarray, np.ndarray]:
    """Ranks within each cell, from 0 to 1, of all cells together, and who is a member."""
    ranks = [rankdata(cell[key]) / len(cell["member"]) for cell in cells]
    return np.concatenate(ranks), np.concatenate([cell["member"] for cell in cells])


def compare(cells: list[Found], levels: tuple[float, ...] = (0.01,)) -> None:
    """Markdown where seeds are too few for an interval over them: every cell's candidates are pooled by rank.

    The intervals are those of `divulge.evaluation` for the AUC, for its difference from that of LOSS, and for the TPR.
    """
    loss, member = pooled(cells, "LOSS")
    print(f"{int(member.sum())} members and {int((~member).sum())} non-members asked about.\n")
    rows = {}
    for key in [key for key in cells[0] if key not in ("member", "asked")]:
        ranks, _ = pooled(cells, key)
        estimates = [evaluation.auc(ranks, member), evaluation.paired_difference(ranks, loss, member)]
        estimates += [evaluation.tpr_at_fpr(ranks, member, level) for level in levels]
        rows[key] = [f"{estimate.value:.4f} [{estimate.low:.4f}, {estimate.high:.4f}]" for estimate in estimates]
    table("attack", ["AUC", "AUC less LOSS's", *(f"TPR at FPR {100 * level:g} %" for level in levels)], rows)
    print(flush=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
