"""One request for erasure, decided from scores: the answer, the share still remembered, and which records.

Nothing here knows a model: rows of scores go in, larger meaning more like a training record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from divulge.decisions import usage
from divulge.decisions.counts import Counts
from divulge.decisions.fdr import benjamini_hochberg
from divulge.evaluation.comparison import paired_difference
from divulge.evaluation.erasure import (
    ErasureAnswer,
    ErasureTest,
    check_control_scores,
    control_auc_values,
    erasure_test,
    match_ranks,
)
from divulge.results import ErasureFinding
from divulge.statistics import auc
from divulge.types import Estimate

if TYPE_CHECKING:
    from divulge.types import Bools, Floats

REMEMBERED: ErasureAnswer = "still remembered"
NO_DIFFERENCE: ErasureAnswer = "no difference from a model that never saw them"
OVERDONE: ErasureAnswer = "overdone: they stand out the other way"
TOO_LITTLE: ErasureAnswer = "too little data to say"
# Scores relative to the controls show the same effect as a larger AUC: only training noise is left beside it.
RELATIVE_MARGIN = 2.0
RECOMMENDED_CONTROLS = 4
WITHOUT_NOISE = "training noise is not included: a single model that never saw the records was given"
NOTHING_TO_COMPARE = (
    "no model that never saw the records was given, and without one an AUC says nothing: such a model may rank them "
    "above or below others (training noise is not included either)"
)
UNFIT_CONTROLS = "the models that never saw the records are not what they should be: see the checks"
WITHOUT_BEFORE = (
    "without the model before the erasure nobody knows how much of the records there was to forget, and how much of it "
    "may be left"
)
REVERSED = (
    "the model before the erasure ranks the records lower than models that never saw them do: are scores the wrong way "
    "round, or models swapped?"
)
SPREAD = "difference from the mean of the controls, t over trainings, at least the paired interval over records"
_POWER = 0.8
_MAX_SHARE_OF_BEFORE = 0.5  # share of what the model before showed that "no difference" must exclude


@dataclass(frozen=True, slots=True, eq=False)
class DecidedRequest:
    """The finding on one request, and what it says of each of its records.

    Args:
        finding: for the summary.
        p_values: of each record, ``[f]``, small where it stands out as a training record does.
        listed: bool ``[f]``, which records are on the list of those still remembered.
    """

    finding: ErasureFinding
    p_values: Floats
    listed: Bools


def decide_request(
    name: str,
    after: Floats,
    controls: Floats,
    forgotten: Bools,
    *,
    before: Floats | None,
    margin: float,
    confidence: float,
    fdr: float,
    at_random: bool,
    is_alike: bool,
    matched: bool = True,
    unseen: bool = True,
) -> DecidedRequest:
    """Decide one request.

    Two comparisons share the permitted error. The plain one sets the AUC of the model beside those of the controls,
    whose spread between trainings is in its interval: this is the difference that must lie within ±``margin``. The
    other one is `divulge.evaluation.erasure_test`, of scores less the mean score of the controls: it finds far smaller
    differences, scores that vary more or less than they should, and single records; it must find none of these.

    A margin means little where the model before the erasure hardly showed the records. So "no difference" also needs
    that model, an interval that excludes half of what it showed, and a share still remembered that may be 0. Controls
    that score every record alike are one control: copies of a model say nothing of the spread between trainings.
    Where the model before shows the records the other way, nothing is said: larger scores do not mean members there.

    Args:
        name: of the request.
        after: scores ``[n]`` under the model after the erasure.
        controls: scores ``[k, n]`` under models that never saw the records; NaN where one was trained on the record.
        forgotten: bool ``[n]``; the others were never used.
        before: scores ``[n]`` before the erasure, or None.
        margin: largest difference of AUC that counts as none.
        confidence: of the answer.
        fdr: of the list of records.
        at_random: whether a random draw decided which records were to be forgotten.
        is_alike: whether forgotten and never-used records look alike without any model.
        matched: whether the controls look like models that were trained as this one, and that never saw the records:
            without that nobody is acquitted by them.
        unseen: whether the controls look like models that never saw the records: without that nobody stands out the
            other way either, since scores below theirs are what is to be expected.
    """
    controls = drop_copies(controls)
    k, n_forgotten = len(controls), int(forgotten.sum())
    auc_after = auc(after, forgotten, confidence)
    auc_before = None if before is None else auc(before, forgotten, confidence)
    if k == 0:
        finding = ErasureFinding(
            request=name, answer=TOO_LITTLE, reason=NOTHING_TO_COMPARE, forgotten=n_forgotten, controls=(),
            auc_before=auc_before, auc_after=auc_after, difference=None, relative=None, spread=None,
            training_noise=None, smallest_seen=None, share=None, remembered=0,
        )  # fmt: skip
        return DecidedRequest(finding, np.ones(n_forgotten), np.zeros(n_forgotten, bool))
    aucs = control_auc_values(check_control_scores(controls, forgotten), forgotten)
    if k == 1:
        test, answer, reason = _compare_with_one(
            after, controls, forgotten, before=before, margin=margin, confidence=confidence, at_random=at_random
        )
        difference, smallest, noise, relative = test.difference, test.smallest_seen, None, None
    else:
        error = (1 - confidence) / 2
        test = erasure_test(
            after, controls, forgotten, before=before, at_random=at_random, margin=_widen_margin(margin),
            confidence=1 - error,
        )  # fmt: skip
        difference, smallest = compare_with_controls(after, controls, forgotten, 1 - error)
        noise, relative = float(np.std(aucs, ddof=1)), test.difference
        answer, reason = _combine(test, difference, smallest, margin, k)
    if np.ptp(after) == 0:
        answer, reason = TOO_LITTLE, "the model after the erasure scores all records alike"
    elif before is not None and _is_reversed(before, controls, forgotten, confidence):
        answer, reason = TOO_LITTLE, REVERSED
    elif answer == OVERDONE and not unseen:
        answer, reason = TOO_LITTLE, UNFIT_CONTROLS
    listed = benjamini_hochberg(test.p_remembered, fdr)
    if k == 1 and answer != REMEMBERED:  # nobody knows by how much a single record moves between trainings
        listed = np.zeros(n_forgotten, bool)
    share = estimate_share(
        after, controls, forgotten, before, confidence, is_alike=is_alike, is_remembered=answer == REMEMBERED
    )
    if answer == NO_DIFFERENCE:
        shown_before = None
        if test.before is not None:
            shown_before = test.before.value - (float(test.controls.mean()) if k > 1 else 0.5)
        least_share = max(share.low, _least_share_by_rank(after, controls, forgotten, before, confidence, is_alike))
        n_suspects = max(int(benjamini_hochberg(p, fdr).sum()) for p in test.p_remembered_by_scale)
        if doubt := _doubt(test.largest_left, shown_before, least_share, n_suspects, matched=matched):
            answer, reason = TOO_LITTLE, doubt
    finding = ErasureFinding(
        request=name, answer=answer, reason=reason, forgotten=n_forgotten, controls=tuple(aucs.tolist()),
        auc_before=auc_before, auc_after=auc_after, difference=difference, relative=relative, spread=test.spread,
        training_noise=noise, smallest_seen=smallest, share=share, remembered=int(listed.sum()),
    )  # fmt: skip
    return DecidedRequest(finding, test.p_remembered, listed)


def _widen_margin(margin: float) -> float:
    """Return the margin of the finer comparison, which sees smaller differences than the raw scores show."""
    return min(RELATIVE_MARGIN * margin, 0.99)


def _compare_with_one(
    after: Floats,
    controls: Floats,
    forgotten: Bools,
    *,
    before: Floats | None,
    margin: float,
    confidence: float,
    at_random: bool,
) -> tuple[ErasureTest, ErasureAnswer, str]:
    """Compare with a single control: the finer comparison accuses by ``margin``, and acquits by a wider one."""
    test = erasure_test(
        after, controls, forgotten, before=before, at_random=at_random, margin=margin, confidence=confidence
    )
    answer, reason = test.answer, test.reason
    if answer == TOO_LITTLE and at_random:
        test = erasure_test(
            after, controls, forgotten, before=before, at_random=True, margin=_widen_margin(margin),
            confidence=confidence,
        )  # fmt: skip
        answer, reason = _acquit(test, test.difference, test.smallest_seen, margin, 1)
    return test, answer, f"{reason.split('; a single control')[0]}; {WITHOUT_NOISE}"


def _doubt(
    largest_left: float, shown_before: float | None, least_share: float, n_suspects: int, *, matched: bool
) -> str:
    """Return why "no difference" cannot be said although both comparisons find none; empty where it can.

    Args:
        largest_left: upper end of the difference, the largest of the finer scales.
        shown_before: that of the model before; None where it was not given, which acquits nobody.
        least_share: lower end of the share still remembered, the larger of that of scores and that of their ranks.
        n_suspects: number of records that would be on the list by one scale of the scores.
        matched: whether the controls may be believed.
    """
    if not matched:
        return UNFIT_CONTROLS
    if shown_before is None:
        return WITHOUT_BEFORE
    if largest_left > _MAX_SHARE_OF_BEFORE * shown_before:
        return (
            f"the model before the erasure showed the records by {shown_before:.3f} of AUC only, "
            f"and {largest_left:.3f} may be left"
        )
    if n_suspects:
        return f"the AUC shows no difference, but {n_suspects} single records stand out"
    if least_share > 0:
        return f"the AUC shows no difference, but {100 * least_share:.1f} % or more of the records score as before"
    return ""


def _least_share_by_rank(
    after: Floats, controls: Floats, forgotten: Bools, before: Floats | None, confidence: float, is_alike: bool
) -> float:
    """Return the lower end of the share where both models have the scale of the controls; 0 without one before."""
    if before is None:
        return 0.0
    base = np.nanmean(controls, axis=0)
    ranked_after, ranked_before = (match_ranks(row, base, ~forgotten) for row in (after, before))
    return estimate_share(
        ranked_after, controls, forgotten, ranked_before, confidence, is_alike=is_alike, is_remembered=False
    ).low


def _is_reversed(before: Floats, controls: Floats, forgotten: Bools, confidence: float) -> bool:
    """Tell whether the model before the erasure ranks its training records below others, which no training does."""
    if len(controls) == 1:
        return paired_difference(before, controls[0], forgotten, "auc", confidence).high < 0
    return compare_with_controls(before, controls, forgotten, confidence)[0].high < 0


def drop_copies(controls: Floats) -> Floats:
    """Return the controls without those that score every record as an earlier one does, ``[k, n]``."""
    comparable = np.where(np.isnan(controls), np.inf, controls)  # NaN differs from itself
    first_rows = np.unique(comparable, axis=0, return_index=True)[1] if len(controls) else np.empty(0, np.int64)
    return controls[np.sort(first_rows)]


def compare_with_controls(
    after: Floats, controls: Floats, forgotten: Bools, confidence: float
) -> tuple[Estimate, float]:
    """Return the AUC less the mean of the controls', and the smallest difference found with 80 % probability.

    For fixed records a model that never saw them is one more draw from the distribution of the controls, so that the
    interval is Student's for a further draw; it is never shorter than the paired one over records, since trainings
    that happen to agree (one seed, a convex loss) show no spread.

    Raises:
        divulge.InputError: fewer than 2 controls.
    """
    k = len(controls)
    aucs = control_auc_values(controls, forgotten)
    value = auc(after, forgotten).value - float(aucs.mean())
    error = 1 - confidence
    paired = paired_difference(after, np.nanmean(controls, axis=0), forgotten, "auc", confidence)
    spread = float(np.std(aucs, ddof=1)) * np.sqrt(1 + 1 / k)
    reach = stats.t.ppf(1 - error / 2, k - 1) * spread
    paired_reach = max(paired.value - paired.low, paired.high - paired.value)
    smallest = max(
        reach + stats.t.ppf(_POWER, k - 1) * spread,
        paired_reach * (1 + stats.norm.ppf(_POWER) / stats.norm.ppf(1 - error / 2)),
    )
    reach = max(reach, paired_reach)
    low, high = float(max(value - reach, -1.0)), float(min(value + reach, 1.0))
    return Estimate(value, low, high, confidence, SPREAD), float(min(smallest, 1.0))


def _combine(
    test: ErasureTest, difference: Estimate, smallest: float, margin: float, k: int
) -> tuple[ErasureAnswer, str]:
    """Return the answer of both comparisons, and why."""
    if test.answer == REMEMBERED or difference.low > 0:
        reason = f"relative to these models, {test.reason}" if test.answer == REMEMBERED else ""
        plain = f"the AUC is {difference.value:.3f} above that of models that never saw the records"
        return REMEMBERED, reason if difference.low <= 0 else plain
    if test.answer == OVERDONE or difference.high < 0:
        reason = f"relative to these models, {test.reason}" if test.answer == OVERDONE else ""
        plain = f"the AUC is {-difference.value:.3f} below that of models that never saw the records"
        return OVERDONE, reason if difference.high >= 0 else plain
    return _acquit(test, difference, smallest, margin, k)


def _acquit(
    test: ErasureTest, difference: Estimate, smallest: float, margin: float, k: int
) -> tuple[ErasureAnswer, str]:
    """Return the answer where neither comparison finds a difference, and why."""
    if difference.low <= -margin or difference.high >= margin:
        largest = max(difference.high, -difference.low)
        hint = (
            f"; {RECOMMENDED_CONTROLS} or more models that never saw them say more" if k < RECOMMENDED_CONTROLS else ""
        )
        return TOO_LITTLE, f"the difference of AUC may be as large as {largest:.3f}{hint}"
    if test.answer == TOO_LITTLE:
        return TOO_LITTLE, test.reason.replace("the difference of AUC", "relative to these models, the difference")
    return NO_DIFFERENCE, (
        f"the difference of AUC lies within ±{margin:g}; one of {smallest:.3f} would have been found in 4 of 5 checks"
    )


def estimate_share(
    after: Floats,
    controls: Floats,
    forgotten: Bools,
    before: Floats | None,
    confidence: float,
    *,
    is_alike: bool,
    is_remembered: bool,
) -> Estimate:
    """Return the share of the records that is still remembered, with the spread between trainings in its interval.

    Scores less the mean of the controls are a mixture of those of remembered and of forgotten records. Never-used
    records show the latter (where the sets are not alike, the records themselves under the other controls), the model
    before the erasure shows the former (`divulge.decisions.usage`): a record counts as remembered where it scores as
    it did. Many records that are remembered a little, rather than some that are remembered whole, fit no such
    mixture; where the records are remembered, the ends therefore reach as far as those that know nothing of how
    remembered records score.
    """
    k = len(controls)
    null = _relative(controls, after)[~forgotten]
    control_differences, unseen = [], []  # of each control, the records that it never saw
    for i in range(k if k > 1 else 0):
        is_unseen = ~np.isnan(controls[i])
        control_differences.append(_relative(np.delete(controls[:, is_unseen], i, axis=0), controls[i, is_unseen]))
        unseen.append(forgotten[is_unseen])
    if control_differences and not is_alike:
        null = np.concatenate(
            [row[is_forgotten] for row, is_forgotten in zip(control_differences, unseen, strict=True)]
        )
    before_differences = None if before is None else _relative(controls, before)[forgotten]
    if np.ptp(null) == 0:
        return Estimate(0.0, 0.0, 1.0, confidence, "unknown: never-used records all score alike")

    def share_of(relative: Floats) -> Estimate:
        counts = Counts.empty(null).add(relative)
        free = usage.share(counts, confidence=confidence)
        if before_differences is None:
            return free
        share = usage.share(counts, before_differences, confidence=confidence)
        if share.low == 0 and share.high == 1:  # no mixture fits
            return free
        if not is_remembered:
            return share
        low, high = min(share.low, free.low), max(share.high, free.high)
        return Estimate(share.value, low, high, confidence, f"{share.method}; or {free.method}")

    share = share_of(_relative(controls, after)[forgotten])
    if not control_differences:
        return share
    reached = np.array(
        [share_of(row[is_forgotten]).value for row, is_forgotten in zip(control_differences, unseen, strict=True)]
    )
    reach = float(stats.t.ppf((1 + confidence) / 2, k - 1) * np.std(reached, ddof=1) * np.sqrt(1 + 1 / k))
    method = f"{share.method}; widened by the spread of the same share under the controls"
    return Estimate(share.value, max(share.low - reach, 0.0), min(share.high + reach, 1.0), confidence, method)


def _relative(controls: Floats, scores: Floats) -> Floats:
    return scores - np.nanmean(controls, axis=0)
