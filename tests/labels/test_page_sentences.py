"""Every sentence of the report on a labels attack, in each of its readings; what summaries and files tell of labels."""

import dataclasses

import numpy as np
import pytest

from divulge import labels
from divulge.labels import inference as labels_summary
from divulge.report import labels_page
from divulge.report.markdown import render
from divulge.report.run_kinds import build_page
from divulge.report.sections import ADVICE_TITLE
from divulge.results import CapacitySummary, DefenceSummary, LabelsSummary, OracleSummary, PlanSummary

PROGRESS = ([0, 2, 4], [0.0, 0.5, 1.0])


def summary(**changes):
    run_summary = LabelsSummary(
        queries=4,
        complete=True,
        certain=900,
        proven=1000,
        determined=1000,
        checked=True,
        caveat="",
        contradiction=None,
        labels=(0, 1),
        scored=1200,
        residual=0.0,
        right=None,
        accuracy=None,
        certain_and_wrong=None,
        oracle=OracleSummary("log_loss", 1200, 2, 1e-3, None, 0.0, "bounded"),
        plan=PlanSummary("integer", 4, 300.0, True, "certified: far apart"),
        limit=CapacitySummary(3, 400.0, "the mantissa"),
        defence=DefenceSummary(
            100, 0.6, {"noise": 0.25, "decimals": None}, {"noise": "f", "decimals": "g"}, ("do it",)
        ),
    )
    return dataclasses.replace(run_summary, **changes)


def page(**changes):
    return build_page(labels_page.LABELS, labels_page.LabelsRun(summary(**changes), PROGRESS))


@pytest.mark.parametrize(("queries", "scores"), [(1, "1 score"), (2, "2 scores"), (1234, "1,234 scores")])
def test_the_verdict_counts_proven_labels_where_the_truth_is_unknown_and_right_ones_where_it_is_known(queries, scores):
    assert page(queries=queries).verdict == f"1,000 of 1,200 labels were read from {scores}."
    assert page(queries=queries, right=1100).verdict == f"1,100 of 1,200 labels were recovered from {scores}."
    assert page(right=0).verdict.startswith("0 of 1,200 labels were recovered")
    assert page().pictures[0].value != page(right=300).pictures[0].value


@pytest.mark.parametrize(
    ("proven", "right", "leaks"),
    [(1, None, True), (0, None, False), (0, 1080, False), (0, 1081, True), (0, 0, False), (5, 0, True)],
)
def test_labels_leak_if_one_is_proven_or_nine_of_ten_are_right(proven, right, leaks):
    rendered = page(proven=proven, determined=proven, certain=0, right=right)
    assert rendered.tone == ("leak" if leaks else "plain")
    assert rendered.heading == ("Labels leak" if leaks else "")


def test_what_is_proven_and_what_is_certain_are_told_apart():
    sentence = page().details[-1]
    assert sentence == (
        "1,000 follow from the scores if the noise kept to what was declared, 900 even if it was twice that."
    )
    assert page(proven=0, certain=0).details[-1] == "Nothing is proven."


def test_labels_that_are_not_proven_under_noise_without_a_bound_are_guesses_that_may_be_right():
    oracle = OracleSummary("log_loss", 1200, 2, 1e-3, None, 0.1, "gaussian")
    rendered = page(proven=0, certain=0, oracle=oracle)
    assert rendered.verdict == "0 of 1,200 labels were read beyond doubt from 4 scores."
    assert rendered.details[-1].endswith("The labels are best guesses, and may be right.")


def test_nothing_is_read_from_answers_that_contradict_what_was_declared():
    rendered = page(contradiction="the answers are too large")
    assert rendered.verdict == "The answers are too large."
    assert rendered.heading == "The answers contradict the specification"
    assert rendered.tone == "plain"
    text = render(rendered)
    assert "no labels are given" in text
    for absent in ("follow from the scores", "labels were", ADVICE_TITLE):
        assert absent not in text


