"""One score learned from several signals, without spending the guarantee.

Marandon et al., "Adaptive novelty detection with false discovery rate guarantee", Annals of Statistics
2024 (AdaDetect): part of the calibration trains a classifier against everything else; the rest of the
calibration and the candidates are treated alike by it, so their scores stay exchangeable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn import linear_model

from divulge import seeds
from divulge.errors import InputError
from divulge.statistics.duplicates import hash_tables, sort_rows
from divulge.validation import check_matrix

if TYPE_CHECKING:
    from divulge.types import Floats


def scores(candidates: object, calibration: object, *others: object, seed: int = 0) -> tuple[Floats, ...]:
    """Return a learned score for the candidates, and for the half of the calibration kept apart to judge them.

    A logistic regression on standardised signals and their squares tells one half of the calibration
    from the pool of the other half and the candidates. The pool enters in sorted order and equal rows are
    scored once, so that its members are exchangeable to the last bit. The halves are drawn by ``seed`` and by
    a digest of all signals, not by row numbers: no order of the rows changes a score, and one seed draws
    other halves for other data.

    Args:
        candidates: signals ``[m, d]``.
        calibration: signals ``[n, d]`` of known non-members.
        others: further tables ``[h, d]``, learned from and scored as the candidates are.
        seed: of the split of the calibration.

    Returns:
        Scores ``[m]`` and ``[n - n // 2]``, and ``[h]`` of each further table; larger = less like the calibration.

    Raises:
        divulge.InputError: NaN, infinity, tables of different width, fewer than 4 calibration rows.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> x, known = rng.normal(size=(20, 2)) + 2, rng.normal(size=(60, 2))
        >>> judged, kept = scores(x, known)
        >>> judged.shape, kept.shape, bool(judged.mean() > kept.mean())
        ((20,), (30,), True)
    """
    candidate_rows = check_matrix(candidates, "candidates").astype(np.float64)
    calibration_rows = check_matrix(calibration, "calibration", columns=candidate_rows.shape[1]).astype(np.float64)
    other_tables = [
        check_matrix(table, "others", columns=candidate_rows.shape[1]).astype(np.float64) for table in others
    ]
    if len(calibration_rows) < 4:
        raise InputError(f"calibration: at least 4 rows are needed to split it, got {len(calibration_rows)}")
    calibration_rows = sort_rows(calibration_rows)
    order = seeds.generator(seed, "adadetect", hash_tables(calibration_rows, sort_rows(candidate_rows))).permutation(
        len(calibration_rows)
    )
    training, held_out = (
        calibration_rows[order[: len(calibration_rows) // 2]],
        calibration_rows[order[len(calibration_rows) // 2 :]],
    )
    tables = (candidate_rows, held_out, *other_tables)
    rows, row_index = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
    pool = rows[np.sort(row_index.ravel())]
    center, scale = pool.mean(axis=0), pool.std(axis=0)

    def expand(table: Floats) -> Floats:
        standard = (table - center) / np.where(scale > 0, scale, 1.0)
        return np.hstack([standard, np.clip(standard**2, 0, 9)])

    model = linear_model.LogisticRegression(class_weight="balanced", max_iter=200)
    model.fit(expand(np.concatenate([training, pool])), np.repeat([0, 1], [len(training), len(pool)]))
    learned = model.decision_function(expand(rows))[row_index.ravel()]
    return tuple(np.split(learned, np.cumsum([len(table) for table in tables])[:-1]))
