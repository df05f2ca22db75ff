"""What an audit of a given size can detect, against the same model written with integrals and searched step by step."""

import math

import pytest
from scipy import integrate, stats

import divulge as dv
from divulge.evaluation import records_to_see, smallest_detectable

NORMAL = stats.norm()


def auc_power(auc, m, n, error=0.05):
    """P(lower end of the AUC's interval > 1/2): a logit with DeLong's variance, Welch's degrees of freedom."""
    distance = math.sqrt(2) * NORMAL.ppf(auc)
    overlap_members, overlap_others = (
        integrate.quad(lambda x, k=k: NORMAL.cdf(x + distance) ** k * NORMAL.pdf(x), -9, 9)[0] for k in (1, 2)
    )
    v, w = (((overlap_others - overlap_members**2) + (auc - 0.5) ** 2 / size) / size for size in (m, n))
    freedom = (v + w) ** 2 / (v**2 / (m - 1) + w**2 / (n - 1))
    reach = stats.t.ppf(1 - error / 2, freedom)
    return NORMAL.cdf(math.log(auc / (1 - auc)) * auc * (1 - auc) / math.sqrt(v + w) - reach)


def tpr_power(tpr, m, n, fpr, error=0.05):
    """P(lower end of the TPR > fpr): the threshold's bracket at a rank of the non-members, hits among the members."""
    step = error / 4
    rank = max(r for r in range(1, n + 1) if stats.binom.cdf(r - 1, n, fpr) <= step)
    hits = next(k for k in range(m + 1) if k and stats.beta.ppf(step, k, m - k + 1) > fpr)
    distance = NORMAL.ppf(tpr) - NORMAL.ppf(fpr)

    def chance(quantile):
        realised = stats.beta.ppf(quantile, rank, n + 1 - rank)
        return stats.binom.sf(hits - 1, m, NORMAL.cdf(distance + NORMAL.ppf(realised)))

    return integrate.quad(chance, 0, 1, limit=200)[0]


@pytest.mark.parametrize(("m", "n"), [(50, 50), (20, 300), (400, 30)])
def test_the_smallest_auc_has_just_the_power_that_is_wanted(m, n):
    smallest = smallest_detectable(m, n, 0.3)
    assert auc_power(smallest.auc, m, n) == pytest.approx(0.8, abs=1e-3)
    surer = smallest_detectable(m, n, 0.3, confidence=0.8, power=0.5)
    assert auc_power(surer.auc, m, n, error=0.2) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(("m", "n", "fpr"), [(50, 400, 0.05), (200, 120, 0.1), (3, 2000, 0.1)])
def test_the_smallest_tpr_has_just_the_power_that_is_wanted(m, n, fpr):
    smallest = smallest_detectable(m, n, fpr)
    assert tpr_power(smallest.tpr, m, n, fpr) == pytest.approx(0.8, abs=3e-3)


@pytest.mark.parametrize("auc", [0.55, 0.7, 0.9, 0.99])
def test_the_records_to_see_an_auc_are_the_fewest_that_do(auc):
    count = records_to_see(auc)
    assert auc_power(auc, count, count) >= 0.8 - 1e-4
    assert auc_power(auc, count - 1, count - 1) < 0.8 + 1e-4


@pytest.mark.parametrize("auc", [0.5, 1.0, float("nan")])
def test_an_auc_that_cannot_be_seen_is_refused(auc):
    with pytest.raises(dv.InputError, match="auc"):
        records_to_see(auc)


@pytest.mark.parametrize("fpr", [0.01, 0.3])
def test_nonmembers_to_tell_are_the_fewest_whose_highest_is_surely_above(fpr):
    count = dv.evaluation.nonmembers_to_tell(fpr)
    assert (1 - fpr) ** count <= 0.05 / 4 < (1 - fpr) ** (count - 1)
    # With one fewer no TPR, not even 1, is told from chance.
    assert smallest_detectable(5000, count, fpr).tpr is not None
    assert smallest_detectable(5000, count - 1, fpr).tpr is None
