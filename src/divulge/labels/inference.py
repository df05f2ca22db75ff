"""Label inference: ask an oracle the queries of a plan, read the labels, and explain answers that contradict it.

That answers contradict the declared oracle is proven (for stochastic noise: but for one case in a million). What they
look like instead is a guess, made only then: each usual mistake is tried on the answers, a few more queries are asked,
and the first explanation that fits is named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from divulge import errors, store
from divulge.errors import InputError
from divulge.labels import metrics, plans
from divulge.labels.defences import capacity, defend, is_larger_better
from divulge.labels.design import design
from divulge.labels.oracles import LocalOracle, OracleSpec, QuotaReachedError, check_scored_mask, noise_bound
from divulge.labels.plans import QueryPlan
from divulge.labels.single_rows import SingleRowPlan, find_checked_rows
from divulge.labels.stochastic import SignPlan, queries_to_prove
from divulge.results import MEANING, CapacitySummary, DefenceSummary, LabelsSummary, OracleSummary, PlanSummary
from divulge.validation import check_bool, check_instance, check_labels, check_vector, format_value, require_callable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from divulge.labels.defences import Defence
    from divulge.labels.plans import Reading
    from divulge.types import Array, Bools, Floats, Ints


_MAX_TESTED_DECIMALS = 12
_ACCIDENT_PROBABILITY = 1e-3  # of trailing zeros by accident, below which answers look rounded
_TINY_PROBABILITY = 1e-300  # a probability that every clip there is would raise
_COMMON_CLIPS = (
    *(10.0**-k for k in range(1, 21)),
    *(float(np.finfo(dtype).eps) for dtype in ("float16", "float32", "float64")),
)
_COMMON_SCALES = {
    "negated (larger is better there)": -1.0,
    "like logarithms to base 2": 1 / math.log(2),
    "like logarithms to base 10": 1 / math.log(10),
    "like per cent": 100.0,
}

_WHAT_TO_CHECK = (
    "check metric, clip, decimals, noise, number of rows, submission (rows, or positive: one column) and scored (a "
    "number of rows, or unknown, where not all count)"
)
_MIN_LADDER_ANSWERS = 6  # that never get worse, as those of a ladder; others do by chance once in 720
_MIN_REPEATS = 3
_N_SPLIT_CHANCES = 100  # a guess of the number of scored rows may be an accident once in ten
RULE_LEAKS = (
    "which protects no label that is worth more than the gain: each row asked alone improves the score where its label "
    "is guessed right (labels.menu, or labels defend --step, counts what leaks)"
)
_POINTS = 25


@dataclass(frozen=True, slots=True, eq=False)
class LabelInference:
    """The labels that an attack recovered, and how far to trust each.

    Args:
        labels: ``[n]``; a guess where nothing is known; -1 for rows that a hidden split does not score.
        certain: bool ``[n]``; True where the label (or that a row is not scored) is proven, and no other one explains
            the answers even if the noise were **twice** the declared bound. For stochastic noise: where all labellings
            with another label have odds below one in a million even at twice the declared standard deviation.
        proven: bool ``[n]``; True where the label is determined and the control queries were answered as the labels
            imply, which wrong labels pass once in a million attacks. For stochastic noise a label is determined where
            all labellings with another one have odds below one in a million. A plan that spends all the range it has
            proves more labels than it can be certain of; ask `design` for ``guard`` to close the gap.
        determined: bool ``[n]``; True where the label follows *if* the oracle is what was declared, and no answer
            contradicts that.
        queries: how many answers were used.
        residual: ``[queries]``, distance of each answer from the one the labels imply, in the oracle's unit.
        answers: ``[count]``, what the oracle said, NaN where it was not asked.
        contradiction: why the answers cannot come from the oracle that was declared; None where nothing speaks
            against it.
        checked: all control queries were answered as the labels imply, and not all answers were the same.
        caveat: why labels are not proven, where that can be said; under loud noise how many queries would prove them.
    """

    labels: Ints
    certain: Bools
    proven: Bools
    determined: Bools
    queries: int
    residual: Floats
    answers: Floats
    contradiction: Contradiction | None = None
    checked: bool = False
    caveat: str = ""

    @property
    def complete(self) -> bool:
        """True if all queries of the plan were answered, or all that a search needed."""
        return self.queries == len(self.answers) or bool(self.determined.all())

    def count_labels(self, is_counted: Bools) -> int:
        """Return how many labels are ``is_counted``; a row of which it follows that it is not scored has none."""
        return int((is_counted & (self.labels >= 0)).sum())

    def __repr__(self) -> str:
        if self.contradiction is not None:
            return f"LabelInference({self.contradiction})"
        return (
            f"LabelInference({int((self.labels >= 0).sum())} labels from {self.queries} queries, "
            f"{self.count_labels(self.certain)} certain, {self.count_labels(self.proven)} proven"
            f"{'; ' if self.caveat else ''}{self.caveat})"
        )


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Why the answers cannot come from the oracle that was declared.

    Args:
        found: what contradicts it.
        looks: what the answers look like instead; empty where no usual slip explains them.
        queries: numbers of the answers concerned; those of control queries follow the plan's.

    Examples:
        >>> print(Contradiction("3 of 9 answers fit no labels", "rounded to 4 decimals"))
        the answers contradict the specification: 3 of 9 answers fit no labels; they look rounded to 4 decimals
    """

    found: str
    looks: str = ""
    queries: tuple[int, ...] = ()

    def __str__(self) -> str:
        looks = f"they look {self.looks}" if self.looks else _WHAT_TO_CHECK
        return f"the answers contradict the specification: {self.found}; {looks}"


