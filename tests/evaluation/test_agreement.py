"""How well references match: false alarms where all are trained alike, and what is seen where they are not."""

import numpy as np
import pytest

from divulge.errors import InputError
from divulge.evaluation import agreement

RUNS = 150


def _alarms(draw, models, seed=0, half=False):
    rng = np.random.default_rng([seed, models])
    alarms = 0
    for _ in range(RUNS):
        answers = draw(rng, models + 1)
        out = rng.permuted(np.tile(np.arange(models)[:, None] % 2 == 0, answers.shape[1]), axis=0) if half else None
        alarms += bool(agreement.compare_answers(answers[0], answers[1:], out).differs)
    return alarms


def _normal(rng, count):
    return rng.normal(size=60) + rng.normal(size=(count, 60)) + 0.3 * rng.normal(size=(count, 1))


def _tied(rng, count):
    return np.round(rng.normal(size=30) + rng.normal(size=(count, 30)))


def _heavy(rng, count):
    return rng.standard_t(2, size=(count, 40)) * np.exp(rng.normal(size=40))


def _scaled(rng, count):
    """Trainings that differ most in how sure they are."""
    return np.exp(0.5 * rng.normal(size=(count, 1))) * rng.normal(size=50)


@pytest.mark.parametrize(("draw", "models"), [(_heavy, 2), (_heavy, 8), (_scaled, 4), (_scaled, 8)])
def test_trainings_alike_are_called_different_no_more_often_than_ranks_allow(draw, models):
    """Of m references and a target trained alike one is the farthest and one the nearest; 3.3 sd: 1 in 2000."""
    level = 2 / (models + 1) + 0.02
    assert _alarms(draw, models) <= RUNS * level + 3.3 * (RUNS * level * (1 - level)) ** 0.5


@pytest.mark.parametrize(("draw", "models"), [(_normal, 2), (_normal, 4), (_tied, 2), (_tied, 8)])
def test_trainings_alike_are_seldom_called_different(draw, models):
    assert _alarms(draw, models) <= RUNS / 8 + 3.3 * (RUNS * 7 / 64) ** 0.5


def test_references_that_saw_half_of_the_records_are_compared_where_they_did_not():
    level = 1 / 8
    assert _alarms(_normal, 8, half=True) <= RUNS * level + 3.3 * (RUNS * level * (1 - level)) ** 0.5
    rng = np.random.default_rng(0)
    references = rng.normal(size=(4, 100))
    is_out = np.arange(400).reshape(4, 100) % 2 == np.array([[0], [0], [1], [1]])
    spoilt = np.where(is_out, references, 1e6)
    comparison = agreement.compare_answers(np.zeros(100), spoilt, is_out)
    assert comparison.rmse.high < 2.0


def test_a_target_trained_otherwise_is_seen():
    rng = np.random.default_rng(1)
    difficulty = rng.normal(size=100)
    for target in (3 * difficulty, -0.5 * difficulty, difficulty + 3):
        comparison = agreement.compare_answers(target, difficulty + 0.5 * rng.normal(size=(8, 100)))
        assert comparison.differs
        assert comparison.rmse.low > comparison.spread.high


@pytest.mark.parametrize("models", [4, 8])
def test_references_that_scatter_more_than_trainings_like_the_targets_are_seen(models):
    rng = np.random.default_rng(models)
    difficulty = rng.normal(size=100)
    target, references = difficulty + 0.1 * rng.normal(size=100), difficulty + 3 * rng.normal(size=(models, 100))
    assert agreement.compare_answers(target, references).differs
    assert not agreement.compare_answers(references[0], references).differs


def test_a_mean_loss_of_its_own_is_seen_where_distances_show_nothing():
    """Every record a little harder for the target, less than the references scatter."""
    rng = np.random.default_rng(5)
    references = rng.normal(size=(8, 400))
    target = rng.normal(size=400)
    assert not agreement.compare_answers(target, references).differs
    shifted = agreement.compare_answers(target, references, losses=(target + 0.5, references))
    assert shifted.differs
    assert not agreement.compare_answers(target + 0.5, references, losses=(target, references)).differs


def test_references_that_share_records_are_expected_nearer_to_each_other():
    """Each is half of a population's deviation and half of its own: so far is a target with records of its own."""
    rng = np.random.default_rng(6)
    alarms = {0.0: 0, 0.5: 0}
    for _ in range(200):
        shared = rng.normal(size=(1, 30))
        references = (shared + rng.normal(size=(16, 30))) / 2**0.5
        for overlap in alarms:
            alarms[overlap] += agreement.compare_answers(rng.normal(size=30), references, overlap=overlap).differs
    assert alarms[0.5] <= 25
    assert alarms[0.0] > 4 * max(alarms[0.5], 1)


def test_answers_that_differ_by_rounding_are_alike():
    references = np.full((4, 10), 12.25) + 1e-13 * np.arange(4)[:, None]
    assert agreement.compare_answers(np.full(10, 12.25 + 2e-12), references).differs is False
    assert agreement.compare_answers(np.full(10, 12.26), references).differs is True


@pytest.mark.parametrize("overlap", [-0.1, 1.0, float("nan")])
def test_an_overlap_is_a_share(overlap):
    with pytest.raises(InputError, match="overlap"):
        agreement.compare_answers([1.0, 2.0], [[1.0, 2.0], [2.0, 1.0]], overlap=overlap)


def test_the_overlap_is_the_share_of_records_in_common():
    halves = np.zeros((4, 100), dtype=bool)
    halves[0, :50] = halves[1, 50:] = halves[2, 25:75] = True
    halves[3] = ~halves[2]
    assert agreement.mean_overlap(halves) == pytest.approx((0 + 0 + 4 * 0.5) / 6)
    assert agreement.mean_overlap(np.ones((3, 5), dtype=bool)) == 0.99
    assert agreement.mean_overlap(np.ones((1, 5), dtype=bool)) == 0.0


def test_one_reference_and_equal_answers():
    single_reference = agreement.compare_answers(np.ones(5), np.zeros((1, 5)))
    assert single_reference.differs is None
    assert single_reference.spread is None
    assert single_reference.rmse.value == 1.0
    equal = agreement.compare_answers(np.ones(5), np.ones((3, 5)))
    assert equal.differs is False
    assert equal.rmse.value == equal.spread.value == 0.0
    with pytest.raises(InputError, match="at least 2 records"):
        agreement.compare_answers([1.0], [[1.0], [2.0]])


def test_the_squared_distance_to_all_trainings_is_unbiased():
    """However few references there are, and however much they scatter; within 3.3 standard errors."""
    rng = np.random.default_rng(2)
    target, mean = rng.normal(size=3000), rng.normal(size=3000)
    comparison = agreement.compare_answers(target, mean + 3 * rng.normal(size=(2, 3000)))
    true = ((target - mean) ** 2).mean() ** 0.5
    assert comparison.rmse.low < true < comparison.rmse.high
    assert comparison.spread.low < 3.0 < comparison.spread.high


@pytest.mark.parametrize("k", [2, 3])
def test_less_the_scatter_the_true_setting_is_nearest(k):
    """Against others of the same mean that scatter more, or less, and against a shifted one."""
    rng = np.random.default_rng(k)
    mean = rng.normal(size=4000)
    target = mean + rng.normal(size=4000)

    def score(scatter, shift=0.0):
        answers = mean + shift + scatter * rng.normal(size=(k, 4000))
        return agreement.distance_between(target, list(answers))[1].value

    assert score(1.0) < min(score(0.3), score(3.0), score(1.0, shift=0.7)) - 0.02
