"""The report of a label inference attack, composed as a page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.report import charts
from divulge.report.curves import Curve
from divulge.report.page import Chart, Page, Paragraph, Section, Table

if TYPE_CHECKING:
    from divulge.labels import Defence, LabelInference, OracleSpec, QueryPlan
    from divulge.types import Ints

_POINTS = 25
_TITLE = "Labels behind a scoring endpoint"


def page(plan: QueryPlan, found: LabelInference, truth: Ints | None = None) -> Page:
    """The page for one attack; ``truth`` when the labels were known beforehand (a simulation)."""
    from divulge import labels

    spec = plan.spec
    limit = labels.capacity(spec)
    scored = int((found.labels >= 0).sum())
    defence = labels.defend(replace(spec, scored=max(scored, 1)) if spec.scored != "all" else spec, queries=plan.count)
    if found.contradiction is not None:
        said = Paragraph("Nothing follows from answers of another oracle than was declared, so no labels are given.")
        sections: tuple[Section, ...] = (Section("What this means", (said,)),)
        return Page(_TITLE, _sentence(str(found.contradiction)), "plain", sections, _facts(spec, found, scored))
    proven, certain = int(found.proven.sum()), int(found.certain.sum())
    right = None if truth is None else int((found.labels == truth).sum())
    known = f"{proven} of {spec.n} labels were read" if right is None else f"{right} of {spec.n} labels were recovered"
    verdict = (
        f"{known} from {found.queries} scores; {proven} follow from the scores if the noise kept to what was declared, "
        f"{certain} even if it was twice that."
        if proven
        else f"{known} from {found.queries} scores; nothing is proven."
    )
    leaks = proven > 0 or (right is not None and right > 0.9 * spec.n)
    speed = Table(
        ("plan", "queries", "labels a query"),
        (
            (plan.method, str(plan.count), f"{plan.labels_per_query:.2f}"),
            ("upper bound for any plan", str(limit.queries), f"{limit.labels_per_query:.2f}"),
        ),
        note=f"What limits a query: {limit.binds}. {plan.certificate}.",
    )
    alone = Table(
        ("setting", "value", "what it is", "formula"),
        [(*row, defence.formulas[row[0]]) for row in settings(defence)],
        note=f"Each alone holds {defence.queries} queries to {defence.accuracy:.0%} accuracy on balanced labels.",
    )
    steps = tuple(Paragraph(f"{number}. {line}") for number, line in enumerate(defence.advice, start=1))
    sections = (
        Section("How fast labels leak", (speed, _progress(plan, found, truth))),
        Section("What stops it", (alone, Paragraph("Each of these lines does it by itself:"), *steps)),
    )
    return Page(_TITLE, verdict, "leak" if leaks else "plain", sections, _facts(spec, found, scored))


def settings(found: Defence) -> list[tuple[str, str, str]]:
    """Every single setting: its name, its value, and what it is."""
    from divulge.labels.defend import MEANING

    return [(name, _shown(getattr(found, name)), meaning) for name, meaning in MEANING.items()]


def _facts(spec: OracleSpec, found: LabelInference, scored: int) -> dict[str, str]:
    return {
        "metric": spec.name,
        "rows": str(spec.n),
        "classes": str(spec.classes),
        "clip": f"{spec.epsilon:g}" if spec.epsilon else "none",
        "decimals": "not rounded" if spec.decimals is None else str(spec.decimals),
        "noise": f"{spec.noise:g} ({spec.noise_kind})",
        "rows scored": str(scored),
        "control query": "answered as these labels imply" if found.checked else "not answered or contradicted",
        "largest residual": f"{np.nanmax(found.residual, initial=0.0):.3g}",
    }


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _progress(plan: QueryPlan, found: LabelInference, truth: Ints | None) -> Chart:
    asked = np.flatnonzero(~np.isnan(found.answers))
    places = np.unique(np.linspace(0, len(asked), min(_POINTS, len(asked) + 1)).round().astype(int))
    shares = []
    for place in places:
        answers = np.full(plan.count, np.nan)
        answers[asked[:place]] = found.answers[asked[:place]]
        reading = plan.inner.read(answers)
        known = reading.proven if truth is None else reading.proven & (reading.labels == truth)
        shares.append(float(known.mean()))
    curves = {"recovered": Curve(places.tolist(), shares)}
    return Chart(
        charts.lines(curves, x="queries answered", y="share of labels proven"),
        title="Recovered share over queries",
        note="Labels of a block of queries are read together, when its last answer arrives.",
    )


def _shown(value: float | None) -> str:
    return "none suffices alone" if value is None else f"{value:.4g}"
