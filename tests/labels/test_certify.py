"""Certificates against enumeration, and defences measured against our own attacks."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import divulge as dv
from divulge import labels


def enumerated(table):
    n, classes = table.shape
    sums = sorted(math.fsum(table[i, c] for i, c in enumerate(y)) for y in itertools.product(range(classes), repeat=n))
    return min(b - a for a, b in itertools.pairwise(sums)) / n


@given(n=st.integers(1, 6), classes=st.integers(2, 3), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_the_certified_separation_is_a_tight_lower_bound(n, classes, seed):
    rows = np.random.default_rng(seed).dirichlet(np.ones(classes), n)
    spec = labels.OracleSpec(n=n, classes=classes)
    proven = labels.certify(spec, rows).separation
    exact = enumerated(spec.loss().table(rows))
    assert proven <= exact
    assert proven >= exact - 1e-11 * n - 1e-12


def test_superincreasing_codes_are_certified_in_linear_time():
    gaps = 36 * 2.0 ** -np.arange(40)
    rows = np.stack([1 / (1 + np.exp(-gaps)), 1 / (1 + np.exp(gaps))], axis=1)
    found = labels.certify(labels.OracleSpec(n=40), rows)
    assert found.certified
    assert found.method == "superincreasing losses"


def test_thirty_rows_meet_in_the_middle_and_more_are_refused():
    rng = np.random.default_rng(0)
    theta = rng.uniform(0.1, 0.9, 26)
    found = labels.certify(labels.OracleSpec(n=26), np.stack([1 - theta, theta], axis=1))
    assert found.method == "meet in the middle"
    theta = rng.uniform(0.1, 0.9, 40)
    found = labels.certify(labels.OracleSpec(n=40), np.stack([1 - theta, theta], axis=1))
    assert not found.certified
    assert "too many" in str(found)


def test_of_several_queries_the_best_one_counts():
    spec = labels.OracleSpec(n=2, noise=0.01)
    bad, good = np.full((2, 2), 0.5), np.array([[0.9, 0.1], [0.6, 0.4]])
    assert labels.certify(spec, np.stack([bad, good])).certified
    assert not labels.certify(spec, bad).certified
    assert labels.certify(spec, labels.design(spec)).certified


def test_the_whole_titanic_plan_is_certified(titanic):
    spec = labels.OracleSpec(n=len(titanic))
    for method in ("positional", "weighing"):
        plan = labels.design(spec, method)
        assert plan.certificate.certified
        assert plan.count <= 48
        found = labels.infer(labels.ScikitLearn(spec, titanic), plan)
        assert (found.labels == titanic).all()
        assert found.certain.all()


def accuracy(spec, plan, runs=12):
    rights = []
    for seed in range(runs):
        y = np.random.default_rng(seed).integers(0, 2, spec.n)
        rights.append(labels.simulate(spec, y, plan, seed=seed).accuracy)
    return float(np.mean(rights)), 3 * math.sqrt(0.25 / (spec.n * runs))


def test_the_recommended_noise_stops_our_attack_and_a_third_of_it_does_not():
    # Chance that sampling error alone fails this test: three standard errors either way, about 0.3 %.
    start = labels.OracleSpec(n=300)
    defence = labels.defend(start, queries=100, accuracy=0.6)
    for factor, holds in ((1.0, True), (1 / 3, False)):
        spec = labels.OracleSpec(n=300, noise=defence.noise * factor, noise_kind="gaussian")
        reached, slack = accuracy(spec, labels.design(spec, queries=100))
        assert (reached <= 0.6 + slack) == holds


def test_the_recommended_clip_stops_our_attack_and_a_weaker_one_does_not():
    noisy = labels.OracleSpec(n=300, noise=0.05, noise_kind="gaussian")
    defence = labels.defend(noisy, queries=100, accuracy=0.6)
    for clip, holds in ((defence.clip, True), (defence.clip / 20, False)):
        spec = labels.OracleSpec(n=300, noise=0.05, noise_kind="gaussian", clip=clip)
        reached, slack = accuracy(spec, labels.design(spec, queries=100))
        assert (reached <= 0.6 + slack) == holds


def test_the_recommended_cap_stops_our_attack_and_ten_times_it_does_not():
    spec = labels.OracleSpec(n=100, noise=9.0, noise_kind="gaussian")
    cap = labels.defend(spec, accuracy=0.6).query_cap
    assert cap >= 1
    for queries, holds in ((cap, True), (10 * cap, False)):
        reached, slack = accuracy(spec, labels.design(spec, queries=queries))
        assert (reached <= 0.6 + slack) == holds


def test_the_cap_under_rounding_stops_our_attack_and_the_whole_plan_does_not():
    spec = labels.OracleSpec(n=300, decimals=2, clip=1e-3)
    cap = labels.defend(spec, accuracy=0.7).query_cap
    plan = labels.design(spec)
    reached = []
    for seed in range(12):
        y = np.random.default_rng(seed).integers(0, 2, 300)
        answers = np.array([labels.LocalOracle(spec, y)(q) for q in plan.queries])
        assert (labels.read(plan, answers).labels == y).all()
        answers[cap:] = np.nan
        reached.append((labels.read(plan, answers).labels == y).mean())
    assert np.mean(reached) <= 0.7 + 3 * math.sqrt(0.25 / 3600)


def test_the_recommended_epsilon_stops_our_attack_and_twice_of_it_does_not():
    # Randomised response with budget epsilon keeps a label with probability e^eps / (1 + e^eps); answers are exact.
    defence = labels.defend(labels.OracleSpec(n=2000), accuracy=0.6)
    spec = labels.OracleSpec(n=2000)
    plan = labels.design(spec)
    for epsilon, holds in ((defence.epsilon, True), (2 * defence.epsilon, False)):
        rights = []
        for seed in range(5):
            rng = np.random.default_rng(seed)
            y = rng.integers(0, 2, 2000)
            told = np.where(rng.random(2000) < math.exp(epsilon) / (1 + math.exp(epsilon)), y, 1 - y)
            rights.append((labels.simulate(spec, told, plan).inference.labels == y).mean())
        assert (np.mean(rights) <= 0.6 + 3 * math.sqrt(0.25 / 10_000)) == holds


@pytest.mark.parametrize(("n", "clip", "queries", "decimals"), [(16, 1e-3, 4, 0), (16, 1e-6, 2, 1), (12, 0.05, 4, 0)])
def test_the_recommended_decimals_stop_our_attack_and_one_more_does_not(n, clip, queries, decimals):
    # The promise is proven for balanced labels on average; three standard errors are allowed, as above.
    start = labels.OracleSpec(n=n, clip=clip)
    assert labels.defend(start, queries=queries, accuracy=0.99).decimals == decimals
    assert rounded(labels.OracleSpec(n=n, clip=clip, decimals=decimals), queries) <= 0.99 + 3 * math.sqrt(
        0.01 / (40 * n)
    )
    assert rounded(labels.OracleSpec(n=n, clip=clip, decimals=decimals + 1), queries) == 1.0


@pytest.mark.parametrize(("n", "decimals", "queries"), [(24, 1, 4), (16, 1, 3), (12, 0, 4)])
def test_the_recommended_clip_beside_rounding_stops_our_attack_and_a_weaker_one_does_not(n, decimals, queries):
    start = labels.OracleSpec(n=n, decimals=decimals)
    clip = labels.defend(start, queries=queries, accuracy=0.99).clip
    assert 1e-3 < clip < 0.1
    assert rounded(replace(start, clip=clip), queries) <= 0.99 + 3 * math.sqrt(0.01 / (40 * n))
    assert rounded(replace(start, clip=1e-15), queries) == 1.0


def rounded(spec, queries):
    """Accuracy of the best attack on an oracle that rounds."""
    # Rounding as if it were noise: the attack that is left where no label can be read for certain.
    plans = [labels.design(replace(spec, noise=1e-9, noise_kind="gaussian"), queries=queries)]
    if spec.tolerance < labels.capacity(spec).threshold:
        plans.append(labels.design(spec))
    return max(capped(spec, plan, queries) for plan in plans)


def capped(spec, plan, queries, runs=40):
    """Mean accuracy of a plan whose first ``queries`` queries are answered, against the rounding oracle."""
    rights = []
    for seed in range(runs):
        y = np.random.default_rng(seed).integers(0, 2, spec.n)
        oracle = labels.LocalOracle(spec, y)
        answers = np.full(plan.count, np.nan)
        for index in range(min(queries, plan.count)):
            answers[index] = oracle(plan.queries[index])
        rights.append((labels.read(plan, answers).labels == y).mean())
    return float(np.mean(rights))


def test_a_step_beyond_one_label_s_share_protects_no_label():
    # R/n is 0.0069, less than the step of 0.01; yet ln 2 lies so near an edge that a single label shows.
    n = 5000
    spec = labels.OracleSpec(n=n, clip=1e-15, decimals=2)
    assert spec.loss().span / n < 10.0**-spec.decimals
    query = np.full((n, 2), 0.5)
    query[0] = 1 - 1e-15, 1e-15
    shown = {labels.LocalOracle(spec, np.eye(1, n, dtype=int)[0] * label)(query) for label in (0, 1)}
    assert len(shown) == 2


def test_rounding_that_would_have_to_be_coarser_than_a_unit_is_not_recommended():
    assert labels.defend(labels.OracleSpec(n=100)).decimals is None
    for n, most in ((1_000_000, 15), (100_000, 15), (20_000, 2)):
        spec, found = labels.OracleSpec(n=n), labels.defend(labels.OracleSpec(n=n), queries=10).decimals
        bits = n * (1 + 0.55 * math.log2(0.55) + 0.45 * math.log2(0.45))
        assert found == most
        assert 10 * math.log2(2 + spec.loss().span * 10.0**found) <= bits


def test_an_oracle_on_logits_cannot_be_defended_by_noise():
    found = labels.defend(labels.OracleSpec(metric="softmax_cross_entropy", n=100))
    assert found.noise is None
    assert "no bound" in found.advice[0]


def test_the_ladder_is_no_better_than_rounding():
    spec = labels.OracleSpec(n=40, clip=1e-15)
    y = np.random.default_rng(0).integers(0, 2, 40)
    ladder = labels.Ladder(labels.LocalOracle(spec, y), step=1e-3)
    worst = np.where(y[:, None] == np.arange(2), 1e-15, 1.0)
    first = ladder(worst)
    for _ in range(3):
        # One row put right at a time lowers the score by R/n, far more than the step: each is seen.
        row = int(np.flatnonzero(worst[np.arange(40), y] < 0.5)[0])
        worst[row] = worst[row, ::-1]
        second = ladder(worst)
        assert second < first
        first = second


@pytest.mark.parametrize(("arguments", "message"), [({"queries": 0}, "queries"), ({"accuracy": 0.5}, "accuracy")])
def test_bad_demands_on_a_defence(arguments, message):
    with pytest.raises(dv.InputError, match=message):
        labels.defend(labels.OracleSpec(n=5), **arguments)


def test_capacity_bounds_every_plan():
    for options in ({"noise": 1e-4}, {"decimals": 5}, {"classes": 3, "noise": 1e-3}, {"metric": "accuracy"}, {}):
        spec = labels.OracleSpec(n=300, **options)
        assert labels.design(spec).count >= labels.capacity(spec).queries
