"""Conformal p-values, and the counts of candidates above each calibration score from which selections are made.

Larger scores are more member-like. With calibration scores ``S_1 … S_n`` of known non-members, the
conformal p-value of a candidate with score ``T`` is ``p = (1 + #{S_i ≥ T}) / (n + 1)``. It takes only
``n + 1`` values, so a selection needs no more than the number of candidates at each of them. `Counts` holds these
numbers; it is filled chunk by chunk, and counts from several machines merge exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import machine, store
from divulge.errors import InputError
from divulge.validation import check_instance, check_vector

if TYPE_CHECKING:
    from pathlib import Path

    from divulge.types import Floats, Ints

# One core sorts _CHUNK candidates at a time (an index into a chunk must fit into the bits that _nearly_ascending
# clears) and looks up _BLOCK of them at a time.
_CHUNK = 1 << 20
_BLOCK = 1 << 11


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Numbers of candidates above and at each calibration score, in ``O(n)`` memory.

    Args:
        calibration: scores of known non-members, ascending, ``[n]``.
        above: number of candidates with a score strictly larger than each of them, ``[n]``.
        tied: number of candidates with exactly that score, ``[n]``.
        total: number of candidates ``m``.

    Examples:
        >>> counts = Counts.empty([0.0, 1.0, 2.0]).add([0.5, 3.0]).add([2.0])
        >>> counts.above, counts.tied, counts.total
        (array([3, 2, 1]), array([0, 0, 1]), 3)
    """

    calibration: Floats
    above: Ints
    tied: Ints
    total: int = 0

    @classmethod
    def empty(cls, calibration: object) -> Counts:
        """Return the counts of no candidates.

        Raises:
            divulge.InputError: empty calibration, NaN or infinity.
        """
        ordered = np.sort(check_vector(calibration, "calibration"))
        return cls(ordered, np.zeros(len(ordered), np.int64), np.zeros(len(ordered), np.int64))

    def add(self, candidates: object) -> Counts:
        """Return these counts with the candidates ``[any]`` added.

        Raises:
            divulge.InputError: NaN or infinity.
        """
        scores = np.sort(check_vector(candidates, "candidates"))
        below = np.searchsorted(scores, self.calibration, side="right")
        # Ties are rare among continuous scores, so the left edge is looked up only where there is one.
        equal = (below > 0) & (scores[below - 1] == self.calibration)
        tied = np.zeros(len(self.calibration), np.int64)
        tied[equal] = below[equal] - np.searchsorted(scores, self.calibration[equal], side="left")
        above = len(scores) - below
        return Counts(self.calibration, self.above + above, self.tied + tied, self.total + len(scores))

    def add_with_p_values(self, candidates: object) -> tuple[Counts, Floats]:
        """Return these counts with the candidates ``[any]`` added, and the candidates' p-values, in one pass.

        Raises:
            divulge.InputError: NaN or infinity.

        Examples:
            >>> counts, p = Counts.empty([0.0, 1.0, 2.0]).add_with_p_values([0.5, 3.0, 2.0])
            >>> counts.above, counts.tied, p
            (array([3, 2, 1]), array([0, 0, 1]), array([0.75, 0.25, 0.5 ]))
        """
        scores = check_vector(candidates, "candidates")
        n = len(self.calibration)
        p_values, n_below_counts, tied = np.empty(len(scores)), np.zeros(n + 1, np.int64), np.zeros(n, np.int64)

        def count_chunk(chunk: slice) -> tuple[Ints, Ints]:
            order, keys, below = _count_below_chunk(scores[chunk], self.calibration)
            p_values[chunk][order] = (n + 1.0 - below) / (n + 1.0)
            equal_places = below[self.calibration[np.minimum(below, n - 1)] == keys]
            return np.bincount(below, minlength=n + 1), equal_places

        for chunk_counts, equal_places in machine.map_in_threads(count_chunk, _chunks(len(scores))):
            n_below_counts += chunk_counts
            tied += np.bincount(equal_places, minlength=n)
        if tied.any():  # Ties are counted at the first of equal calibration scores and hold for all of them.
            tied = tied[np.searchsorted(self.calibration, self.calibration, side="left")]
        above = n_below_counts[::-1].cumsum()[::-1][1:]
        return Counts(self.calibration, self.above + above, self.tied + tied, self.total + len(scores)), p_values

    def merge(self, counts: Counts) -> Counts:
        """Return the counts of the candidates of both.

        Raises:
            divulge.InputError: the calibration scores of the two differ.
        """
        if not np.array_equal(self.calibration, counts.calibration):
            raise InputError("counts: only counts with the same calibration scores can be merged")
        return Counts(self.calibration, self.above + counts.above, self.tied + counts.tied, self.total + counts.total)

    @property
    def reached(self) -> Ints:
        """Number of candidates with ``#{S ≥ T} ≤ r``, for ``r = 0 … n``."""
        return np.append(self.above[::-1], self.total)

    def count_below(self, place: int) -> int:
        """Return the number of candidates whose score is strictly lower than ``calibration[place]``."""
        return int(self.total - self.above[place] - self.tied[place])

    def save(self, path: Path) -> None:
        """Write the counts to an ``.npz`` file."""
        total = np.array(self.total)
        store.write_arrays(
            path, {"calibration": self.calibration, "above": self.above, "tied": self.tied, "total": total}
        )

    @classmethod
    def load(cls, path: Path) -> Counts:
        """Return the counts written by `save`.

        Raises:
            divulge.InputError: the file is missing, damaged or holds something else.
        """
        arrays = store.read_arrays(path, inside=path.parent)
        if set(arrays) != {"calibration", "above", "tied", "total"}:
            raise InputError(f"{path}: is no file of counts; it holds the arrays {sorted(arrays)}")
        calibration = check_vector(arrays["calibration"], f"{path}: calibration")
        n_above, n_tied, total = (arrays[name] for name in ("above", "tied", "total"))
        are_counts = all(values.dtype.kind in "iu" for values in (n_above, n_tied, total))
        if not are_counts or {n_above.shape, n_tied.shape} != {calibration.shape} or total.shape:
            raise InputError(f"{path}: damaged, three numbers are needed for each calibration score, and their total")
        is_possible = (
            (np.diff(calibration) >= 0).all()
            and (n_above[1:] <= n_above[:-1]).all()
            and (n_tied >= 0).all()
            and int(n_above[-1]) >= 0
            and max(int(n_above[0]) + int(n_tied[0]), int(n_tied.max())) <= int(total)
        )
        if not is_possible:
            raise InputError(f"{path}: damaged, no candidates have these numbers above and at the calibration scores")
        return cls(calibration, n_above.astype(np.int64), n_tied.astype(np.int64), int(total))


