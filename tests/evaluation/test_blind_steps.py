"""Steps of the blind baseline, against definitions written down again and small cases worked out by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from divulge.errors import InputError
from divulge.evaluation import blind


def record_features(rng, n, sizes=(3, 4, 2)):
    linear, radial, classes = (rng.normal(size=(n, size)).astype(np.float32) for size in sizes)
    return blind._RecordFeatures(linear, radial, classes, sizes[0])


def test_predictions_are_those_of_ridge_regressions_on_the_other_folds_and_on_the_others():
    rng = np.random.default_rng(0)
    n, others = 60, 15
    features = record_features(rng, n + others)
    targets = rng.normal(size=(n + others, 2))
    folds = np.r_[np.arange(n) % blind.FOLDS, np.full(others, blind.FOLDS)]
    penalties = [
        (1.0, np.inf, np.inf),
        (0.5, 2.0, np.inf),
        (1.0, 0.1, 3.0),
        (np.inf, np.inf, np.inf),
        (0.0, np.inf, 0.0),
    ]
    for penalty, found in zip(penalties, blind._ridge_predictions(features, targets, folds, penalties), strict=True):
        parts = (features.linear, features.radial, features.class_features)
        used = [(part, weight) for part, weight in zip(parts, penalty, strict=True) if np.isfinite(weight)]
        expected = np.zeros((n + others, 2))
        if used:
            table = np.hstack([part for part, _ in used]).astype(float)
            table -= table.mean(axis=0)
            strength = np.concatenate([np.full(part.shape[1], max(weight, 1e-3)) for part, weight in used])
            for fold in range(blind.FOLDS):
                train, test = folds != fold, folds == fold
                gram = table[train].T @ table[train] + np.diag(strength)
                expected[test] = table[test] @ np.linalg.solve(gram, table[train].T @ targets[train])
        np.testing.assert_allclose(found, expected, atol=2e-4)
        assert not found[folds == blind.FOLDS].any()


@pytest.mark.parametrize("kind", ["classes", "values"])
@pytest.mark.parametrize("with_others", [False, True])
def test_labels_surprise_by_the_squared_error_of_the_best_regression(kind, with_others):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(80, 3))
    labels = (
        (x[:, 0] + 0.3 * rng.normal(size=80) > 0).astype(int) if kind == "classes" else x[:, 0] + rng.normal(size=80)
    )
    n = 60
    folds, sample = np.arange(n) % blind.FOLDS, np.arange(30)
    others = (x[n:], labels[n:]) if with_others else None
    by_ridge, by_trees = blind._label_surprises(x[:n], labels[:n], folds, sample, others)
    rows = np.arange(80 if with_others else n)
    every_fold = np.r_[folds, np.full(len(rows) - n, blind.FOLDS)]
    if kind == "classes":
        targets = np.stack([labels[rows] == 0, labels[rows] == 1], axis=1) * 1.0
    else:
        targets = stats.norm.ppf((stats.rankdata(labels[rows]) - 0.5) / len(rows))[:, None]
    targets = targets - targets.mean(axis=0)
    features = blind._extract_features(x[rows], None, sample)
    tried = [(1.0, np.inf, np.inf)] + [(min(1, 10 * r), r, np.inf) for r in (1.0, 0.1, 0.03, 0.01)]
    errors = [
        ((targets[:n] - guess[:n]) ** 2).sum(axis=1)
        for guess in blind._ridge_predictions(features, targets, every_fold, tried)
    ]
    np.testing.assert_allclose(by_ridge, min(errors, key=np.sum), atol=1e-6)
    assert by_ridge.sum() < (targets[:n] ** 2).sum()
    assert by_trees.shape == (n,)
    without_labels = blind._label_surprises(x[:n], labels[:n], folds, sample, (x[n:], None))
    assert [surprise.shape for surprise in without_labels] == [(n,), (n,)]


def test_trees_predict_labels_that_need_two_columns_together():
    x = np.random.default_rng(3).normal(size=(400, 2))
    labels, folds = (x[:, 0] * x[:, 1] > 0).astype(int), np.arange(400) % blind.FOLDS
    _, by_trees = blind._label_surprises(x, labels, folds, np.arange(100), None)
    constant = ((labels - labels.mean()) ** 2).sum()
    assert by_trees.sum() < constant / 2


def test_labels_that_do_not_differ_surprise_nobody():
    x, folds = np.zeros((10, 1)), np.arange(10) % blind.FOLDS
    assert blind._label_surprises(x, None, folds, np.arange(5), None) == []
    assert blind._label_surprises(x, np.ones(10, int), folds, np.arange(5), None) == []


def test_as_many_others_are_drawn_as_may_be_whatever_their_order(monkeypatch):
    monkeypatch.setattr(blind, "_MAX_OTHERS", 12)
    rng = np.random.default_rng(2)
    x, labels = rng.normal(size=(13, 2)), np.arange(13)
    assert blind._draw_others(x[:12], labels[:12])[1].tolist() == list(range(12))
    shuffled = rng.permutation(13)
    first, second = blind._draw_others(x, labels), blind._draw_others(x[shuffled], labels[shuffled])
    assert len(first[0]) == 12
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(first[0], x[first[1]])


def test_the_most_frequent_classes_are_told_in_their_own_order(monkeypatch):
    labels = np.array([5, 5, 1, 1, 1, 3, 9, 9])
    assert blind._frequent_classes(labels).tolist() == [1, 3, 5, 9]
    monkeypatch.setattr(blind, "_MAX_CLASSES", 2)
    assert blind._frequent_classes(labels).tolist() == [1, 5]


def test_the_style_of_a_text_is_counted():
    text = "In 1999 a Café of 2005 closed!"
    n, words = len(text), 7
    expected = [
        math.log1p(n), math.log1p(words), n / (words + 1), 8 / n, 2 / n, 7 / n, 1 / n, 2.0, 2005.0, 2002.0,
    ]  # fmt: skip
    assert blind._style_features(text) == pytest.approx(expected)
    assert blind._style_features("") == [0.0] * 10


def test_images_are_summarised_by_brightness_contrast_range_and_roughness():
    images = np.array([[0.0, 4.0, 4.0, 8.0], [2.0, 2.0, 2.0, 2.0]])
    np.testing.assert_allclose(
        blind._image_summaries(images, images),
        [[0.5, np.std([0, 0.5, 0.5, 1]), 0, 1, 1 / 3, 0.25], [0.25, 0, 0.25, 0.25, 0, 1]],
    )
    np.testing.assert_allclose(blind._image_summaries(images, np.array([[-8.0, 8.0]]))[0, :4:3], [0.75, 1.0])
    assert np.isfinite(blind._image_summaries(np.ones((2, 3)), np.ones((2, 3)))).all()


def test_columns_are_scaled_to_their_range_however_large():
    columns = np.array([[0.0, -1e308, 3.0], [2.0, 1e308, 3.0], [1.0, 0.0, 3.0]])
    np.testing.assert_allclose(blind._scale_to_unit_interval(columns), [[0, 0, 0], [1, 1, 0], [0.5, 0.5, 0]])


def test_kernels_are_those_of_standardised_columns_within_five_deviations():
    rng = np.random.default_rng(3)
    columns = np.c_[rng.normal(size=40), np.ones(40), np.r_[np.zeros(39), 1e6]]
    linear, radial = blind._linear_and_radial_kernels(columns)
    varied = columns[:, [0, 2]]
    scaled = np.clip((varied - varied.mean(axis=0)) / varied.std(axis=0), -5, 5)
    assert scaled.max() == 5
    square = np.array([[((a - b) ** 2).sum() for b in scaled] for a in scaled])
    np.testing.assert_allclose(linear, scaled @ scaled.T, atol=1e-9)
    np.testing.assert_allclose(radial, np.exp(-square / np.median(square)), atol=1e-9)
    (nothing,) = blind._linear_and_radial_kernels(np.ones((4, 2)))
    np.testing.assert_array_equal(nothing, np.zeros((4, 4)))


def test_real_values_join_a_table_and_stand_beside_texts_and_images():
    values = np.array([0.5, 2.0, 9.0])
    scores = stats.norm.ppf([1 / 6, 1 / 2, 5 / 6])
    x, labels, columns = blind._split_real_values(np.zeros((3, 2), np.float32), values)
    np.testing.assert_allclose(x, np.c_[np.zeros((3, 2)), values, scores], atol=1e-12)
    assert labels is None
    assert columns is None
    for other in (np.zeros((3, 2, 2)), np.array(["a", "b", "c"], dtype=object)):
        x, labels, columns = blind._split_real_values(other, values)
        assert x is other
        assert labels is None
        np.testing.assert_allclose(columns, np.c_[values, scores], atol=1e-12)
    kept = np.array([0, 1, 1])
    assert blind._split_real_values(x, kept) == (x, kept, None)


@pytest.mark.parametrize("labels", [None, np.array([0, 1, 1, 0, 2]), np.array([0.5, 2.0, 9.0, 1.0, 1.5])])
def test_the_kernel_is_the_sum_of_its_parts_each_of_mean_one(labels):
    images = np.random.default_rng(4).random((5, 2, 2))
    rows = images.reshape(5, 4)
    parts = blind._linear_and_radial_kernels(rows)
    parts += blind._linear_and_radial_kernels(blind._image_summaries(rows, rows))
    if labels is not None and labels.dtype.kind == "i":
        parts.append(np.equal.outer(labels, labels) * 1.0)
    if labels is not None and labels.dtype.kind == "f":
        parts += blind._linear_and_radial_kernels(np.c_[labels, stats.norm.ppf((stats.rankdata(labels) - 0.5) / 5)])
    expected = sum(part / np.diag(part).mean() for part in parts)
    np.testing.assert_allclose(blind._similarity_kernel(images, labels), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([np.zeros((3, 2)), None], "a tuple of two, got list"),
        ((np.zeros((3, 2)),), "a tuple of two"),
        ((np.array(["a", "b"], dtype=object), None), "texts or numbers are needed"),
        ((np.zeros((3, 3)), None), r"shape \(2,\) per record is needed, got \(3,\)"),
        ((np.zeros((3, 2)), np.zeros(2, int)), "other_records"),
    ],
)
def test_others_of_another_kind_are_refused(others, message):
    inside, labels = np.zeros((4, 2)), np.zeros(4, int)
    with pytest.raises(InputError, match=message):
        blind._check_others(others, inside, labels)
    x, y = blind._check_others((np.ones((3, 2)), np.array([0, 1, 1])), inside, labels)
    assert (x.shape, y.tolist()) == ((3, 2), [0, 1, 1])
    assert blind._check_others((np.ones((3, 2)), None), inside, labels)[1] is None
    real = blind._check_others((np.ones((3, 2)), np.array([0.5, 1, 1])), inside, np.zeros(4))[1]
    assert real.tolist() == [0.5, 1, 1]
