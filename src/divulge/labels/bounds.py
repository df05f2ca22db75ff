"""Upper bounds on what answers leak: the capacity of one query, and the accuracy that any attacker can reach.

For the bounds on accuracy, on which the recommended defences rest, labels are drawn evenly among the K classes. The
attacker chooses queries as the answers come in, knows the oracle and, for the bounds on noise, even all other labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from divulge.labels import float_errors
from divulge.labels.metrics import Evaluated, KnownRange, Linear, Metric
from divulge.labels.oracles import COUNT_METRICS, OracleSpec
from divulge.validation import check_instance, check_integer, check_number

_METRIC_RANGES = {
    "accuracy": 1.0, "f1": 1.0, "auc": 1.0, "balanced_accuracy": 1.0, "map_at_k": 1.0,
    "mcc": 2.0, "quadratic_weighted_kappa": 2.0, "r2": math.inf,
}  # fmt: skip
FLOAT_BITS = 64.0  # a score that is neither rounded nor noisy is one double
_STANDARD_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Capacity:
    """Upper bounds on what one query can leak.

    Args:
        labels_per_query: upper bound, whatever the query.
        bits_per_query: the same in bits.
        threshold: a single label can be read for certain as long as an answer's error stays below this; NaN where
            only the range of the metric counts.
        queries: at least this many queries are needed for all n labels.
        binds: what limits: "noise", "rounding", "float arithmetic" or "number of labels".
        span: loss difference R that one label can make; infinity for losses on logits.
    """

    labels_per_query: float
    bits_per_query: float
    threshold: float
    queries: int
    binds: str
    span: float

    def __str__(self) -> str:
        bound = (
            f"at most {self.labels_per_query:.4g} labels per query ({self.binds} limits), "
            f"so at least {self.queries} queries"
        )
        if math.isnan(self.threshold):
            return bound
        return f"{bound}; one label is readable while errors stay below {self.threshold:.3g}"


def capacity(spec: OracleSpec) -> Capacity:
    """Return an upper bound on what one answer of this oracle reveals about the labels.

    Bounded noise: two answers tell labellings apart only when they lie further apart than twice the error τe,
    and the mean loss of any prediction varies by at most R: ``log2(1 + R/(2 τe))`` bits. Gaussian noise: the
    capacity of the channel, ``½ log2(1 + n (R/2)²/(n σ)²)`` with every label swinging the sum by ±R/2.
    Laplace noise: the same with its standard deviation, plus the 0.11 bit by which its entropy stays below that
    of a Gaussian. Counting metrics: the logarithm of the number of different answers.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> capacity(OracleSpec(n=198, clip=1e-15, decimals=5)).queries
        10
    """
    check_instance(spec, "spec", OracleSpec, "a labels.OracleSpec")
    if spec.name not in ("accuracy", "f1", "auc") and not spec.adds_up:
        return _range_capacity(spec)
    span, units = _loss_range(spec)
    counting = spec.name in ("accuracy", "f1", "auc")
    floor = 0.0 if counting else _smallest_float_error(spec, span)
    fixed = spec.tolerance + floor
    per_label = span / units
    if spec.noise_kind != "bounded":
        signal = spec.most_scored * (per_label / 2) ** 2
        bits = 0.5 * math.log2(1 + signal / spec.sigma**2) + (0.11 if spec.noise_kind == "laplace" else 0.0)
        binds = "noise"
        if fixed and (rounded := math.log2(1 + span * spec.most_scored / units / (2 * fixed))) < bits:
            bits, binds = rounded, "rounding" if spec.rounding > floor else "float arithmetic"
    else:
        bits = _bounded_noise_bits(spec, span, units, fixed)
        parts = {"noise": spec.noise, "rounding": spec.rounding, "float arithmetic": floor}
        binds = max(parts, key=lambda name: parts[name]) if fixed else "number of labels"
    # Of a split, every row is also asked whether it is scored at all, by the difference of two answers.
    split = spec.scored != "all"
    each = math.log2(spec.classes + split)
    bits = min(bits, spec.n * each)
    threshold = per_label / (4 if split else 2)
    labels = bits / each
    queries = math.ceil(spec.n / labels - 1e-9) if labels > 0 else 0
    return Capacity(labels, bits, threshold, queries, binds, span)


def _range_capacity(spec: OracleSpec) -> Capacity:
    """Return the capacity that the range of a score, its decimals and its noise alone leave."""
    width = answer_range(spec)
    bits, binds = answer_bits(spec), "rounding" if spec.decimals is not None else "float arithmetic"
    if spec.decimals is not None and isinstance(spec.metric, Evaluated | KnownRange) and math.isfinite(width):
        bits = math.log2(distinct_answers(spec.metric.low, spec.metric.high, spec.decimals))
    if spec.noise and math.isfinite(width):
        if spec.noise_kind == "bounded":
            noisy = math.log2(1 + width / (2 * spec.noise))
        else:
            # The answers vary by half the range at most, and a Gaussian has the most entropy of that variance.
            noisy = 0.5 * math.log2(1 + (width / 2 / spec.sigma) ** 2) + (0.11 if spec.noise_kind == "laplace" else 0.0)
        bits, binds = min((bits, binds), (noisy, "noise"))
    if spec.n * math.log2(spec.classes) <= bits:
        bits, binds = spec.n * math.log2(spec.classes), "number of labels"
    labels = bits / math.log2(spec.classes)
    queries = math.ceil(spec.n / labels - 1e-9) if labels > 0 else 0
    return Capacity(labels, bits, math.nan, queries, binds, width)


def distinct_answers(low: float, high: float, decimals: int) -> int:
    """Return the number of different scores from ``low`` to ``high`` that can appear at so many decimals.

    Examples:
        >>> distinct_answers(0, 1, 5), distinct_answers(-1, 1, 2), distinct_answers(0, 0.004, 2)
        (100001, 201, 1)
    """
    check_integer(decimals, "decimals", least=0, most=300)
    low, high = check_number(low, "low"), check_number(high, "high")
    step = Fraction(1, 10**decimals)
    # The nearest multiples of the step; at a tie either of them may be shown.
    lowest_step = math.ceil(Fraction(low) / step - Fraction(1, 2))
    highest_step = math.floor(Fraction(high) / step + Fraction(1, 2))
    return highest_step - lowest_step + 1


def information_bound(n: int, *, low: float, high: float, decimals: int | None, classes: int = 2) -> Capacity:
    """Return the most labels per query that a score of this range and these decimals reveals, whatever the metric.

    Answers that are one of m numbers tell ``log2 m`` bits at most, and a label of K classes holds ``log2 K``. So
    Q queries, adaptive or not, determine no more than ``Q·log2 m / log2 K`` labels. Without decimals a score counts as
    one double, 64 bits.

    Examples:
        >>> print(information_bound(2201, low=0, high=1, decimals=5))
        at most 16.61 labels per query (rounding limits), so at least 133 queries
    """
    return capacity(OracleSpec(KnownRange(low, high), n=n, classes=classes, decimals=decimals))


def _loss_range(spec: OracleSpec) -> tuple[float, float]:
    """Return the loss range R, and the divisor that turns a sum over rows into an answer."""
    if spec.name in ("accuracy", "f1"):
        return 1.0, float(spec.most_scored)
    if spec.name == "auc":
        return 1.0, float(spec.n)
    units = float(spec.most_scored) if spec.reduction == "mean" else 1.0
    return spec.loss().largest, units


def _bounded_noise_bits(spec: OracleSpec, span: float, units: float, fixed: float) -> float:
    if spec.name in ("accuracy", "f1"):
        n_answers = spec.most_scored + 1 if spec.scored != "unknown" else spec.n**2
        return math.log2(min(n_answers, 1 + 1 / (2 * fixed)) if fixed else n_answers)
    if spec.name == "auc":
        n_answers = spec.n**2 / 2 + 1
        return math.log2(min(n_answers, 1 + 1 / (2 * fixed)) if fixed else n_answers)
    if not math.isfinite(span):
        # Only the mantissa of the answer is left.
        return float(np.finfo(spec.float_dtype).nmant + 1)
    return math.log2(1 + span * spec.most_scored / units / (2 * fixed)) if fixed else math.inf


def _smallest_float_error(spec: OracleSpec, span: float) -> float:
    """Return the smallest error of the oracle's floats: half a unit in the last place of an answer of n idle rows."""
    if not math.isfinite(span):
        return 0.0
    idle = float(spec.loss().table(spec.loss().predict(np.zeros(1), np.arange(spec.classes)))[0, 0])
    total = spec.n * max(idle, 1e-12)
    rounding = float(float_errors.mean_rounding(spec.n, total, spec.float_dtype))
    return rounding / (spec.n if spec.reduction == "mean" else 1.0)


