"""One row per record of an audit, for those who decide on a release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from divulge import lazy

if TYPE_CHECKING:
    import polars as pl

    from divulge.auditing.findings import Findings
    from divulge.types import Array
else:
    pl = lazy.module("polars")


# What a spreadsheet would take for the beginning of a formula, and what is a number nonetheless.
_FORMULA = r"^[=+\-@＝＋－＠\t\r\n]"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def for_spreadsheets(frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` for a CSV: text that a spreadsheet would run as a formula begins with an apostrophe.

    Numbers stay what they are, also where a text is nothing but a number.

    Examples:
        >>> for_spreadsheets(pl.DataFrame({"id": ["=1+1", "-3.5", "a=b"]}))["id"].to_list()
        ["'=1+1", '-3.5', 'a=b']
    """
    cell = pl.col(pl.String)
    runs = cell.str.contains(_FORMULA) & ~cell.str.contains(_NUMBER)
    escaped = frame.with_columns(pl.when(runs).then(cell.str.replace("^", "'")).otherwise(cell))
    return escaped.rename({name: f"'{name}" for name in frame.columns if re.search(_FORMULA, name)})


def table(audit: Findings) -> pl.DataFrame:
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
    return pl.DataFrame(columns)
