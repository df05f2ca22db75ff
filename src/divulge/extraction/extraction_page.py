"""The report of an extraction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.extraction.chances import draws_needed
from divulge.report import DotGrid, charts, formatting
from divulge.report.charts import Curve
from divulge.report.page import Chart, Collapsible, Exhibit, Gallery, Page, Paragraph, Section, Table
from divulge.report.sections import ADVICE_TITLE, RegulatorAnswers, extraction_advice, regulator_section

if TYPE_CHECKING:
    from collections.abc import Sequence

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
_BESIDE = "What the model gives back without having seen it"
SHOWN = 12
_SEEN = 6  # documents that are not folded
_LONGEST = 2000  # characters of a text
_MOST_DRAWS = 1e12  # at the right border of the chart
_COUNTED = 1e6  # draws from which on their number is a power of ten


def page(told: ExtractionSummary, members: Measured, nonmembers: Measured) -> Page:
    """Rates of members and non-members, how many draws it takes, and the documents given back most easily."""
    return Page(
        title="Extraction of training documents",
        verdict=told.verdict,
        tone=told.tone,
        more=(_adversary(told),),
        pictures=_pictures(told),
        sections=[
            *([Section(ADVICE_TITLE, extraction_advice())] if told.answer == "extracted" else []),
            Section("How many are given back", [_rates(told), Paragraph(_meaning(told))]),
            Section("How often a model must be asked", [_curve(told, members, nonmembers)]),
            Section("Members that are given back most easily", _foremost(members)),
            Section("Non-members that are given back most easily", [Collapsible(_BESIDE, _foremost(nonmembers))]),
            regulator_section(_answers(told)),
            *(
                [Section("Warnings", [Paragraph(formatting.as_sentence(note)) for note in told.warnings])]
                if told.warnings
                else []
            ),
        ],
        facts={**facts(told), "loss per token of the suffixes": _losses(told, members, nonmembers)},
        heading=_HEADINGS[told.answer],
    )


def _losses(told: ExtractionSummary, members: Measured, nonmembers: Measured) -> str:
    """How well the model knows each set, as a classifier's accuracy says it elsewhere."""
    sides = {"members": members, "non-members": nonmembers}
    return ", ".join(f"{name} {-side.target.log_p.mean() / told.suffix:.2f}" for name, side in sides.items())


def _prompt(told: ExtractionSummary) -> str:
    if isinstance(told.prefix, float):
        return f"{formatting.format_percent(told.prefix)} of the document"
    return formatting.format_count(told.prefix, "token")


def _adversary(told: ExtractionSummary) -> str:
    """Who can do this; draws are computed, so nobody has to make them."""
    where = {"start": "its first", "end": "those before its end,", "random": "those at some place,"}[told.place]
    return (
        f"The adversary needs part of a document already ({where} {_prompt(told)}) and asks the model to go on. What "
        "is likely within so many draws was computed from the model's probabilities; the adversary would draw, and "
        "need not see them."
    )


def _pictures(told: ExtractionSummary) -> tuple[DotGrid, ...]:
    """Members beside non-members, by the way that the verdict quotes; nothing where the verdict claims nothing."""
    if told.answer not in ("extracted", "not shown"):
        return ()
    rate = max(told.rates, key=lambda one: one.difference.low) if told.answer == "extracted" else told.rates[0]
    sides = (("members", rate.members), ("non-members", rate.nonmembers))
    shown = [(name, formatting.natural_frequency(share)) for name, share in sides]
    return tuple(
        DotGrid(f"{one.describe(name)} are given back ({rate.way})", one.value, one.total, one.low, one.high)
        for name, one in shown
    )


def _answers(told: ExtractionSummary) -> RegulatorAnswers:
    ways = ", ".join(rate.way for rate in told.rates)
    return RegulatorAnswers(
        means=f"asking for the continuation of documents that are known already ({ways}).",
        extraction=told.verdict,
        queries="Of documents whose beginning the asker has: the same. Of others: not evaluable from this run.",
        unit="One document.",
    )


def facts(told: ExtractionSummary) -> dict[str, str]:
    """What was asked, and how."""
    prompt = _prompt(told)
    return {
        "model": told.model,
        "members": f"{told.members:,}",
        "non-members": f"{told.nonmembers:,}",
        "prompt": f"{prompt}, at the {told.place}" if told.place != "random" else f"{prompt}, at a random place",
        "asked for": f"the next {formatting.format_count(told.suffix, 'token')}",
        "sampling": told.decoding,
        "reference model": "what it gives back, too, is not counted" if told.with_reference else "none",
        "told apart without the model": _blind(told),
        "seed": str(told.seed),
    }


def _blind(told: ExtractionSummary) -> str:
    tested = "too few documents for a blind baseline" if told.blind is None else f"blind baseline: p = {told.blind:.2g}"
    return f"{'yes' if told.confounded else 'not seen'} ({tested})"


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
    each, together = map(formatting.format_percent, (rate.difference.confidence, told.confidence))
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
    more = [Collapsible(f"{len(exhibits) - _SEEN} more", [Gallery(exhibits[_SEEN:])])] if len(exhibits) > _SEEN else []
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
        f"{needed:,.0f}" if needed < _COUNTED else ("never" if np.isneginf(side.log_p[at]) else f"{needed:.0e}"),
        "yes" if side.verbatim[at] else "no",
        str(side.longest[at]),
        f"{side.overlap[at]:.2f}",
    ]


def _shown(prompt: str, suffix: str, said: str) -> str:
    parts = (("prompt", prompt), ("document", suffix), ("model", said))
    return "\n".join(f"[{name}] {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}" for name, text in parts)
