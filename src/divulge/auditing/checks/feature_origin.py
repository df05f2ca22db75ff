"""Whether the user's features come from the target, whose answers depend on membership: such features hide a leak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from divulge import lazy, seeds
from divulge.attacks import Need
from divulge.auditing.checks.check import Check
from divulge.duplicates import keep_together
from divulge.targets import GivesLogits, is_regression_model

if TYPE_CHECKING:
    from scipy import stats

    from divulge.auditing.checks.check import ScoredAudit
    from divulge.auditing.prepared import PreparedAudit
    from divulge.evidence import Measurements
    from divulge.results import CheckFinding
    from divulge.types import Floats
else:
    stats = lazy.module("scipy.stats")

_MAX_EXPLAINED = 0.999
_MIN_ROWS, _MAX_ROWS, _ROWS_PER_COLUMN = 1000, 20_000, 6  # records of which the target's answers are compared
_MIN_TESTED, _MIN_SPARE = 20, 20  # records that are predicted; those that are fitted beyond one for each column


class FeatureOrigin(Check):
    """Warn of features that determine the target's answers, whatever they were made with.

    A linear fit of the answers on half of the population's features predicts those of the other half; or it does so for
    their ranks, as where a feature is the logarithm of an answer. Where the records' own columns explain the answers as
    well, as under a linear model, the features add nothing.
    """

    name = "origin of the features"

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Fit each of the target's answers; a warning of the run names the first that the features determine."""
        prepared, population = audit.prepared, audit.prepared.inputs.population
        is_read = any(recipe.needs & {Need.FEATURES, Need.RECORDS} for recipe in prepared.inputs.recipes)
        if population.features is None or not is_read:
            return None
        features = np.asarray(population.features, dtype=np.float64)
        n_rows = min(max(_MIN_ROWS, _ROWS_PER_COLUMN * features.shape[1]), _MAX_ROWS)
        rows = seeds.generator(prepared.seed, "features", "origin").permutation(len(population))[:n_rows]
        is_fitted = keep_together(np.arange(len(rows)) % 2, features[rows]) == 0
        own = population.x[rows]
        own_columns = np.zeros((len(own), 0)) if own.dtype == object else own.reshape(len(own), -1)
        for name, answers in _target_answers(prepared, audit.measurements[0], rows).items():
            if is_determined(features[rows], answers, is_fitted) and not is_determined(own_columns, answers, is_fitted):
                audit.log.warnings.append(
                    f"features: they determine the target's {name}: a linear fit explains more than "
                    f"{100 * _MAX_EXPLAINED:g} % of their variance, or that of their ranks, on "
                    f"{int((~is_fitted).sum()):,} population records that it did not learn from. What comes from the "
                    "target depends on membership, and attacks that learn from such features hide a leak; give "
                    "features that were made without it"
                )
                break
        return None


def _target_answers(audit: PreparedAudit, measured: Measurements, rows: Any) -> dict[str, Floats]:
    """Return what the target says of records of the population, ``[n, k]`` each, by what it is."""
    target, records = audit.target, audit.inputs.population[rows]
    answers: dict[str, Floats] = {}
    if isinstance(target, GivesLogits):
        logits = np.asarray(target.logits(records), dtype=np.float64)
        answers = {
            "logits": logits - logits.mean(axis=1, keepdims=True),
            "probabilities": special.softmax(logits, axis=1),
        }
        if records.labels is not None and records.labels.max() < logits.shape[1]:  # whether a recipe reads it or not
            own_logits = logits[np.arange(len(logits)), records.labels]
            answers["loss"] = (special.logsumexp(logits, axis=1) - own_logits)[:, None]
    elif is_regression_model(target):
        answers = {"predictions": np.asarray(target.predictions(records), dtype=np.float64).reshape(len(records), -1)}
    signals = {
        name: np.asarray(values[audit.layout.population_rows], dtype=np.float64)[rows, None]
        for name, values in measured.target.items()
    }
    return answers | signals


def is_determined(table: Floats, answers: Floats, is_fitted: Any) -> bool:
    """Check whether a linear fit explains nearly all of the answers, or of their ranks."""
    if _explained_share(table, answers, is_fitted) > _MAX_EXPLAINED:
        return True
    if not (table.shape[1] and np.isfinite(answers).all()):
        return False
    ranks, answer_ranks = stats.rankdata(table, axis=0), stats.rankdata(answers, axis=0)
    return _explained_share(ranks, answer_ranks, is_fitted) > _MAX_EXPLAINED


def _explained_share(table: Floats, answers: Floats, is_fitted: Any) -> float:
    """Return R² of a linear fit on the rows that it did not learn from; 0 where that cannot be told."""
    n_fitted, n_tested = int(is_fitted.sum()), int((~is_fitted).sum())
    if n_tested < _MIN_TESTED or n_fitted < table.shape[1] + 1 + _MIN_SPARE:
        return 0.0
    if not np.isfinite(answers).all():
        return 0.0
    spread = table[is_fitted].std(axis=0)
    standard = (table - table[is_fitted].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    design = np.column_stack([np.ones(len(table)), standard])
    coefficients = np.linalg.lstsq(design[is_fitted], answers[is_fitted], rcond=None)[0]
    residual = ((answers - design @ coefficients)[~is_fitted] ** 2).sum()
    total = ((answers - answers[is_fitted].mean(axis=0))[~is_fitted] ** 2).sum()
    scale = (answers**2).sum()
    return float(1 - residual / total) if total > 1e-12 * max(scale, 1e-300) else 0.0
