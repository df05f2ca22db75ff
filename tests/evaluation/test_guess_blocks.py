"""Blocks of right guesses, each judged at once: they cover all numbers, and none is wider than a thousandth."""

import numpy as np
import pytest
from scipy import stats

from divulge.evaluation import epsilon


@pytest.mark.parametrize("max_guesses", [1, 7, 1000, 12_345, 300_000])
def test_blocks_cover_all_numbers_and_are_at_most_a_thousandth_wide(max_guesses):
    ends = epsilon._steps(max_guesses)
    starts = np.append(1, ends[:-1] + 1)
    assert ends[-1] == max_guesses
    assert (np.diff(ends) > 0).all()
    assert (ends <= np.ceil(starts * 1.001)).all()
    assert len(ends) <= 20_000


def test_the_price_of_delta_is_that_of_the_formula_for_every_number():
    right, n_guesses, n, chance, delta = 60, 80, 200, 0.6, 1e-3
    law = stats.binom(n_guesses, chance)
    gains = [(law.sf(right - i - 1) - law.sf(right - 1)) / i for i in range(1, right + 1)]
    expected = law.sf(right - 1) + 2 * n * delta * max(gains)
    assert epsilon._p_value(right, n_guesses, n, chance, delta) == pytest.approx(min(1.0, expected))
    assert epsilon._p_value(right, n_guesses, n, chance, 0.0) == pytest.approx(law.sf(right - 1))
