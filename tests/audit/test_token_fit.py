"""How well a language model fits its documents, beside the frequencies of bytes in the population, by definition."""

from types import SimpleNamespace

import numpy as np
import pytest

import divulge as dv
from divulge.auditing.plausibility import measure_token_fit
from divulge.evidence import Layout
from divulge.targets import TokenStatistics

CANDIDATES = ["abba", "cc", "", "abc"]
POPULATION = ["aab", "bc"]
IS_MEMBER = np.array([True, True, True, False])
OFFSETS = np.array([0, 2, 3, 3, 5, 6, 7])


def measure(log_probabilities):
    texts = np.array([*CANDIDATES, *POPULATION], dtype=object)
    audit = SimpleNamespace(
        layout=Layout(len(CANDIDATES), population=len(POPULATION)),
        target=object(),
        views=[dv.Records(texts)],
        inputs=SimpleNamespace(truth=IS_MEMBER),
    )
    return measure_token_fit(audit, TokenStatistics(OFFSETS, np.full(6, 8), logp=log_probabilities))


def test_bytes_of_the_population_are_counted_once_more_and_one_that_is_unknown():
    log_probabilities = -np.arange(1.0, 8.0)
    fit = measure(log_probabilities)
    counts, total = {"a": 2, "b": 2, "c": 1}, 5 + 3 + 1
    means = [log_probabilities[start:stop].sum() / max(len(text), 1) for text, start, stop in
             zip(CANDIDATES, OFFSETS, OFFSETS[1:], strict=False)]  # fmt: skip
    baselines = [np.mean([np.log((counts[c] + 1) / total) for c in text]) if text else 0.0 for text in CANDIDATES]
    assert fit.unit == "byte"
    assert fit.members == pytest.approx(np.mean(means[:3]))
    assert fit.gain.value == pytest.approx(np.mean(np.subtract(means, baselines)[:3]))
    assert fit.perplexity_members.value == pytest.approx(np.exp(-np.mean(means[:3])))
    assert fit.perplexity_nonmembers is None  # of a single document
    assert not fit.constant


@pytest.mark.parametrize(("spread", "expected"), [(0.0, True), (9e-7, True), (1.1e-6, False)])
@pytest.mark.parametrize("level", [-0.5, -4.0])
def test_one_probability_for_every_token_is_constant_up_to_a_millionth(spread, expected, level):
    log_probabilities = np.full(7, level)
    log_probabilities[3] -= spread * max(1.0, -level)
    assert measure(log_probabilities).constant == expected
