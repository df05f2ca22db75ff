"""Control models: what an attack says of a model that leaks nothing, and the difference of a target from it.

A control is trained like the target, on records of the members' kind, and saw neither members nor non-members. The AUC
of the same candidates under controls is what the split alone gives an attack. Shapes: ``n`` candidates, ``k`` controls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import lazy
from divulge.errors import InputError
from divulge.statistics import auc, check_scores, placements_from_scores
from divulge.types import Estimate
from divulge.validation import (
    check_bool,
    check_integer,
    check_labels,
    check_mask,
    check_matrix,
    check_number,
    check_vector,
)

if TYPE_CHECKING:
    from scipy import stats

    from divulge.types import Bools, Floats, Ints
else:
    stats = lazy.module("scipy.stats")

MIN_CONTROLS = 2
FEW_CONTROLS = 4  # fewer say little of how trainings differ
_STEADY_CONTROLS = 8  # with fewer, the spread of all is taken for that of trainings where freedom is counted
MIN_UNSEEN = 20  # records that neither model was trained on, to learn the regression from
_ROUNDING = 1e-12
_MAX_UNSEEN = 5000
_ROWS_PER_COLUMN, _MAX_COLUMNS = 6, 150
_SINGULAR = 1e-6
_EXPLAINED = 1e-7  # of the largest gap: smaller differences are rounding


@dataclass(frozen=True, slots=True, eq=False)
class ControlComparison:
    """The AUC of the same candidates under a target and under controls.

    Attributes:
        target: under the target; its interval takes the non-members for a fair comparison.
        controls: under each control, ``[k]``.
        difference: target less the mean of the controls; 0 for a model that leaks nothing.
        records_variance: of the difference, over draws of records, for models as they are.
        training_variance: of a single model's AUC, between trainings that differ as a whole.
        freedom: degrees of freedom of the interval.
        note: what to keep in mind; empty where there is nothing.
    """

    target: Estimate
    controls: Floats
    difference: Estimate
    records_variance: float
    training_variance: float
    freedom: float
    note: str

    @property
    def mean(self) -> float:
        """Mean of the controls."""
        return float(self.controls.mean())

    @property
    def p_value(self) -> float:
        """Two-sided p-value of the target's rank among the controls; no smaller than ``2 / (k + 1)``."""
        n_as_high, n_as_low = (self.controls >= self.target.value).sum(), (self.controls <= self.target.value).sum()
        return float(min(1.0, 2 * (1 + min(n_as_high, n_as_low)) / (len(self.controls) + 1)))


