"""Reports of `divulge weights` and `divulge reconstruct`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.cli.weights_found import CANDIDATE_COLUMNS, called_rows, candidate_rows, decision_rows
from divulge.report import Chart, Page, Paragraph, Section, Table, charts

if TYPE_CHECKING:
    from divulge.margin import ShallowReLU
    from divulge.results import ReconstructionSummary, WeightsSummary
    from divulge.types import Bools, Floats

_SHOWN = 200
_NONE = Paragraph("None: a rule needs the margin, a leaked record, or known non-members.")


def membership(net: ShallowReLU, found: WeightsSummary, model: str, truth: Bools | None, nulls: Floats | None) -> Page:
    """Outputs against scores, with the margin, and every rule with what it claims.

    Args:
        net: the network.
        found: what its weights say.
        model: name of its file.
        truth: bool ``[n]``, which candidates were trained on, where that is known.
        nulls: Φ and signal of the known non-members, ``[2, z]``, or None.
    """
    outputs, scores = np.abs(found.outputs), np.array(found.scores)
    groups = {"candidates": (outputs, scores)}
    if truth is not None:
        parts = {"members": truth, "fresh candidates": ~truth}
        groups = {name: (outputs[which], scores[which]) for name, which in parts.items() if which.any()}
    if nulls is not None:
        groups["known non-members"] = (np.abs(nulls[0]), nulls[1])
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
        facts={"model": model, "width": str(net.width), "inputs": str(net.dimension)},
    )


def reconstruction(net: ShallowReLU, found: ReconstructionSummary, model: str, truth: Floats | None) -> Page:
    """The network as a line, with what was read off it."""
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
        net(x[:, None]),
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
        facts={"model": model, "width": str(net.width), "margin": f"{found.margin:g}"},
    )