class AnswerStore(Protocol):
    """A durable store of answers: `Journal`, or anything like it."""

    def answers(self) -> Mapping[int, float]:
        """Return the stored answers by query number; those of the control queries come after the plan's."""
        ...

    def keep(self, index: int, answer: float) -> None:
        """Store one answer durably, before the next query is asked."""
        ...


def infer(
    oracle: Callable[[Array], float],
    plan: QueryPlan,
    *,
    journal: AnswerStore | None = None,
    progress: Callable[[int, int], None] | None = None,
    control: bool = True,
) -> LabelInference:
    """Ask ``oracle`` every query of ``plan`` and read the labels.

    Args:
        oracle: predictions → score.
        plan: made by `design` for this very oracle.
        journal: keeps every answer before the next query; queries it already holds are not asked again.
        progress: called with (answered, count) after each answer.
        control: ask the control queries as well, whose answers the labels imply, without which nothing is proven;
            and when the answers contradict the specification, ask up to five more to tell what the oracle is instead.

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
    answers = _AnswerCollector(oracle, plan, journal, progress)
    is_finished = answers.ask_all()
    inference = read(plan, answers.values)
    if control and is_finished and inference.determined.any() and answers.ask_controls():
        inference = read(plan, answers.values)
    if control and inference.contradiction is not None:
        return replace(
            inference, contradiction=explain_contradiction(oracle, plan, answers.values, inference.contradiction)
        )
    return inference


class _AnswerCollector:
    """Answers as they come in, ``values``: the plan's, then the control queries', NaN where there is none yet."""

    def __init__(
        self,
        oracle: Callable[[Array], float],
        plan: QueryPlan,
        journal: AnswerStore | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.oracle, self.plan, self.journal, self.progress = oracle, plan, journal, progress
        self.controls = plan.controls
        self.values = np.full(plan.count + len(self.controls), np.nan)
        for index, answer in journal.answers().items() if journal is not None else ():
            self.values[index] = _check_answer(answer, index, plan.count)

    def ask_all(self) -> bool:
        """Ask every query of the plan that has no answer yet; return False when the quota is used up."""
        for index in range(self.plan.count):
            if not math.isnan(self.values[index]):
                continue
            query = self.plan.query_after(index, self.values)
            if query is None:
                return True
            if not self.ask(index, query):
                return False
            if self.progress is not None:
                with errors.user_code_errors("progress"):
                    self.progress(index + 1, self.plan.count)
        return True

    def ask_controls(self) -> bool:
        """Ask the control queries; return False when the quota is used up."""
        return all(self.ask(index, query) for index, query in enumerate(self.controls, start=self.plan.count))

    def ask(self, index: int, predictions: Array) -> bool:
        """Ask one query, unless it has its answer already; return False when the quota is used up."""
        if not math.isnan(self.values[index]):
            return True
        try:
            with errors.user_code_errors("oracle", QuotaReachedError):
                answer = self.oracle(predictions)
        except QuotaReachedError:
            return False
        self.values[index] = _check_answer(answer, index, self.plan.count)
        if self.journal is not None:
            self.journal.keep(index, float(self.values[index]))
        return True


def read(plan: QueryPlan, answers: object) -> LabelInference:
    """Read labels from answers that are already there (typed in by hand, say).

    Args:
        plan: the plan the queries came from.
        answers: ``[count]``, in the order of the queries; NaN where there is none yet. Those that follow are the
            answers to ``plan.controls``.

    Raises:
        divulge.InputError: another number of answers than the plan has queries.
    """
    check_instance(plan, "plan", QueryPlan, "what labels.design returned")
    checked = check_vector(answers, "answers", finite=False)
    n_controls = plans.count_controls(plan.spec)
    if not plan.count <= len(checked) <= plan.count + n_controls:
        raise InputError(
            f"answers: {plan.count} are needed (one per query of the plan, and up to {n_controls} to its controls), "
            f"got {len(checked)}"
        )
    if np.isinf(checked).any():
        raise InputError(f"answers: query {int(np.flatnonzero(np.isinf(checked))[0])} has an infinite answer")
    checked = round_single_precision(checked, plan.spec.decimals)
    plan_answers, control_answers = checked[: plan.count], checked[plan.count :]
    reading = plan.inner.read(plan_answers)
    contradiction = find_contradiction(plan, plan_answers, reading)
    disagreement = None
    if contradiction is None and reading.proven.any():
        disagreement = check_control_answers(plan, reading.labels, control_answers)
    if reading.proven.all():
        contradiction = contradiction or disagreement
    determined = reading.proven & (contradiction is None)
    caveat = ""
    if contradiction is None:
        n_open = (n_controls - int((~np.isnan(control_answers)).sum())) * int(determined.any())
        caveat = _find_caveat(plan.spec, checked, n_open, disagreement)
    proven = determined & (not caveat)
    if contradiction is None and not caveat:
        proven, caveat = _find_open_rows(plan, reading.labels, determined, plan_answers)
    return LabelInference(
        labels=reading.labels,
        certain=reading.certain & proven,
        proven=proven,
        determined=determined,
        queries=int((~np.isnan(plan_answers)).sum()),
        residual=reading.residual,
        answers=plan_answers,
        contradiction=contradiction,
        checked=bool(proven.any()),
        caveat=caveat,
    )


def _find_open_rows(plan: QueryPlan, labels: Ints, determined: Bools, answers: Floats) -> tuple[Bools, str]:
    """Return which of the determined labels are proven, and what is to be said of the others and of rows left open.

    Args:
        plan: the queries.
        labels: read, ``[n]``.
        determined: by the answers, bool ``[n]``.
        answers: to the plan, ``[count]``.
    """
    n_open = int((~determined).sum())
    if isinstance(plan.inner, SignPlan):
        n_queries = queries_to_prove(plan.inner.spec) if n_open else 0
        told = f"{n_open:,} more are best guesses, and proving all takes about {n_queries:,} queries"
        return determined, told if plan.count < n_queries else ""
    if not isinstance(plan.inner, SingleRowPlan):
        return determined, ""
    proven, caveats = determined & plan.inner.find_scored_rows(answers, labels), []
    if plans.is_coarse(plan.spec) and proven.any():
        proven &= find_checked_rows(plan.spec, labels, plan.controls)
    if n_unchecked := int((determined & ~proven).sum()):
        caveats.append(
            f"{n_unchecked:,} of them are not proven, as no query would show at this precision that the endpoint "
            "leaves their rows out, or scores them otherwise"
        )
    if n_open and not np.isnan(answers[: plan.spec.n]).any():
        told = f"{n_open:,} more stay open: no code known here reads them at this precision, which is no all-clear"
        caveats.append(told)
    return proven, "; ".join(caveats)


def _find_caveat(spec: OracleSpec, answers: Floats, n_open: int, disagreement: Contradiction | None) -> str:
    """Return why the labels hold only if the oracle is what was declared; "" where its answers show that it is.

    Args:
        spec: the oracle.
        answers: to the plan and the control queries, NaN where there is none yet.
        n_open: control queries without an answer, where labels are determined.
        disagreement: of the control queries' answers with the labels, of which some are guesses.
    """
    given_answers = answers[~np.isnan(answers)]
    # Without noise a constant endpoint repeats its number, whatever it is rounded to.
    reach = 2 * spec.tolerance if spec.noise else spec.rounding
    if len(given_answers) > 1 and np.ptp(given_answers) <= reach:
        return (
            f"every answer was the same ({given_answers[0]:g}), as from an endpoint that always says so; nothing is "
            "proven before a submission scores otherwise"
        )
    if n_open:
        return f"{n_open} control queries are not answered yet"
    if disagreement is not None:
        return "some labels are guesses, and the control queries were answered otherwise than all labels imply"
    return ""


def _check_answer(answer: Any, index: int, count: int) -> float:
    try:
        number = float(answer)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        query = f"query {index} of {count}" if index < count else f"control query {index - count}"
        raise InputError(f"oracle: {query} was answered with {format_value(answer)}; a number is needed")
    return number


def find_contradiction(plan: QueryPlan, answers: Floats, reading: Reading) -> Contradiction | None:
    """Return the contradiction between answers ``[count]`` and the plan's oracle; None if there is none."""
    is_answered = ~np.isnan(answers)
    has_more_decimals = is_answered & ~has_decimals(answers, plan.spec.decimals)
    if has_more_decimals.any():
        declared = f"more than the {plan.spec.decimals} decimals declared"
        reason = f"{int(has_more_decimals.sum())} of {int(is_answered.sum())} answers have {declared}"
        given_answers = answers[is_answered]
        fewest = _fewest_decimals(given_answers, _MAX_TESTED_DECIMALS)
        looks = "unrounded" if fewest is None else f"rounded to {fewest} decimals"
        return Contradiction(reason, looks, _query_numbers(has_more_decimals))
    if reading.refuted.any():
        reason = f"{int(reading.refuted.sum())} of {int(is_answered.sum())} answers fit no labels"
        looks = describe_pattern(answers, plan.spec) or find_metric_mistake(plan, answers)
        return Contradiction(reason, looks, _query_numbers(reading.refuted))
    return None


