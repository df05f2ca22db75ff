"""Plans for the calibration, against simulations of other make."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

import divulge as dv
from divulge.decisions import fdr, planning
from divulge.decisions.planning import Setting


@pytest.mark.parametrize("method", fdr.METHODS)
def test_a_plan_reaches_what_was_wanted(method):
    """By draws of its own, through `fdr.select`; the scatter of 80 means is .02 at most."""
    plan, rng = planning.calibration(Setting(120, 60, 0.97), 0.7, fdr=0.2, method=method), np.random.default_rng(1)
    power = []
    for _ in range(80):
        scores = np.append(rng.normal(np.sqrt(2) * norm.ppf(0.97), 1, 60), rng.normal(size=60))
        power.append(fdr.select(scores, rng.normal(size=plan.calibration), fdr=0.2, method=method).selected[:60].mean())
    assert 0.64 < np.mean(power) < 0.86
    assert plan.power.low - 0.05 < np.mean(power) < plan.power.high + 0.05
    assert plan.least <= plan.calibration


def test_power_with_much_calibration_is_that_of_known_non_members():
    """Benjamini and Hochberg's cut with known densities solves one equation."""
    shift, level, share = np.sqrt(2) * norm.ppf(0.95), 0.1, 0.5

    def excess(threshold):
        return norm.sf(threshold) - level * ((1 - share) * norm.sf(threshold) + share * norm.sf(threshold - shift))

    expected = norm.sf(brentq(excess, 0.5, 5) - shift)
    power = planning.power(20_000, Setting(2000, 1000, 0.95), fdr=level, method="bh")
    assert power.low - 0.005 < expected < power.high + 0.005


def test_what_no_calibration_reaches():
    plan = planning.calibration(Setting(200, 20, 0.65), 0.5, max_calibration=2000)
    assert plan.calibration is None
    assert plan.power.high < 0.1


def test_nonmembers_that_score_high_may_open_a_selection():
    """A selection of ten members takes 99 records if they are alone above all calibration, which they need not be."""
    setting = Setting(100, 10, 0.999)
    assert fdr.required_calibration(100, 0.1, 10) == 99
    for method in ("bh", "storey"):
        assert planning.power(85, setting, fdr=0.1, method=method).low > 0
        assert planning.calibration(setting, 0.2, fdr=0.1, method=method).calibration < 99
    assert planning.calibration(setting, 0.2, fdr=0.1).least == 9
    assert planning.power(8, setting, fdr=0.1).value == 0
    with pytest.raises(dv.InputError, match="at least 9"):
        fdr.select(np.full(100, 9.0), np.arange(8.0), fdr=0.1)


@pytest.mark.parametrize(("often", "shape"), [(0.0, (1, 1)), (0.002, (3, 3)), (0.01, (3, 3)), (0.9, (30, 3))])
def test_an_interval_of_power_holds_it_where_selections_are_rare(often, shape):
    """300 simulated plans; each fails with a probability of 1e-6 at most where the interval holds in 95 of 100."""
    rng, n_covered = np.random.default_rng(0), 0
    true = often * shape[0] / sum(shape)
    for _ in range(300):
        interval = planning.mean_power(np.where(rng.random(400) < often, rng.beta(*shape, 400), 0.0))
        assert interval.high > interval.low
        n_covered += interval.low <= true <= interval.high
    assert n_covered >= binom.isf(1 - 1e-6, 300, 0.95)


def test_one_seed_one_plan():
    setting = Setting(60, 30, 0.95)
    assert planning.calibration(setting, 0.6, seed=3) == planning.calibration(setting, 0.6, seed=3)


def test_bad_input_is_named():
    for bad in ((0, 1, 0.9), (5, 6, 0.9), (5, 0, 0.9), (5, 2, 0.5), (5, 2, 1.0)):
        with pytest.raises(dv.InputError, match=r"candidates|members|auc"):
            Setting(*bad)
    setting = Setting(100, 10, 0.9)
    with pytest.raises(dv.InputError, match="max_calibration: "):
        planning.calibration(setting, 0.5, fdr=0.05, max_calibration=18)
    with pytest.raises(dv.InputError, match="wanted"):
        planning.calibration(setting, 1.0)
    with pytest.raises(dv.InputError, match="method"):
        planning.power(100, setting, method="best")
    with pytest.raises(dv.InputError, match="setting"):
        planning.power(100, 7)
