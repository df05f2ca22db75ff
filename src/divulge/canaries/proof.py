"""Bound ε from scores of canaries, and test a claim of differential privacy. Arrays only."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from divulge.errors import InputError
from divulge.evaluation import (
    GaussianMechanism,
    SubsampledGaussian,
    epsilon_fixed_count,
    epsilon_one_run,
    smallest_violation,
)
from divulge.evaluation.epsilon import COINS, GuessRule
from divulge.report import formatting
from divulge.results import BoundSettings
from divulge.types import Guarantee, ShortRepr
from divulge.validation import (
    check_choice,
    check_instance,
    check_integer,
    check_mask,
    check_number,
    check_vector,
    format_value,
)

if TYPE_CHECKING:
    from divulge.canaries.canary_records import Design
    from divulge.evaluation.epsilon import Sides
    from divulge.evaluation.families import Families
    from divulge.results import CanarySummary
    from divulge.types import Bools, Estimate, Tone

Answer: TypeAlias = Literal["violated", "consistent", "not testable", "no claim"]
TONES: dict[Answer, Tone] = {
    "violated": "leak",
    "consistent": "plain",  # An ε below the claim may well be proven, so "no leak found" would be untrue.
    "not testable": "undecided",
    "no claim": "plain",
}
_POWER = 0.8
_MAX_EPSILON = 64.0  # No test could contradict a claim above this.


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim that a training was (ε, δ)-differentially private, for one record added or removed.

    Args:
        epsilon: ε, in [0, 64].
        delta: δ, in [0, 1).

    Raises:
        divulge.InputError: numbers outside these bounds.

    Examples:
        >>> print(Claim(epsilon=8, delta=1e-5))
        (8, 1e-05)-DP
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_number(self.epsilon, "claim.epsilon", above=0.0, below=_MAX_EPSILON, closed=True)
        slack = check_number(self.delta, "claim.delta", above=0.0, below=1.0, closed=True)
        if slack:
            check_number(slack, "claim.delta", above=0.0, below=1.0)

    def __str__(self) -> str:
        return f"({self.epsilon:g}, {self.delta:g})-DP"

    def fnr(self, fpr: float) -> float:
        """Return the least false-negative rate that the claim allows at this false-positive rate."""
        steep = 1 - self.delta - exp(self.epsilon) * fpr
        return max(0.0, steep, exp(-self.epsilon) * (1 - self.delta - fpr))


@dataclass(frozen=True, slots=True, repr=False)
class Proof(ShortRepr):
    """Bound on ε from canaries, and the answer to a claim.

    Args:
        answer: "violated": the bound on ε exceeds the claim; where the claim and the assumptions are true this
            happens in at most 1 - confidence of audits. "consistent": it does not, and could have. "not testable":
            even if the highest of these scores had been those of the included, the bound would not exceed the claim, or
            no Gaussian mechanism would have been found. "no claim": none was given.
        bound: the bound that is compared with the claim.
        others: bounds under weaker or stronger assumptions, by assumption; for information only.
        most: the bound if the included canaries had had the highest of these scores, ties included.
        would_see: the smallest true ε of a Gaussian mechanism that so many canaries find to violate the claim with
            80 % probability; None where there is none, no claim, or where that is not known: at δ = 0, where scores
            are equal, and for a fixed number.
        guarantee: level and assumptions of ``bound``.
        claim: the tested claim; None where there was none.
        constant: whether all canaries have the same score.
        settings: how the bound was made.
    """

    answer: Answer
    bound: Estimate
    others: dict[str, Estimate]
    most: float
    would_see: float | None
    guarantee: Guarantee
    claim: Claim | None
    constant: bool
    settings: BoundSettings

    @property
    def tone(self) -> Tone:
        """The tone of the verdict."""
        return TONES[self.answer]

    @property
    def text(self) -> str:
        """The verdict in two or three sentences."""
        claim = "" if self.claim is None else f"ε = {self.claim.epsilon:g} at δ = {self.claim.delta:g}"
        answer = {
            "violated": f"The claim of {claim} is violated.",
            "consistent": f"What the model gives away is consistent with the claim of {claim}.",
            "not testable": f"These canaries cannot test the claim of {claim}.",
            "no claim": "No claim was tested.",
        }[self.answer]
        if self.constant:
            return f"{answer} All canaries have the same score, so nothing can be told of any of them."
        parts = [answer]
        if self.answer == "not testable" and self.claim is not None:
            if self.most > self.claim.epsilon:
                parts.append(
                    "A Gaussian mechanism of any ε up to 64 would have been missed in more than 20 % of audits."
                )
            else:
                highest = formatting.format_lower_bound(self.most)
                parts.append(
                    f"Had the guesses been as right as these scores allow, ε ≥ {highest} would have been proven."
                )
        if self.bound.low > 0:
            confidence = formatting.format_percent(self.bound.confidence)
            parts.append(
                f"The training spent ε ≥ {formatting.format_lower_bound(self.bound.low)} (with {confidence} "
                "confidence)."
            )
        else:
            parts.append("No ε above 0 is proven.")
        if self.would_see is not None:
            parts.append(f"A Gaussian mechanism of ε = {self.would_see:.1f} would have been found in 80 % of audits.")
        elif self.answer == "consistent":
            parts.append(
                "How large an ε would usually have been found is not known at δ = 0, with equal scores or a fixed "
                f"number of canaries; the best guesses that these scores allow would prove ε ≥ "
                f"{formatting.format_lower_bound(self.most)}."
            )
        return " ".join(parts)


def prove(
    scores: object,
    included: object,
    *,
    claim: Claim | None = None,
    delta: float | None = None,
    design: Design = "coins",
    family: Families | str | None = None,
    sides: Sides | str = "both",
    confidence: float = 0.95,
    seed: int = 0,
) -> Proof:
    """Bound ε from the scores of canaries, and test a claim.

    Args:
        scores: ``[n]``; larger means more like an included one.
        included: bool ``[n]``.
        claim: the claim to test.
        delta: the δ of the bound where there is no claim, 0 when None.
        design: how inclusion was drawn, see `divulge.canaries.make`; it decides which bound is used.
        family: what is assumed of the training: None (nothing), "gaussian" or
            `divulge.evaluation.SubsampledGaussian`.
        sides: whether canaries are guessed to be in and out ("both"), or in only ("in"), which suits scores that
            show some members and no non-member. Choose it before looking at the scores.
        confidence: of the bound.
        seed: of breaking ties, and of the pairing of canaries for "fixed".

    Raises:
        divulge.InputError: as for `divulge.evaluation.epsilon_one_run`; a ``delta`` beside a claim; one-sided guesses
            of a fixed number, whose pairs have no sides.

    Examples:
        >>> from divulge.canaries import Claim
        >>> included = np.random.default_rng(0).random(500) < 0.5
        >>> prove(included.astype(float), included, claim=Claim(1.0, 1e-5)).answer
        'violated'
        >>> prove(np.random.default_rng(1).random(500), included, claim=Claim(1.0, 1e-5)).answer
        'consistent'
    """
    values = check_vector(scores, "scores")
    truth = check_mask(included, "included", (len(values),))
    check_both_sides(truth, "included")
    if claim is not None:
        check_instance(claim, "claim", Claim)
    check_choice(design, "design", ("coins", "fixed"))
    check_integer(seed, "seed", minimum=0)
    if claim is not None and delta is not None:
        raise InputError("delta: the claim has one; give only one of them")
    slack = claim.delta if claim is not None else 0.0 if delta is None else delta
    rule = GuessRule.from_options(family, None, sides, slack)
    if design == "fixed" and rule.sides != "both":
        raise InputError(f"sides: pairs of a fixed number are guessed on 'both', got {format_value(sides)}")

    def bound_on(truth: Bools, family: Families | None) -> Estimate:
        if design == "coins":
            return epsilon_one_run(values, truth, slack, confidence, family=family, sides=rule.sides, seed=seed)
        return epsilon_fixed_count(values, truth, slack, confidence, family=family, seed=seed)

    ideal = np.zeros(len(truth), bool)  # As many included canaries as there were, now those with the highest scores.
    ideal[np.argsort(-values, kind="stable")[: int(truth.sum())]] = True
    bound, highest_bound = bound_on(truth, rule.family), bound_on(ideal, rule.family).low
    families = {"of any mechanism": None} | ({"if Gaussian": GaussianMechanism()} if slack else {})
    other_bounds = {name: bound_on(truth, assumed) for name, assumed in families.items() if assumed != rule.family}
    answer: Answer = "no claim"
    detectable_epsilon = None
    if claim is not None:
        testable = highest_bound > claim.epsilon
        answer = "violated" if bound.low > claim.epsilon else "consistent" if testable else "not testable"
        has_power_analysis = design == "coins" and slack > 0 and len(np.unique(values)) == len(values)
        if has_power_analysis and answer == "consistent":
            power = smallest_violation(
                len(values),
                claim.epsilon,
                slack,
                power=_POWER,
                confidence=confidence,
                family=rule.family,
                sides=rule.sides,
            )
            detectable_epsilon = None if power is None else power.epsilon
            answer = "not testable" if power is None else answer
    inclusion = COINS if design == "coins" else "a random half of the canaries was included"
    guarantee = Guarantee("risk of a bound above the true ε", 1 - confidence, (inclusion, *rule.assumes))
    return Proof(
        answer,
        bound,
        other_bounds,
        highest_bound,
        detectable_epsilon,
        guarantee,
        claim,
        bool(np.ptp(values) == 0),
        _settings(rule, design, seed),
    )


def prove_again(scores: object, included: object, summary: CanarySummary) -> Proof:
    """Repeat `prove` from stored scores, with the settings of a finished run.

    Raises:
        divulge.InputError: the run holds no settings, or they do not fit the scores.
    """
    settings = summary.settings
    if settings is None:
        raise InputError("settings: the run does not say how its bound was made; audit the canaries again")
    claim = None if summary.claimed is None or summary.delta is None else Claim(summary.claimed, summary.delta)
    return prove(
        scores,
        included,
        claim=claim,
        delta=None if claim is not None else settings.delta,
        design=settings.design,
        family=_family(settings),
        sides=settings.sides,
        confidence=summary.bound.confidence,
        seed=settings.seed,
    )


def _settings(rule: GuessRule, design: Design, seed: int) -> BoundSettings:
    family = rule.family
    if isinstance(family, SubsampledGaussian):
        return BoundSettings(design, rule.sides, "subsampled gaussian", family.rate, family.steps, rule.delta, seed)
    return BoundSettings(design, rule.sides, "none" if family is None else "gaussian", None, None, rule.delta, seed)


def _family(settings: BoundSettings) -> Families | None:
    if settings.family == "subsampled gaussian":
        if settings.rate is None or settings.steps is None:
            raise InputError("settings: a subsampled Gaussian needs a rate and steps")
        return SubsampledGaussian(settings.rate, settings.steps)
    return GaussianMechanism() if settings.family == "gaussian" else None


def check_both_sides(included: Bools, name: str) -> None:
    """Raise where all canaries were included, or none, as there is nothing to compare.

    Raises:
        divulge.InputError: in that case.
    """
    if not included.any() or included.all():
        raise InputError(f"{name}: some must be in and some out, got {included.sum()} of {len(included)} in")
