"""Agreement of reference models with a target, on records that neither was trained on.

Shapes: ``n`` records, ``m`` reference models.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import lazy
from divulge.errors import InputError
from divulge.types import Estimate
from divulge.validation import check_mask, check_matrix, check_vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy import stats

    from divulge.types import Floats
else:
    stats = lazy.module("scipy.stats")

# A target whose answers are the farthest from the mean of all models, by this factor of what trainings alike differ by,
# is said to be trained otherwise; with fewer than `_MIN_MODELS` references by a larger one.
_FACTOR, _FACTOR_BELOW_MIN, _MIN_MODELS = 1.25, 2.0, 4
_LARGEST = 1e75  # answers of which the squares of squares can still be added, as their variance needs


@dataclass(frozen=True, slots=True)
class Agreement:
    """Answers of a target and of reference models on the same records.

    Args:
        records: number of records.
        models: number of reference models.
        rmse: root mean squared difference between the target and the mean of all trainings like the references'; with
            one reference, between the two.
        spread: the same between one such training and their mean; None with one reference.
        differs: whether the target is farther from the others than any of the references, and by more than trainings
            alike are; None with one reference. Where the target is trained as the references are, it is True with
            probability at most ``1 / (m + 1)``.
    """

    records: int
    models: int
    rmse: Estimate
    spread: Estimate | None
    differs: bool | None


def compare_answers(target: object, references: object, is_out: object = None) -> Agreement:
    """Compare the answers of a target with those of reference models.

    Every interval takes the models as they are, and records as drawn at random.

    Args:
        target: the target's answers ``[n]``, such as scaled logits.
        references: those of reference models ``[m, n]``.
        is_out: bool ``[m, n]``, False where a model was trained on the record; None where none was on any.

    Raises:
        divulge.InputError: other shapes; fewer than 2 records that some model was not trained on; answers whose squares
            overflow.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> difficulty = rng.normal(size=500)
        >>> references = difficulty + rng.normal(size=(8, 500))
        >>> compare_answers(difficulty + rng.normal(size=500), references).differs
        False
        >>> compare_answers(3 * difficulty + rng.normal(size=500), references).differs
        True
    """
    t = check_vector(target, "target")
    x = check_matrix(references, "references", columns=len(t)).astype(np.float64, copy=False)
    out = np.ones(x.shape, dtype=bool) if is_out is None else check_mask(is_out, "is_out", x.shape)
    largest = max(float(np.abs(t).max(initial=0.0)), float(np.abs(x).max(initial=0.0)))
    if largest > _LARGEST:
        raise InputError(f"target, references: answers up to {_LARGEST:g} are needed to add squares, got {largest:g}")
    rows = out.sum(axis=0) >= min(2, len(x))
    t, x, out = t[rows], x[:, rows], out[:, rows]
    if len(t) < 2:
        raise InputError(f"references: at least 2 records that they were not trained on are needed, got {len(t)}")
    counts = out.sum(axis=0)
    means = (x * out).sum(axis=0) / counts
    if len(x) == 1:
        return Agreement(len(t), 1, root_of_mean((t - means) ** 2), None, None)
    variances = (((x - means) ** 2) * out).sum(axis=0) / np.maximum(counts - 1, 1)
    rmse = root_of_mean((t - means) ** 2 - variances / counts)
    # Each model's distance from the mean of all, the target included: exchangeable where all are trained alike.
    centre = (t + (x * out).sum(axis=0)) / (counts + 1)
    scale = (counts + 1) / counts
    target_distance = float((scale * (t - centre) ** 2).mean())
    distances = (scale * (x - centre) ** 2 * out).sum(axis=1) / np.maximum(out.sum(axis=1), 1)
    expected = float((variances * scale).mean())
    factor = _FACTOR if len(x) >= _MIN_MODELS else _FACTOR_BELOW_MIN
    is_farther = float(((t - means) ** 2).mean()) > factor**2 * expected
    differs = bool(is_farther and target_distance > distances.max())
    return Agreement(len(t), len(x), rmse, root_of_mean(variances), differs)


def mean_estimate(values: object, confidence: float = 0.95) -> Estimate:
    """Return the mean of values, with Student's interval.

    Raises:
        divulge.InputError: fewer than 2 values.

    Examples:
        >>> print(mean_estimate([1.0, 2.0, 3.0]))
        2.0000 [-0.4841, 4.4841]
    """
    array = check_vector(values, "values").astype(np.float64, copy=False)
    if len(array) < 2:
        raise InputError(f"values: at least 2 are needed, got {len(array)}")
    mean, deviation = float(array.mean()), float(array.std(ddof=1))
    reach = float(stats.t.ppf(0.5 + confidence / 2, len(array) - 1)) * deviation / len(array) ** 0.5
    return Estimate(mean, mean - reach, mean + reach, confidence, "Student's t over records, models as they are")


def root_of_mean(squares: object, confidence: float = 0.95) -> Estimate:
    """Return the square root of the mean of squares (0 where it is negative, after a variance was subtracted).

    Examples:
        >>> root_of_mean([4.0, 4.0, 4.0]).value
        2.0
    """
    mean = mean_estimate(squares, confidence)
    value, low, high = (max(each, 0.0) ** 0.5 for each in (mean.value, mean.low, mean.high))
    return Estimate(value, low, high, confidence, f"root of the mean square; {mean.method}")


def distance_between(target: object, answers: Sequence[Floats]) -> tuple[Estimate, Estimate | None]:
    """Estimate how far models of one setting are from a target.

    Args:
        target: the target's answers ``[n]``.
        answers: those of one or more models that were trained with this setting, ``[n]`` each.

    Returns:
        The root mean squared difference; and, of two or more models, the mean absolute difference less half of that
        between two of them (the continuous ranked probability score), None of one.

    Examples:
        >>> rmse, score = distance_between(np.zeros(3), [np.full(3, 3.0), np.full(3, 1.0)])
        >>> round(rmse.value, 3), score.value
        (2.236, 1.0)
    """
    t, x = check_vector(target, "target"), check_matrix(np.stack(answers), "answers")
    rmse = root_of_mean(((x - t) ** 2).mean(axis=0))
    if len(x) < 2:
        return rmse, None
    pairs = [np.abs(x_i - x_j) for x_i, x_j in itertools.combinations(x, 2)]
    return rmse, mean_estimate(np.abs(x - t).mean(axis=0) - np.mean(pairs, axis=0) / 2)
