"""Training a shallow ReLU network towards its KKT point, in the span of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.margin.flow import ARMIJO, State, evaluate, implicit_step, least_step, log_sum_exp
from divulge.margin.shallow_relu import ShallowReLU, augment, both_classes, inputs, signs
from divulge.validation import check_bool, check_integer, check_memory, check_number

if TYPE_CHECKING:
    from divulge.types import Floats

_SHRINK = 0.6
_GROW = 1.03
_CROWDED = 10  # inputs up to which records are far from orthogonal: kinks stall explicit steps
_FEW = 200  # records up to which an implicit step, cubic in their number, is cheaper
_FLAT = 3  # inputs up to which a small start collapses on too few directions to separate labels that alternate


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """A trained network and how it got there.

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
    10⁵. Implicit ones (``divulge.margin.flow``) follow the same gradient flow to margin 100 in a few hundred.
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
    data, sign = _problem(x, y)
    check_bool(reduced, "reduced")
    if implicit is not None:
        check_bool(implicit, "implicit")
    n, d = len(data), data.shape[1] - 1
    implicit = d <= _CROWDED and n <= _FEW if implicit is None else implicit
    scale = (0.2 if d <= _FLAT else 1e-4) if initial_scale is None else initial_scale
    most = check_integer((5_000 if implicit else 50_000) if max_steps is None else max_steps, "max_steps", least=1)
    target_margin = check_number(target_margin, "target_margin", above=0.0)
    scale = check_number(scale, "initial_scale", above=0.0, below=1e6)
    start, basis, frozen = _initial(data, width, seed, scale, reduced=reduced)
    points = data @ basis
    rest = float(np.sum(frozen**2)) if reduced else 0.0

    state = evaluate(*start, points)
    loss, step = log_sum_exp(state.outputs * sign), 0.0
    pull = np.full(n, 1.0 / n)
    losses, margins = [loss], [float(np.min(state.outputs * sign))]
    while margins[-1] < target_margin and len(losses) <= most:
        if implicit:
            state, loss, step, pull = implicit_step(state, points, sign, loss, step, pull, rest, target_margin)
        else:
            state, loss, step = _step(state, points, sign, loss, step, rest)
        losses.append(loss)
        margins.append(float(np.min(state.outputs * sign)))
    net = _assemble(state, basis, frozen)
    return Training(net, np.array(margins), np.array(losses), margins[-1] >= target_margin)


def descend(
    x: object, y: object, width: int = 1000, steps: int = 1000, learning_rate: float = 0.1, seed: int = 0
) -> Training:
    """Plain gradient descent on the mean logistic loss with a fixed step, as a user would train.

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
    data, sign = _problem(x, y)
    check_integer(steps, "steps", least=1)
    learning_rate = check_number(learning_rate, "learning_rate", above=0.0)
    (w, v), basis, frozen = _initial(data, width, seed, 1e-4, reduced=True)
    points = data @ basis
    state = evaluate(w, v, points)
    losses, margins = [_logistic(state.outputs * sign)], [float(np.min(state.outputs * sign))]
    for _ in range(steps):
        pull = sign / (1.0 + np.exp(np.clip(state.outputs * sign, -700.0, 700.0))) / len(sign)
        grad_w, grad_v = _gradient(state, points, -pull)
        state = evaluate(state.w - learning_rate * grad_w, state.v - learning_rate * grad_v, points)
        losses.append(_logistic(state.outputs * sign))
        margins.append(float(np.min(state.outputs * sign)))
    return Training(_assemble(state, basis, frozen), np.array(margins), np.array(losses), margins[-1] > 0)


def span(data: Floats) -> Floats:
    """An orthonormal basis ``[d, r]`` of the span of the rows of ``data``."""
    _, values, rows = np.linalg.svd(data, full_matrices=False)
    return rows[values > values[0] * 1e-12].T


def _problem(x: object, y: object) -> tuple[Floats, Floats]:
    data = inputs(x, "x")
    sign = signs(y, "y", len(data))
    both_classes(sign, "y")
    contradiction(data, sign)
    return augment(data), sign


def contradiction(data: Floats, sign: Floats) -> None:
    """Refuse a record that carries both labels: no function separates it from itself."""
    _, group = np.unique(data, axis=0, return_inverse=True)
    total, size = np.bincount(group.ravel(), sign), np.bincount(group.ravel())
    bad = np.flatnonzero(np.abs(total) != size)
    if bad.size:
        which = np.flatnonzero(group.ravel() == bad[0])
        raise InputError(f"x: records {which.tolist()} are equal but their labels differ; no margin exists")


def _initial(
    data: Floats, width: int, seed: int, scale: float, *, reduced: bool
) -> tuple[tuple[Floats, Floats], Floats, Floats]:
    """Start values (in the basis), the basis, and the part of the initial weights outside its span."""
    check_integer(width, "width", least=1, most=10**12)
    check_memory(64.0 * width * data.shape[1], "width", "fewer neurons need less")
    rng = seeds.generator(seed, "margin", "initialisation")
    w = scale * rng.normal(size=(width, data.shape[1]))
    v = rng.uniform(-1.0, 1.0, size=width) / np.sqrt(width)
    if not reduced:
        return (w, v), np.eye(data.shape[1]), np.zeros_like(w)
    basis = span(data)
    coordinates = w @ basis
    return (coordinates, v), basis, w - coordinates @ basis.T


def _assemble(state: State, basis: Floats, frozen: Floats) -> ShallowReLU:
    full = state.w @ basis.T + frozen
    if not (np.isfinite(full).all() and np.isfinite(state.v).all()):
        raise InputError(
            "x: training diverged, a weight became NaN or infinite; smaller values, a smaller initial_scale or a "
            "smaller learning_rate may help"
        )
    return ShallowReLU(full[:, :-1], full[:, -1], state.v)


def _gradient(state: State, points: Floats, pull: Floats) -> tuple[Floats, Floats]:
    """Gradients of Σ_i pull_i·Φ(x_i)."""
    active = (state.hidden > 0) * pull[:, None]
    return (active.T @ points) * state.v[:, None], pull @ state.hidden


def _step(
    state: State, points: Floats, sign: Floats, loss: float, step: float, rest: float
) -> tuple[State, float, float]:
    weight = np.exp(-state.outputs * sign - loss)  # softmax: sums to one
    grad_w, grad_v = _gradient(state, points, -weight * sign)
    slope = float(np.sum(grad_w**2) + np.sum(grad_v**2))
    floor = least_step(state.squared_norm + rest, points)
    step = max(step * _GROW, floor)
    while True:
        tried = evaluate(state.w - step * grad_w, state.v - step * grad_v, points)
        value = log_sum_exp(tried.outputs * sign)
        if value <= loss - ARMIJO * step * slope or step <= floor:
            return tried, value, step
        step = max(step * _SHRINK, floor)


def _logistic(margins: Floats) -> float:
    return float(np.mean(np.logaddexp(0.0, -margins)))
