"""Plans for sums over rows: readings at their limits, certificates, float errors and steps, by their definitions."""

import itertools
import math

import numpy as np
import pytest

from divulge import labels
from divulge.labels import codes, linear_plans, metrics
from divulge.labels.linear_plans import DigitPlan, RowSums


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
