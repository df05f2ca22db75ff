"""The report of a finished extraction, from what its run directory keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge import results
from divulge.dossier import Dossier
from divulge.extraction import extraction_page
from divulge.extraction.completed import Measured
from divulge.extraction.result import KIND
from divulge.report import origin
from divulge.results import ExtractionSummary, provenance

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.frames import Frame
    from divulge.report import Page


def page(folder: Path) -> Page:
    """The report as data.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run.
    """
    return Dossier(folder).read(KIND, lambda: _page(folder))


def documents(folder: Path) -> Frame:
    """One row per document; errors as for `page`."""
    return Dossier(folder).read(KIND, lambda: Dossier(folder).read_table("documents"))


def _page(folder: Path) -> Page:
    table = Dossier(folder).read_table("documents")
    sides = (Measured.of_table(table.where(table["set"] == name)) for name in ("member", "non-member"))
    shown = extraction_page.page(results.read(folder, ExtractionSummary), *sides)
    return origin.added(shown, provenance.read(folder))
