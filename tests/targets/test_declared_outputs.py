"""What outputs are declared to be, and what they are: every check at its bound, in both readings."""

import math

import numpy as np
import pytest

from divulge.errors import InputError
from divulge.targets.outputs import as_logits, as_predictions, check_log_odds, check_logits

FLOOR = math.log(1e-7)


def test_one_column_is_the_log_odds_of_class_1():
    for outputs in ([0.5, -2.0], [[0.5], [-2.0]]):
        np.testing.assert_array_equal(as_logits(outputs, "logits", 2), [[0, 0.5], [0, -2]])
    for outputs in ([0.25, 1.0], [[0.25], [1.0]]):
        np.testing.assert_allclose(as_logits(outputs, "probabilities", 2), [np.log([0.75, 0.25]), [FLOOR, 0.0]])


def test_probabilities_are_read_as_their_logarithms_down_to_what_single_precision_resolves():
    rows = as_logits([[1.0, 0.0], [1 - 1e-8, 1e-8], [1 - 1e-6, 1e-6]], "probabilities", 3)
    np.testing.assert_allclose(rows[:, 1], [FLOOR, FLOOR, math.log(1e-6)])


@pytest.mark.parametrize("row", [[1.1, -0.1], [1.0, -1e-9], [1.0000001, 0.0], [-0.2, 1.2], [3.0, -2.0]])
def test_one_value_outside_zero_and_one_is_enough_to_be_no_probability(row):
    with pytest.raises(InputError, match="declared as probabilities, but values range from"):
        as_logits([[0.5, 0.5], row], "probabilities", 2)


def test_the_range_that_is_told_is_that_of_all_values():
    with pytest.raises(InputError, match="values range from -2 to 3; declare outputs='logits'"):
        as_logits([[0.5, 0.5], [3.0, -2.0]], "probabilities", 2)


@pytest.mark.parametrize("classes", [2, 5, 10])
@pytest.mark.parametrize("sign", [1, -1])
def test_rows_may_miss_one_by_a_hundredth_a_class(classes, sign):
    rows = np.full((4, classes), 1 / classes)
    rows[2] += sign * 0.0099 / 1
    assert as_logits(rows, "probabilities", 4).shape == (4, classes)
    rows[2] = 1 / classes + sign * 0.0101
    with pytest.raises(InputError, match=f"row 2 sums to {rows[2].sum():g}, not to one"):
        as_logits(rows, "probabilities", 4)


def probability_rows(count, decimals):
    """Distinct rows that sum to one, of values with so many decimals."""
    first = np.arange(1, count + 1) * 10.0**-decimals
    return np.stack([first, 1 - first], axis=1)


@pytest.mark.parametrize(
    ("rows", "refused"),
    [
        (probability_rows(8, 3), True),
        (probability_rows(7, 3), False),
        (probability_rows(8, 1), True),
        (probability_rows(2, 4), True),
        (probability_rows(1, 4), False),
        (np.repeat(probability_rows(1, 4), 20, axis=0), False),  # one repeated row
        (np.eye(9), False),  # ones among zeros
        (np.concatenate([np.eye(2), probability_rows(1, 4)]), False),
        (probability_rows(7, 4) + [[0, 2e-4]], False),
        (probability_rows(8, 3) + [[0, 2e-4]], True),  # rounded
        (probability_rows(8, 3) + [[0, 1.1e-2]], False),
        (np.concatenate([probability_rows(8, 3), [[1.5, -0.5]]]), False),
    ],
)  # fmt: skip
def test_logits_are_refused_where_they_can_hardly_be_anything_but_probabilities(rows, refused):
    if not refused:
        np.testing.assert_array_equal(as_logits(rows, "logits", len(rows)), rows)
        return
    with pytest.raises(InputError, match="declared as logits, but every row is non-negative and sums to one"):
        as_logits(rows, "logits", len(rows))


PROBABILITIES = np.random.default_rng(0).dirichlet(np.ones(3), 40)


@pytest.mark.parametrize(
    ("outputs", "advice"),
    [
        (PROBABILITIES.round(2), "outputs='probabilities'"),
        (100 * PROBABILITIES, "percentages"),
        ((100 * PROBABILITIES).round(), "percentages"),
        (-np.log(PROBABILITIES), "the other sign"),
        (PROBABILITIES.argmax(axis=1) + 1, "predicted labels"),
        (2 * (PROBABILITIES[:, 0] > 0.3) - 1, "predicted labels"),
    ],
)
def test_outputs_that_are_no_logits_are_refused_by_what_they_are(outputs, advice):
    with pytest.raises(InputError, match=f"declared as logits, but .*{advice}"):
        as_logits(outputs, "logits", 40)


def test_independent_probabilities_are_no_logits():
    logits = np.random.default_rng(0).normal(size=(300, 3))
    with pytest.raises(InputError, match="independent labels"):
        check_logits(1 / (1 + np.exp(-2 * logits)))
    for sound in (logits, np.eye(3)[logits.argmax(axis=1)], 1 / (1 + np.exp(-2 * logits)) - 1):
        check_logits(sound)


@pytest.mark.parametrize("outputs", [100 * PROBABILITIES[:, 0], 100 * PROBABILITIES])
def test_percentages_are_no_probabilities(outputs):
    with pytest.raises(InputError, match="divide percentages by 100"):
        as_logits(outputs, "probabilities", 40)


@pytest.mark.parametrize("prevalence", [0.5, 0.9])
def test_one_column_of_percentages_is_told_from_log_odds_by_the_labels(prevalence):
    rng = np.random.default_rng(0)
    labels = (rng.random(400) < prevalence).astype(int)
    percentages = 100 * rng.beta(2 + 4 * labels, 6 - 4 * labels)
    with pytest.raises(InputError, match="percentages"):
        check_log_odds(percentages, labels)
    check_log_odds(np.log(prevalence / (1 - prevalence)) + rng.gamma(2, 1 + 3 * labels), labels)


@pytest.mark.parametrize(("outputs", "length"), [(0.5, 1), ([[0.5, 0.5]], 2), ([[0.5, 0.5]] * 3, 2)])
@pytest.mark.parametrize("declared", ["logits", "probabilities"])
def test_outputs_have_one_row_per_record(outputs, length, declared):
    with pytest.raises(InputError, match=f"{length} rows are needed"):
        as_logits(outputs, declared, length)
    with pytest.raises(InputError, match=r"shape .n, classes. is needed, got .2, 1, 2."):
        as_logits(np.zeros((2, 1, 2)), declared, 2)


def test_a_regression_gives_one_value_per_record():
    for outputs in ([1.0, -2.0], [[1.0], [-2.0]]):
        np.testing.assert_array_equal(as_predictions(outputs, 2), [1.0, -2.0])
    for outputs in (1.0, [1.0], [1.0, 2.0, 3.0]):
        with pytest.raises(InputError, match="2 rows are needed"):
            as_predictions(outputs, 2)
    with pytest.raises(InputError, match=r"one real value per record is needed, got shape .2, 2."):
        as_predictions([[1.0, 2.0], [3.0, 4.0]], 2)
