"""The blind baseline: its false alarms, its power, and exact duplicates."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

import divulge as dv
from divulge.evaluation import blind


def shifted(rng, x):
    x[:, 0] += 0.7
    return x


def bent(rng, x):
    return x * rng.choice([0.3, 1.7], (len(x), 1))


@pytest.mark.parametrize("change", [shifted, bent])
def test_shifts_of_place_and_of_spread_are_found(change):
    rng = np.random.default_rng(1)
    blind_baseline = blind.baseline(rng.normal(size=(150, 4)), change(rng, rng.normal(size=(150, 4))))
    assert blind_baseline.confounded
    assert blind_baseline.auc.low > 0.5
    assert str(blind_baseline).startswith("confounded: blind AUC")


def test_brighter_images_are_found():
    rng = np.random.default_rng(2)
    x = rng.integers(0, 200, (200, 8, 8)).astype(np.uint8)
    assert not blind.baseline(x[:100], x[100:]).confounded
    assert blind.baseline(x[:100], x[100:] + np.uint8(40)).confounded


def test_missing_classes_are_found_from_labels():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(400, 2)), np.arange(400) % 5
    is_kept = y[200:] < 3
    args = {"y_members": y[:200], "y_nonmembers": y[200:][is_kept]}
    assert blind.baseline(x[:200], x[200:][is_kept], **args).confounded


def test_later_texts_are_found_and_shuffled_ones_are_not():
    rng = np.random.default_rng(4)
    words = np.array(["the", "a", "cat", "dog", "runs", "sits", "under", "over", "tree", "house", "in", "on"])

    def text(year):
        return " ".join(rng.choice(words, 12)) + f" {year}"

    old, new = [text(rng.integers(1990, 2012)) for _ in range(80)], [text(rng.integers(2008, 2025)) for _ in range(80)]
    assert blind.baseline(old, new).confounded
    mixed = rng.permutation(np.array(old + new, object))
    assert not blind.baseline(mixed[:80], mixed[80:]).confounded


def test_same_seed_same_verdict_and_kernel_of_few():
    rng = np.random.default_rng(5)
    x, z = rng.normal(size=(100, 3)), rng.normal(size=(100, 3))
    blind_baseline = blind.baseline(x, z, 7, max_records=60)
    assert blind_baseline == blind.baseline(x, z, 7, max_records=60)
    assert blind_baseline.records == 200


WORDS = np.array(["the", "cat", "dog", "runs", "under", "over", "tree", "house"])
RECORDS = {
    "numbers": lambda rng, n: rng.normal(size=(n, 3)) + (np.arange(n) % 3 == 0)[:, None] * 0.4,
    "copies": lambda rng, n: rng.integers(0, 2, (n, 3)).astype(float),
    "images": lambda rng, n: rng.random((n, 5, 5)).astype(np.float32),
    "texts": lambda rng, n: np.array([" ".join(rng.choice(WORDS, 3)) for _ in range(n)], dtype=object),
}


@pytest.mark.parametrize(
    ("record_type", "max_records"), [("numbers", 60), ("copies", 2000), ("copies", 60), ("images", 2000), ("texts", 60)]
)
def test_the_order_of_rows_changes_nothing(record_type, max_records):
    """Also where only some records are used, and where members and non-members have copies of each other."""
    rng = np.random.default_rng(0)
    x, y = RECORDS[record_type](rng, 90), rng.integers(0, 2, 90)

    def baseline_of(inside, outside):
        labels = {"y_members": y[inside], "y_nonmembers": y[outside]}
        return blind.baseline(x[inside], x[outside], 0, max_records=max_records, **labels)

    inside, outside = np.arange(40), np.arange(40, 90)
    assert baseline_of(rng.permutation(inside), rng.permutation(outside)) == baseline_of(inside, outside)


def test_other_seeds_still_draw_otherwise():
    x = RECORDS["numbers"](np.random.default_rng(0), 90)
    assert len({blind.baseline(x[:40], x[40:], seed).auc.value for seed in range(5)}) > 3


@pytest.mark.parametrize(
    ("scale", "record_type"), [(1 / 3, "numbers"), (7e-201, "numbers"), (3e200, "copies"), (-0.7, "numbers")]
)
def test_the_unit_of_a_column_changes_nothing(scale, record_type):
    """Nor does where it starts, nor turning it upside down."""
    rng = np.random.default_rng(0)
    x = np.hstack([RECORDS[record_type](rng, 90)[:, :1], rng.exponential(size=(90, 1)), rng.random((90, 1)) < 0.3])
    blind_baseline = blind.baseline(x[:40], x[40:])
    for column in range(3):
        changed = x.copy()
        changed[:, column] = scale * (x[:, column] + 0.25)
        same = blind.baseline(changed[:40], changed[40:])
        assert same.p_value == blind_baseline.p_value
        assert same.auc.value == pytest.approx(blind_baseline.auc.value, abs=1e-12)


def test_a_constant_is_nothing_in_any_unit():
    """A constant's standard deviation is a rounding error in some units and zero in others."""
    x = RECORDS["numbers"](np.random.default_rng(0), 90)
    blind_baseline = blind.baseline(x[:40], x[40:])
    for value in (0.0, 0.1, 0.7, 1e300):
        wide = np.hstack([x, np.full((90, 1), value)])
        assert blind.baseline(wide[:40], wide[40:]) == blind_baseline


