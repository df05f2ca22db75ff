"""Power of an audit: the smallest leak or violation that so many records or canaries would have shown."""

from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge import statistics
from divulge.errors import InputError
from divulge.evaluation.epsilon import GuessRule, best_errors, guess_counts
from divulge.evaluation.families import GaussianMechanism, largest
from divulge.settings import CanaryPlanSettings
from divulge.validation import check_integer, check_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from divulge.evaluation.epsilon import Sides
    from divulge.evaluation.families import Families
    from divulge.types import Floats


@dataclass(frozen=True, slots=True)
class Detectable:
    """The smallest leak that an audit of this size would have reported with the stated power.

    Attributes:
        auc: smallest AUC whose interval would have excluded ½; None if there are too few records for any.
        tpr: smallest TPR at ``fpr`` whose interval would have excluded ``fpr``; None if there are too few non-members
            for any.
        fpr: the false-positive rate of ``tpr``.
        confidence: coverage of the intervals.
        power: probability with which the audit would have reported it.
        method: the model behind the two numbers.
    """

    auc: float | None
    tpr: float | None
    fpr: float
    confidence: float
    power: float
    method: str

    def __str__(self) -> str:
        area = "no AUC" if self.auc is None else f"AUC ≥ {self.auc:.3f}"
        share = "no TPR" if self.tpr is None else f"TPR ≥ {self.tpr:.3g}"
        return f"{area}, {share} at FPR {self.fpr:g} (power {self.power:.0%})"


_MAX_RECORDS = 10**7  # with more records every leak is detected


def smallest_detectable(
    n_members: int, n_nonmembers: int, fpr: float = 0.01, confidence: float = 0.95, power: float = 0.8
) -> Detectable:
    """Return the smallest AUC and TPR at ``fpr`` that so many records reveal with probability ``power``.

    Scores are modelled as two normal distributions of equal spread that lie d apart (AUC = Φ(d/√2),
    TPR = Φ(d - z)); the two answers are those d at which the interval of `auc` excludes ½, and that of
    `tpr_at_fpr` excludes ``fpr``, with probability ``power``. Leaks confined to a few records can be larger in
    TPR and smaller in AUC than this model says.

    Args:
        n_members: number of members audited.
        n_nonmembers: number of non-members.
        fpr: the false-positive rate of interest.
        confidence: coverage of the intervals.
        power: probability of detecting the leak.

    Raises:
        divulge.InputError: fewer than one record of a kind, a rate outside (0, 1).

    Examples:
        >>> print(smallest_detectable(2000, 2000, fpr=0.01))
        AUC ≥ 0.526, TPR ≥ 0.0349 at FPR 0.01 (power 80%)
    """
    m = check_integer(n_members, "n_members", minimum=1, maximum=_MAX_RECORDS)
    n = check_integer(n_nonmembers, "n_nonmembers", minimum=1, maximum=_MAX_RECORDS)
    level = check_number(fpr, "fpr", above=0, below=1)
    check_number(confidence, "confidence", above=0, below=1)
    return _smallest_detectable(m, n, level, confidence, check_number(power, "power", above=0, below=1))


@functools.lru_cache(maxsize=4096)  # Verdict, gate and page ask for the same numbers again, of every class.
def _smallest_detectable(m: int, n: int, level: float, confidence: float, target_power: float) -> Detectable:
    error = 1 - confidence
    area = _smallest_distance(lambda d: _auc_power(d, m, n, error), target_power)
    share = _smallest_distance(_tpr_power(m, n, level, error), target_power)
    return Detectable(
        auc=None if area is None else float(special.ndtr(area / np.sqrt(2))),
        tpr=None if share is None else float(special.ndtr(share + special.ndtri(level))),
        fpr=level,
        confidence=confidence,
        power=target_power,
        method="two normal distributions of equal spread",
    )


