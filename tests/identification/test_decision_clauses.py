"""Clauses of a decision and its case file: choices, standings, doubts and refusals, each reading and each limit."""

import math

import numpy as np
import pytest

from divulge import statistics
from divulge.decisions import fdr as step_up
from divulge.decisions import strata as by_strata
from divulge.decisions.controls import BLIND_SCORE, Control
from divulge.decisions.counts import Counts
from divulge.decisions.methods import BH, PTDI, AdaDetect, Adaptive, Auto, Storey
from divulge.decisions.strata import Strata
from divulge.errors import InputError
from divulge.identification import decision, from_arrays, score_adjustment
from divulge.identification.decision import Choice, Policy
from divulge.identification.score_tables import Score


def control(name="low scores", state="passed", *, conclusive=False, p=None):
    p = {"passed": 0.5, "doubtful": 0.01, "failed": 0.01}[state] if p is None else p
    return Control(name, p, 0.05, f"{name} seen", None, conclusive)


LOW, DOUBT = control(), control("blind text", "doubtful")
HOLDOUT, FAILED = control("exchangeability", conclusive=True), control("low end", "failed", conclusive=True)


# The decision


@pytest.mark.parametrize(
    ("controls", "several", "name", "reason"),
    [
        ([LOW], False, "storey", "not bh: the controls that could run passed (low scores)"),
        ([LOW, HOLDOUT], False, "adaptive", "not bh: the controls that could run passed (low scores, exchangeability)"),
        ([LOW, HOLDOUT], True, "adadetect", "not bh: the controls that could run passed (low scores, exchangeability)"),
        ([LOW, DOUBT], False, "bh", "not storey: blind text did not pass, and a shift hurts bh least"),
        ([DOUBT, FAILED], True, "bh", "not adadetect: blind text and low end did not pass, and a shift hurts bh least"),
        ([HOLDOUT, DOUBT], False, "bh", "not adaptive: blind text did not pass, and a shift hurts bh least"),
    ],
)
def test_auto_chooses_by_controls_and_signals_and_says_why(controls, several, name, reason):
    choice = decision.choose(Policy(0.1), controls, several=several)
    assert choice.method.name == name
    assert choice.reason == f"auto chose {name}, {reason}"
    assert decision.choose(Policy(0.1, PTDI()), controls, several=several) == Choice(PTDI())


def test_auto_uses_the_methods_it_holds():
    auto = Auto(storey=Storey(0.3))
    assert decision.choose(Policy(0.1, auto), [LOW]).method == Storey(0.3)
    assert decision.choose(Policy(0.1, auto), [HOLDOUT]).method == Adaptive()


def test_controls_that_fail_and_controls_that_doubt_have_a_level_each():
    shared = decision.share_level([LOW, DOUBT, DOUBT, HOLDOUT, FAILED])
    assert [c.level for c in shared] == pytest.approx([0.05 / 3] * 3 + [0.025] * 2)
    assert decision.share_level([]) == []
    assert decision.share_level([HOLDOUT])[0].level == 0.05


@pytest.mark.parametrize(
    ("controls", "standing"),
    [
        ([], "holds"), ([LOW], "holds"), ([LOW, DOUBT], "doubtful"), ([DOUBT, FAILED, LOW], "void"),
        ([FAILED, LOW], "void"), ([DOUBT, LOW], "doubtful"),
    ],
)  # fmt: skip
def test_the_worst_control_decides_the_standing(controls, standing):
    assert decision.combined_standing(controls) == standing


def test_alarms_say_what_is_void_first_and_what_would_settle_a_doubt():
    condition = "the bound holds if the non-members among the candidates do not differ from the calibration in that way"
    assert decision.alarms([LOW, HOLDOUT]) == []
    assert decision.alarms([DOUBT]) == [
        f"the guarantee is in doubt: blind text (p = 0.01): blind text seen; {condition}; a holdout of other "
        "non-members, drawn as the candidates were, would settle it"
    ]
    assert decision.alarms([DOUBT, HOLDOUT]) == [
        f"the guarantee is in doubt: blind text (p = 0.01): blind text seen; {condition}; the holdout does not, which "
        "settles it if it was drawn as those non-members were"
    ]
    assert decision.alarms([DOUBT, FAILED]) == [
        "the guarantee is void: low end FAILED (p = 0.01): low end seen",
        "blind text raises doubt (p = 0.01): blind text seen",
    ]


