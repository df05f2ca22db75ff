"""Multiple-testing methods as values: `Storey(0.5)` holds its parameters, "storey" is short for its defaults.

A method estimates the share of non-members among the candidates; the step-up of `divulge.decisions.fdr` multiplies the
p-values by it. Sources are named there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

import numpy as np

from divulge.errors import InputError
from divulge.settings import DecisionSettings
from divulge.types import ShortRepr
from divulge.validation import check_choice, check_instance, check_number, check_vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.decisions.counts import Counts
    from divulge.types import Floats

_DEFAULTS = DecisionSettings()
_MIN_FDR = 1e-12  # a lower level needs more calibration records than can be counted
_MAX_EXCESS = 1.01  # ratio of PTDI's false discovery rate to its level from which on a warning is given


def check_fdr(fdr: float) -> float:
    """Return a bound on the false discovery rate, checked as the setting ``fdr``.

    Raises:
        divulge.InputError: no number, or one outside (1e-12, 1).

    Examples:
        >>> check_fdr(0.05)
        0.05
    """
    return check_number(DecisionSettings.check(fdr=fdr).fdr, "fdr", above=_MIN_FDR, below=1)


@dataclass(frozen=True, slots=True)
class BH:
    """Benjamini and Hochberg's procedure: the share of non-members is taken to be 1.

    Examples:
        >>> BH().name
        'bh'
    """

    name: ClassVar[str] = "bh"

    def null_share(self, counts: Counts) -> tuple[float, float]:
        """Return the estimated share of non-members as numerator and denominator, both whole numbers."""
        return 1.0, 1.0

    def caution(self, m: int) -> tuple[str, ...]:
        """Return no warning: the bound holds for any number of candidates."""
        return ()


@dataclass(frozen=True, slots=True)
class Storey:
    """Storey's estimator of the share of non-members, from the p-values of at least ``lam``, on the conformal grid.

    Args:
        lam: p-values are counted from the grid point at or next below it on.

    Raises:
        divulge.InputError: ``lam`` outside (0, 1).

    Examples:
        >>> Storey().grid(99), Storey(0.5).grid(200)
        (50, 100)
    """

    lam: float = _DEFAULTS.lam

    name: ClassVar[str] = "storey"

    def __post_init__(self) -> None:
        DecisionSettings.check_attributes(self)

    def grid(self, n: int) -> int:
        """Return ``K`` of ``λ = K / (n + 1)``: a grid point, of ``n`` calibration scores, at or next below ``lam``."""
        return min(max(math.floor(self.lam * (n + 1) + 1e-9), 1), n)

    def null_share(self, counts: Counts) -> tuple[float, float]:
        """Return the estimated share of non-members as numerator and denominator, both whole numbers."""
        m, n = counts.total, len(counts.calibration)
        k = self.grid(n)
        small = int(counts.above[-(k - 1)]) if k >= 2 else 0
        return float((1 + m - small) * (n + 1)), float(m * (n + 1 - k))

    def caution(self, m: int) -> tuple[str, ...]:
        """Return no warning: the bound holds for any number of candidates."""
        return ()


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The mean of the inverse estimates of `Storey` at six grid points, which depend on the sample sizes alone.

    A narrow region of low scores contains few weak members, so its estimate has little bias; a wide region has little
    variance. The widest region holds the share ``2 / sqrt(n m / (n + m))`` of the calibration, limited to [0.05, 0.5];
    the narrowest is half as wide; the widths are in equal ratios and the six estimates have equal weights. The bound on
    the false discovery rate is linear in the inverse of the estimated share of non-members and holds for each region,
    as none is chosen by the scores; so it holds for their mean.

    Examples:
        >>> Adaptive().lams(500, 1000).round(3).tolist()
        [0.89, 0.905, 0.917, 0.928, 0.937, 0.945]
    """

    name: ClassVar[str] = "adaptive"

    def lams(self, n: int, m: int) -> Floats:
        """Return the grid points for ``n`` calibration scores and ``m`` candidates, ascending, ``[6]``."""
        widest = min(max(2 / math.sqrt(n * m / (n + m)), 0.05), 0.5)
        return 1 - widest / 2.0 ** np.linspace(0, 1, 6)

    def null_share(self, counts: Counts) -> tuple[float, float]:
        """Return the estimated share of non-members as numerator and denominator."""
        shares = (Storey(lam).null_share(counts) for lam in self.lams(len(counts.calibration), counts.total).tolist())
        return 1.0, math.fsum(bottom / top for top, bottom in shares) / 6

    def caution(self, m: int) -> tuple[str, ...]:
        """Return no warning: the bound holds for any number of candidates."""
        return ()


