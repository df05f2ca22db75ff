"""No combination of options ends in an internal error: a plan that reads the labels, or a refusal that says why."""

import itertools
import os

import numpy as np
import pytest

import divulge as dv
from divulge import labels
from divulge.labels.design import METHODS
from divulge.labels.oracles import METRIC_NAMES

SAMPLES = int(os.environ.get("DIVULGE_GRID", "20"))  # per metric at most
MOST_QUERIES = 20_000
OPTIONS = {
    "n": (1, 2, 3, 20, 60),
    "classes": (2, 3, 5),
    "clip": ("float64", "float32", 1e-15, 1e-30, 0.4, None),
    "decimals": (None, 0, 2, 5, 15),
    "noise": (0.0, 1e-9, 1e-4, 1e-2, 3.0),
    "noise_kind": ("bounded", "gaussian", "laplace"),
    "float_dtype": ("float64", "float32", "float16"),
    "reduction": ("mean", "sum"),
    "class_weight": (None, (1.0, 3.0), (1.0, 2.0, 0.5)),
    "submission": ("rows", "positive"),
    "summation": ("pairwise", "sequential"),
    "scored": ("all", 2, "unknown"),
}
DESIGN_OPTIONS = {
    "method": METHODS,
    "guard": (False, True),
    "rigorous": (False, True),
    "block": (None, 0, 3),
    "queries": (None, 7),
}


def try_everything(spec, options, seed):
    """Capacity, defence, design, attack and control query of one combination; True where a plan was made.

    Against large noise a plan may ask hundreds of thousands of times; such a one is certified, not carried out.
    """
    labels.capacity(spec)
    if spec.scored != "unknown" and not seed % 4:  # the cost of remedies is simulated, which takes long
        labels.defend(spec, queries=20, accuracy=1 - 0.5 / spec.classes)
    try:
        plan = labels.design(spec, **options)
    except dv.InputError:
        return False
    labels.certify(spec, plan)
    labels.Submission().text(plan.queries[0])
    if plan.count > MOST_QUERIES:
        return True
    rng = np.random.default_rng(seed)
    y = rng.integers(0, spec.classes, spec.n)
    y[: min(2, spec.n)] = np.arange(min(2, spec.n))
    scored = None if spec.scored == "all" else np.arange(spec.n) < 2
    truth = y if scored is None else np.where(scored, y, -1)
    inference = labels.simulate(spec, y, plan, scored=scored, seed=seed).inference
    assert (inference.labels[inference.proven] == truth[inference.proven]).all()
    assert (inference.labels[inference.certain] == truth[inference.certain]).all()
    if options.get("rigorous", True) or spec.tolerance:
        assert inference.contradiction is None, str(inference.contradiction)
    return True


def test_one_column_without_a_clip_is_read():
    """Near 1 a probability has an end (1.1e-16 below it), near 0 it has none: the two sides differ in reach."""
    for options in ({}, {"decimals": 5}, {"scored": 60}, {"scored": "unknown", "decimals": 5}, {"noise": 0.1}):
        spec = labels.OracleSpec(n=200, clip=None, submission="positive", **options)
        scored = None if spec.scored == "all" else np.arange(200) % 10 < 3
        y = np.random.default_rng(0).integers(0, 2, 200)
        simulation = labels.simulate(spec, y, scored=scored)
        assert simulation.accuracy == 1.0
        assert simulation.inference.proven.all()
        assert simulation.inference.checked


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", [name for name in METRIC_NAMES if name not in ("norm_like", "mahalanobis")])
def test_a_sample_of_all_combinations_ends_in_a_plan_or_a_refusal(metric):
    rng = np.random.default_rng(METRIC_NAMES.index(metric))
    plans = tried = 0
    for seed in range(SAMPLES):
        if plans >= SAMPLES // 4:
            break
        # Half of the options stay at their default, so that many combinations are possible ones.
        options = {name: values[rng.integers(len(values))] for name, values in OPTIONS.items() if rng.random() < 0.5}
        design_options = {
            name: values[rng.integers(len(values))] for name, values in DESIGN_OPTIONS.items() if rng.random() < 0.3
        }
        try:
            spec = labels.OracleSpec(metric, **({"n": 20} | options))
        except dv.InputError:
            continue
        tried += 1
        try:
            plans += try_everything(spec, design_options, seed)
        except Exception as error:
            raise AssertionError(f"{spec} {design_options}") from error
    assert tried > 0
    assert plans > 0


@pytest.mark.filterwarnings("error")
def test_every_method_of_the_command_line_designs_or_refuses():
    """What `divulge labels design` takes that shapes a plan, at a size at which every method is quick."""
    for metric, (clip, decimals), (submission, scored), method in itertools.product(
        ("log_loss", "mse", "accuracy", "auc"),
        ((None, None), (1e-15, 5)),
        (("rows", "all"), ("rows", 3), ("positive", "unknown")),
        METHODS,
    ):
        spec = labels.OracleSpec(metric, 5, clip=clip, decimals=decimals, submission=submission, scored=scored)
        try:
            assert labels.design(spec, method).count >= 1
        except dv.InputError:
            continue
