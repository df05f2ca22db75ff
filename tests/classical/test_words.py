"""Tables of words against scikit-learn's, and runs of words against plain tuples."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from divulge.classical import words

TEXTS = [
    "The king of Spain, the KING of France; a 1999 tale.",
    "",
    "naïve Straße café — 数据 数据 and the king",
    "a b c",
    "the the the of of king",
    "it's 3.14 o'clock_now the-king",
]


def random_texts(seed, n=60):
    rng = np.random.default_rng(seed)
    vocabulary = np.array([f"w{i}" for i in range(40)] + ["A", "b", "É"])
    return [" ".join(rng.choice(vocabulary, rng.integers(0, 30), p=None)) for _ in range(n)]


@pytest.mark.parametrize("texts", [TEXTS, random_texts(0)], ids=["odd", "random"])
@pytest.mark.parametrize("pattern", [words.LONG, r"\w+", r"\S+"])
def test_counts_are_those_of_scikit_learn(texts, pattern):
    theirs = CountVectorizer(token_pattern=pattern)
    wanted = theirs.fit_transform(texts)
    found = words.count(texts, pattern)
    assert found.names == theirs.get_feature_names_out().tolist()
    np.testing.assert_array_equal(found.table.toarray(), wanted.toarray())


@pytest.mark.parametrize("texts", [TEXTS, random_texts(1)], ids=["odd", "random"])
def test_pairs_are_those_of_scikit_learn(texts):
    theirs = CountVectorizer(ngram_range=(1, 2))
    wanted = theirs.fit_transform(texts).toarray()
    found = words.count(texts, pairs=True)
    ours = found.table.toarray()
    alone = [" " not in name for name in theirs.get_feature_names_out()]
    np.testing.assert_array_equal(ours[:, : len(found.names)], wanted[:, alone])
    pairs = wanted[:, ~np.array(alone)]
    assert sorted(map(tuple, ours[:, len(found.names) :].T)) == sorted(map(tuple, pairs.T))


@pytest.mark.parametrize("texts", [TEXTS, random_texts(2)], ids=["odd", "random"])
def test_tf_idf_is_that_of_scikit_learn(texts):
    wanted = TfidfVectorizer(sublinear_tf=True).fit_transform(texts).toarray()
    np.testing.assert_allclose(words.tf_idf(words.count(texts).table).toarray(), wanted, rtol=1e-14)


def test_tf_idf_of_some_texts_is_learned_from_them_alone():
    texts = random_texts(3)
    fit_on = np.arange(len(texts)) < 40
    theirs = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\S+").fit(np.array(texts, object)[fit_on])
    counted = words.count(texts, r"\S+")
    kept = [name in theirs.vocabulary_ for name in counted.names]
    found = words.tf_idf(counted.table[:, kept], fit_on)
    np.testing.assert_allclose(found.toarray(), theirs.transform(texts).toarray(), rtol=1e-14)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 100])
def test_runs_are_those_of_plain_tuples(size):
    texts = [text.split() for text in random_texts(4)]
    numbers, counts = words.runs(words.number(map(" ".join, texts), str.split), size)
    plain = [[tuple(own[i : i + size]) for i in range(len(own) - size + 1)] for own in texts]
    assert counts.tolist() == list(map(len, plain))
    flat = [run for own in plain for run in own]
    assert len(set(zip(flat, numbers.tolist(), strict=True))) == len(set(flat)) == len(set(numbers.tolist()))
    assert sorted(set(numbers.tolist())) == list(range(len(set(flat))))


def test_no_text_and_no_word():
    for texts in ([], ["", " "]):
        found = words.count(texts, pairs=True)
        assert (found.names, found.table.shape) == ([], (len(texts), 0))
        assert words.hashed(texts, 8).shape == (len(texts), 8)
    assert words.tf_idf(words.count(["", "a b"], r"\w+").table).toarray()[0].tolist() == [0.0, 0.0]


def test_hashed_rows_are_unit_counts_of_words_and_pairs():
    """With more columns than words that could collide, products of rows are those of the exact table."""
    texts = random_texts(5)
    exact = CountVectorizer(ngram_range=(1, 2)).fit_transform(texts).toarray().astype(float)
    exact /= np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1e-300)
    hashed = words.hashed(texts, 2**40)
    made = sparse.csr_matrix((hashed.data, np.unique(hashed.indices, return_inverse=True)[1], hashed.indptr))
    np.testing.assert_allclose((made @ made.T).toarray(), exact @ exact.T, atol=1e-12)


def test_a_hashed_row_depends_on_its_own_text_alone():
    texts = random_texts(6)
    together = words.hashed(texts, 2**10).toarray()
    alone = np.vstack([words.hashed([text], 2**10).toarray() for text in texts])
    np.testing.assert_array_equal(together, alone)


def test_hashes_spread_evenly():
    """4,096 words in 1,024 columns: chi-square with 1,023 degrees of freedom is in 1,023 ± 6 deviations."""
    made = words.hashed([f"word{i}" for i in range(4096)], 2**10)
    load = np.bincount(made.indices, minlength=1024)
    assert abs(((load - 4) ** 2 / 4).sum() - 1023) < 6 * np.sqrt(2 * 1023)


def test_hashes_are_the_same_in_every_process():
    code = (
        "from divulge.classical import words; t = words.hashed(['a tale of two cities', 'two tales'], 2**12); "
        "print(t.indices.tolist(), t.data.tolist(), words.number(['b a c'], str.split).numbers.tolist())"
    )
    said = set()
    for seed in ("1", "2"):
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
        said.add(done.stdout)
    assert len(said) == 1
