"""Training a shallow ReLU network towards its KKT point, in the span of the data.

Gradient flow is followed by explicit or by implicit steps; one implicit step goes as far as hundreds of explicit ones,
and over the kinks of the ReLU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import lazy, seeds
from divulge.errors import InputError
from divulge.margin.shallow_relu import ShallowReLU, as_records, as_signs, augment, require_both_classes
from divulge.types import ShortRepr
from divulge.validation import check_bool, check_integer, check_memory, check_number

if TYPE_CHECKING:
    from scipy import optimize

    from divulge.types import Bools, Floats
else:
    optimize = lazy.module("scipy.optimize")


_EXPLICIT_SHRINKAGE = 0.6
_EXPLICIT_GROWTH = 1.03
_MAX_IMPLICIT_INPUTS = 10  # inputs up to which records are far from orthogonal: kinks stall explicit steps
_MAX_IMPLICIT_RECORDS = 200  # records up to which an implicit step, cubic in their number, is cheaper
# Up to so many inputs a small start collapses on too few directions to separate labels that alternate.
_MAX_LARGE_START_INPUTS = 3

ARMIJO = 0.3  # share of the predicted decrease that a step must deliver; less, and steps leap over the KKT point
_MIN_STEP = 0.05  # smallest step times (‖θ‖² + 1)·max‖[x, 1]‖²
# Largest ‖Δθ‖/‖θ‖ of a step; much more, and the path leaves gradient flow and what it converges to.
_MAX_RELATIVE_STEP = 0.02
_IMPLICIT_GROWTH = 1.3
_MAX_OVERSHOOT = 0.02  # share of a step by which it may overshoot the target margin
_IMPLICIT_SHRINKAGE = 0.5
_MAX_SECANTS = 4  # corrections of the slopes before a step is shortened
_MIN_WEIGHT = 1e-16  # smallest weight of a record in a step; less moves nothing, and could not grow again
_MAX_NEWTON_STEPS = 100  # iterations for the weights of a step; fewer than 20 in practice

_ROUGH_VIOLATION = 1e-3  # violation at which cutting planes hand over to quadratic programming
_NEAR_TIGHT = 0.1  # constraints further than this from tight at the rough solution are left out
_EXACT_PRECISION = 1e-14  # relative change of Σλ at which quadratic programming stops once all patterns are found
_DIVERGED_VIOLATION = 10.0  # violation at which quadratic programming has lost its way and cutting planes start anew
_KINK_TOLERANCE = 1e-9  # |w·x| below this share of ‖w‖‖x‖ is a kink on the record


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Training(ShortRepr):
    """A trained network, with its margin and loss after each step.

    Args:
        net: the network.
        margin: min_i y_i·Φ(x_i) after each step, ``[steps + 1]``.
        loss: the loss after each step, ``[steps + 1]``.
        reached: whether the target margin was reached.
    """

    net: ShallowReLU
    margin: Floats
    loss: Floats
    reached: bool

    @property
    def steps(self) -> int:
        """Number of gradient steps taken."""
        return len(self.loss) - 1

    @property
    def history(self) -> dict[str, Floats]:
        """Margin and loss by step."""
        return {"margin": self.margin, "loss": self.loss}


def train(
    x: object,
    y: object,
    width: int = 1000,
    target_margin: float = 100.0,
    seed: int = 0,
    *,
    max_steps: int | None = None,
    initial_scale: float | None = None,
    implicit: bool | None = None,
    reduced: bool = True,
) -> Training:
    """Train until every y_i·Φ(x_i) ≥ ``target_margin``.

    Steps follow the gradient of log Σ exp(-y_i·Φ(x_i)), which never underflows however large the margin, with
    Armijo back-tracking; near-kink stalls are overcome by a smallest step of 0.05/((‖θ‖² + 1)·max‖[x, 1]‖²).
    Every gradient with respect to a hidden neuron lies in the span of the training records [x, 1], so only the
    coordinates within that span (at most n of d + 1) are trained; what the initialisation has outside it is
    frozen and put back at the end. This is exact: the network is the one plain training gives.

    With few inputs, records are far from orthogonal and neurons slide along kinks; explicit steps then stall or number
    10⁵. Implicit ones (`implicit_step`) follow the same gradient flow to margin 100 in a few hundred.
    Break-points start where -b/w falls, within a few units of 0: bring few inputs to a scale of about 1 first.

    Args:
        x: records ``[n, d]``.
        y: labels -1 and +1, ``[n]``.
        width: number k of hidden neurons.
        target_margin: margin at which to stop.
        seed: seed of the initialisation (w, b ~ initial_scale·N(0, 1), v ~ U(±1/√k)).
        max_steps: give up after this many steps, 50,000 explicit or 5,000 implicit ones when None; then ``reached`` is
            False.
        initial_scale: size of the first hidden weights; 1e-4 when None, and 0.2 for up to 3 inputs, where a
            smaller start lets all neurons collapse on too few directions to separate labels that alternate. The
            smaller, the closer to a KKT point training ends.
        implicit: whether steps are implicit; when None they are for up to 10 inputs and 200 records.
        reduced: False trains all d + 1 coordinates, as a check and for comparison of speed.

    Raises:
        divulge.InputError: labels that are not ±1, one class alone, a margin ≤ 0, the same record under both labels.

    Examples:
        >>> import numpy as np
        >>> run = train(np.eye(4), [1, -1, 1, -1], width=30, target_margin=5.0)
        >>> run.reached, bool((run.net(np.eye(4)) * [1, -1, 1, -1] >= 5).all())
        (True, True)
    """
    data, sign = _check_problem(x, y)
    check_bool(reduced, "reduced")
    if implicit is not None:
        check_bool(implicit, "implicit")
    n, d = len(data), data.shape[1] - 1
    implicit = d <= _MAX_IMPLICIT_INPUTS and n <= _MAX_IMPLICIT_RECORDS if implicit is None else implicit
    scale = (0.2 if d <= _MAX_LARGE_START_INPUTS else 1e-4) if initial_scale is None else initial_scale
    step_limit = check_integer(
        (5_000 if implicit else 50_000) if max_steps is None else max_steps, "max_steps", minimum=1
    )
    target_margin = check_number(target_margin, "target_margin", above=0.0)
    scale = check_number(scale, "initial_scale", above=0.0, below=1e6)
    start, basis, frozen = _initialise(data, width, seed, scale, reduced=reduced)
    points = data @ basis
    frozen_norm = float(np.sum(frozen**2)) if reduced else 0.0

    state = evaluate_state(*start, points)
    loss, step = log_sum_exp(state.outputs * sign), 0.0
    pull = np.full(n, 1.0 / n)
    losses, margins = [loss], [float(np.min(state.outputs * sign))]
    while margins[-1] < target_margin and len(losses) <= step_limit:
        if implicit:
            state, loss, step, pull = implicit_step(state, points, sign, loss, step, pull, frozen_norm, target_margin)
        else:
            state, loss, step = _explicit_step(state, points, sign, loss, step, frozen_norm)
        losses.append(loss)
        margins.append(float(np.min(state.outputs * sign)))
    net = _build_network(state, basis, frozen)
    return Training(net, np.array(margins), np.array(losses), margins[-1] >= target_margin)


def descend(
    x: object, y: object, width: int = 1000, steps: int = 1000, learning_rate: float = 0.1, seed: int = 0
) -> Training:
    """Train by plain gradient descent on the mean logistic loss with a fixed step, as a user would.

    The same span reduction as in ``train`` makes it exact at a fraction of the cost.

    Args:
        x: records ``[n, d]``.
        y: labels -1 and +1, ``[n]``.
        width: number k of hidden neurons.
        steps: number of full-batch steps.
        learning_rate: the fixed step.
        seed: seed of the initialisation.

    Raises:
        divulge.InputError: labels that are not ±1, one class alone, a learning rate ≤ 0.

    Examples:
        >>> import numpy as np
        >>> descend(np.eye(2), [1, -1], width=5, steps=50, learning_rate=0.5).steps
        50
    """
    data, sign = _check_problem(x, y)
    check_integer(steps, "steps", minimum=1)
    learning_rate = check_number(learning_rate, "learning_rate", above=0.0)
    (w, v), basis, frozen = _initialise(data, width, seed, 1e-4, reduced=True)
    points = data @ basis
    state = evaluate_state(w, v, points)
    losses, margins = [_logistic_loss(state.outputs * sign)], [float(np.min(state.outputs * sign))]
    for _ in range(steps):
        pull = sign / (1.0 + np.exp(np.clip(state.outputs * sign, -700.0, 700.0))) / len(sign)
        grad_w, grad_v = _gradient(state, points, -pull)
        state = evaluate_state(state.w - learning_rate * grad_w, state.v - learning_rate * grad_v, points)
        losses.append(_logistic_loss(state.outputs * sign))
        margins.append(float(np.min(state.outputs * sign)))
    return Training(_build_network(state, basis, frozen), np.array(margins), np.array(losses), margins[-1] > 0)


def span_basis(data: Floats) -> Floats:
    """Return an orthonormal basis ``[d, r]`` of the span of the rows of ``data``."""
    _, values, rows = np.linalg.svd(data, full_matrices=False)
    return rows[values > values[0] * 1e-12].T


def _check_problem(x: object, y: object) -> tuple[Floats, Floats]:
    data = as_records(x, "x")
    sign = as_signs(y, "y", len(data))
    require_both_classes(sign, "y")
    check_consistent_labels(data, sign)
    return augment(data), sign


def check_consistent_labels(data: Floats, sign: Floats) -> None:
    """Refuse a record that carries both labels: no function separates it from itself."""
    _, group = np.unique(data, axis=0, return_inverse=True)
    total, size = np.bincount(group.ravel(), sign), np.bincount(group.ravel())
    bad = np.flatnonzero(np.abs(total) != size)
    if bad.size:
        indices = np.flatnonzero(group.ravel() == bad[0])
        raise InputError(f"x: records {indices.tolist()} are equal but their labels differ; no margin exists")


def _initialise(
    data: Floats, width: int, seed: int, scale: float, *, reduced: bool
) -> tuple[tuple[Floats, Floats], Floats, Floats]:
    """Return start values (in the basis), the basis, and the part of the initial weights outside its span."""
    check_integer(width, "width", minimum=1, maximum=10**12)
    check_memory(64.0 * width * data.shape[1], "width", "fewer neurons need less")
    rng = seeds.generator(seed, "margin", "initialisation")
    w = scale * rng.normal(size=(width, data.shape[1]))
    v = rng.uniform(-1.0, 1.0, size=width) / np.sqrt(width)
    if not reduced:
        return (w, v), np.eye(data.shape[1]), np.zeros_like(w)
    basis = span_basis(data)
    coordinates = w @ basis
    return (coordinates, v), basis, w - coordinates @ basis.T


def _build_network(state: State, basis: Floats, frozen: Floats) -> ShallowReLU:
    full = state.w @ basis.T + frozen
    if not (np.isfinite(full).all() and np.isfinite(state.v).all()):
        raise InputError(
            "x: training diverged, a weight became NaN or infinite; smaller values, a smaller initial_scale or a "
            "smaller learning_rate may help"
        )
    return ShallowReLU(full[:, :-1], full[:, -1], state.v)


def _gradient(state: State, points: Floats, pull: Floats) -> tuple[Floats, Floats]:
    """Return the gradients of Σ_i pull_i·Φ(x_i)."""
    active = (state.hidden > 0) * pull[:, None]
    return (active.T @ points) * state.v[:, None], pull @ state.hidden


def _explicit_step(
    state: State, points: Floats, sign: Floats, loss: float, step: float, frozen_norm: float
) -> tuple[State, float, float]:
    weight = np.exp(-state.outputs * sign - loss)  # softmax: sums to one
    grad_w, grad_v = _gradient(state, points, -weight * sign)
    slope = float(np.sum(grad_w**2) + np.sum(grad_v**2))
    floor = min_step(state.squared_norm + frozen_norm, points)
    step = max(step * _EXPLICIT_GROWTH, floor)
    while True:
        trial = evaluate_state(state.w - step * grad_w, state.v - step * grad_v, points)
        value = log_sum_exp(trial.outputs * sign)
        if value <= loss - ARMIJO * step * slope or step <= floor:
            return trial, value, step
        step = max(step * _EXPLICIT_SHRINKAGE, floor)


def _logistic_loss(margins: Floats) -> float:
    return float(np.mean(np.logaddexp(0.0, -margins)))


@dataclass(slots=True)
class State:
    """Weights in some basis ``[k, r]``, output weights ``[k]``, and the activations that follow from them.

    ``before`` are the hidden neurons' inputs and ``hidden`` their outputs, both ``[n, k]``; ``outputs`` is Φ, ``[n]``.
    """

    w: Floats
    v: Floats
    before: Floats
    hidden: Floats
    outputs: Floats

    @property
    def squared_norm(self) -> float:
        """‖θ‖²."""
        return float(np.sum(self.w**2) + np.sum(self.v**2))


def evaluate_state(w: Floats, v: Floats, points: Floats) -> State:
    """Return the state of weights at records ``points``, ``[n, r]``."""
    before = points @ w.T
    hidden = np.maximum(before, 0.0)
    return State(w, v, before, hidden, hidden @ v)


def log_sum_exp(margins: Floats) -> float:
    """Return the logarithm of Σ exp(-margins), without overflow or underflow."""
    smallest = float(np.min(margins))
    return float(np.log(np.sum(np.exp(smallest - margins))) - smallest)


def min_step(squared_norm: float, points: Floats) -> float:
    """Return the smallest step worth taking; without one, steps at kinks shrink to nothing."""
    return _MIN_STEP / ((squared_norm + 1.0) * float(np.max(np.sum(points**2, axis=1))))


def implicit_step(
    state: State,
    points: Floats,
    sign: Floats,
    loss: float,
    step: float,
    pull: Floats,
    frozen_norm: float,
    target: float,
) -> tuple[State, float, float, Floats]:
    """Take one implicit (backward Euler) step of gradient flow on log Σ exp(-y_i·Φ(x_i)).

    With J the derivative of the margins y·Φ, the step is θ + step·Jᵀp where p is the softmax of minus the margins
    *after* the step, to first order: p solves p = softmax(-(margins + step·JJᵀp)), n equations however wide the
    network. The stiffness that comes from balancing margins, which holds explicit steps to 1/(margin·‖x‖²), is gone.
    Where a neuron would cross a kink the derivative of its ReLU is replaced by the secant over the step
    (a discrete gradient), so that neurons which slide along a kink, pushed from both sides, no longer stall.

    Args:
        state: where the step starts.
        points: records in the basis of ``state.w``, ``[n, r]``.
        sign: labels ±1, ``[n]``.
        loss: the loss at ``state``.
        step: the last step's length.
        pull: the last step's p, ``[n]``.
        frozen_norm: squared norm of what of the weights the basis leaves out.
        target: margin not to overshoot: the last step is shortened to end on it.

    Returns:
        The next state, its loss, the length of the step and its p.
    """
    margins = state.outputs * sign
    inner, outer = (points @ points.T) * np.outer(sign, sign), (state.hidden * sign[:, None])
    size = state.squared_norm + frozen_norm
    floor, max_distance = min_step(size, points), _MAX_RELATIVE_STEP * float(np.sqrt(size))
    slopes, step, secants = (state.before > 0).astype(np.float64), max(step * _IMPLICIT_GROWTH, floor), 0
    while True:
        gram = ((slopes * state.v**2) @ slopes.T) * inner + outer @ outer.T
        pull = _solve_step_weights(step * gram, margins, pull)
        distance = step * float(np.sqrt(max(pull @ gram @ pull, 0.0)))
        # A step of the flow is followed only as far as the activation pattern, on which it rests, hardly changes.
        if distance > max_distance and step > floor:
            step = max(0.9 * step * max_distance / distance, floor)
            continue
        moves = step * pull * sign
        trial = evaluate_state(
            state.w + (slopes * moves[:, None]).T @ points * state.v[:, None], state.v + moves @ state.hidden, points
        )
        value = log_sum_exp(trial.outputs * sign)
        predicted_decrease = loss - log_sum_exp(margins + step * gram @ pull)
        share = (target - margins.min()) / max(float(np.min(trial.outputs * sign) - margins.min()), 1e-300)
        # Beyond the target: a step shortened in proportion ends on it, or hardly beyond.
        if 0 < share < 1 - _MAX_OVERSHOOT and step > floor:
            step = max((share + _MAX_OVERSHOOT / 2) * step, floor)
            continue
        if loss - value >= ARMIJO * predicted_decrease or step <= floor:
            return trial, value, step, pull
        # Neurons crossed their kinks: their mean slopes on the way may predict better; else the step is too long.
        if secants < _MAX_SECANTS:
            crossed = (state.before > 0) != (trial.before > 0)
            run = np.where(crossed, trial.before - state.before, 1.0)
            slopes = (slopes + np.where(crossed, (trial.hidden - state.hidden) / run, state.before > 0)) / 2.0
            secants += 1
        else:
            slopes, step, secants = (state.before > 0).astype(np.float64), max(step * _IMPLICIT_SHRINKAGE, floor), 0


def _solve_step_weights(gram: Floats, margins: Floats, start: Floats) -> Floats:
    """Solve p = softmax(-(margins + G·p)): Newton on the entropy problem `_dual_objective` over Σp = 1."""
    p = np.maximum(start, _MIN_WEIGHT)
    p = p / p.sum()
    for _ in range(_MAX_NEWTON_STEPS):
        root = np.sqrt(p)
        slope = np.log(p) + margins + gram @ p
        # In units of √p the Hessian is I + √p·G·√p, well conditioned however small some weights are.
        solved = np.linalg.solve(gram * np.outer(root, root) + np.eye(len(p)), np.column_stack([root * slope, root]))
        change = -solved[:, 0] + solved[:, 1] * ((root @ solved[:, 0]) / (root @ solved[:, 1]))
        relative = change / root
        if np.sum(change[(p > 2 * _MIN_WEIGHT) | (relative > 0)] ** 2) < 1e-12:
            break
        p = _line_search(gram, margins, p, relative)
    return p / p.sum()


def _line_search(gram: Floats, margins: Floats, p: Floats, relative: Floats) -> Floats:
    """Return the first of the steps relative, relative/2, relative/4 … from ``p`` that costs less than ``p``.

    Weights that a step would make negative shrink exponentially instead, as in the softmax, and hold nobody back.
    """
    start_value, share = _dual_objective(gram, margins, p), 1.0
    while True:
        change = share * relative
        trial = p * np.where(change > -0.5, 1.0 + change, 0.5 * np.exp(np.clip(change + 0.5, -50.0, 0.0)))
        trial = np.maximum(trial / trial.sum(), _MIN_WEIGHT)
        if share < 1e-6 or _dual_objective(gram, margins, trial) <= start_value:
            return trial
        share /= 2.0


def _dual_objective(gram: Floats, margins: Floats, p: Floats) -> float:
    """Return Σ p·log p + p·margins + ½·pᵀGp, minimal over Σp = 1 at the softmax of `_solve_step_weights`."""
    return float(p @ (np.log(p) + margins + gram @ p / 2.0))


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
        >>> solution = solve([[-1.0], [1.0]], [-1, 1])
        >>> bool(abs(solution.gap) < 1e-6), solution.multipliers.round(3)
        (True, array([0.707, 0.707]))
    """
    data = as_records(x, "x")
    sign = as_signs(y, "y", len(data))
    require_both_classes(sign, "y")
    check_consistent_labels(data, sign)
    check_integer(max_rounds, "max_rounds", minimum=1)
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
            # Of records on a line every activation pattern can be tried: one between any two angles at which one turns.
            angles = np.arctan2(self.points[:, 1], self.points[:, 0])
            edges = np.sort(np.concatenate([angles + np.pi / 2, angles - np.pi / 2]) % (2 * np.pi))
            middles = (edges + np.append(edges[1:], edges[0] + 2 * np.pi)) / 2
            turning = np.column_stack([np.cos(middles), np.sin(middles)]) @ self.points.T > 0
            return _unique_cones([_Cone(s, active) for active in turning for s in (1.0, -1.0)])
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


