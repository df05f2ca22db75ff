"""How many of the best candidates can be non-members: for whoever looks at a finished run and chooses afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.decisions import fdp
from divulge.decisions.counts import Counts
from divulge.identification import finished
from divulge.identification.decide import Choice, Policy, decide
from divulge.report import Chart, Collapsible, DotGrid, Paragraph, Slider, SliderPosition, Table, charts, formatting
from divulge.report.charts import Curve
from divulge.report.page import MAX_DOTS

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.decisions.fdp import Envelope
    from divulge.report.page import Block
    from divulge.results import IdentificationSummary

_SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)  # of non-members, in the table
_POINTS = 300  # of the curve
_STOPS = 24  # of the slider


def envelope(directory: str | Path, *, confidence: float = 0.95) -> Envelope:
    """Bounds of the false discovery proportion of the ``k`` best candidates of a run, for all ``k`` at once.

    They rest on the assumption that the selection rests on and stand as its guarantee does.

    Args:
        directory: what `divulge identify` wrote.
        confidence: of all bounds together.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run, a confidence outside (0, 0.999].
    """
    return finished.read(directory, lambda summary, folder: of(summary, folder, confidence))


def of(summary: IdentificationSummary, folder: Path, confidence: float = 0.95) -> Envelope:
    """`envelope`, of a run that is open."""
    bounds = fdp.of(Counts.load(folder / "counts.npz"), confidence=confidence, seed=summary.settings.seed)
    return replace(bounds, guarantee=bounds.guarantee.at_most(summary.guarantee.standing))


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would select at another level; nothing of it is changed.

    Args:
        selected: how many candidates.
        candidates: of how many.
        claim: what would be claimed.
        warnings: what the user must know before relying on it.
    """

    selected: int
    candidates: int
    claim: str
    warnings: tuple[str, ...]


def preview(directory: str | Path, fdr: float) -> Preview:
    """The selection of a finished run at another level, by the method it used.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run, a level outside (0, 1).
    """
    return finished.read(directory, lambda summary, folder: _at(summary, folder, fdr))


def _at(summary: IdentificationSummary, folder: Path, fdr: float) -> Preview:
    judged, used = Counts.load(folder / "counts.npz"), Choice(finished.method(summary))
    made = decide(judged, finished.controls(summary), Policy(fdr, used.method), used=used, notes=summary.settings.notes)
    selected = int(judged.reached[made.rule.rank]) if made.rule.rank >= 0 else 0
    return Preview(selected, judged.total, str(made.guarantee), made.warnings)


def line(bounds: Envelope, k: int) -> str:
    """What is known of the ``k`` best candidates.

    Examples:
        >>> line(fdp.envelope(range(99), [120.0] * 30), 30)
        'at most 0 of the 30 best candidates (0 %) are non-members, with 95 % confidence for all such numbers at once'
    """
    if not bounds.guarantee.says:
        return f"nothing is claimed about the {k} best candidates: the guarantee is void"
    doubt = "if the assumption holds, " if bounds.guarantee.standing == "doubtful" else ""
    return (
        f"{doubt}at most {bounds.false(k)} of the {k} best candidates ({100 * bounds.bound(k):.3g} %) are non-members, "
        f"with {100 * bounds.confidence:g} % confidence for all such numbers at once"
    )


def blocks(summary: IdentificationSummary, folder: Path) -> list[Block]:
    """The section of the report; empty where nothing is claimed."""
    if summary.guarantee.standing == "void":
        return []
    bounds = of(summary, folder)
    most = np.unique(np.geomspace(1, len(bounds), _POINTS).round().astype(np.int64))
    curve = Curve(most, [bounds.bound(k) for k in most.tolist()])
    joined = f" The curve joins {len(most)} of {len(bounds):,} bounds." if len(most) < len(bounds) else ""
    note = (
        f"With {100 * bounds.confidence:g} % confidence all bounds hold at once: a number may be chosen after "
        f"looking.{joined} The bound of the selection itself is one on average, which is "
        "another claim. It rests on the assumption of the selection."
    )
    chart = charts.lines({"at most": curve}, x="best candidates", y="share of non-members", log_x=True)
    largest = {share: bounds.largest(share) for share in _SHARES}
    rows = [(f"{100 * share:g} %", str(k), str(bounds.false(k))) for share, k in largest.items() if k]
    table = Table(("non-members, at most", "best candidates, up to", "non-members among them, at most"), rows)
    folded = [Collapsible("By share", [table])] if rows else []
    return [*_selected(summary, bounds), _dial(summary, bounds), Chart(chart, note=note), *folded]


def _dial(summary: IdentificationSummary, bounds: Envelope) -> Slider:
    """So many of the best, and how many of them can be non-members."""
    most = np.unique(np.geomspace(1, len(bounds), _STOPS).round().astype(np.int64)).tolist()
    if summary.selected:
        most = sorted({*most, summary.selected})
    stops = [SliderPosition(f"{k:,}", formatting.as_sentence(line(bounds, k)), _dots(bounds, k)) for k in most]
    start = most.index(summary.selected) if summary.selected else 0
    return Slider("best candidates", stops, start, title="How many can be wrong, by how many are taken")


def _dots(bounds: Envelope, k: int) -> tuple[DotGrid, ...]:
    """Those that are members for sure; none where there is nothing to see, or too much."""
    if k > MAX_DOTS or not bounds.guarantee.says:
        return ()
    right = k - bounds.false(k)
    caveat = ", if the assumption holds" if bounds.guarantee.standing == "doubtful" else ""
    return (DotGrid(f"{right:,} of {k:,} are members, at least{caveat}", right, k),)


def _selected(summary: IdentificationSummary, bounds: Envelope) -> list[Block]:
    said = line(bounds, summary.selected) if summary.selected else ""
    return [Paragraph(f"Of the selection: {said}.")] if said else []
