"""What an attack recovered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from divulge.labels.contradiction import Contradiction
    from divulge.types import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class LabelInference:
    """The labels an attack recovered, and how far to trust each.

    Args:
        labels: ``[n]``; a guess where nothing is known; -1 for rows that a hidden split does not score.
        certain: bool ``[n]``; True where no other label explains the answers even if the noise were **twice**
            the declared bound. A wrong label is never marked certain within that range. For stochastic noise,
            where nothing is ever proven: where the chance of error is below one in a million. Like ``proven``
            False everywhere once the answers contradict what was declared.
        proven: bool ``[n]``; True where the label follows if the oracle is what was declared, and no
            answer contradicts that. A plan that spends all the range it has proves more labels than it can be
            certain of; ask `design` for ``guard`` to close the gap.
        queries: how many answers were used.
        residual: ``[queries]``, distance of each answer from the one the labels imply, in the oracle's unit.
        answers: ``[count]``, what the oracle said, NaN where it was not asked.
        contradiction: why the answers cannot come from the oracle that was declared; None where nothing speaks
            against it.
        checked: the control query was answered as the labels imply.
    """

    labels: Ints
    certain: Bools
    proven: Bools
    queries: int
    residual: Floats
    answers: Floats
    contradiction: Contradiction | None = None
    checked: bool = False

    @property
    def complete(self) -> bool:
        """All queries of the plan were answered, or all that a search needed."""
        return self.queries == len(self.answers) or bool(self.proven.all())

    def __repr__(self) -> str:
        n = len(self.labels)
        if self.contradiction is not None:
            return f"LabelInference({self.contradiction})"
        return (
            f"LabelInference({n} labels from {self.queries} queries, "
            f"{int(self.certain.sum())} certain, {int(self.proven.sum())} proven)"
        )
