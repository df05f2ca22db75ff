"""Methods of bounding false discoveries, as values: `Storey(0.5)` says all, "storey" is short for it.

A method estimates the share of non-members among the candidates; the step-up of `divulge.decisions.fdr`
multiplies the p-values by it. Sources are named there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

import numpy as np

from divulge.errors import InputError
from divulge.validation import check_choice, check_instance, check_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.decisions.counts import Counts
    from divulge.types import Floats

_TOLERATED = 1.01  # times its level that PTDI may reach before a warning says so


@dataclass(frozen=True, slots=True)
class BH:
    """Benjamini and Hochberg: every candidate may be a non-member, so nothing is estimated.

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
    """Storey: non-members are counted among p-values of at least ``lam``, on the conformal grid.

    Args:
        lam: p-values of at least the grid point next below it are counted.

    Raises:
        divulge.InputError: ``lam`` outside (0, 1).

    Examples:
        >>> Storey().grid(99), Storey(0.5).grid(200)
        (50, 100)
    """

    lam: float = 0.5

    name: ClassVar[str] = "storey"

    def __post_init__(self) -> None:
        check_number(self.lam, "lam", above=0, below=1)

    def grid(self, n: int) -> int:
        """``K`` of ``λ = K / (n + 1)``: the grid point, of ``n`` calibration scores, at or next below ``lam``."""
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
    """`Storey` at several grid points that the numbers of scores decide: a mean of the inverse estimates.

    Counting non-members among few low scores misses weak members least, among many it scatters least. The widest
    region holds twice the least standard error that the scores allow, ``2 / sqrt(n m / (n + m))`` of the calibration,
    but at most half and at least a twentieth of it; the narrowest is half as wide. Six regions in equal ratios count
    alike. The bound on the false discovery rate is linear in the inverse of the estimated share of non-members, and it
    holds for each region, as none is chosen by the scores; so it holds for their mean.

    Examples:
        >>> Adaptive().lams(500, 1000).round(3).tolist()
        [0.89, 0.905, 0.917, 0.928, 0.937, 0.945]
    """

    name: ClassVar[str] = "adaptive"

    def lams(self, n: int, m: int) -> Floats:
        """Grid points for ``n`` calibration scores and ``m`` candidates, ascending, ``[6]``."""
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
    """PTDI: non-members are counted where members are rare, among the least member-like ``eta`` of calibration.

    Args:
        eta: share of calibration beyond the threshold τ.

    Raises:
        divulge.InputError: ``eta`` outside (0, 1).

    Examples:
        >>> PTDI(0.5).caution(5)
        ('with 5 candidates and eta=0.5 ptdi can reach 1.16 times its bound; storey and bh do not',)
    """

    eta: float = 0.05

    name: ClassVar[str] = "ptdi"

    def __post_init__(self) -> None:
        check_number(self.eta, "eta", above=0, below=1)

    def region(self, counts: Counts) -> tuple[int, int]:
        """Candidates and calibration scores in the region R, where members are rare.

        The paper's scores are low for members, its τ is the ``1 - eta`` quantile of calibration and ``R = (τ, ∞)``.
        Larger is more member-like here, so R holds the scores strictly below the calibration score that has
        ``floor(eta · n)`` others below it. Where that many tie with it, or ``eta · n < 1``, no calibration score
        lies in R, the paper's ratio has a zero below, and nothing can be selected.

        Examples:
            >>> from divulge.decisions.counts import Counts
            >>> PTDI(0.05).region(Counts.empty(range(100)).add([2.0, 5.0, 70.0]))
            (1, 5)
        """
        n = len(counts.calibration)
        edge = min(math.floor(self.eta * n + 1e-9), n - 1)
        inside = int(np.searchsorted(counts.calibration, counts.calibration[edge], side="left"))
        return counts.below(edge), inside

    def null_share(self, counts: Counts) -> tuple[float, float]:
        """Return the estimated share of non-members as numerator and denominator, both whole numbers."""
        beyond, inside = self.region(counts)  # nothing in R: infinite, and nothing is selected
        return float((1 + beyond) * len(counts.calibration)), float((counts.total + 1) * inside)

    def caution(self, m: int) -> tuple[str, ...]:
        """Return a warning when ``m`` candidates are so few, and the region so wide, that the bound is not kept.

        The estimated share of non-members has ``m + 1`` where ``m`` would be exact. Without members and with
        calibration in plenty the false discovery rate is ``(1 + 1/m) (1 - (1 - eta)^m)`` times the level, where that
        is above 1; at ``eta`` = .05 never by more than .7 %.
        """
        excess = (1 + 1 / m) * (1 - (1 - self.eta) ** m)
        if excess <= _TOLERATED:
            return ()
        message = f"with {m} candidates and eta={self.eta:g} ptdi can reach {excess:.2f} times its bound"
        return (f"{message}; storey and bh do not",)


