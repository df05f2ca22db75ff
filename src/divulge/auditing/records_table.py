"""One row per record of an audit, for those who decide on a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge import checks, lazy

if TYPE_CHECKING:
    import polars as pl

    from divulge.auditing.findings import Findings
    from divulge.types import Array
else:
    pl = lazy.module("polars")


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
        for level in audit.fpr:
            try:
                columns[f"{name} called at FPR {level:g}"] = audit[name].selection(fpr=level).selected
            except checks.InputError:
                continue
    return pl.DataFrame(columns)
