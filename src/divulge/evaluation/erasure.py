"""Erasure: do records that were to be forgotten still stand out, against models that never saw them?

Compared with ½, the AUC of forgotten records proves nothing: forgotten and never-used records may differ, and every
training moves the scores of a whole group a little. The null here is a set of control models that never saw either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from divulge import lazy
from divulge.errors import InputError
from divulge.evaluation.comparison import paired_difference
from divulge.statistics import auc, placements_from_scores
from divulge.types import Estimate, ShortRepr
from divulge.validation import check_bool, check_mask, check_matrix, check_number, check_vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy import stats

    from divulge.types import Bools, Floats
else:
    stats = lazy.module("scipy.stats")

ErasureAnswer: TypeAlias = Literal[
    "still remembered",
    "no difference from a model that never saw them",
    "overdone: they stand out the other way",
    "too little data to say",
]
MARGIN = 0.05
# Shares of the permitted error that go to the AUC, to the spread, and to either list of single records.
_AUC_SHARE, _SPREAD_SHARE, _LIST_SHARE = 0.6, 0.2, 0.1
_TAIL = 0.9  # quantile of never-used records beyond which a record counts as standing out
_POWER = 0.8
_ROUNDING = 1e-12
_OUTERMOST = 10  # a tenth of the records says how scores go on beyond all of them
_MAX_WIDTHS = 1e6  # that far beyond them: farther says no more, and would overflow
_LEAST_UNSEEN = 2  # controls that were not trained on a record, where others were
WITH_TRAINING_NOISE = "t over control models, at least DeLong"
RANDOM_DRAW = "DeLong; forgotten and never-used records drawn at random from one pool"
WITHOUT_TRAINING_NOISE = "paired AUC difference from one control; training noise is not included"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ErasureTest(ShortRepr):
    """Comparison of the scores of forgotten records with those of never-used ones.

    Attributes:
        answer: one of four; wrong with probability 1 - ``confidence`` where the model after it never saw the records.
        reason: why, in a sentence; the first thing to read.
        difference: AUC of forgotten against never-used records under the model after the erasure, less the mean of
            that under the controls; 0 for a model that never saw them.
        spread: the same of their distances from the median of never-used records: above 0 where some score higher and
            others lower than under models that never saw them, which an AUC does not see.
        after: that AUC; scores are relative to the mean of the controls where there are two or more.
        before: the same under the model before the erasure; None where it was not given.
        controls: the same under each control, relative to the other controls ``[k]``.
        training_noise: standard deviation of the AUC between trainings; None with a single control.
        smallest_seen: smallest difference that would have been found with 80 % probability.
        margin: largest difference that "no difference" allows.
        p_remembered: p-value of each record that was to be forgotten, ``[f]``: small where it scores higher than
            never-used records, and than such records under the controls.
        p_overdone: the same for lower scores, ``[f]``.
        confidence: of the answer.
        largest_left: upper end of the difference, the largest of all scales.
        p_remembered_by_scale: the p-values of single scales, ``[f]`` each: relative scores, residuals in units of their
            spread, ranks.
    """

    answer: ErasureAnswer
    reason: str
    difference: Estimate
    spread: Estimate
    after: Estimate
    before: Estimate | None
    controls: Floats
    training_noise: float | None
    smallest_seen: float
    margin: float
    p_remembered: Floats
    p_overdone: Floats
    confidence: float
    largest_left: float = 1.0
    p_remembered_by_scale: tuple[Floats, ...] = ()


def erasure_test(
    after: object,
    controls: object,
    forgotten: object,
    *,
    before: object = None,
    at_random: bool = False,
    margin: float = MARGIN,
    confidence: float = 0.95,
) -> ErasureTest:
    """Test whether a model still shows records that it was to forget.

    Every model's scores are taken relative to the mean of the controls (of the *other* controls, for a control), as in
    Watson et al. 2022, which takes out how hard a record is. The AUC of forgotten against never-used records is then
    compared with that of the controls. For fixed records, a model that never saw them is one more draw from the
    controls' distribution, so the interval is Student's for one further draw (``k - 1`` degrees of freedom); the
    spread of the leave-one-out AUCs is shrunk by ``(k - 1) / k``, which makes it exact where the AUC is linear in the
    scores. It is never shorter than DeLong's, which counts the records but not the trainings: retraining with one seed
    has no spread at all. With a single control only DeLong's interval is left: then a difference counts where it is
    beyond the margin, and no difference is said only of records that were drawn at random.

    Where both kinds of records were drawn ``at_random`` from one pool, a model that saw neither treats them alike and
    the spread between trainings is in DeLong's interval already, which is much shorter than Student's for few
    controls. The controls can contradict that: where their mean score tells the kinds apart, Student's is taken.

    An AUC does not see records of which half score higher and half lower, as they do where a model was trained on them
    with random labels. So the distances from the median of the never-used records are compared in the same way; scores
    that vary more than under the controls, or less, are a difference.

    Where the controls were trained otherwise than the model, its scores may be on another scale, and subtracting leaves
    some difficulty behind. So what scores relative to the controls say is also asked of what is left after regressing
    each model's scores on the mean of the (other) controls, among never-used records, and of ranks: each model's
    scores, among those of never-used records, take the values that the mean of the (other) controls has there, which
    another scale of its scores, straight or bent, does not change. All three must find a difference (of records drawn
    at random the first two, since another scale changes both kinds alike), and none may where no difference is said.

    Nor does an AUC see few records among many. Each forgotten record also has two p-values, against the never-used
    records and against the forgotten ones under the controls, the larger of the two (``at_random``: the first); the
    answer turns on them (Benjamini-Hochberg) where the AUC does not. Of the scales that accuse, the larger p-value
    counts; a record that stands out on one scale is enough not to acquit. A single control does not say by how much
    one record moves between trainings: unless records were drawn at random, single ones do not accuse beside it.

    Args:
        after: scores ``[n]`` under the model after the erasure; larger means more like a training record.
        controls: scores ``[k, n]`` of the same records under models that saw neither kind: retrained without the
            forgotten records, or reference models. NaN where such a model was trained on the record after all, as the
            reference models of an online audit are on half of them; each record needs 2 that were not.
        forgotten: bool ``[n]``, True for records that were to be forgotten, False for records never used.
        before: scores ``[n]`` under the model before the erasure. Where it does not show the records either, nothing
            is said of the erasure.
        at_random: whether a random draw from one pool decided which of the records were to be forgotten and which were
            never used; False for the records of certain people, say.
        margin: largest difference of AUC that counts as none.
        confidence: of the answer.

    Raises:
        divulge.InputError: NaN or infinity, lengths that differ, one kind of records alone, no control, a record that
            fewer than 2 of several controls never saw, a margin or a confidence outside (0, 1).

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> forgotten = np.arange(3000) < 1000
        >>> never_saw = rng.normal(size=(9, 3000))
        >>> erasure_test(never_saw[0], never_saw[1:], forgotten, at_random=True).answer
        'no difference from a model that never saw them'
        >>> result = erasure_test(never_saw[0] + forgotten, never_saw[1:], forgotten)
        >>> result.answer, result.difference.low > 0.1
        ('still remembered', True)
    """
    scores = check_vector(after, "after")
    is_forgotten = check_mask(forgotten, "forgotten", (len(scores),))
    if is_forgotten.all() or not is_forgotten.any():
        missing = "never-used" if is_forgotten.all() else "forgotten"
        raise InputError(f"forgotten: records of both kinds are needed, got no {missing} ones among {len(scores)}")
    control_scores = check_control_scores(controls, is_forgotten)
    before_scores = None if before is None else check_vector(before, "before", length=len(scores))
    check_number(margin, "margin", above=0, below=1)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    auc_confidence = 1 - _AUC_SHARE * error
    relative = _relative_scores(scores, control_scores)
    adjusted = _relative_scores(scores, control_scores, regress_on=~is_forgotten)
    ranked = _relative_scores(scores, control_scores, rank_among=~is_forgotten)
    after_auc = auc(relative[0], is_forgotten, auc_confidence)
    before_auc = None
    if before_scores is not None:
        before_auc = auc(_relative_scores(before_scores, control_scores)[0], is_forgotten, auc_confidence)
    contradicted = False
    if check_bool(at_random, "at_random"):
        control_auc = auc(np.nanmean(control_scores, axis=0), is_forgotten, 1 - error / 5)
        contradicted = control_auc.low > 0.5 or control_auc.high < 0.5
    exchangeable = at_random and not contradicted
    # Another scale of the scores changes nothing between kinds of records that a random draw divided.
    accusing_scales = [relative, adjusted] if exchangeable else [relative, adjusted, ranked]
    if len(control_scores) == 1:
        control_aucs, noise = np.array([auc(control_scores[0], is_forgotten).value]), None
        difference = paired_difference(scores, control_scores[0], is_forgotten, "auc", auc_confidence)
        difference = Estimate(difference.value, difference.low, difference.high, auc_confidence, WITHOUT_TRAINING_NOISE)
        before_shows = before_scores is None or bool(
            paired_difference(before_scores, control_scores[0], is_forgotten, "auc", auc_confidence).low > 0
        )
        half = max(difference.value - difference.low, difference.high - difference.value)
        smallest = half * (1 + stats.norm.ppf(_POWER) / stats.norm.ppf(1 - _AUC_SHARE * error / 2))
        differences = acquitting_differences = [difference]
        if exchangeable:  # without a random draw a single control acquits nobody
            relative_aucs = [auc(each[0], is_forgotten, auc_confidence) for each in (relative, adjusted, ranked)]
            acquitting_differences = [difference, *(_less_one_half(each) for each in relative_aucs)]
    else:
        control_aucs = control_auc_values(relative[1:], is_forgotten)
        difference, noise, smallest = _difference_from_controls(after_auc, control_aucs, exchangeable)
        acquitting_differences = [
            difference,
            *(
                _difference_from_controls(
                    auc(each[0], is_forgotten, auc_confidence), control_auc_values(each[1:], is_forgotten), exchangeable
                )[0]
                for each in (adjusted, ranked)
            ),
        ]
        differences = acquitting_differences[: len(accusing_scales)]
        before_shows = (
            before_auc is None or _difference_from_controls(before_auc, control_aucs, exchangeable)[0].low > 0
        )
    # Of two controls either is the mirror image of the other, relative to it, so that no spread would be left.
    rows = relative if len(control_scores) > 2 else np.concatenate([scores[None], control_scores])
    spread = compare_spread(rows, is_forgotten, 1 - _SPREAD_SHARE * error, exchangeable)
    spreads = [spread]
    if len(control_scores) > 2:
        spreads += [
            compare_spread(each, is_forgotten, 1 - _SPREAD_SHARE * error, exchangeable) for each in accusing_scales[1:]
        ]
    p_high, p_low = (
        np.max([_p_values(sign * each, is_forgotten, exchangeable) for each in accusing_scales], axis=0)
        for sign in (1, -1)
    )
    # A scale of the scores is one of their noise as well, which has to be that of the controls.
    low, high = np.nanquantile(adjusted[:, ~is_forgotten], (0.25, 0.75), axis=1)
    widths = np.where(high > low, high - low, 1.0)[:, None]
    scales = [relative, adjusted / widths, ranked]
    acquitting_p_values = [[_p_values(sign * each, is_forgotten, exchangeable) for each in scales] for sign in (1, -1)]
    # All comparisons must find nothing before "no difference" is said, so that each may use the whole error.
    likely = [spread]
    if error < 0.5:
        likely = [compare_spread(rows, is_forgotten, 1 - 2 * error, exchangeable)]
        if len(control_scores) > 1 or exchangeable:
            used = slice(None) if len(control_scores) > 1 else slice(1)
            likely += [
                compare_spread(each[used], is_forgotten, 1 - 2 * error, exchangeable)
                for each in (relative, adjusted, ranked)
            ]
    answer, reason = _answer(
        p_high, p_low, error=error, before_shows=before_shows, differences=differences, spreads=spreads,
        smallest_accused=0.0 if len(control_scores) > 1 else margin,
        one_training=len(control_scores) == 1 and not exchangeable,
        says_nothing=bool(np.ptp(scores) == 0), margin=margin, smallest=smallest,
        acquitting_differences=acquitting_differences, likely_spreads=likely,
        p_values=acquitting_p_values[0] + acquitting_p_values[1],
        mostly_lower=_stand_out_below(rows, is_forgotten),
    )  # fmt: skip
    if len(control_scores) == 1:
        reason += "; a single control was given, so the spread between trainings is not included"
    return ErasureTest(
        answer, reason, difference, spread, after_auc, before_auc, control_aucs, noise, float(min(smallest, 1.0)),
        margin, p_high, p_low, confidence, max(each.high for each in acquitting_differences),
        tuple(acquitting_p_values[0]),
    )  # fmt: skip


def check_control_scores(controls: object, forgotten: Bools) -> Floats:
    """Return scores of controls ``[k, n]``, NaN where a control was trained on the record.

    Raises:
        divulge.InputError: no control, infinity, another number of records, a record that fewer than 2 of several
            controls never saw, a control that saw all records of a kind.
    """
    scores = check_matrix(controls, "controls", columns=len(forgotten), finite=False).astype(np.float64)
    if np.isinf(scores).any():
        raise InputError("controls: finite scores are needed (or NaN, where a control saw the record), got infinity")
    unseen = ~np.isnan(scores)
    if not unseen.all():
        if (fewest := int(unseen.sum(axis=0).min())) < _LEAST_UNSEEN:
            raise InputError(
                f"controls: each record needs {_LEAST_UNSEEN} controls that were not trained on it, one has {fewest}"
            )
        for i, row in enumerate(unseen):
            if not row[forgotten].any() or not row[~forgotten].any():
                raise InputError(f"controls: control {i} has no score of a record of one kind")
    return scores


def control_auc_values(rows: Floats, forgotten: Bools) -> Floats:
    """Return the AUC of each control on the records that it never saw, ``[k]``."""
    unseen = ~np.isnan(rows)
    placed = [placements_from_scores(row[mask], forgotten[mask])[0] for row, mask in zip(rows, unseen, strict=True)]
    return np.array([float(each.value) for each in placed])


def _relative_scores(
    scores: Floats, controls: Floats, regress_on: Bools | None = None, rank_among: Bools | None = None
) -> Floats:
    """Subtract the mean of the controls, and from each control the mean of the others, ``[1 + k, n]``.

    Args:
        scores: ``[n]``.
        controls: ``[k, n]``, NaN where a control saw the record.
        regress_on: bool ``[n]``, records among which the slope of scores on those means is fitted; None: it is 1.
        rank_among: bool ``[n]``, records among which scores take the values of those means, rank by rank, first.
    """
    k = len(controls)
    n_unseen = (~np.isnan(controls)).sum(axis=0)
    total = np.nansum(controls, axis=0)
    # A control that saw a record tells nothing of it, and is NaN in the result too. A single one stands for itself.
    others = (total - controls) / np.maximum(n_unseen - 1, 1) if k > 1 else controls
    bases = np.concatenate([(total / n_unseen)[None], others])
    rows = np.concatenate([scores[None], controls])
    if rank_among is not None:
        rows = np.stack([match_ranks(row, base, rank_among) for row, base in zip(rows, bases, strict=True)])
    slopes = np.ones((k + 1, 1))
    if regress_on is not None:
        slopes[:, 0] = [_slope(row, base, regress_on) for row, base in zip(rows, bases, strict=True)]
    relative = rows - slopes * bases
    # Models that answer alike differ by rounding alone, which would rank the records at random.
    rounding = _ROUNDING * np.maximum(np.nanmax(np.abs(controls), axis=0), np.abs(rows[0]))
    return np.where(np.abs(relative) <= rounding, 0.0, relative)


def match_ranks(row: Floats, base: Floats, used: Bools) -> Floats:
    """Return a model's scores on the scale of the mean of others, matched rank by rank among the records used.

    A score between those of two records takes a value between theirs, in proportion to its rank and not to its
    distance. Beyond all of them there are no ranks: distances count there, in the proportion that those of the
    outermost tenth have on both scales. Equal scores stay equal.
    """
    is_known = used & ~np.isnan(row)
    if not is_known.any():
        return row
    ordered, values = np.sort(row[is_known]), np.sort(base[is_known])
    below, above = (np.searchsorted(ordered, row, side=side) for side in ("left", "right"))
    matched = np.interp((below + above - 1) / 2, np.arange(len(values)), values)
    inner = len(values) - 1 - len(values) // _OUTERMOST
    for sign, edges, ends in ((1, ordered, values), (-1, -ordered[::-1], -values[::-1])):
        width = edges[-1] - edges[inner]
        beyond = np.maximum(sign * row - edges[-1], 0.0)
        if width > 0:
            n_widths = np.minimum(beyond, _MAX_WIDTHS * width) / width
            matched = matched + sign * n_widths * (ends[-1] - ends[inner])
    return np.where(np.isnan(row), np.nan, matched)


def _slope(row: Floats, base: Floats, used: Bools) -> float:
    """Return the slope of a model's scores on the mean of others; 1 where that does not vary."""
    is_known = used & ~np.isnan(row)
    centred = base[is_known] - base[is_known].mean() if is_known.any() else np.zeros(1)
    unit = float(np.abs(centred).max())
    if unit == 0:
        return 1.0
    centred = centred / unit  # squares of large scores would overflow
    return float(centred @ (row[is_known] / unit)) / float(centred @ centred)


