"""Every clause of intervals of rates, rank sums and differences of texts, against enumeration."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from divulge import seeds, statistics
from divulge.errors import InputError
from divulge.statistics import Side, text_differences


def lower(k, n, error):
    return stats.beta.ppf(error, k, n - k + 1) if k else 0.0


def upper(k, n, error):
    return stats.beta.isf(error, k + 1, n - k) if k < n else 1.0


@pytest.mark.parametrize("confidence", [0.95, 0.6])
@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 1), (3, 10), (10, 10), (999, 1000)])
def test_a_proportion_errs_with_half_the_error_at_either_end(successes, trials, confidence):
    found = statistics.proportion(successes, trials, confidence)
    error = (1 - confidence) / 2
    assert (found.value, found.confidence, found.method) == (successes / trials, confidence, "clopper-pearson")
    assert (found.low, found.high) == pytest.approx((lower(successes, trials, error), upper(successes, trials, error)))


@pytest.mark.parametrize(
    ("successes", "trials", "message"),
    [(1, 0, "trials: must be at least 1"), (2, 1, "successes: must lie"), (-1, 1, "successes: must lie")],
)
def test_more_successes_than_trials_are_refused(successes, trials, message):
    with pytest.raises(InputError, match=message):
        statistics.proportion(successes, trials)


@pytest.mark.parametrize("confidence", [0.95, 0.8])
@pytest.mark.parametrize("counts", [(3, 1, 2, 4), (0, 5, 0, 2), (7, 0, 0, 0), (0, 0, 6, 6)])
def test_a_difference_of_paired_rates_counts_trials_that_differ(counts, confidence):
    """Both, the first alone, the second alone, neither; a quarter of the error at each end of either share."""
    cells = [(True, True), (True, False), (False, True), (False, False)]
    pairs = [cell for cell, count in zip(cells, counts, strict=True) for _ in range(count)]
    first, second = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    n, only_first, only_second = len(pairs), counts[1], counts[2]
    error = (1 - confidence) / 4
    found = statistics.paired_rate_difference(first, second, confidence)
    assert found.value == pytest.approx(first.mean() - second.mean())
    assert found.low == pytest.approx(lower(only_first, n, error) - upper(only_second, n, error))
    assert found.high == pytest.approx(upper(only_first, n, error) - lower(only_second, n, error))


def test_paired_rates_are_of_the_same_trials_and_of_one_at_least():
    with pytest.raises(InputError, match="first: at least 1 trial is needed, got 0"):
        statistics.paired_rate_difference([], [])
    with pytest.raises(InputError, match=r"second: 2 values are needed \(one per trial\), got 1"):
        statistics.paired_rate_difference([True, False], [True])
    assert statistics.paired_rate_difference([True], [False]).value == 1


def pooled_z(k, n, j, m):
    share = (k + j) / (n + m)
    return (k / n - j / m) / math.sqrt(share * (1 - share) * (1 / n + 1 / m)) if 0 < share < 1 else 0.0


@pytest.mark.parametrize(("n", "m"), [(1, 1), (4, 9), (9, 4)])
def test_tables_are_ordered_by_the_pooled_z_statistic(n, m):
    for k in range(n + 1):
        for j in range(m + 1):
            assert statistics._pooled_z(np.array([k]), n, np.array([j]), m)[0] == pytest.approx(pooled_z(k, n, j, m))
            extreme = [
                next((i for i in range(n + 1) if pooled_z(i, n, other, m) >= pooled_z(k, n, j, m) - 1e-9), n + 1)
                for other in range(m + 1)
            ]
            assert statistics._min_extreme_counts(k, n, j, m).tolist() == extreme


@pytest.mark.parametrize(
    ("k", "n", "j", "m"), [(3, 5, 1, 4), (5, 5, 0, 4), (0, 3, 3, 6), (8, 10, 2, 9), (30, 40, 3, 25)]
)
@pytest.mark.parametrize("error", [0.025, 0.1])
def test_the_lower_bound_of_a_difference_is_buehlers(k, n, j, m, error):
    """The smallest difference under which tables as extreme have the allowed probability, by a fine grid."""
    least = statistics._min_extreme_counts(k, n, j, m)
    step = error * 0.05
    low, high = lower(j, m, step / 2), upper(j, m, step / 2)

    def chance(p, q):
        return float(stats.binom.pmf(np.arange(m + 1), m, q) @ stats.binom.sf(least - 1, n, p))

    gaps = []
    for q in np.linspace(low, high, 81):
        if chance(1.0, q) > error - step and chance(0.0, q) < error - step:
            gaps.append(brentq(lambda p, q=q: chance(p, q) - (error - step), 0.0, 1.0) - q)
        elif chance(0.0, q) >= error - step:
            gaps.append(-q)
    found = statistics._difference_lower_bound(k, n, j, m, error)
    assert found <= max(-1.0, min(gaps)) + 1e-4
    assert found == pytest.approx(max(-1.0, min(gaps)), abs=2e-4 + 7e-3 * (high - low) + 2e-3)


@pytest.mark.parametrize(("m", "n"), [(2, 3), (3, 2), (2, 2), (6, 5)])
def test_the_interval_of_an_auc_of_few_records_is_brunner_and_munzels(m, n):
    """Without repeated placements; the smaller side needs two records."""
    scores = {(2, 3): ([2.0, 0.5], [1.0, 3.0, 0.0]), (3, 2): ([2.0, 0.5, 4.0], [1.0, 3.0])}.get((m, n))
    rng = np.random.default_rng(m)
    inside, outside = scores or (rng.normal(size=m), rng.normal(size=n))
    truth = np.arange(m + n) < m
    placed, _ = statistics.placements_from_scores(np.r_[inside, outside], truth)
    low, high = statistics._delong(placed, np.array(False), 0.05)
    pairs = np.array([[(a > b) + (a == b) / 2 for b in outside] for a in inside])
    area = pairs.mean()
    if area in (0, 1):
        assert (low, high) == (0, 1)
        return
    v, w = (
        (((pairs.mean(axis=1 - axis) - area) ** 2).sum() + (area - 0.5) ** 2) / (size - 1) / size
        for axis, size in ((0, m), (1, n))
    )
    freedom = (v + w) ** 2 / (v**2 / (m - 1) + w**2 / (n - 1))
    reach = stats.t.ppf(0.975, freedom) * math.sqrt(v + w) / (area * (1 - area))
    logit = math.log(area / (1 - area))
    assert (low, high) == pytest.approx((1 / (1 + math.exp(reach - logit)), 1 / (1 + math.exp(-reach - logit))))
    assert statistics._delong(placed, np.array(True), 0.05) == (0.5, 0.5)
    single, _ = statistics.placements_from_scores(np.array([1.0, 0.0, 2.0]), np.array([True, False, False]))
    assert statistics._delong(single, np.array(False), 0.05) == (0, 1)


def test_an_auc_lies_strictly_between_its_ends_where_it_is_interior():
    assert statistics._is_interior(np.array([0.0, 1e-9, 0.5, 1 - 1e-9, 1.0])).tolist() == [
        False, True, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(("value", "blocks"), [(0.3, 4.0), (0.7, 9.0), (0.5, 1.0)])
def test_chernoffs_end_is_where_the_divergence_reaches_its_limit(value, blocks):
    limit = math.log(40)

    def cost(p):
        return blocks * stats.entropy([value, 1 - value], [p, 1 - p])

    for furthest in (0.0, 1.0):
        inner = value + 1e-9 if furthest else value - 1e-9
        expected = brentq(lambda p: cost(p) - limit, min(inner, abs(furthest - 1e-15)), max(inner, furthest - 1e-15))
        found = statistics._limit_by_chernoff(np.array(value), np.array(blocks), limit, np.array(furthest), furthest)
        assert found == pytest.approx(expected, abs=1e-9)
        nearer = np.array((value + expected) / 2)
        assert statistics._limit_by_chernoff(np.array(value), np.array(blocks), limit, nearer, furthest) == nearer


def test_pairs_of_equal_contributions_are_counted_at_all_levels():
    side = Side(np.array([[0.1, 0.5, 0.1, 0.9], [0.2, 0.3, 0.4, 0.5]]), np.array([[2.0, 1, 3, 0], [1, 0, 0, 0]]))
    assert side.repeated.tolist() == [pytest.approx(20 / 30), 1.0]
    assert side.size.tolist() == [6, 1]
    assert side.mean.tolist() == pytest.approx([(5 * 0.1 + 0.5) / 6, 0.2])


@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("sizes", [(12, 9), (300, 200)])
def test_rank_sums_of_ties_are_those_of_random_divisions(sizes, shift, alternative):
    """Of 999 divisions, and of 9,999 more where these give 0.1 at most; ranks of more than 32 scores in groups."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=sizes[0]).round(1), (rng.normal(size=sizes[1]) + shift).round(1)
    pooled = np.r_[first, second]
    ranks = stats.rankdata(pooled)
    groups = pooled if len(set(pooled)) <= 32 else np.floor((ranks - 0.5) / len(pooled) * 32)
    levels = sorted(set(groups))
    counts = np.array([(groups == level).sum() for level in levels])
    scores = np.array([ranks[groups == level].mean() for level in levels])
    mean = sizes[1] * (len(pooled) + 1) / 2
    observed = sum(scores[levels.index(group)] for group in groups[sizes[0] :]) - mean
    draws = seeds.generator(3, "rank sum")
    method = "count" if len(pooled) < 16 * len(levels) else "marginals"
    for divisions in (999, 9_999):
        sums = draws.multivariate_hypergeometric(counts, sizes[1], size=divisions, method=method) @ scores - mean
        if alternative == "greater":
            extreme = (sums >= observed - 1e-6).sum()
        else:
            extreme = (np.abs(sums) >= abs(observed) - 1e-6).sum()
        expected = (1 + extreme) / (divisions + 1)
        if expected > 0.1:
            break
    found = statistics.rank_sum_p_value(first, second, alternative=alternative, seed=3)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("distinct", [32, 33])