def check_control_answers(plan: QueryPlan, labels: Ints, answers: Floats) -> Contradiction | None:
    """Return the contradiction between the control queries' answers and these labels; None if there is none."""
    for index in np.flatnonzero(~np.isnan(answers)).tolist():
        expected, allowed = plans.implied_control_answer(plan.spec, labels, index)
        if not abs(answers[index] - expected) <= allowed:
            reason = f"a control query was answered {answers[index]:.10g}, the labels read imply {expected:.10g}"
            return Contradiction(reason, queries=(plan.count + index,))
    return None


def _query_numbers(flags: Bools) -> tuple[int, ...]:
    return tuple(np.flatnonzero(flags).tolist())


def has_decimals(answers: Floats, decimals: int | None) -> Bools:
    """Flag answers that are multiples of 10^-decimals, as near as a float can be; all of them when None.

    A score may have been kept in single precision on its way, where that still shows so many decimals.

    Examples:
        >>> has_decimals(np.array([0.125, 0.13, float(np.float32(0.13))]), 2)
        array([False,  True,  True])
    """
    if decimals is None:
        return np.ones(len(answers), dtype=bool)
    filled = np.where(np.isnan(answers), 0.0, answers)
    return _distance_from_decimals(filled, decimals) <= np.maximum(*_slack_of_decimals(filled, decimals))


