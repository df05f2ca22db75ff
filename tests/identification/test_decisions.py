"""What a decision chooses and doubts, and how copies and strata count."""

import numpy as np
import pytest

from divulge import statistics
from divulge.decisions import strata as by_strata
from divulge.decisions.controls import Control
from divulge.decisions.counts import Counts
from divulge.decisions.methods import BH, PTDI, AdaDetect
from divulge.decisions.strata import Strata
from divulge.errors import InputError
from divulge.identification import decision, from_arrays
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


# The case file
