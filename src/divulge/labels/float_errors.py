"""Rigorous bounds on what the oracle's own floating-point sum may add to an answer.

Two bounds. `summation_error` holds for any values: an element that passes through d additions contributes at most
d rounding errors. `grid_error` is for values chosen on a common *grid* (all multiples of g with partial sums below
2^53·g are summed without any error): it follows NumPy's pairwise tree, or a plain loop, node by node, with how
far each partial sum can lie from the grid; deviations smaller than half a unit in the last place vanish.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, TypeAlias

import flint
import numpy as np

if TYPE_CHECKING:
    from divulge.types import Floats

_MIN_SPACING = 1e-40
_PRECISION_BITS = 120  # of ball arithmetic

# Of a partial sum: lowest and highest possible grid value, largest distance of the float from it, and the power of
# two (at most the grid) that this distance is a multiple of; 0 where it can be anything.
Node: TypeAlias = "tuple[Floats, Floats, Floats, Floats]"


def depth(n: int, order: str) -> int:
    """Largest number of additions that one of n elements passes through.

    Examples:
        >>> depth(2201, "pairwise"), depth(2201, "sequential")
        (30, 2201)
    """
    if order == "sequential" or n < 8:
        return n
    return 15 + 3 + 7 + max(0, math.ceil(math.log2(n / 120)))


def depths(n: int, order: str) -> Floats:
    """Number of additions that each of n elements passes through, in NumPy's pairwise tree or a plain loop.

    Examples:
        >>> depths(9, "pairwise")
        array([4., 4., 4., 4., 4., 4., 4., 4., 1.])
    """
    if order == "sequential" or n < 8:
        return np.arange(n, 0, -1, dtype=float)
    if n > 128:
        half = n // 2 - n // 2 % 8
        return np.concatenate([depths(half, order), depths(n - half, order)]) + 1
    rounds = n // 8
    # Lane sums first (the first element of a lane passes through all of its additions), then three
    # additions to join the lanes, then the rest one by one.
    lanes = np.repeat(np.minimum(np.arange(rounds, 0, -1), rounds - 1), 8)
    n_remaining = n % 8
    return np.concatenate([lanes + 3 + n_remaining, np.arange(n_remaining, 0, -1)]).astype(float)


def log_error(probabilities: Floats, losses: Floats) -> Floats:
    """Return a rigorous upper bound on ``|-ln p - loss|`` for each pair of floats; probabilities are above 0.

    Ball arithmetic on the exact dyadic numbers (Arb, by python-flint).

    Examples:
        >>> bool(0 < log_error(np.array([0.3]), -np.log([0.3]))[0] < 1e-16)
        True
    """
    with flint.ctx.workprec(_PRECISION_BITS):
        off = [
            float((-flint.arb(p).log() - flint.arb(loss)).abs_upper())
            for p, loss in zip(np.ravel(probabilities).tolist(), np.ravel(losses).tolist(), strict=True)
        ]
    return np.nextafter(np.array(off), math.inf).reshape(np.shape(losses))


def unit_roundoff(dtype: str) -> float:
    """Half the machine epsilon: the relative error of one rounding."""
    return float(np.finfo(dtype).eps) / 2


def summation_error(n: int, total: Any, order: str, dtype: str) -> Any:
    """Bound the error, as a sum, of an oracle that adds up n losses of at most ``total`` and divides by n.

    Two further roundings stand for the division and for forming the answer.
    """
    unit = unit_roundoff(dtype)
    steps = depth(n, order) + 2
    return total * (steps * unit / (1 - steps * unit))


def mean_rounding(n: int, total: Any, dtype: str) -> Any:
    """Return the error, as a sum, of the mean's own rounding: n half units in the last place of ``total / n``."""
    float_type = np.dtype(dtype).type
    return 0.5 * n * np.spacing(np.asarray(total / n, dtype=float_type)).astype(np.float64)


