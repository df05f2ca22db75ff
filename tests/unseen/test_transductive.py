"""The transductive attack."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divulge import Evidence, InputError
from divulge.attacks import Combined, QuantileRegression, Threshold, Transductive, regressors
from divulge.attacks.regressors import Booster
from divulge.evaluation import auc


def classes(seed, n=600, leak=0.5):
    """Each class has its own slope from features to signal: what one class teaches does not fit another."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, 3)), rng.integers(0, 4, n)
    slopes = np.array([[2, 0, 0], [0, 2, 0], [0, 0, 2], [-2, -2, 0]], dtype=float)
    member = rng.random(n) < 0.5
    return x, y, member, (slopes[y] * x).sum(axis=1) + leak * member + 0.5 * rng.normal(size=n)


def unseen(seed, **more):
    x, y, member, signal = classes(seed, **more)
    queried, calibration_rows = y == 3, (y != 3) & ~member
    evidence = Evidence(
        signal[queried],
        features=x[queried],
        labels=y[queried],
        population=signal[calibration_rows],
        population_features=x[calibration_rows],
        population_labels=y[calibration_rows],
    )
    return evidence, member[queried]


def test_on_an_unseen_class_that_is_hard_in_its_own_way_it_beats_quantile_regression():
    evidence, member = unseen(0, n=2000)
    ours = auc(Transductive().score(evidence), member)
    quantile_auc = auc(
        QuantileRegression(regressors.Boosted(Booster(rounds=20), folds=3), conformal=False).score(evidence), member
    )
    plain = auc(Threshold().score(evidence), member)
    assert ours.low > max(quantile_auc.high, plain.high)
    # Without noise from the features, AUC = Φ(0.5 / (0.5·√2)) = 0.76.
    assert 0.7 < ours.value < 0.8


def test_combined_ranks_do_not_care_for_units():
    evidence, _ = unseen(2)

    @dataclass(frozen=True)
    class Scaled:
        factor: float

        def score(self, evidence):
            return self.factor * evidence.target**3

    combined_scores = [
        Combined((Transductive(), second_attack)).score(evidence)
        for second_attack in (Threshold(), Scaled(1.0), Scaled(1e6))
    ]
    assert (combined_scores[0] == combined_scores[1]).all()
    assert (combined_scores[1] == combined_scores[2]).all()
    with pytest.raises(InputError, match="at least 2"):
        Combined((Threshold(),))


def test_nothing_leaks_nothing_is_found():
    evidence, member = unseen(1, n=2000, leak=0.0)
    estimate = auc(Transductive().score(evidence), member)
    assert estimate.low < 0.5 < estimate.high


@given(st.integers(0, 1000), st.floats(0.1, 10), st.floats(-5, 5))
@settings(max_examples=15, deadline=None)
def test_scores_follow_the_unit_of_the_signal_and_not_that_of_the_features(seed, scale, shift):
    rng = np.random.default_rng(seed)
    x, signal = rng.normal(size=(40, 2)), rng.normal(size=40)
    plain = Transductive().score(Evidence(signal, features=x))
    moved = Transductive().score(Evidence(signal + shift, features=scale * x + shift))
    assert np.allclose(plain, moved, atol=1e-6)


def test_no_record_is_predicted_by_a_regression_that_saw_it():
    rng = np.random.default_rng(0)
    x, signal = rng.normal(size=(60, 30)), rng.normal(size=60)
    spiked = signal.copy()
    spiked[7] += 100
    before, after = (Transductive().score(Evidence(s, features=x))[7] for s in (signal, spiked))
    assert np.isclose(after - before, 100)


def test_calibration_scores_hold_their_rate_when_they_are_scored_with_the_candidates():
    """Calibration records stand among the candidates; the rank of a non-member among them is uniform."""
    hits, draws = 0, 200
    for seed in range(draws):
        x, _, _, signal = classes(seed, n=60, leak=0.0)
        scores = Transductive(seed=seed).score(Evidence(signal, features=x))
        hits += int((scores[1:] >= scores[0]).sum() + 1 <= 6)  # p ≤ 0.1 among 59 calibration scores
    # Binomial(200, 0.1): P(more than 35) is 0.1 %.
    assert hits <= 35


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        (Evidence(np.arange(30.0)), "evidence.features is needed"),
        (Evidence(np.arange(5.0), features=np.zeros((5, 1))), "at least 20 candidates"),
        (Evidence(np.arange(30.0), features=np.array(["a"] * 30, dtype=object)), "must be numbers"),
    ],
)
def test_bad_evidence_is_named(evidence, message):
    with pytest.raises(InputError, match=message):
        Transductive().score(evidence)


def test_scores_are_residuals_of_ridge_regressions_over_five_folds_and_slopes_of_classes_where_there_are_enough():
    from sklearn.linear_model import RidgeCV

    from divulge import seeds

    penalties = np.logspace(0, 5, 11)
    x, y, _, signal = classes(3, n=150)
    y[y == 3] = np.where(np.arange((y == 3).sum()) < 15, 3, 2)  # too few for slopes of their own
    table = (x - x.mean(axis=0)) / x.std(axis=0)
    fold = seeds.generator(0, "transductive", "folds").permutation(150) % 5
    for labels, columns in ((None, table), (y, np.hstack([table, 3.0 * (y[:, None] == np.arange(4))]))):
        expected = np.empty(150)
        for k in range(5):
            in_fold = fold == k
            residuals = signal - RidgeCV(penalties).fit(columns[~in_fold], signal[~in_fold]).predict(columns)
            for label in range(4) if labels is not None else ():
                in_class = y == label
                if (in_class & ~in_fold).sum() >= 20:
                    residuals[in_class] -= (
                        RidgeCV(penalties)
                        .fit(table[in_class & ~in_fold], residuals[in_class & ~in_fold])
                        .predict(table[in_class])
                    )
            expected[in_fold] = residuals[in_fold]
        assert np.allclose(Transductive().score(Evidence(signal, features=x, labels=labels)), expected)