def test_more_than_thirty_two_scores_are_grouped(distinct):
    pooled = np.repeat(np.arange(float(distinct)), 3)
    found = statistics._group_by_rank(pooled, stats.rankdata(pooled))
    assert len(set(found)) <= 32
    assert (found is pooled) == (distinct == 32)


def documents(count, total, word):
    return [f"{word} end" if i < count else "end" for i in range(total)]


def test_words_are_told_with_their_shares_and_direction():
    for first, second, larger in (((20, 40), (1, 50), True), ((1, 50), (20, 40), False)):
        signs = text_differences(documents(*first, "new"), documents(*second, "new"), names=("A", "B"))
        (sign,) = (sign for sign in signs if "“new”" in str(sign))
        assert sign.is_larger_in_first is larger
        shares = f"{100 * first[0] / first[1]:.0f} % of the A and {100 * second[0] / second[1]:.0f} % of the B"
        assert str(sign) == f"“new” is in {shares}"
        table = [[first[0], first[1] - first[0]], [second[0], second[1] - second[0]]]
        tail = min(stats.fisher_exact(table, alternative=side).pvalue for side in ("less", "greater"))
        assert sign.p_value == pytest.approx(2 * tail * 2 * 2)  # of two words, with half of the error for all


@pytest.mark.parametrize(("n_first", "n_total"), [(0, 5), (3, 6), (5, 5), (10, 20)])
def test_fishers_p_value_is_twice_the_smaller_tail_and_one_at_most(n_first, n_total):
    found = statistics._fisher_p_values(np.array([n_first]), np.array([n_total]), 20, 30)[0]
    table = [[n_first, 20 - n_first], [n_total - n_first, 30 - n_total + n_first]]
    tails = [stats.fisher_exact(table, alternative=side).pvalue for side in ("less", "greater")]
    assert found == pytest.approx(min(1.0, 2 * min(tails)))