def _difference_from_controls(
    model: Estimate, control_aucs: Floats, exchangeable: bool
) -> tuple[Estimate, float, float]:
    """Compare an AUC with that of models that never saw the records: difference, its noise, and the smallest seen."""
    k = len(control_aucs)
    error = 1 - model.confidence
    noise = (k - 1) / k * float(np.std(control_aucs, ddof=1))
    reach_down, reach_up = model.value - model.low, model.high - model.value
    smallest = reach_down * (1 + stats.norm.ppf(_POWER) / stats.norm.ppf(1 - error / 2))
    value, method = model.value - 0.5, RANDOM_DRAW
    if not exchangeable:
        spread, quantile = noise * np.sqrt(1 + 1 / k), stats.t.ppf(1 - error / 2, k - 1)
        reach_down, reach_up = max(quantile * spread, reach_down), max(quantile * spread, reach_up)
        smallest = max(spread * (quantile + stats.t.ppf(_POWER, k - 1)), smallest)
        value, method = model.value - float(control_aucs.mean()), WITH_TRAINING_NOISE
    low, high = float(max(value - reach_down, -1.0)), float(min(value + reach_up, 1.0))
    return Estimate(value, low, high, model.confidence, method), noise, float(smallest)


def _less_one_half(model: Estimate) -> Estimate:
    """Return an AUC less that of records which a random draw divided."""
    return Estimate(model.value - 0.5, model.low - 0.5, model.high - 0.5, model.confidence, RANDOM_DRAW)


