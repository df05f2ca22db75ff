"""What an audit says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from divulge._version import __version__
from divulge.results.json_files import VERSION
from divulge.results.recorded import About
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
class Called:
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
class Group:
    """A class or subgroup: its AUC, and its TPR and FPR at the threshold of all; None with one kind of record only."""

    members: int
    nonmembers: int
    auc: Estimate | None
    tpr: Estimate | None
    fpr: Estimate | None


@dataclass(frozen=True, slots=True)
class Numbers:
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
class RecipeSummary(Numbers):
    """A recipe's numbers: of all candidates, of those of unseen classes, and of each class and subgroup.

    Args:
        decisions: level → who is called a member; None with too few calibration records.
        raw_fpr: level → rate of the threshold that the attack would set by itself; empty where it sets none.
        unseen: the numbers of the unseen classes alone; None without any.
        classes: class → its numbers; empty without labels.
        groups: subgroup → its numbers; empty without any.
    """

    decisions: Mapping[str, Called | None]
    raw_fpr: Mapping[str, Estimate]
    unseen: Numbers | None
    classes: Mapping[str, Group]
    groups: Mapping[str, Group]


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
    recipes: Mapping[str, Numbers]
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
    about: About
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
