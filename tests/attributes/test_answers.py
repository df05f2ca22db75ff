"""Answers, pages and rulings of attribute inference at their exact limits, from differences that are written down."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from divulge import attributes, statistics
from divulge.attributes import finding, result
from divulge.attributes.finding import CLEAR, CONFOUNDED, LEAK, TOO_LITTLE, decide_attribute
from divulge.attributes.result import AttributeInference, AttributeRun
from divulge.report import formatting
from divulge.results import AttributeAttack, AttributeSettings, AttributeValue, ErasureControl
from divulge.types import Estimate

TINY = 1e-9


def estimate(low, high, value=None):
    return Estimate((low + high) / 2 if value is None else value, low, high, 0.95, "written down")


def attack(low, high, gain_low=0.9, gain_high=0.9, name="model"):
    share = estimate(0.0, 1.0)
    return AttributeAttack(name, share, share, estimate(low, high), estimate(gain_low, gain_high))


def value(low, high, gain_low=0.9, gain_high=0.9, name="f"):
    return AttributeValue("model", name, 5, 10, 5, 10, estimate(low, high), estimate(gain_low, gain_high))


def control(low=-0.1, high=0.1):
    return replace(attack(low, high, name="imputation"), gain=None)


def judge(attacks, values=(), imputation=None, margin=0.1, confounded="", counts=(100, 100), copied=0):
    return finding._judge(attacks, values, imputation or control(), margin, confounded, counts, copied)


class TestLimits:
    @pytest.mark.parametrize(
        ("low", "gain_low", "answer"),
        [(0.0, 0.9, CLEAR), (TINY, 0.9, LEAK), (0.05, 0.0, CLEAR), (0.05, TINY, LEAK), (-0.1, 0.9, CLEAR)],
    )
    def test_an_attack_gives_away_what_is_surely_above_others_and_above_imputation(self, low, gain_low, answer):
        assert judge([attack(low, 0.06, gain_low)])[0] == answer
        assert judge([attack(-1.0, 0.06), attack(low, 0.06, gain_low), attack(-1.0, 0.06)])[0] == answer

    @pytest.mark.parametrize(
        ("low", "gain_low", "answer"),
        [(0.0, 0.9, CLEAR), (TINY, 0.9, LEAK), (0.2, 0.0, CLEAR), (0.2, TINY, LEAK)],
    )
    def test_so_does_an_attack_on_one_value(self, low, gain_low, answer):
        attacks, found = [attack(-0.1, 0.05)], value(low, 0.4, gain_low)
        found_answer, reason = judge(attacks, [value(-1.0, 0.4, name="a"), found, value(-1.0, 0.4, name="b")])
        assert found_answer == answer
        if answer == LEAK:
            assert "Among the records with one of its values" in reason
            assert formatting.format_percent_estimate(found.difference) in reason

    @pytest.mark.parametrize(("high", "answer"), [(0.0999, CLEAR), (0.1, TOO_LITTLE), (0.2, TOO_LITTLE)])
    def test_what_may_be_given_away_stays_below_the_margin_in_every_attack(self, high, answer):
        assert judge([attack(-0.1, high)])[0] == answer
        found, reason = judge([attack(-0.1, 0.01), attack(-0.1, high), attack(-0.1, 0.02)])
        assert found == answer
        assert formatting.format_percent(round(high, 3)) in reason
        assert judge([attack(-0.1, 0.9, -0.1, high)])[0] == answer

    def test_a_share_is_given_in_tenths_of_a_per_cent_and_never_below_nothing(self):
        assert "value of at most 4.6 % of the training" in judge([attack(-0.1, 0.04567)])[1]
        assert "value of at most 0 % of the training" in judge([attack(-0.5, -0.3)])[1]

    @pytest.mark.parametrize(("high", "n_rare"), [(0.4999, 0), (0.5, 1), (0.7, 1)])
    def test_no_single_value_may_be_given_away_of_half_of_those_who_have_it(self, high, n_rare):
        attacks = [attack(-0.1, 0.05)]
        answer, reason = judge(attacks, [value(-0.4, 0.1, name="a"), value(-0.4, high, name="b")])
        assert answer == (TOO_LITTLE if n_rare else CLEAR)
        assert ("but 1 value of the attribute is too rare to say" in reason) == bool(n_rare)
        answer, reason = judge(attacks, [value(-0.4, high, name=name) for name in "aab"])
        assert ("but 2 values of the attribute are too rare to say" in reason) == bool(n_rare)
        assert reason.startswith("Over all training records the model gives at most 5 % away") == bool(n_rare)

    @pytest.mark.parametrize(
        ("low", "high", "is_alike"),
        [(0.0, 0.1, True), (TINY, 0.1, False), (-0.1, 0.0, True), (-0.1, -TINY, False), (-0.1, 0.1, True)],
    )
    def test_the_imputation_is_right_as_often_on_either_set(self, low, high, is_alike):
        answer, _ = judge([attack(-0.1, 0.01)], imputation=control(low, high))
        assert answer == (CLEAR if is_alike else CONFOUNDED)
        given, named = judge([attack(0.5, 0.6)], imputation=control(low, high), confounded="the split is known")
        assert (given, "the split is known" in named) == (CONFOUNDED, True)
        assert "guessed from the population" not in named

    def test_copies_that_alone_leave_it_open_are_named_and_others_besides(self):
        alone = judge([attack(-0.1, 0.05)], copied=10)
        assert alone == (TOO_LITTLE, finding.describe_copies(10) + ".")
        answer, reason = judge([attack(-0.1, 0.1)], copied=10)
        assert answer == TOO_LITTLE
        assert reason.startswith("The model may give the value of up to 22.2 % of the training records away; 10 % was")
        assert reason.endswith(f"More records make the interval shorter. {finding.describe_copies(10)}.")
        assert judge([attack(-0.1, 0.05)], copied=0)[0] == CLEAR
        assert judge([attack(-0.1, 0.1)])[1].endswith("shorter.")
        two_attacks = judge([attack(-0.1, 0.01), attack(-0.1, 0.15)], copied=10)[1]
        assert two_attacks.startswith("The model may give")  # the second is open without its copies
        _, few = judge([attack(-0.1, 0.08)], [value(-0.4, 0.2)], counts=(1000, 1000), copied=5)
        assert few.startswith("Over all")  # 5 of 10 non-members with the value

    def test_the_clearest_attack_is_described_with_its_own_numbers(self):
        attacks = [attack(0.01, 0.5, name="model"), attack(0.2, 0.44), attack(0.1, 0.3)]
        attacks[1] = replace(attacks[1], members=estimate(0, 1, 0.81239), nonmembers=estimate(0, 1, 0.51111))
        imputation = replace(control(), members=estimate(0, 1, 0.33333))
        assert judge(attacks, imputation=imputation)[1] == (
            "Whoever knows the rest of a training record guesses the missing value rightly in 81.2 % of training "
            "records, and in 51.1 % of others: a difference of 32.0 % [20.0, 44.0]. Imputation without the model is "
            "right in 33.3 % of training records."
        )


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
        assert finding._tested_values(values, members) == tested
        right = np.arange(len(members)) % 3 == 0
        found = decide_attribute({"model": right, "imputation": right}, members, values, ("a", "b", "c"))
        assert [each.value for each in found.values] == ["abc"[code] for code in tested]
        assert found.untested == untested

    def test_at_most_twenty_values_are_tested_the_most_frequent_among_members(self):
        members, values = guesses([(5 + (code * 7) % 22, 30) for code in range(22)])
        by_frequency = sorted(range(22), key=lambda code: -((code * 7) % 22))
        assert finding._tested_values(values, members) == by_frequency[:20]

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
        "settings": AttributeSettings(None, 64, 0.5, 0.95, 7),
    }  # fmt: skip
    return AttributeInference(**values | options)


FAILED = ErasureControl("blind classifier", False, "members can be told")
PASSED = ErasureControl("blind classifier", True, "all alike")
NOT_RUN = ErasureControl("blind classifier", False, "not run: too few")


class TestRulings:
    def test_a_policy_is_held_against_the_smaller_difference(self):
        part = attack(0.1, 0.3, 0.05, 0.4)
        smaller = attributes.policy._smaller_difference(part)
        assert (smaller.low, smaller.value, smaller.high) == (0.05, 0.2, 0.3)
        part = attack(0.1, 0.5, 0.15, 0.4)
        assert attributes.policy._smaller_difference(part).high == 0.4
        assert attributes.policy._smaller_difference(part).low == 0.1

    @pytest.mark.parametrize("count", [1, 3])
    def test_all_rulings_hold_together(self, count):
        rulings = attributes.gate(inference(), [f"share:0.{i}" for i in range(2, 2 + count)], confidence=0.9)
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
        assert {ruling.state for ruling in attributes.gate(found, "share:0.5")} == {share}
        by_value = attributes.gate(found, "value:0.6")
        assert {ruling.state for ruling in by_value} == {value}
        if "values" not in options:
            assert [(ruling.recipe, ruling.scope, ruling.estimate) for ruling in by_value] == [("all", "all", None)]

    def test_a_reason_says_which_doubt(self):
        def reason(policy="share:0.5", **options):
            return attributes.gate(inference(**options), policy)[0].reason

        assert reason(doubt="another model") == "another model"
        assert reason(stored=stored_records(proven=True, suspected=False)) == (
            "5 of 9 training records stand in this file"
        )
        assert reason(stored=stored_records(proven=False, suspected=True)).startswith("5 of 9")
        assert reason(copied=200) == finding.describe_copies(200)
        assert "members can be told" in reason(checks=(FAILED,))
        assert reason("value:0.6") == "no value is shared by enough members and non-members for a test of its own"
        rare = {"values": np.r_[[2] * 3, np.arange(497) % 2], "value_names": "abc"}
        assert reason("value:0.6", **rare) == "3 members have a value that too few records have for a test"

    def test_a_doubt_keeps_nothing_from_being_broken(self):
        members = np.arange(500) < 250
        leaking = {"model": members, "imputation": np.zeros(500, bool)}
        for options in ({}, {"doubt": "another model"}, {"copied": 3}):
            assert attributes.gate(inference(right=leaking, **options), "share:0.5")[0].state == "broken"

    def test_copies_that_fit_below_the_limit_leave_a_ruling_kept(self):
        found = inference(copied=20)
        high = finding.possibly_given_away(found.finding.attacks[0], 250, 250, 20)
        assert attributes.gate(found, f"share:{high + TINY:.12f}")[0].state == "kept"
        assert attributes.gate(found, f"share:{high - 1e-6:.12f}")[0].state == "undecided"


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
        assert [result.is_failed(check) for check in checks] == [check is FAILED for check in checks]
        found = inference(checks=checks)
        assert (found.finding.answer == CONFOUNDED) == is_confounded
        assert found.summary().warnings == ("be told", *notes)
        assert str(found) == found.verdict == f"{found.finding.answer.capitalize()}. {found.finding.reason}"
        assert all(result._is_check(text, checks) for text in notes)
        assert not result._is_check("be told", checks)
        assert result._is_check("records in the file: 5 of 9", checks)

    @pytest.mark.parametrize(("proven", "suspected"), [(True, False), (False, True), (False, False)])
    def test_records_in_the_file_are_told_in_warnings_advice_and_checks(self, proven, suspected):
        stored = stored_records(proven=proven, suspected=suspected)
        summary = inference(stored=stored).summary()
        assert any(text.startswith("records in the file: 5 of 9") for text in summary.warnings) == (proven or suspected)
        rows = result._check_table(summary).rows
        row = next(row for row in rows if row[0] == "records in the model's arrays")
        assert row == ["records in the model's arrays", "FOUND" if proven else "nothing found", stored.sentence]
        advice = result._advice(summary)
        assert bool(advice) == proven
        if proven:
            assert "Do not release the file." in str(advice)
            assert "By their bytes. Another kind of model keeps none" in str(advice)

    def test_advice_is_given_where_a_leak_was_found(self):
        members = np.arange(500) < 250
        leaking = inference(right={"model": members, "imputation": np.zeros(500, bool)}).summary()
        assert "Make the model fit single records less." in str(result._advice(leaking))
        weak = stored_records(proven=False, suspected=True)
        assert "fit single records less" in str(result._advice(replace(leaking, stored=weak)))
        assert result._advice(inference().summary()) == []

    @pytest.mark.parametrize(
        ("low", "high", "says"),
        [(0.0, 0.1, "nothing found"), (TINY, 0.1, "FOUND"), (-0.1, 0.0, "nothing found"), (-0.1, -TINY, "FOUND")],
    )
    def test_the_table_of_checks_says_which_found_something(self, low, high, says):
        summary = replace(inference(checks=(PASSED, FAILED)).summary(), attacks=(attack(0, 1), control(low, high)))
        rows = {row[0] + row[2]: row[1] for row in result._check_table(summary).rows}
        assert rows["blind classifierall alike"] == "nothing found"
        assert rows["blind classifiermembers can be told"] == "FOUND"
        question = "whether this is the model trained on the members"
        assert rows[f"{question}it predicts them surely better than a constant answer"] == "nothing found"
        assert next(found for text, found in rows.items() if text.startswith("imputation")) == says
        doubted = {row[0]: row[1:] for row in result._check_table(replace(summary, doubt="no")).rows}
        assert doubted[question] == ["FOUND", "in doubt: no"]
        assert "records in the model's arrays" not in doubted

    def test_facts_and_rates_are_those_of_the_run(self):
        found = inference()
        facts = result.facts(AttributeRun(found.summary(), found))
        assert facts == {
            "attribute": "age", "a guess is right": "exactly", "values tried": "2",
            "candidates": "250 members and 250 non-members", "reference models": "3",
            "difference that counts as none": "50 %", "seed": "7",
        }  # fmt: skip
        settings = AttributeSettings(0.25, 64, 0.1, 0.95, 7)
        run = AttributeRun(inference(settings=settings).summary(), found)
        assert result.facts(run)["a guess is right"] == "within 0.25"
        _, rows = result.attack_rows(found.summary())
        assert [row[0] for row in rows] == ["model", "imputation"]
        assert rows[0][4] == formatting.format_percent_estimate(found.finding.attacks[0].gain)
        assert rows[1][4] == "–"
        assert rows[0][1:4] == [
            formatting.format_percent_estimate(getattr(found.finding.attacks[0], part))
            for part in ("members", "nonmembers", "difference")
        ]

    def test_single_values_stand_in_a_table_and_those_without_a_test_below_it(self):
        names = ("a", "b", "c")
        found = inference(values=np.r_[[2] * 3, np.arange(497) % 2], value_names=names).summary()
        table, paragraph = result._value_blocks(found)
        assert [row[1] for row in table.rows] == [each.value for each in found.values]
        first = found.values[0]
        assert table.rows[0][2:4] == [
            f"{first.right_members} of {first.members}", f"{first.right_nonmembers} of {first.nonmembers}",
        ]  # fmt: skip
        assert table.single_records
        assert str(paragraph).count("3 members have a value that too few records have") == 1
        assert result._value_blocks(inference().summary()) == []
