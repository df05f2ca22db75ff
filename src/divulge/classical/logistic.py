"""Binary logistic regression with a penalty on the weights, for dense and sparse rows.

Shapes: ``n`` rows, ``d`` columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from scipy import optimize, sparse

    Floats = NDArray[np.floating[Any]]
    Product = Callable[[Floats], Floats]
else:
    optimize = lazy.module("scipy.optimize")
    sparse = lazy.module("scipy.sparse")

_MOST_STEPS = 1000
_TOLERANCE = 1e-4  # of every part of the mean loss's gradient; of its length, beside that at the start, in Newton's


@dataclass(frozen=True, slots=True, eq=False)
class Logistic:
    """Log-odds that are linear in the columns.

    Args:
        weights: ``[d]``.
        constant: the log-odds of a row of zeros.
    """

    weights: Floats
    constant: float

    def log_odds(self, rows: Any) -> Floats:
        """Log-odds ``[n]`` of rows ``[n, d]``."""
        return rows @ self.weights + self.constant


@dataclass(frozen=True, slots=True, eq=False)
class Standard:
    """Columns moved and scaled to mean 0 and variance 1, as those that it was made from.

    Args:
        centre: ``[d]``.
        scale: ``[d]``; 1 of a column that does not vary.
    """

    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, rows: Floats) -> Standard:
        """As the columns of ``rows`` need it.

        Examples:
            >>> Standard.of(np.array([[1.0, 5.0], [3.0, 5.0]]))(np.array([[2.0, 6.0]]))
            array([[0., 1.]])
        """
        centre, variance = rows.mean(axis=0), rows.var(axis=0)
        # What a column of equal numbers varies by, which are rounded as they are added up.
        tiny = len(rows) * np.finfo(np.float64).eps
        rounding = tiny * variance + (tiny * centre) ** 2
        return cls(centre, np.where(variance <= rounding, 1.0, np.sqrt(variance)))

    def __call__(self, rows: Floats) -> Floats:
        """Rows ``[n, d]`` in these units."""
        return (rows - self.centre) / self.scale


def fit(rows: Any, truth: Any, *, strength: float = 1.0, balanced: bool = False) -> Logistic:
    """The least of ``|w|²/2 + strength·Σ loss``, found by L-BFGS, or by Newton's method where the rows are sparse.

    With many columns, a product with the second derivatives costs as little as one with the rows, and few are needed.

    Args:
        rows: dense or sparse, ``[n, d]``.
        truth: 0 and 1, or False and True, both of them, ``[n]``.
        strength: what the losses weigh beside the penalty; the constant has none.
        balanced: whether both classes weigh the same, however many rows they have.

    Examples:
        >>> found = fit(np.array([[-2.0], [-1.0], [1.0], [2.0]]), [False, False, True, True])
        >>> found.log_odds(np.array([[0.0], [3.0]])).round(1) + 0.0
        array([0., 3.])
    """
    wanted = np.asarray(truth, dtype=np.float64)
    ones = wanted.mean()
    weight = np.where(wanted > 0, 0.5 / ones, 0.5 / (1 - ones)) if balanced else np.ones(len(wanted))
    weight /= len(wanted)  # weights that are balanced sum to as much as weights of 1
    penalty = 1.0 / (strength * len(wanted))

    def loss(at: Floats) -> tuple[float, Floats]:
        odds = rows @ at[:-1] + at[-1]
        shrunk = np.exp(-np.abs(odds))
        value = weight @ (np.log1p(shrunk) + np.maximum(odds, 0.0) - wanted * odds)
        away = weight * (np.where(odds >= 0, 1.0, shrunk) / (1.0 + shrunk) - wanted)
        slope = np.append(rows.T @ away + penalty * at[:-1], away.sum())
        return float(value + 0.5 * penalty * (at[:-1] @ at[:-1])), slope

    start = np.zeros(rows.shape[1] + 1)
    if sparse.issparse(rows):
        least = _newton(loss, lambda at: _curvature(rows, weight, penalty, at), start)
    else:
        settings = {"maxiter": _MOST_STEPS, "maxls": 50, "gtol": _TOLERANCE, "ftol": 64 * np.finfo(np.float64).eps}
        least = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=settings).x
    return Logistic(least[:-1], float(least[-1]))


def _curvature(rows: Any, weight: Floats, penalty: float, at: Floats) -> Product:
    """What multiplies a vector with the second derivatives of the loss at ``at``."""
    shrunk = np.exp(-np.abs(rows @ at[:-1] + at[-1]))
    bend = weight * shrunk / (1.0 + shrunk) ** 2

    def times(step: Floats) -> Floats:
        along = bend * (rows @ step[:-1] + step[-1])
        return np.append(rows.T @ along + penalty * step[:-1], along.sum())

    return times


def _newton(
    loss: Callable[[Floats], tuple[float, Floats]], curvature: Callable[[Floats], Product], at: Floats
) -> Floats:
    """Newton's method for a convex loss, each step by conjugate gradients and as exact as it is worth."""
    value, slope = loss(at)
    first = np.linalg.norm(slope)
    for _ in range(_MOST_STEPS):
        share = np.linalg.norm(slope) / first if first > 0 else 0.0
        if share <= _TOLERANCE:
            break
        step = _solved(curvature(at), -slope, min(0.5, np.sqrt(share)))
        after, length = loss(at + step), 1.0
        while after[0] > value + 1e-4 * length * (slope @ step):
            if length < 1e-10:  # as near as these floats come
                return at
            length /= 2
            after = loss(at + length * step)
        at = at + length * step
        value, slope = after
    return at


def _solved(times: Product, wanted: Floats, share: float) -> Floats:
    """Conjugate gradients: ``times(x) ≈ wanted``, until what is left is at most this share of it in length."""
    solution, left = np.zeros_like(wanted), wanted
    along, size = left, float(left @ left)
    goal = share**2 * size
    for _ in range(_MOST_STEPS):
        if size <= goal:
            break
        pushed = times(along)
        step = size / float(along @ pushed)
        solution, left = solution + step * along, left - step * pushed
        before, size = size, float(left @ left)
        along = left + size / before * along
    return solution
