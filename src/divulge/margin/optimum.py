"""The exact KKT point of the margin problem, from its dual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize

from divulge import seeds
from divulge.errors import InputError
from divulge.margin.shallow_relu import ShallowReLU, as_records, as_signs, augment, require_both_classes
from divulge.margin.training import check_consistent_labels, span_basis
from divulge.validation import check_integer

if TYPE_CHECKING:
    from divulge.types import Bools, Floats

_ROUGH_VIOLATION = 1e-3  # violation at which cutting planes hand over to quadratic programming
_NEAR_TIGHT = 0.1  # constraints further than this from tight at the rough solution are left out
_EXACT_PRECISION = 1e-14  # relative change of Σλ at which quadratic programming stops once all patterns are found
_DIVERGED_VIOLATION = 10.0  # violation at which quadratic programming has lost its way and cutting planes start anew
_KINK_TOLERANCE = 1e-9  # |w·x| below this share of ‖w‖‖x‖ is a kink on the record


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """A network that satisfies the KKT conditions of min ½‖θ‖² subject to y_i·Φ(x_i) ≥ 1.

    Args:
        net: the network, of margin 1.
        multipliers: λ ≥ 0, ``[n]``; λ_i > 0 only on the margin.
        gap: ½‖θ‖² - Σλ, the duality gap; 0 at a KKT point by strong duality of the convex programme.
        price: largest violation among all dual constraints that were searched (≤ 0 up to rounding).
    """

    net: ShallowReLU
    multipliers: Floats
    gap: float
    price: float


@dataclass(frozen=True, slots=True, eq=False)
class _Cone:
    """One dual constraint: neurons of output sign ``sign`` that are active exactly on ``active``."""

    sign: float
    active: Bools

    @property
    def key(self) -> tuple[float, bytes]:
        return self.sign, self.active.tobytes()


def solve(x: object, y: object, *, tolerance: float = 1e-7, max_rounds: int = 200, seed: int = 0) -> Optimum:
    """Return the exact KKT point, whatever the width.

    With neurons free in number the margin problem is convex in the measure over directions, and its dual is
    max Σλ over λ ≥ 0 such that no direction ŵ of unit length earns more than it costs,
    s·Σ λ_i·y_i·relu(ŵ·[x_i, 1]) ≤ 1 for s = ±1. Within an activation pattern A the best direction is a projection
    onto the cone of directions with that pattern, one non-negative least-squares problem. Patterns are generated
    until none found by local search is violated; flipping the records that lie on the kink of a direction
    is what makes the result a KKT point in Clarke's sense. For one input all patterns are priced, which makes the
    optimum global; beyond that it is a KKT point, which is what training converges to and what the theory needs.

    Args:
        x: records ``[n, d]``.
        y: labels -1 and +1, ``[n]``.
        tolerance: largest accepted violation of a dual constraint.
        max_rounds: rounds of generating constraints.
        seed: seed of the random patterns from which pricing also starts.

    Raises:
        divulge.InputError: labels that are not ±1, one class alone, the same record under both labels, no
            KKT point found in float64 or within ``max_rounds``.

    Examples:
        >>> found = solve([[-1.0], [1.0]], [-1, 1])
        >>> bool(abs(found.gap) < 1e-6), found.multipliers.round(3)
        (True, array([0.707, 0.707]))
    """
    data = as_records(x, "x")
    sign = as_signs(y, "y", len(data))
    require_both_classes(sign, "y")
    check_consistent_labels(data, sign)
    check_integer(max_rounds, "max_rounds", least=1)
    full = augment(data)
    basis = span_basis(full)
    points = full @ basis
    rng = seeds.generator(seed, "margin", "pricing")
    price = _Pricing(points, sign, rng)
    cones = _unique_cones(_initial_cones(points, sign))
    best, violation, precision = np.zeros(len(sign)), np.inf, 1e-8
    cut_solution = None
    for _ in range(max_rounds):
        if (points.shape[1] <= 2 and not best.any()) or np.inf > violation > _DIVERGED_VIOLATION:
            best, cones = _solve_by_cutting_planes(points, sign, price, cones, max_rounds)
            if cut_solution is not None and np.array_equal(best, cut_solution):
                raise _no_kkt_point_error(
                    f"a constraint is violated by {violation:.1e}"
                )  # from the same start it would lose its way again
            cut_solution = best
        best = _solve_quadratic(points, sign, cones, best, precision)
        violation, fresh = price(best, cones)
        if violation <= tolerance and precision == _EXACT_PRECISION:
            break
        precision = _EXACT_PRECISION if violation <= _ROUGH_VIOLATION else precision
        cones = _unique_cones([*cones, *fresh])
    else:
        raise _no_kkt_point_error(f"a constraint is violated by {violation:.1e}")
    return _primal_network(points, sign, basis, cones, best, violation)


def _no_kkt_point_error(reason: str) -> InputError:
    return InputError(
        f"x: no KKT point was found ({reason}); records of different labels may be too close to each other, or too far "
        "from the origin, for float64"
    )


def _initial_cones(points: Floats, sign: Floats) -> list[_Cone]:
    n = len(sign)
    everywhere = np.ones(n, dtype=bool)
    cones = [_Cone(s, sign == s) for s in (1.0, -1.0)] + [_Cone(s, everywhere) for s in (1.0, -1.0)]
    if n <= points.shape[1]:
        return cones  # independent records: every pattern is realisable, and these bound every multiplier
    # Otherwise one-sided patterns along the leading directions keep the first dual problem bounded.
    for column in points.T:
        for s in (1.0, -1.0):
            cones += [_Cone(s, column > 0), _Cone(s, column < 0)]
    return cones


def _unique_cones(cones: list[_Cone]) -> list[_Cone]:
    return list({cone.key: cone for cone in cones if cone.active.any()}.values())


def _best_direction(points: Floats, pull: Floats, cone: _Cone) -> Floats:
    """Project s·Σ_A pull_i·x_i onto the directions with pattern A; the length is the constraint's value."""
    target = cone.sign * (pull[cone.active] @ points[cone.active])
    length = float(np.linalg.norm(target))
    if length == 0:
        return target
    walls = np.where(cone.active[:, None], points, -points)
    weights, _ = optimize.nnls(walls.T, -target / length, maxiter=50 * len(points))
    return target + length * (walls.T @ weights)


