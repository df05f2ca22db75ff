"""Comparability of members and non-members: covariates, words and lengths of texts, transfer to unseen classes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from divulge import evaluation, statistics, tables
from divulge.decisions import fpr as by_fpr
from divulge.duplicates import first_of_each_group
from divulge.errors import InputError
from divulge.evaluation import covariates, transfer
from divulge.evaluation.covariates import Adjustment, Covariates
from divulge.report import formatting
from divulge.results import AdjustmentSummary, ProjectedRecords, TextSplit, TransferCheck, TransferSummary
from divulge.validation import check_vector

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

    from divulge.auditing.findings import Findings
    from divulge.auditing.prepared import PreparedAudit
    from divulge.results import RecipeStatistics
    from divulge.types import Floats

REDRAW_ADVICE = "Draw non-members at random from the records that training records were drawn from, and audit again"
TIME_ADVICE = (
    "The sets seem to be of different times, which no new draw of later records mends: take as non-members records of "
    "the training period that were left out of training; where there are none, compare records of the time that both "
    "sets share, or plant canaries in the next training (divulge canaries)"
)
_TIME = re.compile(r"(?<![a-z])(date|datetime|timestamp|year|month|quarter)(?![a-z])")
_READABLE_NAMES = {"length": "document length", "year": "years named", "topic": "topic"}


def collect_covariates(audit: PreparedAudit) -> Covariates | None:
    """Collect the candidates' covariates: those measured on texts and those the user named; None if none."""
    inputs, parts = audit.inputs, []
    if inputs.candidates.x.dtype == object:
        parts.append(covariates.text_covariates(list(inputs.candidates.x), seed=audit.seed))
    if inputs.covariates is not None:
        parts.append(covariates.column_covariates(inputs.covariates))
    return covariates.join_covariates(parts) if any(part.names for part in parts) else None


def read_covariates(frame: pl.DataFrame, count: int, path: Path) -> Covariates:
    """Convert a stored table of covariates back to `Covariates`.

    Raises:
        divulge.InputError: another number of rows than candidates, values that are no numbers.
    """
    columns = [check_vector(tables.to_array(frame[name]), f"{path}: {name}", length=count) for name in frame.columns]
    return Covariates(tuple(frame.columns), np.column_stack(columns))


def covariates_to_frame(table: Covariates) -> pl.DataFrame:
    """Convert covariates to a table for the run directory; it contains no text."""
    return tables.from_arrays(dict(zip(table.names, table.values.T, strict=True)))


def advise_redraw(differences: Sequence[str]) -> str:
    """Advise how to get sets that can be compared, given what tells them apart; empty if nothing says how."""
    return TIME_ADVICE if any(_TIME.search(text.replace("_", " ").lower()) for text in differences) else ""


def describe_contrary_evidence(audit: Findings, recipes: Sequence[str]) -> str:
    """Describe evidence that the adjusted and the unadjusted comparison do not share; empty if none.

    Args:
        audit: the audit.
        recipes: those that find something in scores that are not adjusted.
    """
    adjustment = audit.adjustment
    if recipes and adjustment is not None:
        return (
            f"by {formatting.join_words(list(dict.fromkeys(recipes)))} members can be told from non-members without "
            f"adjustment, and not when adjusted for {describe_covariates(adjustment)}, so that it cannot be said "
            f"whether the model or a difference between the sets is behind it. {REDRAW_ADVICE}"
        )
    return ""


def describe_confounding(adjustment: Adjustment) -> str:
    """Explain why members and non-members cannot be compared, and what to do next."""
    advice = advise_redraw(adjustment.adjusted_for) or REDRAW_ADVICE
    if not adjustment.overlap:
        return (
            f"The split is confounded: hardly any members and non-members are alike in "
            f"{describe_covariates(adjustment)}, so none can be compared. {advice}."
        )
    return (
        f"The split is confounded: by {describe_covariates(adjustment)} members can be told from non-members without "
        f"the model, also where the sets were balanced in this respect (p = {adjustment.p_value:.2g}). {advice}."
    )


