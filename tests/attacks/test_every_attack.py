"""What must hold of every attack that a recipe names: a new recipe is tested here without a further line."""

import numpy as np
import pytest
from scipy.special import expit, log_expit
from scipy.stats import rankdata

from divulge import Evidence
from divulge.attacks import Need, adapt
from divulge.attacks.protocol import REFERENCES
from divulge.recipes import augmented_recipes, label_recipes, recipes, white_box_recipes

LABELS = [recipe for recipe in label_recipes() if isinstance(recipe.signal, str)]
BOOK = {recipe.name: recipe for recipe in (*recipes(), *augmented_recipes(), *LABELS, *white_box_recipes())}
UNITS = {"confidence": expit, "negative-loss": log_expit, "correctness": expit, "label-loss": log_expit}
N, Z, M = 300, 400, 8


def evidence(name, seed, *, lift=0.0, ties=False):
    """What a recipe's attack needs of candidates of which the first half are members by ``lift``, and no more."""
    rng, needs = np.random.default_rng(seed), adapt(BOOK[name].attack).needs
    hard, easy = rng.normal(size=N), rng.normal(size=Z)
    member = np.arange(N) < N // 2
    online = Need.REFERENCES_IN_AND_OUT in needs
    inside = (np.arange(M)[:, None] % 2 == 0) ^ (rng.random(N) < 0.5) if online else np.zeros((M, N), bool)
    own = rng.random((M, Z)) < 0.5
    target = hard + lift * member + 0.3 * rng.normal(size=N)
    population = easy + 0.3 * rng.normal(size=Z)
    references = hard + lift * inside + 0.3 * rng.normal(size=(M, N))
    others = easy + lift * own + 0.3 * rng.normal(size=(M, Z))
    if ties:
        target, population, references, others = (np.round(part) for part in (target, population, references, others))
    given = {"target": target}
    if Need.POPULATION in needs:
        given |= {"population": population}
    if needs & REFERENCES:
        given |= {"references": references, "trained_on": inside}
        if Need.POPULATION in needs:
            given |= {"population_references": others, "population_trained_on": own}
    if BOOK[name] in LABELS:  # the target says right or wrong, and no more
        given |= {"target": np.where(target > 0, np.inf, -800.0)}
    if make := UNITS.get(BOOK[name].signal_name):
        given = {key: value if value.dtype == bool else make(value) for key, value in given.items()}
    if Need.FEATURES in needs:
        given |= {"features": np.column_stack([hard, rng.normal(size=N)])}
        given |= {"population_features": np.column_stack([easy, rng.normal(size=Z)])}
    if Need.LABELS in needs:
        given |= {"labels": rng.integers(0, 3, N), "population_labels": rng.integers(0, 3, Z)}
    if Need.QUERIES in needs:
        given |= {"queries": (Evidence(**given),)}
    return given, member


def area(scores, member):
    m = int(member.sum())
    return (rankdata(scores)[member].sum() - m * (m + 1) / 2) / (m * (len(member) - m))


@pytest.mark.parametrize("name", BOOK)
class TestEveryAttack:
    def test_needs_no_more_than_it_says(self, name):
        given, _ = evidence(name, 0, lift=1.0)
        scores = adapt(BOOK[name].attack).run(Evidence(**given)).scores
        assert scores.shape == (N,)
        assert np.isfinite(scores).all()

    def test_members_score_higher(self, name):
        given, member = evidence(name, 1, lift=2.0)
        assert area(adapt(BOOK[name].attack).run(Evidence(**given)).scores, member) > 0.6

    def test_without_a_leak_nothing_is_told_apart(self, name):
        """An AUC beyond .5 ± .15 has probability 1e-5 for 150 against 150."""
        given, member = evidence(name, 2)
        assert abs(area(adapt(BOOK[name].attack).run(Evidence(**given)).scores, member) - 0.5) < 0.15

    def test_ties_are_no_failure_and_draw_nothing_by_themselves(self, name):
        given, _ = evidence(name, 3, lift=1.0, ties=True)
        attack = adapt(BOOK[name].attack).seeded(5)
        first, second = (attack.run(Evidence(**given)).scores for _ in range(2))
        assert np.isfinite(first).all()
        np.testing.assert_array_equal(first, second)

    def test_no_array_is_changed(self, name):
        given, _ = evidence(name, 4, lift=1.0)
        kept = {key: value.copy() for key, value in given.items() if key != "queries"}
        adapt(BOOK[name].attack).run(Evidence(**given))
        for key, value in kept.items():
            np.testing.assert_array_equal(given[key], value)
