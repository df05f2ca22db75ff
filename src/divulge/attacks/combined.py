"""Several attacks in one score, where none is best everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from divulge import checks

if TYPE_CHECKING:
    from divulge.types import Evidence, Floats


class Scores(Protocol):
    """An attack."""

    def score(self, evidence: Evidence) -> Floats:
        """Scores ``[n]``, larger = more like a member."""
        ...


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
        if len(self.attacks) < 2:
            raise checks.InputError(f"Combined.attacks: at least 2 are needed, got {len(self.attacks)}")

    def score(self, evidence: Evidence) -> Floats:
        """Mean of the ranks, in (0, 1], ``[n]``; ties share their mean rank.

        Raises:
            divulge.InputError: as the attacks do.
        """
        from scipy.stats import rankdata

        ranks = [rankdata(attack.score(evidence)) for attack in self.attacks]
        return np.mean(ranks, axis=0) / len(evidence)
