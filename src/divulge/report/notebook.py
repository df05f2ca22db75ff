"""Notebook view of a result: the verdict, its numbers and a picture, as HTML that loads and runs nothing."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from divulge.report import formatting
from divulge.report.page import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.report.page import Page
    from divulge.types import Estimate, Tone

# Readable on the white and on the black ground of a notebook; the sign says what the colour says.
_TONES: Mapping[Tone, tuple[str, str]] = {
    "leak": ("#d0473c", "▲"),
    "clear": ("#2f8f68", "✓"),
    "doubt": ("#b07a1e", "?"),
    "void": ("#c9355f", "✗"),
}
_OTHER_TONE = ("#7d8794", "–")
_LANE, _LABELS, _AXIS = 24, 150, 330  # pixels: height of a lane, width of the names, width of the axis


def render(
    heading: str,
    text: str,
    tone: Tone,
    *,
    details: Sequence[str] = (),
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[object]] = (),
    picture: str = "",
    note: str = "",
) -> str:
    """Return a result as a block of HTML, everything in it escaped but ``picture``.

    Args:
        heading: the answer in a few words.
        text: the verdict.
        tone: see `divulge.report.Page`.
        details: sentences that are folded under it.
        columns: names of the table's columns.
        rows: its rows.
        picture: of `draw_intervals`.
        note: stands under the table.

    Examples:
        >>> render("No leak found", "No attack <beats> guessing.", "clear")[:43]
        '<div style="max-width:60em;padding:.2em 1em'
    """
    colour, sign = _TONES.get(tone, _OTHER_TONE)
    folded = "".join(f"<p>{escape(sentence)}</p>" for sentence in details)
    parts = [
        f'<div style="max-width:60em;padding:.2em 1em;border-left:5px solid {colour}">',
        f'<p><strong style="color:{colour}">{sign} {escape(heading)}</strong><br>{escape(text)}</p>',
        f"<details><summary>What this rests on</summary>{folded}</details>" if folded else "",
        picture,
        _table(columns, rows) if rows else "",
        f"<p><small>{escape(note)}</small></p>" if note else "",
        "</div>",
    ]
    return "".join(parts)


def render_page(page: Page, picture: str = "") -> str:
    """Return a report's verdict and details, and its first table, or its facts where it has none."""
    tables = [block for section in page.sections for block in section.blocks if isinstance(block, Table)]
    columns, rows = (tables[0].columns, tables[0].rows) if tables else (("", ""), list(page.facts.items()))
    return render(
        page.heading or page.title, page.verdict, page.tone, details=page.details, columns=columns, rows=rows,
        picture=picture,
    )  # fmt: skip


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(value))}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def draw_intervals(estimates: Mapping[str, Estimate], quantity: str, reference: float) -> str:
    """Draw a dot and its interval for each attack over one axis, as SVG.

    Args:
        estimates: attack → value and interval, at least one.
        quantity: what is measured ("AUC").
        reference: a value to compare with, drawn as a dashed line.

    Examples:
        >>> from divulge.types import Estimate
        >>> svg = draw_intervals({"<b>": Estimate(0.6, 0.55, 0.65, 0.95, "delong")}, "AUC", 0.5)
        >>> svg.count("<circle"), "&lt;b&gt;" in svg
        (1, True)
    """
    ends = [reference, *(end for estimate in estimates.values() for end in (estimate.low, estimate.high))]
    low, high = min(ends), max(ends)
    margin = 0.05 * (high - low) or 0.05

    def across(value: float) -> float:
        return round(_LABELS + _AXIS * (value - low + margin) / (high - low + 2 * margin), 1)

    height = _LANE * len(estimates) + 2 * _LANE
    dashed, bottom = across(reference), _LANE * len(estimates) + 4
    described = "; ".join(f"{name} {formatting.format_estimate(estimate)}" for name, estimate in estimates.items())
    parts = [
        f'<svg role="img" aria-label="{escape(f"{quantity}: {described}")}" width="{_LABELS + _AXIS + 20}" '
        f'height="{height}" style="max-width:100%;font:13px sans-serif;display:block" fill="currentColor" '
        'stroke="currentColor">',
        f'<line x1="{dashed}" x2="{dashed}" y1="0" y2="{bottom}" stroke-dasharray="4 3" opacity=".6"/>',
        f'<text x="{dashed}" y="{bottom + 14}" text-anchor="middle" stroke="none">{reference:g}</text>',
        f'<text x="{_LABELS + _AXIS}" y="{bottom + 30}" text-anchor="end" stroke="none">{escape(quantity)}</text>',
    ]
    for row, (name, estimate) in enumerate(estimates.items()):
        y = _LANE * row + _LANE // 2
        label = name if len(name) <= 20 else f"{name[:19]}…"
        parts += [
            f'<text x="0" y="{y + 4}" stroke="none">{escape(label)}</text>',
            f'<line x1="{across(estimate.low)}" x2="{across(estimate.high)}" y1="{y}" y2="{y}" stroke-width="2"/>',
            f'<circle cx="{across(estimate.value)}" cy="{y}" r="4"/>',
        ]
    return "".join([*parts, "</svg>"])
