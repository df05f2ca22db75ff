"""An audit's files read back: every value is held against what the pages and the statistics rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from divulge import checks, results
from divulge.recipes import RESERVED
from divulge.results import AuditSummary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from divulge.auditing.findings import Findings
    from divulge.dossier import Dossier
    from divulge.frames import Frame
    from divulge.results import HeatStrip
    from divulge.types import Array, Floats, Ints

    Found = TypeVar("Found", bound=Findings)

SIGNAL = "signal:"
"""How the names of columns of signals begin in ``scores.parquet``."""


def read(dossier: Dossier, kind: type[Found]) -> Found:
    """The findings of the kind ``kind`` as they were saved.

    Raises:
        divulge.InputError: a missing or damaged file, a value of another kind, numbers that contradict each other.
    """
    where = dossier.path
    scores, calibration = dossier.read_table("scores"), dossier.read_table("calibration")
    summary = results.read(where, AuditSummary)
    _refuse_missing(scores, ("id", "member"), where / "scores.parquet")
    recipes = [name for name in scores.names if name not in RESERVED and not name.startswith(SIGNAL)]
    _refuse_missing(calibration, recipes, where / "calibration.parquet")
    if not recipes or set(recipes) != set(summary.about.recipes):
        raise checks.InputError(f"{where}: scores.parquet and summary.json have different recipes")
    members = checks.mask(scores["member"], f"{where / 'scores.parquet'}: member", (None,))
    counts = summary.about.counts
    if (counts.members, counts.nonmembers) != (int(members.sum()), int((~members).sum())):
        raise checks.InputError(f"{where}: scores.parquet and summary.json have different candidates")
    return kind(
        scores={name: _numbers(scores, name, where) for name in recipes},
        calibration={name: _numbers(calibration, name, where) for name in recipes},
        ids=scores["id"],
        members=members,
        labels=_labels(scores, where),
        calibration_labels=_labels(calibration, where),
        unseen_classes=summary.unseen_classes,
        fpr=tuple(checks.number(level, f"{where}: fpr", above=0, below=1) for level in summary.fpr),
        signals={name.removeprefix(SIGNAL): scores[name] for name in scores.names if name.startswith(SIGNAL)},
        about=summary.about,
        exhibits=_exhibits(dossier, summary.texts, len(members)),
        heat=_heat(dossier, summary),
        groups=scores.columns.get("group"),
        path=where,
    )


def _refuse_missing(frame: Frame, names: Sequence[str], path: Path) -> None:
    if missing := [name for name in names if name not in frame]:
        raise checks.InputError(f"{path}: lacks the columns {', '.join(missing)}")


def _numbers(frame: Frame, name: str, where: Path) -> Floats:
    return checks.vector(frame[name], f"{where}: {name}")


def _labels(frame: Frame, where: Path) -> Ints | None:
    return checks.labels(frame["label"], f"{where}: label") if "label" in frame else None


def _exhibits(dossier: Dossier, texts: Mapping[str, str], candidates: int) -> dict[int, Array | str]:
    exhibits: dict[str, Array | str] = dict(texts)
    for row, values in dossier.read_arrays("exhibits").items():
        exhibits[row] = checks.nonempty(np.atleast_1d(checks.array(values, f"{dossier.path}: exhibit {row}")), row)
    rows = {str(row) for row in range(candidates)}
    if stray := sorted(set(exhibits) - rows):
        raise checks.InputError(f"{dossier.path}: exhibits of unknown candidates ({', '.join(stray[:5])})")
    return {int(row): value for row, value in exhibits.items()}


def _heat(dossier: Dossier, summary: AuditSummary) -> dict[int, HeatStrip]:
    """Values of tokens by row, each within the text that it belongs to."""
    for row, strip in summary.heat.items():
        if not strip.fits(summary.texts.get(row, "")):
            raise checks.InputError(f"{dossier.path}: heat {row} does not belong to a text shown")
    return {int(row): strip for row, strip in summary.heat.items()}
