"""A page as plain Markdown, for terminals and the logs of CI jobs."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from divulge.report.page import MARKS, BulletList, Collapsible, DotGrids, Gallery, Link, Paragraph, Slider, Table
from divulge.report.sections import (
    ADVICE_TITLE,
    CONDITIONS_TITLE,
    DECISIONS_TITLE,
    FAIRNESS_TITLE,
    PROVENANCE_TITLE,
    REFERENCES_TITLE,
    WARNINGS_TITLE,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from divulge.report.page import Block, Bullet, Page, Section


_CARD = (
    CONDITIONS_TITLE,
    ADVICE_TITLE,
    "Evidence",
    "Selection",
    "What is proven",
    "How many are given back",
    "Answers",
    "What it shows of an attribute",
    FAIRNESS_TITLE,
    REFERENCES_TITLE,
    WARNINGS_TITLE,
    PROVENANCE_TITLE,
)
_SENTENCES_IN_CARD = (DECISIONS_TITLE, "Decisions")  # sections whose paragraphs are warnings, under long tables


def render(page: Page) -> str:
    """Render the words and tables of a page; charts and pictures are named, not drawn.

    Control characters in the page's text are left out, so that no record can command the reader's terminal.

    Examples:
        >>> from divulge.report.page import Page, Section
        >>> print(render(Page("churn-model", "Nothing leaks.", "clear", (Section("AUC", (Paragraph("0.50"),)),))))
        # churn-model
        <BLANKLINE>
        **No leak found. Nothing leaks.**
        <BLANKLINE>
        ## AUC
        <BLANKLINE>
        0.50
        <BLANKLINE>
    """
    parts = [f"# {_line(page.title)}", f"**{_line(page.headed_verdict)}**", *map(_line, page.details)]
    if page.facts:
        parts.append("\n".join(f"- {_line(name)}: {_line(value)}" for name, value in page.facts.items()))
    for section in page.ordered_sections:
        parts.append(f"## {_line(section.title)}")
        parts += [text for block in section.blocks for text in _block(block)]
    return "\n\n".join(parts) + "\n"


def card(page: Page) -> str:
    """Render a section for a model card (Hugging Face's README.md): verdict, what it rests on, evidence in short.

    Examples:
        >>> from divulge.report.page import Page
        >>> print(card(Page("churn-model", "Nothing leaks.", "clear", (), {"seed": "0"})))
        ## Privacy: churn-model
        <BLANKLINE>
        **No leak found. Nothing leaks.**
        <BLANKLINE>
        - seed: 0
        <BLANKLINE>
        Measured with Divulge.
        <BLANKLINE>
    """
    parts = [f"## Privacy: {_line(page.title)}", f"**{_line(page.headed_verdict)}**", *map(_line, page.details)]
    if page.facts:
        parts.append("\n".join(f"- {_line(name)}: {_line(value)}" for name, value in page.facts.items()))
    for section in page.ordered_sections:
        texts = [text for block in _card_blocks(section) for text in _block(block)]
        if texts:
            parts += [f"### {_line(section.title)}", *(text.replace("### ", "#### ") for text in texts)]
    return "\n\n".join([*parts, "Measured with Divulge."]) + "\n"


def _card_blocks(section: Section) -> list[Block]:
    """Return what a card has of a section: nothing that is folded, and no warning less than the page."""
    if section.title in _CARD:
        return [block for block in section.blocks if not isinstance(block, Collapsible)]
    return [block for block in section.blocks if section.title in _SENTENCES_IN_CARD and isinstance(block, Paragraph)]


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Collapsible):
        yield f"### {_line(block.title)}"
        for inner in block.blocks:
            yield from _block(inner)
        return
    title, note = getattr(block, "title", ""), getattr(block, "note", "")
    if title:
        yield f"### {_line(title)}"
    yield _body(block)
    if note and not isinstance(block, Link):
        yield _line(note)


def _body(block: Block) -> str:
    match block:
        case Paragraph():
            return _line(block.text)
        case Link():
            return f"[{_line(block.words)}]({_line(block.file)}) {_line(block.note)}".rstrip()
        case Table():
            return _table(block.columns, block.rows)
        case Gallery():
            return _bullet_list(" | ".join(filter(None, (e.caption, e.text))) for e in block.exhibits)
        case DotGrids():
            return _bullet_list(grid.caption for grid in block.dots)
        case BulletList():
            return _bullet_list(map(_bullet, block.points))
        case Slider():
            return _bullet_list(f"{block.label} {stop.label}: {stop.words}" for stop in block.stops)
        case _:
            return "(chart: see the HTML report)"


def _bullet(point: Bullet) -> str:
    mark = f"{MARKS[point.mark]} {point.mark}: " if point.mark else ""
    return f"{mark}{point.title} {point.text}{f' ({point.source})' if point.source else ''}"


def _bullet_list(entries: Iterable[str]) -> str:
    return "\n".join(f"- {_line(entry)}" for entry in entries)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [[_line(cell).replace("|", "\\|") for cell in row] for row in (columns, *rows)]
    widths = [max(3, *(len(row[j]) for row in cells)) for j in range(len(columns))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def _line(text: str) -> str:
    """Return ``text`` on one line, without control, direction or unpaired surrogate characters."""
    joined = re.sub(r"\s+", " ", str(text)).strip()
    return "".join(mark for mark in joined if unicodedata.category(mark) not in ("Cc", "Cf", "Cs"))
