"""KKT residuals of a network, and the multipliers that its weights reveal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize

from divulge.errors import InputError
from divulge.margin.shallow_relu import ShallowReLU, as_records, as_signs, augment, require_both_classes
from divulge.validation import check_bool, check_instance, check_number

if TYPE_CHECKING:
    from divulge.types import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Stationarity:
    """KKT residual and multipliers of a network for a training set.

    Args:
        residual: ‖θ - Σ λ_i·y_i·∇Φ(x_i)‖/‖θ‖ at the best λ ≥ 0 and the best Clarke subgradients.
        multipliers: that λ, ``[n]``; zero off the margin (complementary slackness).
        margin: min_i y_i·Φ(x_i).
        on_margin: bool ``[n]``, records with y_i·Φ(x_i) ≤ (1 + band)·margin.
        outputs: Φ(x_i), ``[n]``.
        slackness: Σ λ_i·(y_i·Φ(x_i)/margin - 1)/Σ λ_i, zero when the records that carry weight share one margin.
        kinks: number of (neuron, record) pairs where the derivative of the ReLU was free.
    """

    residual: float
    multipliers: Floats
    margin: float
    on_margin: Bools
    outputs: Floats
    slackness: float
    kinks: int


def kkt(
    net: ShallowReLU, x: object, y: object, *, clarke: bool = True, tolerance: float = 1e-6, band: float = 0.1
) -> Stationarity:
    """Compute the KKT residual of ``net`` for the training set ``(x, y)``.

    At a KKT point kinks sit *on* records, so the derivative of the ReLU there is any number in [0, 1] (Clarke).
    Fixing it at 0 or 1 reports residuals of 0.1 to 1 for exact KKT points. Networks trained by gradient descent
    keep 0.1 and more at margin 100: a small residual proves stationarity, a larger one refutes nothing.

    Args:
        net: the network.
        x: the training records ``[n, d]``.
        y: their labels -1 and +1.
        clarke: False fixes the derivative at 1 where w·x + b > 0 and at 0 elsewhere, for comparison.
        tolerance: |w_j·x + b_j| below this share of ‖[w_j, b_j]‖·‖[x, 1]‖ counts as a kink.
        band: how far above the margin still counts as on it; λ is zero beyond.

    Raises:
        divulge.InputError: another dimension, labels that are not ±1, one class alone, a record that the network
            misclassifies (no margin then exists), a network that is zero everywhere.

    Examples:
        >>> from divulge.margin.shallow_relu import ShallowReLU
        >>> net = ShallowReLU([[0.5], [-0.5]], [0.5, 0.5], [2**-0.5, -(2**-0.5)])
        >>> bool(kkt(net, [[-1.0], [1.0]], [-1, 1]).residual < 1e-9)
        True
    """
    check_instance(net, "net", ShallowReLU, "a margin.ShallowReLU")
    check_bool(clarke, "clarke")
    data = as_records(x, "x", net.dimension)
    sign = as_signs(y, "y", len(data))
    require_both_classes(sign, "y")
    check_number(tolerance, "tolerance", above=0.0, below=1.0)
    check_number(band, "band", above=0.0)
    outputs = net(data)
    margins = outputs * sign
    wrong = np.flatnonzero(margins <= 0)
    if wrong.size:
        raise InputError(
            f"x: {wrong.size} records are misclassified (first: record {wrong[0]}, y·Φ = {margins[wrong[0]]:.3g}), "
            "so they have no margin and cannot be the whole training set of a network at a KKT point"
        )
    smallest_margin = float(margins.min())
    on_margin = margins <= (1.0 + band) * smallest_margin
    best = fit_multipliers(net, data[on_margin], sign[on_margin], tolerance if clarke else 0.0)
    multipliers = np.zeros(len(sign))
    multipliers[on_margin] = best.multipliers
    total = float(np.sum(multipliers))
    return Stationarity(
        residual=best.residual,
        multipliers=multipliers,
        margin=smallest_margin,
        on_margin=on_margin,
        outputs=outputs,
        slackness=float(multipliers @ (margins / smallest_margin - 1.0)) / total if total else 0.0,
        kinks=len(best.kinks),
    )


def multipliers(net: ShallowReLU, pool: object, y: object = None, *, tolerance: float = 1e-6) -> Floats:
    """Return the white-box membership score: the λ ≥ 0 with which the pool's gradients best rebuild the weights.

    Minimises ‖θ - Σ λ_i·y_i·∇Φ(x_i)‖ over λ ≥ 0 on the whole pool (the idea of Haim et al. 2022 and
    Golbari et al. 2025, solved exactly as one non-negative least-squares problem, with Clarke subgradients at
    kinks). Members carry weight, fresh records almost none: where outputs no longer separate the two (low
    dimension, real images) the multipliers still do.

    Args:
        net: the network.
        pool: candidates ``[n, d]``; it should contain the training set, other records may stand between.
        y: labels -1 and +1, ``[n]``; what the network itself answers when None.
        tolerance: what counts as a kink, as in ``kkt``.

    Returns:
        ``[n]``, larger = more member-like.

    Raises:
        divulge.InputError: another dimension, labels that are not ±1, a network that is zero everywhere.

    Examples:
        >>> from divulge.margin.shallow_relu import ShallowReLU
        >>> net = ShallowReLU([[0.5], [-0.5]], [0.5, 0.5], [2**-0.5, -(2**-0.5)])
        >>> multipliers(net, [[-1.0], [0.2], [1.0]], [-1, 1, 1]).round(3) + 0.0
        array([0.707, 0.   , 0.707])
    """
    return explain(net, pool, y, tolerance=tolerance).multipliers


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Multipliers ``[n]``, the (record, neuron) pairs at kinks, and the relative residual they leave."""

    multipliers: Floats
    kinks: Ints
    residual: float


