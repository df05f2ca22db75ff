"""Reference models that an audit trains where none are named: clones of the target, if all take less than a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from divulge.attacks import Need
from divulge.auditing.inputs import resolve_recipes
from divulge.auditing.modality import Classifier, RegressionModel
from divulge.auditing.signals import TRAINED_REFERENCES
from divulge.errors import InputError
from divulge.references import Train
from divulge.references.clone_timing import time_clone
from divulge.types import Records

if TYPE_CHECKING:
    from divulge.auditing.modality import Modality
    from divulge.settings import ResolvedAuditSettings
    from divulge.types import AuditData

COUNT = 16
"""Clones that are trained where no reference models are named."""
MAX_SECONDS = 60.0
"""Of one core, for all of them together; beyond it they are trained only where they are asked for."""


def choose_references(
    target: Any, modality: Modality, subject: AuditData, options: ResolvedAuditSettings
) -> tuple[Any, str]:
    """Return the clones of the target that an audit trains unasked, and a note; None where there are to be none.

    How long they take is measured (`divulge.references.clone_timing`), so another machine may decide otherwise: a run
    keeps the decision in its settings and in its plan.

    Args:
        target: the adapted target.
        modality: what it is.
        subject: aligned data.
        options: with ``references`` "auto".

    Raises:
        divulge.InputError: recipes that there are not.
    """
    population = subject.population
    if not isinstance(modality, Classifier | RegressionModel) or not isinstance(population, Records):
        return None, ""
    try:
        training = Train(count=COUNT).for_target(target)
    except InputError:  # no estimator, or one that has no clones
        return None, ""
    recipes = resolve_recipes(options.recipes, training, options.seed, modality, target, subject.members)
    needs = [need for need in TRAINED_REFERENCES if any(need in recipe.needs for recipe in recipes)]
    if not needs:
        return None, ""
    n_learned = (1 - options.calibration) * len(population)
    n_all = len(subject.members) + len(subject.nonmembers) + len(population)
    sizes = {
        Need.REFERENCES_OUT: n_learned / 2,
        Need.REFERENCES_IN_AND_OUT: n_all / 2,
        Need.REFERENCES_SUBSTITUTES: n_learned,
    }
    sets = (subject.members, subject.nonmembers, population)
    n_classes = max(_count_classes(records) for records in sets) if isinstance(modality, Classifier) else 0
    seconds = 0.0
    for need in needs:
        try:
            seconds += COUNT * time_clone(training, population, n_classes, round(sizes[need]), n_all, options.seed)
        except InputError as error:
            return None, f"references: none were trained, as clones of the target cannot be: {error}"
    if seconds > MAX_SECONDS:
        return None, (
            f"references: none were trained, as {COUNT * len(needs)} clones of the target would take about "
            f"{seconds / 60:.0f} min on one core; attacks see more with them: references=divulge.references.Train("
            f"count={COUNT}), in a plan [references] with count = {COUNT}"
        )
    return training, (
        f"references: {COUNT} clones of the target were trained, as none were named and they take less than "
        f'{MAX_SECONDS:.0f} s; references=None, or references = "none" in a plan, trains none'
    )


def _count_classes(records: Records) -> int:
    return 0 if records.labels is None else int(records.labels.max()) + 1
