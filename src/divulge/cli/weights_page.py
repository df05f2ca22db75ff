"""Reports of `divulge weights` and `divulge reconstruct`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.cli.weights_found import CANDIDATE_COLUMNS, Examined, candidate_rows, told
from divulge.report import Chart, Page, Paragraph, Section, Table, charts

if TYPE_CHECKING:
    from divulge.margin import ShallowReLU
    from divulge.reconstruction import Reconstruction
    from divulge.types import Floats

_SHOWN = 200
_NONE = Paragraph("None: a rule needs the margin, a leaked record, or known non-members.")


def membership(net: ShallowReLU, found: Examined, model: str) -> Page:
    """Outputs against scores, with the margin, and every rule with what it claims."""
    outputs = np.abs(found.outputs)
    groups = {"candidates": (outputs, found.scores)}
    if found.truth is not None:
        parts = {"members": found.truth, "fresh candidates": ~found.truth}
        groups = {name: (outputs[which], found.scores[which]) for name, which in parts.items() if which.any()}
    if found.nulls is not None:
        groups["known non-members"] = (np.abs(found.nulls[0]), found.nulls[1])
    chart = charts.scatter(
        groups, x="|Φ(x)|", y=found.signal, vertical=None if found.margin is None else {"margin": found.margin}
    )
    rows = [[name, str(chosen.count), str(chosen.guarantee)] for name, chosen in found.decisions.items()]
    called = [[name, f"{output:.4g}", f"{score:.4g}", rules] for name, output, score, rules in found.called()]
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


def reconstruction(net: ShallowReLU, found: Reconstruction, model: str, truth: Floats | None) -> Page:
    """The network as a line, with what was read off it."""
    points = np.concatenate([found.candidates, () if truth is None else truth])
    # A neuron that hardly bends has its break-point far from all data.
    at = points if len(points) > 1 else np.concatenate([points, found.break_points])
    low, high = float(np.min(at)), float(np.max(at))
    reach = max(high - low, 1.0) * 0.15
    seen = found.break_points[np.abs(found.break_points - (low + high) / 2) <= (high - low) / 2 + reach]
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
        verdict=told(found),
        tone="leak" if found.guaranteed else "unproven",
        sections=[
            Section("The network", [Chart(chart)]),
            Section("Candidates", [Table(CANDIDATE_COLUMNS, candidate_rows(found), note=str(found.guarantee))]),
        ],
        facts={"model": model, "width": str(net.width), "margin": f"{found.margin:g}"},
    )
