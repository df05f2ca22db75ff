"""What a regressor may condition on: texts and wide records, reduced."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

import divulge as dv
from divulge import evidence


def test_texts_are_reduced_to_components_that_a_seed_repeats():
    rng = np.random.default_rng(0)
    texts = np.array([" ".join(f"w{i}" for i in rng.zipf(1.4, 20) % 300) for _ in range(400)], dtype=object)
    fit_on = np.arange(400) >= 150
    features = evidence.regression_features(dv.Records(texts), fit_on, 0)
    table = TfidfVectorizer(max_features=20_000, sublinear_tf=True, token_pattern=r"\S+").fit(texts[fit_on])
    exact = np.linalg.svd(table.transform(texts[fit_on]).toarray(), compute_uv=False)[: evidence.MAX_FEATURES]
    assert features.shape == (400, evidence.MAX_FEATURES)
    assert (features[fit_on] ** 2).sum() >= 0.98 * (exact**2).sum()
    np.testing.assert_array_equal(features, evidence.regression_features(dv.Records(texts), fit_on, 0))


def test_texts_without_words_are_refused():
    texts = dv.Records(np.array([" ", "a word", "\t"], dtype=object))
    with pytest.raises(dv.InputError, match="records: the texts that a regressor may learn from have no words"):
        evidence.regression_features(texts, np.array([True, False, True]), 0)
