"""Covariates of an audit's candidates: what the user names, what texts show, and what is said of the adjustment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import tables
from divulge.errors import InputError
from divulge.evaluation import covariates
from divulge.evaluation.covariates import Adjustment, Covariates
from divulge.report import in_words
from divulge.results import AdjustmentSummary
from divulge.validation import check_vector, format_value, to_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

    from divulge.auditing.case import PreparedAudit
    from divulge.auditing.findings import Findings
    from divulge.results import Numbers
    from divulge.types import Array

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
            f"adjustment, and not when adjusted for {describe_covariates(adjustment)}, so that it cannot be said whether the model "
            f"or a difference between the sets is behind it. {REDRAW_ADVICE}"
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
            f"The split is confounded: hardly any members and non-members are alike in {describe_covariates(adjustment)}, so none "
            f"can be compared. {REDRAW_ADVICE}."
        )
    return (
        f"The split is confounded: by {describe_covariates(adjustment)} members can be told from non-members without the model, also "
        f"where the sets were balanced in this respect (p = {adjustment.p_value:.2g}). {REDRAW_ADVICE}."
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
        f"Adjusted for {describe_covariates(adjustment)}: members are compared with non-members that are alike in this respect, "
        f"{kept:,} of {total:,} records took part, and {scores}."
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