def compare_auc(
    target: object,
    controls: object,
    members: object,
    *,
    overlap: float = 0.0,
    subtracts_references: bool = False,
    confidence: float = 0.95,
) -> ControlComparison:
    """Compare the AUC under a target with that under controls.

    Given the records, a target that leaks nothing is one more control. Their AUCs differ by what each model makes of
    single records, which the paired variance of DeLong's placements measures, and as a whole, which only the spread of
    the controls shows. Controls that share training records are closer to each other than to the target.

    Args:
        target: scores under the target ``[n]``; larger means more like a member.
        controls: scores of the same candidates under each control ``[k, n]``; an attack that subtracts references has
            the ``k - 1`` other controls for each.
        members: bool ``[n]``; of equal records on a side, give one.
        overlap: share of their training records that two controls have in common (`divulge.evaluation.agreement`'s
            ``mean_overlap``; the training size over the population's, where each is drawn at random).
        subtracts_references: whether scores are relative to the controls; then each control has one reference fewer.
        confidence: of each interval.

    Raises:
        divulge.InputError: fewer than 2 controls, members or non-members; shapes that differ; an overlap that is not
            in [0, 1).

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> members, hard = np.arange(600) < 300, rng.normal(size=600)
        >>> controls = hard + members + 0.3 * rng.normal(size=(8, 600))  # the sets differ, whatever the model
        >>> compared = compare_auc(hard + members + 0.3 * rng.normal(size=600), controls, members)
        >>> compared.target.low > 0.7, compared.difference.low < 0 < compared.difference.high
        (True, True)
        >>> compare_auc(hard + 1.5 * members, controls, members).difference.low > 0
        True
    """
    scores, truth = check_scores(target, members, "target")
    rows = check_matrix(controls, "controls", columns=len(scores)).astype(np.float64, copy=False)
    if (k := len(rows)) < MIN_CONTROLS:
        raise InputError(f"controls: at least {MIN_CONTROLS} models are needed, got {k}")
    if (scarcer := min(int(truth.sum()), int((~truth).sum()))) < 2:
        raise InputError(f"members: at least 2 members and non-members are needed, got {scarcer}")
    check_bool(subtracts_references, "subtracts_references")
    if not 0 <= overlap < 1:
        raise InputError(f"overlap: a share from 0 to below 1 is needed, got {overlap}")
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    placed = np.stack([_placements(row, truth) for row in (scores, *rows)])
    values = placed[:, truth].mean(axis=1)
    areas, deviations = values[1:], placed - placed[1:].mean(axis=0)
    variances = sum(deviations[:, side].var(axis=1, ddof=1) / side.sum() for side in (truth, ~truth))
    shrink = ((k - 1) / k) ** 2 if subtracts_references else 1.0
    spread = shrink * float(areas.var(ddof=1))
    spread_by_records = shrink * float(variances[1:].mean()) * k / (k - 1)
    between = max(0.0, spread - spread_by_records)
    # The target shares no training with the controls, which share `overlap` of theirs: by so much more it varies.
    inflation = (1 + overlap) / (1 - overlap) + 1 / k
    variance = float(variances[0]) + inflation * between
    uncertain = inflation * (between if k >= _STEADY_CONTROLS else spread)
    doubt = float(variances[0]) ** 2 / (scarcer - 1) + uncertain**2 / (k - 1)
    freedom = max(min(k, scarcer) - 1.0, variance**2 / doubt) if doubt > 0 else scarcer - 1.0
    gap = float(values[0] - areas.mean())
    reach = float(stats.t.ppf(1 - error / 2, freedom)) * variance**0.5
    method = "difference from control models; DeLong over records, Student over trainings"
    note = f"{k} controls say little of how trainings differ" if k < FEW_CONTROLS else ""
    return ControlComparison(
        auc(scores, truth, confidence),
        areas,
        Estimate(gap, gap - reach, gap + reach, confidence, method),
        float(variances[0]),
        between,
        float(freedom),
        note,
    )


def _placements(scores: Floats, truth: Bools) -> Floats:
    """Return the share of the other side that each record's score is right about, ``[n]``; ties count one half."""
    placed, level = placements_from_scores(scores, truth)
    return np.where(truth, placed.members.values[level], placed.nonmembers.values[level])


