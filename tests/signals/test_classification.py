"""Classification signals against naive formulas, and where naive formulas fail."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import divulge as dv
from divulge.signals import classification as c


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def naive(name, z, y):
    p = softmax(z)
    rows = np.arange(len(z))
    py = p[rows, y]
    other_logits = z.copy()
    other_logits[rows, y] = -np.inf
    if name in ("negative-loss", "label-loss"):
        return np.log(py)
    if name in ("confidence", "correctness"):
        return py
    if name == "scaled-logit":
        return np.log(py) - np.log(1 - py)
    if name == "hinge":
        return z[rows, y] - other_logits.max(axis=1)
    if name == "top-two-gap":
        return np.diff(np.sort(z, axis=1)[:, -2:], axis=1)[:, 0]
    if name == "max-probability":
        return np.log(p.max(axis=1)) - np.log(np.sort(p, axis=1)[:, :-1].sum(axis=1))
    assert name == "modified-entropy"
    total = (1 - py) * np.log(py)
    for k in range(z.shape[1]):
        pk = p[:, k]
        total += np.where(y == k, 0.0, pk * np.log(1 - pk))
    return total


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(2, 5)), elements=st.floats(-8, 8)), st.data())
@settings(deadline=None, max_examples=40)
def test_signals_equal_their_formulas(logits, data):
    n, k = logits.shape
    y = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, k - 1)))
    for name, signal in c.SIGNALS.items():
        np.testing.assert_allclose(signal(logits, y), naive(name, logits, y), rtol=1e-7, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("name", c.SIGNALS)
@pytest.mark.parametrize("size", [1e2, 1e4, 1e30, 1e308])
def test_signals_are_finite_and_ordered_for_saturated_logits(name, size):
    logits = np.array([[size, 0.0, -size], [0.0, size, -size]])
    values = c.SIGNALS[name](logits, np.array([0, 0]))
    assert np.isfinite(values).all()
    if name not in c.LABEL_AGNOSTIC:
        assert values[0] > values[1]


def test_scaled_logit_does_not_saturate_where_the_probability_is_one():
    values = c.scaled_logit(np.array([[50.0, 0.0], [60.0, 0.0]]), np.array([0, 0]))
    assert values.tolist() == [50.0, 60.0]


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        ([[0.0, np.nan]], [0], "logits: 1 values are NaN"),
        ([[0.0, 1.0]], [2], "labels must be below 2"),
        ([[0.0, 1.0]], [0.0], "whole-number labels"),
        ([[0.0]], [0], "at least 2 classes"),
        ([[0.0, 1.0]], [0, 1], "labels: 1 labels are needed"),
    ],
)
def test_bad_input(logits, labels, message):
    with pytest.raises(dv.InputError, match=message):
        c.hinge(np.array(logits), np.array(labels))
