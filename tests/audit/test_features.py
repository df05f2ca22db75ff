"""What a regressor may condition on: texts and wide records, reduced."""

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

import divulge as dv
from divulge import evidence


def test_texts_keep_as_much_as_with_scikit_learn():
    rng = np.random.default_rng(0)
    texts = np.array([" ".join(f"w{i}" for i in rng.zipf(1.4, 20) % 300) for _ in range(400)], dtype=object)
    fit_on = np.arange(400) >= 150
    made = evidence.features(dv.Records(texts), fit_on, 0)
    table = TfidfVectorizer(max_features=20_000, sublinear_tf=True, token_pattern=r"\S+").fit(texts[fit_on])
    theirs = TruncatedSVD(48, random_state=0).fit(table.transform(texts[fit_on]))
    assert made.shape == (400, evidence.COMPONENTS)
    assert (made[fit_on] ** 2).sum() >= (theirs.transform(table.transform(texts[fit_on])) ** 2).sum() * (1 - 1e-9)
    np.testing.assert_array_equal(made, evidence.features(dv.Records(texts), fit_on, 0))


def test_texts_without_words_are_refused():
    texts = dv.Records(np.array([" ", "a word", "\t"], dtype=object))
    with pytest.raises(dv.InputError, match="records: the texts that a regressor may learn from have no words"):
        evidence.features(texts, np.array([True, False, True]), 0)