@pytest.mark.parametrize(
    ("controls", "is_untested"), [([], True), ([LOW], True), ([LOW, HOLDOUT], False), ([DOUBT], False)]
)
def test_low_scores_alone_test_nothing_but_scores(controls, is_untested):
    assert decision.is_untested(controls) is is_untested
    lines = decision.warnings(controls, ["", "a note"])
    assert (decision.UNTESTED in lines) is is_untested
    assert "" not in lines
    assert lines == (*decision.alarms(controls), "a note", *([decision.UNTESTED] if is_untested else []))


def test_a_decision_collects_its_doubts_before_its_notes():
    counts = Counts.empty(np.arange(40.0)).add(np.append(np.full(20, 99.0), np.arange(0.5, 10.5)))
    plain = decision.decide(counts, [LOW, HOLDOUT], Policy(0.1, BH()), requires_holdout=False)
    assert (plain.guarantee.standing, plain.choice, plain.warnings) == ("holds", Choice(BH()), ())
    assert plain.guarantee.assumes == step_up.ASSUMES
    assert decision.n_selected(counts, plain.rule) == 20
    doubted = decision.decide(
        counts, [LOW, HOLDOUT], Policy(0.1), orientation="turned", notes=["left out", ""], doubts=["copies"]
    )
    assert doubted.guarantee.standing == "doubtful"
    assert doubted.notes[:3] == ("the guarantee is in doubt: copies", "turned", "left out")
    assert doubted.notes[-1].startswith("auto chose adaptive")
    assert decision.decide(counts, [FAILED], Policy(0.1, BH()), doubts=["copies"]).guarantee.standing == "void"
    cautious = decision.decide(Counts.empty(np.arange(40.0)).add([99.0] * 5), [LOW], Policy(0.5, PTDI(0.5)))
    assert cautious.guarantee.standing == "doubtful"
    assert cautious.notes[0] == f"the guarantee is in doubt: {PTDI(0.5).caution(5)[0]}"
    nothing = step_up.Rule(math.inf, -1, 1.0, np.ones(2))
    assert decision.n_selected(counts, nothing) == 0
    assert decision.n_selected(counts, step_up.Rule(0.0, 0, 1.0, np.ones(2))) == 20


def test_repeated_calibration_scores_put_a_decision_in_doubt():
    calibration = np.repeat(np.random.default_rng(0).normal(size=20), 10)
    counts = Counts.empty(calibration).add(np.random.default_rng(1).normal(size=300))
    decided = decision.decide(counts, [LOW], Policy(0.3, BH()))
    assert decided.guarantee.standing == "doubtful"
    assert decided.notes[0] == f"the guarantee is in doubt: {decision.CALIBRATION_COPIES}"


@pytest.mark.parametrize(("n", "selects"), [(8, False), (9, True)])
def test_too_little_left_after_learning_selects_nothing_and_says_how_much_is_needed(n, selects):
    counts = Counts.empty(np.arange(float(n))).add(np.full(10, 99.0))
    decided = decision.decide(counts, [LOW], Policy(0.1, AdaDetect()))
    assert (decision.n_selected(counts, decided.rule) == 10) is selects
    text = "nothing was selected: 8 calibration rows remain after learning; at least 18 rows are needed"
    assert (text in decided.notes) is not selects
    if not selects:
        with pytest.raises(InputError, match="calibration: 8 scores are too few"):
            decision.decide(counts, [LOW], Policy(0.1, BH()))


def test_realised_rates_count_members_among_the_selected():
    selected = np.array([1, 1, 1, 0, 0, 0, 0], bool)
    truth = np.array([1, 1, 0, 1, 1, 1, 0], bool)
    fdp, power = decision.realised(selected, truth)
    assert (fdp.value, power.value) == (pytest.approx(1 / 3), pytest.approx(2 / 5))
    assert (fdp.low, fdp.high) == (statistics.proportion(1, 3).low, statistics.proportion(1, 3).high)
    nothing, _ = decision.realised(np.zeros(7, bool), truth)
    assert (nothing.value, nothing.low, nothing.high, nothing.confidence) == (0.0, 0.0, 1.0, 0.95)
    _, no_power = decision.realised(selected, np.zeros(7, bool))
    assert (no_power.value, no_power.low, no_power.high) == (0.0, 0.0, 1.0)


