"""A finished run: its summary, and the method that decided."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import polars as pl

from divulge import results, tables
from divulge.decisions.controls import Control
from divulge.decisions.counts import Counts
from divulge.decisions.methods import named
from divulge.dossier import Dossier
from divulge.errors import InputError
from divulge.identification import truth
from divulge.identification.decide import METHODS, USED, Choice, Policy, decide
from divulge.results import IdentificationSummary

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.decisions.methods import AdaDetect, StepUp

KIND = "identification"
Made = TypeVar("Made")


def read(directory: str | Path, make: Callable[[IdentificationSummary, Path], Made]) -> Made:
    """What is made of the summary of a run and of the files beside it, while nobody changes them.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run.
    """
    folder = Path(directory)
    return Dossier(folder).read(KIND, lambda: make(decided(folder), folder))


def decided(folder: Path) -> IdentificationSummary:
    """Return the summary in a run directory, with everything that scores decide computed from them again.

    The controls and the estimated share of members are as they were: what they were computed from is not kept.

    Raises:
        divulge.InputError: a damaged file, or files that contradict each other.
    """
    told, counts = results.read_summary(folder, IdentificationSummary), Counts.load(folder / "counts.npz")
    path, settings = folder / "selection.parquet", told.settings
    policy = Policy(settings.fdr, named(settings.method, METHODS, eta=settings.eta, lam=settings.lam))
    used = Choice(method(told), told.why)
    rows = tables.open_parquet(path)
    orientation = truth.declared(rows)
    made = decide(counts, controls(told), policy, used=used, orientation=orientation, notes=settings.notes)
    selected = int(counts.reached[made.rule.rank]) if made.rule.rank >= 0 else 0
    chosen = pl.col("selected")
    with tables.table_errors(str(path)):
        total, kept, least = (
            rows.select(pl.len(), chosen.sum().alias("kept"), pl.col("score").filter(chosen).min()).collect().row(0)
        )
    if (total, kept) != (counts.total, selected):
        raise InputError(f"{path}: damaged, it holds another selection than counts.npz leads to")
    return replace(
        told,
        claim=str(made.guarantee),
        guarantee=made.guarantee,
        selected=selected,
        candidates=counts.total,
        calibration=len(counts.calibration),
        threshold=float(least) if selected else None,
        null_share=made.rule.null_share if np.isfinite(made.rule.null_share) else None,
        truth=truth.realised_in(path),
        warnings=made.warnings,
        controls=tuple(
            replace(before, state=control.state) for before, control in zip(told.controls, made.controls, strict=True)
        ),
    )


def method(summary: IdentificationSummary) -> AdaDetect | StepUp:
    """The method that decided, with its parameters."""
    return named(summary.used, USED, eta=summary.settings.eta, lam=summary.settings.lam)


def controls(summary: IdentificationSummary) -> list[Control]:
    """The controls that it was made on."""
    return [Control(c.name, c.p_value, c.level, c.says, c.auc, c.conclusive) for c in summary.controls]
