"""The codes of the paper beside all labellings of a few rows, and the steps that choose a unit, at their bounds."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from divulge import InputError, labels
from divulge.labels import paper_codes

PLANS = {
    "exhaustive": (labels.OracleSpec(n=5, clip=1e-3, noise=0.003), "exhaustive"),
    "exhaustive, three classes": (labels.OracleSpec("squared_euclidean", n=4, classes=3, noise=0.002), "exhaustive"),
    "exhaustive, one row more": (labels.OracleSpec("mse", n=5, noise=0.03), "exhaustive"),
    "primes": (labels.OracleSpec(n=5, clip=1e-3, noise=0.002), "primes"),
    "corollary2": (labels.OracleSpec("itakura_saito", n=4, clip=None, noise=0.01), "corollary2"),
    "theorem3": (labels.OracleSpec(n=4, clip=None, noise=0.05), "theorem3"),
    "theorem14": (labels.OracleSpec(n=4, clip=None, noise=0.05), "theorem14"),
}


@pytest.mark.parametrize("name", PLANS)
def test_no_labelling_within_the_noise_differs_from_what_is_proven_nor_within_twice_from_what_is_certain(name):
    spec, method = PLANS[name]
    plan = labels.design(spec, method)
    assert plan.method == method
    assert plan.certificate.certified
    every = np.array(list(itertools.product(range(spec.classes), repeat=spec.n)))
    exact = np.array([[labels.LocalOracle(spec, y).exact(plan.queries[i]) for i in range(plan.count)] for y in every])
    apart = min(np.abs(a - b).max() for a, b in itertools.combinations(exact, 2))
    assert plan.certificate.separation <= apart * (1 + 1e-9)
    rng = np.random.default_rng(list(PLANS).index(name))
    for trial in range(40):
        size, world = (0.0, 0.99, 1.5, 1.99, 4.0)[trial % 5], int(rng.integers(len(every)))
        answers = exact[world] + size * spec.noise * rng.choice([-1.0, 1.0], plan.count)
        if trial % 4 == 3:
            answers[rng.integers(plan.count)] = np.nan
        reading = plan.inner.read(answers)
        distance = np.nan_to_num(np.abs(exact - answers))
        for told, times in ((reading.proven, 1), (reading.certain, 2)):
            inside = (distance <= times * spec.noise * (1 - 1e-7)).all(axis=1)
            assert (every[inside][:, told] == reading.labels[told]).all()
        if size < 1:
            assert not reading.refuted.any()
        if size < 1 and not np.isnan(answers).any():
            assert reading.proven.all()
            np.testing.assert_array_equal(reading.labels, every[world])
            row = np.abs(exact[world] - answers)
            np.testing.assert_allclose(reading.residual, row, rtol=0.02, atol=1e-9)
        assert (np.isnan(reading.residual) == np.isnan(answers)).all()
        assert not reading.refuted[np.isnan(answers)].any()


@pytest.mark.parametrize("size", [0.3, 0.6, 1.2, 3.0])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_block_is_read_as_the_nearest_of_its_labellings(size, rows):
    """3 rows a block and 5 or fewer in all: a shorter last block knows fewer labellings."""
    spec = labels.OracleSpec(n=3 + rows, clip=1e-3, noise=0.002)
    table = paper_codes._tabulate(spec, spec.loss(), paper_codes._block_rows(spec, spec.loss(), "exhaustive", 3))
    losses = spec.loss().table(table.rows)
    for y in itertools.product((0, 1), repeat=rows):
        exact = sum(losses[i, label] for i, label in enumerate(y))
        total = exact + size
        sums = {
            each: sum(losses[i, label] for i, label in enumerate(each))
            for each in itertools.product((0, 1), repeat=rows)
        }
        order = sorted(sums, key=lambda each: abs(sums[each] - total))
        told, best, second = table._nearest_labellings(total, rows)
        assert tuple(told[:rows].tolist()) == order[0]
        assert best == pytest.approx(abs(sums[order[0]] - total))
        assert second == pytest.approx(abs(sums[order[1]] - total))


@pytest.mark.parametrize("share", [0.999999, 1.000001])
def test_a_table_is_certified_while_twice_the_noise_is_below_the_least_distance_of_two_sums(share):
    spec = labels.OracleSpec(n=4, clip=1e-3, noise=0.001)
    table = paper_codes._tabulate(spec, spec.loss(), paper_codes._block_rows(spec, spec.loss(), "exhaustive", 2))
    separation = (np.diff(table.sums).min() - 2 * table.error) / 4
    noisy = labels.OracleSpec(n=4, clip=1e-3, noise=separation / 2 * share)
    same = paper_codes.TablePlan(
        noisy, table.rows, table.idle, table.sums, table.labellings, table.idle_loss, table.error
    )
    assert same.certificate().certified is (share < 1)
    assert same.certificate().separation == pytest.approx(separation)
    assert same.certificate().needed == pytest.approx(2 * noisy.noise)


LOG3 = math.log(3)


def theorem_code(monkeypatch, gap, error=0.0, rows=1, digits=(0, 1), base=2, **changes):
    """The unit of the code that is assembled for a loss of this gap whose floats are off by ``error``."""
    spec = labels.OracleSpec(**{"n": 10, "noise": 0.01, "clip": None} | changes)
    monkeypatch.setattr(
        paper_codes.linear_plans,
        "assemble_digit_plan",
        lambda spec, loss, digits, base, bound, unit, mirrored: SimpleNamespace(unit=unit, error=np.array([0, error])),
    )
    loss = SimpleNamespace(largest_gap=lambda digits: gap)
    code = paper_codes._theorem_code(spec, loss, np.array(digits), base, rows)
    return None if code is None else code.unit


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_a_step_of_twice_the_noise_times_log_3_fits_exactly_into_the_range(monkeypatch, rows):
    unit = 2 * LOG3 * 10 * 0.01
    assert theorem_code(monkeypatch, unit * 2 ** (rows - 1), rows=rows) == unit
    assert theorem_code(monkeypatch, unit * 2 ** (rows - 1) * (1 - 1e-12), rows=rows) is None


def test_where_floats_are_off_by_more_than_is_left_they_are_added_to_the_noise(monkeypatch):
    noise = 10 * 0.01
    spare = (LOG3 - 1) * noise  # of a step of 2·ln 3 times the noise, over twice the noise
    assert theorem_code(monkeypatch, 9.0, spare * 0.999) == 2 * LOG3 * noise
    enlarged = 2 * LOG3 * (noise + spare * 1.001)
    assert theorem_code(monkeypatch, 9.0, spare * 1.001) == pytest.approx(enlarged, rel=1e-12)
    largest = 2 * LOG3 * (noise + 0.5)
    assert theorem_code(monkeypatch, largest, 0.5) == largest
    assert theorem_code(monkeypatch, largest * (1 - 1e-12), 0.5) is None
    assert theorem_code(monkeypatch, 9.0, 0.25, noise=0.0) == pytest.approx(2 * LOG3 * 0.25)


def test_logits_have_a_range_up_to_what_their_floats_hold(monkeypatch):
    # A unit of at most 4·ln 3, and of float16 at most 65,504 / (4·10) logits.
    fits = int(math.log2(65_504 / 40 / (4 * LOG3))) + 1
    assert theorem_code(monkeypatch, math.inf, rows=fits, float_dtype="float16") == 2 * LOG3 * 0.1
    assert theorem_code(monkeypatch, math.inf, rows=fits + 1, float_dtype="float16") is None
    assert theorem_code(monkeypatch, math.inf, rows=fits, float_dtype="float16", digits=(0, 3)) is None
    loud = theorem_code(monkeypatch, math.inf, noise=0.3)
    assert loud == pytest.approx(2 * LOG3 * 3.0)


@pytest.mark.parametrize(("digits", "rows"), [((0, 1), 1), ((0, 1), 6), ((0, 3), 3)])
def test_one_column_of_probabilities_stays_an_epsilon_away_from_one(monkeypatch, digits, rows):
    gap = -math.log(np.finfo("float64").eps) / max(digits)
    fits = gap / (2 * LOG3 * 10) / 2 ** (rows - 1)
    for noise, is_read in ((fits * (1 - 1e-9), True), (fits * (1 + 1e-9), False)):
        told = theorem_code(monkeypatch, 1e6, rows=rows, digits=digits, noise=noise, submission="positive")
        assert (told is not None) is is_read
        assert theorem_code(monkeypatch, 1e6, rows=rows, digits=digits, noise=noise) is not None


@pytest.mark.parametrize(
    ("spec", "method", "message"),
    [
        ({"noise": 0.1, "noise_kind": "gaussian"}, "theorem3", "for bounded noise and unweighted classes only"),
        ({"class_weight": (1.0, 2.0)}, "primes", "for bounded noise and unweighted classes only"),
        ({"classes": 3}, "theorem14", "theorem14 is stated for 2 classes, got 3"),
        ({"metric": "mse"}, "theorem3", "theorem3 is stated for cross-entropies"),
        ({"metric": "mse"}, "corollary2", "corollary2 is stated for itakura_saito, got mse"),
        ({"metric": "squared_euclidean", "classes": 3}, "primes", "primes are stated for 2 classes, got 3"),
        ({"noise": 0.4}, "exhaustive", "cannot read even one label per query at this noise"),
        ({"metric": "mse", "noise": 0.4}, "primes", "cannot read even one label per query at this noise"),
    ],
)
def test_what_a_code_is_not_stated_for_is_refused(spec, method, message):
    with pytest.raises(InputError, match=message):
        paper_codes.plan_paper_code(labels.OracleSpec(**{"n": 200, "clip": 1e-3} | spec), method)


def test_primes_are_primes():
    found = paper_codes.first_primes(60)
    assert found == [n for n in range(2, 282) if all(n % d for d in range(2, n))]
    assert paper_codes.first_primes(0) == []


@pytest.mark.parametrize(("classes", "rows"), [(2, 12), (3, 7), (4, 6), (4096, 1)])
def test_a_table_holds_at_most_4096_labellings(classes, rows, monkeypatch):
    asked = []
    certified = SimpleNamespace(certificate=lambda: SimpleNamespace(certified=True))
    monkeypatch.setattr(paper_codes, "_block_rows", lambda spec, loss, method, m: asked.append(m))
    monkeypatch.setattr(paper_codes, "_tabulate", lambda spec, loss, rows: certified)
    spec = SimpleNamespace(name="log_loss", classes=classes, n=50)
    assert paper_codes.plan_enumerated(spec, None, "exhaustive") is certified
    assert asked == list(range(1, rows + 1))


def told_by_a_table(total, noise, decimals=None):
    """A table of sums 0, 1, 2.5 and 4 for two of four rows, the others 1/4 each, whose floats are off by 1/16."""
    spec = labels.OracleSpec("mae", n=4, noise=noise, reduction="sum", decimals=decimals)
    labellings = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    table = paper_codes.TablePlan(
        spec, np.array([0.0, 0.5]), np.array([0.75]), np.array([0.0, 1.0, 2.5, 4.0]), labellings, 0.25, 0.0625
    )
    return table.read(np.array([total + 0.5, math.nan]))


@pytest.mark.parametrize(
    ("off", "noise", "expected"),  # proven, certain, refuted: the next sum is 1 away
    [
        (0.0, 0.25, (True, True, False)),
        (0.25, 0.1875, (True, True, False)),
        (0.25 + 1e-9, 0.1875, (False, True, True)),
        (0.0, 0.46875, (True, False, False)),
        (0.0, 0.46875 - 1e-9, (True, True, False)),
        (0.0, 0.9375, (False, False, False)),
        (0.0, 0.9375 - 1e-9, (True, False, False)),
        (0.25, 0.6875, (False, False, False)),
    ],
)
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_labelling_of_a_block_is_proven_if_it_alone_is_near_enough(off, noise, expected, sign):
    total = 0.0 + off if sign == 1 else 1.0 - off
    reading = told_by_a_table(total, noise)
    assert (bool(reading.proven[0]), bool(reading.certain[0]), bool(reading.refuted[0])) == expected
    assert reading.labels[:2].tolist() == ([0, 0] if sign == 1 else [0, 1])
    assert reading.residual[0] == pytest.approx(off, abs=1e-12)
    assert not (reading.proven[2:] | reading.certain[2:]).any()
    assert not reading.refuted[1]
    assert math.isnan(reading.residual[1])


def test_rounding_of_an_answer_counts_with_the_floats():
    assert told_by_a_table(0.0625 + 0.0499, 0.0, decimals=1).proven[0]
    assert not told_by_a_table(0.0625 + 0.051, 0.0, decimals=1).proven[0]
    assert told_by_a_table(0.0625 + 0.051, 0.0, decimals=1).refuted[0]


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_blocks_cover_all_rows_and_the_last_may_be_short(n):
    spec = labels.OracleSpec(n=n, clip=1e-3, noise=0.004)
    loss = spec.loss()
    table = paper_codes._tabulate(spec, loss, paper_codes._block_rows(spec, loss, "exhaustive", 3))
    assert table.count == math.ceil(n / 3)
    for index in range(table.count):
        query = table.query(index)
        width = min(3, n - 3 * index)
        np.testing.assert_array_equal(query[3 * index : 3 * index + width], table.rows[:width])
        rest = np.delete(query, range(3 * index, 3 * index + width), axis=0)
        np.testing.assert_array_equal(rest, np.repeat(table.idle, n - width, axis=0))
    losses = loss.table(table.rows)
    every = {y: sum(losses[i, label] for i, label in enumerate(y)) for y in itertools.product((0, 1), repeat=3)}
    np.testing.assert_allclose(table.sums, sorted(every.values()))
    np.testing.assert_allclose(table.sums, [every[tuple(y)] for y in table.labellings.tolist()])
    assert table.idle_loss == pytest.approx(math.log(2))
    total = losses.max(axis=1).sum() + n * math.log(2)
    depth = n + 2
    unit = 2.0**-53
    expected = 2 * (total * depth * unit / (1 - depth * unit) + 4 * total * unit)
    assert table.error == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("digits", "read", "valid"), [(0, 0, True), (1, 1, True), (2, 1, False), (3, 2, True)])
def test_a_digit_of_theorem_3_that_is_none_of_any_class_is_no_label(digits, read, valid):
    """Three classes have the digits 0, 1 and 3."""
    spec = labels.OracleSpec(n=1, classes=3, clip=None, noise=0.01)
    plan = labels.design(spec, "theorem3").inner
    assert plan.digit_plan.digits.tolist() == [0, 1, 3]
    part = plan.digit_plan
    weight = int(part.code.weights(0)[1][0])
    answer = (float(part.base[0]) + part.unit * weight * digits) / 1
    reading = plan.read(np.array([answer]))
    assert reading.proven.tolist() == reading.certain.tolist() == [valid]
    assert reading.refuted.tolist() == [not valid]
    assert not valid or reading.labels.tolist() == [read]
    assert reading.residual[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("method", "classes", "most"), [("theorem14", 2, 59), ("theorem3", 2, 29), ("theorem3", 3, 19)]
)
def test_a_theorem_s_block_has_weights_below_2_to_the_60(monkeypatch, method, classes, most):
    asked = []
    monkeypatch.setattr(paper_codes, "_theorem_code", lambda spec, loss, digits, base, rows: asked.append((base, rows)))
    spec = labels.OracleSpec(n=9, classes=classes, clip=None)
    with pytest.raises(InputError, match="cannot read even one label per query at this noise"):
        paper_codes._plan_theorem(spec, spec.loss(), method)
    assert asked == [(2 if method == "theorem14" else 2**classes, 1)]
    asked.clear()
    plan = SimpleNamespace(count=1)
    monkeypatch.setattr(paper_codes, "_theorem_code", lambda *arguments: asked.append(arguments[-1]) or plan)
    monkeypatch.setattr(paper_codes.linear_plans, "certify_digit_plans", lambda spec, plans: None)
    assert paper_codes._plan_theorem(spec, spec.loss(), method).inner.digit_plan is plan
    assert asked == list(range(1, most + 1))
