"""A condition of an identification is ticked only where its test could have refuted it: sets that differ, drawn."""

import numpy as np
import pytest
from scipy import stats

from divulge.decisions import controls
from divulge.identification import case_file
from divulge.results import ControlResult

DRAWS = 120


def tick_rate(n, h, shift, *, ties=False, seed=0):
    """The share of draws in which two sets of unused documents, one shifted, are said to score alike."""
    rng = np.random.default_rng(seed)
    ticks = 0
    for _ in range(DRAWS):
        calibration, holdout = rng.normal(size=n), rng.normal(shift, 1, h)
        if ties:
            calibration, holdout = calibration.round(), holdout.round()
        c = controls.exchangeability(calibration, holdout)
        result = ControlResult(c.name, c.p_value, c.level, c.says, c.auc, c.conclusive, c.state)
        ticks += case_file._compare_known_nonmembers([result]).mark == "met"
    return ticks / DRAWS


@pytest.mark.parametrize(("n", "h"), [(300, 3), (300, 40), (40, 40), (600, 150)])
def test_sets_that_differ_by_a_large_shift_are_hardly_ever_ticked(n, h):
    """An AUC of .65 is ticked in about 2.5 % of draws at most; a bound of .08 then fails once in 5,000."""
    shift = np.sqrt(2) * stats.norm.ppf(0.65)
    assert tick_rate(n, h, shift) <= 0.08
    assert tick_rate(n, h, -shift, seed=1) <= 0.08


def test_sets_that_are_alike_are_ticked_where_there_is_enough_of_them():
    assert tick_rate(300, 150, 0.0) > 0.9
    assert tick_rate(300, 3, 0.0) == 0
    assert tick_rate(1, 1, 0.0) == 0


def test_ties_and_constants_earn_no_tick_that_is_not_theirs():
    assert tick_rate(300, 100, np.sqrt(2) * stats.norm.ppf(0.65), ties=True) <= 0.08
    assert tick_rate(300, 5, 5.0) == 0
