"""State of a running audit: checked inputs and models (`PreparedAudit`), timings and warnings (`AuditLog`)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from divulge.references.progress import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from divulge.auditing.inputs import AuditInputs
    from divulge.auditing.modality import Modality
    from divulge.auditing.partial_knowledge import PartialKnowledge
    from divulge.evidence import Layout
    from divulge.references import Progress
    from divulge.results import TokenFit
    from divulge.types import Ints, Records

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class PreparedAudit:
    """Everything the scores depend on, and the folders for intermediate results.

    Args:
        inputs: the checked inputs.
        modality: the kind of model that the target is.
        target: the model under audit.
        n_classes: number of classes (for a target that gives labels alone, as far as its answers show); 0 for a
            model without classes.
        references: training settings of the reference models, or None.
        seed: seed of every random draw.
        views: versions of the records that the models are queried on: candidates, calibration and population (with
            the best completion of unknown values), random completions of the first two, then further versions of all.
        partial_knowledge: known parts of the records and their completions, where not all values are known.
        progress: callback for the progress of training.
        pool: folder of finished reference models, or None.
        scratch_folder: folder for signals that exceed memory, or None.
        keep_texts: whether documents may be stored and shown.
        version_views: recipe name → positions in ``views`` of the further versions that the recipe queries.
    """

    inputs: AuditInputs
    modality: Modality
    target: Any
    n_classes: int
    references: Any
    seed: int
    views: tuple[Records, ...]
    partial_knowledge: PartialKnowledge | None = None
    progress: Progress = ignore_progress
    pool: Path | None = None
    scratch_folder: Path | None = None
    keep_texts: bool = True
    version_views: Mapping[str, range] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """Row ranges of candidates, calibration and population in every array."""
        return self.inputs.layout


@dataclass(slots=True)
class AuditLog:
    """Timings, query counts and warnings collected during an audit.

    Args:
        timings: name of a step → seconds.
        queries: signal name → number of queries.
        warnings: messages for the reader of the report.
        engines: engines that trained reference models.
        predicted_labels: class that the target predicts for each record, ``[n]``; None for a language model.
        token_fit: fit of a language model to its training documents; None for other targets.
    """

    timings: dict[str, float] = field(default_factory=dict)
    queries: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    engines: list[str] = field(default_factory=list)
    predicted_labels: Ints | None = None
    token_fit: TokenFit | None = None

    def run_timed(self, name: str, work: Callable[[], T]) -> T:
        """Return the result of ``work`` and add its seconds to those of ``name``."""
        start = time.perf_counter()
        result = work()
        self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - start
        return result
