"""What an attack is: what it reads, what it gives back, its seed, and what is filled in for a third party's."""

import dataclasses

import numpy as np
import pytest

import divulge as dv
from divulge import attacks
from divulge.attacks import BASE, RMIA, Combined, Learned, LiRA, Need, QuantileRegression, Scored, Threshold
from divulge.recipes import Recipe, everything, recipes, resolve, seeded
from divulge.regressors import Network


@pytest.mark.parametrize("recipe", everything(), ids=lambda r: r.name)
def test_every_attack_that_comes_with_divulge_is_whole_and_goes_with_its_recipe(recipe):
    assert attacks.adapt(recipe.attack) is recipe.attack
    assert recipe.attack.needs <= set(Need)
    assert (recipe.attack.least_references > 0) == (recipe.references != "none")
    assert recipe.needs == recipe.attack.needs


@pytest.mark.parametrize(
    "attack", dict.fromkeys(recipe.attack for recipe in recipes()), ids=lambda attack: type(attack).__name__
)
def test_the_scores_are_those_of_the_run(attack):
    parts = attack.attacks if isinstance(attack, Combined) else (attack,)
    if any(isinstance(part, QuantileRegression) and isinstance(part.regressor, Network) for part in parts):
        pytest.importorskip("torch", reason="the quantile regression of the source is a network")
    rng = np.random.default_rng(0)
    n, z, m = 40, 60, 4
    chance = rng.random(n), rng.random((m, n)), rng.random((m, n)) < 0.5, rng.random(z), rng.random((m, z))
    features = {"features": rng.normal(size=(n, 2)), "population_features": rng.normal(size=(z, 2))}
    chances = dv.Evidence(*chance, **features, population_trained_on=rng.random((m, z)) < 0.5)
    logarithms = dv.Evidence(np.log(chance[0]), np.log(chance[1]), chance[2])
    evidence = logarithms if isinstance(attack, attacks.BASE) else chances
    scored = attack.run(evidence)
    np.testing.assert_array_equal(scored.scores, attack.score(evidence))
    assert (scored.nominal is not None) == isinstance(attack, QuantileRegression)


def test_the_seed_of_a_run_reaches_every_attack_that_draws():
    assert [part.seed for part in seeded(resolve("combined"), 7).attack.attacks] == [7, 7]
    nested = Combined((Threshold(), Combined((Learned(), QuantileRegression())), Mine()))
    result = attacks.seeded(nested, 7)
    assert [part.seed for part in (*result.attacks[1].attacks, result.attacks[2])] == [7, 7, 7]
    assert result.attacks[0] == Threshold()
    for recipe in recipes():
        fields = {field.name for field in dataclasses.fields(recipe.attack)}
        assert getattr(attacks.seeded(recipe.attack, 7), "seed", 7) == 7
        assert (attacks.seeded(recipe.attack, 7) != recipe.attack) == bool(fields & {"seed", "attacks", "options"})


@dataclasses.dataclass(frozen=True)
class Mine:
    """A third party's: a score and a seed, no more."""

    seed: int = 0

    def score(self, evidence):
        return evidence.target + self.seed


class Wordy:
    """A third party's that states what it needs and has something to say."""

    needs = frozenset({"population"})
    least_references = 0

    def score(self, evidence):
        return self.run(evidence).scores

    def run(self, evidence):
        return Scored(evidence.target - evidence.population.mean(), ("a note",))


def test_what_a_third_partys_attack_does_not_say_is_filled_in():
    evidence = dv.Evidence([1.0, 2.0], population=[1.0, 3.0])
    plain = attacks.adapt(Mine())
    assert plain.needs == set(Need)
    assert plain.least_references == 1
    np.testing.assert_array_equal(plain.seeded(3).score(evidence), [4.0, 5.0])
    wordy = attacks.adapt(Wordy())
    assert (wordy.needs, wordy.least_references) == ({"population"}, 0)
    assert wordy.run(evidence).notes == ("a note",)
    mixed = Combined((Wordy(), LiRA("online")))
    assert mixed.needs == {Need.POPULATION, Need.REFERENCES_IN_AND_OUT}
    assert mixed.least_references == 1
    assert Recipe("mixed", "hinge", mixed, "in and out").needs == mixed.needs
    assert Recipe("mine", "hinge", Mine()).needs == {Need.POPULATION, Need.LABELS, Need.TOKENS, Need.VOCABULARY}


def test_what_combined_attacks_have_to_say_is_said():
    assert Combined((Wordy(), Threshold())).run(dv.Evidence([1.0, 2.0], population=[0.0])).notes == ("a note",)


class Unknown(Wordy):
    needs = frozenset({"referenes out"})


@pytest.mark.parametrize(
    ("attack", "references", "message"),
    [
        (3, "none", r"attack: an object with score\(evidence\) is needed, got int"),
        (Unknown(), "none", "attack: needs: 'referenes out' is unknown; did you mean 'references out'"),
        (LiRA(), "none", r"LiRA\(mode='offline'.*reads reference models, but references='none'"),
        (RMIA(offline_a=None), "out", "reads models trained on candidates, but references='out'"),
        (BASE("online"), "out", "reads models trained on candidates, but references='out'"),
        (Threshold(), "online", "references: 'online' is unknown"),
    ],
)
def test_an_attack_that_does_not_go_with_its_recipe_is_refused_at_once(attack, references, message):
    with pytest.raises(dv.InputError, match=message):
        Recipe("mine", "hinge", attack, references)


class Bare(Wordy):
    def run(self, evidence):
        return evidence.target


class Short(Wordy):
    def run(self, evidence):
        return Scored(evidence.target[1:])


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        (Bare(), r"mine: run\(\) must return divulge.attacks.Scored, got ndarray"),
        (Short(), r"mine returned \(24,\) scores, 0 of them not finite, where 25 are needed"),
    ],
)
def test_what_is_not_one_score_a_record_is_refused(attack, message):
    rng = np.random.default_rng(0)
    sets = {name: dv.Records(rng.normal(size=(10, 2)), np.arange(10) % 2) for name in ("members", "nonmembers")}
    population = dv.Records(rng.normal(size=(20, 2)), np.arange(20) % 2)
    options = {"recipes": [Recipe("mine", "hinge", attack)], "fpr": (0.2,)}
    with pytest.raises(dv.InputError, match=message):
        dv.audit(lambda x: x, **sets, population=population, **options)


@dataclasses.dataclass(frozen=True)
class Unseeded:
    """A third party's with a setting of its own, and a number called seed that nobody may set."""

    power: int = 2
    seed: int = dataclasses.field(default=3, init=False)

    def score(self, evidence):
        return evidence.target**self.power


def test_an_attack_that_takes_no_seed_is_left_as_it_is():
    attack = Unseeded()
    assert attacks.seeded(attack, 7) is attack
    assert attacks.seeded(Mine(), 7) == Mine(7)
    plain = dataclasses.make_dataclass("Plain", [("power", int, 1)], namespace={"score": Unseeded.score})()
    assert attacks.seeded(plain, 7) is plain
