"""Plans for metrics that count (accuracy, F1, MAP@k, AUC), and for ratios of counts (balanced accuracy, MCC, QWK, R²).

Accuracy and F1: one query counts the ones; from then on every query tells how many ones a chosen set holds, and
Lindström's detecting matrix (weights 0 and 1) needs the fewest sets. MAP@k with one true label per row: a list of class
c alone scores 1 where c is right and nothing elsewhere, so with lists on some rows only, ``n·score`` counts the rows
among them that are of class c, for every k; the last class needs no query of its own. AUC (Whitehill, "Climbing the
Kaggle leaderboard by exploiting the log-loss oracle", 2018, shows the oracle's power): the sum of the ranks of the ones
is linear in the labels, with ranks the attacker chooses; labels already read serve as spacers between new rows.

Balanced accuracy, macro-F1, Matthews' correlation (MCC) and quadratic weighted kappa (QWK) are no sums over rows. But
of a submission p of class numbers each is ``a + b·Σ p·y``, where a and b depend on p and on totals of the labels alone:
on the number s of ones for two classes, on Σ y and Σ y² for more.

- Balanced accuracy, P rows predicted 1: ``a = (n - s - P) / 2(n - s)``, ``b = 1/2s + 1/2(n - s)``.
- Macro-F1 of two classes, P rows predicted 1: ``a = (n - s - P) / (2n - P - s)``, ``b = 1/(P + s) + 1/(2n - P - s)``.
- MCC: ``b = n / √(P (n - P) s (n - s))``, ``a = -b·P·s/n``.
- QWK: ``b = 2/E``, ``a = 1 - (Σp² + Σy²)/E`` with ``E = Σp² + Σy² - 2·Σp·Σy/n``, for any number of classes.

So an integer code (`divulge.labels.codes`) reads the labels for any given totals. All possible totals are tried: the
answers must be whole numbers for them, the labels read must have these totals, and must imply the answers to the
first query (row 0 alone) and to a few random ones. Whatever all totals that pass agree on is proven. A metric that is
only evaluated (`divulge.labels.Evaluated`), and depends on the four counts alone, is read in the same way, with its
values found by evaluation on labels that have these counts.

R² of labels 0 and 1: ``1 - R² = n·MSE / (s (n - s)/n)`` with s ones, so one query more makes it an MSE. Predicting 0
everywhere scores ``-s/(n - s)``, which tells s. All other queries are those of a plan for the mean squared error, whose
answers are ``(1 - R²)·s (n - s)/n²``. With labels of one class only, scikit-learn gives 1 to perfect predictions and 0
to all others, and so does the oracle here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.labels import codes, metrics, single_rows, stochastic
from divulge.labels.codes import detecting_code, detecting_queries
from divulge.labels.metrics import Evaluated, Linear, r_squared
from divulge.labels.oracles import linear_coefficients, ratio_score
from divulge.labels.plans import Certificate, QueryPlan, Reading, describe_missing_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from divulge.labels.codes import Code
    from divulge.labels.oracles import OracleSpec
    from divulge.types import Array, Bools, Floats, Ints


_MAX_AUC_ROWS = 11


_SCORE_ERROR = 1e-12  # of a score, whichever way the endpoint computes it; of R², relative to 1 + its size
_N_RANDOM_CHECKS = 3
_MAX_CANDIDATES = 256
_MAX_LABEL_SUM = 20_000  # n times the largest class number, for more than two classes
_MAX_EVALUATED_ROWS = 2_000  # rows


def require_bounded_noise(spec: OracleSpec) -> None:
    """Refuse noise without a bound, and say what helps."""
    if spec.noise_kind != "bounded":
        raise InputError(
            f"noise_kind: no code known here reads {spec.name} under {spec.noise_kind} noise; average m answers to "
            "each submission, whose noise is √m times smaller, and declare bounded noise of six standard deviations of "
            "the mean"
        )


def plan_counts(spec: OracleSpec, queries: int | None = None) -> QueryPlan:
    """Return the plan for accuracy, F1 or AUC.

    Args:
        spec: the oracle.
        queries: how many to ask, for accuracy under noise without a bound.

    Raises:
        divulge.InputError: noise or rounding hides single counts, or the noise is stochastic (but for accuracy).
    """
    if spec.name == "accuracy" and spec.noise_kind != "bounded":
        # One minus accuracy is the mean absolute error of predictions 0 and 1, all that signs submit.
        signs = stochastic.plan_signs(replace(spec, metric="mae"), queries)
        assert isinstance(signs.inner, stochastic.SignPlan), "as plan_signs makes it"
        inner = AccuracySignPlan(signs.inner.spec, signs.inner.count, signs.inner.prime)
        return QueryPlan(spec, signs.method, inner, signs.certificate)
    require_bounded_noise(spec)
    threshold = {"accuracy": 1 / (2 * spec.n), "f1": 1 / (4 * spec.n), "auc": 1 / (4 * spec.n**2)}[spec.name]
    if spec.tolerance >= threshold:
        if (plan := single_rows.find_single_rows(spec)) is not None:
            return plan
        raise InputError(describe_missing_code(spec, _describe_hidden_labels(spec, threshold)))
    inner: AucPlan | CountPlan = _plan_auc(spec) if spec.name == "auc" else CountPlan(spec, detecting_code(spec.n))
    certificate = Certificate(True, 2 * threshold, 2 * spec.tolerance, "counts are integers")
    return QueryPlan(spec, "ranks" if spec.name == "auc" else "detecting matrix", inner, certificate)


def _describe_hidden_labels(spec: OracleSpec, threshold: float) -> str:
    """Say which error hides labels from the codes here."""
    return (
        f"an error of ±{spec.tolerance:.3g} may hide single labels from the codes here, which need one below "
        f"{threshold:.3g}"
    )


@dataclass(frozen=True, slots=True, eq=False)
class AccuracySignPlan(stochastic.SignPlan):
    """Signs for accuracy, with the specification of the mean absolute error that is one minus it."""

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers so far."""
        return stochastic.SignPlan.read(self, 1 - answers)


