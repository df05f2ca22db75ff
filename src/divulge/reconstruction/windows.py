"""Windows of a line that each hold a training point, and what they prove of the candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.reconstruction.lines import Bends
    from divulge.types import Bools, Floats, Ints

_SLACK = 1e-9  # relative; a position on the edge of a window lies in it


def windows(bent: Bends, flat: Bools) -> Floats:
    """Ends of two adjacent pieces, neither constant on the margin, ``[w, 2]``; each holds a training point (Thm 4.2).

    Args:
        bent: the line.
        flat: bool ``[K - 1]``, pieces that lie on the margin.
    """
    starts = np.flatnonzero(~(flat[:-1] | flat[1:]))
    return np.column_stack([bent.at[starts], bent.at[starts + 2]])


def flat_ends(bent: Bends, flat: Bools) -> Floats:
    """Both ends of every piece that lies on the margin, ``[e]``: a neighbouring window takes in the nearer one."""
    return bent.at[np.concatenate([flat, [False]]) | np.concatenate([[False], flat])]


def within(positions: Floats, spans: Floats) -> list[Ints]:
    """Of each span the indices of the positions in it, ends included."""
    slack = _SLACK * (1.0 + np.abs(positions))
    return [np.flatnonzero((positions >= low - slack) & (positions <= high + slack)) for low, high in spans]


def fewest(parts: Sequence[Ints]) -> int:
    """Fewest positions that meet every set of neighbouring positions; sets of them must be intervals of indices.

    So many of the positions are training points at least, if each set holds one. Empty sets ask for nothing.
    """
    count, last = 0, -1
    for part in sorted((part for part in parts if len(part)), key=lambda part: part[-1]):
        if part[0] > last:
            count, last = count + 1, int(part[-1])
    return count
