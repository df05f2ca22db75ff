"""Answers that cannot come from the oracle that was declared: found, and what they look like instead.

That they contradict the declaration is proven (for stochastic noise: but for one case in a million). What they look
like is a guess, made only then: each usual slip is tried on the answers, and the first that explains them is named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.labels import control

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.labels.plans import QueryPlan
    from divulge.labels.reading import Reading
    from divulge.labels.spec import OracleSpec
    from divulge.types import Bools, Floats, Ints

_MOST_DECIMALS = 12
_CHANCE = 1e-3  # of trailing zeros by accident, below which answers look rounded


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Why the answers cannot come from the oracle that was declared.

    Args:
        found: what contradicts it.
        looks: what the answers look like instead; empty where no usual slip explains them.
        queries: numbers of the answers concerned; empty for the control query.

    Examples:
        >>> print(Contradiction("3 of 9 answers fit no labels", "rounded to 4 decimals"))
        the answers contradict the specification: 3 of 9 answers fit no labels; they look rounded to 4 decimals
    """

    found: str
    looks: str = ""
    queries: tuple[int, ...] = ()

    def __str__(self) -> str:
        looks = f"they look {self.looks}" if self.looks else "check metric, clip, decimals, noise and number of rows"
        return f"the answers contradict the specification: {self.found}; {looks}"


def find(plan: QueryPlan, answers: Floats, reading: Reading) -> Contradiction | None:
    """What in the answers ``[count]`` contradicts the plan's oracle, if anything does."""
    asked = ~np.isnan(answers)
    finer = asked & ~on_decimals(answers, plan.spec.decimals)
    if finer.any():
        declared = f"more than the {plan.spec.decimals} decimals declared"
        reason = f"{int(finer.sum())} of {int(asked.sum())} answers have {declared}"
        return Contradiction(reason, _decimals(answers[asked], _MOST_DECIMALS), _numbers(finer))
    if reading.refuted.any():
        reason = f"{int(reading.refuted.sum())} of {int(asked.sum())} answers fit no labels"
        return Contradiction(reason, shown(answers, plan.spec) or slip(plan, answers), _numbers(reading.refuted))
    return None


def of_control(spec: OracleSpec, labels: Ints, answer: float) -> Contradiction | None:
    """What the answer to the control query says against these labels, and so against the declaration."""
    expected, allowed = control.implied(spec, labels)
    if abs(answer - expected) <= allowed:
        return None
    return Contradiction(f"the control query was answered {answer:.10g}, the labels read imply {expected:.10g}")


def _numbers(flags: Bools) -> tuple[int, ...]:
    return tuple(np.flatnonzero(flags).tolist())


def on_decimals(answers: Floats, decimals: int | None) -> Bools:
    """Answers that are multiples of 10^-decimals, as near as a float can be; all of them when None.

    A score may have been kept in single precision on its way, where that still shows so many decimals.

    Examples:
        >>> on_decimals(np.array([0.125, 0.13, float(np.float32(0.13))]), 2)
        array([False,  True,  True])
    """
    if decimals is None:
        return np.ones(len(answers), dtype=bool)
    step = 10.0**-decimals
    size = np.where(np.isnan(answers), 0.0, np.abs(answers))
    single = np.spacing(size.astype(np.float32)).astype(float)
    slack = np.maximum(4 * np.spacing(size), np.where(single < 0.9 * step, 0.51 * single, 0.0))
    known = np.where(np.isnan(answers), 0.0, answers)
    return np.abs(known - np.round(known / step) * step) <= slack


def decimal(answers: Floats, decimals: int | None) -> Floats:
    """Answers put back on the declared decimals where single precision took them a little off.

    Examples:
        >>> decimal(np.array([float(np.float32(0.13)), 0.125]), 2)
        array([0.13 , 0.125])
    """
    if decimals is None:
        return answers
    back = np.array([round(float(answer), decimals) for answer in answers])
    return np.where(on_decimals(answers, decimals), back, answers)


