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


REACH = {
    "log_loss": {"clip": CLIP},
    "log_loss, no clip": {},
    "log_loss, one column": {"clip": CLIP, "submission": "positive"},
    "log_loss, one column, no clip": {"submission": "positive"},
    "log_loss, four": {"clip": CLIP, "classes": 4},
    "squared_euclidean": {},
    "squared_euclidean, one column": {"submission": "positive"},
    "squared_euclidean, four": {"classes": 4},
    "mae": {},
    "mape": {},
    "rmsle": {},
}


@pytest.mark.parametrize("name", REACH)
def test_the_span_is_the_largest_difference_that_predictions_make(name):
    options = {"classes": 2} | REACH[name]
    loss = metrics.row_loss(name.split(",")[0], **options)
    edge = {"log_loss": math.log(99) if "clip" in options else -math.log(np.finfo("float64").tiny)}
    whole = {
        "squared_euclidean": 2.0 if options["classes"] == 4 else 1.0,
        "mae": 1.0,
        "mape": 1.0,
        "rmsle": math.log(2) ** 2,
    }
    expected = (edge | whole)[name.split(",")[0]]
    if name == "squared_euclidean, four":
        expected = 1.0  # with predictions that are 0 for no class: 4/K
    assert loss.span == pytest.approx(expected, rel=1e-9)
    assert loss.span <= expected
    if name == "log_loss, one column, no clip":
        assert loss.two_sided == pytest.approx(-math.log(2.0**-53))
        assert loss.largest == loss.span
    elif name in ("mape", "rmsle"):
        assert (loss.two_sided, loss.largest) == (loss.span, math.inf)
    else:
        assert loss.two_sided == loss.largest == loss.span


@pytest.mark.parametrize("name", [*REACH, "mse", "itakura_saito", "sigmoid_cross_entropy", "softmax_cross_entropy"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
def test_predictions_put_the_labels_the_asked_gap_apart(name, share):
    options = {"classes": 2} | REACH.get(name, {})
    loss = metrics.row_loss(name.split(",")[0], **options)
    digits = np.arange(options["classes"])
    reach = loss.largest_gap(digits)
    reach = min(reach, loss.two_sided) if math.isfinite(loss.span) else 100.0
    gaps = np.array([share * reach, -share * reach])
    table = loss.table(loss.predict(gaps, digits))
    tolerance = 3e-2 if "column, no clip" in name else 1e-6
    np.testing.assert_allclose(table - table[:, :1], np.outer(gaps, digits), rtol=tolerance, atol=1e-9)


@pytest.mark.parametrize("classes", [3, 4, 7])
def test_the_largest_gap_leaves_no_class_below_the_clip_or_below_nothing(classes):
    for digits in (np.arange(classes), np.arange(classes) % 2, np.r_[0, np.full(classes - 1, 2)]):
        loss = metrics.row_loss("log_loss", classes, clip=CLIP)
        gap = loss.largest_gap(digits)
        smallest = metrics.class_probabilities(np.array([gap]), digits).min()
        assert CLIP <= smallest <= CLIP * (1 + 1e-6)
        brier = metrics.row_loss("squared_euclidean", classes)
        gap = brier.largest_gap(digits)
        both = brier.predict(np.array([gap, -gap]), digits)
        np.testing.assert_allclose(both.sum(axis=1), 1.0)
        assert -1e-12 <= both.min() <= 1e-9
    # Where the clip leaves no room there is none.
    assert metrics.row_loss("log_loss", classes, clip=0.45).largest_gap(np.arange(classes)) == 0.0


@pytest.mark.parametrize("name", ["mse", "mae", "mape", "rmse", "rmsle", "sigmoid_cross_entropy", "itakura_saito"])
def test_losses_of_two_labels_are_refused_for_more(name):
    with pytest.raises(InputError, match=f"classes: {name} is defined for 2 classes here, got 3"):
        metrics.row_loss(name, 3)


def linear(function, low=-1.0, high=1.0):
    return labels.Linear(function, low=low, high=high, name="own")


def test_a_loss_of_ones_own_reaches_as_far_as_its_smaller_side():
    hinge = linear(lambda t, y: np.maximum(0, 1 - (2 * y - 1) * t), -1.0, 0.25)
    loss = metrics.row_loss(hinge, 2)
    assert loss.span == pytest.approx(0.5)
    table = loss.table(loss.predict(np.array([0.5, 0.1, -0.5]), np.arange(2)))
    np.testing.assert_allclose(table[:, 1] - table[:, 0], [0.5, 0.1, -0.5], atol=1e-9)
    with pytest.raises(InputError, match="classes: own is defined for 2 classes here, got 3"):
        metrics.row_loss(hinge, 3)


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


@pytest.mark.parametrize(
    ("y", "lists", "score"),
    [([0, 1], [[0, 1], [1, 0]], 1.0), ([0, 1], [[1, 0], [1, 0]], 0.75), ([0, 2], [[1, 2], [0, 1]], 0.0),
     ([2, 2, 2], [[0, 1, 2], [2, 1, 0], [0, 2, 1]], (1 / 3 + 1 + 1 / 2) / 3)],
)  # fmt: skip
def test_the_reciprocal_places_of_true_labels_are_averaged(y, lists, score):
    assert metrics.mean_average_precision(np.array(y), np.array(lists)) == pytest.approx(score)


# --- one addition


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 16, 23, 128, 129, 200])
@pytest.mark.parametrize("order", ["pairwise", "sequential"])
def test_sums_of_whole_numbers_carry_no_error(n, order):
    low = np.arange(2.0 * n).reshape(2, n)
    found = metrics.grid_error(low, low + 1, np.zeros((2, n)), 1.0, order, "float64")
    assert found.tolist() == [0.0, 0.0]
    # A deviation too small to show is rounded away as soon as something is added.
    small = metrics.grid_error(low + 1, low + 1, np.full((2, n), 1e-18), 1.0, order, "float64")
    assert small.tolist() == ([0.0, 0.0] if n > 1 else [1e-18, 1e-18])
