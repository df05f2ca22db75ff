"""Steps of designs: what is refused, which planner serves which oracle, and how the shortest plan is chosen."""

import importlib
import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from divulge import labels
from divulge.errors import InputError
from divulge.labels import codes, linear_plans, stochastic
from divulge.labels.oracles import OracleSpec
from divulge.labels.plans import STILL_LEAKS, describe_missing_code

designs = importlib.import_module("divulge.labels.design")
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


@pytest.mark.parametrize(("block", "bits"), [(None, 11), (0, 0), (3, 3), (13, 13), (14, 13), (40, 13)])
@pytest.mark.parametrize("scored", ["all", 9])
def test_blocks_have_up_to_13_address_bits_and_11_by_default(monkeypatch, block, bits, scored):
    asked = []
    monkeypatch.setattr(designs, "plan_linear", lambda spec, method, options: asked.append(options.max_bits))
    monkeypatch.setattr(designs.split, "plan_split", lambda spec, method, guard, max_bits: asked.append(max_bits))
    labels.design(replace(SPEC, scored=scored), block=block)
    assert asked == [bits]


@pytest.mark.parametrize(
    ("spec", "planner"),
    [
        (OracleSpec("r2", n=5), "count_plans.plan_r_squared"),
        (OracleSpec("map_at_k", n=5), "count_plans.plan_top_ranks"),
        (OracleSpec("mcc", n=5), "count_plans.plan_ratio"),
        (OracleSpec("balanced_accuracy", n=5), "count_plans.plan_ratio"),
        (OracleSpec("quadratic_weighted_kappa", n=5, classes=3), "count_plans.plan_ratio"),
        (OracleSpec(labels.Evaluated(share, depends_on="counts"), n=5), "count_plans.plan_ratio"),
        (OracleSpec(share, n=5), "search.plan_search"),
        (OracleSpec("accuracy", n=5), "count_plans.plan_counts"),
        (OracleSpec("accuracy", n=5, scored=3), "split.plan_split"),
        (replace(SPEC, scored="unknown"), "split.plan_split"),
        (SPEC, "plan_linear"),
        (replace(SPEC, noise_kind="gaussian"), "_plan_stochastic"),
        (replace(SPEC, class_weight=(1.0, 2.0)), "linear_plans.check_class_counts"),
    ],
)
def test_each_oracle_has_its_planner(monkeypatch, spec, planner):
    module, _, name = planner.rpartition(".")

    def planned(*_, **__):
        raise LookupError(planner)

    monkeypatch.setattr(getattr(designs, module) if module else designs, name, planned)
    with pytest.raises(LookupError, match=name):
        labels.design(spec)


@pytest.mark.parametrize("method", ["theorem3", "theorem14", "corollary2", "primes", "exhaustive"])
def test_codes_of_the_paper_are_planned_as_such(monkeypatch, method):
    monkeypatch.setattr(designs.paper_codes, "plan_paper_code", lambda spec, name: name)
    assert labels.design(SPEC, method) == method


def test_a_submission_must_fit_into_memory(monkeypatch):
    asked = []
    monkeypatch.setattr(designs, "check_memory", lambda size, name, text: asked.append((size, name, text)))
    for spec, columns in ((SPEC, 2), (replace(SPEC, classes=5), 5), (replace(SPEC, submission="positive"), 1)):
        designs._check_size(spec)
        assert asked.pop() == (8.0 * 20 * columns, "n", f"one submission has 20 rows of {columns} numbers; take fewer")


def test_losses_between_labels_that_noise_may_hide_are_refused_with_the_threshold():
    for options, rows in (({}, 20), ({"reduction": "sum"}, 1)):
        spec = replace(SPEC, noise=50.0, **options)
        reach = spec.loss().span / (2 * rows)
        with pytest.raises(InputError) as error:
            labels.design(spec)
        assert str(error.value) == (
            f"{describe_missing_code(spec)}: one label moves the answer by at most {2 * reach:.3g}, and an error of "
            f"±50 may hide it; it leaks once the error is below {reach:.3g}{STILL_LEAKS}"
        )


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


