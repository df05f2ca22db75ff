"""Bounds on ε against loops over the definitions."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from divulge import InputError, seeds
from divulge.evaluation import (
    GaussianMechanism,
    SubsampledGaussian,
    epsilon,
    epsilon_fixed_count,
    epsilon_lower_bound,
    epsilon_one_run,
    one_run_bound,
    surest_records,
)


def upper(k, n, error):
    return stats.beta.isf(error, k + 1, n - k) if k < n else 1.0


def doubled(n):
    return [1 << k for k in range(40) if 1 << k <= n]


def thresholds(inside, outside):
    """Members missed and non-members selected, above each ranked non-member and from each ranked member on."""
    high, low = sorted(outside, reverse=True), sorted(inside)
    pairs = [(sum(x <= high[r - 1] for x in inside), r - 1) for r in doubled(len(outside))]
    return pairs + [(r - 1, sum(x >= low[r - 1] for x in outside)) for r in doubled(len(inside))]


def bounds(pairs, m, n, error, delta):
    """Both bounds on ε at every threshold, with the error divided among them and between two rates."""
    step = error / len(pairs) / 2
    rates = [(upper(fn, m, step), upper(fp, n, step)) for fn, fp in pairs]

    def ratio(tpr, fpr):
        return math.log(max(tpr, 1e-300) / fpr)

    return [ratio(1 - fnr - delta, fpr) for fnr, fpr in rates], [ratio(1 - fpr - delta, fnr) for fnr, fpr in rates]


def draw_scores(shift, seed=0, m=70, n=90, ties=False):
    rng = np.random.default_rng(seed)
    truth = rng.permutation(m + n) < m
    scores = rng.normal(size=m + n) + shift * truth
    return (scores.round() if ties else scores), truth


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("delta", [0.0, 0.02])
@pytest.mark.parametrize("shift", [0.0, 1.5, 4.0, -4.0])
def test_the_bound_is_the_best_of_all_ranked_thresholds_each_at_its_share_of_the_error(shift, delta, ties):
    scores, truth = draw_scores(shift, ties=ties)
    inside, outside = scores[truth], scores[~truth]
    found = epsilon_lower_bound(scores, truth, delta, 0.9)
    of_members, of_others = bounds(thresholds(inside, outside), 70, 90, 0.1, delta)
    expected = max(*of_members, *of_others, 0.0)
    assert found.low == found.value == pytest.approx(expected)
    parts = ["clopper-pearson, bonferroni over thresholds"]
    if expected:
        parts.append("from sure members" if max(of_members) >= max(of_others) else "from sure non-members")
    assert found.method == ", ".join(parts)


def leading(count, turned):
    """So many members above all others; every other record is one of an even row of both kinds."""
    truth = np.arange(600) < 300
    scores = np.where(truth, 2 * (np.arange(600) % 300), 2 * (np.arange(600) % 300) + 1.0)
    scores[: 300 : 300 // count] += 10_000
    return (-scores, ~truth) if turned else (scores, truth)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("count", [30, 100])
def test_the_surest_records_are_those_beyond_the_threshold_of_the_bound(count, turned):
    scores, truth = leading(count, turned)
    found = surest_records(scores, truth, 0.9)
    assert found.members is not turned
    assert (found.total, found.n_others) == (300, 300)
    # The counts give the bound again.
    step = 0.1 / len(thresholds(scores[truth], scores[~truth])) / 2
    rate = 1 - upper(found.total - found.right, 300, step)
    low = epsilon_lower_bound(scores, truth, confidence=0.9).low
    assert math.log(rate / upper(found.wrong, 300, step)) == pytest.approx(low)
    assert ("from sure non-members" in epsilon_lower_bound(scores, truth, confidence=0.9).method) is turned


def test_without_a_bound_no_records_are_sure():
    scores, truth = draw_scores(0.0)
    assert epsilon_lower_bound(scores, truth).low == 0
    assert surest_records(scores, truth) is None


@pytest.mark.parametrize("shift", [-1.0, 0.0, 1.5, 4.0])
def test_the_gaussian_bound_is_that_of_the_largest_distance_of_quantiles(shift):
    scores, truth = draw_scores(shift)
    step = 0.05 / len(pairs := thresholds(scores[truth], scores[~truth])) / 2
    distances = [
        -ndtri(upper(fn, 70, step)) - ndtri(upper(fp, 90, step))
        for fn, fp in pairs
        if upper(fn, 70, step) < 1 and upper(fp, 90, step) < 1
    ]
    found = epsilon_lower_bound(scores, truth, 1e-3, family="gaussian")
    assert found.low == pytest.approx(GaussianMechanism().epsilon(max(0.0, *distances), 1e-3))
    assert found.method.startswith("clopper-pearson, bonferroni; if what the model gives away")


@pytest.mark.parametrize("delta", [0.0, 0.05])
@pytest.mark.parametrize(("m", "n"), [(41, 60), (2, 3), (1, 9), (9, 1)])
def test_one_half_chooses_the_threshold_and_the_other_measures(m, n, delta):
    scores, truth = draw_scores(3.0, 1, m, n)
    rng = seeds.generator(5, "epsilon", "split")
    halves = []
    for side in (np.sort(scores[truth]), np.sort(scores[~truth])):
        first = np.isin(np.arange(len(side)), rng.permutation(len(side))[: len(side) // 2])
        halves.append((side[first], side[~first]))
    (choose_in, measure_in), (choose_out, measure_out) = halves
    expected = 0.0
    if len(choose_in) and len(choose_out):
        # The choice is of one half, its bounds of the whole error.
        cuts = sorted({*choose_in, *choose_out})
        best = max(
            cuts,
            key=lambda cut: max(
                0.0,
                *(ratio[0] for ratio in bounds(
                    [((choose_in <= cut).sum(), (choose_out > cut).sum())], len(choose_in), len(choose_out), 0.05, delta
                )),
            ),
        )  # fmt: skip
        measured = [((measure_in <= best).sum(), (measure_out > best).sum())]
        expected = max(0.0, *(r[0] for r in bounds(measured, len(measure_in), len(measure_out), 0.05, delta)))
    found = epsilon_lower_bound(scores, truth, delta, strategy="split", seed=5)
    assert found.low == pytest.approx(expected)
    assert found.method.startswith("clopper-pearson, split over thresholds")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": SubsampledGaussian(0.5), "delta": 0.1}, "family: None or 'gaussian' is needed here"),
        ({"family": "gaussian"}, "delta: must be above 0 for a family: a Gaussian mechanism has no finite ε at 0"),
    ],
)
def test_families_that_many_runs_cannot_bound_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        epsilon_lower_bound([0.0, 1.0], [False, True], **options)
    if "delta" in options:
        with pytest.raises(InputError, match=message):
            epsilon_fixed_count([0.0, 1.0], [False, True], **options)


@pytest.mark.parametrize("n", [40, 100, 1000])
def test_coins_are_refused_below_one_in_a_thousand_million(n):
    chances = [2 * stats.binom.cdf(k, n, 0.5) for k in range(n // 2)]
    least = next(k for k, chance in enumerate(chances) if chance >= 1e-9)
    for members in (least, n - least):
        epsilon.require_fair_coins(np.arange(n) < members)
    for members in (least - 1, n - least + 1):
        with pytest.raises(InputError, match=f"members: {members} of {n} is no draw of fair coins"):
            epsilon.require_fair_coins(np.arange(n) < members)


@pytest.mark.parametrize("delta", [0.0, 1e-4])
@pytest.mark.parametrize("guesses", [None, 31, 80])
def test_the_bound_of_one_run_is_the_best_of_all_numbers_of_guesses(delta, guesses):
    scores, truth = draw_scores(2.5, 2, 40, 40)
    counts = [80, 40, 20, 10] if guesses is None else [guesses]
    order = np.argsort(scores)
    lows = []
    for count in counts:
        top = count // 2
        wrong = (~truth[order[80 - top :]]).sum() + truth[order[: count - top]].sum()
        lows.append(
            one_run_bound(
                canaries=80, guesses=count, wrong=int(wrong), delta=delta, confidence=1 - 0.05 / len(counts)
            ).low
        )
    found = epsilon_one_run(scores, truth, delta, guesses=guesses)
    assert found.low == pytest.approx(max(lows))
    choice = "bonferroni over 4 numbers of guesses" if guesses is None else "guesses fixed"
    assert found.method == f"one run (Steinke et al. 2023), {choice}"


def test_pairs_of_one_kind_prove_nothing_and_defaults_are_those_of_pure_privacy():
    truth, scores = np.array([True, True, False, False]), np.array([9.0, 8.0, 0.0, 1.0])
    found = [epsilon_fixed_count(scores, truth, seed=seed) for seed in range(9)]
    pairs = [int("of 2 pairs" in each.method) for each in found]
    assert {0, 1} == set(pairs)
    assert all(each.low == 0 for each, mixed in zip(found, pairs, strict=True) if not mixed)
    leaking, included = draw_scores(6.0)
    assert epsilon_fixed_count(leaking, included) == epsilon_fixed_count(leaking, included, 0.0, 0.95, seed=0)
    assert epsilon_fixed_count(leaking, included).low > 0


def test_the_bound_under_a_family_is_its_epsilon_at_the_largest_strength_refuted_and_half_of_it_for_pairs():
    gaussian = epsilon.GuessRule.from_options("gaussian", None, "both", 1e-3)
    strengths = np.linspace(0.5, 1.5, 41)
    refuted = [gaussian.refutes(strength, 50, 40, 6, 0.05) for strength in strengths]
    strength = strengths[sum(refuted) - 1]
    assert refuted == sorted(refuted, reverse=True)
    assert 1 < sum(refuted) < 41
    for swaps, part in ((False, 1), (True, 2)):
        low, high = (GaussianMechanism().epsilon((strength + step) / part, 1e-3) for step in (0, 0.025))
        assert low <= gaussian.epsilon(50, 40, 6, 0.05, swaps=swaps) <= high
    assert gaussian.epsilon(50, 0, 0, 0.05) == 0
