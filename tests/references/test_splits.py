"""Who is trained on what."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import divulge as dv
from divulge.references import splits


@settings(max_examples=50, deadline=None)
@given(n=st.integers(2, 60), models=st.integers(2, 9), seed=st.integers(0, 2**32 - 1))
def test_every_record_is_in_half_of_the_models_and_models_have_half_of_the_records(n, models, seed):
    trained_on = splits.online(n, models, seed).trained_on
    paired_models = trained_on[: models - models % 2]
    assert (paired_models.sum(axis=0) == len(paired_models) // 2).all()
    assert np.abs(2 * trained_on.sum(axis=1) - n).max() <= 1


@settings(max_examples=50, deadline=None)
@given(data=st.data(), block_size=st.integers(2, 5), blocks=st.integers(1, 3), seed=st.integers(0, 1000))
def test_offline_splits_hold_k_of_each_block_and_never_a_candidate(data, block_size, blocks, seed):
    k = data.draw(st.integers(1, block_size - 1))
    candidates = np.array(data.draw(st.lists(st.booleans(), min_size=20, max_size=60)))
    candidates[:block_size] = False
    split = splits.offline(len(candidates), blocks * block_size, seed, k=k, of=block_size, candidates=candidates)
    counts = split.trained_on.reshape(blocks, block_size, -1).sum(axis=1)
    assert (counts[:, ~candidates] == k).all()
    assert not split.trained_on[:, candidates].any()


@pytest.mark.parametrize(("k", "of"), [(1, 2), (1, 3), (2, 3), (3, 4)])
def test_equal_records_follow_the_first_usable_one_of_their_group(k, of):
    rng = np.random.default_rng([k, of])
    groups, candidates = rng.integers(0, 9, 40), rng.random(40) < 0.3
    dealt = splits.offline(40, 2 * of, 5, k=k, of=of, candidates=candidates, groups=groups).trained_on
    usable = np.flatnonzero(~candidates)
    for group in np.unique(groups[usable]):
        rows = [row for row in usable if groups[row] == group]
        assert (dealt[:, rows] == dealt[:, rows[:1]]).all()
    assert not dealt[:, candidates].any()
    assert (dealt[:of, usable].sum(axis=0) == k).all()


def test_as_many_distinct_records_as_models_in_a_block_are_enough():
    groups = np.array([0, 0, 1, 2, 2])
    assert splits.offline(5, 3, 0, of=3, groups=groups).trained_on.sum() == 5
    with pytest.raises(dv.InputError, match="at least 3 distinct ones outside the candidates are needed, got 2"):
        splits.offline(5, 3, 0, of=3, groups=groups, candidates=groups == 1)
    with pytest.raises(dv.InputError, match="at least 4 outside the candidates are needed, got 3"):
        splits.offline(3, 4, 0, of=4)


def test_with_labels_every_class_is_halved():
    labels = np.repeat([0, 1, 2], [40, 7, 2])
    split = splits.online(49, 6, 0, labels=labels)
    for label, size in ((0, 40), (1, 7), (2, 2)):
        assert np.abs(2 * split.trained_on[:, labels == label].sum(axis=1) - size).max() <= 1


def test_more_models_leave_the_first_ones_as_they_are():
    four_models, ten_models = splits.online(31, 4, 7), splits.online(31, 10, 7)
    assert (four_models.trained_on == ten_models.trained_on[:4]).all()
    assert not (four_models.trained_on == splits.online(31, 4, 8).trained_on).all()


def test_membership_is_random_across_pairs_of_models():
    """Agreement of two models from different pairs is half, within five standard deviations (p < 1e-6)."""
    trained_on = splits.online(20_000, 6, 0).trained_on
    agree = (trained_on[0] == trained_on[2]).mean()
    assert abs(agree - 0.5) < 5 * 0.5 / np.sqrt(20_000)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: splits.online(10, 0, 0), "models: must be at least 1, got 0"),
        (lambda: splits.online(1, 2, 0), "records: must be at least 2, got 1"),
        (lambda: splits.offline(10, 4, 0, k=2, of=2), "k: must be below of = 2, got 2"),
        (lambda: splits.offline(4, 2, 0, candidates=np.array([True, True, True, False])), "at least 2 outside"),
        (lambda: dv.references.Splits(np.zeros((2, 3), dtype=bool)), "model 0 has no record"),
        (lambda: dv.references.Splits(np.ones((2, 3))), "trained_on: bool"),
    ],
)
def test_bad_splits_are_refused(call, message):
    with pytest.raises(dv.InputError, match=message):
        call()
