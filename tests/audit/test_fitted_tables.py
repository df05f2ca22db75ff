"""What stands in a table reaches a fitted model as it met it: names, categories, missing values, classes."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import skops.io as sio
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import divulge as dv
from divulge import cli
from divulge import plan as plan_files
from divulge.targets import SklearnTarget

pytestmark = pytest.mark.usefixtures("scores_alone")

N = 100
LIBRARIES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def clients():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, 3 * N).astype(float),
            "sex": rng.choice(["Male", "Female"], 3 * N).astype(object),
            "ward": rng.integers(1, 5, 3 * N),
            "dose": rng.normal(size=3 * N).round(4),
        }
    )
    frame.loc[rng.random(3 * N) < 0.2, "age"] = np.nan
    frame.loc[rng.random(3 * N) < 0.2, "sex"] = np.nan
    return frame, np.where(rng.random(3 * N) < 0.5, "ill", "well")


def parts(x, y):
    names = ("members", "nonmembers", "population")
    return {name: dv.Records(x[N * i : N * (i + 1)], y[N * i : N * (i + 1)]) for i, name in enumerate(names)}


def scores(model, x, y, recipe="loss"):
    return dv.audit(model, **parts(x, y), recipes=[recipe]).scores[recipe]


def encoded(*before_categories):
    categories = make_pipeline(*before_categories, OneHotEncoder(handle_unknown="ignore"))
    steps = [("n", SimpleImputer(), ["age", "dose"]), ("c", categories, ["sex", "ward"])]
    return make_pipeline(ColumnTransformer(steps), RandomForestClassifier(10, random_state=0))


WRAPPED = {
    "stacked": lambda: StackingClassifier([("a", encoded())], cv=2),
    "searched": lambda: GridSearchCV(encoded(), {"randomforestclassifier__max_depth": [4]}, cv=2),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_missing_text_is_what_the_model_met_however_deep_its_encoder_stands(name):
    frame, y = clients()
    model = WRAPPED[name]().fit(frame[:N], y[:N])
    expected = scores(model, frame, y)
    np.testing.assert_array_equal(scores(model, LIBRARIES["polars"](frame), y), expected)


@pytest.mark.parametrize(
    "model",
    [
        LGBMClassifier(n_estimators=20, min_child_samples=2, verbose=-1, random_state=0, n_jobs=1),
        HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0),
    ],
)
def test_categories_are_those_that_the_model_was_fitted_on(model):
    frame, y = clients()
    typed = frame.astype({"sex": "category", "ward": "category"})
    model.fit(typed[:N], y[:N])
    expected = scores(model, typed, y)
    np.testing.assert_array_equal(scores(model, LIBRARIES["polars"](typed), y), expected)
    for change in LIBRARIES.values():
        np.testing.assert_array_equal(scores(model, change(frame), y), expected)  # as from a file
    renamed = frame.assign(sex=np.where(frame["sex"] == "Male", "m", "f"))
    if isinstance(model, LGBMClassifier):
        with pytest.raises(
            dv.InputError, match=r"column 'sex': the target knows none of its values.*\['Female', 'Male'\]"
        ):
            scores(model, renamed, y)


def test_columns_that_are_called_by_numbers_are_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3 * N, 3)) * [1, 100, 10], columns=["0", "1", "2"])
    y = (frame["0"] + rng.normal(size=3 * N) > 0).astype(int).to_numpy()
    model = RandomForestClassifier(20, random_state=0).fit(frame[:N], y[:N])
    result = dv.audit(model, **parts(frame[["2", "1", "0"]], y), recipes=["loss"])
    np.testing.assert_array_equal(result.scores["loss"], scores(model, frame, y))
    assert result["loss"].auc.low > 0.6


class Nameless(TransformerMixin, BaseEstimator):
    """A transformer of a user's own, which does not say what it was fitted on."""

    def fit(self, x, y=None):
        self.fitted_ = True
        return self

    def transform(self, x):
        return x


