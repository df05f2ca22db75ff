"""Signals of a regression model: predicted and true values into one number per record, larger = more member-like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.signals.named import OutputSignal
from divulge.validation import check_vector

if TYPE_CHECKING:
    from divulge.types import Floats

# Squares of float64 overflow beyond this.
_BOUND = 1e150


def negative_squared_loss(predictions: Floats, y: Floats) -> Floats:
    """Minus the squared error, ``[n]``.

    Args:
        predictions: predicted values, ``[n]`` or ``[n, 1]``.
        y: true values, ``[n]``.

    Raises:
        divulge.InputError: several predictions per record, NaN or infinity, lengths that differ.

    Examples:
        >>> negative_squared_loss(np.array([1.0, 3.0]), np.array([1.5, 3.0]))
        array([-0.25, -0.  ])
    """
    values = np.asarray(predictions, dtype=np.float64)
    if values.size != len(values):
        raise InputError(f"predictions: one real value per record is needed, got shape {values.shape}")
    truth = check_vector(y, "y", length=len(values))
    half_error = check_vector(values.reshape(len(values)), "predictions") / 2 - truth / 2  # which does not overflow
    return -((2 * np.clip(half_error, -_BOUND / 2, _BOUND / 2)) ** 2)


NEGATIVE_SQUARED_LOSS = OutputSignal("negative-squared-loss", "predictions", negative_squared_loss)
"""The signal of the recipes for regression models; attacks that take probabilities get them from `attacks.OnErrors`."""
