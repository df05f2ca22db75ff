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
from divulge.statistics import mean_estimate
from divulge.types import Estimate
from divulge.validation import check_mask, check_matrix, check_vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy import stats

    from divulge.types import Bools, Floats
else:
    stats = lazy.module("scipy.stats")

# How many times farther from the mean of the references than trainings alike, or nearer, a target has to be to be said
# to be trained otherwise: with fewer than 4, fewer than 8, and more references. `tests/guarantees/test_agreement.py`
# measures how often trainings alike are called different.
_FACTORS = ((4, 2.0), (8, 1.75), (np.inf, 1.6))
_DISTANCE_LEVEL = 0.03  # of the tests of the distance, on either side, where trainings vary in few directions
_PARALLEL = 0.25  # of a pair of parallel deviations, beside those seen: few models show few directions
_LOSS_LEVEL = 0.02  # of the test of the mean loss
_ROUNDING = 1e-9  # of the largest answer: differences below are none
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
        differs: whether the target is farther from the mean of the references, or nearer to it, than another training
            like theirs would be, or has another mean loss; None with one reference. Where the target was trained as the
            references were, it was True in at most an eighth of the simulations of each of eight kinds of model, also
            of such with few parameters.
    """

    records: int
    models: int
    rmse: Estimate
    spread: Estimate | None
    differs: bool | None


def compare_answers(
    target: object,
    references: object,
    is_out: object = None,
    *,
    overlap: float = 0.0,
    losses: tuple[object, object] | None = None,
) -> Agreement:
    """Compare the answers of a target with those of reference models.

    Every interval takes the models as they are, and records as drawn at random.

    Args:
        target: the target's answers ``[n]``, such as scaled logits.
        references: those of reference models ``[m, n]``.
        is_out: bool ``[m, n]``, False where a model was trained on the record; None where none was on any.
        overlap: share of their training records that two references have in common, `mean_overlap`. They resemble each
            other for it, and a target with records of its own is farther away.
        losses: of the target ``[n]`` and of the references ``[m, n]``, whose means are compared; None: the answers.

    Raises:
        divulge.InputError: other shapes; fewer than 2 records that some model was not trained on; answers whose squares
            overflow; an overlap that is not in [0, 1).

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> difficulty = rng.normal(size=500)
        >>> references = difficulty + rng.normal(size=(8, 500))
        >>> compare_answers(difficulty + rng.normal(size=500), references).differs
        False
        >>> compare_answers(3 * difficulty + rng.normal(size=500), references).differs
        True
        >>> compare_answers(difficulty + 0.1 * rng.normal(size=500), references).differs  # they scatter more
        True
    """
    t = check_vector(target, "target")
    x = check_matrix(references, "references", columns=len(t)).astype(np.float64, copy=False)
    out = np.ones(x.shape, dtype=bool) if is_out is None else check_mask(is_out, "is_out", x.shape)
    if not 0 <= overlap < 1:
        raise InputError(f"overlap: a share from 0 to below 1 is needed, got {overlap}")
    largest = max(float(np.abs(t).max(initial=0.0)), float(np.abs(x).max(initial=0.0)))
    if largest > _LARGEST:
        raise InputError(f"target, references: answers up to {_LARGEST:g} are needed to add squares, got {largest:g}")
    target_losses, reference_losses = (t, x) if losses is None else losses
    t_loss = check_vector(target_losses, "losses[0]", length=len(t))
    x_loss = check_matrix(reference_losses, "losses[1]", columns=len(t)).astype(np.float64, copy=False)
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
    differs = _is_farther_or_nearer(t, x, out, overlap) or _has_other_mean(t_loss[rows], x_loss[:, rows], out, overlap)
    return Agreement(len(t), len(x), rmse, root_of_mean(variances), bool(differs))


def mean_overlap(trained_on: object) -> float:
    """Return the share of training records that two reference models have in common, in the mean over pairs.

    It bounds the correlation of what chance makes of two models, which is all of it where only the choice of records
    is left to chance.

    Args:
        trained_on: bool ``[m, n]``, by model and record.

    Examples:
        >>> mean_overlap([[True, True, False, False], [False, True, True, False]])
        0.5
    """
    rows = check_mask(trained_on, "trained_on", (None, None)).astype(np.float64)
    sizes = np.sqrt(np.maximum(rows.sum(axis=1), 1))
    shares = (rows / sizes[:, None]) @ (rows / sizes[:, None]).T
    pairs = shares[np.triu_indices(len(rows), 1)]
    return round(float(min(pairs.mean(), 0.99)), 12) if len(pairs) else 0.0


def _is_farther_or_nearer(t: Floats, x: Floats, out: Bools, overlap: float) -> bool:
    """Check whether the target is farther from the others than any reference and than trainings alike, or nearer."""
    # Distances are mean absolute differences, which a few records with extreme answers do not decide. They are scaled
    # by the number of models, so that all are alike where all models are; the ratio is that of the target's distance to
    # a reference's from the references' own mean.
    counts = out.sum(axis=0)
    means = (x * out).sum(axis=0) / counts
    floor = _ROUNDING * max(1.0, float(np.abs(t).max()), float(np.abs(x).max()))
    centre = (t + (x * out).sum(axis=0)) / (counts + 1)
    scale = np.sqrt((counts + 1) / counts)
    target_distance = float((scale * np.abs(t - centre)).mean())
    distances = (scale * np.abs(x - centre) * out).sum(axis=1) / np.maximum(out.sum(axis=1), 1)
    own = np.sqrt(counts / np.maximum(counts - 1, 1)) * (np.abs(x - means) * out).sum(axis=0) / counts
    from_means = float((np.abs(t - means) / np.sqrt(1 + 1 / counts)).mean())
    ratio = (from_means + floor) / (float(own.mean()) + floor)
    factor = next(factor for below, factor in _FACTORS if len(x) < below)
    directions = _count_directions(t, x, out)
    degrees = directions, directions * (len(x) - 1)
    farther, nearer = (max(factor, float(stats.f.isf(_DISTANCE_LEVEL, *d)) ** 0.5) for d in (degrees, degrees[::-1]))
    # Of independent trainings that share no record, by how much more the target than a reference, in the mean.
    inflation = float(np.sqrt(((1 + overlap) / (1 - overlap) + 1 / len(x)) / (1 + 1 / len(x))))
    is_farther = ratio > farther * inflation and target_distance > inflation * distances.max()
    return bool(is_farther or (ratio < 1 / nearer and target_distance < distances.min()))


def _count_directions(t: Floats, x: Floats, out: Bools) -> float:
    """Estimate in how many independent directions trainings alike vary, by how nearly parallel their deviations are.

    Models with few parameters vary in few: how far one of them lies from the others is then left to chance, however
    many records are compared.
    """
    means = (x * out).sum(axis=0) / out.sum(axis=0)
    # Each model less the mean of those before it: orthogonal contrasts, which are independent where the models are.
    m = len(x)
    contrasts = np.tril(np.ones((m - 1, m))) / np.arange(1, m)[:, None]
    contrasts[np.arange(m - 1), np.arange(1, m)] = -1.0
    rows = np.vstack([t - means, contrasts @ ((x - means) * out)])
    lengths = np.sqrt((rows**2).sum(axis=1))
    units = rows[lengths > 0] / lengths[lengths > 0][:, None]  # models that answer alike have no direction
    if len(units) < 2:
        return float(len(t))
    squares = (units @ units.T)[np.triu_indices(len(units), 1)] ** 2
    return float((len(squares) + _PARALLEL) / (squares.sum() + _PARALLEL))


def _has_other_mean(t: Floats, x: Floats, out: Bools, overlap: float) -> bool:
    """Test whether the target's mean loss could be that of another training like the references'."""
    means = (x * out).sum(axis=0) / out.sum(axis=0)
    levels = ((x - means) * out).sum(axis=1) / np.maximum(out.sum(axis=1), 1)
    gap = abs(float((t - means).mean() - levels.mean()))
    floor = _ROUNDING * max(1.0, float(np.abs(means).max()))
    spread = float(levels.std(ddof=1) * np.sqrt((1 + overlap) / (1 - overlap) + 1 / len(x)))
    return gap > floor + float(stats.t.isf(_LOSS_LEVEL / 2, len(x) - 1)) * spread


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
