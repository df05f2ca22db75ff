"""A policy is kept, broken, or neither can be said."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

import divulge as dv
from divulge.auditing.compare import compare, compare_classes
from divulge.auditing.gates import Limit, gate
from divulge.auditing.junit import render_junit
from divulge.evaluation.covariates import Adjustment, Covariates
from divulge.report import formatting
from divulge.results import CheckFinding
from score_audits import scored, sizes, with_copies, with_covariates, with_findings


def states(audit, *policies):
    return [ruling.state for ruling in gate(audit, policies)]


def audit_with_auc(auc, m, n):
    """Scores with about this AUC."""
    rng = np.random.default_rng(0)
    members = sizes(m, n)
    return scored({"loss": rng.normal(size=m + n) + 2**0.5 * ndtri(auc) * members}, members)


def test_kept_needs_the_upper_end_and_broken_the_lower_one():
    audit = audit_with_auc(0.6, 1000, 1000)
    area = dv.evaluation.auc(audit.scores["loss"], audit.members, audit.confidence)
    assert states(audit, f"auc:{area.high}") == ["kept"]
    assert states(audit, f"auc:{np.nextafter(area.high, 0)}") == ["undecided"]
    assert states(audit, f"auc:{area.low}") == ["undecided"]
    assert states(audit, f"auc:{np.nextafter(area.low, 0)}") == ["broken"]


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 300), (5, 5), (30, 30)])
def test_few_records_decide_nothing(m, n):
    ruling = gate(audit_with_auc(0.5, m, n), "auc:0.51")[0]
    assert ruling.state == "undecided"
    assert "more records would narrow it" in ruling.reason


@pytest.mark.parametrize("truth", [bool, all, lambda rulings: rulings[0]])
def test_what_a_gate_returns_is_true_only_where_limits_are_kept(truth):
    audit = audit_with_auc(0.7, 300, 300)
    assert truth(gate(audit, "auc:0.9"))
    for limits in ("auc:0.55", "epsilon:8", ["auc:0.55", "auc:0.9"]):
        assert not truth(gate(audit, limits))


def test_several_recipes_limits_and_scopes_share_the_error():
    members = np.arange(400) % 2 == 0
    rng = np.random.default_rng(1)
    labels = (np.arange(400) > 250).astype(int)
    audit = scored({f"r{i}": rng.normal(size=400) for i in range(3)}, members, labels=labels, unseen=(1,))
    rulings = gate(audit, ["auc:0.6", "auc:0.7", "tpr@fpr=0.05:0.2"], by="none")
    assert len(rulings) == 3 * 3 * 2
    for ruling in rulings:  # two limits on one statistic are held against one interval, that of the report
        assert ruling.estimate.confidence == pytest.approx(1 - 0.8 * 0.05 / (3 * 2 * 3))
    assert {ruling.scope for ruling in rulings} == {"all", "unseen classes"}
    assert gate(audit, "auc:0.6", confidence=0.9)[0].estimate.confidence == pytest.approx(1 - 0.8 * 0.1 / 18)


def test_epsilon_can_be_broken_and_never_kept():
    leaking, quiet = scored({"loss": sizes(200, 200) * 1.0}, sizes(200, 200)), audit_with_auc(0.5, 200, 200)
    assert states(leaking, "epsilon:1") == ["broken"]
    ruling = gate(quiet, "epsilon:8")[0]
    assert ruling.state == "undecided"
    assert "never shown kept" in ruling.reason


def test_a_level_that_the_nonmembers_cannot_resolve_is_undecided_and_says_what_it_takes():
    audit = audit_with_auc(0.9, 400, 200)
    broken, short = gate(audit, ["auc:0.6", "tpr@fpr=0.001:0.1"])
    assert broken.state == "broken"
    assert broken.estimate.confidence == pytest.approx(audit.confidence)
    assert (short.state, short.estimate) == ("undecided", None)
    assert short.reason == "tpr@fpr=0.001 needs 999 non-members, and there are 200"


def test_nothing_is_ruled_of_a_confounded_split():
    audit = scored({"loss": sizes(200, 200) * 1.0}, sizes(200, 200), confounded=True)
    ruling = gate(audit, "auc:0.6")[0]
    assert ruling.state == "undecided"
    assert "the split is confounded" in ruling.reason


def audit_by_length(leaks, *, texts=None, n=300, longer=0.2, seed=0):
    """An audit of members that are a little longer; recipe → leak, in scores that fall with length."""
    rng, members = np.random.default_rng(seed), sizes(n, n)
    length = rng.normal(size=2 * n) + longer * members
    scores = {name: leak * members - 2 * length + rng.normal(size=2 * n) for name, leak in leaks.items()}
    return with_covariates(scored(scores, members), Covariates(("length",), length[:, None]), texts=texts)


def test_what_length_alone_tells_is_neither_broken_nor_kept():
    audit = audit_by_length({"loss": 0.0, "deep": 3.0}, longer=0.7)
    loss, deep = gate(audit, "auc:0.6")
    assert dv.evaluation.auc(audit.scores["loss"], audit.members).high < 0.4
    assert (loss.state, deep.state, deep.adjusted) == ("undecided", "broken", True)
    assert "without adjustment" in loss.reason
    turned = replace(audit, scores={name: -scores for name, scores in audit.scores.items()})
    turned = with_covariates(turned, audit.covariates)
    loss, deep = gate(turned, "auc:0.6")
    assert loss.state == "undecided"
    assert (
        "by loss members can be told from non-members without adjustment, and not when adjusted for document length"
        in loss.reason
    )


def test_a_leak_that_length_masks_breaks_the_gate():
    audit = audit_by_length({"loss": 0.6}, longer=0.3)
    assert dv.evaluation.auc(audit.scores["loss"], audit.members).low < 0.5
    (ruling,) = gate(audit, "auc:0.55")
    assert ruling.state == "broken"
    assert ruling.estimate.value == pytest.approx(audit.adjusted("loss").auc.value)


def test_nothing_is_ruled_where_no_two_records_are_alike():
    audit = audit_by_length({"loss": 0.0}, longer=30.0)
    (ruling,) = gate(audit, "auc:0.99")
    assert ruling.state == "undecided"
    assert "hardly any members and non-members are alike in document length" in ruling.reason


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
        gate(audit_with_auc(0.5, 50, 50), ["auc:0.9", policy])


def test_a_gate_needs_a_policy():
    with pytest.raises(dv.InputError, match="at least 1"):
        gate(audit_with_auc(0.5, 50, 50), [])
    assert Limit.parse(" advantage : 0 ") == Limit("advantage", 0.0)


def test_a_score_that_points_the_wrong_way_keeps_no_limit_that_the_opposite_one_breaks():
    members = sizes(300, 300)
    audit = scored({"loss": np.random.default_rng(0).normal(size=600) - members}, members)
    assert audit.verdict.answer == "leak found"
    low, high = gate(audit, ["auc:0.6", "auc:0.9"])
    assert (low.state, high.state) == ("undecided", "kept")
    assert "opposite score is above the limit" in low.reason


def test_unseen_classes_of_which_none_are_alike_accuse_nobody_and_clear_nobody():
    """Balancing leaves no non-members of the unseen class; raw scores tell its members surely."""
    rng, members = np.random.default_rng(1), sizes(300, 300)
    labels = np.repeat([0, 1, 0, 1], [250, 50, 250, 50])
    scores = rng.normal(size=600)
    included = members | (labels == 0)
    adjustment = Adjustment(("age",), included, {"loss": scores[included]}, {"loss": 0.0}, 0.001, 0.5, overlap=True)
    audit = scored({"loss": np.where(labels == 1, 5 * members, scores)}, members, labels=labels, unseen=(1,))
    audit = replace(audit, adjustment=adjustment)
    assert "may be confounded on the unseen class 1" in audit.verdict.plain
    quiet = replace(audit, scores={"loss": scores})
    assert quiet.verdict.answer == "too little data to say"
    assert "class 1: hardly any training records and others of these are alike in age" in quiet.verdict.plain
    unseen, *_ = gate(quiet, "auc:0.9")
    assert (unseen.scope, unseen.state, unseen.adjusted) == ("unseen classes", "undecided", False)
    assert "hardly any members and non-members on the unseen class 1 are alike in age" in unseen.reason


def test_copies_do_not_narrow_a_paired_difference():
    rng, groups = np.random.default_rng(2), np.repeat(np.arange(100), 5)
    members, before, after = groups < 50, rng.normal(size=100)[groups], rng.normal(size=100)[groups]
    with_copies = [replace(scored({"loss": scores}, members), duplicate_groups=groups) for scores in (before, after)]
    once = [scored({"loss": scores[::5]}, members[::5]) for scores in (before, after)]
    assert compare(*with_copies)[0].change == compare(*once)[0].change


def test_nothing_is_kept_that_the_verdict_leaves_open():
    rng, members = np.random.default_rng(3), sizes(300, 300)
    audit = scored({"loss": rng.normal(size=600)}, members)
    assert states(audit, "auc:0.6") == ["kept"]
    hidden = replace(audit, unexplained_scores={"loss": rng.normal(size=600) + 0.3 * members})
    assert "difference may hide a leak" in hidden.verdict.plain
    assert dv.evaluation.auc(hidden.unexplained_scores["loss"], members, 0.95).low < 0.6
    (ruling,) = gate(hidden, "auc:0.6")
    assert ruling.state == "undecided"
    unexplained = dv.evaluation.auc(hidden.unexplained_scores["loss"], members, ruling.estimate.confidence)
    assert f"auc is {formatting.format_estimate(unexplained)}" in ruling.reason
    adjustment = Adjustment(("age",), np.ones(600, dtype=bool), audit.scores, {"loss": 0.2}, 0.001, 0.5, overlap=True)
    differ = replace(audit, scores={"loss": audit.scores["loss"] + 0.4 * members}, adjustment=adjustment)
    (ruling,) = gate(differ, "auc:0.7")
    assert differ.verdict.answer == "split is confounded"
    assert ruling.state == "undecided"
    assert ruling.reason == differ.verdict.plain.rstrip(".")


@pytest.mark.parametrize(("share", "judged"), [(0.03, {"class 0"}), (0.5, set())])
def test_classes_that_were_not_judged_stand_beside_a_limit_that_is_kept(share, judged):
    rng, members = np.random.default_rng(0), sizes(1000, 1000)
    labels = np.tile(np.arange(100) < 100 * share, 20).astype(int)
    rulings = gate(scored({"loss": rng.normal(size=2000)}, members, labels=labels), "auc:0.57")
    of_all = rulings[0]
    assert {ruling.scope for ruling in rulings[1:]} == judged
    assert set(of_all.unjudged) == {"class 0", "class 1"} - judged
    assert of_all.unjudged_by == (() if judged else ("class",))
    assert (of_all.state, "no class" in of_all.answer) == ("kept", not judged)
    assert all(name in of_all.reason for name in of_all.unjudged)
    for text in (repr(rulings), render_junit(rulings, "run")):
        assert text.count(of_all.reason) == 1


def test_a_failed_assertion_says_first_and_once_why_nothing_can_be_ruled():
    rng, members = np.random.default_rng(0), sizes(600, 600)
    audit = scored({name: rng.normal(size=1200) for name in ("loss", "lira", "rmia")}, members)
    assert gate(audit, "auc:0.6")
    used = CheckFinding("held out", "not cleared", "The non-members were trained on.", trained_on="nonmembers")
    rulings = gate(with_findings(audit, used), "auc:0.6")
    assert repr(rulings).splitlines()[1].strip() == used.reason
    assert repr(rulings).count(used.reason) == 1
    with pytest.raises(AssertionError, match=used.reason):
        assert rulings


def audit_in_doubt(code):
    """An audit of a model that leaks nothing, whose verdict is undecided for this reason."""
    rng, members = np.random.default_rng(3), sizes(300, 300)
    audit = scored({"quiet": rng.normal(size=600), "loss": rng.normal(size=600)}, members)
    if code == "explained by records":  # of one of two attacks
        return replace(audit, unexplained_scores={"loss": audit.scores["loss"] + 0.5 * members})
    if code == "no overlap":
        included = members.copy()
        adjustment = Adjustment(("age",), included, {"loss": np.zeros(300)}, {"loss": 0.0}, 0.001, 0.5, overlap=True)
        return replace(audit, scores={"loss": audit.scores["loss"]}, adjustment=adjustment)
    if code == "copies":  # so many that they could hide a leak of .75
        return with_copies(audit, 250)
    return with_findings(audit, CheckFinding("a check", code, "There is a doubt."))


@pytest.mark.parametrize(
    "code", ["implausible", "explained by records", "no overlap", "copies", "not cleared", "suspected"]
)
def test_no_limit_is_kept_where_the_verdict_is_in_doubt_and_the_reason_is_said(code):
    audit = audit_in_doubt(code)
    assert (audit.verdict.answer, audit.verdict.reasons[0].code) == ("too little data to say", code)
    rulings = gate(audit, ["auc:0.95", "advantage:0.9", "tpr@fpr=0.05:0.9", "exposed:200"])
    assert {ruling.state for ruling in rulings} == {"undecided"}
    assert all(ruling.reason for ruling in rulings)
    for ruling in gate(audit, "auc:0.95"):  # one reason for all recipes
        assert "more records would narrow it" not in ruling.reason


def test_a_limit_on_scores_that_show_more_than_records_explain_may_be_kept():
    rng, members = np.random.default_rng(3), sizes(300, 300)
    audit = scored({"quiet": rng.normal(size=600), "loss": rng.normal(size=600)}, members)
    raw = dict(audit.scores) | {"loss": audit.scores["loss"] + 0.5 * members}
    audit = replace(audit, scores=raw, unexplained_scores={"loss": audit.scores["loss"]})
    assert audit.verdict.reasons[0].code == "explained by records"
    rulings = gate(audit, "auc:0.75")
    assert rulings.answer == "kept (no verdict, no references)"
    assert "differences" in rulings[0].reason


def test_a_doubt_never_makes_a_broken_limit_undecided():
    audit = with_findings(audit_with_auc(0.9, 300, 300), CheckFinding("a check", "not cleared", "There is a doubt."))
    assert gate(audit, "auc:0.6").state == "broken"


def test_a_limit_that_few_records_keep_is_told_with_the_verdict_that_they_leave_open():
    members = sizes(25, 25)
    audit = scored({"loss": np.random.default_rng(1).normal(size=50)}, members)
    assert audit.verdict.answer == "too little data to say"
    rulings = gate(audit, "auc:0.9")
    assert rulings
    assert rulings.answer == "kept (no verdict, no references)"
    assert rulings[0].reason.startswith('the audit could not say "no leak": with 25 training records')
    for text in (repr(rulings), render_junit(rulings, "run")):
        assert text.count(rulings[0].reason) == 1
    assert gate(audit_with_auc(0.5, 300, 300), "auc:0.9").answer == "kept (no references)"


def audits_of_classes(rng, leaks, sizes_of_classes, recipes=("loss",)):
    """Audits of the same records, which give members of each class away by so much; one of each ``leaks``."""
    labels = np.repeat(np.arange(len(sizes_of_classes)), [2 * size for size in sizes_of_classes])
    members = np.concatenate([np.arange(2 * size) < size for size in sizes_of_classes])
    shared = rng.normal(size=len(labels))
    scores = [
        {name: shared + rng.normal(size=len(labels)) + np.array(leak)[labels] * members for name in recipes}
        for leak in leaks
    ]
    return [scored(each, members, labels=labels) for each in scores]


def test_a_class_that_gives_away_more_is_named_where_all_records_give_away_less(tmp_path):
    before, after = audits_of_classes(
        np.random.default_rng(0), [(2.0, 2.0, 0.0, 1.0), (0.0, 0.0, 2.0, 1.0)], (300, 300, 150, 4)
    )
    compared = dv.compare(before, after)
    (by_class,) = compared.class_changes.values()
    assert set(by_class) == {"class 0", "class 1", "class 2"}
    signs = {name: changes[0].direction for name, changes in by_class.items()}
    assert signs == {"class 0": -1, "class 1": -1, "class 2": 1}
    heading, sentence, tone = compared.judge("run 2")
    assert (heading, tone) == (
        "Less is given away over all records, more in some classes, and a leak is found all the same",
        "leak",
    )
    assert "More is given away within class 2." in sentence
    words = compared.describe_classes("run 2")
    assert "in 3 of 3" in words
    assert "Too few records to compare: class 3." in words
    frame = compared.to_frame()
    assert frame.filter(frame["candidates"] != "all")["candidates"].to_list() == list(by_class)
    page = compared.report(tmp_path / "page.html").read_text()
    assert "Changes within classes" in page
    for name, changes in by_class.items():  # paired, as if these records were all, at a fourth of the error
        rows = before.labels == int(name.removeprefix("class "))
        naive = dv.evaluation.paired_difference(
            after.scores["loss"][rows], before.scores["loss"][rows], before.members[rows], "auc", 1 - 0.05 / 3
        )
        assert changes[0].change == naive


def test_classes_of_models_that_give_away_as_much_seldom_differ():
    """Null: 8 classes of 15 to 40 members and as many others, 2 attacks; at most 5 % of comparisons may say so."""
    rng, found = np.random.default_rng(7), 0
    for _ in range(30):
        leak = rng.uniform(0, 2, 8)
        before, after = audits_of_classes(rng, [leak, leak], rng.integers(20, 40, 8), ("loss", "rmia"))
        by_class = compare_classes(before, after, ["loss", "rmia"])
        assert by_class
        found += any(change.direction for changes in by_class.values() for change in changes)
    assert found <= 6  # more than that has probability below .001 at 5 %


@pytest.mark.parametrize(("policy", "is_advised"), [("keep", True), ("drop", False), ("error", False)])
def test_what_the_user_has_done_about_copies_is_not_advised_again(policy, is_advised):
    audit = with_copies(audit_with_auc(0.5, 300, 300), 250)
    audit = replace(audit, about=replace(audit.about, settings=replace(audit.about.settings, duplicates=policy)))
    assert "250 candidates have copies" in audit.verdict.text
    assert ("duplicates='drop'" in audit.verdict.text) == is_advised
    assert ("duplicates='drop'" in gate(audit, "auc:0.9")[0].reason) == is_advised


def test_classes_are_listed_in_their_order():
    sizes_of_classes = (60, 80, 3, 100, 70, 2, 90)
    (audit,) = audits_of_classes(np.random.default_rng(0), [np.zeros(7)], sizes_of_classes)
    assert audit.verdict.answer == "no leak found"
    assert "class 0, class 1, class 3, class 4 and class 6, each judged by itself" in audit.verdict.text
    assert "judged separately: class 2 and class 5." in audit.verdict.text
    assert [ruling.scope for ruling in gate(audit, "auc:0.99") if ruling.by] == [f"class {i}" for i in (0, 1, 3, 4, 6)]
