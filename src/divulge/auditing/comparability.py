"""Covariates of an audit's candidates: what the user names, what texts show, and what is said of the adjustment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import evaluation, tables
from divulge.decisions import fpr as by_fpr
from divulge.errors import InputError
from divulge.evaluation import covariates, transfer
from divulge.evaluation.covariates import Adjustment, Covariates
from divulge.report import Chart, Fold, Paragraph, Section, Table, charts, in_words
from divulge.results import AdjustmentSummary, Carried, Plane, TextSplit, TransferSummary
from divulge.statistics import two_samples
from divulge.statistics.duplicates import first_of_each_group
from divulge.validation import check_vector, format_value, to_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

    from divulge.auditing.findings import Findings
    from divulge.auditing.prepared import PreparedAudit
    from divulge.report.page import Block
    from divulge.results import Numbers
    from divulge.types import Array, Floats

REDRAW_ADVICE = "Draw non-members at random from the records that training records were drawn from, and audit again"
_READABLE_NAMES = {"length": "document length", "year": "years named", "topic": "topic"}


def check_covariates(value: Any, count: int) -> dict[str, Array] | None:
    """Columns that the user names, by name; of an array they are numbered.

    Args:
        value: a table or a mapping (name → ``[n]``), an array ``[n]`` or ``[n, k]``, or None.
        count: ``n``, members and then non-members.

    Raises:
        divulge.InputError: another number of rows, no columns, values that are missing, NaN or infinite.
    """
    if value is None:
        return None
    if isinstance(value, Mapping) or hasattr(value, "columns"):
        columns = {str(name): value[name] for name in (value if isinstance(value, Mapping) else value.columns)}
    else:
        array = to_numpy(value, "covariates")
        if array.ndim not in (1, 2):
            raise InputError(f"covariates: an array [n] or [n, k] is needed, got shape {array.shape}")
        wide = array.reshape(len(array), -1)
        columns = {f"covariate {at + 1}": wide[:, at] for at in range(wide.shape[1])}
    if not columns:
        raise InputError("covariates: at least 1 column is needed, got none")
    return {name: _check_covariate(name, values, count) for name, values in columns.items()}


def _check_covariate(name: str, values: Any, count: int) -> Array:
    column = to_numpy(values, f"covariates: {name}")
    if column.shape != (count,):
        raise InputError(
            f"covariates: {name}: {count} values are needed (members, then non-members), got shape {column.shape}"
        )
    if column.dtype.kind == "M" and np.isnat(column).any():
        raise InputError(f"covariates: {name}: a date is missing; fill it in or leave the records out")
    if column.dtype == object:
        column = np.asarray(column.tolist())
    if column.dtype == object:
        odd = next((each for each in column.tolist() if each is None), column[0])
        raise InputError(
            f"covariates: {name}: numbers, dates or words are needed, got {format_value(odd)}; fill in what is missing"
        )
    if column.dtype.kind in "biuf":
        check_vector(column.astype(np.float64), f"covariates: {name}")
    return column


def collect_covariates(case: PreparedAudit) -> Covariates | None:
    """The covariates of the candidates: of texts those that they show, and what the user named; None without any."""
    given, parts = case.given, []
    if given.candidates.x.dtype == object:
        parts.append(covariates.of_texts(list(given.candidates.x), seed=case.seed))
    if given.covariates is not None:
        parts.append(covariates.of_columns(given.covariates))
    return covariates.joined(parts) if any(part.names for part in parts) else None


def read_covariates(frame: pl.DataFrame, count: int, path: Path) -> Covariates:
    """Covariates that were kept with a run.

    Raises:
        divulge.InputError: another number of rows than candidates, values that are no numbers.
    """
    columns = [check_vector(tables.to_array(frame[name]), f"{path}: {name}", length=count) for name in frame.columns]
    return Covariates(tuple(frame.columns), np.column_stack(columns))


def covariates_to_frame(held: Covariates) -> pl.DataFrame:
    """Covariates as a table to keep with a run; no text can be read from it."""
    return tables.from_arrays(dict(zip(held.names, held.values.T, strict=True)))


EXPLAINED_BY_LENGTH = "members and non-members differ in length, and nothing is seen among documents of like length"


def describe_contrary_evidence(audit: Findings, recipes: Sequence[str], confidence: float) -> str:
    """What another comparison shows that the adjusted one does not, in words; empty where none does.

    Args:
        audit: the audit.
        recipes: those that find something in scores that are not adjusted.
        confidence: of each interval.
    """
    texts, adjustment = audit.about.texts, audit.adjustment
    if recipes and adjustment is not None:
        return (
            f"by {in_words.listed(list(dict.fromkeys(recipes)))} members can be told from non-members without "
            f"adjustment, and not when adjusted for {describe_covariates(adjustment)}, so that it cannot be said "
            f"whether the model or a difference between the sets is behind it. {REDRAW_ADVICE}"
        )
    if recipes and texts is not None:
        return f"{EXPLAINED_BY_LENGTH} by {in_words.listed(list(dict.fromkeys(recipes)))}. {REDRAW_ADVICE}"
    if texts is not None and (seen := texts.seen_at_equal_length(1 - confidence)):
        return (
            f"by {in_words.listed(seen)} members can be told from non-members among documents of like length, and not "
            f"on the whole. {REDRAW_ADVICE}"
        )
    return ""


def describe_confounding(adjustment: Adjustment) -> str:
    """Why members and non-members that are alike in the covariates cannot be compared, and what to do next."""
    if not adjustment.overlap:
        return (
            f"The split is confounded: hardly any members and non-members are alike in "
            f"{describe_covariates(adjustment)}, so none can be compared. {REDRAW_ADVICE}."
        )
    return (
        f"The split is confounded: by {describe_covariates(adjustment)} members can be told from non-members without "
        f"the model, also where the sets were balanced in this respect (p = {adjustment.p_value:.2g}). {REDRAW_ADVICE}."
    )


def describe_covariates(adjustment: Adjustment) -> str:
    """What was adjusted for, in words."""
    return format_covariates(adjustment.adjusted_for)


def format_covariates(names: Sequence[str]) -> str:
    """Covariates as a reader would call them, one after the other."""
    return in_words.listed([_READABLE_NAMES.get(kind, kind) for kind in names])


def describe_adjustment(adjustment: Adjustment) -> str:
    """What was adjusted for and how many records took part, in a sentence."""
    kept, total = int(adjustment.kept.sum()), len(adjustment.kept)
    relative = [name for name, share in adjustment.explained.items() if share > 0]
    scores = "no score depends on it enough to be corrected for it"
    if relative:
        scores = f"scores of {in_words.listed(relative)} are relative to what it leads one to expect"
    return (
        f"Adjusted for {describe_covariates(adjustment)}: members are compared with non-members that are alike in this "
        f"respect, {kept:,} of {total:,} records took part, and {scores}."
    )


def summarise_adjustment(audit: Findings, numbers: Mapping[str, Numbers]) -> AdjustmentSummary | None:
    """What was adjusted for, with the numbers of adjusted scores; None where nothing was."""
    made = audit.adjustment
    if made is None:
        return None
    inside = int((made.kept & audit.members).sum())
    return AdjustmentSummary(
        adjusted_for=made.adjusted_for,
        members=inside,
        nonmembers=int(made.kept.sum()) - inside,
        explained=made.explained,
        p_before=made.p_before,
        p_value=made.p_value,
        overlap=made.overlap,
        recipes=numbers,
        text=describe_adjustment(made),
    )


_FALSE_ALARM = 0.01  # chance of a sign between exchangeable sets
_UNQUOTED = "their words, years or lengths (not quoted, as texts are left out)"


def compare_texts(case: PreparedAudit) -> TextSplit | None:
    """How members, non-members and population compare; None where records are no texts.

    Of texts that stand in one set several times, the first alone is compared with the other set, where copies keep
    together. Words are quoted from the documents, so they are left out where texts are to stay out of the run
    directory.
    """
    given = case.given
    records = given.candidates.x
    if records.dtype != object:
        return None
    members, others = list(records[given.truth]), list(records[~given.truth])
    groups, counted = given.duplicate_groups, np.ones(len(records), dtype=bool)
    if groups is not None:
        counted = first_of_each_group(groups, given.truth)
    distinct = records[counted & given.truth], records[counted & ~given.truth]
    population = [*given.calibration.x, *given.population.x]
    shared = evaluation.near_duplicates(members, others, population)
    (_, copies), *_ = (pair.counts for pair in shared.pairs)
    inside, outside = (np.array([len(text) for text in side], dtype=np.float64) for side in distinct)
    return TextSplit(
        signs=find_split_signs(*map(list, distinct), quoted=case.texts, seed=case.seed),
        shared=str(shared),
        copies=copies,
        length=two_samples.rank_sum_p_value(outside, inside, seed=case.seed),
    )


def find_split_signs(members: Sequence[str], others: Sequence[str], *, quoted: bool, seed: int) -> tuple[str, ...]:
    """What gives the split away, the surest first; that it does alone, where nothing may be quoted."""
    told = tuple(map(str, evaluation.text_differences(members, others, false_alarm=_FALSE_ALARM, seed=seed)))
    return told if quoted else (_UNQUOTED,) * bool(told)


def describe_split_signs(signs: Sequence[str]) -> list[str]:
    """What must be said first of a split with such signs."""
    return [f"members and non-members differ in more than membership: {'; '.join(signs)}"] if signs else []


def text_warnings(split: TextSplit | None) -> list[str]:
    """What a reader must know before the numbers."""
    if split is None:
        return []
    said = describe_split_signs(split.signs)
    if split.copies:
        said.append(
            f"at least half of the word n-grams of {in_words.several(split.copies, 'non-member')} stand in a member; a "
            "model that has learnt the one knows the other, so the numbers are too low"
        )
    return said


_MAX_POINTS = 400
_TRANSFER_NUMBERS = ("outside", "effective", "error", "explained", "violation", "p_value", "bound")


def assess_thresholds(
    calibration: Mapping[str, Floats], seen: Floats, query: Floats, level: float, seed: int
) -> TransferSummary | None:
    """`divulge.evaluation.transfer.assess` of every recipe's threshold, in a summary.

    Args:
        calibration: recipe → scores of the calibration records, ``[k]``.
        seen: features of the calibration records, ``[k, d]``.
        query: features of the candidates of unseen classes, ``[n, d]``.
        level: the nominal false-positive rate.
        seed: of the assessment.

    Returns:
        None where there are too few records on either side, or too few for the level.
    """
    try:
        transfers = {
            name: transfer.assess(seen, query, by_fpr.threshold(scores, level).select(scores), level, seed=seed)
            for name, scores in calibration.items()
        }
    except InputError:
        return None
    # The plane and the densities depend on the records alone: every recipe has the same.
    first = next(iter(transfers.values()))
    return TransferSummary(
        level=level,
        recipes={
            name: Carried(
                one.holds, str(one), one.expected_fpr.value, *(float(getattr(one, each)) for each in _TRANSFER_NUMBERS)
            )
            for name, one in transfers.items()
        },
        plane=Plane(_sample_points(first.seen), _sample_points(first.query)),
        ratio=_sample_points(np.column_stack([first.linear, first.ratio])),
    )


def transfer_section(summary: TransferSummary | None) -> Section:
    """What speaks for and against, recipe by recipe, and the plane it was read off."""
    if summary is None:
        return Section("Will the false-positive rate carry over to the unseen classes?", [])
    rows = [
        [
            name,
            "expected to hold" if one.holds else "not expected to hold",
            f"{one.expected_fpr:.3f}" if one.effective * summary.level >= 1 else "–",
            f"{one.violation:.2g} (p = {one.p_value:.2g})",
        ]
        for name, one in summary.recipes.items()
    ]
    any_one = next(iter(summary.recipes.values()))
    note = (
        f"The density ratio between unseen and seen records, and its linear fit (mean squared error "
        f"{any_one.error:.2g}, {any_one.explained:.0%} of its variance explained): the rate carries over to the "
        "extent that the fit is good and the violation small (Thaker et al. 2025, §5)."
    )
    columns = ["recipe", f"FPR of {summary.level:g}", "rate expected there", "multi-accuracy violation"]
    few = "A dash: too few seen records resemble the unseen class to resolve a rate."
    lacking = any(row[2] == "–" for row in rows)
    blocks: list[Block] = []
    for text in dict.fromkeys(one.text for one in summary.recipes.values()):
        whose = [name for name, one in summary.recipes.items() if one.text == text]
        blocks.append(Paragraph(text if len(whose) == len(summary.recipes) else f"{', '.join(whose)}: {text}"))
    plane = {"seen records": _coordinates(summary.plane.seen), "query records": _coordinates(summary.plane.query)}
    blocks.append(
        Chart(charts.scatter(plane, x="first component", y="second component"), title="Seen and query records")
    )
    ratio = {"seen records": _coordinates(summary.ratio)}
    blocks.append(Chart(charts.scatter(ratio, x="linear fit", y="density ratio"), title="Density ratio", note=note))
    folded = Fold("What speaks for and against, recipe by recipe", blocks)
    table = Table(columns, rows, note=few if lacking else "")
    return Section("Will the false-positive rate carry over to the unseen classes?", [table, folded])


def _sample_points(points: Floats) -> tuple[tuple[float, float], ...]:
    """At most 400 rows, evenly spaced, in four digits: enough for a chart."""
    rows = np.unique(np.linspace(0, len(points) - 1, min(_MAX_POINTS, len(points))).astype(int))
    return tuple((float(f"{x:.4g}"), float(f"{y:.4g}")) for x, y in points[rows])


def _coordinates(points: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    first, second = np.asarray(points, dtype=np.float64).T
    return first, second