def check_counts(counts: object) -> Counts:
    """Return ``counts`` if they are `Counts` of at least one candidate.

    Raises:
        divulge.InputError: otherwise.
    """
    checked = check_instance(counts, "counts", Counts, "a decisions.counts.Counts")
    if checked.total == 0:
        raise InputError("candidates: at least 1 entry is needed, got 0")
    return checked


_MAX_REPEATED_SHARE = 0.05  # of the calibration scores, that repeat another
_MIN_EXPECTED_TIES = 20  # between candidates and calibration, if scores that repeat were rounded


def has_unmatched_repeats(counts: Counts) -> bool:
    """Return whether calibration scores repeat although scores are not rounded: whether documents stand there again.

    Rounded scores repeat on both sides, and pairs of a candidate and a calibration score are equal as often as pairs of
    calibration scores, by the number of candidates in their neighbourhood. Here over a twentieth of the calibration
    scores repeat others, so that 20 equal pairs would be expected, and there is none. The lowest and the highest value
    do not count, where many scores may be cut off.

    Examples:
        >>> documents = np.random.default_rng(0).normal(size=20)
        >>> candidates = np.random.default_rng(1).normal(size=300)
        >>> has_unmatched_repeats(Counts.empty(np.repeat(documents, 10)).add(candidates))
        True
        >>> has_unmatched_repeats(Counts.empty(np.repeat(documents, 10).round(1)).add(candidates.round(1)))
        False
    """
    values, first_rows, sizes = np.unique(counts.calibration, return_index=True, return_counts=True)
    if len(counts.calibration) - len(values) <= _MAX_REPEATED_SHARE * len(counts.calibration) or len(values) < 3:
        return False
    above, tied = counts.above[first_rows], counts.tied[first_rows]
    if tied[1:-1].any():
        return False
    n_candidates = above[:-2] - above[2:] - tied[2:]  # strictly between the neighbouring values
    n_calibration = sizes[1:-1] + (sizes[:-2] + sizes[2:]) / 2
    n_pairs = sizes[1:-1] * (sizes[1:-1] - 1)
    return bool((n_pairs * n_candidates / n_calibration).sum() >= _MIN_EXPECTED_TIES)


