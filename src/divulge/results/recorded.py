"""What was done in an audit, besides its scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from divulge.types import Estimate


@dataclass(frozen=True, slots=True)
class Digests:
    """Digests of the records, and of the truth behind the candidates."""

    candidates: str
    calibration: str
    population: str


@dataclass(frozen=True, slots=True)
class PartlyKnown:
    """What the adversary knows of the records.

    Args:
        share: part of all values that is known.
        imputer: what completed the others.
        draws: random completions of each record, besides the best one.
        known: digest of which values are known; None where all are.
    """

    share: float
    imputer: str
    draws: int
    known: str | None


@dataclass(frozen=True, slots=True)
class Settings:
    """All that determines an audit, in words that are the same in every process.

    Args:
        seed: of every random draw.
        recipes: names of the recipes.
        attacks: recipe → its signal and attack.
        references: how reference models are trained.
        unseen_classes: classes the auditor holds no records of.
        fpr: the levels reported.
        calibration: share of the population set aside.
        duplicates: what was done about records in several sets.
        outputs: what the target returns.
        device: where it runs.
        data: digests of the records.
        target: what was audited.
        partial: what is known of the records; None where whole records are.
    """

    seed: int
    recipes: tuple[str, ...]
    attacks: Mapping[str, str]
    references: str
    unseen_classes: tuple[int, ...]
    fpr: tuple[float, ...]
    calibration: float
    duplicates: str
    outputs: str
    device: str
    data: Digests
    target: str
    partial: PartlyKnown | None


@dataclass(frozen=True, slots=True)
class Conducted:
    """One recipe, as it was run.

    Args:
        signal: name of the signal.
        reads: what of the target the adversary must see.
        attack: the attack's configuration.
        references: which reference models it is given.
        training: what decides which reference models come out, setting by setting; None without any.
        summary: the recipe in a line.
        queries: how many records the target was queried on.
        raw_thresholds: level → threshold that the attack would set by itself.
        completed_by: what completed partly known records; None where whole records are.
        chosen: the attack that the recipe chose of several; None where it has but one.
    """

    signal: str
    reads: str
    attack: str
    references: Literal["none", "out", "in and out", "base", "substitutes"]
    training: Mapping[str, str] | None
    summary: str
    queries: int
    raw_thresholds: Mapping[str, float]
    completed_by: str | None
    chosen: str | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of records of each kind, and of classes."""

    members: int
    nonmembers: int
    population: int
    calibration: int
    classes: int


@dataclass(frozen=True, slots=True)
class BlindBaseline:
    """What a classifier that never saw the model could tell, see `divulge.evaluation.blind.Blind`.

    ``differences`` names what tells the sets apart, the surest first, where the split is confounded.
    """

    auc: Estimate
    confounded: bool
    p_value: float
    false_alarm: float
    records: int
    method: str
    detectable: float | None = None
    differences: tuple[str, ...] = ()


UNEQUAL = 0.05
"""A p-value of equal lengths below which a leak must also be seen among texts of like length."""


@dataclass(frozen=True, slots=True)
class TextSplit:
    """How sets of texts compare, without the model.

    Args:
        signs: words, years and lengths by which members and non-members differ, the surest first.
        shared: how many texts of each set are nearly one of another set, in words.
        copies: how many non-members are nearly a member.
        length: p-value of members and non-members being equally long.
        among_equals: of runs before scores were adjusted for covariates: by recipe, the p-value of members and
            non-members scoring alike among texts of like length.
    """

    signs: tuple[str, ...]
    shared: str
    copies: int
    length: float
    among_equals: Mapping[str, float] = field(default_factory=dict)

    def owed_to_length(self, level: float) -> tuple[str, ...]:
        """Recipes whose scores do not tell members from non-members of like length, where lengths may differ."""
        if self.length > UNEQUAL:
            return ()
        return tuple(name for name, p_value in self.among_equals.items() if p_value > level)

    def seen_at_equal_length(self, level: float) -> tuple[str, ...]:
        """Recipes whose scores tell members from non-members of like length."""
        return tuple(name for name, p_value in self.among_equals.items() if p_value <= level)


@dataclass(frozen=True, slots=True)
class Carried:
    """Whether a recipe's rate is expected to hold on unseen classes, see `divulge.evaluation.transfer.Transfer`."""

    holds: bool
    text: str
    expected_fpr: float
    outside: float
    effective: float
    error: float
    explained: float
    violation: float
    p_value: float
    bound: float


@dataclass(frozen=True, slots=True)
class Plane:
    """Where seen and unseen records lie, in the plane of two components."""

    seen: tuple[tuple[float, float], ...]
    query: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class TransferSummary:
    """Whether a false-positive rate set on seen classes carries over to the unseen ones.

    Args:
        level: the rate.
        recipes: recipe → what is expected of its threshold.
        plane: where the records lie.
        ratio: linear fit and density ratio of the seen records.
    """

    level: float
    recipes: Mapping[str, Carried]
    plane: Plane
    ratio: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Environment:
    """What a run was made with."""

    divulge: str
    python: str
    platform: str
    cpu_count: int | None
    packages: Mapping[str, str]
    git_commit: str | None


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How often the target's most likely class is right.

    Args:
        members: on the members.
        nonmembers: on the non-members.
        completed: whether the target was asked about completions of partly known records.
    """

    members: Estimate
    nonmembers: Estimate
    completed: bool = False


@dataclass(frozen=True, slots=True)
class TokenFit:
    """How well a language model knows its own training documents, beside one that reads no context.

    Args:
        members: mean log-probability of a unit of the members' text, in nats.
        gain: of it beyond that by the units' frequencies in the population, a mean over members with its interval.
        unit: "token", or "byte" where the target does not show its tokens.
        constant: whether every token of every document is given the same probability.
    """

    members: float
    gain: Estimate
    unit: Literal["token", "byte"]
    constant: bool


@dataclass(frozen=True, slots=True)
class About:
    """An audit without its scores.

    Args:
        settings: all that determines it.
        recipes: recipe → how it was run.
        counts: numbers of records.
        duplicates: number of records that stood in more than one set.
        blind_baseline: what can be told without the model; None where there are too few records to tell.
        texts: how the sets compare where they are texts; None where they are not.
        transfer: whether thresholds carry over to unseen classes; None without any.
        warnings: what the user must know before relying on the numbers.
        environment: what it was run with.
        timings: step → seconds.
        engine: what trained the reference models.
        accuracy: of the target; None where it or the records have no classes.
        token_fit: how well a language model knows its training documents; None for others.
        single_answer: whether a classifier gives all candidates the same class, though they are not known to be of one.
    """

    settings: Settings
    recipes: Mapping[str, Conducted]
    counts: Sizes
    duplicates: int
    blind_baseline: BlindBaseline | None
    texts: TextSplit | None
    transfer: TransferSummary | None
    warnings: tuple[str, ...]
    environment: Environment
    timings: Mapping[str, float]
    engine: str
    accuracy: Accuracy | None = None
    token_fit: TokenFit | None = None
    single_answer: bool = False

    @property
    def told_apart(self) -> bool:
        """Whether members and non-members differ in words, years or lengths."""
        return self.texts is not None and bool(self.texts.signs)
