"""Statistics by name, differences between two runs on the same records, and attacks compared with a blind score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from divulge import lazy, statistics
from divulge.errors import InputError
from divulge.evaluation.epsilon import epsilon_lower_bound
from divulge.evaluation.exposure import exposed_members
from divulge.evaluation.metrics import advantage, tpr_at_fpr
from divulge.statistics import auc, check_fpr, check_scores, min_nonmembers
from divulge.types import Estimate, ShortRepr
from divulge.validation import (
    as_list,
    check_choice,
    check_integer,
    check_number,
    check_string,
    check_vector,
    format_value,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy import stats

    from divulge.statistics import Placements
    from divulge.types import Array, Bools, Floats, Ints
else:
    stats = lazy.module("scipy.stats")

STATISTICS = ("auc", "advantage", "epsilon", "exposed", "tpr@fpr=…")
PAIRED = "two AUC intervals and their correlation; Gaffke's bound as far as differences repeat"
SEPARATE = "two intervals, each at half the error"
DISCORDANT = "clopper-pearson on discordant members, threshold by order statistics"


def measure(
    scores: object, members: object, statistic: str, confidence: float = 0.95, *, baseline: object = None
) -> Estimate:
    """Return a statistic by name: "auc", "advantage", "epsilon" (δ = 0), "exposed" or "tpr@fpr=0.01".

    Args:
        scores: ``[n]``; larger means more like a member.
        members: bool ``[n]``.
        statistic: its name.
        confidence: coverage of the interval.
        baseline: scores ``[n]`` of a classifier that never saw the model; the result is then the difference of the
            statistics of ``scores`` and ``baseline``, see `paired_difference`. For a verdict, see `against_baseline`.

    Raises:
        divulge.InputError: an unknown name, a false-positive rate that is not a number in (0, 1); "epsilon" or
            "exposed" beside a baseline, as lower bounds have no difference.

    Examples:
        >>> measure([0.1, 0.9], [False, True], "auc").value
        1.0
        >>> measure([0.1, 0.9], [False, True], "auc", baseline=[0.2, 0.8]).value
        0.0
    """
    if baseline is not None:
        if check_string(statistic, "statistic") in ("epsilon", "exposed"):
            raise InputError(
                f"statistic: scores bound {statistic!r} from below only, so it has no difference from a baseline; "
                "compare 'auc', 'advantage' or 'tpr@fpr=…'"
            )
        return paired_difference(scores, baseline, members, statistic, confidence)
    simple = {"auc": auc, "advantage": advantage, "exposed": exposed_members}
    if check_string(statistic, "statistic") in simple:
        return simple[statistic](scores, members, confidence)
    if statistic == "epsilon":
        return epsilon_lower_bound(scores, members, confidence=confidence)
    return tpr_at_fpr(scores, members, parse_fpr(statistic), confidence)


def parse_fpr(statistic: str) -> float:
    """Return the false-positive rate in a name such as "tpr@fpr=0.01".

    Examples:
        >>> parse_fpr("tpr@fpr=0.01")
        0.01
    """
    head, _, tail = check_string(statistic, "statistic").partition("=")
    if head != "tpr@fpr":
        raise InputError(f"statistic: {format_value(statistic)} is unknown (known: {', '.join(STATISTICS)})")
    try:
        level = float(tail)
    except ValueError:
        raise InputError(f"statistic: a number is needed after 'tpr@fpr=', got {tail!r}") from None
    return check_number(level, "statistic: fpr", above=0, below=1)


def paired_difference(
    scores_a: object, scores_b: object, members: object, statistic: str = "auc", confidence: float = 0.95
) -> Estimate:
    """Return statistic(A) - statistic(B) of two runs on the same records, with an interval.

    Runs on the same records are correlated, so overlap of two separate intervals proves nothing.

    - "auc": the intervals of both AUCs, combined by their correlation (Zou & Donner 2008). If most records contribute
      the same to both, little is known of the others, and the ends are widened to Gaffke's bound, as for `auc`. The
      interval of two runs that rank all records alike contains 0 and has a width that depends on the number of records.
    - "advantage": the two intervals, each at half the error. Exact; the pairing does not shorten it.
    - "tpr@fpr=0.01": order statistics of the non-members bracket the threshold of each run; Clopper-Pearson bounds the
      share of members found by one run and not by the other. Exact, and shorter than two separate intervals if the runs
      find the same members.

    Args:
        scores_a: ``[n]``, for example before a defence.
        scores_b: ``[n]``, for example after it; the same records in the same order.
        members: bool ``[n]``.
        statistic: "auc", "advantage" or "tpr@fpr=…".
        confidence: coverage of the interval.

    Raises:
        divulge.InputError: lengths that differ, an unknown statistic, and as for the statistic.

    Examples:
        >>> members = np.arange(8) < 4
        >>> print(paired_difference(members * 1.0, members * 2.0, members))
        0.0000 [-0.7822, 0.7822]
    """
    values_a, truth = check_scores(scores_a, members, "scores_a")
    values_b = check_vector(scores_b, "scores_b", length=len(values_a))
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    if check_string(statistic, "statistic") == "auc":
        area_a, area_b = _area(values_a, truth, error), _area(values_b, truth, error)
        low, high = (float(end) for end in difference_bounds(area_a, area_b, error))
        return Estimate(float(area_a.placed.value - area_b.placed.value), low, high, 1 - error, PAIRED)
    if statistic == "advantage":
        a, b = (advantage(values, truth, 1 - error / 2) for values in (values_a, values_b))
        return Estimate(a.value - b.value, a.low - b.high, a.high - b.low, 1 - error, SEPARATE)
    pairs = (values_a[truth], values_a[~truth]), (values_b[truth], values_b[~truth])
    level = check_fpr(int((~truth).sum()), parse_fpr(statistic))
    return _tpr_difference(*pairs, level, error)


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """The AUC of one run, with the quantities that a comparison with another run needs.

    Attributes:
        placed: placements, of the same records in the same order as in the other run.
        low: lower end of its interval, ``[...]``.
        high: upper end, ``[...]``.
    """

    placed: Placements
    low: Floats
    high: Floats


def _area(values: Floats, truth: Bools, error: float) -> Area:
    placed, level = statistics.placements_from_scores(values, truth)
    return Area(statistics.placements_per_record(placed, level, truth), *statistics.auc_bounds(placed, error))


def difference_bounds(a: Area, b: Area, error: float) -> tuple[Floats, Floats]:
    """Return both ends of the interval of AUC(a) - AUC(b), ``[...]`` each; either errs with half the ``error``."""
    repeated = (a.placed - b.placed).repeated
    return _lower_difference(a, b, repeated, error), -_lower_difference(b, a, repeated, error)


def _lower_difference(a: Area, b: Area, repeated: Floats, error: float) -> Floats:
    shared, v, w = (
        sum(statistics.placement_covariance(x.placed, y.placed, null=0.5)) for x, y in ((a, b), (a, a), (b, b))
    )
    varies = (v > 0) & (w > 0) & np.isfinite(v + w)
    correlation = np.where(varies, np.where(varies, shared, 0.0) / np.sqrt(np.where(varies, v * w, 1.0)), 0.0)
    down, up = a.placed.value - a.low, b.high - b.placed.value
    reach = np.sqrt(np.maximum(down**2 + up**2 - 2 * correlation * down * up, 0.0))
    gap = b.placed - a.placed
    return -np.minimum(statistics.widen_for_ties(gap.value + reach, gap, repeated, 1.0, error / 2), 1.0)


def _tpr_difference(a: tuple[Floats, Floats], b: tuple[Floats, Floats], fpr: float, error: float) -> Estimate:
    m = len(a[0])
    # Each end uses two thresholds and two shares, so it can err in four ways.
    step = error / 8
    strict_a, empirical_a, loose_a = _selections(*a, fpr, step)
    strict_b, empirical_b, loose_b = _selections(*b, fpr, step)
    value = float(empirical_a.mean() - empirical_b.mean())
    low = _net_gain_lower_bound(strict_a, loose_b, m, step)
    high = -_net_gain_lower_bound(strict_b, loose_a, m, step)
    return Estimate(value, low, high, 1 - error, DISCORDANT)


def _net_gain_lower_bound(winner: np.ndarray, loser: np.ndarray, m: int, step: float) -> float:
    """Return a lower bound of P(winner finds it, loser does not) - P(loser finds it, winner does not)."""
    gain = statistics.clopper_pearson_lower((winner & ~loser).sum(), m, step)
    return float(gain - statistics.clopper_pearson_upper((loser & ~winner).sum(), m, step))


def _selections(inside: Floats, outside: Floats, fpr: float, step: float) -> tuple[np.ndarray, ...]:
    """Return masks of members surely, empirically and possibly above the true threshold."""
    n = len(outside)
    padded = np.r_[-np.inf, np.sort(outside), np.inf]
    ranks = (
        statistics.upper_bound_rank(n, fpr, step),
        np.floor(fpr * n + 1e-9) + 1,
        statistics.lower_bound_rank(n, fpr, step),
    )
    return tuple(inside > padded[n + 1 - int(rank)] for rank in ranks)


BaselineAnswer: TypeAlias = Literal["leak found", "no leak found", "too little data to say", "split is confounded"]
Ruling: TypeAlias = Literal["kept", "broken", "undecided"]

MAX_MISSED_GAIN = 0.25  # "no leak found" requires that no AUC exceeds the blind score's by more than this
_GROUP_SIZE = 10  # records in a group of similar blind scores
_MAX_EXACT_GROUPS = 1000  # number of groups up to which the distribution of members among the best is exact


@dataclass(frozen=True, slots=True)
class AttackDifference:
    """One attack compared with the blind score on the same records.

    Attributes:
        attack: statistic → estimate for the attack: "auc", "advantage", "epsilon", "tpr@fpr=…".
        difference: statistic → attack minus blind score. ε has none: scores bound it from below only, and two lower
            bounds give no difference.
        reversed_difference: difference of the AUC with the attack's score reversed.
        p_values: statistic → p-value of the attack's score among records of similar blind score, the larger of two
            tests.
        leak: whether the attack shows more than the blind score, both by the difference and among records of similar
            blind score, with the error divided among all attacks and statistics.
    """

    attack: Mapping[str, Estimate]
    difference: Mapping[str, Estimate]
    reversed_difference: Estimate
    p_values: Mapping[str, float]
    leak: bool


@dataclass(frozen=True, slots=True, repr=False)
class BaselineComparison(ShortRepr):
    """Comparison of attacks with a blind score.

    Attributes:
        answer: "leak found": an attack tells members from non-members better than the blind score does, and among
            records of similar blind score. "split is confounded": none does, and the blind score tells them apart, so
            nothing that attacks found can be attributed to the model. "no leak found": neither the blind score nor
            an attack tells them apart, and no attack's AUC exceeds the blind score's by more than 0.25. Else "too
            little data to say".
        text: the answer in a sentence or two.
        blind: statistic → estimate for the blind score.
        blind_p_value: of the hypothesis that members and non-members have the same distribution of blind scores.
        confounded: whether the blind score tells members from non-members.
        flipped: whether the blind score was reversed, as it was significantly larger for non-members.
        attacks: name → comparison of one attack.
        confidence: of all differences together.
        each: confidence of each interval, so that they hold together.
    """

    answer: BaselineAnswer
    text: str
    blind: Mapping[str, Estimate]
    blind_p_value: float
    confounded: bool
    flipped: bool
    attacks: Mapping[str, AttackDifference]
    confidence: float
    each: float

    def rule(self, statistic: str, limit: float) -> Ruling:
        """Compare every attack's difference from the blind score with a limit.

        The answer is "broken" if the interval of some attack lies above the limit, and "kept" if those of all attacks
        lie within it and the blind score does not tell members from non-members. (If it does, an attack has no room to
        exceed it.)

        Args:
            statistic: "auc", "advantage" or a "tpr@fpr=…" that was compared.
            limit: largest allowed difference, in [0, 1].

        Raises:
            divulge.InputError: a statistic that was not compared, a limit outside [0, 1].
        """
        check_number(limit, "limit", above=0, below=1, closed=True)
        differences = next(iter(self.attacks.values())).difference
        check_choice(statistic, "statistic", tuple(differences))
        intervals = [
            (attack.difference[statistic].low, attack.difference[statistic].high) for attack in self.attacks.values()
        ]
        is_broken = any(
            low > limit and attack.leak for (low, _), attack in zip(intervals, self.attacks.values(), strict=True)
        )
        if statistic == "auc":
            intervals += [
                (attack.reversed_difference.low, attack.reversed_difference.high) for attack in self.attacks.values()
            ]
            is_broken |= any(attack.reversed_difference.low > limit and attack.leak for attack in self.attacks.values())
        if is_broken:
            return "broken"
        return "kept" if not self.confounded and all(high <= limit for _, high in intervals) else "undecided"

    def __str__(self) -> str:
        return self.text


def against_baseline(
    scores: object,
    baseline: object,
    members: object,
    *,
    fpr: Sequence[float] = (0.01,),
    confidence: float = 0.95,
    seed: int = 0,
) -> BaselineComparison:
    """Compare attacks with a blind score: does the model reveal more than a classifier that never saw it?

    Members and non-members of many published tables differ in date, topic or length. A classifier without the model
    then separates them as well as an attack does, and the attack's AUC says nothing about the model (Das, Zhang &
    Tramèr, "Blind baselines beat membership inference attacks", 2024). A leak is claimed only if two comparisons on the
    same records show it:

    - The paired difference, attack minus blind score. If the attack knows no more about membership than the blind
      score, its ROC curve lies nowhere above that of the best classifier computed from the blind score (Neyman &
      Pearson). That is the blind score itself if larger values are more member-like throughout.
    - Records of similar blind score. A blind score that orders records badly (reversed, or member-like at both ends) is
      exceeded by an attack that merely uses it better. Among records of similar blind score such an attack shows
      nothing (van Elteren's test; for the best few, the exact distribution of members among them), also once the rest
      of the dependence on the blind score among them is taken out (`adjusted_rank_test`), as where members are of a
      range of dates.

    Args:
        scores: of one attack ``[n]``, or name → scores ``[n]`` of several; larger means more like a member.
        baseline: the blind score ``[n]``, larger means more like a member. It must not come from a classifier that was
            fitted on the membership of these very records: take out-of-fold predictions.
        members: bool ``[n]``.
        fpr: false-positive rates at which TPRs are compared, where there are ``1/fpr - 1`` non-members.
        confidence: of all differences together; without a leak "leak found" has probability at most 1 - ``confidence``.
        seed: of the permutations that are used if blind scores tie.

    Raises:
        divulge.InputError: NaN or infinity, lengths that differ, no attack, members or non-members only.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> members = np.arange(2000) < 1000
        >>> blind = rng.normal(size=2000) + members  # the members are of another year
        >>> against_baseline(blind + 0.5 * rng.normal(size=2000), blind, members).answer
        'split is confounded'
        >>> against_baseline(blind + members, blind, members).answer
        'leak found'
    """
    scores_by_attack = dict(scores) if isinstance(scores, Mapping) else {"attack": scores}
    if not scores_by_attack:
        raise InputError("scores: at least 1 attack is needed, got none")
    blind, truth = check_scores(baseline, members, "baseline")
    attacks = {
        str(name): check_scores(values, members, _argument_name(name, scores))[0]
        for name, values in scores_by_attack.items()
    }
    for name, values in attacks.items():
        check_vector(values, _argument_name(name, scores), length=len(blind))
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    levels = [level for level in as_list(fpr, "fpr") if (~truth).sum() >= min_nonmembers(level)]
    rates = [f"tpr@fpr={level:g}" for level in dict.fromkeys(levels)]
    each = 1 - error / (len(attacks) * (1 + len(rates)))

    blind_p_value = statistics.two_sample_p_value(
        blind[~truth], blind[truth], seed=check_integer(seed, "seed", minimum=0)
    )
    blind_estimates = {
        statistic: measure(blind, truth, statistic, 1 - error / (2 * (1 + len(rates)))) for statistic in ("auc", *rates)
    }
    flipped = blind_estimates["auc"].high < 0.5
    blind = -blind if flipped else blind
    beats_chance_early = any(
        blind_estimates[rate].low > level for rate, level in zip(rates, dict.fromkeys(levels), strict=True)
    )
    confounded = blind_p_value <= error / 2 or blind_estimates["auc"].low > 0.5 or flipped or beats_chance_early
    # About ten records of similar blind score; equal scores share a group.
    groups = np.floor((stats.rankdata(blind) - 0.5) / _GROUP_SIZE)
    comparisons = {name: _compare_attack(values, blind, truth, rates, groups, each) for name, values in attacks.items()}
    blind_shown = {
        statistic: measure(blind, truth, statistic, each) for statistic in ("auc", "advantage", *rates, "epsilon")
    }
    answer, text = _conclude(comparisons, blind_shown, confounded, rates)
    return BaselineComparison(
        answer, text, blind_shown, blind_p_value, confounded, flipped, comparisons, confidence, each
    )


def _argument_name(name: object, scores: object) -> str:
    return f"scores[{name!r}]" if isinstance(scores, Mapping) else "scores"


def _compare_attack(
    values: Floats, blind: Floats, truth: Bools, rates: Sequence[str], groups: Floats, confidence: float
) -> AttackDifference:
    attack_estimates = {
        statistic: measure(values, truth, statistic, confidence)
        for statistic in ("auc", "advantage", *rates, "epsilon")
    }
    difference = {
        statistic: paired_difference(values, blind, truth, statistic, confidence)
        for statistic in ("auc", "advantage", *rates)
    }
    reversed_difference = paired_difference(-values, blind, truth, "auc", confidence)
    p_values = {
        "auc": max(stratified_rank_test(values, truth, groups), adjusted_rank_test(values, truth, groups, blind))
    }
    for rate in rates:
        share = float(rate.partition("=")[2])
        p_values[rate] = max(
            stratified_top_test(values, truth, groups, share), adjusted_top_test(values, truth, groups, blind, share)
        )
    error = 1 - confidence
    is_leak = p_values["auc"] <= error and max(difference["auc"].low, reversed_difference.low) > 0
    is_leak |= any(p_values[rate] <= error and difference[rate].low > 0 for rate in rates)
    return AttackDifference(attack_estimates, difference, reversed_difference, p_values, bool(is_leak))


def stratified_rank_test(scores: Floats, truth: Bools, groups: Floats) -> float:
    """Return the two-sided p-value of van Elteren's stratified rank-sum test, in ``O(n log n)``.

    Null hypothesis: within each group, scores of members and non-members have one distribution.

    Args:
        scores: ``[n]``.
        truth: bool ``[n]``.
        groups: of similar records ``[n]``.
    """
    group_index, size, rank = _ranks_within_groups(scores, groups)
    rank -= (size[group_index] + 1) / 2
    m = np.bincount(group_index, weights=truth)
    usable = (m > 0) & (m < size)
    rank_sums = np.bincount(group_index, weights=rank * truth)
    squared_ranks = np.bincount(group_index, weights=rank**2)
    n = size.astype(np.float64)
    total = float((rank_sums / (n + 1))[usable].sum())
    part = m * (n - m) * squared_ranks / (n * np.maximum(n - 1, 1) * (n + 1) ** 2)
    variance = float(part[usable].sum())
    return 2 * float(stats.norm.sf(abs(total) / variance**0.5)) if variance > 0 else 1.0


def _ranks_within_groups(values: Floats, groups: Array) -> tuple[Ints, Ints, Floats]:
    """Return the group of each record by number, the size of each group, and mid-ranks within groups, from 1."""
    _, group_index, size = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.lexsort((values, group_index))
    # Mid-ranks within groups are mid-ranks in the table of (group, value) minus the number of records of earlier
    # groups.
    starts_run = np.r_[True, (np.diff(group_index[order]) > 0) | (np.diff(values[order]) > 0)]
    run_starts, run_lengths = np.flatnonzero(starts_run), np.bincount(np.cumsum(starts_run) - 1)
    rank = np.empty(len(values))
    rank[order] = (run_starts + (run_lengths + 1) / 2)[np.cumsum(starts_run) - 1]
    return group_index, size, rank - (np.cumsum(size) - size)[group_index]


def adjusted_rank_test(scores: Floats, truth: Bools, groups: Floats, blind: Floats) -> float:
    """Return the two-sided p-value of the rank test within groups, adjusted for the blind score within each group.

    Ten records of similar blind score need not be alike where membership changes fast with it, as at the end of a range
    of dates. A score that merely uses the blind score better then finds members within the group. So ranks of scores
    and membership are both made relative to a parabola in the rank of the blind score, group by group, and their
    products are summed. Null hypothesis: within each group, scores depend on the blind score by such a parabola alone.

    Args:
        scores: ``[n]``.
        truth: bool ``[n]``.
        groups: of similar records ``[n]``.
        blind: the blind score ``[n]``.
    """
    group_index, size, rank = _ranks_within_groups(scores, groups)
    residuals, residual_dof = _relative_to_parabolas(
        np.column_stack([rank, truth.astype(np.float64)]), group_index, size, blind
    )
    m = np.bincount(group_index, weights=truth)
    usable = (m > 0) & (m < size) & (residual_dof > 0)
    products, ranks, members = (
        np.bincount(group_index, weights=residuals[:, i] * residuals[:, j]) for i, j in ((0, 1), (0, 0), (1, 1))
    )
    weight = 1 / (size + 1.0)
    total = float((weight * products)[usable].sum())
    variance = float((weight**2 * ranks * members / np.maximum(residual_dof, 1))[usable].sum())
    return 2 * float(stats.t.sf(abs(total) / variance**0.5, residual_dof[usable].sum())) if variance > 0 else 1.0


def _relative_to_parabolas(columns: Floats, group_index: Ints, size: Ints, blind: Floats) -> tuple[Floats, Ints]:
    """Return columns ``[n, k]`` less their fit, and the degrees of freedom left ``[groups]``.

    In each group, every column is fitted by a parabola in the rank of the blind score.
    """
    rank = _ranks_within_groups(blind, group_index)[2]
    place = (2 * rank - size[group_index] - 1) / np.maximum(size[group_index] - 1, 1)  # from -1 to 1
    powers = place[:, None] ** np.arange(3)

    def sums(values: Floats) -> Floats:
        return np.stack([np.bincount(group_index, column).astype(np.float64) for column in values.T], axis=1)

    gram = np.stack([sums(powers * powers[:, [i]]) for i in range(3)], axis=1)
    inverse = np.linalg.pinv(gram, rcond=1e-9, hermitian=True)
    moments = np.stack([sums(columns * powers[:, [i]]) for i in range(3)], axis=1)
    fit = np.einsum("ni,nik->nk", powers, (inverse @ moments)[group_index])
    # Rounded, so that what a parabola explains leaves nothing.
    return np.round(columns - fit, 9), size - np.linalg.matrix_rank(gram, rtol=1e-9, hermitian=True)


def stratified_top_test(scores: Floats, truth: Bools, groups: Floats, share: float) -> float:
    """Return the p-value of the number of members among the best ``share`` of all records, given their groups.

    Null hypothesis: within each group every record is a member with equal probability. The number of members among the
    best is then a sum of hypergeometric counts; its distribution is exact for up to 1,000 groups and normal otherwise.
    """
    best = _select_best(scores, share)
    if not best.any():
        return 1.0
    _, group_index = np.unique(groups, return_inverse=True)
    size, m, n_best_in_group = (
        np.bincount(group_index, weights=part) for part in (np.ones(len(group_index)), truth, best)
    )
    is_informative = (n_best_in_group > 0) & (m > 0) & (m < size)
    n_certain = int(np.minimum(n_best_in_group, m)[m == size].sum())
    n_hits = int((best & truth).sum()) - n_certain
    if not is_informative.any():
        return 1.0
    size, m, n_best_in_group = size[is_informative], m[is_informative], n_best_in_group[is_informative]
    if len(size) > _MAX_EXACT_GROUPS:
        mean = float((n_best_in_group * m / size).sum())
        variance = float(
            (n_best_in_group * m * (size - m) * (size - n_best_in_group) / (size**2 * np.maximum(size - 1, 1))).sum()
        )
        return float(stats.norm.sf((n_hits - 0.5 - mean) / variance**0.5)) if variance > 0 else 1.0
    distribution = np.ones(1)
    for group_size, n_members, n_best in zip(size.astype(int), m.astype(int), n_best_in_group.astype(int), strict=True):
        distribution = np.convolve(
            distribution, stats.hypergeom.pmf(np.arange(n_best + 1), group_size, n_members, n_best)
        )
    return min(1.0, float(distribution[n_hits:].sum()))


def adjusted_top_test(scores: Floats, truth: Bools, groups: Floats, blind: Floats, share: float) -> float:
    """Return the p-value of the number of members among the best ``share``, given the blind score within each group.

    As in `adjusted_rank_test`, a parabola in the rank of the blind score says how likely each record of a group is to
    be a member. Null hypothesis: the best records are members with these probabilities, independently. Each
    probability was fitted to the record itself among others, so the p-value is too large rather than too small.

    Args:
        scores: ``[n]``.
        truth: bool ``[n]``.
        groups: of similar records ``[n]``.
        blind: the blind score ``[n]``.
        share: of the records.
    """
    best = _select_best(scores, share)
    _, group_index, size = np.unique(groups, return_inverse=True, return_counts=True)
    residuals, _ = _relative_to_parabolas(truth[:, None] * 1.0, group_index, size, blind)
    chances = np.clip(truth - residuals[:, 0], 0.0, 1.0)[best]
    n_hits = int((best & truth).sum())
    if len(chances) > _MAX_EXACT_GROUPS:
        mean, variance = float(chances.sum()), float((chances * (1 - chances)).sum())
        return float(stats.norm.sf((n_hits - 0.5 - mean) / variance**0.5)) if variance > 0 else 1.0
    distribution = np.ones(1)
    for chance in chances:
        distribution = np.convolve(distribution, [1 - chance, chance])
    return min(1.0, float(distribution[n_hits:].sum()))


def _select_best(scores: Floats, share: float) -> Bools:
    """Return the mask of the best ``share`` of all records."""
    return scores > np.sort(scores)[::-1][min(int(share * len(scores)), len(scores) - 1)]


def _conclude(
    attacks: Mapping[str, AttackDifference], blind: Mapping[str, Estimate], confounded: bool, rates: Sequence[str]
) -> tuple[BaselineAnswer, str]:
    def largest_lower_bound(name: str) -> float:
        attack = attacks[name]
        return max(attack.reversed_difference.low, *(difference.low for difference in attack.difference.values()))

    leaking = [name for name, attack in attacks.items() if attack.leak]
    if leaking:
        attack = attacks[best := max(leaking, key=largest_lower_bound)]
        is_reversed = attack.reversed_difference.low > max(
            attack.difference[statistic].low for statistic in ("auc", *rates)
        )
        pairs = {statistic: attack.difference[statistic] for statistic in ("auc", *rates)}
        statistic = max(pairs, key=lambda name: pairs[name].low)
        shown_difference = attack.reversed_difference if is_reversed else pairs[statistic]
        description = (
            "the AUC of the reversed score"
            if is_reversed
            else "the AUC"
            if statistic == "auc"
            else f"the TPR ({statistic[4:]})"
        )
        return "leak found", (
            f"Leak found: {best} tells members from non-members better than the blind score does; {description} is "
            f"larger by {shown_difference}."
        )
    closest = max(attacks, key=largest_lower_bound)
    difference = attacks[closest].difference["auc"]
    if confounded:
        return "split is confounded", (
            f"The split is confounded: the blind score, which never saw the model, tells members from non-members "
            f"(AUC {blind['auc']}), and no attack is shown to add to it (AUC of {closest} less that of the blind "
            f"score: {difference}). Nothing that attacks found can be attributed to the model."
        )
    largest_gain = max(
        max(attack.difference["auc"].high, attack.reversed_difference.high) for attack in attacks.values()
    )
    if any(_is_beyond_chance(attack, rates) for attack in attacks.values()):
        return "too little data to say", (
            "Too little data to say: an attack does better than guessing, but not surely better than the blind "
            f"score does (AUC of {closest} less that of the blind score: {difference})."
        )
    if largest_gain <= MAX_MISSED_GAIN:
        return "no leak found", (
            "No leak found: neither the blind score nor an attack tells members from non-members, and no attack's AUC "
            f"exceeds the blind score's by more than {largest_gain:.3f}."
        )
    return "too little data to say", (
        f"Too little data to say: an attack's AUC may exceed the blind score's by {largest_gain:.3f}; "
        f"{MAX_MISSED_GAIN:g}, halfway between guessing and certainty, could well be missed."
    )


def _is_beyond_chance(difference: AttackDifference, rates: Sequence[str]) -> bool:
    auc = difference.attack["auc"]
    beats_chance_early = any(difference.attack[rate].low > float(rate.partition("=")[2]) for rate in rates)
    return auc.low > 0.5 or auc.high < 0.5 or beats_chance_early or difference.attack["epsilon"].low > 0
