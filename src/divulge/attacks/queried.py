"""Attacks that ask about several versions of every record."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.attacks import needs
from divulge.attacks.protocol import Need, Scored, Scores, adapt, seeded
from divulge.attacks.rmia import NEARLY, RMIA, untied
from divulge.validation import check_instance, require_callable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Evidence, Floats

# Comparisons held at once.
_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True)
class Averaged:
    """The mean of another attack's scores over all versions of each record.

    With `LiRA` inside, this is the attack of Carlini et al. 2022 (arXiv:2112.03570) with several queries, as its
    authors' code computes it: Gaussians for each version by itself, and the mean of the log-likelihood ratios. Offline
    it is the mean of the one-sided z-scores (see `LiRA` for why they are one-sided).

    Args:
        inner: the attack on one version.

    Raises:
        divulge.InputError: an inner attack without ``score``.

    Examples:
        >>> from divulge import Evidence
        >>> from divulge.attacks import LiRA
        >>> flipped = Evidence([1.0, 0.0], references=[[0.0, 0.0], [0.0, 0.0]])
        >>> evidence = Evidence([3.0, 0.0], references=[[0.0, 0.0], [0.0, 0.0]], queries=[flipped])
        >>> Averaged(LiRA()).score(evidence)
        array([2., 0.])
    """

    inner: Scores

    def __post_init__(self) -> None:
        require_callable(self.inner, "Averaged.inner", "score")

    @property
    def needs(self) -> frozenset[Need]:
        """What the inner attack needs, on further versions too."""
        return adapt(self.inner).needs | {Need.QUERIES}

    @property
    def least_references(self) -> int:
        """As many as the inner attack."""
        return adapt(self.inner).least_references

    def score(self, evidence: Evidence) -> Floats:
        """Mean scores ``[n]``.

        Raises:
            divulge.InputError: no further versions, and what the inner attack raises.
        """
        return self.run(evidence).scores

    def run(self, evidence: Evidence) -> Scored:
        """`score`, with what the inner attack has to say of any version.

        Raises:
            divulge.InputError: as `score`.
        """
        version_scores = [adapt(self.inner).run(version) for version in _versions(evidence, "Averaged")]
        notes = dict.fromkeys(note for scored in version_scores for note in scored.notes)
        return Scored(np.mean([scored.scores for scored in version_scores], axis=0), tuple(notes))

    def seeded(self, seed: int) -> Averaged:
        """The same of the inner attack with this seed, where it draws."""
        return replace(self, inner=seeded(self.inner, seed))


@dataclass(frozen=True, slots=True)
class MajorityRMIA:
    """RMIA, where a candidate dominates a population record if more than half of its versions do.

    Zarifzadeh et al. 2024 (arXiv:2312.03262) with several queries, as their code computes it: each version of the
    candidate is held against the same version of the population record. The versions vote; half of them are not
    enough. With an empty ``queries`` it is `RMIA`.

    Args:
        inner: the attack, with its constants.

    Raises:
        divulge.InputError: an inner attack that is not `RMIA`.

    Examples:
        >>> from divulge import Evidence
        >>> same = {"references": [[0.5, 0.5]], "population": [0.3, 0.6], "population_references": [[0.5, 0.5]]}
        >>> def asked(target):
        ...     return Evidence(target, **same)
        >>> from dataclasses import replace
        >>> evidence = replace(asked([0.7, 0.4]), queries=(asked([0.8, 0.1]), asked([0.1, 0.4])))
        >>> MajorityRMIA(RMIA(ranking="published")).score(evidence)
        array([1. , 0.5])
    """

    inner: RMIA = field(default_factory=RMIA)

    def __post_init__(self) -> None:
        check_instance(self.inner, "MajorityRMIA.inner", RMIA, "a divulge.attacks.RMIA")

    @property
    def needs(self) -> frozenset[Need]:
        """What RMIA needs, on further versions too."""
        return self.inner.needs | {Need.QUERIES}

    @property
    def least_references(self) -> int:
        """As many as RMIA."""
        return self.inner.least_references

    def score(self, evidence: Evidence) -> Floats:
        """Dominated share of the population, ``[n]``, in [0, 1]; O(n·z) comparisons a version, in blocks.

        Raises:
            divulge.InputError: no further versions, and what `RMIA` raises.
        """
        pairs = [self.inner.ratios(version) for version in _versions(evidence, "MajorityRMIA")]
        ratios, population = (np.stack(part) for part in zip(*pairs, strict=True))
        share = outvoted(ratios, population, self.inner.gamma)
        return share if self.inner.ranking == "published" else untied(share, np.median(ratios, axis=0))

    def run(self, evidence: Evidence) -> Scored:
        """`score`, as an audit takes it."""
        return Scored(self.score(evidence))

    def seeded(self, seed: int) -> MajorityRMIA:
        """The same: it makes no random draws."""
        return self


def outvoted(ratios: Floats, population: Floats, gamma: float) -> Floats:
    """Share of population records z with ``ratio ≥ γ·z`` in more than half of the versions, for each candidate.

    Args:
        ratios: likelihood ratios of the candidates' versions, ``[v, n]``.
        population: likelihood ratios of the same versions of the population, ``[v, z]``.
        gamma: the factor γ > 0.

    Examples:
        >>> outvoted(np.array([[2.0], [2.0], [0.0]]), np.array([[1.0, 3.0], [1.0, 1.0], [1.0, 1.0]]), 1.0)
        array([0.5])
    """
    versions, n = ratios.shape
    # Places in the sorted population say the same as ratios, and take a quarter of the bytes.
    thresholds = gamma * (1.0 - NEARLY) * population
    ordered = np.sort(thresholds, axis=1)
    beaten = np.stack([np.searchsorted(*pair, side="right") for pair in zip(ordered, ratios, strict=True)])
    place = np.stack([np.searchsorted(*pair, side="left") for pair in zip(ordered, thresholds, strict=True)])
    beaten, place = beaten.astype(np.int32), place.astype(np.int32)
    share, width = np.empty(n), max(1, _BLOCK // population.shape[1])
    for start in range(0, n, width):
        votes = sum((place[v] < beaten[v, start : start + width, None]).astype(np.int16) for v in range(versions))
        share[start : start + width] = (2 * votes > versions).mean(axis=1)
    return share


def _versions(evidence: Evidence, attack: str) -> Sequence[Evidence]:
    further_versions = needs.part(
        evidence.queries, attack, "queries", "the same evidence of further versions of the records"
    )
    return (evidence, *further_versions)
