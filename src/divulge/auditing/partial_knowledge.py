"""Records of which only part is known: what the adversary sees of them, and how it is completed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from divulge import completion, seeds, store
from divulge.errors import InputError
from divulge.evidence import concatenate_records
from divulge.recipes import Imputed
from divulge.results import PartlyKnown
from divulge.types import PartialRecords, Records

if TYPE_CHECKING:
    from divulge.auditing.inputs import AuditInputs
    from divulge.evidence import Layout
    from divulge.recipes import Recipe
    from divulge.types import Array, Bools, Floats

# Candidates that IN models are trained on are completed anew this many times; model i gets completion i mod this.
_N_TRAINING_COMPLETIONS = 8
# What is reported where every value is known.
ALL_KNOWN = PartlyKnown(1.0, "none", 0, None)
# A coincidence less likely than this is none.
_COINCIDENCE_LEVEL = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class PartialKnowledge:
    """What the adversary has: parts of the candidates and of the calibration records, and completions of them.

    Args:
        seen: candidates, then calibration records; unknown values are gone.
        imputer: what completed them, fitted on the population.
        best: candidates, calibration and population, under masks drawn alike, with their single best completion.
        draws: random completions of candidates and calibration, one `Records` each.
        lessons: further ones, for models to be trained on.
        share: part of all values that is known.
    """

    seen: PartialRecords
    imputer: completion.FittedImputer
    best: Records
    draws: tuple[Records, ...]
    lessons: tuple[Records, ...]
    share: float

    @property
    def views(self) -> tuple[Records, ...]:
        """All that a model is queried on: the best completion, then the draws."""
        return (self.best, *self.draws)

    def about(self) -> PartlyKnown:
        """For the report."""
        return PartlyKnown(self.share, self.imputer.name, len(self.draws), store.hash_values(self.seen.known))

    def completer(self, recipe: Recipe) -> str:
        """What completed the records for this recipe."""
        if isinstance(recipe.signal, str) or not recipe.needs_known:
            return self.imputer.name
        start = getattr(recipe.signal, "start", None)
        return "the attack itself" + ("" if start is None else f", from {start}")

    def training(self, population: Records, trained_on: Bools) -> tuple[Records, Bools]:
        """Records for reference models that see candidates, and which of them each model is trained on.

        The target was trained on the true record and is queried on a completion of it. So that IN models
        are in the same position, each is trained on a completion drawn at random and asked about others.

        Args:
            population: whole records.
            trained_on: bool ``[m, n + k + z]`` of candidates, calibration and population.
        """
        held = len(self.seen)
        rows = np.zeros((len(trained_on), len(population) + held * len(self.lessons)), dtype=bool)
        rows[:, : len(population)] = trained_on[:, held:]
        for model, inside in enumerate(trained_on[:, :held]):
            first = len(population) + held * (model % len(self.lessons))
            rows[model, first : first + held] = inside
        return concatenate_records([population, *self.lessons]), rows

    def trained_on(self, rows: Bools) -> Bools:
        """The inverse: bool ``[m, n + k + z]`` of candidates, calibration and population, from rows trained on."""
        held, models = len(self.seen), len(rows)
        z = len(self.best) - held
        lessons = rows[:, z:].reshape(models, -1, held)
        return np.hstack([lessons.any(axis=1), rows[:, :z]])


def complete_inputs(given: AuditInputs, imputer: Any, seed: int) -> tuple[AuditInputs, PartialKnowledge | None]:
    """What remains of the inputs when unknown values are not read, and completions of the records.

    Candidates and calibration records come back completed. Where every value is known there is nothing to
    complete: the recipes become those for whole records, with a warning.

    Args:
        given: the inputs, with ``known``.
        imputer: an imputer, a function (see `divulge.completion.CustomImputer`) or None for the
            class-conditional Gaussian.
        seed: of masks and draws.

    Raises:
        divulge.InputError: a record of which nothing is known; candidates among the population.
    """
    known = given.known
    if known is None:
        return given, None
    if known.all():
        note = "every value is known: these are attacks on whole records, and nothing was completed"
        whole = tuple(_whole_record_recipe(recipe) for recipe in given.recipes)
        return replace(given, recipes=whole, known=None, warnings=(*given.warnings, note)), None
    y = None if given.candidates.y is None else given.everything.y
    layout = given.layout
    masks = np.concatenate([known, _resample_masks(known, layout.total - len(known), seed)])
    everyone = PartialRecords(given.everything.x, y, masks)
    scored = layout.of_scored
    seen = PartialRecords(everyone.x[scored], None if y is None else y[scored], masks[scored])
    _check_disjoint(seen, layout, given.population.x)
    fitted = completion.imputer(completion.ConditionalGaussian() if imputer is None else imputer).fit(given.population)
    best = given.everything.with_values(fitted.complete(everyone)[0], template=given.population)
    partial = PartialKnowledge(
        seen,
        fitted,
        best,
        _sample_completions(fitted, seen, _count_draws(given.recipes), seeds.derive_seed(seed, "asked")),
        _sample_completions(
            fitted, seen, _count_training_completions(given.recipes), seeds.derive_seed(seed, "lessons")
        ),
        float(known.mean()),
    )
    completed = replace(
        given,
        candidates=best[layout.of_candidates].with_ids(given.candidates.ids),
        calibration=best[layout.of_calibration],
        warnings=(*given.warnings, *fitted.warnings),
    )
    return completed, partial


def _whole_record_recipe(recipe: Recipe) -> Recipe:
    """The same for whole records; a signal that completes them has nothing to do and gives way to the loss."""
    signal = recipe.signal if isinstance(recipe.signal, str) or not recipe.needs_known else "negative-loss"
    return replace(recipe, signal=signal, imputed=Imputed(), partial=False)


def _count_draws(recipes: tuple[Recipe, ...]) -> int:
    return max(recipe.imputed.random for recipe in recipes)


def _count_training_completions(recipes: tuple[Recipe, ...]) -> int:
    return _N_TRAINING_COMPLETIONS if any(recipe.references == "in and out" for recipe in recipes) else 0


def _sample_completions(
    fitted: completion.FittedImputer, seen: PartialRecords, draws: int, seed: int
) -> tuple[Records, ...]:
    if not draws:
        return ()
    return tuple(Records(x, seen.y) for x in fitted.sample(seen, draws, seed))


def _resample_masks(known: Bools, count: int, seed: int) -> Array:
    """Masks for other records, drawn from those of the candidates: independent of membership, exchangeable."""
    return known[seeds.generator(seed, "masks").integers(len(known), size=count)]


def _check_disjoint(seen: PartialRecords, layout: Layout, population: Floats) -> None:
    """Auxiliary records that are candidates would complete themselves.

    Rows of a table may agree in few known values by coincidence; how often they do shows in the calibration
    records, which are masked alike and surely not in the population.
    """
    agrees = completion.overlap(seen, population)
    own, others = agrees[layout.of_candidates], agrees[layout.of_calibration]
    expected = (others.sum() + 1) / (len(others) + 1)
    if own.any() and stats.binom.sf(own.sum() - 1, len(own), expected) < _COINCIDENCE_LEVEL:
        raise InputError(
            f"population: {own.sum()} of {len(own)} candidates agree with a population record in every known value "
            f"(among {len(others)} records set aside, {others.sum()} do); the population must not contain candidates"
        )
