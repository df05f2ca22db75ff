"""Each clause by which a gate leaves a limit undecided: alone, in both readings, and at its bound."""

from types import SimpleNamespace

import numpy as np
import pytest

from divulge.auditing import comparability, compare
from divulge.auditing.compare import Limit
from divulge.types import Estimate

AUC, ADVANTAGE, TPR = Limit("auc", 0.6), Limit("advantage", 0.2), Limit("tpr@fpr=0.01", 0.1)


def between(low, high):
    return Estimate((low + high) / 2, low, high, 0.95, "")


@pytest.mark.parametrize(
    ("limit", "low", "high", "above"),
    [
        (AUC, 0.61, 0.7, True),
        (AUC, 0.6, 0.7, False),
        (AUC, 0.3, 0.39, True),  # the reversed score: .61 to .7
        (AUC, 0.3, 0.4, False),
        (AUC, 0.45, 0.55, False),
        (ADVANTAGE, 0.21, 0.3, True),
        (ADVANTAGE, 0.2, 0.3, False),
        (ADVANTAGE, 0.0, 0.1, False),
        (TPR, 0.11, 0.2, True),
        (TPR, 0.0, 0.02, False),
    ],
)
def test_a_statistic_is_above_its_limit_with_its_whole_interval_and_an_auc_also_reversed(limit, low, high, above):
    assert compare._is_above(between(low, high), limit) is above


BROKEN, KEPT, OPEN = between(0.65, 0.7), between(0.5, 0.55), between(0.55, 0.65)


@pytest.mark.parametrize(
    ("measured", "unexplained", "hidden", "contradicted"),
    [
        (BROKEN, BROKEN, False, False),
        (BROKEN, between(0.6, 0.7), False, True),
        (BROKEN, KEPT, False, True),
        (BROKEN, BROKEN, True, False),
        (KEPT, KEPT, False, False),
        (KEPT, KEPT, True, True),
        (KEPT, BROKEN, False, True),
        (KEPT, between(0.3, 0.35), False, True),
        (OPEN, BROKEN, True, False),
        (OPEN, KEPT, False, False),
        (between(0.55, 0.6), BROKEN, False, True),
        (BROKEN, None, True, False),
    ],
)
def test_the_unexplained_score_contradicts_what_it_would_not_say_itself(measured, unexplained, hidden, contradicted):
    told = compare._explained_reason(measured, unexplained, AUC, hidden=hidden)
    assert told == (compare.EXPLAINED_BY_RECORDS if contradicted else "")


@pytest.mark.parametrize(
    ("limit", "low", "high", "hidden", "open_"),
    [
        (AUC, 0.47, 0.53, 0.1, False),
        (AUC, 0.47, 0.55, 0.1, True),  # .54 is .6 less a tenth
        (AUC, 0.46, 0.5, 0.1, False),
        (AUC, 0.45, 0.5, 0.1, True),  # reversed .55
        (AUC, 0.45, 0.59, 0.0, False),
        (AUC, 0.55, 0.61, 0.1, False),  # not kept in the first place
        (ADVANTAGE, 0.0, 0.08, 0.1, False),  # .08 + .1 = .2 less a tenth
        (ADVANTAGE, 0.0, 0.081, 0.1, True),
        (ADVANTAGE, 0.0, 0.2, 0.0, False),
        (TPR, 0.0, 0.01, 0.1, True),
        (TPR, 0.0, 0.01, 0.0, False),
    ],
)
def test_a_limit_is_kept_beside_copies_only_where_it_is_kept_without_them(limit, low, high, hidden, open_, monkeypatch):
    monkeypatch.setattr(comparability, "describe_copies", lambda _: "copies")
    measured = between(low, high)
    assert compare._copies_reason(None, measured, limit, hidden) == ("copies" if open_ else "")


def test_a_rate_needs_the_nonmembers_that_resolve_it():
    audit = SimpleNamespace(adjustment=None)
    scope = SimpleNamespace(nonmembers=99, suffix=" of unseen classes", adjusted=False)
    enough = SimpleNamespace(nonmembers=100, suffix="", adjusted=False)
    needed = compare.evaluation.min_nonmembers(0.01)
    assert compare._missing_reason(audit, scope, "auc") == ""
    for scope_, count in ((scope, 99), (enough, 100)):
        told = compare._missing_reason(audit, scope_, "tpr@fpr=0.01")
        text = f"tpr@fpr=0.01 needs {needed:,} non-members{scope_.suffix}, and there are {count:,}"
        assert told == ("" if count >= needed else text)


@pytest.mark.parametrize(
    ("metric", "limit", "allowed"),
    [
        ("auc", 0.0, False), ("auc", 1e-9, True), ("auc", 0.999, True), ("auc", 1.0, False),
        ("advantage", 0.0, True), ("advantage", -1e-9, False), ("advantage", 1.0, False), ("advantage", 0.99, True),
        ("epsilon", 0.0, True), ("epsilon", 50.0, True), ("epsilon", np.inf, False), ("epsilon", np.nan, False),
        ("tpr@fpr=0.01", 0.0, False), ("tpr@fpr=0.01", 0.5, True), ("tpr@fpr=0.01", 1.0, False),
    ],
)  # fmt: skip
def test_a_limit_that_every_model_keeps_or_none_can_is_refused(metric, limit, allowed):
    if allowed:
        assert Limit.parse(f"{metric}:{limit!r}") == Limit(metric, limit)
        return
    with pytest.raises(compare.InputError, match=f"the limit of {metric} must lie in"):
        Limit(metric, limit)
