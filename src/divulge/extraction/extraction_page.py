"""The report of an extraction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.extraction.chances import draws_needed
from divulge.report import charts, in_words, regulators
from divulge.report.curves import Curve
from divulge.report.page import Chart, Exhibit, Fold, Gallery, Page, Paragraph, Section, Table
from divulge.report.regulators import Answers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.evaluation.blind import Blind
    from divulge.extraction.completed import Completed, Measured
    from divulge.report.page import Block
    from divulge.results import ExtractionSummary
    from divulge.types import Estimate, Ints

_HEADINGS = {
    "extracted": "Training documents are given back",
    "not shown": "Extraction is not shown",
    "undecided": "Too little data to say",
    "confounded": "Nothing can be said of the model",
}
SHOWN = 12
_SEEN = 6  # documents that are not folded
_LONGEST = 2000  # characters of a text
_MOST_DRAWS = 1e12  # at the right border of the chart


def page(told: ExtractionSummary, members: Measured, nonmembers: Measured, blind: Blind | None) -> Page:
    """Rates of members and non-members, how many draws it takes, and the documents given back most easily."""
    return Page(
        title="Extraction of training documents",
        verdict=told.verdict,
        tone=told.tone,
        sections=[
            Section("How many are given back", [_rates(told), Paragraph(_meaning(told))]),
            Section("How often a model must be asked", [_curve(told, members, nonmembers)]),
            Section("Members that are given back most easily", _foremost(members)),
            Section("Non-members that are given back most easily", _foremost(nonmembers)),
            regulators.section(_answers(told)),
            *([Section("Warnings", [Paragraph(note) for note in told.warnings])] if told.warnings else []),
        ],
        facts=facts(told, blind),
        heading=_HEADINGS[told.answer],
    )


def _answers(told: ExtractionSummary) -> Answers:
    ways = ", ".join(rate.way for rate in told.rates)
    return Answers(
        means=f"asking for the continuation of documents that are known already ({ways}).",
        extraction=told.verdict,
        queries="Of documents whose beginning the asker has: the same. Of others: not evaluable from this run.",
        unit="One document.",
    )


def facts(told: ExtractionSummary, blind: Blind | None) -> dict[str, str]:
    """What was asked, and how."""
    share = isinstance(told.prefix, float)
    prompt = f"{in_words.per_cent(told.prefix)} of the document" if share else f"{told.prefix} tokens"
    return {
        "model": told.model,
        "members": str(told.members),
        "non-members": str(told.nonmembers),
        "prompt": f"{prompt}, at the {told.place}" if told.place != "random" else f"{prompt}, at a random place",
        "asked for": f"the next {told.suffix} tokens",
        "sampling": told.decoding,
        "reference model": "what it gives back, too, is not counted" if told.with_reference else "none",
        "blind baseline": "too few documents" if blind is None else str(blind),
    }


def rows(told: ExtractionSummary) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the table of rates."""
    referred = ["by the reference, too"] if told.with_reference else []
    columns = ["way", "members", "non-members", "difference", *referred]
    table = []
    for rate in told.rates:
        cells = [rate.way, _share(rate.members), _share(rate.nonmembers), _share(rate.difference)]
        both = f"{rate.members_of_reference} + {rate.nonmembers_of_reference}"
        table.append([*cells, both] if told.with_reference else cells)
    return columns, table


def _rates(told: ExtractionSummary) -> Table:
    columns, table = rows(told)
    rate = told.rates[0]
    each, together = map(in_words.per_cent, (rate.difference.confidence, told.confidence))
    note = f"Shares in per cent. Each difference holds with {each} confidence, all together with {together}"
    return Table(columns, table, note=f"{note} ({rate.difference.method}).")


def _share(share: Estimate) -> str:
    return f"{100 * share.value:z.1f} [{100 * share.low:z.1f}, {100 * share.high:z.1f}]"


def _meaning(told: ExtractionSummary) -> str:
    text = (
        "Non-members are documents of the same kind that were not trained on. What is given back of them is "
        "what any such model can complete: forms, lists, phrases. Members count only as far as they are given back "
        "more often. The intervals take documents as independent draws. "
    )
    if not told.with_reference:
        return f"{text}No single document is shown to be memorised; a reference model tells which any model completes."
    return f"{text}Documents that the reference model gives back as well are not counted."


def _curve(told: ExtractionSummary, members: Measured, nonmembers: Measured) -> Chart:
    sides = {"members": members.target, "non-members": nonmembers.target}
    if members.reference is not None:
        sides["members, by the reference"] = members.reference
    curves = {name: _reached(side) for name, side in sides.items()}
    chart = charts.lines(curves, x="draws", y="share of documents with an even chance to be seen", log_x=True)
    return Chart(chart, note=f"Drawn with {told.decoding}. At one draw: documents of probability ½ or more.")


def _reached(side: Completed) -> Curve:
    draws = np.geomspace(1, _MOST_DRAWS, 121)
    return Curve(draws, np.searchsorted(np.sort(draws_needed(side.log_p)), draws * (1 + 1e-9)) / len(side.log_p))


def foremost(measured: Measured) -> Ints:
    """The documents that are given back most easily: verbatim ones first, then by their probability."""
    one = measured.target
    return np.lexsort((np.arange(len(measured)), -one.overlap, -one.log_p, ~one.verbatim))[:SHOWN]


def _foremost(measured: Measured) -> Sequence[Block]:
    some = foremost(measured)
    table = Table(*foremost_rows(measured), note="Longest match in tokens; overlap 1 is verbatim.")
    if measured.prompts is None or measured.suffixes is None or measured.target.texts is None:
        return [table]
    exhibits = [
        Exhibit(
            f"{measured.ids[at]}{': given back verbatim' if measured.target.verbatim[at] else ''}",
            text=_shown(measured.prompts[at], measured.suffixes[at], measured.target.texts[at]),
        )
        for at in some
    ]
    note = "Each document: the prompt, what follows it, what the model says greedily."
    more = [Fold(f"{len(exhibits) - _SEEN} more", [Gallery(exhibits[_SEEN:])])] if len(exhibits) > _SEEN else []
    return [table, Gallery(exhibits[:_SEEN], note=note), *more]


def foremost_rows(measured: Measured) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the table of the documents that are given back most easily."""
    columns = ["id", "log10 p", "draws for an even chance", "verbatim", "longest match", "overlap"]
    referred = measured.reference
    columns += [] if referred is None else ["log10 p, reference", "verbatim, reference"]
    table = []
    for at in foremost(measured):
        cells = [str(measured.ids[at]), *_cells(measured.target, at)]
        table.append(cells if referred is None else [*cells, *(_cells(referred, at)[place] for place in (0, 2))])
    return columns, table


def _cells(side: Completed, at: int) -> list[str]:
    needed = float(draws_needed(side.log_p[at : at + 1])[0])
    return [
        f"{side.log_p[at] / np.log(10):z.2f}" if np.isfinite(side.log_p[at]) else "never drawn",
        f"{needed:,.0f}" if needed < _MOST_DRAWS else ("never" if np.isneginf(side.log_p[at]) else f"{needed:.0e}"),
        "yes" if side.verbatim[at] else "no",
        str(side.longest[at]),
        f"{side.overlap[at]:.2f}",
    ]


def _shown(prompt: str, suffix: str, said: str) -> str:
    parts = (("prompt", prompt), ("document", suffix), ("model", said))
    return "\n".join(f"[{name}] {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}" for name, text in parts)
