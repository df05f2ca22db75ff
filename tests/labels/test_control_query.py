"""The control query: every label weighs in it, and more than an answer may be off by."""

import math

import numpy as np
import pytest

from divulge import labels
from divulge.labels import plans


@pytest.mark.parametrize(
    ("options", "span"),
    [
        ({}, None),
        ({"clip": 1e-3}, None),
        ({"metric": "softmax_cross_entropy"}, 1.0),
        ({"metric": "softmax_cross_entropy", "noise": 0.5}, 16 * 30 * 0.5),
        ({"metric": "sigmoid_cross_entropy", "noise": 0.1}, 16 * 30 * 0.1),
    ],
)
def test_a_label_moves_the_sum_by_a_quarter_of_the_span_to_all_of_it(options, span):
    spec = labels.OracleSpec(n=30, **options)
    loss = spec.loss()
    table = loss.table(plans.control_query(spec))
    moved = np.abs(table[:, 1] - table[:, 0])
    reach = loss.span if span is None else span
    assert math.isfinite(reach)
    assert moved.min() >= 0.25 * reach * (1 - 1e-3)
    assert moved.max() <= reach * (1 + 1e-3)
    assert (np.diff(np.sort(moved)) > 0).all()
    assert len({*np.sign(table[:, 1] - table[:, 0])}) == 2


def test_ranks_and_counts_are_asked_for_at_random():
    ranks = plans.control_query(labels.OracleSpec("auc", n=30))
    assert sorted(ranks.tolist()) == [i / 30 for i in range(30)]
    assert set(plans.control_query(labels.OracleSpec("accuracy", n=30)).tolist()) == {0.0, 1.0}


def any_score(y, p):
    return float(np.mean(y == np.asarray(p)))


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ({"metric": any_score, "submission": "labels"}, "labels"),
        ({"metric": any_score, "submission": "labels", "classes": 5}, "labels"),
        ({"metric": any_score, "submission": "positive"}, "column"),
        ({"metric": any_score, "submission": "rows", "classes": 3}, "rows"),
        ({"metric": labels.Evaluated(any_score, depends_on="counts")}, "labels"),
        ({"metric": "accuracy"}, "labels"),
        ({"metric": "f1"}, "labels"),
        ({"metric": "mcc"}, "labels"),
        ({"metric": "balanced_accuracy"}, "labels"),
        ({"metric": "quadratic_weighted_kappa", "classes": 5}, "labels"),
        ({"metric": "map_at_k", "classes": 5}, "lists"),
        ({"metric": "auc"}, "column"),
        ({"metric": "r2"}, "column"),
        ({"submission": "positive"}, "column"),
        ({"classes": 3}, "rows"),
        ({"metric": "squared_euclidean", "classes": 3}, "rows"),
    ],
)
def test_a_control_has_the_form_of_a_submission_and_is_neither_constant_nor_redrawn(options, form):
    spec = labels.OracleSpec(n=40, **options)
    query = plans.control_query(spec)
    np.testing.assert_array_equal(query, plans.control_query(spec))
    assert len(query) == 40
    assert query.shape == {"labels": (40,), "column": (40,), "lists": (40, 1), "rows": (40, spec.classes)}[form]
    assert query.min() >= 0
    if form in ("labels", "lists"):
        assert set(query.ravel().tolist()) == set(range(spec.classes))
    elif form == "column":
        assert query.max() <= 1
        assert len(np.unique(query)) > 10
    else:
        np.testing.assert_allclose(query.sum(axis=1), 1.0)
        assert len(np.unique(query, axis=0)) > 10
