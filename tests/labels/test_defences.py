"""What defences protect and cost, and what answers can tell at most, against definitions written down again."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from divulge import labels
from divulge.errors import InputError
from divulge.labels import defences
from divulge.labels.oracles import OracleSpec

LOG_LOSS = OracleSpec(n=50, clip=0.01)


@pytest.mark.parametrize(
    ("spec", "queries", "accuracy", "message"),
    [
        (LOG_LOSS, 10, 0.5, r"accuracy: must lie in \(0\.5, 1\), got 0\.5"),
        (LOG_LOSS, 10, 1.0, "accuracy"),
        (OracleSpec(n=50, classes=4), 10, 0.25, r"accuracy: must lie in \(0\.25, 1\)"),
        (LOG_LOSS, 0, 0.6, "queries"),
        (OracleSpec(n=50, scored="unknown"), 10, 0.6, "scored: whoever defends an endpoint knows how many rows"),
    ],
)
def test_demands_that_cannot_be_met_are_refused(spec, queries, accuracy, message):
    with pytest.raises(InputError, match=message):
        labels.defend(spec, queries, accuracy)


R = math.log(99)


@pytest.mark.parametrize(
    ("options", "bits", "binds", "threshold"),
    [
        ({"noise": 0.05}, math.log2(1 + R / 0.1), "noise", R / 100),
        ({"noise": 0.05, "reduction": "sum"}, math.log2(1 + 50 * R / 0.1), "noise", R / 2),
        ({"decimals": 2}, math.log2(2 + R / 0.01), "rounding", R / 100),
        ({"decimals": 2, "noise": 0.001}, math.log2(2 + R / 0.01), "rounding", R / 100),
        ({"decimals": 2, "noise": 0.04}, math.log2(1 + R / 0.08), "noise", R / 100),
        ({"decimals": 2, "noise": 0.1}, math.log2(1 + R / 0.2), "noise", R / 100),
        ({"noise": 1.0, "noise_kind": "gaussian"}, 0.5 * math.log2(1 + 50 * (R / 100) ** 2), "noise", R / 100),
        ({"noise": 1e-4, "noise_kind": "gaussian", "decimals": 1}, math.log2(2 + R / 0.1), "rounding", R / 100),
        (
            {"noise": 1.0, "noise_kind": "laplace"},
            0.5 * math.log2(1 + 50 * (R / 100) ** 2 / 2) + 0.11,
            "noise",
            R / 100,
        ),
        ({"noise": 0.05, "scored": 20}, math.log2(1 + R / 0.1), "noise", R / 80),
        ({"noise": 0.05, "classes": 4}, math.log2(1 + R / 0.1), "noise", R / 100),
        ({"metric": "accuracy"}, math.log2(51), "number of labels", 1 / 100),
        ({"metric": "accuracy", "noise": 0.1}, math.log2(6), "noise", 1 / 100),
        ({"metric": "accuracy", "noise": 0.004}, math.log2(51), "noise", 1 / 100),
        ({"metric": "accuracy", "decimals": 1}, math.log2(11), "rounding", 1 / 100),
        ({"metric": "accuracy", "decimals": 1, "noise": 0.01}, math.log2(12), "rounding", 1 / 100),
        ({"metric": "accuracy", "scored": 20}, math.log2(21), "number of labels", 1 / 80),
        ({"metric": "accuracy", "scored": "unknown"}, math.log2(2500), "number of labels", 1 / 200),
        ({"metric": "f1", "decimals": 1}, math.log2(11), "rounding", 1 / 51),
        (
            {"metric": "auc"},
            math.log2(2 + sum(2 * s * (50 - s) - 1 for s in range(1, 26))),
            "number of labels",
            1 / 98,
        ),
    ],
)
def test_capacity_is_what_noise_rounding_and_counts_leave(options, bits, binds, threshold):
    spec = OracleSpec(**{"n": 50, "clip": 0.01} | options)
    found = labels.capacity(spec)
    each = math.log2(spec.classes + (spec.scored != "all"))
    assert found.bits_per_query == pytest.approx(min(bits, 50 * each))
    assert found.labels_per_query == pytest.approx(min(bits, 50 * each) / each)
    assert found.queries == math.ceil(50 * each / min(bits, 50 * each) - 1e-9)
    assert (found.binds, found.threshold) == (binds, pytest.approx(threshold))
    text = (
        f"at most {found.labels_per_query:.4g} labels per query ({binds} limits), so at least {found.queries} queries"
    )
    assert str(found) == f"{text}; one label is readable while errors stay below {threshold:.3g}"


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("metric", ["log_loss", labels.KnownRange(0, R)])
def test_rounding_is_no_noise(metric, kind):
    """What is rounded afterwards tells no more than before, but hides less than as much random noise would."""
    spec = OracleSpec(metric, n=50, clip=0.01, noise=0.02, noise_kind=kind)
    plain = labels.capacity(spec).bits_per_query
    assert labels.capacity(replace(spec, decimals=1)).bits_per_query == pytest.approx(
        min(plain, math.log2(2 + R / 0.1) if metric == "log_loss" else math.log2(round(R, 1) * 10 + 1))
    )


def test_a_quiet_rounded_answer_tells_no_more_than_is_said():
    """The number of ones among 50 even labels, in steps of R/50, rounded to one decimal."""
    shares = np.array([math.comb(50, ones) for ones in range(51)]) / 2.0**50
    shown = np.round(np.arange(51) * R / 50, 1)
    chances = np.array([shares[shown == value].sum() for value in np.unique(shown)])
    entropy = -float(chances @ np.log2(chances))
    spec = OracleSpec(n=50, clip=0.01, decimals=1, noise=1e-9, noise_kind="gaussian")
    assert entropy <= labels.capacity(spec).bits_per_query


def test_no_answer_tells_more_than_all_labels():
    for spec in (OracleSpec(n=3, clip=0.01, decimals=9), OracleSpec(labels.KnownRange(0, 1), n=3)):
        found = labels.capacity(spec)
        assert (found.labels_per_query, found.queries) == (3, 1)
    assert labels.capacity(OracleSpec(labels.KnownRange(0, 1), n=3)).binds == "number of labels"
    exact = OracleSpec(labels.KnownRange(0, 1), n=64)
    assert labels.capacity(exact).binds == "number of labels"
    assert labels.capacity(replace(exact, n=65)).binds == "float arithmetic"
    assert labels.capacity(OracleSpec(labels.KnownRange(0, 0.001), n=5, decimals=1)).queries == 0


@pytest.mark.parametrize(
    ("metric", "decimals", "bits", "threshold"),
    [
        (labels.KnownRange(0, 1), 2, math.log2(101), None),
        (labels.KnownRange(-1, 2), 1, math.log2(31), None),
        (labels.Evaluated(lambda y, p: 0.0, low=0, high=1, name="f"), 2, math.log2(101), None),
        (labels.Evaluated(lambda y, p: 0.0, name="f"), 2, 64, None),
        ("mcc", 2, math.log2(202), 1 / 99),  # one row a query
        ("balanced_accuracy", 1, math.log2(12), 1 / 198),
        ("r2", 2, 64, None),
        ("mcc", None, 64, 1 / 99),
    ],
)
def test_the_capacity_of_a_range_is_that_of_its_different_answers(metric, decimals, bits, threshold):
    found = labels.capacity(OracleSpec(metric, n=100, decimals=decimals))
    assert found.bits_per_query == pytest.approx(bits)
    assert found.binds == ("float arithmetic" if decimals is None else "rounding")
    assert found.threshold == pytest.approx(math.nan if threshold is None else threshold, nan_ok=True)
    assert ("readable while" in str(found)) == (threshold is not None)


def test_a_range_under_noise_tells_what_the_smaller_of_both_leaves():
    spec = OracleSpec(labels.KnownRange(0, 1), n=100, decimals=2, noise=0.05)
    assert labels.capacity(spec).bits_per_query == pytest.approx(math.log2(11))
    assert labels.capacity(spec).binds == "noise"
    assert labels.capacity(replace(spec, noise=1e-4)).binds == "rounding"
    boundless = OracleSpec("r2", n=100, noise=0.05)
    assert (labels.capacity(boundless).bits_per_query, labels.capacity(boundless).binds) == (64, "float arithmetic")


@pytest.mark.parametrize("decimals", [0, 1, 2])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (0, 0.004), (0.05, 0.15), (-0.349, 0.25), (0.5, 1.5)])
def test_different_answers_are_counted_one_by_one(low, high, decimals):
    step = Fraction(1, 10**decimals)
    exact = [
        k for k in range(-300, 301) if k * step - step / 2 <= Fraction(high) and Fraction(low) <= k * step + step / 2
    ]
    assert defences.distinct_answers(low, high, decimals) == len(exact)
    for wrong in (-1, 301):
        with pytest.raises(InputError, match="decimals"):
            defences.distinct_answers(0, 1, wrong)
    bound = labels.information_bound(100, low=low, high=high, decimals=decimals)
    assert bound.bits_per_query == pytest.approx(math.log2(len(exact)))


def ranked(signs):
    """A ranking that is the exact one where the sign is 1, and the reverse where it is -1."""
    turn = itertools.cycle(signs)

    def show(spec, y, evidence, rng):
        exact = np.array([defences.team_score(spec, y, team) for team in evidence])
        return next(turn) * (exact if defences.is_larger_better(spec) else -exact)

    return show


@pytest.mark.parametrize("metric", ["log_loss", "accuracy", "auc"])
def test_the_cost_is_the_mean_correlation_of_rankings_with_students_interval(metric):
    spec = labels.OracleSpec(metric, n=60)
    same = defences.rank_correlation(spec, ranked([1]), teams=6)
    assert (same.value, same.low, same.high) == pytest.approx((1, 1, 1))
    turned = defences.rank_correlation(spec, ranked([-1]), teams=6)
    assert (turned.value, turned.low, turned.high) == pytest.approx((-1, -1, -1))
    mixed = defences.rank_correlation(spec, ranked([1, 1, 1, -1]), teams=6)
    half = np.std([1, 1, 1, -1] * 5, ddof=1) / math.sqrt(20) * stats.t.ppf(0.975, 19)
    assert (mixed.value, mixed.low, mixed.high) == pytest.approx((0.5, 0.5 - half, 0.5 + half))
    assert mixed.method == "Student's t over 20 simulated competitions of 6 teams"
    nobody = defences.rank_correlation(spec, lambda *_: np.zeros(6), teams=6)
    assert (nobody.value, nobody.low, nobody.high) == (0, 0, 0)


@pytest.mark.parametrize(
    ("public", "error"), [(0.04, "leaves 0 public"), (0.96, "leaves 10 public"), (0.06, None), (0.94, None)]
)
def test_a_menu_needs_a_row_on_either_side(public, error):
    spec = labels.OracleSpec("accuracy", n=10)
    if error:
        with pytest.raises(InputError, match=error):
            labels.menu(spec, public=public, days=2, per_day=3)
        return
    items = labels.menu(spec, public=public, days=2, per_day=3, decimals=3)
    n_public = 1 if public < 0.5 else 9
    assert [item.queries for item in items] == [6, 6, 2, 6, 6, 6]
    assert [item.setting for item in items] == [
        "3 submissions a day for 2 days",
        f"{n_public} of 10 rows are public",
        "1 submission a day",
        "3 decimals",
        f"a new score only {1 / (2 * math.sqrt(10)):.3g} better than the team's best",
        f"the same, in steps of {1 / (2 * math.sqrt(10)):.3g}",
    ]
    assert items[1].readable <= n_public
    for item in items:
        assert item.read is None or item.read <= item.readable <= 10


def test_the_coarser_of_two_roundings_is_shown_and_a_step_no_wider_than_the_scores():
    spec = labels.OracleSpec(labels.KnownRange(0.0, 0.1), n=16, decimals=1)
    items = {item.name: item.setting for item in labels.menu(spec, decimals=4)}
    assert items["rounding"] == "1 decimals"
    assert items["minimum gain"] == f"a new score only {0.1 / 8:.3g} better than the team's best"
    assert items["ladder"] == f"the same, in steps of {0.1 / 8:.3g}"
    with pytest.raises(InputError, match="starts from an oracle that scores all rows"):
        labels.menu(labels.OracleSpec(n=16, scored=8))
