"""Selections with a bound on the false discovery rate, in finite samples and without a model of the scores.

Larger scores are more member-like. There are ``n`` calibration scores ``S_i`` of known non-members and ``m`` candidates
with scores ``T_j``. A method multiplies the conformal p-values ``p_j = (1 + #{S_i ≥ T_j}) / (n + 1)`` by an estimate of
the share of non-members and applies the step-up of Benjamini and Hochberg (1995). (Ties count against the candidate,
and the ``1 +`` cannot be left out: without either, the bound is exceeded several times over.) The expected share of
non-members among the selected is then at most ``fdr``, if the non-member candidates are exchangeable with the
calibration scores. "bh", "storey" and "adaptive" keep the bound in finite samples. "ptdi", as published and at its
default ``eta``, can exceed it by at most 0.7 % of the level and stays below it in simulations; with a large ``eta`` and
few candidates it does not, see `divulge.decisions.methods.PTDI.caution`.

Beside `select` there are `select_at_boundary`, which bounds the error of the last candidate selected, `select_groups`
for users, books or sites instead of documents, and `sensitivity`, which says how far from exchangeable scores may be.

Sources: Benjamini & Hochberg 1995; Bates et al., "Testing for outliers with conformal p-values", Annals of Statistics
2023; Marandon et al., "Adaptive novelty detection with false discovery rate guarantee", Annals of Statistics 2024; Liu
et al., "High-power training data identification with provable statistical guarantees" (PTDI), arXiv 2510.09717v1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds, statistics
from divulge.decisions import counts as counting
from divulge.decisions import fpr, usage
from divulge.decisions.counts import Counts, ranks
from divulge.decisions.methods import BH, PTDI, AdaDetect, Adaptive, Moments, StepUp, Storey, check_fdr, resolve_method
from divulge.duplicates import hash_tables
from divulge.errors import InputError
from divulge.settings import DecisionSettings
from divulge.types import Guarantee, Selection
from divulge.validation import check_integer, check_names, check_number, check_vector

if TYPE_CHECKING:
    from divulge.types import Array, Bools, Floats, Ints

_METHOD_TYPES = (BH, PTDI, Storey, Adaptive)
METHODS = tuple(method_type.name for method_type in _METHOD_TYPES)
ASSUMES = ("non-member candidates are exchangeable with the calibration records",)
_DEFAULTS = DecisionSettings()


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A selection rule, which applies to any number of candidates.

    Args:
        threshold: a candidate is selected if its score is strictly larger; infinity if none is.
        rank: the same in ranks: a candidate is selected if ``#{S ≥ T} ≤ rank``; -1 if none is.
        null_share: estimated share of non-members, by which the p-values were multiplied; it may exceed 1, and is
            infinite if "ptdi" finds no calibration score beyond its τ.
        q_values: adjusted p-value of a candidate with ``#{S ≥ T} = r``, ``[n + 1]``: the smallest level at which it
            would be selected.
    """

    threshold: float
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
        >>> rule.threshold, rule.rank, rule.q_values[:2].round(3).tolist()
        (93.0, 5, [0.015, 0.03])
    """
    check_fdr(fdr)
    step_up_method = _resolve_fdr_method(method)
    counting.check_counts(counts)
    require_enough_calibration(len(counts.calibration), counts.total, fdr)
    return step_up(counts, fdr, step_up_method)


def _resolve_fdr_method(method: object) -> StepUp | Moments:
    return method if isinstance(method, Moments) else resolve_method(method, _METHOD_TYPES)


def require_enough_calibration(n: int, m: int, fdr: float) -> None:
    """Raise if ``n`` calibration scores are too few for any selection at this level.

    Raises:
        divulge.InputError: they are too few; the message says how many are needed.
    """
    if is_calibration_too_small(n, fdr):
        n_required = required_calibration(m, fdr, m)
        raise InputError(
            f"calibration: {n} scores are too few for fdr={fdr:g}: the smallest p-value, 1/{n + 1}, exceeds it; at "
            f"least {n_required} are needed (required_calibration says how many for a selection by bh)"
        )


def is_calibration_too_small(n: int, fdr: float) -> bool:
    """Return whether the smallest possible p-value with ``n`` calibration scores exceeds the level.

    Examples:
        >>> is_calibration_too_small(18, 0.05), is_calibration_too_small(19, 0.05)
        (True, False)
    """
    return fdr * (n + 1) < 1 - 1e-9


def step_up(counts: Counts, fdr: float, method: StepUp | Moments) -> Rule:
    """Apply the step-up to the ``n + 1`` possible p-values times the method's share of non-members.

    Unlike `decide` it takes calibration of any size; if that is too small for the level, nothing is selected.
    """
    m, n = counts.total, len(counts.calibration)
    numerator, denominator = method.null_share(counts)
    n_at_rank = counts.reached
    numerators = np.arange(1, n + 2, dtype=np.float64)
    # One division of whole numbers, which floats represent exactly for most sizes, decides equality with fdr correctly.
    with np.errstate(divide="ignore"):
        q_values = (numerators * (numerator * m)) / (n_at_rank * (denominator * (n + 1)))
    # The q-value of a rank is the smallest bound at it or at any larger rank. Where no candidate has so small a p-value
    # the bound is infinite, and larger ranks decide.
    q_values = np.minimum(np.minimum.accumulate(q_values[::-1])[::-1], 1.0)
    rank = int(np.searchsorted(q_values, fdr, side="right")) - 1
    cutoff = np.inf if rank < 0 else -np.inf if rank >= n else float(counts.calibration[n - 1 - rank])
    return Rule(cutoff, rank, numerator / denominator if denominator else math.inf, q_values)


def threshold(
    candidates: object, calibration: object, *, fdr: float, method: StepUp | Moments | str = "storey"
) -> float:
    """Return the score above which (strictly) candidates are selected, without computing p-values.

    Raises:
        divulge.InputError: as `decide`, and NaN or infinity in a score.

    Examples:
        >>> threshold([98.5, 120.0, 7.0], range(99), fdr=0.1, method="bh")
        93.0
    """
    return decide(Counts.empty(calibration).add(candidates), fdr=fdr, method=method).threshold


def select(
    candidates: object,
    calibration: object,
    *,
    fdr: float = _DEFAULTS.fdr,
    method: StepUp | Moments | str = "storey",
) -> Selection:
    """Select candidates that were used for training, with false discovery rate at most ``fdr``.

    With `Moments` the bound is not proven, and the guarantee claims nothing.

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
    return ScoreCounts.from_scores(candidates, calibration).select(fdr=fdr, method=method)


