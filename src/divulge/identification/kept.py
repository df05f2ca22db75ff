"""The summary of an identification read back: held against what pages and decisions rely on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from divulge import store
from divulge.decisions.controls import State
from divulge.dossier import shape
from divulge.types import Estimate, Guarantee

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class _Settings:
    method: str
    fdr: float
    eta: float
    lam: float
    seed: int
    scores: list[str]
    notes: list[str]


@dataclass
class _Control:
    name: str
    p_value: float
    level: float
    says: str
    auc: Estimate | None
    conclusive: bool
    state: State


@dataclass
class _Truth:
    known: int
    members: int
    fdp: Estimate
    power: Estimate
    orientation: str


@dataclass
class _Summary:
    kind: Literal["identification"]
    version: str
    claim: str
    guarantee: Guarantee
    selected: int
    candidates: int
    calibration: int
    used: str
    why: str
    threshold: float | None
    usage: Estimate
    truth: _Truth | None
    warnings: list[str]
    controls: list[_Control]
    settings: _Settings


def read(folder: Path) -> dict[str, Any]:
    """The summary in ``folder``.

    Raises:
        divulge.InputError: missing, damaged, or of another shape.
    """
    path = folder / "summary.json"
    found = store.read_json(path)
    shape.parse(found, _Summary, path)
    return found
