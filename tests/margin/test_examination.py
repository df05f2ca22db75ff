"""What an examination of weights says in words, and whom it lists."""

from types import SimpleNamespace

import numpy as np
import pytest

from divulge.auditing.weights import WeightsExamination
from divulge.types import Guarantee


def rule(*selected, claim_kind="FDR", level=0.1, standing="holds"):
    chosen = np.isin(np.arange(4), selected)
    claim = Guarantee(claim_kind, level, ("one assumption", "another"), standing)
    return SimpleNamespace(selected=chosen, count=int(chosen.sum()), guarantee=claim)


def examined(decisions, *, leaks=True, calibration=None):
    return WeightsExamination(
        ids=np.array(["a", "b", "c", "d"]),
        outputs=np.array([-1.0, 2.0, -3.0, 4.0]),
        scores=np.array([0.5, 3.0, 3.0, 1.0]),
        calibration=calibration,
        unexplained=0.0,
        margin=1.0,
        decisions=decisions,
        signal="margin-abs",
        truth=None,
        leaks=leaks,
        accuracy={},
    )


def test_everyone_that_any_rule_calls_a_member_is_listed_once_the_highest_score_first():
    result = examined({"FDR": rule(1, 3), "margin": rule(0, 3)})
    assert [(called.id, called.output, called.score, called.rules) for called in result.called_records()] == [
        ("b", 2.0, 3.0, ("FDR",)),
        ("d", 4.0, 1.0, ("FDR", "margin")),
        ("a", 1.0, 0.5, ("margin",)),
    ]
    assert list(examined({}).called_records()) == []
    assert list(examined({"FDR": rule()}).called_records()) == []


NONMEMBERS = np.zeros((2, 5))


@pytest.mark.parametrize(
    ("decisions", "leaks", "calibration", "sentence"),
    [
        ({}, False, None, "Nothing can be said of the 4 candidates: no rule could decide."),
        ({"FDR": rule(1, 3)}, True, NONMEMBERS, "2 of 4 candidates are recognised as training records from the weights "
         "alone; on average at most 10 % of such a selection is not, assuming one assumption and another."),
        (
            {"FDR": rule(1, 3)},
            False,
            NONMEMBERS,
            "No leak is proven: no candidate can be named at a false discovery rate",
        ),
        ({"FDR": rule(1, 3)}, False, None, "No leak is proven: there is nothing to compare the candidates with."),
        ({"FDR": rule()}, True, NONMEMBERS, "Some candidates stand out"),
        ({"FDR": rule(1, standing="void")}, True, NONMEMBERS, "Some candidates stand out"),
        ({"margin": rule(1, claim_kind="FPR")}, True, NONMEMBERS, "Some candidates stand out"),
    ],
)  # fmt: skip
def test_the_verdict_claims_what_is_proven(decisions, leaks, calibration, sentence):
    result = examined(decisions, leaks=leaks, calibration=calibration)
    assert result.verdict.startswith(sentence)
    assert result.tone == ("leak" if leaks else "unproven")
