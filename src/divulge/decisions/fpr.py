"""Decisions whose false-positive rate is bounded in finite samples.

Two guarantees are offered and never blurred. *Marginal*: FPR ≤ level on average over the draw of the calibration
records. *Training-conditional*: FPR ≤ level for the calibration records at hand, with confidence 1 - δ over their draw.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from scipy import special

from divulge.decisions import counts
from divulge.errors import InputError
from divulge.types import Estimate, Guarantee, Selection
from divulge.validation import check_choice, check_integer, check_number, check_vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from divulge.types import Bools, Floats

GuaranteeType: TypeAlias = Literal["marginal", "training-conditional"]
MARGINAL = "marginal FPR"
GUARANTEE_TYPES: tuple[GuaranteeType, ...] = ("marginal", "training-conditional")


@dataclass(frozen=True, slots=True)
class ConformalThreshold:
    """A threshold on scores: candidates at or above it are called members. Converts to float.

    Attributes:
        value: the smallest float above the ``rank``-th largest calibration score. Scores that tie with that score are
            not selected, and ``score >= value`` and ``score > value`` select the same candidates.
        fpr: the requested level.
        guarantee: the claim and its assumptions.
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
        """Return a mask ``[m]`` of the scores ``[m]`` that reach the threshold."""
        return check_vector(scores, "scores") >= self.value

    def realised(self, confidence: float = 0.95) -> Estimate:
        """Return the interval of the FPR given this calibration; see `realised_interval`."""
        return _beta_interval(self.rank, self.calibration, confidence)