class Chooser(Nameless):
    def transform(self, x):
        return x[["dose", "age"]].to_numpy()


def test_names_that_a_later_step_knows_count_where_the_first_has_none():
    frame, y = clients()
    x = frame[["age", "dose"]].fillna(50.0)
    model = make_pipeline(Nameless(), StandardScaler(), RandomForestClassifier(20, random_state=0)).fit(x[:N], y[:N])
    turned = dv.audit(model, **parts(x[["dose", "age"]], y), recipes=["loss"])
    np.testing.assert_array_equal(turned.scores["loss"], scores(model, x, y))
    assert not any("in the order of the members" in warning for warning in turned.warnings)


def test_a_model_is_given_frames_of_the_library_that_it_can_read():
    """Nothing in these pipelines says whether they were fitted on pandas or on polars; their own code does."""
    frame, y = clients()
    x = frame[["age", "dose"]].fillna(50.0)
    column_model = make_pipeline(Chooser(), LogisticRegression()).fit(x[:N], y[:N])
    pandas_model = make_pipeline(
        FunctionTransformer(lambda each: each.assign(twice=each["age"] * 2)), LogisticRegression()
    ).fit(x[:N], y[:N])
    polars_model = make_pipeline(
        FunctionTransformer(lambda each: each.with_columns(twice=pl.col("age") * 2)), LogisticRegression()
    ).fit(pl.from_pandas(x[:N]), y[:N])
    for model in (column_model, pandas_model, polars_model):
        ours, polars_scores = (scores(model, change(x), y) for change in (LIBRARIES["pandas"], LIBRARIES["polars"]))
        assert ours.std() > 0
        np.testing.assert_allclose(ours, polars_scores)
    references = dv.references.Train(count=2)
    result = dv.audit(pandas_model, **parts(pl.from_pandas(x), y), recipes=["rmia"], references=references)
    assert np.isfinite(result.scores["rmia"]).all()


class Broken(Nameless):
    def transform(self, x):
        if hasattr(self, "is_done"):
            raise KeyError("dosage")
        return x


def test_what_the_model_was_given_is_said_where_it_fails():
    frame, y = clients()
    x = frame[["age", "dose"]].fillna(50.0)
    model = make_pipeline(Broken(), RandomForestClassifier(5, random_state=0)).fit(x[:N], y[:N])
    model[0].is_done = True
    with pytest.raises(
        dv.InputError, match=r"'dosage' \(it was given a data frame of pandas; SklearnTarget\(model, fr"
    ):
        scores(model, x, y)
    with pytest.raises(dv.InputError, match=r"it was given a data frame of polars"):
        scores(SklearnTarget(model, frames="polars"), x, y)


YES_NO = [True, False, None]
TRUTH_VALUES = {
    "None": lambda values: pd.Series(values, dtype=object),
    "NaN": lambda values: pd.Series([np.nan if value is None else value for value in values], dtype=object),
    "nullable": lambda values: pd.Series(values, dtype="boolean"),
}


@pytest.mark.parametrize("fitted", TRUTH_VALUES)
@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(),
        make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
        make_pipeline(SimpleImputer(strategy="most_frequent", missing_values=None), OneHotEncoder()),
    ],
)
def test_a_missing_truth_value_is_what_the_model_met(fitted, encoder):
    values, dose = YES_NO * N, np.random.default_rng(0).normal(size=3 * N)
    y = np.where(np.arange(3 * N) % 2, "ill", "well")
    frames = {name: pd.DataFrame({"smoker": make(values), "dose": dose}) for name, make in TRUTH_VALUES.items()}
    model = make_pipeline(
        ColumnTransformer([("c", encoder, ["smoker"])], remainder="passthrough"), LogisticRegression()
    )
    try:
        model.fit(frames[fitted][:N], y[:N])
    except (ValueError, TypeError):  # an imputer of None meets NaN
        return
    expected = SklearnTarget(model).logits(dv.Records(frames[fitted]))
    tables = [*frames.values(), pl.DataFrame({"smoker": values, "dose": dose})]
    for each in tables:
        np.testing.assert_allclose(SklearnTarget(model).logits(dv.Records(each)), expected)


