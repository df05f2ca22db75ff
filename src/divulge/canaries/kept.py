"""The report of a finished test of canaries, from what its run directory keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge import results
from divulge.canaries import canary_page
from divulge.canaries.game import KIND
from divulge.dossier import Dossier
from divulge.report import origin
from divulge.results import CanarySummary, provenance

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.report import Page


def page(folder: Path) -> Page:
    """The report as data.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run.
    """
    return Dossier(folder).read(KIND, lambda: _page(folder))


def _page(folder: Path) -> Page:
    arrays = Dossier(folder).read_arrays("scores")
    told = results.read(folder, CanarySummary)
    shown = canary_page.page(told, arrays["scores"], arrays["included"])
    return origin.added(shown, provenance.read(folder))
