"""Bounds of the false discovery proportion for all numbers of candidates at once, against their definitions."""

from itertools import combinations

import numpy as np
import pytest

import divulge as dv
from divulge.decisions import Storey, fdp, fdr
from divulge.decisions.counts import Counts


def paths(n, k):
    """Every order of ``n`` calibration scores and ``k`` non-members: non-members above each score, ``[orders, n]``."""
    for places in combinations(range(n + k), n):
        yield [place - before for before, place in enumerate(places)]


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 7), (7, 1), (4, 4), (3, 8), (8, 3), (6, 6)])
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_of_all_orders_enough_stay_within_each_band(n, m, confidence):
    bands = fdp.simultaneous_bands(n, m, confidence, 0)
    for k in range(m + 1):
        max_above = bands.max_above[np.flatnonzero(bands.sizes >= k)[-1]]
        every = np.array(list(paths(n, k)))
        assert (every <= max_above).all(axis=1).mean() >= confidence


def test_paths_are_counted_as_by_hand():
    for n, k in ((3, 2), (4, 5), (6, 3)):
        every, rng = np.array(list(paths(n, k))), np.random.default_rng([n, k])
        for _ in range(20):
            max_above = np.sort(rng.integers(0, k + 1, n))
            assert fdp.probability_below(max_above, k) == pytest.approx(
                (every <= max_above).all(axis=1).mean(), abs=1e-12
            )


def test_many_paths_are_counted_without_overflow():
    n, k = 2500, 1000
    assert fdp.probability_below(np.full(n, k), k) == pytest.approx(1, abs=1e-8)
    # A single rank is beta-binomial: the k candidates' urn has no non-member above the largest of n.
    assert fdp.probability_below(np.array([0, *[k] * (n - 1)]), k) == pytest.approx(n / (n + k), abs=1e-8)


def test_drawn_bands_hold_by_the_exact_count(monkeypatch):
    """Fails with probability 1e-6 for each of the bands, had the seed not been fixed."""
    monkeypatch.setattr(fdp, "_EXACT_LIMITS", (0, 0))
    for n, m, confidence in ((60, 80, 0.9), (400, 200, 0.95), (30, 900, 0.99)):
        bands = fdp.simultaneous_bands.__wrapped__(n, m, confidence, 7)
        assert not bands.is_exact
        for size, max_above in zip(bands.sizes.tolist(), bands.max_above, strict=True):
            every = np.full(n, size)  # a rank that is not looked at is bounded by the next one that is
            every[: bands.ranks[-1]] = max_above[np.searchsorted(bands.ranks, np.arange(1, bands.ranks[-1] + 1))]
            assert confidence <= fdp.probability_below(every, size) < 1


def naive(calibration, candidates, bands):
    """The bound of the ``k`` best by its definition: of all bands that the data allow, the least strict decides."""
    m = len(candidates)
    largest = np.sort(calibration)[::-1]
    above = np.array([(candidates > largest[rank - 1]).sum() for rank in bands.ranks])
    for size, max_above, fewer in zip(bands.sizes, bands.max_above, [*bands.sizes[1:], -1], strict=True):
        total = min(size, min(m - r + v for r, v in zip(above, max_above, strict=True)), m)
        if total > fewer:
            break
    pairs = [(0, 0), *zip(above, max_above, strict=True), (m, total)]
    return np.array([min(min(v + max(k - r, 0) for r, v in pairs), total) / k for k in range(1, m + 1)])


@pytest.mark.parametrize(
    "shape", [np.asarray, np.round, np.sign, np.zeros_like], ids=["smooth", "rounded", "two", "one"]
)
@pytest.mark.parametrize(("n", "m", "members"), [(50, 40, 20), (1, 9, 5), (9, 1, 0), (120, 60, 60), (20, 300, 30)])
def test_bounds_are_those_of_the_definition(n, m, members, shape):
    rng = np.random.default_rng([n, m])
    calibration = shape(rng.normal(size=n))
    candidates = shape(np.append(rng.normal(3, 1, members), rng.normal(size=m - members)))
    best = dv.decisions.fdp.envelope(calibration, candidates, confidence=0.9)
    expected = naive(calibration, candidates, fdp.simultaneous_bands(n, m, 0.9, 0))
    assert np.allclose(np.asarray(best), expected, atol=1e-12)
    assert [best.bound(k) for k in range(1, m + 1)] == np.asarray(best).tolist()
    assert best.members + best.nonmembers == len(best) == m
    for share in (0.0, 0.05, 0.1, 0.25, 0.5, 0.8, 1.0):
        within = np.flatnonzero(expected <= share + 1e-12)
        assert best.largest(share) == (within[-1] + 1 if len(within) else 0)