def test_scores_are_called_reversed_only_where_members_score_surely_lower():
    low, high = np.arange(20.0), np.arange(100.0, 120.0)
    member = np.arange(40) < 20
    area = statistics.auc(np.append(low, high), member)
    assert decision.orientation_warning(np.append(low, high), member) == (
        f"the scores seem to be the wrong way round: declared members score lower (AUC {area}); larger must mean more "
        "member-like"
    )
    assert decision.orientation_warning(np.append(high, low), member) == ""
    assert decision.orientation_warning(np.append(low, low), member) == ""
    assert decision.orientation_warning(np.append(low, high), None) == ""
    for same in (np.ones(40, bool), np.zeros(40, bool)):
        assert decision.orientation_warning(np.append(low, high), same) == ""


@pytest.mark.parametrize("shift", [0, 10, 20, 22, 24, 26, 40])
def test_a_direction_that_was_not_named_is_questioned_where_candidates_score_surely_lower(shift):
    score, calibration = Score("loss", 1, assumed=True), np.arange(100.0)
    candidates = np.arange(100.0) - shift
    counts = Counts.empty(calibration).add(candidates)
    area = np.mean((candidates[:, None] > calibration) + (candidates[:, None] == calibration) / 2)
    is_low = area <= 0.5 - 3.09 * np.sqrt(201 / (12 * 100 * 100))
    note = decision.direction_note(score, counts)
    assert note.startswith("no direction was named for the score 'loss': high was taken as member-like (loss:high)")
    ending = (
        f", but the candidates score lower than the calibration (AUC {area:.3f}); did you mean loss:low? Decide by "
        "what the score means: an end chosen for what it selects voids the bound"
    )
    assert note.endswith(ending) == is_low
    named = decision.direction_note(Score("loss", 1), counts)
    assert named == (f"loss:high was named as the member-like end{ending}" if is_low else "")
    opposite = decision.direction_note(Score("gain", -1), counts)
    assert ("the candidates score higher than the calibration" in opposite) == is_low


# Arrays


@pytest.mark.parametrize(("count", "text"), [(1, "1 row (0; counted from 0)"), (10, None), (11, None)])
def test_ten_rows_are_named(count, text):
    numbers = ", ".join(map(str, range(min(count, 10))))
    expected = text or f"{count} rows ({numbers}{', …' if count > 10 else ''}; counted from 0)"
    assert from_arrays.format_rows(range(count)) == expected


def test_a_selection_of_distinct_texts_is_spread_over_the_copies():
    rng = np.random.default_rng(0)
    words = [f"word {i} of a text" for i in range(40)]
    candidates = np.append(rng.normal(5, 1, 20), rng.normal(size=20))
    calibration_texts = [f"other {i} of a text" for i in range(60)]
    twice = from_arrays.identify(
        np.append(candidates, candidates[:2] - 0.5), rng.normal(size=60), fdr=0.2,
        candidate_texts=[*words, *words[:2]], calibration_texts=calibration_texts,
    )  # fmt: skip
    assert len(twice.selected) == 42
    assert twice.selected[40:].tolist() == twice.selected[:2].tolist()
    assert twice.warnings[-1] == "2 candidates are of texts that others are of as well; each text counts once"
    other = from_arrays.identify(
        candidates, rng.normal(size=61), fdr=0.2, candidate_texts=words,
        calibration_texts=[*calibration_texts, calibration_texts[0]],
    )  # fmt: skip
    assert other.warnings[-1].startswith("1 calibration scores are of texts")


@pytest.mark.parametrize("holdout_strata", [None, [1] * 30, [1] * 30 + [2] * 30, [2] * 30])
def test_within_strata_controls_are_of_strata_that_can_be_compared(holdout_strata):
    rng = np.random.default_rng(3)
    calibration, candidates = rng.normal(size=100), np.append(rng.normal(6, 1, 10), rng.normal(size=10))
    holdout = None if holdout_strata is None else rng.normal(size=len(holdout_strata))
    strata = Strata([1, 2] * 10, [1, 2] * 50, holdout=holdout_strata)
    selection = from_arrays.identify(candidates, calibration, holdout=holdout, fdr=0.2, adjust=strata)
    text = "10 of 20 candidates are of strata without a holdout: that these are alike is your assumption"
    assert (text in selection.warnings) == (holdout_strata is not None and len(set(holdout_strata)) == 1)
    assert (decision.UNTESTED in selection.warnings) == (holdout_strata is None)
    assert selection.guarantee.standing == "holds"
    expected = by_strata.select_within_strata(candidates, calibration, strata, fdr=0.2)
    assert selection.selected.tolist() == expected.selected.tolist()


