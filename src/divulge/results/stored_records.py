"""Training records that stand in a model's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FALSE_MATCH = 0.001
"""Bound on the chance that any match is reported for a model whose arrays do not depend on who is a member."""
SUSPICION = 0.05
"""The same for a suspicion, which is no proof and keeps a model from being cleared."""

Form = Literal["as they are", "as the model's own steps transform them", "up to a scale and shift of each column"]


@dataclass(frozen=True, slots=True)
class ArrayMatch:
    """Candidates in one array.

    Args:
        array: its name.
        form: in which form they stand there.
        members: number of members whose row stands in it.
        nonmembers: number of non-members whose row does.
        p_value: chance of so many more members, if the array had nothing to do with membership.
    """

    array: str
    form: Form
    members: int
    nonmembers: int
    p_value: float


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """Candidates that stand in a model.

    Args:
        found: number of members found, in any array that holds more than chance.
        members: number of members searched for.
        nonmembers_found: number of non-members found in the same arrays.
        nonmembers: number of non-members searched for.
        matches: the arrays that hold them, the fullest first.
        searches: number of searches, by which the bound on a false match is divided.
        arrays: number of arrays that the model holds.
        suspected: number of members found in an array where chance is unlikely (5 %, over all searches together) but
            not ruled out, as there are too few records for that.
        bound: bound on the chance of a false match, over all searches together.
        not_searched: why some of the model or of the records was not searched; empty where all was.
    """

    found: int
    members: int
    nonmembers_found: int
    nonmembers: int
    matches: tuple[ArrayMatch, ...]
    searches: int
    arrays: int
    suspected: int = 0
    bound: float = FALSE_MATCH
    not_searched: tuple[str, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether training records stand in the model beyond chance."""
        return self.found > 0

    @property
    def sentence(self) -> str:
        """What was found, in a sentence."""
        if self.suspected:
            return (
                f"{self.suspected:,} of {self.members:,} training records seem to stand in this file; {self.members:,} "
                f"members and {self.nonmembers:,} non-members are too few to rule out chance."
            )
        if not self.proven:
            return f"No training record was found in the model's {self.arrays:,} arrays."
        records = "record stands" if self.members == 1 else "records stand"
        return f"{self.found:,} of {self.members:,} training {records} in this file."

    @property
    def evidence(self) -> str:
        """Where and in which form they stand, and how sure that is; empty where there are none."""
        if not self.proven:
            return ""
        first = self.matches[0]
        others = f", and in {len(self.matches) - 1} other arrays" if len(self.matches) > 1 else ""
        return (
            f"The array {first.array} holds {first.members:,} of them {first.form}{others}; of {self.nonmembers:,} "
            f"non-members, {self.nonmembers_found:,} stand there. Chance would do this with a probability of at most "
            f"{first.p_value * self.searches:.2g} over all {self.searches:,} searches."
        )
