"""An audit's files read back: every value is held against what the pages and the statistics rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from divulge import results, tables
from divulge.auditing import covariate_adjustment
from divulge.errors import InputError
from divulge.evaluation.covariates import adjust
from divulge.recipes import RESERVED
from divulge.results import AuditSummary
from divulge.validation import (
    check_array,
    check_labels,
    check_mask,
    check_nonempty,
    check_number,
    check_strings,
    check_vector,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import polars as pl

    from divulge.auditing.findings import Findings
    from divulge.dossier import Dossier
    from divulge.results import HeatStrip
    from divulge.types import Array, Floats, Ints

    Found = TypeVar("Found", bound=Findings)

SIGNAL_PREFIX = "signal:"
"""How the names of columns of signals begin in ``scores.parquet``."""
UNEXPLAINED_PREFIX = "unexplained:"
"""How those of scores less what the records explain begin."""


def read_findings(dossier: Dossier, kind: type[Found]) -> Found:
    """The findings of the kind ``kind`` as they were saved.

    Raises:
        divulge.InputError: a missing or damaged file, a value of another kind, numbers that contradict each other.
    """
    where = dossier.path
    scores, calibration = dossier.read_table("scores"), dossier.read_table("calibration")
    summary = results.read(where, AuditSummary)
    _require_columns(scores, ("id", "member"), where / "scores.parquet")
    recipes = [
        name
        for name in scores.columns
        if name not in RESERVED and not name.startswith((SIGNAL_PREFIX, UNEXPLAINED_PREFIX))
    ]
    _require_columns(calibration, recipes, where / "calibration.parquet")
    if not recipes or set(recipes) != set(summary.about.recipes):
        raise InputError(f"{where}: scores.parquet and summary.json have different recipes")
    members = check_mask(tables.to_array(scores["member"]), f"{where / 'scores.parquet'}: member", (None,))
    counts = summary.about.counts
    if (counts.members, counts.nonmembers) != (int(members.sum()), int((~members).sum())):
        raise InputError(f"{where}: scores.parquet and summary.json have different candidates")
    held = None
    if summary.adjusted is not None or (where / "covariates.parquet").is_file():
        frame = dossier.read_table("covariates")
        held = covariate_adjustment.read_covariates(frame, len(members), where / "covariates.parquet")
    own = {name: _float_column(scores, name, where) for name in recipes}
    groups, seed = _integer_column(scores, "duplicate_group", where), summary.about.settings.seed
    unexplained = {
        name: _float_column(scores, f"{UNEXPLAINED_PREFIX}{name}", where)
        for name in recipes
        if f"{UNEXPLAINED_PREFIX}{name}" in scores.columns
    }
    adjusted = None
    if held is not None:
        adjusted = adjust(own, members, held, seed=seed, groups=groups, unexplained=unexplained)
    return kind(
        scores=own,
        calibration={name: _float_column(calibration, name, where) for name in recipes},
        ids=tables.to_array(scores["id"]),
        members=members,
        labels=_label_column(scores, where),
        calibration_labels=_label_column(calibration, where),
        unseen_classes=summary.unseen_classes,
        fpr=tuple(check_number(level, f"{where}: fpr", above=0, below=1) for level in summary.fpr),
        signals={
            name.removeprefix(SIGNAL_PREFIX): tables.to_array(scores[name])
            for name in scores.columns
            if name.startswith(SIGNAL_PREFIX)
        },
        about=summary.about,
        exhibits=_read_exhibits(dossier, summary.texts, len(members)),
        heat=_read_heat(dossier, summary),
        groups=tables.to_array(scores["group"]) if "group" in scores.columns else None,
        covariates=held,
        adjustment=adjusted,
        path=where,
        class_names=_check_class_names(summary, where),
        unexplained_scores=unexplained,
        duplicate_groups=groups,
    )


def _require_columns(frame: pl.DataFrame, names: Sequence[str], path: Path) -> None:
    if missing := [name for name in names if name not in frame.columns]:
        raise InputError(f"{path}: lacks the columns {', '.join(missing)}")


def _float_column(frame: pl.DataFrame, name: str, where: Path) -> Floats:
    return check_vector(tables.to_array(frame[name]), f"{where}: {name}")


def _label_column(frame: pl.DataFrame, where: Path) -> Ints | None:
    return _integer_column(frame, "label", where)


def _integer_column(frame: pl.DataFrame, name: str, where: Path) -> Ints | None:
    return check_labels(tables.to_array(frame[name]), f"{where}: {name}") if name in frame.columns else None


def _check_class_names(summary: AuditSummary, where: Path) -> tuple[str, ...] | None:
    names = summary.class_names
    return None if names is None else check_strings(names, f"{where}: class_names")


def _read_exhibits(dossier: Dossier, texts: Mapping[str, str], candidates: int) -> dict[int, Array | str]:
    exhibits: dict[str, Array | str] = dict(texts)
    for row, values in dossier.read_arrays("exhibits").items():
        exhibits[row] = check_nonempty(np.atleast_1d(check_array(values, f"{dossier.path}: exhibit {row}")), row)
    rows = {str(row) for row in range(candidates)}
    if stray := sorted(set(exhibits) - rows):
        raise InputError(f"{dossier.path}: exhibits of unknown candidates ({', '.join(stray[:5])})")
    return {int(row): value for row, value in exhibits.items()}


def _read_heat(dossier: Dossier, summary: AuditSummary) -> dict[int, HeatStrip]:
    """Values of tokens by row, each within the text that it belongs to."""
    for row, strip in summary.heat.items():
        if not strip.fits(summary.texts.get(row, "")):
            raise InputError(f"{dossier.path}: heat {row} does not belong to a text shown")
    return {int(row): strip for row, strip in summary.heat.items()}