def test_strata_and_scores_of_a_holdout_go_together():
    calibration, candidates = np.arange(40.0), np.append(np.full(5, 99.0), np.arange(5.0))
    with_holdout = Strata([1] * 10, [1] * 40, holdout=[1] * 5)
    for strata, holdout in ((with_holdout, None), (Strata([1] * 10, [1] * 40), np.arange(5.0))):
        with pytest.raises(InputError, match="holdout: its scores and its strata are needed, both or neither"):
            from_arrays.identify(candidates, calibration, holdout=holdout, adjust=strata, fdr=0.2)
    elsewhere = Strata([1] * 10, [1] * 40, holdout=[7] * 5)
    with pytest.raises(InputError, match="holdout: none of its strata has calibration records"):
        from_arrays.identify(candidates, calibration, holdout=np.arange(5.0), adjust=elsewhere, fdr=0.2)


# Blind scores


def test_blind_scores_are_of_all_records_or_of_none():
    three, two = np.arange(3.0), np.arange(2.0)
    names = ("baseline", "calibration_baseline", "holdout_baseline", "members_baseline")
    nothing = dict(zip(names, [(None, three), (None, two), (None, None), (None, two)], strict=True))
    assert score_adjustment.collect_blind_scores(nothing) is None
    everything = dict(zip(names, [(three, three), (two, two), (None, None), (two, two)], strict=True))
    blind = score_adjustment.collect_blind_scores(everything)
    assert (blind.candidates.tolist(), blind.calibration.tolist()) == ([0, 1, 2], [0, 1])
    assert (blind.holdout, blind.members.tolist()) == (None, [0, 1])
    for name in names:
        changed = (None, three) if name != "holdout_baseline" else (two, None)
        message = "given, but there are no scores" if name == "holdout_baseline" else "missing; blind scores are needed"
        with pytest.raises(InputError, match=f"^{name}: {message}"):
            score_adjustment.collect_blind_scores({**everything, name: changed})


def test_the_mean_rank_is_of_the_pool():
    ranked = score_adjustment.mean_rank(np.array([[1.0, 9.0], [3.0, 5.0]]), np.array([[2.0, 5.0]]))
    assert [side.tolist() for side in ranked] == [[(1 + 3) / 2, (3 + 1.5) / 2], [(2 + 1.5) / 2]]


def test_one_score_needs_no_learning_and_several_pay_with_half_of_the_calibration():
    one = score_adjustment.learn_score(np.arange(3.0), np.arange(4.0), 0.001, 0)
    assert [len(side) for side in one] == [3, 4]
    rng = np.random.default_rng(0)
    learned = score_adjustment.learn_score(rng.normal(size=(10, 2)), rng.normal(size=(21, 2)), 0.05, 0)
    assert [len(side) for side in learned] == [10, 11]
    with pytest.raises(InputError, match="calibration: 18 scores are too few"):
        score_adjustment.learn_score(rng.normal(size=(10, 2)), rng.normal(size=(18, 2)), 0.05, 0)


def test_what_a_blind_score_finds_is_said_beside_the_score():
    rng = np.random.default_rng(4)
    blind = score_adjustment.BlindScores(rng.normal(1.5, 1, 80), rng.normal(size=120))
    alike = blind.candidates + rng.normal(size=80), blind.calibration + rng.normal(size=120)
    better = rng.normal(8, 1, 80), rng.normal(size=120)
    for (candidates, calibration), ending in ((alike, ", which is not surely better"), (better, "")):
        adjusted = score_adjustment.adjust_scores(candidates, calibration, blind)
        (only,) = adjusted.controls
        assert (only.name, only.passed) == (BLIND_SCORE, False)
        area, difference = adjusted.comparison.score, adjusted.comparison.difference
        assert only.says.endswith(f", the score with AUC {area}{ending} (difference {difference})")
        assert adjusted.notes == (score_adjustment.ADJUSTED,)
        assert adjusted.members is None
    same = score_adjustment.BlindScores(rng.normal(size=80), rng.normal(size=120))
    (only,) = score_adjustment.adjust_scores(*alike, same).controls
    assert only.passed
    assert "surely" not in only.says


# The case file