@dataclass(frozen=True, slots=True, eq=False)
class CountPlan:
    """Accuracy and F1: query 0 predicts all ones; the others predict ones on the sets of a detecting matrix."""

    spec: OracleSpec
    code: Code

    @property
    def count(self) -> int:
        """Number of queries."""
        return 1 + sum(r * (s.count - 1) for s, r in zip(self.code.shapes, self.code.repeats, strict=True))

    def query(self, index: int) -> Array:
        """Predictions of query ``index``."""
        predictions = np.zeros(self.spec.n)
        if index == 0:
            return predictions + 1
        first_row, weights = self.code.weights(int(detecting_queries(self.code)[index - 1]))
        predictions[first_row : first_row + len(weights)] = -weights
        return predictions

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers so far."""
        n = self.spec.n
        slots = detecting_queries(self.code)
        sizes = np.array([-self.code.weights(int(slot))[1].sum() for slot in slots], dtype=float)
        scores = np.clip(np.where(np.isnan(answers), 0.0, answers), 0.0, 1.0)
        if self.spec.name == "accuracy":
            ones = np.rint(n * scores[0])
            counts = (n * scores[1:] - n + sizes + ones) / 2
            slope = np.full(len(slots), n / 2)
        else:
            ones = np.rint(n * scores[0] / (2 - scores[0]))
            counts = scores[1:] * (sizes + ones) / 2
            slope = (sizes + ones) / 2
        nearest = np.rint(counts)
        distance = np.abs(counts - nearest)
        sums = np.zeros(self.code.count, dtype=np.int64)
        sums[slots] = -nearest.astype(np.int64)
        labels, sound = self.code.decode(sums)
        fixed = slope * self.spec.rounding + 1e-9
        noise = slope * self.spec.noise
        missing = np.isnan(answers[1:])
        flags = np.zeros((2, self.code.count), dtype=bool)
        flags[0, slots] = missing | (1 - distance <= fixed + 2 * noise)
        flags[1, slots] = missing | (distance > fixed + noise) | (1 - distance <= fixed + noise)
        # A count that is one off would need more than twice the declared noise.
        ones_are_certain = not math.isnan(answers[0]) and self._possible_ones(float(answers[0]), 2).sum() == 1
        certain = sound & ~self.code.rows_in_flagged_blocks(flags[0]) & ones_are_certain
        proven = sound & ~self.code.rows_in_flagged_blocks(flags[1]) & (not math.isnan(answers[0]))
        residual = np.concatenate([[0.0], np.where(missing, np.nan, distance / slope)])
        return Reading(
            labels, certain, proven, residual, self._refuted_answers(answers, labels, distance, fixed + noise, sound)
        )

    def _refuted_answers(self, answers: Floats, labels: Ints, distance: Floats, allowed: Floats, sound: Bools) -> Bools:
        """Flag answers that are no count, or no counts of the same labels."""
        missing, slots = np.isnan(answers), detecting_queries(self.code)
        refuted = np.zeros(self.count, dtype=bool)
        if missing[0]:
            return refuted
        refuted[0] = not self._possible_ones(float(answers[0]), 1).any()
        refuted[1:] = ~missing[1:] & (distance > allowed)
        refuted |= ~missing & (np.abs(answers - 0.5) > 0.5 + self.spec.tolerance + _SCORE_ERROR)
        flags = np.zeros(self.code.count, dtype=bool)
        flags[slots] = missing[1:] | (1 - distance <= allowed)
        refuted[1:] |= self.code.queries_in_flagged_blocks(~sound & ~self.code.rows_in_flagged_blocks(flags))[slots]
        if not (refuted.any() or flags.any()):
            # The labels must be as many ones as the first answer counts.
            refuted[0] = not self._possible_ones(float(answers[0]), 1)[int(labels.sum())]
        return refuted

    def _possible_ones(self, answer: float, times: int) -> Bools:
        """Flag the numbers of ones that the answer to query 0 admits at so many times the declared noise."""
        n = self.spec.n
        ones = np.arange(n + 1)
        exact = ones / n if self.spec.name == "accuracy" else 2 * ones / (n + ones)
        return np.abs(exact - answer) <= self.spec.rounding + times * self.spec.noise + _SCORE_ERROR


@dataclass(frozen=True, slots=True, eq=False)
class AucPlan:
    """AUC: each query ranks a few new rows on top, spaced by rows asked before; all rows not asked yet are tied below.

    The first query holds one row and, beside its label, tells how many ones there are.

    Args:
        starts: first row of each query, and n at the end.
    """

    spec: OracleSpec
    starts: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of queries."""
        return len(self.starts) - 1

    def query(self, index: int) -> Array:
        """Predicted scores of query ``index``."""
        start, stop, n = self.starts[index], self.starts[index + 1], self.spec.n
        predictions = np.zeros(n)
        # Sums of equally many of the offsets 0, 1, 2, 4, 8, … all differ.
        offsets = np.array([0, *(2**j for j in range(stop - start - 1))], dtype=np.int64)
        gaps = np.diff(offsets) - 1
        spare = start - int(gaps.sum())
        # Ranks from below: rows not asked yet (tied), spare known rows, then new rows with known rows between.
        predictions[:spare] = 1.0
        level = 2.0
        used = spare
        for place in range(stop - start):
            predictions[start + place] = level
            if place < len(gaps):
                predictions[used : used + gaps[place]] = level + 1
                used += int(gaps[place])
            level += 2
        return predictions / level

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers so far, in order: each query's reading rests on those before it."""
        n = self.spec.n
        labels = np.zeros(n, dtype=np.int64)
        is_certain = np.zeros(n, dtype=bool)
        residual = np.full(self.count, np.nan)
        refuted = np.zeros(self.count, dtype=bool)
        allowed = self.spec.tolerance + _SCORE_ERROR
        if math.isnan(answers[0]):
            return Reading(labels, is_certain, is_certain.copy(), residual, refuted)
        # One row on top, all others tied: 1/2 - 1/(2·zeros) when its label is 0, 1/2 + 1/(2·ones) when it is 1.
        sizes = np.arange(1, n)
        distance = np.abs(0.5 + np.concatenate([-0.5 / sizes, 0.5 / sizes]) - answers[0])
        best = int(distance.argmin())
        labels[0] = int(best >= n - 1)
        ones = int(sizes[best - (n - 1)] if labels[0] else n - sizes[best])
        is_certain[0] = int((distance <= 2 * self.spec.noise + self.spec.rounding + _SCORE_ERROR).sum()) == 1
        residual[0] = float(distance[best])
        refuted[0] = residual[0] > allowed
        for index in range(1, self.count):
            if math.isnan(answers[index]):
                break
            start, stop = self.starts[index], self.starts[index + 1]
            labels[start:stop], residual[index], second_distance = self._read_block(
                index, labels, ones, float(answers[index])
            )
            is_certain[start:stop] = (
                is_certain[start - 1] and second_distance > 2 * self.spec.noise + self.spec.rounding + _SCORE_ERROR
            )
            # Only what was read for certain says what this answer has to be.
            refuted[index] = is_certain[start - 1] and residual[index] > allowed
        return Reading(labels, is_certain, is_certain.copy(), residual, refuted)

    def _read_block(self, index: int, labels: Ints, ones: int, answer: float) -> tuple[Ints, float, float]:
        start, stop, n = self.starts[index], self.starts[index + 1], self.spec.n
        scores = self.query(index)
        _, inverse, sizes = np.unique(scores, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[inverse]
        tied = ranks[-1] if stop < n else 0.0
        pairs = ones * (n - ones)
        known_rank_sum = ranks[:start] @ labels[:start] + (ones - labels[:start].sum()) * tied
        subsets = (np.arange(2 ** (stop - start))[:, None] >> np.arange(stop - start)) & 1
        sums = subsets @ (ranks[start:stop] - tied)
        possible = (known_rank_sum + sums - ones * (ones + 1) / 2) / pairs
        distance = np.abs(possible - answer)
        if stop == n:
            distance = np.where(subsets.sum(axis=1) == ones - labels[:start].sum(), distance, np.inf)
        best = int(distance.argmin())
        return subsets[best], float(distance[best]), float(np.delete(distance, best).min(initial=math.inf))


def _plan_auc(spec: OracleSpec) -> AucPlan:
    if spec.n < 2:
        raise InputError(f"n: AUC needs at least 2 rows, got {spec.n}")
    starts = [0, 1]
    while starts[-1] < spec.n:
        n_known = starts[-1]
        size = 1
        while size < _MAX_AUC_ROWS and n_known + size < spec.n and _is_separable(spec.n, n_known, size + 1):
            size += 1
        starts.append(n_known + size)
    return AucPlan(spec, tuple(starts))


def _is_separable(n: int, n_known: int, size: int) -> bool:
    # Offsets 0, 1, 2, 4, …, 2^(size-2): their gaps are filled with known rows.
    spare = n_known - (2 ** (size - 2) - (size - 1))
    waiting = n - n_known - size
    if spare < 0:
        return False
    # A row above the tied block is worth this many ranks more than a row in it; then the number of ones
    # among the new rows shows before the offsets do. When nothing waits, that number is known anyway.
    lead = (waiting + 1) / 2 + spare
    return waiting == 0 or lead > 2 ** (size - 1) - 1


@dataclass(frozen=True, slots=True, eq=False)
class TopRankPlan:
    """The sets of a detecting matrix, once for every class but the last."""

    spec: OracleSpec
    code: Code

    @property
    def count(self) -> int:
        """Number of queries."""
        return (self.spec.classes - 1) * len(detecting_queries(self.code))

    def query(self, index: int) -> Array:
        """Lists of one class number, -1 where a row has none, ``[n, 1]``."""
        slots = detecting_queries(self.code)
        class_number, slot = divmod(index, len(slots))
        lists = np.full((self.spec.n, 1), -1, dtype=np.int64)
        first_row, weights = self.code.weights(int(slots[slot]))
        lists[first_row : first_row + len(weights)][weights != 0] = class_number
        return lists

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers so far."""
        n, last_class = self.spec.n, self.spec.classes - 1
        slots = detecting_queries(self.code)
        labels = np.full(n, last_class, dtype=np.int64)
        hits = np.zeros(n, dtype=np.int64)
        certain, proven = np.ones(n, dtype=bool), np.ones(n, dtype=bool)
        residual, refuted = np.full(self.count, np.nan), np.zeros(self.count, dtype=bool)
        for class_number in range(last_class):
            part = slice(class_number * len(slots), (class_number + 1) * len(slots))
            missing = np.isnan(answers[part])
            counts = n * np.where(missing, 0.0, answers[part])
            nearest = np.rint(counts)
            distance = np.abs(counts - nearest)
            sums = np.zeros(self.code.count, dtype=np.int64)
            sums[slots] = -nearest.astype(np.int64)
            digits, sound = self.code.decode(sums)
            unread = np.zeros((2, self.code.count), dtype=bool)
            for times, flags in ((1, unread[0]), (2, unread[1])):
                allowed = n * (self.spec.rounding + times * self.spec.noise + _SCORE_ERROR)
                flags[slots] = missing | (distance > allowed) | (1 - distance <= allowed)
            allowed = n * (self.spec.tolerance + _SCORE_ERROR)
            residual[part] = np.where(missing, np.nan, distance / n)
            refuted[part] = ~missing & (distance > allowed)
            refuted[part] |= self.code.queries_in_flagged_blocks(~sound & ~self.code.rows_in_flagged_blocks(unread[0]))[
                slots
            ]
            proven &= sound & ~self.code.rows_in_flagged_blocks(unread[0])
            certain &= sound & ~self.code.rows_in_flagged_blocks(unread[1])
            labels = np.where(digits == 1, class_number, labels)
            hits += digits == 1
        is_of_two = proven & (hits > 1)  # no row is
        refuted |= np.tile(self.code.queries_in_flagged_blocks(is_of_two)[slots], last_class)
        return Reading(labels, certain & proven & (hits <= 1), proven & (hits <= 1), residual, refuted)


def plan_top_ranks(spec: OracleSpec) -> QueryPlan:
    """Return the plan for MAP@k.

    Raises:
        divulge.InputError: noise or rounding hides single rows, or the noise has no bound.
    """
    require_bounded_noise(spec)
    required = 2 * (spec.tolerance + _SCORE_ERROR)
    if required >= 1 / spec.n:
        raise InputError(describe_missing_code(spec, _describe_hidden_labels(spec, 1 / (2 * spec.n))))
    inner = TopRankPlan(spec, detecting_code(spec.n))
    return QueryPlan(spec, "detecting matrix", inner, Certificate(True, 1 / spec.n, required, "counts are integers"))


@dataclass(frozen=True, slots=True, eq=False)
class TotalsPlan:
    """Row 0 alone, then an integer code, then random submissions.

    Args:
        spec: the oracle.
        code: weights of the rows; a submission is ``sign·weight + shift``.
        slots: numbers, within the code, of the queries that are asked.
        sign: -1 where the code's weights are 0 and -1.
        shift: what makes every submission a class number.
    """

    spec: OracleSpec
    code: Code
    slots: Ints
    sign: int
    shift: int
    _values: dict[tuple[int, int], tuple[Ints, Floats]] = field(default_factory=dict, repr=False)

    @property
    def count(self) -> int:
        """Number of queries."""
        return 1 + len(self.slots) + _N_RANDOM_CHECKS

    def query(self, index: int) -> Array:
        """Return the class numbers of query ``index``."""
        submission = np.zeros(self.spec.n, dtype=np.int64)
        if index == 0:
            submission[0] = 1
        elif index <= len(self.slots):
            first_row, weights = self.code.weights(int(self.slots[index - 1]))
            submission[first_row : first_row + len(weights)] = self.sign * weights
            submission += self.shift
        else:
            submission = seeds.generator(index - len(self.slots), "labels", "totals").integers(
                0, self.spec.classes, self.spec.n
            )
        return submission

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers so far."""
        quiet, loud = self._candidates(answers, 1), self._candidates(answers, 2)
        candidates = quiet or loud
        no_rows = np.zeros(self.spec.n, dtype=bool)
        labels = candidates[0][0] if candidates else np.zeros(self.spec.n, dtype=np.int64)
        residual = np.full(self.count, np.nan)
        residual[~np.isnan(answers)] = 0.0
        if quiet and not quiet[0][1].any():
            answered = np.flatnonzero(~np.isnan(answers))
            residual[answered] = [
                abs(ratio_score(self.spec, labels, self.query(int(i))) - answers[i]) for i in answered
            ]
        refuted = ~np.isnan(answers) & (quiet == [])
        return Reading(
            labels, _agreed_rows(loud, labels, no_rows), _agreed_rows(quiet, labels, no_rows), residual, refuted
        )

    def _candidates(self, answers: Floats, times: int) -> list[tuple[Ints, Bools]] | None:
        """Return labels and unread rows for all totals that explain the answers; None when they are too many."""
        allowed = self.spec.rounding + times * self.spec.noise + _SCORE_ERROR
        answered = [int(index) for index in np.flatnonzero(~np.isnan(answers))]
        submissions = {index: self.query(index) for index in answered}
        possible_totals: list[tuple[int, int]] = []
        for ones, squares in _possible_totals(self.spec.n, self.spec.classes - 1):
            for index in answered:
                if not len(ones):
                    break
                fits = self._admits(ones, squares, submissions[index], float(answers[index]), allowed)
                ones, squares = ones[fits], squares[fits]
            possible_totals += zip(ones.tolist(), squares.tolist(), strict=True)
            if len(possible_totals) > _MAX_CANDIDATES:
                return None
        read = [self._decode(totals, answers, submissions, allowed) for totals in possible_totals]
        return [candidate for candidate in read if candidate is not None]

    def _admits(self, ones: Ints, squares: Ints, submission: Ints, answer: float, allowed: float) -> Bools:
        """Flag the totals that admit some sum ``Σ p·y`` with this answer."""
        if isinstance(self.spec.metric, Evaluated):
            return np.array(
                [bool((np.abs(self._evaluation_table(int(s), submission)[1] - answer) <= allowed).any()) for s in ones],
                dtype=bool,
            )
        n, p, max_label = self.spec.n, int(submission.sum()), self.spec.classes - 1
        start, slope, fixed = linear_coefficients(self.spec, ones, squares, submission)
        # For given totals an answer is linear in Σ p·y. Of two classes that sum counts the ones among p predicted rows,
        # so it lies between those that cannot lie outside of them and the smaller of both numbers.
        low = np.maximum(0, p + ones - n) if max_label == 1 else np.zeros(len(ones))
        high = np.minimum(p, ones) if max_label == 1 else np.full(len(ones), max_label * p)
        with np.errstate(divide="ignore", invalid="ignore"):
            sums = np.clip(np.nan_to_num(np.rint((answer - start) / slope)), low, high)
            implied = np.where(np.isnan(fixed), start + slope * sums, fixed)
        return np.abs(implied - answer) <= allowed

    def _decode(
        self, totals: tuple[int, int], answers: Floats, submissions: dict[int, Ints], allowed: float
    ) -> tuple[Ints, Bools] | None:
        """Return labels for these totals, and the rows that stay unread; None where no labels fit."""
        n, max_label = self.spec.n, self.spec.classes - 1
        sums = np.zeros(self.code.count, dtype=np.int64)
        unread = np.zeros(self.code.count, dtype=bool)
        for index, slot in enumerate(self.slots.tolist(), start=1):
            if index not in submissions:
                unread[slot] = True
                continue
            label_sum, is_unique = self._label_sum(totals, submissions[index], float(answers[index]), allowed)
            sums[slot] = self.sign * (label_sum - self.shift * totals[0])
            unread[slot] = not is_unique
        if totals[0] in (0, n * max_label) or totals == (totals[0] // n * n, (totals[0] // n) ** 2 * n):
            # All labels alike, which the totals themselves say.
            labels, rows = np.full(n, totals[0] // n, dtype=np.int64), np.zeros(n, dtype=bool)
        else:
            labels, sound = self.code.decode(sums)
            rows = self.code.rows_in_flagged_blocks(unread)
            if not (sound | rows).all():
                return None
        if rows.any():
            return labels, rows
        if (int(labels.sum()), int((labels**2).sum())) != totals:
            return None
        implied = [abs(ratio_score(self.spec, labels, submissions[i]) - answers[i]) <= allowed for i in submissions]
        return (labels, rows) if all(implied) else None

    def _label_sum(self, totals: tuple[int, int], submission: Ints, answer: float, allowed: float) -> tuple[int, bool]:
        """Return ``Σ p·y`` behind an answer, and whether it is the only one within reach."""
        p = int(submission.sum())
        if (submission == submission[0]).all():
            return int(submission[0]) * totals[0], True
        if isinstance(self.spec.metric, Evaluated):
            sums, values = self._evaluation_table(totals[0], submission)
            errors = np.abs(values - answer)
            best = int(np.nanargmin(errors)) if not np.isnan(errors).all() else 0
            return int(sums[best]), int((errors <= allowed).sum()) <= 1
        start, slope, fixed = (
            float(part[0]) for part in linear_coefficients(self.spec, *(np.array([t]) for t in totals), submission)
        )
        if not math.isnan(fixed):
            return 0, False
        steps = (answer - start) / slope
        label_sum = int(np.clip(round(steps), 0, (self.spec.classes - 1) * p))
        return label_sum, (1 - abs(steps - round(steps))) * slope > allowed

    def _evaluation_table(self, ones: int, submission: Ints) -> tuple[Ints, Floats]:
        """Return all possible numbers of true positives, and the values of an evaluated metric for them."""
        p, n = int(submission.sum()), self.spec.n
        if (ones, p) not in self._values:
            metric = self.spec.metric
            assert isinstance(metric, Evaluated), "built-in metrics have a formula"
            n_true_positives = np.arange(max(0, p + ones - n), min(p, ones) + 1)
            self._values[ones, p] = (
                n_true_positives,
                metric.values(_arrange_counts(n, ones, p, int(c)) for c in n_true_positives),
            )
        return self._values[ones, p]


def _possible_totals(n: int, max_label: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield all (Σ y, Σ y²) of n labels, in parts: of equal parity, and at least as large as a mean allows."""
    if max_label == 1:
        yield np.arange(n + 1), np.arange(n + 1)
        return
    for total in range(n * max_label + 1):
        smallest = max(total, -(-total * total // n))
        squares = np.arange(smallest + (smallest - total) % 2, max_label * total + 1, 2)
        yield np.full(len(squares), total), squares


def plan_ratio(spec: OracleSpec) -> QueryPlan:
    """Return the plan for balanced accuracy, macro-F1, MCC, QWK, or an evaluated metric that depends on counts.

    Raises:
        divulge.InputError: noise or rounding hides single counts, the noise has no bound, or there are too many rows.
    """
    require_bounded_noise(spec)
    max_label = spec.classes - 1
    if max_label > 1 and spec.n * max_label > _MAX_LABEL_SUM:
        raise InputError(f"n: for {spec.classes} classes at most {_MAX_LABEL_SUM // max_label} rows, got {spec.n}")
    if isinstance(spec.metric, Evaluated):
        _check_counts(spec)
    if max_label == 1:
        code = detecting_code(spec.n)
        inner = TotalsPlan(spec, code, detecting_queries(code), -1, 0)
        if _hides_counts(inner) and (plan := single_rows.find_single_rows(spec)) is not None:
            return plan
    else:
        shift = max_label // 2
        code = codes.build_code(spec.n, spec.classes, shift, dense=False, max_bits=codes.MAX_ADDRESS_BITS)
        inner = TotalsPlan(spec, code, np.arange(code.count), 1, shift)
    return QueryPlan(spec, "totals", inner, _certify_totals(inner))


def _hides_counts(inner: TotalsPlan) -> bool:
    """Return True if some number of ones makes counts of the code's sets hard to tell from each other."""
    spec = inner.spec
    if isinstance(spec.metric, Evaluated) or spec.n < 2:
        return False
    return min(_steps(inner, min), default=math.inf) <= 2 * (spec.tolerance + _SCORE_ERROR)


def _steps(inner: TotalsPlan, choose: Callable[[Floats], float], *more: int) -> list[float]:
    """Return what one label moves the answers to the code's sets, chosen among all numbers of ones, for each size."""
    spec, ones = inner.spec, np.arange(1, inner.spec.n)
    sizes = {*more, *(int(inner.query(i).sum()) for i in range(1, 1 + len(inner.slots)))} - {0, spec.n}
    return [float(choose(linear_coefficients(spec, ones, ones, _leading_ones(spec.n, size))[1])) for size in sizes]


def _check_counts(spec: OracleSpec) -> None:
    """Refuse an evaluated metric that visibly depends on more than counts."""
    metric = spec.metric
    assert isinstance(metric, Evaluated), "only evaluated metrics are checked"
    if spec.n > _MAX_EVALUATED_ROWS:
        raise InputError(f"n: a metric that is evaluated is read for at most {_MAX_EVALUATED_ROWS} rows, got {spec.n}")
    rng = seeds.generator(0, "labels", "counts")
    for _ in range(20):
        y, p = rng.integers(0, 2, spec.n), rng.integers(0, 2, spec.n)
        value = metric(y, p)
        rearranged_value = metric(*_arrange_counts(spec.n, int(y.sum()), int(p.sum()), int((y & p).sum())))
        if not math.isclose(value, rearranged_value, rel_tol=1e-9, abs_tol=1e-12) and not (
            math.isnan(value) and math.isnan(rearranged_value)
        ):
            raise InputError(
                f"metric: {metric.name} was declared to depend on counts alone, but rows in another order change it "
                f"from {value:g} to {rearranged_value:g}"
            )


def _arrange_counts(n: int, ones: int, predicted: int, true_positives: int) -> tuple[Ints, Ints]:
    """Return some labels and predictions with these counts."""
    y, p = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    p[:predicted] = 1
    y[:true_positives] = 1
    y[predicted : predicted + ones - true_positives] = 1
    return y, p


def _certify_totals(inner: TotalsPlan) -> Certificate:
    """Return the certificate: for two classes, answers to row 0 alone tell s and its label, later ones the counts."""
    spec = inner.spec
    required = 2 * (spec.tolerance + _SCORE_ERROR)
    method = "counts are integers, for labels of both classes"
    open_why = "the totals of the labels are not known in advance; what is proven follows from the answers"
    if spec.classes > 2 or isinstance(spec.metric, Evaluated):
        return Certificate(False, 0.0, required, method, open_why)
    if spec.n < 2:
        return Certificate(False, 0.0, required, method, "labels of both classes need two rows")
    ones = np.arange(1, spec.n)
    start, slope, _ = linear_coefficients(spec, ones, ones, inner.query(0))
    first_answers = np.sort(np.concatenate([start, start + slope]))
    steps, largest_step = _steps(inner, min), max(_steps(inner, max, 1))
    if largest_step <= required:
        raise InputError(describe_missing_code(spec, _describe_hidden_labels(spec, largest_step / 2)))
    separation = min(float(np.diff(first_answers).min()), *steps) if steps else float(np.diff(first_answers).min())
    if separation > required:
        return Certificate(True, separation, required, method)
    return Certificate(False, separation, required, method, open_why)


def _leading_ones(n: int, size: int) -> Ints:
    """Return a submission of class 1 for the first rows."""
    return (np.arange(n) < size).astype(np.int64)


def _agreed_rows(candidates: list[tuple[Ints, Bools]] | None, labels: Ints, no_rows: Bools) -> Bools:
    """Flag rows that every candidate reads, and all alike."""
    agreed = ~no_rows if candidates else no_rows
    for candidate_labels, unread in candidates or ():
        agreed = agreed & ~unread & (candidate_labels == labels)
    return agreed


@dataclass(frozen=True, slots=True, eq=False)
class RSquaredPlan:
    """Zeros everywhere, or a second number as well, then the queries of a plan for the mean squared error.

    Args:
        constants: what all rows are predicted in the first queries, which tell the number of ones.
    """

    spec: OracleSpec
    squares: QueryPlan
    constants: tuple[float, ...] = (0.0,)

    @property
    def count(self) -> int:
        """Number of queries."""
        return len(self.constants) + self.squares.count

    def query(self, index: int) -> Array:
        """Predictions of query ``index``."""
        n_first = len(self.constants)
        if index < n_first:
            return np.full(self.spec.n, self.constants[index])
        return self.squares.inner.query(index - n_first)

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers so far."""
        n = self.spec.n
        no_rows = np.zeros(n, dtype=bool)
        residual = np.full(self.count, np.nan)
        refuted = np.zeros(self.count, dtype=bool)
        k = len(self.constants)
        if np.isnan(answers[:k]).any():
            return Reading(np.zeros(n, dtype=np.int64), no_rows, no_rows.copy(), residual, refuted)
        quiet, loud = self._possible_ones(answers[:k], 1), self._possible_ones(answers[:k], 2)
        implied = np.stack([_constant_scores(n, constant) for constant in self.constants])
        away = np.abs(implied - answers[:k, None]) / (1 + np.abs(answers[:k, None]))
        best = int(np.where(quiet | ~quiet.any(), away.max(axis=0), math.inf).argmin())
        residual[:k] = np.abs(implied[:, best] - answers[:k])
        refuted[:k] = not quiet.any()
        if best in (0, n):
            labels = np.full(n, int(best == n), dtype=np.int64)
            is_read = [no_rows | (possible.sum() == 1) for possible in (loud, quiet)]
            expected = [r_squared(labels, self.query(index)) for index in range(k, self.count)]
            residual[k:] = np.abs(np.array(expected) - answers[k:])
            refuted[k:] = residual[k:] > self.spec.tolerance + _SCORE_ERROR
            return Reading(labels, is_read[0] & ~refuted.any(), is_read[1] & ~refuted.any(), residual, refuted)
        scale = best * (n - best) / n**2
        reading = self.squares.inner.read((1 - answers[k:]) * scale)
        residual[k:] = reading.residual / scale
        refuted[k:] = reading.refuted & (quiet.sum() == 1)
        is_complete = bool((reading.proven | no_rows).all())
        refuted[:k] |= is_complete and quiet.sum() == 1 and int(reading.labels.sum()) != best
        certain, proven = reading.certain & (loud.sum() == 1), reading.proven & (quiet.sum() == 1)
        return Reading(reading.labels, certain & ~refuted[0], proven & ~refuted[0], residual, refuted)

    def _possible_ones(self, answers: Floats, times: int) -> Bools:
        """Flag the numbers of ones that the first answers admit at so many times the declared noise."""
        possible = np.ones(self.spec.n + 1, dtype=bool)
        for constant, answer in zip(self.constants, answers, strict=True):
            allowed = self.spec.rounding + times * self.spec.noise + _SCORE_ERROR * (1 + abs(answer))
            possible &= np.abs(_constant_scores(self.spec.n, constant) - answer) <= allowed
        return possible


def _constant_scores(n: int, constant: float) -> Floats:
    """Return the scores of one number for all rows, for every number of ones."""
    ones = np.arange(1, n)
    # Predicted 0, ones score -s/(n - s); labels all alike score 1 if met exactly, else 0.
    mixed = 1 - (n * constant**2 + ones * (1 - 2 * constant)) / (ones * (n - ones) / n)
    return np.concatenate([[float(constant == 0)], mixed, [float(constant == 1)]])


def _find_constants(spec: OracleSpec) -> tuple[tuple[float, ...], float] | None:
    """Return numbers whose scores tell the number of ones, and how far apart these lie; None where none do.

    Zeros alone, if they do. Else a large number c scores nearly ``-c²·n²/(s (n - s))``, so that hardly any error hides
    s, and zeros tell labels that are all alike.
    """
    for constant in (0.0, *4.0 ** np.arange(1, 14)):
        scores = np.sort(_constant_scores(spec.n, constant)[0 if constant == 0 else 1 :])
        gaps = np.diff(scores)
        sizes = 1 + np.maximum(np.abs(scores[1:]), np.abs(scores[:-1])) if constant else 1.0
        if (gaps > 2 * (spec.tolerance + _SCORE_ERROR * sizes)).all():
            return ((0.0,), float(gaps.min())) if constant == 0 else ((0.0, constant), min(float(gaps.min()), 1.0))
    return None


def plan_r_squared(spec: OracleSpec, design: Callable[[OracleSpec], QueryPlan]) -> QueryPlan:
    """Return the plan for R².

    Args:
        spec: the oracle.
        design: makes a plan for a mean squared error.

    Raises:
        divulge.InputError: noise without a bound, or no code is known at this precision.
    """
    require_bounded_noise(spec)
    required = 2 * (spec.tolerance + _SCORE_ERROR)
    found = _find_constants(spec) if required < 1 else None
    if found is None:
        reason = f"the number of ones has to be read first, and an error of ±{spec.tolerance:.3g} may hide it"
        raise InputError(describe_missing_code(spec, reason))
    constants, separation = found
    # s (n - s)/n² is at most 1/4. What floats add to R² grows with the largest square, so predictions need a limit.
    best: QueryPlan | None = None
    refusal: InputError | None = None
    for extent in 4.0 ** np.arange(14):
        square = Linear(_squared_error, low=-extent, high=1 + extent, name="squares")
        steps = 8 * metrics.depth(spec.n, spec.summation) + 32
        float_error = ((1 + extent) ** 2 + 0.25) * steps * metrics.unit_roundoff(spec.float_dtype)
        try:
            squares = design(replace(spec, metric=square, decimals=None, noise=spec.tolerance / 4 + float_error))
        except InputError as error:
            refusal = refusal or error
            continue
        best = squares if best is None or squares.count < best.count else best
    if best is None:
        raise InputError(describe_missing_code(spec, str(refusal)))
    proof = best.certificate
    method = "the number of ones first; then " + proof.method
    certificate = Certificate(proof.certified, min(separation, 4 * proof.separation), required, method, proof.why)
    return QueryPlan(spec, "r2 by " + best.method, RSquaredPlan(spec, best, constants), certificate)


def _squared_error(predictions: Array, label: int) -> Array:
    return (np.asarray(predictions, dtype=float) - label) ** 2
