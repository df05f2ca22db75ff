"""Further versions of all records, which target and reference models are asked about where a recipe wants them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from divulge import errors
from divulge.errors import InputError
from divulge.types import Records
from divulge.validation import check_instance, check_integer, check_memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.recipes import Recipe
    from divulge.signals.versions import Versions


@dataclass(frozen=True, slots=True, eq=False)
class VersionViews:
    """Further versions of all records, each once, and where each recipe's are."""

    views: tuple[Records, ...] = ()
    places: Mapping[str, range] = field(default_factory=dict)


def make_version_views(recipes: Sequence[Recipe], records: Records, seed: int, first: int) -> VersionViews:
    """What the recipes ask about; ``first`` is the place of the first of them.

    Raises:
        divulge.InputError: records that a recipe's versions cannot be made of, versions that do not fit the records,
            more than memory holds.
    """
    made: list[tuple[Versions, range]] = []
    views: list[Records] = []
    places = {}
    for recipe in recipes:
        if recipe.versions is None:
            continue
        at = next((at for known, at in made if known == recipe.versions), None)
        if at is None:
            more = _make_versions(recipe.name, recipe.versions, records, seed)
            at = range(first + len(views), first + len(views) + len(more))
            made.append((recipe.versions, at))
            views += more
        places[recipe.name] = at
    return VersionViews(tuple(views), places)


def _make_versions(name: str, versions: Versions, records: Records, seed: int) -> tuple[Records, ...]:
    count = check_integer(versions.count, f"recipes: {name}: versions.count", least=1)
    check_memory(
        float(count * records.x.nbytes),
        f"recipes: {name}",
        f"there are {count} further versions of {len(records):,} records; use fewer records or versions",
    )
    with errors.user_code_errors(f"recipes: {name}"):
        more = tuple(versions.of(records, seed))
    for one in more:
        check_instance(one, f"recipes: {name}: a version", Records, "divulge.Records")
        if one.x.shape != records.x.shape:
            raise InputError(f"recipes: {name}: versions of shape {records.x.shape} are needed, got {one.x.shape}")
    if len(more) != count:
        raise InputError(f"recipes: {name}: {count} further versions are needed, got {len(more)}")
    return tuple(one if one.table is not None else records.with_values(one.x) for one in more)