def threshold(
    calibration: object, fpr: float, *, guarantee: GuaranteeType = "marginal", confidence: float = 0.95
) -> ConformalThreshold:
    """Return the lowest threshold whose false-positive rate is guaranteed to stay at or below ``fpr``.

    The threshold lies just above the k-th largest of the n calibration scores (a conformal rank, not an interpolated
    quantile), with

    - marginal: ``k = floor(fpr (n + 1))``, so that P(non-member selected) ≤ k/(n+1) ≤ fpr;
    - training-conditional: given the calibration, the FPR is stochastically at most Beta(k, n + 1 - k), with equality
      where there are no ties; k is the largest rank for which P(Beta(k, n + 1 - k) ≤ fpr) ≥ confidence.

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
    guarantee_type = check_choice(guarantee, "guarantee", GUARANTEE_TYPES)
    checked_confidence = check_number(confidence, "confidence", above=0, below=1)
    n = len(calibration)
    if guarantee_type == "marginal":
        rank = _marginal_rank(n, level)
    else:
        rank = training_conditional_rank(n, level, checked_confidence)
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


def training_conditional_rank(n: int, fpr: float, confidence: float) -> int:
    """Return the largest rank k with P(Beta(k, n + 1 - k) ≤ fpr) ≥ confidence; 0 without any.

    Examples:
        >>> training_conditional_rank(299, 0.01, 0.95), training_conditional_rank(298, 0.01, 0.95)
        (1, 0)
    """
    size, level = check_integer(n, "n", minimum=1, maximum=10**15), check_number(fpr, "fpr", above=0, below=1)
    least = check_number(confidence, "confidence", above=0, below=1)
    # The probability decreases in k, so the ranks that qualify are 1, …, k. The 1e-12 allows for rounding.
    return bisect.bisect_right(
        range(1, size + 1), 1e-12 - least, key=lambda k: -special.betainc(k, size + 1 - k, level)
    )


def required_calibration(fpr: float, *, guarantee: GuaranteeType = "marginal", confidence: float = 0.95) -> int:
    """Return the smallest number of calibration scores with which the level can be guaranteed.

    Examples:
        >>> required_calibration(0.01), required_calibration(0.01, guarantee="training-conditional")
        (99, 299)
    """
    level = check_number(fpr, "fpr", above=0, below=1)
    checked_confidence = check_number(confidence, "confidence", above=0, below=1)
    if check_choice(guarantee, "guarantee", GUARANTEE_TYPES) == "marginal":
        return math.ceil(1 / Fraction(str(level))) - 1
    # Rank 1 suffices once P(no score in the upper fpr-tail) = (1 - fpr)^n ≤ 1 - confidence.
    return math.ceil(math.log1p(-checked_confidence) / math.log1p(-level))


def realised_interval(n: int, fpr: float, confidence: float = 0.95) -> Estimate:
    """Return mean and central interval of the FPR given one calibration split, at the marginal threshold.

    The marginal guarantee of `threshold` is an average over splits. The FPR given one split follows
    Beta(k, n + 1 - k) with ``k = floor(fpr (n + 1))``, if scores are continuous.

    Examples:
        >>> print(realised_interval(99, 0.01))
        0.0100 [0.0003, 0.0366]
        >>> print(realised_interval(9999, 0.01))
        0.0100 [0.0081, 0.0120]
    """
    size = check_integer(n, "n", minimum=1, maximum=10**15)
    level = check_number(fpr, "fpr", above=0, below=1)
    rank = _marginal_rank(size, level)
    if rank < 1:
        raise InputError(
            f"n: {required_calibration(level)} calibration scores are needed for an FPR of {level:g}, got {size}"
        )
    return _beta_interval(rank, size, confidence)


def decide(
    calibration: object, scores: object, fpr: float, *, guarantee: GuaranteeType = "marginal", confidence: float = 0.95
) -> Selection:
    """Select the candidates whose score reaches `threshold`.

    With the marginal guarantee this is the same set as ``p_values(calibration, scores) <= fpr``.

    Returns:
        The selection, with conformal p-values, the guarantee, and a warning if the FPR given this calibration may lie
        far from the level.

    Examples:
        >>> decide(range(99), [5.0, 98.5], fpr=0.01).selected
        array([False,  True])
    """
    cutoff = threshold(calibration, fpr, guarantee=guarantee, confidence=confidence)
    candidates = check_vector(scores, "scores")
    selected = cutoff.select(candidates)
    return Selection(
        selected=selected,
        p_values=p_values(calibration, candidates),
        threshold=float(candidates[selected].min()) if selected.any() else math.inf,
        usage=None,
        guarantee=cutoff.guarantee,
        warnings=_calibration_warnings(cutoff) if guarantee == "marginal" else (),
    )


def p_values(calibration: object, scores: object) -> Floats:
    """Return the conformal p-value of each score, ``(1 + #{calibration ≥ s}) / (n + 1)``.

    Null hypothesis: the candidate is a non-member, exchangeable with the ``n`` calibration records. Then P(p ≤ a) ≤ a
    for every a, in finite samples and for any distribution. Ties count against the candidate, so they only increase p.

    Args:
        calibration: scores of known non-members, ``[n]``; larger means more like a member.
        scores: scores of the candidates, ``[m]``.

    Returns:
        p-values in ``[1/(n+1), 1]``, ``[m]``.

    Raises:
        divulge.InputError: an array that is empty, not one-dimensional, or has NaN or infinity.

    References:
        Vovk, Gammerman & Shafer, Algorithmic Learning in a Random World, 2005;
        Bates, Candès, Lei, Romano & Sesia, Testing for outliers with conformal p-values, 2023, eq. 2.

    Examples:
        >>> p_values([1.0, 2.0, 2.0, 3.0], [0.0, 2.0, 9.0])
        array([1. , 0.8, 0.2])
    """
    calibration = np.sort(check_vector(calibration, "calibration"))
    return counts.p_values(check_vector(scores, "scores"), calibration)


def _marginal_rank(n: int, fpr: float) -> int:
    # A fraction of the decimal that the user wrote: 0.29 * 100 is 28.999… in binary.
    return math.floor(Fraction(str(fpr)) * (n + 1))


def _beta_interval(rank: int, n: int, confidence: float) -> Estimate:
    checked_confidence = check_number(confidence, "confidence", above=0, below=1)
    low, high = special.betaincinv(rank, n + 1 - rank, [(1 - checked_confidence) / 2, (1 + checked_confidence) / 2])
    return Estimate(
        rank / (n + 1), float(low), float(high), checked_confidence, "beta distribution of the conformal rank"
    )


def _make_guarantee(guarantee_type: str, level: float, confidence: float) -> Guarantee:
    if guarantee_type == "marginal":
        return Guarantee(MARGINAL, level, ("non-member candidates are exchangeable with the calibration records",))
    return Guarantee(
        f"training-conditional FPR (confidence {confidence:g})",
        level,
        ("non-member candidates and calibration records are independent draws from one distribution",),
    )


def _calibration_warnings(threshold: ConformalThreshold) -> tuple[str, ...]:
    realised = threshold.realised()
    if realised.high <= 1.5 * threshold.fpr:
        return ()
    return (
        f"with {threshold.calibration} calibration scores, the FPR given this calibration lies between "
        f"{realised.low:.2g} and {realised.high:.2g} (95 %), if the assumption holds; {threshold.fpr:g} is an average "
        "over calibrations",
    )
