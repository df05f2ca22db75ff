"""Labels called proven are right, whatever server answers: honest ones are believed, others are found out.

Of every server below it is known what it is. Chance of failing: none for bounded noise, where every claim is a proof;
one in a million an attack for stochastic noise.
"""

import itertools
import math
import os
from dataclasses import replace

import numpy as np
import pytest

from divulge import labels
from divulge.errors import InputError
from divulge.labels import stochastic

RUNS = int(os.environ.get("DIVULGE_RUNS", "1"))  # more of them: the figures of docs/annex/promises.md
RATIOS = ("auc", "balanced_accuracy", "mcc", "quadratic_weighted_kappa", "r2")  # defined for labels of two classes


def cost_of_errors(y, p):
    """A metric known by evaluation: ten for a missed one, one for a false alarm, over the number of ones and two."""
    return float((10 * ((y == 1) & (p == 0)).sum() + ((y == 0) & (p == 1)).sum()) / (y.sum() + 2))


def closeness(y, p):
    """Another one, which is no sum over rows."""
    return float(np.mean(np.sqrt(np.abs(y - p))) + 0.1 * abs(y.sum() - p.sum()))


BOARD = {"clip": 1e-15, "decimals": 5}
SPECS = {
    "noiseless": {},
    "noise": {"noise": 1e-4},
    "raw": {"clip": None, "noise": 0.1},
    "board": BOARD,
    "one column": {"submission": "positive", **BOARD},
    "float32": {"float_dtype": "float32", "clip": "float32", "noise": 1e-4},
    "six classes": {"classes": 6, **BOARD},
    "weighted": {"class_weight": (1.0, 3.0), "decimals": 6},
    "sum": {"reduction": "sum", "decimals": 4},
    "mse": {"metric": "mse", "decimals": 5},
    "mse, noiseless": {"metric": "mse"},
    "rmse": {"metric": "rmse", "decimals": 5},
    "mae": {"metric": "mae", "decimals": 5},
    "brier": {"metric": "squared_euclidean", "decimals": 5},
    "softmax": {"metric": "softmax_cross_entropy", "classes": 3},
    "accuracy": {"metric": "accuracy"},
    "f1": {"metric": "f1", "decimals": 5},
    "auc": {"metric": "auc"},
    "mape": {"metric": "mape", "decimals": 5},
    "balanced accuracy": {"metric": "balanced_accuracy", "decimals": 6},
    "mcc": {"metric": "mcc", "decimals": 6},
    "mcc, noise": {"metric": "mcc", "noise": 1e-5},
    "kappa": {"metric": "quadratic_weighted_kappa", "decimals": 6},
    "kappa, four classes": {"metric": "quadratic_weighted_kappa", "classes": 4, "decimals": 5},
    "r2": {"metric": "r2", "decimals": 5},
    "r2, noiseless": {"metric": "r2"},
    "map at k": {"metric": "map_at_k", "classes": 3, "decimals": 4},
    "evaluated counts": {"metric": labels.Evaluated(cost_of_errors, depends_on="counts"), "decimals": 6},
    "split": {"scored": 20, **BOARD},
    "unknown split": {"scored": "unknown", **BOARD},
    "gaussian": {"noise": 1e-3, "noise_kind": "gaussian"},
    "laplace": {"noise": 1e-3, "noise_kind": "laplace"},
    "sigmoid, gaussian": {"metric": "sigmoid_cross_entropy", "noise": 0.05, "noise_kind": "gaussian"},
    "softmax, laplace": {"metric": "softmax_cross_entropy", "classes": 3, "noise": 0.05, "noise_kind": "laplace"},
    "rmse, gaussian": {"metric": "rmse", "noise": 0.01, "noise_kind": "gaussian"},
    "itakura, laplace": {"metric": "itakura_saito", "noise": 0.05, "noise_kind": "laplace"},
    "loud": {"clip": 1e-3, "noise": 0.06},
    "known by evaluation": {"metric": labels.Evaluated(closeness), "submission": "positive", "decimals": 6},
}
SIZES = {"known by evaluation": (3, 7), "weighted": (3, 12), "kappa, four classes": (3, 12)}  # of long searches
# Beside one that differs in kind from these, other servers of them are found out by the same computations.
ALIKE = ("noise", "raw", "float32", "sum", "mse, noiseless", "r2, noiseless", "mcc, noise", "brier", "mae", "gaussian")


