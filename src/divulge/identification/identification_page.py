"""What the report of an identification says: whether the guarantee holds comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import lazy, store
from divulge.decisions.counts import Counts
from divulge.identification import best, doubt, score_files
from divulge.report import Chart, Page, Paragraph, Section, Table, charts
from divulge.report.markdown import shown

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from divulge.report.page import Block
    from divulge.results import IdentificationSummary
    from divulge.types import Tone
else:
    pl = lazy.module("polars")

_SHOWN = 20_000  # scores of each kind in the histogram
_STATES = {"passed": "passed", "doubtful": "doubtful", "failed": "FAILED"}
_LIKEWISE = {"holds": "", "doubtful": " (as doubtful as the bound)", "void": " (void as the bound)"}  # same assumption
_LISTED = 50  # selected documents in the table


def facts(summary: IdentificationSummary) -> list[tuple[str, str]]:
    """The main numbers, name and value."""
    threshold = summary.threshold
    lines = [
        ("selected", f"{summary.selected} of {summary.candidates}"),
        ("method", summary.used),
        ("calibration scores", str(summary.calibration)),
        ("smallest selected score", "–" if threshold is None else f"{threshold:.6g}"),
        (f"share of members, estimated{_LIKEWISE[summary.guarantee.standing]}", shown(summary.usage)),
    ]
    if summary.truth:
        lines.append(("realised false discovery proportion", shown(summary.truth.fdp)))
        lines.append(("realised power", shown(summary.truth.power)))
    return lines


def verdict(summary: IdentificationSummary) -> tuple[str, Tone]:
    """The first lines of the report, and their tone."""
    level, chosen, standing = summary.settings.fdr, summary.selected, summary.guarantee.standing
    counted = f"{chosen} of {summary.candidates} documents"
    if standing != "holds":
        first = next(iter(summary.warnings), summary.claim)
        if standing == "void":
            return f"{first[0].upper()}{first[1:]}. {counted} were selected, and nothing is claimed about them.", "void"
        claim = f"Where the bound holds, on average at most {level:.3g} of such a selection are not training data."
        return f"{first[0].upper()}{first[1:]}. {counted} were selected. {claim}", "doubt"
    if not chosen:
        return f"No document could be shown to have been used at a false discovery rate of {level:g}.", "clear"
    return (
        f"{counted} are identified as training data; on average at most "
        f"{level:.3g} of such a selection are not, assuming {' and '.join(summary.guarantee.assumes)}.",
        "leak",
    )


def page(summary: IdentificationSummary, folder: Path) -> Page:
    """The report as data, from the summary and the files beside it."""
    text, tone = verdict(summary)
    settings = summary.settings
    sections = [
        Section("Selection", [Table(("", ""), facts(summary)), *_warnings(summary)]),
        Section("How many of the best can be non-members", best.blocks(summary, folder)),
        Section("How much doubt the selection survives", doubt.blocks(summary, folder)),
        Section("Scores", [_histogram(folder)]),
        Section("Controls", [_controls(summary)]),
        Section("Highest scores among the selected", _listed(folder)),
    ]
    return Page(
        title="Training-data identification",
        verdict=text,
        tone=tone,
        sections=[section for section in sections if section.blocks],
        facts={
            "Divulge": summary.divulge,
            "scores": ", ".join(settings.scores),
            "method": settings.method,
            "FDR": f"{settings.fdr:g}",
            "seed": str(settings.seed),
        },
    )


def _warnings(summary: IdentificationSummary) -> list[Block]:
    return [Paragraph(f"{warning[0].upper()}{warning[1:]}.") for warning in summary.warnings]


def _histogram(folder: Path) -> Chart:
    frame = score_files.parquet(folder / "selection.parquet").select("score", "selected")
    with store.tables(str(folder / "selection.parquet")):
        total = frame.select(pl.len()).collect().item()
        step = max(-(-total // _SHOWN), 1)
        sample = frame.gather_every(step).collect()
    known = Counts.load(folder / "counts.npz").calibration
    groups = {
        "known non-members": known[:: max(-(-len(known) // _SHOWN), 1)],
        "candidates, selected": sample.filter("selected")["score"].to_numpy(),
        "candidates, not selected": sample.filter(~pl.col("selected"))["score"].to_numpy(),
    }
    note = "Larger scores are more member-like; each group is scaled to the same area."
    if step > 1:
        note = f"{note} Of the candidates every {step}th row is shown."
    return Chart(charts.histogram({name: np.asarray(group) for name, group in groups.items() if len(group)}), note=note)


def _controls(summary: IdentificationSummary) -> Table:
    rows = [
        (control.name, _STATES[control.state], f"{control.p_value:.2g}", control.says) for control in summary.controls
    ]
    note = (
        "Controls that compare known non-members with known non-members can fail; together they do so in at most 5 % "
        "of sound runs, whatever the members are. Controls that compare all candidates with the calibration set can "
        "only raise doubt: members may differ in topic, length or date, and that breaks nothing."
    )
    return Table(("control", "result", "p", "observed"), rows, note=note)


def _listed(folder: Path) -> list[Block]:
    chosen = score_files.parquet(folder / "selection.parquet").filter("selected")
    with store.tables(str(folder / "selection.parquet")):
        best = chosen.top_k(_LISTED, by=["score", "id"], reverse=[False, True]).collect()
    if not len(best):
        return []
    best = best.sort("score", "id", descending=[True, False])
    rows = [(str(row["id"]), f"{row['score']:.6g}", f"{row['p']:.3g}", f"{row['q']:.3g}") for row in best.to_dicts()]
    return [Table(("id", "score", "p", "q"), rows)]
