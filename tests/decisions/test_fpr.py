"""Conformal p-values and thresholds with a guaranteed false-positive rate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

import divulge as dv
from divulge.decisions import fpr

short_lists = st.lists(st.integers(0, 4), min_size=1, max_size=30)
fine = settings(max_examples=60, deadline=None)


@fine
@given(short_lists, short_lists)
def test_p_values_count_every_calibration_score_at_least_as_high(calibration, scores):
    naive = [(1 + sum(score >= s for score in calibration)) / (len(calibration) + 1) for s in scores]
    assert fpr.p_values(calibration, scores).tolist() == naive


@fine
@given(st.lists(st.integers(0, 4), min_size=9, max_size=60), short_lists, st.sampled_from([0.1, 0.2, 0.29, 0.5]))
def test_a_decision_is_a_p_value_at_most_the_level(calibration, scores, level):
    selection = fpr.decide(calibration, scores, level)
    assert (selection.selected == (selection.p_values <= level + 1e-12)).all()
    chosen = np.array(scores)[selection.selected]
    assert selection.threshold == (chosen.min() if chosen.size else np.inf)


@pytest.mark.parametrize("n", [99, 999])
@pytest.mark.parametrize("guarantee", fpr.GUARANTEE_TYPES)
def test_fpr_stays_at_or_below_its_level(n, guarantee):
    """False alarm of this test: below 1e-4 a case (four standard errors of 1,500 draws)."""
    level, confidence, draws = 0.05, 0.95, 1500
    rng = np.random.default_rng(n)
    # The FPR of a threshold on uniform scores is known exactly: it is what lies above.
    rates = np.array([1 - float(fpr.threshold(rng.random(n), level, guarantee=guarantee)) for _ in range(draws)])
    if guarantee == "marginal":
        assert rates.mean() <= level + 4 * rates.std() / draws**0.5
        assert rates.mean() >= level * 0.9
    else:
        assert (rates > level).mean() <= 1 - confidence + 4 * (confidence * (1 - confidence) / draws) ** 0.5


@pytest.mark.parametrize("guarantee", fpr.GUARANTEE_TYPES)
def test_fpr_holds_with_ties(guarantee):
    """A third of the scores are zero, the rest take ten values; false alarm below 1e-4."""
    level, draws = 0.05, 1500
    values = np.arange(11.0)
    mass = np.r_[0.3, np.full(10, 0.07)]
    rng = np.random.default_rng(5)
    rates = np.array(
        [
            mass[values >= float(fpr.threshold(rng.choice(values, 199, p=mass), level, guarantee=guarantee))].sum()
            for _ in range(draws)
        ]
    )
    if guarantee == "marginal":
        assert rates.mean() <= level + 4 * rates.std() / draws**0.5
    else:
        assert (rates > level).mean() <= 0.05 + 4 * (0.05 * 0.95 / draws) ** 0.5


def test_realised_fpr_lies_in_its_beta_interval():
    """Coverage of 95 % over 1,500 splits, to four standard errors."""
    rng = np.random.default_rng(0)
    interval = fpr.realised_interval(999, 0.01)
    rates = np.array([1 - float(fpr.threshold(rng.random(999), 0.01)) for _ in range(1500)])
    covered = ((interval.low <= rates) & (rates <= interval.high)).mean()
    assert abs(covered - 0.95) < 4 * (0.95 * 0.05 / 1500) ** 0.5
    assert interval.low == pytest.approx(beta(10, 990).ppf(0.025))
    assert fpr.threshold(rng.random(999), 0.01).realised() == interval


def test_golden_ranks():
    assert fpr.threshold(np.arange(999), 0.01).rank == 10
    assert fpr.threshold(np.arange(99), 0.29).rank == 29
    assert fpr.threshold(np.arange(999), 0.01, guarantee="training-conditional").rank == 5
    # By hand: P(Beta(5, 995) ≤ .01) = .9714, P(Beta(6, 994) ≤ .01) = .9339.
    assert beta(5, 995).cdf(0.01) >= 0.95 > beta(6, 994).cdf(0.01)


@pytest.mark.parametrize("guarantee", fpr.GUARANTEE_TYPES)
@pytest.mark.parametrize("level", [0.5, 0.1, 0.07, 0.01, 0.003, 0.001])
def test_required_calibration_is_exactly_enough(guarantee, level):
    n_needed = fpr.required_calibration(level, guarantee=guarantee)
    assert fpr.threshold(np.arange(n_needed), level, guarantee=guarantee).rank == 1
    if n_needed > 1:
        with pytest.raises(dv.InputError, match=f"{n_needed} known non-members are needed .* got {n_needed - 1}"):
            fpr.threshold(np.arange(n_needed - 1), level, guarantee=guarantee)


def test_a_threshold_is_used_like_a_float():
    threshold = fpr.threshold(np.zeros(99), 0.01)
    scores = np.array([0.0, 1.0])
    assert (
        (scores > threshold).tolist()
        == (scores >= threshold).tolist()
        == threshold.select(scores).tolist()
        == [False, True]
    )
    assert np.isfinite(float(threshold))


def test_guarantees_are_named_and_never_blurred():
    calibration = np.arange(999)
    marginal = fpr.decide(calibration, [1000.0], 0.01)
    conditional = fpr.decide(calibration, [1000.0], 0.01, guarantee="training-conditional", confidence=0.9)
    assert marginal.guarantee.kind == "marginal FPR"
    assert "an average over calibrations" in marginal.warnings[0]
    assert conditional.guarantee.kind == "training-conditional FPR (confidence 0.9)"
    assert not conditional.warnings


@pytest.mark.parametrize(
    ("calibration", "level", "kwargs", "message"),
    [
        ([], 0.1, {}, "calibration: at least 1"),
        ([np.nan, 1.0], 0.5, {}, "calibration: 1 values are NaN"),
        ([1.0, 2.0], 0.0, {}, r"fpr: must lie in \(0, 1\), got 0"),
        ([1.0, 2.0], 1.0, {}, "fpr: must lie in"),
        ([1.0, 2.0], 0.5, {"guarantee": "margin"}, "did you mean 'marginal'"),
        ([1.0, 2.0], 0.5, {"confidence": 1.0}, "confidence: must lie in"),
    ],
)
def test_bad_input_is_named(calibration, level, kwargs, message):
    with pytest.raises(dv.InputError, match=message):
        fpr.threshold(calibration, level, **kwargs)


def test_too_few_nulls_for_an_interval():
    with pytest.raises(dv.InputError, match="n: 99 calibration scores"):
        fpr.realised_interval(98, 0.01)


def test_a_single_score_above_the_threshold_has_an_interval_of_its_own():
    # With n = 1 / level - 1 scores the threshold is the largest: its FPR is the smallest of n uniform draws.
    interval = fpr.realised_interval(19, 0.05)
    assert interval.value == pytest.approx(0.05)
    assert (interval.low, interval.high) == pytest.approx((1 - 0.975 ** (1 / 19), 1 - 0.025 ** (1 / 19)))
