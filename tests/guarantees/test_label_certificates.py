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

RUNS = int(os.environ.get("DIVULGE_RUNS", "2"))  # more of them: the figures of docs/methods/decisions.md
RATIOS = ("auc", "balanced_accuracy", "mcc", "quadratic_weighted_kappa", "r2")  # defined for labels of two classes


def cost_of_errors(y, p):
    """A metric known by evaluation: ten for a missed one, one for a false alarm, over the number of ones and two."""
    return float((10 * ((y == 1) & (p == 0)).sum() + ((y == 0) & (p == 1)).sum()) / (y.sum() + 2))


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
}


def draw_truth(spec, seed):
    """Hidden labels, balanced or lopsided, and the rows that are scored."""
    rng = np.random.default_rng((seed, spec.n))
    if spec.classes > 2:
        return rng.integers(0, spec.classes, spec.n), None
    y = (rng.random(spec.n) < rng.choice([0.0, 0.05, 0.5, 1.0])).astype(int)
    if spec.name in RATIOS:
        y[:2] = 0, 1
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
    for n in (3, 40):
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


def summed(spec, y, scored, seed):
    """The sum where a mean is declared, or the mean where a sum is."""
    if spec.name == "rmse":
        exact = labels.LocalOracle(spec, y, seed, scored=scored).exact
        return lambda rows: round(exact(rows) * math.sqrt(spec.n), spec.decimals)
    misdeclared = replace(spec, reduction="sum" if spec.reduction == "mean" else "mean", class_weight=None)
    return labels.LocalOracle(misdeclared, y, seed, scored=scored)


def other_servers(spec, y, scored, seed):
    """Servers that are something else than was declared, by name."""
    honest_one = labels.LocalOracle(spec, y, seed, scored=scored)
    exact, decimals = honest_one.exact, spec.decimals
    rng = np.random.default_rng(seed + 1000)
    size = 5 * (spec.tolerance if spec.noise_kind == "bounded" else 5 * spec.noise) or 1e-9
    state = {}

    def truncate(value):
        return value if decimals is None else round(value, decimals)

    def cached(rows):
        state["asked"] = state.get("asked", 0) + 1
        if state["asked"] % 3 == 1:
            state["score"] = honest_one(rows)
        return state["score"]

    yield "noisy", lambda rows: truncate(exact(rows) + rng.choice([-size, size]))
    yield "negated", lambda rows: -honest_one(rows)
    yield "base 2", lambda rows: honest_one(rows) / math.log(2)
    yield "per cent", lambda rows: 100 * honest_one(rows)
    yield "constant", lambda rows: 0.69315
    yield "cached", cached
    yield "rows in another order each time", lambda rows: honest_one(np.asarray(rows)[rng.permutation(spec.n)])
    if spec.tolerance < 1e-4 or spec.noise_kind != "bounded":
        coarse = 3 if decimals is None else decimals - 1
        yield "coarser", lambda rows: round(exact(rows), coarse)
    if decimals is not None:
        yield "finer", lambda rows: round(exact(rows), decimals + 2)
        yield "cut off", lambda rows: math.floor(exact(rows) * 10**decimals) / 10**decimals
    if spec.adds_up:
        yield "sum or mean", summed(spec, y, scored, seed)
    if spec.name == "log_loss":
        for clip in (1e-2, 1e-6, "float64"):
            yield f"clip {clip}", labels.LocalOracle(replace(spec, clip=clip), y, seed, scored=scored)
    if spec.scored == "all" and spec.name != "auc":
        keep = rng.random(spec.n) < 0.9
        part = labels.LocalOracle(replace(spec, n=int(keep.sum())), y[keep], seed)
        yield "other rows", lambda rows: part(np.asarray(rows)[keep])


@pytest.mark.parametrize("name", SPECS)
def test_no_label_of_another_server_is_called_proven_and_wrong(name):
    spec = labels.OracleSpec(n=40, **SPECS[name])
    plan = labels.design(spec)
    found_out = attacks = 0
    for seed in range(RUNS):
        y, scored = draw_truth(spec, seed)
        truth = y if scored is None else np.where(scored, y, -1)
        for server_name, server in other_servers(spec, y, scored, seed):
            if (spec.name, server_name) == ("mcc", "negated"):
                continue  # that is the MCC of the opposite labels, which no answer can show
            inference = labels.infer(server, plan)
            wrong = inference.labels != truth
            assert not (inference.proven & wrong).any(), (name, server_name, seed)
            # Whoever does no harm may pass: a weaker clip that no prediction meets, a cut that moves no digit.
            assert inference.contradiction is not None or not wrong.any(), (name, server_name, seed)
            assert inference.contradiction is None or not inference.certain.any()
            attacks, found_out = attacks + 1, found_out + (inference.contradiction is not None)
    assert found_out >= 0.5 * attacks


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_no_label_is_proven_wrong_where_noise_and_few_answers_leave_other_labellings(kind):
    """Signs under honest noise, from half as many answers as rows to far more; 2.4 % of what was proven was wrong."""
    proven = 0
    for n, share, swing in itertools.product((3, 5, 8, 12, 20), (0.5, 0.6, 0.8, 20.0), (0.5, 1.0)):
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
    spec = labels.OracleSpec(n=40, decimals=0, clip=1e-15)
    with pytest.raises(InputError, match=r"no code known here.*may be read all the same"):
        labels.design(spec)
    y = np.random.default_rng(0).integers(0, 2, 40)
    oracle = labels.LocalOracle(spec, y)
    for row in range(40):
        submission = np.full((40, 2), 0.5)
        submission[row] = 1, 0
        assert (oracle(submission) == 2) == (y[row] == 1)
