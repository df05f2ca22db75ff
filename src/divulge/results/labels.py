"""What an attack on the labels behind a scoring endpoint says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from divulge._version import __version__
from divulge.results.json_files import VERSION

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
