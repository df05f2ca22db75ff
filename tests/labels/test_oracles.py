"""Oracles of this machine: what they declare, accept and answer."""

import math
from fractions import Fraction

import numpy as np
import pytest

from divulge import labels
from divulge.errors import InputError, UserCodeError
from divulge.labels import metrics, oracles
from divulge.labels.oracles import Ladder, LocalOracle, OracleSpec, QuotaReachedError, compute_score


def share(y, p):
    return float(np.mean(y == p))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n: "),
        ({"n": 10**9 + 1}, "n: "),
        ({"float_dtype": "float8"}, "float_dtype: "),
        ({"reduction": "median"}, "reduction: "),
        ({"summation": "random"}, "summation: "),
        ({"metric": "logloss"}, "metric: "),
        ({"metric": labels.Evaluated(share, depends_on="counts"), "classes": 3}, "depends on counts has 2, got 3"),
        ({"scored": 11}, "scored: at most all 10 rows can be scored, got 11"),
        ({"scored": 0}, "scored: "),
        ({"scored": "some"}, "scored: "),
        ({"submission": "positive", "classes": 3}, "submission: 'positive' needs 2 classes, got 3"),
        ({"submission": "labels"}, "submission: 'labels' is for a metric that is a function"),
        ({"metric": "rmse", "reduction": "sum"}, "reduction: rmse is no sum over rows; use 'mean'"),
        ({"metric": "accuracy", "reduction": "sum"}, "reduction: accuracy is no sum over rows"),
        ({"metric": "accuracy", "classes": 3}, "classes: accuracy is defined for 2 classes here, got 3"),
        ({"metric": "f1", "classes": 3}, "classes: f1 is defined for 2 classes"),
        ({"metric": "auc", "classes": 3}, "classes: auc is defined for 2 classes"),
        ({"metric": "balanced_accuracy", "classes": 3}, "classes: balanced_accuracy is defined for 2 classes"),
        ({"metric": "mcc", "classes": 3}, "classes: mcc is defined for 2 classes"),
        ({"metric": "r2", "classes": 3}, "classes: r2 is defined for 2 classes"),
        ({"metric": "mse", "classes": 3}, "classes: mse is defined for 2 classes here, got 3"),
        ({"class_weight": (1.0,)}, "class_weight: 2 positive weights are needed, got 1"),
        ({"class_weight": (1.0, 0.0)}, "class_weight: "),
        ({"class_weight": (1.0, 2.0), "metric": "mse"}, "class_weight: known for the mean log_loss of 2 classes only"),
        ({"class_weight": (1.0, 2.0), "reduction": "sum"}, "class_weight: known for the mean log_loss"),
        ({"class_weight": (1.0, 2.0, 1.0), "classes": 3}, "class_weight: known for the mean log_loss"),
        ({"clip": "float8"}, "clip: "),
        ({"clip": 0.5}, "clip: "),
        ({"clip": 0.0}, "clip: "),
    ],
)
def test_what_no_endpoint_is_cannot_be_declared(options, message):
    with pytest.raises(InputError, match=message):
        OracleSpec(**{"n": 10} | options)


def test_what_an_endpoint_may_be_can_be_declared():
    assert OracleSpec(n=10**9).n == 10**9
    assert OracleSpec(n=10, scored=10).scored == 10
    assert OracleSpec("quadratic_weighted_kappa", n=10, classes=3).classes == 3
    assert OracleSpec("map_at_k", n=10, classes=3).classes == 3
    assert OracleSpec("mse", n=10, reduction="sum").reduction == "sum"
    assert OracleSpec(share, n=10, submission="labels").metric == labels.Evaluated(share)
    assert OracleSpec(labels.Evaluated(share, depends_on="counts"), n=10).submission == "labels"
    assert OracleSpec(labels.Evaluated(share), n=10).submission == "rows"
    assert OracleSpec(n=10, class_weight=[1, 2]).class_weight == (1.0, 2.0)
    assert OracleSpec(n=10, noise=0.0, noise_kind="gaussian").noise_kind == "bounded"
    assert OracleSpec(n=10, noise=0.1, noise_kind="gaussian").noise_kind == "gaussian"


