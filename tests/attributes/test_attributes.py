"""Attribute inference: what leaks is found, what everybody's records say is no leak, and odd columns are answered."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import divulge as dv
from divulge import attributes
from divulge.attributes.finding import decide_attribute
from divulge.attributes.result import ATTRIBUTES, AttributeInference
from divulge.references import Train
from divulge.report import html
from divulge.settings import AttributeSettings


def reload(folder):
    return ATTRIBUTES.load(folder).result


def rows(n, seed, levels=4):
    """An attribute, two other columns of noise, and a label that is the attribute in half of the records."""
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, levels, n)
    label = np.where(rng.random(n) < 0.5, secret, rng.integers(0, levels, n))
    return np.c_[secret, rng.normal(size=(n, 2))], label


def sets(seed=0, n=150, make=dv.Records, **options):
    parts_drawn = [rows(n, seed * 10 + part, **options) for part in range(3)]
    return dict(zip(("members", "nonmembers", "population"), (make(*each) for each in parts_drawn), strict=True))


class Labels:
    """A model that says classes alone."""

    def __init__(self, model):
        self.model = model

    def labels(self, records):
        return self.model.predict(records.x)


def tree(records, **options):
    return DecisionTreeClassifier(random_state=0, **options).fit(records.x, records.y)


def test_records_that_stand_in_the_file_without_the_column_give_no_value_away():
    """Neighbours keep what they are given: with the column its values stand in the file, without it they do not."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=360), "pay": rng.normal(size=360), "ward": rng.integers(0, 3, 360)})
    y = (frame["age"] + rng.normal(size=360) > 0).astype(int).to_numpy()
    parts = (("members", 0), ("nonmembers", 120), ("population", 240))
    data = {name: dv.Records(frame[i : i + 120], y[i : i + 120]) for name, i in parts}
    for columns, is_stored in ((["age", "pay"], False), (["ward", "pay", "age"], True)):
        selected_columns = make_column_transformer(("passthrough", columns))
        model = make_pipeline(selected_columns, KNeighborsClassifier(15)).fit(frame[:120], y[:120])
        inference = attributes.infer(model, column="ward", **data)
        assert (inference.finding.answer == "leak found") == is_stored
        assert any("without the column of interest" in text for text in inference.warnings) != is_stored
        assert (inference.stored is not None) == is_stored
        assert (dv.gate(inference, "share:0.9")[0].state == "broken") == is_stored


class Chooser:
    """Neighbours by some of the columns, chosen in code that shows no form of the records."""

    def __init__(self, columns, frame, y):
        self.columns = columns
        self.neighbours = KNeighborsClassifier(15).fit(frame[columns].to_numpy(), y)

    def predict_proba(self, frame):
        return self.neighbours.predict_proba(frame[self.columns].to_numpy())

    classes_ = np.arange(2)
    feature_names_in_ = np.array(["age", "pay", "ward"], dtype=object)


@pytest.mark.parametrize(("columns", "is_stored"), [(["age", "pay"], False), (["age", "ward"], True)])
def test_records_that_stand_there_by_some_columns_are_asked_by_which(columns, is_stored):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=360), "pay": rng.normal(size=360), "ward": rng.integers(0, 3, 360)})
    y = (frame["age"] + rng.normal(size=360) > 0).astype(int).to_numpy()
    parts = (("members", 0), ("nonmembers", 120), ("population", 240))
    data = {name: dv.Records(frame[i : i + 120], y[i : i + 120]) for name, i in parts}
    inference = attributes.infer(Chooser(columns, frame[:120], y[:120]), column="ward", **data)
    assert (inference.finding.answer == "leak found") == is_stored
    assert (inference.stored is not None) == is_stored


