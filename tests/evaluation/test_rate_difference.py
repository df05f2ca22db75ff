"""The interval of a difference of two shares: coverage by enumeration, order, symmetry."""

import itertools

import numpy as np
import pytest
from scipy import stats

import divulge as dv
from divulge.evaluation import rate_difference

SHARES = (0.0, 0.02, 0.1, 0.3, 0.5, 0.8, 0.95, 1.0)


@pytest.mark.parametrize(("sizes", "confidence"), [((1, 1), 0.95), ((3, 6), 0.95), ((9, 2), 0.8)])
def test_each_end_errs_with_half_the_error_at_most(sizes, confidence):
    """By summing over all tables, for every pair of shares on a grid: no chance is involved."""
    n, m = sizes
    intervals = {
        (k, j): rate_difference(k, n, j, m, confidence) for k, j in itertools.product(range(n + 1), range(m + 1))
    }
    for p, q in itertools.product(SHARES, SHARES):
        weights = np.outer(stats.binom.pmf(range(n + 1), n, p), stats.binom.pmf(range(m + 1), m, q))
        above = sum(weights[outcome] for outcome, interval in intervals.items() if interval.low > p - q + 1e-9)
        below = sum(weights[outcome] for outcome, interval in intervals.items() if interval.high < p - q - 1e-9)
        assert above <= (1 - confidence) / 2 + 1e-9
        assert below <= (1 - confidence) / 2 + 1e-9


def test_it_is_turned_when_the_samples_are():
    for k, n, j, m in ((3, 9, 1, 20), (0, 5, 5, 5), (40, 1000, 10, 1000)):
        difference, negative = rate_difference(k, n, j, m), rate_difference(j, m, k, n)
        assert difference.low == -negative.high
        assert difference.high == -negative.low
        assert difference.low <= difference.value <= difference.high


def test_it_rises_with_the_first_count():
    lows = [rate_difference(k, 30, 2, 40).low for k in range(31)]
    assert (np.diff(lows) > -1e-3).all()  # up to how closely the bound is sought


@pytest.mark.parametrize("table", [(4, 100, 0, 100), (10, 100, 0, 100), (9, 60, 3, 80), (5, 5, 0, 5), (12, 30, 9, 200)])
def test_it_shows_a_larger_share_where_the_exact_test_does(table):
    """Barnard's test with the same statistic; a twentieth of the error is spent on where the shares lie."""
    k, n, j, m = table
    p = stats.barnard_exact([[k, j], [n - k, m - j]], alternative="greater").pvalue
    assert rate_difference(*table, confidence=1 - 2 * (1.2 * p + 1e-4)).low > -1e-3


@pytest.mark.parametrize("table", [(10, 100, 0, 100), (40, 1000, 10, 1000), (20, 50, 18, 50)])
def test_its_lower_end_lies_above_that_of_two_separate_intervals(table):
    k, n, j, m = table
    first_rate, second_rate = (dv.evaluation.proportion(a, b, 0.975) for a, b in ((k, n), (j, m)))
    assert rate_difference(*table).low > first_rate.low - second_rate.high


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((1, 0, 0, 1), "trials: "), ((2, 1, 0, 1), "successes: "), ((0, 1, 2, 1), "other_successes: "),
     ((0, 1, 0, 0), "other_trials: "), ((0.5, 1, 0, 1), "successes: "), ((0, 1, 0, 1, 1.0), "confidence: ")],
)  # fmt: skip
def test_bad_input_is_refused_by_name(arguments, message):
    with pytest.raises(dv.InputError, match=f"^{message}"):
        rate_difference(*arguments)
