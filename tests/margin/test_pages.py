"""Pages on weights: who is pictured and counted, what the chart tells apart, and that proven points come first."""

import dataclasses

import numpy as np
import pytest

from divulge.report import weights_page
from divulge.report.run_kinds import build_page
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


def test_proven_points_come_first_and_are_called_proven():
    rows = weights_page.candidate_rows(reconstructed())
    assert rows == [
        ["-0.25", "-1", "proven", "window, crossing", "0.25"],
        ["0.5", "+1", "found", "crossing", "0.5"],
        ["2", "+1", "found", "kkt", "0.125"],
    ]