@pytest.mark.parametrize("texts_with_it", [4, 5])
def test_a_word_is_tested_from_five_texts_on(texts_with_it):
    first = documents(texts_with_it, 5, "new")
    signs = text_differences(first, ["end"] * 300, false_alarm=0.5, max_differences=50)
    assert any("“new”" in str(sign) for sign in signs) == (texts_with_it == 5)


@pytest.mark.parametrize("length", [40, 41])
def test_long_words_are_shown_by_their_beginning(length):
    word = "x" * length
    sign = text_differences([word] * 30, ["end"] * 30)[0]
    others = [str(each) for each in text_differences([word] * 30, ["end"] * 30) if "xx" in str(each)]
    assert others[0].startswith(f"“{word}”" if length == 40 else f"“{'x' * 40}…”")
    assert sign.p_value <= 0.01


@pytest.mark.parametrize(
    ("year", "is_year"), [(1499, False), (1500, True), (2099, True), (2100, False), (19990, False)]
)
def test_years_are_of_six_centuries(year, is_year):
    rng = np.random.default_rng(2)
    old = [f"a {year} {'b' * rng.integers(1, 9)}" for _ in range(30)]
    new = [f"a 1980 1750 {'b' * rng.integers(1, 9)}" for _ in range(30)]
    signs = [str(sign) for sign in text_differences(old, new, max_differences=50)]
    sentence = f"the newest year named is {year} in the median of the members and 1980 in that of the non-members"
    assert (sentence in signs) == is_year


