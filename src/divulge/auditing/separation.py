"""Records that stand in more than one set of an audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.evidence import concatenate_records
from divulge.report import in_words
from divulge.statistics.duplicate_groups import are_divided_whole, number_digests
from divulge.types import Records

if TYPE_CHECKING:
    from divulge.request import Duplicates
    from divulge.types import Bools, Ints

_MAX_LISTED = 3  # rows that a message shows


@dataclass(frozen=True, slots=True, eq=False)
class SeparatedSets:
    """The sets without what stood in several of them.

    Args:
        members: what remains of them.
        nonmembers: likewise.
        population: likewise.
        kept: which candidates (members, then non-members) remain, ``[n]``.
        duplicates: number of records that stood in more than one set.
        notes: what was done about it.
        groups: number of the distinct record that each remaining candidate is, where copies keep together and a group
            is one observation; None where each record is one.
    """

    members: Records
    nonmembers: Records
    population: Records
    kept: Bools
    duplicates: int = 0
    notes: tuple[str, ...] = ()
    groups: Ints | None = None


def separate_sets(sets: Mapping[str, Records], policy: Duplicates) -> SeparatedSets:
    """Exact duplicates across the sets make the truth untrue: refuse, drop or (knowingly) keep them.

    Duplicates within a set are judged by how they fell. Where whole groups of equal records are in one set more often
    than a random deal of records would put them there, they belong together: they stay, and each group counts once.
    Where records were dealt out one by one, the groups that happen to be in one set are more frequent the larger the
    set; "drop" then takes these out as well, or the sets would differ by it.

    Raises:
        divulge.InputError: there are some and the policy is "error"; nothing is left without them.
    """
    members, nonmembers, population = sets["members"], sets["nonmembers"], sets["population"]
    everything = concatenate_records([members, nonmembers, population])
    digests = everything.digests()
    values, copies = number_digests(digests), number_digests(digests, everything.y)
    origin = np.repeat([0, 1, 2], [len(members), len(nonmembers), len(population)])
    among_members, among_nonmembers, among_population = (np.isin(values, values[origin == at]) for at in range(3))
    candidates = origin < 2
    outside = among_members[origin == 1]
    held = (among_members | among_nonmembers)[origin == 2]
    count = int(outside.sum() + held.sum())
    kept = np.ones(int(candidates.sum()), dtype=bool)
    together = are_divided_whole(copies, origin)
    groups = copies[candidates] if together else None
    if not count:
        return SeparatedSets(
            members, nonmembers, population, kept, notes=_repetition_notes(groups, origin), groups=groups
        )
    counts = []
    if outside.any():
        counts.append(f"{int(outside.sum())} non-members are exact duplicates of members")
    if held.any():
        counts.append(f"{int(held.sum())} population records are exact duplicates of candidates")
    where = " and ".join(counts)
    if policy == "error":
        rows, whose = (outside, "non-member") if outside.any() else (held, "population")
        shown = ", ".join(map(str, np.flatnonzero(rows)[:_MAX_LISTED])) + ("…" if rows.sum() > _MAX_LISTED else "")
        raise InputError(
            f"duplicates: {where} ({whose} rows [{shown}]); a record cannot be both: remove them, or pass "
            "duplicates='drop' or 'keep'"
        )
    if policy == "keep":
        note = f"{where}; they were kept, which biases every number towards no leak"
        return SeparatedSets(
            members, nonmembers, population, kept, count, (note, *_repetition_notes(groups, origin)), groups
        )
    # Out of every set, or the sets would differ by what was taken out of them.
    kept &= ~among_population[candidates] & ~(among_members & among_nonmembers)[candidates]
    further = ""
    if not together:
        repeated = np.bincount(values)[values] > 1
        dealt = repeated & np.append(kept, ~held)
        kept, held = kept & ~repeated[: len(kept)], held | repeated[len(kept) :]
        if dealt.any():
            further = f", and {in_words.several(int(dealt.sum()), 'record')} with copies in their own set alone"
    inside, others = kept[: len(members)], kept[len(members) :]
    if not (inside.any() and others.any() and (~held).any()):
        raise InputError(f"duplicates: {where}; nothing is left after dropping them")
    note = f"{where}; all copies were dropped from every set{further}"
    left = None if groups is None else groups[kept]
    notes = (note, *_repetition_notes(left, origin[: len(kept)][kept]))
    return SeparatedSets(members[inside], nonmembers[others], population[~held], kept, count, notes, left)


def _repetition_notes(groups: Ints | None, origin: Ints) -> tuple[str, ...]:
    """Say how many candidates are copies that do not count again."""
    if groups is None:
        return ()
    surplus = len(groups) - len(np.unique(np.column_stack([groups, origin[: len(groups)]]), axis=0))
    if not surplus:
        return ()
    copies = in_words.several(surplus, "candidate")
    return (f"{copies} repeat another record of the same set; equal records count once in every estimate",)
