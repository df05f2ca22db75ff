"""Counts and p-values of many candidates, against their definitions."""

import numpy as np
import pytest

from divulge.decisions import counts
from divulge.decisions.counts import Counts


def continuous(rng, n, m):
    return rng.normal(size=n), rng.normal(size=m)


def rounded(rng, n, m):
    return np.round(rng.normal(size=n), 1), np.round(rng.normal(size=m), 1)


def a_few_bits_apart(rng, n, m):
    return 1 + 1e-15 * rng.normal(size=n), 1 + 1e-15 * rng.normal(size=m)


def equal(rng, n, m):
    calibration = rng.normal(size=n)
    return calibration, np.append(rng.choice(calibration, m // 2), rng.normal(size=m - m // 2))


def next_to_each_other(rng, n, m):
    calibration = rng.normal(size=n)
    return calibration, np.append(
        np.nextafter(rng.choice(calibration, m // 2), rng.choice([-9, 9], m // 2)), calibration[: m - m // 2]
    )


def ends(rng, n, m):
    calibration, scores = continuous(rng, n, m)
    calibration[0], calibration[-1] = 0.0, -1e308
    return calibration, np.r_[-0.0, 0.0, 5e-324, -5e-324, 1e308, scores]


def single_precision(rng, n, m):
    return (side.astype(np.float16).astype(float) for side in continuous(rng, n, m))


SCORE_SHAPES = (continuous, rounded, a_few_bits_apart, equal, next_to_each_other, ends, single_precision)


@pytest.mark.parametrize("chunk", [1 << 7, 1 << 20])
@pytest.mark.parametrize("draw_scores", SCORE_SHAPES)
def test_by_definition(draw_scores, chunk, monkeypatch):
    """Of more and fewer candidates than calibration scores, in one chunk and in several."""
    monkeypatch.setattr(counts, "_CHUNK", chunk)
    rng = np.random.default_rng(chunk)
    for _ in range(40):
        calibration, candidates = draw_scores(rng, int(rng.integers(2, 40)), int(rng.integers(1, 300)))
        sorted_calibration = np.sort(calibration)
        n_higher = (calibration >= candidates[:, None]).sum(1)
        candidate_counts, p = Counts.empty(calibration).add_with_p_values(candidates)
        added = Counts.empty(calibration).add(candidates)
        assert np.array_equal(p, (1 + n_higher) / (len(sorted_calibration) + 1))
        assert np.array_equal(counts.p_values(candidates, sorted_calibration), p)
        assert np.array_equal(counts.ranks(candidates, sorted_calibration), n_higher)
        for score_counts in (candidate_counts, added):
            assert np.array_equal(score_counts.above, (candidates > sorted_calibration[:, None]).sum(1))
            assert np.array_equal(score_counts.tied, (candidates == sorted_calibration[:, None]).sum(1))