def test_digits_of_a_class_are_read_at_their_places():
    for split, classes in (((2, 2), 4), ((2, 3), 6), ((3, 2), 5)):
        spec = replace(SPEC, classes=classes)
        parts = designs._plan_digits(spec, spec.loss(), split, True, 2, designs._Options(False, True, 2))
        assert len(parts) == 2
        place = 1
        for radix, part in zip(split, parts, strict=True):
            assert part.digits.tolist() == [number // place % radix for number in range(classes)]
            place *= radix
        plan = linear_plans.LinearPlan(spec, tuple(parts), (1, split[0]))
        y = np.arange(20) % classes
        answers = np.array([labels.LocalOracle(spec, y).exact(plan.query(index)) for index in range(plan.count)])
        assert plan.read(answers).labels.tolist() == y.tolist()
    hopeless = replace(SPEC, classes=4, noise=9.0)
    assert designs._plan_digits(hopeless, hopeless.loss(), (2, 2), True, 2, designs._Options(False, True, 2)) is None


@pytest.mark.parametrize("split", [(4,), (2, 2), (2, 3)])
def test_queries_are_estimated_from_the_noise(split):
    spec = replace(SPEC, classes=4, decimals=4)
    loss, unit = spec.loss(), 2 * 20 * spec.tolerance + 20e-15
    expected, place = 0, 1
    for radix in split:
        digits = np.array([number // place % radix for number in range(4)])
        bound = int(loss.largest_gap(digits) / unit)
        expected += codes.count_queries(20, radix, bound, True, 2)
        place *= radix
    assert designs._estimate_queries(spec, loss, split, True, 2) == expected
    hidden = replace(spec, noise=loss.span)
    assert designs._estimate_queries(hidden, loss, split, True, 2) == math.inf


def test_the_shortest_plan_is_the_first_of_the_shortest():
    plans = [SimpleNamespace(count=count) for count in (5, 3, 3)]
    assert designs._shortest([None, *plans]) is plans[1]
    assert designs._shortest([None, None]) is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"noise": 0.0}, True), ({}, False), ({"noise": 0.0, "decimals": 5}, False),
        ({"noise": 0.0, "class_weight": (1.0, 2.0)}, False), ({"noise": 0.0, "submission": "positive"}, False),
        ({"noise": 0.0, "float_dtype": "float32"}, False), ({"noise": 0.0, "metric": "mae"}, False),
        ({"noise": 0.0, "n": 20_000}, True), ({"noise": 0.0, "n": 20_001}, False),
        ({"noise_kind": "gaussian"}, False), ({"noise": 0.0, "classes": 3}, True),
    ],
)  # fmt: skip
def test_a_grid_serves_probability_rows_without_any_noise(options, expected):
    assert designs._is_noiseless(replace(SPEC, **options)) is expected


def routed(monkeypatch, spec, *, dense=True, max_bits=7):
    """The planners that are asked for one digit, and what of."""
    asked = []

    def plan(name, count):
        def planned(*arguments, **options):
            asked.append((name, options.get("max_bits", options.get("sizes"))))
            return SimpleNamespace(count=count)

        return planned

    monkeypatch.setattr(linear_plans, "plan_on_logits", plan("logits", 1))
    monkeypatch.setattr(linear_plans, "plan_squares", plan("squares", 3))
    monkeypatch.setattr(linear_plans, "plan_on_grid", plan("grid", 4))
    monkeypatch.setattr(designs, "_plan_unbounded", plan("unbounded", 2))
    monkeypatch.setattr(designs, "_plan_single_column", plan("column", 5))
    monkeypatch.setattr(
        designs, "_shortest_over", lambda s, loss, d, code_types, options: asked.append(("codes", tuple(code_types)))
    )
    found = designs._plan_digit(
        spec, spec.loss(), np.arange(2), dense, max_bits, designs._Options(False, True, max_bits)
    )
    return asked, found and found.count


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"metric": "softmax_cross_entropy"}, [("logits", None)]),
        ({"metric": "sigmoid_cross_entropy"}, [("logits", None)]),
        ({"metric": "mse"}, [("squares", [0, 2, 7]), ("unbounded", None)]),
        ({"metric": "mse", "float_dtype": "float32"}, [("unbounded", None)]),
        ({"metric": "mse", "n": 20_000}, [("squares", [0, 2, 7]), ("unbounded", None)]),
        ({"metric": "mse", "n": 20_001}, [("unbounded", None)]),
        ({"metric": "rmse"}, [("unbounded", None)]),
        ({"metric": "itakura_saito"}, [("unbounded", None)]),
        ({"noise": 0.0}, [("grid", 0), ("grid", 2), ("grid", 7)]),
        ({"submission": "positive"}, [("column", None)]),
        ({"submission": "positive", "metric": "squared_euclidean"}, [("codes", ((True, 7),))]),
        ({}, [("codes", ((True, 7),))]),
        ({"decimals": 5, "noise": 0.0}, [("codes", ((True, 7),))]),
        ({"metric": "mae", "noise": 0.0}, [("codes", ((True, 7), (False, 7), (False, 0)))]),
    ],
)
def test_each_loss_has_its_codes(monkeypatch, options, expected):
    assert routed(monkeypatch, replace(SPEC, **options))[0] == expected