def max_accuracy(spec: OracleSpec, queries: int) -> float:
    """Return the mean accuracy that no attacker with this many queries exceeds; 1 where no bound is known.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> round(max_accuracy(OracleSpec(n=2201, noise=0.652, noise_kind="gaussian"), 100), 3)
        0.55
        >>> max_accuracy(OracleSpec(n=2201, clip=None, noise=0.652, noise_kind="gaussian"), 100)
        1.0
    """
    bounds = [counting_bound(spec, queries)]
    effect = max_label_effect(spec)
    if spec.noise_kind != "bounded" and spec.noise and math.isfinite(effect):
        bounds.append(
            chance_accuracy(spec)
            + (1 - chance_accuracy(spec)) * total_variation(spec, effect, queries)
            + imbalance_probability(spec)
        )
    return min(1.0, *bounds)


def chance_accuracy(spec: OracleSpec) -> float:
    """Accuracy of guessing."""
    return 1 / spec.classes


def total_variation(spec: OracleSpec, distance: float, queries: int) -> float:
    """Return the total variation between all answers under two labels of a row, at most ``distance`` apart each.

    Gaussian noise: 2Φ(√Q·one/(2σ)) - 1 (Dong, Roth, Su, "Gaussian differential privacy", 2022). Laplace noise: at
    most √(1 - ρ^2Q), with ρ = exp(-t)(1 + t), t = one/(2b), the affinity of two answers.
    """
    if spec.noise_kind == "gaussian":
        return 2 * _STANDARD_NORMAL.cdf(math.sqrt(queries) * distance / (2 * spec.noise)) - 1
    t = distance / (2 * spec.noise)
    return math.sqrt(max(-math.expm1(2 * queries * (math.log1p(t) - t)), 0.0))


