"""Which training records are at risk, from their losses during training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.validation import check_matrix, check_number

if TYPE_CHECKING:
    from divulge.types import Floats


def at_risk(losses: object, *, low: float = 0.25, high: float = 0.75) -> Floats:
    """Return how far each record's loss moved during training: LT-IQR, the interquartile range of its loss trace.

    Pollock et al. 2024 (arXiv:2411.05743). A record that was learnt late, and learnt in the end, gives itself away
    more than one that was easy from the start. No model but the one in training is needed, and no record outside the
    training set. This ranks members; it does not tell them from others, and it bounds nothing.

    Args:
        losses: of each training record after each epoch, ``[epochs, records]``, at least 2 epochs.
        low: lower quantile.
        high: upper quantile.

    Returns:
        float64 ``[records]``, larger = more at risk, in the unit of the losses.

    Raises:
        divulge.InputError: NaN or infinity, fewer than 2 epochs, quantiles outside [0, 1] or not in order.

    Examples:
        >>> at_risk([[2.0, 2.0], [1.5, 0.1], [1.0, 0.1], [0.1, 0.0], [0.1, 0.0]])
        array([1.4, 0.1])
    """
    traces = check_matrix(losses, "losses")
    if len(traces) < 2:
        raise InputError(f"losses: at least 2 epochs are needed, got {len(traces)}")
    check_number(low, "low", above=0, below=1, closed=True)
    check_number(high, "high", above=0, below=1, closed=True)
    if low >= high:
        raise InputError(f"low: must be less than high, got {low:g} and {high:g}")
    lower, upper = np.quantile(traces.astype(np.float64, copy=False), (low, high), axis=0)
    return upper - lower
