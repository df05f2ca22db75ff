"""The most that one answer can leak."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from divulge.labels import accuracy_bounds, floats
from divulge.labels.evaluated import Evaluated, KnownRange
from divulge.labels.spec import OracleSpec
from divulge.validation import check_instance, check_integer, check_number


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one query can leak.

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
    """Upper bound on what one answer of this oracle says about the labels.

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
        return _by_range(spec)
    span, units = _range(spec)
    counting = spec.name in ("accuracy", "f1", "auc")
    floor = 0.0 if counting else _float_floor(spec, span)
    fixed = spec.tolerance + floor
    per_label = span / units
    if spec.noise_kind != "bounded":
        signal = spec.most_scored * (per_label / 2) ** 2
        bits = 0.5 * math.log2(1 + signal / spec.sigma**2) + (0.11 if spec.noise_kind == "laplace" else 0.0)
        binds = "noise"
        if fixed and (rounded := math.log2(1 + span * spec.most_scored / units / (2 * fixed))) < bits:
            bits, binds = rounded, "rounding" if spec.rounding > floor else "float arithmetic"
    else:
        bits = _levels(spec, span, units, fixed)
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


def _by_range(spec: OracleSpec) -> Capacity:
    """What the range of a score, its decimals and its noise alone leave room for."""
    width = accuracy_bounds.spread(spec)
    bits, binds = accuracy_bounds.bits(spec), "rounding" if spec.decimals is not None else "float arithmetic"
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
    """Number of different scores between ``low`` and ``high`` that a rounding to so many decimals can show.

    Examples:
        >>> distinct_answers(0, 1, 5), distinct_answers(-1, 1, 2), distinct_answers(0, 0.004, 2)
        (100001, 201, 1)
    """
    check_integer(decimals, "decimals", least=0, most=300)
    low, high = check_number(low, "low"), check_number(high, "high")
    step = Fraction(1, 10**decimals)
    # The nearest multiples of the step; at a tie either of them may be shown.
    first = math.ceil(Fraction(low) / step - Fraction(1, 2))
    last = math.floor(Fraction(high) / step + Fraction(1, 2))
    return last - first + 1


def information_bound(n: int, *, low: float, high: float, decimals: int | None, classes: int = 2) -> Capacity:
    """The most labels per query that a score of this range and these decimals can tell, whatever the metric.

    Answers that are one of m numbers tell ``log2 m`` bits at most, and a label of K classes holds ``log2 K``. So
    Q queries, adaptive or not, determine no more than ``Q·log2 m / log2 K`` labels. Without decimals a score counts as
    one double, 64 bits.

    Examples:
        >>> print(information_bound(2201, low=0, high=1, decimals=5))
        at most 16.61 labels per query (rounding limits), so at least 133 queries
    """
    return capacity(OracleSpec(KnownRange(low, high), n=n, classes=classes, decimals=decimals))


def _range(spec: OracleSpec) -> tuple[float, float]:
    """R, and what a sum over rows is divided by to become an answer."""
    if spec.name in ("accuracy", "f1"):
        return 1.0, float(spec.most_scored)
    if spec.name == "auc":
        return 1.0, float(spec.n)
    units = float(spec.most_scored) if spec.reduction == "mean" else 1.0
    return spec.loss().largest, units


def _levels(spec: OracleSpec, span: float, units: float, fixed: float) -> float:
    if spec.name in ("accuracy", "f1"):
        most = spec.most_scored + 1 if spec.scored != "unknown" else spec.n**2
        return math.log2(min(most, 1 + 1 / (2 * fixed)) if fixed else most)
    if spec.name == "auc":
        most = spec.n**2 / 2 + 1
        return math.log2(min(most, 1 + 1 / (2 * fixed)) if fixed else most)
    if not math.isfinite(span):
        # Only the mantissa of the answer is left.
        return float(np.finfo(spec.float_dtype).nmant + 1)
    return math.log2(1 + span * spec.most_scored / units / (2 * fixed)) if fixed else math.inf


def _float_floor(spec: OracleSpec, span: float) -> float:
    """Smallest error the oracle's own floats add: half a unit in the last place of an answer of n idle rows."""
    if not math.isfinite(span):
        return 0.0
    idle = float(spec.loss().table(spec.loss().predict(np.zeros(1), np.arange(spec.classes)))[0, 0])
    total = spec.n * max(idle, 1e-12)
    rounding = float(floats.answer_rounding(spec.n, total, spec.float_dtype))
    return rounding / (spec.n if spec.reduction == "mean" else 1.0)
