"""Steps of defences and capacities: what is recommended, said, listed and bounded, against naive definitions."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from divulge import labels, seeds
from divulge.errors import InputError
from divulge.labels import defences
from divulge.labels.oracles import LocalOracle, OracleSpec
from divulge.labels.plans import Reading
from divulge.types import Estimate

LOG_LOSS = OracleSpec(n=50, clip=0.01)
ACCURACY = OracleSpec("accuracy", n=50)


def test_a_remedy_is_told_with_its_cost_for_a_ranking():
    remedy = defences.Remedy(LOG_LOSS, 3, 0.0, "do it")
    assert str(remedy) == "do it (cost for a ranking: not known)"
    priced = replace(remedy, cost=Estimate(0.5, 0.25, 0.75, 0.95, ""))
    assert str(priced) == "do it (Kendall's τ with the exact ranking 0.50 [0.25, 0.75])"
    defence = defences.Defence(3, 0.6, None, None, None, None, 1.0, {}, (remedy, priced))
    assert defence.advice == (str(remedy), str(priced))


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


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("accuracy", [0.6, 0.9])
@pytest.mark.parametrize("queries", [1, 100])
def test_the_noise_is_what_keeps_two_labels_from_being_told_apart(classes, accuracy, queries):
    spec = replace(LOG_LOSS, classes=classes)
    effect = math.log(99) / 50
    quantile = NormalDist().inv_cdf(0.5 + (accuracy - 1 / classes) / (2 - 2 / classes))
    assert defences._normal_quantile(spec, accuracy) == pytest.approx(quantile)
    noise = defences._required_noise(spec, queries, accuracy)
    assert noise == pytest.approx(math.sqrt(queries) * effect / (2 * quantile))
    # With that noise the bound is met exactly, unless the bits of so few answers are fewer.
    noisy = replace(spec, noise=noise, noise_kind="gaussian")
    limit = min(accuracy, defences.counting_bound(noisy, queries))
    assert defences.max_accuracy(noisy, queries) == pytest.approx(limit)


def test_no_noise_helps_where_labels_may_be_unbalanced_or_one_can_do_anything():
    few = OracleSpec("auc", n=9)  # 2 exp(-1) > 0.1
    assert defences._normal_quantile(few, 0.6) == 0.0
    assert defences._required_noise(few, 10, 0.6) is None
    assert defences._required_noise(OracleSpec("mse", n=50), 10, 0.6) is None
    many = OracleSpec("auc", n=200)
    variation = (0.6 - 2 * math.exp(-199 / 8) - 0.5) / 0.5
    assert defences._normal_quantile(many, 0.6) == pytest.approx(NormalDist().inv_cdf((1 + variation) / 2))


@pytest.mark.parametrize("spec", [LOG_LOSS, ACCURACY, OracleSpec("mae", n=400), replace(LOG_LOSS, n=10_000)])
@pytest.mark.parametrize(("queries", "accuracy"), [(1, 0.6), (2, 0.9), (20, 0.7), (60, 0.95)])
def test_decimals_are_the_most_whose_answers_hold_too_few_bits(spec, queries, accuracy):
    fits = [d for d in range(16) if defences.counting_bound(replace(spec, decimals=d), queries) <= accuracy]
    assert defences._allowed_decimals(spec, queries, accuracy) == max(fits, default=None)


def test_no_more_decimals_than_floats_have_are_recommended():
    assert defences._allowed_decimals(replace(LOG_LOSS, n=10**6), 1, 0.9) == 15
    assert defences._allowed_decimals(OracleSpec("mse", n=50), 1, 0.9) is None


@pytest.mark.parametrize(
    "spec", [replace(LOG_LOSS, noise=0.05, noise_kind="gaussian"), replace(LOG_LOSS, decimals=1), ACCURACY,
             replace(ACCURACY, decimals=1, n=500), replace(LOG_LOSS, n=2000)],
)  # fmt: skip
@pytest.mark.parametrize("accuracy", [0.55, 0.8, 0.99])
def test_the_cap_is_the_largest_number_of_queries_within_the_limit(spec, accuracy):
    cap = defences._query_cap(spec, accuracy)
    naive = next(q for q in itertools.count(1) if defences.max_accuracy(spec, q) > accuracy) - 1
    assert cap == (naive or None)


def test_a_cap_may_be_as_large_as_anyone_would_count():
    quiet = replace(LOG_LOSS, noise=1e9, noise_kind="gaussian")
    assert defences._query_cap(quiet, 0.6) >= 2**39


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (LOG_LOSS, "add Gaussian noise of standard deviation {sigma:g} to every score"),
        (
            replace(LOG_LOSS, clip=1e-9),
            "clip predictions into [0.01, 0.99] and add Gaussian noise of standard deviation",
        ),
    ],
)
def test_remedies_are_noise_decimals_a_cap_and_other_labels(spec, expected):
    remedies = defences._list_remedies(spec, 100, 0.6)
    assert expected.split("{", maxsplit=1)[0] in remedies[0].says
    assert remedies[0].spec.noise_kind == "gaussian"
    assert remedies[0].spec.noise >= defences._required_noise(remedies[0].spec, 100, 0.6)
    assert f"standard deviation {remedies[0].spec.noise:g} to every score" in remedies[0].says
    assert remedies[0].queries == 100
    last = remedies[-1]
    assert (last.spec, last.queries, last.flip) == (spec, None, 0.4)
    assert "replaced by another one with probability 0.4, once and for all before the first query" in last.says
    for remedy in remedies[:-1]:
        assert remedy.flip == 0.0
        assert defences.max_accuracy(remedy.spec, remedy.queries) <= 0.6


def test_decimals_and_a_cap_are_among_the_remedies_where_they_suffice():
    spec = replace(LOG_LOSS, n=3000)
    remedies = defences._list_remedies(spec, 100, 0.8)
    decimals = defences._allowed_decimals(spec, 100, 0.8)
    assert decimals is not None
    rounding = next(remedy for remedy in remedies if "decimals" in remedy.says)
    assert rounding.says == f"show at most {decimals} decimals of a score"
    assert (rounding.spec.decimals, rounding.queries) == (decimals, 100)
    cap = defences._query_cap(spec, 0.8)
    capped = next(remedy for remedy in remedies if "in total" in remedy.says)
    assert capped.says == f"answer at most {cap} queries in total"
    assert capped.queries == cap
    assert [remedy.flip for remedy in remedies] == [0, 0, 0, pytest.approx(0.2)]
    single = next(n for n in range(100, 1000) if defences._query_cap(replace(LOG_LOSS, n=n), 0.8) == 1)
    says = [remedy.says for remedy in defences._list_remedies(replace(LOG_LOSS, n=single), 100, 0.8)]
    assert "answer at most 1 query in total" in says


@pytest.mark.parametrize(("accuracy", "flip"), [(0.6, 0.4), (0.55555, 0.4445), (0.9, 0.1), (0.99999, 0.0001)])
def test_labels_are_replaced_often_enough(accuracy, flip):
    remedy = defences._list_remedies(LOG_LOSS, 100, accuracy)[-1]
    assert remedy.flip == pytest.approx(flip)
    assert remedy.flip >= 1 - accuracy - 1e-12


def test_where_nothing_more_is_needed_that_is_said():
    quiet = replace(LOG_LOSS, noise=100.0, noise_kind="gaussian")
    (remedy,) = defences._list_remedies(quiet, 7, 0.6)
    assert remedy.says == "nothing more is needed: 7 scores reveal no more as it is"
    assert (remedy.spec, remedy.queries, remedy.flip) == (quiet, 7, 0.0)
    limit = defences.max_accuracy(replace(quiet, noise=0.5), 7)
    assert len(defences._list_remedies(replace(quiet, noise=0.5), 7, limit)) == 1
    assert len(defences._list_remedies(replace(quiet, noise=0.5), 7, limit - 1e-6)) > 1


@pytest.mark.parametrize("submission", ["rows", "positive"])
def test_a_function_without_a_range_is_replaced_by_a_log_loss_of_the_same_form(submission):
    metric = labels.Evaluated(lambda y, p: 0.0, name="f")
    bounded, _ = defences._bound_label_effect(OracleSpec(metric, n=9, submission=submission))
    assert (bounded.name, bounded.submission, bounded.epsilon) == ("log_loss", submission, 0.01)
    counts = labels.Evaluated(lambda y, p: 0.0, depends_on="counts", name="f")
    assert defences._bound_label_effect(OracleSpec(counts, n=9))[0].submission == "rows"
    ranged = OracleSpec(labels.Evaluated(lambda y, p: 0.0, low=0, high=1, name="f"), n=9)
    assert defences._bound_label_effect(ranged) == (ranged, "")


@pytest.mark.parametrize(("queries", "step", "width"), [(5, 0.25, 1.0), (7, 0.1, 1.0), (3, 0.3, 1.0), (40, 0.01, 1.0)])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_ladder_tells_as_many_labels_as_its_falling_sequences_hold(queries, step, width, classes):
    metric = labels.Evaluated(lambda y, p: 0.0, low=0, high=width, name="f")
    spec = OracleSpec(metric, n=500, classes=classes)
    levels = int(Fraction(str(width)) / Fraction(str(step))) + 3
    bits = math.log2(math.comb(queries + levels, levels))
    assert defences._readable_through_ladder(spec, step, queries) == math.floor(bits / math.log2(classes) + 1e-9)
    assert defences._readable_through_ladder(OracleSpec("mse", n=77), 0.1, 5) == 77


@pytest.mark.parametrize("classes", [2, 4])
def test_bits_are_readable_as_labels_of_so_many_classes(classes):
    spec = replace(LOG_LOSS, classes=classes, decimals=2, n=300)
    bits = math.log2(2 + math.log(99) * 100)
    for queries in (1, 9):
        assert defences._readable_labels(spec, queries) == math.floor(queries * bits / math.log2(classes) + 1e-9)
    assert defences._readable_labels(spec, 10**6) == 300
    noisy = replace(spec, noise=0.3, noise_kind="gaussian")
    channel = defences.capacity(replace(noisy, decimals=None)).bits_per_query
    assert defences._readable_labels(noisy, 9) == math.floor(9 * min(bits, channel) / math.log2(classes) + 1e-9)


class FixedPlan:
    """A plan that reads what it is told to."""

    def __init__(self, spec, reading, count=3):
        self.spec, self.count, self.inner, self.asked = spec, count, self, []
        self._reading = reading

    def query_after(self, index, answers):
        self.asked.append(index)
        return np.full((self.spec.n, 2), 0.5) if index < 2 else None

    def read(self, answers):
        self.answers = answers
        return self._reading


def test_labels_count_as_read_where_they_are_proven_right_and_scored():
    y = np.array([0, 1, 1, 0, 1, 0])
    spec = OracleSpec(n=6, clip=0.01)
    reading = Reading(
        np.array([0, 1, 0, 0, 1, 1]), np.zeros(6, bool), np.arange(6) != 3, np.zeros(3), np.zeros(3, bool)
    )
    oracle = LocalOracle(spec, y)
    for queries, asked, answered in ((0, [], 0), (1, [0], 1), (2, [0, 1], 2), (3, [0, 1, 2], 2), (9, [0, 1, 2], 2)):
        plan = FixedPlan(spec, reading)
        assert defences._count_right_labels(plan, oracle, y, queries) == 3
        assert plan.asked == asked
        assert (~np.isnan(plan.answers)).sum() == answered
    assert defences._count_right_labels(FixedPlan(spec, reading), oracle, np.where(np.arange(6) < 2, -1, y), 1) == 1
    # Guesses: four of six right, where guessing gets three; by that, two of six are known.
    noisy = OracleSpec(n=6, clip=0.01, noise=0.1, noise_kind="gaussian")
    assert defences._count_right_labels(FixedPlan(noisy, reading), LocalOracle(noisy, y), y, 1) == 2
    assert defences._count_right_labels(FixedPlan(noisy, reading), LocalOracle(noisy, y), 1 - y, 1) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"classes": 3},
        {"noise": 0.1},
        {"n": 5001},
        {"metric": "mcc"},
        {"metric": "f1"},
        {"metric": "mse"},
        {"clip": None},
    ],
)
def test_no_attack_on_the_ladder_is_known_but_on_plain_sums_and_accuracy(options):
    spec = OracleSpec(**{"n": 50, "clip": 0.01} | options)
    known = options == {"clip": None} and math.isfinite(defences.answer_range(spec))
    assert (defences._count_read_through_ladder(spec, 0.1, 10, 0) is None) is not known


@pytest.mark.parametrize("metric", ["log_loss", "accuracy", "mae", "squared_euclidean"])
@pytest.mark.parametrize(("queries", "asked"), [(2, 1), (11, 10), (51, 50), (99, 50)])
def test_a_fine_ladder_gives_a_label_for_each_query_but_the_first(metric, queries, asked):
    spec = OracleSpec(metric, n=50, clip=0.01, decimals=1)
    # A new answer for the right labels alone: all are read.
    assert defences._count_read_through_ladder(spec, 1e-6, queries, 0) == asked
    # A step that no label is worth: all are guessed alike, and the ones among the asked are wrong.
    y = seeds.generator(0, "labels", "menu").integers(0, 2, 50)[:asked]
    assert defences._count_read_through_ladder(spec, 1e3, queries, 0) == max(0, 2 * int((y == 0).sum()) - asked)


def test_preferred_predictions_are_as_sure_as_the_loss_goes():
    preferences = np.array([0.0, 1.0])
    assert defences._preferred_predictions(OracleSpec("accuracy", n=2), preferences) is preferences
    rows = defences._preferred_predictions(OracleSpec(n=2, clip=0.01), preferences)
    assert rows[0, 0] > 0.98
    assert rows[1, 1] > 0.98
    assert defences._preferred_predictions(OracleSpec("mae", n=2), preferences) == pytest.approx([0.0, 1.0])


MENU = OracleSpec(n=40, clip=0.01, decimals=3)


def test_the_menu_lists_each_defence_with_its_setting_and_season(monkeypatch):
    monkeypatch.setattr(defences, "rank_correlation", lambda spec, show_scores, seed: seed)
    items = labels.menu(MENU, days=4, per_day=3, public=0.25, decimals=1, step=0.5, seed=0)
    assert [item.cost for item in items] == [0] * 5
    assert [(item.name, item.setting, item.queries) for item in items] == [
        ("as it is", "3 submissions a day for 4 days", 12),
        ("private split", "10 of 40 rows are public", 12),
        ("submissions per day", "1 submission a day", 4),
        ("rounding", "1 decimals", 12),
        ("ladder", "a new score only 0.5 better than the team's best", 12),
    ]
    split = replace(MENU, scored=10)
    readable = [
        defences._readable_labels(MENU, 12), min(10, defences._readable_labels(split, 12)),
        defences._readable_labels(MENU, 4), defences._readable_labels(replace(MENU, decimals=1), 12),
        min(40, defences._readable_through_ladder(MENU, 0.5, 12)),
    ]  # fmt: skip
    assert [item.readable for item in items] == readable
    assert [item.read for item in items] == [
        defences._count_read_labels(MENU, 12, 0), defences._count_read_labels(split, 12, 0),
        defences._count_read_labels(MENU, 4, 0), defences._count_read_labels(replace(MENU, decimals=1), 12, 0),
        defences._count_read_through_ladder(MENU, 0.5, 12, 0),
    ]  # fmt: skip
    assert all(item.read is None or item.read <= item.readable for item in items)


def test_the_menu_of_a_range_has_no_attack_and_no_cost():
    items = labels.menu(OracleSpec(labels.KnownRange(0, 0.5), n=40), days=2, per_day=2)
    assert [item.read for item in items] == [None] * 5
    assert [item.cost for item in items] == [None] * 5
    assert f"only {0.5 / (2 * math.sqrt(40)):.3g} better" in items[-1].setting
    wide = labels.menu(OracleSpec(labels.KnownRange(0, 9), n=40, decimals=1), days=2, per_day=2, decimals=3)
    assert f"only {1 / (2 * math.sqrt(40)):.3g} better" in wide[-1].setting
    assert wide[3].setting == "1 decimals"


@pytest.mark.parametrize(
    ("n", "public", "message"),
    [
        (10, 0.04, r"public: of 10 rows, 0.04 leaves 0 public; both parts need a row"),
        (10, 0.96, r"public: of 10 rows, 0.96 leaves 10 public"),
    ],
)
def test_both_parts_of_a_split_need_a_row(n, public, message):
    with pytest.raises(InputError, match=message):
        labels.menu(OracleSpec(n=n, clip=0.01), public=public)
    with pytest.raises(InputError, match="scored: the menu starts from an oracle that scores all rows, got 3"):
        labels.menu(OracleSpec(n=n, clip=0.01, scored=3))
    metric = labels.KnownRange(0, 1)
    assert labels.menu(OracleSpec(metric, n=n), public=0.06)[1].setting == "1 of 10 rows are public"
    assert labels.menu(OracleSpec(metric, n=n), public=0.94)[1].setting == "9 of 10 rows are public"


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
        ({"metric": "f1", "decimals": 1}, math.log2(11), "rounding", 1 / 100),
        (
            {"metric": "auc"},
            math.log2(2 + sum(2 * s * (50 - s) - 1 for s in range(1, 26))),
            "number of labels",
            1 / 100,
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
    ("metric", "decimals", "bits"),
    [
        (labels.KnownRange(0, 1), 2, math.log2(101)),
        (labels.KnownRange(-1, 2), 1, math.log2(31)),
        (labels.Evaluated(lambda y, p: 0.0, low=0, high=1, name="f"), 2, math.log2(101)),
        (labels.Evaluated(lambda y, p: 0.0, name="f"), 2, 64),
        ("mcc", 2, math.log2(202)),
        ("balanced_accuracy", 1, math.log2(12)),
        ("r2", 2, 64),
        ("mcc", None, 64),
    ],
)
def test_the_capacity_of_a_range_is_that_of_its_different_answers(metric, decimals, bits):
    found = labels.capacity(OracleSpec(metric, n=100, decimals=decimals))
    assert found.bits_per_query == pytest.approx(bits)
    assert found.binds == ("float arithmetic" if decimals is None else "rounding")
    assert math.isnan(found.threshold)
    assert "readable while" not in str(found)


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


def test_float_arithmetic_leaves_half_a_unit_in_the_last_place():
    spec = OracleSpec(n=50, clip=0.01)
    idle = math.log(2)
    assert defences._smallest_float_error(spec, R) == pytest.approx(np.spacing(idle) / 2)
    assert defences._smallest_float_error(replace(spec, reduction="sum"), R) == pytest.approx(50 * np.spacing(idle) / 2)
    assert defences._smallest_float_error(replace(spec, float_dtype="float32"), R) == pytest.approx(
        float(np.spacing(np.float32(idle))) / 2
    )
    assert defences._smallest_float_error(spec, math.inf) == 0.0
    bits = math.log2(2 + R / np.spacing(idle))
    found = labels.capacity(replace(spec, n=500))
    assert (found.bits_per_query, found.binds) == (pytest.approx(bits, rel=1e-3), "float arithmetic")
    assert labels.capacity(OracleSpec("softmax_cross_entropy", n=500, float_dtype="float32")).bits_per_query == 32


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_counting_metrics_take_no_more_values_than_are_counted(n):
    every = [np.array(y) for y in itertools.product((0, 1), repeat=n)]
    for metric in ("accuracy", "f1", "auc"):
        spec = OracleSpec(metric, n=n)
        most = 0
        submissions = (
            [np.arange(n) < p for p in range(n + 1)] if metric != "auc" else [np.arange(n) / n, np.arange(n) // 2]
        )
        for submission in submissions:
            values = set()
            for y in every:
                if metric != "auc" or 0 < y.sum() < n:
                    values.add(round(LocalOracle(spec, y).exact(submission.astype(float)), 12))
            most = max(most, len(values))
        assert most <= defences._count_values(spec)
        if metric == "accuracy":
            assert most == defences._count_values(spec)
    assert defences._count_values(OracleSpec("f1", n=n)) == 1 + max(p * (n - p + 1) for p in range(n + 1))


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_noise_adds_the_odds_of_unbalanced_labels(kind):
    spec = OracleSpec("f1", n=100, noise=0.5, noise_kind=kind)
    effect = 2 / (99 / 4)
    apart = defences.total_variation(spec, effect, 3)
    assert defences.max_accuracy(spec, 3) == pytest.approx(0.5 + 0.5 * apart + math.exp(-99 / 8))
    assert defences.max_accuracy(replace(spec, noise_kind="bounded"), 3) == 1.0
    rounded = replace(spec, noise=0.001, decimals=0)
    assert defences.max_accuracy(rounded, 3) == pytest.approx(defences.counting_bound(rounded, 3))


def test_the_metric_that_a_team_is_better_at_is_larger():
    for name in ("accuracy", "f1", "auc", "mcc", "r2", "map_at_k", "balanced_accuracy", "quadratic_weighted_kappa"):
        assert defences.is_larger_better(OracleSpec(name, n=5))
    for name in ("log_loss", "mse", "mae", "squared_euclidean"):
        assert not defences.is_larger_better(OracleSpec(name, n=5))
    assert defences.is_larger_better(OracleSpec(labels.Evaluated(lambda y, p: 0.0, name="f"), n=5))


UNCLIPPED, CLIPPED, RANKS = OracleSpec(n=2, clip=None), OracleSpec(n=2, clip=0.01), OracleSpec("auc", n=2)
IMPOSSIBLE = np.array([[0.0, -2000.0], [0.0, -2000.0]])


def test_a_team_whose_loss_overflows_or_is_undefined_scores_nothing():
    assert defences.team_score(UNCLIPPED, np.array([0, 1]), IMPOSSIBLE) == 0.0
    assert defences.team_score(UNCLIPPED, np.array([0, 0]), IMPOSSIBLE) == 0.0
    assert defences.team_score(CLIPPED, np.array([0, 1]), IMPOSSIBLE) > 2
    assert defences.team_score(RANKS, np.array([1, 1]), IMPOSSIBLE) == 0.0
    assert defences.team_score(RANKS, np.array([0, 1]), IMPOSSIBLE) == 0.5


@pytest.mark.parametrize("classes", [2, 4])
def test_a_defence_gathers_its_settings_and_the_cost_of_each_remedy(monkeypatch, classes):
    spec = replace(LOG_LOSS, n=3000, classes=classes)
    asked = []
    monkeypatch.setattr(defences, "defended_scores", lambda defended, flip: (defended, flip))
    monkeypatch.setattr(
        defences, "rank_correlation", lambda original, shown, seed: asked.append((original, shown, seed)) or len(asked)
    )
    found = labels.defend(spec, 30, 0.8, seed=5)
    assert (found.queries, found.accuracy) == (30, 0.8)
    assert found.noise == defences._required_noise(spec, 30, 0.8)
    assert found.decimals == defences._allowed_decimals(spec, 30, 0.8)
    assert found.clip == defences._required_clip(spec, 30, 0.8)
    assert found.query_cap == defences._query_cap(spec, 0.8)
    assert found.epsilon == pytest.approx(math.log(0.8 * (classes - 1) / 0.2))
    assert set(found.formulas) == {"noise", "decimals", "clip", "query_cap", "epsilon"}
    plain = defences._list_remedies(spec, 30, 0.8)
    assert [replace(remedy, cost=None) for remedy in found.remedies] == list(plain)
    assert [remedy.cost for remedy in found.remedies] == list(range(1, 1 + len(plain)))
    assert asked == [(spec, (remedy.spec, remedy.flip), 5) for remedy in plain]


@pytest.mark.parametrize("queries", [1, 20])
def test_a_clip_is_recommended_where_rounding_or_noise_leaves_its_effect_to_it(queries):
    rounded = replace(LOG_LOSS, n=300, clip=1e-9, decimals=2)
    clip = defences._required_clip(rounded, queries, 0.7)
    assert defences.max_accuracy(replace(rounded, clip=clip), queries) <= 0.7 + 1e-9
    assert 0 < clip < 0.5
    assert defences._required_clip(replace(rounded, decimals=None), 100, 0.7) is None
    assert defences._required_clip(OracleSpec("mae", n=300, decimals=2), queries, 0.7) is None
    # Where any clip suffices, the smallest there is: of a logit of 700.
    generous = replace(LOG_LOSS, n=10**6, decimals=0)
    assert defences._required_clip(generous, 1, 0.99) == pytest.approx(1 / (1 + math.exp(700)), rel=1e-9)
    hopeless = replace(LOG_LOSS, n=2, decimals=15)
    assert defences._required_clip(hopeless, 99, 0.6) is None