@dataclass(frozen=True, slots=True)
class PTDI:
    """PTDI's estimator of the share of non-members, from scores below the ``eta`` quantile of the calibration.

    Args:
        eta: share of the calibration beyond the threshold τ, where members are rare.

    Raises:
        divulge.InputError: ``eta`` outside (0, 1).

    Examples:
        >>> PTDI(0.5).caution(5)
        ('with 5 candidates and eta=0.5 ptdi can reach 1.16 times its bound; storey and bh do not',)
    """

    eta: float = _DEFAULTS.eta

    name: ClassVar[str] = "ptdi"

    def __post_init__(self) -> None:
        DecisionSettings.check_attributes(self)

    def region(self, counts: Counts) -> tuple[int, int]:
        """Return the numbers of candidates and of calibration scores in the region R, where members are rare.

        The paper's scores are low for members, its τ is the ``1 - eta`` quantile of calibration and ``R = (τ, ∞)``.
        Larger is more member-like here, so R holds the scores strictly below the calibration score that has
        ``floor(eta · n)`` others below it. Where that many tie with it, or ``eta · n < 1``, no calibration score
        lies in R, the denominator of the paper's ratio is zero, and nothing can be selected.

        Examples:
            >>> from divulge.decisions.counts import Counts
            >>> PTDI(0.05).region(Counts.empty(range(100)).add([2.0, 5.0, 70.0]))
            (1, 5)
        """
        n = len(counts.calibration)
        edge = min(math.floor(self.eta * n + 1e-9), n - 1)
        inside = int(np.searchsorted(counts.calibration, counts.calibration[edge], side="left"))
        return counts.count_below(edge), inside

    def null_share(self, counts: Counts) -> tuple[float, float]:
        """Return the estimated share of non-members as numerator and denominator, both whole numbers."""
        n_candidates, n_calibration = self.region(counts)
        # Where R is empty the share is infinite, and nothing is selected.
        return float((1 + n_candidates) * len(counts.calibration)), float((counts.total + 1) * n_calibration)

    def caution(self, m: int) -> tuple[str, ...]:
        """Return a warning if the bound fails because ``m`` is small and the region wide.

        The estimated share of non-members has ``m + 1`` where ``m`` would be exact. Without members and with
        calibration in plenty the false discovery rate is ``(1 + 1/m) (1 - (1 - eta)^m)`` times the level, where that
        is above 1; at ``eta`` = .05 never by more than .7 %.
        """
        excess = (1 + 1 / m) * (1 - (1 - self.eta) ** m)
        if excess <= _MAX_EXCESS:
            return ()
        message = f"with {m} candidates and eta={self.eta:g} ptdi can reach {excess:.2f} times its bound"
        return (f"{message}; storey and bh do not",)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Moments(ShortRepr):
    """`PTDI` with confirmed members: the share of non-members by the method of moments, corrected for its variance.

    Liu et al. (arXiv 2510.09717v1) report an adjusted moment estimator for this case. We worked from a summary without
    a formula, so this estimator is ours.

    With ``F`` the shares of candidates, calibration and confirmed members in the region R of `PTDI`,
    ``F_candidates = (1 - π) F_calibration + π F_members``, so
    ``1 - π = (F_candidates - F_members) / (F_calibration - F_members)``: `PTDI` takes ``F_members`` to be 0. P-values
    are multiplied by ``x = max(1 - π̂, s)``, s the estimate's standard error, times ``1 + s² / x²``: to second order,
    the mean of the inverse is at most ``1 / (1 - π)``. Where the confirmed members are no rarer in R than the
    calibration, nothing is subtracted and the p-values are not made smaller.

    There is no proof that it bounds the false discovery rate. In simulations over many distributions of members' scores
    it did wherever the confirmed members score like those among the candidates; where the confirmed ones score lower,
    it does not.

    Args:
        members: scores ``[k]`` of documents known to have been used, larger = more member-like.
        eta: share of the calibration in R. Members in R do not cost power here, so it may be large.

    Raises:
        divulge.InputError: no scores, NaN or infinity; ``eta`` outside (0, 1).

    Examples:
        >>> from divulge.decisions import Moments, fdr
        >>> rng = np.random.default_rng(0)
        >>> scores = np.append(rng.normal(1.2, 1, 700), rng.normal(size=300))
        >>> calibration, confirmed = rng.normal(size=500), rng.normal(1.2, 1, 500)
        >>> [fdr.select(scores, calibration, fdr=0.1, method=m).count for m in ("ptdi", Moments(confirmed))]
        [233, 273]
    """

    members: object
    eta: float = 0.5
    _scores: Floats = field(init=False, repr=False)

    name: ClassVar[str] = "moments"

    def __post_init__(self) -> None:
        object.__setattr__(self, "_scores", check_vector(self.members, "members"))
        DecisionSettings.check_attributes(self)

    def null_share(self, counts: Counts) -> tuple[float, float]:
        """Return the estimated share of non-members as numerator and denominator."""
        n_candidates_inside, n_inside = PTDI(self.eta).region(counts)
        n, m, k = len(counts.calibration), counts.total, len(self._scores)
        if not n_inside:
            return 1.0, 0.0
        # R holds the scores strictly below the first calibration score outside it.
        n_members_inside = int(np.sum(self._scores < counts.calibration[n_inside]))
        candidate_rate, calibration_rate = (1 + n_candidates_inside) / (m + 1), n_inside / n
        member_rate = n_members_inside / (k + 1)
        if member_rate >= calibration_rate:
            return max(candidate_rate / calibration_rate, 1.0), 1.0
        share = (candidate_rate - member_rate) / (calibration_rate - member_rate)
        # The standard error of ``F_candidates - (1 - π) F_calibration - π F_members``, over what divides it in π.
        clipped = min(max(share, 0.0), 1.0)
        shrunk_rate = (n_members_inside + 0.5) / (k + 1)  # where no member lies inside, its variance is not 0
        parts = (1.0, candidate_rate, m), (clipped, calibration_rate, n), (1 - clipped, shrunk_rate, k)
        variance = sum(weight * weight * rate * (1 - rate) / size for weight, rate, size in parts)
        error = math.sqrt(variance) / (calibration_rate - member_rate)
        raised = max(share, error)
        return raised + error**2 / raised, 1.0

    def caution(self, m: int) -> tuple[str, ...]:
        """Return the warning that the bound is simulated and not proven."""
        return ("moments has no proof: its bound was only simulated, and confirmed members must score like the others",)


