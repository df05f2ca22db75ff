"""The chance with which a published regression of other records fits a cohort, against what is said of it."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from divulge.margin import Publication, cohorts
from divulge.margin.cohorts import MAX_MISTAKE


def test_weights_of_other_cohorts_are_accepted_no_more_often_than_is_said():
    """At one decimal they often are, so 300 draws can count them; it fails by chance in 3 of 10 million runs."""
    rng = np.random.default_rng(3)
    accepted, bounds = [], []
    for _ in range(300):
        x = rng.normal(size=(2, 100, 1))
        y = x[..., 0] + rng.normal(size=(2, 100))
        slope, intercept = np.polyfit(x[1, :, 0], y[1], 1)
        held = {"a": (x[0], y[0])}
        match = cohorts(Publication([round(slope, 1)], round(intercept, 1), "linear", decimals=1), held)
        accepted.append(bool(match.accepted))
        bounds.append(cohorts(Publication([slope], intercept, "linear", 1, units=1.0), held).chance)
        assert match.match is None
    assert 0.1 < np.mean(accepted) < np.mean(bounds) + 5 * 0.5 / 300**0.5


DIFFERENCES = {
    "two records more": lambda x, y, w, rng: (x, y, w),
    "two records fewer": lambda x, y, w, rng: (x[:-4], y[:-4], w[:-4]),
    "one more, one fewer": lambda x, y, w, rng: (x[1:-1], y[1:-1], w[1:-1]),
    "a record of weight 1.5": lambda x, y, w, rng: (x[:-2], y[:-2], np.r_[1.5, w[1:-2]]),
}


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_other_differences_are_taken_for_one_record_no_more_often_than_is_said(difference):
    """Of whole numbers that hang together, where few records differ; it fails by chance in 1 of 10,000."""
    rng, chances, n, draws = np.random.default_rng(4), [], 200, 60
    for _ in range(draws):
        first = rng.integers(0, 3, n + 2)
        x = np.c_[first, np.minimum(first, rng.integers(0, 3, n + 2)), rng.random(n + 2) < 0.2].astype(float)
        y = (rng.random(n + 2) < 1 / (1 + np.exp(0.5 - x @ [0.4, -0.3, 0.5]))).astype(float)
        used = DIFFERENCES[difference](x, y, np.ones(n + 2), rng)
        model = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=200).fit(used[0], used[1], used[2])
        w, b = model.coef_[0].round(6), round(float(model.intercept_[0]), 6)
        match = cohorts(Publication(w, b, decimals=6, penalty=1.0, gradient=1e-12), {"a": (x[:-2], y[:-2])})
        if match.odd_record is not None:
            chances.append(match.odd_record.chance)
    assert len(chances) <= stats.binom.ppf(1 - 1e-4, draws, MAX_MISTAKE)
    assert all(chance <= MAX_MISTAKE for chance in chances)
