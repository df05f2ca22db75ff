"""Games whose truth is known: a reference model plays the target, on the population that it was trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from divulge import seeds
from divulge.attacks.reference_moments import equal_counts
from divulge.statistics.duplicates import keep_together
from divulge.types import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from divulge.types import Bools, Floats, Ints

# Fewer members or non-members than this, and a game says nothing.
_MIN_SIDE = 50
# A game is judged below this share of false positives, beside the whole curve; and below no fewer of them than this.
_STRICT_FPR, _MIN_FALSE_POSITIVES = 0.02, 5


def played(evidence: Evidence, max_records: int, count: int, seed: int) -> Iterator[tuple[Evidence, Bools]]:
    """The first ``count`` reference models as targets: the evidence of each, and which candidates are its members.

    None where it is not known what they were trained on, or where a game would have too few members or non-members.

    Args:
        evidence: scaled logits of the population under target and references, with features and labels if there are.
        max_records: greatest number of population records in a game.
        count: greatest number of games.
        seed: of the records drawn.
    """
    signals, inside = evidence.population_references, evidence.population_trained_on
    if signals is None or inside is None or evidence.population is None:
        return
    for model in range(min(len(signals), count)):
        rng = seeds.generator(seed, "auto", model)
        rows = rng.permutation(inside.shape[1])[:max_records]
        is_candidate = np.arange(len(rows)) % 2 == 0
        if evidence.population_features is not None and evidence.population_features.dtype != object:
            is_candidate = keep_together(is_candidate, evidence.population_features[rows])
        candidate_rows, population_rows = np.sort(rows[is_candidate]), np.sort(rows[~is_candidate])
        population_rows = population_rows[~inside[model, population_rows]]
        out = np.vstack([np.delete(~inside, model, axis=0), np.ones(inside.shape[1], bool)])
        out_models, has_enough_models = equal_counts(out[:, candidate_rows], inside[model, candidate_rows], rng)
        candidate_rows, out_models = candidate_rows[has_enough_models], out_models[:, has_enough_models]
        member = inside[model, candidate_rows]
        if min(member.sum(), (~member).sum(), len(population_rows)) < _MIN_SIDE:
            continue
        other_signals = np.vstack([np.delete(signals, model, axis=0), evidence.population])
        yield (
            _game_evidence(evidence, signals[model], other_signals, out, (candidate_rows, population_rows), out_models),
            member,
        )


def _game_evidence(
    evidence: Evidence,
    target_signals: Floats,
    other_signals: Floats,
    out: Bools,
    rows: tuple[Ints, Ints],
    out_models: Bools,
) -> Evidence:
    candidate_rows, population_rows = rows
    features, labels = evidence.population_features, evidence.population_labels
    return Evidence(
        target_signals[candidate_rows],
        other_signals[:, candidate_rows],
        ~out_models,
        target_signals[population_rows],
        other_signals[:, population_rows],
        features=None if features is None else features[candidate_rows],
        population_features=None if features is None else features[population_rows],
        labels=None if labels is None else labels[candidate_rows],
        population_labels=None if labels is None else labels[population_rows],
        population_trained_on=~out[:, population_rows],
    )


def merit(scores: Floats, member: Bools) -> tuple[float, float]:
    """AUC, where ties count half, and TPR at less than a small share of false positives, where they do not count."""
    ranks = stats.rankdata(scores)
    member_ranks, nonmember_ranks = ranks[member], np.sort(ranks[~member])
    auc = (
        (stats.rankdata(ranks)[member].sum() - len(member_ranks) * (len(member_ranks) + 1) / 2)
        / len(member_ranks)
        / len(nonmember_ranks)
    )
    limit = nonmember_ranks[-max(_MIN_FALSE_POSITIVES, int(_STRICT_FPR * len(nonmember_ranks)))]
    return float(auc), float((member_ranks > limit).mean())
