"""Token signals against one document at a time, written out."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divulge.errors import InputError
from divulge.signals import tokens as signals
from divulge.targets.token_statistics import PER_TOKEN, TokenStatistics


def documents(lengths, seed):
    rng = np.random.default_rng(seed)
    texts = ["x" * length for length in lengths]
    rows = []
    for length in lengths:
        row = {name: np.abs(rng.normal(1, 0.5, length)) for name in PER_TOKEN}
        rows.append({**row, "logp": -row["logp"]})
    return texts, rows, TokenStatistics.from_documents(texts, rows)


def lowest(values, k):
    take = max(int(len(values) * k + 1e-9), 1)
    return np.sort(values)[:take].mean() if len(values) else np.nan


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.sampled_from([0.05, 0.2, 0.5, 1.0]))
@settings(max_examples=50, deadline=None)
def test_signals_equal_the_loop(lengths, k):
    texts, rows, stats = documents(lengths, seed=len(lengths))

    def same(actual, want):
        assert np.allclose(actual, [want(row) for row in rows], equal_nan=True)

    def mean(values):
        return values.mean() if len(values) else np.nan

    same(signals.log_likelihood(stats), lambda row: mean(row["logp"]))
    same(signals.min_k(stats, k), lambda row: lowest(row["logp"], k))
    same(
        signals.min_k_plus(stats, k),
        lambda row: lowest((row["logp"] + row["entropy"]) / np.sqrt(row["variance"]), k),
    )
    same(signals.modified_entropy(stats), lambda row: -mean(row["modified_entropy"]))
    for alpha, name in ((0.5, "renyi_half"), (1, "entropy"), (2, "renyi_two"), (np.inf, "renyi_inf")):
        same(signals.max_renyi(stats, alpha, k), lambda row, name=name: lowest(-row[name], k))
        same(signals.min_renyi(stats, alpha, k), lambda row, name=name: -lowest(row[name], k))
    size = [len(zlib.compress(text.encode())) for text in texts]
    want = [mean(row["logp"]) / bytes_ for row, bytes_ in zip(rows, size, strict=True)]
    assert np.allclose(signals.zlib(stats), want, equal_nan=True)
    lowered = documents(lengths, seed=99)[2]
    ratio = signals.log_likelihood(lowered) / signals.log_likelihood(stats)
    assert np.allclose(signals.lowercase(stats, lowered), ratio, equal_nan=True)
    difference = signals.log_likelihood(stats) - signals.log_likelihood(lowered)
    assert np.allclose(signals.reference_difference(stats, lowered), difference, equal_nan=True)


def test_every_signal_is_larger_for_a_text_the_model_knows():
    rng = np.random.default_rng(0)
    rows = []
    for sure in (3.0, 0.0):  # a confident model that is right, and one that knows nothing
        logits = rng.normal(size=(40, 50))
        logits[:, 0] += sure
        logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        p = np.exp(logp)
        entropy = -(p * logp).sum(1)
        other_terms = (p * np.log1p(-p)).sum(1) - p[:, 0] * np.log1p(-p[:, 0])
        rows.append(
            {
                "logp": logp[:, 0],
                "entropy": entropy,
                "variance": (p * logp**2).sum(1) - entropy**2,
                "modified_entropy": -(1 - p[:, 0]) * logp[:, 0] - other_terms,
                "renyi_half": 2 * np.log(np.sqrt(p).sum(1)),
                "renyi_two": -np.log((p**2).sum(1)),
                "renyi_inf": -logp.max(1),
            }
        )
    stats = TokenStatistics.from_documents(["same text", "same text"], rows)
    for name, values in signals.all_signals(stats).items():
        assert values[0] > values[1], name


def test_a_share_of_few_tokens_is_at_least_one():
    stats = documents([3], 0)[2]
    assert signals.min_k(stats, 0.2) == stats.logp.min()


def test_what_a_target_does_not_show_is_refused():
    stats = TokenStatistics.from_documents(["ab"], [{"logp": np.array([-1.0])}])
    assert set(signals.all_signals(stats)) == {"log_likelihood", "zlib", "min_k"}
    for signal in (signals.min_k_plus, signals.modified_entropy, signals.max_renyi):
        with pytest.raises(InputError, match="shows only"):
            signal(stats)


@pytest.mark.parametrize("bad", [{"k": 0.0}, {"k": 1.5}, {"alpha": 3}])
def test_parameters_are_checked(bad):
    with pytest.raises(InputError):
        signals.max_renyi(documents([3], 0)[2], **bad)


def test_pairs_must_fit():
    short_pair, long_pair = documents([3], 0)[2], documents([3, 4], 0)[2]
    with pytest.raises(InputError, match="1 documents are needed, got 2"):
        signals.lowercase(short_pair, long_pair)
    with pytest.raises(InputError, match="document 0 has 4 tokens, not 3"):
        signals.reference_difference(short_pair, documents([4], 0)[2])
