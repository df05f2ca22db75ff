"""A regression tree that is grown until it gives back what it was grown on.

Shapes: ``n`` rows, ``d`` columns, ``m`` nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]
    Ints = NDArray[np.int64]


class _Split(NamedTuple):
    column: int
    threshold: float


@dataclass(frozen=True, slots=True, eq=False)
class RegressionTree:
    """Nodes, the root first; a row goes to ``below`` where its value in ``columns`` is at most ``thresholds``.

    Args:
        columns: ``[m]``.
        thresholds: ``[m]``.
        below: a node's first child, ``[m]``; a leaf's is the leaf itself.
        above: its second one, likewise.
        values: mean of the target in each node, ``[m]``.
    """

    columns: Ints
    thresholds: Floats
    below: Ints
    above: Ints
    values: Floats

    def predict(self, x: Floats) -> Floats:
        """Values ``[n]`` of rows ``[n, d]``."""
        at, rows = np.zeros(len(x), dtype=np.int64), np.arange(len(x))
        while (self.below[at] != at).any():
            low = x[rows, self.columns[at]] <= self.thresholds[at]
            at = np.where(low, self.below[at], self.above[at])
        return self.values[at]


def grow(x: Floats, target: Floats) -> RegressionTree:
    """A tree with the splits that leave the least squared error, until a leaf has one target or equal rows alone.

    Args:
        x: ``[n, d]``.
        target: ``[n]``.

    References:
        Breiman, Friedman, Olshen & Stone, Classification and regression trees, 1984, chapter 8.

    Examples:
        >>> tree = grow(np.array([[0.0, 1.0], [0.0, 2.0], [5.0, 1.0]]), np.array([1.0, 2.0, 1.0]))
        >>> tree.predict(np.array([[9.0, 1.4], [9.0, 1.6]]))
        array([1., 2.])
    """
    nodes: list[tuple[int, float, int, int, float]] = [(0, 0.0, 0, 0, float(target.mean()))]
    waiting = [(0, np.arange(len(x)))]
    while waiting:
        node, rows = waiting.pop()
        if (split := _split(x[rows], target[rows])) is None:
            continue
        low = x[rows, split.column] <= split.threshold
        children = (len(nodes), len(nodes) + 1)
        nodes[node] = (*split, *children, nodes[node][-1])
        for child, own in zip(children, (rows[low], rows[~low]), strict=True):
            nodes.append((0, 0.0, child, child, float(target[own].mean())))
            waiting.append((child, own))
    columns, thresholds, below, above, values = zip(*nodes, strict=True)
    return RegressionTree(*map(np.array, (columns, thresholds, below, above, values)))


def _split(x: Floats, target: Floats) -> _Split | None:
    """The best split of these rows; None where there is nothing to gain or no two rows differ."""
    if len(x) < 2 or (target == target[0]).all():
        return None
    order = np.argsort(x, axis=0, kind="stable")
    values = np.take_along_axis(x, order, axis=0)
    left = np.cumsum(target[order], axis=0)[:-1]
    count = np.arange(1, len(x))[:, None]
    explained = left**2 / count + (target.sum() - left) ** 2 / (len(x) - count)
    explained[values[:-1] == values[1:]] = -np.inf
    place, column = np.unravel_index(int(explained.argmax()), explained.shape)
    if explained[place, column] == -np.inf:
        return None
    low, high = values[place, column], values[place + 1, column]
    middle = low / 2 + high / 2
    return _Split(int(column), float(middle if low <= middle < high else low))