class TestDecision:
    def test_guesses_that_know_nothing_of_membership_are_no_leak(self):
        """Each draw errs with at most 5 %; more than 3 of 9 would have a probability below .001."""
        n_found = 0
        for seed in range(9):
            rng = np.random.default_rng(seed)
            members = np.arange(70) < 30
            values = rng.choice(3, 70, p=[0.6, 0.3, 0.1])
            rates = rng.random(3)
            right = {name: rng.random(70) < rates[values] for name in ("model", "imputation")}
            n_found += decide_attribute(right, members, values, ("a", "b", "c")).answer == "leak found"
        assert n_found <= 3

    def test_a_rare_value_that_is_given_away_is_found_though_the_rates_hardly_differ(self):
        rng = np.random.default_rng(0)
        members = np.arange(2000) < 1000
        values = (np.arange(2000) % 50 == 0).astype(int)
        guess = (values == 0) | (rng.random(2000) < 0.1)
        right = {"model": guess | (members & (values == 1)), "imputation": guess}
        result = decide_attribute(right, members, values, ("no", "yes"))
        assert result.attacks[0].difference.low < 0.03
        assert result.answer == "leak found"
        assert max(result.values, key=lambda one: one.difference.low).value == "yes"

    def test_few_records_with_a_value_keep_a_model_from_being_cleared(self):
        members, values = np.arange(2000) < 1000, np.zeros(2000, int)
        values[[*range(6), *range(1000, 1006)]] = 1
        right = np.random.default_rng(0).random(2000) < 0.6
        result = decide_attribute({"model": right, "imputation": right}, members, values, ("no", "yes"))
        assert result.answer == "too little data to say"
        assert "too rare" in result.reason
        one_value = decide_attribute({"model": right, "imputation": right}, members, values * 0, ("no",))
        assert one_value.answer == "no leak found"
        assert not one_value.values

    def test_sets_that_differ_without_the_model_are_confounded(self):
        members, values = np.arange(400) < 200, np.arange(400) % 2
        right = np.random.default_rng(0).random(400) < np.where(members, 0.9, 0.5)
        result = decide_attribute({"model": right, "imputation": right}, members, values, ("a", "b"))
        assert result.answer == "split is confounded"
        finding = decide_attribute(
            {"model": right, "imputation": ~members}, members, values, ("a", "b"), confounded="x"
        )
        assert finding.answer == "split is confounded"

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"right": {"model": np.ones(4, bool)}}, "'imputation' and at least 1 attack"),
            ({"members": np.ones(4, bool)}, "members and non-members are needed"),
            ({"margin": 0}, "margin"),
            ({"confidence": 1.0}, "confidence"),
            ({"values": [0, 1]}, "values"),
        ],
    )
    def test_what_does_not_fit_is_refused_by_name(self, change, message):
        right = {"model": np.ones(4, bool), "imputation": np.ones(4, bool)}
        arguments = {"right": right, "members": np.arange(4) < 2, "values": np.zeros(4), "names": ("a",)} | change
        with pytest.raises(dv.InputError, match=message):
            decide_attribute(**arguments)