def ranks(candidates: Floats, calibration: Floats) -> Ints:
    """Return the number of calibration scores at or above each candidate, ``[m]``; ``calibration`` is ascending.

    Examples:
        >>> ranks(np.array([0.5, 3.0, 2.0]), np.array([0.0, 1.0, 2.0]))
        array([2, 0, 1])
    """
    return len(calibration) - _count_below(candidates, calibration)


def p_values(candidates: Floats, calibration: Floats) -> Floats:
    """Return conformal p-values ``(1 + #{S ≥ T}) / (n + 1)``, ``[m]``, of checked scores; ``calibration`` is ascending.

    Examples:
        >>> p_values(np.array([0.5, 3.0, 2.0]), np.array([0.0, 1.0, 2.0]))
        array([0.75, 0.25, 0.5 ])
    """
    n_plus_one = len(calibration) + 1.0
    return (n_plus_one - _count_below(candidates, calibration)) / n_plus_one


def _count_below(candidates: Floats, calibration: Floats) -> Ints:
    """Return how many calibration scores are lower than each candidate."""
    n_below = np.empty(len(candidates), np.int64)

    def count_chunk(chunk: slice) -> None:
        order, _, below = _count_below_chunk(candidates[chunk], calibration)
        n_below[chunk][order] = below

    list(machine.map_in_threads(count_chunk, _chunks(len(candidates))))
    return n_below


def _chunks(total: int) -> list[slice]:
    return [slice(start, start + _CHUNK) for start in range(0, total, _CHUNK)]


def _count_below_chunk(chunk: Floats, calibration: Floats) -> tuple[Ints, Floats, Ints]:
    """Return an order of a chunk, its candidates in that order, and how many calibration scores lie below each.

    Looking up keys in ascending order is several times faster than in random order, and almost
    ascending is enough: a chunk is ordered by its leading bits with the position in the trailing
    ones, one plain integer sort. Within a block of such keys few calibration scores need searching.
    """
    order = _nearly_ascending(chunk)
    keys = chunk[order]
    starts = np.arange(0, len(keys), _BLOCK)
    first_places = np.searchsorted(calibration, np.minimum.reduceat(keys, starts), side="left")
    last_places = np.searchsorted(calibration, np.maximum.reduceat(keys, starts), side="left")
    below = np.empty(len(keys), np.int64)
    for start, low, high in zip(starts.tolist(), first_places.tolist(), last_places.tolist(), strict=True):
        block = slice(start, start + _BLOCK)
        np.add(np.searchsorted(calibration[low:high], keys[block], side="left"), low, out=below[block])
    return order, keys, below


def _nearly_ascending(chunk: Floats) -> Ints:
    bits = np.ascontiguousarray(chunk, dtype=np.float64).view(np.int64)
    # Two's complement orders positive floats; the other bits of negative ones are flipped to follow.
    key = bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))
    low = np.int64(_CHUNK - 1)
    key &= ~low
    key |= np.arange(len(chunk))
    key.sort()
    key &= low
    return key
