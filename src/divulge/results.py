"""Typed summaries of all kinds of run, as ``summary.json`` holds them, and their files.

The keys are public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

from pydantic import Field

from divulge import store
from divulge._version import __version__
from divulge.errors import InputError
from divulge.provenance import Environment
from divulge.settings import (
    AttributeSettings,
    DecisionSettings,
    ExtractSettings,
    ForgetSettings,
    LabelPrivacySettings,
    Texts,
)
from divulge.store import to_json_values
from divulge.types import Estimate, Guarantee, Standing, Tone
from divulge.validation import check_choice, check_instance, format_value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import ClassVar, Protocol

    from divulge.run_directory import RunDraft

    class _Dataclass(Protocol):
        __dataclass_fields__: ClassVar[dict[str, Any]]

    SummaryT = TypeVar("SummaryT", bound=_Dataclass)


SUMMARY_FILE = "summary.json"
VERSION = 2
"""Version of the schema of all summaries; one of another version is not read."""

SINGLE_RECORDS: Mapping[str, bool] = {"single_records": True}
"""Metadata of a field that shows or names single records; `to_json_values` leaves it out on request."""

Answer: TypeAlias = Literal["leak found", "no leak found", "too little data to say", "split is confounded"]

FALSE_MATCH = 0.001
"""Bound on the chance that any match is reported for a model whose arrays do not depend on who is a member."""
SUSPICION = 0.05
"""The same for a suspicion, which is no proof and keeps a model from being cleared."""

Form = Literal[
    "as they are",
    "as the model is given them",
    "as the model's own steps transform them",
    "up to a scale and shift of each column",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Summary of a run: the fields of every kind; each adds its own.

    Args:
        kind: name of the kind of run.
        version: of the schema.
        divulge: the version of Divulge that wrote it.
    """

    kind: str
    version: int = field(default=VERSION, repr=False)
    divulge: str = __version__


def write_summary(draft: RunDraft, summary: object) -> None:
    """Write the summary of a run into its draft."""
    draft.write_json(SUMMARY_FILE.removesuffix(".json"), to_json_values(summary))


def read_summary(folder: Path, summary_type: type[SummaryT]) -> SummaryT:
    """Read the summary in the run directory ``folder``.

    Raises:
        divulge.InputError: missing, damaged, of another version, or of another schema than ``summary_type``.
    """
    path = folder / SUMMARY_FILE
    content = store.read_json(path, inside=folder)
    version = content.get("version") if isinstance(content, dict) else None
    if version != VERSION:
        raise InputError(
            f"{path}: a summary of version {VERSION} is needed, got {version!r}; another release of Divulge wrote it"
        )
    summary = store.parse_json(content, summary_type, path)
    file_entries, entries = dict(_json_entries(content)), dict(_json_entries(to_json_values(summary)))
    if unexpected := set(file_entries) ^ set(entries):
        raise InputError(f"{path}: damaged at {min(unexpected)}: a key that is missing or unknown")
    return summary


