"""What a decision on tables says, and how it is decided again at another level without any score."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from divulge import results, store, tables
from divulge.decisions.controls import Control
from divulge.decisions.counts import Counts, ranks
from divulge.decisions.methods import BH, AdaDetect, Auto, named, parameters
from divulge.dossier import Dossier, Draft
from divulge.errors import InputError
from divulge.identification import exhibits, finished, identification_page, truth
from divulge.identification.decide import METHODS, Choice, Policy, choose, decide
from divulge.identification.finished import KIND
from divulge.report import html, sections
from divulge.results import ControlResult, IdentificationSettings, IdentificationSummary, provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from divulge.decisions.fdr import Rule
    from divulge.decisions.methods import Method
    from divulge.identification.decide import Decision
    from divulge.report import Page
    from divulge.results import BlindScoreResult
    from divulge.types import Estimate, Floats


KEPT = ("row", "id", "score", "unadjusted", "baseline", "truth")
"""Columns of a selection that no decision changes."""


def write_selection(
    rows: pl.LazyFrame, folder: Path, rule: Rule, calibration: Floats, tell: Callable[[int], None] | None = None
) -> None:
    """Write rows with a ``score``, and ``p``, ``q`` and ``selected`` beside it, as ``selection.parquet``.

    Args:
        rows: the candidates.
        folder: where to.
        rule: the decision.
        calibration: its scores, ascending.
        tell: called with the number of each batch's rows.
    """

    def decide_batch(scores: pl.Series) -> pl.Series:
        rank = ranks(scores.to_numpy(), calibration)
        p = (rank + 1.0) / (len(calibration) + 1)
        if tell is not None:
            tell(len(scores))
        return pl.DataFrame({"p": p, "q": rule.q_values[rank], "selected": rank <= rule.rank}).to_struct("decision")

    kinds = pl.Struct({"p": pl.Float64, "q": pl.Float64, "selected": pl.Boolean})
    decision = pl.col("score").map_batches(decide_batch, return_dtype=kinds, is_elementwise=True).alias("decision")
    marked = rows.with_columns(decision).unnest("decision")
    with tables.table_errors(str(folder)):
        store.write_file(folder / "selection.parquet", lambda out: tables.write_parquet(marked, out))


def redecide(
    directory: str | Path, *, fdr: float | None = None, method: Method | str | None = None
) -> IdentificationSummary:
    """Decide a finished run again at another level or with another method; no score is recomputed.

    Rewrites ``selection.parquet``, ``summary.json`` and the report in ``directory``.

    Args:
        directory: what `divulge identify` wrote.
        fdr: the new bound; the old one when None.
        method: the new method; the old one when None.

    Returns:
        The new summary.

    Raises:
        divulge.InputError: not such a directory, a level outside (0, 1), or a method that does not apply:
            from "adadetect" to another or back needs the signals again.
    """
    folder = Path(directory)
    with Dossier(folder).changing(KIND) as draft:
        return _again(draft, results.read_summary(folder, IdentificationSummary), fdr, method)


def _again(
    draft: Draft, before: IdentificationSummary, fdr: float | None, method: Method | str | None
) -> IdentificationSummary:
    counts = Counts.load(draft.home / "counts.npz")
    old = before.settings
    wanted = named(old.method if method is None else method, METHODS, eta=old.eta, lam=old.lam)
    policy = Policy(old.fdr if fdr is None else fdr, wanted)
    evidence = finished.controls(before)
    rows = tables.open_parquet(draft.home / "selection.parquet")
    orientation = truth.declared(rows)
    used = _choose_again(policy, evidence, before)
    made = decide(counts, evidence, policy, used=used, orientation=orientation, notes=old.notes)
    names = [name for name in KEPT if name in rows.collect_schema()]
    write_selection(rows.select(names), draft.path, made.rule, counts.calibration)
    settings = asked(policy, old.seed, old.scores, old.notes)
    return conclude(draft, counts, made, settings, before.usage, before.baseline)


def report(directory: str | Path, to: str | Path | None = None) -> Path:
    """Render the report of a finished run again, and give its place.

    Args:
        directory: what `divulge identify` wrote.
        to: file to write; ``report.html`` in the directory when None.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run.
    """
    folder = Path(directory)
    if to is not None:
        html.write(Dossier(folder).read(KIND, lambda: _page(folder)), Path(to))
        return Path(to)
    with Dossier(folder).changing(KIND) as draft:
        html.write(_page(folder), draft.path / "report.html")
    return folder / "report.html"


def page(directory: str | Path) -> Page:
    """The report of a finished run as data; errors as for `report`."""
    folder = Path(directory)
    return Dossier(folder).read(KIND, lambda: _page(folder))


def summary(directory: str | Path) -> IdentificationSummary:
    """The summary of a finished run; errors as for `report`."""
    return finished.read(directory, lambda told, _: told)


def _page(folder: Path) -> Page:
    told = finished.decided(folder)
    page = identification_page.page(told, folder, exhibits.read(folder))
    return sections.add_provenance(page, provenance.read_provenance(folder))


def _choose_again(policy: Policy, evidence: Sequence[Control], before: IdentificationSummary) -> Choice:
    """The method for scores that stay what they are: learned from several signals, or not."""
    if isinstance(policy.method, Auto) and len(before.settings.scores) > 1:
        return Choice(named(before.used, (BH, AdaDetect)), before.why)
    learned, choice = before.used == AdaDetect.name, choose(policy, evidence)
    if learned and isinstance(choice.method, BH):
        choice = replace(choice, method=AdaDetect())
    if learned != isinstance(choice.method, AdaDetect):
        raise InputError(
            f"method: this run decided by {before.used!r}; {choice.method.name!r} needs the signals again, run "
            "`divulge identify`"
        )
    return choice


def asked(policy: Policy, seed: int, scores: Sequence[object], notes: Sequence[str]) -> IdentificationSettings:
    """What was asked for, as the summary says it."""
    eta, lam = parameters(policy.method)
    return IdentificationSettings(policy.method.name, policy.fdr, eta, lam, seed, tuple(map(str, scores)), tuple(notes))


def conclude(
    draft: Draft,
    counts: Counts,
    made: Decision,
    settings: IdentificationSettings,
    members: Estimate,
    baseline: BlindScoreResult | None = None,
) -> IdentificationSummary:
    """Write and return the summary of a decision whose ``selection.parquet`` stands in ``draft``."""
    out, rule = draft.path, made.rule
    counts.save(out / "counts.npz")
    selected = int(counts.reached[rule.rank]) if rule.rank >= 0 else 0
    noted = provenance.read_provenance(draft.path, draft.home) or provenance.write_provenance(draft)
    told = IdentificationSummary(
        claim=str(made.guarantee),
        guarantee=made.guarantee,
        selected=selected,
        candidates=counts.total,
        calibration=len(counts.calibration),
        used=made.used.method.name,
        why=made.used.why,
        threshold=_smallest(out / "selection.parquet") if selected else None,
        null_share=rule.null_share if np.isfinite(rule.null_share) else None,
        usage=members,
        truth=truth.realised_in(out / "selection.parquet"),
        warnings=made.warnings,
        controls=tuple(_result(control) for control in made.controls),
        settings=settings,
        baseline=baseline,
    )
    results.write_summary(draft, told)
    page = identification_page.page(told, out, exhibits.read(out, draft.home))
    html.write(sections.add_provenance(page, noted), out / "report.html")
    return told


def _smallest(path: Path) -> float:
    with tables.table_errors(str(path)):
        return float(tables.open_parquet(path).filter("selected").select(pl.col("score").min()).collect().item())


def _result(control: Control) -> ControlResult:
    told = control.name, control.p_value, control.level, control.says, control.auc, control.conclusive
    return ControlResult(*told, state=control.state)
