"""Steps of plans for sums over rows, each against its definition: errors of sums, readings at their limits, units."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from divulge import labels
from divulge.errors import InputError
from divulge.labels import codes, linear_plans, metrics
from divulge.labels.linear_plans import DigitPlan, RowSums
from divulge.labels.oracles import noise_bound
from divulge.labels.plans import Certificate

ULP = float(np.spacing(0.5))


@pytest.mark.parametrize("kind", ["bounded", "gaussian", "laplace"])
@pytest.mark.parametrize(
    ("options", "scale"),
    [({}, 8), ({"reduction": "sum"}, 1), ({"scored": 5}, 5), ({"decimals": 2}, 8), ({"decimals": 2, "noise": 0.1}, 8)],
)
def test_answers_become_sums_with_the_errors_of_as_many_rows(options, scale, kind):
    spec = labels.OracleSpec(**{"n": 8, "noise": 0.25, "noise_kind": kind} | options)
    answers = np.array([0.5, math.nan, -0.5, 2.0**60])
    sums = linear_plans.answers_to_sums(spec, answers)
    expected = [0.5 * scale, math.nan, -0.5 * scale, scale * 2.0**60]
    np.testing.assert_array_equal(sums.sums.astype(float), expected)
    rounding = 0.005 if spec.decimals else 0.0
    # Floats as large as 2^60 show no decimals that could be lost.
    np.testing.assert_allclose(sums.fixed, [scale * rounding] * 3 + [0.0])
    slack = scale * np.array([ULP, np.spacing(0.0), ULP, 0.0]) if spec.decimals else np.zeros(4)
    np.testing.assert_allclose(sums.slack, slack, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(sums.noise, scale * noise_bound(spec, 4))
    if kind == "bounded":
        assert sums.sigma is None
    else:
        np.testing.assert_allclose(sums.sigma, scale * spec.sigma)
    assert sums.noise_kind == kind
    part = sums[1:3]
    assert (len(part.sums), len(part.fixed), len(part.noise), len(part.slack)) == (2, 2, 2, 2)
    assert part.noise_kind == kind
    assert part.sigma is None or len(part.sigma) == 2


@pytest.mark.parametrize(
    ("decimals", "answer", "rounding"),
    [(0, 2.0**52, 0.5), (0, 2.0**53, 0.0), (1, 2.0**48, 0.05), (1, 2.0**49, 0.0), (2, 2.0**45, 0.005)],
)
def test_large_answers_have_no_decimals_to_lose(decimals, answer, rounding):
    sums = linear_plans.answers_to_sums(labels.OracleSpec("mse", n=8, decimals=decimals), np.array([answer]))
    assert sums.fixed.tolist() == [8 * rounding]
    assert sums.slack.tolist() == [8 * float(np.spacing(answer)) if rounding else 0.0]


@pytest.mark.parametrize("kind", ["bounded", "gaussian"])
def test_the_square_of_a_root_is_off_by_twice_the_root_and_the_square_of_the_error(kind):
    spec = labels.OracleSpec("rmse", n=8, noise=0.25, noise_kind=kind, decimals=1)
    answers = np.array([0.5, math.nan, 2.0])
    sums = linear_plans.answers_to_sums(spec, answers)
    np.testing.assert_array_equal(sums.sums.astype(float), [2.0, math.nan, 32.0])
    size, place = np.array([0.5, 0.0, 2.0]), np.spacing([0.5, 0.0, 2.0])
    np.testing.assert_allclose(sums.fixed, 8 * (2 * size * (0.05 + 2 * place) + 2 * 0.05**2), rtol=1e-15)
    np.testing.assert_allclose(sums.slack, 16 * size * place, rtol=1e-12)
    bound = noise_bound(spec, 3)
    np.testing.assert_allclose(sums.noise, 8 * (2 * 2.0 * bound + 2 * bound**2))
    if kind == "gaussian":
        np.testing.assert_allclose(sums.sigma, 8 * (2 * size * spec.sigma + spec.sigma**2))


def single(error=0.0, n=1, digits=(0, 1), base=0.0, bound=1, unit=1.0, max_bits=0):
    """A digit plan for losses of exactly a unit a step."""
    code = codes.build_code(n, max(digits) + 1, bound, dense=False, max_bits=max_bits)
    weights, zeros = code.alphabet(), np.zeros(len(code.alphabet()))
    alphabet = codes.Alphabet(weights, weights * 1.0, zeros, zeros, zeros, zeros)
    start = np.full(code.count, base, dtype=np.longdouble)
    return DigitPlan(np.array(digits), code, alphabet, unit, start, np.full(code.count, error))


def row_sums(values, fixed=0.0, noise=0.0, sigma=None, slack=0.0, kind="bounded"):
    count = len(values)
    return RowSums(
        np.array(values, dtype=np.longdouble), np.full(count, fixed), np.full(count, noise),
        None if sigma is None else np.full(count, sigma), np.full(count, slack), kind,
    )  # fmt: skip


def told(plan, sums):
    reading = plan.read(sums)
    return [bool(part.all()) for part in (reading.proven, reading.certain, reading.refuted)]


@pytest.mark.parametrize("unit", [1.0, 0.125])
@pytest.mark.parametrize(
    ("off", "noise", "expected"),  # of a unit, with 1/16 of it fixed: proven, certain, refuted
    [
        (0.0, 0.25, [True, True, False]),
        (0.0625, 0.0, [True, True, False]),
        (0.0625 + 1e-9, 0.0, [False, False, True]),
        (0.3125, 0.25, [True, True, False]),
        (0.3125 + 1e-9, 0.25, [False, True, True]),
        (0.4375, 0.25, [False, False, True]),
        (0.4375 - 1e-9, 0.25, [False, True, True]),
        (0.375, 0.34375, [True, False, False]),
        (0.0, 0.46875, [True, False, False]),
        (0.0, 0.46875 - 1e-9, [True, True, False]),
        (0.0, 0.9375, [False, False, False]),
        (0.0, 0.9375 - 1e-9, [True, False, False]),
    ],
)
def test_a_label_is_proven_within_the_noise_and_certain_within_twice_of_it(unit, off, noise, expected):
    # 1/16 of a unit in all: one half of it rounding, the other float error.
    plan = single(error=unit / 32, unit=unit, base=3.0)
    for sign, label in ((1, 0), (-1, 1)):
        sums = row_sums([3.0 + unit * (label + sign * off)], fixed=unit / 32, noise=unit * noise)
        assert told(plan, sums) == expected
        assert plan.read(sums).labels.tolist() == [label]
        np.testing.assert_allclose(plan.read(sums).residual, [unit * off], atol=1e-12)


def test_careless_rounding_may_take_a_little_more_before_answers_are_refuted():
    plan = single(error=0.0625)
    assert told(plan, row_sums([0.25], noise=0.125))[2]
    assert not told(plan, row_sums([0.25], noise=0.125, slack=0.0625))[2]
    assert told(plan, row_sums([0.25 + 1e-9], noise=0.125, slack=0.0625))[2]
    assert told(plan, row_sums([math.nan])) == [False, False, False]


@pytest.mark.parametrize(
    ("total", "refuted"), [(2.25, False), (2.25 + 1e-9, True), (-0.25, False), (-0.25 - 1e-9, True), (1.0, False)]
)
def test_a_sum_beyond_what_digits_can_make_is_refuted(total, refuted):
    plan = single(digits=(0, 1, 2), bound=1)
    assert told(plan, row_sums([total], noise=0.25))[2] is refuted


def test_mirrored_sums_have_their_range_below():
    plan = single(digits=(0, 1, 2), bound=1)
    code = codes.mirrored(plan.code)
    weights = code.alphabet()
    zeros = np.zeros(len(weights))
    plan = replace(plan, code=code, alphabet=codes.Alphabet(weights, zeros, zeros, zeros, zeros, zeros))
    assert [told(plan, row_sums([total]))[2] for total in (-3.0, -2.0, -1.0, 0.0, 1.0)] == [
        True,
        False,
        False,
        False,
        True,
    ]


def test_settled_sums_that_together_are_none_of_any_labels_are_refuted_and_unsettled_ones_are_not():
    plan = single(n=3, bound=1, max_bits=1)
    assert plan.count == 2
    weights = np.array([np.r_[[0] * plan.code.weights(q)[0], plan.code.weights(q)[1]] for q in range(2)])
    possible = {tuple(weights @ y) for y in itertools.product((0, 1), repeat=3)}
    ranges = [(int(row.clip(max=0).sum()), int(row.clip(min=0).sum())) for row in weights]
    for sums in itertools.product(*(range(low, high + 1) for low, high in ranges)):
        expected = sums not in possible
        reading = plan.read(row_sums([float(s) for s in sums]))
        assert reading.refuted.tolist() == [expected] * 2
        assert reading.proven.any() == reading.certain.any() == (not expected)
        # With noise of a step or more either sum may be another one.
        assert not plan.read(row_sums([float(s) for s in sums], noise=1.0)).refuted.any()
        assert plan.read(row_sums([float(s) for s in sums], noise=1.0 - 1e-9)).refuted.any() == expected


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_under_random_noise_labels_are_told_by_the_odds_of_the_next_labelling(kind, count):
    """One in a million for each query; certain if they are so at twice the deviation."""
    plan = single(n=count, bound=1, error=0.03125)
    assert plan.count == count
    law = stats.norm if kind == "gaussian" else stats.laplace
    scale = 1.0 if kind == "gaussian" else 1 / math.sqrt(2)
    for off in (0.0, 0.125, -0.25):
        away, other = abs(off) + 0.0625, 1 - abs(off) - 0.0625
        for place, times in ((0, 1), (1, 2)):

            def log_odds(sigma, times=times, away=away, other=other):
                spread = times * sigma * scale
                return law.logpdf(away, scale=spread) - law.logpdf(other, scale=spread)

            low, high = 1e-3, 10.0
            for _ in range(80):
                middle = (low + high) / 2
                low, high = (middle, high) if log_odds(middle) > math.log(1e6 * count) else (low, middle)
            values = [0.0] * (count - 1) + [off]
            for sigma, expected in ((low * (1 - 1e-6), True), (high * (1 + 1e-6), False)):
                sums = row_sums(values, fixed=0.03125, noise=0.5, sigma=sigma, kind=kind)
                assert (plan.read(sums).proven if place == 0 else plan.read(sums).certain)[-1] == expected


def test_what_is_nearer_to_the_next_labelling_is_never_told():
    for kind in ("gaussian", "laplace"):
        plan = single(error=0.6)
        reading = plan.read(row_sums([0.0], sigma=1e-9, kind=kind, noise=9.0))
        assert not reading.proven.any()
        assert not reading.certain.any()


def spec_of(**options):
    return labels.OracleSpec(**{"n": 12, "clip": 1e-3, "noise": 1e-3} | options)


@pytest.mark.parametrize(
    ("unit", "error", "noise", "certified"),
    [(2.0, 0.5, 0.5, False), (2.0 + 1e-6, 0.5, 0.5, True), (2.0, 0.25, 0.5, True), (2.0, 0.75, 0.5, False)],
)
def test_a_plan_is_certified_if_a_step_is_more_than_twice_its_errors(unit, error, noise, certified):
    spec = spec_of(n=10, noise=noise / 10)
    proof = linear_plans.certify_digit_plans(spec, (single(error=error, unit=unit, n=10),))
    assert proof.certified is certified
    assert proof.separation == pytest.approx((unit - 2 * error) / 10)
    assert proof.needed == pytest.approx(2 * noise / 10)
    if not certified:
        assert proof.why == f"one step is {unit / 10:.3g}, errors may reach ±{(error + noise) / 10:.3g}"
    random = linear_plans.certify_digit_plans(
        spec_of(n=10, noise=noise / 10, noise_kind="laplace"), (single(error=error, unit=unit, n=10),)
    )
    assert not random.certified
    assert random.why == "laplace noise has no bound"
    assert random.separation == pytest.approx((unit - 2 * error) / 10)
    assert random.needed == 0


def test_the_certificate_is_that_of_the_digit_with_the_least_to_spare():
    spec = spec_of(n=10, noise=0.01)
    wide, narrow = single(unit=2.0, n=10), single(unit=1.0, n=10)
    for plans in ((wide, narrow), (narrow, wide)):
        proof = linear_plans.certify_digit_plans(spec, plans)
        assert proof.certified
        assert proof.separation == pytest.approx(0.1)
    hopeless = single(unit=0.1, error=0.2, n=10)
    proof = linear_plans.certify_digit_plans(spec, (wide, hopeless))
    assert not proof.certified
    assert proof.separation == 0.0
    assert isinstance(proof, Certificate)


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"decimals": 3}, {"noise": 0.0}, {"noise_kind": "gaussian"}, {"reduction": "sum"},
                {"metric": "rmse"}, {"metric": "rmse", "decimals": 3}],
)  # fmt: skip
def test_the_noise_of_a_sum_is_that_of_its_rows_or_grows_with_its_root(options, guard):
    spec = spec_of(**options)
    plan = linear_plans.assemble_digit_plan(spec, spec.loss(), np.arange(2), 2, 4, 0.01)
    tolerance = spec.rounding + (spec.noise if spec.noise_kind == "bounded" else 0) * (1.5 if guard else 1)
    found = linear_plans.sum_noise_bound(spec, plan, guard)
    if spec.name != "rmse":
        assert found == pytest.approx(tolerance * (1 if spec.reduction == "sum" else 12))
        return
    tables = [plan.alphabet.high[plan.alphabet.index(weights_of(plan.code, q))].sum() for q in range(plan.count)]
    roots = np.sqrt(np.array(tables) / 12)
    np.testing.assert_allclose(found, 12 * ((roots + tolerance) ** 2 - roots**2), rtol=1e-9)


def weights_of(code, query):
    weights = np.zeros(code.n, dtype=np.int64)
    start, part = code.weights(query)
    weights[start : start + len(part)] = part
    return weights


def test_a_typical_error_is_eight_roundings_of_the_total():
    for dtype, unit in (("float64", 2.0**-53), ("float32", 2.0**-24)):
        spec = spec_of(float_dtype=dtype)
        plan = linear_plans.assemble_digit_plan(spec, spec.loss(), np.arange(2), 2, 4, 0.01)
        totals = [plan.alphabet.size[plan.alphabet.index(weights_of(plan.code, q))].sum() for q in range(plan.count)]
        np.testing.assert_allclose(linear_plans.typical_float_error(spec, plan), 8 * unit * np.array(totals))


@pytest.mark.parametrize("order", ["pairwise", "sequential"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_float_errors_of_sums_are_those_of_their_additions(order, dtype):
    unit = 2.0 ** (-53 if dtype == "float64" else -24)
    assert metrics.unit_roundoff(dtype) == unit
    for n, pairwise in ((1, 1), (7, 7), (8, 25), (120, 25), (121, 26), (240, 26), (241, 27), (481, 28)):
        depth = n if order == "sequential" else pairwise
        assert metrics.depth(n, order) == depth
        error = 5.0 * (depth + 2) * unit / (1 - (depth + 2) * unit)
        assert metrics.summation_error(n, 5.0, order, dtype) == pytest.approx(error, rel=1e-12)
        spec = labels.OracleSpec(n=n, float_dtype=dtype, summation=order)
        assert linear_plans.float_error_bound(spec, 5.0) == pytest.approx(error + 20 * unit, rel=1e-12)
        mean = np.array([5.0, 3.0]) / n
        np.testing.assert_allclose(
            metrics.mean_rounding(n, np.array([5.0, 3.0]), dtype), n * np.spacing(mean.astype(dtype)).astype(float) / 2
        )


def additions(start, stop, order):
    """Count by doing what NumPy does: eight lanes, joined in pairs, then the rest; halves above 128."""
    size = stop - start
    if size > 128 and order == "pairwise":
        middle = start + size // 16 * 8
        counts = additions(start, middle, order) | additions(middle, stop, order)
        return {each: count + 1 for each, count in counts.items()}
    n_lanes = 8 if size >= 8 and order == "pairwise" else 1
    whole = start + size // n_lanes * n_lanes
    lanes: list[set[int]] = [set() for _ in range(n_lanes)]
    counts = dict.fromkeys(range(start, stop), 0)

    def add(total, place):
        if total:
            for each in {*total, place}:
                counts[each] += 1
        total.add(place)

    for place in range(start, whole):
        add(lanes[(place - start) % n_lanes], place)
    total = set().union(*lanes)
    for each in total:
        counts[each] += 3 if n_lanes > 1 else 0
    for place in range(whole, stop):
        add(total, place)
    return counts


@pytest.mark.parametrize("n", [1, 7, 8, 9, 15, 16, 17, 40, 127, 128, 129, 130, 136, 137, 300])
@pytest.mark.parametrize("order", ["pairwise", "sequential"])
def test_each_element_passes_through_as_many_additions_as_its_place_in_the_sum_says(n, order):
    exact = additions(0, n, order)
    found = metrics.depths(n, order)
    assert len(found) == n
    assert all(exact[place] <= bound <= exact[place] + 1 for place, bound in enumerate(found))
    assert found.max() <= metrics.depth(n, order)


WEIGHTED = {"class_weight": (1.0, 3.0), "n": 12, "clip": 1e-3, "noise": 1e-4}


def test_class_weights_are_counted_by_one_confident_prediction():
    spec = labels.OracleSpec(**WEIGHTED)
    query = linear_plans.class_count_query(spec)
    assert query.shape == (12, 2)
    assert (query == query[0]).all()
    totals, answers = linear_plans.class_count_answers(spec)
    for ones in range(13):
        y = (np.arange(12) < ones).astype(int)
        exact = labels.LocalOracle(spec, y).exact(query)
        assert answers[ones] == pytest.approx(exact, rel=1e-12)
        assert totals[ones] == 12 - ones + 3 * ones
        assert linear_plans.total_class_weight(spec, exact + 9e-5) == totals[ones]
        assert linear_plans._is_class_count(spec, exact + 1e-4)
        assert linear_plans._is_class_count(spec, exact - 1e-4)
        assert not linear_plans._is_class_count(spec, exact + 1.01e-4)
        assert not linear_plans._is_class_count(spec, exact - 1.01e-4)
    assert linear_plans._is_class_count(spec, math.nan)
    assert math.isnan(linear_plans.total_class_weight(spec, math.nan))
    assert math.isnan(linear_plans.total_class_weight(spec_of(), 0.5))
    # The row of the prediction lies half the span from even odds.
    row = spec.loss().table(query[:1])[0]
    assert row[1] - row[0] == pytest.approx(spec.loss().span / 2)


def test_class_counts_that_noise_may_confuse_are_refused():
    spec = labels.OracleSpec(**WEIGHTED)
    closest = np.abs(np.diff(linear_plans.class_count_answers(spec)[1])).min()
    linear_plans.check_class_counts(replace(spec, noise=closest / 2 * (1 - 1e-6)))
    with pytest.raises(InputError, match=rf"class_weight: .* lie {closest:.3g} apart; errors reach ±{closest / 2:.3g}"):
        linear_plans.check_class_counts(replace(spec, noise=closest / 2))
    random = replace(spec, noise=closest / 9, noise_kind="gaussian", decimals=9)
    assert linear_plans._answer_error(random) == pytest.approx(5e-10 - closest / 9 * stats.norm.ppf(5e-7))
    with pytest.raises(InputError, match="class_weight"):
        linear_plans.check_class_counts(random)


def test_distances_of_sums_are_told_in_the_unit_of_answers():
    answers = np.array([0.5, 2.0])
    distance = np.array([0.6, 1.2])
    np.testing.assert_allclose(linear_plans._distance_of_answers(spec_of(), answers, distance), [0.05, 0.1])
    np.testing.assert_allclose(linear_plans._distance_of_answers(spec_of(reduction="sum"), answers, distance), distance)
    root = linear_plans._distance_of_answers(spec_of(metric="rmse"), answers, distance)
    np.testing.assert_allclose(root, answers - np.sqrt(answers**2 - distance / 12))
    assert linear_plans._distance_of_answers(spec_of(metric="rmse"), np.array([0.1]), np.array([12.0])) == 0.1
    weighted = labels.OracleSpec(**WEIGHTED)
    first = linear_plans.class_count_answers(weighted)[1][4]
    found = linear_plans._distance_of_answers(weighted, np.array([first, 1.0]), distance)
    np.testing.assert_allclose(found, distance / 20)


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("noise", [0.3, 0.05, 1e-3])
def test_a_digit_plan_has_the_widest_step_of_those_with_the_fewest_queries(noise, dense, guard):
    spec = spec_of(n=30, noise=noise / 30)
    loss, digits = spec.loss(), np.arange(2)
    plan = linear_plans.plan_digit(spec, loss, digits, dense=dense, max_bits=2, guard=guard)
    assert plan is not None
    needed = (3 if guard else 2) * noise
    counts = [codes.count_queries(30, 2, bound, dense, 2) for bound in range(1, int(loss.span / needed) + 1)]
    assert plan.count == counts[-1]
    bound = 1 + counts.index(counts[-1])
    assert plan.code.bound == bound
    assert plan.unit == pytest.approx(loss.span / bound, rel=1e-9)
    assert plan.unit >= needed + 2 * plan.error.max()
    hopeless = spec_of(n=30, noise=loss.span / 30 / (1.999 if not guard else 2.999))
    assert linear_plans.plan_digit(hopeless, loss, digits, dense=dense, max_bits=2, guard=guard) is None
    single_step = spec_of(n=30, noise=loss.span / 30 / (2.001 if not guard else 3.001))
    one = linear_plans.plan_digit(single_step, loss, digits, dense=dense, max_bits=2, guard=guard)
    assert one.code.bound == 1


def test_a_digit_plan_of_a_narrower_span_has_narrower_steps():
    spec = spec_of(n=30)
    digits = np.array([0, 1, 2])
    three = replace(spec, classes=3)
    plan = linear_plans.plan_digit(three, three.loss(), digits, dense=False, max_bits=0, span=1.0)
    assert plan.unit * plan.code.bound == pytest.approx(0.5, rel=1e-9)
    full = linear_plans.plan_digit(three, three.loss(), digits, dense=False, max_bits=0)
    assert full.unit * full.code.bound == pytest.approx(three.loss().largest_gap(digits), rel=1e-9)


@pytest.mark.parametrize(("dtype", "mantissa"), [("float64", 52), ("float32", 23)])
@pytest.mark.parametrize("classes", [2, 3, 4, 5])
def test_logits_use_the_whole_mantissa_in_powers_of_the_number_of_classes(dtype, mantissa, classes):
    spec = labels.OracleSpec("softmax_cross_entropy", n=20, classes=classes, float_dtype=dtype)
    plan = linear_plans.plan_on_logits(spec, spec.loss(), np.arange(classes))
    size = next(size for size in itertools.count() if classes ** (size + 1) > 2**mantissa)
    assert plan.code.bound == classes ** (size - 1)
    assert plan.count == math.ceil(20 / size)
    smallest = 16 * 20 * math.log(classes) * 2.0**mantissa
    assert smallest <= plan.unit < 2 * smallest
    assert math.log2(plan.unit) % 1 == 0
    noisy = replace(spec, noise=1e9)
    plan = linear_plans.plan_on_logits(noisy, noisy.loss(), np.arange(classes))
    smallest = max(smallest, 1e6 * 20 * 1e9)
    assert smallest <= plan.unit < 2 * smallest


def test_float16_has_no_room_for_logits_that_outweigh_the_idle_ones():
    spec = labels.OracleSpec("softmax_cross_entropy", n=20, float_dtype="float16")
    assert linear_plans.plan_on_logits(spec, spec.loss(), np.arange(2)) is None


def test_a_plan_on_a_grid_adds_up_without_error():
    for n, classes in ((30, 2), (50, 3), (9, 2)):
        spec = labels.OracleSpec(n=n, classes=classes)
        digits = np.arange(classes)
        plan = linear_plans.plan_on_grid(spec, spec.loss(), digits, dense=False, max_bits=2)
        grid = float(np.spacing(n * math.log(classes)))
        grids = [grid * 2**k for k in range(8)]
        largest = plan.code.totals(plan.alphabet.weights, plan.alphabet.high).max()
        assert np.spacing(float(largest)) in grids
        used = next(g for g in grids if g >= np.spacing(float(largest)))
        assert plan.unit == np.round(plan.unit / used) * used
        assert plan.unit > 2 * plan.error.max()
        gap = spec.loss().largest_gap(digits)
        assert gap - used < plan.unit * plan.code.bound <= gap or plan.unit == used * math.floor(
            gap / plan.code.bound / used
        )
        assert linear_plans.certify_digit_plans(spec, (plan,)).certified


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-3, 0.2])
@pytest.mark.parametrize("guard", [False, True])
def test_squares_step_by_a_power_of_two_or_three_times_one_that_outweighs_the_noise(noise, guard):
    spec = labels.OracleSpec("mse", n=20, noise=noise)
    plan = linear_plans.plan_squares(spec, spec.loss(), np.arange(2), sizes=[0, 2], guard=guard)
    needed = 20 * noise * (1.5 if guard else 1.0)
    mantissa, _ = math.frexp(plan.unit)
    assert mantissa in (0.5, 0.75)
    assert plan.unit > 2 * (needed + plan.error.max())
    smallest = 2 * max(needed, 20 * 2.0**-55)
    assert smallest <= plan.unit <= 8 * smallest
    bits = math.log2(plan.code.bound)
    assert bits % 1 == 0
    # No code of half the noise is longer, none of twice the noise shorter.
    for factor in (0.5, 2.0):
        other = replace(spec, noise=noise * factor)
        rival = linear_plans.plan_squares(other, other.loss(), np.arange(2), sizes=[0, 2], guard=guard)
        assert (rival.count - plan.count) * (factor - 1) >= 0


def test_the_largest_spacing_is_that_of_the_largest_sum_of_squares():
    code = codes.build_code(7, 2, 4, dense=False, max_bits=1)
    for unit in (0.5, 3.0, 2.0**20):
        sums = [((1 + np.abs(weights_of(code, q)) * unit) ** 2 / 4).sum() for q in range(code.count)]
        assert linear_plans._largest_spacing(code, unit) == np.spacing(max(sums))


def test_the_positions_of_weights_come_in_chunks(monkeypatch):
    monkeypatch.setattr(linear_plans, "_CHUNK_SIZE", 25)
    spec = spec_of(n=10)
    plan = linear_plans.assemble_digit_plan(spec, spec.loss(), np.arange(2), 2, 1, 0.01)
    expected = [plan.alphabet.index(weights_of(plan.code, q)).tolist() for q in range(plan.count)]
    chunks = list(linear_plans._weight_indices(spec, plan.code, plan.alphabet))
    assert [len(chunk) for chunk in chunks] == [2] * 5
    assert np.concatenate(chunks).tolist() == expected
    few = list(linear_plans._weight_indices(spec, plan.code, plan.alphabet, max_queries=3))
    assert np.concatenate(few).tolist() == expected[:3]
    many = list(linear_plans._weight_indices(spec, plan.code, plan.alphabet, max_queries=99))
    assert np.concatenate(many).tolist() == expected


def test_a_sum_is_bounded_row_by_row_unless_that_cannot_matter(monkeypatch):
    spec = spec_of(n=10, noise=0.0)
    plan = linear_plans.assemble_digit_plan(spec, spec.loss(), np.arange(2), 2, 1, 0.01)
    high = plan.code.totals(plan.alphabet.weights, plan.alphabet.size)
    worst = metrics.summation_error(10, high, "pairwise", "float64")
    depths, unit = metrics.depths(10, "pairwise"), 2.0**-53
    exact = [plan.alphabet.size[plan.alphabet.index(weights_of(plan.code, q))] @ depths for q in range(plan.count)]
    exact = np.array(exact) * unit / (1 - depths.max() * unit)
    arguments = (plan.code, plan.alphabet, high)
    np.testing.assert_allclose(linear_plans._summation_errors(spec, *arguments), exact)
    edge = float(worst.max()) / 1e-3 / 10
    np.testing.assert_array_equal(linear_plans._summation_errors(replace(spec, noise=edge * 1.001), *arguments), worst)
    np.testing.assert_allclose(linear_plans._summation_errors(replace(spec, noise=edge * 0.999), *arguments), exact)
    monkeypatch.setattr(linear_plans, "_MAX_TREE_ROWS", 10)
    np.testing.assert_allclose(linear_plans._summation_errors(spec, *arguments), exact)
    monkeypatch.setattr(linear_plans, "_MAX_TREE_ROWS", 9)
    np.testing.assert_array_equal(linear_plans._summation_errors(spec, *arguments), worst)


@pytest.mark.parametrize(
    "options", [{"noise": 0.0}, {"noise": 1e-3}, {"decimals": 2, "noise": 0.0}, {"decimals": 17, "noise": 1e-18}]
)
def test_the_error_of_a_sum_is_that_of_its_rows_its_additions_its_mean_and_the_base(options):
    spec = spec_of(n=10, **options)
    plan = linear_plans.assemble_digit_plan(spec, spec.loss(), np.arange(2), 2, 4, 0.01)
    rows = [plan.alphabet.index(weights_of(plan.code, q)) for q in range(plan.count)]
    high = np.array([plan.alphabet.size[row].sum() for row in rows])
    deviation = np.array([plan.alphabet.deviation[row].sum() for row in rows])
    half = 5 * np.spacing((high + 10 * spec.tolerance) / 10)
    mean = half + np.minimum(half, 10 * spec.noise) + np.minimum(half, 10 * spec.rounding)
    additions = linear_plans._summation_errors(spec, plan.code, plan.alphabet, high)
    expected = mean + deviation + additions + 8 * float(np.finfo(np.longdouble).eps) * high
    np.testing.assert_allclose(plan.error, expected, rtol=1e-11)
    np.testing.assert_allclose(plan.base.astype(float), [plan.alphabet.base[row].sum() for row in rows], rtol=1e-12)


@pytest.mark.parametrize("metric", ["softmax_cross_entropy", "log_loss", "mse"])
def test_on_a_grid_the_additions_of_a_sum_add_only_what_rows_are_off_it(metric):
    spec = labels.OracleSpec(metric, n=10)
    unit, grid = (2.0**60, 2.0**60) if metric == "softmax_cross_entropy" else (2.0**-38, 2.0**-48)
    plan = linear_plans.assemble_digit_plan(spec, spec.loss(), np.arange(2), 2, 4, unit, grid=grid)
    rows = [plan.alphabet.index(weights_of(plan.code, q)) for q in range(plan.count)]
    high = np.array([plan.alphabet.size[row].sum() for row in rows])
    deviation = np.array([plan.alphabet.deviation[row].sum() for row in rows])
    floats = 5 * np.spacing(high / 10) + 8 * float(np.finfo(np.longdouble).eps) * high
    if metric == "softmax_cross_entropy":
        assert deviation.min() >= 1
        np.testing.assert_allclose(plan.error - floats, 1.01 * deviation, rtol=1e-3, atol=1e-3 * floats.max())
        return
    grids = linear_plans._grid_errors(spec, plan.code, plan.alphabet, grid)
    np.testing.assert_allclose(plan.error, floats + grids, rtol=1e-11)
    first = linear_plans._grid_errors(spec, plan.code, plan.alphabet, grid, max_queries=1)
    np.testing.assert_array_equal(first, grids[:1])


def test_a_linear_plan_asks_its_digits_one_after_the_other():
    spec = labels.OracleSpec(n=12, classes=4, noise=1e-3, clip=1e-3)
    parts = tuple(
        linear_plans.plan_digit(spec, spec.loss(), digits, dense=False, max_bits=0)
        for digits in (np.arange(4) % 2, np.arange(4) // 2)
    )
    plan = linear_plans.LinearPlan(spec, parts, (1, 2))
    assert plan.count == parts[0].count + parts[1].count
    for index in range(plan.count):
        part, within = (parts[0], index) if index < parts[0].count else (parts[1], index - parts[0].count)
        np.testing.assert_array_equal(plan.query(index), part.query(within))
    with pytest.raises(InputError, match=f"query: the plan has {plan.count} queries only"):
        plan.query(plan.count)
    y = np.arange(12) % 4
    answers = np.array([labels.LocalOracle(spec, y).exact(plan.query(i)) for i in range(plan.count)])
    assert plan.read(answers).labels.tolist() == y.tolist()
    # Of three classes no row is the fourth.
    three = replace(plan, spec=replace(spec, classes=3))
    reading = three.read(answers)
    assert reading.labels.tolist() == np.where(y == 3, 0, y).tolist()
    assert reading.proven.tolist() == reading.certain.tolist() == (y < 3).tolist()
    assert reading.refuted.any()
    rest = answers.copy()
    rest[parts[0].count :] = np.nan
    assert not three.read(rest).refuted.any()
    assert not three.read(rest).proven.any()


@pytest.mark.parametrize("max_bits", [0, 2])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.45, 0.49])
def test_squares_of_a_unit_have_the_largest_weights_that_errors_leave(share, max_bits):
    unit, digits = 2.0**-30, np.arange(2)
    spec = labels.OracleSpec("mse", n=20, noise=share * unit / 20)
    noise = 20 * spec.noise
    plan = linear_plans._plan_squares_with_unit(spec, spec.loss(), digits, unit, noise, max_bits, None)

    def error_of(bits):
        code = codes.build_code(20, 2, 2**bits, dense=False, max_bits=max_bits)
        grid = linear_plans._largest_spacing(code, unit)
        return linear_plans.assemble_digit_plan(
            spec, spec.loss(), digits, 2, 2**bits, unit, max_bits=max_bits, grid=grid
        ).error.max()

    bits = round(math.log2(plan.code.bound))
    assert unit > 2 * (noise + error_of(bits))
    # The square of the next larger weight would have no place left for one unit, or its sums none for the errors.
    assert unit**2 * 4**bits / 4 <= 2.0**54 * unit
    assert unit**2 * 4 ** (bits + 1) / 4 > 2.0**54 * unit or unit <= 2 * (noise + error_of(bits + 1))
    assert plan.unit == unit
    for count, is_shorter in ((plan.count + 1, True), (plan.count, False)):
        rival = replace(plan, code=codes.build_code(count, 2, 1, dense=False, max_bits=0))
        assert rival.count == count
        found = linear_plans._plan_squares_with_unit(spec, spec.loss(), digits, unit, noise, max_bits, rival)
        assert (found is not None) is is_shorter
    loud = 0.5 * unit
    assert linear_plans._plan_squares_with_unit(spec, spec.loss(), digits, unit, loud, max_bits, None) is None


@pytest.mark.parametrize(("exponent", "bound"), [(49, 4), (50, 2), (51, 2), (52, 1), (53, None)])
def test_squares_of_large_units_have_small_weights_until_one_unit_has_no_place(exponent, bound):
    spec = labels.OracleSpec("mse", n=5)
    found = linear_plans._plan_squares_with_unit(spec, spec.loss(), np.arange(2), 2.0**exponent, 0.0, 0, None)
    assert (found and found.code.bound) == bound