@pytest.mark.parametrize("named", [4, 5])
def test_years_are_compared_where_five_texts_of_either_set_name_one(named):
    old = [f"in {1600 + i}" for i in range(named)] + ["in no year"] * 30
    for first, second in ((old, [f"in {1900 + i}" for i in range(40)]), ([f"in {1900 + i}" for i in range(40)], old)):
        signs = text_differences(first, second, max_differences=99)
        years = [sign for sign in signs if "year named" in str(sign)]
        assert len(years) == (named == 5)
        assert not years or years[0].is_larger_in_first == (first is not old)


def test_lengths_and_years_share_half_of_the_error():
    short, long = ["a" * (3 + i) for i in range(30)], ["a" * (20 + i) for i in range(30)]
    (sign,) = (sign for sign in text_differences(short, long, seed=4) if "median length" in str(sign))
    lengths = [np.array([float(len(text)) for text in side]) for side in (short, long)]
    # Two families at half of the error each; no text names a year.
    assert sign.p_value == pytest.approx(2 * statistics.rank_sum_p_value(lengths[1], lengths[0], seed=4))
    assert str(sign) == "the median length is 18 characters of the members and 34 of the non-members"
    assert not sign.is_larger_in_first


def test_differences_are_ordered_by_their_p_values_then_by_their_words():
    first, second = ["b a x"] * 40, ["c"] * 40
    signs = text_differences(first, second, max_differences=9)
    assert [str(sign)[:3] for sign in signs[:3]] == ["“a”", "“b”", "“c”"]
    limit = signs[-1].p_value
    at_limit = text_differences(first, second, max_differences=9, false_alarm=limit)
    assert len(at_limit) == len(signs)
    assert len(text_differences(first, second, max_differences=9, false_alarm=limit * 0.999)) < len(signs)
    with pytest.raises(InputError, match="other_texts: at least 1 text is needed, got none"):
        text_differences(["a"], [])


@pytest.mark.parametrize("confidence", [0.95, 0.7])
@pytest.mark.parametrize(
    ("inside", "outside"),
    [([1, 2, 2, 3], [0, 1, 2, 2, 1]), ([0] * 9 + [1], [0] * 12), ([1, 1], [1, 1, 1]), ([2.0], [1, 3, 0]),
     ([0, 5, 0, 0, 0, 0], [0, 0, 0, 1, 0]), ([5, 6], [1, 2])],
)  # fmt: skip
def test_both_ends_of_an_auc_are_widened_for_ties_and_limited_by_chernoff(inside, outside, confidence):
    scores, truth = np.array([*inside, *outside], float), np.arange(len(inside) + len(outside)) < len(inside)
    error = 1 - confidence
    pairs = np.array([[(a > b) + (a == b) / 2 for b in outside] for a in inside])
    area, blocks = pairs.mean(), min(pairs.shape)
    placed, _ = statistics.placements_from_scores(scores, truth)

    def repeated(values):
        same = [a == pytest.approx(b) for i, a in enumerate(values) for j, b in enumerate(values) if i != j]
        return np.mean(same) if same else 1.0

    weight = math.sqrt(repeated(pairs.mean(axis=1)) * repeated(pairs.mean(axis=0)))
    assert placed.repeated == pytest.approx(weight)
    constant = 0 < area < 1 and weight >= 1
    low, high = (float(end) for end in statistics._delong(placed, np.array(constant), error))
    part = min(2 * weight, 1)
    if weight:
        upper_bound = float(statistics.gaffke_bound(placed, np.array(weight), 1.0, error / 2))
        lower_bound = -float(statistics.gaffke_bound(-placed, np.array(weight), 0.0, error / 2))
        high, low = high + part * max(upper_bound - high, 0), low - part * max(low - lower_bound, 0)

    def nearer(end, furthest):
        def excess(p):
            return blocks * stats.entropy([area, 1 - area], [p, 1 - p]) - math.log(2 / error)

        if area == furthest or excess(end) <= 0:
            return end
        return brentq(excess, *sorted((area, abs(furthest - 1e-12))))

    found = statistics.auc(scores, truth, confidence)
    assert (found.low, found.high) == pytest.approx((nearer(low, 0.0), nearer(high, 1.0)), abs=1e-6)
    assert (found.method == statistics.DELONG) == (0 < area < 1 and (blocks > 1 or weight >= 1))
    assert (found.value, found.confidence) == (pytest.approx(area), confidence)
