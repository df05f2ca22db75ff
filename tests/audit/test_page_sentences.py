"""Sentences of an audit's report that have two readings, in both: fairness, decisions, answers to regulators."""

import dataclasses

import numpy as np
import pytest

from divulge import results
from divulge.auditing import audit_page as pages
from divulge.auditing import compare
from divulge.auditing.checks.blind_baseline import describe_blind_baseline
from divulge.auditing.result import AUDIT
from divulge.report.markdown import render
from divulge.report.page import Chart, Collapsible, Table
from divulge.report.run_kinds import build_page
from divulge.report.sections import ADVICE_TITLE
from divulge.types import Estimate
from score_audits import scored, sizes, with_findings

MEMBERS = sizes(300, 300)


def audit(shift=0.0, **options):
    rng = np.random.default_rng(3)
    scores = {"loss": rng.normal(size=600) + shift * MEMBERS, "rmia": rng.normal(size=600)}
    return scored(scores, MEMBERS, calibration={name: rng.normal(size=400) for name in scores}, **options)


def with_about(result, **changes):
    return dataclasses.replace(result, about=dataclasses.replace(result.about, **changes))


def fairness_text(result):
    blocks = pages.fairness_section(result.summary()).blocks
    folded = [inner for block in blocks if isinstance(block, Collapsible) for inner in block.blocks]
    return "\n".join(block.text for block in (*blocks, *folded) if not isinstance(block, Collapsible))


def baseline(confounded):
    area = Estimate(0.9, 0.8, 0.95, 0.95, "delong")
    return describe_blind_baseline(results.BlindBaseline(area, confounded, 1e-3, 1e-3, 600, "permutation"))


def test_a_confounded_split_is_called_confounded_and_a_fair_one_is_not():
    confounded_text = fairness_text(with_findings(audit(), baseline(confounded=True)))
    fair_text = fairness_text(with_findings(audit(), baseline(confounded=False)))
    assert "it can: the split is confounded" in confounded_text
    assert "no difference found" not in confounded_text
    assert "no difference found" in fair_text
    assert "it can" not in fair_text
    for text in (confounded_text, fair_text):
        assert "AUC 0.900 [0.800, 0.950], p = 0.001 (permutation)" in text


@pytest.mark.parametrize(
    ("shift", "confounded", "heading"),
    [
        (1.5, False, "Leak found"),
        (0.0, False, "No leak found"),
        (1.5, True, "No answer: the records compared are too different"),
    ],
)
def test_heading_advice_and_answers_follow_the_verdict(shift, confounded, heading):
    result = audit(shift, confounded=confounded)
    page = build_page(AUDIT, pages.AuditRun(result))
    text, titles = render(page), [section.title for section in page.sections]
    assert page.heading == heading
    assert (ADVICE_TITLE in titles) == (heading == "Leak found")
    assert ("On membership alone: " in text) != confounded
    assert ("Not evaluable. " in text) == confounded
    assert ("bound it from below only: ε ≥" in text) != confounded


def test_a_page_says_whom_a_leak_harms_unless_it_says_nothing_of_the_model():
    known = "take a record that is known already"
    for result, is_told in ((audit(1.5), True), (audit(), True), (audit(1.5, confounded=True), False)):
        text = render(build_page(AUDIT, pages.AuditRun(result)))
        assert ("Who may be harmed" in text, known in text) == (is_told, is_told)
    stored = results.CheckFinding("arrays", "proof", "Training records stand in the model: 7 of 300.")
    text = render(build_page(AUDIT, pages.AuditRun(with_findings(audit(), stored))))
    assert "Whoever has its file can read them" in text
    assert known not in text


