"""What an audit in progress works with, and what it notes down on the way."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from divulge.references.progress import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from divulge.auditing.inputs import AuditInputs
    from divulge.auditing.partial_knowledge import PartialKnowledge
    from divulge.evidence import Layout
    from divulge.references import Progress
    from divulge.results import TokenFit
    from divulge.targets import GivesLabels, GivesLogits, GivesTokens
    from divulge.types import Ints, Records

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class PreparedAudit:
    """All that the scores depend on, and where work is kept.

    Args:
        given: the checked inputs.
        target: the model under audit.
        classes: size of the label set (where the target gives labels alone, as far as it shows); 0 for a language
            model.
        references: how reference models are trained, or None.
        seed: of every random draw.
        views: candidates, calibration and population (the best completion of their unknown values), then random
            completions of the first two, then further versions of all.
        partial: what of the records is known, where it is not all.
        progress: called with the progress of training.
        pool: where finished reference models are kept, or None.
        texts: whether documents may be kept and shown.
        further: where in ``views`` the further versions of all records are that a recipe asks about, by its name.
        scratch: where signals too many for memory are mapped from disk, or None.
    """

    given: AuditInputs
    target: GivesLogits | GivesLabels | GivesTokens
    classes: int
    references: Any
    seed: int
    views: tuple[Records, ...]
    partial: PartialKnowledge | None = None
    progress: Progress = ignore_progress
    pool: Path | None = None
    scratch: Path | None = None
    texts: bool = True
    further: Mapping[str, range] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """Which rows of every array are whose."""
        return self.given.layout


@dataclass(slots=True)
class AuditLog:
    """The clock, the meters and the warnings of an audit; what the target calls or finds each record.

    Args:
        told: the class that the target calls each record, ``[n]``; None for a language model.
        token_fit: how well a language model knows its training documents; None for others.
    """

    timings: dict[str, float] = field(default_factory=dict)
    queries: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    engines: list[str] = field(default_factory=list)
    told: Ints | None = None
    token_fit: TokenFit | None = None

    def timed(self, name: str, work: Callable[[], T]) -> T:
        """What ``work`` returns; the seconds it took are added to those of ``name``."""
        began = time.perf_counter()
        result = work()
        self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - began
        return result
