"""The chance with which a published regression of other records fits a cohort, against what is said of it."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from divulge.margin import Publication, cohorts
from divulge.margin.odd_record import MAX_MISTAKE


def test_weights_of_other_cohorts_are_accepted_no_more_often_than_is_said():
    """At one decimal they often are, so 120 draws can count them; it fails by chance in 1 of 10,000 runs."""
    rng = np.random.default_rng(3)
    n_accepted, chances = 0, []
    for _ in range(120):
        x = rng.normal(size=(2, 50, 1))
        y = x[..., 0] + rng.normal(size=(2, 50))
        slope, intercept = np.polyfit(x[1, :, 0], y[1], 1)
        held = {"a": (x[0], y[0])}
        match = cohorts(Publication([round(slope, 1)], round(intercept, 1), "linear", decimals=1), held)
        n_accepted += bool(match.accepted)
        assert match.match is None
        chances.append(match.chance)
    assert 5 < n_accepted <= stats.binom.isf(1e-4, 120, np.mean(chances))


ARM = (np.arange(60) % 2)[:, None].astype(float)
DESIGNS = {
    "a dose each": ("logistic", np.arange(30.0)[:, None], lambda x: 1 / (1 + np.exp(1.5 - 0.1 * x))),
    "three of each dose": ("logistic", np.repeat(np.arange(10.0), 3)[:, None], lambda x: 1 / (1 + np.exp(1 - 0.2 * x))),
    "two arms beside real numbers": ("logistic", ARM, lambda x: 0.3 + 0.2 * x),
    "counts of a dose each": ("poisson", np.arange(30.0)[:, None], lambda x: np.exp(0.02 * x)),
    "whole numbers of a dose each": ("linear", np.arange(30.0)[:, None], lambda x: 0.1 * x),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_trials_of_the_same_design_have_a_cohorts_coefficients_no_more_often_than_is_said(name):
    """The same sums of labels, and of doses times labels, give the same coefficients to all decimals."""
    family, x, mean = DESIGNS[name]
    rng, design = np.random.default_rng(5), np.c_[x, np.ones(len(x))]
    labels = {
        "logistic": lambda size: rng.random(size) < mean(x[:, 0]),
        "poisson": lambda size: rng.poisson(mean(x[:, 0]), size),
        "linear": lambda size: np.round(mean(x[:, 0]) + rng.normal(size=size)),
    }[family]
    outside, n_sampled = labels((40_000, len(x))) @ design, 0
    for _ in range(6):
        y = labels(len(x)).astype(float)
        held = {"b": (x, y)}
        if name == "two arms beside real numbers":
            held["a"] = (rng.normal(size=(30, 1)), (rng.random(30) < 0.5).astype(float))
        model = {
            "logistic": LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=200),
            "linear": Ridge(0.0),
            "poisson": PoissonRegressor(alpha=0.0, solver="newton-cholesky", tol=1e-12, max_iter=200),
        }[family].fit(x, y)
        w, b = np.ravel(model.coef_).round(6), round(float(np.ravel(model.intercept_)[0]), 6)
        if np.abs(w).min() < 1e-5:
            continue
        match = cohorts(Publication(w, b, family, decimals=6, gradient=1e-9), held)
        n_same = int((np.abs(outside - y @ design) < 1e-6).all(axis=1).sum())
        assert ("b",) in [each.cohorts for each in match.accepted]
        assert match.chance >= stats.beta.ppf(1e-4, max(n_same, 1e-9), 40_001 - n_same)
        assert n_same < 80 or match.certain == ()  # of 40,000
        n_sampled += n_same
    assert n_sampled > 25


DIFFERENCES = {
    "two records more": lambda w: w,
    "two records fewer": lambda w: np.r_[0, 0, w[2:-2], 0, 0],
    "one more, one fewer": lambda w: np.r_[0, w[1:-1], 0],
    "a record of weight 1.5": lambda w: np.r_[1.5, w[1:-2], 0, 0],
}
MODELS = {
    "logistic": lambda: LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=200),
    "linear": Ridge,
    "poisson": lambda: PoissonRegressor(alpha=0.01, solver="newton-cholesky", tol=1e-12, max_iter=200),
}


@pytest.mark.parametrize("family", MODELS)
def test_other_differences_are_taken_for_one_record_no_more_often_than_is_said(family):
    """Of whole numbers that hang together, where few records differ; it fails by chance in 1 of 10,000."""
    rng, n, draws = np.random.default_rng(4), 120, 7 if family == "logistic" else 2
    chances = [
        odd.chance
        for difference in DIFFERENCES
        for _ in range(draws)
        if (odd := mistaken_record(family, difference, n, rng)) is not None
    ]
    assert len(chances) <= stats.binom.ppf(1 - 1e-4, draws * len(DIFFERENCES), MAX_MISTAKE)
    assert all(chance <= MAX_MISTAKE for chance in chances)


def mistaken_record(family, difference, n, rng):
    """What is said to be the one record of difference, where another difference was made."""
    first = rng.integers(0, 3, n + 2)
    x = np.c_[first, np.minimum(first, rng.integers(0, 3, n + 2)), rng.random(n + 2) < 0.2].astype(float)
    predictor = x @ [0.4, -0.3, 0.5] - 0.5
    y = {
        "logistic": lambda at: (rng.random(n + 2) < 1 / (1 + np.exp(-at))).astype(float),
        "linear": lambda at: at + rng.normal(size=n + 2),
        "poisson": lambda at: rng.poisson(np.exp(at)).astype(float),
    }[family](predictor)
    weight = DIFFERENCES[difference](np.ones(n + 2))
    used = weight > 0
    model = MODELS[family]().fit(x[used], y[used], weight[used])
    w, b = np.ravel(model.coef_).round(6), round(float(np.ravel(model.intercept_)[0]), 6)
    options = {"decimals": 6, "penalty": 0.01 if family == "poisson" else 1.0, "gradient": 1e-12}
    odd = cohorts(Publication(w, b, family, **options), {"a": (x[:-2], y[:-2])}).odd_record
    differing = x[weight != np.r_[np.ones(n), 0, 0]]
    is_right = odd is not None and odd.alike is not None and (differing == odd.x).all()
    return None if is_right else odd
