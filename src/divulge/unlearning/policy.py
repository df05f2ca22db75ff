"""Policies on erasure checks, for CI: limits on what may be left of the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.auditing.compare import CONFIDENCE, Ruling, Rulings, parse_limits
from divulge.types import Estimate
from divulge.unlearning.finding import NO_DIFFERENCE, OVERDONE, REMEMBERED
from divulge.unlearning.result import Erasure
from divulge.validation import check_instance, check_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.results import ErasureFinding

METRICS = ("difference", "share")


def gate(erasure: Erasure, policy: str | Sequence[str], *, confidence: float = CONFIDENCE) -> Rulings:
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
    limits = parse_limits(policy, METRICS, "an erasure check")
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    decided = erasure.decide(1 - error / len(limits))
    rulings = []
    for metric, limit in limits:
        for name, request in decided.items():
            measured = _measure(request.finding, metric)
            doubt = _doubt(request.finding, measured, limit)
            rulings.append(Ruling(name, "all", metric, limit, measured, doubt))
    return Rulings(rulings)


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