@dataclass(frozen=True, slots=True)
class AdaDetect:
    """AdaDetect: `BH` on one score learned from several signals, see `divulge.decisions.pooled_scores`."""

    name: ClassVar[str] = "adadetect"


@dataclass(frozen=True, slots=True)
class Auto:
    """The method that suits the controls and the number of signals; see `divulge.identify`.

    Args:
        adaptive: used for one score, where a holdout was compared.
        storey: used for one score elsewhere.
    """

    adaptive: Adaptive = Adaptive()
    storey: Storey = Storey()

    def __post_init__(self) -> None:
        check_instance(self.adaptive, "adaptive", Adaptive, "a decisions.Adaptive")
        check_instance(self.storey, "storey", Storey, "a decisions.Storey")

    name: ClassVar[str] = "auto"


StepUp: TypeAlias = BH | PTDI | Storey | Adaptive
"""A method for one score per candidate."""
Method: TypeAlias = Auto | BH | PTDI | Storey | Adaptive | AdaDetect
MethodT = TypeVar("MethodT", bound=Auto | BH | PTDI | Storey | Adaptive | AdaDetect)


def resolve_method(
    method: object, method_types: Sequence[type[MethodT]], *, eta: float = _DEFAULTS.eta, lam: float = _DEFAULTS.lam
) -> MethodT:
    """Return the method of a name; return a method as it is.

    Args:
        method: a method, or the name of one.
        method_types: the methods that apply here.
        eta: of `PTDI`, if ``method`` is a name.
        lam: of `Storey`, if ``method`` is a name.

    Raises:
        divulge.InputError: an unknown method or one that does not apply; ``eta`` or ``lam`` outside (0, 1).

    Examples:
        >>> resolve_method("auto", (Auto, BH), lam=0.3)
        Auto(adaptive=Adaptive(), storey=Storey(lam=0.3))
    """
    ptdi, storey = PTDI(eta), Storey(lam)
    if isinstance(method, tuple(method_types)):
        return method
    names = [method_type.name for method_type in method_types]
    if not isinstance(method, str) and hasattr(method, "name"):
        raise InputError(f"method: {type(method).__name__} does not apply here (known: {', '.join(names)})")
    check_choice(method, "method", names)
    defaults: tuple[Method, ...] = (Auto(storey=storey), BH(), ptdi, storey, Adaptive(), AdaDetect())
    return next(
        method_value
        for method_value in defaults
        if isinstance(method_value, tuple(method_types)) and method_value.name == method
    )


def method_parameters(method: Method) -> tuple[float, float]:
    """Return the ``eta`` and ``lam`` from which `resolve_method` makes the method; defaults where it has neither.

    Examples:
        >>> method_parameters(PTDI(0.1)), method_parameters(BH())
        ((0.1, 0.5), (0.05, 0.5))
    """
    storey = method.storey if isinstance(method, Auto) else Storey()
    eta = method.eta if isinstance(method, PTDI) else PTDI().eta
    return eta, method.lam if isinstance(method, Storey) else storey.lam
