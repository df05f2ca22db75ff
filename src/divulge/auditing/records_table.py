"""One row per record of an audit, for those who decide on a release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from divulge.frames import Frame

if TYPE_CHECKING:
    from divulge.auditing.findings import Findings
    from divulge.types import Array


# What a spreadsheet would take for the beginning of a formula, and what is a number nonetheless.
_FORMULA = re.compile(r"[=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def for_spreadsheets(frame: Frame) -> Frame:
    """``frame`` for a CSV: text that a spreadsheet would run as a formula begins with an apostrophe.

    Numbers stay what they are, also where a text is nothing but a number.

    Examples:
        >>> for_spreadsheets(Frame({"id": np.array(["=1+1", "-3.5", "a=b"])}))["id"].tolist()
        ["'=1+1", '-3.5', 'a=b']
    """
    return Frame(
        {
            f"'{name}" if _FORMULA.match(name) else name: values if values.dtype.kind in "biuf" else _escaped(values)
            for name, values in frame.columns.items()
        }
    )


def table(audit: Findings) -> Frame:
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
    return Frame(columns)


def _escaped(values: Array) -> Array:
    runs = [isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value) for value in values]
    return np.array([f"'{value}" if run else value for value, run in zip(values.tolist(), runs, strict=True)], object)
