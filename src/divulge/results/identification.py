"""What an identification says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from divulge._version import __version__
from divulge.results.json_files import VERSION
from divulge.types import Estimate, Guarantee


@dataclass(frozen=True, slots=True)
class Asked:
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
class Realised:
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
    truth: Realised | None
    warnings: tuple[str, ...]
    controls: tuple[ControlResult, ...]
    settings: Asked
    baseline: BlindScoreResult | None = None
