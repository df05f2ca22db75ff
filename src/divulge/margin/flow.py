"""Gradient flow by implicit steps: one of them goes as far as hundreds of explicit ones, and over kinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from divulge.types import Floats

ARMIJO = 0.3  # share of the predicted decrease that a step must deliver; less, and steps leap over the KKT point
_FLOOR = 0.05  # smallest step times (‖θ‖² + 1)·max‖[x, 1]‖²
_REACH = 0.02  # largest ‖Δθ‖/‖θ‖ of a step; much more, and the path leaves gradient flow and what it converges to
_GROW = 1.3
_LANDING = 0.02  # share of a step by which it may overshoot the target margin
_SHRINK = 0.5
_SECANTS = 4  # corrections of the slopes before a step is shortened
_TINY = 1e-16  # smallest weight of a record in a step; less moves nothing, and could not grow again
_NEWTON = 100  # iterations for the weights of a step; fewer than 20 in practice


@dataclass(slots=True)
class State:
    """What a step changes: weights in some basis ``[k, r]``, output weights ``[k]``, and what follows from them.

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


def evaluate(w: Floats, v: Floats, points: Floats) -> State:
    """The state of weights at records ``points``, ``[n, r]``."""
    before = points @ w.T
    hidden = np.maximum(before, 0.0)
    return State(w, v, before, hidden, hidden @ v)


def log_sum_exp(margins: Floats) -> float:
    """The logarithm of Σ exp(-margins), without overflow or underflow."""
    least = float(np.min(margins))
    return float(np.log(np.sum(np.exp(least - margins))) - least)


def least_step(squared_norm: float, points: Floats) -> float:
    """The smallest step worth taking; without one, steps at kinks shrink to nothing."""
    return _FLOOR / ((squared_norm + 1.0) * float(np.max(np.sum(points**2, axis=1))))


def implicit_step(
    state: State, points: Floats, sign: Floats, loss: float, step: float, pull: Floats, rest: float, target: float
) -> tuple[State, float, float, Floats]:
    """One implicit (backward Euler) step of gradient flow on log Σ exp(-y_i·Φ(x_i)).

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
        rest: squared norm of what of the weights the basis leaves out.
        target: margin not to overshoot: the last step is shortened to end on it.

    Returns:
        The next state, its loss, the length of the step and its p.
    """
    margins = state.outputs * sign
    inner, outer = (points @ points.T) * np.outer(sign, sign), (state.hidden * sign[:, None])
    size = state.squared_norm + rest
    floor, reach = least_step(size, points), _REACH * float(np.sqrt(size))
    slopes, step, secants = (state.before > 0).astype(np.float64), max(step * _GROW, floor), 0
    while True:
        gram = ((slopes * state.v**2) @ slopes.T) * inner + outer @ outer.T
        pull = _balance(step * gram, margins, pull)
        far = step * float(np.sqrt(max(pull @ gram @ pull, 0.0)))
        if far > reach and step > floor:
            step = max(0.9 * step * reach / far, floor)
            continue
        moved = step * pull * sign
        tried = evaluate(
            state.w + (slopes * moved[:, None]).T @ points * state.v[:, None], state.v + moved @ state.hidden, points
        )
        value = log_sum_exp(tried.outputs * sign)
        promised = loss - log_sum_exp(margins + step * gram @ pull)
        share = (target - margins.min()) / max(float(np.min(tried.outputs * sign) - margins.min()), 1e-300)
        if 0 < share < 1 - _LANDING and step > floor:
            step = max((share + _LANDING / 2) * step, floor)
            continue
        if loss - value >= ARMIJO * promised or step <= floor:
            return tried, value, step, pull
        if secants < _SECANTS:
            slopes, secants = (slopes + _secant(state, tried)) / 2.0, secants + 1
        else:
            slopes, step, secants = (state.before > 0).astype(np.float64), max(step * _SHRINK, floor), 0


def _secant(state: State, tried: State) -> Floats:
    """The slope of every ReLU between two states: 0 or 1 on one side of its kink, between them across it."""
    crossed = (state.before > 0) != (tried.before > 0)
    run = np.where(crossed, tried.before - state.before, 1.0)
    return np.where(crossed, (tried.hidden - state.hidden) / run, state.before > 0)


def _balance(gram: Floats, margins: Floats, start: Floats) -> Floats:
    """Solve p = softmax(-(margins + G·p)): Newton on the entropy problem `_price` over Σp = 1."""
    p = np.maximum(start, _TINY)
    p = p / p.sum()
    for _ in range(_NEWTON):
        root = np.sqrt(p)
        slope = np.log(p) + margins + gram @ p
        # In units of √p the Hessian is I + √p·G·√p, well conditioned however small some weights are.
        solved = np.linalg.solve(gram * np.outer(root, root) + np.eye(len(p)), np.column_stack([root * slope, root]))
        change = -solved[:, 0] + solved[:, 1] * ((root @ solved[:, 0]) / (root @ solved[:, 1]))
        relative = change / root
        if np.sum(change[(p > 2 * _TINY) | (relative > 0)] ** 2) < 1e-12:
            break
        p = _lower(gram, margins, p, relative)
    return p / p.sum()


def _lower(gram: Floats, margins: Floats, p: Floats, relative: Floats) -> Floats:
    """The first of the steps relative, relative/2, relative/4 … from ``p`` that costs less than ``p``.

    Weights that a step would make negative shrink exponentially instead, as in the softmax, and hold nobody back.
    """
    here, share = _price(gram, margins, p), 1.0
    while True:
        by = share * relative
        tried = p * np.where(by > -0.5, 1.0 + by, 0.5 * np.exp(np.clip(by + 0.5, -50.0, 0.0)))
        tried = np.maximum(tried / tried.sum(), _TINY)
        if share < 1e-6 or _price(gram, margins, tried) <= here:
            return tried
        share /= 2.0


def _price(gram: Floats, margins: Floats, p: Floats) -> float:
    """Σ p·log p + p·margins + ½·pᵀGp, whose minimum over Σp = 1 is the softmax that `_balance` seeks."""
    return float(p @ (np.log(p) + margins + gram @ p / 2.0))