def _json_entries(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key of a JSON value as a dotted path, with its value."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in entries:
        path = f"{prefix}{key}"
        yield path, part
        yield from _json_entries(part, f"{path}.")


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
    """Candidates that are selected as members at a nominal false-positive rate.

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
    """A class or subgroup; None where it has too few records for a number.

    Args:
        members: number of members.
        nonmembers: number of non-members.
        auc: area under the ROC curve.
        tpr: TPR at the threshold of all.
        fpr: FPR at the threshold of all.
        own_tpr: TPR at a threshold of its own, at the largest FPR reported that its non-members resolve.
    """

    members: int
    nonmembers: int
    auc: Estimate | None
    tpr: Estimate | None
    fpr: Estimate | None
    own_tpr: Estimate | None = None


@dataclass(frozen=True, slots=True)
class RecipeStatistics:
    """A recipe's statistics of some candidates; None where the records do not suffice for one.

    Args:
        members: number of members.
        nonmembers: number of non-members.
        auc: area under the ROC curve.
        advantage: largest TPR - FPR.
        epsilon: empirical lower bound on ε; the lower of two, by the scores and by what of them the records alone do
            not explain.
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
    """Excess log-probability that the target gives each token of a document.

    Args:
        ends: where each token ends in the text; what stands before the first token has no value.
        values: the target's log-probability of each, less what it is held against.
        against: what that is, in words.
        starts: where each begins, in documents of which not all tokens have a value; None where each begins at the end
            of the one before.
    """

    ends: tuple[int, ...]
    values: tuple[float, ...]
    against: str
    starts: tuple[int, ...] | None = None

    def fits(self, text: str) -> bool:
        """Check that the token ends are increasing and within the text."""
        starts = (0, *self.ends)[:-1] if self.starts is None else self.starts
        places = [0, *(place for span in zip(starts, self.ends, strict=False) for place in span)]
        same_length = len(starts) == len(self.ends) == len(self.values)
        return same_length and places == sorted(places) and places[-1] <= len(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSummary(Summary):
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
        adjusted: the comparison at equal covariates; None where there are none to adjust for.
    """

    kind: Literal["audit"] = field(default="audit", repr=False)
    verdict: VerdictSummary
    fpr: tuple[float, ...]
    unseen_classes: tuple[int, ...]
    recipes: Mapping[str, RecipeSummary]
    smallest_detectable: SmallestLeak
    about: RunMetadata
    texts: Mapping[str, str] = field(metadata=SINGLE_RECORDS)
    heat: Mapping[str, HeatStrip] = field(metadata=SINGLE_RECORDS)
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
        fpr_unseen: share of the non-members of classes declared unseen that are called members; None without any.
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
    fpr_unseen: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Digests:
    """Digests of the records, of the truth behind the candidates, and of the user's features; empty without any."""

    candidates: str
    calibration: str
    population: str
    features: str = ""


@dataclass(frozen=True, slots=True)
class PartialKnowledgeSettings:
    """Partial knowledge of the records: share of known values and their completion.

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
class RunSettings:
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
        calls: how often the target was asked about each record.
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
    calls: int = 1


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
    """Result of a classifier that never saw the model, see `divulge.evaluation.blind.Blind`.

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


@dataclass(frozen=True, slots=True)
class TextSplit:
    """Comparison of the sets of texts, without the model.

    Args:
        signs: words, years and lengths by which members and non-members differ, the surest first.
        shared: how many texts of each set are nearly one of another set, in words.
        copies: how many non-members are nearly a member; equal ones, where they were kept, are counted elsewhere.
        length: p-value of members and non-members being equally long.
    """

    signs: tuple[str, ...]
    shared: str
    copies: int
    length: float


@dataclass(frozen=True, slots=True)
class TransferCheck:
    """Assessment of a recipe's rate on unseen classes, see `divulge.evaluation.transfer.TransferAssessment`."""

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
    """Seen and unseen records in the plane of two principal components."""

    seen: tuple[tuple[float, float], ...]
    query: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class TransferSummary:
    """Transfer of a false-positive rate from seen to unseen classes.

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
class LeftOutRates:
    """False-positive rates within each class of thresholds learnt from the other classes.

    Args:
        pooled: of the threshold that takes all other records for one sample.
        average: of the promise on average over classes; None with too few classes.
        most: of the promise in 90 % of classes; None with too few.
    """

    pooled: tuple[float, ...]
    average: tuple[float, ...] | None
    most: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class LeftOutClasses:
    """Each class with calibration records, taken as unseen in turn.

    Args:
        level: the nominal false-positive rate.
        classes: names of the classes.
        records: number of calibration records of each.
        recipes: recipe → rates within each class; without those that learnt from the population.
    """

    level: float
    classes: tuple[str, ...]
    records: tuple[int, ...]
    recipes: Mapping[str, LeftOutRates]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Accuracy of the target on members and non-members.

    Args:
        members: on the members.
        nonmembers: on the non-members.
        completed: whether the target was asked about completions of partly known records.
    """

    members: Estimate
    nonmembers: Estimate
    completed: bool = False


@dataclass(frozen=True, slots=True)
class RegressionFit:
    """Fit of a regression model, and whether it surely predicts its training records better than a constant.

    Args:
        r_squared_members: share of the variance of the members' values that it explains; None where they are all equal.
        r_squared_nonmembers: the same of the non-members.
        error_members: mean absolute error on the members, in the unit of the values.
        error_nonmembers: mean absolute error on the non-members.
        squared_gain: share of the squared error of the members' mean, as a constant answer, that the model saves on
            them; None where their values are all equal.
        absolute_gain: the same of the absolute error of their median; None where all values are equal.
        rank_correlation: Spearman's, of the members' values and predictions; its interval is that of the plausibility
            check.
    """

    r_squared_members: Estimate | None
    r_squared_nonmembers: Estimate | None
    error_members: Estimate
    error_nonmembers: Estimate
    squared_gain: Estimate | None
    absolute_gain: Estimate | None
    rank_correlation: Estimate


@dataclass(frozen=True, slots=True)
class ClassFit:
    """Fit of a classifier's probabilities to its training records, compared with the classes' shares among them.

    Args:
        gain: share of the log loss of these shares, as a constant answer, that the model saves on the members once a
            constant for each class is added to its logits, so that a model of re-weighted classes is judged fairly.
        p_value: chance of so large a gain if the model knew nothing of the members' labels, by permutation.
    """

    gain: float
    p_value: float


@dataclass(frozen=True, slots=True)
class ClassifierFit:
    """Fit of a classifier to its training records.

    Args:
        accuracy: of its predicted classes; None where the records have no classes.
        classes: of its probabilities; None where its accuracy leaves no doubt, and of one that gives none.
        single_answer: whether it gives all candidates the same class, though they are not known to be of one.
    """

    accuracy: Accuracy | None
    classes: ClassFit | None
    single_answer: bool


@dataclass(frozen=True, slots=True)
class TokenFit:
    """Fit of a language model to its training documents, compared with token frequencies.

    Args:
        members: mean log-probability of a unit of the members' text, in nats.
        gain: of it beyond that by the units' frequencies in the population, a mean over members with its interval.
        unit: "token", or "byte" where the target does not show its tokens.
        constant: whether every token of every document is given the same probability.
        perplexity_members: of a unit, a geometric mean over members in which each document weighs the same.
        perplexity_nonmembers: the same of the non-members: what the model is worth on documents it never saw. None for
            runs that did not measure it, and where there are too few documents for an interval.
    """

    members: float
    gain: Estimate
    unit: Literal["token", "byte"]
    constant: bool
    perplexity_members: Estimate | None = None
    perplexity_nonmembers: Estimate | None = None


@dataclass(frozen=True, slots=True)
class EstimatorSummary:
    """The estimator of a target.

    Args:
        name: its class; of a pipeline, that of the last step.
        parameters: its own parameters; numbers, texts and flags as they are, all else described.
        steps: classes of the steps before it, where it stands in a pipeline.
    """

    name: str
    parameters: Mapping[str, object]
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReferenceAgreement:
    """Agreement of reference models with the target, on calibration records, which neither was trained on.

    Args:
        references: which reference models: those that saw none of the candidates ("out"), or half ("in and out").
        records: number of records.
        models: number of reference models.
        measure: what ``target`` and ``mean`` are the means of.
        target: of the target.
        mean: of the reference models.
        distance: what ``rmse`` and ``spread`` compare.
        rmse: between the target and the mean of all trainings like the references'.
        spread: between one such training and their mean; None with one reference.
        differs: whether the target was trained otherwise, as far as this shows; None where nothing tells.
        text: all of this, in sentences.
    """

    references: str
    records: int
    models: int
    measure: str
    target: Estimate
    mean: Estimate
    distance: str
    rmse: Estimate
    spread: Estimate | None
    differs: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class ReferenceComparison:
    """Reference models beside the target.

    Args:
        agreement: how well each kind of reference models answers like the target.
        uncompared: a sentence for each kind of which that cannot be computed, with the reason.
    """

    agreement: tuple[ReferenceAgreement, ...]
    uncompared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TriedSetting:
    """A setting of reference models that was tried.

    Args:
        setting: in words.
        models: number of its trial models.
        rmse: root mean squared difference between their answers and the target's; None where one could not be trained.
        score: of two or more, mean absolute difference less half of that between two of them (continuous ranked
            probability score).
        failure: why one could not be trained; None otherwise.
    """

    setting: str
    models: int
    rmse: Estimate | None
    score: Estimate | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class MatchedReferences:
    """Choice of the settings of the reference models.

    Args:
        chosen: the setting, in words.
        held_out: number of the population's records on which trial models were compared with the target.
        distance: what was compared there.
        models: number of trial models.
        tried: all settings, the nearest first; the nearest of many, so its own distance is a little too small.
    """

    chosen: str
    held_out: int
    distance: str
    models: int
    tried: tuple[TriedSetting, ...]


CheckEffect: TypeAlias = Literal[
    "none",
    "not checked",
    "unsure",
    "suspected",
    "not cleared",
    "implausible",
    "not comparable",
    "leak",
    "proof",
]
"""What a finding does to the answer, and to the limits of a gate:

| effect | the answer | a limit |
|---|---|---|
| none | as scores say; the finding stands on the page | as scores say |
| not checked | as scores say; where that is "no leak found", the finding is told with it | as scores say |
| unsure | not "no leak found" | not kept, unless a leak is found; then as scores say |
| suspected, not cleared | not "no leak found" | not kept |
| implausible | "too little data to say", as the target may be another model | not kept |
| not comparable | "split is confounded", as no number can be attributed to the model | undecided |
| leak | "leak found" | not kept |
| proof | "leak found", whatever is measured | broken |
"""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What a check of an audit found, and what that does to verdict and gate.

    Args:
        check: name of the check.
        effect: on verdict and gate, as the table of `CheckEffect` says.
        sentence: what was found; the first sentence of a verdict that it decides.
        details: further sentences.
        figures: what was measured, by name.
        table: column names, then rows, of what the page shows of it; empty without any.
        member_auc: AUC of members against another set than the non-members, where the finding is about it: where a leak
            is found, a limit on the AUC is kept only where, and even if, this interval lies below it.
        trained_on: the set, beside the members, that the model was probably trained on. Of non-members, what is
            measured against them is too low; by a population, no decision is calibrated.
        section: title of the section of the page that it stands in; empty for one of its own.
        paragraphs: what the page says in place of sentence and details.
        ruling: what a gate says in place of the sentence.
        hidden: number of candidates whose copy in another set can hide what the model gives away of them.
        measured: all that was measured, where that is more than figures.

    Raises:
        divulge.InputError: an unknown effect, a figure that is no estimate, a measurement of another class.
    """

    check: str
    effect: CheckEffect
    sentence: str
    details: tuple[str, ...] = ()
    figures: Mapping[str, Estimate] = field(default_factory=dict)
    table: tuple[tuple[str, ...], ...] = ()
    member_auc: Estimate | None = None
    trained_on: Literal["", "nonmembers", "population"] = ""
    section: str = ""
    paragraphs: tuple[str, ...] = ()
    ruling: str = ""
    hidden: int = 0
    measured: Measurement | None = None

    def __post_init__(self) -> None:
        """Refuse what verdict and summary cannot hold."""
        name = f"check {self.check!r}"
        check_choice(self.effect, f"{name}: effect", get_args(CheckEffect))
        for figure, value in self.figures.items():
            check_instance(value, f"{name}: figures[{figure!r}]", Estimate)
        if self.measured is not None and not isinstance(self.measured, Measurement):
            known_types = ", ".join(each.__name__ for each in get_args(Measurement))
            raise InputError(
                f"{name}: measured: one of divulge.results.Measurement is needed ({known_types}), got "
                f"{format_value(self.measured)}"
            )

    @property
    def reason(self) -> str:
        """What a gate says of it."""
        return self.ruling or self.sentence.rstrip(".")

    @property
    def is_obstacle(self) -> bool:
        """Whether it speaks against what is declared of the records: decisions repeat it."""
        return self.effect in ("unsure", "not cleared", "leak")


MeasurementT = TypeVar("MeasurementT")


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """An audit without its scores.

    Args:
        settings: all that determines it.
        recipes: recipe → how it was run.
        counts: numbers of records.
        duplicates: number of records that stood in more than one set.
        warnings: what the user must know before relying on the numbers.
        environment: what it was run with.
        timings: step → seconds.
        engine: what trained the reference models.
        estimator: class and parameters of the target; None where it is none of scikit-learn's kind.
        matched: how the settings of the reference models were chosen; None where they were given.
        adapter: whether the target is an adapter on a base (LoRA).
        findings: of the checks in `divulge.auditing.checks`, in their order.
    """

    settings: RunSettings
    recipes: Mapping[str, RecipeRun]
    counts: RecordCounts
    duplicates: int
    warnings: tuple[str, ...]
    environment: Environment
    timings: Mapping[str, float]
    engine: str
    estimator: EstimatorSummary | None = None
    matched: MatchedReferences | None = None
    adapter: bool = False
    findings: tuple[CheckFinding, ...] = ()

    def measured(self, measurement_type: type[MeasurementT]) -> MeasurementT | None:
        """Return what a check measured, such as `BlindBaseline` or `StoredRecords`; None where it did not."""
        values = (finding.measured for finding in self.findings)
        return next((value for value in values if isinstance(value, measurement_type)), None)

    def with_effect(self, *effects: CheckEffect) -> list[CheckFinding]:
        """Return the findings of one of these effects, in order."""
        return [finding for finding in self.findings if finding.effect in effects]


@dataclass(frozen=True, slots=True)
class SkippedDocuments:
    """Documents that a server could not take.

    Args:
        documents: how many.
        first: ids of the first ten, as text.
        reason: what the server said of the first.
    """

    documents: int
    first: tuple[str, ...] = field(metadata=SINGLE_RECORDS)
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


class IdentificationSettings(DecisionSettings):
    """Settings of a decision on tables, and what they were applied to."""

    method: str = Field(description="Name of the method, or auto.")
    scores: Texts = Field(description="Columns, each with its member-like end.")
    notes: Texts = Field(description="Which rows were left out.")
    scored_together: bool = Field(False, description="Whether one model scored candidates and calibration in one call.")
    text: str = Field("", description="Column of the texts that were compared; empty where there is none.")


@dataclass(frozen=True, slots=True)
class ControlResult:
    """Result of a negative control, see `divulge.decisions.controls.Control`."""

    name: str
    p_value: float
    level: float
    says: str
    auc: Estimate | None
    conclusive: bool
    state: Literal["passed", "doubtful", "failed"]


@dataclass(frozen=True, slots=True)
class RealisedOutcome:
    """Realised error rates among the candidates whose membership is known.

    Args:
        known: how many they are.
        members: how many of them are members.
        fdp: share of non-members among the selected.
        power: share of members that were selected.
        orientation: a warning that the scores seem to be the wrong way round; else empty.
    """

    known: int
    members: int
    fdp: Estimate
    power: Estimate
    orientation: str


@dataclass(frozen=True, slots=True)
class BlindScoreResult:
    """Comparison of the score with a blind score, which never saw the model.

    Args:
        column: of the blind score, with its member-like end.
        adjusted: what was decided on.
        blind: AUC of the blind score, candidates against calibration.
        score: the same of the score, before it was adjusted.
        difference: the paired difference, score less blind score.
        answer: where membership is known, what `divulge.evaluation.against_baseline` says of the score; else empty.
        text: the same in a sentence.
        known: statistic → score less blind score, among the candidates whose membership is known.
    """

    column: str
    adjusted: str
    blind: Estimate
    score: Estimate
    difference: Estimate
    answer: str
    text: str
    known: dict[str, Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentificationSummary(Summary):
    """A decision on tables.

    Args:
        claim: the guarantee in words.
        guarantee: what is claimed about the selected set.
        selected: how many candidates were selected.
        candidates: how many there are.
        calibration: number of calibration scores.
        used: name of the method that was used.
        why: why "auto" chose it; else empty.
        threshold: smallest selected score; None where nothing was selected.
        null_share: estimated share of non-members that the p-values were multiplied by; None where there is none.
        usage: estimated share of members among the candidates.
        truth: what came true, where membership is known.
        warnings: what the user must know before relying on it.
        controls: the negative controls that ran.
        settings: what was asked for.
        baseline: the score beside a blind score; None where there is none.
        members: how many candidates were used, at least, with 95 % confidence if non-members score like the
            calibration; 0 where that is not known of any.
    """

    kind: Literal["identification"] = field(default="identification", repr=False)
    claim: str
    guarantee: Guarantee
    selected: int
    candidates: int
    calibration: int
    used: str
    why: str
    threshold: float | None
    null_share: float | None
    usage: Estimate
    truth: RealisedOutcome | None
    warnings: tuple[str, ...]
    controls: tuple[ControlResult, ...]
    settings: IdentificationSettings
    baseline: BlindScoreResult | None = None
    members: int = 0


@dataclass(frozen=True, slots=True)
class EpsilonLowerBound:
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
    """Settings of a bound on ε; with the scores of the canaries, they suffice to recompute it.

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
class CanarySummary(Summary):
    """Summary of a canary audit; `divulge.canaries.Proof` and `CanaryAudit` say what each field means.

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
    verdict: str
    tone: Tone
    answer: Literal["violated", "consistent", "not testable", "no claim"]
    claimed: float | None
    delta: float | None
    bound: EpsilonLowerBound
    others: Mapping[str, EpsilonLowerBound]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPrivacySummary(Summary):
    """Summary of fair coins on labels; `divulge.canaries.LabelPrivacy` says what each field means.

    Args:
        bound: what is claimed; 0 unless labels leak.
        bounds: the bounds behind it: of the members, of the holdout, of members against holdout.
        most: ε that would be proven had all telling coins been guessed.
        telling: members for which the proxy's draw is another label.
    """

    kind: Literal["label-privacy"] = field(default="label-privacy", repr=False)
    verdict: str
    tone: Tone
    answer: str
    bound: EpsilonLowerBound
    bounds: Mapping[str, EpsilonLowerBound]
    most: float
    members: int
    holdout: int
    telling: int
    left_out: int
    proxy: str
    checks: tuple[StudyControl, ...]
    warnings: tuple[str, ...]
    settings: LabelPrivacySettings
    environment: Environment


@dataclass(frozen=True, slots=True)
class ExtractionRate:
    """Shares of documents that one extraction method returns, see `divulge.extraction.RateComparison`."""

    way: str
    members: Estimate
    nonmembers: Estimate
    difference: Estimate
    members_of_reference: int | None
    nonmembers_of_reference: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionSummary(Summary):
    """Summary of an extraction; `divulge.extraction.Extraction` says what each field means.

    Args:
        members: documents asked for that the model was trained on.
        nonmembers: documents asked for that it was not trained on.
        settings: how documents were cut, and what counts as given back.
        smallest: members given back verbatim that would have shown extraction; None where no number would.
        extracted: members given back by a way that shows it.
        with_reference: whether documents that a reference model gives back, too, were left out of account.
        blind: p-value of the blind baseline; None where there were too few documents for one.
        signs: words, years and lengths by which their passages differ, the surest first.
        confounded: whether the sets can be told apart without the model.
        shared: documents whose passage is in both sets: members, non-members, and of each those taken as given back in
            the reading that shows least; None where there is none.
        unit: what prompts and suffixes are counted in; words where a server shows text alone.
    """

    kind: Literal["extraction"] = field(default="extraction", repr=False)
    verdict: str
    tone: Tone
    answer: Literal["extracted", "not shown", "undecided", "confounded"]
    model: str
    members: int
    nonmembers: int
    settings: ExtractSettings
    decoding: str
    rates: tuple[ExtractionRate, ...]
    smallest: int | None
    extracted: int
    with_reference: bool
    blind: float | None
    signs: tuple[str, ...]
    confounded: bool
    warnings: tuple[str, ...]
    environment: Environment
    shared: tuple[int, int, int, int] | None = None
    unit: Literal["token", "word"] = "token"


MEANING = {
    "noise": "standard deviation of Gaussian noise added to every score, in the unit of the score",
    "decimals": "most decimals a score may show",
    "clip": "smallest probability that is scored, and 1 minus the largest",
    "query_cap": "most queries answered in total",
    "epsilon": "budget of label differential privacy for all answers together",
}
"""The settings that a `DefenceSummary` names, and what each is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureFinding:
    """Finding on one request for erasure, see `divulge.forget`.

    Args:
        request: its name.
        answer: one of four.
        reason: why.
        forgotten: number of records to be forgotten.
        controls: AUC of these against never-used records under each model that never saw them.
        auc_before: the same under the model before the erasure; None where that was not given.
        auc_after: the same under the model after it.
        difference: AUC after less the mean of the controls, with the spread between trainings; None without controls.
        relative: the same of scores less the mean score of the controls, which sees more; None below two controls.
        spread: the same of the scores' distances from the median of never-used records: above 0 where some score higher
            and others lower than under these models; None without controls.
        training_noise: standard deviation of the AUC between trainings; None below two controls.
        smallest_seen: smallest difference that would have been found with 80 % probability; None without controls.
        share: share of the records that is still remembered; None without controls.
        remembered: number of records on the list of those still remembered.
    """

    request: str
    answer: Literal[
        "still remembered",
        "no difference from a model that never saw them",
        "overdone: they stand out the other way",
        "too little data to say",
    ]
    reason: str
    forgotten: int
    controls: tuple[float, ...]
    auc_before: Estimate | None
    auc_after: Estimate
    difference: Estimate | None
    relative: Estimate | None
    training_noise: float | None
    smallest_seen: float | None
    share: Estimate | None
    remembered: int
    spread: Estimate | None = None


@dataclass(frozen=True, slots=True)
class QualityChange:
    """Cost of an erasure on records that were not to be forgotten.

    Args:
        records: which: "retained", "never used" or "other".
        count: how many.
        measure: "accuracy", "log-likelihood per token" or "score".
        before: its mean before.
        after: its mean after.
        change: after less before, with an interval over records.
    """

    records: str
    count: int
    measure: str
    before: float
    after: float
    change: Estimate


@dataclass(frozen=True, slots=True)
class StudyControl:
    """A check of the records or models of a study.

    Args:
        name: of the check.
        passed: whether nothing was found; None where it could not be run.
        says: what was found, or why it was not run.
    """

    name: str
    passed: bool | None
    says: str

    @property
    def result(self) -> str:
        """What the page says of it in two words."""
        return "not run" if self.passed is None else "nothing found" if self.passed else "FOUND"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureSummary(Summary):
    """Whether a model still shows records that it was to forget.

    Args:
        verdict: in sentences.
        tone: its colour.
        answer: that of the request that fares worst.
        findings: one for each request.
        never: number of never-used records.
        null: what the model was compared with: "retrained models", "reference models", both, or "nothing".
        control_names: of the models that never saw the records.
        signal: what was read from every model.
        quality: what the erasure cost elsewhere.
        checks: of records and models.
        warnings: what the user must know.
        settings: what was asked for.
        environment: software that ran.
    """

    kind: Literal["erasure"] = field(default="erasure", repr=False)
    verdict: str
    tone: Tone
    answer: str
    findings: tuple[ErasureFinding, ...]
    never: int
    null: str
    control_names: tuple[str, ...]
    signal: str
    quality: tuple[QualityChange, ...]
    checks: tuple[StudyControl, ...]
    warnings: tuple[str, ...]
    settings: ForgetSettings
    environment: Environment


@dataclass(frozen=True, slots=True)
class AttributeAttack:
    """Success of one way of guessing an attribute.

    Args:
        name: of the attack.
        members: share of the members whose value is guessed rightly.
        nonmembers: the same of the non-members.
        difference: the first less the second.
        gain: on members, less what the imputation gets right; None for the imputation itself.
    """

    name: str
    members: Estimate
    nonmembers: Estimate
    difference: Estimate
    gain: Estimate | None


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """The same among the records with one value.

    Args:
        attack: its name.
        value: the value.
        right_members: members with it whose value is guessed rightly.
        members: members with it.
        right_nonmembers: non-members with it whose value is guessed rightly.
        nonmembers: non-members with it.
        difference: of the two shares.
        gain: on members, less what the imputation gets right.
    """

    attack: str
    value: str
    right_members: int
    members: int
    right_nonmembers: int
    nonmembers: int
    difference: Estimate
    gain: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeSummary(Summary):
    """Whether a model gives one column of its training records away.

    Args:
        verdict: in sentences.
        tone: its colour.
        answer: "leak found", "no leak found", "too little data to say" or "split is confounded".
        column: the attribute.
        tried: number of values that the model was asked about.
        references: number of reference models.
        members: number of members that count.
        nonmembers: number of non-members that count.
        attacks: every way of guessing, the imputation last.
        values: the same among the records with one value.
        untested: members whose value too few records have for a test of its own.
        checks: of the split.
        warnings: what the user must know.
        settings: what was asked for.
        environment: software that ran.
        doubt: why the target may not be the model that was trained on the members; empty where it surely is.
        stored: training records that stand in the model's arrays; None where nothing was searched.
        copied: number of records that have a copy in another set, which can hide a leak.
    """

    kind: Literal["attributes"] = field(default="attributes", repr=False)
    verdict: str
    tone: Tone
    answer: str
    column: str
    tried: int
    references: int
    members: int
    nonmembers: int
    attacks: tuple[AttributeAttack, ...]
    values: tuple[AttributeValue, ...] = field(metadata=SINGLE_RECORDS)
    untested: int
    checks: tuple[StudyControl, ...]
    warnings: tuple[str, ...]
    settings: AttributeSettings
    environment: Environment
    doubt: str
    stored: StoredRecords | None
    copied: int


@dataclass(frozen=True, slots=True)
class SettingResult:
    """A model with one setting: what it gives away, and how well it predicts.

    Args:
        name: the setting; "as it is" for the target itself.
        answer: of its audit.
        reason: the same in a sentence, which may rest on another figure than those here.
        auc: of the attack that tells most apart.
        tpr: at the false-positive rate; None with too few non-members.
        utility: accuracy, or mean absolute error, on the non-members.
        loss: of utility against the target as it is; None for itself.
        stored: training records that stand in the model.
        seconds: of training and audit.
        recipe: that attack.
        constant: whether it predicts one class, or value, for all non-members.
    """

    name: str
    answer: str
    reason: str
    auc: Estimate
    tpr: Estimate | None
    utility: Estimate
    loss: Estimate | None
    stored: int
    seconds: float
    recipe: str
    constant: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOffSummary(Summary):
    """Settings of an estimator: privacy against utility.

    Args:
        verdict: in sentences.
        tone: its colour.
        recipes: the attacks.
        fpr: the false-positive rate of the rates.
        utility: "accuracy" or "mean absolute error".
        max_loss: largest loss of utility that a recommended setting may have.
        references: reference models of each.
        model: class of the target.
        rows: one for each model; the first is the target as it is.
        recommended: the setting that surely gives away less, surely loses no more and comes nearest to guessing; empty
            without any.
        seed: of every random draw.
        warnings: what the user must know.
        environment: software that ran.
    """

    kind: Literal["trade-off"] = field(default="trade-off", repr=False)
    verdict: str
    tone: Tone
    recipes: tuple[str, ...]
    fpr: float
    utility: str
    max_loss: float
    references: int
    model: str
    rows: tuple[SettingResult, ...]
    recommended: str
    seed: int
    warnings: tuple[str, ...]
    environment: Environment


@dataclass(frozen=True, slots=True)
class OracleSummary:
    """The endpoint, as declared: see `divulge.labels.OracleSpec`.

    Args:
        metric: name of the score.
        rows: rows of a submission.
        classes: number of classes.
        clip: smallest probability that is scored; 0 without a clip.
        decimals: decimals of a score; None where it is not rounded.
        noise: bound, or standard deviation, of its noise.
        noise_kind: "bounded", "gaussian" or "laplace".
    """

    metric: str
    rows: int
    classes: int
    clip: float
    decimals: int | None
    noise: float
    noise_kind: str


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """The queries, and what is proven of them.

    Args:
        method: how they were made.
        queries: how many they are.
        labels_per_query: labels read from one score.
        certified: whether any two labellings give answers that can be told apart.
        certificate: what is proven, in words.
    """

    method: str
    queries: int
    labels_per_query: float
    certified: bool
    certificate: str


@dataclass(frozen=True, slots=True)
class CapacitySummary:
    """Upper bound on labels per query, and its cause: see `divulge.labels.Capacity`."""

    queries: int
    labels_per_query: float
    binds: str


@dataclass(frozen=True, slots=True)
class DefenceSummary:
    """Settings of an endpoint that prevent the attack.

    Args:
        queries: what the attacker may ask.
        accuracy: what they may reach on balanced labels.
        settings: setting → value that suffices alone; None where none does.
        formulas: setting → the formula behind its value.
        advice: what to do, each line by itself.
    """

    queries: int
    accuracy: float
    settings: Mapping[str, float | None]
    formulas: Mapping[str, str]
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsSummary(Summary):
    """An attack on labels.

    Args:
        queries: how many were answered.
        complete: whether all of the plan's were.
        certain: labels that follow even if the noise was twice what was declared.
        proven: labels that follow if the noise kept to what was declared, with the control queries answered as they
            imply.
        determined: labels that follow if the endpoint is what was declared.
        checked: whether the control queries were answered as the labels imply.
        caveat: why labels are not proven, where that can be said.
        contradiction: why the answers cannot come from the oracle that was declared; None where nothing says so.
        labels: what the answers tell, -1 for a row that is not scored, None for one they leave open; None altogether
            where they contradict what was declared.
        scored: how many rows are scored.
        residual: largest distance of an answer from what the labels imply.
        right: labels that are right; None where they were not known beforehand.
        accuracy: the same as a share.
        certain_and_wrong: labels called certain that are wrong; None likewise.
        oracle: the endpoint.
        plan: the queries.
        limit: what no plan exceeds.
        defence: what stops the attack.
    """

    kind: Literal["labels"] = field(default="labels", repr=False)
    queries: int
    complete: bool
    certain: int
    proven: int
    determined: int
    checked: bool
    caveat: str
    contradiction: str | None
    labels: tuple[int | None, ...] | None
    scored: int
    residual: float
    right: int | None
    accuracy: float | None
    certain_and_wrong: int | None
    oracle: OracleSummary
    plan: PlanSummary
    limit: CapacitySummary
    defence: DefenceSummary


@dataclass(frozen=True, slots=True)
class RuleSummary:
    """The candidates that one rule calls members.

    Args:
        selected: their rows.
        ids: their names.
        guarantee: what is claimed, in words.
        proven: whether anything is.
        warnings: what the user must know before relying on it.
    """

    selected: tuple[int, ...]
    ids: tuple[int | str, ...]
    guarantee: str
    proven: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CalledRecord:
    """A candidate that some rule calls a member: its name, |Φ|, score, and the rules."""

    id: str
    output: float
    score: float
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSummary(Summary):
    """Membership of candidates, from the weights of a network.

    Args:
        verdict: two or three sentences.
        tone: of the verdict.
        candidates: how many there are.
        margin: the margin that was used, or None.
        residual: share of the weights that no combination of the records' gradients rebuilds.
        signal: name of the signal.
        ids: names of the candidates.
        scores: their scores.
        outputs: Φ of them; with several classes how far the first is above the second.
        decisions: rule → whom it calls a member.
        called: those that any rule calls a member, the highest score first.
        classes: number of outputs of the network; 1 where the sign of one decides.
    """

    kind: Literal["weights"] = field(default="weights", repr=False)
    verdict: str
    tone: Tone
    candidates: int
    margin: float | None
    residual: float
    signal: str
    ids: tuple[int | str, ...]
    scores: tuple[float, ...]
    outputs: tuple[float, ...]
    decisions: Mapping[str, RuleSummary]
    called: tuple[CalledRecord, ...]
    classes: int = 1


@dataclass(frozen=True, slots=True)
class OpenStretch:
    """A stretch of the line that holds a training point, see `divulge.reconstruction.Stretch`."""

    low: float
    high: float
    label: int
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconstructionSummary(Summary):
    """Training points read off the weights, see `divulge.reconstruction.Reconstruction`."""

    kind: Literal["reconstruction"] = field(default="reconstruction", repr=False)
    verdict: str
    tone: Tone
    candidates: tuple[float, ...]
    labels: tuple[float, ...]
    rules: tuple[tuple[str, ...], ...]
    multipliers: tuple[float, ...]
    residual: float
    ambiguous: tuple[OpenStretch, ...]
    proven: tuple[bool, ...]
    windows: tuple[tuple[int, ...], ...]
    guaranteed: int
    needed: tuple[bool, ...]
    standing: Standing
    warnings: tuple[str, ...]
    guarantee: str
    break_points: tuple[float, ...]
    margin: float


@dataclass(frozen=True, slots=True)
class SubsetResult:
    """A subset of cohorts, see `divulge.margin.SubsetFit`."""

    cohorts: tuple[str, ...]
    records: int
    distance: float | None
    accepted: bool
    chance: float
    penalty: float | None
    told_apart: int | None
    hidden: int | None
    undecided: str


@dataclass(frozen=True, slots=True)
class OddRecordResult:
    """A record by which a training set differs from cohorts, see `divulge.margin.OddRecord`.

    Values, label, errors and rows are None where single records are not shown. `alike` is None where one record is told
    from several that are alike, else the share of pairs of the cohorts' records that are.
    """

    cohorts: tuple[str, ...]
    missing: bool
    chance: float
    values: Mapping[str, float] | None = field(metadata=SINGLE_RECORDS)
    label: float | None = field(metadata=SINGLE_RECORDS)
    errors: Mapping[str, float] | None = field(metadata=SINGLE_RECORDS)
    row: int | None = field(metadata=SINGLE_RECORDS)
    label_error: float | None = field(default=None, metadata=SINGLE_RECORDS)
    alike: float | None = None
    copies: int = 0
    equal_cohort: str | None = None
    equal_row: int | None = field(default=None, metadata=SINGLE_RECORDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortsSummary(Summary):
    """Cohorts that a published regression can have been fitted on.

    Args:
        verdict: sentences.
        tone: of the verdict.
        answer: "found" where one subset alone fits, "one record off" where a record by which it differs is read off,
            "several" or "undecided" where it cannot be told, "none" where no subset fits.
        proven: cohorts that are in the training set if it is as assumed.
        model: name of the model.
        family: of the regression.
        cohorts: name → number of records.
        coefficients: how many there are, the intercept among them.
        decimals: of them; None where all digits are given.
        units: rounding error that was allowed, in units of the last decimal.
        tried: number of subsets.
        chance: at most, that any of them is accepted by chance.
        subsets: those accepted, and the nearest others.
        odd_record: where one is read off.
        assumes: what all of this holds under.
        environment: software that ran.
    """

    kind: Literal["cohorts"] = field(default="cohorts", repr=False)
    verdict: str
    tone: Tone
    answer: Literal["found", "one record off", "several", "undecided", "none"]
    proven: tuple[str, ...]
    model: str
    family: Literal["logistic", "linear", "poisson"]
    cohorts: Mapping[str, int]
    coefficients: int
    decimals: int | None
    units: float
    tried: int
    chance: float
    subsets: tuple[SubsetResult, ...]
    odd_record: OddRecordResult | None
    assumes: tuple[str, ...]
    environment: Environment


@dataclass(frozen=True, slots=True)
class ArrayMatch:
    """Candidates in one array.

    Args:
        array: its name.
        form: in which form they stand there.
        members: number of members whose row stands in it.
        nonmembers: number of non-members whose row does.
        p_value: chance of so many more members, if the array had nothing to do with membership; where the sets are not
            comparable, also of so many members with a twin among other records that were drawn as they were.
        columns: columns of this form in which they stand there, where these were looked for one by one; else None.
        width: varying columns of this form, of which these are some; None where they were not looked for one by one.
        control_p_value: the first of these two chances, by the non-members alone; None where the sets are comparable.
    """

    array: str
    form: Form
    members: int
    nonmembers: int
    p_value: float
    columns: int | None = None
    width: int | None = None
    control_p_value: float | None = None

    @property
    def is_partial(self) -> bool:
        """Whether only some columns of the records stand there."""
        return self.columns is not None and self.width is not None and self.columns < self.width

    @property
    def description(self) -> str:
        """The form, and how many columns, in words."""
        return f"{self.form}, in {self.columns} of {self.width} columns" if self.is_partial else self.form


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """Candidates that stand in a model.

    Args:
        found: number of members found, in any array that holds more than chance.
        members: number of members searched for.
        nonmembers_found: number of non-members found in the same arrays.
        nonmembers: number of non-members searched for.
        matches: the arrays that hold them, the fullest first.
        searches: number of searches, by which the bound on a false match is divided.
        arrays: number of arrays that the model holds.
        suspected: number of members found in an array where chance is unlikely (5 %, over all searches together) but
            not ruled out, as there are too few records for that.
        bound: bound on the chance of a false match, over all searches together.
        not_searched: why some of the model or of the records was not searched; empty where all was.
        no_control: why the non-members were no control, so that rows had to repeat between members and model more often
            than among either; empty where they were one.
    """

    found: int
    members: int
    nonmembers_found: int
    nonmembers: int
    matches: tuple[ArrayMatch, ...]
    searches: int
    arrays: int
    suspected: int = 0
    bound: float = FALSE_MATCH
    not_searched: tuple[str, ...] = ()
    no_control: str = ""

    @property
    def proven(self) -> bool:
        """Whether training records stand in the model beyond chance."""
        return self.found > 0

    @property
    def sentence(self) -> str:
        """Finding, in a sentence."""
        if self.suspected and self.no_control:
            return (
                f"{self.suspected:,} of {self.members:,} training records have an equal in this file, and as "
                f"{self.no_control}, it may be another's: rows repeat, or are too few."
            )
        if self.suspected:
            return (
                f"{self.suspected:,} of {self.members:,} training records seem to stand in this file; {self.members:,} "
                f"members and {self.nonmembers:,} non-members are too few to rule out chance."
            )
        if not self.proven:
            return f"No training record was found in the model's {self.arrays:,} arrays."
        records = "record stands" if self.members == 1 else "records stand"
        partly = "" if any(not match.is_partial for match in self.matches) else ", by some of their columns"
        return f"{self.found:,} of {self.members:,} training {records} in this file{partly}."

    @property
    def evidence(self) -> str:
        """Where and in which form they stand, and how sure that is; empty where there are none."""
        if not self.proven:
            return ""
        first_match = self.matches[0]
        n_others = len({match.array for match in self.matches} - {first_match.array})
        remainder = f", and {n_others} other array{'s hold' if n_others > 1 else ' holds'} some" if n_others else ""
        return (
            f"The array {first_match.array} holds {first_match.members:,} of them {first_match.description}{remainder}"
            f"; of {self.nonmembers:,} non-members, {self.nonmembers_found:,} stand there. Chance would do this with a "
            f"probability of at most "
            f"{first_match.p_value * self.searches:.2g} over all {self.searches:,} searches."
        )


Measurement: TypeAlias = (
    BlindBaseline
    | TextSplit
    | TransferSummary
    | LeftOutClasses
    | ReferenceComparison
    | ClassifierFit
    | RegressionFit
    | TokenFit
    | StoredRecords
)
"""What a check measured, where that is more than figures; a new class joins this union.

`divulge.load` tells them apart by the fields that each must have.
"""
