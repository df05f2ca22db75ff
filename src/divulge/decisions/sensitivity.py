"""How unlike the calibration may non-members be before a selection stops standing?

Let the score of a non-member among the candidates have a density between ``1 / Γ`` and ``Γ`` times that of the
calibration, whichever density that is, and let these scores be drawn independently. Exchangeability is ``Γ = 1``.

For any event of the whole data, and so for any candidate's share of the false discovery proportion, swapping one
non-member's density for the calibration's multiplies the probability by at most ``Γ``. Swapped, that non-member is
exchangeable with the calibration, and a step-up at level ``a`` owes it at most ``a / m`` times the inverse of the
estimated share of non-members. "bh" estimates nothing: its false discovery rate is at most ``Γ a``. The others count
non-members among low scores, where ``1 / Γ`` of them may be left: at most ``Γ² a``, which is attained. So a method at
level ``fdr / Γ`` or ``fdr / Γ²`` keeps ``fdr``, and what it selects there stands up to ``Γ``.

In the manner of Rosenbaum's sensitivity analysis and of Jin, Ren & Candès, "Sensitivity analysis of individual
treatment effects: A robust conformal inference approach", PNAS 2023, whose worst-case weighted p-values give up ``Γ²``
for every method, as they do not use that a density has mass one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.decisions import counts as counting
from divulge.decisions import fdr as step_up
from divulge.decisions.counts import Counts, ranks
from divulge.decisions.methods import BH, PTDI, AdaDetect, Adaptive, Storey, named
from divulge.errors import InputError
from divulge.validation import check_number, check_vector

if TYPE_CHECKING:
    from divulge.decisions.methods import StepUp
    from divulge.types import Floats

_METHODS = (BH, PTDI, Storey, Adaptive, AdaDetect)
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivity:
    """The largest ``Γ`` at which each candidate is still selected.

    Args:
        gammas: of each candidate, ``[m]``; 0 where it is not selected even if ``Γ`` is 1.
        fdr: the bound on the false discovery rate that a selection keeps up to its ``Γ``.

    Examples:
        >>> Sensitivity(np.array([3.0, 0.0, 1.2, 1.5]), 0.1)
        Sensitivity(all 3 stand up to Γ = 1.20, half up to 1.50, some up to 3.00)
    """

    gammas: Floats
    fdr: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "gammas", check_vector(self.gammas, "gammas"))
        check_number(self.fdr, "fdr", above=0, below=1)

    def count(self, gamma: float) -> int:
        """Return how many candidates are selected where any score may be ``gamma`` times likelier, or less likely.

        Raises:
            divulge.InputError: a ``gamma`` below 1.
        """
        return int(
            (self.gammas * _ROUNDING >= check_number(gamma, "gamma", above=1, below=math.inf, closed=True)).sum()
        )

    def up_to(self, share: float = 1.0) -> float:
        """The largest ``Γ`` up to which at least this share of the selection stands; 0 where nothing is selected.

        Raises:
            divulge.InputError: a share outside (0, 1].
        """
        check_number(share, "share", above=0, below=1, closed=True)
        if share <= 0:
            raise InputError(f"share: must be above 0, got {share:g}")
        standing = np.sort(self.gammas[self.gammas > 0])[::-1]
        return float(standing[max(int(np.ceil(share * len(standing) - 1e-9)), 1) - 1]) if len(standing) else 0.0

    def __repr__(self) -> str:
        return f"Sensitivity({self})"

    def __str__(self) -> str:
        selected = int((self.gammas > 0).sum())
        if not selected:
            return "nothing is selected"
        # Cut off, not rounded: nothing stands beyond its Γ.
        all_stand, half_stand, any_stand = (
            math.floor(100 * _ROUNDING * self.up_to(share)) / 100 for share in (1.0, 0.5, 1e-12)
        )
        return (
            f"all {selected} stand up to Γ = {all_stand:.2f}, half up to {half_stand:.2f}, some up to {any_stand:.2f}"
        )


def of(
    candidates: object, calibration: object, *, fdr: float = 0.05, method: StepUp | AdaDetect | str = "storey"
) -> Sensitivity:
    """How much likelier, or less likely, any score of a non-member may be than in the calibration, for each candidate.

    Args:
        candidates: scores ``[m]``, larger = more member-like.
        calibration: scores ``[n]`` of known non-members.
        fdr: bound on the expected share of non-members among the selected.
        method: of `divulge.decisions.methods`, or the name of one; with "adadetect" the scores are the learned ones,
            and ``Γ`` speaks of the signals that they were learned from.

    Raises:
        divulge.InputError: as `divulge.decisions.fdr.select`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> scores = np.append(rng.normal(4, 1, 100), rng.normal(size=100))
        >>> of(scores, rng.normal(size=2000), fdr=0.1, method="bh")
        Sensitivity(all 103 stand up to Γ = 1.04, half up to 85.04, some up to 85.04)
    """
    scores = check_vector(candidates, "candidates")
    counts = Counts.empty(calibration).add(scores)
    step_up.refuse_constant(scores, counts.calibration)
    step_up.refuse_small(len(counts.calibration), counts.total, check_number(fdr, "fdr", above=0, below=1))
    return Sensitivity(by_rank(counts, fdr=fdr, method=method)[ranks(scores, counts.calibration)], fdr)


def by_rank(counts: Counts, *, fdr: float, method: StepUp | AdaDetect | str) -> Floats:
    """Return the largest ``Γ`` of a candidate with ``#{S ≥ T} = r``, ``[n + 1]``; 0 where it is not selected.

    Calibration too small for the level selects nothing.

    Raises:
        divulge.InputError: no candidates, a level outside (0, 1), or a method that does not apply.
    """
    counting.nonempty(counts)
    step_up_method = named(method, _METHODS)
    exact = isinstance(step_up_method, BH | AdaDetect)
    level = check_number(fdr, "fdr", above=0, below=1)
    rule = step_up.step_up(counts, level, BH() if isinstance(step_up_method, AdaDetect) else step_up_method)
    gammas = (level / rule.q_values) ** (1.0 if exact else 0.5)
    return np.where(np.arange(len(gammas)) <= rule.rank, np.maximum(gammas, 1.0), 0.0)
