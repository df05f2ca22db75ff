"""Whether two samples come from one distribution.

The p-values are valid for any sizes, lopsided ones too, and for scores with ties: a normal approximation
of the rank sum is not when most scores are one value and few others decide.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from scipy import stats
from sklearn.feature_extraction import text as sklearn_text

from divulge import seeds
from divulge.errors import InputError
from divulge.validation import as_list, check_integer, check_number, check_strings, format_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from divulge.types import Array, Floats, Ints

Alternative: TypeAlias = Literal["two-sided", "greater"]

_EXACT = 1000  # scores on a side up to which Smirnov's distribution is counted out
_GROUPS = 32  # of neighbouring scores; the rank sum of groups loses a thousandth of the power
_DIVISIONS = (999, 9_999)  # the second where the first come out below a tenth, and matter


def two_sample_p_value(known: Floats, other: Floats, *, seed: int = 0) -> float:
    """The smaller p-value of Smirnov's test (any difference) and of the rank sum (a shift), doubled.

    Args:
        known: scores ``[n]``.
        other: scores ``[h]``.
        seed: of the divisions that `rank_sum` draws.

    Examples:
        >>> two_sample_p_value(np.arange(10.0), np.arange(10.0) + 0.5) > 0.9
        True
        >>> two_sample_p_value(np.arange(50.0), np.arange(50.0) + 30) < 1e-6
        True
    """
    return min(1.0, 2 * min(smirnov_p_value(known, other), rank_sum_p_value(known, other, seed=seed)))


def smirnov_p_value(known: Floats, other: Floats) -> float:
    """Kolmogorov and Smirnov's two-sided p-value; ties make it larger, never smaller, than it should be."""
    method = "exact" if max(len(known), len(other)) <= _EXACT else "asymp"
    with warnings.catch_warnings():  # samples as alike as can be: SciPy counts a hair more than 1, and then says 1
        warnings.filterwarnings("ignore", "ks_2samp: Exact calculation unsuccessful", RuntimeWarning)
        return float(stats.ks_2samp(known, other, method=method).pvalue)


def rank_sum_p_value(known: Floats, other: Floats, *, alternative: Alternative = "two-sided", seed: int = 0) -> float:
    """Mann and Whitney's p-value; "greater" asks whether ``other`` scores higher.

    Without ties it is the normal approximation with a continuity correction, which errs to the safe side
    for every size. With ties the rank sum is compared with those of random divisions of the pooled scores
    (999, and 9,999 where these come out below a tenth), so its smallest value is 1e-4; more than 32 different
    scores are grouped by rank.

    Args:
        known: scores ``[n]``.
        other: scores ``[h]``.
        alternative: "two-sided" or "greater".
        seed: of the divisions.

    Examples:
        >>> rare = np.repeat([0.0, 1.0], [990, 10]), np.repeat([0.0, 1.0], [18, 2])
        >>> 0.01 < rank_sum_p_value(*rare) < 0.05  # a normal approximation says 2e-4
        True
    """
    pooled = np.concatenate([known, other])
    if len(np.unique(pooled)) == len(pooled):
        return float(stats.mannwhitneyu(other, known, alternative=alternative, method="asymptotic").pvalue)
    rank = stats.rankdata(pooled)
    _, group, size = np.unique(_grouped(pooled, rank), return_inverse=True, return_counts=True)
    score = np.bincount(group, weights=rank) / size
    part = np.bincount(group[len(known) :], minlength=len(size))
    rng = seeds.generator(seed, "rank sum")
    fastest = "count" if len(pooled) < 16 * len(size) else "marginals"
    middle, slack = len(other) * (len(pooled) + 1) / 2, 1e-9 * len(pooled)
    seen = float(part @ score) - middle
    p = 0.0
    for divisions in _DIVISIONS:
        sums = rng.multivariate_hypergeometric(size, len(other), size=divisions, method=fastest) @ score - middle
        beyond = sums >= seen - slack if alternative == "greater" else np.abs(sums) >= abs(seen) - slack
        p = (1 + int(beyond.sum())) / (divisions + 1)
        if p > 0.1:
            break
    return p


def _grouped(pooled: Floats, rank: Floats) -> Array:
    """The scores themselves, or the groups they fall into by rank; equal scores stay together."""
    if len(np.unique(pooled)) <= _GROUPS:
        return pooled
    return np.floor((rank - 0.5) / len(pooled) * _GROUPS)


_LEAST = 5  # texts that a word must be in: fewer tell nothing
_LONGEST = 40  # characters of a word that are shown
_YEAR = re.compile(r"\b(?:1[5-9]|20)\d\d\b")


