"""Records that stand in more than one set of an audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks
from divulge.evaluation import blind
from divulge.evidence import concatenate
from divulge.types import Records

if TYPE_CHECKING:
    from divulge.request import Duplicates
    from divulge.types import Array, Bools

_SHOWN = 3  # rows that a message shows


@dataclass(frozen=True, slots=True, eq=False)
class Separated:
    """The sets without what stood in several of them.

    Args:
        members: what remains of them.
        nonmembers: likewise.
        population: likewise.
        kept: which candidates (members, then non-members) remain, ``[n]``.
        duplicates: number of records that stood in more than one set.
        notes: what was done about it.
    """

    members: Records
    nonmembers: Records
    population: Records
    kept: Bools
    duplicates: int = 0
    notes: tuple[str, ...] = ()


def separate(sets: Mapping[str, Records], policy: Duplicates) -> Separated:
    """Exact duplicates across the sets make the truth untrue: refuse, drop or (knowingly) keep them.

    Raises:
        divulge.InputError: there are some and the policy is "error"; nothing is left without them.
    """
    members, nonmembers, population = sets["members"], sets["nonmembers"], sets["population"]
    both = blind.duplicates(members.x, nonmembers.x)
    candidates = concatenate([members, nonmembers])
    beyond = blind.duplicates(candidates.x, population.x)
    outside, held = _mask(both.nonmembers, len(nonmembers)), _mask(beyond.nonmembers, len(population))
    count = int(outside.sum() + held.sum())
    kept = np.ones(len(candidates), dtype=bool)
    if not count:
        return Separated(members, nonmembers, population, kept)
    where = (
        f"{int(outside.sum())} non-members are exact duplicates of members and {int(held.sum())} population records "
        "of candidates"
    )
    if policy == "error":
        shown = [int(row) for row in np.flatnonzero(outside)[:_SHOWN]]
        raise checks.InputError(
            f"duplicates: {where} (non-member rows {shown}…); a record cannot be both: remove them, or pass "
            "duplicates='drop' or 'keep'"
        )
    if policy == "keep":
        note = f"{where}; they were kept, which biases every number towards no leak"
        return Separated(members, nonmembers, population, kept, count, (note,))
    # Out of every set, or the sets would differ by what was taken out of them.
    kept[both.members] = kept[beyond.members] = False
    kept[len(members) :][outside] = False
    inside, others = kept[: len(members)], kept[len(members) :]
    if not (inside.any() and others.any() and (~held).any()):
        raise checks.InputError(f"duplicates: {where}; nothing is left after dropping them")
    note = f"{where}; all copies were dropped from every set"
    return Separated(members[inside], nonmembers[others], population[~held], kept, count, (note,))


def _mask(rows: Array, length: int) -> Bools:
    mask = np.zeros(length, dtype=bool)
    mask[rows] = True
    return mask
