"""What a defence protects and costs, clause by clause, against definitions written down again."""

import itertools
import math
from decimal import ROUND_CEILING, Decimal

import numpy as np
import pytest
from scipy import stats

from divulge import labels
from divulge.errors import InputError
from divulge.labels import defences

LOG_LOSS = labels.OracleSpec(n=40, clip=0.01)


def shown(monkeypatch, spec, y, **options):
    """The labels and predictions that the teams are scored by, and the scores that are shown."""
    scored = []

    def team_score(defended, labels_, evidence):
        scored.append((labels_, evidence))
        return 0.3127 + 0.1 * len(scored)

    monkeypatch.setattr(defences, "team_score", team_score)
    evidence = [np.stack([np.arange(len(y)), np.full(len(y), team)], axis=1) * 1.0 for team in range(3)]
    return scored, defences.defended_scores(spec, **options)(spec, y, evidence, np.random.default_rng(0))


@pytest.mark.parametrize(("share", "rows"), [(1.0, 40), (0.5, 20), (0.31, 12), (0.01, 2), (0.06, 2), (0.07, 3)])
def test_a_public_share_is_scored_on_so_many_rows_the_same_for_all_teams(monkeypatch, share, rows):
    y = np.arange(40) % 2
    scored, _ = shown(monkeypatch, LOG_LOSS, y, share=share)
    for labels_, evidence in scored:
        numbers = evidence[:, 0].astype(int)
        assert len(labels_) == len(set(numbers)) == rows
        np.testing.assert_array_equal(labels_, y[numbers])
        np.testing.assert_array_equal(numbers, scored[0][1][:, 0])
    assert (share == 1) == (scored[0][1][:, 0].tolist() == list(range(40)))


@pytest.mark.parametrize("classes", [2, 3])
def test_labels_are_replaced_by_others_at_the_rate_that_is_said(monkeypatch, classes):
    spec, y = labels.OracleSpec(n=4000, classes=classes, clip=0.01), np.arange(4000) % classes
    for flip in (0.0, 0.25, 1.0):
        scored, _ = shown(monkeypatch, spec, y, flip=flip)
        changed = scored[0][0] != y
        assert abs(changed.mean() - flip) < 0.03
        assert flip not in (0.0, 1.0) or changed.all() == changed.any() == bool(flip)
        assert set(scored[0][0].tolist()) <= set(range(classes))


def test_scores_are_shown_larger_for_better_and_on_the_grid_of_a_ladder(monkeypatch):
    y = np.arange(40) % 2
    exact = np.array([0.4127, 0.5127, 0.6127])
    np.testing.assert_allclose(shown(monkeypatch, LOG_LOSS, y)[1], -exact)
    np.testing.assert_allclose(shown(monkeypatch, labels.OracleSpec("accuracy", n=40), y)[1], exact)
    np.testing.assert_allclose(shown(monkeypatch, labels.OracleSpec("auc", n=40), y, step=0.25)[1], [0.5, 0.5, 0.5])
    np.testing.assert_allclose(shown(monkeypatch, LOG_LOSS, y, step=0.05)[1], [-0.4, -0.5, -0.6])


