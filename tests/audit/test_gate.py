"""A policy is kept, broken, or neither can be said."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

import divulge as dv
from divulge.auditing.compare import Limit, gate
from divulge.results.recorded import TextSplit
from divulge.statistics import two_samples
from score_audits import scored, sizes


def states(audit, *policies):
    return [ruling.state for ruling in gate(audit, policies)]


def at(auc, m, n):
    """Scores with about this AUC."""
    rng = np.random.default_rng(0)
    members = sizes(m, n)
    return scored({"loss": rng.normal(size=m + n) + 2**0.5 * ndtri(auc) * members}, members)


def test_kept_needs_the_upper_end_and_broken_the_lower_one():
    audit = at(0.6, 1000, 1000)
    area = dv.evaluation.auc(audit.scores["loss"], audit.members)
    assert states(audit, f"auc:{area.high}") == ["kept"]
    assert states(audit, f"auc:{np.nextafter(area.high, 0)}") == ["undecided"]
    assert states(audit, f"auc:{area.low}") == ["undecided"]
    assert states(audit, f"auc:{np.nextafter(area.low, 0)}") == ["broken"]


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 300), (5, 5), (30, 30)])
def test_few_records_decide_nothing(m, n):
    ruling = gate(at(0.5, m, n), "auc:0.51")[0]
    assert ruling.state == "undecided"
    assert "more records would narrow it" in ruling.reason


def test_several_recipes_limits_and_scopes_share_the_error():
    members = np.arange(400) % 2 == 0
    rng = np.random.default_rng(1)
    labels = (np.arange(400) > 250).astype(int)
    audit = scored({f"r{i}": rng.normal(size=400) for i in range(3)}, members, labels=labels, unseen=(1,))
    rulings = gate(audit, ["auc:0.6", "auc:0.7", "tpr@fpr=0.05:0.2"])
    assert len(rulings) == 3 * 3 * 2
    for ruling in rulings:  # two limits on one statistic are held against one interval
        assert ruling.estimate.confidence == pytest.approx(1 - 0.05 / (3 * 2 * 2))
    assert {ruling.scope for ruling in rulings} == {"all", "unseen classes"}
    assert gate(audit, "auc:0.6", confidence=0.9)[0].estimate.confidence == pytest.approx(1 - 0.1 / 6)


def test_epsilon_can_be_broken_and_never_kept():
    leaking, quiet = scored({"loss": sizes(200, 200) * 1.0}, sizes(200, 200)), at(0.5, 200, 200)
    assert states(leaking, "epsilon:1") == ["broken"]
    ruling = gate(quiet, "epsilon:8")[0]
    assert ruling.state == "undecided"
    assert "never shown kept" in ruling.reason


def test_a_level_that_the_nonmembers_cannot_resolve_is_undecided_and_says_what_it_takes():
    audit = at(0.9, 400, 200)
    broken, short = gate(audit, ["auc:0.6", "tpr@fpr=0.001:0.1"])
    assert broken.state == "broken"
    assert broken.estimate.confidence == pytest.approx(0.95)
    assert (short.state, short.estimate) == ("undecided", None)
    assert short.reason == "tpr@fpr=0.001 needs 999 non-members, and there are 200"


def test_nothing_is_ruled_of_a_confounded_split():
    audit = scored({"loss": sizes(200, 200) * 1.0}, sizes(200, 200), confounded=True)
    ruling = gate(audit, "auc:0.6")[0]
    assert ruling.state == "undecided"
    assert "the split is confounded" in ruling.reason


def test_what_length_alone_tells_is_not_called_broken():
    rng, members = np.random.default_rng(0), sizes(300, 300)
    length = rng.integers(10, 60, 600) + 15 * members
    leak = {"loss": length + 2 * rng.normal(size=600), "deep": length / 50 + rng.normal(size=600) + 3 * members}
    audit = scored(leak, members)
    equals = {name: two_samples.among_equals(scores, members, length * 1.0) for name, scores in leak.items()}
    texts = TextSplit((), "none", (0, 0), two_samples.rank_sum(length[~members], length[members]), equals)
    audit = replace(audit, about=replace(audit.about, texts=texts))
    loss, deep, kept, _ = gate(audit, ["auc:0.6", "auc:0.99"])
    assert (loss.state, deep.state, kept.state) == ("undecided", "broken", "kept")
    assert "differ in length" in loss.reason


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("auc", "METRIC:LIMIT is needed"),
        (":0.5", "METRIC:LIMIT is needed"),
        ("auc:much", "METRIC:LIMIT is needed"),
        ("auc:nan", r"the limit of auc must lie in \(0, 1\), got nan"),
        ("auc:0", r"the limit of auc must lie in \(0, 1\), got 0"),
        ("auc:1", r"the limit of auc must lie in \(0, 1\), got 1"),
        ("auc:51", r"the limit of auc must lie in \(0, 1\), got 51"),
        ("tpr@fpr=0.01:1.5", r"the limit of tpr@fpr=0.01 must lie in \(0, 1\), got 1.5"),
        ("advantage:1", r"the limit of advantage must lie in \[0, 1\), got 1"),
        ("epsilon:-1", r"the limit of epsilon must lie in \[0, inf\), got -1"),
        ("epsilon:inf", r"the limit of epsilon must lie in \[0, inf\), got inf"),
        ("acc:0.6", "'acc' is unknown"),
        ("tpr:0.6", "'tpr' is unknown"),
        ("tpr@fpr=2:0.6", r"fpr: must lie in \(0, 1\), got 2"),
        ("tpr@fpr=x:0.6", "a number is needed after 'tpr@fpr='"),
    ],
)
def test_policies_that_cannot_be_held_to_are_refused(policy, message):
    with pytest.raises(dv.InputError, match=message):
        gate(at(0.5, 50, 50), ["auc:0.9", policy])


def test_a_gate_needs_a_policy():
    with pytest.raises(dv.InputError, match="at least 1"):
        gate(at(0.5, 50, 50), [])
    assert Limit.parse(" advantage : 0 ") == Limit("advantage", 0.0)