@dataclass(frozen=True, slots=True, eq=False)
class ScoreCounts:
    """Scores, p-values and counts of candidates, computed once for any number of decisions.

    Args:
        scores: of the candidates, ``[m]``.
        p_values: of the candidates, ``[m]``.
        counts: candidates above each calibration score.
        members: scores of documents known to have been used, for the estimated share of members; None if there are
            none.
    """

    scores: Floats
    p_values: Floats
    counts: Counts
    members: object = None

    @classmethod
    def from_scores(cls, candidates: object, calibration: object, members: object = None) -> ScoreCounts:
        """Compute p-values and counts of candidates ``[m]`` from calibration scores ``[n]``.

        Raises:
            divulge.InputError: NaN or infinity, empty or constant scores.
        """
        scores = check_vector(candidates, "candidates")
        empty_counts = Counts.empty(calibration)
        require_distinct_scores(scores, empty_counts.calibration)
        counts, p_values = empty_counts.add_with_p_values(scores)
        return cls(scores, p_values, counts, members)

    def select(self, *, fdr: float, method: StepUp | Moments | str) -> Selection:
        """Select candidates, see the function `select`."""
        step_up_method = _resolve_fdr_method(method)
        rule = decide(self.counts, fdr=fdr, method=step_up_method)
        cautions = step_up_method.caution(self.counts.total)
        messages = (*selection_warnings(self.counts, rule, fdr), *cautions)
        selection = self.make_selection(self.scores > rule.threshold, fdr=fdr, warnings=messages)
        if isinstance(step_up_method, Moments):
            return replace(selection, guarantee=Guarantee("FDR", 1.0, ()))
        return replace(selection, guarantee=selection.guarantee.capped_at("doubtful")) if cautions else selection

    def make_selection(self, selected: Bools, *, fdr: float, warnings: tuple[str, ...] = ()) -> Selection:
        """Return the `Selection` of the candidates in the mask ``selected`` ``[m]``, which any rule may have chosen."""
        return Selection(
            selected=selected,
            p_values=self.p_values,
            threshold=float(self.scores[selected].min()) if selected.any() else np.inf,
            usage=usage.share(self.counts, self.members),
            guarantee=Guarantee("FDR", fdr, ASSUMES),
            warnings=warnings,
        )