class TestInference:
    def test_a_model_that_learned_its_records_by_heart_gives_the_attribute_away(self):
        data = sets()
        result = attributes.infer(tree(data["members"]), **data, column=0)
        assert result.finding.answer == "leak found"
        best = max(result.finding.attacks, key=lambda one: one.difference.low)
        assert best.members.value - best.nonmembers.value == pytest.approx(best.difference.value)
        assert result.finding.attacks[-1].name == "imputation"

    def test_a_model_trained_on_nothing_here_gives_nothing_away(self):
        """Each errs with at most 5 %; 3 of 3 would happen with a probability below .001."""
        answers = []
        for seed in range(3):
            data = sets(seed, n=60)
            stranger = tree(dv.Records(*rows(60, 900 + seed)))
            answers.append(attributes.infer(stranger, **data, column=0).finding.answer)
        assert answers.count("leak found") < 3, answers

    @pytest.mark.parametrize("labels_only", [False, True])
    def test_guesses_are_those_of_the_likeliest_value(self, labels_only):
        """The label's likelihood under each value times how frequent it is, or how likely columns and label make it."""
        data = sets(n=80)
        model = tree(data["members"], max_depth=4)
        target = Labels(model) if labels_only else model
        result = attributes.infer(target, **data, column=0)
        x, y = (np.concatenate([getattr(data[name], part) for name in ("members", "nonmembers")]) for part in "xy")
        z, labels = data["population"].x, data["population"].y
        values, counts = np.unique(z[:, 0], return_counts=True)
        frequent = (counts + 0.5) / (counts + 0.5).sum()
        likelihood = np.empty((len(x), len(values)))
        for place, value in enumerate(values):
            version = np.c_[np.full(len(x), value), x[:, 1:]]
            if labels_only:
                likelihood[:, place] = np.where(model.predict(version) == y, 0.9, 0.1)
            else:
                likelihood[:, place] = np.maximum(model.predict_proba(version)[np.arange(len(x)), y], 0.01)

        def impute(inside, outside):
            forest = RandomForestClassifier(100, min_samples_leaf=2, random_state=0).fit(inside, z[:, 0])
            return 0.98 * forest.predict_proba(outside) + 0.02 * frequent

        weights = {
            "model": likelihood * frequent,
            "model and imputation": likelihood * impute(z[:, 1:], x[:, 1:]),
            "imputation": impute(np.c_[z[:, 1:], labels], np.c_[x[:, 1:], y]),
        }
        for name, weight in weights.items():
            is_clear = np.diff(np.sort(weight, axis=1)[:, -2:], axis=1)[:, 0] > 1e-9  # ties fall either way
            expected = values[weight.argmax(axis=1)] == x[:, 0]
            agreement = (result.right[name] == expected)[is_clear].mean()
            assert agreement == 1 if name == "model" else agreement > 0.85, name  # forests vary with their draws

    def test_real_values_are_guessed_where_most_of_the_likelihood_lies_within_the_tolerance(self):
        rng = np.random.default_rng(3)
        data = sets(make=lambda x, y: dv.Records(x, 2 * x[:, 1] + x[:, 2] + 0.1 * rng.normal(size=len(x))), n=60)
        model = LinearRegression().fit(data["members"].x, data["members"].y)
        result = attributes.infer(model, **data, column=1, tolerance=0.4)
        x, y = (np.concatenate([getattr(data[name], part) for name in ("members", "nonmembers")]) for part in "xy")
        z = data["population"].x
        errors = data["population"].y - model.predict(z)
        spread = 1.4826 * np.median(np.abs(errors - np.median(errors)))
        grid = np.unique(z[:, 1])  # each as frequent as any other
        versions = [np.c_[x[:, 0], np.full(len(x), value), x[:, 2:]] for value in grid]
        weights = np.stack([1 / (1 + ((y - model.predict(each)) / spread) ** 2) for each in versions], axis=1)
        within = weights @ (np.abs(grid[:, None] - grid) <= 0.4)
        expected = np.abs(grid[within.argmax(axis=1)] - x[:, 1]) <= 0.4
        assert np.mean(result.right["model"] == expected) > 0.98

    def test_a_column_that_follows_from_another_is_no_leak(self):
        def twice(x, y):
            return dv.Records(np.c_[x, x[:, 0]], y)

        data = sets(make=twice, n=150)
        result = attributes.infer(tree(data["members"]), **data, column=0)
        assert result.finding.attacks[-1].members.value == 1
        assert result.finding.answer == "no leak found"

    def test_a_column_that_the_model_never_reads_is_guessed_as_from_the_population(self):
        data = sets(n=150)
        model = DecisionTreeClassifier(random_state=0).fit(data["members"].x[:, 1:], data["members"].y)
        result = attributes.infer(lambda x: model.predict_proba(x[:, 1:]), outputs="probabilities", **data, column=0)
        assert result.finding.answer != "leak found"

    def test_real_values_within_a_tolerance(self):
        rng = np.random.default_rng(0)

        def make(x, y):
            return dv.Records(x, x[:, 1] * 2 + x[:, 0] + rng.normal(size=len(x)))

        data = sets(make=make, n=80)
        model = RandomForestRegressor(30, random_state=0).fit(data["members"].x, data["members"].y)
        result = attributes.infer(model, **data, column=1, tolerance=0.3)
        assert result.value_names == ("low third", "middle third", "high third")
        assert result.tried == 64
        assert result.finding.attacks[-1].members.value > 0.1  # from the label alone
        for name in result.right:
            assert 0 < result.right[name].mean() < 1

    def test_values_that_nobody_in_the_population_has_are_never_guessed(self):
        data = sets(n=60)
        x = data["members"].x.copy()
        x[:10, 0] = 7
        members = dv.Records(x, data["members"].y)
        result = attributes.infer(tree(members), **data | {"members": members}, column=0)
        assert not any(right[:10].any() for right in result.right.values())

    def test_codes_of_several_columns_are_one_attribute(self):
        def one_hot(x, y):
            return dv.Records(np.c_[np.eye(3)[x[:, 0].astype(int)], x[:, 1:]], y)

        data = sets(make=one_hot, n=60, levels=3)
        result = attributes.infer(tree(data["members"]), **data, column=(0, 1, 2))
        assert result.tried == 3
        assert result.column == "0, 1, 2"
        assert len(result.value_names) == 3

    @pytest.mark.parametrize("library", [pl.DataFrame, pd.DataFrame])
    def test_columns_of_frames_keep_their_types(self, library):
        def frame(x, y):
            columns = {"drug": np.array(["a", "b", "c"])[x[:, 0].astype(int)], "u": x[:, 1], "v": x[:, 2]}
            native_frame = library(columns)
            if library is pd.DataFrame:
                native_frame["drug"] = native_frame["drug"].astype("category")
                native_frame.index = np.arange(len(native_frame)) + 1000
            return dv.Records(native_frame, y)

        data = sets(make=frame, n=80, levels=3)
        encode = make_column_transformer((OneHotEncoder(), ["drug"]), remainder="passthrough")
        members = data["members"].table.to_native()
        pandas = members if library is pd.DataFrame else members.to_pandas()
        model = make_pipeline(encode, RandomForestClassifier(20, random_state=0)).fit(pandas, data["members"].y)
        result = attributes.infer(model, **data, column="drug")
        assert result.value_names == ("a", "b", "c")
        assert result.finding.answer in ("leak found", "too little data to say")

    def test_values_have_the_readers_names_and_a_missing_one_is_no_text(self):
        names = np.array([None, "None", "<b>x</b>", "f"], dtype=object)

        def frame(x, y):
            flag = pl.Series([None if value > 1 else value > 0 for value in x[:, 1]], dtype=pl.Boolean)
            days = pl.Series(x[:, 0].astype(int)).cast(pl.Date)
            columns = {"drug": names[x[:, 0].astype(int)].tolist(), "flag": flag, "day": days, "u": x[:, 2]}
            return dv.Records(pl.DataFrame(columns), y)

        data = sets(make=frame, n=60)

        def model(records):
            score = np.array([len(value or "") for value in records["drug"]]) % 4
            return np.eye(4)[score]

        target = dv.targets.CallableTarget(model, frames=True)
        inference = attributes.infer(target, **data, column="drug")
        assert sorted(inference.value_names) == ["<b>x</b>", "None", "f", "missing"]
        assert inference.tried == 4
        assert "<b>x" not in html.render(inference.page())
        both = attributes.infer(target, **data, column=["flag", "drug"]).value_names
        assert both[0].split(", ")[0] == "missing"
        assert "True, f" in both
        assert attributes.infer(target, **data, column="day").value_names[0] == "1970-01-01"

    def test_reference_models_are_clones_of_the_target(self):
        data = sets(n=60)
        model = RandomForestClassifier(20, random_state=0).fit(data["members"].x, data["members"].y)
        result = attributes.infer(model, **data, column=0, references=Train(count=2))
        assert result.references == 2
        assert list(result.right) == ["model", "model against references", "imputation"]

    def test_equal_records_count_once(self):
        data = sets(n=60)
        repeated = dv.Records(np.repeat(data["members"].x, 2, axis=0), np.repeat(data["members"].y, 2))
        result = attributes.infer(tree(repeated), **data | {"members": repeated}, column=0)
        assert result.summary().members == 60

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"column": 9}, r"column: a position from 0 to 2 is needed, got 9"),
            ({"column": "age"}, r"column: a position"),
            ({"column": ()}, r"column: one column"),
            ({"column": (0, 0)}, r"column: one column"),
            ({"column": (0, 1, 2)}, r"column: the adversary knows the other columns"),
            ({"column": 1}, r"has 60 values among 60 records"),
            ({"column": 1, "tolerance": 0}, r"tolerance: must lie in \(0"),
            ({"column": 1, "tolerance": 1e-9}, r"so narrow that none of the 60 values .* near enough to 100%"),
            ({"column": 1, "tolerance": 1e9}, r"so wide that one guess is right of every record"),
            ({"column": (0, 1), "tolerance": 1.0}, r"tolerance: goes with one column"),
            ({"column": 0, "max_values": 1}, r"max_values: must be at least 2"),
            ({"column": 0, "margin": 2}, r"margin"),
        ],
    )
    def test_odd_requests_are_refused_by_name(self, options, message):
        data = sets(n=60)
        with pytest.raises(dv.InputError, match=message):
            attributes.infer(tree(data["members"]), **data, **options)

    def test_values_that_the_population_lacks_clear_nobody(self):
        data = sets(n=60)
        members, nonmembers = (
            dv.Records(data[name].x + [10.0, 0.0, 0.0], data[name].y) for name in ("members", "nonmembers")
        )
        with pytest.raises(dv.InputError, match=r"column: 100% of the members and non-members have a value of 0"):
            attributes.infer(
                tree(members), members=members, nonmembers=nonmembers, population=data["population"], column=0
            )

    def test_a_constant_column_has_nothing_to_infer(self):
        data = sets(n=60, make=lambda x, y: dv.Records(np.c_[x[:, 0] * 0, x[:, 1:]], y))
        with pytest.raises(dv.InputError, match="a single value in the population"):
            attributes.infer(tree(data["members"]), **data, column=0)

    def test_records_without_labels_are_refused(self):
        data = {name: dv.Records(each.x) for name, each in sets(n=60).items()}
        with pytest.raises(dv.InputError, match="labels, but there are none"):
            attributes.infer(lambda x: np.c_[x[:, 0], -x[:, 0]], **data, column=0)


