"""Sets of candidates with a bound on the false discovery rate: exact in finite samples, no model of the scores.

Larger scores are more member-like; ``n`` calibration scores come from known non-members, ``m`` candidates
are to be judged. With ``p_j = (1 + #{S_i ≥ T_j}) / (n + 1)`` (ties count against the candidate, and the
one is never left out: without either the bound is broken several times over) a method multiplies the
p-values by an estimate of the share of non-members and hands them to the step-up of Benjamini and
Hochberg (1995). The expected share of non-members among the selected is then at most ``fdr``, if the
non-member candidates are exchangeable with the calibration scores. "bh", "storey" and "adaptive" keep it in finite
samples. "ptdi", as published and at its default ``eta``, keeps it up to seven thousandths of the level and in
simulations stays below; with a large ``eta`` and few candidates it does not, see
`divulge.decisions.methods.PTDI.caution`.

Sources: Benjamini & Hochberg 1995; Bates et al., "Testing for outliers with conformal p-values", Annals
of Statistics 2023; Marandon et al., "Adaptive novelty detection with false discovery rate guarantee",
Annals of Statistics 2024; Liu et al., "High-power training data identification with provable statistical
guarantees" (PTDI), arXiv 2510.09717v1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.decisions import counts as counting
from divulge.decisions import usage
from divulge.decisions.counts import Counts
from divulge.decisions.methods import BH, PTDI, Adaptive, StepUp, Storey, named
from divulge.decisions.moments import Moments
from divulge.errors import InputError
from divulge.types import Guarantee, Selection
from divulge.validation import check_integer, check_number, check_vector

if TYPE_CHECKING:
    from divulge.types import Bools, Floats

_METHOD_TYPES = (BH, PTDI, Storey, Adaptive)
METHODS = tuple(kind.name for kind in _METHOD_TYPES)
ASSUMES = ("non-member candidates are exchangeable with the calibration records",)
_MIN_LEVEL = 1e-12  # level; a lower one asks for more calibration than can be counted


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A finished decision, in a form that applies to one candidate as to a billion.

    Args:
        cut: a candidate is selected when its score is strictly larger; infinity when none is.
        rank: the same in ranks: selected when ``#{S ≥ T} ≤ rank``; -1 when none is.
        null_share: estimated share of non-members that the p-values were multiplied by; it may exceed 1, and is
            infinite where "ptdi" finds no calibration score beyond its τ.
        q_values: adjusted p-value of a candidate with ``#{S ≥ T} = r``, ``[n + 1]``: the smallest
            level at which it would be selected.
    """

    cut: float
    rank: int
    null_share: float
    q_values: Floats


def decide(counts: Counts, *, fdr: float, method: StepUp | Moments | str = "storey") -> Rule:
    """Return the selection rule at false discovery rate ``fdr``, from counts alone.

    Args:
        counts: candidates above each calibration score.
        fdr: bound on the expected share of non-members among the selected.
        method: `BH`, `PTDI`, `Storey` or `Adaptive`, or the name of one: "bh", "ptdi", "storey", "adaptive"; or
            `Moments`, which has no proof.

    Raises:
        divulge.InputError: a level outside (0, 1), no candidates, or calibration too small for any
            candidate ever to be selected at this level.

    Examples:
        >>> rule = decide(Counts.empty(range(99)).add([98.5, 120.0, 7.0]), fdr=0.1, method="bh")
        >>> rule.cut, rule.rank, rule.q_values[:2].round(3).tolist()
        (93.0, 5, [0.015, 0.03])
    """
    check_number(fdr, "fdr", above=_MIN_LEVEL, below=1)
    step_up_method = _resolve_method(method)
    counting.nonempty(counts)
    refuse_small(len(counts.calibration), counts.total, fdr)
    return step_up(counts, fdr, step_up_method)


def _resolve_method(method: object) -> StepUp | Moments:
    return method if isinstance(method, Moments) else named(method, _METHOD_TYPES)


def refuse_small(n: int, m: int, fdr: float) -> None:
    """Raise when ``n`` calibration scores are too few for any selection at this level.

    Raises:
        divulge.InputError: in that case, with the number that is needed.
    """
    if too_small(n, fdr):
        needed = required_calibration(m, fdr, m)
        raise InputError(
            f"calibration: {n} scores are too few for fdr={fdr:g}: the smallest p-value, 1/{n + 1}, exceeds it; at "
            f"least {needed} are needed (required_calibration says how many for a selection by bh)"
        )


def too_small(n: int, fdr: float) -> bool:
    """Return whether ``n`` calibration scores are too few for any selection: the smallest p-value exceeds the level.

    Examples:
        >>> too_small(18, 0.05), too_small(19, 0.05)
        (True, False)
    """
    return fdr * (n + 1) < 1 - 1e-9


