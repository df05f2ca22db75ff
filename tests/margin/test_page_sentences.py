"""Every sentence of the reports on weights, in each of its readings: recognised records, points read off."""

import dataclasses

import numpy as np
import pytest

from divulge.report import weights_page
from divulge.report.markdown import render
from divulge.report.run_kinds import build_page
from divulge.report.sections import ADVICE_TITLE
from divulge.results import CalledRecord, ReconstructionSummary, RuleSummary, WeightsSummary

NAMES = tuple(f"r{i}" for i in range(6))


def rule(selected, proven=True, warnings=()):
    return RuleSummary(selected, tuple(NAMES[i] for i in selected), "what is claimed", proven, warnings)


def weights(tone="leak", decisions=None, n_called=2, margin=1.0, **changes):
    summary = WeightsSummary(
        verdict="The verdict.",
        tone=tone,
        candidates=6,
        margin=margin,
        residual=0.25,
        signal="margin-abs",
        ids=NAMES,
        scores=(0.5, 1.0, 1.5, 2.0, 2.5, 3.0),
        outputs=(-0.5, 1.0, -1.5, 2.0, -2.5, 3.0),
        decisions={"FDR ≤ 0.1": rule((4, 5))} if decisions is None else decisions,
        called=tuple(CalledRecord(f"c{i}", 1.0, 2.0, ("FDR", "band")) for i in range(n_called)),
    )
    return dataclasses.replace(summary, **changes)


def members(**changes):
    return build_page(weights_page.WEIGHTS, weights_page.WeightsRun(weights(**changes), {"network": "a file"}))


@pytest.mark.parametrize("tone", ["leak", "clear", "undecided"])
def test_heading_and_advice_stand_where_something_leaks(tone):
    for rendered, heading in (
        (members(tone=tone), "Training records recognised"),
        (points(tone=tone), "Training points read off the weights"),
    ):
        assert rendered.heading == (heading if tone == "leak" else "")
        assert (ADVICE_TITLE in [section.title for section in rendered.sections]) == (tone == "leak")


@pytest.mark.parametrize(
    ("tone", "decisions", "counts_drawn"),
    [
        ("leak", {"FDR ≤ 0.1": rule((4, 5))}, [2]),
        ("leak", {"FDR ≤ 0.1": rule((4, 5), proven=False)}, []),
        ("leak", {"FDR ≤ 0.1": rule(())}, []),
        ("leak", {"margin": rule((1,)), "FDR ≤ 0.1": rule((3,))}, [1]),
        ("leak", {"margin": rule((1,))}, []),
        ("undecided", {"FDR ≤ 0.1": rule((4, 5))}, []),
    ],
)
def test_only_records_that_are_named_with_a_proven_bound_are_pictured(tone, decisions, counts_drawn):
    pictures = members(tone=tone, decisions=decisions).pictures
    assert [round(dots.value * 6 / dots.total) for dots in pictures] == counts_drawn


def test_without_any_rule_it_is_said_why_and_nobody_is_named():
    rendered = members(decisions={}, n_called=0, tone="undecided")
    text = render(rendered)
    assert "None: a rule needs the margin, a leaked record, or known non-members." in text
    assert rendered.details == ()
    assert "Called members" not in text
    assert "None: a rule needs" not in render(members())
    assert members().details


def test_records_called_are_counted_beside_the_truth_where_it_is_known():
    truth = np.array([True, False, False, False, False, True])
    rendered = build_page(
        weights_page.WEIGHTS, weights_page.WeightsRun(weights(), {}, truth, np.array([[-9.0], [0.1]]))
    )
    table = rendered.sections[1].blocks[0]
    assert table.columns == ["rule", "called members", "trained on", "claim"]
    assert table.rows == [["FDR ≤ 0.1", "2", "1 of 2", "what is claimed"]]
    blind = members().sections[1].blocks[0]
    assert blind.columns == ["rule", "called members", "claim"]
    assert "25 % of the weights" in rendered.facts["left unexplained"]


def drawn_points(truth=None, calibration=None, margin=1.0):
    page = build_page(weights_page.WEIGHTS, weights_page.WeightsRun(weights(margin=margin), {}, truth, calibration))
    section = next(section for section in page.sections if section.title == "Outputs and scores")
    return str(section.blocks[0].spec)


def test_the_chart_tells_members_from_others_where_they_are_known():
    assert "'candidates'" in drawn_points()
    chart_text = drawn_points(np.arange(6) > 3, np.array([[-9.0], [0.1]]))
    for name in ("'members'", "'fresh candidates'", "'known non-members'"):
        assert name in chart_text
        assert name not in drawn_points()
    assert "'fresh candidates'" not in drawn_points(np.ones(6, bool))
    assert "'members'" not in drawn_points(np.zeros(6, bool))
    assert "9.0" in chart_text  # without its sign
    assert "-9.0" not in chart_text
    assert "'margin'" in drawn_points()
    assert "'margin'" not in drawn_points(margin=None)


def test_warnings_of_a_rule_name_it():
    text = render(members(decisions={"FDR ≤ 0.1": rule((1,), warnings=("few records",)), "band": rule((2,))}))
    assert "FDR ≤ 0.1: few records." in text
    assert "band:" not in text


def reconstructed(candidates=(0.5, -0.25, 2.0), tone="leak", guaranteed=2, **changes):
    count = len(candidates)
    summary = ReconstructionSummary(
        verdict="The verdict.",
        tone=tone,
        candidates=candidates,
        labels=(1.0, -1.0, 1.0)[:count],
        rules=(("crossing",), ("window", "crossing"), ("kkt",))[:count],
        multipliers=(0.5, 0.25, 0.125)[:count],
        residual=0.01,
        ambiguous=(),
        proven=(False, True, False)[:count],
        needed=(False, True, False)[:count],
        standing="holds",
        windows=(),
        guaranteed=guaranteed,
        warnings=(),
        guarantee="what is assumed",
        break_points=(-1.0, 0.0, 1.0, 500.0),
        margin=1.0,
    )
    return dataclasses.replace(summary, **changes)


def points(truth=None, **changes):
    run = weights_page.ReconstructionRun(reconstructed(**changes), lambda x: x[:, 0], truth=truth)
    return build_page(weights_page.RECONSTRUCTION, run)


def test_proven_points_come_first_and_are_called_proven():
    rows = weights_page.candidate_rows(reconstructed())
    assert rows == [
        ["-0.25", "-1", "proven", "window, crossing", "0.25"],
        ["0.5", "+1", "found", "crossing", "0.5"],
        ["2", "+1", "found", "kkt", "0.125"],
    ]


def test_the_words_on_kkt_points_stand_where_the_verdict_rests_on_them():
    assert any("A KKT point is" in text for text in points(verdict="This is no KKT point.").details)
    assert not any("A KKT point is" in text for text in points().details)


def test_points_that_are_proven_are_pictured():
    assert [(dots.value, dots.total) for dots in points().pictures] == [(2, 3)]
    assert points(guaranteed=0).pictures == ()


def test_known_training_points_are_compared_with_what_was_read_off():
    text = render(points(truth=np.array([0.4, 2.5])))
    assert "2 training points are known, and marked. Each lies within 0.5 of a point that was read off." in text
    for page in (points(), points(truth=np.zeros(0)), points(truth=np.array([1.0]), candidates=(), guaranteed=0)):
        assert "training points are known" not in render(page)
