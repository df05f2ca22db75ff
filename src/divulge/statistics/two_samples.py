"""Tests whether two samples come from one distribution.

The p-values are valid for all sample sizes, also very unequal ones, and for scores with ties. (The normal approximation
of the rank sum is not valid if most scores are equal.)
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from scipy import stats

from divulge import lazy, seeds
from divulge.errors import InputError
from divulge.validation import as_list, check_integer, check_number, check_strings, format_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sklearn.feature_extraction import text as sklearn_text

    from divulge.types import Array, Floats, Ints
else:
    sklearn_text = lazy.module("sklearn.feature_extraction.text")

Alternative: TypeAlias = Literal["two-sided", "greater"]

_MAX_EXACT = 1000  # sample size up to which Smirnov's exact distribution is used
_GROUPS = 32  # of neighbouring scores; the rank sum of groups loses 0.1 % of the power
_DIVISIONS = (999, 9_999)  # permutations; the second number if the first gives a p-value of at most 0.1


def two_sample_p_value(known: Floats, other: Floats, *, seed: int = 0) -> float:
    """Return twice the smaller p-value of Smirnov's test (any difference) and of the rank-sum test (a shift).

    Args:
        known: scores ``[n]``.
        other: scores ``[h]``.
        seed: of the permutations of `rank_sum_p_value`.

    Examples:
        >>> two_sample_p_value(np.arange(10.0), np.arange(10.0) + 0.5) > 0.9
        True
        >>> two_sample_p_value(np.arange(50.0), np.arange(50.0) + 30) < 1e-6
        True
    """
    return min(1.0, 2 * min(smirnov_p_value(known, other), rank_sum_p_value(known, other, seed=seed)))


def smirnov_p_value(known: Floats, other: Floats) -> float:
    """Return the two-sided p-value of Kolmogorov and Smirnov's test; with ties it is conservative."""
    method = "exact" if max(len(known), len(other)) <= _MAX_EXACT else "asymp"
    with warnings.catch_warnings():  # SciPy warns if rounding takes the p-value of equal samples above 1.
        warnings.filterwarnings("ignore", "ks_2samp: Exact calculation unsuccessful", RuntimeWarning)
        return float(stats.ks_2samp(known, other, method=method).pvalue)


def rank_sum_p_value(known: Floats, other: Floats, *, alternative: Alternative = "two-sided", seed: int = 0) -> float:
    """Return the p-value of Mann and Whitney's test; "greater" tests whether ``other`` scores higher.

    Without ties it is the normal approximation with continuity correction, which is conservative for all sizes. With
    ties it is a permutation p-value (999 permutations; 9,999 if these give at most 0.1), so its smallest value is 1e-4;
    more than 32 distinct scores are grouped by rank.

    Args:
        known: scores ``[n]``.
        other: scores ``[h]``.
        alternative: "two-sided" or "greater".
        seed: of the permutations.

    Examples:
        >>> rare = np.repeat([0.0, 1.0], [990, 10]), np.repeat([0.0, 1.0], [18, 2])
        >>> 0.01 < rank_sum_p_value(*rare) < 0.05  # a normal approximation says 2e-4
        True
    """
    pooled = np.concatenate([known, other])
    if len(np.unique(pooled)) == len(pooled):
        return float(stats.mannwhitneyu(other, known, alternative=alternative, method="asymptotic").pvalue)
    rank = stats.rankdata(pooled)
    _, group, size = np.unique(_group_by_rank(pooled, rank), return_inverse=True, return_counts=True)
    score = np.bincount(group, weights=rank) / size
    part = np.bincount(group[len(known) :], minlength=len(size))
    rng = seeds.generator(seed, "rank sum")
    method = "count" if len(pooled) < 16 * len(size) else "marginals"
    mean, tolerance = len(other) * (len(pooled) + 1) / 2, 1e-9 * len(pooled)
    observed = float(part @ score) - mean
    p = 0.0
    for divisions in _DIVISIONS:
        sums = rng.multivariate_hypergeometric(size, len(other), size=divisions, method=method) @ score - mean
        as_extreme = sums >= observed - tolerance
        if alternative == "two-sided":
            as_extreme = np.abs(sums) >= abs(observed) - tolerance
        p = (1 + int(as_extreme.sum())) / (divisions + 1)
        if p > 0.1:
            break
    return p


def _group_by_rank(pooled: Floats, rank: Floats) -> Array:
    """Return the scores, or their groups by rank if there are many distinct ones; equal scores share a group."""
    if len(np.unique(pooled)) <= _GROUPS:
        return pooled
    return np.floor((rank - 0.5) / len(pooled) * _GROUPS)


_MIN_TEXTS = 5  # texts that must contain a word for it to be tested
_MAX_SHOWN_CHARACTERS = 40  # of a word in a description
_YEAR = re.compile(r"\b(?:1[5-9]|20)\d\d\b")


@dataclass(frozen=True, slots=True)
class TextDifference:
    """One difference between two sets of texts.

    Args:
        what: description.
        p_value: of the difference, corrected for the number of tests.
        first: whether there is more of it (a word more frequent, later years, longer texts) in the first set.

    Examples:
        >>> print(TextDifference("“yes” is in 40 % of the members and 3 % of the non-members", 1e-9, first=True))
        “yes” is in 40 % of the members and 3 % of the non-members
    """

    what: str
    p_value: float
    first: bool

    def __str__(self) -> str:
        return self.what