def require_distinct_scores(candidates: Floats, calibration: Floats) -> None:
    """Raise if all scores of candidates and calibration are equal.

    Raises:
        divulge.InputError: they are.
    """
    value = candidates[0]
    if calibration[0] == value and calibration[-1] == value and np.all(candidates == value):
        raise InputError(
            f"candidates: every score, calibration included, is {value:g}; they cannot tell anything apart"
        )


def selection_warnings(counts: Counts, rule: Rule, fdr: float) -> tuple[str, ...]:
    """Return warnings about a selection that is empty or full, or whose calibration scores are all equal."""
    messages = []
    m, n = counts.total, len(counts.calibration)
    if counts.calibration[0] == counts.calibration[-1]:
        messages.append(f"all {n} calibration scores are {counts.calibration[0]:g}: p-values are 1 or 1/{n + 1}")
    if rule.rank < 0:
        messages.append(_explain_empty_selection(counts, rule, fdr))
    elif rule.rank >= n:
        messages.append(
            f"all {m} candidates were selected: their scores exceed those of non-members nearly everywhere; are both "
            "in the same unit, sign and scale?"
        )
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
    smallest = math.ceil(rule.null_share * m / (fdr * (n + 1)) - 1e-9)
    n_above_all = int(counts.above[-1])
    # The estimated share of non-members can exceed 1, and then not even all candidates may be enough.
    requirement = f"a selection needs at least {smallest} of the {m} candidates"
    if smallest > m:
        requirement = f"not even all {m} candidates would be enough for a selection"
    return (
        f"nothing was selected: with {n} calibration scores and fdr={fdr:g} {requirement}, and {n_above_all} score "
        f"above all calibration; more calibration ({required_calibration(nonmembers, fdr, max(n_above_all, 1))} for a "
        f"selection of {max(n_above_all, 1)}) or a stronger signal is needed (with an AUC near 0.65 every method has "
        "next to no power)"
    )


def required_calibration(m: int, fdr: float, expected_selected: int) -> int:
    """Return the number of calibration scores with which "bh" can select ``expected_selected`` of ``m`` candidates.

    The smallest p-value is ``1 / (n + 1)``, and the step-up requires it to be at most ``fdr · k / m`` for a selection
    of ``k``, so ``n ≥ m / (fdr · k) - 1``. The other methods need this times their estimated share of non-members. The
    number makes a selection possible, not likely; `divulge.decisions.planning` simulates the power.

    Raises:
        divulge.InputError: a level outside (0, 1), ``m`` or ``expected_selected`` below 1, or more than ``m``.

    Examples:
        >>> required_calibration(1000, 0.05, 100)
        199
    """
    check_integer(m, "m", minimum=1, maximum=10**15)
    check_fdr(fdr)
    check_integer(expected_selected, "expected_selected", minimum=1)
    if expected_selected > m:
        raise InputError(f"expected_selected: at most m = {m} can be selected, got {expected_selected}")
    return max(math.ceil(m / (fdr * expected_selected) - 1 - 1e-9), 1)


