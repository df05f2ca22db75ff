"""How far each point is from the nearest other one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

_BLOCK = 1024  # points that are compared with all others at a time


def nearest_other(points: Floats) -> Floats:
    """Euclidean distance of each point to the nearest other one, ``[n]``; 0 where there is no other.

    Args:
        points: ``[n, d]``.

    Examples:
        >>> nearest_other(np.array([[0.0], [3.0], [4.0]]))
        array([3., 1., 1.])
    """
    if len(points) < 2:
        return np.zeros(len(points))
    near_zero = points - points.mean(axis=0)
    squares = (near_zero**2).sum(axis=1)
    nearest = np.empty(len(points), dtype=np.int64)
    for start in range(0, len(points), _BLOCK):
        block = slice(start, start + _BLOCK)
        away = squares - 2 * near_zero[block] @ near_zero.T
        away[np.arange(len(away)), np.arange(start, start + len(away))] = np.inf
        nearest[block] = away.argmin(axis=1)
    # The products above only find the neighbour: differences of squares are not exact, less so far from zero.
    return np.linalg.norm(points - points[nearest], axis=1)
