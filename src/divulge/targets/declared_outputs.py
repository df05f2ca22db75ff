"""What came out of a model, checked against what was declared, as float64 logits ``[n, K]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.errors import InputError
from divulge.validation import check_array, check_choice

if TYPE_CHECKING:
    from divulge.types import Floats

OUTPUT_TYPES = ("logits", "probabilities")

# A probability of zero says "less than this output can tell"; 1e-7 is what float32 resolves near one.
PROBABILITY_FLOOR = 1e-7

# Different rows that must all look like probabilities before logits are refused for it. Logits rounded to 0.1 may
# sum to one row after row; of finer ones hardly a row does.
_ROWS, _FINE_ROWS, _FINE = 8, 2, 3  # _FINE: decimals beyond which values are fine


def as_logits(outputs: Any, declared: str, length: int, name: str = "target outputs") -> Floats:
    """Logits from ``outputs``; one column or a vector is read as the log-odds of class 1.

    Args:
        outputs: ``[n, K]``, ``[n, 1]`` or ``[n]``.
        declared: "logits" or "probabilities".
        length: number of records asked about.
        name: what to call the outputs in errors.

    Raises:
        divulge.InputError: NaN, a wrong shape, or values that are not what was declared.

    Examples:
        >>> as_logits([[0.5, 0.5]], "probabilities", 1).round(3)
        array([[-0.693, -0.693]])
    """
    check_choice(declared, "outputs", OUTPUT_TYPES)
    values = check_array(outputs, name).astype(np.float64, copy=False)
    if values.ndim == 0 or len(values) != length:
        raise InputError(f"{name}: {length} rows are needed (one per record), got shape {values.shape}")
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise InputError(f"{name}: shape [n, classes] is needed, got {values.shape}")
    return _from_probabilities(values, name) if declared == "probabilities" else _from_logits(values, name)


def _from_logits(logits: Floats, name: str) -> Floats:
    if logits.shape[1] == 1:
        return np.hstack([np.zeros_like(logits), logits])
    if _are_probabilities(logits):
        raise InputError(
            f"{name}: declared as logits, but every row is non-negative and sums to one: these are "
            "probabilities; declare outputs='probabilities'"
        )
    return logits


def _are_probabilities(values: Floats) -> bool:
    """Whether ``[n, K]`` can hardly be logits. One row told again and again, or a one among zeros, may well be."""
    if (values < 0).any() or not np.allclose(values.sum(axis=1), 1.0, atol=1e-4):
        return False
    telling = np.unique(values[values.max(axis=1) < 1], axis=0)
    fine = (telling != telling.round(_FINE)).any(axis=1)
    return len(telling) >= _ROWS or fine.sum() >= _FINE_ROWS


def _from_probabilities(probabilities: Floats, name: str) -> Floats:
    if (probabilities < 0).any() or (probabilities > 1).any():
        raise InputError(
            f"{name}: declared as probabilities, but values range from {probabilities.min():g} to "
            f"{probabilities.max():g}; declare outputs='logits'"
        )
    if probabilities.shape[1] == 1:
        probabilities = np.hstack([1 - probabilities, probabilities])
    # Rounded answers (three decimals, say) do not sum to one exactly.
    off = np.abs(probabilities.sum(axis=1) - 1)
    if off.max() > 0.01 * probabilities.shape[1]:
        row = int(off.argmax())
        raise InputError(
            f"{name}: declared as probabilities, but row {row} sums to {probabilities[row].sum():g}, not to one"
        )
    return np.log(np.maximum(probabilities, PROBABILITY_FLOOR))