def explain(net: ShallowReLU, pool: object, y: object = None, *, tolerance: float = 1e-6) -> Fit:
    """Return the `multipliers` with which the records of ``pool`` rebuild the weights, and the residual they leave.

    A residual of 0 says that the pool holds a training set for which the network is at a KKT point.

    Args:
        net: the network.
        pool: records ``[n, d]``.
        y: labels -1 and +1, ``[n]``; what the network itself answers when None.
        tolerance: what counts as a kink, as in `kkt`.

    Raises:
        divulge.InputError: as `multipliers`.
    """
    check_instance(net, "net", ShallowReLU, "a margin.ShallowReLU")
    data = as_records(pool, "pool", net.dimension)
    sign = np.where(net(data) < 0, -1.0, 1.0) if y is None else as_signs(y, "y", len(data))
    check_number(tolerance, "tolerance", above=0.0, below=1.0)
    return fit_multipliers(net, data, sign, tolerance)


def fit_multipliers(net: ShallowReLU, data: Floats, sign: Floats, tolerance: float) -> Fit:
    """Fit λ ≥ 0 and the free derivatives σ'_ij ∈ [0, 1] at kinks by least squares.

    With κ_ij = λ_i·σ'_ij the problem is linear in (λ, κ) under 0 ≤ κ_ij ≤ λ_i.
    """
    if net.squared_norm == 0:
        raise InputError("net: every weight is zero; such a network carries no information")
    points, weights = augment(data), net.augmented
    before = points @ weights.T
    size = np.linalg.norm(points, axis=1)[:, None] * np.linalg.norm(weights, axis=1)
    # A neuron of output weight 0 adds nothing to any gradient, one of zero input weights cannot leave zero.
    alive = (net.v != 0) & (np.linalg.norm(weights, axis=1) > 0)
    kinks = np.argwhere((np.abs(before) <= tolerance * size) & alive) if tolerance > 0 else np.zeros((0, 2), int)
    hidden = np.maximum(before, 0.0)
    slope = (before > 0).astype(np.float64)
    slope[kinks[:, 0], kinks[:, 1]] = 0.0

    gram = _gram_matrix(net, points, sign, hidden, slope, kinks)
    moment = _moment_vector(net, before, sign, hidden, slope, kinks)
    solution = solve_multipliers(gram, moment, kinks[:, 0])
    multipliers = solution[: len(sign)]
    pull = multipliers * sign
    spread = slope * pull[:, None]
    free = np.minimum(solution[len(sign) :], multipliers[kinks[:, 0]])
    spread[kinks[:, 0], kinks[:, 1]] = free * sign[kinks[:, 0]]
    left_w = weights - (spread.T @ points) * net.v[:, None]
    left_v = net.v - pull @ hidden
    residual = np.sqrt((np.sum(left_w**2) + np.sum(left_v**2)) / net.squared_norm)
    return Fit(multipliers, kinks, float(residual))


