"""One network by itself: the plain loop, or DP-SGD where privacy is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.references import loop, private

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from divulge.references.models import Data
    from divulge.references.settings import TrainSettings
    from divulge.types import Ints


def train(
    config: TrainSettings, data: Data, rows: Ints, seed: int, tick: Callable[[float], None] | None = None
) -> nn.Module:
    """Train one network on ``data[rows]``, as ``config`` says.

    Raises:
        DivergedError: NaN or infinity in the weights.
    """
    return (loop if config.privacy is None else private).train(config, data, rows, seed, tick)
