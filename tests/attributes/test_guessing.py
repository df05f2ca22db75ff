"""From a column to guesses: which columns there are, how their values are named, and how guesses are weighed."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy import special

from divulge.attributes import inference
from divulge.errors import InputError
from divulge.types import Records


def refused(message):
    return pytest.raises(InputError, match=message)


ROWS = Records(np.arange(12.0).reshape(4, 3), [0, 1, 0, 1])
TABLE = Records(pl.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": ["u", "v", "u", "w"], "c": [1, 2, 1, 2]}), [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("column", "records", "expected"),
    [
        (0, ROWS, (0,)), (2, ROWS, (2,)), ([0, 2], ROWS, (0, 2)), ((np.int64(1),), ROWS, (1,)), ("a", TABLE, ("a",)),
        (["b", "c"], TABLE, ("b", "c")),
    ],
)  # fmt: skip
def test_an_attribute_is_one_column_or_several_of_those_there_are(column, records, expected):
    assert inference._check_column(column, records) == expected


@pytest.mark.parametrize(
    ("column", "records", "message"),
    [
        (3, ROWS, "a position from 0 to 2 is needed, got 3"), (-1, ROWS, "a position from 0 to 2 is needed, got -1"),
        ("a", ROWS, "a position from 0 to 2 is needed, got 'a'"), (True, ROWS, "one column, or several different ones"),
        (None, ROWS, "one column, or several"), ([], ROWS, "one column, or several"), ([1, 1], ROWS, "one column"),
        ([0, True], ROWS, "one column, or several"), (0.5, ROWS, "one column, or several"),
        ([0, 1, 2], ROWS, "the adversary knows the other columns, and there are none"),
        ("d", TABLE, "the records have no column 'd'; they have a, b, c$"), (0, TABLE, "the records have no column 0"),
        (["a", "b", "c"], TABLE, "the adversary knows the other columns"),
    ],
)  # fmt: skip
def test_other_columns_are_refused(column, records, message):
    with refused(f"^column: {message}"):
        inference._check_column(column, records)


def test_of_many_columns_twenty_are_listed():
    wide = Records(pl.DataFrame({f"c{i:02}": [1.0] for i in range(21)}))
    with refused("c18, c19$"):
        inference._check_column("x", wide)


@pytest.mark.parametrize(
    ("value", "key"),
    [(None, "-"), (float("nan"), "-"), ("-", "=-"), ("None", "=None"), (-0.0, "=0.0"), (1.0, "=1.0"), (1, "=1")],
)
def test_a_missing_value_is_no_text_and_a_negative_zero_is_none(value, key):
    assert inference._cell_key(value) == key


def test_values_have_names_that_differ():
    assert inference._value_names(ROWS, (1, 0), [0, 2]) == ("1, 0", "7, 6")
    assert inference._value_names(TABLE, ("b", "a"), [0, 3]) == ("u, 1", "w, 4")
    texts = Records(pl.DataFrame({"a": ["missing", None], "b": [1.0, 2.0]}))
    assert inference._value_names(texts, ("a",), [0, 1]) == ("'missing'", "missing")
    near = Records(np.array([[1.0000001, 0.0], [1.0000002, 0.0]]))
    assert inference._value_names(near, (0,), [0, 1]) == ("1.0000001", "1.0000002")


def study(values, population, y=None, regression=False, **options):
    candidates, others = np.asarray(values, float), np.asarray(population, float)
    labels = np.zeros(len(candidates), int) if y is None else np.asarray(y)
    return SimpleNamespace(
        candidates=Records(candidates, labels), population=Records(others, np.zeros(len(others), int)),
        is_regression=regression, **options,
    )  # fmt: skip


def settings(**changes):
    return inference.AttributeSettings.check(**changes)


def column_of(values):
    return np.column_stack([values, np.arange(len(values))])


def test_values_to_try_are_those_of_the_population():
    attribute = inference._read_attribute(
        study(column_of([2, 5, 7, 5]), column_of([5, 5, 2, 3, 3, 2])), (0,), settings()
    )
    assert attribute.donors.tolist() == [2, 3, 0]
    assert attribute.codes.tolist() == [0, 2, -1, 2, 2, 2, 0, 1, 1, 0]
    assert attribute.groups.tolist() == [0, 2, 3, 2, 2, 2, 0, 1, 1, 0]
    assert attribute.group_names == ("2", "3", "5", "7")
    assert (attribute.tolerance, attribute.numbers, attribute.grid) == (None, None, None)
    assert (attribute.features[:, 0] == attribute.features[0, 0]).all()  # the column itself is no feature
    assert attribute.features[:, 1].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5]
    hidden = inference._hide_values(attribute)
    assert hidden == ("value 1", "value 2", "value 3", "value 4")
    real = SimpleNamespace(tolerance=0.5, group_names=("low",))
    assert inference._hide_values(real) == ("low",)


@pytest.mark.parametrize(
    ("population", "max_values", "message"),
    [
        ([5, 5, 5, 5], 64, "0 has a single value in the population"), ([1, 2], 64, None),
        ([1, 2, 3], 64, "3 values among 3"),
        ([1, 2, 3, 1, 2], 64, "3 values among 5 records"), ([1, 2, 3, 1, 2, 3], 64, None),
        ([1, 2, 3] * 3, 2, "3 values"),
        ([1, 2, 3] * 3, 3, None),
    ],
)  # fmt: skip
def test_values_are_few_enough_and_two_at_least(population, max_values, message):
    given = study(column_of([1, 2, 5]), column_of(population))
    if message is None:
        inference._read_attribute(given, (0,), settings(max_values=max_values))
        return
    with refused(f"^column: .*{message}"):
        inference._read_attribute(given, (0,), settings(max_values=max_values))


@pytest.mark.parametrize(("values", "refuses"), [([1, 9], False), ([1, 9, 9], True), ([1, 2, 9], False)])
def test_half_of_the_candidates_have_a_value_that_can_be_guessed(values, refuses):
    given = study(column_of(values), column_of([1, 2, 1, 2]))
    if not refuses:
        inference._read_attribute(given, (0,), settings())
        return
    with refused("67% of the members and non-members have a value of 0 that nobody in the population has"):
        inference._read_attribute(given, (0,), settings())


@pytest.mark.parametrize("has_references", [False, True])
def test_attacks_weigh_the_label_once(has_references, monkeypatch):
    """The label is read from the model, so what is imputed beside it does not know it; references know it too."""
    rng = np.random.default_rng(0)
    likelihood, relative = rng.normal(size=(2, 4, 3))
    marginal, without_label, with_label = rng.normal(size=3), rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    candidates, population = Records(np.zeros((4, 2)), [0, 1, 1, 0]), Records(np.zeros((5, 2)), [1, 0, 0, 1, 1])
    attribute = SimpleNamespace(features=np.arange(9.0)[:, None], tolerance=None)
    seen = []

    def impute(attribute, features, n, seed):
        seen.append((features.tolist(), n, seed))
        return with_label if features.shape[1] == 2 else without_label

    monkeypatch.setattr(inference, "_impute_classes", impute)
    monkeypatch.setattr(inference, "_marginal", lambda attribute, n: marginal)
    monkeypatch.setattr(inference, "_is_right", lambda attribute, logs, n: (logs, n))
    given = SimpleNamespace(candidates=candidates, population=population)
    found = inference._guess(given, attribute, likelihood, relative if has_references else None, 7)
    assert all(n == 4 for _, n in found.values())
    second = "model against references" if has_references else "model and imputation"
    assert list(found) == ["model", second, "imputation"]
    np.testing.assert_allclose(found["model"][0], marginal + likelihood)
    np.testing.assert_allclose(found["imputation"][0], with_label)
    expected = with_label + likelihood - relative if has_references else without_label + likelihood
    np.testing.assert_allclose(found[second][0], expected)
    y = [0, 1, 1, 0, 1, 0, 0, 1, 1]
    assert seen[0] == ([[float(i), y[i]] for i in range(9)], 4, 7)


@pytest.mark.parametrize("is_regression", [False, True])
def test_likelihoods_are_those_of_the_answers_to_each_value(is_regression, monkeypatch):
    values = np.array([[1.0, 0.0], [2.0, 0.0]])
    given = study(values, [[1.0, 0.0], [2.0, 0.0], [1.0, 5.0]], [0, 1], is_regression, target=None)
    attribute = SimpleNamespace(columns=(0,), donors=np.array([0, 1]))
    versions = inference._versions(given, attribute)
    assert [version.x[:, 0].tolist() for version in versions] == [[1, 1], [2, 2]]
    assert [version.x[:, 1].tolist() for version in versions] == [[0, 0], [0, 0]]

    def read(target, records, study):
        return records.x[:, 0] if is_regression else np.column_stack([records.x[:, 0], -records.x[:, 0]])

    monkeypatch.setattr(inference, "_read_outputs", read)
    found = inference._likelihoods(given, attribute)
    if is_regression:
        spread = inference._error_spread(np.array([1.0, 2.0, 1.0]), given.population)
        expected = [[-np.log1p(((y - value) / spread) ** 2) for value in (1, 2)] for y in (0, 1)]
    else:
        expected = [[special.log_softmax([value, -value])[y] for value in (1, 2)] for y in (0, 1)]
        expected = np.maximum(expected, np.log(0.01))
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(("n_members", "n_others", "is_run"), [(10, 10, True), (9, 30, False), (30, 9, False)])
def test_the_split_is_checked_where_there_are_records_enough(n_members, n_others, is_run, monkeypatch):
    baseline = SimpleNamespace(auc=SimpleNamespace(value=0.75), p_value=0.001, confounded=True)
    asked = []
    monkeypatch.setattr(inference.blind, "baseline", lambda *given, **named: asked.append((given, named)) or baseline)
    monkeypatch.setattr(inference, "_MIN_BLIND", 10)
    n = n_members + n_others
    given = study(np.arange(2.0 * n).reshape(n, 2), [[0.0, 1.0]], np.arange(n), truth=np.arange(n) < n_members)
    (check,) = inference._check_split(given, 3)
    assert check.name == "blind classifier"
    assert not check.passed
    if not is_run:
        assert check.says == "not run: fewer than 10 records of a kind"
        return
    assert check.says == "without the model, members can be told from non-members (AUC 0.750, p = 0.001)"
    (inside, outside, seed), named = asked[0]
    assert (len(inside), len(outside), seed, inside[0, 0]) == (n_members, n_others, 3, 0)
    assert named["y_members"].tolist() == list(range(n_members))
    assert named["y_nonmembers"].tolist() == list(range(n_members, n))
    assert named["false_alarm"] == 0.01
    baseline.confounded = False
    (check,) = inference._check_split(given, 3)
    assert (check.passed, check.says) == (True, "members and non-members look alike (p = 0.001)")


def match(array, members=5, columns=2):
    return SimpleNamespace(array=array, form="x", members=members, nonmembers=1, columns=columns)


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        ([], ["a", "b"]),  # with another value nothing is found: both arrays hold the attribute
        ([match("a"), match("b")], []),
        ([match("b")], ["a"]),
        ([match("a", members=4), match("b")], ["a"]),
        ([match("a", columns=1), match("b", columns=1)], ["a", "b"]),
    ],
)
def test_an_array_holds_the_attribute_that_it_matches_less_without(changed, kept, monkeypatch):
    answers = SimpleNamespace(arrays=2, matches=(match("a"), match("b")), sentence="Five stand there.")
    other = SimpleNamespace(matches=tuple(changed))
    calls = []

    def find(target, records, truth, **options):
        calls.append(options)
        return answers if "comparable" in options else other

    monkeypatch.setattr(inference.inspection, "find_stored_records", find)
    monkeypatch.setattr(inference, "replace", lambda stored, **new: SimpleNamespace(**vars(stored) | new))
    given = study(column_of([1, 2]), column_of([1, 2]), target=None, truth=np.array([True, False]), repeats_kept=False)
    attribute = SimpleNamespace(columns=(0,), donors=np.array([0, 1]))
    stored, notes = inference._find_stored_values(given, attribute, 0, True)
    assert (stored is None) == (not kept)
    assert notes == (() if kept else ("Five stand there, without the column of interest",))
    if kept:
        assert [each.array for each in stored.matches] == kept
    assert [options.get("bound") for options in calls] == [None, 0.5, 0.5]
    answers.arrays = 0
    assert inference._find_stored_values(given, attribute, 0, True) == (None, ())
