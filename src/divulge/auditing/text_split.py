"""What can be said of sets of texts without the model: what gives the split away, which texts are near copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import evaluation
from divulge.report import in_words
from divulge.results import TextSplit
from divulge.statistics import two_samples
from divulge.statistics.duplicate_groups import first_of_each

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.case import PreparedAudit

_FALSE_ALARM = 0.01  # chance of a sign between exchangeable sets
_UNQUOTED = "their words, years or lengths (not quoted, as texts are left out)"


def compare_texts(case: PreparedAudit) -> TextSplit | None:
    """How members, non-members and population compare; None where records are no texts.

    Of texts that stand in one set several times, the first alone is compared with the other set, where copies keep
    together. Words are quoted from the documents, so they are left out where texts are to stay out of the run
    directory.
    """
    given = case.given
    records = given.candidates.x
    if records.dtype != object:
        return None
    members, others = list(records[given.truth]), list(records[~given.truth])
    groups, counted = given.duplicate_groups, np.ones(len(records), dtype=bool)
    if groups is not None:
        counted = first_of_each(groups, given.truth)
    distinct = records[counted & given.truth], records[counted & ~given.truth]
    population = [*given.calibration.x, *given.population.x]
    shared = evaluation.near_duplicates(members, others, population)
    (_, copies), *_ = (pair.counts for pair in shared.pairs)
    inside, outside = (np.array([len(text) for text in side], dtype=np.float64) for side in distinct)
    return TextSplit(
        signs=find_split_signs(*map(list, distinct), quoted=case.texts, seed=case.seed),
        shared=str(shared),
        copies=copies,
        length=two_samples.rank_sum(outside, inside, seed=case.seed),
    )


def find_split_signs(members: Sequence[str], others: Sequence[str], *, quoted: bool, seed: int) -> tuple[str, ...]:
    """What gives the split away, the surest first; that it does alone, where nothing may be quoted."""
    told = tuple(map(str, evaluation.telling(members, others, false_alarm=_FALSE_ALARM, seed=seed)))
    return told if quoted else (_UNQUOTED,) * bool(told)


def describe_split_signs(signs: Sequence[str]) -> list[str]:
    """What must be said first of a split with such signs."""
    return [f"members and non-members differ in more than membership: {'; '.join(signs)}"] if signs else []


def text_warnings(split: TextSplit | None) -> list[str]:
    """What a reader must know before the numbers."""
    if split is None:
        return []
    said = describe_split_signs(split.signs)
    if split.copies:
        said.append(
            f"at least half of the word n-grams of {in_words.several(split.copies, 'non-member')} stand in a member; a "
            "model that has learnt the one knows the other, so the numbers are too low"
        )
    return said
