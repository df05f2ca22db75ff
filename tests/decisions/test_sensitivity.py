"""Selections that stand although non-members are unlike the calibration, up to a factor of their density."""

import numpy as np
import pytest

import divulge as dv
from divulge.decisions import BH, Adaptive, Storey, fdr
from divulge.decisions.counts import Counts

METHODS = ("bh", "storey", "adaptive", "ptdi")
STEPS = {"bh": BH(), "storey": Storey(), "adaptive": Adaptive()}


def scores(rng, n=150, m=120, members=60):
    return np.append(rng.normal(2.5, 1, members), rng.normal(size=m - members)), rng.normal(size=n)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [np.asarray, np.round], ids=["continuous", "rounded"])
def test_what_stands_is_what_a_lower_level_selects(method, shape):
    candidates, calibration = map(shape, scores(np.random.default_rng(0)))
    result = fdr.sensitivity(candidates, calibration, fdr=0.3, method=method)
    assert np.array_equal(result.gammas > 0, fdr.select(candidates, calibration, fdr=0.3, method=method).selected)
    for gamma in (1.0, 1.1, 1.5, 2.0, 3.0):
        level = 0.3 / gamma ** (1 if method == "bh" else 2)
        if fdr.is_calibration_too_small(len(calibration), level):
            continue
        lower = fdr.select(candidates, calibration, fdr=level, method=method).selected
        assert np.array_equal(result.gammas * (1 + 1e-9) >= gamma, lower)
        assert result.count(gamma) == lower.sum()


def test_shares_of_a_selection():
    sensitivity = fdr.Sensitivity(np.array([0.0, 4.0, 1.5, 2.0, 1.1]), 0.1)
    assert [sensitivity.up_to(share) for share in (1.0, 0.75, 0.5, 0.25, 0.01)] == [1.1, 1.5, 2.0, 4.0, 4.0]
    assert "all 4 stand up to Γ = 1.10, half up to 2.00, some up to 4.00" in repr(sensitivity)
    assert fdr.Sensitivity(np.zeros(3), 0.1).up_to() == 0
    assert str(fdr.Sensitivity(np.zeros(3), 0.1)) == "nothing is selected"


def test_what_is_said_is_not_rounded_up():
    assert str(fdr.Sensitivity(np.array([1.2, 1.996, 3.0]), 0.1)) == (
        "all 3 stand up to Γ = 1.20, half up to 1.99, some up to 3.00"
    )
    assert "Γ = 1.15," in str(fdr.Sensitivity(np.array([1.15]), 0.1))


def test_no_candidates_are_refused():
    for method in METHODS:
        with pytest.raises(dv.InputError, match="candidates: at least 1"):
            fdr.sensitivity_by_rank(Counts.empty(range(99)), fdr=0.1, method=method)


def tilted(rng, count, gamma):
    """The worst non-members: ``gamma`` times likelier in the calibration's upper part, ``1 / gamma`` in the lower.

    As uniform scores: the upper part is ``1 / (1 + gamma)`` of the calibration.
    """
    upper = rng.random(count) < gamma / (1 + gamma)
    edge = gamma / (1 + gamma)
    return np.where(upper, rng.uniform(edge, 1, count), rng.uniform(0, edge, count))


def rates(method, gamma, level, n, m, members, runs, seed):
    rng, false = np.random.default_rng(seed), []
    for _ in range(runs):
        candidates = np.append(rng.beta(8, 1, members), tilted(rng, m - members, gamma))
        calibration = rng.random(n)
        rule = fdr.step_up(Counts.empty(calibration).add(candidates), level, STEPS[method])
        chosen = candidates > rule.threshold
        false.append(chosen[members:].sum() / max(chosen.sum(), 1))
    return np.mean(false)


@pytest.mark.parametrize("method", ["bh", "storey", "adaptive"])
@pytest.mark.parametrize(("n", "m", "members"), [(200, 100, 0), (400, 300, 150), (100, 400, 320)])
def test_the_worst_nonmembers_keep_the_level_at_their_gamma(method, n, m, members):
    """Proportions in [0, 1] whose mean is at most ``level``: by Chernoff any of the 18 fails with 2e-4."""
    for gamma in (1.3, 2.0):
        level = 0.2 / gamma ** (1 if method == "bh" else 2)
        assert rates(method, gamma, level, n, m, members, 200, [n, m]) <= 0.346


def test_the_factor_is_attained_so_no_smaller_one_would_do():
    """Without members every selection is false: the rate at the full level is near Γ and Γ² times that level."""
    bh_rate = rates("bh", 2.0, 0.05, 2000, 20, 0, 1500, 1)
    storey_rate = rates("storey", 2.0, 0.05, 2000, 20, 0, 1500, 2)
    assert 0.07 < bh_rate < 0.13
    assert 0.15 < storey_rate < 0.25


def test_bad_input_is_named():
    result = fdr.sensitivity(*scores(np.random.default_rng(1)), fdr=0.1)
    for gamma in (0.5, np.nan, "two"):
        with pytest.raises(dv.InputError, match="gamma"):
            result.count(gamma)
    for share in (0, 1.5):
        with pytest.raises(dv.InputError, match="share"):
            result.up_to(share)
    with pytest.raises(dv.InputError, match="method"):
        fdr.sensitivity([1.0, 2.0], range(99), method="auto")
    assert fdr.sensitivity([200.0, 2.0], range(99), fdr=0.1, method=Storey(0.3)).fdr == 0.1
    assert Adaptive().name in METHODS
