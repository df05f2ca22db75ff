"""Report of an extraction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.extraction.completions import draws_needed
from divulge.report import DotGrid, charts, formatting
from divulge.report.charts import Curve
from divulge.report.page import Chart, Collapsible, Exhibit, Gallery, Paragraph, Section, Table
from divulge.report.run_kinds import Headline
from divulge.report.sections import ADVICE_TITLE, MEASURED_TITLE, RegulatorAnswers, extraction_advice, regulator_section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.extraction.completions import Completions, MeasuredDocuments
    from divulge.extraction.result import Extraction
    from divulge.report.page import Block
    from divulge.results import ExtractionSummary
    from divulge.study import StudyRun
    from divulge.types import Floats, Ints

_HEADINGS = {
    "extracted": "Training documents are given back",
    "not shown": "Extraction is not shown",
    "undecided": "Too little data to say",
    "confounded": "Nothing can be said of the model",
}
_MAX_DOCUMENTS = 12
_MAX_OPEN = 6  # documents that are not folded
_MAX_CHARACTERS = 2000  # characters of a text
_MAX_DRAWS = 1e12  # at the right border of the chart
_MAX_PLAIN_DRAWS = 1e6  # draws from which on their number is a power of ten


def headline(run: StudyRun[Extraction]) -> Headline:
    """Return whether documents are given back, with the shares of both sets as grids of dots."""
    summary = run.summary
    positions = {"start": "its first", "end": "those before its end,", "random": "those at some place,"}
    position = positions[summary.settings.place]
    adversary = (
        f"Who can do this: anyone who has part of a document already ({position} {_describe_prompt(summary)}) and may "
        "ask the model to go on. "
    ) + (
        "What is likely within so many draws was computed from the model's probabilities; whoever does this would "
        "draw, and need not see them."
        if summary.unit == "token"
        else "Only its likeliest answer was read; who draws many may see more."
    )
    return Headline(summary.tone, summary.verdict, _HEADINGS[summary.answer], (adversary,), _dot_pictures(summary))


def sections(run: StudyRun[Extraction]) -> list[Section]:
    """Return rates of members and non-members, the draws it takes, and the documents given back most easily."""
    summary, members, nonmembers = run.summary, run.result.members, run.result.nonmembers
    methods = ", ".join(rate.way for rate in summary.rates)
    columns, table = rate_rows(summary)
    rate = summary.rates[0]
    each_level, joint_level = map(formatting.format_percent, (rate.difference.confidence, summary.settings.confidence))
    advice, measured_elsewhere = extraction_advice() if summary.answer == "extracted" else ([], [])
    note = f"Each difference holds with {each_level} confidence, all together with {joint_level}"
    return [
        Section(ADVICE_TITLE, advice),
        Section(MEASURED_TITLE, measured_elsewhere, annex=True),
        Section(
            "How many are given back",
            [
                Paragraph(_describe_extent(summary, members)),
                Table(columns, table, note=f"{note} ({rate.difference.method})."),
                Paragraph(_meaning(summary)),
            ],
        ),
        *(
            [Section("How often a model must be asked", [_curve(summary, members, nonmembers)], annex=True)]
            if summary.unit == "token"
            else []
        ),
        Section("Members that are given back most easily", _most_extractable_blocks(members), annex=True),
        Section(
            "Non-members that are given back most easily",
            [Collapsible("What the model gives back without having seen it", _most_extractable_blocks(nonmembers))],
            annex=True,
        ),
        regulator_section(
            RegulatorAnswers(
                means=f"asking for the continuation of documents that are known already ({methods}).",
                extraction=summary.verdict,
                queries="Of documents whose beginning the asker has: the same. Of others: not evaluable from this run.",
                unit="One document.",
            )
        ),
    ]


def run_facts(run: StudyRun[Extraction]) -> dict[str, str]:
    """Return what was measured, how, and how well the model knows each set."""
    # How well it knows them, as a classifier's accuracy says elsewhere.
    sides, suffix = {"members": run.result.members, "non-members": run.result.nonmembers}, run.summary.settings.suffix
    losses = ", ".join(
        f"{name} {-side.target.log_p.mean() / suffix:.2f}"
        for name, side in sides.items()
        if side.target.log_p is not None
    )
    return facts(run.summary) | ({"loss per token of the suffixes": losses} if losses else {})


def _describe_prompt(summary: ExtractionSummary) -> str:
    if isinstance(summary.settings.prefix, float):
        return f"{formatting.format_percent(summary.settings.prefix)} of the document"
    return formatting.format_count(summary.settings.prefix, summary.unit)


def _dot_pictures(summary: ExtractionSummary) -> tuple[DotGrid, ...]:
    """Draw members beside non-members, by the way that the verdict quotes; nothing where the verdict claims nothing."""
    if summary.answer not in ("extracted", "not shown"):
        return ()
    rate = (
        max(summary.rates, key=lambda rate: rate.difference.low) if summary.answer == "extracted" else summary.rates[0]
    )
    sides = (("members", rate.members), ("non-members", rate.nonmembers))
    counts = [(name, formatting.natural_frequency(share)) for name, share in sides]
    return tuple(
        DotGrid(f"{count.describe(name)} are given back ({rate.way})", count.value, count.total, count.low, count.high)
        for name, count in counts
    )


def facts(summary: ExtractionSummary) -> dict[str, str]:
    """Return what was measured, and how."""
    prompt = _describe_prompt(summary)
    place = summary.settings.place
    blind = "too few documents for a blind baseline"
    if summary.blind is not None:
        blind = f"blind baseline: p = {summary.blind:.2g}"
    return {
        "model": summary.model,
        "members": f"{summary.members:,}",
        "non-members": f"{summary.nonmembers:,}",
        "prompt": f"{prompt}, at {'a random place' if place == 'random' else f'the {place}'}",
        "asked for": f"the next {formatting.format_count(summary.settings.suffix, summary.unit)}",
        "sampling": summary.decoding,
        "reference model": "what it gives back, too, is not counted" if summary.with_reference else "none",
        "told apart without the model": f"{'yes' if summary.confounded else 'not seen'} ({blind})",
        "seed": str(summary.settings.seed),
    }


def rate_rows(summary: ExtractionSummary) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the table of rates."""
    reference_columns = ["by the reference, too"] if summary.with_reference else []
    columns = ["way", "members", "non-members", "difference", *reference_columns]
    table = []
    for rate in summary.rates:
        shares = (rate.members, rate.nonmembers, rate.difference)
        cells = [rate.way, *map(formatting.format_percent_estimate, shares)]
        reference_cell = f"{rate.members_of_reference} + {rate.nonmembers_of_reference}"
        table.append([*cells, reference_cell] if summary.with_reference else cells)
    return columns, table


