"""Summaries of identifications, canary audits, extractions, and attacks on labels and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from divulge._version import __version__
from divulge.results.provenance import Environment
from divulge.results.summary_files import VERSION
from divulge.types import Estimate, Guarantee, Tone


@dataclass(frozen=True, slots=True)
class IdentificationSettings:
    """What was asked for.

    Args:
        method: name of the method, or "auto".
        fdr: bound on the expected share of non-members among the selected.
        eta: of "ptdi".
        lam: of "storey".
        seed: of random splits.
        scores: columns, each with its member-like end.
        notes: which rows were left out.
    """

    method: str
    fdr: float
    eta: float
    lam: float
    seed: int
    scores: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ControlResult:
    """What a negative control found, see `divulge.decisions.controls.Control`."""

    name: str
    p_value: float
    level: float
    says: str
    auc: Estimate | None
    conclusive: bool
    state: Literal["passed", "doubtful", "failed"]


@dataclass(frozen=True, slots=True)
class RealisedOutcome:
    """What came true among the candidates whose membership is known.

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
    """How the score compares with a blind score, which never saw the model.

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
class IdentificationSummary:
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
        divulge: the version of Divulge that decided.
        baseline: the score beside a blind score; None where there is none.
    """

    kind: Literal["identification"] = field(default="identification", repr=False)
    version: int = field(default=VERSION, repr=False)
    divulge: str = __version__
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
class ExtractionSummary:
    """What was extracted; `divulge.extraction.Extraction` says what each field means.

    Args:
        members: documents asked for that the model was trained on.
        nonmembers: documents asked for that it was not trained on.
        prefix: tokens of a prompt, or its share of the document.
        smallest: members given back verbatim that would have shown extraction; None where no number would.
        extracted: members given back by a way that shows it.
        with_reference: whether documents that a reference model gives back, too, were left out of account.
        blind: p-value of the blind baseline; None where there were too few documents for one.
        signs: words, years and lengths by which their passages differ, the surest first.
        confounded: whether the sets can be told apart without the model.
    """

    kind: Literal["extraction"] = field(default="extraction", repr=False)
    version: int = field(default=VERSION, repr=False)
    divulge: str = __version__
    verdict: str
    tone: Tone
    answer: Literal["extracted", "not shown", "undecided", "confounded"]
    model: str
    members: int
    nonmembers: int
    prefix: int | float
    suffix: int
    place: str
    decoding: str
    draws: tuple[int, ...]
    near: float
    confidence: float
    rates: tuple[ExtractionRate, ...]
    smallest: int | None
    extracted: int
    with_reference: bool
    blind: float | None
    signs: tuple[str, ...]
    confounded: bool
    seed: int
    warnings: tuple[str, ...]
    environment: Environment


MEANING = {
    "noise": "standard deviation of Gaussian noise added to every score, in the unit of the score",
    "decimals": "most decimals a score may show",
    "clip": "smallest probability that is scored, and 1 minus the largest",
    "query_cap": "most queries answered in total",
    "epsilon": "budget of label differential privacy for all answers together",
}
"""The settings that a `DefenceSummary` names, and what each is."""


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
    """What no plan exceeds, and what limits it: see `divulge.labels.Capacity`."""

    queries: int
    labels_per_query: float
    binds: str


@dataclass(frozen=True, slots=True)
class DefenceSummary:
    """What stops the attack.

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
class LabelsSummary:
    """An attack on labels.

    Args:
        queries: how many were answered.
        complete: whether all of the plan's were.
        certain: labels that follow even if the noise was twice what was declared.
        proven: labels that follow if the noise kept to what was declared.
        checked: whether the control query was answered as the labels imply.
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
    version: int = field(default=VERSION, repr=False)
    divulge: str = __version__
    queries: int
    complete: bool
    certain: int
    proven: int
    checked: bool
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
class WeightsSummary:
    """Which candidates a network was trained on, read off its weights.

    Args:
        verdict: two or three sentences.
        tone: of the verdict.
        candidates: how many there are.
        margin: the margin that was used, or None.
        residual: share of the weights that no combination of the records' gradients rebuilds.
        signal: name of the signal.
        ids: names of the candidates.
        scores: their scores.
        outputs: Φ of them.
        decisions: rule → whom it calls a member.
        called: those that any rule calls a member, the highest score first.
    """

    kind: Literal["weights"] = field(default="weights", repr=False)
    version: int = field(default=VERSION, repr=False)
    divulge: str = __version__
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


@dataclass(frozen=True, slots=True)
class OpenStretch:
    """A stretch of the line that holds a training point, see `divulge.reconstruction.univariate.Stretch`."""

    low: float
    high: float
    label: int
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconstructionSummary:
    """Training points read off the weights, see `divulge.reconstruction.Reconstruction`."""

    kind: Literal["reconstruction"] = field(default="reconstruction", repr=False)
    version: int = field(default=VERSION, repr=False)
    divulge: str = __version__
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
    warnings: tuple[str, ...]
    guarantee: str
    break_points: tuple[float, ...]
    margin: float