def half_learned_sets(n=500):
    """Sets whose label says nothing of the first column, and half of which follows from another."""
    rng = np.random.default_rng(0)
    x = np.c_[rng.integers(0, 3, 3 * n), rng.normal(size=(3 * n, 3))]
    y = (x[:, 1] + rng.normal(size=3 * n) > 0).astype(int)
    return {
        name: dv.Records(x[i : i + n], y[i : i + n])
        for name, i in (("members", 0), ("nonmembers", n), ("population", 2 * n))
    }


class TestWhatIsNotCleared:
    """A model that gives nothing away by queries is not cleared where it keeps the records, or may be another one."""

    def test_records_in_the_file_are_a_leak_whatever_the_guesses_say(self, tmp_path):
        data = half_learned_sets(150)
        model = KNeighborsClassifier(25).fit(data["members"].x, data["members"].y)
        result = attributes.infer(model, **data, column=0, out=tmp_path / "run")
        assert result.finding.answer == "leak found"
        assert result.finding.reason.startswith("150 of 150 training records stand in this file.")
        assert {ruling.state for ruling in dv.gate(result, ["share:0.9", "value:0.9"])} == {"broken"}
        reloaded = reload(tmp_path / "run")
        assert reloaded.finding.reason == result.finding.reason
        assert reloaded.summary().warnings == result.summary().warnings
        assert "Do not release the file." in (tmp_path / "run" / "report.html").read_text()

    @pytest.mark.parametrize("scale", [1, 1000])
    def test_a_model_that_does_not_know_its_records_is_not_cleared(self, tmp_path, scale):
        data = half_learned_sets()
        labels = data["members"].y if scale > 1 else data["members"].y[::-1]
        model = LogisticRegression().fit(data["members"].x * scale - (scale > 1) * 5000, labels)
        result = attributes.infer(model, **data, column=0, out=tmp_path / "run")
        assert result.finding.answer == "too little data to say"
        assert "of its own training records" in result.finding.reason
        assert {ruling.state for ruling in dv.gate(result, "share:0.9")} == {"undecided"}
        assert reload(tmp_path / "run").finding.reason == result.finding.reason

    def test_one_that_knows_them_is(self):
        data = half_learned_sets(400)
        right = LogisticRegression().fit(data["members"].x, data["members"].y)
        assert attributes.infer(right, **data, column=0).finding.answer == "no leak found"

    def test_nor_is_a_regression_model(self):
        data = half_learned_sets()
        real = {name: dv.Records(each.x, each.x[:, 1] + each.x[:, 2]) for name, each in data.items()}
        stranger = LinearRegression().fit(real["members"].x[::-1], real["members"].y)
        assert "always answering their mean" in attributes.infer(stranger, **real, column=0).finding.reason
        model = LinearRegression().fit(real["members"].x, real["members"].y)
        assert attributes.infer(model, **real, column=0).finding.answer == "no leak found"


