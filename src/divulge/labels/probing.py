"""A few more queries, once an oracle is known to differ from its declaration, to tell what it is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.labels.contradiction import shown
from divulge.labels.noise import reach
from divulge.labels.quota import QuotaReachedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.labels.contradiction import Contradiction
    from divulge.labels.plans import QueryPlan
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Floats

_LEAST = 1e-300  # a probability that every clip there is would raise
_CLIPS = (*(10.0**-k for k in range(1, 21)), *(float(np.finfo(kind).eps) for kind in ("float16", "float32", "float64")))
_SCALES = {
    "negated (larger is better there)": -1.0,
    "like logarithms to base 2": 1 / math.log(2),
    "like logarithms to base 10": 1 / math.log(10),
    "like per cent": 100.0,
}


def explain(
    oracle: Callable[[Array], float], plan: QueryPlan, answers: Floats, against: Contradiction
) -> Contradiction:
    """The contradiction with what up to three more queries say about its cause.

    Args:
        oracle: predictions → score.
        plan: the plan whose answers contradict what was declared.
        answers: ``[count + 1]``, the control query's last.
        against: what was found.
    """
    try:
        looks = shown(answers, plan.spec) or _noisy(oracle, plan, answers, against)
        looks = looks or against.looks or _opposite(oracle, plan.spec)
    except (QuotaReachedError, InputError):
        # Nothing more is to be had; what was found stands.
        return against
    return replace(against, looks=looks)


def _noisy(oracle: Callable[[Array], float], plan: QueryPlan, answers: Floats, against: Contradiction) -> str:
    """The same query once more: a server without noise gives the same answer, one with bounded noise nearly."""
    spec = plan.spec
    index = against.queries[0] if against.queries else plan.count
    first = float(answers[index])
    second = float(oracle(plan.queries[index] if index < plan.count else plan.control))
    declared = reach(spec, 1)
    if abs(second - first) <= (2 * (declared + spec.rounding) * (1 + 1e-9) if declared else 0.0):
        return ""
    said = f"only {spec.noise:g} ({spec.noise_kind})" if spec.noise else "none"
    return f"noisy (the same query was answered {first:.10g} and {second:.10g}; declared noise: {said})"


def _opposite(oracle: Callable[[Array], float], spec: OracleSpec) -> str:
    """Two opposite queries, as sure as can be: their answers add up to what clip and scale alone decide."""
    if spec.name != "log_loss" or spec.classes != 2 or spec.class_weight is not None or spec.scored != "all":
        return ""
    sure = np.tile([1.0, _LEAST], (spec.n, 1))
    pair = [sure, sure[:, ::-1]] if spec.submission == "rows" else [sure[:, 1], sure[:, 0]]
    total = sum(float(oracle(predictions)) for predictions in pair)
    wanted = _total(spec.epsilon) * (1 if spec.reduction == "mean" else spec.n)
    scales = _SCALES | (
        {"like a sum over rows, not a mean": float(spec.n)}
        if spec.reduction == "mean"
        else {"like a mean over rows, not a sum": 1 / spec.n}
    )
    for looks, scale in scales.items():
        if _close(total, scale * wanted, spec):
            return looks
    if _close(total, wanted, spec):
        return ""
    each = total / (1 if spec.reduction == "mean" else spec.n)
    clip = min(_CLIPS, key=lambda clip: abs(each - _total(clip)))
    if _close(each, _total(clip), spec):
        return f"clipped at {clip:.3g}, not at {spec.epsilon:g}"
    return "not clipped at all" if _close(each, _total(0.0), spec) else ""


def _total(clip: float) -> float:
    """Loss of a sure prediction for either label, added up: ln(1/c) + ln(1/(1-c))."""
    return -math.log(max(clip, _LEAST)) - math.log1p(-clip)


def _close(value: float, wanted: float, spec: OracleSpec) -> bool:
    return abs(value - wanted) <= 2 * (reach(spec, 1) + spec.rounding) + 1e-3 * abs(wanted)