def draw_truth(spec, seed):
    """Hidden labels, balanced or lopsided, and the rows that are scored."""
    rng = np.random.default_rng((seed, spec.n))
    if spec.classes > 2:
        return rng.integers(0, spec.classes, spec.n), None
    y = (rng.random(spec.n) < rng.choice([0.0, 0.05, 0.5, 1.0])).astype(int)
    if spec.name in RATIOS:
        y[:2] = 0, 1
    if spec.name in ("f1", "mape"):
        y[0] = spec.name == "f1"  # without such a row every answer is the same, from which nothing is proven
    return y, None if spec.scored == "all" else rng.permutation(spec.n) < 20


def half_up(value, decimals):
    return math.floor(value * 10**decimals + 0.5) / 10**decimals


def passed_on(score, decimals):
    """A score that was kept in single precision on its way, if that still shows its decimals."""
    short = np.float32(score)
    return float(short) if np.spacing(np.abs(short)) < 0.8 * 10.0**-decimals else score


def honest(spec, y, scored, seed):
    """Servers that are what was declared, in every way of rounding, adding up and passing a score on."""
    pattern = ("edge", "uniform", "plus", "minus")[seed % 4]
    local = labels.LocalOracle(spec, y, seed, pattern=pattern, scored=scored)
    yield local
    yield labels.LocalOracle(spec, y, seed, pattern=pattern, scored=scored, arithmetic="exact")
    if spec.decimals is not None:
        unrounded = labels.LocalOracle(replace(spec, decimals=None), y, seed, pattern=pattern, scored=scored)
        yield lambda rows: float(np.round(unrounded(rows), spec.decimals))
        yield lambda rows: half_up(unrounded(rows), spec.decimals)
        yield lambda rows: float(f"{unrounded(rows):.{spec.decimals}f}")
        yield lambda rows: passed_on(local(rows), spec.decimals)
    if scored is None and spec.decimals is not None and spec.adds_up:
        # Cutting off is rounding with half a unit of noise, when it is declared so.
        yield None


@pytest.mark.parametrize("name", SPECS)
def test_honest_servers_raise_no_alarm_and_every_label_is_right(name):
    for n in SIZES.get(name, (3, 24)):
        options = SPECS[name] if SPECS[name].get("scored") != 20 else SPECS[name] | {"scored": min(n, 20)}
        spec = labels.OracleSpec(n=n, **options)
        truncated_spec = (
            replace(spec, noise=spec.noise + spec.rounding) if spec.decimals and spec.scored == "all" else None
        )
        plans = {spec: labels.design(spec)}
        for seed in range(RUNS):
            y, scored = draw_truth(spec, seed)
            truth = y if scored is None else np.where(scored, y, -1)
            for server in honest(spec, y, scored, seed):
                if server is not None:
                    inference = labels.infer(server, plans[spec])
                elif (
                    truncated_spec is not None and truncated_spec.tolerance < labels.capacity(truncated_spec).threshold
                ):
                    plans.setdefault(truncated_spec, labels.design(truncated_spec))
                    exact, scale = labels.LocalOracle(spec, y).exact, 10**spec.decimals
                    inference = labels.infer(
                        lambda rows, f=exact, s=scale: math.floor(f(rows) * s) / s, plans[truncated_spec]
                    )
                else:
                    continue
                assert inference.contradiction is None, (name, n, seed, str(inference.contradiction))
                assert inference.checked
                assert (inference.labels[inference.proven] == truth[inference.proven]).all()
                assert inference.proven.all() or spec.noise_kind != "bounded"


def draw_noise(spec, rng, kind=None, scale=1.0):
    """Noise of one answer, as declared or of another kind or size."""
    size = scale * spec.noise
    draws = {
        "gaussian": lambda: rng.normal(0, size),
        "laplace": lambda: rng.laplace(0, size),
        "cauchy": lambda: size * rng.standard_cauchy(),
        "bounded": lambda: size * rng.choice([-1, 1, rng.uniform(-1, 1)]),
    }
    return draws[kind or spec.noise_kind]()


