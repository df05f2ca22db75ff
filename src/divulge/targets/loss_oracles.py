"""Scoring oracles on torch's own loss functions, for trying label inference against them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy
from divulge.validation import check_choice, check_labels

if TYPE_CHECKING:
    import torch

    from divulge.types import Ints
else:
    torch = lazy.module("torch")

_LOSSES = ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss")


@dataclass(frozen=True, slots=True, eq=False)
class TorchLossOracle:
    """Mean loss of predictions against hidden labels, by ``torch.nn.functional``.

    Note that ``binary_cross_entropy`` clamps logarithms at -100 (so one label moves a sum by up to 100) and that
    ``cross_entropy`` takes logits and has no bound at all.

    Args:
        y: hidden labels ``[n]``.
        loss: "cross_entropy" (logits ``[n, K]``), "binary_cross_entropy" (rows ``[n, 2]`` or p(y = 1) ``[n]``),
            "binary_cross_entropy_with_logits" ``[n]`` or "mse_loss" ``[n]``.
        dtype: "float32" or "float64".

    Raises:
        divulge.MissingExtraError: torch is not installed.

    Examples:
        >>> oracle = TorchLossOracle(np.array([0, 1]), "cross_entropy")
        >>> round(oracle(np.zeros((2, 2))), 6)
        0.693147
    """

    y: Ints
    loss: str = "cross_entropy"
    dtype: str = "float64"

    def __post_init__(self) -> None:
        check_choice(self.loss, "loss", _LOSSES)
        check_choice(self.dtype, "dtype", ("float32", "float64"))
        object.__setattr__(self, "y", check_labels(self.y, "y"))

    def __call__(self, predictions: object) -> float:
        """Return the score of ``predictions``."""
        columns = np.asarray(predictions)
        if self.loss == "binary_cross_entropy" and columns.ndim == 2:
            columns = columns[:, 1]
        given: torch.Tensor = torch.as_tensor(columns, dtype=getattr(torch, self.dtype))
        truth = torch.as_tensor(self.y)
        if self.loss != "cross_entropy":
            truth = truth.to(given.dtype)
        function: Callable[[Any, Any], Any] = getattr(torch.nn.functional, self.loss)
        return float(function(given, truth))