class TestGate:
    def test_rulings_follow_from_the_smaller_difference(self):
        data = sets()
        result = attributes.infer(tree(data["members"]), **data, column=0)
        rulings = dv.gate(result, ["share:0.05", "share:0.99"])
        attacks = [each for each in result.finding.attacks if each.gain is not None]
        assert len(rulings) == 2 * len(attacks)
        assert "broken" in [ruling.state for ruling in rulings[: len(attacks)]]
        assert {ruling.state for ruling in rulings[len(attacks) :]} == {"kept"}
        for ruling, attack in zip(rulings, attacks, strict=False):
            assert ruling.estimate.value == min(attack.difference.value, attack.gain.value)
            assert ruling.estimate.low < min(attack.difference.low, attack.gain.low)  # of two policies
        values = dv.gate(result, "value:0.99")
        assert len(values) == len(result.finding.values)

    def test_a_value_that_few_have_and_a_split_that_differs_are_undecided(self):
        members, values = np.arange(4000) < 2000, np.zeros(4000, int)
        values[:1000] = values[2000:3000] = 2
        values[[*range(3), *range(2000, 2003)]] = 1
        right = np.random.default_rng(0).random(4000) < 0.6
        result = inference_of(right, right, members, values)
        assert {ruling.state for ruling in dv.gate(result, "share:0.2")} == {"kept"}
        (ruling, *_) = dv.gate(result, "value:0.5")
        assert (ruling.state, ruling.reason[:9]) == ("undecided", "3 members")
        differing = inference_of(right, members, members, values)
        assert {ruling.state for ruling in dv.gate(differing, "share:0.2")} == {"undecided"}

    def test_no_ruling_on_a_model_that_gives_nothing_away_is_broken(self):
        """Each of 9 draws has a broken ruling with at most 5 %; more than 3 would have a probability below .001."""
        broken = 0
        for seed in range(9):
            rng = np.random.default_rng(seed)
            members, values = np.arange(80) < 35, rng.choice(3, 80, p=[0.6, 0.3, 0.1])
            guesses = [rng.random(80) < rng.random(3)[values] for _ in range(2)]
            result = inference_of(*guesses, members, values)
            broken += "broken" in {ruling.state for ruling in dv.gate(result, ["share:0", "value:0"])}
        assert broken <= 3

    @pytest.mark.parametrize("policy", ["auc:0.5", "share", "share:x", "share:1", "value:-1", []])
    def test_other_policies_are_refused_by_name(self, policy):
        right = np.arange(40) % 2 == 0
        with pytest.raises(dv.InputError, match="policy"):
            dv.gate(inference_of(right, right, np.arange(40) < 20, np.zeros(40, int)), policy)


