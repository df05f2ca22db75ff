"""Losses on probabilities: logarithmic, Brier's, and the Bregman divergences of the paper."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.labels.loss import Loss, bisect, squared

if TYPE_CHECKING:
    from divulge.types import Array, Floats, Ints


def log_loss(classes: int, clip: float, dtype: str, submission: str) -> Loss:
    """The logarithmic loss, computed in floats of ``dtype`` on probabilities clipped at ``clip`` (0: not clipped)."""
    kind = np.dtype(dtype)
    low = max(clip, float(np.finfo(kind).tiny))
    # The largest value below 1 that the clip, or the grid of the floats, allows is 1 - low or 1 itself.
    span = math.log1p(-low) - math.log(low) if clip else -math.log(low) * (1 - 1e-15)

    def log(predictions: Array) -> Floats:
        inside = np.clip(predictions, kind.type(clip), kind.type(1) - kind.type(clip)) if clip else predictions
        with np.errstate(divide="ignore"):
            return -np.log(inside).astype(np.float64)

    def rows(gaps: Floats, digits: Ints) -> Array:
        return probabilities(gaps, digits).astype(kind)

    def positive(gaps: Floats, digits: Ints) -> Array:
        return probabilities(gaps, digits)[:, 1].astype(kind)

    if submission == "positive":
        # Floats end at 1.1e-16 below 1 but not near 0: no p makes label 0 cost more than -ln of that, unless p is 1.
        return Loss(
            span * (1 - 1e-15),
            positive,
            lambda p: np.stack([log(kind.type(1) - _as(p, kind)), log(_as(p, kind))], 1),
            (),
            opposite=min(span * (1 - 1e-15), -math.log(float(np.finfo(kind).epsneg))),
        )

    def limit(digits: Ints) -> float:
        # The loss of the last digit d is gap·d + ln Σ exp(-gap·digit); its probability must not fall below `low`.
        top = int(digits.max())
        gap = -math.log(low) / top
        for _ in range(60):
            gap = (-math.log(low) - math.log(np.exp(-gap * digits).sum())) / top
        return max(gap * (1 - 1e-12), 0.0)

    return Loss(span * (1 - 1e-15), rows, lambda p: log(_as(p, kind)), (classes,), limit=limit if classes > 2 else None)


def _as(predictions: object, kind: np.dtype[Any]) -> Array:
    return np.asarray(predictions, dtype=kind)


def probabilities(gaps: Floats, digits: Ints) -> Floats:
    """Rows ``[n, K]`` with ``-ln p[c] = base + gap·digits[c]``; each column computed for itself.

    Examples:
        >>> probabilities(np.array([0.0, math.log(3)]), np.arange(2)).round(6)
        array([[0.5 , 0.5 ],
               [0.75, 0.25]])
    """
    exponents = -np.multiply.outer(gaps, digits.astype(float))
    exponents -= exponents.max(axis=1, keepdims=True)
    raised = np.exp(exponents)
    return raised / raised.sum(axis=1, keepdims=True)


def brier(classes: int, submission: str) -> Loss:
    """Brier's loss: squared differences of probabilities and labels."""
    # Two classes: (y - p)², as scikit-learn has it, which is half the sum over classes; more: that sum.
    if classes == 2 and submission == "positive":
        return replace(squared(1.0, 1.0), rests=True)
    half = 0.5 if classes == 2 else 1.0

    def rows(gaps: Floats, digits: Ints) -> Floats:
        return 1 / classes - np.multiply.outer(gaps, digits - digits.mean()) / (2 * half)

    def table(predictions: Any) -> Floats:
        p = np.asarray(predictions, dtype=float)
        return half * ((p**2).sum(axis=1, keepdims=True) - 2 * p + 1)

    def limit(digits: Ints) -> float:
        # No probability may fall below 0, for gaps of either sign.
        away = max(digits.max() - digits.mean(), digits.mean() - digits.min())
        return float(2 * half / (classes * away))

    return Loss(half * 4 / classes, rows, table, (classes,), limit=limit, term=2 * half)


def norm_like(alpha: float) -> Loss:
    """The Bregman divergence of ``h(θ) = θ^alpha``, summed over both classes."""

    def table(predictions: Any) -> Floats:
        q, p = np.asarray(predictions, dtype=float).T
        shared = (alpha - 1) * (p**alpha + q**alpha) + 1
        return np.stack([shared - alpha * q ** (alpha - 1), shared - alpha * p ** (alpha - 1)], axis=1)

    def rows(gaps: Floats, digits: Ints) -> Floats:
        p = bisect(lambda t: alpha * ((1 - t) ** (alpha - 1) - t ** (alpha - 1)), gaps * digits[1], 0.0, 1.0)
        return np.stack([1 - p, p], axis=1)

    return Loss(alpha * (1 - 1e-12), rows, table, (2,), term=alpha)


def itakura_saito() -> Loss:
    """Itakura and Saito's divergence on the probability p of the true class: ``1/p + ln p - 1`` (equation 7)."""

    # Summed over both classes, as the other divergences are, it would be infinite: -ln 0 at the false class.
    # The gap at θ = 1/(1 + e^t) is 2 sinh t - t.
    def gap(t: Floats) -> Floats:
        return 2 * np.sinh(t) - t

    def rows(gaps: Floats, digits: Ints) -> Floats:
        wanted = gaps * digits[1]
        # sinh t ≤ 2 sinh t - t ≤ 2 sinh t for t ≥ 0, which keeps the root between these two.
        far = float(np.arcsinh(np.abs(wanted).max(initial=0.0)))
        t = bisect(gap, wanted, -far, far) if far else np.zeros_like(wanted)
        return np.stack([1 / (1 + np.exp(-t)), 1 / (1 + np.exp(t))], axis=1)

    def table(predictions: Any) -> Floats:
        p = np.asarray(predictions, dtype=float)
        return 1 / p + np.log(p) - 1

    return Loss(math.inf, rows, table, (2,), term=1.0)
