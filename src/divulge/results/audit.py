"""Summary of an audit: the verdict, every recipe's statistics, and the metadata of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from divulge._version import __version__
from divulge.results.provenance import Environment
from divulge.results.summary_files import VERSION
from divulge.types import Estimate, Tone

Answer: TypeAlias = Literal["leak found", "no leak found", "too little data to say", "split is confounded"]


@dataclass(frozen=True, slots=True)
class VerdictSummary:
    """The answer, the tone of a report that begins with it, and the words to print."""

    answer: Answer
    tone: Tone
    text: str


@dataclass(frozen=True, slots=True)
class LowerBound:
    """An estimate that is bounded from below only."""

    value: float
    low: float
    confidence: float
    method: str


@dataclass(frozen=True, slots=True)
class RealisedRate:
    """The realised false-positive rate of a threshold on true non-members.

    Args:
        rate: share of them called members.
        p_value: of a rate as high by chance.
        broken: whether it is higher than one calibration explains.
        judged: the nominal and the realised rate compared, in words.
    """

    rate: Estimate
    p_value: float
    broken: bool
    judged: str


@dataclass(frozen=True, slots=True)
class MemberCalls:
    """Who is called a member at a nominal false-positive rate.

    Args:
        selected: how many candidates are.
        guarantee: what is claimed, in words.
        one_calibration: where the rate of a single calibration lies.
        warnings: what the user must know before relying on it.
    """

    selected: int
    guarantee: str
    one_calibration: Estimate
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """A class or subgroup: its AUC, and its TPR and FPR at the threshold of all; None with one kind of record only."""

    members: int
    nonmembers: int
    auc: Estimate | None
    tpr: Estimate | None
    fpr: Estimate | None


@dataclass(frozen=True, slots=True)
class RecipeStatistics:
    """A recipe's statistics of some candidates; None where the records do not suffice for one.

    Args:
        members: number of members.
        nonmembers: number of non-members.
        auc: area under the ROC curve.
        advantage: largest TPR - FPR.
        epsilon: empirical lower bound on ε.
        tpr_at_fpr: level → TPR.
        realised_fpr: level → the realised false-positive rate of its threshold.
    """

    members: int
    nonmembers: int
    auc: Estimate | None
    advantage: Estimate | None
    epsilon: LowerBound | None
    tpr_at_fpr: Mapping[str, Estimate | None]
    realised_fpr: Mapping[str, RealisedRate | None]


@dataclass(frozen=True, slots=True)
class RecipeSummary(RecipeStatistics):
    """A recipe's numbers: of all candidates, of those of unseen classes, and of each class and subgroup.

    Args:
        decisions: level → who is called a member; None with too few calibration records.
        raw_fpr: level → rate of the threshold that the attack would set by itself; empty where it sets none.
        unseen: the numbers of the unseen classes alone; None without any.
        classes: class → its numbers; empty without labels.
        groups: subgroup → its numbers; empty without any.
    """

    decisions: Mapping[str, MemberCalls | None]
    raw_fpr: Mapping[str, Estimate]
    unseen: RecipeStatistics | None
    classes: Mapping[str, GroupStatistics]
    groups: Mapping[str, GroupStatistics]


@dataclass(frozen=True, slots=True)
class AdjustmentSummary:
    """The comparison of members and non-members that are alike in the covariates, which verdict and gate judge.

    Args:
        adjusted_for: the covariates.
        members: number of members that take part.
        nonmembers: number of non-members that do.
        p_before: of members and non-members being alike in the covariates, of all candidates.
        p_value: the same of those that take part.
        overlap: whether enough are alike to be compared.
        explained: recipe → share of the variance of its ranked scores that the covariates explain.
        recipes: recipe → its numbers, of adjusted scores.
        text: what was adjusted for, and how many records took part, in a sentence.
    """

    adjusted_for: tuple[str, ...]
    members: int
    nonmembers: int
    p_before: float
    p_value: float
    overlap: bool
    explained: Mapping[str, float]
    recipes: Mapping[str, RecipeStatistics]
    text: str


@dataclass(frozen=True, slots=True)
class SmallestLeak:
    """The smallest leak that would have been reported, see `divulge.evaluation.power.Detectable`."""

    auc: float | None
    tpr: float | None
    fpr: float
    confidence: float
    power: float
    method: str


@dataclass(frozen=True, slots=True)
class HeatStrip:
    """How much better the target knows each token of a document than it should.

    Args:
        ends: where each token ends in the text; what stands before the first token has no value.
        values: the target's log-probability of each, less what it is held against.
        against: what that is, in words.
    """

    ends: tuple[int, ...]
    values: tuple[float, ...]
    against: str

    def fits(self, text: str) -> bool:
        """Whether the tokens follow one another within the text."""
        ends = [0, *self.ends]
        return len(self.ends) == len(self.values) and ends == sorted(ends) and ends[-1] <= len(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSummary:
    """An audit.

    Args:
        verdict: the first lines of the report.
        fpr: the levels reported.
        unseen_classes: classes the auditor holds no records of.
        recipes: recipe → its numbers.
        smallest_detectable: the smallest leak that would have been reported.
        about: what was done.
        texts: row → text of the candidates that the report shows, where they are documents.
        heat: row → the values of its tokens, where the target is a language model.
        class_names: of the classes, by their numbers; None where they have no names.
        divulge: the version of Divulge that wrote it.
        adjusted: the comparison at equal covariates; None where there are none to adjust for.
    """

    kind: Literal["audit"] = field(default="audit", repr=False)
    version: int = field(default=VERSION, repr=False)
    divulge: str = __version__
    verdict: VerdictSummary
    fpr: tuple[float, ...]
    unseen_classes: tuple[int, ...]
    recipes: Mapping[str, RecipeSummary]
    smallest_detectable: SmallestLeak
    about: RunMetadata
    texts: Mapping[str, str]
    heat: Mapping[str, HeatStrip]
    class_names: tuple[str, ...] | None = None
    adjusted: AdjustmentSummary | None = None


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """One recipe's candidates, decided again.

    Args:
        selected: how many are called members.
        threshold: smallest selected score; None where nothing was selected.
        tpr: share of the members that are.
        fpr: share of the non-members that are.
        precision: share of members among them.
        accuracy: share of all candidates decided rightly.
        members: number of members.
        nonmembers: number of non-members.
        guarantee: what is claimed, in words.
        warnings: what the user must know before relying on it.
    """

    selected: int
    threshold: float | None
    tpr: Estimate | None
    fpr: Estimate | None
    precision: Estimate | None
    accuracy: Estimate
    members: int
    nonmembers: int
    guarantee: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Digests:
    """Digests of the records, and of the truth behind the candidates."""

    candidates: str
    calibration: str
    population: str


@dataclass(frozen=True, slots=True)
class PartialKnowledgeSettings:
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
class AuditSettings:
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
    partial: PartialKnowledgeSettings | None


@dataclass(frozen=True, slots=True)
class RecipeRun:
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
class RecordCounts:
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


EQUAL_LENGTH_LEVEL = 0.05
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
        if self.length > EQUAL_LENGTH_LEVEL:
            return ()
        return tuple(name for name, p_value in self.among_equals.items() if p_value > level)

    def seen_at_equal_length(self, level: float) -> tuple[str, ...]:
        """Recipes whose scores tell members from non-members of like length."""
        return tuple(name for name, p_value in self.among_equals.items() if p_value <= level)


@dataclass(frozen=True, slots=True)
class TransferCheck:
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
class ProjectedRecords:
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
    recipes: Mapping[str, TransferCheck]
    plane: ProjectedRecords
    ratio: tuple[tuple[float, float], ...]


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
class RunMetadata:
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

    settings: AuditSettings
    recipes: Mapping[str, RecipeRun]
    counts: RecordCounts
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


@dataclass(frozen=True, slots=True)
class SkippedDocuments:
    """Documents that a server could not take.

    Args:
        documents: how many.
        first: ids of the first ten, as text.
        reason: what the server said of the first.
    """

    documents: int
    first: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ScoringSummary:
    """Documents that were scored.

    Args:
        documents: how many there are.
        unscored: those without a score: too short for one, or skipped.
        resumed: those that an earlier run had finished.
        skipped: those that the server could not take; None without any.
        key: what decides the numbers.
    """

    documents: int
    unscored: int
    resumed: int
    skipped: SkippedDocuments | None
    key: Mapping[str, object]
