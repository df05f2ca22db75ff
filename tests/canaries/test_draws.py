"""How canaries are drawn, each rule against the records that it draws from."""

import numpy as np
import pytest

import divulge as dv
from divulge import canaries
from divulge.canaries import canary_kinds as kinds


def data(n=60, classes=3, dtype=float):
    rng = np.random.default_rng(0)
    return dv.Records((10 * rng.random((n, 4))).astype(dtype), np.arange(n) % classes)


def build(kind, records, count):
    return kinds.build_records(kind, records, count, np.random.default_rng(0))[0]


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_every_other_label_is_as_likely_and_the_own_one_is_never_drawn(classes):
    x, y = np.arange(3000.0)[:, None], np.arange(3000) % classes * 2  # with gaps
    made = build("mislabelled", dv.Records(x, y), 3000)
    own_labels = y[made.x[:, 0].astype(int)]
    for own in range(0, 2 * classes, 2):
        values, counts = np.unique(made.y[own_labels == own], return_counts=True)
        assert values.tolist() == [each for each in range(0, 2 * classes, 2) if each != own]
        expected = counts.sum() / (classes - 1)
        assert np.abs(counts - expected).max() < 4.5 * np.sqrt(expected)


def test_labels_are_drawn_evenly_from_those_that_there_are_however_often_each_occurs():
    x, y = np.random.default_rng(1).random((10, 1)), np.r_[np.zeros(9, int), 1]
    assert abs(build("random", dv.Records(x, y), 4000).y.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(4000)
    assert build("random", dv.Records(x), 5).y is None


def test_the_isolated_are_farthest_from_their_nearest_in_units_of_a_standard_deviation():
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.normal(size=30), 1000 * rng.normal(size=30), np.full(30, 7.0)])
    made = build("far", dv.Records(x, np.arange(30) % 2), 6)
    scaled = (x[:, :2] - x[:, :2].mean(axis=0)) / x[:, :2].std(axis=0)
    nearest = [min(np.linalg.norm(scaled[i] - scaled[j]) for j in range(30) if j != i) for i in range(30)]
    assert made.x.tolist() == x[np.argsort(np.negative(nearest), kind="stable")[:6]].tolist()


@pytest.mark.parametrize("dtype", [float, np.float32, int])
def test_random_numbers_fill_the_range_of_their_column_and_blank_ones_that_of_all(dtype):
    scale = 1 if dtype is not int else 1000  # so that enough of them differ
    records = dv.Records((data().x * scale).astype(dtype))
    low, high = records.x.min(axis=0).astype(float), records.x.max(axis=0).astype(float)
    step = 0.02 * (high - low) + (np.dtype(dtype).kind in "iu")
    for kind, ends in (("random", (low, high)), ("blank", (low.min(), high.max()))):
        drawn = build(kind, records, 2000).x
        assert drawn.dtype == records.x.dtype
        assert (drawn >= ends[0]).all()
        assert (drawn <= ends[1]).all()
        assert (drawn.min(axis=0) <= ends[0] + step).all()
        assert (drawn.max(axis=0) >= ends[1] - step).all()
        assert (len(np.unique(drawn[0])) == 1) == (kind == "blank")


def test_shuffled_values_stay_in_their_column_and_come_from_several_records():
    records = data()
    drawn = build("shuffled", records, 50).x
    origin = np.array([[np.flatnonzero(records.x[:, j] == value)[0] for j, value in enumerate(row)] for row in drawn])
    assert (np.ptp(origin, axis=1) > 0).all()


def test_documents_are_as_long_as_those_of_the_data():
    words = [f"w{i}" for i in range(40)]
    records = dv.Records(["w0 w0 w0", " ".join(words[:6]), " ".join(words[6:])])
    drawn = build("random-token", records, 300).x
    lengths, counts = np.unique([len(text.split()) for text in drawn], return_counts=True)
    assert lengths.tolist() == [3, 6, 34]
    assert np.abs(counts - 100).max() < 4.5 * np.sqrt(100)
    evenly = " ".join(drawn).split()
    assert evenly.count("w0") / len(evenly) < 0.05  # 1 of 40
    often = " ".join(build("unigram", records, 300).x).split()
    assert abs(often.count("w0") / len(often) - 4 / 43) < 0.03
    with pytest.raises(dv.InputError, match="the documents have no words"):
        build("random-token", dv.Records(["", " "]), 3)


@pytest.mark.parametrize(("count", "is_made"), [(59, True), (60, True), (61, False)])
def test_as_many_records_as_there_are_can_be_mislabelled(count, is_made):
    if is_made:
        assert len(canaries.make(data(), count=count, seed=0)) == count
    else:
        with pytest.raises(dv.InputError, match="count: must be at most 60, one canary per record, got 61"):
            canaries.make(data(), count=count, seed=0)
    for wrong in (dv.Records(data().x), dv.Records(data().x, np.zeros(60, int))):
        with pytest.raises(dv.InputError, match="labels of at least 2 classes"):
            canaries.make(wrong, count=10, seed=0)


@pytest.mark.parametrize(("n", "is_made"), [(8, True), (7, False)])
def test_eight_canaries_of_ones_own_are_enough(n, is_made):
    own = dv.Records(100 + np.arange(4.0 * n).reshape(n, 4), np.arange(n) % 3)
    if is_made:
        assert len(canaries.make(data(), own=own, seed=0)) == 8
    else:
        with pytest.raises(dv.InputError, match="own: at least 8 canaries are needed, got 7"):
            canaries.make(data(), own=own, seed=0)


def test_own_canaries_are_of_the_shape_of_the_data_new_and_all_different():
    own = 100 + np.arange(40.0).reshape(10, 4)
    y = np.arange(10) % 3
    for records, message in (
        (dv.Records(own), "with labels as it"),
        (dv.Records(own[:, :3], y), "of the data's shape"),
        (dv.Records(np.vstack([own[:8], own[:2]]), np.r_[y[:8], y[:2]]), "2 canaries repeat others"),
        (dv.Records(np.vstack([own[:9], data().x[:1]]), np.r_[y[:9], 0]), "1 canaries are records of the data"),
    ):
        with pytest.raises(dv.InputError, match=message):
            canaries.make(data(), own=records, seed=0)


def test_a_record_is_the_same_in_any_type_of_number_and_not_under_another_label():
    def one(x, y):
        return kinds.fingerprints(dv.Records(np.array(x), y))[0]

    assert one([[1.0, 0.0]], [1.0]) == one(np.float32([[1, -0.0]]), [1]) == one([[1, 0]], [True])
    assert one([[1.0, 0.0]], None) != one([[1.0, 0.0]], [1])
    assert one([[1.0, 0.0]], [0]) != one([[1.0, 0.0]], [1])
    assert one([[1.0, 0.5]], [1]) != one([[1.0, 0.0]], [1])


def test_no_more_different_canaries_can_be_made_than_there_are():
    bits = dv.Records(np.array([[0, 1], [1, 0]]), np.array([0, 1]))
    # Of four rows of bits under either label, two are records of the data.
    made, _ = kinds.build_records("random", bits, 6, np.random.default_rng(0))
    assert len(set(kinds.fingerprints(made)) - set(kinds.fingerprints(bits))) == 6
    with pytest.raises(dv.InputError, match="only 6 of 7 different 'random' canaries"):
        kinds.build_records("random", bits, 7, np.random.default_rng(0))
