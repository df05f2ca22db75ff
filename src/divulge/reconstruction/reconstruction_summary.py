"""A reconstruction in words and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.results import OpenStretch, ReconstructionSummary

if TYPE_CHECKING:
    from divulge.reconstruction.univariate import Reconstruction


def summarise(found: Reconstruction) -> ReconstructionSummary:
    """A reconstruction as a summary."""
    return ReconstructionSummary(
        verdict=verdict(found),
        tone="leak" if found.guaranteed else "unproven",
        candidates=tuple(found.candidates.tolist()),
        labels=tuple(found.labels.tolist()),
        rules=found.rules,
        multipliers=tuple(found.multipliers.tolist()),
        residual=float(found.residual),
        ambiguous=tuple(OpenStretch(part.low, part.high, part.label, part.mean) for part in found.ambiguous),
        proven=tuple(found.proven.tolist()),
        windows=found.windows,
        guaranteed=found.guaranteed,
        warnings=found.warnings,
        guarantee=str(found.guarantee),
        break_points=tuple(found.break_points.tolist()),
        margin=float(found.margin),
    )


def verdict(found: Reconstruction) -> str:
    """A reconstruction in a few sentences."""
    count, proven = len(found.candidates), int(found.proven.sum())
    text = f"{count} candidates; they rebuild the weights up to a residual of {found.residual:.2g}."
    if found.guaranteed:
        text = (
            f"At least {found.guaranteed} of {count} candidates are training points, {proven} of them each by "
            f"itself, if {' and '.join(found.guarantee.assumes)}."
        )
    else:
        text = f"Nothing is proven: {'; '.join(found.warnings)}. Found, but not proven: {text}"
    if found.ambiguous:
        spans = ", ".join(f"[{part.low:.4g}, {part.high:.4g}]" for part in found.ambiguous)
        text += f" Training points lie in {spans}, but the weights do not tell where."
    return text
