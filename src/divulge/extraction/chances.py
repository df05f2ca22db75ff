"""From the probability of a text to how often it must be asked for; in logarithms, as it is often below any float."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.validation import check_integer, check_number, check_vector

if TYPE_CHECKING:
    from divulge.types import Floats

_MOST_DRAWS = 10**15


def seen(log_p: object, draws: int) -> Floats:
    """The chance that a text is drawn at least once, ``1 - (1 - p)^n`` (Hayes et al. 2024, eq. 2), ``[k]``.

    Args:
        log_p: natural logarithms of probabilities, ``[k]``; minus infinity for what is never drawn.
        draws: n.

    Raises:
        divulge.InputError: logarithms above 0 or NaN, fewer than 1 draw.

    Examples:
        >>> seen(np.log([0.5, 0.01, 1e-12]), 100).round(3)
        array([1. , 0.634, 0. ])
    """
    count = check_integer(draws, "draws", least=1, most=_MOST_DRAWS)
    return -np.expm1(count * _log_rest(_checked(log_p)))


def draws_needed(log_p: object, chance: float = 0.5) -> Floats:
    """The fewest draws that show a text at least once with this chance, ``[k]``.

    Infinity where it is never drawn, or takes more draws than a float64 can count.

    Args:
        log_p: as for `seen`.
        chance: in (0, 1).

    Raises:
        divulge.InputError: logarithms above 0 or NaN, a chance outside (0, 1).

    Examples:
        >>> draws_needed(np.log([1.0, 0.5, 0.01]))
        array([ 1.,  1., 69.])
    """
    logs = _checked(log_p)
    wanted = -math.log1p(-check_number(chance, "chance", above=0, below=1))
    with np.errstate(over="ignore", divide="ignore"):
        exact = np.where(logs > -30, wanted / -_log_rest(np.maximum(logs, -30)), wanted * np.exp(-logs))
    # A hair, so that what is whole but for rounding is not rounded up.
    return np.maximum(np.ceil(exact * (1 - 1e-12)), 1.0)


def _log_rest(log_p: Floats) -> Floats:
    """``log(1 - p)``, to full precision at both ends."""
    near = log_p > -math.log(2)
    with np.errstate(divide="ignore"):
        return np.where(near, np.log(-np.expm1(np.where(near, log_p, -1.0))), np.log1p(-np.exp(log_p)))


def _checked(log_p: object) -> Floats:
    logs = check_vector(log_p, "log_p", finite=False)
    if np.isnan(logs).any() or (logs > 0).any():
        raise InputError("log_p: logarithms of probabilities are needed, some are NaN or above 0")
    return logs
