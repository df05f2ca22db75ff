"""Canaries and a target into one score per canary, by any recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import attacks
from divulge.attacks import Need
from divulge.auditing import audit as run_audit
from divulge.errors import InputError
from divulge.evidence import target_signals
from divulge.recipes import PartialSignal, PreparedSignal, Recipe, resolve
from divulge.signals import tokens
from divulge.targets import GivesLogits, GivesTokens, adapt
from divulge.types import Evidence, Records
from divulge.validation import format_value

if TYPE_CHECKING:
    from divulge.canaries.planted import Canaries
    from divulge.request import Outputs
    from divulge.types import Floats

_HALF = 0.5  # the FPR an audit is asked for, which any number of canaries can give


def scored(
    target: Any,
    canaries: Canaries,
    recipe: Any,
    population: Records | None,
    references: Any,
    outputs: Outputs,
    device: str,
    seed: int,
) -> tuple[Floats, str, tuple[str, ...]]:
    """Scores in the order of the canaries, the name of the recipe, and what is to be known of them.

    Args:
        target: as for `divulge.canaries.audit`, as are the others.
        canaries: what to score.
        recipe: how.
        population: other records.
        references: how reference models are trained.
        outputs: logits or probabilities.
        device: of the target.
        seed: of every random draw.

    Raises:
        divulge.InputError: a recipe that does not suit the target, or needs records that are not given.
    """
    if isinstance(target, GivesTokens):
        if recipe != "loss":
            raise InputError(f"recipe: documents are scored by 'loss', got {format_value(recipe)}")
        scores = tokens.log_likelihood(target.tokens([str(text) for text in canaries.records.x]))
        if np.isnan(scores).any():
            raise InputError(f"canaries: {np.isnan(scores).sum()} documents have no token that could be scored")
        return scores, "loss", ()
    if population is None:
        return _asked(adapt(target, outputs=outputs, device=device), canaries, resolve(recipe))
    included = canaries.included
    result = run_audit(
        target,
        members=canaries.records[included],
        nonmembers=canaries.records[~included],
        population=population,
        recipes=[recipe],
        references=references,
        fpr=[_HALF],
        outputs=outputs,
        device=device,
        seed=seed,
    )
    name = next(iter(result.scores))
    scores = np.empty(len(included))
    scores[included], scores[~included] = result.scores[name][result.members], result.scores[name][~result.members]
    return scores, name, tuple(result.about.warnings)


def _asked(target: GivesLogits, canaries: Canaries, recipe: Recipe) -> tuple[Floats, str, tuple[str, ...]]:
    """Scores by a recipe that looks at nothing but the target's answers on the canaries."""
    records = canaries.records
    signal = recipe.signal
    learns = recipe.needs_training or recipe.needs_known or recipe.needs - {Need.LABELS}
    if learns or isinstance(signal, PartialSignal | PreparedSignal):
        raise InputError(f"population: {recipe.name!r} learns from other records, and none are given")
    values = (
        target_signals(target, records, (signal,))[:, 0] if isinstance(signal, str) else signal.measure(target, records)
    )
    scored = attacks.adapt(recipe.attack).run(Evidence(target=values, labels=records.y))
    return np.asarray(scored.scores, np.float64), recipe.name, tuple(scored.notes)