def test_the_shorter_of_squares_and_an_unbounded_loss_is_taken_and_small_blocks_are_tried(monkeypatch):
    assert routed(monkeypatch, replace(SPEC, metric="mse"))[1] == 2
    assert routed(monkeypatch, replace(SPEC, noise=0.0), max_bits=1)[0] == [("grid", 0), ("grid", 1)]
    assert routed(monkeypatch, replace(SPEC, noise=0.0), max_bits=0)[0] == [("grid", 0)]


def test_spans_of_one_column_are_tried_on_small_blocks_and_the_two_best_on_large_ones(monkeypatch):
    spec = replace(SPEC, submission="positive", clip=None)
    loss = spec.loss()
    assert loss.span > loss.two_sided
    tried = []

    def shortest(s, of, digits, code_types, options, spans):
        tried.append((code_types, [span / loss.two_sided for span in spans]))
        share = spans[0] / loss.two_sided
        counts = {0.7: 3, 0.9: 4}
        return None if round(share, 3) == 0.95 else SimpleNamespace(count=counts.get(round(share, 3), 9), share=share)

    monkeypatch.setattr(designs, "_shortest_over", shortest)
    best = designs._plan_single_column(spec, loss, np.arange(2), True, 7, designs._Options(False, True, 7))
    shares = [1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5]
    for (code_types, spans), share in zip(tried[:8], shares, strict=True):
        assert code_types == [(True, 5)]
        assert spans == pytest.approx([share])
    code_types, spans = tried[8]
    assert code_types == [(True, 7)]
    assert spans == pytest.approx([0.7, 0.9])
    code_types, spans = tried[9]
    assert code_types == [(True, 0), (False, 0)]
    wide = loss.span / loss.two_sided
    assert spans == pytest.approx([part * wide for part in (1.0, 0.9, 0.8, 0.6, 0.4, 0.2)])
    assert best.count == 3
    tried.clear()
    even = replace(loss, reverse_span=None)
    designs._plan_single_column(spec, even, np.arange(2), True, 3, designs._Options(False, True, 3))
    assert len(tried) == 9
    assert tried[0][0] == [(True, 3)]


def test_all_code_types_are_tried_with_all_spans(monkeypatch):
    asked = []

    def plan(spec, loss, digits, *, guard, rigorous, dense, max_bits, span):
        asked.append((guard, rigorous, dense, max_bits, span))
        return None if dense else SimpleNamespace(count=max_bits + span)

    monkeypatch.setattr(linear_plans, "plan_digit", plan)
    found = designs._shortest_over(
        SPEC, SPEC.loss(), np.arange(2), [(True, 2), (False, 2), (False, 0), (False, 2)],
        designs._Options(True, False, 2), (1.0, 2.0),
    )  # fmt: skip
    assert asked == [
        (True, False, dense, bits, span)
        for (dense, bits), span in itertools.product([(True, 2), (False, 2), (False, 0)], (1.0, 2.0))
    ]
    assert found.count == 1.0


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
