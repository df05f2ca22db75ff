"""Proofs that different labels give different answers.

Each answer is a sum over rows, so two labellings differ in it by a sum of loss differences. The differences are
taken from the exact dyadic predictions with a proven bound on their error, hence rigorous.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.errors import InputError
from divulge.labels import floats
from divulge.labels.certificate import Certificate
from divulge.labels.oracles import check_predictions
from divulge.labels.plans import QueryPlan
from divulge.labels.spec import OracleSpec
from divulge.validation import check_array, check_instance, check_nonempty

if TYPE_CHECKING:
    from divulge.types import Floats

_MOST_ROWS = 30
_MOST_SUMS = 3**15


def certify(spec: OracleSpec, predictions: Any) -> Certificate:
    """A rigorous lower bound on how far apart the answers to two labellings are.

    Args:
        spec: the oracle.
        predictions: a plan, one prediction, or predictions of several queries ``[q, ...]``.

    A single query is proven when its loss differences are superincreasing (linear time, any n), or by meeting
    in the middle over all differences of labellings (up to about 30 binary rows). Of several queries the best
    single one is taken: that proves them all, but plans whose queries only work together need `design`'s own
    certificate, which a plan carries.

    Raises:
        divulge.InputError: predictions that do not fit the oracle.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> rows = np.array([[0.5, 0.5], [0.9, 0.1]])
        >>> certify(OracleSpec(n=2, noise=0.01), rows).why
        'two labellings give the same answers'
    """
    check_instance(spec, "spec", OracleSpec, "a labels.OracleSpec")
    if isinstance(predictions, QueryPlan):
        if predictions.spec != spec:
            raise InputError("predictions: the plan was made for another oracle")
        return predictions.certificate
    checked = check_array(predictions, "predictions")
    checked = check_nonempty(checked, "predictions")
    single = len(spec.loss().shape) + 1
    queries = [checked] if checked.ndim == single else list(checked)
    results = [_one(spec, check_predictions(spec, query)) for query in queries]
    return max(results, key=lambda one: (one.certified, one.separation))


def _one(spec: OracleSpec, predictions: Any) -> Certificate:
    needed = 2 * spec.tolerance
    if spec.noise_kind != "bounded":
        return Certificate(False, 0.0, needed, "none", f"{spec.noise_kind} noise has no bound")
    if spec.class_weight is not None or spec.name == "rmse" or spec.scored != "all":
        return Certificate(False, 0.0, needed, "none", "only plain sums over all rows are certified")
    table, error = _losses(spec, predictions)
    scale = spec.rows_per_answer
    total = float(table.max(axis=1).sum())
    drift = float(floats.summation(spec.n, total, spec.summation, spec.float_dtype)) + error
    separation, method = _separation(table)
    proven = (separation * (1 - 1e-12) - 2 * drift) / scale
    if not method:
        why = f"{spec.n} rows are too many to enumerate and their losses are not superincreasing"
        return Certificate(False, 0.0, needed, "none", why)
    if proven > needed:
        return Certificate(True, proven, needed, method)
    why = (
        "two labellings give the same answers"
        if proven <= 0
        else f"two answers are {proven:.3g} apart; noise bridges {needed:.3g}"
    )
    return Certificate(False, max(proven, 0.0), needed, method, why)


def _losses(spec: OracleSpec, predictions: Any) -> tuple[Floats, float]:
    """Losses ``[n, K]`` and a bound on how far the oracle's sum of them may lie from the sum of the true ones."""
    table = spec.loss().table(predictions)
    if not np.isfinite(table).all():
        raise InputError("predictions: some label has an infinite loss; clip them or keep away from 0 and 1")
    if spec.name != "log_loss" or spec.submission != "rows":
        return table, 4 * float(np.spacing(table.max(axis=1)).sum())
    kind = np.dtype(spec.float_dtype).type
    inside = np.asarray(predictions, dtype=kind)
    inside = np.clip(inside, kind(spec.epsilon), kind(1) - kind(spec.epsilon)) if spec.epsilon else inside
    away = floats.log_error(inside, table) + np.spacing(table)
    return table, float(away.max(axis=1).sum()) * (1 + 1e-12)


def _separation(table: Floats) -> tuple[float, str]:
    """Smallest distance of the sums of two different labellings, and how it was found ("" when it was not)."""
    n, classes = table.shape
    ordered = np.sort(table, axis=1)
    steps = np.diff(ordered, axis=1).min(axis=1)
    reach = ordered[:, -1] - ordered[:, 0]
    order = np.argsort(reach)
    below = np.concatenate([[0.0], np.cumsum(reach[order])[:-1]])
    margin = float((steps[order] - below).min())
    if margin > 0:
        return margin, "superincreasing losses"
    differences = classes * (classes - 1) + 1
    if n <= _MOST_ROWS and differences ** -(-n // 2) <= _MOST_SUMS:
        return _meet(table), "meet in the middle"
    return 0.0, ""


def _meet(table: Floats) -> float:
    """Smallest |sum of loss differences| over all pairs of different labellings."""
    n = len(table)
    left, right = _sums(table[: n // 2]), _sums(table[n // 2 :])
    # Index 0 of each half is the pair of equal labellings; it must not meet itself.
    best = math.inf
    for half in (left, right):
        if len(half) > 1:
            best = min(best, float(np.abs(half[1:]).min()))
    if len(left) == 1 or len(right) == 1:
        return best
    ordered = np.sort(right[1:])
    wanted = -left[1:]
    places = np.searchsorted(ordered, wanted)
    for shift in (-1, 0):
        near = ordered[np.clip(places + shift, 0, len(ordered) - 1)]
        best = min(best, float(np.abs(near - wanted).min()))
    return best


def _sums(table: Floats) -> Floats:
    sums = np.zeros(1)
    for row in table:
        differences = (row[:, None] - row[None, :])[~np.eye(len(row), dtype=bool)]
        sums = np.concatenate([sums, *(sums + d for d in differences)])
    return sums