@pytest.mark.parametrize(("unseen", "names"), [((), None), ((2,), ("ant", "bee", "cat")), ((0, 1), None)])
def test_every_class_has_its_lane_and_only_unseen_ones_are_marked(unseen, names):
    labels = np.arange(600) % 3
    result = dataclasses.replace(audit(labels=labels, unseen=unseen), class_names=names)
    section = pages.classes_section(result.summary(), "loss")
    (chart,) = [block for block in section.blocks if isinstance(block, Chart)]
    assert chart.title == "AUC by class"
    rows = chart.spec["layer"][0]["data"]["values"]
    lanes = {f"class {names[k] if names else k}{' (unseen)' if k in unseen else ''}": labels == k for k in range(3)}
    assert {row["name"] for row in rows} == set(lanes)
    for row in rows:
        inside = lanes[row["name"]]
        scores = result.scores[row["series"]][inside]
        member_scores, nonmember_scores = scores[MEMBERS[inside]], scores[~MEMBERS[inside]]
        assert row["value"] == pytest.approx((member_scores[:, None] > nonmember_scores).mean(), rel=1e-6)
    fold = next(block for block in section.blocks if isinstance(block, Collapsible))
    assert fold.title == "loss by class, in figures"


def test_realised_rates_stand_beside_their_candidates_and_raw_ones_beside_all():
    labels = np.arange(600) % 3
    result = audit(labels=labels, unseen=(2,))
    recipes = {
        name: dataclasses.replace(recipe_info, raw_thresholds={"0.05": 1.0})
        for name, recipe_info in result.about.recipes.items()
    }
    summary = with_about(result, recipes=recipes).summary()
    fold = next(block for block in pages.decisions_section(summary, "loss").blocks if isinstance(block, Collapsible))
    realised = next(block for block in fold.blocks if isinstance(block, Table) and "raw" in block.columns)
    last_cells = {}
    for name, place, *cells in realised.rows:
        numbers = summary.recipes[name] if place == "all" else summary.recipes[name].unseen
        rate = numbers.realised_fpr["0.05"].rate
        assert cells[1].startswith(f"{100 * rate.value:.1f}")
        last_cells.setdefault(place, set()).add(cells[-1])
    assert last_cells["unseen classes"] == {"–"}
    assert "–" not in last_cells["all"]


def test_a_level_beyond_the_calibration_records_is_said_to_be():
    result = scored({"loss": np.arange(600.0)}, MEMBERS, calibration={"loss": np.arange(99.0)}, fpr=(0.001, 0.05))
    short = pages.decisions_section(result.summary(), "loss").blocks[0]
    claims = {row[0]: row for row in short.rows}
    assert claims["0.1 %"][-1] == "too few calibration records for this level"
    assert claims["0.1 %"][1] == "–"
    assert "FPR ≤ 0.05" in claims["5 %"][-1]


@pytest.mark.parametrize("direction", [1, -1])
def test_the_pictures_of_a_comparison_are_those_of_the_attack_it_speaks_of(direction):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=600)
    weak, strong = scored({"loss": noise + 0.2 * MEMBERS}, MEMBERS), scored({"loss": noise + 1.5 * MEMBERS}, MEMBERS)
    before, after = (weak, strong) if direction > 0 else (strong, weak)
    compared = compare.Comparison.from_runs({"before": before, "after": after})
    page = compare.comparison_page(compared)
    area = next(change for change in compared.changes["after"] if change.statistic == "auc")
    assert page.heading == ("More is given away, and a leak is found" if direction > 0 else "Less is given away")
    assert page.tone == ("leak" if direction > 0 else "clear")
    assert [dots.value for dots in page.pictures] == [round(100 * area.before.value), round(100 * area.after.value)]
    assert page.pictures[0].caption.startswith("Before: about")
    assert page.pictures[1].caption.startswith("After: about")
    same = compare.comparison_page(compare.Comparison.from_runs({"before": before, "after": before}))
    assert same.pictures == ()
    ending = "" if direction > 0 else ", and a leak is found"
    assert same.heading == f"No difference could be shown{ending}"
    assert compare.compare(before, after)[0].before.value == area.before.value
