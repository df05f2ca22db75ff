"""Label-only signals: distances that are known, budgets that are kept, and no label but the target's."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import divulge as dv
from divulge.signals import BoundaryDistance, NoiseRobustness
from divulge.targets import CallableTarget, Metered

RNG = np.random.default_rng(0)
NORMAL = np.array([3.0, 4.0, 0.0]) / 5
SIGNALS = [BoundaryDistance(queries=150), NoiseRobustness(queries=20)]


def linear(x):
    side = x @ NORMAL.astype(x.dtype)
    return np.stack([-side, side], axis=1)


def curved(x):
    """Inside or outside of a ball of radius 1."""
    size = (x**2).sum(axis=1)
    return np.stack([1 - size, size - 1], axis=1)


def unit(n, seed=0):
    """Records whose columns have unit spread, labelled by the sign of the linear function."""
    x = np.random.default_rng(seed).normal(size=(n, 3))
    x = (x - x.mean(0)) / x.std(0)
    return dv.Records(x, (x @ NORMAL > 0).astype(int))


class LabelsOnly:
    def __init__(self, function):
        self.function, self.asked = function, []

    def labels(self, records):
        self.asked.append(records.x.copy())
        return self.function(records.x).argmax(axis=1)


def test_distances_to_a_plane_are_found():
    records = unit(200)
    values = BoundaryDistance(queries=1000).measure(LabelsOnly(linear), records)
    exact = np.abs(records.x @ NORMAL)
    inner = np.abs(records.x).max(axis=1) < 1.5  # whose nearest point on the plane lies within the records' range
    assert (values[inner] >= exact[inner] * (1 - 1e-9)).all()
    np.testing.assert_allclose(values[inner], exact[inner], rtol=0.25, atol=0.02)
    assert np.median(values[inner] / exact[inner]) < 1.03


def test_more_queries_bring_points_nearer():
    x = np.random.default_rng(1).normal(size=(150, 3))
    records = dv.Records(x, ((x**2).sum(1) > 1).astype(int))
    runs = [BoundaryDistance(queries=q).measure(LabelsOnly(curved), records) for q in (16, 100, 400, 1600)]
    for short, long in pairwise(runs):
        assert (long <= short + 1e-12).all()  # the same directions are drawn first
    assert runs[-1].mean() < 0.9 * runs[0].mean()


@pytest.mark.parametrize("queries", [2, 3, 20])
def test_shares_count_the_record_and_all_its_copies(queries):
    """A target that is always right: every record has 1; always wrong: 0; wrong but for the record itself: 1/q."""
    records, meter = unit(40, seed=9), Metered(CallableTarget(linear))
    signal = NoiseRobustness(queries=queries)
    signal.measure(meter, records)
    assert meter.queries == queries * len(records)

    class Fixed(LabelsOnly):
        def labels(self, queried):
            is_first = not self.asked
            self.asked.append(queried.x.copy())
            return records.y ^ self.function(is_first)

    for wrong, share in (
        (lambda is_first: 0, 1.0),
        (lambda is_first: 1, 0.0),
        (lambda is_first: int(not is_first), 1 / queries),
    ):
        np.testing.assert_allclose(signal.measure(Fixed(wrong), records), share)


def test_noise_grows_in_equal_steps_up_to_the_scale_and_so_do_flips():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(3, 2, (4000, 2)), rng.integers(0, 2, (4000, 2))])
    target = LabelsOnly(lambda queries: queries[:, :2])
    NoiseRobustness(queries=5, scale=0.4, flips=0.8).measure(target, dv.Records(x, np.zeros(4000, int)))
    queries = target.asked
    np.testing.assert_allclose(queries[0], x)
    assert len(queries) == 5
    for step, copies in enumerate(queries[1:], start=1):
        noise = (copies - x)[:, :2] / x[:, :2].std(axis=0)
        assert noise.std() == pytest.approx(0.4 * step / 4, rel=0.05)
        assert np.abs(copies - x)[:, 2:].mean() == pytest.approx(0.8 * step / 4, abs=0.03)


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda s: s.name)
class TestBoth:
    def test_labels_are_all_they_read(self, signal):
        records = unit(50, seed=4)
        from_logits = signal.measure(CallableTarget(lambda x: 7 * linear(x)), records)
        np.testing.assert_array_equal(signal.measure(LabelsOnly(linear), records), from_logits)

    def test_units_of_columns_do_not_matter(self, signal):
        records, factor = unit(50, seed=5), np.array([2.0, 0.25, 64.0])  # powers of two: no rounding
        scaled = dv.Records(records.x * factor, records.y)
        moved = signal.measure(LabelsOnly(lambda x: linear(x / factor)), scaled)
        np.testing.assert_allclose(moved, signal.measure(LabelsOnly(linear), records), rtol=1e-6)

    def test_points_stay_in_range_or_are_flips(self, signal):
        target = LabelsOnly(linear)
        x = np.column_stack([RNG.normal(size=40), np.arange(40) % 2, RNG.integers(0, 2, 40)])
        signal.measure(target, dv.Records(x, (x @ NORMAL > 0.5).astype(int)))
        queries = np.concatenate(target.asked)
        assert queries[:, 1:].min() >= -1e-9
        assert queries[:, 1:].max() <= 1 + 1e-9
        if signal.name == "noise-robustness":
            np.testing.assert_allclose(queries[:, 1:], queries[:, 1:].round(), atol=1e-9)

    def test_a_record_told_wrong_is_no_member_like(self, signal):
        records = unit(60, seed=6)
        wrong = np.arange(60) < 10
        scores = signal.measure(LabelsOnly(linear), dv.Records(records.x, np.where(wrong, 1 - records.y, records.y)))
        assert scores[wrong].max() <= (0.0 if signal.name == "boundary-distance" else 0.6)
        assert np.median(scores[~wrong]) > np.median(scores[wrong])

    def test_edges(self, signal):
        constant = LabelsOnly(lambda x: np.stack([np.ones(len(x)), np.zeros(len(x))], axis=1))
        assert np.ptp(signal.measure(constant, dv.Records(unit(30).x, np.zeros(30, int)))) == 0
        assert np.isfinite(signal.measure(LabelsOnly(linear), dv.Records(np.ones((5, 3)), np.zeros(5, int)))).all()
        unlabelled = dv.Records(unit(30).x)
        assert (signal.measure(LabelsOnly(linear), unlabelled) > 0).all()
        images = dv.Records(RNG.integers(0, 255, (20, 2, 3)).astype(np.uint8), np.zeros(20, int))
        flat = LabelsOnly(lambda x: linear(x.reshape(len(x), -1)[:, :3] - 100.0))
        assert np.isfinite(signal.measure(flat, images)).all()

    def test_without_a_leak_members_are_not_told_apart(self, signal):
        """An AUC of 200 against 200 is beyond .5 ± .15 with probability 2e-7."""
        records, member = unit(400, seed=7), np.arange(400) % 2 == 0
        scores = signal.measure(LabelsOnly(linear), records)
        assert abs(stats.mannwhitneyu(scores[member], scores[~member]).statistic / 200**2 - 0.5) < 0.15

    def test_what_does_not_fit_is_refused(self, signal):
        with pytest.raises(dv.InputError, match="moves numbers, got texts"):
            signal.measure(LabelsOnly(linear), dv.Records(np.array(["a", "b"], dtype=object), [0, 1]))
        with pytest.raises(dv.InputError, match="gives neither labels nor logits"):
            signal.measure(object(), unit(5))
        with pytest.raises(dv.InputError, match="queries: must be at least"):
            type(signal)(queries=1)


@pytest.mark.parametrize("recipe", ["boundary", "boundary-residual", "noise"])
def test_an_audit_counts_the_queries(recipe):
    records = unit(300, seed=8)
    parts = {"members": records[:100], "nonmembers": records[100:200], "population": records[200:]}
    result = dv.audit(linear, **parts, recipes=[recipe], fpr=(0.1,))
    assert abs(result[recipe].auc.value - 0.5) < 0.2
    assert 0 < result.about.recipes[recipe].queries <= 500 * 300
