"""Regression models that were not trained on the members are not said to leak, and ones that know nothing not cleared.

Each condition is simulated 5 times, 30 audits in all. "Leak found" is wrong in at most 5 % of them; 4 standard
deviations above it, of all audits and of each condition, are passed by chance in fewer than one of 1,000 seeds.
"""

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

import divulge as dv
from divulge.auditing.plausibility import (
    CORRELATION_MARGIN,
    GAIN_MARGIN,
    describe_regression_doubt,
    measure_regression_fit,
)
from divulge.references import Custom
from divulge.results import RegressionFit

AUDITS = 5


def plain(x, rng):
    return 2 * x[:, 0] + rng.normal(size=len(x))


def heavy(x, rng):
    return 2 * x[:, 0] + rng.standard_cauchy(len(x))


def skewed(x, rng):
    return np.exp(2 * x[:, 0] + 2 * rng.normal(size=len(x)))


def rounded_value(x, rng):
    return np.round(x[:, 0] + rng.normal(size=len(x)))


def mostly_zero(x, rng):
    return np.where(rng.random(len(x)) < 0.7, 0.0, x[:, 0] + 3)


def constant(x, rng):
    return np.full(len(x), 1.5)


MODELS = {
    "forest": lambda seed: RandomForestRegressor(5, random_state=seed % 2**31),
    "boosting": lambda seed: GradientBoostingRegressor(n_estimators=8, random_state=seed % 2**31),
    "ridge": lambda seed: Ridge(),
}
CONDITIONS = [
    (plain, "forest", (40, 40, 80)),
    (heavy, "forest", (40, 40, 80)),
    (skewed, "boosting", (20, 70, 80)),
    (rounded_value, "forest", (70, 20, 80)),
    (mostly_zero, "ridge", (40, 40, 80)),
    (constant, "ridge", (12, 12, 20)),
]


def records(values, n, rng):
    x = rng.normal(size=(n, 3))
    return dv.Records(x, values(x, rng)).with_real_values()


def null_audit(values, model, sizes, seed):
    """Audit a model that was trained on other records of the same kind."""
    rng = np.random.default_rng(seed)
    sets = [records(values, n, rng) for n in (*sizes, sizes[0])]

    def fit(learned, model_seed):
        return MODELS[model](model_seed).fit(learned.x, learned.y)

    return dv.audit(
        fit(sets[3], seed),
        **dict(zip(("members", "nonmembers", "population"), sets, strict=False)),
        recipes=["loss", "lira", "rmia", "lira-residual"] if sizes[0] > 12 else ["loss", "rmia"],
        references=Custom(fit, count=2, engine="serial"),
        fpr=[0.2],
        seed=seed,
    )


@pytest.fixture(scope="module")
def false_alarms():
    return {
        (values.__name__, model): sum(
            null_audit(values, model, sizes, seed).verdict.tone == "leak" for seed in range(AUDITS)
        )
        for values, model, sizes in CONDITIONS
    }


def test_models_of_other_records_are_said_to_leak_in_at_most_one_of_twenty_audits(false_alarms):
    n = AUDITS * len(CONDITIONS)
    assert sum(false_alarms.values()) <= 0.05 * n + 4 * (0.05 * 0.95 * n) ** 0.5
    assert max(false_alarms.values()) <= 0.05 * AUDITS + 4 * (0.05 * 0.95 * AUDITS) ** 0.5, false_alarms


@pytest.mark.parametrize("values", [plain, heavy, skewed, rounded_value, mostly_zero])
def test_predictions_that_have_nothing_to_do_with_the_records_hardly_ever_pass(values):
    """They pass with probability 0.001 at most; 4 of 300 are passed by chance in fewer than one of 10,000 seeds."""
    rng = np.random.default_rng(40)
    n_passed = 0
    for draw in range(300):
        n = (12, 60, 300)[draw % 3]
        y, predictions = (values(rng.normal(size=(n, 3)), rng) for _ in range(2))
        predictions = np.median(y) + 0.1 * (predictions - np.median(predictions))
        fit = measure_regression_fit(np.r_[y, y], np.r_[predictions, predictions], np.arange(2 * n) < n)
        gains = [gain.value for gain in (fit.squared_gain, fit.absolute_gain) if gain is not None]
        n_passed += max(gains, default=-1) > GAIN_MARGIN and fit.rank_correlation.low > CORRELATION_MARGIN
    assert n_passed <= 4