@dataclass(frozen=True, slots=True)
class AdaDetect:
    """`divulge.decisions.adadetect`: one score is learned from several signals, and `BH` judges that."""

    name: ClassVar[str] = "adadetect"


@dataclass(frozen=True, slots=True)
class Knockoff:
    """`divulge.decisions.knockoff`: candidates against their own paraphrases, a baseline known to fail."""

    name: ClassVar[str] = "knockoff"


@dataclass(frozen=True, slots=True)
class Auto:
    """The method that the controls and the numbers of scores suggest; `divulge.identify` says which when.

    Args:
        adaptive: taken of one score, where a holdout was compared.
        storey: taken elsewhere, of one score.
    """

    adaptive: Adaptive = Adaptive()
    storey: Storey = Storey()

    def __post_init__(self) -> None:
        check_instance(self.adaptive, "adaptive", Adaptive, "a decisions.Adaptive")
        check_instance(self.storey, "storey", Storey, "a decisions.Storey")

    name: ClassVar[str] = "auto"


StepUp: TypeAlias = BH | PTDI | Storey | Adaptive
"""A method that judges one score."""
Method: TypeAlias = Auto | BH | PTDI | Storey | Adaptive | AdaDetect | Knockoff
Kind = TypeVar("Kind", bound=Auto | BH | PTDI | Storey | Adaptive | AdaDetect | Knockoff)


def named(method: object, method_types: Sequence[type[Kind]], *, eta: float = 0.05, lam: float = 0.5) -> Kind:
    """Return the method that a name is short for; a method is itself.

    Args:
        method: a method, or its name.
        method_types: those that apply.
        eta: of `PTDI`, where a name is given.
        lam: of `Storey`, where a name is given.

    Raises:
        divulge.InputError: a method that does not apply, or is none; ``eta`` or ``lam`` outside (0, 1).

    Examples:
        >>> named("auto", (Auto, BH), lam=0.3)
        Auto(adaptive=Adaptive(), storey=Storey(lam=0.3))
    """
    ptdi, storey = PTDI(eta), Storey(lam)
    if isinstance(method, tuple(method_types)):
        return method
    names = [method_type.name for method_type in method_types]
    if not isinstance(method, str) and hasattr(method, "name"):
        raise InputError(f"method: {type(method).__name__} does not apply here (known: {', '.join(names)})")
    check_choice(method, "method", names)
    defaults: tuple[Method, ...] = (Auto(storey=storey), BH(), ptdi, storey, Adaptive(), AdaDetect(), Knockoff())
    return next(
        method_value
        for method_value in defaults
        if isinstance(method_value, tuple(method_types)) and method_value.name == method
    )


def parameters(method: Method) -> tuple[float, float]:
    """``eta`` and ``lam`` with which `named` makes the method of its name; the defaults where it has none.

    Examples:
        >>> parameters(PTDI(0.1)), parameters(BH())
        ((0.1, 0.5), (0.05, 0.5))
    """
    storey = method.storey if isinstance(method, Auto) else Storey()
    eta = method.eta if isinstance(method, PTDI) else PTDI().eta
    return eta, method.lam if isinstance(method, Storey) else storey.lam