def test_an_oracle_knows_its_errors_and_its_rows():
    assert [OracleSpec(n=9, clip=c).epsilon for c in (None, "float64", "float32", "float16", 0.25)] == [
        0.0, 2.0**-52, 2.0**-23, 2.0**-10, 0.25,
    ]  # fmt: skip
    assert OracleSpec(n=9, decimals=0).rounding == 0.5
    assert OracleSpec(n=9, decimals=3).rounding == pytest.approx(5e-4)
    assert OracleSpec(n=9).rounding == 0.0
    assert OracleSpec(n=9, decimals=1, noise=0.25).tolerance == pytest.approx(0.3)
    assert OracleSpec(n=9, decimals=1, noise=0.25, noise_kind="laplace").tolerance == 0.05
    assert OracleSpec(n=9).rows_per_answer == 9
    assert OracleSpec(n=9, scored=4).rows_per_answer == OracleSpec(n=9, scored=4).most_scored == 4
    assert OracleSpec(n=9, scored="unknown").most_scored == 9
    assert OracleSpec(n=9, reduction="sum").rows_per_answer == 1
    assert OracleSpec(n=9, class_weight=(0.5, 3.0)).rows_per_answer == 27
    assert OracleSpec(n=9, class_weight=(3.0, 0.5)).rows_per_answer == 27
    for name in oracles.METRIC_NAMES:
        if name not in ("norm_like", "mahalanobis"):
            adds_up = name not in oracles.COUNT_METRICS + oracles.RATIO_METRICS
            assert OracleSpec(name, n=9).adds_up is adds_up
            if not adds_up:
                with pytest.raises(InputError, match=f"metric: {name} is not a sum of per-row losses"):
                    OracleSpec(name, n=9).loss()
    assert not OracleSpec(labels.KnownRange(0, 1), n=9).adds_up
    assert OracleSpec(labels.norm_like(2), n=9).adds_up
    assert OracleSpec(labels.KnownRange(0, 1, name="points"), n=9).name == "points"


def accepted(predictions, n=2, **options):
    try:
        return oracles.check_predictions(OracleSpec(n=n, **options), predictions).tolist()
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("value", [-0.1, 1.1])
@pytest.mark.parametrize(
    "options",
    [
        {"submission": "positive"}, {"metric": "squared_euclidean", "submission": "positive"},
        {"metric": labels.mahalanobis(1.0)}, {"metric": labels.Evaluated(share), "submission": "positive"},
    ],
)  # fmt: skip
def test_probabilities_lie_between_nothing_and_one(options, value):
    assert accepted([0.0, 1.0], **options) == [0.0, 1.0]
    low, high = min(0.5, value), max(0.5, value)
    assert accepted([0.5, value], **options) == f"predictions: must lie in [0, 1], got {low:g} to {high:g}"
    assert accepted([value, 0.5], **options) == f"predictions: must lie in [0, 1], got {low:g} to {high:g}"
    assert "shape (2,) is needed, got (2, 2)" in accepted([[0.5, 0.5], [0.5, 0.5]], **options)


@pytest.mark.parametrize(
    "metric", ["mse", "rmse", "mae", "mape", "sigmoid_cross_entropy", "accuracy", "f1", "auc", "r2"]
)
def test_other_predictions_are_one_number_a_row(metric):
    assert accepted([-3.0, 7.5], metric=metric) == [-3.0, 7.5]
    assert "shape (2,) is needed, got (2, 2)" in accepted([[1, 2], [3, 4]], metric=metric)


def test_logits_are_a_row_a_class_lists_have_any_length_and_classes_their_numbers():
    assert accepted([[-3.0, 7.5], [0, 0]], metric="softmax_cross_entropy") == [[-3.0, 7.5], [0, 0]]
    assert "shape (2, 2) is needed" in accepted([1.0, 2.0], metric="softmax_cross_entropy")
    assert accepted([[3], [-1]], metric="map_at_k", classes=4) == [[3], [-1]]
    for wrong, shape in (([3, 1], "(2,)"), ([[3, 1]], "(1, 2)"), ([[3], [1], [0]], "(3, 1)")):
        assert accepted(wrong, metric="map_at_k") == f"predictions: shape (2, k) is needed, got {shape}"
    for options in (
        {"metric": "mcc"}, {"metric": "balanced_accuracy"}, {"metric": "quadratic_weighted_kappa"},
        {"metric": share, "submission": "labels"},
    ):  # fmt: skip
        assert accepted([0, 1], **options) == [0, 1]
        assert "predictions" in accepted([0, 2], **options)
        assert "shape (2,) is needed" in accepted([[0, 1], [1, 0]], **options)


