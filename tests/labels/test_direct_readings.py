"""Readings of plans that are made once, so that each clause is tried by itself."""

import math

import numpy as np
import pytest

from divulge import labels
from divulge.errors import InputError
from divulge.labels import codes
from divulge.labels.oracles import OracleSpec, compute_score

COUNTS = labels.design(OracleSpec("accuracy", n=4, noise=0.03)).inner
ONES, RATIO = np.ones(4, dtype=int), labels.design(OracleSpec("mcc", n=5)).inner
ALL_RIGHT = np.array(
    [labels.LocalOracle(OracleSpec("accuracy", n=4), ONES).exact(q) for q in map(COUNTS.query, range(COUNTS.count))]
)
SINGLE = {
    row: np.array(
        [labels.LocalOracle(RATIO.spec, np.eye(5, dtype=int)[row]).exact(RATIO.query(i)) for i in range(RATIO.count)]
    )
    for row in range(5)
}
LABELS = OracleSpec(labels.Evaluated(lambda y, p: math.nan, name="f"), n=2, submission="labels")
BY_COUNTS = OracleSpec(labels.Evaluated(lambda y, p: math.nan, depends_on="counts", name="f"), n=2)
SPEC, LOSS = OracleSpec(n=20), OracleSpec(n=20).loss()


@pytest.mark.parametrize(("value", "refuted"), [(1.0, False), (1.029, False), (1.031, True), (1.4, True)])
def test_no_score_is_larger_than_one_by_more_than_its_noise(value, refuted):
    answers = ALL_RIGHT.copy()
    answers[0] = value
    assert COUNTS.read(answers).refuted[0] == refuted


@pytest.mark.parametrize("row", range(5))
def test_a_single_one_is_read(row):
    reading = RATIO.read(SINGLE[row])
    assert reading.labels.tolist() == np.eye(5, dtype=int)[row].tolist()
    assert reading.proven.all()
    assert not reading.refuted.any()


def test_a_metric_of_labels_that_is_undefined_is_refused_and_one_of_counts_is_no_number():
    with pytest.raises(InputError, match="metric: what f returns"):
        compute_score(LABELS, np.array([0, 1]), np.array([0, 1]))
    assert math.isnan(compute_score(BY_COUNTS, np.array([0, 1]), np.array([0, 1])))


def test_the_smallest_and_largest_loss_of_each_weight_are_known():
    alphabet = codes.make_alphabet(SPEC, LOSS, np.array([-5, 0, 3]), 0.5, np.arange(2), 0.0)
    table = LOSS.table(alphabet.rows)
    np.testing.assert_allclose(alphabet.low, table.min(axis=1))
    np.testing.assert_allclose(alphabet.high, table.max(axis=1))
    np.testing.assert_allclose(alphabet.high - alphabet.low, [2.5, 0.0, 1.5])
    np.testing.assert_allclose(alphabet.base, table[:, 0])
