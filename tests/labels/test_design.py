"""Designs: what is refused, what is chosen, and that no design takes hours."""

import math
from dataclasses import replace

import numpy as np
import pytest

import divulge as dv
from divulge import labels, validation
from divulge.errors import InputError
from divulge.labels import stochastic
from divulge.labels.oracles import OracleSpec
from divulge.labels.plans import describe_missing_code


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"n": 100, "classes": 10**6}, "^classes: a design takes at most 10,000, got 1,000,000"),
        ({"n": 10**9}, "^n: a design takes at most 100,000,000, got 1,000,000,000"),
        ({"n": 10**9, "classes": 10**9, "noise": 0.1}, "^n: a design takes"),
        ({"n": 10**9, "metric": "auc"}, "^n: a design takes"),
        ({"n": 10**9, "scored": "unknown", "clip": 1e-15}, "^n: a design takes"),
    ],
)
def test_designs_that_cannot_end_are_refused(spec, message):
    with pytest.raises(dv.InputError, match=message):
        labels.design(labels.OracleSpec(**spec))


def test_a_submission_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(validation, "available_memory", lambda: 2**30)
    with pytest.raises(dv.InputError, match=r"^n: about 7\.5 GiB of memory .* 10,000,000 rows of 100 numbers"):
        labels.design(labels.OracleSpec(n=10**7, classes=100))


SPEC = OracleSpec(n=20, clip=1e-3, noise=1e-3)


def share(y, p):
    return float(np.mean(y == p))


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (SPEC, {"method": "best"}, "method: "),
        (SPEC, {"guard": 1}, "guard: "),
        (SPEC, {"rigorous": 0}, "rigorous: "),
        (SPEC, {"queries": 0}, "queries: "),
        (SPEC, {"block": -1}, "block: "),
        (OracleSpec(labels.KnownRange(0, 1), n=5), {}, "metric: of score only the range is known, so there is no code"),
        (OracleSpec("mcc", n=5), {"method": "weighing"}, "method: mcc has one code of its own; use auto, got weighing"),
        (OracleSpec("r2", n=5), {"method": "dense"}, "method: r2 has one code of its own; use auto, got dense"),
        (OracleSpec(share, n=5), {"method": "primes"}, "has one code of its own; use auto, got primes"),
        (
            OracleSpec("mcc", n=5, scored=3),
            {},
            "scored: mcc is not a mean over rows, so unscored rows would not cancel",
        ),
        (OracleSpec("map_at_k", n=5, scored="unknown"), {}, "scored: map_at_k is not a mean over rows"),
        (OracleSpec(n=5, classes=4, clip=0.3), {}, "clip: 0.3 leaves no probabilities of 4 classes that add up to one"),
        (OracleSpec("mse", n=10**8 + 1), {}, "n: a design takes at most 100,000,000, got 100,000,001"),
        (OracleSpec("map_at_k", n=5, classes=10_001), {}, "classes: a design takes at most 10,000, got 10,001"),
    ],
)
def test_what_has_no_design_is_refused(spec, options, message):
    with pytest.raises(InputError, match=message):
        labels.design(spec, **options)


def test_losses_between_labels_that_noise_may_hide_are_refused_with_the_threshold():
    for options, rows in (({}, 20), ({"reduction": "sum"}, 1)):
        spec = replace(SPEC, noise=50.0, **options)
        reach = spec.loss().span / (2 * rows)
        with pytest.raises(InputError) as error:
            labels.design(spec)
        reason = (
            f"one label moves the answer by at most {2 * reach:.3g}, and an error of ±50 may hide it from the codes "
            f"here, which need one below {reach:.3g}"
        )
        assert str(error.value) == describe_missing_code(spec, reason)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_integer_codes_serve_random_noise_while_a_step_of_them_fits(kind):
    loss = SPEC.loss()
    times = 4.5 if kind == "gaussian" else 13.0
    edge = loss.span / (2 * 20) / times  # of the noise at which one step is left
    assert labels.design(replace(SPEC, noise=edge * (1 + 1e-5), noise_kind=kind)).method == "signs"
    plan = labels.design(replace(SPEC, noise=edge * 0.9, noise_kind=kind))
    assert plan.method != "signs"
    assert plan.spec.noise_kind == kind
    assert plan.inner.spec == plan.spec
    assert plan.certificate.why == f"{kind} noise has no bound"
    assert plan.count == labels.design(stochastic.bounded_equivalent(plan.spec)).count
    assert labels.design(replace(SPEC, noise=edge * 0.9, noise_kind=kind), queries=50).method == "signs"
    assert labels.design(replace(SPEC, noise=edge * 0.9, noise_kind=kind), queries=50).count == 50


