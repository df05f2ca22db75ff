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
    found: WeightsSummary, facts: Mapping[str, str], *, truth: Bools | None = None, calibration: Floats | None = None
) -> Page:
    """Outputs against scores, with the margin, and every rule with what it claims.

    Args:
        found: what the weights say.
        facts: which network they are of.
        truth: bool ``[n]``, which candidates were trained on, where that is known.
        calibration: Φ and signal of the known non-members, ``[2, z]``, or None.
    """
    outputs, scores = np.abs(found.outputs), np.array(found.scores)
    groups = {"candidates": (outputs, scores)}
    if truth is not None:
        parts = {"members": truth, "fresh candidates": ~truth}
        groups = {name: (outputs[which], scores[which]) for name, which in parts.items() if which.any()}
    if calibration is not None:
        groups["known non-members"] = (np.abs(calibration[0]), calibration[1])
    chart = charts.scatter(
        groups, x="|Φ(x)|", y=found.signal, vertical=None if found.margin is None else {"margin": found.margin}
    )
    rows, called = decision_rows(found), called_rows(found)
    more = f"The first {_SHOWN} of {len(called)}; `--selection` writes them all." if len(called) > _SHOWN else ""
    records = Table(["record", "|Φ|", found.signal, "rules"], called[:_SHOWN], "Called members", more)
    return Page(
        title="Membership from weights",
        verdict=found.verdict,
        tone=found.tone,
        sections=[
            Section("Decisions", [Table(["rule", "called members", "claim"], rows), records] if rows else [_NONE]),
            Section("Outputs and scores", [Chart(chart, note="Training points sit on the margin and carry weight.")]),
        ],
        facts=facts,
    )


def reconstruction(
    found: ReconstructionSummary,
    facts: Mapping[str, str],
    line: Callable[[Floats], Floats],
    *,
    truth: Floats | None = None,
) -> Page:
    """The network as a line, with what was read off it.

    Args:
        found: what the weights say.
        facts: which network they are of.
        line: the network: outputs ``[n]`` of inputs ``[n, 1]``.
        truth: the training points, where they are known.
    """
    bends = np.array(found.break_points)
    points = np.concatenate([found.candidates, () if truth is None else truth])
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
        margin=found.margin,
        crossings=[at for at, rules in zip(found.candidates, found.rules, strict=True) if "crossing" in rules],
        candidates=found.candidates,
        truth=() if truth is None else truth,
    )
    return Page(
        title="Reconstruction from weights",
        verdict=found.verdict,
        tone=found.tone,
        sections=[
            Section("The network", [Chart(chart)]),
            Section("Candidates", [Table(CANDIDATE_COLUMNS, candidate_rows(found), note=found.guarantee)]),
        ],
        facts=facts,
    )


def candidate_rows(found: ReconstructionSummary) -> list[list[str]]:
    """Position, label, what is known, rules and multiplier of each candidate: what is proven first."""
    return [
        [
            f"{found.candidates[i]:.6g}",
            f"{found.labels[i]:+.0f}",
            "proven" if found.proven[i] else "found",
            ", ".join(found.rules[i]),
            f"{found.multipliers[i]:.4g}",
        ]
        for i in sorted(range(len(found.candidates)), key=lambda i: not found.proven[i])
    ]


def called_rows(found: WeightsSummary) -> list[list[str]]:
    """Name, |Φ|, score and rules of everyone called a member."""
    return [[one.id, f"{one.output:.4g}", f"{one.score:.4g}", ", ".join(one.rules)] for one in found.called]


def decision_rows(found: WeightsSummary) -> list[list[str]]:
    """Every rule, how many it calls members, and what it claims."""
    return [[name, str(len(rule.selected)), rule.guarantee] for name, rule in found.decisions.items()]
