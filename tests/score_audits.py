"""Audits made of score tables alone: what is judged of them costs no model."""

import numpy as np

from divulge.auditing import Audit

# Scores that know nothing of membership, by what they look like.
KINDS = {
    "continuous": lambda rng, shape: rng.normal(size=shape),
    "rounded": lambda rng, shape: rng.normal(size=shape).round(),
    "two-valued, rate .5": lambda rng, shape: (rng.random(shape) < 0.5) * 1.0,
    "two-valued, rate .02": lambda rng, shape: (rng.random(shape) < 0.02) * 1.0,
    "nine of ten zero": lambda rng, shape: np.where(rng.random(shape) < 0.9, 0.0, rng.normal(size=shape)),
    "constant": lambda rng, shape: np.zeros(shape),
}


def scored(scores, members, *, nulls=None, fpr=(0.05,), confounded=False, labels=None, unseen=(), path=None):
    """An audit of which only the scores are known.

    Args:
        scores: recipe → ``[n]``.
        members: bool ``[n]``.
        nulls: recipe → scores of calibration records; 0, 1, …, 98 when None.
        fpr: levels.
        confounded: whether the blind baseline told members from non-members.
        labels: classes ``[n]``.
        unseen: unseen classes.
        path: its run directory.
    """
    members = np.asarray(members)
    recipe = {"references": "none", "reads": "logits", "signal": "negative-loss", "queries": 1, "raw_thresholds": {}}
    area = {"value": 0.9, "low": 0.8, "high": 0.95}
    blind = {"confounded": True, "auc": area, "p_value": 1e-3, "method": "permutation"} if confounded else None
    return Audit(
        scores={name: np.asarray(values, float) for name, values in scores.items()},
        nulls=nulls or dict.fromkeys(scores, np.arange(99.0)),
        ids=np.arange(len(members)),
        members=members,
        labels=labels,
        null_labels=None,
        unseen_classes=unseen,
        fpr=fpr,
        signals={},
        about={
            "recipes": dict.fromkeys(scores, recipe),
            "blind_baseline": blind,
            "counts": {"members": int(members.sum()), "nonmembers": int((~members).sum())},
            "transfer": None,
            "duplicates": 0,
        },
        path=path,
    )


def sizes(m, n):
    """``m`` members, then ``n`` non-members."""
    return np.arange(m + n) < m


def null(rng, kind, m, n, recipes, calibration=99):
    """An audit of a model that leaks nothing; all its recipes' scores are of one kind."""
    drawn = KINDS[kind](rng, (recipes, m + n + calibration))
    scores = {f"r{i}": row[: m + n] for i, row in enumerate(drawn)}
    nulls = {f"r{i}": row[m + n :] for i, row in enumerate(drawn)}
    return scored(scores, sizes(m, n), nulls=nulls, fpr=(0.1,))