def _meaning(summary: ExtractionSummary) -> str:
    text = (
        "Non-members are documents of the same kind that were not trained on. What is given back of them is "
        "what any such model can complete: forms, lists, phrases. Members count only as far as they are given back "
        "more often. But for equal passages and suffixes, the intervals take documents as independent "
        "draws. "
    )
    if not summary.with_reference:
        return f"{text}No single document is shown to be memorised; a reference model tells which any model completes."
    return f"{text}Documents that the reference model gives back as well are not counted."


def _describe_extent(summary: ExtractionSummary, members: MeasuredDocuments) -> str:
    """Say how many members were given back word for word, and how many could be where none was."""
    count, total = int(members.target.verbatim.sum()), len(members)
    documents = formatting.format_count(total, "member")
    if count:
        return (
            f"{count:,} of {documents} came back word for word in a greedy answer; the annex shows those that came "
            "back most easily."
        )
    high = max(rate.members.high for rate in summary.rates)
    longest = formatting.format_count(int(members.target.longest.max()), summary.unit)
    return (
        f"None of {documents} came back word for word in a greedy answer. The longest match was {longest} "
        f"of {summary.settings.suffix:,}. With other documents of the same kind, by any of the ways below, up to "
        f"{100 * high:.1f} % may come back without having been seen here; longer prompts, other places "
        "in the document and more draws were not tried unless they are named."
    )