def text_differences(
    texts: Sequence[str],
    others: Sequence[str],
    *,
    names: tuple[str, str] = ("members", "non-members"),
    false_alarm: float = 0.01,
    most: int = 8,
    seed: int = 0,
) -> tuple[TextDifference, ...]:
    """Return the words, years and lengths by which two sets of texts differ, most significant first.

    Every word in five or more texts is tested by the number of texts with it (Fisher's exact test), years and lengths
    by their ranks (Mann and Whitney). Words share half of ``false_alarm`` by Bonferroni's correction, years and lengths
    the other half. So a difference between exchangeable sets is reported with probability at most ``false_alarm``.

    Args:
        texts: of the first set.
        others: of the second set.
        names: of the two sets, for the descriptions.
        false_alarm: probability of reporting any difference between exchangeable sets.
        most: maximum number of differences.
        seed: of the permutations that are used if ranks tie.

    Raises:
        divulge.InputError: something that is not a list of texts, no texts, numbers out of range.

    Examples:
        >>> old, new = [f"the king of {i}" for i in range(40)], [f"a tweet of {i}" for i in range(40)]
        >>> print(text_differences(old, new, names=("old", "new"))[0])
        “a” is in 0 % of the old and 100 % of the new
    """
    first_texts, second_texts = check_strings(texts, "texts"), check_strings(others, "others")
    for name, checked_texts in (("texts", first_texts), ("others", second_texts)):
        if not checked_texts:
            raise InputError(f"{name}: at least 1 text is needed, got none")
    bound = check_number(false_alarm, "false_alarm", above=0, below=1)
    max_differences = check_integer(most, "most", least=1)
    checked_seed = check_integer(seed, "seed", least=0)
    if len(as_list(names, "names")) != 2:
        raise InputError(f"names: two are needed, got {format_value(names)}")
    word_tests = list(_compare_words(first_texts, second_texts, names))
    rank_tests = list(_compare_years_and_lengths(first_texts, second_texts, names, checked_seed))
    differences = [
        TextDifference(test.what, min(1.0, 2 * len(family) * test.p_value), test.first)
        for family in (word_tests, rank_tests)
        for test in family
    ]
    significant = [difference for difference in differences if difference.p_value <= bound]
    return tuple(sorted(significant, key=lambda test: (test.p_value, test.what))[:max_differences])


def _compare_words(texts: Sequence[str], others: Sequence[str], names: tuple[str, str]) -> Iterator[TextDifference]:
    """Compare each word by the number of texts that contain it."""
    counter = sklearn_text.CountVectorizer(binary=True, token_pattern=r"\w+", min_df=_MIN_TEXTS)  # noqa: S106 - no password
    try:
        table = counter.fit_transform([*texts, *others])
    except ValueError:  # No word is in so many texts.
        return
    n, m = len(texts), len(others)
    n_first = np.asarray(table[:n].sum(axis=0)).ravel().astype(np.int64)
    n_total = np.asarray(table.sum(axis=0)).ravel().astype(np.int64)
    p_values = _fisher_p_values(n_first, n_total, n, m)
    for word, count, p in zip(counter.get_feature_names_out(), n_first, p_values, strict=True):
        second_count = n_total[counter.vocabulary_[word]] - count
        shortened = word if len(word) <= _MAX_SHOWN_CHARACTERS else f"{word[:_MAX_SHOWN_CHARACTERS]}…"
        text = f"“{shortened}” is in {count / n:.0%} of the {names[0]} and {second_count / m:.0%} of the {names[1]}"
        yield TextDifference(text.replace("%", " %"), float(p), bool(count / n > second_count / m))


def _fisher_p_values(n_first: Ints, n_total: Ints, n: int, m: int) -> Floats:
    """Return two-sided p-values of Fisher's exact test, as twice the smaller tail."""
    high = stats.hypergeom.sf(n_first - 1, n + m, n_total, n)
    low = stats.hypergeom.cdf(n_first, n + m, n_total, n)
    return np.minimum(2 * np.minimum(high, low), 1.0)


def _compare_years_and_lengths(
    texts: Sequence[str], others: Sequence[str], names: tuple[str, str], seed: int
) -> Iterator[TextDifference]:
    """Compare the newest year that each text names, and the lengths of the texts."""
    sides = texts, others
    years = [[max(map(int, matches)) for text in side if (matches := _YEAR.findall(text))] for side in sides]
    lengths = [[len(text) for text in side] for side in sides]
    for (first_values, second_values), template in (
        (years, "the newest year named is {:.0f} in the median of the {} and {:.0f} in that of the {}"),
        (lengths, "the median length is {:.0f} characters of the {} and {:.0f} of the {}"),
    ):
        if min(len(first_values), len(second_values)) < _MIN_TEXTS:
            continue
        first, second = np.asarray(first_values, dtype=np.float64), np.asarray(second_values, dtype=np.float64)
        p_value = rank_sum_p_value(second, first, seed=seed)
        is_first_larger = bool(stats.mannwhitneyu(first, second).statistic > len(first) * len(second) / 2)
        text = template.format(np.median(first), names[0], np.median(second), names[1])
        if round(np.median(first)) == round(np.median(second)):
            text += f" (on the whole, it is the larger one of the {names[not is_first_larger]})"
        yield TextDifference(text, p_value, is_first_larger)
