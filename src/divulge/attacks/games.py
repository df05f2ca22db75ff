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
_LEAST = 50
# A game is judged below this share of false positives, beside the whole curve; and below no fewer of them than this.
_STRICT, _FEWEST = 0.02, 5


def played(evidence: Evidence, most: int, count: int, seed: int) -> Iterator[tuple[Evidence, Bools]]:
    """The first ``count`` reference models as targets: the evidence of each, and which candidates are its members.

    None where it is not known what they were trained on, or where a game would have too few members or non-members.

    Args:
        evidence: scaled logits of the population under target and references, with features and labels if there are.
        most: greatest number of population records in a game.
        count: greatest number of games.
        seed: of the records drawn.
    """
    signals, inside = evidence.population_references, evidence.population_trained_on
    if signals is None or inside is None or evidence.population is None:
        return
    for model in range(min(len(signals), count)):
        rng = seeds.generator(seed, "auto", model)
        rows = rng.permutation(inside.shape[1])[:most]
        half = np.arange(len(rows)) % 2 == 0
        if evidence.population_features is not None and evidence.population_features.dtype != object:
            half = keep_together(half, evidence.population_features[rows])
        asked, known = np.sort(rows[half]), np.sort(rows[~half])
        known = known[~inside[model, known]]
        out = np.vstack([np.delete(~inside, model, axis=0), np.ones(inside.shape[1], bool)])
        drawn, full = equal_counts(out[:, asked], inside[model, asked], rng)
        asked, drawn = asked[full], drawn[:, full]
        member = inside[model, asked]
        if min(member.sum(), (~member).sum(), len(known)) < _LEAST:
            continue
        others = np.vstack([np.delete(signals, model, axis=0), evidence.population])
        yield _game(evidence, signals[model], others, out, (asked, known), drawn), member


def _game(
    evidence: Evidence, own: Floats, others: Floats, out: Bools, rows: tuple[Ints, Ints], drawn: Bools
) -> Evidence:
    asked, known = rows
    features, labels = evidence.population_features, evidence.population_labels
    return Evidence(
        own[asked],
        others[:, asked],
        ~drawn,
        own[known],
        others[:, known],
        features=None if features is None else features[asked],
        population_features=None if features is None else features[known],
        labels=None if labels is None else labels[asked],
        population_labels=None if labels is None else labels[known],
        population_trained_on=~out[:, known],
    )


def merit(scores: Floats, member: Bools) -> tuple[float, float]:
    """AUC, where ties count half, and TPR at less than a small share of false positives, where they do not count."""
    ranks = stats.rankdata(scores)
    inside, outside = ranks[member], np.sort(ranks[~member])
    area = (stats.rankdata(ranks)[member].sum() - len(inside) * (len(inside) + 1) / 2) / len(inside) / len(outside)
    limit = outside[-max(_FEWEST, int(_STRICT * len(outside)))]
    return float(area), float((inside > limit).mean())
