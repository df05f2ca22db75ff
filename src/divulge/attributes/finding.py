"""Right and wrong guesses of an attribute into an answer: are they better for training records than for others?

An attribute of training records leaks where two things hold. The attack is right more often on members than on
non-members: whatever a model, or the mere population, teaches about everybody is right on both alike. And on members it
is right more often than imputation from the population: an attack that listens to a model where it should not is worse
on others, and gives away nothing that was not known. Every interval is exact for all sample sizes
(`divulge.statistics.rate_difference`), and all of them hold together (Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import statistics
from divulge.errors import InputError
from divulge.report import formatting
from divulge.results import AttributeAttack, AttributeValue
from divulge.validation import check_mask, check_number, check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Bools, Ints, Tone

IMPUTATION = "imputation"
"""Name of the guess that is made without the model, from the population: the control."""
LEAK, CLEAR, TOO_LITTLE, CONFOUNDED = (
    "leak found", "no leak found", "too little data to say", "split is confounded",
)  # fmt: skip
TONES: Mapping[str, Tone] = {LEAK: "leak", CLEAR: "clear", TOO_LITTLE: "undecided", CONFOUNDED: "undecided"}
MIN_RECORDS = 5
"""Members, and non-members, with a value from which on it is tested by itself."""
MAX_VALUES_TESTED = 20
RARE_MARGIN = 0.5
"""Largest difference at one value, or of the surest guesses, that is compatible with "no leak found"."""
_FALSE_ALARM = 0.01  # of the control


@dataclass(frozen=True, slots=True)
class AttributeFinding:
    """What was found of an attribute.

    Args:
        answer: one of "leak found", "no leak found", "too little data to say", "split is confounded".
        attacks: every way of guessing, the imputation last.
        values: differences at single values, of the attacks that read the model.
        untested: members whose value too few records have for a test of its own.
        reason: what decided, in a sentence.
    """

    answer: str
    attacks: tuple[AttributeAttack, ...]
    values: tuple[AttributeValue, ...]
    untested: int
    reason: str


def decide_attribute(
    right: Mapping[str, Bools],
    members: Bools,
    values: Ints,
    names: Sequence[str],
    *,
    margin: float = 0.1,
    confidence: float = 0.95,
    confounded: str = "",
    doubt: str = "",
    stored: str = "",
    copied: int = 0,
) -> AttributeFinding:
    """Decide whether an attribute of training records is guessed better than that of other records.

    Args:
        right: attack → bool ``[n]``, whether its guess is right; `IMPUTATION` among them.
        members: bool ``[n]``.
        values: number of each record's true value (of a real-valued column, of its third), ``[n]``.
        names: of the values.
        margin: largest difference of the rates that counts as none.
        confidence: probability that all intervals hold.
        confounded: why the sets cannot be compared, where that is known; else empty.
        doubt: why the target may not be the model that was trained on the members, which is then never cleared.
        stored: says that training records stand in the model's file, with this attribute, where they do; else empty.
        copied: number of records that have a copy in another set, which can hide a leak.

    Raises:
        divulge.InputError: no imputation, no attack, members or non-members of none.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> members, values = np.arange(400) < 200, rng.integers(0, 2, 400)
        >>> guess = rng.random(400) < 0.5
        >>> decide_attribute({"model": guess | members, "imputation": guess}, members, values, ("f", "m")).answer
        'leak found'
    """
    check_number(margin, "margin", above=0, below=1)
    check_number(confidence, "confidence", above=0, below=1)
    n = len(members)
    members = check_mask(members, "members", (n,))
    codes = check_vector(values, "values", length=n).astype(np.int64)
    if not members.any() or members.all():
        raise InputError("members: members and non-members are needed")
    attacks = [name for name in right if name != IMPUTATION]
    if IMPUTATION not in right or not attacks:
        raise InputError(f"right: {IMPUTATION!r} and at least 1 attack are needed, got {', '.join(right) or 'none'}")
    checked = {name: check_mask(each, f"right: {name}", (n,)) for name, each in right.items()}
    # Only values that enough records of either kind have are tested, the most frequent among members first.
    value_counts = [
        (int((members & (codes == code)).sum()), int((~members & (codes == code)).sum()), int(code))
        for code in np.unique(codes)
    ]
    frequent_values = sorted(
        (pair for pair in value_counts if min(pair[:2]) >= MIN_RECORDS), key=lambda pair: (-pair[0], pair[2])
    )
    tested = [code for _, _, code in frequent_values[:MAX_VALUES_TESTED]] if len(value_counts) > 1 else []
    error = (1 - confidence) / len(attacks) / (2 if tested else 1)
    attack_comparisons = [
        _compare_attack(name, checked[name], checked[IMPUTATION], members, 1 - error) for name in attacks
    ]
    control = _compare_attack(IMPUTATION, checked[IMPUTATION], None, members, 1 - _FALSE_ALARM)
    value_comparisons = [
        _compare_value(
            name, checked[name], checked[IMPUTATION], members, codes == code, names[code], 1 - error / len(tested)
        )
        for name in attacks
        for code in tested
    ]
    untested = int((members & ~np.isin(codes, tested)).sum()) if tested else 0
    counts = int(members.sum()), int((~members).sum())
    answer, reason = _judge(attack_comparisons, value_comparisons, control, margin, confounded, counts, copied)
    if stored:
        answer, reason = LEAK, f"{stored} Whoever holds the file reads their values and needs no attack."
    elif answer == CLEAR and doubt:
        answer, reason = (
            TOO_LITTLE,
            (
                f"Nothing was found, but {doubt}: nothing shows that this is the model that was trained on them. "
                "One from another file, or that is given its columns, classes or units otherwise, would give nothing "
                "away either."
            ),
        )
    return AttributeFinding(answer, (*attack_comparisons, control), tuple(value_comparisons), untested, reason)


def _compare_attack(
    name: str, right: Bools, imputed: Bools | None, members: Bools, confidence: float
) -> AttributeAttack:
    k, n, j, m = (int(part) for part in (right[members].sum(), members.sum(), right[~members].sum(), (~members).sum()))
    gain = None
    if imputed is not None:
        gain = statistics.paired_rate_difference(right[members], imputed[members], confidence)
    return AttributeAttack(
        name,
        statistics.proportion(k, n, confidence),
        statistics.proportion(j, m, confidence),
        statistics.rate_difference(k, n, j, m, confidence),
        gain,
    )


def _compare_value(
    attack: str, right: Bools, imputed: Bools, members: Bools, has_value: Bools, name: str, confidence: float
) -> AttributeValue:
    inside, outside = right[members & has_value], right[~members & has_value]
    counts = int(inside.sum()), len(inside), int(outside.sum()), len(outside)
    gain = statistics.paired_rate_difference(inside, imputed[members & has_value], confidence)
    return AttributeValue(attack, str(name), *counts, statistics.rate_difference(*counts, confidence), gain)


def _judge(
    attacks: Sequence[AttributeAttack],
    values: Sequence[AttributeValue],
    control: AttributeAttack,
    margin: float,
    confounded: str,
    counts: tuple[int, int],
    copied: int,
) -> tuple[str, str]:
    """Return the answer and what decided it."""
    if not confounded and (control.difference.low > 0 or control.difference.high < 0):
        difference = formatting.format_percent_estimate(control.difference)
        confounded = (
            "without the model, the attribute is guessed from the population better on one of the two sets "
            f"(difference {difference})"
        )
    if confounded:
        return CONFOUNDED, f"Members and non-members differ in more than membership: {confounded}."
    best = max(attacks, key=_surely_given_away)
    clearest_value = max(values, key=_surely_given_away, default=None)
    if _surely_given_away(best) > 0:
        return LEAK, _describe_leak(best, control)
    if clearest_value is not None and _surely_given_away(clearest_value) > 0:
        return LEAK, (
            "Among the records with one of its values, the attack is right on more of the training records than of the "
            f"others, a difference of {formatting.format_percent_estimate(clearest_value.difference)}, and on more "
            "than imputation is."
        )
    highest = max(possibly_given_away(attack, *counts, copied) for attack in attacks)
    largest_share = formatting.format_percent(round(max(highest, 0.0), 3))
    if highest >= margin:
        copies = f" {describe_copies(copied)}." if copied else ""
        if max(possibly_given_away(attack, *counts) for attack in attacks) < margin:
            return TOO_LITTLE, copies.lstrip()
        return TOO_LITTLE, (
            f"The model may give the value of up to {largest_share} of the training records away; "
            f"{formatting.format_percent(margin)} was asked for. More records make the interval shorter.{copies}"
        )
    open_values = {
        value.value
        for value in values
        if possibly_given_away(value, value.members, value.nonmembers, copied) >= RARE_MARGIN
    }
    if open_values:
        return TOO_LITTLE, (
            f"Over all training records the model gives at most {largest_share} away, but "
            f"{formatting.format_count(len(open_values), 'value')} of the attribute "
            f"{'is' if len(open_values) == 1 else 'are'} too rare to say of those who have it."
        )
    return CLEAR, (
        f"By these attacks the value of at most {largest_share} of the training records is given away, beyond what is "
        "guessed of others and by imputation."
    )


def _surely_given_away(comparison: AttributeAttack | AttributeValue) -> float:
    """Return a share that surely is right beyond what is right of others, and beyond imputation."""
    return comparison.difference.low if comparison.gain is None else min(comparison.difference.low, comparison.gain.low)


def possibly_given_away(
    comparison: AttributeAttack | AttributeValue, n_members: int, n_nonmembers: int, copied: int = 0
) -> float:
    """Return the largest such share that is compatible with the guesses.

    Copies of members among the non-members may all be guessed rightly, whatever share of the members is, and copies in
    the population are known to the imputation. All of them may be among those compared.

    Args:
        comparison: of all records, or of those with one value.
        n_members: members compared.
        n_nonmembers: non-members compared.
        copied: number of records that have a copy in another set.
    """
    difference, gain = comparison.difference.high, comparison.gain
    if copied:
        share = min(1.0, copied / n_nonmembers)
        difference = (difference + share) / (1 - share) if share < 1 else 1.0
    return min(1.0, difference if gain is None else min(difference, gain.high + copied / n_members))


def _describe_leak(attack: AttributeAttack, control: AttributeAttack) -> str:
    return (
        f"Whoever knows the rest of a training record guesses the missing value rightly in "
        f"{formatting.format_percent(round(attack.members.value, 3))} of training records, and in "
        f"{formatting.format_percent(round(attack.nonmembers.value, 3))} of others: a difference of "
        f"{formatting.format_percent_estimate(attack.difference)}. Imputation without the model is right in "
        f"{formatting.format_percent(round(control.members.value, 3))} of training records."
    )


def describe_copies(copied: int) -> str:
    """Say that copies across the sets can hide a leak, and what to do."""
    return (
        f"{formatting.format_count(copied, 'record')} {'has a copy' if copied == 1 else 'have copies'} in another set: "
        "what a model gives away of a record it gives away of its copy, so the comparison can hide a leak. Take them "
        "out (duplicates='drop')"
    )