@pytest.mark.parametrize(
    ("kind", "spread"), [("bounded", 0.2 / math.sqrt(3)), ("gaussian", 0.2), ("laplace", 0.2 * math.sqrt(2))]
)
def test_a_score_has_the_noise_and_the_decimals_of_its_oracle(kind, spread):
    rng = np.random.default_rng(1)
    spec = labels.OracleSpec(n=40, noise=0.2, noise_kind=kind)
    draws = np.array([defences.noisy_score(spec, 0.5, rng) for _ in range(4000)])
    assert abs(draws.mean() - 0.5) < 0.02
    assert draws.std() == pytest.approx(spread, rel=0.1)
    assert kind != "bounded" or np.abs(draws - 0.5).max() <= 0.2
    rounded = labels.OracleSpec(n=40, noise=0.2, noise_kind=kind, decimals=1)
    assert {round(10 * defences.noisy_score(rounded, 0.5, rng), 9) % 1 for _ in range(50)} == {0.0}
    assert defences.noisy_score(labels.OracleSpec(n=40), 0.123456, rng) == 0.123456
    assert defences.noisy_score(labels.OracleSpec(n=40, decimals=2), 0.126, rng) == 0.13


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
    ("n", "classes", "predictions", "competitions"),
    [(10, 2, 2000, 20), (10, 2, 600, 10), (10, 2, 100, 4), (10, 5, 600, 4), (20, 2, 600, 5)],
)
def test_so_many_competitions_are_simulated_as_predictions_allow(monkeypatch, n, classes, predictions, competitions):
    monkeypatch.setattr(defences, "_N_PREDICTIONS", predictions)
    cost = defences.rank_correlation(labels.OracleSpec(n=n, classes=classes), ranked([1]), teams=3)
    assert f"over {competitions} simulated" in cost.method


def test_too_many_rows_are_not_simulated_and_a_range_alone_cannot_be(monkeypatch):
    monkeypatch.setattr(defences, "_MAX_SIMULATED_SIZE", 40)
    assert defences.rank_correlation(labels.OracleSpec(n=20), ranked([1]), teams=3) is not None
    assert defences.rank_correlation(labels.OracleSpec(n=21), ranked([1]), teams=3) is None
    assert defences.rank_correlation(labels.OracleSpec(n=14, classes=3), ranked([1]), teams=3) is None
    assert defences.rank_correlation(labels.OracleSpec(labels.KnownRange(0, 1), n=10), ranked([1]), teams=3) is None
    with pytest.raises(InputError, match="teams"):
        defences.rank_correlation(labels.OracleSpec(n=10), ranked([1]), teams=2)


def test_evidence_is_log_probabilities_that_skill_makes_better():
    y = np.arange(3000) % 3
    evidence = defences.draw_evidence(y, 3, 5, np.random.default_rng(2))
    rng = np.random.default_rng(2)
    shared = rng.normal(size=(3000, 3))
    for skill, found in zip((0.2, 0.525, 0.85, 1.175, 1.5), evidence, strict=True):
        values = (shared + rng.normal(size=(3000, 3))) / math.sqrt(2)
        values[np.arange(3000), y] += skill
        raised = np.exp(skill * values)
        np.testing.assert_allclose(np.exp(found), raised / raised.sum(axis=1, keepdims=True))
    right = [(each.argmax(axis=1) == y).mean() for each in evidence]
    assert right == sorted(right)


EVIDENCE = np.log(np.array([[0.7, 0.3], [0.2, 0.8]]))
THREE = np.log(np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4]]))


def agreement(y, p):
    return float(np.mean(y == p))


@pytest.mark.parametrize(
    ("spec", "evidence", "expected"),
    [
        (labels.OracleSpec(n=2), EVIDENCE, [[0.7, 0.3], [0.2, 0.8]]),
        (labels.OracleSpec(n=2, submission="positive"), EVIDENCE, [0.3, 0.8]),
        (labels.OracleSpec("mse", n=2), EVIDENCE, [0.3, 0.8]),
        (labels.OracleSpec("mae", n=2), EVIDENCE, [0.3, 0.8]),
        (labels.OracleSpec("squared_euclidean", n=2), EVIDENCE, [[0.7, 0.3], [0.2, 0.8]]),
        (labels.OracleSpec("accuracy", n=2), EVIDENCE, [0, 1]),
        (labels.OracleSpec("mcc", n=2), EVIDENCE, [0, 1]),
        (labels.OracleSpec("auc", n=2), EVIDENCE, [0.3, 0.8]),
        (labels.OracleSpec("r2", n=2), EVIDENCE, [0.3, 0.8]),
        (labels.OracleSpec("map_at_k", n=2, classes=4), THREE, [[0, 1, 2], [3, 2, 1]]),
        (labels.OracleSpec("softmax_cross_entropy", n=2), EVIDENCE, EVIDENCE),
        (labels.OracleSpec("sigmoid_cross_entropy", n=2), EVIDENCE, [math.log(3 / 7), math.log(4)]),
        (labels.OracleSpec(labels.Linear(lambda t, y: (t - y) ** 2, -2.0, 4.0), n=2), EVIDENCE, [-0.2, 2.8]),
        (labels.OracleSpec(agreement, n=2, submission="labels"), EVIDENCE, [0, 1]),
        (labels.OracleSpec(agreement, n=2, submission="positive"), EVIDENCE, [0.3, 0.8]),
        (labels.OracleSpec(agreement, n=2, submission="rows"), EVIDENCE, [[0.7, 0.3], [0.2, 0.8]]),
    ],
    ids=lambda part: part.name if isinstance(part, labels.OracleSpec) else "",
)
def test_a_team_submits_what_the_endpoint_takes(spec, evidence, expected):
    np.testing.assert_allclose(defences.team_submission(spec, evidence), expected)


