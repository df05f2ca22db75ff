"""Signals of candidates, calibration and population, under the target and under reference models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from divulge.attacks import Need
from divulge.auditing import active, reference_models
from divulge.evidence import Measurements, query_target, regression_features, signals_from_answers
from divulge.signals import internals
from divulge.targets import GivesLabels, GivesLogits
from divulge.targets.rights import GivesNotes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.case import PreparedAudit, AuditLog
    from divulge.types import Floats, Records


def compute_signals(case: PreparedAudit, log: AuditLog) -> list[Measurements]:
    """One `Measurements` for each view of the records; candidates and calibration are treated exactly alike."""
    named = [name for r in case.given.recipes if isinstance(r.signal, str) for name in (r.signal, *r.beside)]
    names = tuple(dict.fromkeys(named))
    outputs = tuple(name for name in names if name not in internals.SIGNALS)
    targets = [
        log.timed("target", partial(_target_signals, case, view, outputs if at else names, log))
        for at, view in enumerate(case.views)
    ]
    if isinstance(case.target, GivesNotes):
        log.warnings += [f"target: {note}" for note in case.target.notes(case.views[0])]
    targets[0] |= active.measure_active_signals(case, log)
    models = reference_models.train_reference_models(case, log)
    seen = compute_features(case, log)
    return [
        Measurements(
            target=target,
            layout=case.layout,
            labels=view.y,
            features=None if seen is None else seen[: len(view)],
            models={kind: views[at] for kind, views in models.items() if at in views},
        )
        for at, (view, target) in enumerate(zip(case.views, targets, strict=True))
    ]


def compute_features(case: PreparedAudit, log: AuditLog) -> Floats | None:
    """Features, where an attack or the assessment of unseen classes reads them; reduced as the population asks."""
    if not (case.given.unseen_classes or any(Need.FEATURES in recipe.needs for recipe in case.given.recipes)):
        return None
    own = np.zeros(case.layout.total, dtype=bool)
    own[case.layout.of_population] = True
    return log.timed("features", lambda: regression_features(case.views[0], own, case.seed))


def _target_signals(case: PreparedAudit, view: Records, names: Sequence[str], log: AuditLog) -> dict[str, Floats]:
    """Signals of one view, by name; what the target calls the records of the first is noted."""
    if not names:
        return {}
    assert isinstance(case.target, GivesLogits | GivesLabels)
    inside = [name for name in names if name in internals.SIGNALS]
    outside = [name for name in names if name not in internals.SIGNALS]
    logits, told = query_target(case.target, view, outside)
    log.told = told if log.told is None else log.told
    signals = signals_from_answers(logits, told, view.y, outside, max(2, case.classes)).T
    seen = internals.measure(case.target, view, inside).T if inside else ()
    return dict(zip([*outside, *inside], [*signals, *seen], strict=True))
