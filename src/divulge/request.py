"""User's request: the data of an audit and its options, with every default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from divulge.types import Records

Duplicates: TypeAlias = Literal["error", "drop", "keep"]
Outputs: TypeAlias = Literal["logits", "probabilities"]
UnknownClasses: TypeAlias = Literal["error", "drop"]


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditData:
    """Data of an audit, as the user passes it; see `divulge.audit`."""

    members: Records
    nonmembers: Records
    population: Records | None = None
    unseen_classes: Sequence[int | str] = ()
    groups: Any = None
    known: Any = None
    covariates: Any = None


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditOptions:
    """Options of an audit, as the user passes them; see `divulge.audit`."""

    recipes: Sequence[Any] = ("auto", "loss")
    references: Any = None
    fpr: Sequence[float] = (0.01,)
    imputer: Any = None
    calibration: float = 0.25
    duplicates: Duplicates = "error"
    outputs: Outputs = "logits"
    unknown_classes: UnknownClasses = "error"
    device: str = "auto"
    texts: bool = True
    seed: int = 0
