"""Which parts of the evidence an attack cannot do without, checked before any work starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from divulge.attacks.protocol import Need
from divulge.errors import InputError

if TYPE_CHECKING:
    from divulge.types import Bools, Floats

T = TypeVar("T")


def references_for_mode(mode: Literal["offline", "online"], *beside: Need) -> frozenset[Need]:
    """Reference models of the kind that ``mode`` says; offline also what is named beside it.

    Examples:
        >>> sorted(references_for_mode("offline", Need.POPULATION))
        [<Need.POPULATION: 'population'>, <Need.REFERENCES_OUT: 'references out'>]
        >>> set(references_for_mode("online", Need.POPULATION))
        {<Need.REFERENCES_IN_AND_OUT: 'references in and out'>}
    """
    return frozenset({Need.REFERENCES_IN_AND_OUT} if mode == "online" else {Need.REFERENCES_OUT, *beside})


def part(value: T | None, attack: str, name: str, description: str) -> T:
    """``value``, the part ``name`` of the evidence.

    Raises:
        divulge.InputError: it is missing.

    Examples:
        >>> part(None, "LiRA", "references", "candidates under reference models")
        Traceback (most recent call last):
        divulge.errors.InputError: LiRA: evidence.references is needed (candidates under reference models)
    """
    if value is None:
        raise InputError(f"{attack}: evidence.{name} is needed ({description})")
    return value


def out_models(trained_on: Bools | None, attack: str) -> None:
    """Raise unless at least one candidate was left out of at least one reference model.

    Raises:
        divulge.InputError: every reference model was trained on every candidate.
    """
    if trained_on is not None and trained_on.all():
        raise InputError(
            f"{attack}: evidence.trained_on says that every reference model was trained on every candidate; "
            "at least one model that was not is needed"
        )


def in_models(trained_on: Bools | None, attack: str) -> Bools:
    """``trained_on``, which says that at least one reference model was trained on at least one candidate.

    Raises:
        divulge.InputError: it is missing, or says otherwise.
    """
    membership = part(trained_on, f"{attack}(mode='online')", "trained_on", "which models saw which candidate")
    if not membership.any():
        raise InputError(
            f"{attack}(mode='online'): evidence.trained_on says that no reference model was trained on any "
            "candidate; use mode='offline'"
        )
    return membership


def log_probabilities(target: Floats, references: Floats, attack: str, signal: str = "negative-loss") -> None:
    """Raise unless all signals are logarithms of probabilities, as those called ``signal`` are.

    Raises:
        divulge.InputError: a positive value.
    """
    for values, name in ((target, "target"), (references, "references")):
        if values.max() > 0:
            raise InputError(
                f"{attack}: evidence.{name} must hold log-probabilities, at most 0, got {values.max():g}; "
                f"use the {signal!r} signal"
            )