def describe_covariates(adjustment: Adjustment) -> str:
    """List the covariates that were adjusted for."""
    return format_covariates(adjustment.adjusted_for)


def format_covariates(names: Sequence[str]) -> str:
    """List covariates under readable names."""
    return formatting.join_words([_READABLE_NAMES.get(name, name) for name in names])


def describe_adjustment(adjustment: Adjustment) -> str:
    """Describe what was adjusted for and how many records took part."""
    n_kept, total = int(adjustment.is_included.sum()), len(adjustment.is_included)
    corrected = [name for name, share in adjustment.explained.items() if share > 0]
    scores = "no score depends on it enough to be corrected for it"
    if corrected:
        scores = f"scores of {formatting.join_words(corrected)} are relative to what it leads one to expect"
    return (
        f"Adjusted for {describe_covariates(adjustment)}: members are compared with non-members that are alike in this "
        f"respect, {n_kept:,} of {total:,} records took part, and {scores}."
    )


def summarise_adjustment(audit: Findings, numbers: Mapping[str, RecipeStatistics]) -> AdjustmentSummary | None:
    """Summarise the adjustment with the numbers of the adjusted scores; None if nothing was adjusted."""
    adjustment = audit.adjustment
    if adjustment is None:
        return None
    n_members = int((adjustment.is_included & audit.members).sum())
    return AdjustmentSummary(
        adjusted_for=adjustment.adjusted_for,
        members=n_members,
        nonmembers=int(adjustment.is_included.sum()) - n_members,
        explained=adjustment.explained,
        p_before=adjustment.p_before,
        p_value=adjustment.p_value,
        overlap=adjustment.overlap,
        recipes=numbers,
        text=describe_adjustment(adjustment),
    )


_FALSE_ALARM = 0.01  # chance of a sign between exchangeable sets
_UNQUOTED = "their words, years or lengths (not quoted, as texts are left out)"


def compare_texts(audit: PreparedAudit) -> TextSplit | None:
    """Compare the texts of members, non-members and population; None if the records are not texts.

    Of texts that stand in one set several times, the first alone is compared with the other set, where copies keep
    together. Words are quoted from the documents, so they are left out where texts are to stay out of the run
    directory.
    """
    inputs = audit.inputs
    records = inputs.candidates.x
    if records.dtype != object:
        return None
    members, nonmembers = list(records[inputs.truth]), list(records[~inputs.truth])
    groups, is_counted = inputs.duplicate_groups, np.ones(len(records), dtype=bool)
    if groups is not None:
        is_counted = first_of_each_group(groups, inputs.truth)
    distinct = records[is_counted & inputs.truth], records[is_counted & ~inputs.truth]
    population = [*inputs.calibration.x, *inputs.population.x]
    shared = evaluation.near_duplicates(members, nonmembers, population)
    (_, copies), *_ = (pair.counts for pair in shared.pairs)
    learned = set(members) if inputs.copied else set()
    unequal = [text for text in nonmembers if text not in learned]
    if len(unequal) < len(nonmembers):  # Equal ones are counted as such, see `count_copies`.
        copies = evaluation.near_duplicates(members, unequal).pairs[0].counts[1] if unequal else 0
    member_lengths, nonmember_lengths = (np.array([len(text) for text in side], dtype=np.float64) for side in distinct)
    return TextSplit(
        signs=find_split_signs(*map(list, distinct), quoted=audit.show_records, seed=audit.seed),
        shared=str(shared),
        copies=copies,
        length=statistics.rank_sum_p_value(nonmember_lengths, member_lengths, seed=audit.seed),
    )


def find_split_signs(members: Sequence[str], nonmembers: Sequence[str], *, quoted: bool, seed: int) -> tuple[str, ...]:
    """Find words, years and lengths that separate the sets, strongest first; unquoted unless ``quoted``."""
    signs = tuple(map(str, evaluation.text_differences(members, nonmembers, false_alarm=_FALSE_ALARM, seed=seed)))
    return signs if quoted else (_UNQUOTED,) * bool(signs)


