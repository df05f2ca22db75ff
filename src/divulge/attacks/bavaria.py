"""BaVarIA: LiRA with a prior on the variances, for few reference models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import special

from divulge.attacks import protocol
from divulge.attacks.protocol import Attack, Need
from divulge.attacks.reference_moments import ColumnMoments, means, moments
from divulge.validation import check_choice

if TYPE_CHECKING:
    from divulge.types import Evidence, Floats

# Strengths of a prior beyond these are "all records alike" and "nothing in common".
_MIN_STRENGTH, _MAX_STRENGTH = 1e-6, 1e6


@dataclass(frozen=True, slots=True)
class BaVarIA(Attack):
    """LiRA with a normal-inverse-gamma prior on each record's mean and variance: a Student-t predictive.

    Brännvall 2026 (arXiv:2603.11799): a few models tell little of one record's variance, but those of all records
    tell how variances are distributed. With ``σ² ~ InvGamma(α, β)`` and ``μ | σ² ~ N(μ₀, σ²/κ)``, a record with ``k``
    values of mean ``m`` and squared deviations ``S`` has the predictive distribution ``t`` with ``2α_k`` degrees of
    freedom about ``(κμ₀ + km) / κ_k`` and squared scale ``β_k (κ_k + 1) / (α_k κ_k)``, where ``κ_k = κ + k``,
    ``α_k = α + k/2`` and ``β_k = β + S/2 + κk(m - μ₀)² / (2κ_k)``.

    **Online**: log-density under the IN models minus that under the OUT models. **Offline**: how far out the target's
    signal is in the OUT models' predictive, one-sided as in `LiRA`, and as a normal deviate (Wallace 1959): records
    with different numbers of models are comparable, and nothing saturates.

    The following is ours, as only the idea above was at hand. **Prior**: α and β from the mean and variance of
    the log-variances (Smyth 2004, section 6.2), κ as the ratio of the variance within records to that between them,
    μ₀ as the mean of all records' means. It is learned from the candidates, all of them alike; offline, where there is
    a population, from that instead: the target itself is then one more model that was not trained on those records, and
    a single reference model is enough to see how much two models differ. Where nothing shows that (one model, no
    population), half of the spread between records counts as spread between models. **A side without models** (online)
    borrows the other's mean, moved by the average difference, as one value.

    Args:
        mode: "offline" (uses OUT models only; every reference is one when ``trained_on`` is None) or "online" (needs
            ``trained_on``).

    Raises:
        divulge.InputError: an unknown mode.

    Examples:
        >>> from divulge import Evidence
        >>> scores = BaVarIA().score(Evidence(target=[3.0, 0.0], references=[[0.0, 0.0], [1.0, 0.1]]))
        >>> bool(scores[0] > scores[1])
        True
    """

    mode: Literal["offline", "online"] = "offline"

    def __post_init__(self) -> None:
        check_choice(self.mode, "BaVarIA.mode", ("offline", "online"))

    @property
    def needs(self) -> frozenset[Need]:
        """Reference models, of the kind that ``mode`` says; offline also the population."""
        return protocol.references_for_mode(self.mode, Need.POPULATION)

    def score(self, evidence: Evidence) -> Floats:
        """Log-likelihood ratio (online) or normal deviate (offline), ``[n]``.

        Raises:
            divulge.InputError: no references; online without ``trained_on``; no OUT (or, online, no IN) model for any
                record.
        """
        description = "signals of the candidates under reference models"
        references = protocol.part(evidence.references, "BaVarIA", "references", description)
        protocol.out_models(evidence.trained_on, "BaVarIA")
        out = moments(references, evidence.trained_on, complement=True)
        if self.mode == "offline":
            return _Predictive.from_moments(out, _prior(_population_moments(evidence) or out)).deviate(evidence.target)
        trained_on = protocol.require_members_in_models(evidence.trained_on, "BaVarIA")
        into = moments(references, trained_on)
        mean_in, mean_out = means(into, out)
        inside = _Predictive.from_moments(_with_means(into, mean_in), _prior(into))
        outside = _Predictive.from_moments(_with_means(out, mean_out), _prior(out))
        return inside.log_density(evidence.target) - outside.log_density(evidence.target)


@dataclass(frozen=True, slots=True)
class _Prior:
    """Prior that all records share: ``σ² ~ InvGamma(shape, shape · variance)``, ``μ | σ² ~ N(centre, σ²/strength)``."""

    centre: float
    strength: float
    shape: float
    variance: float


@dataclass(frozen=True, slots=True, eq=False)
class _Predictive:
    """Student's t of each record's next value; ``shape`` is half the degrees of freedom."""

    shape: Floats
    centre: Floats
    variance: Floats

    @classmethod
    def from_moments(cls, side: ColumnMoments, prior: _Prior) -> _Predictive:
        """Return the posterior predictive of records of which ``side`` is known."""
        strength = prior.strength + side.count
        share = side.count / strength
        deviation = np.where(side.count > 0, side.mean - prior.centre, 0.0)
        shape = prior.shape + side.count / 2
        rate = prior.shape * prior.variance + 0.5 * (side.squares + prior.strength * share * deviation**2)
        return cls(shape, prior.centre + share * deviation, rate * (strength + 1) / (shape * strength))

    def deviate(self, values: Floats) -> Floats:
        """Return the normal deviate whose tail is (nearly) as likely as that beyond ``values``; increasing in them."""
        freedom = 2 * self.shape
        away = values - self.centre
        size = np.sqrt(freedom * np.log1p(away**2 / self.variance / freedom))
        return np.copysign((8 * freedom + 1) / (8 * freedom + 3) * size, away)

    def log_density(self, values: Floats) -> Floats:
        """Logarithm of the density, up to a constant."""
        power = self.shape + 0.5
        # Records have few different numbers of models: the slow function is asked once for each.
        shapes, shape_index = np.unique(self.shape, return_inverse=True)
        scale = special.gammaln(shapes + 0.5) - special.gammaln(shapes) - 0.5 * np.log(shapes)
        scaled_distance = (values - self.centre) ** 2 / self.variance / (2 * self.shape)
        return scale[shape_index] - 0.5 * np.log(self.variance) - power * np.log1p(scaled_distance)


def _population_moments(evidence: Evidence) -> ColumnMoments | None:
    """Values of the population under models that were not trained on it, of which the target is one."""
    if evidence.population is None or evidence.population_references is None:
        return None
    trained_on = evidence.population_trained_on
    out = moments(evidence.population_references, trained_on, complement=True)
    target = evidence.population.astype(np.float64)
    away = np.where(out.count > 0, target - out.mean, 0.0)
    count = out.count + 1.0
    mean = np.where(out.count > 0, out.mean + away / count, target)
    return ColumnMoments(count, mean, out.squares + away**2 * out.count / count)


def _with_means(side: ColumnMoments, mean: Floats) -> ColumnMoments:
    """Return the same with ``mean``; where there was no value, that counts as one."""
    return ColumnMoments(np.maximum(side.count, 1.0), mean, side.squares)


def _prior(side: ColumnMoments) -> _Prior:
    """Return the prior that the records' moments suggest."""
    has_values = side.count > 0
    count, mean = side.count[has_values], side.mean[has_values]
    centre = float(side.grand_mean)
    spread = float(((mean - centre) ** 2).mean())
    if not side.squares.any():
        half = spread / 2 if spread > 0 else 1.0
        return _Prior(centre, 1.0, _MAX_STRENGTH, half)
    within = side.pooled_variance
    between = spread - within * float((1.0 / count).mean())
    strength = float(np.clip(within / between, _MIN_STRENGTH, _MAX_STRENGTH)) if between > 0 else _MAX_STRENGTH
    shape, variance = _variances(side)
    return _Prior(centre, strength, shape, variance)


