"""Protocol of the checks, and what they are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.auditing.prepared import AuditLog, PreparedAudit
    from divulge.evidence import Measurements
    from divulge.results import CheckFinding
    from divulge.types import Floats


@dataclass(frozen=True, slots=True, eq=False)
class ScoredAudit:
    """An audit whose records are scored.

    Args:
        prepared: target, records, recipes and seed.
        views: signals under target and reference models, of the records and of further versions of them.
        scores: recipe → scores of the candidates, ``[n]``.
        calibration: recipe → scores of the calibration records, ``[k]``.
        fpr: the levels reported.
        log: what was noted so far; a check may add warnings.
    """

    prepared: PreparedAudit
    views: Sequence[Measurements]
    scores: Mapping[str, Floats]
    calibration: Mapping[str, Floats]
    fpr: tuple[float, ...]
    log: AuditLog


class Check(Protocol):
    """A check of an audit."""

    @property
    def name(self) -> str:
        """Name on page, in timings and in the summary."""
        ...

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Return what was found; None where there is nothing to show."""
        ...