def describe_split_signs(signs: Sequence[str]) -> list[str]:
    """Return a warning for a split with such signs; empty without any."""
    return [f"members and non-members differ in more than membership: {'; '.join(signs)}"] if signs else []


def text_warnings(split: TextSplit | None) -> list[str]:
    """Return warnings about the split of texts."""
    if split is None:
        return []
    messages = describe_split_signs(split.signs)
    if split.copies:
        messages.append(
            f"at least half of the word n-grams of {formatting.format_count(split.copies, 'non-member')} stand in a "
            "member; a model that has learnt the one knows the other, so the numbers are too low"
        )
    return messages


def count_copies(audit: Findings) -> int:
    """Return how many candidates a copy in another set can hide a leak of: equal ones that were kept, and texts alike.

    A non-member that equals a member is known to a model that learned the member.
    """
    about = audit.about
    return about.copied + (0 if about.texts is None else about.texts.copies)


def hidden_share(audit: Findings, n_members: int, n_nonmembers: int) -> float:
    """Return the largest share q of the non-members that may be members in truth, in [0, 1].

    The AUC is then (1 - q) times the one against the others, and q times that of members against copies, which is
    anything from 0 to 1: copies may be the records of which the model is surest. All may be among the candidates in
    question.
    """
    return min(1.0, count_copies(audit) / max(1, min(n_members, n_nonmembers)))


def describe_copies(audit: Findings) -> str:
    """Say that copies across the sets can hide a leak, and what to do."""
    count = count_copies(audit)
    verb = "has a copy" if count == 1 else "have copies"
    return (
        f"{formatting.format_count(count, 'candidate')} {verb} in another set: what a model gives away of a record it "
        "gives away of its copy, so the comparison can hide a leak. Take them out (equal ones: duplicates='drop')"
    )


_MAX_POINTS = 400
_TRANSFER_NUMBERS = ("outside", "effective", "error", "explained", "violation", "p_value", "bound")


def assess_thresholds(
    calibration: Mapping[str, Floats], seen_features: Floats, query_features: Floats, level: float, seed: int
) -> TransferSummary | None:
    """Assess for every recipe whether its threshold transfers to the unseen classes.

    Args:
        calibration: recipe → scores of the calibration records, ``[k]``.
        seen_features: features of the calibration records, ``[k, d]``.
        query_features: features of the candidates of unseen classes, ``[n, d]``.
        level: the nominal false-positive rate.
        seed: of the assessment.

    Returns:
        None where there are too few records on either side, or too few for the level.
    """
    try:
        transfers = {
            name: transfer.assess(
                seen_features, query_features, by_fpr.threshold(scores, level).select(scores), level, seed=seed
            )
            for name, scores in calibration.items()
        }
    except InputError:
        return None
    # The plane and the densities depend on the records alone: every recipe has the same.
    assessment = next(iter(transfers.values()))
    return TransferSummary(
        level=level,
        recipes={
            name: TransferCheck(
                assessed.holds,
                str(assessed),
                assessed.expected_fpr.value,
                *(float(getattr(assessed, number)) for number in _TRANSFER_NUMBERS),
            )
            for name, assessed in transfers.items()
        },
        plane=ProjectedRecords(_sample_points(assessment.seen), _sample_points(assessment.query)),
        ratio=_sample_points(np.column_stack([assessment.linear, assessment.ratio])),
    )


def _sample_points(points: Floats) -> tuple[tuple[float, float], ...]:
    """Return at most 400 evenly spaced rows in four digits, enough for a chart."""
    rows = np.unique(np.linspace(0, len(points) - 1, min(_MAX_POINTS, len(points))).astype(int))
    return tuple((float(f"{x:.4g}"), float(f"{y:.4g}")) for x, y in points[rows])