def subtract_explained(
    target: object,
    controls: object,
    trained_on: object,
    labels: object,
    features: object,
    candidates: int,
) -> tuple[Floats, Floats]:
    """Return how much surer a target, and each control, is of the candidates than unseen records lead one to expect.

    A target of another class mix or rule than its controls differs from them by a function of the record, also on
    records that none of them was trained on. What a regression learns there, of classes, of the controls' mean and of
    features within each class, is subtracted from the target's signal less the controls'. What training
    on a record adds to its own signal cannot be learned from other records, so it stays. A control is compared with the
    other controls, and learns from what it did not see.

    Args:
        target: signal under the target, scaled logits say, of ``n`` candidates and then of ``z`` records that the
            target was not trained on, ``[n + z]``.
        controls: the same under each control, ``[k, n + z]``.
        trained_on: bool ``[k, n + z]``, by control and record; none saw a candidate.
        labels: class of each record, ``[n + z]``.
        features: numbers of each record, ``[n + z, d]``.
        candidates: their number ``n``.

    Returns:
        Differences of the target ``[n]`` and of each control ``[k, n]``, relative to the other controls.

    Raises:
        divulge.InputError: fewer than 3 controls; a control that was trained on a candidate; fewer than 20 other
            records that some control did not see.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> x, labels, member = rng.normal(size=(900, 1)), rng.integers(0, 2, 900), np.arange(900) < 200
        >>> controls = x[:, 0] + 0.1 * rng.normal(size=(8, 900))
        >>> target = 1.5 * x[:, 0] + labels + 0.1 * rng.normal(size=900) + 0.2 * member
        >>> gaps, _ = subtract_explained(target, controls, np.zeros((8, 900), bool), labels, x, 400)
        >>> bool(abs(gaps[:200].mean() - 0.2) < 0.05), bool(abs(gaps[200:].mean()) < 0.05)
        (True, True)
    """
    own = check_vector(target, "target").astype(np.float64, copy=False)
    rows = check_matrix(controls, "controls", columns=len(own)).astype(np.float64, copy=False)
    is_out = ~check_mask(trained_on, "trained_on", rows.shape)
    classes = check_labels(labels, "labels", length=len(own))
    table = check_matrix(features, "features").astype(np.float64, copy=False)
    n, k = check_integer(candidates, "candidates", minimum=1, maximum=len(own)), len(rows)
    if k <= MIN_CONTROLS:
        raise InputError(f"controls: at least {MIN_CONTROLS + 1} models are needed, got {k}")
    if not is_out[:, :n].all():
        raise InputError("trained_on: no control may have been trained on a candidate")
    others = [np.flatnonzero(np.arange(k) != j) for j in range(k)]
    target_gaps = _unexplained(own, rows, is_out, np.ones(len(own), dtype=bool), classes, table, n)
    gaps = [_unexplained(rows[j], rows[others[j]], is_out[others[j]], is_out[j], classes, table, n) for j in range(k)]
    return target_gaps, np.stack(gaps)


def _unexplained(
    own: Floats, references: Floats, is_out: Bools, is_unseen: Bools, classes: Ints, features: Floats, n: int
) -> Floats:
    """Return the gap between a model and references on ``n`` candidates, less its regression on unseen records."""
    counts = is_out.sum(axis=0)
    mean = np.where(is_out, references, 0.0).sum(axis=0) / np.maximum(counts, 1)
    gap = own - mean
    rows = np.flatnonzero(is_unseen & (counts > 0))
    rows = rows[rows >= n]
    if len(rows) < MIN_UNSEEN:
        raise InputError(
            f"controls: at least {MIN_UNSEEN} records that none was trained on are needed, got {len(rows)}"
        )
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), _MAX_UNSEEN)).astype(int)]
    design = _design(
        mean, classes, features, np.r_[np.arange(n), rows], min(len(rows) // _ROWS_PER_COLUMN, _MAX_COLUMNS)
    )
    coefficients = np.linalg.lstsq(design[n:], gap[rows], rcond=_SINGULAR)[0]
    unit = float(np.abs(gap[rows]).max()) * _EXPLAINED
    unexplained = gap[:n] - design[:n] @ coefficients
    return unit * np.round(unexplained / unit) if unit else np.zeros(n)  # so that what is explained leaves nothing


def _design(mean: Floats, classes: Ints, features: Floats, rows: Ints, most: int) -> Floats:
    """Return columns in which models alike may differ, of ``rows``: the richest choice of at most ``most``."""
    of_class, mean, features = np.eye(int(classes.max()) + 1)[classes[rows]], mean[rows, None], features[rows]
    levels = [np.ones_like(mean), mean, np.minimum(mean, 0.0)]
    within_classes = [*levels, of_class, of_class * mean]
    by_class = [*within_classes, *(features * of_class[:, [c]] for c in range(of_class.shape[1]))]
    choices = by_class, [*within_classes, features], within_classes, [*levels, of_class]
    small_enough = (parts for parts in choices if sum(part.shape[1] for part in parts) <= most)
    return np.hstack(next(small_enough, levels))