def weighted_score(spec, y, predictions, weights, divisor=None):
    """A score in which rows count differently, as no `OracleSpec` declares it."""
    losses = spec.loss().table(predictions)[np.arange(spec.n), y] * weights
    class_weights = np.ones(spec.n) if spec.class_weight is None else np.array(spec.class_weight)[y]
    total = 1.0 if spec.reduction == "sum" else divisor or float((weights * class_weights).sum())
    mean = float(losses.sum()) / total
    return math.sqrt(mean) if spec.name == "rmse" else mean


class Server:
    """An endpoint with honest noise and rounding around a score that may be another than was declared."""

    def __init__(self, spec, y, scored, seed):
        self.spec, self.y, self.rng = spec, y, np.random.default_rng(seed + 1000)
        self.silent = replace(spec, noise=0.0, decimals=None)
        self.exact = labels.LocalOracle(self.silent, y, scored=scored).exact

    def show(self, score, noise=None, **rounding):
        value = score + (draw_noise(self.spec, self.rng) if noise is None else noise)
        decimals = rounding.get("decimals", self.spec.decimals)
        return float(value) if decimals is None else round(float(value), decimals)

    def __call__(self, predictions):
        return self.show(self.exact(predictions))


def other_servers(spec, y, scored, seed):
    """Servers that are something else than was declared, by name."""
    server = Server(spec, y, scored, seed)
    yield from servers_of_other_answers(server)
    yield from servers_of_other_predictions(server)
    if spec.scored == "all":
        yield from servers_of_other_rows(server)


def servers_of_other_answers(server):
    spec, rng, exact, show = server.spec, server.rng, server.exact, server.show
    state = {}

    def cached(predictions):
        state["asked"] = state.get("asked", 0) + 1
        if state["asked"] % 3 == 1:
            state["score"] = server(predictions)
        return state["score"]

    def best_so_far(predictions):
        state["best"] = min(server(predictions), state.get("best", math.inf))
        return state["best"]

    coarse = 2 if spec.decimals is None else spec.decimals - 1
    size = 5 * (spec.tolerance if spec.noise_kind == "bounded" else 5 * spec.noise) or 1e-9
    constant = round(float(rng.choice([0, 0.5, 1, 0.69315])), 9 if spec.decimals is None else spec.decimals)
    yield "noisier", lambda p: show(exact(p), rng.choice([-size, size]))
    yield "much noisier", lambda p: show(exact(p), rng.normal(0, 30 * size))
    yield "other noise", lambda p: show(exact(p), draw_noise(spec, rng, "cauchy"))
    yield "base 2", lambda p: show(exact(p) / math.log(2))
    yield "a tenth more", lambda p: show(1.1 * exact(p))
    yield "offset", lambda p: show(exact(p) + 0.1)
    yield "per cent", lambda p: show(100 * exact(p))
    yield "capped", lambda p: min(1.0, server(p))
    yield "constant", lambda p: constant
    yield "constant with noise", lambda p: show(constant)
    yield "random", lambda p: show(rng.integers(0, spec.n + 1) / spec.n)
    yield "cached", cached
    yield "best so far", best_so_far
    yield "single precision", lambda p: show(float(np.float32(exact(p))))
    yield "coarser", lambda p: show(exact(p), decimals=coarse)
    if spec.name not in ("mcc", "accuracy", "auc"):
        yield "negated", lambda p: -server(p)  # else the score of the opposite labels, which no answer can show
    if spec.decimals is not None:
        yield "finer", lambda p: show(exact(p), decimals=spec.decimals + 2)
        yield "cut off", lambda p: math.floor(exact(p) * 10**spec.decimals) / 10**spec.decimals


