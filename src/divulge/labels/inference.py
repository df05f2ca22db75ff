"""Asking an oracle the queries of a plan, one after the other, and reading the labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from divulge import checks
from divulge.labels.answers import LabelInference
from divulge.labels.plans import QueryPlan

if TYPE_CHECKING:
    from divulge.types import Array


class QuotaReachedError(Exception):
    """The oracle answers no more queries for now; what was answered is kept."""


class Keeper(Protocol):
    """Where answers are kept: `Journal`, or anything like it."""

    def answers(self) -> Mapping[int, float]:
        """Answers kept so far, by query number."""
        ...

    def keep(self, index: int, answer: float) -> None:
        """Keep one answer, durably, before the next query is asked."""
        ...


def infer(
    oracle: Callable[[Array], float],
    plan: QueryPlan,
    *,
    journal: Keeper | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LabelInference:
    """Ask ``oracle`` every query of ``plan`` and read the labels.

    Args:
        oracle: predictions → score.
        plan: made by `design` for this very oracle.
        journal: keeps every answer before the next query; queries it already holds are not asked again.
        progress: called with (answered, count) after each answer.

    Raises:
        divulge.InputError: the oracle answered something that is no finite number (the query is named).
    """
    answers = np.full(plan.count, np.nan)
    if journal is not None:
        for index, answer in journal.answers().items():
            answers[index] = _number(answer, index, plan.count)
    for index in range(plan.count):
        if not math.isnan(answers[index]):
            continue
        try:
            answer = oracle(plan.queries[index])
        except QuotaReachedError:
            break
        answers[index] = _number(answer, index, plan.count)
        if journal is not None:
            journal.keep(index, float(answers[index]))
        if progress is not None:
            progress(index + 1, plan.count)
    return read(plan, answers)


def read(plan: QueryPlan, answers: object) -> LabelInference:
    """Labels from answers that are already there (typed in by hand, say).

    Args:
        plan: the plan the queries came from.
        answers: ``[count]``, in the order of the queries; NaN where there is none yet.

    Raises:
        divulge.InputError: another number of answers than the plan has queries.
    """
    found = checks.vector(answers, "answers", finite=False)
    if len(found) != plan.count:
        raise checks.InputError(f"answers: {plan.count} are needed (one a query of the plan), got {len(found)}")
    if np.isinf(found).any():
        raise checks.InputError(f"answers: query {int(np.flatnonzero(np.isinf(found))[0])} has an infinite answer")
    reading = plan.inner.read(found)
    asked = ~np.isnan(found)
    return LabelInference(reading.labels, reading.certain, reading.proven, int(asked.sum()), reading.residual, found)


def _number(answer: Any, index: int, count: int) -> float:
    try:
        found = float(answer)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise checks.InputError(f"oracle: query {index} of {count} was answered with {answer!r}; a number is needed")
    return found