def _solve_by_cutting_planes(
    points: Floats, sign: Floats, price: _Pricing, cones: list[_Cone], max_rounds: int
) -> tuple[Floats, list[_Cone]]:
    """Return a rough dual solution by cutting planes, and every pattern met on the way.

    Each constraint is the maximum of linear functions of λ, one per direction; linear programming over the directions
    found so far never diverges, whatever the scale of λ, but its last digits come slowly.
    """
    box = 1e3 / float(np.min(np.sum(points**2, axis=1)))
    rows = [_cutting_plane(points, sign, sign, cone) for cone in cones]
    best, violation = np.zeros(len(sign)), np.inf
    for _ in range(max_rounds):
        table = np.array([row for row in rows if row.any()])
        if not table.size:
            raise InputError("x: the values are too small; bring them to a scale of about 1")
        solved = optimize.linprog(
            -np.ones(len(sign)), A_ub=table, b_ub=np.ones(len(table)), bounds=(0.0, box), method="highs"
        )
        best = solved.x
        violation, fresh = price(best, cones)
        if violation <= _ROUGH_VIOLATION and best.max() < box:
            break
        if violation <= _ROUGH_VIOLATION:
            box *= 100.0
        cones = _unique_cones([*cones, *fresh])
        rows += [_cutting_plane(points, sign, best * sign, cone) for cone in fresh]
    return best / (1.0 + max(violation, 0.0)), cones


def _cutting_plane(points: Floats, sign: Floats, pull: Floats, cone: _Cone) -> Floats:
    """Return the linear function of λ that the best direction of a cone gives."""
    best = _best_direction(points, pull, cone)
    length = float(np.linalg.norm(best))
    if length < 1e-12:
        return np.zeros(len(sign))
    return cone.sign * sign * np.maximum(points @ (best / length), 0.0) * cone.active


def _solve_quadratic(points: Floats, sign: Floats, cones: list[_Cone], start: Floats, precision: float) -> Floats:
    """Maximise Σλ, λ ≥ 0, over the constraints that are near tight, to the last digits, by quadratic programming."""
    # Multipliers of this size make the constraints of order one.
    longest = max(float(np.linalg.norm(_best_direction(points, sign, cone))) for cone in cones)
    near_tight, scale = cones, np.full(len(sign), 1.0 / max(longest, 1e-12))
    if start.any():
        near_tight = [
            cone for cone in cones if np.linalg.norm(_best_direction(points, start * sign, cone)) > 1.0 - _NEAR_TIGHT
        ]
        # Close records of different labels carry multipliers orders of magnitude above the rest.
        scale = np.maximum(start, 1e-3 * start.max())

    cached: dict[bytes, Floats] = {}

    def rows(units: Floats) -> Floats:
        # The constraints and their slopes come from the same projections.
        key = units.tobytes()
        if key not in cached:
            cached.clear()
            cached[key] = np.array(
                [scale * _cutting_plane(points, sign, scale * units * sign, cone) for cone in near_tight]
            )
        return cached[key]

    polished = optimize.minimize(
        lambda units: -float(scale @ units) / float(scale.sum()),
        start / scale,
        jac=lambda _: -scale / float(scale.sum()),
        bounds=[(0.0, None)] * len(sign),
        constraints={"type": "ineq", "fun": lambda units: 1.0 - rows(units) @ units, "jac": lambda units: -rows(units)},
        method="SLSQP",
        options={"maxiter": 300, "ftol": precision},
    )
    return scale * np.maximum(polished.x, 0.0)


