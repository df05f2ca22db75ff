"""Scores of documents against released documents: passages that stand there and nowhere else, and the nearest text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from divulge import lazy

if TYPE_CHECKING:
    from sklearn.feature_extraction import text as text_features

    from divulge.synthetic.scores import Rows
    from divulge.types import Array, Floats, Ints
else:
    text_features = lazy.module("sklearn.feature_extraction.text")

LENGTHS = (1, 2, 3, 4, 5)
"""Words of a passage."""
PASSAGE = f"{LENGTHS[-1]}-grams"
NEAREST = "nearest-text"
TEXT_SCORES = {
    **{f"{n}-grams": f"passages of {n} words that stand in the release and with nobody else in the population, a word"
       for n in LENGTHS},
    NEAREST: "cosine to the most similar released document, by tf-idf",
}  # fmt: skip
"""Scores of documents → what they weigh."""
_WORD = re.compile(r"\w+")
_MAX_FEATURES = 50_000
_BLOCK = 1_000


def score_texts(texts: Array, rows: Rows) -> dict[str, Floats]:
    """Return every score of the rows ``[n]``; larger means more like a document that the generator saw."""
    words, starts = _number_words(texts)
    lengths = np.maximum(np.diff(starts)[rows.scored], 1)
    scores = {f"{n}-grams": _count_copied_passages(words, starts, rows, n) / lengths for n in LENGTHS}
    scores[NEAREST] = _nearest(texts, rows)
    return {name: score for name, score in scores.items() if np.ptp(score) > 0}


def _number_words(texts: Array) -> tuple[Ints, Ints]:
    """Return the number of each word of all texts in one row, and where each text begins in it, ``[n + 1]``."""
    numbers: dict[str, int] = {}
    split = [[numbers.setdefault(word, len(numbers)) for word in _WORD.findall(text.lower())] for text in texts]
    starts = np.cumsum([0, *map(len, split)])
    return np.array([word for each in split for word in each], dtype=np.int64), starts


def _count_copied_passages(words: Ints, starts: Ints, rows: Rows, n: int) -> Floats:
    """Return how many passages of each row stand in the release, and in the population with nobody else."""
    count = len(words) - n + 1
    if count <= 0:
        return np.zeros(len(rows.scored))
    texts = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    inside = texts[:count] == texts[n - 1 :]  # a passage does not run on into the next text
    passages = np.zeros(count, dtype=np.int64)
    for offset in range(n):
        passages = np.unique(passages * (int(words.max()) + 1) + words[offset : offset + count], return_inverse=True)[1]
    passages, texts = passages[inside], texts[:count][inside]
    width = int(passages.max(initial=0)) + 1
    is_released = np.bincount(passages[np.isin(texts, rows.released)], minlength=width) > 0
    in_reference = np.isin(texts, rows.reference)
    pairs = np.unique(np.c_[passages[in_reference], rows.owners[texts[in_reference]]], axis=0)
    persons = np.bincount(pairs[:, 0].astype(np.int64), minlength=width)
    own = np.isin(rows.owners, rows.owners[rows.reference])[texts]
    copied = is_released[passages] & (persons[passages] - own == 0)
    return np.bincount(texts[copied], minlength=len(starts) - 1)[rows.scored].astype(float)


def _nearest(texts: Array, rows: Rows) -> Floats:
    """Return the cosine of each row's text to the most similar released one; idf is that of the population."""
    vectorizer = text_features.TfidfVectorizer(max_features=_MAX_FEATURES, token_pattern=_WORD.pattern)
    try:
        vectorizer.fit(texts[rows.reference])
    except ValueError:  # no word at all
        return np.zeros(len(rows.scored))
    released, scored = vectorizer.transform(texts[rows.released]).T.tocsc(), vectorizer.transform(texts[rows.scored])
    parts = [scored[start : start + _BLOCK] @ released for start in range(0, len(rows.scored), _BLOCK)]
    return np.concatenate([part.max(axis=1).toarray().ravel() for part in parts])
