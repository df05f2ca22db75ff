"""How accurate anyone can be about labels, whatever is asked: upper bounds that the recommended defences rest on.

Labels are drawn evenly among the K classes. The attacker chooses queries as the answers come in, knows the oracle, and
for the bounds on noise even all other labels.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from divulge.labels.evaluated import Evaluated, KnownRange
from divulge.labels.losses import Linear, Metric
from divulge.labels.spec import COUNTS

if TYPE_CHECKING:
    from divulge.labels.spec import OracleSpec

_RANGES = {
    "accuracy": 1.0, "f1": 1.0, "auc": 1.0, "balanced_accuracy": 1.0, "map_at_k": 1.0,
    "mcc": 2.0, "quadratic_weighted_kappa": 2.0, "r2": math.inf,
}  # fmt: skip
BITS = 64.0  # a score that is neither rounded nor noisy is one double
_NORMAL = NormalDist()


def limit(spec: OracleSpec, queries: int) -> float:
    """Mean accuracy that no attacker with this many queries exceeds; 1 where no bound is known.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> round(limit(OracleSpec(n=2201, noise=0.652, noise_kind="gaussian"), 100), 3)
        0.55
        >>> limit(OracleSpec(n=2201, clip=None, noise=0.652, noise_kind="gaussian"), 100)
        1.0
    """
    bounds = [by_counting(spec, queries)]
    one = swing(spec)
    if spec.noise_kind != "bounded" and spec.noise and math.isfinite(one):
        bounds.append(chance(spec) + (1 - chance(spec)) * apart(spec, one, queries) + rare(spec))
    return min(1.0, *bounds)


def chance(spec: OracleSpec) -> float:
    """Accuracy of guessing."""
    return 1 / spec.classes


def apart(spec: OracleSpec, one: float, queries: int) -> float:
    """Total variation between all answers under two labels of a row whose answers lie at most ``one`` apart.

    Gaussian noise: 2Φ(√Q·one/(2σ)) - 1 (Dong, Roth, Su, "Gaussian differential privacy", 2022). Laplace noise: at
    most √(1 - ρ^2Q), with ρ = exp(-t)(1 + t), t = one/(2b), the affinity of two answers.
    """
    if spec.noise_kind == "gaussian":
        return 2 * _NORMAL.cdf(math.sqrt(queries) * one / (2 * spec.noise)) - 1
    t = one / (2 * spec.noise)
    return math.sqrt(max(-math.expm1(2 * queries * (math.log1p(t) - t)), 0.0))


def swing(spec: OracleSpec) -> float:
    """How far one label moves an answer at most (for F1 and AUC: unless `rare`).

    F1 and AUC are ratios over the ones (and zeros) among the other labels, which number a quarter of the rows at
    least but in rare cases.
    """
    m = spec.most_scored
    quarter = (m - 1) / 4
    if spec.name in COUNTS:
        ratios = {"accuracy": 1 / m, "f1": 2 / max(quarter, 1.0), "auc": 1 / (quarter + 1)}
        return min(ratios[spec.name], 1.0)
    if not spec.adds_up:
        return math.inf  # one label more or less of a rare class may change such a ratio by any amount
    one = difference(spec)
    if spec.reduction == "sum":
        return one
    # The mean over weighted rows: both its parts move, and the weights may all be the smaller one.
    weights = spec.class_weight or (1.0,)
    return one * max(weights) / (m * min(weights))


def rare(spec: OracleSpec) -> float:
    """Chance that labels are less balanced than `swing` takes them to be (Hoeffding)."""
    sides = {"f1": 1, "auc": 2}.get(spec.name, 0)
    return sides * math.exp(-(spec.most_scored - 1) / 8)


def difference(spec: OracleSpec) -> float:
    """Largest difference that two labels of one row make in its loss, over all predictions; infinity without bound."""
    metric = spec.metric
    if isinstance(metric, Linear):
        ends = np.array([metric.low, metric.high])
        return float(np.abs(np.asarray(metric.loss(ends, 1)) - np.asarray(metric.loss(ends, 0))).max())
    if isinstance(metric, Metric) and metric.name in ("norm_like", "mahalanobis"):
        return metric.parameter
    if spec.name == "log_loss" and spec.epsilon:
        return math.log1p(-spec.epsilon) - math.log(spec.epsilon)
    return {"mae": 1.0, "squared_euclidean": 1.0 if spec.classes == 2 else 2.0}.get(spec.name, math.inf)


def spread(spec: OracleSpec) -> float:
    """How far the answers to one query lie apart at most, over all labels."""
    metric = spec.metric
    if isinstance(metric, Evaluated | KnownRange):
        return metric.high - metric.low
    if spec.name in _RANGES:
        return _RANGES[spec.name]
    return difference(spec) * (spec.most_scored if spec.reduction == "sum" else 1.0)


def bits(spec: OracleSpec) -> float:
    """Most bits that one answer can tell: the logarithm of the number of answers there are."""
    if spec.decimals is None or not math.isfinite(spread(spec)):
        return BITS
    return min(math.log2(2 + spread(spec) * 10.0**spec.decimals), BITS)


def needed(spec: OracleSpec, accuracy: float) -> float:
    """Bits needed to be this accurate about all rows (Fano)."""
    wrong = 1 - accuracy
    entropy = sum(-p * math.log2(p) for p in (accuracy, wrong) if p > 0)
    return spec.most_scored * (math.log2(spec.classes) - entropy - wrong * math.log2(max(spec.classes - 1, 1)))


def by_counting(spec: OracleSpec, queries: int) -> float:
    """The accuracy for which all answers together tell just enough bits."""
    told = queries * bits(spec)
    low, high = chance(spec), 1.0
    if needed(spec, high) <= told:
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if needed(spec, middle) <= told else (low, middle)
    return high
