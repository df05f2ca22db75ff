"""Scores that were saved with different precision: find the coarser grid, and favour no candidate by it.

A table may hold one decimal (a cell format of a spreadsheet), three significant digits, or float32, while the other
holds all digits. Rounding then lifts candidates above calibration scores that they do not exceed. The grid is visible
in the numbers, and calibration scores are raised to the next value on it: whichever way the other scores were rounded
or cut off, p-values stay valid. A grid that both share changes nothing, as ties count against the candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from divulge import lazy
from divulge.errors import InputError
from divulge.validation import check_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scipy import special

    from divulge.types import Bools, Floats, Ints
else:
    special = lazy.module("scipy.special")

Family: TypeAlias = Literal["decimals", "digits", "bits"]

_SIZES: dict[Family, tuple[int, ...]] = {
    "decimals": tuple(range(-3, 13)),
    "digits": tuple(range(1, 13)),
    "bits": (8, 11, 24),
}
_FULL: dict[Family, int] = {"decimals": 16, "digits": 16, "bits": 53}  # float64
_BASES: dict[Family, float] = {"decimals": 10.0, "digits": 10.0, "bits": 2.0}
_FORMATS = {8: "bfloat16", 11: "float16", 24: "float32"}
_ORDINARY = (-1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0)  # values that scores of full precision have as well
MAX_SCORES = 100_000  # evenly spaced ones, in which a grid is looked for
_MAX_CHANCE = 1e-6  # that so many different values are on a grid if they are not rounded to it
_MOST = 0.99  # of the rounded scores, that give the size of their grid
_MIN_ROWS = 2  # on a grid, where the set has other scores, too
_MIN_VALUES = 3  # different values off a grid, where a finer one is likely
_SHARE_ALIKE = 0.05  # of the candidates, that are assumed to be like the calibration at least …
_MAX_TAIL = 1e-3  # … and the chance of so few on the other's grid, below which grids differ
_FLOAT64_ERROR, _FLOAT32_ERROR = 2.0**-51, 2.0**-24  # relative ones: of a few operations, and of a conversion
_MAX_EXPONENT = 300  # of ten, in float64
_UNEVEN = 0.2  # of the scores, that have at least two decimals fewer than the one with most
_CELLS = 50  # rounding errors that a cell must have, or nothing can be told from it


@dataclass(frozen=True, slots=True)
class RoundingGrid:
    """Multiples of a power of ten, or numbers of so many significant digits or bits.

    Examples:
        >>> RoundingGrid("decimals", 1).round_up(np.array([0.93])), RoundingGrid("digits", 2).round(np.array([0.01234]))
        (array([1.]), array([0.012]))
    """

    family: Family
    size: int

    def round(self, scores: Floats) -> Floats:
        """Return the nearest number on the grid to each score ``[n]``."""
        return self._change(scores, np.rint)

    def round_up(self, scores: Floats, n_steps: int = 0) -> Floats:
        """Return the lowest number on the grid that is not below each score ``[n]``, or some steps above it."""
        is_on = self.contains(scores)
        return self._change(scores, lambda scaled: np.where(is_on, np.rint(scaled), np.ceil(scaled)) + n_steps)

    def contains(self, scores: Floats, relative_error: float = _FLOAT64_ERROR) -> Bools:
        """Return which scores ``[n]`` are on the grid, but for errors of the arithmetic that made them."""
        if self.family == "bits":
            return self.round(scores) == scores
        exponents, error = self._exponents(scores), relative_error * np.abs(scores)
        with np.errstate(over="ignore", under="ignore"):
            is_on: Bools = np.abs(self.round(scores) - scores) <= error
            is_wide: Bools = 10.0 ** -exponents.astype(np.float64) >= _CELLS * error
        return is_on & is_wide & (np.abs(exponents) < _MAX_EXPONENT)

    def _exponents(self, scores: Floats) -> Ints:
        """Return the power of the base that makes whole numbers of the scores on the grid."""
        if self.family == "decimals":
            return np.full(len(scores), self.size)
        if self.family == "bits":
            return self.size - np.frexp(scores)[1].astype(np.int64)
        magnitudes = np.log10(np.abs(scores), out=np.zeros(len(scores)), where=scores != 0)
        return self.size - 1 - np.floor(magnitudes).astype(np.int64)

    def _change(self, scores: Floats, change: Callable[[Floats], Floats]) -> Floats:
        exponents = self._exponents(scores)
        if self.family == "bits":
            return np.ldexp(change(np.ldexp(scores, exponents)), -exponents)
        # One multiplication or division by a power of ten gives the float that is nearest to the decimal number.
        with np.errstate(all="ignore"):
            factors = 10.0 ** np.abs(exponents)
            scaled = change(np.where(exponents > 0, scores * factors, scores / factors))
            changed = np.where(exponents > 0, scaled / factors, scaled * factors)
        return np.where(np.isfinite(changed), changed, scores)

    def __str__(self) -> str:
        if self.family == "bits":
            return _FORMATS[self.size]
        if self.family == "decimals" and self.size <= 0:
            return f"multiples of {10**-self.size:,}"
        unit = "decimal" if self.family == "decimals" else "significant digit"
        return f"{self.size} {unit}{'' if self.size == 1 else 's'}"


_FLOAT32 = RoundingGrid("bits", 24)
_WIDEST, _WIDEST_FLOAT32 = RoundingGrid("digits", _SIZES["digits"][-1]), RoundingGrid("digits", 5)


@dataclass(frozen=True, slots=True, eq=False)
class AlignedCalibration:
    """Calibration scores that favour no candidate by the precision of either side.

    Args:
        raised: ``[n]``, for p-values.
        lowered: ``[n]``, to test whether candidates have too many low scores; the same where nothing was changed.
        note: what was changed; empty if that cannot matter.
    """

    raised: Floats
    lowered: Floats
    note: str = ""


def align_calibration(candidates: object, calibration: object) -> AlignedCalibration:
    """Raise calibration scores as far as rounding may have raised candidates, or lowered the calibration itself.

    Args:
        candidates: scores ``[m]``, or a large sample of them.
        calibration: scores ``[n]``.

    Returns:
        The calibration raised, the calibration lowered, and a note of what was changed.

    Raises:
        divulge.InputError: NaN or infinity; nothing but equal scores is left.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> aligned = align_calibration(rng.beta(60, 1, 200).round(1), rng.beta(60, 1, 499))
        >>> print(aligned.note, np.unique(aligned.raised))
        candidate scores have 1 decimal, calibration scores more: each of these counts as the next higher one of ...
    """
    candidate_scores = check_vector(candidates, "candidates")
    calibration_scores = check_vector(calibration, "calibration")
    candidate_grids, calibration_grids = find_coarser_grids(candidate_scores, calibration_scores)

    def raise_scores(scores: Floats, others: Floats) -> Floats:
        for grid in candidate_grids:
            scores = grid.round_up(scores)
        next_scores = [grid.round_up(scores, n_steps=1) for grid in calibration_grids]
        return _match_floats(np.max([scores, *next_scores], axis=0), others)

    raised = raise_scores(calibration_scores, candidate_scores)
    lowered = -raise_scores(-calibration_scores, -candidate_scores)
    if np.array_equal(raised, lowered):
        lowered = raised
    notes = [
        _describe(
            "candidate", "calibration", candidate_grids, "each of these counts as the next higher one of that precision"
        ),
        _describe("calibration", "candidate", calibration_grids, "each of the former counts as the next higher one"),
    ]
    note = "; ".join(note for note in notes if note)
    values = np.concatenate([raised, candidate_scores])
    if note and values.min() == values.max():
        raise InputError(f"candidates: {note}; then every score is {values[0]:g}, and more decimals are needed")
    return AlignedCalibration(raised, lowered, note)


def _describe(side: str, other: str, grids: Sequence[RoundingGrid], remedy: str) -> str:
    """Return what was found and done, as text; empty where conversion to float32 alone made ties."""
    coarse = sorted((grid for grid in grids if grid != _FLOAT32), key=lambda grid: grid.size)
    return f"{side} scores have {coarse[0]}, {other} scores more: {remedy}" if coarse else ""


def chance_of_round_scores(candidates: Floats, calibration: Floats) -> float:
    """Return the chance that all scores of one set are 0, ½, 1 and the like, if the other's are so as often.

    Scores of trained records reach such values at full precision, too, so that they show no grid; but so do scores that
    were rounded to them.

    Args:
        candidates: scores ``[m]``, or a large sample of them.
        calibration: scores ``[n]``.

    Examples:
        >>> round(chance_of_round_scores(np.array([0.0, 1.0, 1.0]), np.linspace(0.005, 0.995, 98)), 6)
        1e-06
    """
    candidates, calibration = _sample(candidates), _sample(calibration)
    sides = [
        np.isclose(scores[:, None], _ORDINARY, rtol=1e-12, atol=0).any(axis=1) for scores in (candidates, calibration)
    ]
    chances = [
        float((other.sum() + 1) / (len(other) + 1)) ** len(own) for own, other in (sides, reversed(sides)) if own.all()
    ]
    return min(chances, default=1.0)


def round_alike(candidates: Floats, calibration: Floats, *others: Floats | None) -> tuple[list[Any], str]:
    """Round each column of several sets to the coarsest precision of any.

    Args:
        candidates: scores ``[m]`` or signals ``[m, d]``.
        calibration: the same, with which all other sets are compared.
        others: further sets; None where there is none.

    Returns:
        The sets, and what was found, as text; empty where conversion to float32 alone made ties.
    """
    found: set[RoundingGrid] = set()
    sets = [None if scores is None else scores.copy() for scores in (candidates, calibration, *others)]
    columns = [None if scores is None else scores.reshape(len(scores), -1) for scores in sets]  # views
    sides = [side for side in columns if side is not None]
    known = sides[1]
    for j in range(known.shape[1]):
        pairs = [find_coarser_grids(side[:, j], known[:, j]) for side in sides if side is not known]
        grids = {grid for pair in pairs for side in pair for grid in side}
        for grid in sorted(grids, key=lambda grid: grid.family == "bits"):
            for side in sides:
                side[:, j] = grid.round(side[:, j])
        found |= grids
    coarse = " or ".join(sorted(map(str, found - {_FLOAT32})))
    return sets, f"some scores have {coarse}, others more; all were rounded to that" if coarse else ""


def find_coarser_grids(candidates: Floats, calibration: Floats) -> tuple[list[RoundingGrid], list[RoundingGrid]]:
    """Return the grids to which one set was rounded and the other was not, of candidates and of calibration.

    Scores of full precision are hardly ever on a coarse grid by chance, those with one decimal more in one of ten
    cases, and those of a forest of trees as often as the other set's. A value that many scores of trained
    records reach (0, 1, the largest of all) proves nothing; that nearly no candidate is off the grid does, if there are
    so many that a twentieth of them would be seen.
    """
    candidates, calibration = _sample(candidates), _sample(calibration)
    highest = max(candidates.max(), calibration.max())
    ordinary = ([highest, *_ORDINARY], [min(candidates.min(), calibration.min()), highest, *_ORDINARY])
    sets = (candidates, calibration)
    grids: tuple[list[RoundingGrid], list[RoundingGrid]] = ([], [])
    sizes: dict[Family, list[Ints]] = {family: [_sizes(side, family) for side in sets] for family in _SIZES}
    for i, scores in enumerate(sets):
        for family, of_sets in sizes.items():
            if family == "digits":
                # Scores of about as many decimals were rounded to decimals: of few digits, large ones have fewer.
                decimals = sizes["decimals"][i]
                if decimals.max() < _FULL["decimals"] and (decimals < decimals.max() - 1).mean() < _UNEVEN:
                    continue
            size = _rounded_size(scores, of_sets[i], of_sets[1 - i], family, ordinary[i], is_candidate=i == 0)
            if size is not None:
                grids[i].append(RoundingGrid(family, size))
    return (_drop_explained(candidates, grids[0]), _drop_explained(calibration, grids[1]))


def _drop_explained(scores: Floats, grids: list[RoundingGrid]) -> list[RoundingGrid]:
    """Leave out the binary grid of numbers that are exact decimals: whole numbers are of few bits."""
    is_exact = any(grid.family != "bits" and (grid.round(scores) == scores).all() for grid in grids)
    return [grid for grid in grids if grid.family != "bits"] if is_exact else grids


def _rounded_size(
    scores: Floats, sizes: Ints, other_sizes: Ints, family: Family, ordinary: list[float], *, is_candidate: bool
) -> int | None:
    """Return the size of the grid to which scores were rounded, and others were not; None if there is none."""
    rounded_sizes, finest = sizes[sizes < _FULL[family]], int(other_sizes.max())
    if not len(rounded_sizes) or rounded_sizes.min() >= finest:
        return None
    most = 1.0 if len(rounded_sizes) == len(sizes) else _MOST
    own = int(np.quantile(rounded_sizes, most, method="inverted_cdf"))
    values, first_rows = np.unique(scores, return_index=True)
    error = _relative_error(scores)
    is_telling = ~np.isclose(values[:, None], ordinary, rtol=2 * error, atol=0).any(axis=1)
    values, value_sizes = values[is_telling], sizes[first_rows][is_telling]
    coarser = np.unique(sizes[sizes < own]).tolist() if family == "decimals" else []
    for size in (size for size in (*coarser, own) if size < finest):
        is_on, other_share = sizes <= size, float((other_sizes <= size).mean())
        compared_sizes = value_sizes
        if size < own:  # Part of the rows may have fewer decimals; large numbers of as many digits have fewer, too.
            compared_sizes = _sizes_in_one_decade(values, value_sizes, size)
        n_on, n_off = int((compared_sizes <= size).sum()), int((compared_sizes > size).sum())
        chance = max(other_share, *(_BASES[family] ** (size - finer) for finer in (finest, own) if finer > size))
        if family != "bits":  # a number of full precision lies so near the grid by chance
            largest = np.abs(values).max(initial=0.0) if family == "decimals" else 1.0
            chance = min(max(chance, 2 * error * float(largest) * 10.0**size), 1.0)
        n_rows = int(is_on[np.isin(scores, values)].sum())
        is_enough = n_on >= 1 and (is_on.all() or (family != "bits" and n_rows >= _MIN_ROWS))
        if (
            is_enough
            and (n_off >= _MIN_VALUES or size == own)
            and (special.bdtrc(n_on - 1, n_on + n_off, chance) <= _MAX_CHANCE)
        ):
            return size
        # Candidates that are not members would be off the grid, or on it, as often as the calibration.
        n_alike = int((~is_on).sum()) if is_candidate else int((other_sizes <= size).sum())
        n_candidates = len(sizes) if is_candidate else len(other_sizes)
        share = 1 - other_share if is_candidate else float(is_on.mean())
        if special.bdtr(n_alike, n_candidates, _SHARE_ALIKE * share) <= _MAX_TAIL:
            return size
    return None


def _sizes_in_one_decade(values: Floats, sizes: Ints, size: int) -> Ints:
    """Return the sizes of the values between two powers of ten with the most values on a grid."""
    decades = np.floor(np.log10(np.abs(values)))
    on_grid_decades = decades[sizes <= size]
    if not len(on_grid_decades):
        return sizes[:0]
    found, counts = np.unique(on_grid_decades, return_counts=True)
    return sizes[decades == found[np.argmax(counts)]]


def _sizes(scores: Floats, family: Family) -> Ints:
    """Return the size of the coarsest grid that contains each score ``[n]``, and that of float64 where none does."""
    error = _relative_error(scores)
    sizes = np.full(len(scores), _FULL[family])
    # Numbers of so many digits, whatever their magnitude, include all that are recognised.
    widest = _FLOAT32 if family == "bits" else _WIDEST if error == _FLOAT64_ERROR else _WIDEST_FLOAT32
    rows = np.flatnonzero(widest.contains(scores, error))
    for size in _SIZES[family]:
        if not len(rows):
            break
        is_on = RoundingGrid(family, size).contains(scores[rows], error)
        sizes[rows[is_on]] = size
        rows = rows[~is_on]
    return sizes


def _match_floats(scores: Floats, others: Floats) -> Floats:
    """Return the highest float of either set for the same decimal number: 93.1 / 100 is lower than 0.931, and tied."""
    if not _WIDEST.contains(_sample(scores)).any():
        return scores
    pooled = np.concatenate([scores, others])
    keys = _WIDEST.round(pooled)
    distinct, index = np.unique(keys, return_inverse=True)
    highest = np.full(len(distinct), -np.inf)
    np.maximum.at(highest, index, pooled)
    is_decimal = np.abs(keys - pooled) <= _FLOAT64_ERROR * np.abs(pooled)
    return np.where(is_decimal, highest[index], pooled)[: len(scores)]


def _relative_error(scores: Floats) -> float:
    """Return the rounding error of scores, which is that of float32 if all of them are."""
    return _FLOAT32_ERROR if _FLOAT32.contains(scores).all() else _FLOAT64_ERROR


def _sample(scores: Floats) -> Floats:
    return scores[:: -(-len(scores) // MAX_SCORES)]
