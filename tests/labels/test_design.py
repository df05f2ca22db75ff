"""Designs end: what would take hours, or not fit, is refused at once."""

import itertools
import math

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