@pytest.mark.parametrize("fitted", ["days", "time stamps"])
def test_a_date_is_the_day_or_the_time_stamp_that_the_model_met(fitted):
    """pandas reads the dates of a Parquet file as days of Python's, which no time stamp equals."""
    stamps = pd.Series(pd.to_datetime([f"2020-01-{1 + i % 9:02d}" for i in range(3 * N)]))
    frames = {"days": pd.DataFrame({"since": stamps.dt.date}), "time stamps": pd.DataFrame({"since": stamps})}
    y = (np.arange(3 * N) % 9 > 4).astype(int)
    model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(frames[fitted][:N], y[:N])
    expected = SklearnTarget(model).logits(dv.Records(frames[fitted]))
    assert expected.std() > 0
    for each in (*frames.values(), pl.DataFrame({"since": stamps.dt.date.to_list()})):
        np.testing.assert_array_equal(SklearnTarget(model).logits(dv.Records(each)), expected)


@pytest.mark.parametrize("fitted", [[0, 1], [False, True], [0.0, 1.0], ["0", "1"]])
@pytest.mark.parametrize("labels", [[0, 1], [0.0, 1.0], [False, True]])
def test_the_same_class_is_the_same_as_a_number_or_a_truth_value(fitted, labels):
    if fitted == ["0", "1"] and labels == [False, True]:
        return  # a text is no truth value
    x = np.random.default_rng(0).normal(size=(3 * N, 2))
    is_one = (x[:, 0] > 0).astype(int)
    model = LogisticRegression().fit(x[:N], np.array(fitted)[is_one[:N]])
    plain = LogisticRegression().fit(x[:N], is_one[:N])
    np.testing.assert_allclose(scores(model, x, np.array(labels)[is_one]), scores(plain, x, is_one))


def test_classes_of_which_the_target_knows_none_are_not_left_out_one_by_one():
    x = np.random.default_rng(0).normal(size=(3 * N, 2))
    y = (x[:, 0] > 0).astype(int)
    model = LogisticRegression().fit(x[:N], np.array(["no", "yes"])[y[:N]])
    with pytest.raises(dv.InputError, match=r"knows none of the classes \['0', '1'\]; it knows \['no', 'yes'\]"):
        scores(model, x, y)


def test_nullable_types_and_columns_missing_throughout_one_set():
    frame, y = clients()
    x = frame[["age", "dose"]].assign(
        visits=pd.array(np.arange(3 * N) % 5, dtype="Int64"),
        smoker=pd.array(np.arange(3 * N) % 2 == 0, dtype="boolean"),
    )
    x.loc[7, "visits"] = x.loc[9, "smoker"] = pd.NA
    model = make_pipeline(ColumnTransformer([("n", SimpleImputer(), ["age", "dose"])]), LogisticRegression())
    model.fit(x[:N], y[:N])
    expected = scores(model, x, y)
    np.testing.assert_array_equal(scores(model, pl.from_pandas(x), y), expected)
    bare = {name: pl.from_pandas(x[N * i : N * i + N]) for i, name in enumerate(parts(x, y))}
    bare["nonmembers"] = bare["nonmembers"].with_columns(age=pl.lit(None))
    sets = {name: dv.Records(each, y[N * i : N * i + N]) for i, (name, each) in enumerate(bare.items())}
    assert np.isfinite(dv.audit(model, **sets, recipes=["loss"]).scores["loss"]).all()


def write_plan(folder, model, frame, y, options="", **spelling):
    sio.dump(model, folder / "model.skops")
    for i, name in enumerate(("members", "nonmembers", "population")):
        rows = slice(N * i, N * (i + 1))
        frame[rows].assign(outcome=y[rows]).to_csv(folder / f"{name}.csv", index=False, **spelling)
    files = "\n".join(f'{name} = "{name}.csv"' for name in ("members", "nonmembers", "population"))
    (folder / "plan.toml").write_text(
        f'recipes = ["loss"]\n[target]\nmodel = "model.skops"\n[data]\n{files}\n{options}\n'
    )
    return str(folder / "plan.toml")


