"""Decisions where the calibration differs from the candidates in something known of both: strata.

Each candidate is compared with the calibration of its own year, source or length: `select_within_strata`. Nothing is
estimated, but a small stratum has no small p-values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.decisions import fpr as fpr_decisions
from divulge.decisions.fdr import benjamini_hochberg
from divulge.decisions.methods import check_fdr
from divulge.errors import InputError
from divulge.settings import DecisionSettings
from divulge.types import Guarantee, Selection, ShortRepr
from divulge.validation import check_instance, check_names, check_vector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from divulge.types import Array, Floats, Ints

_DEFAULTS = DecisionSettings()
ASSUMES_ALIKE_WITHIN_STRATA = (
    "within each stratum non-member candidates are exchangeable with the calibration records",
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Strata(ShortRepr):
    """The stratum of every document, as texts or whole numbers.

    Args:
        candidates: ``[m]``.
        calibration: ``[n]``.
        holdout: ``[h]``, of a holdout to be compared within strata; None if there is none.

    Raises:
        divulge.InputError: neither texts nor whole numbers, or no stratum with both candidates and calibration.

    Examples:
        >>> Strata(["2019", "2023"], ["2023", "2023"]).uncovered
        1
    """

    candidates: Any
    calibration: Any
    holdout: Any = None

    def __post_init__(self) -> None:
        for name in ("candidates", "calibration", "holdout"):
            value = getattr(self, name)
            if value is not None or name != "holdout":
                object.__setattr__(self, name, check_names(value, f"strata.{name}").astype(str))
        if self.uncovered == len(self.candidates):
            raise InputError("strata: no calibration record is of the stratum of any candidate")

    @property
    def uncovered(self) -> int:
        """Number of candidates in strata without calibration, whose p-value is 1."""
        return int((~np.isin(self.candidates, self.calibration)).sum())

    def iterate_rows(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield the rows of the candidates and of the calibration of each stratum that has both."""
        names, candidate_rows = _rows_by_stratum(self.candidates)
        calibration_names, calibration_rows = _rows_by_stratum(self.calibration)
        _, candidate_index, calibration_index = np.intersect1d(
            names, calibration_names, assume_unique=True, return_indices=True
        )
        for i, j in zip(candidate_index.tolist(), calibration_index.tolist(), strict=True):
            yield candidate_rows[i], calibration_rows[j]


def _rows_by_stratum(strata: Array) -> tuple[Array, list[Ints]]:
    """Return the names of the strata and the rows of each."""
    names, stratum_index, sizes = np.unique(strata, return_inverse=True, return_counts=True)
    return names, np.split(np.argsort(stratum_index, kind="stable"), np.cumsum(sizes)[:-1])


def stratified_p_values(candidates: object, calibration: object, strata: Strata) -> Floats:
    """Return conformal p-values within strata, ``[m]``; 1 in a stratum without calibration.

    Raises:
        divulge.InputError: NaN or infinity, lengths that do not fit.

    Examples:
        >>> stratified_p_values([5.0, 5.0, 5.0], [1.0, 9.0, 2.0], Strata(["a", "b", "c"], ["a", "b", "a"])).round(3)
        array([0.333, 1.   , 1.   ])
    """
    check_instance(strata, "strata", Strata, "a decisions.strata.Strata")
    scores = check_vector(candidates, "candidates", length=len(strata.candidates))
    calibration_scores = check_vector(calibration, "calibration", length=len(strata.calibration))
    p = np.ones(len(scores))
    for candidate_rows, calibration_rows in strata.iterate_rows():
        p[candidate_rows] = fpr_decisions.p_values(calibration_scores[calibration_rows], scores[candidate_rows])
    return p


def select_within_strata(
    candidates: object, calibration: object, strata: Strata, *, fdr: float = _DEFAULTS.fdr
) -> Selection:
    """Select candidates that were used for training, each compared with the calibration of its stratum.

    If non-members of one stratum score alike among candidates and calibration, p-values within strata are valid,
    whatever the shares of the strata. Benjamini and Hochberg's step-up on all of them keeps its bound: given everybody
    else, a non-member is each record of its stratum's pool with equal probability.

    Args:
        candidates: scores ``[m]``, larger = more member-like.
        calibration: scores ``[n]`` of known non-members.
        strata: of candidates and calibration.
        fdr: bound on the expected share of non-members among the selected.

    Raises:
        divulge.InputError: NaN or infinity, lengths that do not fit, strata too small for any selection.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> known_year, year = np.repeat([0, 1], 500), np.repeat([0, 1], [50, 150])  # scores rise with the year
        >>> known, scores = rng.normal(size=1000) + 3 * known_year, rng.normal(size=200) + 3 * year
        >>> scores[:100] += 4
        >>> select_within_strata(scores, known, Strata(year, known_year), fdr=0.1)
        Selection(104 of 200 selected; FDR ≤ 0.1, assuming within each stratum non-member ...)
    """
    level = check_fdr(fdr)
    p, m = stratified_p_values(candidates, calibration, strata), len(strata.candidates)
    smallest_p = np.ones(m)
    for candidate_rows, calibration_rows in strata.iterate_rows():
        smallest_p[candidate_rows] = 1 / (len(calibration_rows) + 1)
    if not benjamini_hochberg(smallest_p, level).any():
        raise InputError(
            f"calibration: its strata are too small for fdr={level:g}: not even a selection of all candidates could be "
            f"proven; a stratum of all candidates would take {math.ceil(1 / level - 1 - 1e-9)} records"
        )
    selected = benjamini_hochberg(p, level)
    threshold = float(check_vector(candidates, "candidates")[selected].min()) if selected.any() else math.inf
    warning = f"{strata.uncovered} of {m} candidates are of strata without calibration and cannot be selected"
    return Selection(
        selected,
        p,
        threshold,
        None,
        Guarantee("FDR", level, ASSUMES_ALIKE_WITHIN_STRATA),
        (warning,) if strata.uncovered else (),
    )
