"""A trained multilayer perceptron as arrays: what detectors and imputers learn with torch, they keep without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from divulge.types import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Perceptron:
    """Standardise, then linear layers with ReLU between.

    Args:
        centre: subtracted from flattened records, ``[d]``.
        scale: divided by, ``[d]``.
        layers: weight ``[in, out]`` and bias ``[out]`` of each layer.
    """

    centre: Floats
    scale: Floats
    layers: tuple[tuple[Floats, Floats], ...]

    @classmethod
    def of(cls, centre: Floats, scale: Floats, linear: Sequence[nn.Linear]) -> Perceptron:
        """From torch's linear layers."""
        layers = tuple(
            (each.weight.detach().double().numpy().T, each.bias.detach().double().numpy()) for each in linear
        )
        return cls(centre, scale, layers)

    def outputs(self, x: Floats) -> Floats:
        """Outputs of the last layer, ``[n, q]``, of records ``[n, ...]``."""
        hidden = (x.reshape(len(x), -1) - self.centre) / self.scale
        for at, (weight, bias) in enumerate(self.layers):
            hidden = (np.maximum(hidden, 0.0) if at else hidden) @ weight + bias
        return hidden


def mean_and_scale(x: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column of ``x[n, d]``; 1 for the deviation of a constant.

    Examples:
        >>> mean_and_scale(np.array([[1.0, 5.0], [3.0, 5.0]]))
        (array([2., 5.]), array([1., 1.]))
    """
    deviation = x.std(axis=0)
    return x.mean(axis=0), np.where(deviation > 0, deviation, 1.0)
