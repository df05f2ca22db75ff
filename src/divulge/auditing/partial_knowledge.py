"""Partly known records: the adversary's view of them, and their completion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from divulge import completion, seeds, store
from divulge.errors import InputError
from divulge.evidence import concatenate_records
from divulge.recipes import Imputed
from divulge.results import PartialKnowledgeSettings
from divulge.types import PartialRecords, Records

if TYPE_CHECKING:
    from divulge.auditing.inputs import AuditInputs
    from divulge.evidence import Layout
    from divulge.recipes import Recipe
    from divulge.types import Array, Bools, Floats

# Candidates that IN models are trained on are completed anew this many times; model i gets completion i mod this.
_N_TRAINING_COMPLETIONS = 8
# What is reported where every value is known.
ALL_KNOWN = PartialKnowledgeSettings(1.0, "none", 0, None)
# A coincidence less likely than this is none.
_COINCIDENCE_LEVEL = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class PartialKnowledge:
    """Known parts of candidates and calibration records, and completions of their unknown values.

    Args:
        visible: candidates, then calibration records; unknown values are gone.
        imputer: what completed them, fitted on the population.
        best: candidates, calibration and population, under masks drawn alike, with their single best completion.
        draws: random completions of candidates and calibration, one `Records` each.
        training_completions: random completions of the same, for training reference models.
        share: part of all values that is known.
    """

    visible: PartialRecords
    imputer: completion.FittedImputer
    best: Records
    draws: tuple[Records, ...]
    training_completions: tuple[Records, ...]
    share: float

    @property
    def views(self) -> tuple[Records, ...]:
        """Records that a model is queried on: the best completion, then the random draws."""
        return (self.best, *self.draws)

    def metadata(self) -> PartialKnowledgeSettings:
        """Return the metadata for the report."""
        return PartialKnowledgeSettings(
            self.share, self.imputer.name, len(self.draws), store.hash_values(self.visible.known)
        )

    def completed_by(self, recipe: Recipe) -> str:
        """Return the name of what completed the records for this recipe."""
        if isinstance(recipe.signal, str) or not recipe.needs_known:
            return self.imputer.name
        start = getattr(recipe.signal, "start", None)
        return "the attack itself" + ("" if start is None else f", from {start}")

    def training_data(self, population: Records, trained_on: Bools) -> tuple[Records, Bools]:
        """Return the records for reference models that see candidates, and the mask of each model's rows.

        The target was trained on the true record and is queried on a completion of it. So that IN models
        are in the same position, each is trained on a completion drawn at random and asked about others.

        Args:
            population: whole records.
            trained_on: bool ``[m, n + k + z]`` of candidates, calibration and population.
        """
        n_scored = len(self.visible)
        rows = np.zeros((len(trained_on), len(population) + n_scored * len(self.training_completions)), dtype=bool)
        rows[:, : len(population)] = trained_on[:, n_scored:]
        for model, candidate_mask in enumerate(trained_on[:, :n_scored]):
            start = len(population) + n_scored * (model % len(self.training_completions))
            rows[model, start : start + n_scored] = candidate_mask
        return concatenate_records([population, *self.training_completions]), rows

    def trained_on_mask(self, rows: Bools) -> Bools:
        """Invert `training_data`: bool ``[m, n + k + z]`` of candidates, calibration and population."""
        n_scored, n_models = len(self.visible), len(rows)
        n_population = len(self.best) - n_scored
        completion_rows = rows[:, n_population:].reshape(n_models, -1, n_scored)
        return np.hstack([completion_rows.any(axis=1), rows[:, :n_population]])


def complete_inputs(inputs: AuditInputs, imputer: Any, seed: int) -> tuple[AuditInputs, PartialKnowledge | None]:
    """Replace the unknown values of the inputs by completions; also return the `PartialKnowledge`.

    Candidates and calibration records come back completed. Where every value is known there is nothing to
    complete: the recipes become those for whole records, with a warning.

    Args:
        inputs: the inputs, with ``known``.
        imputer: an imputer, a function (see `divulge.completion.CustomImputer`) or None for the
            class-conditional Gaussian.
        seed: of masks and draws.

    Raises:
        divulge.InputError: a record of which nothing is known; candidates among the population.
    """
    known_mask = inputs.known
    if known_mask is None:
        return inputs, None
    if known_mask.all():
        note = "every value is known: these are attacks on whole records, and nothing was completed"
        recipes = tuple(_whole_record_recipe(recipe) for recipe in inputs.recipes)
        return replace(inputs, recipes=recipes, known=None, warnings=(*inputs.warnings, note)), None
    y = None if inputs.candidates.y is None else inputs.everything.y
    layout = inputs.layout
    masks = np.concatenate([known_mask, _resample_masks(known_mask, layout.total - len(known_mask), seed)])
    masked_records = PartialRecords(inputs.everything.x, y, masks)
    scored = layout.scored_rows
    visible = PartialRecords(masked_records.x[scored], None if y is None else y[scored], masks[scored])
    _check_disjoint(visible, layout, inputs.population.x)
    fitted_imputer = completion.imputer(completion.ConditionalGaussian() if imputer is None else imputer).fit(
        inputs.population
    )
    best_completion = inputs.everything.with_values(
        fitted_imputer.complete(masked_records)[0], template=inputs.population
    )
    partial_knowledge = PartialKnowledge(
        visible,
        fitted_imputer,
        best_completion,
        _sample_completions(fitted_imputer, visible, _count_draws(inputs.recipes), seeds.derive_seed(seed, "asked")),
        _sample_completions(
            fitted_imputer, visible, _count_training_completions(inputs.recipes), seeds.derive_seed(seed, "lessons")
        ),
        float(known_mask.mean()),
    )
    completed = replace(
        inputs,
        candidates=best_completion[layout.candidate_rows].with_ids(inputs.candidates.ids),
        calibration=best_completion[layout.calibration_rows],
        warnings=(*inputs.warnings, *fitted_imputer.warnings),
    )
    return completed, partial_knowledge


def _whole_record_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe for whole records; a signal that completes records is replaced by the loss."""
    signal = recipe.signal if isinstance(recipe.signal, str) or not recipe.needs_known else "negative-loss"
    return replace(recipe, signal=signal, imputed=Imputed(), partial=False)