def test_a_score_that_is_undefined_or_overflows_counts_as_nothing():
    assert defences.team_score(labels.OracleSpec("auc", n=2), np.zeros(2, int), EVIDENCE) == 0.0
    assert defences.team_score(labels.OracleSpec("accuracy", n=2), np.array([0, 1]), EVIDENCE) == 1.0
    undefined = labels.Evaluated(lambda y, p: math.inf, name="inf")
    assert defences.team_score(labels.OracleSpec(undefined, n=2), np.array([0, 1]), EVIDENCE) == 0.0


@pytest.mark.parametrize("value", [0.0831004, 0.0831, 1.0, 0.999001, 12345.0, 2.5e-7, 9.991, 99.91])
def test_what_is_printed_is_rounded_up_to_three_digits(value):
    exact = Decimal(repr(value))
    expected = exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), rounding=ROUND_CEILING)
    assert defences._round_up(value) == pytest.approx(float(expected), rel=1e-12)
    assert defences._round_up(value) >= value


@pytest.mark.parametrize(
    ("spec", "difference"),
    [
        (labels.OracleSpec(n=9, clip=0.1), math.log(9)),
        (labels.OracleSpec(n=9, clip=None), math.inf),
        (labels.OracleSpec("squared_euclidean", n=9), 1.0),
        (labels.OracleSpec("squared_euclidean", n=9, classes=3), 2.0),
        (labels.OracleSpec("mae", n=9), 1.0),
        (labels.OracleSpec("mse", n=9), math.inf),
        (labels.OracleSpec("mape", n=9), math.inf),
        (labels.OracleSpec("softmax_cross_entropy", n=9), math.inf),
        (labels.OracleSpec(labels.norm_like(3), n=9), 3.0),
        (labels.OracleSpec(labels.mahalanobis(1.0), n=9), 2.0),
        (labels.OracleSpec(labels.Linear(lambda t, y: (t - y) ** 2, -2.0, 4.0), n=9), 7.0),
    ],
    ids=lambda part: part.name if isinstance(part, labels.OracleSpec) else "",
)
def test_two_labels_of_a_row_differ_by_so_much_at_most(spec, difference):
    assert defences.max_loss_difference(spec) == pytest.approx(difference)
    assert defences.max_label_effect(spec) == pytest.approx(difference / 9)
    assert defences.answer_range(spec) == pytest.approx(difference)


