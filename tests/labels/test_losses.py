"""Losses row by row against their formulas, and how far they drive labels apart."""

import math

import numpy as np
import pytest

from divulge import labels
from divulge.errors import InputError, UserCodeError
from divulge.labels import metrics

CLIP = 0.01
P = np.array([0.0, 0.004, 0.25, 0.5, 0.9, 0.999, 1.0])
ROWS = np.column_stack([1 - P, P])


def clipped_log(p):
    return -np.log(np.clip(p, CLIP, 1 - CLIP))


TABLES = {
    "log_loss": ({"clip": CLIP}, ROWS, clipped_log(ROWS)),
    "log_loss, one column": ({"clip": CLIP, "submission": "positive"}, P, clipped_log(ROWS)),
    "log_loss, three": ({"clip": CLIP, "classes": 3}, np.array([[0.2, 0.3, 0.5]]), -np.log([[0.2, 0.3, 0.5]])),
    "squared_euclidean": ({}, ROWS, np.column_stack([P**2, (1 - P) ** 2])),
    "squared_euclidean, one column": ({"submission": "positive"}, P, np.column_stack([P**2, (1 - P) ** 2])),
    "squared_euclidean, three": (
        {"classes": 3}, np.array([[0.2, 0.3, 0.5]]),
        np.array([[0.8**2 + 0.3**2 + 0.5**2, 0.2**2 + 0.7**2 + 0.5**2, 0.2**2 + 0.3**2 + 0.5**2]]),
    ),
    "mse": ({}, 5 * P - 2, np.column_stack([(5 * P - 2) ** 2, (5 * P - 3) ** 2])),
    "rmse": ({}, 5 * P - 2, np.column_stack([(5 * P - 2) ** 2, (5 * P - 3) ** 2])),
    "rmsle": ({}, 3 * P, np.column_stack([np.log1p(3 * P) ** 2, (np.log1p(3 * P) - math.log(2)) ** 2])),
    "mae": ({}, 5 * P - 2, np.column_stack([np.abs(5 * P - 2), np.abs(5 * P - 3)])),
    "mape": ({}, P, np.column_stack([P / 2.0**-52, 1 - P])),
    "softmax_cross_entropy": (
        {"classes": 3}, np.array([[1.0, 2.0, 4.0]]),
        math.log(math.e + math.e**2 + math.e**4) - np.array([[1.0, 2.0, 4.0]]),
    ),
    "sigmoid_cross_entropy": (
        {}, np.array([-2.0, 0.0, 3.0]),
        np.log1p(np.exp(np.column_stack([[-2.0, 0.0, 3.0], [2.0, 0.0, -3.0]]))),
    ),
    "itakura_saito": ({}, ROWS[2:5], 1 / ROWS[2:5] + np.log(ROWS[2:5]) - 1),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_table_holds_the_loss_of_each_label(name, dtype):
    options, predictions, expected = TABLES[name]
    loss = metrics.row_loss(name.split(",")[0], **({"classes": 2, "dtype": dtype} | options))
    found = loss.table(predictions)
    assert found.dtype == np.float64
    coarse = dtype == "float32" and name.startswith(("log", "soft", "sig"))
    np.testing.assert_allclose(found, expected, rtol=3e-6 if coarse else 1e-12, atol=1e-6 if coarse else 1e-14)
    assert loss.shape == np.shape(predictions)[1:]


@pytest.mark.parametrize("alpha", [1.5, 2.0, 3.0])
def test_a_norm_like_loss_is_the_bregman_divergence_summed_over_both_classes(alpha):
    def divergence(y, t):
        return y**alpha - t**alpha - alpha * t ** (alpha - 1) * (y - t)

    table = metrics.norm_like_loss(alpha).table(ROWS[2:5])
    for (q, p), row in zip(ROWS[2:5], table, strict=True):
        for label in (0, 1):
            assert row[label] == pytest.approx(divergence(1 - label, q) + divergence(label, p))


@pytest.mark.parametrize("name", ["mse", "mae", "mape", "rmse", "rmsle", "sigmoid_cross_entropy", "itakura_saito"])
def test_losses_of_two_labels_are_refused_for_more(name):
    with pytest.raises(InputError, match=f"classes: {name} is defined for 2 classes here, got 3"):
        metrics.row_loss(name, 3)


def linear(function, low=-1.0, high=1.0):
    return labels.Linear(function, low=low, high=high, name="own")


@pytest.mark.parametrize(
    ("function", "ends"),
    [
        (lambda t, y: t * 0.0, "0 and 0"),
        (lambda t, y: y * (t + 2), "1 and 3"),
        (lambda t, y: y * (t + 1), "0 and 2"),
        (lambda t, y: np.where(t > 0, np.inf, -np.inf) if y else 0 * t, "-inf and inf"),
    ],
)
def test_a_loss_of_ones_own_must_prefer_either_label_somewhere(function, ends):
    with pytest.raises(InputError, match=rf"metric: own must prefer label 0 at one end .* is {ends} there"):
        metrics.row_loss(linear(function), 2)


def test_a_loss_that_raises_or_has_another_length_is_refused():
    with pytest.raises(UserCodeError, match="loss"):
        metrics.row_loss(linear(lambda t, y: 1 / 0), 2)
    with pytest.raises(InputError, match="loss"):
        metrics.row_loss(linear(lambda t, y: np.zeros(3) + y), 2)
    for low, high in ((1.0, 1.0), (2.0, 1.0), (math.nan, 1.0)):
        with pytest.raises(InputError, match="low"):
            linear(abs, low, high)


@pytest.mark.parametrize("submission", ["rows", "positive"])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.5, 3.0), (2.0, 1.0)])
def test_weighted_losses_are_the_weights_times_the_losses(weights, submission):
    plain = metrics.row_loss("log_loss", 2, clip=CLIP, submission=submission)
    loss = metrics.weight_classes(plain, weights)
    predictions = ROWS if submission == "rows" else P
    np.testing.assert_allclose(loss.table(predictions), plain.table(predictions) * np.array(weights))
    gaps = np.array([loss.span, 0.5 * loss.span, 0.0, -loss.span])
    table = loss.table(loss.predict(gaps, np.arange(2)))
    np.testing.assert_allclose(table[:, 1] - table[:, 0], gaps, atol=1e-7)
    ends = plain.table(np.array([[0.01, 0.99], [0.99, 0.01]]) if submission == "rows" else np.array([0.99, 0.01]))
    sides = ends[:, 1] * weights[1] - ends[:, 0] * weights[0]
    assert loss.span == pytest.approx(np.abs(sides).min(), rel=1e-6)
    assert loss.shape == plain.shape


# --- one addition
