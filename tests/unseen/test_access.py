"""Data-access settings: what is dropped is gone, what is kept is kept, and bad requests are named."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divulge import InputError, Records
from divulge.access import DropClasses, DropGroups, DropShare, KeepPerClass

LABELS = st.lists(st.integers(0, 5), min_size=4, max_size=60)


def records(y):
    return Records(np.arange(len(y), dtype=float)[:, None], y, [f"r{i}" for i in range(len(y))])


@given(LABELS, st.data())
@settings(max_examples=40, deadline=None)
def test_dropped_classes_are_gone_and_nothing_else_is(y, data):
    present = sorted(set(y))
    if len(present) < 2:
        return
    dropped = data.draw(st.lists(st.sampled_from(present), min_size=1, max_size=len(present) - 1, unique=True))
    remaining = DropClasses(tuple(dropped)).apply(records(y))
    assert remaining.x[:, 0].tolist() == [i for i, label in enumerate(y) if label not in dropped]
    assert remaining.ids.tolist() == [f"r{i}" for i, label in enumerate(y) if label not in dropped]


@given(st.integers(0, 1000), st.floats(0.05, 0.95))
@settings(max_examples=40, deadline=None)
def test_a_share_of_classes_is_nested_drawn_by_the_seed_and_never_all(seed, share):
    population = records(np.repeat(np.arange(10), 3))
    dropped = DropShare(share).dropped(population, seed)
    assert len(dropped) == min(max(1, round(10 * share)), 9)
    assert set(DropShare(share / 2).dropped(population, seed)) <= set(dropped)
    assert DropShare(share).dropped(population, seed) == dropped
    assert not np.isin(DropShare(share).apply(population, seed=seed).y, dropped).any()


@given(LABELS, st.integers(1, 8), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_scarcity_keeps_at_most_k_of_each_class_and_is_nested(y, count, seed):
    population = records(y)
    mask = KeepPerClass(count).mask(population, seed=seed)
    expected = {label: min(count, y.count(label)) for label in set(y)}
    assert {label: int(mask[population.y == label].sum()) for label in set(y)} == expected
    assert (KeepPerClass(count + 1).mask(population, seed=seed) | ~mask).all()


def test_scarcity_of_some_classes_leaves_the_others():
    population = records([0] * 5 + [1] * 5)
    assert np.bincount(KeepPerClass(2, classes=(1,)).apply(population).y).tolist() == [5, 2]


def test_subgroups_are_dropped_by_name():
    groups = np.array(["north", "south", "east", "south"])
    assert DropGroups(("south",)).mask(records([0, 1, 2, 3]), groups).tolist() == [True, False, True, False]


def test_settings_are_data():
    assert DropClasses((2, 1, 2)) == DropClasses((1, 2))
    assert repr(DropGroups(("b", "a"))) == "DropGroups(groups=('a', 'b'))"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda r: DropClasses(()), "at least 1 class"),
        (lambda r: DropClasses((7,)).apply(r), r"\[7\] are not among"),
        (lambda r: DropClasses((0, 1)).apply(r), "no record is left"),
        (lambda r: DropClasses((0,)).apply(Records(r.x)), "labelled records are needed"),
        (lambda r: DropShare(1.0), r"must lie in \(0, 1\)"),
        (lambda r: DropShare(0.5).apply(r[r.y == 0]), "at least 2 classes"),
        (lambda r: KeepPerClass(0), "at least 1"),
        (lambda r: KeepPerClass(1, (9,)).apply(r), "no record is of class 9"),
        (lambda r: DropGroups("south"), "a list is needed"),
        (lambda r: DropGroups(("x",)).apply(r), "groups="),
        (lambda r: DropGroups(("x",)).apply(r, ["a"] * 4), "no record is in x"),
        (lambda r: DropGroups(("x",)).apply(r, ["x"] * 3), "4 names are needed"),
    ],
)
def test_bad_requests_are_named(wrong, message):
    with pytest.raises(InputError, match=message):
        wrong(records([0, 0, 1, 1]))


@pytest.mark.parametrize(
    ("classes", "share", "count"), [(2, 0.99, 1), (4, 0.99, 3), (4, 0.01, 1), (4, 0.5, 2), (10, 0.3, 3), (10, 0.96, 9)]
)
def test_at_least_one_class_goes_and_at_least_one_stays(classes, share, count):
    population = Records(np.zeros((classes, 1)), np.arange(classes))
    assert len(DropShare(share).dropped(population)) == count