def step_up(counts: Counts, fdr: float, method: StepUp | Moments) -> Rule:
    """Benjamini and Hochberg's step-up on the ``n + 1`` possible p-values times the method's share of non-members.

    Unlike `decide` it takes calibration of any size; where that is too small for the level, it selects nothing.
    """
    m, n = counts.total, len(counts.calibration)
    numerator, denominator = method.null_share(counts)
    reached = counts.reached
    level = np.arange(1, n + 2, dtype=np.float64)
    # One division of (for most sizes exactly represented) whole numbers, so that equality with fdr is decided right.
    with np.errstate(divide="ignore"):
        q_values = (level * (numerator * m)) / (reached * (denominator * (n + 1)))
    # The step-up: a p-value's level is the smallest bound reached at it or at any larger p-value. Where
    # no candidate has been reached yet the bound is infinite and those further right decide.
    q_values = np.minimum(np.minimum.accumulate(q_values[::-1])[::-1], 1.0)
    rank = int(np.searchsorted(q_values, fdr, side="right")) - 1
    cutoff = np.inf if rank < 0 else -np.inf if rank >= n else float(counts.calibration[n - 1 - rank])
    return Rule(cutoff, rank, numerator / denominator if denominator else math.inf, q_values)


def threshold(
    candidates: object, calibration: object, *, fdr: float, method: StepUp | Moments | str = "storey"
) -> float:
    """Return the score above which (strictly) candidates are selected, without any p-value: the fast path.

    Raises:
        divulge.InputError: as `decide`, and NaN or infinity in a score.

    Examples:
        >>> threshold([98.5, 120.0, 7.0], range(99), fdr=0.1, method="bh")
        93.0
    """
    return decide(Counts.empty(calibration).add(candidates), fdr=fdr, method=method).cut