def _distance_from_decimals(answers: Floats, decimals: int) -> Floats:
    step = 10.0**-decimals
    return np.abs(answers - np.round(answers / step) * step)


def _slack_of_decimals(answers: Floats, decimals: int) -> tuple[Floats, Floats]:
    """Return how far numbers of so many decimals lie from them in double, and in single precision (0: not shown)."""
    single = np.spacing(np.abs(answers).astype(np.float32)).astype(float)
    return 4 * np.spacing(np.abs(answers)), np.where(single < 0.9 * 10.0**-decimals, 0.51 * single, 0.0)


def _fewest_decimals(answers: Floats, most: int) -> int | None:
    """Return the fewest decimals that all answers have, up to ``most``; None if they have more.

    In single precision the last decimals fit most numbers there are, so that few answers have them by accident.
    """
    for decimals in range(most + 1):
        double, single = _slack_of_decimals(answers, decimals)
        distance = _distance_from_decimals(answers, decimals)
        is_near = distance > double  # near, if at all, as single precision is
        accident = float(np.prod(np.minimum(2 * single[is_near] * 10.0**decimals, 1.0)))
        if not is_near.any() or ((distance <= single)[is_near].all() and accident < _ACCIDENT_PROBABILITY):
            return decimals
    return None


def round_single_precision(answers: Floats, decimals: int | None) -> Floats:
    """Round answers back to the declared decimals where single precision took them a little off.

    Examples:
        >>> round_single_precision(np.array([float(np.float32(0.13)), 0.125]), 2)
        array([0.13 , 0.125])
    """
    if decimals is None:
        return answers
    back = np.array([round(float(answer), decimals) for answer in answers])
    return np.where(has_decimals(answers, decimals), back, answers)


