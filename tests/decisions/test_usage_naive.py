"""The estimated share of members, against its definition written in loops over sets of scores."""

import itertools

import numpy as np
import pytest
from scipy import optimize, stats

from divulge.decisions import usage
from divulge.decisions.counts import Counts

GRID = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)


def upper(k, n, error):
    return stats.binomtest(k, n).proportion_ci(1 - 2 * error, "exact").high


def lower(k, n, error):
    return stats.binomtest(k, n).proportion_ci(1 - 2 * error, "exact").low


def naive_share(candidates, calibration, confidence=0.95):
    """By regions of low scores, the widest first; scores without ties. Returns value, low, high."""
    m, n, calibration = len(candidates), len(calibration), sorted(calibration)
    # The region of λ reaches up to the calibration score of rank n + 1 - ⌊λ (n + 1)⌋, at least 2 off the top.
    ranks = sorted({n + 2 - max(int(lam * (n + 1) + 1e-9), 2) for lam in GRID}, reverse=True)
    low = [sum(t <= calibration[rank - 1] for t in candidates) for rank in ranks]
    nulls = [count / (m * rank / (n + 1)) for count, rank in zip(low, ranks, strict=True)]

    def variance(i, share):
        expected = ranks[i] / (n + 1)
        return max(1 - expected, 0) / expected * (share / m + share**2 / n)

    def agrees(i):
        null_share = min(nulls[i], 1)
        return all(
            nulls[i] - nulls[j] <= 2 * np.sqrt(max(variance(j, null_share) - variance(i, null_share), 0))
            for j in range(i + 1, len(ranks))
        )

    chosen_share = next(nulls[i] for i in range(len(ranks)) if agrees(i))
    error = (1 - confidence) / 2
    each = error / (2 * len(ranks))
    proven = max(1 - upper(count, m, each) / lower(rank, n, each) for count, rank in zip(low, ranks, strict=True))
    value = min(max(1 - chosen_share, 0), 1)
    high = 1 - lower(low[-1], m, error / 2) / upper(ranks[-1], n, error / 2)
    return value, min(max(proven, 0), value), max(high if high >= 0 else 1, value)


@pytest.mark.parametrize("share", [0.0, 0.4, 0.9])
@pytest.mark.parametrize(("m", "n"), [(300, 199), (80, 1000)])
def test_the_share_is_that_of_the_definition(share, m, n):
    rng = np.random.default_rng(4)
    members = round(share * m)
    candidates = np.append(rng.normal(1.5, 1, members), rng.normal(size=m - members))
    calibration = rng.normal(size=n)
    for confidence in (0.95, 0.6):
        estimate = usage.share(Counts.empty(calibration).add(candidates), confidence=confidence)
        expected = naive_share(candidates, calibration, confidence)
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(expected, abs=1e-9)


def naive_mixture(candidates, calibration, members, confidence=0.95):
    """Maximum likelihood over the regions, and Fieller's interval; scores without ties. Returns value, low, high."""
    sets = [np.asarray(part) for part in (candidates, members, calibration)]
    m, k, n = (len(part) for part in sets)

    def above(part, threshold):
        return sum(score > threshold for score in part)

    ordered = sorted(calibration)
    mixed = [(above(calibration, threshold) / n + above(members, threshold) / k) / 2 for threshold in ordered]
    cuts = sorted(
        {
            ordered[int(np.argmin([abs(s - quantile_level) for s in mixed]))]
            for quantile_level in (0.8, 0.5, 0.25, 0.1, 0.03)
        }
    )
    edges = [-np.inf, *cuts, np.inf]
    bin_counts = [[sum((a < part) & (part <= b)) for a, b in itertools.pairwise(edges)] for part in sets]
    # Two pseudo-observations shared out over the regions; one more calibration score above all.
    ones = [(count + 2 / len(cuts)) / (k + 2 * (1 + 1 / len(cuts))) for count in bin_counts[1]]
    zeros = [(count + (i == len(cuts))) / (n + 1) for i, count in enumerate(bin_counts[2])]

    def loss(p):
        return -sum(c * np.log(p * x + (1 - p) * z) for c, x, z in zip(bin_counts[0], ones, zeros, strict=True))

    value = optimize.minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-10}).x
    limit = stats.norm.ppf(1 - (1 - confidence) / (2 * len(cuts)))

    def is_consistent(p):
        for threshold in cuts:
            counts = [above(part, threshold) for part in sets]
            t, s, z = ((count + 1.5) / (size + 3) for count, size in zip(counts, (m, k, n), strict=True))
            spread = t * (1 - t) / (m + 3) + p**2 * s * (1 - s) / (k + 3) + (1 - p) ** 2 * z * (1 - z) / (n + 3)
            if (t - p * s - (1 - p) * z) ** 2 > limit**2 * spread:
                return False
        return True

    inside = [p for p in np.linspace(0, 1, 4001) if is_consistent(p)]
    step = 1 / 4000
    return value, min(max(inside[0] - step, 0), value), max(min(inside[-1] + step, 1), value)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_share_by_known_members_is_that_of_the_definition(share):
    rng = np.random.default_rng(5)
    inside = round(share * 150)
    candidates = np.append(rng.normal(1.5, 1, inside), rng.normal(size=150 - inside))
    calibration, members = rng.normal(size=70), rng.normal(1.5, 1, 40)
    estimate = usage.share(Counts.empty(calibration).add(candidates), members, confidence=0.9)
    expected = naive_mixture(candidates, calibration, members, 0.9)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx(expected, abs=1e-5)
