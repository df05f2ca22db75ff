"""One row per record of an audit, for those who decide on a release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from divulge import tables

if TYPE_CHECKING:
    from divulge.auditing.findings import Findings
    from divulge.types import Array


# What a spreadsheet would take for the beginning of a formula, and what is a number nonetheless.
_FORMULA = re.compile(r"[=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def escape_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` for a CSV: text that a spreadsheet would run as a formula begins with an apostrophe.

    Numbers stay what they are, also where a text is nothing but a number.

    Examples:
        >>> escape_formulas(pl.DataFrame({"id": ["=1+1", "-3.5", "a=b"]}))["id"].to_list()
        ["'=1+1", '-3.5', 'a=b']
    """
    names = {name: f"'{name}" for name in frame.columns if _FORMULA.match(name)}
    return frame.with_columns(
        [_escape_column(frame[name]) for name in frame.columns if frame[name].dtype == pl.String]
    ).rename(names)


def records_table(audit: Findings) -> pl.DataFrame:
    """Name, truth, class, group and every recipe's score of each candidate, and who is called a member at which FPR.

    A level for which there are too few calibration records has no column.
    """
    columns: dict[str, Array] = {"id": audit.ids, "member": audit.members}
    if audit.labels is not None:
        columns["label"] = audit.labels
    if audit.groups is not None:
        columns["group"] = audit.groups
    for name in audit:
        columns[f"{name} score"] = audit.scores[name]
        made = audit[name].selections(audit.fpr)
        columns |= {f"{name} called at FPR {level:g}": one.selected for level, one in made.items() if one is not None}
    return tables.from_arrays(columns)


def _escape_column(values: pl.Series) -> pl.Series:
    runs = (value is not None and _FORMULA.match(value) and not _NUMBER.fullmatch(value) for value in values)
    return pl.Series(values.name, [f"'{value}" if run else value for value, run in zip(values, runs, strict=True)])
