"""Which places on the margin the weights cannot do without: linear programs over the KKT equations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, eye_array, hstack, vstack

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult
    from scipy.sparse import csr_array

    from divulge.margin import ShallowReLU
    from divulge.types import Floats, Ints


def least_multipliers(
    net: ShallowReLU, places: Floats, sign: Floats, owner: Ints, count: int, *, kink: float, slack: float
) -> Floats:
    """The least total λ of each group of places, over all ways in which the places rebuild the weights, ``[count]``.

    At a KKT point θ = Σ λ_i·y_i·∇Φ(x_i) with λ ≥ 0 and every x_i of positive λ on the margin. If all such x_i are
    among ``places``, a group whose least total is positive holds a training point: no training set without one
    gives these weights. Clarke subgradients at kinks are free, as in `margin.kkt`; a point inside a linear piece is
    a combination of the piece's two ends, so ends may stand for what lies between them.

    Args:
        net: the network, of one input; its neurons merged, for speed.
        places: positions, ``[p]``.
        sign: their labels, -1 or +1, ``[p]``.
        owner: the group of each place, -1 for none, ``[p]``.
        count: number of groups.
        kink: a neuron whose |w·x + b| is below this share of ‖[w, b]‖·‖[x, 1]‖ bends at x.
        slack: how far each weight may be missed, as a share of ‖θ‖.

    Returns:
        0 where a group can be left out, and everywhere if no multipliers rebuild the weights within the slack.

    Examples:
        >>> from divulge import margin
        >>> net = margin.solve([[-1.0], [1.0]], [-1, 1]).net
        >>> at = np.array([-1.0, 1.0])
        >>> least_multipliers(net, at, at, np.array([0, 1]), 2, kink=1e-6, slack=1e-7).round(3)
        array([0.707, 0.707])
    """
    gradients, kinks = _gradients(net, places, sign, kink)
    weights = np.concatenate([net.augmented.ravel(), net.v])
    reach = slack * float(np.linalg.norm(weights))
    # A derivative at a kink lies in [0, 1]: κ ≤ λ of its place.
    free = hstack([-eye_array(len(places)).tocsr()[kinks], eye_array(len(kinks))])
    left = vstack([gradients, -gradients, free]).tocsr()
    right = np.concatenate([weights + reach, reach - weights, np.zeros(len(kinks))])

    def least(groups: Ints) -> OptimizeResult:
        cost = np.concatenate([np.isin(owner, groups), np.zeros(len(kinks))])
        return linprog(cost, A_ub=left, b_ub=right, bounds=(0, None), method="highs")

    lowest = np.zeros(count)
    anyhow = least(np.zeros(0, np.int64))
    if anyhow.status == 0:
        # Groups that one solution leaves out have 0.
        for group in np.unique(owner[(anyhow.x[: len(places)] > 0) & (owner >= 0)]):
            best = least(group)
            lowest[group] = best.fun if best.status == 0 else 0.0
    return lowest


def _gradients(net: ShallowReLU, places: Floats, sign: Floats, kink: float) -> tuple[csr_array, Ints]:
    """y·∇Φ of each place without its kinks, then one column per kink, ``[3k, p + kinks]``; the place of each kink."""
    points = np.column_stack([places, np.ones(len(places))])
    before = points @ net.augmented.T
    size = np.linalg.norm(points, axis=1)[:, None] * np.linalg.norm(net.augmented, axis=1)
    bends = np.abs(before) <= kink * size
    slope = np.where(bends, 0.0, before > 0)
    inner = (sign[:, None] * slope * net.v)[:, :, None] * points[:, None]
    outer = sign[:, None] * np.maximum(before, 0.0)
    smooth = np.concatenate([inner.reshape(len(places), -1), outer], axis=1).T
    place, neuron = np.nonzero(bends)
    pull = (sign[place] * net.v[neuron])[:, None] * points[place]
    column = np.arange(len(place))
    free = coo_array(
        (pull.ravel(), (np.column_stack([2 * neuron, 2 * neuron + 1]).ravel(), np.repeat(column, 2))),
        (smooth.shape[0], len(place)),
    )
    return hstack([coo_array(smooth), free]).tocsr(), place