@dataclass(frozen=True, slots=True)
class TextDifference:
    """One difference between two sets of texts.

    Args:
        what: in words.
        p_value: of the difference, corrected for the number of differences that were looked for.
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
    """The words, years and lengths by which two sets of texts differ, the surest first.

    Every word in five or more texts is tested by the number of texts that it is in (Fisher's exact test), years and
    lengths by their ranks (Mann and Whitney). Bonferroni's correction is for all words with half of ``false_alarm`` and
    for years and lengths with the other half. So of exchangeable sets something is said with probability
    ``false_alarm`` at most.

    Args:
        texts: of the first set.
        others: of the second set.
        names: what to call them.
        false_alarm: chance of saying anything of exchangeable sets.
        most: signs to name at most.
        seed: of the random divisions that ranks with ties are compared with.

    Raises:
        divulge.InputError: something that is not a list of texts, no texts, numbers out of range.

    Examples:
        >>> old, new = [f"the king of {i}" for i in range(40)], [f"a tweet of {i}" for i in range(40)]
        >>> print(text_differences(old, new, names=("old", "new"))[0])
        “a” is in 0 % of the old and 100 % of the new
    """
    one, other = check_strings(texts, "texts"), check_strings(others, "others")
    for name, given in (("texts", one), ("others", other)):
        if not given:
            raise InputError(f"{name}: at least 1 text is needed, got none")
    bound = check_number(false_alarm, "false_alarm", above=0, below=1)
    kept = check_integer(most, "most", least=1)
    start = check_integer(seed, "seed", least=0)
    if len(as_list(names, "names")) != 2:
        raise InputError(f"names: two are needed, got {format_value(names)}")
    words, ranked = list(_words(one, other, names)), list(_ranked(one, other, names, start))
    signs = [
        TextDifference(sign.what, min(1.0, 2 * len(family) * sign.p_value), sign.first)
        for family in (words, ranked)
        for sign in family
    ]
    return tuple(sorted((s for s in signs if s.p_value <= bound), key=lambda s: (s.p_value, s.what))[:kept])


def _words(one: Sequence[str], other: Sequence[str], names: tuple[str, str]) -> Iterator[TextDifference]:
    """Each word, by the number of texts that it is in."""
    counter = sklearn_text.CountVectorizer(binary=True, token_pattern=r"\w+", min_df=_LEAST)  # noqa: S106 - no password
    try:
        table = counter.fit_transform([*one, *other])
    except ValueError:  # no word is in so many texts
        return
    n, m = len(one), len(other)
    mine = np.asarray(table[:n].sum(axis=0)).ravel().astype(np.int64)
    both = np.asarray(table.sum(axis=0)).ravel().astype(np.int64)
    for word, own, p in zip(counter.get_feature_names_out(), mine, _exact(mine, both, n, m), strict=True):
        theirs = both[counter.vocabulary_[word]] - own
        shown = word if len(word) <= _LONGEST else f"{word[:_LONGEST]}…"
        what = f"“{shown}” is in {own / n:.0%} of the {names[0]} and {theirs / m:.0%} of the {names[1]}"
        yield TextDifference(what.replace("%", " %"), float(p), bool(own / n > theirs / m))


def _exact(mine: Ints, both: Ints, n: int, m: int) -> Floats:
    """Fisher's exact test, two-sided: twice the smaller tail."""
    high = stats.hypergeom.sf(mine - 1, n + m, both, n)
    low = stats.hypergeom.cdf(mine, n + m, both, n)
    return np.minimum(2 * np.minimum(high, low), 1.0)


def _ranked(one: Sequence[str], other: Sequence[str], names: tuple[str, str], seed: int) -> Iterator[TextDifference]:
    """The newest years that texts name, and their lengths."""
    years = [[max(map(int, found)) for text in side if (found := _YEAR.findall(text))] for side in (one, other)]
    lengths = [[len(text) for text in side] for side in (one, other)]
    for (mine, theirs), said in (
        (years, "the newest year named is {:.0f} in the median of the {} and {:.0f} in that of the {}"),
        (lengths, "the median length is {:.0f} characters of the {} and {:.0f} of the {}"),
    ):
        if min(len(mine), len(theirs)) < _LEAST:
            continue
        first, second = np.asarray(mine, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
        p_value = rank_sum_p_value(second, first, seed=seed)
        more = bool(stats.mannwhitneyu(first, second).statistic > len(first) * len(second) / 2)
        what = said.format(np.median(first), names[0], np.median(second), names[1])
        if round(np.median(first)) == round(np.median(second)):
            what += f" (on the whole, it is the larger one of the {names[not more]})"
        yield TextDifference(what, p_value, more)
