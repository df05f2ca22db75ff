"""What the first line of a report says, at every size and for every kind of score."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import divulge as dv
from divulge import evaluation
from divulge.auditing import audit_page as page
from divulge.auditing import scopes
from divulge.auditing.checks.blind_baseline import describe_blind_baseline
from divulge.auditing.checks.covariates import describe_balance
from divulge.auditing.findings import realised_fpr
from divulge.auditing.summary import summarise_decision
from divulge.auditing.wording import describe_claim
from divulge.evaluation.covariates import Adjustment, Covariates
from divulge.report import formatting, html
from divulge.report.markdown import render
from divulge.results import BlindBaseline, CheckFinding, to_json_values
from score_audits import scored, sizes, with_covariates, with_findings


def quiet(m, n, recipes=1, fpr=(0.05,)):
    """Scores that put members and non-members in the same places."""
    members = sizes(m, n)
    scores = np.r_[np.linspace(0, 1, m), np.linspace(0, 1, n)] if min(m, n) > 1 else np.full(m + n, 0.5)
    return scored({f"r{i}": scores for i in range(recipes)}, members, fpr=fpr)


def in_figures(verdict):
    """What a verdict says, with the figures behind it."""
    return " ".join((verdict.text, *verdict.evidence))


@pytest.mark.parametrize(
    ("n", "words", "tone"), [(60, "No leak found by a weak test", "undecided"), (400, "No leak found", "clear")]
)
def test_few_records_say_in_their_first_words_that_large_leaks_are_meant(n, words, tone):
    audit = quiet(n, n)
    assert audit.verdict.answer == "no leak found"
    assert audit.verdict.plain.startswith(f"{words}: ")
    assert ("only a large leak would have shown" in audit.verdict.plain) == (n == 60)
    assert (audit.page().heading, audit.page().tone) == (words, tone)


@pytest.mark.parametrize(
    ("m", "n", "fpr", "answer"),
    [
        (1, 1, (0.5,), "too little data to say"),
        (1, 1200, (0.001,), "too little data to say"),
        (1200, 1, (0.5,), "too little data to say"),
        (5, 5, (0.2,), "too little data to say"),
        (30, 30, (0.05,), "too little data to say"),
        (60, 60, (0.05,), "no leak found"),
        (1000, 120, (0.01,), "no leak found"),
        (1000, 1000, (0.05, 0.01), "no leak found"),
    ],
)
def test_silence_is_a_finding_only_where_a_leak_would_have_been_seen(m, n, fpr, answer):
    verdict = quiet(m, n, fpr=fpr).verdict
    assert verdict.answer == answer
    assert verdict.tone == {"too little data to say": "undecided", "no leak found": "clear"}[answer]
    assert "no AUC" not in verdict.text
    assert "None" not in verdict.text
    assert ("probability is an AUC of 0." in in_figures(verdict)) == (answer == "no leak found")
    assert ("would have noticed, 8 times in 10, a leak" in verdict.text) == (answer == "no leak found")
    if m == 1:
        assert "1 training record and" in verdict.text


def test_a_true_no_leak_names_the_smallest_auc_and_tpr_or_what_a_tpr_takes():
    audit = quiet(1000, 1000, fpr=(0.01, 0.05))
    confidence = audit.summary().smallest_detectable.confidence
    smallest, text = dv.evaluation.smallest_detectable(1000, 1000, 0.05, confidence), in_figures(audit.verdict)
    assert f"with 80 % probability is an AUC of {smallest.auc:.3f} or a TPR of {smallest.tpr:.3f} at FPR 0.05" in text
    few = quiet(1000, 120, fpr=(0.01,)).summary().smallest_detectable
    min_nonmembers = dv.evaluation.nonmembers_to_tell(0.01, few.confidence)
    assert (
        f"No TPR at FPR 1 % could have been told from chance: that would take {min_nonmembers} non-members"
        in in_figures(quiet(1000, 120, fpr=(0.01,)).verdict)
    )
    assert "TPR" in in_figures(quiet(1000, min_nonmembers, fpr=(0.01,)).verdict).partition("under the model")[0]


def test_what_would_have_been_seen_is_told_in_words_and_never_smaller_than_it_is():
    for audit in (quiet(1000, 1000, fpr=(0.01, 0.05)), quiet(300, 300), quiet(60, 60)):
        smallest, text = audit.summary().smallest_detectable, audit.verdict.text
        pairs = int(re.search(r"in (\d+) of 100 cases", text)[1])
        assert smallest.auc <= pairs / 100 < smallest.auc + 0.01
        assert (", or recognises " in text) == (smallest.tpr is not None)
        if smallest.tpr is not None:
            count, total = re.search(r"recognises (\d+) of ([\d,]+) training", text).groups()
            assert smallest.tpr <= int(count) / int(total.replace(",", "")) < smallest.tpr + 0.01


def test_more_recipes_ask_for_more_records():
    """The number of records that is named is enough, and one less is not."""
    records_needed = []
    for recipes in (1, 8):
        text = quiet(20, 20, recipes).verdict.text
        records_needed.append(int(text.partition("About ")[2].split()[0]))
        assert quiet(records_needed[-1], records_needed[-1], recipes).verdict.answer == "no leak found"
        assert quiet(records_needed[-1] - 1, records_needed[-1] - 1, recipes).verdict.answer == "too little data to say"
    assert records_needed[1] > records_needed[0] > 30


def test_a_score_that_points_the_wrong_way_is_a_leak():
    members = sizes(100, 100)
    verdict = scored({"loss": -1.0 * members + np.linspace(0, 0.5, 200) % 0.1}, members).verdict
    assert verdict.answer == "leak found"
    assert "reversed, it finds members" in in_figures(verdict)


def test_an_epsilon_of_sure_nonmembers_is_explained_beside_a_tpr_below_chance():
    """A third of the non-members score below every member, a tenth above."""
    members, nonmember_scores, turn = sizes(900, 900), np.linspace(0, 1, 900), np.arange(900) % 30
    outside = np.where(turn < 10, nonmember_scores - 5, np.where(turn < 13, nonmember_scores + 5, nonmember_scores))
    audit = scored({"loss": np.r_[nonmember_scores, outside]}, members)
    assert audit["loss"].tpr_at_fpr(0.05).value == 0
    epsilon = audit["loss"].epsilon()
    assert epsilon.low > 3
    assert epsilon.method.endswith("from sure non-members")
    notes, bound = page.recipe_notes(audit.summary()), audit.summary().recipes["loss"].epsilon
    assert bound.low == epsilon.low
    assert any(
        f"(ε ≥ {formatting.format_lower_bound(bound.low)})" in note and "from sure non-members" in note
        for note in notes
    )
    assert any(epsilon.method in str(recipe.epsilon) for recipe in audit.summary().recipes.values())
    turned = scored({"loss": -audit.scores["loss"]}, ~audit.members)
    assert turned["loss"].epsilon().method.endswith("from sure members")
    assert turned["loss"].epsilon().low == epsilon.low
    assert not any("sure non-members" in note for note in page.recipe_notes(turned.summary()))


def test_a_leak_by_epsilon_alone_names_both_bounds_beside_tables_of_auc_and_tpr():
    """Every seventh of 190 others scores below all members, and less what records explain the AUC alone shows it."""
    members, rng = sizes(190, 190), np.random.default_rng(0)
    outside = np.where(np.arange(190) % 7 == 0, -9.0, np.linspace(0.04, 1.04, 190))
    raw = scored({"loss": np.r_[np.linspace(0, 1, 190), outside]}, members)
    audit = replace(raw, unexplained_scores={"loss": rng.normal(size=380) + 0.45 * members})
    verdict, summary = audit.verdict, audit.summary()
    assert verdict.answer == "leak found"
    numbers = summary.recipes["loss"]
    assert numbers.auc.low < 0.5 < numbers.auc.high
    assert numbers.epsilon.low < audit["loss"].epsilon().low
    for bound in (audit["loss"].epsilon(), numbers.epsilon):
        assert f"ε ≥ {formatting.format_lower_bound(bound.low)}" in verdict.deciding
    assert "its AUC is" in verdict.deciding
    assert verdict.deciding in page.strongest_recipe_table(summary, "loss", verdict.deciding).note
    assert not raw.verdict.deciding.count("the lower bound that the tables give")


def test_a_leak_is_said_so_that_anybody_can_repeat_it_with_one_interval_everywhere():
    """A quarter of 500 members score above all non-members; the words, the picture and the table say the same."""
    members = sizes(500, 500)
    half = np.linspace(0, 1, 500)
    audit = scored({"loss": np.r_[half + 2 * (np.arange(500) % 25 < 6), half]}, members, fpr=(0.05,))
    verdict, rate = audit.verdict, audit.summary().recipes["loss"].tpr_at_fpr["0.05"]
    low, high = np.floor(100 * rate.low), np.ceil(100 * rate.high)
    expected_text = f"{100 * rate.value:.0f} of 100 training records ({low:.0f} to {high:.0f})"
    assert verdict.plain == f"About {expected_text} can be recognised while wrongly accusing at most 5 of 100 others."
    assert f"TPR {rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}] at FPR 0.05" in in_figures(verdict)
    member_picture, nonmember_picture = verdict.pictures
    assert (member_picture.value, member_picture.low, member_picture.high, member_picture.total) == (
        round(100 * rate.value),
        low,
        high,
        100,
    )
    assert (nonmember_picture.value, nonmember_picture.high, nonmember_picture.total) == (0, 5, 100)  # at most
    page = audit.page(related={})
    text = render(page)
    assert f"{100 * rate.value:.3g} % [{100 * rate.low:.3g}, {100 * rate.high:.3g}]" in text
    assert html.render(page).count("<svg") >= 2


def test_an_auc_is_said_as_pairs_told_right_and_a_reversed_one_likewise():
    members = sizes(300, 300)
    scores = np.random.default_rng(0).normal(size=600) + 0.8 * members
    right = scored({"loss": scores}, members, fpr=(0.01,)).verdict
    wrong = scored({"loss": -scores}, members, fpr=(0.01,)).verdict
    assert "tells which is which in about 7" in right.plain
    assert right.plain == wrong.plain
    assert "guessing is right in 50" in right.plain
    assert "points the wrong way" not in in_figures(right)
    assert "points the wrong way" in in_figures(wrong)


@pytest.mark.parametrize(
    ("value", "low", "high", "chance", "expected"),
    [
        (0.073, 0.041, 0.118, 0.01, "7 of 100 (4 to 12)"),
        (0.0152, 0.0111, 0.021, 0.01, "15 of 1,000 (11 to 21)"),
        (0.00301, 0.0011, 0.0052, 0.001, "30 of 10,000 (11 to 52)"),
        (1.0, 0.97, 1.0, 0.01, "100 of 100 (97 to 100)"),
        (0.52, 0.5001, 0.54, 0.5, "5,200 of 10,000 (5,001 to 5,400)"),
        (0.03, 0.0, 0.2, 0.05, "3 of 100 (0 to 20)"),
        (0.564, 0.5096, 0.6164, 0.5, "56 of 100 (51 to 62)"),
    ],
)
def test_counts_are_rounded_outwards_from_what_tables_show_and_never_down_to_chance(value, low, high, chance, expected):
    estimate = dv.types.Estimate(value, low, high, 0.95, "")
    assert str(formatting.natural_frequency(estimate, chance)) == expected


def test_an_epsilon_alone_is_a_leak():
    """Non-members at both ends, members in the middle: AUC and TPR are at chance, and yet many can be ruled out."""
    members = sizes(2000, 2000)
    half = np.linspace(-1, 1, 2000)
    audit = scored({"loss": np.r_[half, np.where(np.abs(half) > 0.5, 4 * half, half)]}, members, fpr=(0.5,))
    assert audit["loss"].auc.low < 0.5 < audit["loss"].auc.high
    verdict = audit.verdict
    assert verdict.answer == "leak found"
    assert "ε ≥ " in in_figures(verdict)


def test_unseen_classes_too_few_to_say_stand_before_all_classes():
    labels = np.r_[np.zeros(1000, int), np.ones(10, int)]
    members = np.arange(1010) % 2 == 0
    scores = np.repeat(np.linspace(0, 1, 505), 2)
    text = scored({"loss": scores}, members, labels=labels, unseen=(1,)).verdict
    assert text.answer == "too little data to say"
    assert text.text.startswith("Too little data to say on the unseen class 1: with 5 training records and 5 others")
    assert "No leak found on all classes" in text.text
    leaking = scored({"loss": scores + members}, members, labels=labels, unseen=(1,)).verdict
    assert leaking.answer == "leak found"
    assert "on all classes" in leaking.text
    assert "Too little data to say on the unseen class 1" in leaking.text


def test_what_the_unseen_classes_clear_does_not_hide_what_all_classes_show():
    """Nothing on the unseen class; on all classes the records may explain what is seen, or the sets may differ."""
    rng, members = np.random.default_rng(0), sizes(400, 400)
    labels = np.tile([0, 1], 400)
    noise = rng.normal(size=800)
    audit = scored({"loss": noise}, members, labels=labels, unseen=(1,))
    assert audit.verdict.answer == "no leak found"
    leaking = noise + (labels == 0) * members
    hidden = replace(audit, unexplained_scores={"loss": leaking})
    assert hidden.verdict.answer == "too little data to say"
    assert "are told apart only once differences between the two groups are taken into account" in hidden.verdict.text
    assert "This is so of loss." in hidden.verdict.evidence
    assert "No leak found on the unseen class 1" in hidden.verdict.text
    explained = replace(audit, scores={"loss": leaking}, unexplained_scores={"loss": noise})
    assert explained.verdict.answer == "too little data to say"
    assert "but no longer once differences between the two groups are taken into account" in explained.verdict.text
    adjustment = Adjustment(
        ("age",), np.ones(800, dtype=bool), {"loss": noise}, {"loss": 0.2}, 0.001, 0.5, overlap=True
    )
    differ = replace(audit, scores={"loss": leaking}, adjustment=adjustment)
    assert "may be confounded on all classes: by loss members can be told" in differ.verdict.plain
    assert differ.verdict.answer == "split is confounded"
    assert "No leak found" not in differ.verdict.text


def test_no_epsilon_is_reported_that_the_judged_scores_do_not_show():
    """The raw score bounds ε by age alone; adjusted, or less what the records explain, it bounds nothing."""
    rng, members = np.random.default_rng(1), sizes(400, 400)
    age = rng.normal(size=800) + 0.5 * members
    raw = scored({"loss": age + rng.normal(size=800) / 100}, members)
    assert raw.summary().recipes["loss"].epsilon.low > 0
    assert "ε ≥ 0.00" not in str(raw.page())
    explained = replace(raw, unexplained_scores={"loss": rng.normal(size=800)})
    assert explained.verdict.answer == "too little data to say"
    assert "bound it from below only: ε ≥ 0.00" in str(explained.page())


def test_the_report_says_whether_covariates_tell_the_sets_apart():
    rng, members = np.random.default_rng(2), sizes(300, 300)
    for shift, sentence in (
        (0.0, "no difference found among those that took part"),
        (30.0, "hardly any are alike: the split is confounded"),
    ):
        age = rng.normal(size=600) + shift * members
        audit = with_covariates(scored({"loss": age}, members), Covariates(("column:age",), age[:, None]))
        page = str(audit.page())
        assert "Covariates: can members be told from non-members by age?" in page
        assert sentence in page
    adjustment = replace(audit.adjustment, overlap=True)
    still = with_findings(replace(audit, adjustment=adjustment), describe_balance(adjustment))
    assert "also among those that took part: the split is confounded" in str(still.page())
    assert "also where the sets were balanced in this respect" in still.verdict.plain


def test_a_report_of_copies_has_rates_that_the_distinct_records_resolve():
    groups = np.repeat(np.arange(60), 20)
    audit = scored({"loss": np.random.default_rng(3).normal(size=60)[groups]}, groups < 30, fpr=(0.1,))
    audit = replace(audit, duplicate_groups=groups, labels=groups % 2)
    numbers = audit.summary().recipes["loss"]
    assert (numbers.members, numbers.nonmembers) == (30, 30)
    assert numbers.classes["0"].members == 15
    assert "How many are recognised" in str(audit.page())


def test_every_answer_is_said_in_words_in_the_report_and_is_plain_data():
    for audit, heading in (
        (quiet(5, 5, fpr=(0.2,)), "Too little data to say"),
        (quiet(100, 100), "No leak found"),
        (scored({"loss": sizes(50, 50) * 1.0}, sizes(50, 50)), "Leak found"),
        (scored({"loss": sizes(50, 50) * 1.0}, sizes(50, 50), confounded=True), "Guarantee void"),
    ):
        stored = json.loads(json.dumps(to_json_values(audit.summary().verdict)))
        assert stored == {"answer": audit.verdict.answer, "tone": audit.verdict.tone, "text": audit.verdict.text}
        start_page = dv.report.Page("title", audit.verdict.text, audit.verdict.tone, ())
        assert f"</span> {heading}</p>" in html.render(start_page)
        assert audit.verdict.text in render(start_page)


def test_a_realised_fpr_is_judged_by_its_interval_and_by_what_one_calibration_explains():
    def rate_with(above):
        return realised_fpr(np.r_[np.full(above, 1000.0), np.linspace(0, 50, 400 - above)], np.arange(99.0), 0.05)

    assert rate_with(20).judged == "agrees"
    assert rate_with(35).judged.startswith("above, as in one of ")
    assert not rate_with(35).broken
    assert rate_with(35).rate.low > 0.05
    assert rate_with(200).judged.startswith("higher than asked for")
    assert rate_with(0).judged == "below"


def test_a_false_positive_rate_that_was_not_kept_is_flagged_in_summary_page_and_notes():
    members = sizes(10, 400)
    outside = np.r_[np.full(200, 1000.0), np.linspace(0, 50, 200)]
    summary = scored({"loss": np.r_[np.zeros(10), outside]}, members).summary()
    rate = summary.recipes["loss"].realised_fpr["0.05"]
    assert rate.broken
    assert rate.rate.low > 0.05
    (note,) = [note for note in page.recipe_notes(summary) if "than the 5 % asked for" in note]
    assert "the luck of one calibration does not explain it" in note


@pytest.mark.parametrize(
    ("above", "judgement"), [(20, ""), (35, "above, as in one of"), (200, "higher than asked for")]
)
def test_deciding_again_says_when_the_rate_asked_for_was_not_kept(above, judgement):
    outside = np.r_[np.full(above, 1000.0), np.linspace(0, 50, 400 - above)]
    outcome = scored({"loss": np.r_[np.zeros(10), outside]}, sizes(10, 400))["loss"]
    warnings = summarise_decision(outcome, outcome.selection(fpr=0.05), 0.05, 1).warnings
    flagged = [warning for warning in warnings if "the realised FPR at nominal 0.05" in warning]
    assert len(flagged) == bool(judgement)
    assert not judgement or judgement in flagged[0]


@pytest.mark.parametrize(("side", "errors"), [(True, 1), (False, 0)])
def test_a_leak_in_epsilon_alone_is_told_in_records(side, errors):
    """Many records of one side beyond all but ``errors`` of the other: AUC and TPR are at chance, ε is not."""
    members = sizes(600, 600)
    scores = np.zeros(1200)
    sure = np.flatnonzero(members == side)[:60]
    mistaken = np.flatnonzero(members != side)[:errors]
    scores[sure], scores[mistaken] = (10 if side else -10), (10 if side else -10)
    records = evaluation.surest_records(scores, members)
    assert records == evaluation.SurestRecords(side, 60, 600, errors, 600)
    audit = scored({"loss": scores}, members, fpr=(0.3,))
    plain, pictures = describe_claim(scopes.TestedStatistic("loss", "ε", 0.0, audit["loss"].epsilon()), "", records)
    assert "60 of 600" in plain
    assert [(dots.value, dots.total) for dots in pictures] == [(60, 600), (errors, 600)]
    if not side:
        assert audit.verdict.answer == "leak found"
        assert evaluation.epsilon_lower_bound(scores, members).low > 0


def test_of_scores_that_say_nothing_no_record_is_sure():
    assert evaluation.surest_records(np.random.default_rng(0).normal(size=400), sizes(200, 200)) is None
    assert evaluation.surest_records(np.zeros(400), sizes(200, 200)) is None


@pytest.mark.parametrize(("blind", "confirmed"), [(None, True), (0.52, True), (0.52, False), (0.0, True)])
def test_a_leak_says_that_records_do_not_explain_it_where_that_was_looked_at(blind, confirmed):
    """And which shift of a column the blind baseline would have seen, where it was run."""
    members = sizes(300, 300)
    audit = scored({"r": np.random.default_rng(0).normal(size=600) + members}, members)
    if blind is not None:
        area = dv.Estimate(0.5, 0.45, 0.55, 0.95, "delong")
        baseline = BlindBaseline(area, False, 0.5, 0.01, 600, "kernel ridge", blind or None)
        audit = with_findings(audit, describe_blind_baseline(baseline))
    if confirmed:
        audit = replace(audit, unexplained_scores={"r": audit.scores["r"]})
    assert audit.verdict.answer == "leak found"
    is_told = blind is not None and confirmed
    assert ("The result remains when the differences that can be seen" in audit.verdict.text) == is_told
    figures = in_figures(audit.verdict)
    assert ("after what the records alone explain has been subtracted" in figures) == is_told
    assert ("tells members from non-members with AUC 0.520" in figures) == (is_told and blind > 0)
    assert ("no shift of one column would surely have been seen" in figures) == (is_told and not blind)


@pytest.mark.parametrize(
    ("effect", "n", "leak"),
    [("not checked", 300, 0), ("unsure", 300, 0), ("not cleared", 20, 0), ("implausible", 300, 0),
     ("not comparable", 300, 3), ("leak", 300, 0)],
)  # fmt: skip
def test_a_suspicion_is_told_beside_whatever_decides(effect, n, leak):
    suspicion = CheckFinding("files", "suspected", "Five records seem to stand in this file.")
    other = CheckFinding("other", effect, "Something else was found.")
    audit = quiet(n, n)
    audit = replace(audit, scores={name: scores + leak * audit.members for name, scores in audit.scores.items()})
    for findings in ((suspicion, other), (other, suspicion)):
        verdict = with_findings(audit, *findings).verdict
        assert suspicion.sentence in verdict.text
        assert verdict.answer != "no leak found"