@pytest.mark.parametrize("word", ["NA", "null"])
def test_a_missing_value_may_be_spelt_as_pandas_and_r_spell_it(tmp_path, word):
    frame, y = clients()
    model = encoded().fit(frame[:N], y[:N])
    plan = write_plan(tmp_path, model, frame, y, 'label = "outcome"', na_rep=word)
    assert cli.run(["check", plan]) == 0
    assert cli.run(["audit", plan, "--out", str(tmp_path / "run")]) == 0
    np.testing.assert_array_equal(dv.auditing.load(tmp_path / "run").scores["loss"], scores(model, frame, y))


def split_csv(path):
    """Put the two halves of a CSV file into a folder."""
    header, *lines = path.read_text().splitlines(keepends=True)
    folder = path.with_suffix("")
    folder.mkdir()
    for i, part in enumerate((lines[:50], lines[50:])):
        (folder / f"{i}.csv").write_text(header + "".join(part))
    return folder.name


def write_as_parquet(path):
    pl.read_csv(path, schema_overrides={"ward": pl.String}).write_parquet(path.with_suffix(".parquet"))
    return f"{path.stem}.parquet"


@pytest.mark.parametrize("spell", [split_csv, write_as_parquet])
def test_a_column_of_codes_is_one_of_texts_where_any_file_says_so(tmp_path, spell):
    frame, y = clients()
    codes = np.array([f"{i % 7:03}" for i in range(3 * N)], dtype=object)
    codes[:N:9] = "A1"  # among the members alone
    x = frame[["age", "dose"]].assign(sex="f", ward=codes)
    model = encoded().fit(x[:N], y[:N])
    plan = tmp_path / "plan.toml"
    write_plan(tmp_path, model, x, y, 'label = "outcome"')
    plan.write_text(plan.read_text().replace("members.csv", spell(tmp_path / "members.csv"), 1))
    assert cli.run(["audit", str(plan), "--out", str(tmp_path / "run")]) == 0
    np.testing.assert_array_equal(dv.auditing.load(tmp_path / "run").scores["loss"], scores(model, x, y))


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_codes_that_a_file_stores_as_texts_are_texts(tmp_path, suffix):
    frame, y = clients()
    x = frame[["age", "dose"]].assign(sex="f", ward=[f"{i % 7:05}" for i in range(3 * N)])
    model = encoded().fit(x[:N], y[:N])
    plan = tmp_path / "plan.toml"
    write_plan(tmp_path, model, x, y, 'label = "outcome"')
    write = {"parquet": pl.DataFrame.write_parquet, "jsonl": pl.DataFrame.write_ndjson}
    for k, name in enumerate(parts(x, y)):
        rows = slice(N * k, N * (k + 1))
        write[suffix](pl.from_pandas(x[rows].assign(outcome=y[rows])), tmp_path / f"{name}.{suffix}")
    plan.write_text(plan.read_text().replace(".csv", f".{suffix}"))
    assert cli.run(["audit", str(plan), "--out", str(tmp_path / "run")]) == 0
    np.testing.assert_array_equal(dv.auditing.load(tmp_path / "run").scores["loss"], scores(model, x, y))