def _curve(summary: ExtractionSummary, members: MeasuredDocuments, nonmembers: MeasuredDocuments) -> Chart:
    sides = {"members": members.target, "non-members": nonmembers.target}
    if members.reference is not None:
        sides["members, by the reference"] = members.reference
    draws = np.geomspace(1, _MAX_DRAWS, 121)
    curves = {
        name: Curve(draws, np.searchsorted(np.sort(draws_needed(side.log_p)), draws * (1 + 1e-9)) / len(side.log_p))
        for name, side in sides.items()
        if side.log_p is not None
    }
    chart = charts.lines(curves, x="draws", y="share of documents with an even chance to be seen", log_x=True)
    return Chart(chart, note=f"Drawn with {summary.decoding}. At one draw: documents of probability ½ or more.")


def most_extractable(measured: MeasuredDocuments) -> Ints:
    """Return the documents that are given back most easily: verbatim ones first, then by their probability."""
    target = measured.target
    log_p = target.overlap if target.log_p is None else target.log_p
    return np.lexsort((np.arange(len(measured)), -target.overlap, -log_p, ~target.verbatim))[:_MAX_DOCUMENTS]


def _most_extractable_blocks(measured: MeasuredDocuments) -> Sequence[Block]:
    table = Table(
        *most_extractable_rows(measured),
        note=f"Longest match in {'tokens' if measured.target.log_p is not None else 'words'}; overlap 1 is verbatim.",
        single_records=True,
    )
    if measured.prompts is None or measured.suffixes is None or measured.target.texts is None:
        return [table]
    exhibits = [
        Exhibit(
            f"{measured.ids[i]}{': given back verbatim' if measured.target.verbatim[i] else ''}",
            text=_format_texts(measured.prompts[i], measured.suffixes[i], measured.target.texts[i]),
        )
        for i in most_extractable(measured)
    ]
    note = "Each document: the prompt, what follows it, what the model says greedily."
    folded = (
        [Collapsible(f"{len(exhibits) - _MAX_OPEN} more", [Gallery(exhibits[_MAX_OPEN:])])]
        if len(exhibits) > _MAX_OPEN
        else []
    )
    return [table, Gallery(exhibits[:_MAX_OPEN], note=note), *folded]


def most_extractable_rows(measured: MeasuredDocuments) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the table of the documents that are given back most easily."""
    columns, reference = ["id", *_columns(measured.target)], measured.reference
    referred = [] if reference is None else [name for name in _columns(reference) if name in ("log10 p", "verbatim")]
    table = []
    for i in most_extractable(measured):
        cells = [str(measured.ids[i]), *_cells(measured.target, i)]
        if reference is not None:
            reference_cells = dict(zip(_columns(reference), _cells(reference, i), strict=True))
            cells += [reference_cells[name] for name in referred]
        table.append(cells)
    return [*columns, *(f"{name}, reference" for name in referred)], table


def _columns(side: Completions) -> list[str]:
    likelihood = [] if side.log_p is None else ["log10 p", "draws for an even chance"]
    return [*likelihood, "verbatim", "longest match", "overlap"]


def _cells(side: Completions, i: int) -> list[str]:
    return [
        *_likelihood_cells(side.log_p, i),
        "yes" if side.verbatim[i] else "no",
        str(side.longest[i]),
        f"{side.overlap[i]:.2f}",
    ]


def _likelihood_cells(log_p: Floats | None, i: int) -> list[str]:
    if log_p is None:
        return []
    n_draws = float(draws_needed(log_p[i : i + 1])[0])
    return [
        f"{log_p[i] / np.log(10):z.2f}" if np.isfinite(log_p[i]) else "never drawn",
        f"{n_draws:,.0f}" if n_draws < _MAX_PLAIN_DRAWS else ("never" if np.isneginf(log_p[i]) else f"{n_draws:.0e}"),
    ]


def _format_texts(prompt: str, suffix: str, generated: str) -> str:
    parts = (("prompt", prompt), ("document", suffix), ("model", generated))
    return "\n".join(
        f"[{name}] {text if len(text) <= _MAX_CHARACTERS else text[:_MAX_CHARACTERS] + '…'}" for name, text in parts
    )
