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
