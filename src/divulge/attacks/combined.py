"""Several attacks in one score, where none is best everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from divulge.attacks.protocol import Need, Scored, Scores, adapt, seeded
from divulge.errors import InputError
from divulge.validation import as_list, require_callable

if TYPE_CHECKING:
    from divulge.types import Evidence, Floats


@dataclass(frozen=True, slots=True)
class Combined:
    """The mean rank of each candidate under several attacks on one signal.

    Ranks among the candidates need no common unit and no calibration of either attack; they are the p-values of
    each attack against the candidates themselves, merged by their mean (Vovk & Wang 2020, doi:10.1093/biomet/asaa027,
    bound twice the mean of p-values under any dependence). The result is a score, not a p-value: a decision on it
    is calibrated like any other.

    Args:
        attacks: at least two.

    Examples:
        >>> from divulge import Evidence
        >>> from divulge.attacks import Calibrated, Threshold
        >>> evidence = Evidence([3.0, 2.0, 1.0], references=[[3.0, 0.0, 1.0]])
        >>> Combined((Threshold(), Calibrated())).score(evidence).round(3)
        array([0.75 , 0.833, 0.417])
    """

    attacks: tuple[Scores, ...]

    def __post_init__(self) -> None:
        attacks = tuple(as_list(self.attacks, "Combined.attacks"))
        if len(attacks) < 2:
            raise InputError(f"Combined.attacks: at least 2 are needed, got {len(attacks)}")
        for attack in attacks:
            require_callable(attack, "Combined.attacks", "score")
        object.__setattr__(self, "attacks", attacks)

    @property
    def needs(self) -> frozenset[Need]:
        """What any of the attacks needs."""
        return frozenset().union(*(adapt(attack).needs for attack in self.attacks))

    @property
    def least_references(self) -> int:
        """As many as the attack that needs most."""
        return max(adapt(attack).least_references for attack in self.attacks)

    def score(self, evidence: Evidence) -> Floats:
        """Mean of the ranks, in (0, 1], ``[n]``; ties share their mean rank.

        Raises:
            divulge.InputError: as the attacks do.
        """
        return self.run(evidence).scores

    def run(self, evidence: Evidence) -> Scored:
        """`score`, with what every attack has to say."""
        parts = [adapt(attack).run(evidence) for attack in self.attacks]
        ranks = [stats.rankdata(scored.scores) for scored in parts]
        return Scored(np.mean(ranks, axis=0) / len(evidence), tuple(note for scored in parts for note in scored.notes))

    def seeded(self, seed: int) -> Combined:
        """The same of attacks with this seed, where they draw."""
        return Combined(tuple(seeded(attack, seed) for attack in self.attacks))