def test_more_candidates_never_hold_fewer_nonmembers_nor_fewer_members():
    rng = np.random.default_rng(3)
    bounds = np.asarray(fdp.envelope(rng.normal(size=300), np.append(rng.normal(2, 1, 80), rng.normal(size=120))))
    false = bounds * np.arange(1, 201)
    assert set(np.diff(np.round(false, 9))) <= {0.0, 1.0}


def test_counts_merged_across_machines_give_the_same_bounds():
    rng = np.random.default_rng(4)
    calibration, candidates = rng.normal(size=200), rng.normal(1, 1, 300)
    none = Counts.empty(calibration)
    merged = none.add(candidates[:100]).merge(none.add(candidates[100:]))
    assert np.array_equal(
        np.asarray(fdp.envelope_from_counts(merged)), np.asarray(fdp.envelope(calibration, candidates))
    )


def test_a_greater_confidence_and_fewer_calibration_scores_say_less():
    rng = np.random.default_rng(5)
    calibration, candidates = rng.normal(size=400), np.append(rng.normal(3, 1, 150), rng.normal(size=150))
    plain, surer = (fdp.envelope(calibration, candidates, confidence=c) for c in (0.9, 0.99))
    assert np.all(np.asarray(plain) <= np.asarray(surer))
    assert plain.false(150) < surer.false(150)
    assert fdp.envelope(calibration[:20], candidates, confidence=0.9).false(150) > plain.false(150)


def test_nothing_is_known_of_scores_that_are_all_equal():
    assert np.asarray(fdp.envelope([1.0] * 5, [1.0] * 4)).tolist() == [1.0] * 4


def test_what_is_claimed():
    best = fdp.envelope(range(99), [50.5, 120.0], confidence=0.9)
    assert best.guarantee.says
    assert best.guarantee.level == 0.1
    assert best.confidence == 0.9
    assert "counted exactly" in best.method
    assert "2 candidates" in repr(best)


def test_a_share_next_to_one_is_reached_by_all():
    best = fdp.envelope(range(99), np.full(20_000, 200.0))
    assert best.members > 15_000
    assert best.largest(np.nextafter(1, 0)) == 20_000


def test_bad_input_is_named():
    for confidence in (0, 1, 0.9995, "sure"):
        with pytest.raises(dv.InputError, match="confidence"):
            fdp.envelope([1.0, 2.0], [1.0], confidence=confidence)
    with pytest.raises(dv.InputError, match="candidates"):
        fdp.envelope([1.0], [])
    with pytest.raises(dv.InputError, match="candidates"):
        fdp.envelope_from_counts(Counts.empty([1.0]))
    best = fdp.envelope(range(9), [50.5, 120.0])
    for k in (0, 3):
        with pytest.raises(dv.InputError, match="k:"):
            best.false(k)
    with pytest.raises(dv.InputError, match="fdp"):
        best.largest(1.5)


@pytest.mark.parametrize("shape", [np.asarray, np.round])
def test_choices_are_the_selections_at_every_level(shape):
    rng = np.random.default_rng(11)
    calibration, candidates = shape(rng.normal(size=80)), shape(np.append(rng.normal(2, 1, 30), rng.normal(size=30)))
    counts = Counts.empty(calibration).add(candidates)
    choices, bounds = fdp.choices(counts, method="storey"), fdp.envelope(calibration, candidates)
    assert choices.sizes[-1] == 60
    assert choices.bounds.tolist() == [bounds.bound(k) for k in choices.sizes.tolist()]
    for k, q in zip(choices.sizes.tolist(), choices.q_values.tolist(), strict=True):
        if q < 0.999:
            assert fdr.select(candidates, calibration, fdr=q * (1 + 1e-9), method="storey").count >= k
        if q > 1 / 81:
            lower = fdr.step_up(counts, q * (1 - 1e-9), Storey()).rank
            assert (counts.reached[lower] if lower >= 0 else 0) < k
    assert not bounds.capped_at("void").guarantee.says
