"""What canaries prove of a claim of differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from divulge._version import __version__
from divulge.results.json_files import VERSION
from divulge.results.recorded import Environment
from divulge.types import Tone


@dataclass(frozen=True, slots=True)
class LeastEpsilon:
    """A lower bound on ε.

    Args:
        low: the bound.
        confidence: probability that the true ε is at least it.
        method: how it was made, and what it assumes.
    """

    low: float
    confidence: float
    method: str


@dataclass(frozen=True, slots=True)
class BoundSettings:
    """How scores of canaries became a bound on ε: with the scores, all that is needed to compute it again.

    Args:
        design: how it was decided what is included.
        sides: whether canaries are guessed to be in and out ("both"), or in only.
        family: what is assumed of the training.
        rate: of a subsampled Gaussian; None of another family.
        steps: likewise.
        delta: the δ of the bound.
        seed: of breaking ties, and of pairs.
    """

    design: Literal["coins", "fixed"]
    sides: Literal["both", "in"]
    family: Literal["none", "gaussian", "subsampled gaussian"]
    rate: float | None
    steps: int | None
    delta: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CanarySummary:
    """What canaries prove; `divulge.canaries.Proof` and `CanaryAudit` say what each field means.

    Args:
        claimed: the ε that is claimed, or None.
        delta: the δ that is claimed, or None.
        accuracy_without: accuracy of a model trained without canaries, [value, low, high], or None.
        accuracy: of the model with them, likewise.
        training_accuracy: of the model on its training set, likewise.
        seed: of every random draw; None in runs that did not note it.
        settings: how the bound was made; None in runs that did not note it.
    """

    kind: Literal["canaries"] = field(default="canaries", repr=False)
    version: int = field(default=VERSION, repr=False)
    divulge: str = __version__
    verdict: str
    tone: Tone
    answer: Literal["violated", "consistent", "not testable", "no claim"]
    claimed: float | None
    delta: float | None
    bound: LeastEpsilon
    others: Mapping[str, LeastEpsilon]
    most: float
    would_see: float | None
    guarantee: str
    canaries: int
    included: int
    kind_of_canary: str
    recipe: str
    trained_on: int
    runs: int
    accuracy: tuple[float, float, float] | None
    accuracy_without: tuple[float, float, float] | None
    mean_exposure: float
    largest_exposure: float
    warnings: tuple[str, ...]
    environment: Environment
    training_accuracy: tuple[float, float, float] | None = None
    seed: int | None = None
    settings: BoundSettings | None = None
