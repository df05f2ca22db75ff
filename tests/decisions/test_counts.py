"""Counts and p-values of many candidates, against their definitions."""

import numpy as np
import pytest

from divulge.decisions import counts
from divulge.decisions.counts import Counts


def apart(rng, n, m):
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
    calibration, scores = apart(rng, n, m)
    calibration[0], calibration[-1] = 0.0, -1e308
    return calibration, np.r_[-0.0, 0.0, 5e-324, -5e-324, 1e308, scores]


def single_precision(rng, n, m):
    return (side.astype(np.float16).astype(float) for side in apart(rng, n, m))


KINDS = (apart, rounded, a_few_bits_apart, equal, next_to_each_other, ends, single_precision)


@pytest.mark.parametrize("chunk", [1 << 7, 1 << 20])
@pytest.mark.parametrize("kind", KINDS)
def test_by_definition(kind, chunk, monkeypatch):
    """Of more and fewer candidates than calibration scores, in one chunk and in several."""
    monkeypatch.setattr(counts, "_CHUNK", chunk)
    rng = np.random.default_rng(chunk)
    for _ in range(40):
        calibration, candidates = kind(rng, int(rng.integers(2, 40)), int(rng.integers(1, 300)))
        known = np.sort(calibration)
        at_least = (calibration >= candidates[:, None]).sum(1)
        judged, p = Counts.empty(calibration).add_with_p_values(candidates)
        added = Counts.empty(calibration).add(candidates)
        assert np.array_equal(p, (1 + at_least) / (len(known) + 1))
        assert np.array_equal(counts.p_values(candidates, known), p)
        assert np.array_equal(counts.ranks(candidates, known), at_least)
        for made in (judged, added):
            assert np.array_equal(made.above, (candidates > known[:, None]).sum(1))
            assert np.array_equal(made.tied, (candidates == known[:, None]).sum(1))