def min_selected(n: int, m: int, fdr: float) -> int | None:
    """Return the size of the smallest selection that "bh" can make of ``m`` candidates; None if it can make none.

    That many candidates must score above all ``n`` calibration scores; the other methods need this times their
    estimated share of non-members. The inverse of `required_calibration`.

    Raises:
        divulge.InputError: a level outside (0, 1), ``n`` or ``m`` below 1.

    Examples:
        >>> min_selected(199, 1000, 0.05), min_selected(18, 1000, 0.05)
        (100, None)
    """
    check_integer(n, "n", minimum=1, maximum=10**15)
    check_integer(m, "m", minimum=1, maximum=10**15)
    check_fdr(fdr)
    return None if is_calibration_too_small(n, fdr) else min(max(math.ceil(m / (fdr * (n + 1)) - 1e-9), 1), m)


def benjamini_hochberg(p_values: object, level: float) -> Bools:
    """Return the mask ``[m]`` of Benjamini and Hochberg's selection from arbitrary p-values.

    The ``k`` smallest p-values are selected, for the largest ``k`` such that ``k`` of them are at most
    ``level · k / m``.

    Args:
        p_values: ``[m]``, in [0, 1].
        level: bound on the false discovery rate, in (0, 1).

    Raises:
        divulge.InputError: an array that is empty, not one-dimensional, or has NaN or infinity; a level outside (0, 1).

    References:
        Benjamini & Hochberg, Controlling the false discovery rate, 1995.

    Examples:
        >>> benjamini_hochberg([0.03, 0.5, 0.06], 0.1)
        array([ True, False,  True])
    """
    p, level = check_vector(p_values, "p_values"), check_number(level, "level", above=0, below=1)
    ordered = np.sort(p)
    below_line = np.flatnonzero(ordered * len(p) <= level * np.arange(1, len(p) + 1) * (1 + 1e-12))
    return p <= ordered[below_line[-1]] if len(below_line) else np.zeros(len(p), bool)


BOUNDARY_FDR = "FDR of the last candidate selected"


