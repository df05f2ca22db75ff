"""Principal components, exact or by a random search, and the directions in which a sparse table is largest.

Shapes: ``n`` rows, ``d`` columns, ``k`` components.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

_BESIDE, _ROUNDS = 10, 7  # directions more than asked for, and products with the table and back that sharpen them


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """A projection on principal components; called with points ``[n, d]``, it gives ``[n, k]``.

    Args:
        centre: mean of the points that it was made from, ``[d]``.
        axes: orthonormal, the direction of the greatest variance first, ``[k, d]``.
        variances: of those points along each, ``[k]``.
    """

    centre: Floats
    axes: Floats
    variances: Floats

    def __call__(self, points: Floats) -> Floats:
        """Coordinates ``[n, k]``."""
        return (points - self.centre) @ self.axes.T


def principal(points: Floats, width: int) -> Components:
    """The first principal components, exactly.

    Args:
        points: ``[n, d]``, at least 2.
        width: how many, k.

    Examples:
        >>> found = principal(np.array([[0.0, 0.0], [2.0, 1.0], [4.0, 2.0]]), 1)
        >>> found.axes.round(3), found.variances
        (array([[0.894, 0.447]]), array([5.]))
    """
    centre = points.mean(axis=0)
    _, size, axes = np.linalg.svd(points - centre, full_matrices=False)
    return Components(centre, _signed(axes[:width]), size[:width] ** 2 / (len(points) - 1))


def approximate(points: Floats, width: int, rng: np.random.Generator) -> Components:
    """`principal` by a random search: much sooner where there are many columns.

    Args:
        points: ``[n, d]``, at least 2.
        width: how many, at most n and d.
        rng: of the search.
    """
    centre = points.mean(axis=0)
    axes, size = leading(points - centre, width, rng)
    return Components(centre, axes, size**2 / (len(points) - 1))


def leading(table: Any, width: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The first right singular vectors of a table, ``[k, d]``, and its singular values ``[k]``, by a random search.

    Args:
        table: dense or sparse, ``[n, d]``.
        width: how many, at most n and d.
        rng: of the search.

    References:
        Halko, Martinsson & Tropp, Finding structure with randomness, SIAM Review 2011, algorithms 4.4 and 5.1.

    Examples:
        >>> axes, size = leading(np.diag([3.0, 2.0, 1.0]), 2, np.random.default_rng(0))
        >>> axes.round(6) + 0.0, size
        (array([[1., 0., 0.], [0., 1., 0.]]), array([3., 2.]))
    """
    rows, columns = table.shape
    side = rng.normal(size=(columns, min(width + _BESIDE, rows, columns)))
    for _ in range(_ROUNDS):
        side = np.linalg.qr(table.T @ np.linalg.qr(table @ side)[0])[0]
    span = np.linalg.qr(table @ side)[0]
    _, size, axes = np.linalg.svd((table.T @ span).T, full_matrices=False)
    return _signed(axes[:width]), size[:width]


def _signed(axes: Floats) -> Floats:
    """Each axis so that its largest entry is positive: its sign is nobody's choice."""
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return axes * np.where(largest < 0, -1.0, 1.0)
