"""Texts: whether words, years or lengths tell members from non-members, and which texts are nearly the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import evaluation, statistics
from divulge.auditing.checks.blind_baseline import CONFOUNDED
from divulge.auditing.checks.check import Check, confounded_details
from divulge.duplicates import first_of_each_group
from divulge.report import formatting
from divulge.report.sections import FAIRNESS_TITLE
from divulge.results import CheckFinding, TextSplit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.checks.check import ScoredAudit

_NAME = "comparison of texts"
_FALSE_ALARM = 0.01  # chance of a sign between exchangeable sets
_UNQUOTED = "their words, years or lengths (not quoted, as texts are left out)"


class TextSignatures(Check):
    """Compare the texts of members, non-members and population, without the model."""

    name = _NAME

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Compare words, years, lengths and near copies; None where records are no texts."""
        prepared, inputs = audit.prepared, audit.prepared.inputs
        records = inputs.candidates.x
        if records.dtype != object:
            return None
        members, nonmembers = list(records[inputs.truth]), list(records[~inputs.truth])
        groups, is_counted = inputs.duplicate_groups, np.ones(len(records), dtype=bool)
        if groups is not None:  # where copies keep together, one of each group is compared
            is_counted = first_of_each_group(groups, inputs.truth)
        distinct = records[is_counted & inputs.truth], records[is_counted & ~inputs.truth]
        population = [*inputs.calibration.x, *inputs.population.x]
        shared = evaluation.near_duplicates(members, nonmembers, population)
        (_, copies), *_ = (pair.counts for pair in shared.pairs)
        learned = set(members) if inputs.copied else set()
        unequal = [text for text in nonmembers if text not in learned]
        if len(unequal) < len(nonmembers):  # Equal ones are counted as such, by the check of copies.
            copies = evaluation.near_duplicates(members, unequal).pairs[0].counts[1] if unequal else 0
        member_lengths, nonmember_lengths = (
            np.array([len(text) for text in side], dtype=np.float64) for side in distinct
        )
        split = TextSplit(
            # Words are quoted from the documents, which may have to stay out of the run directory.
            signs=find_split_signs(*map(list, distinct), quoted=prepared.show_records, seed=prepared.seed),
            shared=str(shared),
            copies=copies,
            length=statistics.rank_sum_p_value(nonmember_lengths, member_lengths, seed=prepared.seed),
        )
        audit.log.warnings += text_warnings(split)
        return describe_texts(split)


def find_split_signs(members: Sequence[str], nonmembers: Sequence[str], *, quoted: bool, seed: int) -> tuple[str, ...]:
    """Find words, years and lengths that separate the sets, strongest first; unquoted unless ``quoted``."""
    signs = tuple(map(str, evaluation.text_differences(members, nonmembers, false_alarm=_FALSE_ALARM, seed=seed)))
    return signs if quoted else (_UNQUOTED,) * bool(signs)


def describe_split_signs(signs: Sequence[str]) -> list[str]:
    """Return a warning for a split with such signs; empty without any."""
    return [f"members and non-members differ in more than membership: {'; '.join(signs)}"] if signs else []


def text_warnings(split: TextSplit) -> list[str]:
    """Return warnings about the split of texts."""
    messages = describe_split_signs(split.signs)
    if split.copies:
        messages.append(
            f"at least half of the word n-grams of {formatting.format_count(split.copies, 'non-member')} stand in a "
            "member; a model that has learnt the one knows the other, so the numbers are too low"
        )
    return messages


def describe_texts(split: TextSplit) -> CheckFinding:
    """Return the finding: signs by which the sets differ make every number void, near copies may hide a leak."""
    shared = formatting.as_sentence(split.shared)
    if not split.signs:
        return CheckFinding(_NAME, "none", shared, section=FAIRNESS_TITLE, hidden=split.copies, measured=split)
    return CheckFinding(
        _NAME,
        "not comparable",
        "The split is confounded: words, years or lengths tell training records from others without the model.",
        confounded_details(split.signs),
        section=FAIRNESS_TITLE,
        paragraphs=(shared,),
        ruling=CONFOUNDED,
        hidden=split.copies,
        measured=split,
    )