def records_to_see(auc: float, confidence: float = 0.95, power: float = 0.8) -> int:
    """Return the number of members, and of non-members, with which an AUC is detected; see `smallest_detectable`.

    Args:
        auc: the AUC to be detected, in (0.5, 1).
        confidence: coverage of the interval that must exclude 0.5.
        power: probability with which it does.

    Raises:
        divulge.InputError: an argument out of its range.

    Examples:
        >>> records_to_see(0.6)
        133
    """
    distance = float(np.sqrt(2) * special.ndtri(check_number(auc, "auc", above=0.5, below=1)))
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    target_power = check_number(power, "power", above=0, below=1)
    too_few, enough_records = 1, 2
    while _auc_power(distance, enough_records, enough_records, error) < target_power:
        too_few, enough_records = enough_records, 2 * enough_records
    while enough_records - too_few > 1:
        middle = (too_few + enough_records) // 2
        too_few, enough_records = (
            (too_few, middle)
            if _auc_power(distance, middle, middle, error) >= target_power
            else (middle, enough_records)
        )
    return enough_records


def nonmembers_to_tell(fpr: float, confidence: float = 0.95) -> int:
    """Return the number of non-members below which no TPR at ``fpr``, however large, differs from chance.

    With fewer, `tpr_at_fpr` cannot bracket the threshold, and the lower end of its interval is 0.

    Args:
        fpr: the false-positive rate of interest.
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: a rate outside (0, 1).

    Examples:
        >>> nonmembers_to_tell(0.01)
        437
    """
    level = check_number(fpr, "fpr", above=1e-15, below=1)
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    # The highest non-member lies above the threshold except with probability (1 - fpr)^n: one of four steps.
    return math.ceil(math.log(error / 4) / math.log1p(-level))


def _smallest_distance(power_at: Callable[[Floats], Floats], target_power: float) -> float | None:
    """Return the smallest distance d ≤ 8 that is detected with the target power; None if there is none."""
    low, high = 0.0, 8.0
    for n_points in (81, *[5] * 15):  # the power need not increase over the whole range
        grid = np.linspace(low, high, n_points)
        is_reached = power_at(grid) >= target_power
        if not is_reached.any():
            return None
        first_reached = int(is_reached.argmax())
        low, high = float(grid[max(first_reached - 1, 0)]), float(grid[first_reached])
    return high


def _auc_power(distance: Floats | float, m: int, n: int, error: float) -> Floats:
    """Return P(lower end of the AUC's interval > ½), by the normal approximation on the logit scale."""
    if min(m, n) < 2:
        return np.zeros(np.shape(distance))
    area = np.minimum(special.ndtr(np.asarray(distance) / np.sqrt(2)), 1 - 1e-12)
    # The variance of a member's placement Φ(Z + d), and by symmetry of a non-member's: its mean square is the
    # probability that two normal variables of correlation ½ are both below d/√2 (Owen 1956).
    middle = np.asarray(distance) / np.sqrt(2)
    above = special.ndtr(-middle)
    spread = above * (1 - above) - 2 * special.owens_t(middle, 1 / np.sqrt(3))
    shrunk = (area - 0.5) ** 2
    parts = (spread + shrunk / m) / m, (spread + shrunk / n) / n
    deviation = np.sqrt(sum(parts)) / (area * (1 - area))
    freedom = statistics.degrees_of_freedom(*parts, m, n)
    return special.ndtr(special.logit(area) / deviation - special.stdtrit(freedom, 1 - error / 2))


def _tpr_power(m: int, n: int, fpr: float, error: float) -> Callable[[Floats], Floats]:
    """Return P(lower end of the TPR's interval > fpr) as a function of the distance."""
    step = error / 4
    rank = int(statistics.upper_bound_rank(n, fpr, step))
    # Members that must lie above the upper bracket of the threshold for the lower end to pass fpr.
    hits = bisect.bisect_right(range(m + 1), fpr, key=lambda k: float(statistics.clopper_pearson_lower(k, m, step)))
    if rank == 0 or hits > m:
        return lambda distances: np.zeros(len(distances))
    # The bracket's own FPR is Beta(rank, n + 1 - rank); its mean over that is taken on a grid of quantiles.
    realised = special.betaincinv(rank, n + 1 - rank, (np.arange(64) + 0.5) / 64)
    return lambda distances: special.bdtrc(
        hits - 1, m, special.ndtr(distances[:, None] + special.ndtri(realised))
    ).mean(axis=1)


