"""What `divulge score` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skipped:
    """Documents that a server could not take.

    Args:
        documents: how many.
        first: ids of the first ten, as text.
        reason: what the server said of the first.
    """

    documents: int
    first: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ScoringSummary:
    """Documents that were scored.

    Args:
        documents: how many there are.
        unscored: those without a score: too short for one, or skipped.
        resumed: those that an earlier run had finished.
        skipped: those that the server could not take; None without any.
        key: what decides the numbers.
    """

    documents: int
    unscored: int
    resumed: int
    skipped: Skipped | None
    key: Mapping[str, object]