def select_at_boundary(
    candidates: object, calibration: object, *, fdr: float = _DEFAULTS.fdr, seed: int = 0
) -> Selection:
    """Select candidates so that the last one, with the lowest score, is a non-member with probability at most ``fdr``.

    The false discovery rate is an average over the selection: the best candidates make up for those near its edge. The
    boundary false discovery rate is the probability that anything is selected and its last candidate is a non-member.
    The support line of Soloff, Xiang & Fithian selects the ``k`` best for which ``level · k / m`` exceeds the ``k``-th
    p-value most. With independent p-values that bounds it; conformal p-values share one calibration set, and then it
    need not (Gao, Roquain & Xiang). Here the line has a whole slope, ``a = floor(level · (n + 1) / m)`` calibration
    ranks per candidate, and of equal gains the smallest selection is taken. Equal scores are ordered at random.

    Guarantee: the probability is at most ``a · m0 / (n + 1) ≤ level · m0 / m``, with ``m0`` non-members. Proof: take
    the ``n + 1`` scores of one non-member and the calibration, and all other candidates as they are. Each of the
    ``n + 1`` is the non-member's with equal probability. Let ``K`` of them make it the last one selected. Between it
    and the next of the ``n + 1`` there is then no other candidate, so from each of the ``K`` places to the next the
    line's best gain decreases by at least 1, as gains are whole. A place that is ``a + 1`` or more below the best gain
    is not chosen, as the candidate adds ``a`` and leaves one calibration score fewer above those before it. So
    ``K ≤ a``.

    Args:
        candidates: scores ``[m]``, larger = more member-like.
        calibration: scores ``[n]`` of known non-members; ``n + 1 ≥ m / fdr`` are needed.
        fdr: bound on the probability that anything is selected and its last candidate is a non-member.
        seed: of the order of equal scores.

    Raises:
        divulge.InputError: NaN or infinity, empty or constant scores, fewer calibration scores than are needed.

    References:
        Soloff, Xiang & Fithian, "The edge of discovery", Annals of Statistics 2024 (support line); Gao, Roquain &
        Xiang, "Conformal novelty detection with false discovery rate control at the boundary", arXiv 2601.02610, of
        which only abstract and introduction were read: its own procedures may differ.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> scores, known = np.append(rng.normal(3, 1, 50), rng.normal(size=50)), rng.normal(size=1000)
        >>> select_at_boundary(scores, known, fdr=0.1)
        Selection(44 of 100 selected; FDR of the last candidate selected ≤ 0.1, assuming non-member ...)
    """
    level = check_fdr(fdr)
    check_integer(seed, "seed", minimum=0)
    score_counts = ScoreCounts.from_scores(candidates, calibration)
    calibration_scores, scores = score_counts.counts.calibration + 0.0, score_counts.scores + 0.0
    m = score_counts.counts.total
    slope = math.floor(level * (len(calibration_scores) + 1) / m + 1e-9)
    if slope < 1:
        raise InputError(
            f"calibration: {len(calibration_scores)} scores are too few to bound the last of {m} candidates "
            f"at fdr={level:g}; at least {required_calibration(m, level, 1)} are needed"
        )
    n, ascending = len(calibration_scores), np.argsort(scores, kind="stable")
    pooled = np.append(calibration_scores, scores[ascending])
    tie_breakers = seeds.generator(seed, "boundary", hash_tables(calibration_scores, scores[ascending])).random(
        len(pooled)
    )
    order = np.lexsort((tie_breakers, -pooled))
    is_candidate = order >= n
    n_calibration_above = np.cumsum(~is_candidate)[is_candidate]
    gains = slope * np.arange(1, len(scores) + 1) - n_calibration_above - 1
    best = int(np.argmax(gains))
    selected = np.zeros(len(scores), bool)
    if gains[best] > 0:
        selected[ascending[order[is_candidate][: best + 1] - n]] = True
    threshold = float(scores[selected].min()) if selected.any() else math.inf
    return Selection(selected, score_counts.p_values, threshold, None, Guarantee(BOUNDARY_FDR, level, ASSUMES))


ASSUMES_EXCHANGEABLE_GROUPS = (
    "groups of non-members, their sizes included, are exchangeable with the groups of the calibration"
)
ASSUMES_EXCHANGEABLE_DOCUMENTS = (
    "each non-member document of a candidate group is exchangeable with the calibration records"
)


@dataclass(frozen=True, slots=True, eq=False)
class GroupSelection:
    """A selection of groups.

    Args:
        names: of the groups, sorted, ``[g]``.
        sizes: numbers of documents, ``[g]``.
        selection: of the groups, in the order of ``names``.
    """

    names: Array
    sizes: Ints
    selection: Selection

    @property
    def selected(self) -> Array:
        """Names of the selected groups."""
        return self.names[self.selection.selected]

    def __repr__(self) -> str:
        return f"GroupSelection({len(self.selected)} of {len(self.names)} groups; {self.selection.guarantee})"


