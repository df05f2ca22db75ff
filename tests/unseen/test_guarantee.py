"""The one guarantee that needs no assumption about the regressor: conformal rank, with an exchangeable calibration."""

import numpy as np
from scipy import stats

from divulge import Evidence
from divulge.attacks import QuantileRegression, regressors
from divulge.decisions import fpr


def test_the_conformal_rate_lies_in_its_interval_in_95_percent_of_200_draws():
    """1,999 calibration scores, 2,000 outsiders: a beta-binomial count; its central 98 % hold in 95 % of the draws.

    P(fewer than 190 of 200 at 98 %) is 0.3 %.
    """
    level, calibration, outsiders, inside = 0.01, 1999, 2000, 0
    low, high = stats.betabinom(outsiders, 20, calibration + 1 - 20).ppf([0.01, 0.99])
    for seed in range(200):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 3, 2 * calibration + outsiders)
        signal = rng.standard_t(3, size=len(labels)) * (1 + labels) + labels
        calibration_rows, queried = slice(0, 2 * calibration), slice(2 * calibration, None)
        evidence = Evidence(
            signal[queried],
            population=signal[calibration_rows],
            labels=labels[queried],
            population_labels=labels[calibration_rows],
        )
        scored = QuantileRegression(regressors.PerClass(), seed=seed).run(evidence)
        inside += bool(low <= fpr.threshold(scored.calibration, level).select(scored.scores).sum() <= high)
    assert inside >= 190
