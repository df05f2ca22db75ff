"""Covariates of an audit's candidates: what the user names, what texts show, and what is said of the adjustment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import tables
from divulge.errors import InputError
from divulge.evaluation import covariates
from divulge.evaluation.covariates import Adjustment, Covariates
from divulge.report import formatting
from divulge.results import AdjustmentSummary
from divulge.validation import check_vector, format_value, to_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

    from divulge.auditing.case import Case
    from divulge.auditing.findings import Findings
    from divulge.results import RecipeStatistics
    from divulge.types import Array

NEXT = "Draw non-members at random from the records that training records were drawn from, and audit again"
_PLAIN = {"length": "document length", "year": "years named", "topic": "topic"}


def check_columns(value: Any, count: int) -> dict[str, Array] | None:
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
    return {name: _column(name, values, count) for name, values in columns.items()}


def _column(name: str, values: Any, count: int) -> Array:
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


def collect(case: Case) -> Covariates | None:
    """The covariates of the candidates: of texts those that they show, and what the user named; None without any."""
    given, parts = case.given, []
    if given.candidates.x.dtype == object:
        parts.append(covariates.of_texts(list(given.candidates.x), seed=case.seed))
    if given.covariates is not None:
        parts.append(covariates.of_columns(given.covariates))
    return covariates.joined(parts) if any(part.names for part in parts) else None


def read(frame: pl.DataFrame, count: int, path: Path) -> Covariates:
    """Covariates that were kept with a run.

    Raises:
        divulge.InputError: another number of rows than candidates, values that are no numbers.
    """
    columns = [check_vector(tables.to_array(frame[name]), f"{path}: {name}", length=count) for name in frame.columns]
    return Covariates(tuple(frame.columns), np.column_stack(columns))


def as_frame(held: Covariates) -> pl.DataFrame:
    """Covariates as a table to keep with a run; no text can be read from it."""
    return tables.from_arrays(dict(zip(held.names, held.values.T, strict=True)))


OWED_TO_LENGTH = "members and non-members differ in length, and nothing is seen among documents of like length"


def contrary_evidence(audit: Findings, recipes: Sequence[str], confidence: float) -> str:
    """What another comparison shows that the adjusted one does not, in words; empty where none does.

    Args:
        audit: the audit.
        recipes: those that find something in scores that are not adjusted.
        confidence: of each interval.
    """
    texts, adjustment = audit.about.texts, audit.adjustment
    if recipes and adjustment is not None:
        return (
            f"by {formatting.join_words(list(dict.fromkeys(recipes)))} members can be told from non-members without "
            f"adjustment, and not when adjusted for {named(adjustment)}, so that it cannot be said whether the model "
            f"or a difference between the sets is behind it. {NEXT}"
        )
    if recipes and texts is not None:
        return f"{OWED_TO_LENGTH} by {formatting.join_words(list(dict.fromkeys(recipes)))}. {NEXT}"
    if texts is not None and (seen := texts.seen_at_equal_length(1 - confidence)):
        return (
            f"by {formatting.join_words(seen)} members can be told from non-members among documents of like length, "
            f"and not on the whole. {NEXT}"
        )
    return ""


def describe_confounding(adjustment: Adjustment) -> str:
    """Why members and non-members that are alike in the covariates cannot be compared, and what to do next."""
    if not adjustment.overlap:
        return (
            f"The split is confounded: hardly any members and non-members are alike in {named(adjustment)}, so none "
            f"can be compared. {NEXT}."
        )
    return (
        f"The split is confounded: by {named(adjustment)} members can be told from non-members without the model, also "
        f"where the sets were balanced in this respect (p = {adjustment.p_value:.2g}). {NEXT}."
    )


def named(adjustment: Adjustment) -> str:
    """What was adjusted for, in words."""
    return in_plain_words(adjustment.adjusted_for)


def in_plain_words(names: Sequence[str]) -> str:
    """Covariates as a reader would call them, one after the other."""
    return formatting.join_words([_PLAIN.get(kind, kind) for kind in names])


def describe(adjustment: Adjustment) -> str:
    """What was adjusted for and how many records took part, in a sentence."""
    kept, total = int(adjustment.kept.sum()), len(adjustment.kept)
    relative = [name for name, share in adjustment.explained.items() if share > 0]
    scores = "no score depends on it enough to be corrected for it"
    if relative:
        scores = f"scores of {formatting.join_words(relative)} are relative to what it leads one to expect"
    return (
        f"Adjusted for {named(adjustment)}: members are compared with non-members that are alike in this respect, "
        f"{kept:,} of {total:,} records took part, and {scores}."
    )


def summarise(audit: Findings, numbers: Mapping[str, RecipeStatistics]) -> AdjustmentSummary | None:
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
        text=describe(made),
    )
