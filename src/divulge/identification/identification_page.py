"""What the report of an identification says: whether the guarantee holds comes first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge import tables
from divulge.decisions.counts import Counts
from divulge.identification import best, doubt, selected_rows
from divulge.report import (
    Bullet,
    BulletList,
    Chart,
    Collapsible,
    DotGrid,
    Exhibit,
    Gallery,
    Page,
    Paragraph,
    Section,
    Slider,
    SliderPosition,
    Table,
    charts,
    sections,
)
from divulge.report.exhibits import mark_tokens
from divulge.report.formatting import as_sentence, format_estimate, format_percent
from divulge.report.sections import RegulatorAnswers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from divulge.identification.exhibits import Document
    from divulge.report.page import Block
    from divulge.results import IdentificationSummary
    from divulge.types import Tone

_SHOWN = 20_000  # scores of each kind in the histogram
_STATES = {"passed": "passed", "doubtful": "doubtful", "failed": "FAILED"}
_LIKEWISE = {"holds": "", "doubtful": " (as doubtful as the bound)", "void": " (void as the bound)"}  # same assumption
_HEADINGS = {"leak": "Training data identified", "clear": "Nothing identified"}
_FDRS = (0.01, 0.02, 0.05, 0.1, 0.2)
_SEEN = 6  # documents that are not folded
_OPEN = 12  # documents in a table that is not folded
_LISTED = 50  # selected documents in the table


def facts(summary: IdentificationSummary) -> list[tuple[str, str]]:
    """The main numbers, name and value."""
    threshold = summary.threshold
    column, sign = _orientation(summary)
    end = "largest" if sign < 0 else "smallest"
    lines = [
        ("selected", f"{summary.selected:,} of {summary.candidates:,}"),
        ("method", summary.used),
        ("calibration scores", f"{summary.calibration:,}"),
        (f"{end} selected {column}", "–" if threshold is None else f"{sign * threshold:.6g}"),
        (f"share of members, estimated{_LIKEWISE[summary.guarantee.standing]}", format_estimate(summary.usage)),
    ]
    if summary.truth:
        lines.append(("realised false discovery proportion", format_estimate(summary.truth.fdp)))
        lines.append(("realised power", format_estimate(summary.truth.power)))
    return lines


def verdict(summary: IdentificationSummary) -> tuple[str, Tone]:
    """The first lines of the report, and their tone."""
    level, chosen, standing = summary.settings.fdr, summary.selected, summary.guarantee.standing
    counted = f"{chosen:,} of {summary.candidates:,} documents"
    if standing != "holds":
        first = next(iter(summary.warnings), summary.claim)
        if standing == "void":
            return f"{as_sentence(first)} {counted} were selected, and nothing is claimed about them.", "void"
        share = format_percent(level)
        claim = f"Where the bound holds, on average at most {share} of such a selection is not training data."
        return f"{as_sentence(first)} {counted} were selected. {claim}", "doubt"
    if not chosen:
        return (
            f"No document could be shown to have been used at a false discovery rate of {format_percent(level)}.",
            "clear",
        )
    return (
        f"{counted} are identified as training data; on average at most "
        f"{format_percent(level)} of such a selection is not, assuming {' and '.join(summary.guarantee.assumes)}.",
        "leak",
    )


def page(summary: IdentificationSummary, folder: Path, documents: Mapping[str, Document] | None = None) -> Page:
    """The report as data, from the summary and the files beside it.

    Args:
        summary: what was decided.
        folder: where ``selection.parquet`` and ``counts.npz`` stand.
        documents: by id, those that may be shown.
    """
    text, tone = verdict(summary)
    plain, more = _first(summary, text)
    settings = summary.settings
    chosen = _chosen(folder)
    page_sections = [
        Section(sections.ADVICE_TITLE, _advice(summary)),
        Section("Selection", [Table(("what", "value"), facts(summary), sortable=False), *_warnings(summary)]),
        Section("The documents", _shown_documents(summary, chosen, documents or {})),
        Section("How many of the best can be non-members", best.blocks(summary, folder)),
        Section("What another bound would have selected", _levels(summary, folder)),
        Section("How much doubt the selection survives", doubt.blocks(summary, folder)),
        Section("Scores", [_histogram(summary, folder)]),
        Section("Controls", [_controls(summary)]),
        Section("Against the blind score", _against_blind(summary)),
        Section("Highest scores among the selected", _listed(summary, chosen)),
        sections.regulator_section(_answers(summary, text)),
    ]
    return Page(
        title="Training-data identification",
        verdict=plain,
        more=(_adversary(summary), *more),
        tone=tone,
        sections=[section for section in page_sections if section.blocks],
        heading=_HEADINGS.get(tone, ""),
        pictures=_pictures(summary),
        facts={
            "Divulge": summary.divulge,
            "scores": ", ".join(settings.scores),
            "method": summary.used if settings.method == summary.used else f"{summary.used} ({settings.method})",
            "FDR": format_percent(settings.fdr),
            "seed": str(settings.seed),
        },
    )


def _adversary(summary: IdentificationSummary) -> str:
    names = ", ".join(score.rpartition(":")[0] or score for score in summary.settings.scores)
    return (
        f"The adversary needs the documents, their scores under the model ({names}), and scores of "
        f"{summary.calibration:,} documents that are known not to have been used."
    )


def _advice(summary: IdentificationSummary) -> list[Block]:
    """Only where something was identified, and the bound holds."""
    if verdict(summary)[1] != "leak":
        return []
    share = format_percent(summary.settings.fdr)
    whose = Bullet(
        "If the documents are yours, rely on the set and not on one document.",
        f"All that were selected stand in selection.parquet. On average {share} of such a list may be wrong, and it "
        "does not tell which; how many of the best can be is said below.",
    )
    return [BulletList([whose]), *sections.membership_advice(documents=True)]


def _first(summary: IdentificationSummary, text: str) -> tuple[str, tuple[str, ...]]:
    """What was selected and is claimed, and then why that is in doubt or void."""
    reason = "" if summary.guarantee.standing == "holds" else next(iter(summary.warnings), "")
    if not reason:
        return text, ()
    told = as_sentence(reason)
    rest = text.removeprefix(f"{told} ")
    return (text, ()) if rest == text else (rest, (told,))


def _pictures(summary: IdentificationSummary) -> tuple[DotGrid, ...]:
    """The selected among a hundred candidates, and how many of a hundred selected can be wrong on average."""
    if not summary.selected or not summary.guarantee.says:
        return ()
    of, wrong = min(100, summary.candidates), math.ceil(100 * summary.settings.fdr - 1e-9)
    share = round(of * summary.selected / summary.candidates)
    caveat = ", if the assumption holds" if summary.guarantee.standing == "doubtful" else ""
    scaled = "" if of == summary.candidates else f" (drawn as {share} of {of})"
    return (
        DotGrid(f"{summary.selected:,} of {summary.candidates:,} candidates are selected{scaled}", share, of),
        DotGrid(f"Of 100 selected, at most {wrong} are not training data, on average{caveat}", wrong, 100),
    )


def _answers(summary: IdentificationSummary, said: str) -> RegulatorAnswers:
    return RegulatorAnswers(
        means=f"scores of documents that are held already ({', '.join(summary.settings.scores)}).",
        queries=f"On use for training alone: {said}",
        unit="One document.",
    )


def _orientation(summary: IdentificationSummary) -> tuple[str, int]:
    """The score as the user named it, and the sign that brings it back to their own orientation."""
    if len(summary.settings.scores) != 1:
        return "score", 1
    column, _, end = summary.settings.scores[0].rpartition(":")
    if summary.baseline is not None and column:
        column = f"{column} beyond {summary.baseline.column.rpartition(':')[0]}"
    return (column, -1 if end == "low" else 1) if column else ("score", 1)


def _chosen(folder: Path) -> list[dict[str, Any]]:
    return selected_rows.highest(folder / "selection.parquet", ["id", "score", "p", "q"], _LISTED, selected=True)


def _shown_documents(
    summary: IdentificationSummary, chosen: Sequence[Mapping[str, Any]], documents: Mapping[str, Document]
) -> list[Block]:
    column, sign = _orientation(summary)
    kept = [(row, documents[str(row["id"])]) for row in chosen if str(row["id"]) in documents]
    exhibits = [
        Exhibit(
            f"{row['id']}: {column} {sign * row['score']:.4g}, q {row['q']:.3g}",
            text=one.text,
            heat=mark_tokens(one.text, one.heat),
        )
        for row, one in kept
    ]
    note = f"The selected documents with the most member-like {column}, as far as they were kept; long ones are cut."
    if against := next((one.heat.against for _, one in kept if one.heat), ""):
        note += (
            f" The deeper a token is marked, the likelier the model finds it than {against}. Marks prove nothing by "
            "themselves: the score of the whole document decides."
        )
    more = [Collapsible(f"{len(exhibits) - _SEEN} more", [Gallery(exhibits[_SEEN:])])] if len(exhibits) > _SEEN else []
    return [Gallery(exhibits[:_SEEN], note=note), *more] if exhibits else []


def _levels(summary: IdentificationSummary, folder: Path) -> list[Block]:
    """How many have a q-value below each level; nothing where nothing is claimed."""
    if not summary.guarantee.says:
        return []
    asked = summary.settings.fdr
    levels = sorted({*_FDRS, asked})
    path = folder / "selection.parquet"
    below = [(pl.col("q") <= level).sum().alias(str(at)) for at, level in enumerate(levels)]
    with tables.table_errors(str(path)):
        counts = list(tables.open_parquet(path).select(below).collect().row(0))
    counts = [summary.selected if level == asked else count for level, count in zip(levels, counts, strict=True)]
    stops = [
        SliderPosition(format_percent(level), _said(summary, count, level))
        for level, count in zip(levels, counts, strict=True)
    ]
    note = (
        "Each bound holds if it was chosen before looking. To choose after looking, use the slider of the best "
        "candidates, whose bounds hold all at once."
    )
    return [Slider("false discovery rate", stops, levels.index(asked), note=note)]


def _said(summary: IdentificationSummary, count: int, level: float) -> str:
    caveat = "If the assumption holds: " if summary.guarantee.standing == "doubtful" else ""
    asked = " This bound was asked for." if level == summary.settings.fdr else ""
    return (
        f"{caveat}{count:,} of {summary.candidates:,} documents, of which on average at most {format_percent(level)} "
        f"are not training data.{asked}"
    )


def _warnings(summary: IdentificationSummary) -> list[Block]:
    shown = summary.warnings if summary.guarantee.standing == "holds" else summary.warnings[1:]
    return [Paragraph(as_sentence(warning)) for warning in shown]


def _histogram(summary: IdentificationSummary, folder: Path) -> Chart:
    step = max(-(-summary.candidates // _SHOWN), 1)
    sample = selected_rows.every(folder / "selection.parquet", ["score", "selected"], step)
    known = Counts.load(folder / "counts.npz").calibration
    column, sign = _orientation(summary)
    groups = {
        "known non-members": known[:: max(-(-len(known) // _SHOWN), 1)],
        "candidates, selected": sample.filter("selected")["score"].to_numpy(),
        "candidates, not selected": sample.filter(~sample["selected"])["score"].to_numpy(),
    }
    note = f"{'Smaller' if sign < 0 else 'Larger'} values are more member-like; each group is scaled to the same area."
    if step > 1:
        note = f"{note} Of the candidates every {step}th row is shown."
    shown = {name: sign * np.asarray(group) for name, group in groups.items() if len(group)}
    return Chart(charts.histogram(shown, quantity=column), note=note)


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


def _against_blind(summary: IdentificationSummary) -> list[Block]:
    """The score beside the blind score: candidates against calibration, and known members against non-members."""
    found = summary.baseline
    if found is None:
        return []
    rows = [
        (f"AUC of the blind score ({found.column}), candidates against calibration", format_estimate(found.blind)),
        (f"AUC of the score ({found.adjusted}), candidates against calibration", format_estimate(found.score)),
        ("score less blind score, paired", format_estimate(found.difference)),
        *(
            (f"the same of known members against non-members: {name}", format_estimate(one))
            for name, one in found.known.items()
        ),
    ]
    note = (
        "The blind score comes from a classifier that never saw the model. What is usual at each blind score was taken "
        "out of the score before it was decided on; a blind score that tells candidates from calibration leaves doubt "
        "whether their non-members are alike."
    )
    table = Table(("what", "value"), rows, sortable=False, note=note)
    return [*([Paragraph(found.text)] if found.text else []), table]


def _listed(summary: IdentificationSummary, chosen: Sequence[Mapping[str, Any]]) -> list[Block]:
    if not chosen:
        return []
    column, sign = _orientation(summary)
    rows = [(str(row["id"]), f"{sign * row['score']:.6g}", f"{row['p']:.3g}", f"{row['q']:.3g}") for row in chosen]
    table = Table(("id", column, "p", "q"), rows, note="p: p-value against known non-members. q: q-value.")
    return [table] if len(rows) <= _OPEN else [Collapsible(f"{len(rows)} documents", [table])]