def select_groups(
    candidates: object,
    groups: object,
    calibration: object,
    calibration_groups: object = None,
    *,
    fdr: float = _DEFAULTS.fdr,
    method: StepUp | str = "storey",
) -> GroupSelection:
    """Select groups (users, books or sites) that had documents in training, with the FDR over groups at most ``fdr``.

    A false discovery is a group of which no document was used. Documents of one group depend on each other, so a bound
    over documents says nothing about groups. There are two ways:

    - The calibration comes in groups as well. Each group has one score, the mean of its documents' scores. Groups of
      non-members, their sizes included, are exchangeable with those of the calibration, and every method applies, in
      finite samples and for any dependence within groups. This way has the power; plan for it. Where sizes differ
      between candidates and calibration, or between selected groups and others, the guarantee is doubtful: equally
      many documents of every group keep it.
    - The calibration comes in no groups. The p-values of a group's documents are combined by ``e`` times their
      geometric mean, which is valid under any dependence (Vovk & Wang), and groups, which share the calibration, by
      Benjamini and Yekutieli's step-up. This costs most of the power.

    Args:
        candidates: scores of documents ``[m]``, larger = more member-like.
        groups: the group of each candidate ``[m]``, texts or whole numbers.
        calibration: scores of known non-members ``[n]``.
        calibration_groups: the group of each calibration record ``[n]``; None if there are no groups.
        fdr: bound on the expected share of groups of non-members among the selected.
        method: of `decide`; used only if the calibration comes in groups.

    Raises:
        divulge.InputError: NaN or infinity, lengths that do not fit, too few calibration groups for the level.

    References:
        Vovk & Wang, "Combining p-values via averaging", Biometrika 2020, proposition 4; Benjamini & Yekutieli, "The
        control of the false discovery rate in multiple testing under dependency", Annals of Statistics 2001, theorem
        1.3.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> groups, known = np.repeat(np.arange(60), 10), np.repeat(np.arange(300), 10)
        >>> scores = rng.normal(size=600) + 2 * (groups < 20)
        >>> users = select_groups(scores, groups, rng.normal(size=3000), known, fdr=0.1)
        >>> set(range(20)) <= set(users.selected.tolist())
        True
    """
    level = check_fdr(fdr)
    scores, calibration_scores = check_vector(candidates, "candidates"), check_vector(calibration, "calibration")
    names, sizes, means = _group_means(scores, groups, "groups")
    if calibration_groups is not None:
        _, calibration_sizes, calibration_means = _group_means(
            calibration_scores, calibration_groups, "calibration_groups"
        )
        selection = select(means, calibration_means, fdr=level, method=method)
        doubts = _doubt_sizes(sizes, selection.selected, calibration_sizes)
        guarantee = Guarantee(
            "FDR over groups",
            selection.guarantee.level,
            (ASSUMES_EXCHANGEABLE_GROUPS,) if selection.guarantee.says else (),
            selection.guarantee.standing,
        )
        if doubts:
            guarantee = guarantee.capped_at("doubtful")
        return GroupSelection(names, sizes, _with_guarantee(selection, guarantee, (*selection.warnings, *doubts)))
    p = combine_p_values(fpr.p_values(calibration_scores, scores), groups)
    harmonic = float((1 / np.arange(1, len(p) + 1)).sum())
    warning = "the calibration comes in no groups: p-values are combined for the worst dependence, at a cost in power"
    selection = Selection(
        benjamini_hochberg(p, level / harmonic),
        p,
        math.inf,
        None,
        Guarantee("FDR over groups", level, (ASSUMES_EXCHANGEABLE_DOCUMENTS,)),
        (warning,),
    )
    threshold = float(means[selection.selected].min()) if selection.count else math.inf
    return GroupSelection(names, sizes, _with_guarantee(selection, selection.guarantee, (warning,), threshold))


_SIZE_LEVEL = 0.01  # at which sizes of groups are said to differ