@pytest.mark.parametrize("change", [lambda x: 255 * x, lambda x: x / 3 - 8])
def test_the_unit_of_pixels_changes_nothing(change):
    x = np.random.default_rng(0).random((90, 5, 5))
    expected, same = (blind.baseline(pixels[:40], pixels[40:]) for pixels in (x, change(x)))
    assert same.p_value == expected.p_value
    assert same.auc.value == pytest.approx(expected.auc.value, abs=1e-12)


def test_constant_and_wordless_records_tell_nothing():
    assert blind.baseline(np.ones((20, 3)), np.ones((20, 3))).p_value == 1.0
    assert not blind.baseline(["!"] * 20, ["!"] * 20).confounded


@pytest.mark.skipif("DIVULGE_DATA" not in os.environ, reason="needs the data folder named by DIVULGE_DATA")
def test_published_benchmarks_are_found_confounded():
    with gzip.open(Path(os.environ["DIVULGE_DATA"]) / "blind_mia_texts.jsonl.gz", "rt", encoding="utf8") as lines:
        rows = [row for row in map(json.loads, lines) if row["set"] == "multi_web"]
    sides = [[row["text"] for row in rows if row["member"] == is_member] for is_member in (1, 0)]
    blind_baseline = blind.baseline(*sides, max_records=400)
    assert blind_baseline.confounded
    assert blind_baseline.auc.low > 0.85


def test_duplicates_are_those_of_a_double_loop():
    rng = np.random.default_rng(6)
    x, z = rng.integers(0, 3, (40, 3)), rng.integers(0, 3, (30, 3)).astype(np.float32)
    pairs = blind.duplicates(x, z)
    same = (x[:, None] == z[None]).all(2)
    assert pairs.members.tolist() == np.flatnonzero(same.any(1)).tolist()
    assert pairs.nonmembers.tolist() == np.flatnonzero(same.any(0)).tolist()
    assert len(pairs) == same.any(0).sum()


def test_duplicate_texts_and_signed_zeros():
    assert blind.duplicates(["a", "b"], ["b", "c"]).members.tolist() == [1]
    assert len(blind.duplicates([[-0.0, 1.0]], [[0.0, 1.0]])) == 1


@pytest.mark.parametrize(
    ("x", "z", "kwargs", "message"),
    [
        (np.zeros((9, 2)), np.zeros((20, 2)), {}, "x_members: at least 10 records are needed, got 9"),
        (np.zeros((20, 2)), np.zeros((20, 3)), {}, r"x_nonmembers: shape \(2,\) per record is needed"),
        (["a"] * 20, np.zeros(20), {}, "both must be texts, or both numbers"),
        (np.zeros((20, 2)), np.zeros((20, 2)), {"permutations": 50}, "permutations: must be at least 99"),
        (np.zeros((20, 2)), np.zeros((20, 2)), {"y_members": np.zeros(20, int)}, "give both or neither"),
        (np.zeros((20, 2)), np.full((20, 2), np.nan), {}, "x_nonmembers: 40 values are NaN"),
    ],
)
def test_bad_input_is_named(x, z, kwargs, message):
    with pytest.raises(dv.InputError, match=message):
        blind.baseline(x, z, **kwargs)