def _gram_matrix(net: ShallowReLU, points: Floats, sign: Floats, hidden: Floats, slope: Floats, kinks: Ints) -> Floats:
    """Return the inner products of all columns: one per record (λ), then one per kink (κ)."""
    inner = points @ points.T
    weighted = slope * net.v**2
    records = (weighted @ slope.T * inner + hidden @ hidden.T) * np.outer(sign, sign)
    if not len(kinks):
        return records
    row, neuron = kinks.T
    cross = weighted[:, neuron] * inner[:, row] * np.outer(sign, sign[row])
    kink_products = (
        (neuron[:, None] == neuron) * net.v[neuron] ** 2 * inner[np.ix_(row, row)] * np.outer(sign[row], sign[row])
    )
    return np.block([[records, cross], [cross.T, kink_products]])


def _moment_vector(
    net: ShallowReLU, before: Floats, sign: Floats, hidden: Floats, slope: Floats, kinks: Ints
) -> Floats:
    """Return the inner products of all columns with θ; 2·y_i·Φ(x_i) for a record."""
    records = sign * ((slope * before + hidden) @ net.v)
    row, neuron = kinks.T
    return np.concatenate([records, sign[row] * net.v[neuron] * before[row, neuron]])


def solve_multipliers(gram: Floats, moment: Floats, owner: Ints | None = None) -> Floats:
    """Minimise zᵀGz - 2cᵀz over z = (λ, κ) ≥ 0 with κ_j ≤ λ_owner(j).

    The upper bounds become equalities with slacks, λ - κ - s = 0, held by a penalty: exact where a solution of
    zero residual exists, and elsewhere tight to the square root of its weight.

    Args:
        gram: G, positive semi-definite, ``[n + p, n + p]``.
        moment: c, ``[n + p]``.
        owner: for each κ the index of its λ, ``[p]``; every z is a λ when None.

    Examples:
        >>> solve_multipliers(np.eye(2), np.array([3.0, -1.0]))
        array([3., 0.])
    """
    owner = np.zeros(0, dtype=np.int64) if owner is None else owner
    n = len(moment) - len(owner)
    extra = len(owner)
    size = n + extra
    ties = np.zeros((extra, size + extra))
    rows = np.arange(extra)
    ties[rows, owner], ties[rows, n + rows], ties[rows, size + rows] = 1.0, -1.0, -1.0
    scale = np.sqrt(np.maximum(np.diag(gram), np.max(np.diag(gram)) * 1e-12))
    values, vectors = np.linalg.eigh(gram / np.outer(scale, scale))
    keep = values > values[-1] * 1e-14
    root = np.sqrt(values[keep])
    factor = np.zeros((int(keep.sum()), size + extra))
    factor[:, :size] = root[:, None] * vectors[:, keep].T * scale
    target = (vectors[:, keep].T @ (moment / scale)) / root
    penalty = 1e3 * float(np.median(scale))
    weights, _ = optimize.nnls(
        np.vstack([factor, penalty * ties]),
        np.concatenate([target, np.zeros(extra)]),
        maxiter=30 * (size + extra),
    )
    return weights[:size]
