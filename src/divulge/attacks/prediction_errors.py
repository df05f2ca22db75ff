"""Attacks on classifiers, applied to a regression model's errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from divulge import lazy
from divulge.attacks import protocol
from divulge.attacks.auto import Unit, convert_unit
from divulge.attacks.protocol import Attack, Need, Scored, Scores, adapt
from divulge.validation import check_choice, require_callable

if TYPE_CHECKING:
    from scipy import stats

    from divulge.types import Evidence, Floats
else:
    stats = lazy.module("scipy.stats")

_LEAST_SQUARE = 1e-8
"""Smallest squared error, in squared deviations: a prediction that is right to a ten-thousandth of one is right."""


@dataclass(frozen=True, slots=True)
class OnErrors(Attack):
    """An attack on probabilities, where a model gives one real value: the likelihood of its error takes their place.

    The evidence holds the "negative-squared-loss" signal, −(f(x) − y)². With the deviation σ of the target's errors on
    the population, z = (f(x) − y) / σ, and the "probability" of y is the likelihood of z relative to that of z = 0. Of
    a Cauchy distribution (Student's t with one degree of freedom) it is p = 1 / (1 + z²), and its scaled logit
    log p − log(1 − p) is −log z²: the attacks that take scaled logits, such as LiRA, read the logarithm of the squared
    error, and those that take probabilities, such as RMIA, a likelihood that large errors do not drive to zero. Of a
    Gaussian it is p = exp(−z²/2). The deviation is a robust one, from the median of the squared errors, so that a few
    large errors do not decide it.

    Args:
        inner: the attack.
        unit: what it takes: "scaled logit", "log-probability" or "probability".
        likelihood: "cauchy" or "gaussian".

    Raises:
        divulge.InputError: an attack without ``score``, an unknown unit or likelihood.

    Examples:
        >>> from divulge import Evidence
        >>> from divulge.attacks import Threshold
        >>> evidence = Evidence(target=[-1.0, -4.0], population=[-1.0, -0.455])
        >>> OnErrors(Threshold(), "probability").score(evidence).round(2)
        array([0.62, 0.29])
    """

    inner: Scores
    unit: Unit = "scaled logit"
    likelihood: Literal["cauchy", "gaussian"] = "cauchy"

    def __post_init__(self) -> None:
        require_callable(self.inner, "OnErrors.inner", "score")
        check_choice(self.unit, "OnErrors.unit", ("scaled logit", "log-probability", "probability"))
        check_choice(self.likelihood, "OnErrors.likelihood", ("cauchy", "gaussian"))

    @property
    def needs(self) -> frozenset[Need]:
        """Needs of the attack, and the population, from which the deviation is estimated."""
        return frozenset(adapt(self.inner).needs | {Need.POPULATION})

    @property
    def least_references(self) -> int:
        """Reference models that the attack needs at least."""
        return adapt(self.inner).least_references

    def run(self, evidence: Evidence) -> Scored:
        """Return what the attack's ``run`` returns.

        Raises:
            divulge.InputError: no population, and what the attack raises.
        """
        population = protocol.part(
            evidence.population, "OnErrors", "population", "negative squared errors of the target, of known non-members"
        )
        variance = error_variance(-population)

        def to_logits(signal: Floats | None) -> Floats | None:
            return None if signal is None else error_logits(-signal, variance, self.likelihood)

        names = ("target", "references", "population", "population_references")
        logits = replace(evidence, **{name: to_logits(getattr(evidence, name)) for name in names})
        return adapt(self.inner).run(convert_unit(logits, self.unit))


def error_variance(squared_errors: Floats) -> float:
    """Return the variance of errors from the median of their squares, as of a Gaussian.

    Where half of the errors are 0, it is their mean square; where all are, 1.

    Args:
        squared_errors: of known non-members, ``[z]``.

    Examples:
        >>> round(error_variance(np.random.default_rng(0).normal(scale=3.0, size=10_000) ** 2), 1)
        9.1
        >>> error_variance(np.zeros(3))
        1.0
    """
    median = float(np.median(squared_errors)) / float(stats.chi2.median(1))
    mean = float(np.mean(squared_errors))
    return next((value for value in (median, mean) if np.isfinite(value) and value > 0), 1.0)


def error_logits(squared_errors: Floats, variance: float, likelihood: str = "cauchy") -> Floats:
    """Return the scaled logit of each error's likelihood relative to that of no error.

    Args:
        squared_errors: of any shape, at least 0.
        variance: of the errors of known non-members.
        likelihood: "cauchy" or "gaussian".

    Examples:
        >>> error_logits(np.array([1.0, 100.0]), 1.0).round(2)
        array([-0.  , -4.61])
        >>> error_logits(np.array([1.0, 100.0]), 1.0, "gaussian").round(2)
        array([  0.43, -50.  ])
    """
    squares = np.clip(squared_errors.astype(np.float64) / variance, _LEAST_SQUARE, 1e200)
    if likelihood == "cauchy":
        return -np.log(squares)
    return -squares / 2 - np.log(-np.expm1(-squares / 2))
