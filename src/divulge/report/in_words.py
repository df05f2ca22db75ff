"""Rates in everyday words: so many of a hundred."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Estimate

_OF = (100, 1_000, 10_000, 100_000, 1_000_000)
_DECIMALS = 3  # of a rate in a table


@dataclass(frozen=True, slots=True)
class OutOf:
    """A rate as a count: ``value`` of ``of``, with an interval that is rounded outwards.

    Examples:
        >>> str(OutOf(7, 4, 12, 100))
        '7 of 100 (4 to 12)'
    """

    value: int
    low: int
    high: int
    of: int

    def counted(self, noun: str) -> str:
        """The same with what is counted: "7 of 100 training records (4 to 12)"."""
        return f"{self.value:,} of {self.of:,} {noun}".rstrip() + f" ({self.low:,} to {self.high:,})"

    def __str__(self) -> str:
        return self.counted("")


def out_of(rate: Estimate, chance: float = 0.0) -> OutOf:
    """``rate`` out of a hundred; or of more, where the interval would otherwise reach ``chance`` by rounding alone.

    Args:
        rate: a share in [0, 1] with its interval.
        chance: what guessing has.

    Examples:
        >>> from divulge.types import Estimate
        >>> print(out_of(Estimate(0.073, 0.041, 0.118, 0.95, "clopper-pearson"), 0.01))
        7 of 100 (4 to 12)
        >>> print(out_of(Estimate(0.021, 0.0131, 0.033, 0.95, "clopper-pearson"), 0.01))
        21 of 1,000 (13 to 33)

        What a table shows as 0.610 is 61 of 100 here, too:

        >>> print(out_of(Estimate(0.667, 0.6098, 0.7191, 0.95, "delong"), 0.5))
        67 of 100 (61 to 72)
    """
    of = next((of for of in _OF if _floor(rate.low, of) > chance * of or rate.low <= chance), _OF[-1])
    return OutOf(round(rate.value * of), _floor(rate.low, of), -_floor(-rate.high, of), of)


def _floor(rate: float, of: int) -> int:
    """``rate`` out of ``of``, rounded down from the decimals that tables show of it."""
    seen = round(rate, _DECIMALS) if of <= 10**_DECIMALS else rate
    return math.floor(round(seen * of, 6))


def one_in(rate: float) -> tuple[int, int] | None:
    """A round rate as a count of a hundred, a thousand, …; None where it is not one.

    Examples:
        >>> one_in(0.01), one_in(0.005), one_in(1 / 3)
        ((1, 100), (5, 1000), None)
    """
    for of in _OF:
        if (count := round(rate * of)) and abs(rate * of - count) < 1e-6:
            return count, of
    return None


def of_others(rate: float) -> str:
    """How many others a false-positive rate accuses, in words.

    Examples:
        >>> of_others(0.001), of_others(1 / 3)
        ('1 of 1,000 others', '33.3 % of all others')
    """
    counted = one_in(rate)
    return f"{100 * rate:.3g} % of all others" if counted is None else f"{counted[0]:,} of {counted[1]:,} others"


def least(bound: float) -> str:
    """A lower bound to two decimals, never rounded up.

    Examples:
        >>> least(3.8749), least(0.0), least(0.29)
        ('3.87', '0.00', '0.29')
    """
    return f"{math.floor(100 * bound + 1e-9) / 100:.2f}"


def several(count: int, noun: str) -> str:
    """So many of a thing.

    Examples:
        >>> several(1, "non-member"), several(2500, "passage")
        ('1 non-member', '2,500 passages')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def class_name(number: int, names: Sequence[str] | None) -> str:
    """Return the name of a class, or its number where it has none.

    Examples:
        >>> class_name(1, None), class_name(1, ["benign", "malignant"])
        ('1', 'malignant')
    """
    return str(number) if names is None or not 0 <= number < len(names) else names[number]


def classes(unseen: Sequence[int], names: Sequence[str] | None = None) -> str:
    """The unseen classes by name.

    Examples:
        >>> classes([3]), classes([3, 5, 7]), classes([1], ["benign", "malignant"])
        ('unseen class 3', 'unseen classes 3, 5 and 7', 'unseen class malignant')
    """
    *first, last = (class_name(number, names) for number in unseen)
    return f"unseen classes {', '.join(first)} and {last}" if first else f"unseen class {last}"


def listed(words: Sequence[str]) -> str:
    """Words one after the other.

    Examples:
        >>> listed(["length"]), listed(["length", "topic", "age"])
        ('length', 'length, topic and age')
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def sentence(text: str) -> str:
    """``text`` with a capital and a full stop.

    Examples:
        >>> sentence("too few records"), sentence("Nothing is proven.")
        ('Too few records.', 'Nothing is proven.')
    """
    return f"{capital(text).rstrip('.')}."


def capital(text: str) -> str:
    """``text`` with a capital.

    Examples:
        >>> capital("nothing is proven")
        'Nothing is proven'
    """
    return f"{text[:1].upper()}{text[1:]}"


def per_cent(rate: float) -> str:
    """A rate in per cent, as people write it.

    Examples:
        >>> per_cent(0.05), per_cent(0.001), per_cent(0.0734)
        ('5 %', '0.1 %', '7.34 %')
    """
    return f"{100 * rate:.3g} %"
