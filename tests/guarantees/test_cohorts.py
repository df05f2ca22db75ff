"""The chance with which a published regression of other records fits a cohort, against what is said of it."""

import numpy as np

from divulge.margin import Publication, cohorts


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