def select(
    candidates: object,
    calibration: object,
    *,
    fdr: float = 0.05,
    method: StepUp | Moments | str = "storey",
) -> Selection:
    """Return the candidates that were used for training, with false discovery rate at most ``fdr``.

    With `Moments` that bound is aimed at and not proven: the guarantee then says that nothing is.

    Args:
        candidates: scores ``[m]``, larger = more member-like.
        calibration: scores ``[n]`` of known non-members.
        fdr: bound on the expected share of non-members among the selected.
        method: see `decide`.

    Raises:
        divulge.InputError: NaN or infinity, empty or constant scores, calibration too small for the level.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> members, unseen = rng.normal(3, 1, 50), rng.normal(size=50)
        >>> select(np.append(members, unseen), rng.normal(size=400), fdr=0.1, method="bh")
        Selection(55 of 100 selected; FDR ≤ 0.1, assuming non-member candidates are exchangeable with ...)
    """
    return Judged.of(candidates, calibration).select(fdr=fdr, method=method)


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Candidates looked up among the calibration once, to be decided on as often as wanted.

    Args:
        scores: of the candidates, ``[m]``.
        p_values: of the same.
        counts: candidates above each calibration score.
        members: scores of documents known to have been used, for the estimated share; None when there are none.
    """

    scores: Floats
    p_values: Floats
    counts: Counts
    members: object = None

    @classmethod
    def of(cls, candidates: object, calibration: object, members: object = None) -> Judged:
        """Look up candidates ``[m]`` among calibration ``[n]``.

        Raises:
            divulge.InputError: NaN or infinity, empty or constant scores.
        """
        scores = check_vector(candidates, "candidates")
        none = Counts.empty(calibration)
        refuse_constant(scores, none.calibration)
        counts, p_values = none.judge(scores)
        return cls(scores, p_values, counts, members)

    def select(self, *, fdr: float, method: StepUp | Moments | str) -> Selection:
        """See `select`."""
        step_up_method = _resolve_method(method)
        rule = decide(self.counts, fdr=fdr, method=step_up_method)
        cautions = step_up_method.caution(self.counts.total)
        messages = (*warnings(self.counts, rule, fdr), *cautions)
        selection = self.chosen(self.scores > rule.cut, fdr=fdr, warnings=messages)
        if isinstance(step_up_method, Moments):
            return replace(selection, guarantee=Guarantee("FDR", 1.0, ()))
        return replace(selection, guarantee=selection.guarantee.at_most("doubtful")) if cautions else selection

    def chosen(self, selected: Bools, *, fdr: float, warnings: tuple[str, ...] = ()) -> Selection:
        """Return the selection of these candidates ``[m]``, by whatever rule."""
        return Selection(
            selected=selected,
            p_values=self.p_values,
            threshold=float(self.scores[selected].min()) if selected.any() else np.inf,
            usage=usage.share(self.counts, self.members),
            guarantee=Guarantee("FDR", fdr, ASSUMES),
            warnings=warnings,
        )


def refuse_constant(candidates: Floats, calibration: Floats) -> None:
    """Raise when all scores, candidates and calibration together, are one value.

    Raises:
        divulge.InputError: in that case.
    """
    value = candidates[0]
    if calibration[0] == value and calibration[-1] == value and np.all(candidates == value):
        raise InputError(
            f"candidates: every score, calibration included, is {value:g}; they cannot tell anything apart"
        )


def warnings(counts: Counts, rule: Rule, fdr: float) -> tuple[str, ...]:
    """What the user must know about a selection before relying on it."""
    messages = []
    m, n = counts.total, len(counts.calibration)
    if counts.calibration[0] == counts.calibration[-1]:
        messages.append(f"all {n} calibration scores are {counts.calibration[0]:g}: p-values are 1 or 1/{n + 1}")
    if rule.rank < 0:
        messages.append(_explain_empty_selection(counts, rule, fdr))
    elif rule.rank >= n:
        messages.append(f"all {m} candidates were selected: their scores exceed those of non-members nearly everywhere")
    return tuple(messages)


def _explain_empty_selection(counts: Counts, rule: Rule, fdr: float) -> str:
    m, n = counts.total, len(counts.calibration)
    if math.isinf(rule.null_share):
        return (
            f"nothing was selected: none of the {n} calibration scores lies beyond the threshold of ptdi (there are "
            "fewer than 1/eta, or ties reach that far), so the share of non-members cannot be estimated; storey and "
            "bh need no such score"
        )
    nonmembers = math.ceil(rule.null_share * m - 1e-9)
    min_selected = math.ceil(rule.null_share * m / (fdr * (n + 1)) - 1e-9)
    n_above_all = int(counts.above[-1])
    # The estimated share of non-members can exceed 1, and then not even all candidates may be enough.
    needs = f"a selection needs at least {min_selected} of the {m} candidates"
    if min_selected > m:
        needs = f"not even all {m} candidates would be enough for a selection"
    return (
        f"nothing was selected: with {n} calibration scores and fdr={fdr:g} {needs}, and {n_above_all} score above all "
        f"calibration; more calibration ({required_calibration(nonmembers, fdr, max(n_above_all, 1))} for a selection "
        f"of {max(n_above_all, 1)}) or a stronger signal is needed (with an AUC near 0.65 every method has next to "
        "no power)"
    )


def required_calibration(m: int, fdr: float, expected_selected: int) -> int:
    """Calibration scores needed before "bh" can select ``expected_selected`` of ``m`` candidates.

    The smallest p-value is ``1 / (n + 1)`` and the step-up asks it to be at most ``fdr · k / m`` for a
    selection of ``k``, so ``n ≥ m / (fdr · k) - 1``; the other methods ask for this times their estimated share of
    non-members. It is what makes a selection possible, not likely: with the signal's power in view, take several times
    as many.

    Raises:
        divulge.InputError: a level outside (0, 1), ``m`` or ``expected_selected`` below 1, or more than ``m``.

    Examples:
        >>> required_calibration(1000, 0.05, 100)
        199
    """
    check_integer(m, "m", least=1, most=10**15)
    check_number(fdr, "fdr", above=_MIN_LEVEL, below=1)
    check_integer(expected_selected, "expected_selected", least=1)
    if expected_selected > m:
        raise InputError(f"expected_selected: at most m = {m} can be selected, got {expected_selected}")
    return max(math.ceil(m / (fdr * expected_selected) - 1 - 1e-9), 1)


def least_selected(n: int, m: int, fdr: float) -> int | None:
    """The smallest selection that ``n`` calibration scores can prove among ``m`` candidates; None where none can be.

    It takes that many candidates above all calibration, with "bh"; the other methods ask for as much times their
    estimated share of non-members. The inverse of `required_calibration`.

    Raises:
        divulge.InputError: a level outside (0, 1), ``n`` or ``m`` below 1.

    Examples:
        >>> least_selected(199, 1000, 0.05), least_selected(18, 1000, 0.05)
        (100, None)
    """
    check_integer(n, "n", least=1, most=10**15)
    check_integer(m, "m", least=1, most=10**15)
    check_number(fdr, "fdr", above=_MIN_LEVEL, below=1)
    return None if too_small(n, fdr) else min(max(math.ceil(m / (fdr * (n + 1)) - 1e-9), 1), m)