def test_sums_weights_and_splits_change_what_one_label_moves():
    def effect(**options):
        return defences.max_label_effect(labels.OracleSpec(n=10, clip=0.1, **options))

    assert effect() == pytest.approx(math.log(9) / 10)
    assert effect(reduction="sum") == pytest.approx(math.log(9))
    assert effect(class_weight=(0.5, 2.0)) == pytest.approx(math.log(9) * 4 / 10)
    assert effect(scored=4) == pytest.approx(math.log(9) / 4)
    assert defences.answer_range(labels.OracleSpec(n=10, clip=0.1, reduction="sum")) == pytest.approx(10 * math.log(9))
    assert defences.max_label_effect(labels.OracleSpec("mcc", n=10)) == math.inf
    for name, width in (("accuracy", 1), ("f1", 1), ("auc", 1), ("map_at_k", 1), ("mcc", 2), ("r2", math.inf)):
        assert defences.answer_range(labels.OracleSpec(name, n=10)) == width
    assert defences.answer_range(labels.OracleSpec(labels.KnownRange(-1, 3), n=10)) == 4


@pytest.mark.parametrize(
    ("decimals", "bits"), [(0, math.log2(3)), (3, math.log2(1002)), (15, math.log2(2 + 1e15)), (25, 64), (None, 64)]
)
def test_an_answer_holds_as_many_bits_as_there_are_answers_and_64_at_most(decimals, bits):
    assert defences.answer_bits(labels.OracleSpec("accuracy", n=9, decimals=decimals)) == pytest.approx(bits)
    assert defences.answer_bits(labels.OracleSpec("mse", n=9, decimals=3)) == 64


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("accuracy", [0.6, 0.9, 1.0])
def test_bits_are_needed_as_fano_says(classes, accuracy):
    wrong = 1 - accuracy
    entropy = -accuracy * math.log2(accuracy) - (wrong * math.log2(wrong) if wrong else 0)
    expected = 30 * (math.log2(classes) - entropy - wrong * math.log2(classes - 1))
    assert defences.required_bits(labels.OracleSpec(n=30, classes=classes), accuracy) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "clip", "advice"),
    [
        ({"clip": 1e-15}, 0.01, "clip predictions into [0.01, 0.99] and "),
        ({"clip": None}, 0.01, "clip predictions into [0.01, 0.99] and "),
        ({"clip": 0.01}, 0.01, ""),
        ({"clip": 0.2}, 0.2, ""),
    ],
)
def test_a_log_loss_is_clipped_unless_it_is_already(options, clip, advice):
    bounded, told = defences._bound_label_effect(labels.OracleSpec(n=9, **options))
    assert (bounded.epsilon, told) == (clip, advice)


@pytest.mark.parametrize(
    ("metric", "instead", "advice"),
    [
        ("accuracy", "accuracy", ""),
        ("mcc", "mcc", ""),
        ("mae", "mae", ""),
        ("mse", "squared_euclidean", "mse has no bound on the effect of one label: score the mean squared error of "),
        ("rmse", "squared_euclidean", "rmse has no bound on the effect of one label: score the mean squared error of "),
        ("r2", "log_loss", "r2 has no bound on the effect of one label: score the log loss of probabilities clipped "),
        ("softmax_cross_entropy", "log_loss", "into [0.01, 0.99], and "),
    ],
)
def test_a_metric_without_a_bound_is_replaced(metric, instead, advice):
    bounded, told = defences._bound_label_effect(labels.OracleSpec(metric, n=9))
    assert bounded.name == instead
    assert (advice in told) if advice else told == ""


@pytest.mark.parametrize("queries", [1, 5, 39, 40, 60])
def test_of_many_rows_the_share_that_is_asked_one_by_one_counts_as_read(monkeypatch, queries):
    spec = labels.OracleSpec(n=200, clip=0.01, noise=0.004)
    plans = [labels.design(spec), labels.design(spec, "positional")]
    best, slow = min(plan.count for plan in plans), plans[1].count
    monkeypatch.setattr(defences, "_MAX_MEASURED_ROWS", 199)
    expected = 200 if best <= queries else 200 * queries // slow
    assert defences._count_read_labels(spec, queries, 0) == expected


