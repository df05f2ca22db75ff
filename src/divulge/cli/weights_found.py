"""What `divulge weights` and `divulge reconstruct` found, in words and as summaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.decisions import fdr
from divulge.decisions.counts import Counts
from divulge.decisions.methods import Storey
from divulge.results import CalledRecord, OpenStretch, ReconstructionSummary, RuleSummary, WeightsSummary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from divulge.margin import MarginDecision
    from divulge.reconstruction import Reconstruction
    from divulge.types import Array, Bools, Floats, Selection, Tone

_ERROR = 0.05  # share of runs without a member in which a leak may be reported


@dataclass(frozen=True, slots=True, eq=False)
class Examined:
    """What `divulge weights` found.

    Args:
        ids: names of the candidates, ``[n]``.
        outputs: Φ of the candidates, ``[n]``.
        scores: the signal of the candidates, ``[n]``.
        nulls: Φ and signal of the known non-members, ``[2, z]``, or None.
        unexplained: share of the weights that no combination of the records' gradients rebuilds.
        margin: the margin that was used, or None.
        decisions: rule → its decision.
        signal: name of the signal.
        truth: bool ``[n]``, which candidates were trained on, where the file tells; only the chart shows it.
        leaks: whether the candidates stand out from the known non-members, `beyond_chance`.
    """

    ids: Array
    outputs: Floats
    scores: Floats
    nulls: Floats | None
    unexplained: float
    margin: float | None
    decisions: dict[str, MarginDecision | Selection]
    signal: str
    truth: Bools | None
    leaks: bool

    @property
    def tone(self) -> Tone:
        """The tone of the verdict."""
        return "leak" if self.leaks else "unproven"

    @property
    def verdict(self) -> str:
        """Two or three sentences."""
        said = [
            f"{chosen.count} of {len(self.outputs)} candidates ({name}"
            f"{'' if chosen.guarantee.says else '; of which nothing is proven'})"
            for name, chosen in self.decisions.items()
        ]
        called = "; ".join(said) or "no rule could decide; give --margin, --leaked or --nonmembers"
        return (
            f"{'' if self.leaks else 'No leak is proven. '}Called members: {called}. "
            f"The records rebuild the weights up to a residual of {self.unexplained:.2g}."
        )

    def called(self) -> Iterator[CalledRecord]:
        """Every candidate that a rule calls a member, the highest score first."""
        rules = {name: chosen.selected for name, chosen in self.decisions.items()}
        chosen = np.any(list(rules.values()), axis=0) if rules else np.zeros(len(self.ids), bool)
        for i in np.flatnonzero(chosen)[np.argsort(-self.scores[chosen], kind="stable")]:
            names = tuple(name for name, selected in rules.items() if selected[i])
            yield CalledRecord(str(self.ids[i]), float(abs(self.outputs[i])), float(self.scores[i]), names)

    def write(self, path: Path) -> None:
        """Write every candidate with its output, its score and what each rule says of it, as Parquet."""
        import polars as pl

        from divulge import store

        columns = {"id": self.ids, "output": self.outputs, "score": self.scores}
        columns |= {name: chosen.selected for name, chosen in self.decisions.items()}
        with store.atomic(path) as draft:
            pl.DataFrame(columns).write_parquet(draft)

    def summary(self) -> WeightsSummary:
        """The same as a summary."""
        return WeightsSummary(
            verdict=self.verdict,
            tone=self.tone,
            candidates=len(self.outputs),
            margin=self.margin,
            residual=float(self.unexplained),
            signal=self.signal,
            ids=tuple(self.ids.tolist()),
            scores=tuple(self.scores.tolist()),
            outputs=tuple(self.outputs.tolist()),
            decisions={
                name: RuleSummary(
                    tuple(chosen.selected.nonzero()[0].tolist()),
                    tuple(self.ids[chosen.selected].tolist()),
                    str(chosen.guarantee),
                    chosen.guarantee.says,
                    tuple(chosen.warnings),
                )
                for name, chosen in self.decisions.items()
            },
            called=tuple(self.called()),
        )


def beyond_chance(scores: Floats, nonmembers: Floats, level: float) -> bool:
    """Whether some candidate is selected at a false discovery rate of ``level``, or of 5 % if that is less.

    Among candidates none of which was trained on, every discovery is false: this happens in a share ``level`` of runs
    at most. A selection at a laxer level, and any number of members called at a bounded FPR, happen by chance.

    Args:
        scores: of the candidates, ``[n]``.
        nonmembers: scores of known non-members, ``[z]``.
        level: the false discovery rate that was asked for.

    Examples:
        >>> [beyond_chance(np.array([99.0]), np.arange(float(nonmembers)), 0.5) for nonmembers in (5, 50)]
        [False, True]
    """
    rule = fdr.step_up(Counts.empty(nonmembers).add(scores), min(level, _ERROR), Storey())
    return bool((scores > rule.cut).any())


def reconstructed(found: Reconstruction) -> ReconstructionSummary:
    """A reconstruction as a summary."""
    return ReconstructionSummary(
        verdict=told(found),
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


def told(found: Reconstruction) -> str:
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


def candidate_rows(found: ReconstructionSummary) -> list[list[str]]:
    """Position, label, what is known, rules and multiplier of each candidate: what is proven first."""
    return [
        [
            f"{found.candidates[i]:.6g}",
            f"{found.labels[i]:+.0f}",
            "proven" if found.proven[i] else "found",
            ", ".join(found.rules[i]),
            f"{found.multipliers[i]:.4g}",
        ]
        for i in sorted(range(len(found.candidates)), key=lambda i: not found.proven[i])
    ]


def called_rows(found: WeightsSummary) -> list[list[str]]:
    """Name, |Φ|, score and rules of everyone called a member."""
    return [[one.id, f"{one.output:.4g}", f"{one.score:.4g}", ", ".join(one.rules)] for one in found.called]


def decision_rows(found: WeightsSummary) -> list[list[str]]:
    """Every rule, how many it calls members, and what it claims."""
    return [[name, str(len(rule.selected)), rule.guarantee] for name, rule in found.decisions.items()]


CANDIDATE_COLUMNS = ("x", "label", "training point", "rules", "multiplier")
