"""What no attacker exceeds: bits of an answer and accuracy about labels, against integrals, grids and enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from sklearn import metrics

from divulge import labels
from divulge.labels import defences as bounds

CLIP = 1e-3
SCORES = {
    "f1": lambda y, p: 2 * (y * (p > 0.5)).sum() / (y.sum() + (p > 0.5).sum()),
    "auc": lambda y, p: np.mean([(a > b) + 0.5 * (a == b) for a in p[y == 1] for b in p[y == 0]]),
}


def spec(**changes):
    return labels.OracleSpec(**{"n": 40, "clip": CLIP, **changes})


def span(epsilon=CLIP):
    return math.log((1 - epsilon) / epsilon)


def test_one_label_moves_the_log_loss_by_at_most_the_logit_of_the_clip():
    probabilities = np.clip(np.linspace(0, 1, 11), CLIP, 1 - CLIP)
    gaps = [
        metrics.log_loss([1], [[1 - p, p]], labels=[0, 1]) - metrics.log_loss([0], [[1 - p, p]], labels=[0, 1])
        for p in probabilities
    ]
    assert bounds.max_loss_difference(spec()) == pytest.approx(np.abs(gaps).max())
    assert bounds.max_loss_difference(spec(clip=None)) == math.inf
    assert bounds.answer_range(spec()) == pytest.approx(span())
    assert bounds.answer_range(spec(reduction="sum")) == pytest.approx(40 * span())


@pytest.mark.parametrize(
    ("metric", "classes", "expected"), [("mae", 2, 1.0), ("squared_euclidean", 2, 1.0), ("squared_euclidean", 3, 2.0)]
)
def test_one_label_moves_bounded_losses_by_the_width_of_their_range(metric, classes, expected):
    assert bounds.max_loss_difference(labels.OracleSpec(metric=metric, n=10, classes=classes)) == expected


def test_one_label_moves_the_mean_by_its_share():
    assert bounds.max_label_effect(spec()) == pytest.approx(span() / 40)
    assert bounds.max_label_effect(spec(reduction="sum")) == pytest.approx(span())
    assert bounds.max_label_effect(spec(class_weight=(0.5, 2.0))) == pytest.approx(span() * 2.0 / (40 * 0.5))
    assert bounds.max_label_effect(labels.OracleSpec(metric="accuracy", n=40)) == 1 / 40


@pytest.mark.parametrize("metric", ["f1", "auc"])
def test_one_label_moves_f1_and_auc_by_no_more_than_their_swing_where_labels_are_balanced(metric):
    n, min_count = 9, 2  # at least a quarter of the other labels are ones, and as many zeros
    rng = np.random.default_rng(0)
    max_change = 0.0
    for other_labels in itertools.product((0, 1), repeat=n - 1):
        if min_count <= sum(other_labels) <= n - 1 - min_count:
            for p in (rng.random(n), np.r_[1.0, other_labels], np.r_[0.0, other_labels]):
                max_change = max(
                    max_change,
                    abs(SCORES[metric](np.r_[1, other_labels], p) - SCORES[metric](np.r_[0, other_labels], p)),
                )
    swing = bounds.max_label_effect(labels.OracleSpec(metric=metric, n=n))
    assert max_change <= swing <= 4 * max_change


@pytest.mark.parametrize(("metric", "sides"), [("accuracy", 0), ("f1", 1), ("auc", 2)])
def test_balance_fails_no_more_often_than_the_bound_says(metric, sides):
    n = 41
    failing = stats.binom.cdf(math.ceil((n - 1) / 4) - 1, n - 1, 0.5)
    rare = bounds.imbalance_probability(labels.OracleSpec(metric=metric, n=n))
    assert sides * failing <= rare
    assert rare == pytest.approx(sides * math.exp(-2 * (n - 1) * 0.25**2))  # Hoeffding


def test_answers_under_noise_are_apart_by_their_total_variation():
    distance, scale = 0.7, 1.3

    def half_the_gap(law):
        return (
            integrate.quad(lambda x: abs(law.pdf(x) - law.pdf(x - distance)), -40, 40, points=(0, distance), limit=200)[
                0
            ]
            / 2
        )

    gaussian = spec(noise=scale, noise_kind="gaussian")
    assert bounds.total_variation(gaussian, distance, 1) == pytest.approx(half_the_gap(stats.norm(scale=scale)))
    # Q answers are one answer with a noise that is √Q times as small.
    assert bounds.total_variation(gaussian, distance, 9) == pytest.approx(half_the_gap(stats.norm(scale=scale / 3)))
    laplace, law = spec(noise=scale, noise_kind="laplace"), stats.laplace(scale=scale)
    affinity = integrate.quad(
        lambda x: math.sqrt(law.pdf(x) * law.pdf(x - distance)), -60, 60, points=(0, distance), limit=200
    )[0]
    for queries in (1, 5):
        assert bounds.total_variation(laplace, distance, queries) == pytest.approx(
            math.sqrt(1 - affinity ** (2 * queries))
        )
    assert half_the_gap(law) <= bounds.total_variation(laplace, distance, 1)


@pytest.mark.parametrize(("classes", "queries"), [(2, 1), (2, 3), (4, 2)])
def test_counting_gives_the_accuracy_at_which_fano_needs_all_bits_told(classes, queries):
    board = spec(n=60, classes=classes, decimals=1)
    bits_in_answers = queries * math.log2(2 + span() * 10)

    def lacking(accuracy):
        wrong = 1 - accuracy
        entropy = stats.entropy([accuracy, wrong], base=2)
        return 60 * (math.log2(classes) - entropy - wrong * math.log2(classes - 1)) - bits_in_answers

    expected = optimize.brentq(lacking, 1 / classes, 1 - 1e-12)
    assert bounds.counting_bound(board, queries) == pytest.approx(expected)
    assert bounds.max_accuracy(board, queries) == pytest.approx(expected)
    assert bounds.counting_bound(board, 60) == 1.0
    # A score that is not rounded is a double.
    assert bounds.answer_bits(spec()) == 64
    assert bounds.answer_bits(spec(decimals=3)) == pytest.approx(math.log2(2 + span() * 1000))


def test_the_limit_under_noise_is_guessing_and_what_the_answers_tell_apart():
    noisy = spec(n=400, noise=0.3, noise_kind="gaussian")
    shift = span() / 400
    expected = 0.5 + 0.5 * (2 * stats.norm.cdf(math.sqrt(20) * shift / 0.6) - 1)
    assert bounds.max_accuracy(noisy, 20) == pytest.approx(expected)
    assert bounds.max_accuracy(spec(n=400, clip=None, noise=0.3, noise_kind="gaussian"), 20) == 1.0


@pytest.mark.parametrize("noise", [1e-3, 0.05])
def test_the_bits_of_an_answer_are_those_of_its_levels(noise):
    capacity = labels.capacity(spec(noise=noise, n=10))
    # Levels further apart than the error on either side, among answers that the labels spread over R.
    assert capacity.bits_per_query == pytest.approx(min(math.log2(1 + span() / (2 * noise)), 10), rel=1e-6)
    assert capacity.labels_per_query == pytest.approx(capacity.bits_per_query)
    assert capacity.queries == math.ceil(10 / capacity.bits_per_query - 1e-9)
    assert (capacity.binds, capacity.span) == ("noise", pytest.approx(span()))
    assert capacity.threshold == pytest.approx(span() / 10 / 2)
    rounded = labels.capacity(spec(decimals=2, n=30))
    assert (rounded.binds, rounded.bits_per_query) == (
        "rounding",
        pytest.approx(math.log2(2 + span() / 0.01), rel=1e-6),
    )
    assert labels.capacity(spec(n=10**6)).binds == "float arithmetic"
    assert labels.capacity(labels.OracleSpec(metric="accuracy", n=30)).binds == "number of labels"


@pytest.mark.parametrize("noise", [0.01, 0.2])
def test_the_bits_of_a_known_range_are_those_of_the_channel(noise):
    """Of width 3: uniform noise of ±τ is told apart in steps of 2τ, and answers vary by half the range at most."""
    metric = labels.KnownRange(-1, 2)
    for noise_kind, bits in (
        ("bounded", math.log2(1 + 3 / (2 * noise))),
        ("gaussian", math.log2(1 + (1.5 / noise) ** 2) / 2),
        ("laplace", math.log2(1 + (1.5 / (noise * math.sqrt(2))) ** 2) / 2 + 0.11),
    ):
        capacity = labels.capacity(labels.OracleSpec(metric=metric, n=100, noise=noise, noise_kind=noise_kind))
        assert capacity.bits_per_query == pytest.approx(bits)
        assert (capacity.binds, capacity.span, capacity.queries) == ("noise", 3, math.ceil(100 / bits - 1e-9))


def test_the_bits_of_counting_metrics_are_those_of_their_values():
    for metric, values in (
        ("accuracy", 31),
        ("f1", 1 + 31**2 // 4),
        ("auc", 2 + sum(2 * ones * (30 - ones) - 1 for ones in range(1, 16))),
    ):
        assert labels.capacity(labels.OracleSpec(metric=metric, n=30)).bits_per_query == pytest.approx(
            math.log2(values)
        )
        rounded = labels.capacity(labels.OracleSpec(metric=metric, n=30, decimals=1))
        assert rounded.bits_per_query == pytest.approx(math.log2(1 + 1 / 0.1))


@pytest.mark.parametrize(
    ("noise_kind", "sigma", "excess_bits"), [("gaussian", 1.0, 0.0), ("laplace", math.sqrt(2), 0.11)]
)
def test_the_bits_under_random_noise_are_those_of_a_gaussian_channel(noise_kind, sigma, excess_bits):
    capacity = labels.capacity(spec(n=40, noise=0.4, noise_kind=noise_kind))
    power = 40 * (span() / 2) ** 2 / (40 * 0.4 * sigma) ** 2
    assert capacity.bits_per_query == pytest.approx(0.5 * math.log2(1 + power) + excess_bits)
    assert capacity.binds == "noise"


def test_without_a_bound_only_the_bits_of_a_float_are_left():
    capacity = labels.capacity(labels.OracleSpec(metric="softmax_cross_entropy", n=500, noise=0.1))
    assert (capacity.bits_per_query, capacity.span) == (64.0, math.inf)


@pytest.mark.parametrize("deviation", [0.2, 0.05])
@pytest.mark.parametrize(("n", "predicted"), [(100, 28), (20, 5)])
def test_one_f1_under_gaussian_noise_tells_no_more_than_the_capacity(n, predicted, deviation):
    """The information of one submission on balanced labels, by exact counts and integration."""
    hits, others = np.meshgrid(np.arange(predicted + 1), np.arange(n - predicted + 1), indexing="ij")
    chances = stats.binom.pmf(hits, predicted, 0.5) * stats.binom.pmf(others, n - predicted, 0.5)
    scores, which = np.unique(np.round(2 * hits / (predicted + hits + others), 10), return_inverse=True)
    chances = np.bincount(which.ravel(), chances.ravel())
    answers = np.linspace(-8 * deviation, 1 + 8 * deviation, 4001)
    density = np.maximum(stats.norm.pdf(answers[:, None], scores, deviation) @ chances, 1e-300)
    told = np.trapezoid(-density * np.log2(density), answers) - np.log2(2 * np.pi * np.e * deviation**2) / 2
    spec = labels.OracleSpec("f1", n=n, noise=deviation, noise_kind="gaussian")
    assert labels.capacity(spec).bits_per_query > told > 0


def test_no_plan_reads_labels_with_fewer_queries_than_the_capacity_needs_whatever_the_unit_of_weights():
    bounds = set()
    for weights in ((1.0, 1.0), (0.001, 0.001), (50.0, 50.0)):
        spec = labels.OracleSpec(n=100, clip=1e-6, decimals=3, class_weight=weights)
        bound = labels.capacity(spec)
        assert bound.queries <= labels.design(spec).count
        bounds.add((bound.queries, round(bound.bits_per_query, 9)))
    assert len(bounds) == 1
