"""The control query: once the labels are read its answer is known, and an oracle other than declared betrays itself.

Codes waste nothing, so answers of another oracle may be read as some other labels without a trace. The control
query gives every row a prediction drawn at random; the answer that the labels read imply is then computed with
the declared metric itself, and bounded by rounding, noise and any order of summation.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds
from divulge.labels import floats
from divulge.labels.evaluated import Evaluated, draw_submission
from divulge.labels.noise import reach
from divulge.labels.oracles import score
from divulge.labels.spec import COUNTS

if TYPE_CHECKING:
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Ints


def query(spec: OracleSpec) -> Array:
    """The predictions of the control query; always the same for an oracle.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> query(OracleSpec(n=3, classes=4)).shape
        (3, 4)
    """
    draws = seeds.generator(0, "labels", "control")
    if spec.name == "auc":
        return draws.permutation(spec.n) / spec.n
    if spec.name in COUNTS:
        return draws.integers(0, 2, spec.n).astype(float)
    if isinstance(spec.metric, Evaluated) and spec.metric.depends_on == "labels":
        return draw_submission(spec, draws)
    if spec.name == "r2":
        return draws.random(spec.n)
    if not spec.adds_up:
        classes = draws.integers(0, spec.classes, spec.n)
        return classes[:, None] if spec.name == "map_at_k" else classes
    loss = spec.loss()
    # Losses without a bound: one label is to outweigh what an answer may be off by, and no more.
    span = loss.two_sided if math.isfinite(loss.two_sided) else max(1.0, 16 * spec.rows_per_answer * spec.tolerance)
    size = draws.uniform(0.25, 1.0, spec.n)
    if spec.classes == 2:
        return loss.predict(span * size * draws.choice([-1, 1], spec.n), np.arange(2))
    digits = np.arange(spec.classes)
    reach = loss.reach(digits) if math.isfinite(loss.two_sided) else span / (spec.classes - 1)
    return draws.permuted(loss.predict(reach * size, digits), axis=1)


def implied(spec: OracleSpec, labels: Ints) -> tuple[float, float]:
    """The answer that these labels imply, and how far an honest one may lie from it.

    Args:
        spec: the oracle.
        labels: ``[n]``, -1 for rows that are not scored.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> answer, allowed = implied(OracleSpec(n=4, decimals=3), np.array([0, 1, 1, 0]))
        >>> 0 < answer < 37, round(allowed, 6)
        (True, 0.0005)
    """
    rows, y = query(spec)[labels >= 0], labels[labels >= 0]
    if spec.name == "auc" and len(np.unique(y)) < 2:
        return math.nan, math.inf  # not defined; a plan for AUC reads both classes or is refuted
    answer = score(spec, y, rows)
    own = _floats(spec, y, rows, answer) if spec.adds_up else 1e-12 * max(1.0, abs(answer))
    return answer, spec.rounding + reach(spec, 1) + own


def _floats(spec: OracleSpec, y: Ints, rows: Array, answer: float) -> float:
    """What float arithmetic may add, whatever the order of the sum."""
    table = np.abs(spec.loss().table(rows)).max(axis=1)
    total = float(table.sum()) + abs(answer)
    error = float(floats.summation(len(y), total, "sequential", spec.float_dtype))
    error = 2 * (error + 8 * total * floats.roundoff(spec.float_dtype))
    weights = 1.0 if spec.class_weight is None else min(spec.class_weight)
    mean = error / (len(y) * weights if spec.reduction == "mean" else 1.0)
    # A root moves by at most the error of its square over the root.
    return mean / max(answer, math.sqrt(mean)) if spec.name == "rmse" else mean