def _count_draws(recipes: tuple[Recipe, ...]) -> int:
    return max(recipe.imputed.random for recipe in recipes)


def _count_training_completions(recipes: tuple[Recipe, ...]) -> int:
    return _N_TRAINING_COMPLETIONS if any(recipe.references == "in and out" for recipe in recipes) else 0


def _sample_completions(
    imputer: completion.FittedImputer, visible: PartialRecords, n_draws: int, seed: int
) -> tuple[Records, ...]:
    if not n_draws:
        return ()
    return tuple(Records(x, visible.y) for x in imputer.sample(visible, n_draws, seed))


def _resample_masks(masks: Bools, count: int, seed: int) -> Array:
    """Draw masks for other records from those of the candidates, independently of membership."""
    return masks[seeds.generator(seed, "masks").integers(len(masks), size=count)]


def _check_disjoint(visible: PartialRecords, layout: Layout, population: Floats) -> None:
    """Check that the population holds no candidates, which would complete themselves.

    Rows of a table may agree in few known values by coincidence; how often they do shows in the calibration
    records, which are masked alike and surely not in the population.
    """
    agrees = completion.overlap(visible, population)
    candidate_matches, calibration_matches = agrees[layout.candidate_rows], agrees[layout.calibration_rows]
    expected_share = (calibration_matches.sum() + 1) / (len(calibration_matches) + 1)
    if (
        candidate_matches.any()
        and stats.binom.sf(candidate_matches.sum() - 1, len(candidate_matches), expected_share) < _COINCIDENCE_LEVEL
    ):
        raise InputError(
            f"population: {candidate_matches.sum()} of {len(candidate_matches)} candidates agree with a population "
            f"record in every known value (among {len(calibration_matches)} records set aside, "
            f"{calibration_matches.sum()} do); the population must not contain candidates"
        )