def describe_pattern(answers: Floats, spec: OracleSpec) -> str:
    """Describe a pattern in the answers themselves: constant, rounded or repeated; "" when there is none."""
    given_answers = answers[~np.isnan(answers)]
    if len(given_answers) > 2 and np.ptp(given_answers) == 0:
        return f"constant (every answer is {given_answers[0]:g})"
    if _looks_like_ladder(given_answers, spec):
        n_repeats = int((np.diff(given_answers) == 0).sum())
        return (
            f"like the best score so far ({n_repeats} answers repeat the one before, none is worse), as a ladder or a "
            f"minimum gain shows it, {RULE_LEAKS}"
        )
    if looks := _describe_rounding(given_answers, spec):
        return looks
    # As from a cache, or behind a limit on requests; few decimals repeat by themselves.
    n_repeats = int((np.diff(given_answers) == 0).sum())
    is_suspicious = n_repeats >= 3 and (spec.decimals is None or spec.decimals > 3)
    if spec.name == "accuracy":  # of which there are few values
        is_suspicious = is_suspicious and 2 * n_repeats > len(given_answers)
    return f"repeated ({n_repeats} answers repeat the previous one)" if is_suspicious else ""


def _looks_like_ladder(answers: Floats, spec: OracleSpec) -> bool:
    """Return True if answers only improve, and often repeat, as where only a score that beats the best is shown."""
    gains = np.diff(answers) if is_larger_better(spec) else -np.diff(answers)
    improves = len(answers) >= _MIN_LADDER_ANSWERS and bool((gains >= 0).all())
    return improves and int((gains == 0).sum()) >= _MIN_REPEATS


def find_metric_mistake(plan: QueryPlan, answers: Floats) -> str:
    """Describe a usual mistake about the metric that would explain the answers; "" when none does."""
    for description, correct in _metric_mistakes(plan.spec):
        if not plan.inner.read(correct(answers)).refuted.any():
            return description
    return ""


def _describe_rounding(answers: Floats, spec: OracleSpec) -> str:
    """Describe rounding to fewer decimals than declared, where that is no accident."""
    max_decimals = _MAX_TESTED_DECIMALS if spec.decimals is None else spec.decimals - 1
    # Floats this large show no more decimals than these.
    max_decimals = min(
        max_decimals, math.floor(-math.log10(100 * np.spacing(max(float(np.abs(answers).max()), 1e-300))))
    )
    decimals = _fewest_decimals(answers, max_decimals)
    if decimals is None:
        return ""
    chance = 10.0 ** (-(max_decimals + 1 - decimals) * len(np.unique(answers)))
    # Shares of 100 rows have two decimals by themselves.
    is_natural = 10**decimals % spec.n == 0 and (spec.decimals is None or spec.name == "accuracy")
    return f"rounded to {decimals} decimals" if chance < _ACCIDENT_PROBABILITY and not is_natural else ""


def _metric_mistakes(spec: OracleSpec) -> list[tuple[str, Callable[[Floats], Floats]]]:
    """List usual mistakes about a metric, each with the function that would correct the answers."""
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
    if spec.name in metrics.ROOTS:
        slips.append(("like a mean squared error, without the root", lambda a: np.sqrt(np.maximum(a, 0))))
    if spec.name in ("mse", "squared_euclidean"):
        slips.append(("like the root of the mean squared error", lambda a: a**2))
        slips.append(("like a sum over both classes (twice the square)", lambda a: a / 2))
    return slips


