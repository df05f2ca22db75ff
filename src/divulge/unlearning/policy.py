"""Policies on erasure checks, for CI: limits on what may be left of the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from divulge.auditing.compare import CONFIDENCE, Ruling
from divulge.errors import InputError
from divulge.types import Estimate
from divulge.unlearning.finding import NO_DIFFERENCE, OVERDONE, REMEMBERED
from divulge.unlearning.result import Erasure
from divulge.validation import as_list, check_instance, check_number, check_string, format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.results import ErasureFinding

METRICS = ("difference", "share")


@dataclass(frozen=True, slots=True)
class ErasureLimit:
    """A limit on one statistic of an erasure check.

    Args:
        metric: "difference" (of AUC from models that never saw the records, in either direction) or "share" (of the
            records, still remembered).
        limit: the largest value that is allowed, in [0, 1).

    Examples:
        >>> ErasureLimit.parse("difference:0.05")
        ErasureLimit(metric='difference', limit=0.05)
    """

    metric: Literal["difference", "share"]
    limit: float

    @classmethod
    def parse(cls, text: str) -> ErasureLimit:
        """Parse ``METRIC:LIMIT``.

        Raises:
            divulge.InputError: text that is not of this form, another metric, a limit outside [0, 1).
        """
        metric, _, bound = check_string(text, "policy").replace(" ", "").rpartition(":")
        if metric not in METRICS:
            forms = " or ".join(f"{name}:LIMIT" for name in METRICS)
            raise InputError(f"policy: of an erasure check: {forms}, got {format_value(text)}")
        try:
            limit = float(bound)
        except ValueError:
            raise InputError(f"policy: a number is needed after '{metric}:', got {format_value(bound)}") from None
        if not 0 <= limit < 1:
            raise InputError(f"policy: {metric}: must lie in [0, 1), got {limit:g}")
        return cls("share" if metric == "share" else "difference", limit)


def gate(erasure: Erasure, policy: str | Sequence[str], *, confidence: float = CONFIDENCE) -> list[Ruling]:
    """Hold every request of an erasure check against one or more policies such as ``"difference:0.05"``.

    All intervals hold at once (Bonferroni over requests and policies). Nothing is "kept" by fewer than 2 models that
    never saw the records, whose intervals leave training noise out; by a request whose answer is "still remembered" or
    "overdone" by other evidence; or where the model before the erasure does not show the records either.

    Args:
        erasure: the result of `divulge.forget`.
        policy: ``METRIC:LIMIT`` with METRIC "difference" or "share"; or several.
        confidence: probability that all rulings are right.

    Raises:
        divulge.InputError: no policy, one that cannot be read, a confidence outside (0, 1).
    """
    check_instance(erasure, "erasure", Erasure)
    limits = [ErasureLimit.parse(text) for text in ([policy] if isinstance(policy, str) else as_list(policy, "policy"))]
    if not limits:
        raise InputError("policy: at least 1 METRIC:LIMIT is needed, got none")
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    decided = erasure.decide(1 - error / len(limits))
    rulings = []
    for limit in limits:
        for name, request in decided.items():
            measured = _measure(request.finding, limit.metric)
            doubt = _doubt(request.finding, measured, limit.limit)
            rulings.append(Ruling(name, "all", limit.metric, limit.limit, measured, doubt))
    return rulings


def _measure(finding: ErasureFinding, metric: str) -> Estimate | None:
    """Return what a limit is on; the difference without its sign."""
    if metric == "share":
        return finding.share
    signed = finding.difference
    if signed is None:
        return None
    ends = sorted((abs(signed.low), abs(signed.high)))
    low = 0.0 if signed.low <= 0 <= signed.high else ends[0]
    return Estimate(abs(signed.value), low, ends[1], signed.confidence, signed.method)


def _doubt(finding: ErasureFinding, measured: Estimate | None, limit: float) -> str:
    """Return why a limit is not kept although the interval lies within it; empty otherwise."""
    if measured is None:
        return "no model that never saw the records was given"
    if measured.high > limit:
        return ""
    if len(finding.controls) < 2:
        return "a single model that never saw the records was given, so that training noise is not included"
    if finding.answer in (REMEMBERED, OVERDONE):
        return f"{finding.answer}: {finding.reason}"
    if finding.answer != NO_DIFFERENCE:
        return finding.reason
    return ""
