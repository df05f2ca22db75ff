"""Words of texts as sparse tables: counts, tf-idf, hashed counts, and runs of words by number.

Words are numbered first, and what stands of several words (pairs, n-grams) is numbered from those: nothing is hashed
where numbers must be exact, and no string is made for what occurs only as a number.

Shapes: ``n`` texts, ``t`` words in all of them, ``v`` columns.
"""

from __future__ import annotations

import itertools
import re
import zlib
from array import array
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from divulge import lazy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray
    from scipy import sparse
else:
    sparse = lazy.module("scipy.sparse")

LONG = r"\b\w\w+\b"
"""Words of two letters or more."""

_LARGEST = 2**62
_MIXERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of splitmix64 (Steele, Lea & Flood 2014)


@dataclass(frozen=True, slots=True, eq=False)
class NumberedWords:
    """The words of texts, one text after the other.

    Args:
        names: the distinct words in alphabetical order, ``[w]``.
        numbers: which of them each word is, ``[t]``.
        offsets: text ``i`` has the words ``offsets[i]:offsets[i + 1]``, ``[n + 1]``.
    """

    names: list[str]
    numbers: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of words of each text, ``[n]``."""
        return np.diff(self.offsets)


@dataclass(frozen=True, slots=True, eq=False)
class WordCounts:
    """How often each text has each word.

    Args:
        names: the distinct words in alphabetical order, ``[w]``.
        table: counts ``[n, v]``: a column for each word, in that order, then one for each pair if there are pairs.
    """

    names: list[str]
    table: sparse.csr_matrix


def number(texts: Iterable[str], split: Callable[[str], Sequence[str]]) -> NumberedWords:
    """Number the words of texts.

    Args:
        texts: ``n`` of them.
        split: a text into its words.

    Examples:
        >>> said = number(["b a b", "", "c"], str.split)
        >>> said.names, said.numbers, said.offsets
        (['a', 'b', 'c'], array([1, 0, 1, 2]), array([0, 3, 3, 4]))
    """
    first: dict[str, int] = defaultdict(itertools.count().__next__)  # a new word takes the next number
    numbers, offsets = array("q"), [0]
    for text in texts:
        numbers.extend(map(first.__getitem__, split(text)))
        offsets.append(len(numbers))
    names = sorted(first)
    place = np.empty(len(names), dtype=np.int64)
    place[[first[name] for name in names]] = np.arange(len(names))
    return NumberedWords(names, place[np.asarray(numbers, dtype=np.int64)], np.array(offsets))


def runs(words: NumberedWords, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The runs of ``size`` words by number, equal numbers for equal runs; no run leaves its text.

    A run is two shorter ones, so that one of 1,000 words takes a dozen steps; they are numbered anew, by sorting, only
    where a pair of numbers would not fit into an integer.

    Returns:
        Numbers ``[r]``, from 0 without gaps, and how many runs each text has, ``[n]``.

    Examples:
        >>> runs(number(["a b a b", "a", "a b"], str.split), 2)
        (array([0, 1, 0, 0]), array([3, 0, 1]))
    """
    counts = np.maximum(words.sizes - size + 1, 0)
    starts = np.repeat(words.offsets[:-1] - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
    if not len(starts):
        return starts, counts
    now = _Runs(1, words.numbers, len(words.names))
    known = [now]
    while now.length < size:
        tail = next(piece for piece in reversed(known) if piece.length <= size - now.length)
        if now.bound * tail.bound > _LARGEST:
            twice = tail is now
            now = now.dense()
            tail = now if twice else tail.dense()
        now = now.followed_by(tail)
        known.append(now)
    return _dense(now.numbers[starts]), counts


class _Runs(NamedTuple):
    """The runs of ``length`` words that start at each word, whatever text they end in: numbers below ``bound``."""

    length: int
    numbers: NDArray[np.int64]
    bound: int

    def dense(self) -> _Runs:
        numbers = _dense(self.numbers)
        return _Runs(self.length, numbers, int(numbers.max()) + 1)

    def followed_by(self, tail: _Runs) -> _Runs:
        after = tail.numbers[self.length :]
        both = self.numbers[: len(after)] * tail.bound + after
        return _Runs(self.length + tail.length, both, self.bound * tail.bound)


def count(texts: Iterable[str], pattern: str = LONG, *, pairs: bool = False) -> WordCounts:
    """Count words, upper and lower case alike.

    Args:
        texts: ``n`` of them.
        pattern: what a word is, as a regular expression.
        pairs: whether two words that follow each other count too.

    Examples:
        >>> found = count(["Red or blue", "red, red"], pairs=True)
        >>> found.names, found.table.toarray().astype(int).tolist()
        (['blue', 'or', 'red'], [[1, 1, 1, 1, 1, 0], [0, 0, 2, 0, 0, 1]])
    """
    numbered = number(texts, _splitter(pattern))
    table = table_of(numbered.numbers, numbered.sizes, len(numbered.names))
    return WordCounts(numbered.names, sparse.hstack([table, table_of(*runs(numbered, 2))]).tocsr() if pairs else table)


def table_of(numbers: NDArray[np.int64], sizes: NDArray[np.int64], columns: int | None = None) -> sparse.csr_matrix:
    """How often each row has each number: float64 ``[n, columns]``, as many columns as numbers by default."""
    width = int(numbers.max(initial=-1)) + 1 if columns is None else columns
    made = sparse.csr_matrix((np.ones(len(numbers)), numbers, np.append(0, np.cumsum(sizes))), (len(sizes), width))
    made.sum_duplicates()
    return made


def tf_idf(table: sparse.csr_matrix, fit_on: Any = slice(None)) -> sparse.csr_matrix:
    """Counts into rows of length 1: ``(1 + ln count)·(1 + ln((1 + n) / (1 + texts with the word)))``.

    Args:
        table: counts ``[n, v]``.
        fit_on: the rows that texts with a word are counted among; all by default.

    Examples:
        >>> tf_idf(count(["red red blue", "red"]).table).toarray().round(2).tolist()
        [[0.64, 0.77], [0.0, 1.0]]
    """
    seen = table[fit_on]
    with_word = np.bincount(seen.indices, minlength=table.shape[1])
    weight = np.log((1.0 + seen.shape[0]) / (1.0 + with_word)) + 1.0
    made = table.astype(np.float64, copy=True)
    made.data = (np.log(made.data) + 1.0) * weight[made.indices]
    return _unit_rows(made)


def hashed(texts: Iterable[str], columns: int) -> sparse.csr_matrix:
    """Counts of words and pairs in a bounded number of columns, rows of length 1, ``[n, columns]``.

    A word's column is a hash of its letters: a row depends on its own text alone, in every process.

    Args:
        texts: ``n`` of them.
        columns: a power of two.

    Examples:
        >>> found = hashed(["Red or blue", "red, or blue!"], 2**10)
        >>> found.shape, bool(np.isclose((found[0] @ found[1].T)[0, 0], 1.0))
        ((2, 1024), True)
    """
    words = number(texts, _splitter(LONG))
    letters = [zlib.crc32(name.encode("utf-8", "surrogatepass")) for name in words.names]
    single = _mixed(np.array(letters, dtype=np.uint64))[words.numbers]
    inside = np.ones(len(single), dtype=bool)
    inside[words.offsets[1:][words.sizes > 0] - 1] = False  # the last word of a text begins no pair
    double = _mixed(single[:-1] * np.uint64(3) + single[1:])[inside[:-1]]
    mask = np.uint64(columns - 1)
    of_words = table_of((single & mask).astype(np.int64), words.sizes, columns)
    return _unit_rows(of_words + table_of((double & mask).astype(np.int64), np.maximum(words.sizes - 1, 0), columns))


def _splitter(pattern: str) -> Callable[[str], list[str]]:
    find = re.compile(pattern).findall
    return lambda text: find(text.lower())


def _dense(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same numbers without gaps."""
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64, copy=False)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Every bit of the result depends on every bit of the value; products wrap around."""
    for shift, factor in zip((30, 27), _MIXERS, strict=True):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))


def _unit_rows(table: sparse.csr_matrix) -> sparse.csr_matrix:
    """Rows scaled to length 1, in place; a row without entries stays."""
    sizes = np.diff(table.indptr)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    length = np.sqrt(np.bincount(rows, weights=table.data**2, minlength=len(sizes)))
    table.data /= length[rows]
    return table
