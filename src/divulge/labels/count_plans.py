"""Plans for metrics that count: accuracy, F1, MAP@k and AUC.

Accuracy and F1: one query counts the ones; from then on every query tells how many ones a chosen set holds, and
Lindström's detecting matrix (weights 0 and 1) needs the fewest sets. MAP@k with one true label per row: a list of class
c alone scores 1 where c is right and nothing elsewhere, so with lists on some rows only, ``n·score`` counts the rows
among them that are of class c, for every k; the last class needs no query of its own. AUC (Whitehill, "Climbing the
Kaggle leaderboard by exploiting the log-loss oracle", 2018, shows the oracle's power): the sum of the ranks of the ones
is linear in the labels, with ranks the attacker chooses; labels already read serve as spacers between new rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.labels.codes import detecting_code, detecting_queries
from divulge.labels.plans import Certificate, QueryPlan, Reading

if TYPE_CHECKING:
    from divulge.labels.codes import Code
    from divulge.labels.oracles import OracleSpec
    from divulge.types import Array, Bools, Floats, Ints

_MAX_AUC_ROWS = 11

FLOAT_ERROR = 1e-12


def plan_counts(spec: OracleSpec) -> QueryPlan:
    """Return the plan for accuracy, F1 or AUC.

    Raises:
        divulge.InputError: noise or rounding hides single counts, or the noise is stochastic.
    """
    if spec.noise_kind != "bounded":
        raise InputError(f"noise_kind: {spec.name} is attacked under bounded noise only, got {spec.noise_kind}")
    threshold = {"accuracy": 1 / (2 * spec.n), "f1": 1 / (4 * spec.n), "auc": 1 / (4 * spec.n**2)}[spec.name]
    if spec.tolerance >= threshold:
        raise InputError(
            f"metric: {spec.name} leaks no label for certain at this precision: an error of ±{spec.tolerance:.3g} "
            f"hides single labels; it leaks once the error is below {threshold:.3g}"
        )
    inner: AucPlan | CountPlan = _plan_auc(spec) if spec.name == "auc" else CountPlan(spec, detecting_code(spec.n))
    certificate = Certificate(True, 2 * threshold, 2 * spec.tolerance, "counts are integers")
    return QueryPlan(spec, "ranks" if spec.name == "auc" else "detecting matrix", inner, certificate)


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
        residual = np.concatenate([[0.0], np.where(missing, np.nan, distance / np.maximum(slope, 0.5))])
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
        refuted |= ~missing & (np.abs(answers - 0.5) > 0.5 + self.spec.tolerance + 1e-12)
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
        return np.abs(exact - answer) <= self.spec.rounding + times * self.spec.noise + 1e-12


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
        offsets = _rank_offsets(stop - start)
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
        allowed = self.spec.tolerance + 1e-13
        if math.isnan(answers[0]):
            return Reading(labels, is_certain, is_certain.copy(), residual, refuted)
        # One row on top, all others tied: 1/2 - 1/(2·zeros) when its label is 0, 1/2 + 1/(2·ones) when it is 1.
        sizes = np.arange(1, n)
        distance = np.abs(0.5 + np.concatenate([-0.5 / sizes, 0.5 / sizes]) - answers[0])
        best = int(distance.argmin())
        labels[0] = int(best >= n - 1)
        ones = int(sizes[best - (n - 1)] if labels[0] else n - sizes[best])
        is_certain[0] = int((distance <= 2 * self.spec.noise + self.spec.rounding + 1e-13).sum()) == 1
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
                is_certain[start - 1] and second_distance > 2 * self.spec.noise + self.spec.rounding + 1e-13
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


def _rank_offsets(size: int) -> Ints:
    """Rank offsets 0, 1, 2, 4, 8, …: sums of equally many of them all differ."""
    return np.array([0, *(2**j for j in range(size - 1))], dtype=np.int64)


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
                allowed = n * (self.spec.rounding + times * self.spec.noise + FLOAT_ERROR)
                flags[slots] = missing | (distance > allowed) | (1 - distance <= allowed)
            allowed = n * (self.spec.tolerance + FLOAT_ERROR)
            residual[part] = np.where(missing, np.nan, distance / n)
            refuted[part] = ~missing & (distance > allowed)
            refuted[part] |= self.code.queries_in_flagged_blocks(~sound & ~self.code.rows_in_flagged_blocks(unread[0]))[
                slots
            ]
            proven &= sound & ~self.code.rows_in_flagged_blocks(unread[0])
            certain &= sound & ~self.code.rows_in_flagged_blocks(unread[1])
            labels = np.where(digits == 1, class_number, labels)
            hits += digits == 1
        # No row is of two classes.
        for class_number in range(last_class if (proven & (hits > 1)).any() else 0):
            part = slice(class_number * len(slots), (class_number + 1) * len(slots))
            refuted[part] |= self.code.queries_in_flagged_blocks(proven & (hits > 1))[slots]
        return Reading(labels, certain & proven & (hits <= 1), proven & (hits <= 1), residual, refuted)


def plan_top_ranks(spec: OracleSpec) -> QueryPlan:
    """Return the plan for MAP@k.

    Raises:
        divulge.InputError: noise or rounding hides single rows, or the noise has no bound.
    """
    if spec.noise_kind != "bounded":
        raise InputError(f"noise_kind: {spec.name} is attacked under bounded noise only, got {spec.noise_kind}")
    required = 2 * (spec.tolerance + FLOAT_ERROR)
    if required >= 1 / spec.n:
        raise InputError(
            f"metric: {spec.name} leaks no label for certain at this precision: an error of ±{spec.tolerance:.3g} "
            f"hides single labels; it leaks once the error is below {1 / (2 * spec.n):.3g}"
        )
    inner = TopRankPlan(spec, detecting_code(spec.n))
    return QueryPlan(spec, "detecting matrix", inner, Certificate(True, 1 / spec.n, required, "counts are integers"))
