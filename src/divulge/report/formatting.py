"""Rates, intervals, counts and lists as text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.results import RegressionFit, TokenFit
    from divulge.types import Estimate

_DENOMINATORS = (100, 1_000, 10_000, 100_000, 1_000_000)
_TABLE_DECIMALS = 3  # decimals of a rate in a table


@dataclass(frozen=True, slots=True)
class NaturalFrequency:
    """A rate as a count: ``value`` of ``total``, with an interval that is rounded outwards.

    Examples:
        >>> str(NaturalFrequency(7, 4, 12, 100))
        '7 of 100 (4 to 12)'
    """

    value: int
    low: int
    high: int
    total: int

    def describe(self, noun: str) -> str:
        """Return the frequency with what is counted: "7 of 100 training records (4 to 12)"."""
        return f"{self.value:,} of {self.total:,} {noun}".rstrip() + f" ({self.low:,} to {self.high:,})"

    def __str__(self) -> str:
        return self.describe("")


def natural_frequency(rate: Estimate, chance: float = 0.0) -> NaturalFrequency:
    """Express ``rate`` as a count of a hundred; of more, where rounding alone would let its interval reach ``chance``.

    Args:
        rate: a share in [0, 1] with its interval.
        chance: the rate of guessing.

    Examples:
        >>> from divulge.types import Estimate
        >>> print(natural_frequency(Estimate(0.073, 0.041, 0.118, 0.95, "clopper-pearson"), 0.01))
        7 of 100 (4 to 12)
        >>> print(natural_frequency(Estimate(0.021, 0.0131, 0.033, 0.95, "clopper-pearson"), 0.01))
        21 of 1,000 (13 to 33)

        It agrees with tables, which show 0.6098 as 0.610:

        >>> print(natural_frequency(Estimate(0.667, 0.6098, 0.7191, 0.95, "delong"), 0.5))
        67 of 100 (61 to 72)
    """
    total = next(
        (n for n in _DENOMINATORS if _floor_count(rate.low, n) > chance * n or rate.low <= chance), _DENOMINATORS[-1]
    )
    return NaturalFrequency(
        round(rate.value * total), _floor_count(rate.low, total), -_floor_count(-rate.high, total), total
    )


def _floor_count(rate: float, total: int) -> int:
    """Round ``rate`` times ``total`` down, from the decimals that tables show of the rate."""
    in_table = round(rate, _TABLE_DECIMALS) if total <= 10**_TABLE_DECIMALS else rate
    return math.floor(round(in_table * total, 6))


def round_frequency(rate: float) -> tuple[int, int] | None:
    """Return a rate as (count, total) of a hundred, a thousand, …; None if it is not a whole count of any.

    Examples:
        >>> round_frequency(0.01), round_frequency(0.005), round_frequency(1 / 3)
        ((1, 100), (5, 1000), None)
    """
    for total in _DENOMINATORS:
        if (count := round(rate * total)) and abs(rate * total - count) < 1e-6:
            return count, total
    return None


def format_others(rate: float, total: int = 0) -> str:
    """Format a false-positive rate as the number of other records that it accuses, of ``total`` if that is whole.

    Examples:
        >>> format_others(0.001), format_others(0.01, 1_000), format_others(1 / 3)
        ('1 of 1,000 others', '10 of 1,000 others', '33.3 % of all others')
    """
    frequency = round_frequency(rate)
    if frequency is not None and total > frequency[1] and total % frequency[1] == 0:
        frequency = frequency[0] * total // frequency[1], total
    if frequency is None:
        return f"{format_percent(rate)} of all others"
    return f"{frequency[0]:,} of {frequency[1]:,} others"


def format_percent(rate: float) -> str:
    """Format a rate in per cent with three significant digits.

    Examples:
        >>> format_percent(0.05), format_percent(0.001), format_percent(0.0734)
        ('5 %', '0.1 %', '7.34 %')
    """
    return f"{100 * rate:.3g} %"


def format_estimate(estimate: Estimate | None, sign: str = "") -> str:
    """Format an estimate with its interval; a dash where there were too few records.

    Examples:
        >>> from divulge.types import Estimate
        >>> format_estimate(Estimate(0.5, 0.25, 1.0, 0.95, "delong")), format_estimate(None)
        ('0.500 [0.250, 1.000]', '–')
    """
    if estimate is None:
        return "–"
    return f"{estimate.value:{sign}z.3f} [{estimate.low:{sign}z.3f}, {estimate.high:{sign}z.3f}]"


def format_regression_fit(fit: RegressionFit | None) -> dict[str, str]:
    """Format R² and mean absolute error of a regression model on members and non-members; empty without them.

    Examples:
        >>> format_regression_fit(None)
        {}
    """
    if fit is None:
        return {}
    sets = (
        ("members", fit.r_squared_members, fit.error_members),
        ("non-members", fit.r_squared_nonmembers, fit.error_nonmembers),
    )
    texts = {f"R² on {name}": format_estimate(r_squared) for name, r_squared, _ in sets if r_squared is not None}
    return texts | {f"mean absolute error on {name}": format_error(error) for name, _, error in sets}


def format_token_fit(fit: TokenFit | None) -> dict[str, str]:
    """Format the perplexity of a language model on members and non-members; empty where it was not measured.

    Examples:
        >>> format_token_fit(None)
        {}
    """
    if fit is None:
        return {}
    sets = (("members", fit.perplexity_members), ("non-members", fit.perplexity_nonmembers))
    return {
        f"perplexity of a {fit.unit} on {name}": format_error(perplexity)
        for name, perplexity in sets
        if perplexity is not None
    }


def format_error(error: Estimate) -> str:
    """Format an error of predictions with four digits: it is in the unit of the values, whose size is not known.

    Examples:
        >>> from divulge.types import Estimate
        >>> format_error(Estimate(1234.5, 1200.0, 1300.0, 0.95, "student"))
        '1234 [1200, 1300]'
        >>> format_error(Estimate(0.00012, -0.00003, 12345.6, 0.95, "student"))
        '0.00012 [-3e-05, 12,350]'
    """
    return f"{format_amount(error.value)} [{format_amount(error.low)}, {format_amount(error.high)}]"


def format_amount(amount: float) -> str:
    """Format a number in a unit of its own with four digits, large ones without an exponent.

    Examples:
        >>> format_amount(0.5), format_amount(1234.5), format_amount(123456.0)
        ('0.5', '1234', '123,500')
    """
    short = f"{amount:.4g}"
    return f"{float(short):,.0f}" if "e+" in short else short


def format_percent_estimate(estimate: Estimate | None) -> str:
    """Format a share in per cent, with as many decimals as its interval bears; a dash where there were too few records.

    Examples:
        >>> from divulge.types import Estimate
        >>> format_percent_estimate(Estimate(0.5, 0.25, 1.0, 0.95, "clopper-pearson"))
        '50.0 % [25.0, 100.0]'
        >>> format_percent_estimate(Estimate(0.0012, 0.0009, 0.0016, 0.95, "clopper-pearson"))
        '0.120 % [0.090, 0.160]'
    """
    if estimate is None:
        return "–"
    value, low, high = (100 * number for number in (estimate.value, estimate.low, estimate.high))
    digits = 3 if 0 < high - low < 0.1 else 1 if high - low >= 1 or high == low else 2
    return f"{value:z.{digits}f} % [{low:z.{digits}f}, {high:z.{digits}f}]"


def format_lower_bound(bound: float) -> str:
    """Format a lower bound with two decimals, never rounded up.

    Examples:
        >>> format_lower_bound(3.8749), format_lower_bound(0.0), format_lower_bound(0.29)
        ('3.87', '0.00', '0.29')
    """
    return f"{math.floor(100 * bound + 1e-9) / 100:.2f}"


def format_count(count: int, noun: str) -> str:
    """Format a count with its noun, in the plural unless it is one.

    Examples:
        >>> format_count(1, "non-member"), format_count(2500, "passage")
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


