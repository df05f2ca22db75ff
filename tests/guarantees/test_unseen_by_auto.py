"""`auto` finds nothing where nothing leaks and a part of the candidates is of classes that the population lacks.

Reference models that never saw a class are less sure of it. Where members and non-members have it in other shares, that
difference must not look like membership.
"""

import numpy as np
import pytest

from divulge import Evidence, evaluation
from divulge.attacks import Auto

CANDIDATES, POPULATION, MODELS, RUNS = 400, 400, 4, 10


def draw(seed, share_of_members, share_of_others):
    """Answers that depend on a record's difficulty alone; references are three units less sure of the unseen class."""
    rng = np.random.default_rng(seed)
    member = np.arange(2 * CANDIDATES) < CANDIDATES
    unseen = rng.random(len(member)) < np.where(member, share_of_members, share_of_others)
    features, others = rng.normal(size=(len(member), 3)), rng.normal(size=(POPULATION, 3))
    inside = rng.random((MODELS, POPULATION)) < 0.5
    evidence = Evidence(
        features[:, 0] + rng.normal(size=len(member)),
        features[:, 0] + rng.normal(size=(MODELS, len(member))) - 3 * unseen,
        trained_on=np.zeros((MODELS, len(member)), dtype=bool),
        features=features,
        labels=unseen.astype(int),
        population=others[:, 0] + rng.normal(size=POPULATION),
        population_references=others[:, 0] + rng.normal(size=(MODELS, POPULATION)) + inside,
        population_trained_on=inside,
        population_features=others,
        population_labels=np.zeros(POPULATION, dtype=int),
    )
    return evidence, member


@pytest.mark.parametrize(("share_of_members", "share_of_others"), [(0.1, 0.4), (0.4, 0.1)])
def test_no_leak_shows_where_there_is_none(share_of_members, share_of_others):
    """Within four standard errors of the mean over runs; four or more misses of 10 at 95 % have probability .001."""
    measured = []
    for seed in range(RUNS):
        evidence, member = draw(seed, share_of_members, share_of_others)
        result = Auto(games=4).run(evidence)
        assert result.notes[0].startswith("used rmia-residual for ")
        measured.append(evaluation.measure(result.scores, member, "auc"))
    values = np.array([each.value for each in measured])
    assert abs(values.mean() - 0.5) <= 4 * values.std(ddof=1) / RUNS**0.5
    assert sum(not each.low <= 0.5 <= each.high for each in measured) < 4
