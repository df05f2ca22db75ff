"""Canaries scored by recipes: those that look at the target alone, and those that learn from other records."""

import numpy as np
import pytest
import torch

import divulge as dv
from divulge import canaries
from divulge.canaries import prove

CLASSES, WIDTH = 3, 6


def draw_records(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    return dv.Records(rng.normal(size=(n, WIDTH)) + y[:, None], y)


DATA, POPULATION = draw_records(300, 0), draw_records(300, 1)
PLANTED = canaries.make(DATA, kind="mislabelled", count=300, seed=2)


def remembering(x):
    """Logits of the class centres, and a memory of every label that was inserted."""
    insert = PLANTED.insert
    logits = -((x[:, None, :] - np.arange(CLASSES)[:, None]) ** 2).mean(-1)
    same = (x[:, None] == insert.x[None]).all(-1)
    return logits + 4.0 * same @ np.eye(CLASSES)[insert.y]


@pytest.mark.parametrize("recipe", ["loss", "entropy", "quantile-trees"])
def test_every_recipe_scores_canaries(recipe):
    population = POPULATION if recipe == "quantile-trees" else None
    result = canaries.audit(
        remembering, PLANTED, recipe=recipe, population=population, claim=dv.Claim(1.0, 1e-5), seed=0
    )
    assert result.recipe == recipe
    assert result.proof.answer == "violated"
    inside, outside = result.scores[result.included], result.scores[~result.included]
    assert np.median(inside) > np.median(outside)
    if population is not None:  # the same for equal answers: where a canary lies among what such a record would have
        repeat = canaries.audit(remembering, PLANTED, recipe=recipe, population=population, seed=0)
        np.testing.assert_array_equal(result.scores, repeat.scores)
        assert np.isfinite(result.scores).all()


def test_a_recipe_that_learns_needs_records_to_learn_from():
    with pytest.raises(dv.InputError, match="population: 'quantile-trees' learns from other records"):
        canaries.audit(remembering, PLANTED, recipe="quantile-trees")


class TestSides:
    COINS = np.random.default_rng(0).random(400) < 0.5

    def test_guesses_of_members_only(self):
        """Half of the members are told for sure and nobody else: only the top of the scores says anything."""
        rng = np.random.default_rng(1)
        scores = rng.random(400) + 5.0 * (self.COINS & (rng.random(400) < 0.3))
        lows = {
            sides: prove(scores, self.COINS, claim=dv.Claim(1.0, 1e-5), sides=sides).bound.low
            for sides in ("both", "in")
        }
        assert lows["in"] > lows["both"] + 0.5

    def test_the_audit_hands_them_on(self):
        result = canaries.audit(remembering, PLANTED, sides="in", claim=dv.Claim(1.0, 1e-5))
        direct = prove(result.scores, PLANTED.included, sides="in", claim=dv.Claim(1.0, 1e-5))
        assert result.epsilon == direct.bound
        assert result.epsilon != canaries.audit(remembering, PLANTED, claim=dv.Claim(1.0, 1e-5)).epsilon

    def test_pairs_have_no_sides(self):
        with pytest.raises(dv.InputError, match="sides: pairs of a fixed number"):
            prove(np.arange(400.0), np.random.default_rng(0).permutation(400) < 200, design="fixed", sides="in")

    def test_an_unknown_side_is_named(self):
        with pytest.raises(dv.InputError, match="sides: "):
            prove(np.arange(400.0), self.COINS, sides="out")


def test_a_network_may_be_looked_into_for_the_gradients_of_its_canaries():
    data = dv.Records(np.vstack([DATA.x, PLANTED.insert.x]), np.r_[DATA.y, PLANTED.insert.y])

    def make():
        return torch.nn.Sequential(torch.nn.Linear(WIDTH, 128), torch.nn.ReLU(), torch.nn.Linear(128, CLASSES))

    net = dv.references.train_one(make, data, seed=0, epochs=60, lr=0.01, optimizer="adam", device="cpu")
    result = canaries.audit(net, PLANTED, recipe="weight-gradient", claim=dv.Claim(1.0, 1e-5), seed=0)
    assert dv.evaluation.auc(result.scores, result.included).low > 0.6
    with pytest.raises(
        dv.InputError, match=r"weight-gradient cannot be had without a look inside .*got CallableTarget"
    ):
        canaries.audit(remembering, PLANTED, recipe="weight-gradient", seed=0)