def _doubt_sizes(sizes: Ints, selected: Bools, calibration_sizes: Ints) -> tuple[str, ...]:
    """Say where sizes of groups speak against groups that are exchangeable, their sizes included.

    Means of few documents vary more than means of many. Where members are the large groups, the non-members are smaller
    than the calibration's groups, and more of them score high.

    Args:
        sizes: documents of each candidate group.
        selected: which of them are selected.
        calibration_sizes: documents of each group of the calibration.
    """
    comparisons = [("candidates and calibration", sizes, calibration_sizes)]
    if 0 < selected.sum() < len(selected):
        comparisons.append(("selected groups and the others", sizes[selected], sizes[~selected]))
    differing = [
        text
        for text, group_sizes, compared_sizes in comparisons
        if statistics.rank_sum_p_value(group_sizes.astype(np.float64), compared_sizes.astype(np.float64)) <= _SIZE_LEVEL
    ]
    if not differing:
        return ()
    return (
        f"{' and '.join(differing)} differ in how many documents a group has: means of few documents vary more, so if "
        "large groups are members more often, the bound fails; take equally many documents of every group",
    )


def combine_p_values(p_values: object, groups: object) -> Floats:
    """Return one p-value per group, in the sorted order of group names: ``e`` times the geometric mean, at most 1.

    It is valid under any dependence of the p-values (Vovk & Wang 2020, proposition 4).

    Args:
        p_values: of documents ``[m]``, in (0, 1].
        groups: the group of each document ``[m]``.

    Raises:
        divulge.InputError: a p-value outside (0, 1], lengths that do not fit.

    Examples:
        >>> combine_p_values([0.01, 0.04, 0.5], ["a", "a", "b"]).round(4)
        array([0.0544, 0.5   ])
    """
    p = check_vector(p_values, "p_values")
    if p.min() <= 0 or p.max() > 1:
        raise InputError(f"p_values: must lie in (0, 1], got {p.min():g} to {p.max():g}")
    _, sizes, means = _group_means(np.log(p), groups, "groups")
    # The p-value of a single document needs no factor e.
    return np.minimum(np.exp(means + (sizes > 1)), 1.0)


def _group_means(values: Floats, groups: object, name: str) -> tuple[Array, Ints, Floats]:
    """Return the names of the groups, their sizes and their mean values, independent of the order of rows."""
    names, group_index = np.unique(check_names(groups, name, length=len(values)), return_inverse=True)
    order = np.lexsort((values, group_index))
    starts = np.searchsorted(group_index[order], np.arange(len(names)))
    sizes = np.diff([*starts, len(values)])
    with np.errstate(over="ignore"):
        means = np.add.reduceat(values[order], starts) / sizes
    if not np.isfinite(means).all():
        raise InputError(f"{name}: the scores of {names[~np.isfinite(means)][0]!s} are too large to be averaged")
    return names, sizes, means


def _with_guarantee(
    selection: Selection, guarantee: Guarantee, warnings: tuple[str, ...], lowest: float | None = None
) -> Selection:
    threshold = selection.threshold if lowest is None else lowest
    return Selection(selection.selected, selection.p_values, threshold, selection.usage, guarantee, warnings)