@dataclass(frozen=True, slots=True)
class _Pricing:
    """The search for violated patterns: every pattern in one dimension, local search from many beyond."""

    points: Floats
    sign: Floats
    rng: np.random.Generator

    def __call__(self, multipliers: Floats, cones: list[_Cone]) -> tuple[float, list[_Cone]]:
        """Return the largest violation 'length - 1' found, and the patterns that are violated."""
        pull = multipliers * self.sign
        lengths: dict[tuple[float, bytes], float] = {}
        # Patterns that differ at kinks alone give one and the same direction; one of them is enough.
        fresh: dict[tuple[float, float], _Cone] = {}
        worst = -np.inf
        for start in self._starts(cones):
            cone, length = _local_search(self.points, pull, start, lengths)
            worst = max(worst, length - 1.0)
            if length > 1.0:
                fresh.setdefault((cone.sign, round(length, 9)), cone)
        return worst, list(fresh.values())

    def _starts(self, cones: list[_Cone]) -> list[_Cone]:
        if self.points.shape[1] <= 2:
            return _unique_cones(_all_cones(self.points))
        random = self.rng.normal(size=(2 * len(self.sign), self.points.shape[1])) @ self.points.T > 0
        return _unique_cones([*cones, *(_Cone(s, active) for active in random for s in (1.0, -1.0))])


def _local_search(
    points: Floats, pull: Floats, cone: _Cone, lengths: dict[tuple[float, bytes], float]
) -> tuple[_Cone, float]:
    """Search patterns locally: flip a record that lies on the kink while that lengthens the projection."""

    def length(trial: _Cone) -> float:
        if trial.key not in lengths:
            lengths[trial.key] = float(np.linalg.norm(_best_direction(points, pull, trial)))
        return lengths[trial.key]

    current_length = length(cone)
    while True:
        best = _best_direction(points, pull, cone)
        size = np.linalg.norm(points, axis=1) * max(float(np.linalg.norm(best)), 1e-300)
        kinks = np.flatnonzero(np.abs(points @ best) <= _KINK_TOLERANCE * size) if current_length > 0 else np.arange(0)
        flips = [_Cone(cone.sign, cone.active ^ (np.arange(len(pull)) == i)) for i in kinks]
        longest = max(flips, key=length, default=cone)
        if length(longest) <= current_length + 1e-12:
            return cone, current_length
        cone, current_length = longest, length(longest)


def _all_cones(points: Floats) -> list[_Cone]:
    """Return every activation pattern of one-dimensional records."""
    angles = np.arctan2(points[:, 1], points[:, 0])
    edges = np.sort(np.concatenate([angles + np.pi / 2, angles - np.pi / 2]) % (2 * np.pi))
    middles = (edges + np.append(edges[1:], edges[0] + 2 * np.pi)) / 2
    turning = np.column_stack([np.cos(middles), np.sin(middles)])
    return [_Cone(s, active) for active in turning @ points.T > 0 for s in (1.0, -1.0)]


def _primal_network(
    points: Floats, sign: Floats, basis: Floats, cones: list[_Cone], multipliers: Floats, price: float
) -> Optimum:
    """Return the network behind the dual solution: the tight directions, weighted so that the margin is 1."""
    pull = multipliers * sign
    directions, outputs = _tight_directions(points, pull, cones)
    if not len(outputs):
        raise _no_kkt_point_error("no constraint is tight")
    responses = (sign[:, None] * np.maximum(points @ directions.T, 0.0)) * outputs
    solved = optimize.linprog(np.ones(len(outputs)), A_ub=-responses, b_ub=-np.ones(len(sign)), method="highs")
    if not solved.success:
        raise InputError(f"x: the tight directions do not separate the records ({solved.message})")
    # The linear programme is accurate to 1e-7; on the records that carry a multiplier the margin is exactly 1,
    # which pins the weights down to rounding.
    used = solved.x > 1e-9 * solved.x.max()
    carried = multipliers > 1e-9 * multipliers.max()
    weights, _ = optimize.nnls(responses[np.ix_(carried, used)], np.ones(int(carried.sum())))
    w = (directions[used] @ basis.T) * np.sqrt(weights)[:, None]
    net = ShallowReLU(w[:, :-1], w[:, -1], outputs[used] * np.sqrt(weights))
    return Optimum(net, multipliers, float(np.sum(weights) - np.sum(multipliers)), price)


def _tight_directions(points: Floats, pull: Floats, cones: list[_Cone]) -> tuple[Floats, Floats]:
    """Return unit directions whose dual constraint is tight, without repeats, and their output signs."""
    directions: list[Floats] = []
    outputs: list[float] = []
    for cone in cones:
        best = _best_direction(points, pull, cone)
        length = float(np.linalg.norm(best))
        if length < 1.0 - 1e-6:
            continue
        unit = best / length
        is_known = any(
            s == cone.sign and np.linalg.norm(unit - direction) < 1e-6
            for s, direction in zip(outputs, directions, strict=True)
        )
        if not is_known:
            directions.append(unit)
            outputs.append(cone.sign)
    return np.array(directions), np.array(outputs)
