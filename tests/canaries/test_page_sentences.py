"""Every sentence of the report on a claim of differential privacy, in each of its readings."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from divulge import provenance
from divulge.canaries import canary_page
from divulge.canaries.canary_audit import CANARY_AUDIT
from divulge.report.markdown import render
from divulge.report.run_kinds import build_page
from divulge.results import CanarySummary, EpsilonLowerBound

SCORES = np.r_[np.linspace(-1, 1, 20), np.linspace(0, 2, 20)]
INCLUDED = np.arange(40) >= 20
TONES = {"violated": "leak", "consistent": "plain", "not testable": "undecided", "no claim": "plain"}


def summary(answer="consistent", claimed=2.0, proven=1.25, delta=1e-5, **changes):
    run_summary = CanarySummary(
        verdict="The verdict.",
        tone=TONES[answer],
        answer=answer,
        claimed=claimed,
        delta=delta,
        bound=EpsilonLowerBound(proven, 0.95, "the method that decides"),
        others={"another assumption": EpsilonLowerBound(0.5, 0.95, "another method")},
        most=3.0,
        would_see=None,
        guarantee="what is assumed",
        canaries=40,
        included=20,
        kind_of_canary="mislabelled",
        recipe="loss",
        trained_on=1960,
        runs=1,
        accuracy=None,
        accuracy_without=None,
        mean_exposure=1.5,
        largest_exposure=4.25,
        warnings=(),
        environment=provenance.collect_environment(),
    )
    return dataclasses.replace(run_summary, **changes)


def page(**changes):
    return build_page(CANARY_AUDIT, canary_page.CanaryRun(summary(**changes), SCORES, INCLUDED))


def text(**changes):
    return render(page(**changes))


@pytest.mark.parametrize(
    ("answer", "claimed", "heading"),
    [
        ("violated", 0.5, "The claim is violated"),
        ("consistent", 2.0, "The claim is not refuted"),
        ("not testable", 9.0, "The claim cannot be tested with these canaries"),
        ("no claim", None, "What is proven of ε"),
    ],
)
def test_the_heading_and_the_advice_follow_the_answer(answer, claimed, heading):
    rendered, page_text = page(answer=answer, claimed=claimed), text(answer=answer, claimed=claimed)
    assert rendered.heading == heading
    assert ("Do not claim ε = 0.5 of this training." in page_text) == (answer == "violated")
    assert ("Whatever ε it keeps is at least 1.2" in page_text) == (answer == "violated")
    assert ("Look for the mistake." in page_text) == (answer == "violated")
    assert ("A consistent claim is not a true one" in page_text) == (answer == "consistent")
    assert ("More canaries (divulge canaries plan says how many)" in page_text) == (answer == "not testable")
    assert "divulge.canaries.play measures the accuracy of both" in page_text


def test_no_mistake_is_looked_for_where_nothing_was_claimed():
    assert "Look for the mistake" not in text(answer="violated", claimed=None)


def test_the_claimed_epsilon_is_on_the_page_wherever_one_was_claimed():
    claimed, unclaimed = text(claimed=2.0, delta=1e-5), text(answer="no claim", claimed=None, delta=None)
    assert "- claim: ε = 2, δ = 1e-05" in claimed
    assert "- claim: none" in unclaimed
    assert "Claimed: by at most 7.4 (apart from a chance of at most 1 in 100,000)." in claimed
    assert "ε = 2 was claimed" in claimed
    assert "no ε was claimed" in unclaimed
    for word in ("Claimed:", "was claimed of", "ε = 2"):
        assert word not in unclaimed.replace("no ε was claimed", "")
    assert "no ε was claimed" not in claimed


@pytest.mark.parametrize(("delta", "clause"), [(0.0, ""), (0.03, " (apart from a chance of at most 1 in 33)")])
def test_the_chance_that_delta_allows_is_named_where_there_is_one(delta, clause):
    assert f"Claimed: by at most 7.4{clause}. " in text(delta=delta)


@pytest.mark.parametrize(("epsilon", "odds"), [(1.0, "2.7"), (6.9, "9.9e+02"), (7.0, "10^3"), (23.1, "10^10")])
def test_odds_are_plain_numbers_up_to_a_thousand_and_powers_of_ten_beyond(epsilon, odds):
    assert f"Claimed: by at most {odds} (" in text(claimed=epsilon)
    assert f"Proven: it can be {odds} or more." in text(proven=epsilon)


def test_what_is_proven_is_said_only_where_something_is():
    proven_text, none = text(proven=1.25), text(proven=0.0)
    assert "Proven: it can be 3.5 or more." in proven_text
    assert "Proven:" not in none
    assert "- proven: ε ≥ 1.2" in proven_text
    assert "- proven: ε ≥ 0" in none
    unclaimed_text = text(proven=1.25, claimed=None, answer="no claim")
    assert "Proven: it can be 3.5 or more." in unclaimed_text


def test_the_pictures_show_how_sure_one_may_be_by_the_claim_and_is_by_the_proof():
    for claimed, proven in itertools.product((None, 2.0), (0.0, 1.25)):
        answer = "no claim" if claimed is None else "consistent"
        pictures = page(claimed=claimed, proven=proven, answer=answer).pictures
        expected = [("Claimed: from 50 of 100 sure that a record was used to 89, at most", 89)] * (claimed is not None)
        expected += [("Proven: from 50 of 100 sure to 77 or more, for some record", 77)] * (proven > 0)
        assert [(each.caption, each.value) for each in pictures] == expected
        assert {each.total for each in pictures} <= {100}


def test_accuracies_and_the_seed_are_among_the_facts_where_they_are_known():
    ends, other_accuracy = (0.9, 0.85, 0.95), (0.92, 0.875, 0.97)
    shown_facts = canary_page.facts(
        summary(accuracy=ends, accuracy_without=other_accuracy, training_accuracy=other_accuracy, seed=0)
    )
    assert shown_facts["accuracy"] == "0.900 [0.850, 0.950] with canaries, 0.920 [0.875, 0.970] without"
    assert shown_facts["accuracy on the training set"] == "0.920 [0.875, 0.970]"
    assert shown_facts["seed"] == "0"
    assert shown_facts["exposure"] == "mean 1.50 bits, largest 4.25"
    assert shown_facts["canaries"] == "40 mislabelled, 20 of them included"
    for part in ({"accuracy": ends}, {"accuracy_without": ends}, {}):
        assert not {"accuracy", "accuracy on the training set", "seed"} & canary_page.facts(summary(**part)).keys()


def test_warnings_have_a_section_where_there_are_some():
    assert "## Warnings\n\nThe first." in text(warnings=("the first",))
    assert "Warnings" not in text()


def values_of(title, **changes):
    """What the chart under a heading draws."""
    section = next(section for section in page(**changes).sections if section.title == title)
    return section.blocks[0].spec["data"]["values"]


@pytest.mark.parametrize(("claimed", "delta"), [(2.0, 0.1), (2.0, 0.0), (None, None)])
def test_the_errors_are_drawn_beside_the_least_that_claim_and_proof_allow(claimed, delta):
    answer = "no claim" if claimed is None else "consistent"
    points_by_series = {}
    for point in values_of("Errors of a test on one canary", claimed=claimed, delta=delta, answer=answer):
        points_by_series.setdefault(point["series"], []).append((point["x"], point["y"]))
    assert ("least the claim allows" in points_by_series) == (claimed is not None)
    for name, epsilon in (("least the claim allows", claimed), ("least at the ε that is proven", 1.25)):
        spent = delta or 0.0
        for fpr, fnr in points_by_series.get(name, ()):
            lowest_error = max(0.0, 1 - spent - math.exp(epsilon) * fpr, math.exp(-epsilon) * (1 - spent - fpr))
            assert fnr == pytest.approx(lowest_error, abs=1e-3)
    for fpr, fnr in points_by_series["canaries"]:
        cuts = [
            (np.mean(SCORES[~INCLUDED] >= threshold), np.mean(SCORES[INCLUDED] < threshold))
            for threshold in [*SCORES, 9.0]
        ]
        assert min(math.dist((fpr, fnr), each) for each in cuts) < 1e-3


def test_scores_of_the_included_and_of_the_others_are_told_apart_in_the_histogram():
    bins = values_of("Scores")
    largest = {
        group: max(each["from"] for each in bins if each["group"] == group and each["share"] > 0)
        for group in ("included", "not included")
    }
    assert largest["not included"] <= 1 < largest["included"]
