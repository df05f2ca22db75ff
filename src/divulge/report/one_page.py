"""A report on one sheet, for a committee's file: the verdict, what it rests on, which files were read, who decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from divulge.report.page import Bullet, BulletList, Collapsible, Paragraph, Section, Table, hide_records
from divulge.report.sections import FAIRNESS_TITLE, WARNINGS_TITLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.provenance import Provenance
    from divulge.report.page import Block, Page

# Of each kind of report: the sections that stand on the sheet, and how many of their blocks do.
_SECTIONS = {
    "The model": 1,
    "Evidence": 1,
    "Selection": 1,
    "What is proven": 1,
    "How many are given back": 1,
    "Answers": 1,
    "What it shows of an attribute": 1,
    FAIRNESS_TITLE: 1,
    WARNINGS_TITLE: 2,
}
_MAX_FILES, _MAX_ROWS = 8, 8
_MAX_CHARACTERS = 420  # of a paragraph, or of a cell
_DECISION = (("decision (release / change / refuse)", ""), ("reason", ""), ("name and date", ""))


def one_page(page: Page, origin: Provenance | None = None, further: Sequence[Section] = ()) -> Page:
    """Return a report's content that fits a sheet of A4, without single records, tables of details and charts.

    Args:
        page: the whole report.
        origin: where the run comes from; its date, software and files are listed with their digests.
        further: sections beside those of the report, of tables.

    Examples:
        >>> from divulge.report.page import Page
        >>> [section.title for section in one_page(Page("churn-model", "Nothing leaks.", "clear", ())).sections]
        ['What this does not show', 'Where this comes from', 'For the file']
    """
    public_page = hide_records(page)
    sections = [
        Section(section.title, list(islice(_brief_blocks(section.blocks), _SECTIONS[section.title])))
        for section in public_page.sections
        if section.title in _SECTIONS
    ]
    sections += [Section(section.title, list(_brief_blocks(section.blocks))) for section in further]
    sections += [_LIMITS, *_origin_sections(origin), _FOR_THE_FILE]
    return replace(
        public_page,
        sections=[section for section in sections if section.blocks],
        pictures=(),
        details=[_shorten(text) for text in page.details[:2]],
        compact=True,
    )


_LIMITS = Section(
    "What this does not show",
    [
        Paragraph(
            "That nothing leaks: attacks that were not run may find more. Intervals are about the choice of records, "
            "not about another training of the model. Whether the files name all training records, and whether the "
            "others were never used, is taken from whoever gave them. Other outputs were not looked at."
        )
    ],
)
_FOR_THE_FILE = Section("For the file", [Table(("", ""), _DECISION, sortable=False)])


def _brief_blocks(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield paragraphs, tables and lists, cut to what a sheet has room for."""
    for block in blocks:
        if isinstance(block, Paragraph):
            yield Paragraph(_shorten(block.text))
        elif isinstance(block, Table):
            rows = [[_shorten(cell) for cell in row] for row in block.rows[:_MAX_ROWS]]
            yield replace(block, rows=rows, note="", sortable=False)
        elif isinstance(block, BulletList):
            yield BulletList([Bullet(each.title, _shorten(each.text)) for each in block.points[:3]], block.title)
        elif isinstance(block, Collapsible):
            continue


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS].rsplit(' ', 1)[0]} …"


def _origin_sections(origin: Provenance | None) -> list[Section]:
    if origin is None:
        return [Section("Where this comes from", [Paragraph("Neither date, command nor files were noted.")])]
    rows = [("command", origin.command or "used from Python"), ("divulge", origin.environment.divulge)]
    files = sorted(origin.sources, key=lambda source: source.role)
    rows += [(f"{each.role}: {each.name}", f"SHA-256 {each.digest}") for each in files[:_MAX_FILES]]
    if len(files) > _MAX_FILES:
        rows.append((f"and {len(files) - _MAX_FILES} more", "in provenance.json"))
    return [Section("Where this comes from", [Table(("what", "value"), rows, sortable=False)])]
