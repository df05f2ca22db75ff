"""What comes back: readings of answers, and the result of an attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from divulge.types import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What a decoder makes of the answers it has.

    Args:
        labels: ``[n]``.
        certain: no other label explains the answers even if the noise were twice what was declared.
        proven: the label follows from the answers if the noise kept within what was declared.
        residual: distance of each answer from what the labels say it should be, NaN where not asked.
    """

    labels: Ints
    certain: Bools
    proven: Bools
    residual: Floats


@dataclass(frozen=True, slots=True, eq=False)
class LabelInference:
    """The labels an attack recovered, and how far to trust each.

    Args:
        labels: ``[n]``; a guess where nothing is known; -1 for rows that a hidden split does not score.
        certain: bool ``[n]``; True where no other label explains the answers even if the noise were **twice**
            the declared bound. A wrong label is never marked certain within that range. For stochastic noise,
            where nothing is ever proven: where the chance of error is below one in a million.
        proven: bool ``[n]``; True where the label follows if the noise kept within the declared bound, and no
            answer contradicts that. A plan that spends all the range it has proves more labels than it can be
            certain of; ask `design` for ``guard`` to close the gap.
        queries: how many answers were used.
        residual: ``[queries]``, distance of each answer from the one the labels imply, in the oracle's unit.
        answers: ``[count]``, what the oracle said, NaN where it was not asked.
    """

    labels: Ints
    certain: Bools
    proven: Bools
    queries: int
    residual: Floats
    answers: Floats

    @property
    def complete(self) -> bool:
        """All queries of the plan were answered."""
        return self.queries == len(self.answers)

    def __repr__(self) -> str:
        n = len(self.labels)
        return (
            f"LabelInference({n} labels from {self.queries} queries, "
            f"{int(self.certain.sum())} certain, {int(self.proven.sum())} proven)"
        )