def test_a_setting_that_does_not_suffice_alone_is_said_not_to():
    rows = {name: value for name, value, _ in labels_page.settings(summary().defence)}
    assert rows == {"noise": "0.25", "decimals": "none suffices alone"}
    assert "Each alone holds 100 queries to 60 % accuracy" in render(page())


BOUNDED = labels.OracleSpec(n=6, clip=1e-3, noise=1e-6)


def inferred(spec=BOUNDED, upto=None, off=0.0):
    plan, truth = labels.design(spec), np.arange(spec.n) % 2
    answers = np.array([labels.LocalOracle(spec, truth).exact(plan.queries[i]) for i in range(plan.count)]) + off
    answers[plan.count if upto is None else upto :] = np.nan
    controls = [labels.LocalOracle(spec, truth).exact(query) for query in plan.controls]
    return plan, labels.read(plan, np.r_[answers, controls]), truth


def test_the_summary_counts_what_was_proven_and_what_was_certain_and_wrong():
    plan, inference, truth = inferred()
    run_summary = labels_summary.summarise(plan, inference, truth)
    assert (
        run_summary.proven,
        run_summary.certain,
        run_summary.right,
        run_summary.accuracy,
        run_summary.certain_and_wrong,
    ) == (6, 6, 6, 1.0, 0)
    wrong = labels_summary.summarise(plan, inference, np.where(np.arange(6) < 2, 1 - truth, truth))
    assert (wrong.right, wrong.accuracy, wrong.certain_and_wrong) == (4, 4 / 6, 2)
    unknown = labels_summary.summarise(plan, inference)
    assert (unknown.right, unknown.accuracy, unknown.certain_and_wrong) == (None, None, None)
    doubtful = labels_summary.summarise(plan, dataclasses.replace(inference, certain=np.zeros(6, bool)), 1 - truth)
    assert (doubtful.right, doubtful.certain_and_wrong) == (0, 0)


def test_labels_that_answers_leave_open_are_empty_and_those_of_a_contradiction_are_none(tmp_path):
    _, open_ones, _ = inferred(upto=0)
    assert labels_summary.determined_labels(BOUNDED, open_ones) == (None,) * 6
    labels_summary.write_labels(tmp_path / "labels.csv", BOUNDED, open_ones)
    assert (tmp_path / "labels.csv").read_text().splitlines()[1] == "0,,0,0"
    _, against, _ = inferred(off=50.0)
    assert against.contradiction is not None
    assert labels_summary.determined_labels(BOUNDED, against) is None
    labels_summary.write_labels(tmp_path / "labels.csv", BOUNDED, against)
    assert (tmp_path / "labels.csv").read_text() == "row,label,certain,proven\n"
    _, all_known, truth = inferred()
    assert labels_summary.determined_labels(BOUNDED, all_known) == tuple(truth.tolist())
    labels_summary.write_labels(tmp_path / "labels.csv", BOUNDED, all_known)
    assert (tmp_path / "labels.csv").read_text().splitlines()[2] == "1,1,1,1"
    guessing = dataclasses.replace(BOUNDED, noise_kind="gaussian")
    assert None not in labels_summary.determined_labels(guessing, open_ones)


def test_progress_counts_proven_labels_and_only_right_ones_where_the_truth_is_known():
    spec = labels.OracleSpec(n=40, clip=1e-3, noise=1e-2)
    plan, inference, truth = inferred(spec)
    places, shares = labels_summary.recovery_curve(plan, inference)
    assert places[0] == 0
    assert places[-1] == plan.count
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    half_wrong = np.where(np.arange(40) < 20, 1 - truth, truth)
    assert labels_summary.recovery_curve(plan, inference, half_wrong)[1][-1] == 0.5
    assert labels_summary.recovery_curve(plan, inferred(spec, off=50.0)[1]) == ([], [])
