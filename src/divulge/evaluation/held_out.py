"""Three sets compared: were non-members and population both held out, as the audit is told?

Members against non-members shows no leak if the model was trained on both, be it by a last fit on everything or by a
test set that got into training. The population tells: non-members that were held out score like it, and non-members
that were trained on score higher. The other way round, a population that was trained on scores above the non-members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

from divulge import statistics
from divulge.duplicates import first_of_each_group

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Estimate, Floats, Ints

FALSE_ALARM = 0.001
"""Probability that sets which were both held out are said to differ, by all attacks together."""
_HINT_CONFIDENCE = 0.95  # what held-out sets exceed by chance costs time, and decides nothing
_POWER = 0.8
_MAX_EXACT = 100  # records of which all orders are counted


@dataclass(frozen=True, slots=True, eq=False)
class SetScores:
    """Scores of an attack in the three sets, larger = more like a member.

    Args:
        members: ``[m]``.
        nonmembers: ``[n]``.
        population: ``[k]``, records that nothing was fitted to which the scores depend on.
    """

    members: Floats
    nonmembers: Floats
    population: Floats

    def area(self, above: str, below: str, confidence: float) -> Estimate:
        """Return the AUC of one set against another: P(a record of ``above`` outscores one of ``below``).

        Examples:
            >>> scores = SetScores(np.arange(50.0), np.arange(50.0), np.arange(50.0) - 40)
            >>> print(scores.area("nonmembers", "population", 0.95))
            0.9800 [0.8979, 0.9964]
        """
        first, second = getattr(self, above), getattr(self, below)
        return statistics.auc(np.append(first, second), np.arange(len(first) + len(second)) < len(first), confidence)

    def hint_at_use(self, *, despite_leak: bool) -> bool:
        """Return whether it is worth a closer look if the sets were held out: what chance does once in ten audits.

        Args:
            despite_leak: whether members score above non-members, so that they may score above the population as well.

        Examples:
            >>> rng = np.random.default_rng(0)
            >>> sets = SetScores(*rng.normal(size=(2, 300)) + 0.3, rng.normal(size=300))
            >>> sets.hint_at_use(despite_leak=True)
            True
        """
        return excludes_chance(self.area("nonmembers", "population", _HINT_CONFIDENCE)) or (
            not despite_leak and any(area.low > 0.5 for area in self.areas_above_population(_HINT_CONFIDENCE))
        )

    def areas_above_population(self, confidence: float) -> tuple[Estimate, Estimate]:
        """Return the AUC of members, and of members and non-members together, against the population."""
        both = SetScores(np.append(self.members, self.nonmembers), self.nonmembers, self.population)
        members, candidates = (sets.area("members", "population", confidence) for sets in (self, both))
        return members, candidates


def compare_held_out(
    scores: Mapping[str, SetScores], *, false_alarm: float = FALSE_ALARM, n_attacks: int | None = None
) -> dict[str, Estimate]:
    """Return the AUC of non-members against population by each attack, with intervals that hold together.

    If both sets were held out and are drawn alike, an interval excludes ½ with probability at most ``false_alarm``,
    over all attacks and both directions (Bonferroni).

    Args:
        scores: attack → scores of the three sets; at least one record each.
        false_alarm: probability of error of all intervals together.
        n_attacks: how many attacks they are of, where ``scores`` are of some of them.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> held_out = SetScores(rng.normal(size=300) + 2, rng.normal(size=300), rng.normal(size=300))
        >>> used = SetScores(rng.normal(size=300) + 2, rng.normal(size=300) + 2, rng.normal(size=300))
        >>> [round(area.low, 1) for area in compare_held_out({"loss": held_out, "deep": used}).values()]
        [0.4, 0.9]
    """
    confidence = 1 - false_alarm / (n_attacks or max(1, len(scores)))
    return {name: sets.area("nonmembers", "population", confidence) for name, sets in scores.items()}


def rank_held_out(scores: Mapping[str, SetScores], *, n_attacks: int | None = None) -> list[str]:
    """Return attacks by which non-members surely score above the population, the surest first.

    By the interval of `compare_held_out`; of few records also by the one-sided rank-sum test, exact also with ties. If
    both sets were held out and are drawn alike, an attack is returned with probability at most `FALSE_ALARM`, over all
    attacks (Bonferroni; half for either).

    Args:
        scores: attack → scores of the three sets; at least one record each.
        n_attacks: as for `compare_held_out`.

    Examples:
        >>> used, held_out = np.arange(20.0, 32.0), np.arange(12.0)
        >>> rank_held_out({"loss": SetScores(used, used, held_out), "other": SetScores(used, held_out, held_out)})
        ['loss']
    """
    level, p_values = FALSE_ALARM / 2 / (n_attacks or max(1, len(scores))), dict[str, float]()
    for name, area in compare_held_out(scores, n_attacks=n_attacks).items():
        sets = scores[name]
        if area.low > 0.5:
            p_values[name] = 0.0
        elif len(sets.nonmembers) + len(sets.population) <= _MAX_EXACT and sets.hint_at_use(despite_leak=True):
            p_values[name] = _rank_sum_p_value(sets.nonmembers, sets.population)
    return sorted((name for name, p_value in p_values.items() if p_value <= level), key=lambda name: p_values[name])


def _rank_sum_p_value(first: Floats, second: Floats) -> float:
    """Return the share of all ways to choose as many records as ``first`` whose ranks add up to as much, or more."""
    ranks = np.rint(2 * stats.rankdata(np.append(first, second))).astype(np.int64)  # whole numbers also with ties
    ways = np.zeros((len(first) + 1, int(ranks.sum()) + 1))  # by how many are chosen, and the sum of their ranks
    ways[0, 0] = 1
    for rank in ranks.tolist():
        ways[1:, rank:] += ways[:-1, :-rank].copy()
    chosen = ways[len(first)]
    return float(chosen[ranks[: len(first)].sum() :].sum() / chosen.sum())


def find_hidden_leaks(
    scores: Mapping[str, SetScores], *, false_alarm: float = FALSE_ALARM, n_attacks: int | None = None
) -> list[str]:
    """Return attacks by which members surely score above the population, or members and non-members together do.

    If a model was trained on the non-members as well, these show its leak though members against non-members show none:
    non-members like members double the sample. Of a model that leaks nothing an attack is returned with probability at
    most ``false_alarm``, over all attacks; half of it is left for each of the two comparisons, as they are one-sided.

    Args:
        scores: attack → scores of the three sets, of which the records alone explain nothing.
        false_alarm: probability of error.
        n_attacks: as for `compare_held_out`.

    Returns:
        Names, the surest first.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> weak = SetScores(*rng.normal(size=(2, 300)) + 0.3, rng.normal(size=300))
        >>> find_hidden_leaks({"loss": weak})
        ['loss']
    """
    confidence = 1 - false_alarm / (n_attacks or max(1, len(scores)))
    lows = {name: max(area.low for area in sets.areas_above_population(confidence)) for name, sets in scores.items()}
    return sorted((name for name, low in lows.items() if low > 0.5), key=lambda name: -lows[name])


def excludes_chance(area: Estimate) -> bool:
    """Return whether the interval of an AUC excludes ½."""
    return area.low > 0.5 or area.high < 0.5


def smallest_share_seen(nonmember_area: Estimate, member_area: Estimate) -> float | None:
    """Return the smallest share of the non-members whose training `compare_held_out` would have seen with 80 %.

    Trained on, a share s of them takes their AUC against the population from ½ to ½ + s·(a - ½), where ``a`` is that of
    members. None where no share would have been seen: where members hardly score above the population.

    Args:
        nonmember_area: of non-members against population, with the interval that decides.
        member_area: of members against population.

    Examples:
        >>> from divulge.types import Estimate
        >>> around_chance = Estimate(0.5, 0.43, 0.57, 0.999, "delong")
        >>> round(smallest_share_seen(around_chance, Estimate(0.9, 0.85, 0.95, 0.999, "delong")), 2)
        0.22
    """
    reach = nonmember_area.value - nonmember_area.low
    standard_error = reach / -special.ndtri((1 - nonmember_area.confidence) / 2)
    share = (reach + special.ndtri(_POWER) * standard_error) / max(member_area.value - 0.5, 1e-12)
    return float(share) if member_area.low > 0.5 and share <= 1 else None


def comparable_rows(
    rows: Mapping[str, Ints], groups: Ints, labels: Ints | None, unseen_classes: Sequence[int] = ()
) -> dict[str, Ints]:
    """Return the rows of each set that can be compared with the other two.

    Equal records of a set count once, as they are not independent. A copy of a member is known to a model that learned
    the member, so it is left out of the other sets. Classes of non-members that the population lacks, or the reverse,
    are left out of all three where that is no chance.

    Args:
        rows: "members", "nonmembers" and "population" → rows of their records.
        groups: number of the distinct record that each record is, ``[r]``.
        labels: classes ``[r]``, or None.
        unseen_classes: classes of which the population is known to have none.

    Examples:
        >>> rows = {"members": np.arange(2), "nonmembers": np.arange(2, 5), "population": np.arange(5, 8)}
        >>> kept = comparable_rows(rows, np.array([0, 1, 1, 2, 2, 3, 4, 5]), None)
        >>> kept["nonmembers"].tolist(), kept["population"].tolist()
        ([3], [5, 6, 7])
    """
    kept = {name: part[first_of_each_group(groups[part], np.zeros(len(part)))] for name, part in rows.items()}
    for name in ("nonmembers", "population"):
        kept[name] = kept[name][~np.isin(groups[kept[name]], groups[kept["members"]])]
    if labels is None:
        return kept
    sides = labels[kept["nonmembers"]], labels[kept["population"]]
    missing = [statistics.find_missing_classes(*sides), statistics.find_missing_classes(*reversed(sides))]
    unshared = np.concatenate([np.asarray(unseen_classes, dtype=np.int64), *missing])
    return {name: part[~np.isin(labels[part], unshared)] for name, part in kept.items()}