def explain_contradiction(
    oracle: Callable[[Array], float], plan: QueryPlan, answers: Floats, contradiction: Contradiction
) -> Contradiction:
    """Return the contradiction with a guess at its cause, from up to five more queries.

    Args:
        oracle: predictions → score.
        plan: the plan whose answers contradict what was declared.
        answers: the plan's, then the control queries'.
        contradiction: what was found.
    """
    try:
        looks = describe_pattern(answers, plan.spec) or _describe_noise(oracle, plan, answers, contradiction)
        looks = looks or contradiction.looks or _describe_scale(oracle, plan.spec) or _describe_count(plan, answers)
    except (QuotaReachedError, InputError):
        # Nothing more is to be had; what was found stands.
        return contradiction
    return replace(contradiction, looks=looks)


def _describe_noise(
    oracle: Callable[[Array], float], plan: QueryPlan, answers: Floats, contradiction: Contradiction
) -> str:
    """Ask the same query again: without noise the answer repeats, with bounded noise nearly."""
    spec = plan.spec
    index = contradiction.queries[0]
    first_answer = float(answers[index])
    second_answer = float(
        oracle(plan.queries[index] if index < plan.count else plans.control_query(spec, index - plan.count))
    )
    bound = noise_bound(spec, 1)
    if abs(second_answer - first_answer) <= (2 * (bound + spec.rounding) * (1 + 1e-9) if bound else 0.0):
        return ""
    declared = f"only {spec.noise:g} ({spec.noise_kind})" if spec.noise else "none"
    return (
        f"noisy (the same query was answered {first_answer:.10g} and {second_answer:.10g}; declared noise: {declared})"
    )


def _describe_scale(oracle: Callable[[Array], float], spec: OracleSpec) -> str:
    """Ask two opposite, most confident queries: clip and scale alone decide the sum of their answers."""
    if spec.name != "log_loss" or spec.classes != 2 or spec.class_weight is not None or spec.scored != "all":
        return ""
    confident = np.tile([1.0, _TINY_PROBABILITY], (spec.n, 1))
    pair = [confident, confident[:, ::-1]] if spec.submission == "rows" else [confident[:, 1], confident[:, 0]]
    shown = [float(oracle(predictions)) for predictions in pair]
    total = sum(shown)
    expected = _opposite_loss(spec.epsilon) * (1 if spec.reduction == "mean" else spec.n)
    scales = _COMMON_SCALES | (
        {"like a sum over rows, not a mean": float(spec.n)}
        if spec.reduction == "mean"
        else {"like a mean over rows, not a sum": 1 / spec.n}
    )
    for looks, scale in scales.items():
        if _is_close(total, scale * expected, spec):
            return looks
    if _is_close(total, expected, spec):
        return _describe_split(shown[0], spec) or _describe_column(oracle, spec)
    mean_total = total / (1 if spec.reduction == "mean" else spec.n)
    clip = min(_COMMON_CLIPS, key=lambda clip: abs(mean_total - _opposite_loss(clip)))
    if _is_close(mean_total, _opposite_loss(clip), spec):
        return f"clipped at {clip:.3g}, not at {spec.epsilon:g}"
    return "not clipped at all" if _is_close(mean_total, _opposite_loss(0.0), spec) else ""


def _describe_split(answer: float, spec: OracleSpec) -> str:
    """Say how many rows count, from the answer to most confident predictions, a share of which is wrong."""
    if spec.reduction == "sum" or not spec.epsilon:
        return ""
    low, high = -math.log1p(-spec.epsilon), -math.log(spec.epsilon)
    share = (answer - low) / (high - low)
    allowed = (spec.rounding + noise_bound(spec, 1)) / (high - low) + 1e-9
    return _describe_denominator(np.array([share]), allowed, spec.n)


def _describe_count(plan: QueryPlan, answers: Floats) -> str:
    """Say how many rows count, from shares of them that are right."""
    spec = plan.spec
    if spec.name != "accuracy" or spec.scored != "all":
        return ""
    # Shares of fewer rows need not be whole in the decimals shown, as those of all rows may be.
    step = 0.0 if spec.decimals is None else 10.0**-spec.decimals
    return _describe_denominator(answers[~np.isnan(answers)], step / 2 + noise_bound(spec, 1) + 1e-9, spec.n)