def format_unseen_classes(unseen: Sequence[int], names: Sequence[str] | None = None) -> str:
    """Format the unseen classes by name.

    Examples:
        >>> format_unseen_classes([3, 5, 7]), format_unseen_classes([1], ["benign", "malignant"])
        ('unseen classes 3, 5 and 7', 'unseen class malignant')
    """
    return f"unseen {format_classes(unseen, names)}"


def format_classes(classes: Sequence[int], names: Sequence[str] | None = None) -> str:
    """Format classes by name.

    Examples:
        >>> format_classes([3, 5]), format_classes([1], ["benign", "malignant"])
        ('classes 3 and 5', 'class malignant')
    """
    noun = "class" if len(classes) == 1 else "classes"
    return f"{noun} {join_words([class_name(int(number), names) for number in classes])}"


def join_words(words: Sequence[str]) -> str:
    """Join words with commas and "and".

    Examples:
        >>> join_words(["length"]), join_words(["length", "topic", "age"])
        ('length', 'length, topic and age')
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def as_sentence(text: str) -> str:
    """Return ``text`` with a capital and a full stop.

    Examples:
        >>> as_sentence("too few records"), as_sentence("Nothing is proven.")
        ('Too few records.', 'Nothing is proven.')
    """
    return f"{capitalize(text).rstrip('.')}."


def capitalize(text: str) -> str:
    """Return ``text`` with a capital; unlike `str.capitalize`, the rest stays as it is.

    Examples:
        >>> capitalize("nothing is proven"), capitalize("the AUC")
        ('Nothing is proven', 'The AUC')
    """
    return f"{text[:1].upper()}{text[1:]}"


def describe_uncleared(count: int, possibility: str) -> str:
    """Say what may be true of the remaining ``count`` of what was looked at, too; empty where none remain.

    Examples:
        >>> describe_uncleared(534, "have been used"), describe_uncleared(1, "be at risk")
        ('The other 534 may have been used, too.', 'The other one may be at risk, too.')
    """
    return f"The other {'one' if count == 1 else f'{count:,}'} may {possibility}, too." if count else ""


def format_chance(chance: float) -> str:
    """Format a bound on a small probability, rounded up; below 1e-9 that alone is said, as no model holds there.

    Examples:
        >>> format_chance(3.2e-5), format_chance(0.31), format_chance(1e-60)
        ('4 of 100,000', '31 of 100', 'less than 1 in a billion')
    """
    if chance < 1e-9:
        return "less than 1 in a billion"
    total = next((10**power for power in range(2, 9) if chance * 10**power >= 0.995), 10**9)
    return f"{min(math.ceil(chance * total - 1e-6), total):,} of {total:,}"
