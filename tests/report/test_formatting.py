"""Numbers in words: rounded the way that claims least, at the bounds where the wording changes."""

import math
from fractions import Fraction

import numpy as np
import pytest

from divulge.report import formatting
from divulge.types import Estimate


def share(value, low, high):
    return Estimate(value, low, high, 0.95, "m")


@pytest.mark.parametrize("seed", range(40))
def test_a_rate_is_a_count_of_the_least_that_keeps_its_interval_off_chance(seed):
    rng = np.random.default_rng(seed)
    low, value, high = np.sort(rng.uniform(0, 1, 3)) * 10.0 ** -rng.integers(0, 4)
    chance = float(low * rng.choice([0.5, 0.9, 0.99, 1.2]))
    found = formatting.natural_frequency(share(value, low, high), chance)

    def floor(rate, total):
        shown = Fraction(round(rate, 3) if total <= 1000 else rate).limit_denominator(10**9)
        return math.floor(shown * total)

    totals = (100, 1000, 10_000, 100_000, 1_000_000)
    fitting = [total for total in totals if floor(low, total) > chance * total or low <= chance]
    total = fitting[0] if fitting else totals[-1]
    assert found.total == total
    assert (found.low, found.value) == (floor(low, total), round(value * total))
    assert found.high >= round(high, 3) * total - 1e-6 or total > 1000
    assert found.high - round(high * total) in (0, 1, *(range(-1, 11) if total == 1000 else ()))
    assert str(found) == f"{found.value:,} of {total:,} ({found.low:,} to {found.high:,})"
    assert found.describe("records") == f"{found.value:,} of {total:,} records ({found.low:,} to {found.high:,})"


@pytest.mark.parametrize(
    ("rate", "frequency", "others"),
    [
        (0.01, (1, 100), "1 of 100 others"),
        (0.25, (25, 100), "25 of 100 others"),
        (0.001, (1, 1000), "1 of 1,000 others"),
        (0.0005, (5, 10_000), "5 of 10,000 others"),
        (1e-6, (1, 1_000_000), "1 of 1,000,000 others"),
        (1e-7, None, "1e-05 % of all others"),
        (1 / 3, None, "33.3 % of all others"),
    ],
)
def test_a_rate_that_is_a_whole_count_is_told_as_one(rate, frequency, others):
    assert formatting.round_frequency(rate) == frequency
    assert formatting.format_others(rate) == others


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (share(0.5, 0.495, 0.505), "50.0 % [49.5, 50.5]"),  # a width of 1 %
        (share(0.5, 0.4951, 0.505), "50.00 % [49.51, 50.50]"),
        (share(0.5, 0.4996, 0.5004), "50.000 % [49.960, 50.040]"),
        (share(0.5, 0.499, 0.501), "50.00 % [49.90, 50.10]"),
        (share(0.5, 0.5, 0.5), "50.0 % [50.0, 50.0]"),
        (share(-0.0001, -0.1, 0.2), "0.0 % [-10.0, 20.0]"),  # no negative zero
        (None, "–"),
    ],
)
def test_a_share_has_the_decimals_that_its_interval_bears(estimate, text):
    assert formatting.format_percent_estimate(estimate) == text


def test_an_estimate_has_three_decimals_and_no_negative_zero():
    assert formatting.format_estimate(share(-0.0001, -0.25, 0.5)) == "0.000 [-0.250, 0.500]"
    assert formatting.format_estimate(share(0.25, 0.125, 0.5), "+") == "+0.250 [+0.125, +0.500]"
    assert formatting.format_estimate(None) == "–"


@pytest.mark.parametrize(
    ("bound", "text"), [(0.29, "0.29"), (0.2999, "0.29"), (1.005, "1.00"), (2.0, "2.00"), (0.009, "0.00")]
)
def test_a_lower_bound_is_never_rounded_up(bound, text):
    assert formatting.format_lower_bound(bound) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0.5, "0.5"), (9999.4, "9999"), (9999.5, "10,000"), (12345.0, "12,340"), (-3e-05, "-3e-05"), (1e6, "1,000,000")],
)
def test_an_amount_has_four_digits_and_no_exponent_where_it_is_large(amount, text):
    assert formatting.format_amount(amount) == text


def test_words_and_counts():
    assert formatting.format_count(0, "record") == "0 records"
    assert formatting.format_count(1, "record") == "1 record"
    assert formatting.format_count(1000, "record") == "1,000 records"
    assert [formatting.class_name(i, ["a", "b"]) for i in (-1, 0, 1, 2)] == ["-1", "a", "b", "2"]
    assert formatting.join_words(["a", "b"]) == "a and b"
    assert formatting.format_unseen_classes([1]) == "unseen class 1"
    assert formatting.format_unseen_classes([1, 2]) == "unseen classes 1 and 2"
    assert formatting.as_sentence("the AUC.") == "The AUC."
