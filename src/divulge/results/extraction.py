"""What a language model gave back of its training documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from divulge._version import __version__
from divulge.results.json_files import VERSION
from divulge.results.recorded import Environment
from divulge.types import Estimate, Tone


@dataclass(frozen=True, slots=True)
class ExtractionRate:
    """How many documents are given back by one way to ask for them, see `divulge.extraction.RateOf`."""

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
