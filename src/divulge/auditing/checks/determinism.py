"""Whether the target answers alike when it is asked again, alone, or in another order.

Noise added to each answer and dropout left on change from call to call; statistics of the batch, and int8 scales that
are chosen for it, change with what else is in it. With either, a repeated audit gives other numbers, and nothing else
in a result shows it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import softmax

from divulge import people
from divulge.auditing.checks.check import Check
from divulge.errors import InputError
from divulge.results import CheckFinding
from divulge.targets import is_language_model
from divulge.targets.endpoint import Endpoint
from divulge.targets.rights import is_label_only
from divulge.types import Records

if TYPE_CHECKING:
    from divulge.auditing.checks.check import ScoredAudit
    from divulge.auditing.prepared import PreparedAudit
    from divulge.types import Floats

_N_RECORDS, _N_DOCUMENTS = 16, 4  # that the target is asked about again
_N_ALONE = 2  # of these, that it is asked about one at a time
# Answers are probabilities, shares of the spread of predictions, or nats per token. In float32 they move by 3e-7 at
# most with the batch, and by less than 1e-16 in forests; statistics of the batch, and int8 scales that are chosen for
# it, move them by 3e-2 and more. In between there is room for networks of half precision.
_SAME_CALL, _SAME_RECORD = 1e-4, 2e-2
_MAX_NOISE = 0.05  # largest variance of averaged answers from call to call, as a share of that between records
BY_CALL = "the target's answers differ from call to call: a repeated audit gives other numbers"
BY_BATCH = "the target's answers depend on what else is in the batch: another order or size of it gives other numbers"


class Determinism(Check):
    """Ask about a few records twice, and if the answers are alike, in reverse and alone.

    Where noise is more than a twentieth of what differs between records, one audit cannot clear the target: whoever
    asks more often averages the noise away.
    """

    name: ClassVar[str] = "repeated answers"

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Return a finding where noise may hide a leak; a warning of the run says whatever else differs."""
        prepared = audit.prepared
        count = _count_records(prepared)
        rows = np.linspace(0, prepared.layout.candidates - 1, count).astype(np.int64)
        records = prepared.views[0][rows]
        try:
            first, again = (_answers(prepared, records) for _ in range(2))
        except InputError:  # the target allows no further queries; its answers were taken before
            return None
        # Probabilities, labels and nats per token differ by 1, real values by their spread.
        target, unit = prepared.target, 1.0
        if not (hasattr(target, "logits") or is_label_only(target) or is_language_model(target)):
            unit = float(first.std()) or float(np.abs(first).max()) or 1.0
        if np.abs(again - first).max() > _SAME_CALL * unit:
            audit.log.warnings.append(BY_CALL)
            # Two answers differ by twice the variance of the noise of one, and their mean holds half of it. What
            # averaging leaves of it may hide a leak.
            noise = float(((first - again) ** 2).mean()) / 2
            between = max(float(((first + again) / 2).var(axis=0).mean()) - noise / 2, 0.0)
            if noise / prepared.calls <= _MAX_NOISE * between:
                return None
            needed = (
                f"; about {math.ceil(noise / (_MAX_NOISE * between)):,} calls would be enough" if between > 0 else ""
            )
            once = "once" if prepared.calls == 1 else f"{prepared.calls:,} times"
            return CheckFinding(
                self.name,
                "not cleared",
                f"The target's answers are noisy, and it was asked {once} about each record: whoever asks more often "
                f"averages the noise away and sees more{needed}.",
            )
        if isinstance(prepared.target, Endpoint):  # which is asked about one document at a time
            return None
        if any(_differs(prepared, records, part, first, unit) for part in _other_batches(len(records))):
            audit.log.warnings.append(BY_BATCH)
        return None


def count_queries(prepared: PreparedAudit) -> int:
    """Return how many answers the check asks the target for, at most."""
    n = _count_records(prepared)
    return 2 * n + (0 if isinstance(prepared.target, Endpoint) else sum(map(len, _other_batches(n))))


def _count_records(prepared: PreparedAudit) -> int:
    return min(prepared.layout.candidates, _N_DOCUMENTS if is_language_model(prepared.target) else _N_RECORDS)


def _other_batches(n: int) -> list[np.ndarray]:
    """Return rows of the records to ask about in other batches: in reverse, alone, and where that fails as a pair."""
    return [np.arange(n)[::-1], *(np.array([row]) for row in range(min(_N_ALONE, n))), np.arange(min(2, n))]


def _differs(prepared: PreparedAudit, records: Records, rows: np.ndarray, first: Floats, unit: float) -> bool:
    try:
        answers = _answers(prepared, records[rows])
    except InputError:  # some functions take no single record
        return False
    return bool(np.abs(answers - first[rows]).max() > _SAME_RECORD * unit)


def _answers(prepared: PreparedAudit, records: Records) -> Floats:
    """Return the target's answers ``[n, k]``: probabilities, labels, predictions or mean log-likelihoods."""
    target: Any = prepared.target
    if isinstance(target, Endpoint):
        target = replace(target, journal=None)  # which would repeat what was answered before
    if is_language_model(target):
        documents = [people.split_record(text)[0] for text in records.x]  # a record may be all those of a person
        stats = target.tokens(documents, vocabulary=False)
        sums = np.add.reduceat(np.append(stats.logp, 0.0), stats.offsets[:-1])
        answers = np.where(stats.lengths > 0, sums / np.maximum(stats.lengths, 1), 0.0)
    elif is_label_only(target):
        answers = target.labels(records)
    elif hasattr(target, "logits"):
        answers = softmax(target.logits(records), axis=1)
    else:
        answers = getattr(target, prepared.modality.outputs[0])(records)
    return np.asarray(answers, dtype=np.float64).reshape(len(records), -1)
