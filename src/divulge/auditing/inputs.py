"""Everything a user can get wrong, found before any work starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from divulge import checks, seeds
from divulge import recipes as book
from divulge.evidence import concatenate
from divulge.types import Records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.recipes import Recipe
    from divulge.types import Array, Bools

Duplicates: TypeAlias = Literal["error", "drop", "keep"]

# Rows compared between the sets are shown up to this many in a message.
_SHOWN = 3


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """What an audit works on, checked.

    Args:
        candidates: members, then non-members.
        members: bool ``[n]``, the truth.
        calibration: part of the population that nothing is trained on; its scores are the nulls.
        population: the rest: reference models and regressors learn from it.
        recipes: what to run.
        unseen_classes: classes the auditor holds no records of.
        warnings: what had to be mended.
        duplicates: number of records that stood in more than one set.
        groups: a subgroup's name for each candidate, or None.
    """

    candidates: Records
    members: Bools
    calibration: Records
    population: Records
    recipes: tuple[Recipe, ...]
    unseen_classes: tuple[int, ...]
    warnings: tuple[str, ...]
    duplicates: int
    groups: Array | None

    @property
    def everything(self) -> Records:
        """Candidates, calibration, population, in this order."""
        return concatenate([self.candidates, self.calibration, self.population])


def check(
    *,
    members: Records,
    nonmembers: Records,
    population: Records | None,
    recipes: Sequence[Any],
    references: object,
    unseen_classes: Sequence[int],
    fpr: Sequence[float],
    calibration: float,
    duplicates: Duplicates,
    groups: Any,
    seed: int,
) -> Inputs:
    """`Inputs` from what the user handed in.

    Raises:
        divulge.InputError: see `divulge.audit`.
    """
    checks.choice(duplicates, "duplicates", ("error", "drop", "keep"))
    checks.number(calibration, "calibration", above=0, below=1)
    wanted = _recipes(recipes, references, seed)
    if population is None:
        raise checks.InputError(
            "population: records that the target was surely not trained on are needed, for reference models and nulls"
        )
    if groups is not None and len(groups) != len(members) + len(nonmembers):
        raise checks.InputError(
            f"groups: {len(members) + len(nonmembers)} names are needed (members, then non-members), got {len(groups)}"
        )
    sets = {"members": members, "nonmembers": nonmembers, "population": population}
    _same_kind(sets)
    _distinct_ids(sets)
    _needs_labels(wanted, sets)
    unseen = _unseen(unseen_classes, members, nonmembers, population, wanted)
    group_parts = _split_groups(groups, len(members))
    members, nonmembers, population, group_parts, count, notes = _separate(sets, group_parts, duplicates)
    for level in fpr:
        _enough(level, len(nonmembers))
    notes += _scarce(unseen, fpr, members, nonmembers)
    named = _identified(members, nonmembers)
    kept, held = _halves(population, calibration, seed)
    return Inputs(
        candidates=named,
        members=np.arange(len(named)) < len(members),
        calibration=population[held],
        population=population[kept],
        recipes=wanted,
        unseen_classes=unseen,
        warnings=tuple(notes),
        duplicates=count,
        groups=None if group_parts is None else np.concatenate(group_parts),
    )


def _recipes(recipes: Sequence[Any], references: object, seed: int) -> tuple[Recipe, ...]:
    if isinstance(recipes, str) or not len(recipes):
        raise checks.InputError(f"recipes: at least 1 name in a list is needed, got {recipes!r}")
    found = tuple(book.seeded(book.resolve(wanted), seed) for wanted in recipes)
    names = [recipe.name for recipe in found]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise checks.InputError(f"recipes: each may be named once, got {', '.join(sorted(repeated))} more than once")
    needing = [recipe.name for recipe in found if recipe.references != "none"]
    if needing and references is None:
        raise checks.InputError(
            f"references: the recipes {', '.join(needing)} need reference models; "
            "give references=divulge.references.Train(make_model, count=16, epochs=…)"
        )
    return found


def _same_kind(sets: dict[str, Records]) -> None:
    shapes = {name: found.x.shape[1:] for name, found in sets.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise checks.InputError(f"records: all sets must have one shape, got {listed}")
    labelled = {name: found.y is not None for name, found in sets.items()}
    if len(set(labelled.values())) > 1:
        without = ", ".join(name for name, has in labelled.items() if not has)
        raise checks.InputError(f"records: every set must have labels, or none; {without} has none")


def _distinct_ids(sets: dict[str, Records]) -> None:
    for first, second in (("members", "nonmembers"), ("members", "population"), ("nonmembers", "population")):
        ids, others = sets[first].ids, sets[second].ids
        shared = [] if ids is None or others is None else np.intersect1d(ids, others)
        if len(shared):
            raise checks.InputError(
                f"{first}, {second}: {len(shared)} ids stand in both (first: {shared[0].item()!r}); "
                "a record can be in one set only"
            )


def _needs_labels(recipes: Sequence[Recipe], sets: dict[str, Records]) -> None:
    needing = [recipe.name for recipe in recipes if recipe.needs_labels]
    if needing and sets["members"].y is None:
        usable = [recipe.name for recipe in book.recipes() if not recipe.needs_labels]
        raise checks.InputError(
            f"recipes: {', '.join(needing)} read the records' labels, but there are none; "
            f"without labels use {', '.join(usable)}"
        )


def _unseen(
    classes: Sequence[int], members: Records, nonmembers: Records, population: Records, recipes: Sequence[Recipe]
) -> tuple[int, ...]:
    if not len(classes):
        return ()
    if members.y is None or nonmembers.y is None or population.y is None:
        raise checks.InputError(f"unseen_classes: {tuple(classes)} needs labelled records, but there are no labels")
    wanted = tuple(sorted({int(c) for c in classes}))
    present = set(np.unique(np.concatenate([members.y, nonmembers.y])).tolist())
    if absent := [c for c in wanted if c not in present]:
        raise checks.InputError(
            f"unseen_classes: {absent[0]} is not among the candidates' classes {sorted(present)}; nothing to audit"
        )
    if present | set(np.unique(population.y).tolist()) <= set(wanted):
        raise checks.InputError(
            f"unseen_classes: all classes {list(wanted)} are unseen; the auditor must hold at least one to learn from"
        )
    held = {c: int((population.y == c).sum()) for c in wanted}
    if any(held.values()):
        listed = ", ".join(f"{count} records of class {c}" for c, count in held.items() if count)
        raise checks.InputError(
            f"unseen_classes: the population holds {listed}, so the class is not unseen; "
            "leave these records out of the population"
        )
    if online := [recipe.name for recipe in recipes if recipe.references == "in and out"]:
        raise checks.InputError(
            f"recipes: {', '.join(online)} train reference models on the candidates, which an auditor who lacks "
            "their classes cannot do; use the offline form"
        )
    return wanted


def _scarce(classes: Sequence[int], fpr: Sequence[float], members: Records, nonmembers: Records) -> list[str]:
    """What cannot be said of the unseen classes, and what could have been seen there all the same."""
    if not classes or members.y is None or nonmembers.y is None:
        return []
    inside, outside = (int(np.isin(part.y, classes).sum()) for part in (members, nonmembers))
    level = min(fpr)
    if outside * level >= 1:
        return []
    power = ""
    if inside and outside:
        from divulge.evaluation import smallest_detectable

        power = f"; what they could show: {smallest_detectable(inside, outside, max(fpr))}"
    return [
        f"fpr: {level:g} needs at least {int(np.ceil(1 / level))} non-members of the unseen classes {list(classes)}, "
        f"got {outside} (and {inside} members), so no TPR is given there at this level{power}"
    ]


def _split_groups(groups: Any, members: int) -> tuple[Array, Array] | None:
    if groups is None:
        return None
    names = np.asarray(groups).astype(str)
    return names[:members], names[members:]


def _separate(
    sets: dict[str, Records], groups: tuple[Array, Array] | None, policy: Duplicates
) -> tuple[Records, Records, Records, tuple[Array, Array] | None, int, list[str]]:
    """Exact duplicates across the sets make the truth untrue: refuse, drop or (knowingly) keep them."""
    from divulge.evaluation import blind

    members, nonmembers, population = sets["members"], sets["nonmembers"], sets["population"]
    notes: list[str] = []
    outside = _mask(blind.duplicates(members.x, nonmembers.x).nonmembers, len(nonmembers))
    candidates = concatenate([members, nonmembers])
    held = _mask(blind.duplicates(candidates.x, population.x).nonmembers, len(population))
    count = int(outside.sum() + held.sum())
    if not count:
        return members, nonmembers, population, groups, 0, notes
    found = (
        f"{int(outside.sum())} non-members are exact duplicates of members and {int(held.sum())} population records "
        "of candidates"
    )
    if policy == "error":
        shown = [int(row) for row in np.flatnonzero(outside)[:_SHOWN]]
        raise checks.InputError(
            f"duplicates: {found} (non-member rows {shown}…); a record cannot be both: remove them, or pass "
            "duplicates='drop' or 'keep'"
        )
    if policy == "keep":
        notes.append(f"{found}; they were kept, which biases every number towards no leak")
        return members, nonmembers, population, groups, count, notes
    notes.append(f"{found}; they were dropped from non-members and population")
    if outside.all() or held.all():
        raise checks.InputError(f"duplicates: {found}; nothing is left after dropping them")
    if groups is not None:
        groups = (groups[0], groups[1][~outside])
    return members, nonmembers[~outside], population[~held], groups, count, notes


def _mask(rows: Array, length: int) -> Bools:
    mask = np.zeros(length, dtype=bool)
    mask[rows] = True
    return mask


def _enough(fpr: float, nonmembers: int) -> None:
    checks.number(fpr, "fpr", above=0, below=1)
    if nonmembers * fpr < 1:
        raise checks.InputError(
            f"fpr: {fpr:g} needs at least {int(np.ceil(1 / fpr))} non-members, got {nonmembers}; "
            "ask for a larger level or bring more non-members"
        )


def _identified(members: Records, nonmembers: Records) -> Records:
    """Members, then non-members, with an id each."""
    both = concatenate([members, nonmembers])
    if both.ids is not None:
        return both
    names = [f"member-{i}" for i in range(len(members))] + [f"nonmember-{i}" for i in range(len(nonmembers))]
    return Records(both.x, both.y, np.array(names))


def _halves(population: Records, share: float, seed: int) -> tuple[Array, Array]:
    n = len(population)
    held = max(1, round(share * n))
    if n - held < 2:
        raise checks.InputError(f"population: at least 3 records are needed, got {n}")
    order = seeds.generator(seed, "calibration").permutation(n)
    return np.sort(order[held:]), np.sort(order[:held])