def servers_of_other_predictions(server):
    spec, rng = server.spec, server.rng
    limits = {
        **dict.fromkeys(("sigmoid_cross_entropy", "softmax_cross_entropy"), (3.0, 50.0, 1e3, 1e6)),
        **dict.fromkeys(("mse", "rmse", "mae", "mape", "r2"), (1.0, 10.0, 1e4)),
        **dict.fromkeys(("log_loss", "squared_euclidean", "itakura_saito"), (0.2, 1e-2, 1e-6)),
    }.get(spec.name, ())
    for limit in limits:
        low, high = (limit, 1 - limit) if limit < 1 else (1 - limit, limit)
        yield f"clip {limit:g}", lambda p, low=low, high=high: server(_clip(p, low, high))
    if spec.name in ("sigmoid_cross_entropy", "softmax_cross_entropy"):
        yield "temperature", lambda p: server(np.asarray(p) / 2)
    yield "rows in another order each time", lambda p: server(np.asarray(p)[rng.permutation(spec.n)])


def servers_of_other_rows(server):
    spec, y, rng, show = server.spec, server.y, server.rng, server.show
    n = spec.n
    part = rng.random(n) < 0.7
    part[:2] = True
    subsets = {"part of the rows": part, "one row dropped": np.arange(n) < n - 1, "half": np.arange(n) < n / 2}
    for name, keep in subsets.items():
        if (
            keep.sum() > 1
            and not isinstance(spec.metric, labels.Evaluated)
            and (spec.name != "auc" or len(set(y[keep])) == 2)
        ):
            score = labels.LocalOracle(replace(server.silent, n=int(keep.sum())), y[keep]).exact
            yield name, lambda p, score=score, keep=keep: show(score(np.asarray(p)[keep]))
    if not spec.adds_up:
        return
    alike = [labels.LocalOracle(server.silent, np.full(n, label)).exact for label in range(spec.classes)]
    yield "smoothed labels", lambda p: show(0.9 * server.exact(p) + 0.1 * np.mean([score(p) for score in alike]))
    weightings = {
        "sample weights": (rng.uniform(0.5, 1.5, n), None),
        "class weights": (np.where(y == 0, 1.0, 3.0), None),
        "a row without weight": (np.where(np.arange(n) < n - 1, 1.0, 0.0), n),
        "rows without weight": (part.astype(float), n),
        "sum or mean": (np.full(n, 1.0 if spec.reduction == "mean" else 1 / n), 1.0),
    }
    for name, (weights, divisor) in weightings.items():
        yield name, lambda p, w=weights, d=divisor: show(weighted_score(spec, y, p, w, d))


def _clip(predictions, low, high):
    clipped = np.clip(predictions, low, high)
    return clipped / clipped.sum(axis=1, keepdims=True) if 0 < low < high < 1 and clipped.ndim == 2 else clipped


def count_wrong_proofs(spec, plan, seeds):
    """Attacks on other servers, those of them with a wrong proof, and those that were found out, by server."""
    counts = {}
    for seed in seeds:
        y, scored = draw_truth(spec, seed)
        truth = y if scored is None else np.where(scored, y, -1)
        for server_name, server in other_servers(spec, y, scored, seed):
            try:
                inference = labels.infer(server, plan)
            except InputError:  # an answer without a bound, which is no number
                continue
            wrong = inference.labels != truth
            is_wrong_proof = bool(((inference.proven | inference.certain) & wrong).any())
            counts.setdefault(server_name, []).append((1, is_wrong_proof, inference.contradiction is not None))
    return {name: np.sum(rows, axis=0) for name, rows in counts.items()}


@pytest.mark.parametrize("name", [name for name in SPECS if name not in ALIKE])
def test_no_label_of_another_server_is_called_proven_and_wrong(name):
    total = np.zeros(3, int)
    for n in SIZES.get(name, (3, 24)):
        options = SPECS[name] if SPECS[name].get("scored") != 20 else SPECS[name] | {"scored": min(n, 20)}
        spec = labels.OracleSpec(n=n, **options)
        counts = count_wrong_proofs(spec, labels.design(spec, guard=n == 3), range(RUNS))
        assert not {server: row for server, row in counts.items() if row[1]}, n
        total += sum(counts.values())
    assert total[2] >= 0.5 * total[0]


