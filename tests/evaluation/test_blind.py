"""The blind baseline: its false alarms, its power, and exact duplicates."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

import divulge as dv
from divulge.evaluation import blind


def test_sound_splits_are_called_confounded_at_the_stated_rate():
    """Level 5 %, 150 splits of skewed columns with copies; false alarm of the test about 1e-4."""
    rng = np.random.default_rng(0)
    alarms = 0
    for i in range(150):
        x = np.exp(rng.normal(size=(60, 2))).round(1)
        alarms += blind.baseline(x[:25], x[25:], i, false_alarm=0.05, permutations=19).confounded
    assert alarms / 150 <= 0.05 + 4 * (0.05 * 0.95 / 150) ** 0.5


def shifted(rng, x):
    x[:, 0] += 0.7
    return x


def bent(rng, x):
    return x * rng.choice([0.3, 1.7], (len(x), 1))


@pytest.mark.parametrize("change", [shifted, bent])
def test_shifts_of_place_and_of_spread_are_found(change):
    rng = np.random.default_rng(1)
    found = blind.baseline(rng.normal(size=(150, 4)), change(rng, rng.normal(size=(150, 4))))
    assert found.confounded
    assert found.auc.low > 0.5
    assert str(found).startswith("confounded: blind AUC")


def test_brighter_images_are_found():
    rng = np.random.default_rng(2)
    x = rng.integers(0, 200, (200, 8, 8)).astype(np.uint8)
    assert not blind.baseline(x[:100], x[100:]).confounded
    assert blind.baseline(x[:100], x[100:] + np.uint8(40)).confounded


def test_missing_classes_are_found_from_labels():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(400, 2)), np.arange(400) % 5
    kept = y[200:] < 3
    args = {"y_members": y[:200], "y_nonmembers": y[200:][kept]}
    assert blind.baseline(x[:200], x[200:][kept], **args).confounded


def test_later_texts_are_found_and_shuffled_ones_are_not():
    rng = np.random.default_rng(4)
    words = np.array(["the", "a", "cat", "dog", "runs", "sits", "under", "over", "tree", "house", "in", "on"])

    def text(year):
        return " ".join(rng.choice(words, 12)) + f" {year}"

    old, new = [text(rng.integers(1990, 2012)) for _ in range(80)], [text(rng.integers(2008, 2025)) for _ in range(80)]
    assert blind.baseline(old, new).confounded
    mixed = rng.permutation(np.array(old + new, object))
    assert not blind.baseline(mixed[:80], mixed[80:]).confounded


def test_same_seed_same_verdict_and_few_records_of_many():
    rng = np.random.default_rng(5)
    x, z = rng.normal(size=(100, 3)), rng.normal(size=(100, 3))
    found = blind.baseline(x, z, 7, most=60)
    assert found == blind.baseline(x, z, 7, most=60)
    assert found.records == 60


def test_constant_and_wordless_records_tell_nothing():
    assert blind.baseline(np.ones((20, 3)), np.ones((20, 3))).p_value == 1.0
    assert not blind.baseline(["!"] * 20, ["!"] * 20).confounded


@pytest.mark.skipif("DIVULGE_DATA" not in os.environ, reason="needs the data folder named by DIVULGE_DATA")
@pytest.mark.parametrize(("name", "least"), [("gutenberg", 0.9), ("multi_web", 0.9)])
def test_published_benchmarks_are_found_confounded(name, least):
    with gzip.open(Path(os.environ["DIVULGE_DATA"]) / "blind_mia_texts.jsonl.gz", "rt", encoding="utf8") as lines:
        rows = [row for row in map(json.loads, lines) if row["set"] == name]
    sides = [[row["text"] for row in rows if row["member"] == kind] for kind in (1, 0)]
    found = blind.baseline(*sides, most=400)
    assert found.confounded
    assert found.auc.low > least


def test_duplicates_are_those_of_a_double_loop():
    rng = np.random.default_rng(6)
    x, z = rng.integers(0, 3, (40, 3)), rng.integers(0, 3, (30, 3)).astype(np.float32)
    found = blind.duplicates(x, z)
    same = (x[:, None] == z[None]).all(2)
    assert found.members.tolist() == np.flatnonzero(same.any(1)).tolist()
    assert found.nonmembers.tolist() == np.flatnonzero(same.any(0)).tolist()
    assert len(found) == same.any(0).sum()


def test_duplicate_texts_and_signed_zeros():
    assert blind.duplicates(["a", "b"], ["b", "c"]).members.tolist() == [1]
    assert len(blind.duplicates([[-0.0, 1.0]], [[0.0, 1.0]])) == 1


@pytest.mark.parametrize(
    ("x", "z", "kwargs", "message"),
    [
        (np.zeros((9, 2)), np.zeros((20, 2)), {}, "x_members: at least 10 records are needed, got 9"),
        (np.zeros((20, 2)), np.zeros((20, 3)), {}, r"x_nonmembers: shape \(2,\) a record is needed"),
        (["a"] * 20, np.zeros(20), {}, "both must be texts, or both numbers"),
        (np.zeros((20, 2)), np.zeros((20, 2)), {"permutations": 50}, "permutations: must be at least 99"),
        (np.zeros((20, 2)), np.zeros((20, 2)), {"y_members": np.zeros(20, int)}, "give both or neither"),
        (np.zeros((20, 2)), np.full((20, 2), np.nan), {}, "x_nonmembers: 40 values are NaN"),
    ],
)
def test_bad_input_is_named(x, z, kwargs, message):
    with pytest.raises(dv.InputError, match=message):
        blind.baseline(x, z, **kwargs)
