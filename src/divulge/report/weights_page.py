"""What the weights of a network say, as pages and as rows of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.report import charts
from divulge.report.page import Chart, Page, Paragraph, Section, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from divulge.results import ReconstructionSummary, WeightsSummary
    from divulge.types import Bools, Floats

_SHOWN = 200
CANDIDATE_COLUMNS = ("x", "label", "training point", "rules", "multiplier")
_NONE = Paragraph("None: a rule needs the margin, a leaked record, or known non-members.")


def membership(
    summary: WeightsSummary, facts: Mapping[str, str], *, truth: Bools | None = None, calibration: Floats | None = None
) -> Page:
    """Outputs against scores, with the margin, and every rule with what it claims.

    Args:
        summary: what the weights say.
        facts: which network they are of.
        truth: bool ``[n]``, which candidates were trained on, where that is known.
        calibration: Φ and signal of the known non-members, ``[2, z]``, or None.
    """
    outputs, scores = np.abs(summary.outputs), np.array(summary.scores)
    groups = {"candidates": (outputs, scores)}
    if truth is not None:
        parts = {"members": truth, "fresh candidates": ~truth}
        groups = {name: (outputs[which], scores[which]) for name, which in parts.items() if which.any()}
    if calibration is not None:
        groups["known non-members"] = (np.abs(calibration[0]), calibration[1])
    chart = charts.scatter(
        groups, x="|Φ(x)|", y=summary.signal, vertical=None if summary.margin is None else {"margin": summary.margin}
    )
    rows, called = decision_rows(summary), called_rows(summary)
    more = f"The first {_SHOWN} of {len(called)}; `--selection` writes them all." if len(called) > _SHOWN else ""
    records = Table(["record", "|Φ|", summary.signal, "rules"], called[:_SHOWN], "Called members", more)
    return Page(
        heading="Training records recognised" if summary.tone == "leak" else "",
        title="Membership from weights",
        verdict=summary.verdict,
        tone=summary.tone,
        sections=[
            Section("Decisions", [Table(["rule", "called members", "claim"], rows), records] if rows else [_NONE]),
            Section("Outputs and scores", [Chart(chart, note="Training points sit on the margin and carry weight.")]),
        ],
        facts=facts,
    )


def reconstruction(
    summary: ReconstructionSummary,
    facts: Mapping[str, str],
    line: Callable[[Floats], Floats],
    *,
    truth: Floats | None = None,
) -> Page:
    """The network as a line, with what was read off it.

    Args:
        summary: what the weights say.
        facts: which network they are of.
        line: the network: outputs ``[n]`` of inputs ``[n, 1]``.
        truth: the training points, where they are known.
    """
    bends = np.array(summary.break_points)
    points = np.concatenate([summary.candidates, () if truth is None else truth])
    # A neuron that hardly bends has its break-point far from all data.
    at = points if len(points) > 1 else np.concatenate([points, bends])
    low, high = float(np.min(at)), float(np.max(at))
    reach = max(high - low, 1.0) * 0.15
    seen = bends[np.abs(bends - (low + high) / 2) <= (high - low) / 2 + reach]
    x = np.unique(np.concatenate([np.linspace(low - reach, high + reach, 400), seen, points]))
    chart = charts.network(
        x,
        line(x[:, None]),
        break_points=seen,
        margin=summary.margin,
        crossings=[at for at, rules in zip(summary.candidates, summary.rules, strict=True) if "crossing" in rules],
        candidates=summary.candidates,
        truth=() if truth is None else truth,
    )
    return Page(
        heading="Training points read off the weights" if summary.tone == "leak" else "",
        title="Reconstruction from weights",
        verdict=summary.verdict,
        tone=summary.tone,
        sections=[
            Section("The network", [Chart(chart)]),
            Section("Candidates", [Table(CANDIDATE_COLUMNS, candidate_rows(summary), note=summary.guarantee)]),
        ],
        facts=facts,
    )


def candidate_rows(summary: ReconstructionSummary) -> list[list[str]]:
    """Position, label, what is known, rules and multiplier of each candidate: what is proven first."""
    return [
        [
            f"{summary.candidates[i]:.6g}",
            f"{summary.labels[i]:+.0f}",
            "proven" if summary.proven[i] else "found",
            ", ".join(summary.rules[i]),
            f"{summary.multipliers[i]:.4g}",
        ]
        for i in sorted(range(len(summary.candidates)), key=lambda i: not summary.proven[i])
    ]


def called_rows(summary: WeightsSummary) -> list[list[str]]:
    """Name, |Φ|, score and rules of everyone called a member."""
    return [[one.id, f"{one.output:.4g}", f"{one.score:.4g}", ", ".join(one.rules)] for one in summary.called]


def decision_rows(summary: WeightsSummary) -> list[list[str]]:
    """Every rule, how many it calls members, and what it claims."""
    return [[name, str(len(rule.selected)), rule.guarantee] for name, rule in summary.decisions.items()]
