"""RMIA and BASE: the target's probability of a record relative to that under reference models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from divulge.attacks import protocol
from divulge.attacks.protocol import Attack, Need
from divulge.attacks.reference_moments import log_mean, moments
from divulge.errors import InputError
from divulge.validation import check_choice, check_instance, check_number

if TYPE_CHECKING:
    from divulge.types import Bools, Evidence, Floats

# Below every probability a float32 softmax can give (1.4e-45), and far from where a ratio of two overflows.
_SMALLEST_PROBABILITY = 1e-100
# Ratios that are equal on paper differ by less than this share when their sums were rounded differently.
NEARLY = 1e-12
_TIE = 1e-9
# Comparisons held at once.
_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True)
class RMIA(Attack):
    """Share of population records that the candidate's likelihood ratio dominates.

    Zarifzadeh et al. 2024 (arXiv:2312.03262), equations 2-4 and 10. The evidence holds *probabilities of
    the true class* (the "confidence" signal), not logits. With ``ratio_x = p_target(x) / p(x)``, the
    published score is the share of population records z with ``ratio_x / ratio_z ≥ γ``.

    ``p(x)`` is what a model says of x that is not known to hold it. Online (``offline_a=None``): the mean
    over all references, of which about half were trained on x. Offline: ``½[(1 + a)·p_out + (1 - a)]``,
    where p_out is the mean over the models not trained on x (all of them when ``trained_on`` is None);
    a record without any takes the mean of all OUT values. The population is treated the same way, with
    ``population_trained_on``.

    With one target the published score is an empirical distribution function of ``ratio_x / γ``: one
    sort and one look-up, O((n + z)·log z), and never an n × z matrix. It takes z + 1 values, so the
    records at the top tie at 1, and any threshold that catches one catches all: the true-positive rate
    at small false-positive rates reads 0. ``ranking="tie-free"`` lets the ratio itself break the ties:
    it moves the score by less than 1e-9 (the published number to nine digits, its order kept).

    Args:
        gamma: how many times the candidate's ratio must exceed the population's; > 0.
        offline_a: the constant a in [0, 1] that stands in for the IN models, or None for online.
        ranking: "tie-free" or "published".

    Examples:
        >>> from divulge import Evidence
        >>> evidence = Evidence(target=[0.9, 0.2], references=[[0.5, 0.4]],
        ...                     population=[0.5, 0.1], population_references=[[0.5, 0.5]])
        >>> RMIA(ranking="published").score(evidence)
        array([1. , 0.5])
    """

    gamma: float = 1.0
    offline_a: float | None = 0.3
    ranking: Literal["tie-free", "published"] = "tie-free"

    def __post_init__(self) -> None:
        check_number(self.gamma, "RMIA.gamma", above=0)
        if self.offline_a is not None:
            check_number(self.offline_a, "RMIA.offline_a", above=0, below=1, closed=True)
        check_choice(self.ranking, "RMIA.ranking", ("tie-free", "published"))

    @property
    def needs(self) -> frozenset[Need]:
        """Reference models, of the kind that ``offline_a`` says, and the population."""
        references = Need.REFERENCES_IN_AND_OUT if self.offline_a is None else Need.REFERENCES_OUT
        return frozenset({references, Need.POPULATION})

    def score(self, evidence: Evidence) -> Floats:
        """Dominated share of the population, ``[n]``, in [0, 1].

        Raises:
            divulge.InputError: references, population or population_references missing; values outside
                [0, 1]; offline without an OUT model for any record.
        """
        ratio, population = self.ratios(evidence)
        share = dominated_share(ratio, population, self.gamma)
        return share if self.ranking == "published" else break_ties(share, ratio)

    def ratios(self, evidence: Evidence) -> tuple[Floats, Floats]:
        """Likelihood ratios of the candidates, ``[n]``, and of the population, ``[z]``.

        Raises:
            divulge.InputError: as `score`.
        """
        description = "probabilities of the true class under"
        references = protocol.part(evidence.references, "RMIA", "references", f"{description} reference models")
        population = protocol.part(
            evidence.population, "RMIA", "population", f"{description} the target, of known non-members"
        )
        population_references = protocol.part(
            evidence.population_references,
            "RMIA",
            "population_references",
            f"{description} reference models, of non-members",
        )
        _check_probabilities(evidence.target, "target")
        _check_probabilities(references, "references")
        _check_probabilities(population, "population")
        _check_probabilities(population_references, "population_references")
        ratio = self._ratio(evidence.target, references, evidence.trained_on)
        return ratio, self._ratio(population, population_references, evidence.population_trained_on)

    def _ratio(self, target: Floats, references: Floats, trained_on: Bools | None) -> Floats:
        if self.offline_a is None:
            typical = moments(references, spread=False).mean
        else:
            protocol.out_models(trained_on, "RMIA(offline_a=…)")
            out = moments(references, trained_on, complement=True, spread=False)
            mean = out.mean if out.count.all() else np.where(out.count > 0, out.mean, out.grand_mean)
            typical = 0.5 * ((1.0 + self.offline_a) * mean + (1.0 - self.offline_a))
        return target / np.maximum(typical, _SMALLEST_PROBABILITY)


def dominated_share(ratio: Floats, population: Floats, gamma: float) -> Floats:
    """Return the share of ``population`` ratios z with ``ratio ≥ γ·z``, for each ratio, by sorting.

    The definition reads ``ratio / z ≥ γ``; the product is the same inequality without a division by zero.
    A tie counts, as in the definition, and it is one up to a rounding error of 1e-12.

    Args:
        ratio: likelihood ratios of the candidates, ``[n]``.
        population: likelihood ratios of the population, ``[z]``.
        gamma: the factor γ > 0.

    Examples:
        >>> import numpy as np
        >>> dominated_share(np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0]), 1.0).round(3)
        array([0.333, 0.667])
    """
    thresholds, order = np.sort(gamma * (1.0 - NEARLY) * population), np.argsort(ratio)
    share = np.empty(len(ratio))
    # In ascending order, one look-up begins where the last one ended.
    share[order] = np.searchsorted(thresholds, ratio[order], side="right") / len(population)
    return share


def break_ties(share: Floats, ratio: Floats) -> Floats:
    """Move ``share`` by at most 1e-9, within [0, 1], so that equal shares are in the order of ``ratio``.

    Args:
        share: dominated shares, ``[n]``.
        ratio: likelihood ratios, ``[n]``, at least 0.

    Examples:
        >>> first, second = break_ties(np.array([1.0, 1.0]), np.array([2.0, 3.0]))
        >>> bool(1 - 1e-9 < first < second <= 1)
        True
    """
    log = np.log(np.maximum(ratio, _SMALLEST_PROBABILITY))
    squashed = 0.5 + 0.5 * log / (1.0 + np.abs(log))
    return share + _TIE * (squashed - share)


def _check_probabilities(values: Floats, name: str) -> None:
    low, high = float(values.min()), float(values.max())
    if low < 0.0 or high > 1.0:
        raise InputError(
            f"RMIA: evidence.{name} must hold probabilities in [0, 1], got values from {low:g} to {high:g}; "
            "use the 'confidence' signal, not logits or losses"
        )


@dataclass(frozen=True, slots=True)
class BASE(Attack):
    """``log p_target - logsumexp_r log p_r + log R``: the approximate Bayes-optimal attack.

    Lassila et al. 2025 (arXiv:2505.24089). The evidence holds the "negative-loss" signal, ``log p(y)``. Online, the
    mean runs over all reference models, of which about half were trained on the record. Offline it runs over the
    models that were not, and the published code multiplies it by a constant, .33, in place of the IN models that are
    missing; their softmax temperature of 2 is not applied here. Online it is `BASE` over all models.

    Args:
        mode: "offline" (OUT models only; every reference is one when ``trained_on`` is None) or "online".
        scale: factor on the reference models' mean, offline, in [0, 1]; 0 is the LOSS attack, 1 is `BASE`.

    Raises:
        divulge.InputError: a setting out of its range.

    Examples:
        >>> from divulge import Evidence
        >>> BASE().score(Evidence(target=[-0.1, -2.0], references=[[-1.0, -3.0], [-1.0, -3.0]])).round(2)
        array([ 0.23, -1.01])
    """

    mode: Literal["offline", "online"] = "offline"
    scale: float = 0.33

    def __post_init__(self) -> None:
        check_choice(self.mode, "BASE.mode", ("offline", "online"))
        check_number(self.scale, "BASE.scale", above=0, below=1, closed=True)

    @property
    def needs(self) -> frozenset[Need]:
        """Reference models, of the kind that ``mode`` says."""
        return protocol.references_for_mode(self.mode)

    def score(self, evidence: Evidence) -> Floats:
        """Log-probability beyond what is expected, ``[n]``, in nats.

        A record that every reference model was trained on is compared with the mean over all records.

        Raises:
            divulge.InputError: no references, a positive signal, or offline no OUT model for any record.
        """
        description = "log-probabilities of the true class under reference models"
        references = protocol.part(evidence.references, "BASE", "references", description)
        protocol.log_probabilities(evidence.target, references, "BASE")
        if self.mode == "online":
            return evidence.target - log_mean(references, None)
        protocol.out_models(evidence.trained_on, "BASE")
        return evidence.target - self.scale * log_mean(references, evidence.trained_on)


@dataclass(frozen=True, slots=True)
class MajorityRMIA(Attack):
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
        """Needs of RMIA, and further versions of the records."""
        return self.inner.needs | {Need.QUERIES}

    @property
    def least_references(self) -> int:
        """Reference models that RMIA needs at least."""
        return self.inner.least_references

    def score(self, evidence: Evidence) -> Floats:
        """Dominated share of the population, ``[n]``, in [0, 1]; O(n·z) comparisons a version, in blocks.

        Raises:
            divulge.InputError: no further versions, and what `RMIA` raises.
        """
        pairs = [self.inner.ratios(version) for version in protocol.record_versions(evidence, "MajorityRMIA")]
        ratios, population = (np.stack(part) for part in zip(*pairs, strict=True))
        share = majority_share(ratios, population, self.inner.gamma)
        return share if self.inner.ranking == "published" else break_ties(share, np.median(ratios, axis=0))


def majority_share(ratios: Floats, population: Floats, gamma: float) -> Floats:
    """Return each candidate's share of population records z with ``ratio ≥ γ·z`` in more than half of the versions.

    Args:
        ratios: likelihood ratios of the candidates' versions, ``[v, n]``.
        population: likelihood ratios of the same versions of the population, ``[v, z]``.
        gamma: the factor γ > 0.

    Examples:
        >>> majority_share(np.array([[2.0], [2.0], [0.0]]), np.array([[1.0, 3.0], [1.0, 1.0], [1.0, 1.0]]), 1.0)
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
