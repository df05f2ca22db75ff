"""What features leave unexplained: out-of-fold residuals of a ridge regression on features and class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.statistics.duplicates import keep_together
from divulge.validation import check_integer

if TYPE_CHECKING:
    from divulge.types import Array, Bools, Floats, Ints

_PENALTIES = np.logspace(0, 5, 11)
LEAST = 20
"""Fewest records to learn from."""
# A class has slopes of its own from this many records per feature on; fewer only add noise (Location-30).
_RECORDS_PER_SLOPE = 4


def unexplained(values: Floats, features: Array, labels: Ints | None, folds: int, seed: int) -> Floats:
    """``values`` minus what a regression on the other folds' records predicts of them, ``[n]``.

    One regression serves all classes; a class with four records per feature or more then has a second one, of what
    is left, to itself. Rows are treated alike, whoever they belong to.

    Args:
        values: what is to be explained, ``[n]``.
        features: ``[n, ...]``.
        labels: classes ``[n]``, or None.
        folds: number of folds.
        seed: of the folds.

    Raises:
        divulge.InputError: fewer than 20 records or than folds, or features that are texts.
    """
    n = len(values)
    if n < LEAST:
        raise InputError(f"at least {LEAST} candidates are needed to learn from, got {n}")
    check_integer(folds, "folds", least=2, most=n)
    table, class_indicators = _table(features), _class_indicators(labels, n)
    pooled = np.hstack([table, 3.0 * class_indicators])
    fold = keep_together(seeds.generator(seed, "transductive", "folds").permutation(n) % folds, pooled)
    scores = np.empty(n)
    for k in range(folds):
        is_test = fold == k
        residuals = values - _ridge_predictions(pooled, values, ~is_test)
        for is_class in class_indicators.T > 0:
            if class_indicators.shape[1] > 1 and (is_class & ~is_test).sum() >= max(
                LEAST, _RECORDS_PER_SLOPE * table.shape[1]
            ):
                residuals[is_class] -= _ridge_predictions(table[is_class], residuals[is_class], ~is_test[is_class])
        scores[is_test] = residuals[is_test]
    return scores


def leading(features: Array, components: int) -> Floats:
    """Return the ``components`` leading principal components ``[n, components]`` of features that have more columns.

    Raises:
        divulge.InputError: features that are texts.
    """
    flat = _numbers(features)
    if flat.shape[1] <= components:
        return flat
    centred = flat - flat.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    return centred @ axes[:, -components:]


def _ridge_predictions(table: Floats, signal: Floats, learn: Bools) -> Floats:
    """Ridge predictions for every row, learnt from the rows ``learn``, with the penalty of least leave-one-out error.

    One singular value decomposition serves every penalty, and leaving a record out is a division by one less
    its leverage (Allen 1974).
    """
    centre, level = table[learn].mean(axis=0), signal[learn].mean()
    u, size, vt = np.linalg.svd(table[learn] - centre, full_matrices=False)
    is_used = size > 1e-9 * size.max(initial=0.0)
    u, size, vt = u[:, is_used], size[is_used], vt[is_used]
    target = signal[learn] - level
    shrunk = size**2 / (size**2 + _PENALTIES[:, None])
    along = u.T @ target
    leverage = np.minimum(1 / len(target) + shrunk @ (u**2).T, 1 - 1e-9)
    errors = (((target - (shrunk * along) @ u.T) / (1 - leverage)) ** 2).mean(axis=1)
    best = int(errors.argmin())
    return level + (table - centre) @ (vt.T @ (shrunk[best] / size * along))


def _table(features: Array) -> Floats:
    """Standardised features ``[n, d]``."""
    flat = _numbers(features)
    spread = flat.std(axis=0)
    return (flat - flat.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _numbers(features: Array) -> Floats:
    if features.dtype == object:
        raise InputError("evidence.features must be numbers, got texts")
    return features.reshape(len(features), -1).astype(np.float64)


def _class_indicators(labels: Ints | None, n: int) -> Floats:
    """Return a column per class, ``[n, classes]``; a single one without labels."""
    return np.ones((n, 1)) if labels is None else (labels[:, None] == np.unique(labels)).astype(np.float64)