def compare_spread(rows: Floats, forgotten: Bools, confidence: float, exchangeable: bool = False) -> Estimate:
    """Compare how far forgotten records score from the median of never-used ones, with how far under controls.

    Args:
        rows: scores ``[1 + k, n]``: of the model, then of each control, each relative to the (other) controls; with
            fewer than three controls as they are.
        forgotten: bool ``[n]``.
        confidence: of the interval.
        exchangeable: whether forgotten and never-used records were drawn at random from one pool.

    Returns:
        AUC of the distances under the model, less its mean under the controls; 0 for a model that never saw them.
    """
    distances = np.abs(rows - np.nanmedian(rows[:, ~forgotten], axis=1, keepdims=True))
    if len(rows) == 2:
        paired = paired_difference(distances[0], distances[1], forgotten, "auc", confidence)
        return Estimate(paired.value, paired.low, paired.high, confidence, WITHOUT_TRAINING_NOISE)
    single_auc = auc(distances[0], forgotten, confidence)
    if exchangeable:
        return _less_one_half(single_auc)
    control_aucs = control_auc_values(distances[1:], forgotten)
    k = len(control_aucs)
    # Leave-one-out scores are correlated by -1/(k-1), their distances by about the square of that: so much less is
    # the spread of their AUCs.
    dependence = 1 / (k - 1) ** 2 if k > 2 else 0.0
    noise = float(np.std(control_aucs, ddof=1)) / np.sqrt(1 - dependence)
    reach = stats.t.ppf((1 + confidence) / 2, k - 1) * noise * np.sqrt(1 + 1 / k)
    value = single_auc.value - float(control_aucs.mean())
    low = max(value - max(reach, single_auc.value - single_auc.low), -1.0)
    high = min(value + max(reach, single_auc.high - single_auc.value), 1.0)
    return Estimate(value, float(low), float(high), confidence, WITH_TRAINING_NOISE)


