"""Regression models in an audit: their recipes, their signals, and how well they predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import recipes as book
from divulge.auditing import plausibility
from divulge.auditing.modality import Modality, measure_outputs
from divulge.errors import InputError
from divulge.targets import as_regressor, declared_modality, is_regression_model
from divulge.targets.arrays import as_predictions
from divulge.types import Records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.prepared import AuditLog, PreparedAudit
    from divulge.recipes import Recipe
    from divulge.signals.named import OutputSignal
    from divulge.targets import Task
    from divulge.types import AuditData, Floats

_N_PROBED = 2  # records that show how many outputs a network or function has


@dataclass(frozen=True, slots=True)
class RegressionModel(Modality):
    """Models that predict one real value of each record."""

    name: str = "a regression model"
    outputs: tuple[str, ...] = ("predictions",)

    @property
    def references(self) -> str:
        """How reference models are trained, for messages."""
        return "Train(count=16) where the target is an estimator, or Custom(train, count=16)"

    def known_recipes(self) -> tuple[Recipe, ...]:
        """Return the recipes for regression models."""
        return book.regression_recipes()

    def resolve_recipe(self, requested: object) -> Recipe:
        """Return the recipe for regression models that ``requested`` means."""
        return book.resolve_regression(requested)

    def default_recipes(self, target: Any, references: Any) -> tuple[str, ...]:
        """Return "auto", and the loss to compare with."""
        return ("auto", "loss")

    def auto_recipe(self, target: Any, references: Any) -> Recipe:
        """Return the attacks that do best with or without reference models."""
        return book.on_errors(book.Auto().recipe_in(has_references=references is not None))

    def matched_answer(self, target: Any) -> str:
        """Return what is compared: predictions."""
        return "predictions"

    def target_signals(
        self, audit: PreparedAudit, records: Records, needed: Sequence[OutputSignal], log: AuditLog
    ) -> dict[str, Floats]:
        """Compute signals of the target by name, and how well it predicts, from one query."""
        predictions = as_predictions(audit.target.predictions(records), len(records))
        if log.regression_fit is None and records.y is not None:
            rows = audit.layout.candidate_rows
            log.regression_fit = plausibility.measure_regression_fit(
                records.y[rows], predictions[rows], audit.inputs.truth
            )
        return measure_outputs(_Answered(predictions), records, needed)


@dataclass(frozen=True, slots=True, eq=False)
class _Answered:
    """Predictions that were made, as a target that makes them."""

    values: Floats

    def predictions(self, records: Records) -> Floats:
        """Return the predictions, which are of these records."""
        return self.values


def resolve_task(target: Any, data: AuditData, task: Task) -> Any:
    """Return the target as a classifier or as a regression model, as ``task`` says or, for "auto", data and outputs.

    A network or function of one output, whose records have real values in ``y``, is a regression model. Where all of
    ``y`` are whole numbers, it may be either, and is taken for a classifier.

    Raises:
        divulge.InputError: a model that is not of this task.
    """
    if declared_modality(target) is not None:
        return target
    if task == "regression":
        return as_regressor(target)
    if task == "classification":
        if is_regression_model(target):
            raise InputError(
                'target: task = "classification" needs a model that gives classes, and this one predicts real values'
            )
        return target
    is_undecided = callable(getattr(target, "raw_outputs", None))
    return as_regressor(target) if is_undecided and _has_real_values(data) and _has_one_output(target, data) else target


def _has_real_values(data: AuditData) -> bool:
    sets = (data.members, data.nonmembers, data.population)
    if not all(isinstance(each, Records) for each in sets):
        return False  # refused later, with the name of the argument
    return any(each is not None and each.y is not None and each.labels is None for each in sets)


def _has_one_output(target: Any, data: AuditData) -> bool:
    probe = data.members[:_N_PROBED]
    outputs = np.asarray(target.raw_outputs(probe))
    return outputs.size == len(probe) == len(outputs)
