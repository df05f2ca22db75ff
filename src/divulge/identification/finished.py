"""A finished run: its summary, and the method that decided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from divulge import results
from divulge.decisions.controls import Control
from divulge.decisions.methods import named
from divulge.dossier import Dossier
from divulge.identification.decide import USED
from divulge.results import IdentificationSummary

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.decisions.methods import AdaDetect, StepUp

KIND = "identification"
Made = TypeVar("Made")


def read(directory: str | Path, make: Callable[[IdentificationSummary, Path], Made]) -> Made:
    """What is made of the summary of a run and of the files beside it, while nobody changes them.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run.
    """
    folder = Path(directory)
    return Dossier(folder).read(KIND, lambda: make(results.read(folder, IdentificationSummary), folder))


def method(summary: IdentificationSummary) -> AdaDetect | StepUp:
    """The method that decided, with its parameters."""
    return named(summary.used, USED, eta=summary.settings.eta, lam=summary.settings.lam)


def controls(summary: IdentificationSummary) -> list[Control]:
    """The controls that it was made on."""
    return [Control(c.name, c.p_value, c.level, c.says, c.auc, c.conclusive) for c in summary.controls]
