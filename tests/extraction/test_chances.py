"""Chances over many draws, against exact fractions."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import divulge as dv
from divulge.extraction import Completions, draws_needed, probability_seen
from divulge.extraction.completions import likeness


def exact(log_p, draws):
    """1 - (1 - p)^n in 400 digits."""
    with localcontext() as context:
        context.prec = 400
        p = Decimal(log_p).exp()
        return 1 - (1 - p) ** draws


LOGS = [0.0, -1e-300, -1e-17, -1e-9, -0.1, -math.log(2), -1.0, -5.0, -30.0, -36.7, -40.0, -300.0, -700.0]


@pytest.mark.parametrize("draws", [1, 2, 100, 10_000, 10**12])
def test_chances_are_those_of_exact_arithmetic(draws):
    probability = probability_seen(np.array(LOGS), draws)
    for log_p, chance in zip(LOGS, probability, strict=True):
        expected = exact(log_p, draws)
        assert abs(Decimal(float(chance)) - expected) <= expected * Decimal("1e-12")


@settings(deadline=None)
@given(some.floats(-200, 0), some.integers(1, 10**9))
def test_chances_lie_between_their_bounds(log_p, draws):
    chance, p = probability_seen([log_p], draws)[0], math.exp(log_p)
    assert -math.expm1(-draws * p) * (1 - 1e-9) <= chance <= min(1.0, draws * p * (1 + 1e-9))


def test_draws_needed_are_the_fewest():
    for denominator in (1, 2, 3, 7, 10, 99, 1000, 12345):
        p = Fraction(1, denominator)
        count = int(draws_needed([math.log(p)])[0])
        assert 1 - (1 - p) ** count >= Fraction(1, 2)
        assert count == 1 or 1 - (1 - p) ** (count - 1) < Fraction(1, 2)


def test_what_is_never_drawn_needs_endless_draws():
    assert draws_needed([-np.inf, 0.0]).tolist() == [np.inf, 1.0]
    assert probability_seen([-np.inf, 0.0], 10**15).tolist() == [0.0, 1.0]
    assert draws_needed([-100.0])[0] == pytest.approx(math.log(2) * math.exp(100))
    assert draws_needed([-1000.0])[0] == np.inf
    assert draws_needed(np.log([0.5]), chance=0.75).tolist() == [2.0]


def test_bad_input_is_refused_by_name():
    for arguments, message in (
        (([0.1], 1), "log_p"), (([np.nan], 1), "log_p"), (([-1.0], 0), "draws"), (([-1.0], 1.5), "draws")
    ):  # fmt: skip
        with pytest.raises(dv.InputError, match=f"^{message}: "):
            probability_seen(*arguments)
    with pytest.raises(dv.InputError, match=r"^chance: "):
        draws_needed([-1.0], 1.0)


def longest(tokens, reference):
    """The longest common run, by trying all."""
    runs = {tuple(reference[a:b]) for a in range(len(reference)) for b in range(a + 1, len(reference) + 1)}
    return max(
        (b - a for a in range(len(tokens)) for b in range(a + 1, len(tokens) + 1) if tuple(tokens[a:b]) in runs),
        default=0,
    )


@settings(deadline=None)
@given(some.lists(some.integers(0, 3), max_size=12), some.lists(some.integers(0, 3), max_size=12))
def test_the_longest_match_is_the_longest(tokens, reference):
    match = likeness(tokens, reference)
    assert match.longest == longest(tokens, reference)
    assert 0 <= match.overlap <= 1
    assert (match.overlap == 1) == (tokens == reference)
    assert 2 * match.longest <= match.overlap * (len(tokens) + len(reference)) + 1e-9 or not tokens + reference


@pytest.mark.parametrize("min_overlap", [0.5, 0.8])
def test_a_document_is_likely_within_as_many_draws_as_show_it_with_an_even_chance(min_overlap):
    """Of p = 1/2 a single draw suffices; of p = 1/100 it takes 69; overlaps and greedy copies count by themselves."""
    p = np.array([1.0, 0.5, 0.499, 0.25, 0.01, 1e-6, 0.0])
    overlap = np.array([min_overlap, 1.0, min_overlap - 1e-3, 0.0, min_overlap, 0.0, 0.0])
    verbatim = np.array([True, True, False, False, False, False, True])
    with np.errstate(divide="ignore"):
        is_hit = Completions(np.log(p), verbatim, np.arange(7), overlap).hits(
            (1, 2, 3, 68, 69, 693_147, 10**9), min_overlap
        )
    hits_by_name = {name: hits.tolist() for name, hits in is_hit.items()}
    assert hits_by_name.pop(f"overlap of at least {min_overlap:g}, greedy") == (overlap >= min_overlap).tolist()
    assert [hits for name, hits in hits_by_name.items() if "within" not in name] == [verbatim.tolist()]
    within = {name: hits for name, hits in hits_by_name.items() if "within" in name}
    assert [sum(hits) for hits in within.values()] == [2, 3, 4, 4, 5, 6, 6]
    for name, hits in within.items():
        draws = int(name.split()[2].replace(",", ""))
        assert hits == [draws_needed([math.log(each)])[0] <= draws if each > 0 else False for each in p]
