"""From measurements to the scores of one recipe, which depend on nothing that other recipes brought along."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.attacks import Need, Scored, adapt
from divulge.errors import InputError
from divulge.evidence import average_evidence
from divulge.validation import check_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.evidence import Measurements
    from divulge.recipes import Recipe
    from divulge.types import Evidence, Floats


def score_recipe(recipe: Recipe, signal: str, views: Sequence[Measurements], further: Sequence[int] = ()) -> Scored:
    """The recipe's scores of candidates and calibration records, and what its attack has to say about them.

    Args:
        recipe: what is run.
        signal: what its signal is called in the measurements.
        views: measurements of the best completion, then of each draw; where each draw is attacked alone, scores are
            the mean. Then those of further versions.
        further: which of them are of versions that the recipe asks about.

    Raises:
        divulge.InputError: an attack that returns anything other than one finite score per record.
    """
    attack = adapt(recipe.attack)
    runs = [attack.run(evidence) for evidence in recipe_evidence(recipe, signal, views, further)]
    scores = np.mean([_check_scores(recipe, one, views[0].layout.scored) for one in runs], axis=0)
    notes = dict.fromkeys(note for one in runs for note in one.notes)
    return Scored(scores, tuple(notes), runs[0].nominal, chosen=runs[0].chosen)


def recipe_evidence(
    recipe: Recipe, signal: str, views: Sequence[Measurements], further: Sequence[int] = ()
) -> list[Evidence]:
    """What the recipe's attack looks at, once or several times: no more than it needs."""
    imputed = recipe.imputed
    if not imputed.random:
        first = views[0].evidence(signal, recipe.needs)
        if Need.QUERIES not in recipe.needs:
            return [first]
        versions = [views[at].evidence(signal, recipe.needs) for at in further]
        beside = [views[0].evidence(name, recipe.needs) for name in recipe.beside]
        return [replace(first, queries=(*versions, *beside))]
    drawn = [view.evidence(signal, recipe.needs) for view in views[1 : 1 + imputed.random]]
    return (
        drawn if imputed.average == "score" else [average_evidence(drawn, likelihood=imputed.average == "likelihood")]
    )


def _check_scores(recipe: Recipe, returned: object, length: int) -> Floats:
    if not isinstance(returned, Scored):
        raise InputError(
            f"recipes: {recipe.name}: run() must return divulge.attacks.Scored, got {type(returned).__name__}"
        )
    scores = check_array(returned.scores, f"recipes: {recipe.name}: scores", finite=False)
    if scores.shape != (length,) or not np.isfinite(scores).all():
        raise InputError(
            f"recipes: {recipe.name} returned {scores.shape} scores, {int((~np.isfinite(scores)).sum())} of them not "
            f"finite, where {length} are needed"
        )
    return scores.astype(np.float64)
