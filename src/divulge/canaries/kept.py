"""The report of a finished test of canaries, from the scores that its run directory keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from divulge import results
from divulge.canaries import canary_page
from divulge.canaries.game import KIND, CanaryAudit
from divulge.canaries.proof import prove_again
from divulge.errors import InputError
from divulge.report import origin
from divulge.results import CanarySummary, provenance
from divulge.run_directory import RunDirectory
from divulge.validation import check_mask, check_vector

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.report import Page
    from divulge.types import Bools, Floats

# Of a summary, what the scores say; the rest describes what was done.
_COMPUTED = (
    *("verdict", "tone", "answer", "bound", "others", "most", "would_see", "guarantee"),
    *("canaries", "included", "mean_exposure", "largest_exposure"),
)


def page(folder: Path) -> Page:
    """Return the report as data.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run.
    """
    return RunDirectory(folder).read(KIND, lambda: _page(folder))


def summary(folder: Path) -> CanarySummary:
    """Return the summary of a finished run, with everything that scores decide computed from them again.

    Errors as for `page`.
    """
    return RunDirectory(folder).read(KIND, lambda: _read(folder)[0])


def _page(folder: Path) -> Page:
    shown = canary_page.page(*_read(folder))
    return origin.added(shown, provenance.read(folder))


def _read(folder: Path) -> tuple[CanarySummary, Floats, Bools]:
    arrays, told = RunDirectory(folder).read_arrays("scores"), results.read(folder, CanarySummary)
    if missing := {"scores", "included"} - set(arrays):
        raise InputError(f"{folder / 'scores.npz'}: damaged, lacks {', '.join(sorted(missing))}")
    try:
        scores = check_vector(arrays["scores"], "scores")
        included = check_mask(arrays["included"], "included", (len(scores),))
        proof = prove_again(scores, included, told)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    audit = CanaryAudit(scores, included, proof, told.recipe, told.kind_of_canary, told.trained_on)
    computed = audit.summary()
    return replace(told, **{name: getattr(computed, name) for name in _COMPUTED}), scores, included
