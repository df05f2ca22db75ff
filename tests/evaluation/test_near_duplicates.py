"""Near duplicates against sets of n-grams in plain Python."""

import importlib
import re

import numpy as np
import pytest

import divulge as dv
from divulge.evaluation import near_duplicates

module = importlib.import_module("divulge.evaluation.near_duplicates")  # the room's attribute is the function
WORDS = [f"w{i}" for i in range(30)]


def grams(text, size):
    words = re.findall(r"\w+", text.casefold())
    return {tuple(words[i : i + size]) for i in range(max(len(words) - size + 1, 1))}


def naive(texts, other_texts, size, share):
    """Rows of ``one`` that one document of ``other`` contains, and the best share of each."""
    other_grams = [grams(text, size) for text in other_texts]
    best = [
        max(len(mine & document) / len(mine) for document in other_grams)
        for mine in (grams(text, size) for text in texts)
    ]
    return {row: share_ for row, share_ in enumerate(best) if share_ >= share}


def documents(rng, n, copied=()):
    """Random documents, some of them parts of others with words changed."""
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 40))) for _ in range(n)]
    for text in copied[: n // 3]:
        words = np.array(text.split())
        words[rng.random(len(words)) < rng.choice([0.0, 0.05, 0.2])] = "changed"
        texts[rng.integers(n)] = " ".join(words[rng.integers(0, 4) :]) + " Tail, of its own!" * rng.integers(0, 4)
    return texts


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_counts_are_those_of_plain_sets(size, share):
    rng = np.random.default_rng(size)
    members = documents(rng, 60)
    nonmembers = documents(rng, 50, members)
    population = documents(rng, 40, members + nonmembers)
    pairs = near_duplicates(members, nonmembers, population, words=size, share=share)
    sets = {"members": members, "nonmembers": nonmembers, "population": population}
    assert [pair.sets for pair in pairs.pairs] == [
        ("members", "nonmembers"),
        ("members", "population"),
        ("nonmembers", "population"),
    ]
    for pair in pairs.pairs:
        first_texts, second_texts = (sets[name] for name in pair.sets)
        want = naive(first_texts, second_texts, size, share), naive(second_texts, first_texts, size, share)
        assert pair.counts == tuple(map(len, want))
        assert pair.sizes == (len(first_texts), len(second_texts))
        assert len(pair.examples) == min(3, len(set(want[0])) or len(set(want[1]))) or len(pair.examples) == 3
        for example in pair.examples:
            mine, other_grams = grams(first_texts[example.row], size), grams(second_texts[example.other], size)
            containment = len(mine & other_grams) / min(len(mine), len(other_grams))
            assert share - 1e-9 <= example.share <= containment + 1e-6
    assert any(pair.counts[0] for pair in pairs.pairs)


def test_the_order_of_documents_changes_no_count():
    rng = np.random.default_rng(0)
    members, nonmembers = documents(rng, 80), documents(rng, 80)
    nonmembers[:20] = members[:20]
    turned = near_duplicates(members[::-1], nonmembers[::-1])
    assert near_duplicates(members, nonmembers).pairs[0].counts == turned.pairs[0].counts
    assert near_duplicates(members, nonmembers) == near_duplicates(members, nonmembers)


def test_short_documents_are_compared_whole():
    pairs = near_duplicates(
        ["Thank you!", "yes", "...", "a b c d e"], ["thank you", "yes please", "...", "!?", "b c d e"]
    )
    pair = pairs.pairs[0]
    assert pair.counts == (2, 2)
    assert [(example.row, example.other, example.share) for example in pair.examples] == [(0, 0, 1.0), (2, 2, 1.0)]
    assert near_duplicates(["a b c d"], ["b c d e"], words=4).pairs[0].counts == (0, 0)


def test_what_most_documents_have_in_common_hides_no_copy(monkeypatch):
    """A long passage in every document leads to some documents only; the copy is found by the rest of it."""
    monkeypatch.setattr(module, "_MAX_PER_GRAM", 5)
    rng = np.random.default_rng(1)
    shared = " ".join(rng.choice(WORDS, 30))
    members = [f"{shared} {' '.join(rng.choice(WORDS, 40))}" for _ in range(40)]
    nonmembers = [f"{shared} {' '.join(rng.choice(WORDS, 40))}" for _ in range(39)] + [members[7]]
    pair = near_duplicates(members, nonmembers).pairs[0]
    assert pair.counts == (1, 1)
    assert (pair.examples[0].row, pair.examples[0].other) == (7, 39)
    boilerplate = [f"{shared} {' '.join(rng.choice(WORDS, 5))}" for _ in range(40)]
    assert near_duplicates(boilerplate[:20], boilerplate[20:]).pairs[0].counts == (20, 20)


def test_odd_texts_and_bad_arguments():
    odd = ["\ud800 a b c d e", "\0" * 9, "ß" * 50_000, "a " * 20_000]
    assert near_duplicates(odd, [*odd, "x"]).pairs[0].counts == (4, 4)
    assert near_duplicates(["a"], ["b"]).pairs[0].counts == (0, 0)
    for bad, message in (
        ({"members": "text"}, "members: "),
        ({"members": []}, "members: "),
        ({"members": [1]}, "members: texts are needed"),
        ({"population": [None]}, "population: "),
        ({"words": 0}, "words: must be at least 1"),
        ({"share": 0.0}, "share: must be above 0"),
        ({"share": 1.1}, "share: must lie in"),
    ):
        with pytest.raises(dv.InputError, match=message):
            near_duplicates(**({"members": ["a"], "nonmembers": ["b"]} | bad))