def shown(answers: Floats, spec: OracleSpec) -> str:
    """What the answers look like by themselves: constant, rounded or repeated; empty when nothing strikes."""
    known = answers[~np.isnan(answers)]
    return _alike(known) or _rounded(known, spec) or _repeated(known, spec.decimals)


def slip(plan: QueryPlan, answers: Floats) -> str:
    """What people usually get wrong about a metric that would explain the answers; empty when nothing does."""
    return next((said for said, change in _slips(plan.spec) if _fits(plan, change(answers))), "")


def _alike(known: Floats) -> str:
    return f"constant (every answer is {known[0]:g})" if len(known) > 2 and np.ptp(known) == 0 else ""


def _repeated(known: Floats, decimals: int | None) -> str:
    """Answers that are those of the query before, as a cache or a limit on requests would give them."""
    again = int((np.diff(known) == 0).sum())
    return (
        f"repeated ({again} answers repeat the previous one)"
        if again >= 3 and (decimals is None or decimals > 3)
        else ""
    )


def _rounded(known: Floats, spec: OracleSpec) -> str:
    """Fewer decimals than declared, where that is no accident."""
    most = _MOST_DECIMALS if spec.decimals is None else spec.decimals - 1
    # Floats this large show no more decimals than these.
    most = min(most, math.floor(-math.log10(100 * np.spacing(max(float(np.abs(known).max()), 1e-300)))))
    for decimals in range(most + 1):
        if on_decimals(known, decimals).all():
            by_chance = 10.0 ** (-(most + 1 - decimals) * len(np.unique(known)))
            # Shares of 100 rows have two decimals by themselves.
            natural = spec.decimals is None and 10**decimals % spec.n == 0
            return f"rounded to {decimals} decimals" if by_chance < _CHANCE and not natural else ""
    return ""


def _decimals(known: Floats, most: int) -> str:
    fewest = next((d for d in range(most + 1) if on_decimals(known, d).all()), None)
    return "unrounded" if fewest is None else f"rounded to {fewest} decimals"


def _slips(spec: OracleSpec) -> list[tuple[str, Callable[[Floats], Floats]]]:
    """What people get wrong about a metric, as what would put the answers right."""
    n = spec.rows_per_answer if spec.reduction == "mean" else float(spec.n)
    half = spec.rounding
    slips: list[tuple[str, Callable[[Floats], Floats]]] = []
    if half:
        slips.append((f"truncated to {spec.decimals} decimals, not rounded", lambda a: a + half))
        slips.append((f"rounded up to {spec.decimals} decimals", lambda a: a - half))
    if spec.name in ("accuracy", "f1", "auc"):
        slips.append((f"like 1 minus {spec.name}", lambda a: 1 - a))
        slips.append(("like per cent", lambda a: a / 100))
        return slips
    if spec.reduction == "mean":
        slips.append(("like a sum over rows, not a mean", lambda a: a / n))
    else:
        slips.append(("like a mean over rows, not a sum", lambda a: a * n))
    slips.append(("negated (larger is better there)", lambda a: -a))
    if spec.name in ("log_loss", "softmax_cross_entropy", "sigmoid_cross_entropy"):
        slips.append(("like logarithms to base 2", lambda a: a * math.log(2)))
        slips.append(("like logarithms to base 10", lambda a: a * math.log(10)))
    if spec.name == "rmse":
        slips.append(("like a mean squared error, without the root", lambda a: np.sqrt(np.maximum(a, 0))))
    if spec.name in ("mse", "squared_euclidean"):
        slips.append(("like the root of the mean squared error", lambda a: a**2))
        slips.append(("like a sum over both classes (twice the square)", lambda a: a / 2))
    return slips


def _fits(plan: QueryPlan, answers: Floats) -> bool:
    return not plan.inner.read(answers).refuted.any()