@pytest.mark.parametrize(
    "metric", ["f1", "mcc", "balanced_accuracy", "quadratic_weighted_kappa", "accuracy", "auc", "r2", "map_at_k"]
)
def test_an_endpoint_that_always_answers_the_same_proves_nothing(metric):
    for n, decimals, constant in itertools.product((2, 9, 14), (None, 5), (0.0, 0.5, 1.0)):
        try:
            plan = labels.design(labels.OracleSpec(metric=metric, n=n, decimals=decimals))
        except InputError:  # no code for so few rows at this precision
            continue
        inference = labels.infer(lambda predictions, constant=constant: constant, plan)
        assert not (inference.proven | inference.certain).any(), (n, decimals, constant)
        assert inference.contradiction is not None or "same" in inference.caveat


def test_nothing_is_proven_without_the_control_queries():
    plan = labels.design(labels.OracleSpec("accuracy", n=9))
    oracle = labels.LocalOracle(plan.spec, np.arange(9) % 2)
    answers = [oracle(query) for query in (*plan.queries, *plan.controls)]
    for count in (plan.count, plan.count + 1, len(answers) - 1):
        inference = labels.read(plan, answers[:count])
        assert inference.determined.all(), count
        assert not (inference.proven | inference.certain).any(), count
        assert "control" in inference.caveat
    assert labels.read(plan, answers).proven.all()
    assert not labels.infer(oracle, plan, control=False).proven.any()


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_no_label_is_proven_wrong_where_noise_and_few_answers_leave_other_labellings(kind):
    """Signs under honest noise, from half as many answers as rows to far more; 2.4 % of what was proven was wrong."""
    proven = 0
    for n, share, swing in itertools.product((3, 8, 20), (0.5, 0.8, 20.0), (0.5, 1.0)):
        noise = math.log(999) / (6 * n * swing)
        spec = labels.OracleSpec(n=n, clip=1e-3, noise=noise, noise_kind=kind)
        plan = stochastic.plan_signs(spec, math.ceil(share * n))
        for seed in range(RUNS):
            y, _ = draw_truth(spec, seed)
            inference = labels.infer(labels.LocalOracle(spec, y, seed), plan)
            assert inference.contradiction is None
            assert not (inference.proven & (inference.labels != y)).any(), (n, share, swing, seed)
            proven += inference.proven.sum()
    assert proven


def test_rounding_lets_an_answer_take_more_values_than_it_has_steps_and_capacity_says_so():
    """All labellings of few rows under random submissions: no metric's answers are more than its bits allow."""
    rng = np.random.default_rng(0)
    specs = [
        labels.OracleSpec(metric, n=n, decimals=decimals)
        for metric, n, decimals in itertools.product(
            ("accuracy", "f1", "auc", "balanced_accuracy", "mcc"), (3, 6), (None, 1)
        )
    ] + [
        labels.OracleSpec(metric, n=6, decimals=0, clip=clip)
        for metric, clip in (("log_loss", 0.3), ("log_loss", 0.01), ("squared_euclidean", 0.1))
    ]
    for spec in specs:
        every = [np.array(y) for y in itertools.product([0, 1], repeat=spec.n)]
        every = every[1:-1] if spec.name == "auc" else every
        most = 0
        for _ in range(6):
            p = np.clip(rng.normal(0.5, 1, spec.n), 0, 1)
            submission = (
                np.column_stack([1 - p, p]) if spec.adds_up else p if spec.name == "auc" else (p > 0.5).astype(int)
            )
            most = max(most, len({labels.LocalOracle(spec, y)(submission) for y in every}))
        assert math.log2(most) <= labels.capacity(spec).bits_per_query + 1e-9, spec


def test_a_refusal_to_design_does_not_say_that_no_label_leaks():
    """One label of 40 moves the answer by less than a step, and yet across an edge between two steps: it is read."""
    with pytest.raises(InputError, match=r"no code known here.*this is no all-clear.*may be read all the same"):
        labels.design(labels.OracleSpec("accuracy", n=40, decimals=1))
    spec = labels.OracleSpec(n=40, decimals=0, clip=1e-15)
    assert labels.design(spec).method == "one row a query"
    y = np.random.default_rng(0).integers(0, 2, 40)
    oracle = labels.LocalOracle(spec, y)
    for row in range(40):
        submission = np.full((40, 2), 0.5)
        submission[row] = 1, 0
        assert (oracle(submission) == 2) == (y[row] == 1)
