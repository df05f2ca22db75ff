"""Plans that count: readings at the limits of their noise, against naive counts."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from divulge import labels
from divulge.labels import codes
from divulge.labels.oracles import LocalOracle, OracleSpec


def answers_of(spec, inner, y):
    oracle = LocalOracle(replace(spec, noise=0.0, decimals=None), y)
    return np.array([oracle.exact(inner.query(index)) for index in range(inner.count)])


def plan_of(metric, n=8, **options):
    spec = OracleSpec(metric, n=n, **options)
    return spec, labels.design(spec).inner


Y = np.array([0, 1, 1, 0, 1, 0, 0, 1])


def reading_at(metric, index, off, noise, decimals=None):
    """Reading of exact answers of which one is off."""
    spec, plan = plan_of(metric, noise=noise, decimals=decimals)
    answers = answers_of(spec, plan, Y)
    answers[index] += off
    return plan.read(answers), plan


@pytest.mark.parametrize(
    ("off", "noise", "expected"),  # of counts, whose answers lie 2/8 apart: proven, certain, refuted
    [
        (0.0, 0.0, (True, True, False)),
        (0.06, 0.0601, (True, True, False)),
        (0.06, 0.0599, (False, True, True)),
        (0.1, 0.06, (False, True, True)),
        (0.06, 0.0624, (True, True, False)),
        (-0.06, 0.0601, (True, True, False)),
        (-0.06, 0.0599, (False, True, True)),
    ],
)
def test_counts_are_proven_within_the_noise_and_certain_if_the_next_needs_more_than_twice_of_it(off, noise, expected):
    for index in range(1, 6):
        reading, plan = reading_at("accuracy", index, off, noise)
        rows = plan.code.rows_in_flagged_blocks(
            np.arange(plan.code.count) == codes.detecting_queries(plan.code)[index - 1]
        )
        assert reading.proven[rows].all() == reading.proven[rows].any() == expected[0]
        assert reading.certain[rows].all() == reading.certain[rows].any() == expected[1]
        assert reading.refuted[index] == expected[2]
        assert reading.refuted.any() == expected[2]
        assert reading.labels.tolist() == Y.tolist()
        assert reading.residual[index] == pytest.approx(abs(off))
        assert np.delete(reading.residual, index) == pytest.approx(np.zeros(plan.count - 1))


# --- ranks


def test_ranks_are_read_up_to_the_first_answer_that_is_missing_or_in_doubt():
    spec, plan = plan_of("auc", 6, noise=0.004)
    y = np.array([0, 1, 1, 0, 1, 0])
    exact = answers_of(spec, plan, y)
    assert not plan.read(np.full(plan.count, np.nan)).proven.any()
    for missing in range(plan.count):
        partial = exact.copy()
        partial[missing] = np.nan
        reading = plan.read(partial)
        assert reading.proven.tolist() == (np.arange(6) < plan.starts[missing]).tolist()
    for index in range(plan.count):
        for off, refuted in ((0.0039, False), (0.0041, True), (-0.0041, True)):
            moved = exact.copy()
            moved[index] += off
            assert plan.read(moved).refuted[index] == refuted
            assert plan.read(moved).residual[index] == pytest.approx(abs(off))
    # Beyond half the way to the answer of another number of ones nothing is certain.
    sizes = np.arange(1, 6)
    every = np.r_[0.5 - 0.5 / sizes, 0.5 + 0.5 / sizes]
    apart = np.sort(np.abs(every - exact[0]))[1]
    for noise, certain in ((apart / 2 * 0.999, True), (apart / 2 * 1.001, False)):
        loud = replace(plan, spec=replace(spec, noise=noise))
        assert loud.read(np.r_[exact[0], np.full(plan.count - 1, np.nan)]).certain[0] == certain


@pytest.mark.parametrize("n", [3, 6])
def test_r_squared_tells_the_number_of_ones_and_then_is_a_squared_error(n):
    spec, plan = plan_of("r2", n)
    assert plan.count == 1 + plan.squares.count
    assert plan.query(0).tolist() == [0.0] * n
    for y in itertools.product((0, 1), repeat=n):
        y = np.array(y)
        exact = answers_of(spec, plan, y)
        reading = plan.read(exact)
        assert reading.labels.tolist() == y.tolist()
        assert reading.proven.all()
        assert not reading.refuted.any()
        assert np.nanmax(reading.residual) < 1e-9
        wrong = exact.copy()
        wrong[0] += 0.0123
        assert plan.read(wrong).refuted[0]
        assert not plan.read(wrong).proven.any()
    nothing = plan.read(np.full(plan.count, np.nan))
    assert not (nothing.proven | nothing.certain).any()
    assert not nothing.refuted.any()
    assert np.isnan(nothing.residual).all()
