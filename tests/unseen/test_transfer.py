"""Whether a rate carries over: known answers on Gaussian embeddings."""

import numpy as np
import pytest

from divulge import InputError
from divulge.evaluation import transfer

LEVEL = 0.05


def embeddings(seed, n, shift=0.0):
    values = np.random.default_rng(seed).normal(size=(n, 3))
    values[:, 0] += shift
    return values


def errors(x, seed=9, slope=0.0):
    """Selected with probability LEVEL where the slope is 0; more often to the right otherwise."""
    return np.random.default_rng(seed).random(len(x)) < LEVEL * np.exp(slope * x[:, 0])


def test_a_class_like_the_others_keeps_the_rate():
    seen_embeddings = embeddings(0, 4000)
    assessment = transfer.assess(seen_embeddings, embeddings(1, 600), errors(seen_embeddings, seed=7), LEVEL)
    assert assessment.holds, str(assessment)
    assert "is expected to hold" in str(assessment)
    assert assessment.expected_fpr.low < LEVEL < assessment.expected_fpr.high
    assert abs(assessment.expected_fpr.value - LEVEL) <= assessment.bound


def test_a_class_elsewhere_does_not_and_the_reason_is_given():
    seen_embeddings = embeddings(0, 4000)
    assessment = transfer.assess(seen_embeddings, embeddings(1, 600, shift=6), errors(seen_embeddings), LEVEL)
    assert not assessment.holds
    assert assessment.outside > 0.9
    assert "almost no seen record" in str(assessment)


def test_errors_that_grow_towards_the_class_are_foreseen():
    seen_embeddings = embeddings(0, 20_000)
    assessment = transfer.assess(
        seen_embeddings, embeddings(1, 2000, shift=1.0), errors(seen_embeddings, slope=0.7), LEVEL
    )
    # E[LEVEL·exp(0.7 x)] for x ~ N(1, 1); the plane is the first two of three components.
    truth = LEVEL * np.exp(0.7 + 0.245)
    assert assessment.expected_fpr.low < truth < assessment.expected_fpr.high + 0.03
    assert assessment.p_value < 1e-6
    assert not assessment.holds


def test_the_violation_of_a_perfect_regressor_is_chance_and_its_p_value_uniform():
    p_values = []
    for seed in range(30):
        seen_embeddings = embeddings(seed, 400)
        p_values.append(
            transfer.assess(seen_embeddings, embeddings(999, 50), errors(seen_embeddings, seed + 500), LEVEL).p_value
        )
    # 30 draws: P(more than 6 below 0.05) is 0.1 %.
    assert (np.array(p_values) < 0.05).sum() <= 6


def test_the_linear_fit_and_its_bound_are_what_they_say():
    seen_embeddings = embeddings(3, 3000)
    assessment = transfer.assess(seen_embeddings, embeddings(4, 900, shift=0.5), errors(seen_embeddings), LEVEL)
    basis = np.column_stack([np.ones(len(assessment.seen)), assessment.seen])
    naive = basis @ np.linalg.lstsq(basis, assessment.ratio, rcond=None)[0]
    assert np.allclose(naive, assessment.linear, atol=1e-8)
    assert np.isclose(assessment.error, np.mean((assessment.ratio - naive) ** 2))
    assert np.isclose(assessment.ratio.mean(), 1)
    assert 0 <= assessment.explained <= 1


def test_the_seed_decides_and_one_column_will_do():
    seen_embeddings = embeddings(0, 300)[:, :1]
    assessment, repeated = (
        transfer.assess(seen_embeddings, embeddings(1, 80)[:, :1], errors(seen_embeddings), LEVEL, seed=3)
        for _ in range(2)
    )
    assert assessment.expected_fpr == repeated.expected_fpr
    assert (assessment.ratio == repeated.ratio).all()


@pytest.mark.parametrize(
    ("seen", "query", "selected", "level", "message"),
    [
        (np.zeros((49, 2)), np.zeros((60, 2)), np.zeros(49, bool), 0.05, "seen: at least 50"),
        (np.zeros((60, 2)), np.zeros((10, 2)), np.zeros(60, bool), 0.05, "query: at least 50"),
        (np.zeros((60, 2)), np.zeros((60, 3)), np.zeros(60, bool), 0.05, "2 columns"),
        (np.zeros((60, 2)), np.zeros((60, 2)), np.zeros(59, bool), 0.05, "selected"),
        (np.zeros((60, 2)), np.zeros((60, 2)), np.zeros(60, bool), 1.0, "level"),
    ],
)
def test_bad_input_is_named(seen, query, selected, level, message):
    with pytest.raises(InputError, match=message):
        transfer.assess(seen, query, selected, level)


def test_the_records_that_count_are_kishs_effective_number():
    rng = np.random.default_rng(5)
    assessment = transfer.assess(
        rng.normal(size=(600, 3)), rng.normal(0.4, 1, size=(200, 3)), rng.random(600) < 0.05, 0.05
    )
    assert assessment.ratio.mean() == pytest.approx(1.0)
    assert assessment.effective == pytest.approx(300**2 / (assessment.ratio**2).sum())
    assert assessment.effective < 300


def test_one_cloud_needs_one_gaussian_and_two_need_two():
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(200, 2))
    assert len(transfer.fit_mixture(cloud, 0).weights_) == 1
    assert len(transfer.fit_mixture(np.vstack([cloud, cloud + 20]), 0).weights_) == 2