@pytest.mark.parametrize(
    ("options", "y", "predictions", "score"),
    [
        ({"metric": "mse"}, [0, 1, 1, 0], [0.5, 0.5, 1.0, 1.0], 0.375),
        ({"metric": "mse", "reduction": "sum"}, [0, 1, 1, 0], [0.5, 0.5, 1.0, 1.0], 1.5),
        ({"metric": "rmse"}, [0, 1, 1, 0], [0.0, 0.0, 1.0, 0.0], 0.5),
        ({"metric": "mae"}, [0, 1, 1, 0], [0.5, 0.25, 1.0, 1.0], 0.5625),
        ({"metric": "accuracy"}, [0, 1, 1, 0], [0.5, 0.49, 1.0, 0.0], 0.5),
        ({"metric": "f1"}, [0, 1, 1, 0], [0.5, 0.49, 1.0, 0.0], 0.5),
        ({"metric": "f1"}, [0, 0, 1, 0], [0.5, 0.5, 0.0, 0.0], 0.0),
        ({"metric": "f1"}, [1, 1, 1, 0], [0.5, 0.5, 0.0, 0.0], 0.8),
        ({"metric": "auc"}, [0, 1, 1, 0], [0.1, 0.2, 0.2, 0.2], 0.75),
        ({"metric": "auc"}, [1, 0, 0, 0], [0.1, 0.1, 0.3, 0.0], 0.5),
        ({"metric": "r2"}, [0, 1, 1, 0], [0.0, 0.0, 1.0, 0.0], 0.0),
        ({"metric": "r2"}, [0, 0, 0, 1], [0.0, 0.0, 0.0, 0.0], -1 / 3),
        ({"metric": "r2"}, [1, 1, 1, 1], [1.0, 1.0, 1.0, 1.0], 1.0),
        ({"metric": "r2"}, [1, 1, 1, 1], [1.0, 1.0, 1.0, 0.5], 0.0),
        ({"metric": "map_at_k"}, [0, 1, 1, 0], [[0, 1], [0, 1], [1, 1], [-1, -1]], 0.625),
        ({"metric": "mcc"}, [0, 1, 1, 0], [0, 1, 0, 0], 1 / math.sqrt(3)),
        ({"metric": "mcc"}, [0, 1, 1, 0], [0, 0, 0, 0], 0.0),
        ({"metric": "balanced_accuracy"}, [0, 1, 1, 1], [0, 1, 0, 0], 2 / 3),
        ({"metric": "balanced_accuracy"}, [1, 1, 1, 1], [0, 1, 0, 0], 0.25),
        ({"metric": "balanced_accuracy"}, [0, 0, 0, 0], [0, 1, 0, 0], 0.75),
        ({"metric": "quadratic_weighted_kappa", "classes": 3}, [0, 1, 2, 2], [0, 1, 2, 2], 1.0),
        ({"metric": "quadratic_weighted_kappa", "classes": 3}, [0, 2, 0, 2], [2, 0, 2, 0], -1.0),
        ({"class_weight": (1.0, 3.0)}, [0, 1, 1, 0], [[0.5, 0.5]] * 2 + [[0.75, 0.25]] * 2, None),
    ],
)
@pytest.mark.parametrize("arithmetic", ["numpy", "exact"])
def test_scores_are_those_counted_by_hand(options, y, predictions, score, arithmetic):
    if score is None:
        score = (math.log(2) + 3 * math.log(2) + 3 * math.log(4) - math.log(0.75)) / 8
    oracle = LocalOracle(OracleSpec(**{"n": 4} | options), np.array(y), arithmetic=arithmetic)
    assert oracle.exact(np.array(predictions)) == pytest.approx(score, rel=1e-14, abs=1e-15)


def test_a_kappa_of_one_class_on_both_sides_is_no_score():
    spec = OracleSpec("quadratic_weighted_kappa", n=3, classes=3)
    assert math.isnan(oracles.ratio_score(spec, np.full(3, 2), np.full(3, 2)))
    assert oracles.ratio_score(spec, np.array([2, 2, 1]), np.full(3, 2)) == 0.0


