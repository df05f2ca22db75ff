"""Decisions whose false-positive rate is bounded in finite samples.

Two guarantees exist and are never blurred. *Marginal*: FPR ≤ level on average over the draw of the
calibration records. *Training-conditional*: FPR ≤ level for this very draw, with confidence 1 - δ.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from scipy import special

from divulge.decisions import conformal
from divulge.errors import InputError
from divulge.types import Estimate, Guarantee, Selection
from divulge.validation import check_choice, check_integer, check_number, check_vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from divulge.types import Bools, Floats

Kind: TypeAlias = Literal["marginal", "training-conditional"]
KINDS: tuple[Kind, ...] = ("marginal", "training-conditional")


@dataclass(frozen=True, slots=True)
class ConformalThreshold:
    """A score from which on a candidate is called a member; usable wherever a float is.

    Attributes:
        value: the smallest number above the ``rank``-th largest calibration score, so that scores that tie with
            it are not selected, and ``score >= value`` and ``score > value`` are both safe.
        fpr: the level asked for.
        guarantee: what is claimed, and under which assumptions.
        rank: rank, from the top, of the calibration score that the threshold lies just above.
        calibration: number of calibration scores.

    Examples:
        >>> t = threshold([3.0, 1.0, 2.0, 2.0], fpr=0.4)
        >>> t.rank, float(t) > 2.0, t.select([2.0, 3.0])
        (2, True, array([False,  True]))
    """

    value: float
    fpr: float
    guarantee: Guarantee
    rank: int
    calibration: int

    def __float__(self) -> float:
        return self.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.value, dtype=dtype or np.float64)

    def select(self, scores: object) -> Bools:
        """True where a score reaches the threshold; ``[m]`` in, ``[m]`` out."""
        return check_vector(scores, "scores") >= self.value

    def realised(self, confidence: float = 0.95) -> Estimate:
        """Where the FPR of this one calibration lies; see `realised_interval`."""
        return _beta_interval(self.rank, self.calibration, confidence)


def threshold(
    calibration: object, fpr: float, *, guarantee: Kind = "marginal", confidence: float = 0.95
) -> ConformalThreshold:
    """Return the lowest threshold whose false-positive rate is guaranteed to stay at or below ``fpr``.

    A conformal rank, never an interpolated quantile: just above the k-th largest of the n calibration scores, with

    - marginal: ``k = floor(fpr (n + 1))``, so that P(non-member selected) ≤ k/(n+1) ≤ fpr;
    - training-conditional: the FPR given the calibration is at most a Beta(k, n + 1 - k) variable (exactly so
      without ties), and k is the largest rank for which P(Beta(k, n + 1 - k) ≤ fpr) ≥ confidence.

    Args:
        calibration: scores of known non-members, ``[n]``; larger means more like a member.
        fpr: the level, in (0, 1).
        guarantee: "marginal" or "training-conditional".
        confidence: over the draw of the calibration; used by "training-conditional" only.

    Raises:
        divulge.InputError: too few calibration scores for the level (the message says how many are needed), a level
            outside (0, 1), NaN or infinity among the scores.

    References:
        Vovk, Conditional validity of inductive conformal predictors, 2012, Prop. 2a;
        Bates et al., Testing for outliers with conformal p-values, 2023, §3.

    Examples:
        >>> t = threshold(range(1, 100), fpr=0.01)
        >>> t.rank, round(float(t), 6), str(t.guarantee)
        (1, 99.0, 'marginal FPR ≤ 0.01, assuming non-member candidates are exchangeable with the calibration records')
    """
    calibration = check_vector(calibration, "calibration")
    level = check_number(fpr, "fpr", above=0, below=1)
    guarantee_type = check_choice(guarantee, "guarantee", KINDS)
    checked_confidence = check_number(confidence, "confidence", above=0, below=1)
    n = len(calibration)
    rank = _marginal_rank(n, level) if guarantee_type == "marginal" else _conditional_rank(n, level, checked_confidence)
    if rank < 1:
        n_needed = required_calibration(level, guarantee=guarantee, confidence=checked_confidence)
        raise InputError(
            f"calibration: {n_needed} known non-members are needed for a {guarantee_type} FPR of {level:g}, got {n}"
        )
    kth_largest = float(np.partition(calibration, n - rank)[n - rank])
    return ConformalThreshold(
        math.nextafter(kth_largest, math.inf),
        level,
        _make_guarantee(guarantee_type, level, checked_confidence),
        rank,
        n,
    )


def required_calibration(fpr: float, *, guarantee: Kind = "marginal", confidence: float = 0.95) -> int:
    """Return how many calibration scores the level takes at least.

    Examples:
        >>> required_calibration(0.01), required_calibration(0.01, guarantee="training-conditional")
        (99, 299)
    """
    level = check_number(fpr, "fpr", above=0, below=1)
    checked_confidence = check_number(confidence, "confidence", above=0, below=1)
    if check_choice(guarantee, "guarantee", KINDS) == "marginal":
        return math.ceil(1 / Fraction(str(level))) - 1
    # Rank 1 suffices once P(no score in the upper fpr-tail) = (1 - fpr)^n ≤ 1 - confidence.
    return math.ceil(math.log1p(-checked_confidence) / math.log1p(-level))


def realised_interval(n: int, fpr: float, confidence: float = 0.95) -> Estimate:
    """Where the false-positive rate of one calibration split lies, at the marginal threshold.

    The guarantee of `threshold` is an average over splits. The FPR of one split follows
    Beta(n + 1 - k, k) with ``k = ceil((1 - fpr)(n + 1))``; this is its mean and its central interval.

    Examples:
        >>> print(realised_interval(99, 0.01))
        0.0100 [0.0003, 0.0366]
        >>> print(realised_interval(9999, 0.01))
        0.0100 [0.0081, 0.0120]
    """
    size = check_integer(n, "n", least=1, most=10**15)
    level = check_number(fpr, "fpr", above=0, below=1)
    rank = _marginal_rank(size, level)
    if rank < 1:
        raise InputError(
            f"n: {required_calibration(level)} calibration scores are needed for an FPR of {level:g}, got {size}"
        )
    return _beta_interval(rank, size, confidence)


def decide(
    calibration: object, scores: object, fpr: float, *, guarantee: Kind = "marginal", confidence: float = 0.95
) -> Selection:
    """Call members the candidates whose score reaches `threshold`.

    At the marginal level this is the same set as ``p_values(calibration, scores) <= fpr``.

    Returns:
        The selection, with conformal p-values, the guarantee, and a warning that says how far the FPR of
        this one calibration may lie from the level.

    Examples:
        >>> decide(range(99), [5.0, 98.5], fpr=0.01).selected
        array([False,  True])
    """
    cutoff = threshold(calibration, fpr, guarantee=guarantee, confidence=confidence)
    candidates = check_vector(scores, "scores")
    selected = cutoff.select(candidates)
    return Selection(
        selected=selected,
        p_values=conformal.p_values(calibration, candidates),
        threshold=_smallest_selected_score(candidates, selected),
        usage=None,
        guarantee=cutoff.guarantee,
        warnings=_warnings(cutoff) if guarantee == "marginal" else (),
    )


def _marginal_rank(n: int, fpr: float) -> int:
    # In fractions of what the user wrote: 0.29 * 100 is 28.999… in binary.
    return math.floor(Fraction(str(fpr)) * (n + 1))


def _conditional_rank(n: int, fpr: float, confidence: float) -> int:
    # P(Beta(k, n+1-k) ≤ fpr) falls in k, so the ranks that pass form a prefix of 1..n. (1e-12: rounding.)
    return bisect.bisect_right(range(1, n + 1), 1e-12 - confidence, key=lambda k: -special.betainc(k, n + 1 - k, fpr))


def _beta_interval(rank: int, n: int, confidence: float) -> Estimate:
    checked_confidence = check_number(confidence, "confidence", above=0, below=1)
    low, high = special.betaincinv(rank, n + 1 - rank, [(1 - checked_confidence) / 2, (1 + checked_confidence) / 2])
    return Estimate(
        rank / (n + 1), float(low), float(high), checked_confidence, "beta distribution of the conformal rank"
    )


def _make_guarantee(guarantee_type: str, level: float, confidence: float) -> Guarantee:
    if guarantee_type == "marginal":
        return Guarantee(
            "marginal FPR", level, ("non-member candidates are exchangeable with the calibration records",)
        )
    return Guarantee(
        f"training-conditional FPR (confidence {confidence:g})",
        level,
        ("non-member candidates and calibration records are independent draws from one distribution",),
    )


def _smallest_selected_score(scores: Floats, selected: Bools) -> float:
    return float(scores[selected].min()) if selected.any() else math.inf


def _warnings(threshold: ConformalThreshold) -> tuple[str, ...]:
    realised = threshold.realised()
    if realised.high <= 1.5 * threshold.fpr:
        return ()
    return (
        f"with {threshold.calibration} calibration scores, the FPR of this one calibration lies between "
        f"{realised.low:.2g} and {realised.high:.2g} (95 %), if the assumption holds; {threshold.fpr:g} is an average "
        "over calibrations",
    )
