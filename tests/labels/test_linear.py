"""Plans on losses: exact recovery at the edge of the noise, honest certainty beyond it, rigorous float bounds."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import divulge as dv
from divulge import labels
from divulge.labels import metrics

SPECS = {
    "scikit-learn": {"noise": 1e-4},
    "leaderboard": {"clip": 1e-15, "decimals": 5},
    "raw": {"clip": None, "noise": 1e-2},
    "three classes": {"classes": 3, "noise": 1e-3},
    "six classes": {"classes": 6, "noise": 1e-4},
    "positive": {"submission": "positive", "noise": 1e-4, "clip": 1e-15},
    "positive, decimals": {"submission": "positive", "decimals": 5},
    "float32": {"float_dtype": "float32", "clip": "float32", "noise": 1e-4},
    "weighted": {"class_weight": (1.0, 3.0), "decimals": 6},
    "sum": {"reduction": "sum", "noise": 0.05},
    "sequential": {"summation": "sequential", "decimals": 6},
    "brier": {"metric": "squared_euclidean", "decimals": 5},
    "brier, three classes": {"metric": "squared_euclidean", "classes": 3, "decimals": 6},
    "norm-like": {"metric": labels.norm_like(3), "noise": 1e-4},
    "itakura-saito": {"metric": "itakura_saito", "decimals": 5},
    "mahalanobis": {"metric": labels.mahalanobis(2.0), "decimals": 5},
    "mse": {"metric": "mse", "decimals": 3},
    "rmse": {"metric": "rmse", "decimals": 5},
    "rmsle": {"metric": "rmsle", "decimals": 5},
    "mae": {"metric": "mae", "decimals": 5},
    "softmax": {"metric": "softmax_cross_entropy", "classes": 3, "noise": 1e6},
    "softmax float32": {"metric": "softmax_cross_entropy", "float_dtype": "float32", "noise": 1.0},
    "sigmoid": {"metric": "sigmoid_cross_entropy", "noise": 10.0},
    "user's": {
        "metric": labels.Linear(lambda t, y: np.maximum(0, 1 - (2 * y - 1) * t), -1.0, 1.0, "hinge"),
        "noise": 1e-4,
    },
}


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("pattern", ["edge", "plus", "minus"])
def test_labels_are_exact_at_the_edge_of_the_noise(name, pattern):
    spec = labels.OracleSpec(n=83, **SPECS[name])
    y = np.random.default_rng(1).integers(0, spec.classes, spec.n)
    plan = labels.design(spec)
    assert plan.certificate.certified
    inference = labels.infer(labels.LocalOracle(spec, y, pattern=pattern), plan)
    assert (inference.labels == y).all()
    assert inference.proven.all()
    assert inference.queries == plan.count


@pytest.mark.parametrize("name", SPECS)
def test_an_oracle_with_exact_arithmetic_gives_the_same_labels(name):
    spec = labels.OracleSpec(n=83, **SPECS[name])
    y = np.random.default_rng(2).integers(0, spec.classes, spec.n)
    inference = labels.infer(labels.LocalOracle(spec, y, arithmetic="exact"), labels.design(spec))
    assert (inference.labels == y).all()
    assert inference.proven.all()


@pytest.mark.parametrize("options", [{}, {"reduction": "sum"}, {"class_weight": (1.0, 3.0)}, {"metric": "mse"}])
def test_exact_arithmetic_rounds_once(options):
    spec = labels.OracleSpec(n=999, **options)
    rng = np.random.default_rng(0)
    y, theta = rng.integers(0, 2, 999), rng.uniform(0.001, 0.999, 999)
    rows = theta if options.get("metric") == "mse" else np.stack([1 - theta, theta], axis=1)
    losses = [Fraction(float(value)) for value in spec.loss().table(rows)[np.arange(999), y]]
    weights = {(1.0, 3.0): 999 + 2 * int(y.sum()), None: 1 if options.get("reduction") else 999}
    exact = float(sum(losses) / weights[options.get("class_weight")])
    assert labels.LocalOracle(spec, y, arithmetic="exact")(rows) == exact
    assert labels.LocalOracle(spec, y)(rows) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("decimals", [None, 3])
def test_squared_errors_of_titanic(decimals, titanic):
    spec = labels.OracleSpec(metric="mse", n=len(titanic), decimals=decimals)
    plan = labels.design(spec)
    assert plan.certificate.certified
    assert plan.count <= {None: 47, 3: 89}[decimals]
    simulation = labels.simulate(spec, titanic, plan)
    assert simulation.accuracy == 1.0
    if decimals is None:
        assert simulation.inference.certain.all()
        for y in (1 - titanic, np.zeros_like(titanic), np.ones_like(titanic)):
            assert (labels.infer(labels.ScikitLearn(spec, y), plan).labels == y).all()


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "mse"},
        {"metric": "mse", "decimals": 3},
        {"metric": "mse", "decimals": 7},
        {"metric": "mse", "noise": 1e-5},
    ]
    + [{}, {"decimals": 13}, {"noise": 1e-13}, {"decimals": 11, "clip": None}],
)
def test_plans_that_use_the_last_bits_of_the_floats_are_exact(options):
    spec = labels.OracleSpec(n=83, **options)
    plan = labels.design(spec)
    assert plan.certificate.certified
    for seed in range(12):
        rng = np.random.default_rng(seed)
        y = (rng.random(83) < rng.choice([0.02, 0.3, 0.9, 1.0])).astype(int)
        y = np.sort(y) if seed % 4 == 0 else y
        inference = labels.infer(labels.LocalOracle(spec, y, seed), plan)
        assert (inference.labels == y).all()
        assert inference.proven.all()


@pytest.mark.parametrize("method", ["positional", "weighing", "dense", "auto"])
@pytest.mark.parametrize("order", [1, -1])
def test_noiseless_plans_are_certified_and_exact(method, order):
    spec = labels.OracleSpec(n=500)
    y = np.tile([0, 1, 1, 0, 1][::order], 100)
    plan = labels.design(spec, method)
    inference = labels.infer(labels.ScikitLearn(spec, y), plan)
    assert plan.certificate.certified
    assert (inference.labels == y).all()
    assert inference.certain.all()


@given(
    data=st.data(),
    n=st.integers(1, 40),
    classes=st.integers(2, 4),
    noise=st.floats(1e-7, 5e-2),
    method=st.sampled_from(["auto", "weighing", "positional"]),
)
@settings(max_examples=40, deadline=None)
def test_no_wrong_label_is_ever_certain(data, n, classes, noise, method):
    """Adversarial noise at the edge, at twice the declared bound, and anywhere between, signs chosen freely."""
    spec = labels.OracleSpec(n=n, classes=classes, noise=noise, clip=1e-15)
    try:
        plan = labels.design(spec, method)
    except dv.InputError:
        return
    y = np.array(data.draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n)))
    factor = data.draw(st.sampled_from([0.0, 1.0, 1.5, 2.0]))
    size = st.sampled_from([-1.0, -0.75, 0.0, 0.75, 1.0])
    disturbance = data.draw(st.lists(size, min_size=plan.count, max_size=plan.count))
    exact = labels.LocalOracle(spec, y)
    answers = [
        exact.exact(query) + factor * noise * step for query, step in zip(plan.queries, disturbance, strict=True)
    ]
    answers += [exact.exact(query) for query in plan.controls]
    inference = labels.read(plan, answers)
    wrong = inference.labels != y
    assert not (inference.certain & wrong).any()
    if factor <= 1:
        assert not wrong.any()
        assert inference.determined.all()


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_a_guarded_plan_is_certain_within_the_bound_and_honest_at_twice_of_it(factor):
    spec = labels.OracleSpec(n=300, noise=1e-3)
    plan = labels.design(spec, guard=True)
    y = np.random.default_rng(0).integers(0, 2, 300)
    loud = labels.OracleSpec(n=300, noise=1e-3 * factor)
    inference = labels.infer(labels.LocalOracle(loud, y), plan)
    assert not (inference.certain & (inference.labels != y)).any()
    if factor == 1:
        assert inference.certain.all()


def test_noise_beyond_the_bound_shows_in_the_residual():
    spec = labels.OracleSpec(n=40, noise=1e-4, clip=1e-15)
    plan = labels.design(spec, guard=True)
    y = np.zeros(40, dtype=int)
    answers = np.array([labels.LocalOracle(spec, y).exact(q) for q in plan.queries])
    answers[0] += 1.4e-4
    inference = labels.read(plan, answers)
    assert inference.residual[0] > spec.noise
    assert not inference.proven.all()


@given(values=st.lists(st.floats(0, 100), min_size=1, max_size=400), order=st.sampled_from(["pairwise", "sequential"]))
@settings(max_examples=60, deadline=None)
def test_the_summation_bounds_hold(values, order):
    array = np.array(values)
    exact = sum(map(Fraction, values), Fraction(0))
    if order == "pairwise":
        total = float(array.sum())
    else:
        total = 0.0
        for value in values:
            total += value
    bound = metrics.summation_error(len(values), float(exact), order, "float64")
    finer = float(metrics.depths(len(values), order) @ array) * metrics.unit_roundoff("float64") * (1 + 1e-9)
    assert abs(Fraction(total) - exact) <= bound
    assert abs(Fraction(total) - exact) <= finer + 1e-300


@pytest.mark.parametrize(("n", "finer"), [(3, 46), (8, 40), (129, 46), (300, 40)])
@pytest.mark.parametrize("order", ["pairwise", "sequential"])
def test_sums_on_the_grid_carry_no_more_than_the_drift(n, order, finer):
    rng = np.random.default_rng(n)
    grid = 2.0**-finer
    for trial in range(20):
        low = np.round(rng.exponential(2.0, n) / grid) * grid
        high = low + np.round(rng.exponential(1.0, n) / grid) * grid
        size = np.where(rng.random(n) < rng.choice([0.02, 1.0]), 10.0 ** rng.uniform(-18, -13, n), 0.0)
        bound = metrics.grid_error(low[None], high[None], size[None], grid, order, "float64")[0]
        on_grid = np.where(rng.integers(0, 2, n) == 1, high, low)
        values = on_grid + size * (rng.choice([-1, 1], n) if trial % 2 else rng.uniform(-1, 1, n))
        # What each float really is off the grid must be within what was declared.
        values = np.where(np.abs(values - on_grid) <= size, values, on_grid)
        total = float(values.sum()) if order == "pairwise" else float(np.cumsum(values)[-1])
        away = abs(float(Fraction(total) - sum(map(Fraction, on_grid.tolist()))))
        assert away <= bound


def test_one_column_knows_its_own_grid():
    # Near 1 the grid of 1 - p makes -ln(1 - p) six per cent wrong at the clip; the plan keeps away from there.
    spec = labels.OracleSpec(n=2000, submission="positive", clip=1e-15, decimals=5)
    y = np.random.default_rng(0).integers(0, 2, 2000)
    plan = labels.design(spec)
    assert labels.simulate(spec, y, plan).accuracy == 1.0
    extreme = np.array([1 - 1e-15])
    assert abs(spec.loss().table(extreme)[0, 0] / -math.log(1e-15) - 1) < 0.07


def test_scikit_learn_accepts_every_row_without_a_warning():
    from sklearn.metrics import log_loss

    spec = labels.OracleSpec(n=64, classes=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for query in labels.design(spec).queries:
            log_loss(np.arange(64) % 3, query, labels=[0, 1, 2])


def test_queries_are_lazy_and_repeatable():
    plan = labels.design(labels.OracleSpec(n=50, noise=1e-4))
    assert len(plan.queries) == plan.count
    assert all((a == b).all() for a, b in zip(plan.queries, plan.queries, strict=True))
    assert (plan.queries[-1] == plan.queries[plan.count - 1]).all()
    assert len(plan.queries[1:3]) == 2
    with pytest.raises(IndexError):
        plan.queries[plan.count]


def test_half_the_answers_prove_half_the_labels():
    spec = labels.OracleSpec(n=100, decimals=5, clip=1e-15)
    plan = labels.design(spec, "positional")
    y = np.random.default_rng(0).integers(0, 2, 100)
    answers = np.array([labels.LocalOracle(spec, y)(q) for q in plan.queries])
    answers[plan.count // 2 :] = np.nan
    inference = labels.read(plan, answers)
    assert not inference.complete
    assert 0.2 < inference.determined.mean() < 0.8
    assert (inference.labels[inference.determined] == y[inference.determined]).all()


def test_a_million_labels_are_designed_and_decoded():
    spec = labels.OracleSpec(n=1_000_000, noise=1e-9)
    plan = labels.design(spec, "positional")
    part = plan.inner.digit_plans[0]
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, spec.n)
    width = part.code.shapes[0].capacity
    padded = np.zeros(plan.count * width, dtype=np.int64)
    padded[: spec.n] = y
    sums = padded.reshape(plan.count, width) @ np.array(part.code.shapes[0].levels[0].weights)
    answers = np.asarray((part.base + sums * np.longdouble(part.unit)) / spec.n, dtype=float)
    assert (labels.read(plan, answers).labels == y).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n: must be at least 1"),
        ({"n": 5, "classes": 1}, "classes: must be at least 2"),
        ({"n": 5, "noise": -1.0}, r"noise: must lie in \[0"),
        ({"n": 5, "noise": math.inf}, "noise: must be finite"),
        ({"n": 5, "metric": "logloss"}, "did you mean 'log_loss'"),
        ({"n": 5, "clip": 0.7}, "clip: must lie in"),
        ({"n": 5, "clip": "float65"}, "clip: 'float65' is unknown"),
        ({"n": 5, "decimals": -1}, "decimals: must be at least 0"),
        ({"n": 5, "classes": 3, "submission": "positive"}, "'positive' needs 2 classes"),
        ({"n": 5, "classes": 3, "metric": "mse"}, "mse is defined for 2 classes"),
        ({"n": 5, "classes": 3, "metric": "auc"}, "auc is defined for 2 classes"),
        ({"n": 5, "class_weight": (1.0,)}, "2 positive weights"),
        ({"n": 5, "class_weight": (1.0, -1.0)}, "class_weight: must lie in"),
        ({"n": 5, "noise_kind": "cauchy"}, "noise_kind: 'cauchy' is unknown"),
    ],
)
def test_a_bad_specification_says_what_is_wrong(arguments, message):
    with pytest.raises(dv.InputError, match=message):
        labels.OracleSpec(**arguments)


@pytest.mark.parametrize("method", ["auto", "positional", "weighing", "theorem3", "theorem14", "primes", "exhaustive"])
def test_where_nothing_leaks_it_says_so(method):
    with pytest.raises(dv.InputError, match=r"no code known here|cannot read even one"):
        labels.design(labels.OracleSpec(n=1000, noise=0.1), method)


@pytest.mark.parametrize("options", [{}, {"metric": "mse", "decimals": 3}, {"metric": "itakura_saito"}])
def test_the_best_plan_is_never_longer_than_the_others(options):
    spec = labels.OracleSpec(n=150, **options)
    best = labels.design(spec).count
    assert all(best <= labels.design(spec, method).count for method in ("positional", "weighing", "dense"))


def test_the_threshold_is_where_leaking_starts():
    limit = labels.capacity(labels.OracleSpec(n=1000)).threshold
    labels.design(labels.OracleSpec(n=1000, noise=limit * 0.99))
    with pytest.raises(dv.InputError, match=r"so this is no all-clear.*which need one below"):
        labels.design(labels.OracleSpec(n=1000, noise=limit * 1.01))


@pytest.mark.parametrize("answer", [math.nan, math.inf, None, "no"])
def test_an_oracle_without_a_number_is_named(answer):
    plan = labels.design(labels.OracleSpec(n=5))
    with pytest.raises(dv.InputError, match="oracle: query 0 of 1 was answered with"):
        labels.infer(lambda _: answer, plan)


def test_plans_and_answers_that_do_not_fit_are_refused():
    spec, quieter_spec = labels.OracleSpec(n=30, noise=1e-3), labels.OracleSpec(n=30, noise=1e-4)
    plan = labels.design(spec)
    with pytest.raises(dv.InputError, match="plan: made for another oracle"):
        labels.simulate(quieter_spec, np.zeros(30, dtype=int), plan)
    with pytest.raises(dv.InputError, match=f"answers: {plan.count} are needed"):
        labels.read(plan, [0.1])
    with pytest.raises(dv.InputError, match="row 0 sums to"):
        labels.LocalOracle(spec, np.zeros(30, dtype=int))(np.full((30, 2), 0.4))
    with pytest.raises(dv.InputError, match="predictions: shape"):
        labels.LocalOracle(spec, np.zeros(30, dtype=int))(np.full((3, 2), 0.5))
    with pytest.raises(dv.InputError, match=r"lie .* apart; errors reach"):
        labels.design(labels.OracleSpec(n=1000, class_weight=(1.0, 2.0), decimals=2))


def test_a_user_loss_must_separate_the_labels_both_ways():
    with pytest.raises(dv.InputError, match="must prefer label 0 at one end"):
        labels.OracleSpec(metric=labels.Linear(lambda t, y: t * 0 + y, 0.0, 1.0), n=5)


def test_gaps_are_what_the_tables_say():
    for name, options in SPECS.items():
        spec = labels.OracleSpec(n=5, **options)
        loss = spec.loss()
        digits = np.arange(spec.classes)
        span = min(loss.span, 1.0)
        gaps = span / (spec.classes - 1) * np.array([-0.9, -0.3, 0.0, 0.4, 0.9])
        table = loss.table(loss.predict(gaps, digits))
        close = 1e-2 if spec.float_dtype == "float32" else 1e-9
        assert np.allclose(table - table[:, :1], gaps[:, None] * digits, atol=close), name
    assert labels.OracleSpec(n=5).loss().largest_gap(np.arange(2)) > 36.04
