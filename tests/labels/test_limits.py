"""Limits that are written down once for a whole module: reached, and not passed."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from divulge import labels
from divulge.labels import (
    codes,
    defences,
    inference,
    linear_plans,
    metrics,
    paper_codes,
    search,
    split,
)
from divulge.labels.oracles import OracleSpec


def test_the_sets_of_conway_and_guy_have_18_members_at_most():
    assert codes._conway_guy_size(10**12) == 18
    assert codes._conway_guy_size(codes.conway_guy(18)[-1]) == 18
    assert codes._conway_guy_size(codes.conway_guy(18)[-1] - 1) == 17
    assert codes.MAX_ADDRESS_BITS == 11


LOG_LOSS = OracleSpec(n=20)
LOSS = LOG_LOSS.loss()


def test_a_logarithm_is_taken_to_round_rightly_within_45_hundredths_of_a_unit_and_no_further():
    p = np.random.default_rng(0).uniform(0.05, 0.95, 300)
    rows = np.column_stack([p, 1 - p])
    losses = LOSS.table(rows)
    losses[::2] = np.nextafter(losses[::2], 9.0)
    true, unit = metrics.log_error(rows, losses), np.spacing(losses)
    shares = true / unit
    assert ((shares > 0.45) & (shares < 0.9)).any()
    assert (shares <= 0.45).any()
    expected = np.where(shares <= 0.45, 0.0, true + unit)
    np.testing.assert_allclose(codes._loss_deviation(LOG_LOSS, LOSS, rows, losses, True), expected, rtol=1e-9)


CLASSES_3 = OracleSpec(n=66_667, classes=3)
SMALL = OracleSpec("accuracy", n=4)
KAPPA = OracleSpec("quadratic_weighted_kappa", n=9, classes=3)


def test_competitions_are_simulated_for_30_teams_20_times_with_up_to_200_000_numbers():
    assert defences.rank_correlation(CLASSES_3, lambda *_: pytest.fail("simulated")) is None
    cost = defences.rank_correlation(SMALL, lambda spec, y, evidence, rng: np.arange(len(evidence)))
    assert cost.method == "Student's t over 20 simulated competitions of 30 teams"
    assert cost.confidence == 0.95
    assert [defences.answer_range(OracleSpec(name, n=9)) for name in ("balanced_accuracy", "map_at_k")] == [1.0, 1.0]
    assert defences.answer_range(KAPPA) == 2.0
    assert defences.FLOAT_BITS == 64


@pytest.mark.parametrize(("n", "is_measured"), [(5000, True), (5001, False)])
def test_attacks_are_run_on_up_to_5000_rows(monkeypatch, n, is_measured):
    spec = OracleSpec("accuracy", n=n)
    monkeypatch.setattr(defences, "_preferred_predictions", lambda *_: pytest.fail("was run"))
    if is_measured:
        with pytest.raises(pytest.fail.Exception, match="was run"):
            defences._count_read_through_ladder(spec, 0.1, 5, 0)
    else:
        assert defences._count_read_through_ladder(spec, 0.1, 5, 0) is None


LONG = OracleSpec("mse", n=20_001)


def test_the_sum_of_more_than_20_000_rows_is_bounded_by_its_greatest_depth_alone():
    high = np.array([5.0])
    expected = metrics.summation_error(20_001, high, "pairwise", "float64")
    np.testing.assert_array_equal(linear_plans._summation_errors(LONG, None, None, high), expected)


ANY = OracleSpec(n=7)


@pytest.mark.parametrize(("decimals", "told"), [(12, "rounded to 12 decimals"), (13, "")])
def test_up_to_12_decimals_are_looked_for(decimals, told):
    answers = np.round(np.random.default_rng(0).uniform(0.001, 0.002, 6), decimals)
    assert inference._describe_rounding(answers, ANY) == told


CLIPPED = OracleSpec(n=9, clip=1e-6)
EPSILONS = [2.0**-10, 2.0**-23, 2.0**-52]


@pytest.mark.parametrize("clip", [0.1, 1e-2, 1e-19, 1e-20, *EPSILONS])
def test_usual_clips_are_powers_of_ten_and_epsilons_of_floats(clip):
    total = -math.log(clip) - math.log1p(-clip)
    assert inference._describe_scale(lambda _: total / 2, CLIPPED) == f"clipped at {clip:.3g}, not at 1e-06"


@pytest.mark.parametrize("clip", [1e-21, 3e-5, 0.3])
def test_other_clips_are_not_named(clip):
    total = -math.log(clip) - math.log1p(-clip)
    assert inference._describe_scale(lambda _: total / 2, CLIPPED) == ""


def test_a_table_has_no_more_than_4096_labellings_even_of_one_row(monkeypatch):
    certified = SimpleNamespace(certificate=lambda: SimpleNamespace(certified=True))
    monkeypatch.setattr(paper_codes, "_block_rows", lambda spec, loss, method, m: m)
    monkeypatch.setattr(paper_codes, "_tabulate", lambda spec, loss, rows: certified)
    for classes, is_read in ((4096, True), (4097, False)):
        spec = SimpleNamespace(name="log_loss", classes=classes, n=5)
        if is_read:
            assert paper_codes.plan_enumerated(spec, None, "exhaustive") is certified
        else:
            with pytest.raises(labels.oracles.InputError, match="cannot read even one label per query"):
                paper_codes.plan_enumerated(spec, None, "exhaustive")


@pytest.mark.parametrize("share", [0.999, 1.001])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_log_odds_of_corollary_2_stay_below_700(monkeypatch, rows, share):
    """Row m has twice ln 3·Nτ·2^(m-1), half of it on either side."""
    noise = 700 / (math.log(3) * 9) / 2**rows * share
    asked = []
    certified = SimpleNamespace(certificate=lambda: SimpleNamespace(certified=True))
    monkeypatch.setattr(paper_codes, "_block_rows", lambda spec, loss, method, m: asked.append(m))
    monkeypatch.setattr(paper_codes, "_tabulate", lambda spec, loss, rows: certified)
    spec = OracleSpec("itakura_saito", n=9, noise=noise)
    if rows == 1 and share > 1:
        with pytest.raises(labels.oracles.InputError):
            paper_codes.plan_enumerated(spec, None, "corollary2")
    else:
        paper_codes.plan_enumerated(spec, None, "corollary2")
    assert asked == list(range(1, rows + (share < 1)))


def test_blocks_of_rows_are_those_of_their_codes():
    loss = ANY.loss()
    span = loss.largest_gap(np.arange(2))
    rows = paper_codes._block_rows(ANY, loss, "exhaustive", 3)
    table = loss.table(rows)
    np.testing.assert_allclose(table[:, 1] - table[:, 0], span * np.array([0.25, 0.5, 1.0]), rtol=1e-3)
    logits = OracleSpec("sigmoid_cross_entropy", n=7)
    table = logits.loss().table(paper_codes._block_rows(logits, logits.loss(), "exhaustive", 3))
    np.testing.assert_allclose(table[:, 1] - table[:, 0], [10.0, 20.0, 40.0])
    primes = paper_codes._block_rows(ANY, loss, "primes", 2)
    np.testing.assert_allclose(primes, [[2 / 5, 3 / 5], [5 / 12, 7 / 12]])
    other = OracleSpec("mae", n=7)
    table = other.loss().table(paper_codes._block_rows(other, other.loss(), "primes", 3))
    np.testing.assert_allclose(table[:, 1] - table[:, 0], np.log([2, 3, 5]) / 7)
    quiet, loud = OracleSpec("itakura_saito", n=7), OracleSpec("itakura_saito", n=7, noise=0.01)
    for spec, tau in ((quiet, 1e-3), (loud, 0.01)):
        found = paper_codes._block_rows(spec, spec.loss(), "corollary2", 3)
        odds = np.log(found[:, 0] / found[:, 1])
        np.testing.assert_allclose(odds, math.log(3) * 7 * tau * 2.0 ** np.arange(1, 4))
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
    soft, column = OracleSpec("softmax_cross_entropy", n=7), OracleSpec(n=7, submission="positive")
    np.testing.assert_allclose(paper_codes._block_rows(soft, None, "primes", 1), np.log([[2.0, 3.0]]))
    np.testing.assert_allclose(paper_codes._block_rows(logits, None, "primes", 1), np.log([1.5]))
    np.testing.assert_allclose(paper_codes._block_rows(column, None, "primes", 1), [0.6])


CONSTANT = OracleSpec(labels.Evaluated(lambda y, p: 0.5, name="half"), n=7, submission="positive")


def test_a_search_draws_eight_submissions_four_times_and_compares_100_labellings(monkeypatch):
    drawn, compared = [], []
    plan = labels.design(CONSTANT).inner
    monkeypatch.setattr(search, "draw_submission", lambda spec, rng: drawn.append(rng.random()) or np.zeros(7))
    inner = type(plan)._mean_remaining

    def mean_remaining(self, labellings, query):
        compared.append(len(labellings))
        return inner(self, labellings, query)

    monkeypatch.setattr(type(plan), "_mean_remaining", mean_remaining)
    assert plan.query_after(0, np.full(plan.count, np.nan)) is None
    assert len(drawn) == 32
    assert len(set(drawn)) == 32
    assert compared == [100] * 32
    assert search.MAX_LABELLINGS == 4096
    assert not search._all_labellings(3, 2).flags.writeable


@pytest.mark.parametrize(("n", "is_told"), [(64, True), (65, False)])
def test_of_a_split_up_to_64_numbers_of_scored_rows_are_tried(n, is_told):
    spec = OracleSpec(n=n, clip=1e-3, noise=1e-4, scored="unknown")
    code = codes.build_code(n, 3, 1, dense=False, max_bits=0)
    pairs = split.SplitPlan(spec, code, np.array([-1, 0, 1]), np.zeros((3, 2)), 1.0, np.zeros(code.count + 3))
    found = pairs._possible_readings(np.full(code.count + 3, np.nan), np.zeros(code.count + 3))
    assert (found is not None) is is_told


WIDE = OracleSpec(n=1001, clip=0.01, noise=0.5, noise_kind="gaussian")


@pytest.mark.parametrize(("n", "is_told"), [(255, True), (256, False)])
def test_up_to_256_totals_are_tried(n, is_told):
    spec = OracleSpec("mcc", n=n)
    plan = labels.design(spec).inner
    assert (plan._candidates(np.full(plan.count, np.nan), 1) is not None) is is_told


def test_margins_are_larger_than_roundings_and_small():
    assert 1 + 1e-12 < linear_plans.MARGIN < 1 + 1e-8
    for clip, edge in ((1e-3, math.log(999)), (None, -math.log(np.finfo("float64").tiny))):
        loss = metrics.row_loss("log_loss", 2, clip=clip)
        assert edge * (1 - 1e-14) < loss.span < edge
