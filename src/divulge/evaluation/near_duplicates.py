"""Near duplicates: documents that share most of their word n-grams with a document of another set.

A non-member that nearly equals a member looks like one to every attack, so the audit underestimates the leak. A
population with near copies of members gives the auditor more than an adversary would have.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from divulge import lazy
from divulge.errors import InputError
from divulge.validation import check_integer, check_number, check_strings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sklearn.feature_extraction import text as sklearn_text

else:
    sklearn_text = lazy.module("sklearn.feature_extraction.text")

# Limits that keep the time proportional to the number of documents: documents found by one n-gram, documents compared
# in full, documents compared at a time, and rows per block.
_MAX_PER_GRAM, _MAX_COMPARED, _COMPARED_AT_ONCE, _BLOCK_ROWS = 512, 256, 16, 500
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Lookalike:
    """Two similar documents.

    Args:
        row: of the document in the first set.
        other: row of the document in the second set.
        share: of the n-grams of one document that the other has too; the larger of the two shares.
    """

    row: int
    other: int
    share: float


@dataclass(frozen=True, slots=True)
class SharedDocuments:
    """Near duplicates between two sets.

    Args:
        sets: names of the sets.
        sizes: numbers of documents.
        counts: numbers of documents of each set that have a near duplicate in the other.
        examples: some pairs, the most similar first.
    """

    sets: tuple[str, str]
    sizes: tuple[int, int]
    counts: tuple[int, int]
    examples: tuple[Lookalike, ...] = ()

    def __str__(self) -> str:
        first_name, second_name = (name.replace("nonmembers", "non-members") for name in self.sets)
        (n, m), (n_first_shared, n_second_shared) = self.sizes, self.counts
        return (
            f"{n_first_shared:,} of {n:,} {first_name} in {second_name}, "
            f"{n_second_shared:,} of {m:,} {second_name} in {first_name}"
        )


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """Near duplicates between sets of documents, for every two sets.

    Args:
        pairs: members and non-members, then each of these and the population.
        words: length of the n-grams.
        share: smallest share of n-grams with which a document counts.

    Examples:
        >>> print(near_duplicates(["a b c d e f", "x"], ["A, b, c, d, e!", "y"]))
        documents that share at least 50 % of their 5-grams with one of the other set: 1 of 2 members in
        non-members, 1 of 2 non-members in members
    """

    pairs: tuple[SharedDocuments, ...]
    words: int
    share: float

    def __str__(self) -> str:
        descriptions = "; ".join(map(str, self.pairs))
        return (
            f"documents that share at least {self.share:.0%} of their {self.words}-grams with one of the other set: "
            f"{descriptions}".replace("%", " %", 1)
        )


def near_duplicates(
    members: Sequence[str],
    nonmembers: Sequence[str],
    population: Sequence[str] | None = None,
    *,
    words: int = 5,
    share: float = 0.5,
) -> NearDuplicates:
    """Count the documents of each set that have a near duplicate in another set.

    A document counts if a single document of the other set has at least ``share`` of its distinct n-grams of words,
    ignoring case and punctuation. A document of fewer words than ``words`` is one n-gram: it counts only if a document
    of the other set has exactly the same words.

    Time is proportional to the number of documents. Therefore an n-gram in more than 512 documents leads to the first
    512 of them alone, and a document with many such n-grams is compared with the 256 likeliest of those. Where most
    documents have long passages in common, the counts may be too small, never too large.

    Args:
        members: texts ``[m]``.
        nonmembers: texts ``[n]``.
        population: texts ``[z]``, or None.
        words: length of the n-grams.
        share: in (0, 1].

    Raises:
        divulge.InputError: something that is not a list of texts, no texts, numbers out of range.

    References:
        Broder, On the resemblance and containment of documents, 1997.

    Examples:
        >>> texts = near_duplicates(["to be or not to be that is the question"], ["he said to be or not to be that is"])
        >>> texts.pairs[0].counts, texts.pairs[0].examples
        ((1, 1), (Lookalike(row=0, other=0, share=0.666...),))
    """
    size = check_integer(words, "words", minimum=1, maximum=1000)
    min_share = check_number(share, "share", above=0, below=1, closed=True)
    if not min_share:
        raise InputError("share: must be above 0, got 0")
    sets = {"members": members, "nonmembers": nonmembers, "population": population}
    texts = {name: check_strings(value, name) for name, value in sets.items() if value is not None}
    if empty := [name for name, value in texts.items() if not value]:
        raise InputError(f"{empty[0]}: at least 1 text is needed, got none")
    tables = dict(zip(texts, _gram_tables(list(texts.values()), size), strict=True))
    pairs = tuple(
        _shared_documents((first_set, second_set), tables, min_share)
        for first_set, second_set in itertools.combinations(tables, 2)
    )
    return NearDuplicates(pairs, size, min_share)


def _word_grams(text: str, size: int) -> list[bytes]:
    """Return the n-grams of a text; a text of fewer words, or without words, is a single n-gram."""
    tokens = re.findall(r"\w+", text.casefold()) or [text.strip()]
    starts = range(max(len(tokens) - size + 1, 1))
    return [" ".join(tokens[start : start + size]).encode("utf-8", "surrogatepass") for start in starts]


def _gram_tables(sets: Sequence[Sequence[str]], size: int) -> list[Any]:
    """Return for each set a sparse matrix of zeros and ones ``[documents, n-grams]``."""
    # N-grams are hashed to 31 bits; chance collisions are too rare to matter beside a share of n-grams.
    hasher = sklearn_text.HashingVectorizer(
        analyzer=partial(_word_grams, size=size), n_features=2**31 - 1, binary=True, norm=None, alternate_sign=False
    )
    tables = [hasher.transform(texts) for texts in sets]
    _, column = np.unique(np.concatenate([table.indices for table in tables]), return_inverse=True)
    width, ends = int(column.max()) + 1, np.cumsum([table.nnz for table in tables])
    parts = np.split(column.astype(np.int64), ends[:-1])
    return [
        sparse.csr_matrix((np.ones(len(rows), dtype=np.float32), rows, table.indptr), shape=(table.shape[0], width))
        for table, rows in zip(tables, parts, strict=True)
    ]


def _shared_documents(sets: tuple[str, str], tables: dict[str, Any], share: float) -> SharedDocuments:
    first_table, second_table = (tables[name] for name in sets)
    forward_matches = _contained_documents(first_table, second_table, share)
    backward_matches = _contained_documents(second_table, first_table, share)
    pairs: dict[tuple[int, int], float] = {}
    for row, match, contained_share in [
        *forward_matches,
        *((match, row, contained_share) for row, match, contained_share in backward_matches),
    ]:
        pairs[row, match] = max(contained_share, pairs.get((row, match), 0.0))
    most_alike = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:_EXAMPLES]
    examples = tuple(Lookalike(row, match, round(pairs[row, match], 6)) for row, match in most_alike)
    return SharedDocuments(
        sets, (first_table.shape[0], second_table.shape[0]), (len(forward_matches), len(backward_matches)), examples
    )


def _contained_documents(table: Any, other_table: Any, share: float) -> list[tuple[int, int, float]]:
    """Find documents of ``table`` contained in one of ``other_table``: row, the other's row, share of its n-grams."""
    frequency = np.bincount(other_table.indices, minlength=other_table.shape[1])
    sizes = np.diff(table.indptr)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    n_skipped_grams = np.bincount(rows, weights=frequency[table.indices] > _MAX_PER_GRAM, minlength=len(sizes))
    # The number of n-grams that a pair must have in common, among those counted in full.
    min_common = share * sizes - n_skipped_grams - 1e-6
    # A frequent n-gram is looked up in its first documents alone, so that not all pairs of documents are counted;
    # `min_common` allows for the others.
    columns = other_table.tocsc()
    place = np.arange(columns.nnz) - np.repeat(columns.indptr[:-1], np.diff(columns.indptr))
    columns.data[place >= _MAX_PER_GRAM] = 0
    columns.eliminate_zeros()
    gram_index = columns.tocsr().T.tocsr()
    contained: list[tuple[int, int, float]] = []
    for start in range(0, len(sizes), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        likely = (table[block] @ gram_index).tocsr()
        likely.data[likely.data < np.repeat(min_common[block], np.diff(likely.indptr))] = 0
        likely.eliminate_zeros()
        contained += _first_matches(table, other_table, likely, start, share)
    return contained


def _first_matches(table: Any, other_table: Any, likely: Any, start: int, share: float) -> list[tuple[int, int, float]]:
    """Return for each row the likeliest document that contains enough of the row's n-grams."""
    matches: list[tuple[int, int, float]] = []
    # Entries of a row by the number of common n-grams, then by document: their rows, places within the row, documents.
    sizes = np.diff(likely.indptr)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    columns = likely.indices[np.lexsort((likely.indices, -likely.data, rows))].astype(np.int64)
    places = np.arange(len(rows)) - np.repeat(likely.indptr[:-1], sizes)
    waiting = np.ones(likely.shape[0], dtype=bool)
    for start_place in range(0, _MAX_COMPARED, _COMPARED_AT_ONCE):
        is_compared = waiting[rows] & (places >= start_place) & (places < start_place + _COMPARED_AT_ONCE)
        if not is_compared.any():
            break
        own_rows, other_rows = rows[is_compared], columns[is_compared]
        common = table[own_rows + start].multiply(other_table[other_rows]).sum(axis=1)
        n_common = np.asarray(common, dtype=np.float64).ravel()
        contained_share = n_common / np.diff(table.indptr)[own_rows + start]
        matching = np.flatnonzero(contained_share >= share - 1e-9)
        first_matches = matching[np.unique(own_rows[matching], return_index=True)[1]]
        waiting[own_rows[first_matches]] = False
        matches += [(int(own_rows[i]) + start, int(other_rows[i]), float(contained_share[i])) for i in first_matches]
    return sorted(matches)
