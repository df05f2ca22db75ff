"""What the weights of a network say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from divulge._version import __version__
from divulge.results.json_files import VERSION
from divulge.types import Tone


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
