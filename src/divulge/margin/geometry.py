"""When records are nearly orthogonal, outputs alone give members away: the assumption, measured and bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.margin.shallow_relu import augment, inputs
from divulge.validation import check_integer, check_number

if TYPE_CHECKING:
    from divulge.types import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Orthogonality:
    """How orthogonal a training set is, and what that proves about fresh records.

    Args:
        n: number of records.
        delta: δ = max |x_i·x_j| over pairs i ≠ j.
        Delta: Δ = min ‖x_i‖².
        ratio: n·δ/Δ, what Assumption 3.1 asks to vanish.
        bound: largest possible |Φ(x)|/m of a fresh record, for each fresh record, ``[z]``; for one as orthogonal
            to the records as they are to each other when no fresh record was given, ``[1]``; infinity where
            nothing is proven.
        says_something: whether every bound is below 1, so that no fresh record can reach the margin.
    """

    n: int
    delta: float
    Delta: float
    ratio: float
    bound: Floats
    says_something: bool


def orthogonality(x: object, fresh: object = None) -> Orthogonality:
    """Assumption 3.1 (near-orthogonality) for these records, with a bound that has no hidden constant.

    At a KKT point of margin m every w_j = v_j·Σ λ_i y_i σ'_ij [x_i, 1]. Let δ̃ and Δ̃ be δ and Δ of the records
    with the 1 of the bias appended. Summing Φ(x_i) = ±m over the records gives
    Σ_i λ_i Σ_j v_j² σ'_ij ≤ n·m/(Δ̃ - 2(n - 1)·δ̃), hence for a fresh x with δ_x = max_i |[x_i, 1]·[x, 1]|

        |Φ(x)| ≤ m·n·δ_x/(Δ̃ - 2(n - 1)·δ̃).

    The fresh record's own δ_x belongs in the numerator: the pairwise δ of the training set, which Theorem 3.2 of
    "Provable Privacy Attacks on Trained Shallow Neural Networks" uses, says nothing about a record outside it.
    For Gaussian or spherical data and n = 20 the bound stays above 1 until d reaches some 10⁴, although the
    attack itself works from d = 100 on; ``says_something`` keeps the two apart.

    Args:
        x: the training records ``[n, d]``, at least two.
        fresh: records ``[z, d]`` that are not in the training set.

    Raises:
        divulge.InputError: fewer than two records, dimensions that differ.

    Examples:
        >>> import numpy as np
        >>> found = orthogonality(1e3 * np.eye(3))
        >>> found.delta, found.Delta, bool(found.bound < 1e-5), found.says_something
        (0.0, 1000000.0, True, True)
    """
    data = inputs(x, "x")
    n = len(data)
    if n < 2:
        raise InputError(f"x: at least 2 records are needed to compare them, got {n}")
    plain_delta, plain_least = _extremes(data)
    full = augment(data)
    delta, least = _extremes(full)
    room = least - 2 * (n - 1) * delta
    if fresh is None:
        nearest = np.array([delta])
    else:
        nearest = np.max(np.abs(augment(inputs(fresh, "fresh", data.shape[1])) @ full.T), axis=1)
    bound = n * nearest / room if room > 0 else np.full(len(nearest), np.inf)
    ratio = n * plain_delta / plain_least if plain_least > 0 else float("inf")
    return Orthogonality(n, plain_delta, plain_least, ratio, bound, bool((bound < 1).all()))


def _extremes(data: Floats) -> tuple[float, float]:
    inner = data @ data.T
    off = ~np.eye(len(data), dtype=bool)
    return float(np.max(np.abs(inner[off]))), float(np.min(np.diag(inner)))


def least_margin(loss: float, n: int = 1) -> float:
    """The margin that a training loss guarantees: every y_i·Φ(x_i) ≥ -ln(e^{n·loss} - 1) for mean logistic loss.

    No single record can carry more than the total loss n·loss. The bound is positive exactly below
    loss = (ln 2)/n, which is therefore the threshold from which Theorem 2.1 (convergence to a KKT point) applies
    to logistic loss; 1/n, as printed in the paper, is the one for exponential loss. A total loss of 1/e gives
    0.81 (Remark B.5).

    Args:
        loss: mean logistic loss over the training set.
        n: number of training records.

    Raises:
        divulge.InputError: a loss ≤ 0 or n < 1.

    Examples:
        >>> import math
        >>> round(least_margin(1 / math.e), 2), abs(least_margin(math.log(2) / 7, n=7)) < 1e-12
        (0.81, True)
    """
    total = check_number(loss, "loss", above=0.0, below=1e9) * check_integer(n, "n", least=1, most=10**15)
    return float(-total - np.log1p(-np.exp(-total)))
