"""A hidden public split: which rows are scored, how many, and their labels; and never more claimed than follows."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import divulge as dv
from divulge import labels

SPECS = {
    "scikit-learn": {},
    "noise": {"noise": 1e-3},
    "leaderboard": {"clip": 1e-15, "decimals": 5},
    "positive": {"submission": "positive", "noise": 1e-4},
    "float32": {"float_dtype": "float32", "clip": "float32", "noise": 1e-4},
    "sum": {"reduction": "sum", "noise": 1e-3},
    "brier": {"metric": "squared_euclidean", "decimals": 5},
    "mse": {"metric": "mse", "decimals": 3},
    "mae": {"metric": "mae", "decimals": 5},
    "accuracy": {"metric": "accuracy"},
    "softmax": {"metric": "softmax_cross_entropy", "noise": 1e3},
    "sigmoid": {"metric": "sigmoid_cross_entropy"},
    "itakura-saito": {"metric": "itakura_saito", "decimals": 5},
    "norm-like": {"metric": labels.norm_like(3), "decimals": 5},
}


def hidden(n, seed, share=0.4):
    rng = np.random.default_rng(seed)
    scored = rng.random(n) < share
    scored[rng.integers(n)] = True
    return rng.integers(0, 2, n), scored


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize(("size_known", "share"), [(True, 0.1), (False, 0.1), (False, 1.0)])
def test_rows_and_labels_of_a_hidden_split_are_read_at_the_edge_of_the_noise(name, size_known, share):
    y, scored = hidden(70, 1, share)
    spec = labels.OracleSpec(n=70, scored=int(scored.sum()) if size_known else "unknown", **SPECS[name])
    plan = labels.design(spec)
    assert plan.certificate.certified == (size_known or spec.reduction == "sum")
    simulation = labels.simulate(spec, y, plan, scored=scored)
    assert simulation.accuracy == 1.0
    assert simulation.inference.proven.all()
    assert ((simulation.inference.labels >= 0) == scored).all()


@pytest.mark.parametrize("size_known", [True, False])
def test_titanic_s_public_rows(size_known, titanic):
    scored = np.random.default_rng(0).random(2201) < 0.3
    spec = labels.OracleSpec(n=2201, clip=1e-15, decimals=5, scored=int(scored.sum()) if size_known else "unknown")
    simulation = labels.simulate(spec, titanic, scored=scored)
    assert simulation.accuracy == 1.0
    assert simulation.inference.certain.all()


@pytest.mark.parametrize("metric", ["log_loss", "mse"])
def test_the_answers_of_scikit_learn_on_the_public_rows(metric):
    y, scored = hidden(60, 2)
    spec = labels.OracleSpec(metric=metric, n=60, scored="unknown")
    part = labels.ScikitLearn(labels.OracleSpec(metric=metric, n=int(scored.sum())), y[scored])
    inference = labels.infer(lambda rows: part(rows[scored]), labels.design(spec))
    assert (inference.labels == np.where(scored, y, -1)).all()
    assert inference.certain.all()


@given(
    data=st.data(),
    n=st.integers(1, 25),
    noise=st.floats(1e-6, 5e-3),
    size_known=st.booleans(),
    guard=st.booleans(),
    factor=st.sampled_from([0.0, 1.0, 1.5, 2.0]),
)
@settings(max_examples=80, deadline=None)
def test_no_wrong_row_is_ever_certain(data, n, noise, size_known, guard, factor):
    """Adversarial noise up to twice what was declared, signs chosen freely."""
    y, scored = hidden(n, data.draw(st.integers(0, 99)), data.draw(st.sampled_from([0.2, 0.6, 1.0])))
    spec = labels.OracleSpec(n=n, noise=noise, clip=1e-15, scored=int(scored.sum()) if size_known else "unknown")
    plan = labels.design(spec, guard=guard)
    exact = labels.LocalOracle(spec, y, scored=scored)
    size = st.sampled_from([-1.0, -0.75, 0.0, 0.75, 1.0])
    away = data.draw(st.lists(size, min_size=plan.count, max_size=plan.count))
    answers = [exact.exact(q) + factor * noise * step for q, step in zip(plan.queries, away, strict=True)]
    inference = labels.read(plan, answers)
    wrong = inference.labels != np.where(scored, y, -1)
    assert not (inference.certain & wrong).any()
    if factor <= 1:
        assert not (inference.proven & wrong).any()


@given(seed=st.integers(0, 10_000), n=st.integers(1, 4), noise=st.floats(0.01, 0.4), n_answers=st.integers(0, 8))
@settings(max_examples=40, deadline=None)
def test_what_is_proven_holds_in_every_world_that_fits_the_answers(seed, n, noise, n_answers):
    """The naive oracle: all splits and labels there are, each asked the same queries."""
    y, scored = hidden(n, seed, 0.6)
    spec = labels.OracleSpec(n=n, noise=noise, scored="unknown")
    plan = labels.design(spec)
    rng = np.random.default_rng(seed)
    answers = np.array([labels.LocalOracle(spec, y, scored=scored).exact(q) for q in plan.queries])
    answers += noise * rng.choice([-1.0, -0.5, 0.0, 1.0], plan.count)
    answers[n_answers:] = np.nan
    inference = labels.read(plan, answers)
    worlds = []
    for world in itertools.product((-1, 0, 1), repeat=n):
        is_scored = np.array(world) >= 0
        if is_scored.any():
            oracle = labels.LocalOracle(spec, np.maximum(world, 0), scored=is_scored)
            implied = np.array([oracle.exact(q) for q in plan.queries])
            if np.nanmax(np.abs(implied - answers), initial=0.0) <= noise * (1 + 1e-9):
                worlds.append(world)
    everywhere = (np.array(worlds) == np.where(scored, y, -1)).all(axis=0)
    assert not (inference.proven & ~everywhere).any()


def test_a_guard_buys_certainty():
    y, scored = hidden(60, 3, 1.0)
    spec = labels.OracleSpec(n=60, noise=1e-3, scored="unknown")
    assert not labels.simulate(spec, y, scored=scored).inference.certain.all()
    assert labels.simulate(spec, y, labels.design(spec, guard=True), scored=scored).inference.certain.all()


def test_half_the_answers_claim_no_more_than_they_say():
    y, scored = hidden(100, 4)
    spec = labels.OracleSpec(n=100, decimals=5, clip=1e-15, scored=int(scored.sum()))
    plan = labels.design(spec, "positional")
    answers = np.array([labels.LocalOracle(spec, y, scored=scored)(q) for q in plan.queries])
    answers[plan.count // 2 :] = np.nan
    inference = labels.read(plan, answers)
    assert 0.2 < inference.determined.mean() < 0.8
    assert (inference.labels[inference.determined] == np.where(scored, y, -1)[inference.determined]).all()
    assert not labels.read(plan, np.full(plan.count, np.nan)).proven.any()


def test_too_many_possible_numbers_claim_nothing_rather_than_too_much():
    # Without a single answer each number of scored rows is as good as any other.
    spec = labels.OracleSpec(n=500, noise=1e-6, scored="unknown")
    inference = labels.read(labels.design(spec), np.full(labels.design(spec).count, np.nan))
    assert not (inference.proven | inference.certain).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scored": 9}, "at most all 8 rows"),
        ({"scored": 0}, "scored: must be at least 1"),
        ({"scored": "some"}, "scored: 'some' is unknown"),
        ({"scored": "unknown", "metric": "auc"}, "auc is not a mean over rows"),
        ({"scored": "unknown", "classes": 3}, "2 unweighted classes"),
        ({"scored": "unknown", "noise": 0.1, "noise_kind": "gaussian"}, "under bounded noise only"),
        ({"scored": "unknown", "noise": 9.0}, "may hide single rows of the split"),
    ],
)
def test_splits_that_cannot_be_read_say_why(arguments, message):
    with pytest.raises(dv.InputError, match=message):
        labels.design(labels.OracleSpec(n=8, **arguments))


def test_oracles_and_specifications_of_a_split_must_fit():
    spec = labels.OracleSpec(n=8, scored=3)
    y, four = np.zeros(8, dtype=int), np.arange(8) < 4
    with pytest.raises(dv.InputError, match="says 3 rows, the mask has 4"):
        labels.simulate(spec, y, scored=four)
    with pytest.raises(dv.InputError, match="say which rows are scored"):
        labels.simulate(spec, y)
    with pytest.raises(dv.InputError, match="at least one row must be scored"):
        labels.simulate(spec, y, scored=np.zeros(8, dtype=bool))
    assert "sums over all rows" in str(labels.certify(spec, np.full((8, 2), 0.5)))
    with pytest.raises(dv.InputError, match="method"):
        labels.design(spec, "theorem3")
    with pytest.raises(dv.InputError, match="knows how many rows"):
        labels.defend(labels.OracleSpec(n=8, scored="unknown"))
    assert labels.defend(spec).noise == pytest.approx(labels.defend(labels.OracleSpec(n=3)).noise)


def test_capacity_bounds_the_plans_of_a_split():
    for scored in ("unknown", 100):
        spec = labels.OracleSpec(n=300, noise=1e-4, scored=scored)
        assert labels.design(spec).count >= labels.capacity(spec).queries


def test_a_sum_of_random_signs_may_be_off_by_what_its_own_rounding_is():
    """With no error allowed for the endpoint, only the rounding of the implied sum is left."""
    y, scored = hidden(30, 0, 0.5)
    spec = labels.OracleSpec(n=30, scored="unknown", clip=1e-15, decimals=5)
    plan = labels.design(spec).inner
    pair = plan.code.count  # the first pair of random signs
    exact = dataclasses.replace(plan, error=np.zeros_like(plan.error))
    digits = np.where(scored, 2 * y - 1, 0)
    implied = plan.unit * plan.code.bound * (plan.draw_signs(0) @ digits)
    assert len(plan.error) > pair
    assert implied
    for off, passes in ((0.0, True), (0.9e-15, True), (4e-15, False)):
        differences = np.array(
            [
                plan.unit * plan.code.bound * (plan.draw_signs(number) @ digits)
                for number in range(len(plan.error) - pair)
            ]
        )
        differences[0] += off * implied
        values = np.concatenate([np.zeros(pair), differences])
        assert exact._passes_checks(digits, 1.0, values, np.zeros(len(plan.error))) == passes