_SENSITIVITY_METHODS = (BH, PTDI, Storey, Adaptive, AdaDetect)
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivity:
    """The largest ``Γ`` at which each candidate is still selected.

    Model: the score of a non-member among the candidates has a density between ``1 / Γ`` and ``Γ`` times that of the
    calibration, and these scores are independent. Exchangeability is ``Γ = 1``.

    Replacing one non-member's density by the calibration's changes the probability of any event by a factor of at most
    ``Γ``. After that the non-member is exchangeable with the calibration and contributes at most ``a / m``, times the
    inverse of the estimated share of non-members, to the false discovery rate of a step-up at level ``a``. "bh"
    estimates no share, so its false discovery rate is at most ``Γ a``. The other methods count non-members among low
    scores, of which only ``1 / Γ`` may be there: at most ``Γ² a``, which is attained. So a method at level ``fdr / Γ``
    or ``fdr / Γ²`` keeps ``fdr``, and its selection at that level is valid up to ``Γ``.

    This follows Rosenbaum's sensitivity analysis and Jin, Ren & Candès, "Sensitivity analysis of individual treatment
    effects: A robust conformal inference approach", PNAS 2023, whose worst-case weighted p-values cost ``Γ²`` for every
    method, as they do not use that a density integrates to one.

    Args:
        gammas: of each candidate, ``[m]``; 0 if it is not selected at ``Γ = 1``.
        fdr: the bound on the false discovery rate that a selection keeps up to its ``Γ``.

    Examples:
        >>> Sensitivity(np.array([3.0, 0.0, 1.2, 1.5]), 0.1)
        Sensitivity(all 3 stand up to Γ = 1.20, half up to 1.50, some up to 3.00)
    """

    gammas: Floats
    fdr: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "gammas", check_vector(self.gammas, "gammas"))
        check_fdr(self.fdr)

    def count(self, gamma: float) -> int:
        """Return the number of candidates that are selected if ``Γ`` is ``gamma``.

        Raises:
            divulge.InputError: a ``gamma`` below 1.
        """
        smallest = check_number(gamma, "gamma", above=1, below=math.inf, closed=True) / _ROUNDING
        return int(np.count_nonzero(self.gammas >= smallest))

    def up_to(self, share: float = 1.0) -> float:
        """Return the largest ``Γ`` up to which at least this share of the selection is valid; 0 if nothing is selected.

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
        # Rounded down, as nothing is valid beyond its Γ.
        all_stand, half_stand, any_stand = (
            math.floor(100 * _ROUNDING * self.up_to(share)) / 100 for share in (1.0, 0.5, 1e-12)
        )
        return (
            f"all {selected} stand up to Γ = {all_stand:.2f}, half up to {half_stand:.2f}, some up to {any_stand:.2f}"
        )


def sensitivity(
    candidates: object, calibration: object, *, fdr: float = _DEFAULTS.fdr, method: StepUp | AdaDetect | str = "storey"
) -> Sensitivity:
    """Return, for each candidate, how far non-members may be from exchangeable before it is no longer selected.

    Args:
        candidates: scores ``[m]``, larger = more member-like.
        calibration: scores ``[n]`` of known non-members.
        fdr: bound on the expected share of non-members among the selected.
        method: of `divulge.decisions.methods`, or the name of one; with "adadetect" the scores are the learned ones,
            and ``Γ`` concerns the signals that they were learned from.

    Raises:
        divulge.InputError: as `select`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> scores = np.append(rng.normal(4, 1, 100), rng.normal(size=100))
        >>> sensitivity(scores, rng.normal(size=2000), fdr=0.1, method="bh")
        Sensitivity(all 103 stand up to Γ = 1.04, half up to 85.04, some up to 85.04)
    """
    scores = check_vector(candidates, "candidates")
    counts = Counts.empty(calibration).add(scores)
    require_distinct_scores(scores, counts.calibration)
    require_enough_calibration(len(counts.calibration), counts.total, check_fdr(fdr))
    return Sensitivity(sensitivity_by_rank(counts, fdr=fdr, method=method)[ranks(scores, counts.calibration)], fdr)


def sensitivity_by_rank(counts: Counts, *, fdr: float, method: StepUp | AdaDetect | str) -> Floats:
    """Return the largest ``Γ`` of a candidate with ``#{S ≥ T} = r``, ``[n + 1]``; 0 if it is not selected.

    Nothing is selected if the calibration is too small for the level.

    Raises:
        divulge.InputError: no candidates, a level outside (0, 1), or a method that does not apply.
    """
    counting.check_counts(counts)
    step_up_method = resolve_method(method, _SENSITIVITY_METHODS)
    estimates_no_share = isinstance(step_up_method, BH | AdaDetect)
    level = check_fdr(fdr)
    rule = step_up(counts, level, BH() if isinstance(step_up_method, AdaDetect) else step_up_method)
    gammas = (level / rule.q_values) ** (1.0 if estimates_no_share else 0.5)
    return np.where(np.arange(len(gammas)) <= rule.rank, np.maximum(gammas, 1.0), 0.0)