def inference_of(right, imputed, members, values):
    """A result of these guesses, without a model."""
    n = len(members)
    return AttributeInference(
        ids=np.arange(n),
        members=members,
        is_counted=np.ones(n, bool),
        values=values,
        value_names=tuple("abcd"[: values.max() + 1]),
        right={"model": right, "imputation": imputed},
        column="x",
        tried=2,
        references=0,
        checks=(),
        warnings=(),
        settings=AttributeSettings(),
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    for name, records in sets().items():
        columns = {f"x{i}": records.x[:, i] for i in range(3)} | {"label": records.y}
        pl.DataFrame(columns).write_parquet(folder / f"{name}.parquet")
    skops.io.dump(tree(sets()["members"]), folder / "model.skops")
    data = "\n".join(f'{name} = "{name}.parquet"' for name in sets())
    text = f'[target]\nmodel = "model.skops"\n[data]\n{data}\nlabel = "label"\n[attribute]\ncolumn = "x0"\n'
    (folder / "plan.toml").write_text(text)
    return folder


class TestRuns:
    def test_a_plan_gives_a_run_that_is_read_back_and_shown(self, home, divulge, tmp_path):
        code, out, err = divulge("attribute", home / "plan.toml", "--out", tmp_path / "run", "--json")
        assert code == 1, err
        content = json.loads(out)
        assert content["answer"] == "leak found"
        assert content["column"] == "x0"
        code, out, _ = divulge("gate", tmp_path / "run", "--max", "share:0.05", "--json")
        assert (code, json.loads(out)["state"]) == (1, "broken")
        assert divulge("gate", tmp_path / "run", "--max", "share:0.99")[0] == 0
        code, _, err = divulge("gate", tmp_path / "run", "--max", "auc:0.5")
        assert (code, "the metrics of attribute inference are share, value" in err) == (2, True)
        run = dv.load(tmp_path / "run")
        assert run.summary.answer == "leak found"
        assert run.to_frame().columns == ["id", "member", "right: model", "right: model and imputation",
                                          "right: imputation"]  # fmt: skip
        for name in ("md", "json"):
            assert divulge("report", tmp_path / "run", "--format", name, "--to", tmp_path / f"a.{name}")[0] == 0
        assert "values" not in json.loads((tmp_path / "a.json").read_text())["results"]
        assert divulge("report", tmp_path / "run", "--one-page", "--to", tmp_path / "one.html")[0] == 0
        assert "members: members.parquet" in (tmp_path / "one.html").read_text()

    def test_values_are_named_nowhere_where_records_are_not_shown(self, divulge, tmp_path):
        names = np.array([f"PLANTED{i}" for i in range(4)])
        frames = {
            name: pl.DataFrame({"ward": names[each.x[:, 0].astype(int)], "u": each.x[:, 1], "y": each.y})
            for name, each in sets(n=60).items()
        }
        for name, frame in frames.items():
            frame.write_csv(tmp_path / f"{name}.csv")
        encode = make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough")
        model = make_pipeline(encode, DecisionTreeClassifier(random_state=0))
        skops.io.dump(
            model.fit(frames["members"].drop("y").to_pandas(), frames["members"]["y"]), tmp_path / "model.skops"
        )
        data = "\n".join(f'{name} = "{name}.csv"' for name in frames)
        text = f'[target]\nmodel = "model.skops"\n[data]\n{data}\nlabel = "y"\n[attribute]\ncolumn = "ward"\n'
        for shows in (True, False):
            (tmp_path / "plan.toml").write_text(("" if shows else "show_records = false\n") + text)
            _, out, err = divulge("attribute", tmp_path / "plan.toml", "--out", tmp_path / f"run {shows}", "-v")
            assert "By value" in out, err
            assert "how often a guess is right" in out
            files = [path for path in (tmp_path / f"run {shows}").rglob("*") if path.is_file()]
            assert any(b"PLANTED" in path.read_bytes() for path in files) == shows
            assert ("PLANTED" in out) == shows
            assert reload(tmp_path / f"run {shows}").value_names[0] == ("PLANTED0" if shows else "value 1")

    def test_options_stand_in_for_the_plan(self, home, divulge):
        code, out, err = divulge("attribute", home / "plan.toml", "--column", "x1", "--tolerance", "0.2", "--json")
        assert code in (0, 1, 3), err
        assert json.loads(out)["settings"]["tolerance"] == 0.2
        code, _, err = divulge("attribute", home / "plan.toml", "--column", "nothing")
        assert code == 2
        assert "no column 'nothing'" in err

    def test_a_plan_without_the_table_needs_the_column(self, home, divulge, tmp_path):
        text = (home / "plan.toml").read_text().split("[attribute]")[0]
        (home / "other.toml").write_text(text)
        code, _, err = divulge("attribute", home / "other.toml")
        assert code == 2
        assert "--column: needed" in err
