"""Answers, pages and rulings of attribute inference at their exact limits, from differences that are written down."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import divulge as dv
from divulge import attributes, statistics
from divulge.attributes import finding
from divulge.attributes.finding import CLEAR, CONFOUNDED, LEAK, TOO_LITTLE, decide_attribute
from divulge.attributes.result import AttributeInference
from divulge.results import StudyControl
from divulge.settings import AttributeSettings
from divulge.types import Estimate

TINY = 1e-9


def estimate(low, high, value=None):
    return Estimate((low + high) / 2 if value is None else value, low, high, 0.95, "written down")


def guesses(counts):
    """Return membership and values of records: value → (members, non-members) with it."""
    members = np.concatenate([np.arange(a + b) < a for a, b in counts])
    return members, np.repeat(np.arange(len(counts)), [a + b for a, b in counts])


class TestDecide:
    @pytest.mark.parametrize(
        ("counts", "tested", "untested"),
        [
            ([(30, 30), (5, 5)], [0, 1], 0),
            ([(30, 30), (4, 9)], [0], 4),
            ([(30, 30), (9, 4)], [0], 9),
            ([(5, 40), (20, 5), (20, 6)], [1, 2, 0], 0),
            ([(60, 60)], [], 0),
            ([(3, 60), (60, 3)], [], 0),
        ],
    )
    def test_values_of_five_members_and_five_others_are_tested_by_themselves(self, counts, tested, untested):
        members, values = guesses(counts)
        right = np.arange(len(members)) % 3 == 0
        found = decide_attribute({"model": right, "imputation": right}, members, values, ("a", "b", "c"))
        assert [each.value for each in found.values] == ["abc"[code] for code in tested]
        assert found.untested == untested

    @pytest.mark.parametrize("attacks", [("a",), ("a", "b", "c")])
    @pytest.mark.parametrize("counts", [[(40, 50)], [(20, 30), (10, 10), (10, 10)]])
    def test_all_intervals_hold_together(self, attacks, counts):
        """Half of the error for the attacks, the other half for the values, each shared equally (Bonferroni)."""
        rng = np.random.default_rng(len(attacks))
        members, values = guesses(counts)
        right = {name: rng.random(len(members)) < 0.5 for name in (*attacks, "imputation")}
        found = decide_attribute(right, members, values, "xyz", confidence=0.9)
        has_values = len(counts) > 1
        error = 0.1 / len(attacks) / (2 if has_values else 1)
        for each, name in zip(found.attacks, attacks, strict=False):
            assert each.difference.confidence == pytest.approx(1 - error)
            expected = statistics.paired_rate_difference(
                right[name][members], right["imputation"][members], each.difference.confidence
            )
            assert each.gain == expected
            k, j = right[name][members].sum(), right[name][~members].sum()
            assert each.members == statistics.proportion(k, 40, each.difference.confidence)
            assert each.nonmembers == statistics.proportion(j, 50, each.difference.confidence)
            assert each.difference.value == pytest.approx(k / 40 - j / 50)
        imputation = found.attacks[-1]
        assert (imputation.name, imputation.gain, imputation.difference.confidence) == ("imputation", None, 0.99)
        assert len(found.values) == (3 * len(attacks) if has_values else 0)
        for one in found.values:
            chosen = values == "xyz".index(one.value)
            own = right[one.attack]
            assert (one.members, one.nonmembers) == ((chosen & members).sum(), (chosen & ~members).sum())
            assert one.right_members == (own & chosen & members).sum()
            assert one.right_nonmembers == (own & chosen & ~members).sum()
            assert one.difference.confidence == one.gain.confidence == pytest.approx(1 - error / 3)
            own_gain = (own.astype(int) - right["imputation"])[chosen & members].mean()
            assert one.gain.value == pytest.approx(own_gain)

    def test_a_doubt_takes_a_clearance_back_and_nothing_else(self):
        members = np.arange(600) < 300
        guess = np.random.default_rng(0).random(600) < 0.6
        alike, values = {"model": guess, "imputation": guess}, np.zeros(600)
        leaking = {"model": guess | members, "imputation": guess}
        decide = partial(decide_attribute, margin=0.5)
        assert decide(alike, members, values, "a").answer == CLEAR
        doubted = decide(alike, members, values, "a", doubt="it knows nobody")
        assert doubted.answer == TOO_LITTLE
        assert doubted.reason.startswith("Nothing was found, but it knows nobody: nothing shows")
        assert decide(leaking, members, values, "a", doubt="it knows nobody").answer == LEAK
        assert decide(alike, members, values, "a", doubt="x", confounded="y").answer == CONFOUNDED
        stored = decide(alike, members, values, "a", stored="They stand there.", confounded="y", doubt="x")
        assert stored.answer == LEAK
        assert stored.reason == "They stand there. Whoever holds the file reads their values and needs no attack."
        assert decide(alike, members, values, "a", copied=250).answer == TOO_LITTLE

    def test_the_margin_is_a_tenth_and_the_confidence_95_per_cent_unless_asked(self):
        members = np.arange(400) < 200
        right = np.random.default_rng(1).random(400) < 0.5
        both = {"model": right, "imputation": right}
        plain = decide_attribute(both, members, np.zeros(400), "a")
        assert plain == decide_attribute(both, members, np.zeros(400), "a", margin=0.1, confidence=0.95)
        assert plain.attacks[0].difference.confidence == pytest.approx(0.95)
        difference = 2 * right[members].mean() - 2 * right.mean()
        assert plain.attacks[0].difference.value == pytest.approx(difference)

    @pytest.mark.parametrize(
        "options", [{"margin": 1.0}, {"margin": 1.5}, {"margin": 0.0}, {"confidence": 1.0}, {"confidence": 0.0}]
    )
    def test_margin_and_confidence_lie_between_0_and_1(self, options):
        with pytest.raises(attributes.finding.InputError, match=next(iter(options))):
            decide_attribute({"a": [True, False], "imputation": [True, False]}, [True, False], [0, 0], "a", **options)

    @pytest.mark.parametrize(
        ("right", "given"),
        [({}, "none"), ({"imputation": [True, False]}, "imputation"), ({"model": [True, False]}, "model")],
    )
    def test_an_attack_and_the_imputation_are_needed(self, right, given):
        with pytest.raises(attributes.finding.InputError, match=f"at least 1 attack are needed, got {given}$"):
            decide_attribute(right, [True, False], [0, 0], "a")


def stored_records(*, proven, suspected):
    """A stand-in that says what it found."""
    return SimpleNamespace(
        sentence="5 of 9 training records stand in this file.", evidence="By their bytes.",
        proven=proven, suspected=suspected,
    )  # fmt: skip


def inference(n=250, right=None, **options):
    members = np.arange(2 * n) < n
    guess = np.random.default_rng(0).random(2 * n) < 0.6
    values = {
        "ids": np.arange(2 * n), "members": members, "is_counted": np.ones(2 * n, bool),
        "values": np.zeros(2 * n, int), "value_names": ("a", "b"),
        "right": {"model": guess, "imputation": guess} if right is None else right,
        "column": "age", "tried": 2, "references": 3, "checks": (), "warnings": ("be told",),
        "settings": AttributeSettings(margin=0.5, seed=7),
    }  # fmt: skip
    return AttributeInference(**values | options)


FAILED = StudyControl("blind classifier", False, "members can be told")
PASSED = StudyControl("blind classifier", True, "all alike")
NOT_RUN = StudyControl("blind classifier", None, "not run: too few")


class TestRulings:
    @pytest.mark.parametrize("count", [1, 3])
    def test_all_rulings_hold_together(self, count):
        rulings = dv.gate(inference(), [f"share:0.{i}" for i in range(2, 2 + count)], confidence=0.9)
        assert [ruling.limit for ruling in rulings] == [0.2, 0.3, 0.4][:count]
        assert all(ruling.estimate.confidence == pytest.approx(1 - 0.1 / count) for ruling in rulings)
        assert {(ruling.recipe, ruling.scope, ruling.metric) for ruling in rulings} == {("model", "all", "share")}

    @pytest.mark.parametrize(
        ("options", "share", "value"),
        [
            ({}, "kept", "undecided"),  # no value has a test of its own
            ({"doubt": "another model"}, "undecided", "undecided"),
            ({"stored": stored_records(proven=True, suspected=False)}, "broken", "broken"),
            ({"stored": stored_records(proven=False, suspected=True)}, "undecided", "undecided"),
            ({"stored": stored_records(proven=False, suspected=False)}, "kept", "undecided"),
            ({"checks": (FAILED,)}, "undecided", "undecided"),
            ({"checks": (PASSED, NOT_RUN)}, "kept", "undecided"),
            ({"copied": 200}, "undecided", "undecided"),
            ({"values": np.arange(500) % 2}, "kept", "kept"),
            ({"values": np.r_[np.arange(490) % 2, [1] * 10], "value_names": ("a", "b")}, "kept", "kept"),
            ({"values": np.r_[[2] * 3, np.arange(497) % 2], "value_names": "abc"}, "kept", "undecided"),
        ],
    )
    def test_nothing_is_kept_that_is_in_doubt(self, options, share, value):
        found = inference(**options)
        assert {ruling.state for ruling in dv.gate(found, "share:0.5")} == {share}
        by_value = dv.gate(found, "value:0.6")
        assert {ruling.state for ruling in by_value} == {value}
        if "values" not in options:
            assert [(ruling.recipe, ruling.scope, ruling.estimate) for ruling in by_value] == [("all", "all", None)]

    def test_a_doubt_keeps_nothing_from_being_broken(self):
        members = np.arange(500) < 250
        leaking = {"model": members, "imputation": np.zeros(500, bool)}
        for options in ({}, {"doubt": "another model"}, {"copied": 3}):
            assert dv.gate(inference(right=leaking, **options), "share:0.5")[0].state == "broken"

    def test_a_limit_that_is_kept_beside_an_open_answer_says_so(self):
        model, imputation = np.random.default_rng(1).random((2, 500)) < 0.6
        found = inference(right={"model": model, "imputation": imputation}, settings=AttributeSettings(margin=0.02))
        assert found.finding.answer == finding.TOO_LITTLE
        (kept,) = dv.gate(found, "share:0.9")
        assert (kept.state, kept.answer) == ("kept", "kept (no verdict)")
        assert kept.reason.startswith('the audit could not say "no leak": ')

    def test_copies_that_fit_below_the_limit_leave_a_ruling_kept(self):
        found = inference(copied=20)
        high = finding.possibly_given_away(found.finding.attacks[0], 250, 250, 20)
        assert dv.gate(found, f"share:{high + TINY:.12f}")[0].state == "kept"
        assert dv.gate(found, f"share:{high - 1e-6:.12f}")[0].state == "undecided"


class TestPages:
    def test_counted_records_alone_decide(self):
        n = 250
        is_counted = np.arange(2 * n) % 2 == 0
        guess = np.random.default_rng(0).random(2 * n) < 0.6
        right = {"model": guess | ~is_counted, "imputation": guess}
        found = inference(right=right, is_counted=is_counted)
        assert found.counts == (125, 125)
        assert found.finding.attacks[0].members.value == pytest.approx(guess[:n:2].mean())
        assert found.to_frame()["right: model"].to_list() == right["model"].tolist()

    @pytest.mark.parametrize(
        ("checks", "is_confounded", "notes"),
        [
            ((FAILED,), True, ["blind classifier: members can be told"]),
            ((NOT_RUN,), False, ["blind classifier: not run: too few"]),
            ((PASSED,), False, []),
            ((PASSED, FAILED, NOT_RUN), True, [f"{each.name}: {each.says}" for each in (FAILED, NOT_RUN)]),
        ],
    )
    def test_a_check_that_was_run_and_failed_confounds(self, checks, is_confounded, notes):
        found = inference(checks=checks)
        assert (found.finding.answer == CONFOUNDED) == is_confounded
        assert found.summary().warnings == ("be told", *notes)
        assert str(found) == found.verdict == f"{found.finding.answer.capitalize()}. {found.finding.reason}"
