"""Summaries of a reconstruction, in numbers and in a few sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.results import OpenStretch, ReconstructionSummary

if TYPE_CHECKING:
    from divulge.reconstruction.univariate import Reconstruction


def summarise(read: Reconstruction) -> ReconstructionSummary:
    """Summarise a reconstruction."""
    return ReconstructionSummary(
        verdict=verdict(read),
        tone="leak" if read.guaranteed else "unproven",
        candidates=tuple(read.candidates.tolist()),
        labels=tuple(read.labels.tolist()),
        rules=read.rules,
        multipliers=tuple(read.multipliers.tolist()),
        residual=float(read.residual),
        ambiguous=tuple(OpenStretch(part.low, part.high, part.label, part.mean) for part in read.ambiguous),
        proven=tuple(read.proven.tolist()),
        windows=read.windows,
        guaranteed=read.guaranteed,
        warnings=read.warnings,
        guarantee=str(read.guarantee),
        break_points=tuple(read.break_points.tolist()),
        margin=float(read.margin),
    )


def verdict(read: Reconstruction) -> str:
    """Describe a reconstruction in a few sentences."""
    count, proven = len(read.candidates), int(read.proven.sum())
    text = f"{count} candidates; they rebuild the weights up to a residual of {read.residual:.2g}."
    if read.guaranteed:
        text = (
            f"At least {read.guaranteed} of the {count} points read off the weights are training points "
            f"({proven} of them proven one by one), if {' and '.join(read.guarantee.assumes)}."
        )
    else:
        text = f"Nothing is proven: {'; '.join(read.warnings)}. Found, but not proven: {text}"
    if read.ambiguous:
        spans = ", ".join(f"[{part.low:.4g}, {part.high:.4g}]" for part in read.ambiguous)
        if read.guaranteed:
            text += f" Then training points also lie in {spans}, but the weights do not tell where."
        else:
            text += f" In {spans} the network stays on the margin, so points there cannot be told from others."
    return text
