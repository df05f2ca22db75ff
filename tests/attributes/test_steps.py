"""Steps of the inference of attributes, against definitions written down again, and limits at their bounds."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from divulge.attributes import inference
from divulge.errors import InputError


def real_attribute(tried, numbers, tolerance):
    return SimpleNamespace(
        grid=np.asarray(tried, dtype=float), numbers=np.asarray(numbers, dtype=float), tolerance=tolerance,
        donors=np.arange(len(tried)), codes=np.full(len(numbers), -1),
    )  # fmt: skip


def classes_attribute(codes, k):
    return SimpleNamespace(grid=None, numbers=None, tolerance=None, donors=np.arange(k), codes=np.asarray(codes))


@pytest.mark.parametrize(
    ("tolerance", "error"),
    [
        (5.0, "so wide that one guess is right of every record"),  # 5 is within 5 of 0 and of 10
        (4.99, None),
        (1.0, None),  # half of the values can be reached
        (0.9, "so narrow that none of the 3 values that are tried comes near enough to 75% of the values"),
    ],
)
def test_a_tolerance_is_neither_so_wide_that_all_guesses_are_right_nor_so_narrow_that_most_cannot_be(tolerance, error):
    values, population = np.array([0.5, 6.0, 7.5, 12.0]), np.array([0.0, 5.0, 10.0])
    if error is None:
        inference._check_tolerance(values, population, population, tolerance)
        return
    with pytest.raises(InputError, match=error):
        inference._check_tolerance(values, population, population, tolerance)


def test_values_are_as_frequent_as_in_the_population_half_a_record_more_each():
    found = inference._marginal(classes_attribute([1, -1, 0, 0, 1, 2, 0], 4), 2)
    np.testing.assert_allclose(np.exp(found), np.array([3.5, 1.5, 1.5, 0.5]) / 7)
    found = inference._marginal(real_attribute([0, 4, 8], [99, 0.5, 1.9, 2.1, 7.0, 9.0], 1.0), 1)
    np.testing.assert_allclose(np.exp(found), np.array([2.5, 1.5, 2.5]) / 6.5)


def test_each_value_of_a_grid_stands_for_what_is_nearest_to_it():
    np.testing.assert_allclose(inference._cell_widths(np.array([0.0, 1.0, 4.0])), [0.5, 2.0, 1.5])
    assert inference._cell_widths(np.array([3.0])).tolist() == [4e-12]


def test_a_guess_is_the_value_within_whose_tolerance_most_of_the_likelihood_lies():
    logs = np.log(np.array([[0.4, 0.3, 0.29, 0.01], [0.1, 0.1, 0.1, 0.7]]))
    attribute = real_attribute([0, 10, 12, 30], [11.0, 28.0], 2.0)
    assert inference._is_right(attribute, logs, 2).tolist() == [True, True]  # 10 and 12 together outweigh 0
    assert inference._is_right(real_attribute([0, 10, 12, 30], [12.1, 27.9], 2.0), logs, 2).tolist() == [False, False]
    assert inference._is_right(real_attribute([0, 10, 12, 30], [0.0, 30.0], 1.9), logs, 2).tolist() == [True, True]
    assert inference._is_right(classes_attribute([0, 2], 4), logs, 2).tolist() == [True, False]
    assert inference._is_right(classes_attribute([-1, 3], 4), logs, 2).tolist() == [False, True]


@pytest.mark.parametrize(
    ("errors", "spread"),
    [
        ([-1.0, 0.0, 1.0, 5.0, -3.0], 1.4826 * 1.0),
        ([2.0, 2.0, 2.0, 2.0, 7.0], float(np.std([2, 2, 2, 2, 7]))),  # most errors alike: their deviation
        ([3.0, 3.0, 3.0], 1.0),
    ],
)
def test_errors_are_measured_by_a_robust_deviation(errors, spread):
    y = np.arange(len(errors)) * 1.0
    records = SimpleNamespace(y=y)
    assert inference._error_spread(y - errors, records) == pytest.approx(spread)
    found = inference._log_error(y - errors, records, 2.0)
    np.testing.assert_allclose(found, [-math.log(1 + (e / 2) ** 2) for e in errors])


def test_a_label_is_as_likely_as_the_model_says_and_never_less_than_one_in_a_hundred():
    records = SimpleNamespace(y=np.array([0, 1, 1]))
    logits = np.log(np.array([[0.7, 0.3], [0.4, 0.6], [0.999, 0.001]])) + 5
    np.testing.assert_allclose(inference._log_class(logits, records, None), np.log([0.7, 0.6, 0.01]))
    told = inference._log_class(np.array([0, 0, 1]), records, None)
    assert told.tolist() == [inference._LABEL_RIGHT, inference._LABEL_WRONG, inference._LABEL_RIGHT]
    assert inference._LABEL_WRONG < inference._LABEL_RIGHT <= 0


def test_what_is_imputed_is_a_forest_with_a_little_of_the_marginal():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(90, 2))
    codes = (features[:, 0] > 0).astype(int)
    attribute = classes_attribute(codes, 3)  # of the third value the population has none
    found = np.exp(inference._impute_classes(attribute, features, 30, 7))
    forest = RandomForestClassifier(inference._TREES, min_samples_leaf=inference._LEAF, random_state=7)
    plain = np.column_stack([forest.fit(features[30:], codes[30:]).predict_proba(features[:30]), np.zeros(30)])
    counts = np.bincount(codes[30:], minlength=3) + 0.5
    np.testing.assert_allclose(found, 0.98 * plain + 0.02 * counts / counts.sum())
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_numbers_are_imputed_around_a_forests_mean_with_its_out_of_bag_errors():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(200, 1))
    numbers = 3 * features[:, 0] + 0.3 * rng.normal(size=200)
    grid = np.linspace(-6, 6, 49)
    logs = inference._impute_numbers(real_attribute(grid, numbers, 0.5), features, 50, 3)
    shares = np.exp(logs)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    means = shares @ grid
    inner = np.abs(features[:50, 0]) < 1.2
    assert np.abs(means - 3 * features[:50, 0])[inner].mean() < 0.4
    spread = np.sqrt(shares @ grid**2 - means**2)
    assert 0.3 < spread[inner].mean() < 1.0
    uneven = np.r_[grid[:25], grid[25:][::3]]  # cells three times as wide hold three times as much
    other = np.exp(inference._impute_numbers(real_attribute(uneven, numbers, 0.5), features, 50, 3))
    right = features[:50, 0] > 0.5
    assert (other @ uneven)[right].mean() == pytest.approx(means[right].mean(), abs=0.15)


@pytest.mark.parametrize("seed", range(12))
def test_tolerances_are_refused_by_the_nearest_of_the_values_that_are_tried(seed):
    """By each guess and each value, one at a time; also a single value that is tried, and values beyond all of them."""
    rng = np.random.default_rng(seed)
    grid = np.unique(rng.integers(0, 40, rng.integers(1, 5))).astype(float)
    population = np.concatenate([grid, rng.integers(-5, 45, 8)])
    values = rng.integers(-15, 55, 9).astype(float)
    for tolerance in (0.5, 3.0, 9.0, 20.0):
        wide = any(all(abs(guess - value) <= tolerance for value in population) for guess in grid)
        reachable = np.mean([min(abs(guess - value) for guess in grid) <= tolerance for value in values])
        if not wide and reachable >= inference._LEAST_REACHABLE:
            inference._check_tolerance(values, population, grid, tolerance)
            continue
        with pytest.raises(InputError) as error:
            inference._check_tolerance(values, population, grid, tolerance)
        assert ("so wide" if wide else f"enough to {1 - reachable:.0%} of the values") in str(error.value)


@pytest.mark.parametrize("max_values", [3, 5, 40])
def test_of_numbers_those_are_tried_that_the_population_has_or_its_evenly_spaced_ranks(max_values):
    n, rng = 6, np.random.default_rng(max_values)
    numbers = rng.integers(0, 30, n + 20).astype(float)
    features = rng.normal(size=(n + 20, 2))
    options = SimpleNamespace(max_values=max_values, tolerance=6.0)
    attribute = inference._real_attribute(("age",), [numbers], n, features, options)
    population = numbers[n:].tolist()
    grid = sorted(set(population))
    if len(grid) > max_values:
        ranks = {round(float(place)) for place in np.linspace(0, 19, max_values)}
        grid = sorted({sorted(population)[rank] for rank in ranks})
    assert attribute.grid.tolist() == grid
    assert attribute.donors.tolist() == [population.index(value) for value in grid]
    assert attribute.codes.tolist() == [-1] * len(numbers)  # no value has a number: they are compared as numbers
    assert attribute.numbers.tolist() == numbers.tolist()
    assert attribute.tolerance == 6.0
    assert attribute.columns == ("age",)
    assert attribute.features is features
    first, second = np.quantile(population, [1 / 3, 2 / 3])
    assert attribute.groups.tolist() == [int(value > first) + int(value > second) for value in numbers]
    assert attribute.group_names == ("low third", "middle third", "high third")
    numbers[n + 1] = np.nan
    with pytest.raises(InputError, match="column 'age' has missing values"):
        inference._real_attribute(("age",), [numbers], n, features, options)
    with pytest.raises(InputError, match="one column of numbers"):
        inference._real_attribute(("a", "b"), [numbers, numbers], n, features, options)
    with pytest.raises(InputError, match="one column of numbers"):
        inference._real_attribute(("a",), [np.array(["x"] * 26)], n, features, options)
