"""Asking an oracle the queries of a plan, one after the other, and reading the labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from divulge import errors
from divulge.errors import InputError
from divulge.labels import contradiction, probing
from divulge.labels.answers import LabelInference
from divulge.labels.plans import QueryPlan
from divulge.labels.quota import QuotaReachedError
from divulge.validation import check_bool, check_instance, check_vector, format_value, require_callable

if TYPE_CHECKING:
    from divulge.types import Array


class Keeper(Protocol):
    """Where answers are kept: `Journal`, or anything like it."""

    def answers(self) -> Mapping[int, float]:
        """Answers kept so far, by query number; the control query's is the one after the last."""
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
    control: bool = True,
) -> LabelInference:
    """Ask ``oracle`` every query of ``plan`` and read the labels.

    Args:
        oracle: predictions → score.
        plan: made by `design` for this very oracle.
        journal: keeps every answer before the next query; queries it already holds are not asked again.
        progress: called with (answered, count) after each answer.
        control: when all labels are proven, ask one query more, whose answer the labels imply; and when the
            answers contradict the specification, ask up to three more to tell what the oracle is instead.

    Raises:
        divulge.InputError: the oracle answered something that is no finite number (the query is named).
    """
    require_callable(oracle, "oracle")
    check_instance(plan, "plan", QueryPlan, "what labels.design returned")
    if journal is not None:
        require_callable(journal, "journal", "answers", "keep")
    if progress is not None:
        require_callable(progress, "progress")
    check_bool(control, "control")
    answers = _Answers(oracle, plan, journal, progress)
    answers.ask_all()
    inference = read(plan, answers.known)
    if control and inference.contradiction is None and inference.proven.all() and answers.ask(plan.count, plan.control):
        inference = read(plan, answers.known)
    if control and inference.contradiction is not None:
        return replace(inference, contradiction=probing.explain(oracle, plan, answers.known, inference.contradiction))
    return inference


class _Answers:
    """Answers as they come in, ``known`` ``[count + 1]``: the control query's last, NaN where there is none yet."""

    def __init__(
        self,
        oracle: Callable[[Array], float],
        plan: QueryPlan,
        journal: Keeper | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.oracle, self.plan, self.journal, self.progress = oracle, plan, journal, progress
        self.known = np.full(plan.count + 1, np.nan)
        for index, answer in journal.answers().items() if journal is not None else ():
            self.known[index] = _number(answer, index, plan.count)

    def ask_all(self) -> None:
        """Every query of the plan that has no answer yet, until the quota is used up."""
        for index in range(self.plan.count):
            if not math.isnan(self.known[index]):
                continue
            question = self.plan.query_after(index, self.known)
            if question is None or not self.ask(index, question):
                return
            if self.progress is not None:
                with errors.user_code_errors("progress"):
                    self.progress(index + 1, self.plan.count)

    def ask(self, index: int, predictions: Array) -> bool:
        """One query, unless it has its answer already; False when the quota is used up."""
        if not math.isnan(self.known[index]):
            return True
        try:
            with errors.user_code_errors("oracle", QuotaReachedError):
                answer = self.oracle(predictions)
        except QuotaReachedError:
            return False
        self.known[index] = _number(answer, index, self.plan.count)
        if self.journal is not None:
            self.journal.keep(index, float(self.known[index]))
        return True


def read(plan: QueryPlan, answers: object) -> LabelInference:
    """Labels from answers that are already there (typed in by hand, say).

    Args:
        plan: the plan the queries came from.
        answers: ``[count]``, in the order of the queries; NaN where there is none yet. One more at the end is the
            answer to ``plan.control``.

    Raises:
        divulge.InputError: another number of answers than the plan has queries.
    """
    check_instance(plan, "plan", QueryPlan, "what labels.design returned")
    given = check_vector(answers, "answers", finite=False)
    if len(given) not in (plan.count, plan.count + 1):
        raise InputError(f"answers: {plan.count} are needed (one per query of the plan), got {len(given)}")
    if np.isinf(given).any():
        raise InputError(f"answers: query {int(np.flatnonzero(np.isinf(given))[0])} has an infinite answer")
    given = contradiction.decimal(given, plan.spec.decimals)
    known = given[: plan.count]
    reading = plan.inner.read(known)
    against = contradiction.find(plan, known, reading)
    checked = False
    if against is None and reading.proven.all() and len(given) > plan.count and not math.isnan(given[-1]):
        against = contradiction.of_control(plan.spec, reading.labels, float(given[-1]))
        checked = against is None
    asked = int((~np.isnan(known)).sum())
    certain, proven = reading.certain & (against is None), reading.proven & (against is None)
    return LabelInference(reading.labels, certain, proven, asked, reading.residual, known, against, checked)


def _number(answer: Any, index: int, count: int) -> float:
    try:
        number = float(answer)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        which = f"query {index} of {count}" if index < count else "the control query"
        raise InputError(f"oracle: {which} was answered with {format_value(answer)}; a number is needed")
    return number
