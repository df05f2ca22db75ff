"""Knockoffs: the selection in loops, and the test of symmetry by scipy and enumeration."""

import numpy as np
import pytest
from scipy import stats

import divulge as dv
from divulge.decisions import knockoff


def naive(originals, knockoffs, level):
    """The smallest t among the sizes of the differences with (1 + #{W ≤ -t}) / #{W ≥ t} ≤ level."""
    differences = [a - b for a, b in zip(originals, knockoffs, strict=True)]
    for t in sorted({abs(w) for w in differences if w}):
        above = sum(w >= t for w in differences)
        if above and (1 + sum(w <= -t for w in differences)) / above <= level:
            return [w >= t for w in differences], t
    return [False] * len(differences), np.inf


@pytest.mark.parametrize("level", [0.1, 0.3])
def test_the_selection_is_that_of_the_definition(level):
    rng = np.random.default_rng(0)
    for shift in (0.0, 1.0, 3.0):
        for _ in range(20):
            originals, knockoffs = (rng.normal(size=40) + shift).round(1), rng.normal(size=40).round(1)
            selected, cut = knockoff.select(originals, knockoffs, fdr=level)
            wanted, at = naive(originals, knockoffs, level)
            assert (selected.tolist(), cut) == (wanted, pytest.approx(at))


def test_symmetry_is_the_sign_test_and_wilcoxons_each_at_half_the_level():
    rng = np.random.default_rng(1)
    for shift in (0.0, 0.2, 0.6):
        originals, knockoffs = rng.normal(shift, 1, 60), rng.normal(size=60)
        originals[:5] = knockoffs[:5]
        w = (originals - knockoffs)[5:]
        signs = stats.binom.cdf(min((w > 0).sum(), (w < 0).sum()), 55, 0.5) * 2
        ranks = stats.rankdata(abs(w))[w > 0].sum()
        z = (ranks - 55 * 56 / 4) / np.sqrt(55 * 56 * 111 / 24)
        found = knockoff.symmetry(originals, knockoffs)
        assert found.p_value == pytest.approx(min(2 * min(signs, 2 * stats.norm.sf(abs(z))), 1), rel=1e-6)
        assert found.passed == (found.p_value > 0.05)
    assert knockoff.symmetry([1.0, 2.0], [1.0, 2.0]).p_value == 1.0
    with pytest.raises(dv.InputError, match="knockoffs"):
        knockoff.symmetry([1.0], [1.0, 2.0])
