"""Report of an identification; whether the guarantee holds comes first."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge import tables
from divulge.decisions.counts import Counts
from divulge.identification import case_file
from divulge.identification.case_file import LIST_FILE, score_name
from divulge.identification.finished_run import (
    describe_best,
    every_nth_row,
    run_envelope,
    run_sensitivity,
)
from divulge.report import (
    Bullet,
    BulletList,
    Chart,
    Collapsible,
    DotGrid,
    Exhibit,
    Gallery,
    Paragraph,
    Section,
    Slider,
    SliderPosition,
    Table,
    charts,
)
from divulge.report.charts import Curve
from divulge.report.formatting import as_sentence, format_count, format_estimate, format_percent
from divulge.report.page import MAX_DOTS as MAX_DOTS
from divulge.report.page import mark_tokens
from divulge.report.run_kinds import Headline
from divulge.report.sections import (
    ADVICE_TITLE,
    CONDITIONS_TITLE,
    RegulatorAnswers,
    regulator_section,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from divulge.decisions.fdp import Envelope
    from divulge.identification.finished_run import Document
    from divulge.report.page import Block
    from divulge.results import IdentificationSummary
    from divulge.types import Tone

_MAX_SCORES = 20_000  # of each group in the histogram
_STATES = {"passed": "passed", "doubtful": "doubtful", "failed": "FAILED"}
_CAVEATS = {"holds": "", "doubtful": " (as doubtful as the bound)", "void": " (void as the bound)"}  # same assumption
_BOUNDS = {"holds": "{} at most", "doubtful": "{} at most (doubtful)", "void": "void ({} at most was asked for)"}
_HEADINGS: Mapping[str, str] = {
    "leak": "Training data identified",
    "doubt": "Training data identified, in doubt",
    "void": "Guarantee void",
}
_EMPTY_HEADINGS: Mapping[str, str] = {
    "leak": "Use for training shown, nothing identified",
    "plain": "Nothing identified",
    "doubt": "Nothing identified, in doubt",
    "void": "Guarantee void",
}
_CONDITIONS_NOTE = (
    "A tick: a test that could have found a large difference found none. A question mark: it was not tested, cannot "
    "be, or no test decides it. A cross: a test says no. Where all of them hold, a list made in this way has on "
    "average at most the stated share of wrong entries; a single list may have more, and the annex bounds how many."
)
_HARM = (
    "Who may be harmed: people or authors behind what was used. Whether the use was allowed is not said here. "
    "A record that is listed by mistake will be believed to have been used."
)
_FDRS = (0.01, 0.02, 0.05, 0.1, 0.2)
_GAMMAS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0)
_FALSE_SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)  # of non-members, in the table of the best candidates
_CURVE_POINTS = 300
_DIAL_STOPS = 24
_MAX_OPEN_TEXTS = 6  # documents that are not folded
_MAX_OPEN_ROWS = 12  # of a table that is not folded
_MAX_ROWS = 1_000  # selected documents in the table; the file beside it lists more


def facts(summary: IdentificationSummary) -> list[tuple[str, str]]:
    """Return the main numbers, name and value."""
    threshold, standing = summary.threshold, summary.guarantee.standing
    column, sign = score_name(summary)
    end, score = "largest" if sign < 0 else "smallest", "score" if column == "score" else f"score ({column})"
    lines = [
        ("selected", f"{summary.selected:,} of {summary.candidates:,}"),
        ("scores", ", ".join(summary.settings.scores)),
        ("method", _describe_method(summary)),
        ("false discovery rate", _BOUNDS[standing].format(format_percent(summary.settings.fdr))),
        ("calibration scores", f"{summary.calibration:,}"),
        (f"{end} selected {score}", "–" if threshold is None else f"{sign * threshold:.6g}"),
        (f"share of members, estimated{_CAVEATS[standing]}", _describe_usage(summary)),
    ]
    if n_members := case_file.count_members_shown(summary):
        lines.append((f"members, at least{_CAVEATS[standing]}", f"{n_members:,} (95 % confidence)"))
    if summary.truth:
        lines.append(("realised false discovery proportion", format_estimate(summary.truth.fdp)))
        lines.append(("realised power", format_estimate(summary.truth.power)))
    return lines


def _describe_usage(summary: IdentificationSummary) -> str:
    """Return the estimated share of members, and what no data can tell of it."""
    assumption = summary.usage.method.partition("high end assumes ")[2]
    return format_estimate(summary.usage) + (f", if {assumption}; else it may be larger" if assumption else "")


def _describe_method(summary: IdentificationSummary) -> str:
    requested = summary.settings.method
    return summary.used if requested == summary.used else f"{summary.used} ({requested})"


def verdict(summary: IdentificationSummary) -> tuple[str, Tone]:
    """Return the first lines of the report, and their tone."""
    return case_file.state_finding(summary)


@dataclass(frozen=True, slots=True)
class IdentificationRun:
    """A decision on tables.

    Args:
        summary: what was decided.
        folder: where ``selection.parquet`` and ``counts.npz`` stand.
        documents: by id, those that may be shown.
    """

    summary: IdentificationSummary
    folder: Path
    documents: Mapping[str, Document] = field(default_factory=dict)


def headline(run: IdentificationRun) -> Headline:
    """Return the finding, why it is in doubt or void, and who can show it."""
    text, tone = verdict(run.summary)
    finding = case_file.describe_selection(run.summary)
    reason = text.removeprefix(finding).strip()
    details = (*filter(None, [reason]), case_file.describe_adversary(run.summary))
    if run.summary.selected and run.summary.guarantee.says:
        details = (*details, _HARM)
    heading = _HEADINGS[tone] if run.summary.selected else _EMPTY_HEADINGS[tone]
    if finding.startswith("At least"):
        heading = _EMPTY_HEADINGS["leak"] + (", in doubt" if tone == "doubt" else "")
    return Headline(tone, finding, heading, details, _dot_pictures(run.summary), statement=text)


def settings_facts(run: IdentificationRun) -> dict[str, str]:
    """Return what was asked for, for the head of the page."""
    summary, settings = run.summary, run.summary.settings
    compared = f"{summary.calibration:,} documents known not to have been used"
    return {
        "compared with": case_file.name_records(compared, summary),
        **({"texts compared": f"column {settings.text!r}"} if settings.text and not settings.scored_together else {}),
        "share of the list that may be wrong": f"{format_percent(settings.fdr)} at most, on average (as asked for)",
        "Divulge": summary.divulge,
        "seed": str(settings.seed),
    }


def sections(run: IdentificationRun) -> list[Section]:
    """Return the selection, what bounds it, how much doubt it survives, the scores and the controls."""
    summary, folder, settings = run.summary, run.folder, run.summary.settings
    text, _ = verdict(summary)
    in_its_words = partial(case_file.name_records, summary=summary)
    listed = case_file.selected_documents(summary, folder, max_rows=_MAX_ROWS).to_dicts()
    bullets = [Bullet(c.title, c.text, mark=c.mark) for c in case_file.conditions(summary)]
    table = Table(("what", "value"), facts(summary), sortable=False)
    return [
        Section(CONDITIONS_TITLE, [BulletList(bullets, note=_CONDITIONS_NOTE)]),
        Section(ADVICE_TITLE, _advice(summary)),
        Section(
            "Selection",
            [
                table,
                *map(Paragraph, map(as_sentence, [*case_file.other_warnings(summary), *filter(None, [summary.why])])),
            ],
        ),
        Section(in_its_words("The documents"), _document_blocks(summary, listed, run.documents), annex=True),
        Section(in_its_words("Every document of the selection"), _row_blocks(summary, listed), annex=True),
        Section("How many of the best can be non-members", envelope_blocks(summary, folder), annex=True),
        Section("What another bound would have selected", _level_blocks(summary, folder), annex=True),
        Section("How much doubt the selection survives", sensitivity_blocks(summary, folder), annex=True),
        Section("Scores", [_histogram(summary, folder)], annex=True),
        Section("Controls", [_control_table(summary)], annex=True),
        Section("Against the blind score", _blind_score_blocks(summary), annex=True),
        replace(
            regulator_section(
                RegulatorAnswers(
                    means=in_its_words(f"scores of documents that are held already ({', '.join(settings.scores)})."),
                    queries=f"On use for training alone: {text}",
                    unit=in_its_words("One document."),
                )
            ),
            annex=True,
        ),
    ]


def _advice(summary: IdentificationSummary) -> list[Block]:
    """Return advice to the owner of the documents, where some were identified and the bound holds."""
    if not summary.selected or summary.guarantee.standing != "holds":
        return []
    share = format_percent(summary.settings.fdr)
    on_lists = Bullet(
        case_file.name_records("If the documents are yours, rely on the set and not on one document.", summary),
        f"All that were selected stand in {LIST_FILE} and in the annex. On average up to {share} of such a list may "
        "be wrong, and it does not tell which; how many of its first 10, 20 or more may be, the annex says. What was "
        "not selected may have been used all the same.",
    )
    return [BulletList([on_lists])]


def _dot_pictures(summary: IdentificationSummary) -> tuple[DotGrid, ...]:
    """Draw the selected among a hundred candidates."""
    if not summary.selected or not summary.guarantee.says:
        return ()
    n_dots = min(100, summary.candidates)
    n_marked = round(n_dots * summary.selected / summary.candidates)
    scaled = "" if n_dots == summary.candidates else f" (shown as {n_marked} of {n_dots})"
    are = "is" if summary.selected == 1 else "are"
    caption = f"{summary.selected:,} of {summary.candidates:,} candidates {are} on the list{scaled}"
    return (DotGrid(caption, n_marked, n_dots),)


def _document_blocks(
    summary: IdentificationSummary, rows: Sequence[Mapping[str, Any]], documents: Mapping[str, Document]
) -> list[Block]:
    """Show the texts of the best documents, as far as they were stored."""
    column, _ = score_name(summary)
    pairs = [(row, documents[str(row["id"])]) for row in rows if str(row["id"]) in documents]
    exhibits = [
        Exhibit(
            f"{row['id']}: {column} {row['score']:.4g}, q {row['q']:.3g}",
            text=document.text,
            heat=mark_tokens(document.text, document.heat),
        )
        for row, document in pairs
    ]
    if not exhibits:
        return []
    note = f"The selected documents with the most member-like {column}, as far as they were kept; long ones are cut."
    if against := next((document.heat.against for _, document in pairs if document.heat), ""):
        note += (
            f" The deeper a token is marked, the likelier the model finds it than {against}. Marks prove nothing by "
            "themselves: the score of the whole document decides."
        )
    note = case_file.name_records(note, summary)
    blocks: list[Block] = [Gallery(exhibits[:_MAX_OPEN_TEXTS], note=note)]
    if folded := exhibits[_MAX_OPEN_TEXTS:]:
        blocks.append(Collapsible(f"{len(folded)} more", [Gallery(folded)]))
    return blocks


def envelope_blocks(summary: IdentificationSummary, folder: Path) -> list[Block]:
    """Return how many of the best candidates can be non-members; empty where nothing is claimed."""
    if summary.guarantee.standing == "void":
        return []
    bounds = run_envelope(summary, folder)
    ranks = np.unique(np.geomspace(1, len(bounds), _CURVE_POINTS).round().astype(np.int64))
    curve = Curve(ranks, [bounds.bound(k) for k in ranks.tolist()])
    thinned = f" The curve joins {len(ranks)} of {len(bounds):,} bounds." if len(ranks) < len(bounds) else ""
    note = (
        f"With {100 * bounds.confidence:g} % confidence all bounds hold at once: a number may be chosen after "
        f"looking.{thinned} The bound of the selection itself is one on average, which is "
        "another claim. It rests on the assumption of the selection."
    )
    if (n_members := case_file.count_members_shown(summary)) > len(bounds) - bounds.false(len(bounds)):
        note += (
            f" These bounds count high scores. By the low ones, at least {n_members:,} of all candidates are members "
            "(95 % confidence, by the same assumption), more than the curve's end says, and which ones cannot be said."
        )
    chart = charts.lines({"at most": curve}, x="best candidates", y="share of non-members", log_x=True, whole=True)
    blocks: list[Block] = []
    if summary.selected:
        blocks.append(Paragraph(f"Of the selection: {describe_best(bounds, summary.selected)}."))
    blocks += [_envelope_dial(summary, bounds), Chart(chart, note=note)]
    largest = {share: bounds.largest(share) for share in _FALSE_SHARES}
    rows = [(f"{100 * share:g} %", str(k), str(bounds.false(k))) for share, k in largest.items() if k]
    if rows:
        header = ("non-members, at most", "best candidates, up to", "non-members among them, at most")
        blocks.append(Collapsible("By share", [Table(header, rows)]))
    return blocks


def _envelope_dial(summary: IdentificationSummary, bounds: Envelope) -> Slider:
    """Return a slider over numbers of best candidates, with how many of them can be non-members."""
    ranks = np.unique(np.geomspace(1, len(bounds), _DIAL_STOPS).round().astype(np.int64)).tolist()
    if summary.selected:
        ranks = sorted({*ranks, summary.selected})
    stops = [SliderPosition(f"{k:,}", as_sentence(describe_best(bounds, k)), _member_dots(bounds, k)) for k in ranks]
    start = ranks.index(summary.selected) if summary.selected else 0
    return Slider("best candidates", stops, start, title="How many can be wrong, by how many are taken")


def _member_dots(bounds: Envelope, k: int) -> tuple[DotGrid, ...]:
    """Draw those that are members for sure; no picture where there is nothing to see, or too much."""
    if k > MAX_DOTS or not bounds.guarantee.says:
        return ()
    n_members = k - bounds.false(k)
    caveat = ", if the assumption holds" if bounds.guarantee.standing == "doubtful" else ""
    return (DotGrid(f"{n_members:,} of {k:,} are members, at least{caveat}", n_members, k),)


def _level_blocks(summary: IdentificationSummary, folder: Path) -> list[Block]:
    """Return how many have a q-value below each level; empty where nothing is claimed."""
    if not summary.guarantee.says:
        return []
    requested = summary.settings.fdr
    levels = sorted({*_FDRS, requested})
    path = folder / "selection.parquet"
    below = [(pl.col("q") <= level).sum().alias(str(i)) for i, level in enumerate(levels)]
    with tables.table_errors(str(path)):
        counts = list(tables.open_parquet(path).select(below).collect(engine="streaming").row(0))
    caveat = "If the assumption holds: " if summary.guarantee.standing == "doubtful" else ""
    stops = []
    for level, count in zip(levels, counts, strict=True):
        selected = summary.selected if level == requested else count
        text = (
            f"{caveat}{selected:,} of {summary.candidates:,} documents, of which on average at most "
            f"{format_percent(level)} are not training data."
            f"{' This bound was asked for.' if level == requested else ''}"
        )
        stops.append(SliderPosition(format_percent(level), case_file.name_records(text, summary)))
    note = (
        "Each bound holds if it was chosen before looking. To choose after looking, use the slider of the best "
        "candidates, whose bounds hold all at once."
    )
    return [Slider("false discovery rate", stops, levels.index(requested), note=note)]


def sensitivity_blocks(summary: IdentificationSummary, folder: Path) -> list[Block]:
    """Return how much doubt the selection survives; empty where nothing is selected or claimed."""
    if summary.guarantee.standing == "void" or not summary.selected:
        return []
    doubt = run_sensitivity(summary, folder)
    note = (
        "Γ = 1 is the assumption that non-members among the candidates score like the calibration. At Γ = 2 any score "
        "may be twice as likely among them, or half as likely, whichever is worst; documents that still stand are a "
        "selection with the same bound."
    )
    rows = [(f"{gamma:g}", str(doubt.count(gamma))) for gamma in _GAMMAS]
    note, column = (case_file.name_records(text, summary) for text in (note, "documents that stand"))
    return [Paragraph(f"Of the selection, {doubt}."), Table(("Γ", column), rows, note=note)]


def _histogram(summary: IdentificationSummary, folder: Path) -> Chart:
    step = max(-(-summary.candidates // _MAX_SCORES), 1)
    sample = every_nth_row(folder / "selection.parquet", ["score", "selected"], step)
    calibration = Counts.load(folder / "counts.npz").calibration
    column, sign = score_name(summary)
    groups = {
        "known non-members": calibration[:: max(-(-len(calibration) // _MAX_SCORES), 1)],
        "candidates, selected": sample.filter("selected")["score"].to_numpy(),
        "candidates, not selected": sample.filter(~sample["selected"])["score"].to_numpy(),
    }
    note = f"{'Smaller' if sign < 0 else 'Larger'} values are more member-like; each group is scaled to the same area."
    if step > 1:
        note = f"{note} Of the candidates every {step}th row is shown."
    scores = {name: sign * np.asarray(group) for name, group in groups.items() if len(group)}
    return Chart(charts.histogram(scores, quantity=column), note=note)


def _control_table(summary: IdentificationSummary) -> Table:
    rows = [
        (control.name, _STATES[control.state], f"{control.p_value:.2g}", control.says) for control in summary.controls
    ]
    note = (
        "Controls that compare known non-members with known non-members can fail; together they do so in at most 5 % "
        "of sound runs, whatever the members are. Controls that compare all candidates with the calibration set can "
        "only raise doubt: members may differ in topic, length or date, and that breaks nothing."
    )
    return Table(("control", "result", "p", "observed"), rows, note=note)


def _blind_score_blocks(summary: IdentificationSummary) -> list[Block]:
    """Compare the score with the blind score: candidates with calibration, and known members with non-members."""
    comparison = summary.baseline
    if comparison is None:
        return []
    rows = [
        (
            f"AUC of the blind score ({comparison.column}), candidates against calibration",
            format_estimate(comparison.blind),
        ),
        (
            f"AUC of the score ({comparison.adjusted}), candidates against calibration",
            format_estimate(comparison.score),
        ),
        ("score less blind score, paired", format_estimate(comparison.difference)),
    ]
    rows += [
        (f"the same of known members against non-members: {name}", format_estimate(difference))
        for name, difference in comparison.known.items()
    ]
    note = (
        "The blind score comes from a classifier that never saw the model. What is usual at each blind score was taken "
        "out of the score before it was decided on; a blind score that tells candidates from calibration leaves doubt "
        "whether their non-members are alike."
    )
    table = Table(("what", "value"), rows, sortable=False, note=note)
    return [*([Paragraph(comparison.text)] if comparison.text else []), table]


def _row_blocks(summary: IdentificationSummary, rows: Sequence[Mapping[str, Any]]) -> list[Block]:
    """List the selected documents with score, p-value and the shift that each survives, best first."""
    if not rows:
        return []
    column, _ = score_name(summary)
    cells = [(str(row["id"]), f"{row['score']:.6g}", f"{row['p']:.3g}", _format_shift(row)) for row in rows]
    note = (
        "p: share of the known non-members that score at least as high, counted with the document itself. Survives a "
        "shift of: any score may be so many times likelier, or less likely, among the non-members than among the known "
        "ones, and the document still stands on a list with the same bound; fix the factor before looking."
    )
    note = case_file.name_records(note, summary)
    table = Table(("id", column, "p", "survives a shift of"), cells, note=note, single_records=True)
    listed_there = "them for a spreadsheet" if len(rows) == summary.selected else "more"
    list_sentence = f"{LIST_FILE} in the run directory lists {listed_there}"
    n_listed = case_file.name_records(format_count(len(cells), "document"), summary)
    title = n_listed if len(rows) == summary.selected else f"The best {n_listed} of {summary.selected:,}"
    listed: list[Block] = [table] if len(cells) <= _MAX_OPEN_ROWS else [Collapsible(title, [table])]
    return [Paragraph(f"{list_sentence}."), *listed]


def _format_shift(row: Mapping[str, Any]) -> str:
    """Return the factor rounded down, so that no document is said to survive more than it does."""
    shift = row["survives_shift"]
    return "–" if shift is None else f"× {math.floor(100 * shift + 1e-9) / 100:.2f}"
