"""What is recorded of an audit besides its scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.auditing import active, settings
from divulge.results import Conducted, Sizes
from divulge.signals import internals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.attacks import Scored
    from divulge.auditing.case import Case, Log
    from divulge.recipes import Recipe


def recipes(case: Case, log: Log, scored: Mapping[str, Scored], fpr: Sequence[float]) -> dict[str, Conducted]:
    """Every recipe by its name: what it read, what it was given, what it asked."""
    signals = active.names(case.given.recipes)
    return {
        recipe.name: Conducted(
            signal=recipe.signal_name,
            reads=recipe.reads,
            attack=settings.attack(recipe),
            references=recipe.references,
            training=settings.training(case.references) if recipe.needs_training else None,
            summary=recipe.summary,
            queries=log.queries.get(signals[recipe.name], _queries(case, recipe)),
            raw_thresholds=_raw_thresholds(scored[recipe.name], fpr),
            completed_by=None if case.partial is None else case.partial.completer(recipe),
            chosen=scored[recipe.name].chosen,
        )
        for recipe in case.given.recipes
    }


def counts(case: Case) -> Sizes:
    """How many records of each kind, and classes."""
    given = case.given
    return Sizes(
        members=int(given.truth.sum()),
        nonmembers=int((~given.truth).sum()),
        population=given.layout.population,
        calibration=given.layout.calibration,
        classes=case.classes,
    )


def _raw_thresholds(scored: Scored, fpr: Sequence[float]) -> dict[str, float]:
    """Thresholds that the attack would set by itself, by level; none where it names none."""
    return {} if scored.nominal is None else {f"{level:g}": scored.nominal(level) for level in fpr}


def _queries(case: Case, recipe: Recipe) -> int:
    """Records the target is queried on for this recipe."""
    versions = 1 + len(case.further.get(recipe.name, ()))
    asked = versions + internals.count_passes(recipe.inside)
    return recipe.imputed.random * case.layout.scored or asked * case.layout.total