_CANARY_PLAN = CanaryPlanSettings()
_MAX_CANARIES = 1 << 20  # largest number of canaries considered


@dataclass(frozen=True, slots=True)
class CanaryPower:
    """The violation that a number of canaries detects of a Gaussian mechanism.

    Args:
        canaries: number of canaries, each included by its own fair coin.
        guesses: number of guesses with the highest power.
        epsilon: the true ε, above the claim, that is detected.
        power: probability of detecting it.
    """

    canaries: int
    guesses: int
    epsilon: float
    power: float


def canaries_needed(
    claimed: float,
    true: float,
    delta: float,
    *,
    power: float = _CANARY_PLAN.power,
    confidence: float = _CANARY_PLAN.confidence,
    family: Families | str | None = None,
    sides: Sides | str = _CANARY_PLAN.sides,
) -> CanaryPower | None:
    """Return the smallest power of two of canaries that detects a violated claim.

    Args:
        claimed: the ε that is claimed.
        true: the true ε of a Gaussian mechanism, above ``claimed``.
        delta: the δ of both.
        power: probability with which the violation is to be detected.
        confidence: of the bound; a true claim is called violated in at most 1 - ``confidence`` of audits.
        family: assumption of the bound, see `divulge.evaluation.one_run_bound`.
        sides: of the guesses, see `divulge.evaluation.one_run_bound`.

    Returns:
        None if a million canaries are too few.

    Raises:
        divulge.InputError: ``true`` not above ``claimed``, a probability outside (0, 1).

    Examples:
        >>> canaries_needed(1.0, 8.0, 1e-5).canaries, canaries_needed(1.0, 8.0, 1e-5, family="gaussian").canaries
        (128, 32)
    """
    check_number(claimed, "claimed", above=0.0, below=64.0, closed=True)
    check_number(true, "true", above=claimed, below=64.0)
    target_power = CanaryPlanSettings.check(power=power, confidence=confidence, sides=sides).power
    test = _Test.for_claim(claimed, delta, confidence, family, sides)
    strength = _strength_at_epsilon(GaussianMechanism(), true, test.rule.delta)
    low, high = 2, _MAX_CANARIES.bit_length()
    while high - low > 1:  # The power increases with the number of canaries.
        middle = (low + high) // 2
        is_powerful = test.with_canaries(1 << middle).best(strength)[1] >= target_power
        low, high = (low, middle) if is_powerful else (middle, high)
    if high == _MAX_CANARIES.bit_length():
        return None
    guesses, attained_power = test.with_canaries(1 << high).best(strength)
    return CanaryPower(1 << high, guesses, true, attained_power)


def smallest_violation(
    canaries: int,
    claimed: float,
    delta: float,
    *,
    power: float = 0.8,
    confidence: float = 0.95,
    family: Families | str | None = None,
    sides: Sides | str = "both",
) -> CanaryPower | None:
    """Return the smallest true ε of a Gaussian mechanism whose violation of the claim so many canaries detect.

    Args:
        canaries: number of canaries, each included by its own fair coin.
        claimed: the ε that is claimed.
        delta: the δ of both.
        power: probability with which the violation is to be detected.
        confidence: see `canaries_needed`.
        family: see `canaries_needed`.
        sides: see `canaries_needed`.

    Returns:
        None if even a mechanism of ε = 64 would be missed.

    Raises:
        divulge.InputError: no canaries, a claim outside [0, 64), a probability outside (0, 1).

    Examples:
        >>> 1.0 < smallest_violation(1000, 1.0, 1e-5).epsilon < 5.0
        True
    """
    n = check_integer(canaries, "canaries", minimum=1, maximum=10**9)
    check_number(claimed, "claimed", above=0.0, below=64.0, closed=True)
    target_power = check_number(power, "power", above=0, below=1)
    game = _Test.for_claim(claimed, delta, confidence, family, sides).with_canaries(n)
    strength = largest(lambda strength: game.best(strength)[1] < target_power)
    guesses, attained_power = game.best(strength)
    epsilon = GaussianMechanism().epsilon(strength, check_number(delta, "delta", above=0, below=1, closed=True))
    return CanaryPower(n, guesses, epsilon, attained_power) if attained_power >= 0.99 * target_power else None