def test_intervals_of_r_squared_and_of_the_error_hold_what_they_claim():
    rng = np.random.default_rng(42)
    true_error, n_covered = (2 / np.pi) ** 0.5, np.zeros(2)
    for _ in range(400):
        x = rng.normal(size=(300, 3))
        y, predictions = plain(x, rng), 2 * x[:, 0]
        fit = measure_regression_fit(np.r_[y, y], np.r_[predictions, predictions], np.arange(600) < 300)
        n_covered += (
            fit.r_squared_members.low <= 0.8 <= fit.r_squared_members.high,
            (fit.error_nonmembers.low <= true_error <= fit.error_nonmembers.high),
        )
    assert (np.abs(n_covered - 400 * 0.95) <= 4 * (400 * 0.95 * 0.05) ** 0.5).all()


@pytest.mark.parametrize(("n", "noise"), [(2, 1.0), (3, 0.2), (4, 0.2), (12, 0.0), (60, 1.0), (60, 5.0)])
@pytest.mark.parametrize("values", [plain, heavy, rounded_value, mostly_zero])
def test_figures_of_the_fit_are_those_of_their_definitions(values, noise, n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=(2 * n, 3))
    y = values(x, rng)
    predictions, member = y + noise * rng.normal(size=2 * n), rng.permutation(2 * n) < n
    fit = measure_regression_fit(y, predictions, member)
    for side, r_squared, error in (
        (member, fit.r_squared_members, fit.error_members),
        (~member, fit.r_squared_nonmembers, fit.error_nonmembers),
    ):
        true_values, errors = y[side], np.abs(predictions - y)[side]
        half = stats.t.ppf(0.975, n - 1) * stats.sem(errors)
        assert (error.value, error.low, error.high) == pytest.approx(
            (errors.mean(), errors.mean() - half, errors.mean() + half)
        )
        if np.ptp(true_values) == 0:
            assert r_squared is None
            continue
        assert r_squared.value == pytest.approx(r2_score(true_values, predictions[side]))
        # The delta method by a numerical derivative: what each record adds to the ratio of both sums.
        deviations = (true_values - true_values.mean()) ** 2
        weights = 1 + 1e-6 * np.eye(n)
        moved = (weights @ errors**2) / (weights @ deviations) - (errors**2).sum() / deviations.sum()
        spread = np.sqrt(n) * np.std(n * moved / 1e-6) / n
        assert r_squared.high - r_squared.value == pytest.approx(stats.norm.ppf(0.975) * spread, rel=1e-3, abs=1e-9)
        assert r_squared.value - r_squared.low == pytest.approx(r_squared.high - r_squared.value, abs=1e-12)
    true_values, predicted_values = y[member], predictions[member]
    correlation = fit.rank_correlation
    if np.ptp(true_values) == 0:
        assert correlation.value == 0.0
        assert fit.squared_gain is None
        return
    assert correlation.value == pytest.approx(stats.spearmanr(true_values, predicted_values).statistic)
    if n < 4:
        assert (correlation.low, correlation.high) == (-1.0, 1.0)
    elif abs(correlation.value) < 1 - 1e-9:  # Bonett & Wright: z ± quantile · √((1 + r²/2) / (n - 3)), at 1 in 1,000
        z = (np.arctanh([correlation.low, correlation.high]) - np.arctanh(correlation.value)) / stats.norm.ppf(0.999)
        assert np.sign(z).tolist() == [-1, 1]
        assert z**2 * (n - 3) == pytest.approx([1 + correlation.value * correlation.value / 2] * 2)
    mean, middle = true_values.mean(), np.median(true_values)
    assert fit.squared_gain.value == pytest.approx(
        1 - ((predicted_values - true_values) ** 2).sum() / ((mean - true_values) ** 2).sum()
    )
    assert fit.absolute_gain.value == pytest.approx(
        1 - np.abs(predicted_values - true_values).sum() / np.abs(middle - true_values).sum()
    )


def test_a_gain_by_either_error_and_a_sure_correlation_are_needed_and_enough():
    def of(squared, absolute, correlation_low):
        gains = [None if gain is None else dv.Estimate(gain, gain, gain, 0.95, "") for gain in (squared, absolute)]
        error, rank = dv.Estimate(1.0, 0.9, 1.1, 0.95, ""), dv.Estimate(0.5, correlation_low, 0.9, 0.95, "")
        return describe_regression_doubt(RegressionFit(None, None, error, error, *gains, rank))

    more, sure = GAIN_MARGIN + 0.01, CORRELATION_MARGIN + 0.01
    for gains in ((more, more), (more, -1.0), (-1.0, more), (more, None), (None, more)):
        assert of(*gains, sure) == ""
        assert "do not surely rise with their values" in of(*gains, CORRELATION_MARGIN)
    for gains in ((GAIN_MARGIN, GAIN_MARGIN), (GAIN_MARGIN, -1.0), (None, GAIN_MARGIN)):
        assert "hardly worse" in of(*gains, sure)
    for gains in ((0.0, 0.0), (0.0, -1.0), (-1.0, None)):
        assert "is no worse" in of(*gains, sure)
    assert "values of all training records are equal" in of(None, None, sure)
