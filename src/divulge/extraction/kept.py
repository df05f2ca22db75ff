"""The report of a finished extraction, from what its run directory keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from divulge import results
from divulge.errors import InputError
from divulge.extraction import extraction_page
from divulge.extraction.completed import Measured
from divulge.extraction.result import KIND, summarise_again
from divulge.report import origin
from divulge.results import ExtractionSummary, provenance
from divulge.run_directory import RunDirectory
from divulge.validation import format_exception

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.report import Page


def page(folder: Path) -> Page:
    """The report as data.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run.
    """
    return RunDirectory(folder).read(KIND, lambda: _page(folder))


def summary(folder: Path) -> ExtractionSummary:
    """Return the summary, with everything that documents decide computed from them again; errors as for `page`."""
    return RunDirectory(folder).read(KIND, lambda: _read(folder)[0])


def documents(folder: Path) -> pl.DataFrame:
    """One row per document; errors as for `page`."""
    return RunDirectory(folder).read(KIND, lambda: RunDirectory(folder).read_table("documents"))


def _page(folder: Path) -> Page:
    return origin.added(extraction_page.page(*_read(folder)), provenance.read(folder))


def _read(folder: Path) -> tuple[ExtractionSummary, Measured, Measured]:
    table = RunDirectory(folder).read_table("documents")
    try:
        members, nonmembers = (
            Measured.of_table(table.filter(table["set"] == name)) for name in ("member", "non-member")
        )
        told = summarise_again(results.read(folder, ExtractionSummary), members, nonmembers)
    except (KeyError, TypeError, ZeroDivisionError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{folder / 'documents.parquet'}: damaged ({format_exception(error)})") from None
    return told, members, nonmembers
