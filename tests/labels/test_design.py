"""Designs end: what would take hours, or not fit, is refused at once."""

import itertools
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import divulge as dv
from divulge import labels, validation
from divulge.labels.design import _radix_splits


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"n": 100, "classes": 10**6}, "^classes: a design takes at most 10,000, got 1,000,000"),
        ({"n": 10**9}, "^n: a design takes at most 100,000,000, got 1,000,000,000"),
        ({"n": 10**9, "classes": 10**9, "noise": 0.1}, "^n: a design takes"),
        ({"n": 10**9, "metric": "auc"}, "^n: a design takes"),
        ({"n": 10**9, "scored": "unknown", "clip": 1e-15}, "^n: a design takes"),
    ],
)
def test_designs_that_cannot_end_are_refused(spec, message):
    with pytest.raises(dv.InputError, match=message):
        labels.design(labels.OracleSpec(**spec))


def test_a_submission_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(validation, "available_memory", lambda: 2**30)
    with pytest.raises(dv.InputError, match=r"^n: about 7\.5 GiB of memory .* 10,000,000 rows of 100 numbers"):
        labels.design(labels.OracleSpec(n=10**7, classes=100))


@pytest.mark.parametrize("classes", [*range(2, 40), 97, 128, 210])
def test_splits_are_those_of_a_search_through_all(classes):
    smaller = {2: 1, 3: 2, 5: 3}
    every = {
        radices
        for length in range(2, math.ceil(math.log2(classes)) + 1)
        for radices in itertools.product(smaller, repeat=length)
        if math.prod(radices) >= classes
        and all(math.prod(radices) // radix * smaller[radix] < classes for radix in radices)
    }
    assert set(_radix_splits(classes, True)) == {(classes,)} | (every if len(every) < 39 else set())


@pytest.mark.parametrize("best", [3, 11, 17, 30])
@pytest.mark.parametrize("smaller", [0, 1, 3])
def test_the_span_of_an_unbounded_loss_is_found_with_small_blocks_and_made_smaller_for_large_ones(
    best, smaller, monkeypatch
):
    """Small blocks need fewest queries at 2^best, large ones at a span up to eight times smaller."""
    design, tried = sys.modules["divulge.labels.design"], []

    def shortest(spec, loss, digits, code_types, options, spans):
        counts = []
        for (_, bits), span in itertools.product(code_types, spans):
            exponent = np.log2(span)
            tried.append((bits, exponent))
            is_large = bits > design._TRIAL_ADDRESS_BITS
            counts.append(40 + (exponent - best + smaller) ** 2 if is_large else 50 + (exponent - best) ** 2)
        return SimpleNamespace(count=min(counts)) if counts else None

    monkeypatch.setattr(design, "_shortest_over", shortest)
    spec, loss = labels.OracleSpec(metric="itakura_saito", n=100), SimpleNamespace(has_bounded_base=True)
    large = design._TRIAL_ADDRESS_BITS + 3
    assert design._plan_unbounded(spec, loss, np.arange(2), True, large, None).count == 40
    assert all(exponent <= 1024 - np.log2(800) for _, exponent in tried)  # n losses stay finite floats
    assert design._plan_unbounded(spec, loss, np.arange(2), True, 2, None).count == 50  # no larger blocks are wanted