@pytest.mark.parametrize(
    ("queries", "decimals", "noise"), [(3, 2, 0.0), (100, 2, 0.0), (7, 4, 0.0), (3, None, 0.05), (3, 1, 0.001)]
)
def test_labels_are_readable_by_the_bits_of_all_answers(queries, decimals, noise):
    spec = labels.OracleSpec("accuracy", n=50, decimals=decimals, noise=noise)
    bits = 64 if decimals is None else math.log2(2 + 10**decimals)
    if noise:
        bits = min(bits, math.log2(min(51, 1 + 1 / (2 * noise))))
    assert defences._readable_labels(spec, queries) == min(50, math.floor(queries * bits + 1e-9))


@pytest.mark.parametrize("metric", ["accuracy", "log_loss", "mae"])
@pytest.mark.parametrize("queries", [1, 8, 13, 40])
def test_a_ladder_without_a_step_gives_one_label_a_query(metric, queries):
    spec = labels.OracleSpec(metric, n=12, clip=0.01) if metric == "log_loss" else labels.OracleSpec(metric, n=12)
    assert defences._count_read_through_ladder(spec, 1e-9, queries, 0) == min(queries - 1, 12)


@pytest.mark.parametrize(
    "spec",
    [
        labels.OracleSpec(n=12, classes=3),
        labels.OracleSpec(n=12, noise=0.1),
        labels.OracleSpec("f1", n=12),
        labels.OracleSpec("mse", n=12),
        labels.OracleSpec("mcc", n=12),
    ],
    ids=lambda spec: spec.name,
)
def test_no_attack_through_a_ladder_is_known_for_others(spec):
    assert defences._count_read_through_ladder(spec, 1e-9, 5, 0) is None


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
    assert [item.queries for item in items] == [6, 6, 2, 6, 6]
    assert [item.setting for item in items] == [
        "3 submissions a day for 2 days",
        f"{n_public} of 10 rows are public",
        "1 submission a day",
        "3 decimals",
        f"a new score only {1 / (2 * math.sqrt(10)):.3g} better than the team's best",
    ]
    assert items[1].readable <= n_public
    for item in items:
        assert item.read is None or item.read <= item.readable <= 10


def test_the_coarser_of_two_roundings_is_shown_and_a_step_no_wider_than_the_scores():
    spec = labels.OracleSpec(labels.KnownRange(0.0, 0.1), n=16, decimals=1)
    items = {item.name: item.setting for item in labels.menu(spec, decimals=4)}
    assert items["rounding"] == "1 decimals"
    assert items["ladder"] == f"a new score only {0.1 / 8:.3g} better than the team's best"
    with pytest.raises(InputError, match="starts from an oracle that scores all rows"):
        labels.menu(labels.OracleSpec(n=16, scored=8))


def test_capacity_of_a_split_asks_each_row_whether_it_is_scored():
    whole, split = (
        labels.capacity(labels.OracleSpec(n=20, clip=0.01, noise=0.01, scored=scored)) for scored in ("all", 20)
    )
    assert whole.threshold == pytest.approx(math.log(99) / 20 / 2)
    assert split.threshold == pytest.approx(math.log(99) / 20 / 4)
    assert split.labels_per_query == pytest.approx(split.bits_per_query / math.log2(3))
    assert whole.labels_per_query == whole.bits_per_query
    for bound in (whole, split):
        assert bound.queries == math.ceil(20 / bound.labels_per_query - 1e-9)
        assert f"one label is readable while errors stay below {bound.threshold:.3g}" in str(bound)
    unbounded = labels.capacity(labels.OracleSpec("accuracy", n=20))
    assert (unbounded.binds, unbounded.labels_per_query) == ("number of labels", pytest.approx(math.log2(21)))
    tiny = labels.capacity(labels.OracleSpec("mcc", n=20))
    assert (tiny.binds, tiny.labels_per_query, tiny.queries) == ("number of labels", 20, 1)
    assert "readable" not in str(tiny)
    coarse = labels.capacity(labels.OracleSpec("mcc", n=200, decimals=2))
    assert (coarse.binds, coarse.bits_per_query) == ("rounding", pytest.approx(math.log2(202)))
