"""Quantile regression: regressors against slow formulas, fallbacks, and the guarantee simulated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import divulge as dv
from divulge.attacks import QuantileRegression, regressors
from divulge.attacks.regressors import Boosted, Booster, Marginal, PerClass, crossfit
from divulge.regressors import Network


def skewed(rng, n):
    """Signals whose location and scale depend on two features and whose class shifts them."""
    x = rng.normal(size=(n, 2))
    y = rng.integers(0, 3, n)
    return x, y, 2.0 * y + x[:, 0] + np.exp(0.7 * x[:, 1]) * rng.normal(size=n)


def evidence(rng, n=200, z=1000, up=0.0):
    x, y, s = skewed(rng, n)
    xp, yp, sp = skewed(rng, z)
    return dv.Evidence(s + up, population=sp, features=x, population_features=xp, labels=y, population_labels=yp)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.sampled_from((1, 3, 30)))
def test_per_class_is_mean_and_deviation_of_the_class(seed, z, classes):
    rng = np.random.default_rng(seed)
    signal, labels, query_labels = rng.normal(size=z), rng.integers(0, classes, z), rng.integers(0, classes + 2, 20)
    fitted = regressors.fit(PerClass(least=3), np.empty((z, 0)), signal, labels, seed=0)
    location, scale = regressors.predict(fitted, np.empty((20, 0)), query_labels)
    for j, label in enumerate(query_labels):
        class_signals = signal[labels == label]
        group = class_signals if len(class_signals) >= 3 else signal
        assert location[j] == pytest.approx(group.mean())
        assert scale[j] == pytest.approx(group.std(ddof=1))


def test_boosting_finds_location_and_scale():
    rng = np.random.default_rng(0)
    x, y, s = skewed(rng, 4000)
    fitted = regressors.fit(Boosted(), x, s, y, seed=0)
    xt, yt, _ = skewed(rng, 2000)
    location, scale = regressors.predict(fitted, xt, yt)
    assert np.corrcoef(location, 2.0 * yt + xt[:, 0])[0, 1] > 0.97
    assert stats.spearmanr(scale, xt[:, 1]).statistic > 0.9
    fresh_x, fresh_y, fresh = skewed(rng, 4000)
    fitted_location, width = regressors.predict(fitted, fresh_x, fresh_y)
    assert 0.9 < ((fresh - fitted_location) / width).std() < 1.1


def test_out_of_fold_predictions_are_made_by_trees_that_never_saw_the_record():
    rng = np.random.default_rng(1)
    table, target, folds = rng.normal(size=(600, 2)), rng.normal(size=600), rng.permutation(600) % 5
    _, unseen = crossfit(Booster(), "regression", table, target, folds, seed=0)
    for k in range(5):
        in_fold = folds == k
        _, changed = crossfit(Booster(), "regression", table, np.where(in_fold, 100.0, target), folds, seed=0)
        np.testing.assert_array_equal(changed[in_fold], unseen[in_fold])
        assert (changed[~in_fold] != unseen[~in_fold]).any()


REGRESSORS = (
    Marginal(),
    PerClass(),
    Boosted(Booster(rounds=30, rate=0.1)),
)


@pytest.mark.parametrize("regressor", REGRESSORS, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("output", ["z", "level"])
def test_members_score_higher_and_rows_and_seeds_behave(regressor, output):
    rng = np.random.default_rng(3)
    inside, outside = evidence(rng, up=3.0), evidence(rng)
    attack = QuantileRegression(regressor, output=output, seed=5)
    target, features, labels = (
        np.concatenate([getattr(inside, part), getattr(outside, part)]) for part in ("target", "features", "labels")
    )
    order = rng.permutation(400)

    def build(rows):
        return dv.Evidence(
            target[rows],
            features=features[rows],
            labels=labels[rows],
            population=outside.population,
            population_features=outside.population_features,
            population_labels=outside.population_labels,
        )

    scores = attack.score(build(slice(None)))
    assert stats.mannwhitneyu(scores[:200], scores[200:]).pvalue < 1e-6
    assert scores[:200].mean() > scores[200:].mean()
    np.testing.assert_array_equal(scores, attack.score(build(slice(None))))
    np.testing.assert_allclose(attack.score(build(order)), scores[order], rtol=1e-12)
    if output == "level":
        assert ((scores >= 0) & (scores <= 1)).all()


@pytest.mark.parametrize("regressor", REGRESSORS, ids=lambda r: type(r).__name__)
def test_conformal_fpr_is_beta_whatever_the_regressor(regressor):
    """k = 10 of n = 999 calibration scores at 1 %: FPR ~ Beta(10, 990), mean 1 %, sd 0.314 %.

    Over 20 splits the mean has sd 0.07 %; with 2,000 fresh outsiders each (binomial sd 0.22 %) the mean
    of the observed rates has sd 0.086 %. The band of ±4.5 sd fails by chance once in 100,000 runs.
    """
    rng = np.random.default_rng(6)
    rates = []
    for seed in range(20):
        table = evidence(rng, n=2000, z=1998)
        scored = QuantileRegression(regressor, seed=seed).run(table)
        assert scored.calibration is not None
        assert len(scored.calibration) == 999
        threshold = np.sort(scored.calibration)[-10]
        rates.append((scored.scores >= threshold).mean())
    assert np.mean(rates) == pytest.approx(0.01, abs=4.5 * 0.00086)


def test_the_nominal_threshold_is_what_a_perfect_regressor_would_need():
    rng = np.random.default_rng(7)
    table = dv.Evidence(rng.normal(size=20000), population=rng.normal(size=20000))
    for output in ("z", "level"):
        attack = QuantileRegression(Marginal(), conformal=False, output=output)
        scored = attack.run(table)
        assert scored.calibration is None
        # Binomial sd 0.07 %, and 0.02 % from the fitted mean and deviation.
        assert (scored.scores > attack.nominal_threshold(0.01)).mean() == pytest.approx(0.01, abs=0.004)


def test_an_unseen_class_has_the_pooled_distribution_and_a_note():
    rng = np.random.default_rng(8)
    signal, labels = rng.normal(size=300), rng.integers(0, 2, 300)
    table = dv.Evidence([0.0, 0.5], population=signal, labels=[0, 7], population_labels=labels)
    scored = QuantileRegression(conformal=False).run(table)
    assert scored.scores[1] == pytest.approx((0.5 - signal.mean()) / signal.std(ddof=1))
    assert len(scored.notes) == 1
    assert scored.notes[0].startswith("1 of the 2 records scored belong to classes missing from the population (7)")


class Diverging:
    """A network whose training ran off."""

    def fit(self, features, signal):
        return self

    def predict(self, features):
        return np.zeros(len(features)), np.full(len(features), np.nan)


class Itself:
    """The plain form: fits itself, returns nothing, knows neither labels nor seeds."""

    mean = None

    def fit(self, features, signal):
        self.mean = signal.mean() + 0.0 * features.sum()

    def predict(self, features):
        return np.full(len(features), self.mean), np.ones(len(features))


def test_a_diverged_regressor_gives_way_to_the_marginal_with_a_note():
    table = evidence(np.random.default_rng(9))
    scored = QuantileRegression(Diverging(), seed=1).run(table)
    expected = QuantileRegression(Marginal(), seed=1).run(table)
    np.testing.assert_array_equal(scored.scores, expected.scores)
    np.testing.assert_array_equal(scored.calibration, expected.calibration)
    assert "Diverging diverged" in scored.notes[0]


def test_a_regressor_handed_in_is_never_changed():
    regressor = Itself()
    table = evidence(np.random.default_rng(10))
    scores = QuantileRegression(regressor, conformal=False).score(table)
    np.testing.assert_allclose(scores, table.target - table.population.mean())
    assert regressor.mean is None


def test_features_of_any_shape_are_flattened():
    rng = np.random.default_rng(11)
    pixels, population_pixels = rng.integers(0, 255, (40, 4, 4)), rng.integers(0, 255, (600, 4, 4))
    signal, target = population_pixels.reshape(600, -1)[:, 0] / 100.0, rng.normal(size=40)
    deep = dv.Evidence(target, population=signal, features=pixels, population_features=population_pixels)
    flat = dv.Evidence(
        target,
        population=signal,
        features=pixels.reshape(40, -1),
        population_features=population_pixels.reshape(600, -1),
    )
    np.testing.assert_array_equal(QuantileRegression().score(deep), QuantileRegression().score(flat))


@pytest.mark.parametrize("regressor", REGRESSORS, ids=lambda r: type(r).__name__)
def test_constant_and_tied_signals_give_finite_scores(regressor):
    rng = np.random.default_rng(12)
    x, labels = rng.normal(size=(1200, 3)), rng.integers(0, 4, 1200)
    for signal in (np.full(1200, 0.3), np.where(rng.random(1200) < 0.3, 0.0, rng.random(1200))):
        table = dv.Evidence(
            signal[:100],
            population=signal[100:],
            features=x[:100],
            population_features=x[100:],
            labels=labels[:100],
            population_labels=labels[100:],
        )
        scores = QuantileRegression(regressor).score(table)
        assert np.isfinite(scores).all()
        assert np.ptp(signal) > 0 or np.ptp(scores) == 0.0, "equal signals leave nothing to find"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "QuantileRegression: evidence.population is needed"),
        ({"population": [1.0, 2.0, 3.0]}, "has 3 records, at least 4 are needed"),
        ({"population": np.ones(9), "features": np.ones((2, 1))}, "evidence.population_features is needed"),
        ({"population": np.ones(9), "population_features": np.ones((9, 1))}, "evidence.features is needed"),
        ({"population": np.ones(9), "labels": [0, 1]}, "evidence.population_labels is needed"),
        (
            {"population": np.ones(9), "features": np.ones((2, 1)), "population_features": np.ones((9, 2))},
            r"evidence.features has shape \(1,\) per record, population_features \(2,\)",
        ),
        (
            {"population": np.ones(9), "features": ["a", "b"], "population_features": ["c"] * 9},
            "numbers are needed by this regressor, got texts",
        ),
    ],
)
def test_bad_evidence_is_refused(parts, message):
    with pytest.raises(dv.InputError, match=message):
        QuantileRegression().score(dv.Evidence([0.1, 0.2], **parts))


def make_evidence(z, *, labels=False, seed=0):
    """Signals that two features and, with labels, a class determine."""
    rng = np.random.default_rng(seed)
    x, y, s = skewed(rng, z + 60)
    parts = {"labels": y[:60], "population_labels": y[60:]} if labels else {}
    return dv.Evidence(s[:60], population=s[60:], features=x[:60], population_features=x[60:], **parts)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("z", [30, 140, 2000])
def test_a_regressor_that_is_constant_over_the_candidates_is_noted(labels, z):
    table = make_evidence(z, labels=labels)
    scored = QuantileRegression(conformal=False).run(table)
    if z == 2000:
        assert scored.notes == ()
        return
    (note,) = scored.notes
    assert note.startswith(f"Boosted learned nothing from the features of {z} population records")
    if labels and z == 140:
        assert note.endswith("a record is compared with its class alone")
    elif not labels:
        assert note.endswith("the scores rank records as the signal alone does")
        assert stats.spearmanr(scored.scores, table.target).statistic == pytest.approx(1.0)


def test_only_a_constant_over_each_class_is_noted_where_classes_repeat():
    rng = np.random.default_rng(1)
    signal = rng.normal(size=300)
    everyone = dv.Evidence(
        signal[:100], population=signal[100:], features=np.zeros((100, 1)), population_features=np.zeros((200, 1)),
        labels=np.arange(100), population_labels=np.repeat(np.arange(10), 20),
    )  # fmt: skip
    scored = QuantileRegression(PerClass(), conformal=False).run(everyone)
    assert not [note for note in scored.notes if "learned nothing" in note]  # classes of one record show nothing


@pytest.mark.parametrize(
    ("regressor", "conformal", "least"),
    [(Boosted(), False, 4), (Boosted(), True, 4), (Network(), False, 10), (Network(), True, 20)],
)
def test_the_fewest_population_records_leave_enough_to_learn_from(regressor, conformal, least):
    attack = QuantileRegression(regressor, conformal=conformal)
    assert attack.least_population == least
    rng = np.random.default_rng(0)
    for z in (least - 1, least):
        table = dv.Evidence(
            rng.normal(size=5), population=rng.normal(size=z), features=rng.normal(size=(5, 2)),
            population_features=rng.normal(size=(z, 2)),
        )  # fmt: skip
        if z < least:
            with pytest.raises(dv.InputError, match="at least"):
                attack.run(table)
        else:
            if isinstance(regressor, Network):
                pytest.importorskip("torch")
            assert np.isfinite(attack.run(table).scores).all()