def test_exact_arithmetic_rounds_the_mean_of_the_losses_once():
    rng = np.random.default_rng(0)
    y, p = rng.integers(0, 2, 50), rng.random(50)
    for reduction, rows in (("mean", 50), ("sum", 1)):
        spec = OracleSpec("mse", n=50, reduction=reduction)
        losses = spec.loss().table(p)[np.arange(50), y]
        expected = float(sum(map(Fraction, losses.tolist()), Fraction(0)) / rows)
        assert LocalOracle(spec, y, arithmetic="exact").exact(p) == expected


def test_auc_of_one_class_is_not_defined():
    for y in ([0, 0, 0], [1, 1, 1]):
        with pytest.raises(InputError, match="AUC is not defined when only one class occurs"):
            LocalOracle(OracleSpec("auc", n=3), np.array(y)).exact(np.array([0.1, 0.2, 0.3]))


@pytest.mark.parametrize("pattern", ["edge", "uniform", "plus", "minus"])
def test_bounded_noise_follows_its_pattern(pattern):
    oracle = LocalOracle(OracleSpec("mse", n=2, noise=0.25), np.array([0, 1]), pattern=pattern)
    noise = [oracle([0.0, 1.0]) for _ in range(60)]
    expected = {"edge": {-0.25, 0.25}, "plus": {0.25}, "minus": {-0.25}}
    if pattern == "uniform":
        assert -0.25 <= min(noise) < -0.15
        assert 0.15 < max(noise) <= 0.25
    else:
        assert set(noise) == expected[pattern]
    quiet = LocalOracle(OracleSpec("mse", n=2), np.array([0, 1]), pattern=pattern)
    assert quiet([0.0, 0.5]) == 0.125


@pytest.mark.parametrize(("kind", "deviation"), [("gaussian", 0.2), ("laplace", 0.2 * math.sqrt(2))])
def test_random_noise_has_its_law_and_answers_their_decimals(kind, deviation):
    spec = OracleSpec("mse", n=2, noise=0.2, noise_kind=kind)
    oracle = LocalOracle(spec, np.array([0, 1]))
    noise = np.array([oracle([0.0, 1.0]) for _ in range(3000)])
    assert abs(noise.mean()) < 0.02
    assert noise.std() == pytest.approx(deviation, rel=0.08)
    rounded = LocalOracle(OracleSpec("mse", n=2, noise=0.2, noise_kind=kind, decimals=1), np.array([0, 1]))
    assert all(round(answer, 1) == answer for answer in (rounded([0.0, 1.0]) for _ in range(20)))


def test_a_hidden_split_needs_its_rows():
    y = np.array([0, 1, 1])
    with pytest.raises(InputError, match="has a hidden split; say which rows are scored"):
        LocalOracle(OracleSpec("mse", n=3, scored=2), y)
    with pytest.raises(InputError, match="scored: at least one row must be scored"):
        LocalOracle(OracleSpec("mse", n=3, scored="unknown"), y, scored=np.zeros(3, bool))
    with pytest.raises(InputError, match="the specification says 2 rows, the mask has 1"):
        LocalOracle(OracleSpec("mse", n=3, scored=2), y, scored=np.array([True, False, False]))
    for spec in (OracleSpec("mse", n=3, scored=1), OracleSpec("mse", n=3, scored="unknown"), OracleSpec("mse", n=3)):
        oracle = LocalOracle(spec, y, scored=np.array([False, True, False]))
        assert oracle.exact([9.0, 0.5, 9.0]) == 0.25


def test_a_ladder_shows_an_answer_only_if_it_beats_the_best_by_more_than_a_step():
    answers = iter([1.0, 0.75, 0.5, 0.5, 0.13, 0.2, -0.4])
    ladder = Ladder(lambda _: next(answers), 0.25)
    assert [ladder(None) for _ in range(7)] == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25, -0.5]
    for step in (0, -1.0):
        with pytest.raises(InputError, match="step"):
            Ladder(len, step)
    with pytest.raises(InputError, match="best"):
        Ladder(len, 0.1, math.nan)
    assert Ladder(len, 0.1, -math.inf)([1]) == -math.inf
    with pytest.raises(InputError, match="oracle"):
        Ladder(3, 0.1)
    with pytest.raises(InputError, match="oracle: its answer"):
        Ladder(lambda _: math.nan, 0.1)(None)

    def busy(_):
        raise QuotaReachedError

    with pytest.raises(QuotaReachedError):
        Ladder(busy, 0.1)(None)
    with pytest.raises(UserCodeError):
        Ladder(lambda _: 1 / 0, 0.1)(None)