def _primal_network(
    points: Floats, sign: Floats, basis: Floats, cones: list[_Cone], multipliers: Floats, price: float
) -> Optimum:
    """Return the network behind the dual solution: the tight directions, weighted so that the margin is 1."""
    pull = multipliers * sign
    # Unit directions whose dual constraint is tight, without repeats, and the signs of their outputs.
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
    if not outputs:
        raise _no_kkt_point_error("no constraint is tight")
    tight, tight_outputs = np.array(directions), np.array(outputs)
    responses = (sign[:, None] * np.maximum(points @ tight.T, 0.0)) * tight_outputs
    solved = optimize.linprog(np.ones(len(outputs)), A_ub=-responses, b_ub=-np.ones(len(sign)), method="highs")
    if not solved.success:
        raise InputError(f"x: the tight directions do not separate the records ({solved.message})")
    # The linear programme is accurate to 1e-7; on the records that carry a multiplier the margin is exactly 1,
    # which pins the weights down to rounding.
    used = solved.x > 1e-9 * solved.x.max()
    carried = multipliers > 1e-9 * multipliers.max()
    weights, _ = optimize.nnls(responses[np.ix_(carried, used)], np.ones(int(carried.sum())))
    w = (tight[used] @ basis.T) * np.sqrt(weights)[:, None]
    net = ShallowReLU(w[:, :-1], w[:, -1], tight_outputs[used] * np.sqrt(weights))
    return Optimum(net, multipliers, float(np.sum(weights) - np.sum(multipliers)), price)