def _stand_out_below(rows: Floats, forgotten: Bools) -> bool:
    """Tell whether the forgotten records that stand out more than under the controls do so by low scores."""
    excess = []
    for signed in (rows, -rows):
        edges = np.nanquantile(signed[:, ~forgotten], _TAIL, axis=1)
        is_known = ~np.isnan(signed[:, forgotten])
        beyond = (signed[:, forgotten] > edges[:, None]).sum(axis=1) / is_known.sum(axis=1)
        excess.append(float(beyond[0] - beyond[1:].mean()))
    above, below = excess
    return 2 * above < below


def _p_values(relative: Floats, forgotten: Bools, exchangeable: bool) -> Floats:
    """Return p-values of forgotten records: against never-used ones, and against forgotten ones under the controls."""
    forgotten_scores = relative[0, forgotten]
    p_values = np.zeros(len(forgotten_scores))
    nulls = [relative[0, ~forgotten]]
    # A single control has no others that its scores could be relative to.
    if not exchangeable and len(relative) > 2:
        nulls.append(relative[1:, forgotten].ravel())
    for null in nulls:
        ordered = np.sort(null[~np.isnan(null)])
        n_as_high = len(ordered) - np.searchsorted(ordered, forgotten_scores, side="left")
        p_values = np.maximum(p_values, (1 + n_as_high) / (len(ordered) + 1))
    return p_values