def _describe_denominator(shares: Floats, allowed: float, n: int) -> str:
    """Say which number of rows, below n, all shares are whole numbers of; "" where n explains them, or chance does."""

    def is_whole(rows: int) -> bool:
        return bool((np.abs(shares - np.rint(shares * rows) / rows) <= allowed).all())

    if is_whole(n):
        return ""
    chance = 0.0  # that some number of rows up to this one explains as many different answers
    for rows in range(1, n):
        chance += min(1.0, 2 * rows * allowed) ** len(np.unique(shares))
        if chance > _ACCIDENT_PROBABILITY * _N_SPLIT_CHANCES:
            return ""
        if is_whole(rows):
            return (
                f"as if not all {n} rows are scored, but {rows} or a multiple of it (set scored to that number, or to "
                "unknown; on the command line --scored)"
            )
    return ""


def _describe_column(oracle: Callable[[Array], float], spec: OracleSpec) -> str:
    """Ask two opposite queries near the clip, where one minus a column is not the other column, for floats end."""
    if spec.submission != "rows" or spec.float_dtype != "float64" or spec.reduction == "sum":
        return ""
    # Half way between two values of 1 - p, just above the clip.
    step = float(np.finfo(np.float64).epsneg)
    small = (math.ceil(max(spec.epsilon, step) / step) + 0.5) * step
    rows = np.tile([small, 1 - small], (spec.n, 1))
    answers = [float(oracle(rows)), float(oracle(rows[:, ::-1]))]
    certain = -math.log1p(-small)
    in_rows = certain - math.log(small)
    one_column = -math.log(max(1 - float(rows[0, 1]), spec.epsilon)) + certain
    # Only rows of one label are concerned: the total lies between both.
    total, off = sum(answers), 2 * (spec.rounding + noise_bound(spec, 1)) + 1e-9
    low, high = sorted((in_rows, one_column))
    if abs(total - in_rows) <= off or not low - off <= total <= high + off:
        return ""
    return (
        "as if one column were scored, the probability of class 1 (set submission to positive, on the command line "
        "--submission positive)"
    )


def _opposite_loss(clip: float) -> float:
    """Return the loss of a most confident prediction summed over both labels: ln(1/c) + ln(1/(1-c))."""
    return -math.log(max(clip, _TINY_PROBABILITY)) - math.log1p(-clip)


def _is_close(value: float, expected: float, spec: OracleSpec) -> bool:
    return abs(value - expected) <= 2 * (noise_bound(spec, 1) + spec.rounding) + 1e-3 * abs(expected)


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """The result of an attack on an oracle with known labels.

    Args:
        inference: what was recovered.
        accuracy: share of labels that are right (of a split: also that a row is not scored).
        certain_and_wrong: labels called certain that are wrong (0, or there is a bug).
        truth: the labels ``[n]``, -1 for rows that are not scored.
    """

    inference: LabelInference
    accuracy: float
    certain_and_wrong: int
    truth: Ints

    @property
    def queries(self) -> int:
        """Number of answers used."""
        return self.inference.queries


def simulate(
    spec: OracleSpec,
    y: object,
    plan: QueryPlan | None = None,
    *,
    oracle: Callable[[Array], float] | None = None,
    seed: int = 0,
    scored: object = None,
) -> Simulation:
    """Run a plan against a local oracle with the labels ``y``.

    Args:
        spec: the oracle.
        y: labels ``[n]``.
        plan: by default the best one that `design` finds.
        oracle: instead of a `LocalOracle`.
        seed: of the oracle's noise.
        scored: bool ``[n]``, the rows of a hidden split that are scored.

    Raises:
        divulge.InputError: labels, mask or plan that do not fit the specification.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> simulate(OracleSpec(n=6, noise=1e-3), [0, 1, 1, 0, 0, 1]).accuracy
        1.0
    """
    check_instance(spec, "spec", OracleSpec, "a labels.OracleSpec")
    truth = check_labels(y, "y", length=spec.n, classes=spec.classes)
    checked_plan = design(spec) if plan is None else plan
    check_plan(checked_plan, spec)
    mask = None if scored is None else check_scored_mask(spec, scored)
    inference = infer(LocalOracle(spec, truth, seed, scored=mask) if oracle is None else oracle, checked_plan)
    if mask is not None:
        truth = np.where(mask, truth, -1)
    right = inference.labels == truth
    return Simulation(inference, float(right.mean()), int((inference.certain & ~right).sum()), truth)


