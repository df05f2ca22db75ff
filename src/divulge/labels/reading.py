"""What a decoder makes of answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from divulge.types import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What a decoder makes of the answers it has.

    Args:
        labels: ``[n]``.
        certain: no other label explains the answers even if the noise were twice what was declared.
        proven: the label follows from the answers if the noise kept within what was declared.
        residual: distance of each answer from what the labels say it should be, NaN where not asked.
        refuted: ``[count]``, answers that no labels explain, alone or together with those they are read with, as
            long as the oracle is what was declared (for stochastic noise: with a chance below one in a million).
    """

    labels: Ints
    certain: Bools
    proven: Bools
    residual: Floats
    refuted: Bools