def _benjamini_hochberg(p_values: Floats, fdr: float) -> Bools:
    """Return the records that Benjamini-Hochberg selects."""
    ordered = np.sort(p_values)
    reached = np.flatnonzero(ordered <= fdr * np.arange(1, len(ordered) + 1) / len(ordered))
    return p_values <= ordered[reached[-1]] if len(reached) else np.zeros(len(p_values), bool)


def _answer(
    p_high: Floats,
    p_low: Floats,
    *,
    differences: Sequence[Estimate],
    spreads: Sequence[Estimate],
    smallest_accused: float,
    one_training: bool,
    error: float,
    before_shows: bool,
    says_nothing: bool,
    margin: float,
    smallest: float,
    acquitting_differences: Sequence[Estimate],
    likely_spreads: Sequence[Estimate],
    p_values: Sequence[Floats],
    mostly_lower: bool,
) -> tuple[ErasureAnswer, str]:
    unsure: ErasureAnswer = "too little data to say"
    if says_nothing:
        return unsure, "the model after the erasure scores all records alike"
    # Nobody knows by how much a single record moves between trainings where there is one of them.
    list_error = 0.0 if one_training else _LIST_SHARE * error
    if accused := _accuse(differences, spreads, p_high, p_low, list_error, mostly_lower, smallest_accused):
        return accused
    if not before_shows:
        return unsure, "the model before the erasure does not show the records either, so nothing is learned"
    if one_training:
        return unsure, "how far trainings differ takes two models that never saw the records"
    if (largest := max(max(each.high, -each.low) for each in acquitting_differences)) >= margin:
        return unsure, f"the difference of AUC may be as large as {largest:.3f}"
    if any(each.low <= -margin or each.high >= margin for each in likely_spreads):
        return unsure, "their scores may vary more, or less, than under models that never saw the records"
    # Few records among many hardly move an AUC: what they show is not enough to accuse, but enough not to acquit.
    if suspects := int(np.any([_benjamini_hochberg(each, error) for each in p_values], axis=0).sum()):
        return unsure, f"the AUC shows no difference, but {suspects} single records may stand out"
    return (
        "no difference from a model that never saw them",
        f"the difference of AUC lies within ±{margin:g}; one of {smallest:.3f} would have been found in 4 of 5 checks",
    )