def check_plan(plan: QueryPlan, spec: OracleSpec) -> None:
    """Refuse a plan that was made for another oracle."""
    check_instance(plan, "plan", QueryPlan, "what labels.design returned")
    if plan.spec != spec:
        raise InputError(f"plan: made for another oracle ({plan.spec}), not for {spec}")


def summarise(plan: QueryPlan, inference: LabelInference, truth: Ints | None = None) -> LabelsSummary:
    """Summarise an attack.

    Args:
        plan: the queries.
        inference: what was read off the answers.
        truth: the labels ``[n]``, -1 for rows that are not scored, where they were known beforehand.
    """
    spec, scored = plan.spec, int((inference.labels >= 0).sum())
    bound = capacity(spec)
    is_right = None if truth is None else inference.labels == truth
    known_spec = replace(spec, scored=max(scored, 1)) if spec.scored != "all" else spec
    return LabelsSummary(
        queries=inference.queries,
        complete=inference.complete,
        certain=inference.count_labels(inference.certain),
        proven=inference.count_labels(inference.proven),
        determined=inference.count_labels(inference.determined),
        checked=inference.checked,
        caveat=inference.caveat,
        contradiction=None if inference.contradiction is None else str(inference.contradiction),
        labels=determined_labels(spec, inference),
        scored=scored,
        residual=float(np.nanmax(inference.residual, initial=0.0)),
        right=None if is_right is None else int(is_right.sum()),
        accuracy=None if is_right is None else float(is_right.mean()),
        certain_and_wrong=None if is_right is None else int((inference.certain & ~is_right).sum()),
        oracle=OracleSummary(
            spec.name, spec.n, spec.classes, spec.epsilon, spec.decimals, float(spec.noise), spec.noise_kind
        ),
        plan=summarise_plan(plan),
        limit=CapacitySummary(bound.queries, bound.labels_per_query, bound.binds),
        defence=summarise_defence(defend(known_spec, queries=plan.count)),
    )


def summarise_plan(plan: QueryPlan) -> PlanSummary:
    """Summarise a plan."""
    proof = plan.certificate
    return PlanSummary(plan.method, plan.count, plan.labels_per_query, proof.certified, str(proof))


def summarise_defence(defended: Defence) -> DefenceSummary:
    """Summarise a defence: its settings, formulas and advice."""
    settings = {name: getattr(defended, name) for name in MEANING}
    return DefenceSummary(defended.queries, defended.accuracy, settings, defended.formulas, tuple(defended.advice))


def determined_labels(spec: OracleSpec, inference: LabelInference) -> tuple[int | None, ...] | None:
    """Return the labels that the answers determine: None for an open row, None altogether on a contradiction."""
    if inference.contradiction is not None:
        return None
    # Under noise without a bound every label is a guess, and the best there is.
    is_determined = inference.determined | (spec.noise_kind != "bounded")
    return tuple(int(label) if sure else None for label, sure in zip(inference.labels, is_determined, strict=True))


def write_labels(path: Path, spec: OracleSpec, inference: LabelInference) -> None:
    """Write a line per row: label (empty where the answers leave it open), certain, proven; none on a contradiction."""
    determined = determined_labels(spec, inference)
    rows = (
        enumerate(zip(determined, inference.certain, inference.proven, strict=True)) if determined is not None else ()
    )
    lines = [f"{i},{'' if label is None else label},{sure:d},{follows:d}" for i, (label, sure, follows) in rows]
    store.write_text(path, "\n".join(["row,label,certain,proven", *lines]) + "\n")


def recovery_curve(
    plan: QueryPlan, inference: LabelInference, truth: Ints | None = None
) -> tuple[list[int], list[float]]:
    """Return numbers of answers, and the share of labels determined (and right, where the truth is known) by then.

    Nothing where the answers contradict what was declared, as no labels follow from them.
    """
    if inference.contradiction is not None:
        return [], []
    answered = np.flatnonzero(~np.isnan(inference.answers))
    places = np.unique(np.linspace(0, len(answered), min(_POINTS, len(answered) + 1)).round().astype(int))
    shares = []
    for place in places:
        answers = np.full(plan.count, np.nan)
        answers[answered[:place]] = inference.answers[answered[:place]]
        reading = plan.inner.read(answers)
        is_recovered = reading.proven if truth is None else reading.proven & (reading.labels == truth)
        shares.append(float(is_recovered.mean()))
    return places.tolist(), shares
