"""What is subtracted from scores for their blind scores, against its definition record by record."""

import numpy as np
import pytest
from scipy import stats

from divulge.decisions import pooled_scores
from divulge.decisions.pooled_scores import BlindAdjustment


def normal_score(value, blind):
    """The normal score of a blind score's place among all, in the middle of those that are equal."""
    below, equal = sum(blind < value), sum(blind == value)
    return stats.norm.ppf((below + equal / 2) / len(blind))


def usual_in_bins(values, blind, size, most):
    """Mean normal score and usual value of each bin that has a record."""
    n_bins = min(max(len(blind) // size, 1), most)
    bins = {}
    for value, own in zip(values, blind, strict=True):
        place = (sum(blind < own) + sum(blind == own) / 2) / len(blind)
        bins.setdefault(min(int(place * n_bins), n_bins - 1), []).append((normal_score(own, blind), value))
    return [
        (np.mean([at for at, _ in bins[k]]), np.quantile([value for _, value in bins[k]], 0.3)) for k in sorted(bins)
    ]


POOLS = [
    (12, 0, "a single bin"), (39, 0, "one bin still"), (40, 0, "two bins"), (200, 7, "ties"), (399, 0, "no finer bins"),
    (400, 0, "finer bins"), (450, 3, "three blind scores"), (60, 1, "one blind score for all"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("n", "n_distinct", "is_constant"),
    [*((n, n_distinct, False) for n, n_distinct, _ in POOLS), (450, 3, True)],
    ids=[*(name for *_, name in POOLS), "constant scores"],
)
def test_what_is_usual_is_a_line_through_bins_and_the_residuals_of_finer_ones(n, n_distinct, is_constant):
    rng = np.random.default_rng(n)
    blind = rng.normal(size=n) if not n_distinct else rng.integers(0, n_distinct, n).astype(float)
    scores = np.full(n, 0.1) if is_constant else rng.normal(size=n) + 2 * blind + np.sin(3 * blind)
    fitted = BlindAdjustment.fit(scores, blind)
    ranks = np.array([normal_score(value, blind) for value in blind])
    points = usual_in_bins(scores, blind, 20, 10)
    slope = 0.0
    if len(points) > 1 and not is_constant:
        slope = stats.linregress([at for at, _ in points], [value for _, value in points]).slope
    assert fitted.slope == pytest.approx(slope, abs=1e-12)
    assert (fitted.slope == 0) == (is_constant or len(points) == 1)
    fine = usual_in_bins(scores - slope * ranks, blind, 100, 30) if n >= 400 and not is_constant else []
    fine = fine if len(fine) > 1 else []
    np.testing.assert_allclose(fitted.centres, [at for at, _ in fine], atol=1e-12)
    np.testing.assert_allclose(fitted.residuals, [value for _, value in fine], atol=1e-12)

    new_scores, new_blind = rng.normal(size=9), rng.normal(size=9)
    own_blind = np.concatenate([new_blind, blind[:5], [-99.0, 99.0]])
    new_scores = np.concatenate([new_scores, scores[:5], [0.0, 1.0]])
    distinct = sorted(set(blind))
    own_ranks = np.interp(own_blind, distinct, [normal_score(value, blind) for value in distinct])
    expected = new_scores - slope * own_ranks
    if fine:
        expected = expected - np.interp(own_ranks, *zip(*fine, strict=True))
    np.testing.assert_allclose(fitted.apply(new_scores, own_blind), expected, atol=1e-9)


def test_the_order_of_the_pool_and_an_increasing_map_of_blind_scores_change_nothing():
    rng = np.random.default_rng(1)
    scores, blind = rng.normal(size=420), rng.normal(size=420)
    order = rng.permutation(420)
    first, second = BlindAdjustment.fit(scores, blind), BlindAdjustment.fit(scores[order], np.exp(blind[order]))
    np.testing.assert_array_equal(first.apply(scores, blind), second.apply(scores, np.exp(blind)))
    candidate_scores, calibration_scores = pooled_scores.adjust_for_blind_score(
        scores[:300], scores[300:], blind[:300], blind[300:]
    )
    np.testing.assert_allclose(np.concatenate([candidate_scores, calibration_scores]), first.apply(scores, blind))