def _accuse(
    differences: Sequence[Estimate],
    spreads: Sequence[Estimate],
    p_high: Floats,
    p_low: Floats,
    list_error: float,
    mostly_lower: bool,
    smallest_accused: float,
) -> tuple[ErasureAnswer, str] | None:
    """Return "still remembered" or "overdone" with its reason, where a comparison says so: the AUC is heard first.

    A difference counts where all of ``differences`` (or ``spreads``) lie beyond ``smallest_accused`` on the same side.
    """
    difference = differences[0]
    above, below = (
        lambda estimates: min(each.low for each in estimates) > smallest_accused,
        lambda estimates: max(each.high for each in estimates) < -smallest_accused,
    )
    remembered: ErasureAnswer = "still remembered"
    overdone: ErasureAnswer = "overdone: they stand out the other way"
    n_high, n_low = (int(_benjamini_hochberg(p, list_error).sum()) for p in (p_high, p_low))
    varied = "their scores vary {} than under models that never saw the records{}"
    findings: list[tuple[bool, ErasureAnswer, str]] = [
        (
            above(differences), remembered,
            f"the AUC is {difference.value:.3f} above that of models that never saw the records",
        ),
        (n_high > 0, remembered, f"{n_high} records score higher than chance explains, though most do not"),
        (
            below(differences), overdone,
            f"the AUC is {-difference.value:.3f} below that of models that never saw the records",
        ),
        (n_low > 0, overdone, f"{n_low} records score lower than chance explains, though most do not"),
        (
            above(spreads), overdone if mostly_lower else remembered,
            varied.format("more", ": some are higher, others lower"),
        ),
        (below(spreads), overdone, varied.format("less", "")),
    ]  # fmt: skip
    return next(((answer, reason) for applies, answer, reason in findings if applies), None)
