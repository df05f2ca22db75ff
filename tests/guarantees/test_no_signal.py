"""Score tables without signal: nothing may be claimed of them beyond the stated error rate.

Each simulation allows four standard errors above its nominal rate, so each fails by chance less than
once in 10,000 seeds. Of intervals at 95 %, where 11.5 % miss is noticed with 90 %.
"""

import numpy as np
import pytest

import divulge as dv
from divulge.decisions import fpr


def smooth(rng, n):
    return rng.normal(size=n)


def zeros(rng, n):
    return np.where(rng.random(n) < 0.3, 0.0, rng.normal(size=n))


def constant(rng, n):
    return np.ones(n)


def coarse(rng, n):
    return rng.integers(0, 4, n).astype(float)


def heavy(rng, n):
    return rng.standard_cauchy(n)


SHAPES = [smooth, zeros, constant, coarse, heavy]
SIZES = [(5, 5), (12, 150), (150, 150)]
DRAWS = 400


def is_plausible(rate, nominal, draws=DRAWS):
    return rate <= nominal + 4 * (nominal * (1 - nominal) / draws) ** 0.5


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("m", "n"), SIZES)
def test_auc_intervals_contain_one_half(shape, m, n):
    rng = np.random.default_rng(20)
    members = np.arange(m + n) < m
    estimates = [dv.evaluation.auc(shape(rng, m + n), members) for _ in range(DRAWS)]
    assert is_plausible(np.mean([not e.low <= 0.5 <= e.high for e in estimates]), 0.05)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("calibration", "guarantee"), [(99, "marginal"), (99, "training-conditional"), (999, "marginal")]
)
def test_fpr_is_at_most_its_level(shape, calibration, guarantee):
    """Fresh non-members are selected at the asked rate or less; without ties, not much less."""
    level = 0.01 if calibration == 999 or guarantee == "marginal" else 0.05
    rng = np.random.default_rng(21)
    rates = np.array(
        [
            fpr.threshold(shape(rng, calibration), level, guarantee=guarantee).select(shape(rng, 500)).mean()
            for _ in range(DRAWS)
        ]
    )
    assert rates.mean() <= level + 4 * rates.std() / DRAWS**0.5
    if shape is smooth and guarantee == "marginal":
        assert rates.mean() >= level - 4 * rates.std() / DRAWS**0.5


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("strategy", ["bonferroni", "split", "one run"])
def test_epsilon_is_zero(shape, strategy):
    rng = np.random.default_rng(22)
    claims = 0
    for i in range(DRAWS):
        members, values = rng.random(60) < 0.5, shape(rng, 60)
        if strategy == "one run":
            result = dv.evaluation.epsilon_one_run(values, members)
        else:
            result = dv.evaluation.epsilon_lower_bound(values, members, strategy=strategy, seed=i)
        claims += result.low > 0
    assert is_plausible(claims / DRAWS, 0.05)


@pytest.mark.parametrize("shape", SHAPES)
def test_tpr_and_advantage_claim_nothing(shape):
    rng = np.random.default_rng(23)
    members = np.arange(250) < 100
    beyond = np.zeros((DRAWS, 2), bool)
    for i in range(DRAWS):
        values = shape(rng, 250)
        beyond[i] = (
            dv.evaluation.tpr_at_fpr(values, members, 0.05).low > 0.05,
            dv.evaluation.advantage(values, members).low > 0,
        )
    assert is_plausible(beyond.mean(0).max(), 0.025)


def everything(values, members):
    ev = dv.evaluation
    groups = np.round(values).astype(int) % 3
    curve = ev.roc(values, members)
    return (
        [ev.measure(values, members, name) for name in ("auc", "advantage", "epsilon", "tpr@fpr=0.05")],
        ev.epsilon_lower_bound(values, members, strategy="split", seed=4),
        ev.epsilon_one_run(values, members),
        ev.subgroups(values, members, groups, 0.05),
        np.stack([curve.fpr, curve.tpr, curve.low, curve.high]).tolist(),
        [ev.paired_difference(values, np.sin(values), members, name) for name in ("auc", "tpr@fpr=0.05")],
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_order_of_rows_changes_nothing_and_neither_does_asking_twice(shape):
    rng = np.random.default_rng(24)
    values, members = shape(rng, 400), rng.random(400) < 0.5
    order = rng.permutation(400)
    expected = everything(values, members)
    assert everything(values, members) == expected
    repeat = everything(values[order], members[order])
    assert repr(repeat) == repr(expected) or _close(repeat, expected)


def _close(a, b):
    """Equal up to the last bits of sums taken in another order."""
    numbers = [np.array([float(x) for x in _floats(part)]) for part in (a, b)]
    np.testing.assert_allclose(*numbers, rtol=1e-12, atol=1e-12)
    return True


def _floats(part):
    if isinstance(part, int | float):
        yield part
    elif isinstance(part, list | tuple):
        for item in part:
            yield from _floats(item)
    elif hasattr(part, "__dataclass_fields__"):
        for name in part.__dataclass_fields__:
            yield from _floats(getattr(part, name))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 3), (3, 1), (2, 2), (3, 3)])
def test_the_tiniest_sets_prove_nothing(m, n):
    members = np.arange(m + n) >= n
    values = np.arange(m + n, dtype=float)
    estimate = dv.evaluation.auc(values, members)
    assert estimate.value == 1.0
    assert estimate.low < 0.5
    assert dv.evaluation.epsilon_lower_bound(values, members).low == 0.0
    assert dv.evaluation.advantage(values, members).low == 0.0
