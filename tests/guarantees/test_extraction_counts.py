"""How often members are called given back by a model that saw none, where documents share passages or suffixes."""

import numpy as np
import pytest

from divulge.extraction.completions import Completions, MeasuredDocuments, Passage, Passages
from divulge.extraction.measuring import _distinct_passages
from divulge.extraction.result import compare_rates

RUNS = 24


def is_extracted(documents, is_completed):
    """Return whether members seem to be given back, of two sets of (prompt, suffix); without a blind baseline."""
    sets = [
        Passages(tuple(Passage(row, (prompt,), (suffix,)) for row, (prompt, suffix) in enumerate(each)), 0, 0)
        for each in documents
    ]
    distinct, shared, _ = _distinct_passages(sets)
    sides = []
    for passages, everything in zip(distinct, sets, strict=True):
        tokens = [passage.tokens for passage in everything.passages]
        hits = np.array([is_completed(*passage.tokens) for passage in passages])
        completions = Completions(np.where(hits, 0.0, -50.0), hits, hits.astype(int), hits.astype(float))
        copies = np.array([tokens.count(passage.tokens) for passage in passages])
        numbers = np.array([passage.suffix[0] for passage in passages])
        sides.append(
            MeasuredDocuments(np.arange(len(passages)), completions, copies=copies, suffix_numbers=numbers)
        )  # fmt: skip
    return any(rate.difference.low > 0 for rate in compare_rates(*sides, (), 0.75, 0.95, shared))


def forms(rng, count, n_forms):
    """Draw documents of one distribution, of which three in ten are whole forms that a model completes."""
    return [
        (int(form), int(form)) if rng.random() < 0.3 else tuple(rng.integers(10**6, 10**9, 2).tolist())
        for form in rng.integers(n_forms, size=count)
    ]


def templates(rng, count, size):
    """Draw templates, of which three in ten can be completed, and documents of each: all come into one set."""
    endings = np.where(rng.random(count) < 0.3, 0, 10**6) + rng.integers(10**6, size=count)
    return [(int(prompt), int(ending)) for ending in endings for prompt in rng.integers(10**6, 10**9, size=size)]


@pytest.mark.parametrize(("n_members", "n_nonmembers", "n_forms"), [(200, 40, 60), (20, 200, 12)])
def test_forms_that_many_documents_follow_are_no_sign_of_training(n_members, n_nonmembers, n_forms):
    """Documents of one distribution; at most 2.5 % of runs may say "extracted", so 5 of 24 have a chance of .03 %."""
    n_false = 0
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        sets = forms(rng, n_members, n_forms), forms(rng, n_nonmembers, n_forms)
        n_false += is_extracted(sets, lambda prompt, suffix: prompt < 10**6)
    assert n_false < 5


@pytest.mark.parametrize(("count", "size"), [(10, 10)])
def test_templates_of_one_set_count_once(count, size):
    """Counted as documents, 10 templates of 10 documents a side show "extracted" in a quarter of runs."""
    n_false = 0
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        sets = templates(rng, count, size), templates(rng, count, size)
        n_false += is_extracted(sets, lambda prompt, suffix: suffix < 10**6)
    assert n_false < 5


def test_members_that_were_learned_are_found_in_either_case():
    rng = np.random.default_rng(0)
    learned = templates(rng, 20, 4)
    sets = learned, templates(rng, 20, 4)
    assert is_extracted(sets, lambda *tokens: tokens in set(learned))
    members = forms(rng, 400, 120)
    members[:200] = [tuple(pair) for pair in rng.integers(2 * 10**9, 3 * 10**9, (200, 2)).tolist()]
    sets = members, forms(rng, 60, 120)
    assert is_extracted(sets, lambda prompt, suffix: prompt < 10**6 or prompt >= 2 * 10**9)