@pytest.mark.parametrize("noise", [0.1, 0.01, 1e-3])
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_methods_are_what_they_are_called(noise, classes):
    spec = replace(SPEC, noise=noise / 20, classes=classes)
    plans = {method: labels.design(spec, method) for method in ("auto", "positional", "weighing", "dense")}
    for method, plan in plans.items():
        assert method == "auto" or plan.method == method
        levels = [level for part in plan.inner.digit_plans for block in part.code.shapes for level in block.levels]
        powers = all(
            level.low == len(level.weights) and level.weights == tuple(level.base**j for j in range(len(level.weights)))
            for level in levels
        )
        blocks = [block.count for part in plan.inner.digit_plans for block in part.code.shapes]
        if method in ("positional", "weighing"):
            assert powers
            assert len(plan.inner.digit_plans) == 1
        if method == "positional":
            assert set(blocks) == {1}
    assert plans["auto"].count == min(plan.count for plan in plans.values())
    used = {part.code.method for part in plans["auto"].inner.digit_plans}
    assert plans["auto"].method == next(name for name in ("dense", "weighing", "positional") if name in used)


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("rigorous", [False, True])
def test_options_reach_the_digit_plans(guard, rigorous):
    spec = replace(SPEC, noise=2e-3)
    plan = labels.design(spec, guard=guard, rigorous=rigorous)
    (part,) = plan.inner.digit_plans
    needed = 20 * spec.noise * (3 if guard else 2)
    assert part.unit >= needed
    y = np.arange(20) % 2
    loud = np.array([labels.LocalOracle(spec, y).exact(query) for query in plan.queries]) + spec.noise
    reading = plan.inner.read(loud)
    assert reading.proven.all()
    assert not guard or reading.certain.all()


def test_without_a_proof_floats_take_less_and_nothing_is_certified():
    spec = OracleSpec(n=300, submission="positive", float_dtype="float32")
    strict, loose = labels.design(spec), labels.design(spec, rigorous=False)
    assert loose.count <= strict.count
    assert strict.certificate.certified
    assert not loose.certificate.certified or loose.count == strict.count


@pytest.mark.parametrize("decimals", [None, 0, 1, 4])
@pytest.mark.parametrize(("kind", "variance"), [("bounded", 0.0), ("gaussian", 0.04), ("laplace", 0.08)])
def test_the_variance_of_an_answer_is_that_of_the_noise_and_of_a_uniform_last_decimal(kind, variance, decimals):
    spec = labels.OracleSpec(n=10, noise=0.2, noise_kind=kind, decimals=decimals)
    last_decimal = 0.0 if decimals is None else 10.0 ** (-2 * decimals) / 12
    assert spec.sigma == pytest.approx(math.sqrt(variance + last_decimal) if variance else 0.0)


@pytest.mark.parametrize(("options", "rows"), [({}, 50), ({"reduction": "sum"}, 1), ({"scored": 20}, 20)])
def test_where_no_code_is_known_it_is_said_how_little_one_label_moves_and_which_error_codes_need(options, rows):
    spec = labels.OracleSpec(metric="log_loss", n=50, clip=0.01, noise=100.0, **options)
    with pytest.raises(InputError) as error:
        labels.design(spec)
    told, moved = str(error.value), math.log(0.99 / 0.01) / rows
    if "scored" in options:  # whether a row counts is asked as well
        assert (
            "an error of ±100 may hide single rows of the split from the codes here, which need one below "
            f"{moved / 4:.3g}" in told
        )
        return
    assert f"one label moves the answer by at most {moved:.3g}, and an error of ±100 may hide it" in told
    assert f"from the codes here, which need one below {moved / 2:.3g}; several labels at once" in told
    assert "this is no all-clear" in told