def max_label_effect(spec: OracleSpec) -> float:
    """Return the largest change of an answer by one label (for F1 and AUC: unless `imbalance_probability`).

    F1 and AUC are ratios over the ones (and zeros) among the other labels, which number a quarter of the rows at
    least but in rare cases.
    """
    m = spec.most_scored
    quarter = (m - 1) / 4
    if spec.name in COUNT_METRICS:
        ratios = {"accuracy": 1 / m, "f1": 2 / max(quarter, 1.0), "auc": 1 / (quarter + 1)}
        return min(ratios[spec.name], 1.0)
    if not spec.adds_up:
        return math.inf  # one label more or less of a rare class may change such a ratio by any amount
    loss_difference = max_loss_difference(spec)
    if spec.reduction == "sum":
        return loss_difference
    # The mean over weighted rows: both its parts move, and the weights may all be the smaller one.
    weights = spec.class_weight or (1.0,)
    return loss_difference * max(weights) / (m * min(weights))


def imbalance_probability(spec: OracleSpec) -> float:
    """Return the probability that labels are less balanced than `max_label_effect` assumes (Hoeffding)."""
    sides = {"f1": 1, "auc": 2}.get(spec.name, 0)
    return sides * math.exp(-(spec.most_scored - 1) / 8)


def max_loss_difference(spec: OracleSpec) -> float:
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


def answer_range(spec: OracleSpec) -> float:
    """Return the largest distance of two answers to the same query, over all labels."""
    metric = spec.metric
    if isinstance(metric, Evaluated | KnownRange):
        return metric.high - metric.low
    if spec.name in _METRIC_RANGES:
        return _METRIC_RANGES[spec.name]
    return max_loss_difference(spec) * (spec.most_scored if spec.reduction == "sum" else 1.0)


def answer_bits(spec: OracleSpec) -> float:
    """Most bits that one answer can tell: the logarithm of the number of answers there are."""
    if spec.decimals is None or not math.isfinite(answer_range(spec)):
        return FLOAT_BITS
    return min(math.log2(2 + answer_range(spec) * 10.0**spec.decimals), FLOAT_BITS)


def required_bits(spec: OracleSpec, accuracy: float) -> float:
    """Bits needed to be this accurate about all rows (Fano)."""
    wrong = 1 - accuracy
    entropy = sum(-p * math.log2(p) for p in (accuracy, wrong) if p > 0)
    return spec.most_scored * (math.log2(spec.classes) - entropy - wrong * math.log2(max(spec.classes - 1, 1)))


def counting_bound(spec: OracleSpec, queries: int) -> float:
    """Return the accuracy for which all answers together carry just enough bits."""
    available_bits = queries * answer_bits(spec)
    low, high = chance_accuracy(spec), 1.0
    if required_bits(spec, high) <= available_bits:
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if required_bits(spec, middle) <= available_bits else (low, middle)
    return high