def _variances(side: ColumnMoments) -> tuple[float, float]:
    """α and ``β / α`` of the records' variances, from the moments of their logarithms.

    A sample variance is the record's own times χ²/d; ``log`` makes a sum of that product, whose mean and variance
    are known. Where the logarithms vary no more than χ² does, all records have the pooled variance.
    """
    is_informative = (side.count > 1.5) & (side.squares > 0)
    freedom = np.rint(side.count[is_informative] - 1.0).astype(np.int64)
    tally = np.bincount(freedom)
    halves = np.maximum(np.arange(len(tally)), 1) / 2
    logs = np.log(side.squares[is_informative] / freedom) - (special.digamma(halves) - np.log(halves))[freedom]
    chance = float(tally @ special.polygamma(1, halves)) / len(freedom)
    excess = float(logs.var(ddof=1)) - chance if len(logs) > 1 else 0.0
    if excess <= 0:
        return _MAX_STRENGTH, side.pooled_variance
    shape = float(np.clip(_trigamma_inverse(excess), _MIN_STRENGTH, _MAX_STRENGTH))
    return shape, float(np.exp(logs.mean() + special.digamma(shape) - np.log(shape)))


def _trigamma_inverse(value: float) -> float:
    """X > 0 with ψ'(x) = value: Newton's method on 1/ψ', which is nearly a straight line (Smyth 2004, appendix)."""
    x = 0.5 + 1.0 / value
    for _ in range(60):
        trigamma = float(special.polygamma(1, x))
        step = trigamma * (1.0 - trigamma / value) / float(special.polygamma(2, x))
        x += step
        if abs(step) < 1e-12 * x:
            break
    return x
