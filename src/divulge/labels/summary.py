"""Summaries of label inference: counts, the plan, the capacity bound and the recommended defence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from divulge import store
from divulge.labels.bounds import capacity
from divulge.labels.defences import defend
from divulge.results import MEANING, CapacitySummary, DefenceSummary, LabelsSummary, OracleSummary, PlanSummary

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.labels.defences import Defence
    from divulge.labels.inference import LabelInference
    from divulge.labels.oracles import OracleSpec
    from divulge.labels.plans import QueryPlan
    from divulge.types import Ints

_POINTS = 25


def summarise(plan: QueryPlan, inference: LabelInference, truth: Ints | None = None) -> LabelsSummary:
    """Summarise an attack.

    Args:
        plan: the queries.
        inference: what was read off the answers.
        truth: the labels ``[n]``, -1 for rows that are not scored, where they were known beforehand.
    """
    spec, scored = plan.spec, int((inference.labels >= 0).sum())
    bound = capacity(spec)
    is_right = None if truth is None else inference.labels == truth
    known_spec = replace(spec, scored=max(scored, 1)) if spec.scored != "all" else spec
    return LabelsSummary(
        queries=inference.queries,
        complete=inference.complete,
        certain=int(inference.certain.sum()),
        proven=int(inference.proven.sum()),
        checked=inference.checked,
        contradiction=None if inference.contradiction is None else str(inference.contradiction),
        labels=determined_labels(spec, inference),
        scored=scored,
        residual=float(np.nanmax(inference.residual, initial=0.0)),
        right=None if is_right is None else int(is_right.sum()),
        accuracy=None if is_right is None else float(is_right.mean()),
        certain_and_wrong=None if is_right is None else int((inference.certain & ~is_right).sum()),
        oracle=OracleSummary(
            spec.name, spec.n, spec.classes, spec.epsilon, spec.decimals, float(spec.noise), spec.noise_kind
        ),
        plan=summarise_plan(plan),
        limit=CapacitySummary(bound.queries, bound.labels_per_query, bound.binds),
        defence=summarise_defence(defend(known_spec, queries=plan.count)),
    )


def summarise_plan(plan: QueryPlan) -> PlanSummary:
    """Summarise a plan."""
    proof = plan.certificate
    return PlanSummary(plan.method, plan.count, plan.labels_per_query, proof.certified, str(proof))


def summarise_defence(defended: Defence) -> DefenceSummary:
    """Summarise a defence: its settings, formulas and advice."""
    settings = {name: getattr(defended, name) for name in MEANING}
    return DefenceSummary(defended.queries, defended.accuracy, settings, defended.formulas, tuple(defended.advice))


def determined_labels(spec: OracleSpec, inference: LabelInference) -> tuple[int | None, ...] | None:
    """Return the labels that the answers determine: None for an open row, None altogether on a contradiction."""
    if inference.contradiction is not None:
        return None
    # Under noise without a bound every label is a guess, and the best there is.
    is_determined = inference.proven | (spec.noise_kind != "bounded")
    return tuple(int(label) if sure else None for label, sure in zip(inference.labels, is_determined, strict=True))


def write_labels(path: Path, spec: OracleSpec, inference: LabelInference) -> None:
    """Write a line per row: label (empty where the answers leave it open), certain, proven; none on a contradiction."""
    determined = determined_labels(spec, inference)
    rows = (
        enumerate(zip(determined, inference.certain, inference.proven, strict=True)) if determined is not None else ()
    )
    lines = [f"{i},{'' if label is None else label},{sure:d},{follows:d}" for i, (label, sure, follows) in rows]
    store.write_text(path, "\n".join(["row,label,certain,proven", *lines]) + "\n")


def recovery_curve(
    plan: QueryPlan, inference: LabelInference, truth: Ints | None = None
) -> tuple[list[int], list[float]]:
    """Return numbers of answers, and the share of labels proven (and right, where the truth is known) by then.

    Nothing where the answers contradict what was declared, as no labels follow from them.
    """
    if inference.contradiction is not None:
        return [], []
    answered = np.flatnonzero(~np.isnan(inference.answers))
    places = np.unique(np.linspace(0, len(answered), min(_POINTS, len(answered) + 1)).round().astype(int))
    shares = []
    for place in places:
        answers = np.full(plan.count, np.nan)
        answers[answered[:place]] = inference.answers[answered[:place]]
        reading = plan.inner.read(answers)
        is_recovered = reading.proven if truth is None else reading.proven & (reading.labels == truth)
        shares.append(float(is_recovered.mean()))
    return places.tolist(), shares