def _strength_at_epsilon(family: Families, epsilon: float, delta: float) -> float:
    return largest(lambda strength: family.epsilon(strength, delta) <= epsilon)


@dataclass(frozen=True, slots=True)
class _Test:
    """The test of one claim, which is violated if the bound exceeds it."""

    rule: GuessRule
    level: float
    error: float

    @classmethod
    def for_claim(
        cls, claimed: float, delta: float, confidence: float, family: Families | str | None, sides: Sides | str
    ) -> _Test:
        error = 1 - check_number(confidence, "confidence", above=0, below=1)
        if check_number(delta, "delta", above=0, below=1, closed=True) == 0:
            raise InputError("delta: must be above 0, since a Gaussian mechanism has no finite ε at 0")
        rule = GuessRule.from_options(family, None, sides, delta)
        level = claimed if rule.family is None else _strength_at_epsilon(rule.family, claimed, rule.delta)
        return cls(rule, level, error)

    def with_canaries(self, canaries: int) -> _Game:
        """Return the test with so many canaries."""
        counts = guess_counts(canaries)
        error = self.error / len(counts)
        refutes = partial(self.rule.refutes, self.level, canaries, error=error)
        return _Game(
            canaries, self.rule.sides, {count: _max_refuting_wrong(partial(refutes, count), count) for count in counts}
        )


_NODES = 20  # of the quadrature over the members among the records that are not guessed


@dataclass(frozen=True, slots=True)
class _Game:
    """The largest number of wrong guesses that refutes the claim, by the number of guesses; -1 if none does."""

    canaries: int
    sides: Sides
    allowed: Mapping[int, int]

    def best(self, strength: float) -> tuple[int, float]:
        """Return the number of guesses with the highest power against a Gaussian mechanism, and that power."""
        return max(((count, self._power(count, strength)) for count in self.allowed), key=itemgetter(1))

    def _power(self, guesses: int, strength: float) -> float:
        if self.allowed[guesses] < 0:
            return 0.0
        errors = best_errors(GaussianMechanism(), strength, self.sides, guesses, self.canaries)
        allowed = self._allowed_wrong(guesses, errors) if self.sides == "in" else self.allowed[guesses]
        return float(np.where(allowed < 0, 0.0, special.bdtr(np.maximum(allowed, 0), guesses, errors)).mean())

    def _allowed_wrong(self, guesses: int, errors: Floats) -> Floats:
        """Return how many wrong guesses refute the claim where all say "member", ``[quantile, q]``; below 0: none do.

        Of them `count_lucky` counts some as wrong, by the number of all members: the right guesses, and what fair coins
        leave for the records that are not guessed.

        Args:
            guesses: number of guesses.
            errors: mean errors of the guesses, ``[q]``.
        """
        others = self.canaries - guesses
        share = np.clip((self.canaries / 2 - guesses * (1 - errors)) / max(others, 1), 0, 1)
        spread = np.sqrt(others * share * (1 - share))
        other_members = others * share + np.outer(special.ndtri((np.arange(_NODES) + 0.5) / _NODES), spread)
        # wrong + guesses · ((guesses - wrong + other members) / canaries - 1/2) ≤ allowed, solved for the wrong ones.
        allowed = self.allowed[guesses]
        room = allowed + guesses / 2 - guesses * (guesses + other_members) / self.canaries
        if not others:  # Every record is called a member: what is right is what the share makes right.
            return np.where(room >= 0, allowed, -1)
        return np.floor(np.minimum(room / (1 - guesses / self.canaries), allowed))


def _max_refuting_wrong(refutes: Callable[[int], bool], guesses: int) -> int:
    """Return the largest number of wrong guesses that refutes, -1 if none does."""
    low, high = -1, guesses
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if refutes(middle) else (low, middle)
    return low
