"""Policies on attribute inference, for CI: limits on the share of training records whose value is given away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge.attributes.finding import CONFOUNDED, describe_copies, possibly_given_away
from divulge.attributes.result import AttributeInference
from divulge.auditing.compare import CONFIDENCE, Ruling, Rulings, parse_limits
from divulge.results import AttributeValue
from divulge.types import Estimate
from divulge.validation import check_instance, check_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.results import AttributeAttack

METRICS = ("share", "value")


def gate(result: AttributeInference, policy: str | Sequence[str], *, confidence: float = CONFIDENCE) -> Rulings:
    """Hold every attack of attribute inference against one or more policies such as ``"share:0.05"``.

    What is given away is the smaller of two differences: what an attack is right on members more often than on
    non-members, and more often than imputation is. All intervals hold at once, over attacks, values and policies.
    Every ruling is "broken" where training records stand in the model's file. All are undecided where members differ
    from non-members without the model; nothing is "kept" by a target that may not be the model that was trained on the
    members, of single values where too few records have one of them, or where copies across the sets may hide more.

    Args:
        result: the result of `divulge.attributes.infer`.
        policy: ``METRIC:LIMIT`` with METRIC "share" or "value"; or several.
        confidence: probability that all rulings are right.

    Returns:
        A ruling for each attack and policy; of "value", one for each attack and value that was tested.

    Raises:
        divulge.InputError: no policy, one that cannot be read, a confidence outside (0, 1).
    """
    check_instance(result, "result", AttributeInference)
    limits = parse_limits(policy, METRICS, "attribute inference")
    error = 1 - check_number(confidence, "confidence", above=0, below=1)
    finding = result.decide(1 - error / len(limits))
    void = finding.reason.rstrip(".") if finding.answer == CONFOUNDED else ""
    is_stored = result.stored is not None and result.stored.proven
    stored = result.stored.sentence.rstrip(".") if result.stored is not None and is_stored else ""
    suspected = result.stored.sentence.rstrip(".") if result.stored is not None and result.stored.suspected else ""
    rare = f"{finding.untested:,} members have a value that too few records have for a test" if finding.untested else ""
    rulings = []
    for metric, limit in limits:
        parts: list[tuple[str, str, AttributeAttack | AttributeValue]] = [
            (each.name, "all", each) for each in finding.attacks if each.gain is not None
        ]
        if metric == "value":
            parts = [(each.attack, each.value, each) for each in finding.values]
        if not parts:
            doubt = "no value is shared by enough members and non-members for a test of its own"
            rulings.append(Ruling("all", "all", metric, limit, None, void or doubt, stored=stored))
        for name, scope, part in parts:
            measured = _smaller_difference(part)
            is_within = measured.high <= limit
            doubt = (result.doubt or suspected or (rare if metric == "value" else "")) if is_within else ""
            counts = (part.members, part.nonmembers) if isinstance(part, AttributeValue) else result.counts
            if is_within and not doubt and possibly_given_away(part, *counts, result.copied) > limit:
                doubt = describe_copies(result.copied)
            rulings.append(Ruling(name, scope, metric, limit, measured, void or doubt, stored=stored))
    return Rulings(rulings)


def _smaller_difference(part: AttributeAttack | AttributeValue) -> Estimate:
    """Return the smaller of an attack's two differences; its interval holds where both of theirs do."""
    difference, gain = part.difference, part.gain
    assert gain is not None
    low, value, high = (min(getattr(difference, end), getattr(gain, end)) for end in ("low", "value", "high"))
    return Estimate(value, low, high, difference.confidence, difference.method)
