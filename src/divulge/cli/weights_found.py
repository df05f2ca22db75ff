"""What `divulge weights` and `divulge reconstruct` found, in words and as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from divulge.margin import MarginDecision
    from divulge.reconstruction import Reconstruction
    from divulge.types import Bools, Floats, Selection


@dataclass(frozen=True, slots=True, eq=False)
class Examined:
    """What `divulge weights` found.

    Args:
        outputs: Φ of the candidates, ``[n]``.
        scores: the signal of the candidates, ``[n]``.
        nulls: Φ and signal of the known non-members, ``[2, z]``, or None.
        unexplained: share of the weights that no combination of the records' gradients rebuilds.
        margin: the margin that was used, or None.
        decisions: rule → its decision.
        signal: name of the signal.
        truth: bool ``[n]``, which candidates were trained on, where the file tells; only the chart shows it.
    """

    outputs: Floats
    scores: Floats
    nulls: Floats | None
    unexplained: float
    margin: float | None
    decisions: dict[str, MarginDecision | Selection]
    signal: str
    truth: Bools | None

    @property
    def verdict(self) -> str:
        """One or two sentences."""
        said = [f"{chosen.count} of {len(self.outputs)} candidates ({name})" for name, chosen in self.decisions.items()]
        called = f"Called members: {'; '.join(said)}. " if said else "No rule could decide: give --margin, --leaked "
        called += "" if said else "or --nonmembers. "
        return called + f"The records rebuild the weights up to a residual of {self.unexplained:.2g}."

    def summary(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "candidates": len(self.outputs),
            "margin": self.margin,
            "residual": self.unexplained,
            "signal": self.signal,
            "scores": self.scores.tolist(),
            "outputs": self.outputs.tolist(),
            "verdict": self.verdict,
            "decisions": {
                name: {
                    "selected": chosen.selected.nonzero()[0].tolist(),
                    "guarantee": str(chosen.guarantee),
                    "warnings": list(chosen.warnings),
                }
                for name, chosen in self.decisions.items()
            },
        }


def told(found: Reconstruction) -> str:
    """A reconstruction in a sentence or two."""
    text = (
        f"{len(found.candidates)} candidates, at least {found.guaranteed} of them training points at a KKT point; "
        f"they rebuild the weights up to a residual of {found.residual:.2g}."
    )
    if found.ambiguous:
        spans = ", ".join(f"[{part.low:.4g}, {part.high:.4g}]" for part in found.ambiguous)
        text += f" Training points lie in {spans}, but the weights do not tell where."
    return text
