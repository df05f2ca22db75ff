"""The slider of a report: which false-positive rates it offers, where it starts, and what it says of each."""

import numpy as np
import pytest

from divulge.auditing import audit_page as page
from divulge.report import Slider
from score_audits import scored

LEVELS = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5]


def make_slider(n_nonmembers, *, fpr=(0.05,), shift=0.0, n_members=400):
    rng = np.random.default_rng(0)
    members = np.arange(n_members + n_nonmembers) < n_members
    scores = rng.normal(size=len(members)) + shift * members
    audit = scored({"a": scores - 9 * members, "b": scores}, members, fpr=fpr)
    return [block for block in page.trade_off_section(audit, "b").blocks if isinstance(block, Slider)]


@pytest.mark.parametrize(("n_nonmembers", "first"), [(100_000, 0.0001), (4999, 0.0002), (4998, 0.0005), (18, 0.1)])
def test_levels_that_the_non_members_allow_are_offered_and_it_starts_at_the_smallest_asked_for(n_nonmembers, first):
    (slider,) = make_slider(n_nonmembers, fpr=(0.1, 0.2))
    offered = [level for level in LEVELS if level >= first]
    assert [stop.label for stop in slider.stops] == [f"{100 * level:g} %" for level in offered]
    assert slider.stops[slider.start].label == "10 %"


def test_levels_of_the_audit_are_offered_beside_the_others():
    (slider,) = make_slider(1000, fpr=(0.03,))
    assert slider.stops[slider.start].label == "3 %"
    assert len(slider.stops) == 10


def test_each_level_says_how_many_are_recognised_or_that_it_is_no_more_than_by_guessing():
    (nothing,), (leak,) = make_slider(1000), make_slider(1000, shift=3.0)
    assert all("not measurably more than by guessing" in stop.words for stop in nothing.stops)
    assert "guessing" not in leak.stops[leak.start].words
    assert leak.stops[leak.start].words != nothing.stops[nothing.start].words
