"""Steps of plans for sums over rows, each against its definition: errors of sums, readings at their limits, units."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from divulge import labels
from divulge.labels import codes, linear_plans, metrics
from divulge.labels.linear_plans import DigitPlan, RowSums
from divulge.labels.oracles import noise_bound

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