@pytest.mark.parametrize("submission", ["labels", "positive", "rows"])
def test_random_submissions_are_sure_of_about_half_the_rows(submission):
    spec = OracleSpec(share, n=2000, classes=2 if submission == "positive" else 3, submission=submission)
    drawn = oracles.draw_submission(spec, np.random.default_rng(0))
    if submission == "labels":
        assert set(drawn.tolist()) == {0, 1, 2}
        return
    sure = np.isin(drawn, (0.0, 1.0)) if submission == "positive" else (drawn == 1).any(axis=1)
    assert abs(sure.mean() - 0.5) < 0.05
    if submission == "positive":
        assert drawn.shape == (2000,)
        assert 0 <= drawn.min() < drawn.max() <= 1
        assert abs(drawn[sure].mean() - 0.5) < 0.1
    else:
        assert drawn.shape == (2000, 3)
        np.testing.assert_allclose(drawn.sum(axis=1), 1)
        assert np.abs(drawn[sure].mean(axis=0) - 1 / 3).max() < 0.1
        assert drawn.min() >= 0


def test_ranges_of_metrics_have_two_ends_in_order():
    for low, high, message in (
        (1, 1, "high: must be above low = 1, got 1"), (2, 1, "high: must be above low = 2, got 1"),
        (True, 2, "low: a number is needed"), (0, "1", "high: a number is needed"), (math.nan, 1, "got NaN"),
        (0, 10**400, "high: .* is larger than any float64"), (0, math.inf, "a range with two ends is needed"),
        (-math.inf, 0, "a range with two ends is needed"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            labels.KnownRange(low, high)
    assert labels.KnownRange(0, 1) == labels.KnownRange(0.0, 1.0, "score")
    assert (labels.Evaluated(share).low, labels.Evaluated(share).high) == (-math.inf, math.inf)
    for low, high in ((1, 1), (math.nan, 1)):
        with pytest.raises(InputError):
            labels.Evaluated(share, low=low, high=high)


def test_an_evaluated_metric_is_undefined_where_its_function_says_so():
    metric = labels.Evaluated(lambda y, p: 1 / int(y.sum()))
    values = metric.values([(np.array([1, 1]), None), (np.array([0, 0]), None)])
    assert values[0] == 0.5
    assert math.isnan(values[1])
    assert metric.name.endswith("<lambda>")
    assert labels.Evaluated(share, name="part").name == "part"
    with pytest.raises(UserCodeError):
        metrics.evaluate_metric(metric, np.array([0]), None)
    with pytest.raises(InputError, match="metric: what part returns"):
        metrics.evaluate_metric(labels.Evaluated(lambda y, p: math.inf, name="part"), np.array([0]), None)

    class Score:
        def __call__(self, y, p):
            return 0.0

    assert labels.Evaluated(Score()).name == "Score"


def test_a_matrix_that_is_not_positive_definite_is_refused():
    for matrix, message in (
        ([[1, 1], [1, 1]], "positive definite, but its smallest eigenvalue is 0"),
        ([[1, 3], [-1, 1]], "positive definite, but its smallest eigenvalue is 0"),
        (-1.0, "positive definite, but its smallest eigenvalue is -1"),
        ([1, 2], r"shape \(2, 2\) is needed, got \(2,\)"),
        ([[1.0]], r"shape \(2, 2\) is needed, got \(1, 1\)"),
    ):
        with pytest.raises(InputError, match=message):
            labels.mahalanobis(matrix)
    for alpha in (1.0, 0.5):
        with pytest.raises(InputError, match="alpha"):
            labels.norm_like(alpha)


LABELS = OracleSpec(labels.Evaluated(lambda y, p: math.nan, name="f"), n=2, submission="labels")
BY_COUNTS = OracleSpec(labels.Evaluated(lambda y, p: math.nan, depends_on="counts", name="f"), n=2)


def test_a_metric_of_labels_that_is_undefined_is_refused_and_one_of_counts_is_no_number():
    with pytest.raises(InputError, match="metric: what f returns"):
        compute_score(LABELS, np.array([0, 1]), np.array([0, 1]))
    assert math.isnan(compute_score(BY_COUNTS, np.array([0, 1]), np.array([0, 1])))