@pytest.mark.parametrize("boosted", [False, True])
def test_codes_are_texts_where_the_model_knows_texts(tmp_path, boosted):
    frame, y = clients()
    flags = np.where(np.arange(3 * N) % 3, "True", "False")  # a truth value in a file, and a text to the model
    x = frame[["age", "dose"]].assign(sex=flags, ward=[f"{i % 7:03}" for i in range(3 * N)])
    model = encoded().fit(x[:N], y[:N])
    if boosted:
        x = x.assign(ward=x["ward"].astype("category"), sex=x["sex"].str[0].astype("category"))
        model = LGBMClassifier(n_estimators=10, min_child_samples=2, verbose=-1, n_jobs=1).fit(x[:N], y[:N])
    # In CSV files every code looks like a number.
    plan = write_plan(tmp_path, model, x if boosted else x.assign(sex=x["sex"].str.lower()), y, 'label = "outcome"')
    assert cli.run(["audit", plan, "--out", str(tmp_path / "run")]) == 0
    np.testing.assert_array_equal(dv.auditing.load(tmp_path / "run").scores["loss"], scores(model, x, y))


def test_codes_are_texts_in_the_records_of_an_erasure_too(tmp_path):
    frame, y = clients()
    x = frame[["age", "dose"]].assign(sex="f", ward=[f"{i % 7:03}" for i in range(3 * N)])
    x.loc[0, "ward"] = x.loc[N, "ward"] = "A1"
    model = encoded().fit(x[:N], y[:N])
    plan = tmp_path / "plan.toml"
    write_plan(tmp_path, model, x, y, 'label = "outcome"\n[forget]\nafter = "model.skops"\nrecords = "asked.csv"')
    x[1:40].assign(outcome=y[1:40]).to_csv(tmp_path / "asked.csv", index=False)  # all of them look like numbers
    forget_plan = plan_files.read(plan)
    requests = plan_files.resolve_forget(forget_plan, plan_files.resolve(forget_plan, tmp_path), tmp_path)["forget"]
    assert requests["forget"].table["ward"][0] == "001"
    names = [str(tmp_path / name) for name in ("asked.csv", "nonmembers.csv", "model.skops")]
    command = ["forget", "--forget", names[0], "--never", names[1], "--after", names[2], "--label", "outcome"]
    assert cli.run([*command, "--out", str(tmp_path / "run")]) in (0, 1, 3)


def test_init_reads_shards(tmp_path, monkeypatch):
    frame, y = clients()
    x = frame[["age", "dose", "sex", "ward"]]
    write_plan(tmp_path, encoded().fit(x[:N], y[:N]), x.assign(patient_id=np.arange(3 * N)), y)
    split_csv(tmp_path / "members.csv")
    monkeypatch.chdir(tmp_path)
    assert cli.run(["init", "new", "--model", "model.skops", "--members", "members", "--references", "0"]) == 0
    data = plan_files.read(tmp_path / "new" / "plan.toml").data
    assert (data.label, data.id, data.members) == ("outcome", "patient_id", "../members")


def test_an_identifier_that_is_missing_is_said(tmp_path, capsys):
    frame, y = clients()
    named = 'label = "outcome"\nid = "key"'
    plan = write_plan(tmp_path, encoded().fit(frame[:N], y[:N]), frame.assign(key=frame["sex"]), y, named)
    assert cli.run(["audit", plan, "--out", str(tmp_path / "run")]) == 2
    assert "records without identifier: " in capsys.readouterr().err


def test_names_of_columns_and_classes_are_escaped_in_the_report(tmp_path):
    frame, _ = clients()
    x = frame.rename(columns={"age": "<script>alert(1)</script>", "dose": 'a=b "c", 😀'}).assign(sex="<img src=x>")
    y = np.where(np.arange(3 * N) % 2, "<b>ill", "x;y=1")
    numbers = ColumnTransformer([("n", SimpleImputer(), list(x.columns[[0, 3]]))])
    model = make_pipeline(numbers, RandomForestClassifier(10, random_state=0)).fit(x[:N], y[:N])
    plan = write_plan(tmp_path, model, x, y, 'label = "outcome"')
    assert cli.run(["audit", plan, "--out", str(tmp_path / "run")]) == 0
    report = (tmp_path / "run" / "report.html").read_text()
    assert "&lt;script&gt;alert(1)" in report
    assert not any(raw in report for raw in ("<script>alert", "<img src=x", "<b>ill"))