def grid_error(low: Floats, high: Floats, deviation: Floats, grid: float, order: str, dtype: str) -> Floats:
    """Bound |float sum - sum of the grid values| for each query.

    Args:
        low: smallest grid value each row can have, ``[q, n]``.
        high: largest, ``[q, n]``.
        deviation: how far each row's float can lie from its grid value, ``[q, n]``.
        grid: the g all grid values are multiples of.
        order: "pairwise" or "sequential".
        dtype: the floats of the sum.

    Examples:
        >>> grid_error(np.ones((1, 9)), np.ones((1, 9)), np.full((1, 9), 1e-17), 0.5, "pairwise", "float64")
        array([0.])
    """
    add = functools.partial(_add_nodes, grid=grid, dtype=dtype)
    quantum = np.where(deviation == 0, grid, 0.0)

    def part(start: int, stop: int) -> Node:
        return low[:, start:stop], high[:, start:stop], deviation[:, start:stop], quantum[:, start:stop]

    def column(node: Node, index: int) -> Node:
        return node[0][:, index], node[1][:, index], node[2][:, index], node[3][:, index]

    def loop(start: int, stop: int, total: Node | None = None) -> Node:
        nodes = part(start, stop)
        total = column(nodes, 0) if total is None else add(total, column(nodes, 0))
        for index in range(1, stop - start):
            total = add(total, column(nodes, index))
        return total

    def pairwise(start: int, stop: int) -> Node:
        size = stop - start
        if size > 128:
            half = size // 2 - size // 2 % 8
            return add(pairwise(start, start + half), pairwise(start + half, stop))
        if size < 8:
            return loop(start, stop)
        lanes = part(start, start + 8)
        for lane_start in range(start + 8, start + size - size % 8, 8):
            lanes = add(lanes, part(lane_start, lane_start + 8))
        r = [column(lanes, index) for index in range(8)]
        total = add(add(add(r[0], r[1]), add(r[2], r[3])), add(add(r[4], r[5]), add(r[6], r[7])))
        return loop(stop - size % 8, stop, total) if size % 8 else total

    n = low.shape[1]
    return (loop(0, n) if order == "sequential" else pairwise(0, n))[2]


def _add_nodes(a: Node, b: Node, *, grid: float, dtype: str) -> Node:
    """Return the possible results of one addition, and how far each can then lie from the grid."""
    low, high, deviation, quantum = a[0] + b[0], a[1] + b[1], a[2] + b[2], np.minimum(a[3], b[3])
    step = _spacing(high + deviation, dtype)
    # Nothing is rounded when all that is added has a place in the last digits of the result.
    exact = (quantum >= step) & (grid >= step)
    # A sum less than half way from its grid value to the next float is rounded to the grid value, itself a float.
    returns_to_grid = (deviation < _spacing_below(low, dtype) / 2) & (grid >= step)
    rounded = deviation + np.where(grid >= step, np.minimum(step / 2, deviation), step / 2)
    # The result is a float and its grid value a multiple of the grid, so they differ by a multiple of the finer.
    finer_spacing = np.minimum(_spacing(np.maximum(low - 2 * (deviation + step), 0.0), dtype), grid)
    on_grid = np.where(
        finer_spacing > _MIN_SPACING,
        np.floor(rounded / np.maximum(finer_spacing, _MIN_SPACING)) * finer_spacing,
        rounded,
    )
    total = np.where(exact, deviation, np.where(returns_to_grid, 0.0, on_grid))
    return low, high, total, np.where(total == 0, grid, np.where(exact, quantum, finer_spacing))


def _spacing(values: Floats, dtype: str) -> Floats:
    return np.spacing(values.astype(dtype)).astype(np.float64)


def _spacing_below(values: Floats, dtype: str) -> Floats:
    """Distance to the next smaller float."""
    floats = values.astype(dtype)
    return (floats - np.nextafter(floats, floats.dtype.type(-np.inf))).astype(np.float64)
