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

    from divulge.extraction.completed import Completed, Measured
    from divulge.extraction.result import Extraction
    from divulge.report.page import Block
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


def page(result: Extraction) -> Page:
    """Rates of members and non-members, how many draws it takes, and the documents given back most easily."""
    summary = result.summary()
    return Page(
        title="Extraction of training documents",
        verdict=summary.verdict,
        tone=summary.tone,
        sections=[
            Section("How many are given back", [_rates(result), Paragraph(_meaning(result))]),
            Section("How often a model must be asked", [_curve(result)]),
            Section("Members that are given back most easily", _foremost(result.members)),
            Section("Non-members that are given back most easily", _foremost(result.nonmembers)),
            regulators.section(_answers(result)),
            *([Section("Warnings", [Paragraph(note) for note in summary.warnings])] if summary.warnings else []),
        ],
        facts=facts(result),
        heading=_HEADINGS[summary.answer],
    )


def _answers(result: Extraction) -> Answers:
    summary = result.summary()
    ways = ", ".join(rate.way for rate in result.rates)
    return Answers(
        means=f"asking for the continuation of documents that are known already ({ways}).",
        extraction=summary.verdict,
        queries="Of documents whose beginning the asker has: the same. Of others: not evaluable from this run.",
        unit="One document.",
    )


def facts(result: Extraction) -> dict[str, str]:
    """What was asked, and how."""
    cut, blind = result.cut, result.blind
    share = isinstance(cut.prefix, float)
    prompt = f"{in_words.per_cent(cut.prefix)} of the document" if share else f"{cut.prefix} tokens"
    return {
        "model": result.model,
        "members": str(len(result.members)),
        "non-members": str(len(result.nonmembers)),
        "prompt": f"{prompt}, at the {cut.place}" if cut.place != "random" else f"{prompt}, at a random place",
        "asked for": f"the next {cut.suffix} tokens",
        "sampling": str(result.decoding),
        "reference model": "none" if result.members.reference is None else "what it gives back, too, is not counted",
        "blind baseline": "too few documents" if blind is None else str(blind),
    }


def rows(result: Extraction) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the table of rates."""
    referred = result.members.reference is not None
    columns = ["way", "members", "non-members", "difference", *(["by the reference, too"] if referred else [])]
    table = []
    for rate in result.rates:
        cells = [rate.way, _share(rate.members), _share(rate.nonmembers), _share(rate.difference)]
        table.append([*cells, *([" + ".join(map(str, rate.of_reference))] if rate.of_reference else [])])
    return columns, table


def _rates(result: Extraction) -> Table:
    columns, table = rows(result)
    rate = result.rates[0]
    each, together = map(in_words.per_cent, (rate.difference.confidence, result.confidence))
    note = f"Shares in per cent. Each difference holds with {each} confidence, all together with {together}"
    return Table(columns, table, note=f"{note} ({rate.difference.method}).")


def _share(share: Estimate) -> str:
    return f"{100 * share.value:z.1f} [{100 * share.low:z.1f}, {100 * share.high:z.1f}]"


def _meaning(result: Extraction) -> str:
    text = (
        "Non-members are documents of the same kind that were not trained on. What is given back of them is "
        "what any such model can complete: forms, lists, phrases. Members count only as far as they are given back "
        "more often. The intervals take documents as independent draws. "
    )
    if result.members.reference is None:
        return f"{text}No single document is shown to be memorised; a reference model tells which any model completes."
    return f"{text}Documents that the reference model gives back as well are not counted."


def _curve(result: Extraction) -> Chart:
    sides = {"members": result.members.target, "non-members": result.nonmembers.target}
    if result.members.reference is not None:
        sides["members, by the reference"] = result.members.reference
    curves = {name: _reached(side) for name, side in sides.items()}
    chart = charts.lines(curves, x="draws", y="share of documents with an even chance to be seen", log_x=True)
    return Chart(chart, note=f"Drawn with {result.decoding}. At one draw: documents of probability ½ or more.")


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
