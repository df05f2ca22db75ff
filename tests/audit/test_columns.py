"""Column names, types and classes travel from the user's frame to the user's model."""

import datetime as dt
import decimal
import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import skops.io as sio
from lightgbm import LGBMClassifier
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import divulge as dv
from divulge import cli, columns, targets
from divulge.columns import TableEncoder, read_frame

pytestmark = pytest.mark.usefixtures("scores_alone")

N = 160


def patients(n=3 * N, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "sex": rng.choice(["Male", "Female"], n),
            "admitted": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "smoker": rng.random(n) < 0.3,
            "note": [" ".join(rng.choice(["cough", "fever", "pain", "rash", "none"], 4)) for _ in range(n)],
        }
    )
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    frame.loc[rng.random(n) < 0.1, "sex"] = None
    return frame, np.where(rng.random(n) < 0.5, "ill", "well")


def pipeline(frame, y):
    steps = [
        ("numbers", SimpleImputer(), ["age"]),
        ("categories", OneHotEncoder(handle_unknown="ignore"), ["sex"]),
        ("words", TfidfVectorizer(), "note"),
        ("flags", "passthrough", ["smoker"]),
        ("dates", OneHotEncoder(handle_unknown="ignore"), ["admitted"]),
    ]
    return make_pipeline(ColumnTransformer(steps), RandomForestClassifier(50, random_state=0)).fit(frame, y)


def parts(x, y, **options):
    names = ("members", "nonmembers", "population")
    return {name: dv.Records(x[N * i : N * (i + 1)], y[N * i : N * (i + 1)], **options) for i, name in enumerate(names)}


def audited(model, x, y, recipes=("loss",), **options):
    return dv.audit(model, **parts(x, y), recipes=list(recipes), **options)


@pytest.mark.parametrize("values", [["a", "b"], [True, False], pd.to_datetime(["2020-01-01", "2021-01-01"])])
@pytest.mark.parametrize("names", [[0, 1], [("u", "a"), ("v", "b")]])
def test_a_frame_with_numbered_columns_holds_numbers(names, values):
    frame = pd.DataFrame({0: [1.0, 2.0], 1: values})
    frame.columns = pd.Index(names)
    with pytest.raises(dv.InputError, match=r"x: column .* holds values of type .*; give them names"):
        dv.Records(frame)
    assert dv.Records(frame.iloc[:, :1]).x.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("library", "backwards"),
    [(lambda x: x, False), (pl.from_pandas, True)],
)
def test_a_pipeline_on_mixed_columns_scores_as_the_user_would(library, backwards):
    frame, y = patients()
    model = pipeline(frame[:N], y[:N])
    table = frame[frame.columns[::-1]] if backwards else frame
    result = audited(model, library(table), y)
    truth = np.log(model.predict_proba(frame)[np.arange(len(y)), np.searchsorted(model.classes_, y)].clip(1e-7))
    expected = dv.evaluation.auc(truth[: 2 * N], np.arange(2 * N) < N)
    assert abs(result["loss"].auc.value - expected.value) < 0.02  # half a vote is added to each class
    assert result["loss"].auc.low > 0.8


def test_the_order_of_columns_says_nothing_and_their_names_say_all():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"age": rng.integers(18, 90, 3 * N), "dose": rng.normal(size=3 * N)})
    y = (frame["dose"].to_numpy() + rng.normal(size=3 * N) > 0).astype(int)
    model = RandomForestClassifier(20, random_state=0).fit(frame[:N].to_pandas(), y[:N])
    expected = audited(model, frame, y, ("loss", "quantile-trees"))
    reordered = audited(model, frame.select("dose", "age"), y, ("loss", "quantile-trees"))
    for name in expected:
        np.testing.assert_array_equal(expected.scores[name], reordered.scores[name])
    assert expected["loss"].auc.low > 0.6
    assert expected.candidates == reordered.candidates


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.drop(columns="age"), r"lack 'age'"),
        (lambda x: x.assign(extra=1.0), r"have 'extra' besides"),
        (lambda x: x.rename(columns={"age": "Age"}), r"lack 'age' and have 'Age' besides"),
    ],
)
def test_columns_that_are_missing_or_too_many_are_listed(change, message):
    frame, y = patients()
    model = pipeline(frame[:N], y[:N])
    with pytest.raises(dv.InputError, match=message):
        audited(model, change(frame), y)


def test_sets_of_which_one_has_no_names_or_another_type_are_refused():
    frame, y = patients()
    model = pipeline(frame[:N], y[:N])
    sets = parts(frame, y)
    with pytest.raises(dv.InputError, match=r"population: members, nonmembers have named columns"):
        dv.audit(model, **sets | {"population": dv.Records(np.zeros((N, 5)), y[:N])}, recipes=["loss"])
    population_frame = frame[2 * N :].assign(age=lambda x: x["age"].astype(str))
    with pytest.raises(dv.InputError, match=r"column 'age'"):
        dv.audit(model, **sets | {"population": dv.Records(population_frame, y[2 * N :])}, recipes=["loss"])


def test_a_model_without_names_is_given_the_columns_in_order_and_the_report_says_so():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3 * N, 2)), columns=["a", "b"])
    y = rng.integers(0, 2, 3 * N)
    model = RandomForestClassifier(10, random_state=0).fit(frame[:N].to_numpy(), y[:N])
    result = audited(model, frame, y)
    assert any("in the order of the members': 'a', 'b'" in warning for warning in result.warnings)
    named_model = RandomForestClassifier(10, random_state=0).fit(frame[:N], y[:N])
    bare = audited(named_model, frame.to_numpy(), y)
    assert any("were taken in the order of the target's: 'a', 'b'" in warning for warning in bare.warnings)
    assert not any("order" in warning for warning in audited(named_model, frame, y).warnings)


def test_what_takes_numbers_alone_is_not_given_texts():
    torch = pytest.importorskip("torch")
    frame, y = patients()
    with pytest.raises(dv.InputError, match=r"takes numbers, and the columns 'sex', .*'age'"):
        audited(torch.nn.Linear(5, 2), frame, (y == "ill").astype(int))


def test_a_function_is_given_a_frame_where_numbers_would_not_do():
    frame, y = patients()
    model = pipeline(frame[:N], y[:N])
    table_types = []

    def ask(table):
        table_types.append(type(table))
        return model.predict_proba(table)

    numbers = (y == "well").astype(int)
    result = audited(ask, frame, numbers, outputs="probabilities")
    assert result["loss"].auc.low > 0.8
    assert set(table_types) == {pd.DataFrame}
    plain = frame[["smoker"]].assign(dose=np.random.default_rng(1).normal(size=3 * N))
    audited(lambda x: np.c_[x[:, 0], x[:, 1]], plain, numbers)  # an array, as numbers have always been given


def test_gradient_boosting_takes_missing_values_and_categories():
    frame, y = patients()
    x = frame[["age", "smoker"]].assign(
        sex=frame["sex"].astype("category"), dose=np.random.default_rng(1).normal(size=3 * N)
    )
    for model in (
        HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0),
        LGBMClassifier(n_estimators=50, min_child_samples=2, verbose=-1, random_state=0, n_jobs=1),
    ):
        model.fit(x[:N], y[:N])
        result = audited(model, x, y)
        assert result["loss"].auc.low > 0.6
    # From a file the categories are texts: the model's own are put in their place.
    texts = x.assign(sex=frame["sex"].astype(object))
    np.testing.assert_array_equal(audited(model, texts, y).scores["loss"], result.scores["loss"])


def test_saved_answers_are_looked_up_whatever_the_columns_hold():
    """As of a model of R: its probabilities by id, beside texts, dates and gaps that no encoder here has read."""
    frame, y = patients()
    model = pipeline(frame[:N], y[:N])
    sets = {
        name: dv.Records(frame[rows], y[rows], ids=range(rows.start, rows.stop), class_names=["ill", "well"])
        for name, rows in zip(parts(frame, y), (slice(N * i, N * (i + 1)) for i in range(3)), strict=True)
    }
    saved = dv.targets.TableTarget(np.arange(3 * N), model.predict_proba(frame), outputs="probabilities")
    result = dv.audit(saved, **sets, recipes=["loss"])
    assert result["loss"].auc.value == pytest.approx(audited(model, frame, y)["loss"].auc.value)


def test_labels_are_names_numbers_or_truth_values():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3 * N, 2))
    scores = []
    for names in (["no", "yes"], [False, True], [-1, 1], [0, 1]):
        y = np.array(names)[(x[:, 0] > 0).astype(int)]
        model = LogisticRegression().fit(x[:N], y[:N])
        scores.append(audited(model, x, y).scores["loss"])
    for other_scores in scores[1:]:
        np.testing.assert_allclose(scores[0], other_scores)


def test_names_of_classes_need_an_order_where_the_target_has_none():
    x = np.random.default_rng(0).normal(size=(3 * N, 2))
    y = np.where(x[:, 0] > 0, "alive", "dead")

    def target(values):
        return np.c_[values[:, 0], -values[:, 0]]

    with pytest.raises(dv.InputError, match=r"which output is whose.*class_names"):
        audited(target, x, y)
    right = dv.audit(target, **parts(x, y, class_names=["alive", "dead"]), recipes=["loss"])
    numbers = audited(target, x, (y == "dead").astype(int))
    np.testing.assert_array_equal(right.scores["loss"], numbers.scores["loss"])


def test_a_class_that_the_target_never_saw_is_refused_or_left_out():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3 * N, 2)), np.where(rng.random(3 * N) < 0.5, "a", "b")
    model = RandomForestClassifier(10, random_state=0).fit(x[:N], y[:N])
    y[N + 3] = y[2 * N + 7] = "c"
    with pytest.raises(dv.InputError, match=r"nonmembers: y: the target does not know the class 'c' .*'drop'"):
        audited(model, x, y)
    unnamed = np.where(np.arange(2 * N) % 2, "odd", None)
    assert set(audited(model, x, np.where(y == "c", "a", y), groups=unnamed).groups) == {"odd", "missing"}
    groups = np.where(np.arange(2 * N) % 2, "odd", "even")
    result = audited(model, x, y, options=dv.AuditOptions(unknown_classes="drop"), groups=groups)
    assert len(result.members) == 2 * N - 1
    np.testing.assert_array_equal(result.groups, np.delete(groups, N + 3))
    assert any("left out: 1 of the nonmembers, 1 of the population" in warning for warning in result.warnings)
    numbered = RandomForestClassifier(10, random_state=0).fit(x[:N], rng.integers(0, 2, N) * 2)
    mixed = rng.integers(0, 3, 3 * N)
    assert len(audited(numbered, x, mixed, options=dv.AuditOptions(unknown_classes="drop")).members) == int(
        (mixed[: 2 * N] != 1).sum()
    )
    noted = audited(numbered, x, mixed).warnings
    assert any("members: the target was not fitted on the classes 1 (it knows [0, 2])" in note for note in noted)
    mixed[N] = 7
    with pytest.raises(dv.InputError, match=r"nonmembers: y: the target does not know the class 7 .*\[0, 2\].*'drop'"):
        audited(numbered, x, mixed)
    assert len(audited(numbered, x, mixed, options=dv.AuditOptions(unknown_classes="drop")).members) == int(
        np.isin(mixed[: 2 * N], [0, 2]).sum()
    )


@pytest.mark.parametrize("label", [np.inf, -np.inf])
def test_an_infinite_label_is_named(label):
    with pytest.raises(dv.InputError, match=rf"y: labels must be finite, got {label} in row 1"):
        dv.Records(np.zeros((3, 2)), [0.5, label, 1.0])


def test_unseen_classes_may_be_named():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3 * N, 2)), rng.choice(["a", "b", "c"], 3 * N)
    model = RandomForestClassifier(10, random_state=0).fit(x[:N], y[:N])
    sets = parts(x, y)
    known_rows = np.flatnonzero(y[2 * N :] != "c")
    sets["population"] = dv.Records(x[2 * N :][known_rows], y[2 * N :][known_rows])
    assert dv.audit(model, **sets, recipes=["loss"], unseen_classes=["c"]).unseen_classes == (2,)
    with pytest.raises(dv.InputError, match="unseen_classes"):
        dv.audit(model, **sets, recipes=["loss"], unseen_classes=["d"])


def test_recipes_that_move_records_ask_with_frames_and_refuse_free_text():
    frame, y = patients()
    x = frame[["age", "sex", "smoker", "admitted"]]
    steps = [("n", SimpleImputer(), ["age"]), ("c", OneHotEncoder(handle_unknown="ignore"), ["sex", "smoker"])]
    model = make_pipeline(ColumnTransformer(steps), RandomForestClassifier(20, random_state=0)).fit(x[:N], y[:N])
    result = audited(model, x, y, ("noise", "loss"))
    assert np.isfinite(result.scores["noise"]).all()
    fitted_pipeline = pipeline(frame[:N], y[:N])
    wordy = frame.assign(note=[f"{note} {i}" for i, note in enumerate(frame["note"])])
    with pytest.raises(dv.InputError, match=r"free text \(column 'note'\)"):
        audited(fitted_pipeline, wordy, y, ("noise",))


def test_partial_knowledge_is_said_by_columns():
    frame, y = patients(seed=1)  # of few distinct rows: this deal puts as many copies of either side in the population
    x = frame[["age", "sex", "smoker"]]
    steps = [
        ("n", make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
        ("c", OneHotEncoder(handle_unknown="ignore"), ["sex", "smoker"]),
    ]
    model = make_pipeline(ColumnTransformer(steps), RandomForestClassifier(20, random_state=0)).fit(x[:N], y[:N])
    result = audited(
        model, x, y, ("partial-loss",), options=dv.AuditOptions(known="columns:age,smoker"), duplicates="keep"
    )
    assert np.isfinite(result.scores["partial-loss"]).all()
    # What is unknown is read to find copies alone: another candidate's sex gives the same scores.
    order = np.random.default_rng(0).permutation(2 * N)
    changed_frame = x.assign(sex=[*x["sex"].to_numpy()[order], *x["sex"][2 * N :]])
    changed = audited(
        model,
        changed_frame,
        y,
        ("partial-loss",),
        options=dv.AuditOptions(known="columns:age,smoker"),
        duplicates="keep",
    )
    np.testing.assert_allclose(changed.scores["partial-loss"], result.scores["partial-loss"], atol=1e-9)
    wordy, fitted_pipeline = (
        frame.assign(note=[f"{note} {i}" for i, note in enumerate(frame["note"])]),
        pipeline(frame[:N], y[:N]),
    )
    with pytest.raises(dv.InputError, match="free text"):
        audited(fitted_pipeline, wordy, y, ("partial-loss",), options=dv.AuditOptions(known="columns:age"))


def test_references_of_the_users_own_are_trained_on_frames():
    frame, y = patients()
    column_names = []

    def train(records, seed):
        table = records.table.to_native()
        column_names.append(tuple(table.columns))
        return pipeline(table, np.array(records.class_names)[records.y])

    model = pipeline(frame[:N], y[:N])
    result = audited(
        model, frame, y, ("lira", "loss"), references=dv.references.Custom(train, count=2, engine="serial")
    )
    assert set(column_names) == {tuple(frame.columns)}
    assert result["lira"].auc.low > 0.7


def test_reports_call_classes_by_their_names_and_show_exposed_records_by_theirs(tmp_path):
    frame, y = patients()
    result = audited(pipeline(frame[:N], y[:N]), frame, y, out=tmp_path / "run")
    for loaded in (result, dv.auditing.load(tmp_path / "run")):
        assert loaded.class_names == ("ill", "well")
        assert set(loaded.summary().recipes["loss"].classes) == {"ill", "well"}
    exhibit = next(iter(result.exhibits.values()))
    assert exhibit.splitlines()[0].startswith("age: ")
    assert "sex: Male" in exhibit or "sex: Female" in exhibit or "sex: missing" in exhibit
    report = (tmp_path / "run" / "report.html").read_text()
    assert "class ill" in report
    assert "age: " in report


class TestEncoding:
    def test_the_same_values_have_the_same_encoding_and_digest_in_every_library(self):
        values = {
            "n": [1, 2, None],
            "x": [1.5, float("nan"), 2.0],
            "flag": [True, None, False],
            "text": ["a", None, "b"],
            "day": [dt.date(2020, 1, 1), None, dt.date(2021, 5, 6)],
        }
        frames = [
            read_frame(pl.DataFrame(values, strict=False), "x"),
            read_frame(pa.table(values), "x"),
            read_frame(pd.DataFrame(values), "x"),
            read_frame(pl.DataFrame(values, strict=False).select(*reversed(values)), "x"),
        ]
        encoder = TableEncoder.fit(frames)
        for frame in frames[1:]:
            np.testing.assert_array_equal(encoder.encode(frame), encoder.encode(frames[0]))
            assert columns.row_digests(frame) == columns.row_digests(frames[0])

    def test_encoding_and_back_changes_nothing(self):
        frame, _ = patients(50)
        table = read_frame(pl.from_pandas(frame), "x")
        encoder = TableEncoder.fit([table])
        back = encoder.decode(encoder.encode(table), table)
        assert columns.row_digests(back) == columns.row_digests(table)

    def test_rare_categories_share_a_column_and_stay_what_they_are(self):
        names = [f"c{i}" for i in range(60) for _ in range(60 - i)]
        table = read_frame(pl.DataFrame({"c": names}), "x")
        encoder = TableEncoder.fit([table])
        x = encoder.encode(table)
        assert x.shape[1] == columns.MAX_CATEGORIES
        assert (x.sum(axis=1) == 1).all()
        assert encoder.decode(x, table)["c"].to_list() == names

    def test_texts_are_told_apart_from_categories_and_dates(self):
        def measure(values):
            return TableEncoder.fit([read_frame(pl.DataFrame({"c": values}), "x")]).columns[0].measure

        assert measure([f"text number {i}" for i in range(100)]) == "text"
        assert measure(["a", "b"] * 50) == "category"
        assert measure([f"2020-01-{i % 28 + 1:02}" for i in range(100)]) == "date"
        assert measure([f"2020-13-{i % 28 + 1:02}" for i in range(100)]) == "category"
        assert measure([None, None]) == "number"

    def test_digests_are_of_values_and_not_of_their_spelling(self):
        numbers_and_texts = read_frame(pl.DataFrame({"a": [1, 2], "b": ["x|1", "y"]}), "x")
        same = read_frame(pl.DataFrame({"b": ["x|1", "y"], "a": [1.0, 2.0]}), "x")
        assert columns.row_digests(numbers_and_texts) == columns.row_digests(same)
        for changed in ({"a": [1, 2], "b": ["x", "y"]}, {"a": [1, 3], "b": ["x|1", "y"]}):
            assert columns.row_digests(read_frame(pl.DataFrame(changed), "x")) != columns.row_digests(numbers_and_texts)
        split = [{"a": ["1:x"], "b": ["y"]}, {"a": ["1"], "b": ["x|1:y"]}]
        digests, digests_moved = (columns.row_digests(read_frame(pl.DataFrame(each), "x")) for each in split)
        assert digests != digests_moved

    def test_what_has_arrows_interface_alone_is_a_frame(self):
        batch = pa.record_batch({"age": [48, 31], "sex": ["f", "m"]})

        class Relation:
            def __arrow_c_stream__(self, requested_schema=None):
                return pa.table(batch).__arrow_c_stream__(requested_schema)

        for table in (batch, Relation(), pa.RecordBatchReader.from_batches(batch.schema, [batch])):
            assert dv.Records(table).table.columns == ["age", "sex"]
        for column in (pa.array([1.0, 2.0]), pa.chunked_array([[1.0, 2.0]]), pl.Series([1.0, 2.0])):
            assert dv.Records(column).table is None

    def test_numbers_of_128_bits_are_numbers(self):
        wide = pl.DataFrame({"a": pl.Series([1, None, 3], dtype=pl.Int128), "b": pl.Series([1, 2, 3], dtype=pl.Int128)})
        assert dv.Records(wide).x[:, 2].tolist() == [1, 2, 3]
        assert dv.Records(wide.select("b")).x.tolist() == [[1], [2], [3]]

    def test_labels_are_read_whatever_their_library_calls_missing(self):
        frame = pl.DataFrame({"a": [1, 2]})
        with pytest.raises(
            dv.InputError, match=r"y: records without class or value: 1 \(first: row 1, counted from 0\)"
        ):
            dv.Records(frame, pd.array([True, None], dtype="boolean"))
        with pytest.raises(dv.InputError, match=r"ids: records without identifier: 1 \(first: row 0"):
            dv.Records(frame, ids=pd.array([None, 7], dtype="Int64"))
        prices = pl.Series([decimal.Decimal("1.50"), decimal.Decimal("2.00")])
        assert dv.Records(frame, prices).y.tolist() == [1.5, 2.0]
        assert dv.Records(frame, [decimal.Decimal(1), decimal.Decimal(0)]).y.tolist() == [1, 0]

    @pytest.mark.parametrize(
        ("frame", "message"),
        [
            (pl.DataFrame({"a": [[1], [2]]}), r"'a' hold lists"),
            (pl.DataFrame({"a": []}), r"at least 1 entry"),
            (pl.DataFrame(), r"at least 1 column"),
            (pl.DataFrame({"a": [1]}).lazy(), r"collect\(\)"),
            (pl.DataFrame({"a": [float("inf"), 1.0]}), r"column 'a': infinite values: 1 \(first: row 0"),
            (pl.DataFrame({"a": [2**53 + 1, 1]}), r"column 'a' holds whole numbers beyond"),
            (
                pd.DataFrame({"a": [1, "x"]}),
                r"column 'a': values of one kind.* got a number in row 0 and a text in row 1",
            ),
            (pd.DataFrame({"a": [1j, 2j]}), r"column 'a': values of one kind.* got complex in row 0"),
            (pd.DataFrame([[1, 2]], columns=["a", "a"]), r"unique, 'a' occurs more than once"),
            (pa.table([[1], [2]], names=["b", "b"]), r"unique, 'b' occurs more than once"),
            (pl.DataFrame({"a": [dt.timedelta(hours=1)]}), r"'a' holds values of type Duration.* such as hours"),
            (pl.DataFrame({"a": [dt.time(12)]}), r"'a' holds values of type Time"),
            (pl.DataFrame({"a": pl.Series([2**70], dtype=pl.Int128)}), r"'a' holds whole numbers beyond ±2\^53"),
        ],
    )
    def test_frames_that_cannot_be_read_say_why(self, frame, message):
        with pytest.raises(dv.InputError, match=message):
            dv.Records(frame)

    def test_a_frame_of_numbers_is_its_own_encoding(self):
        frame = pd.DataFrame({"a": np.float32([1, 2]), "b": np.float32([3, 4])})
        records = dv.Records(frame)
        assert records.x.dtype == np.float32
        np.testing.assert_array_equal(records.x, frame.to_numpy())
        np.testing.assert_array_equal(dv.Records(pd.DataFrame([[1.0, 2.0]])).x, [[1.0, 2.0]])  # numbered columns


class TestMissingValuesAreWhatTheyWereToTheModel:
    """One table in every library and in every type that it has for missing values."""

    TABLE = pl.DataFrame(
        {
            "age": [30, None, 41, 77, 30, 41] * 10,
            "dose": [0.5, 1.0, None, 2.0, 0.5, 1.5] * 10,
            "smoker": [True, None, False, True, False, True] * 10,
            "sex": ["f", "m", None, "f", "m", "x"] * 10,
            "ward": ["a", None, "b", "b", None, "a"] * 10,
        }
    )
    Y = np.array([0, 1, 1, 0, 1, 0] * 10)

    @classmethod
    def frames(cls):
        frame = cls.TABLE.to_pandas()
        return {
            "with None": frame.astype({"sex": object, "ward": object}),
            "from a file": pd.read_csv(io.BytesIO(cls.TABLE.write_csv().encode())),
            "nullable": frame.convert_dtypes(),
            "of Arrow": cls.TABLE.to_pandas(use_pyarrow_extension_array=True),
            "polars": cls.TABLE,
            "pyarrow": cls.TABLE.to_arrow(),
        }

    @staticmethod
    def fit(frame, y):
        steps = [
            ("numbers", SimpleImputer(), ["age", "dose"]),
            ("categories", OneHotEncoder(handle_unknown="ignore"), ["smoker", "sex"]),
            (
                "imputed",
                make_pipeline(
                    SimpleImputer(strategy="constant", fill_value="?", missing_values=frame["ward"][1]),
                    OneHotEncoder(handle_unknown="ignore"),
                ),
                ["ward"],
            ),
        ]
        return make_pipeline(ColumnTransformer(steps), LogisticRegression()).fit(frame, y)

    @pytest.mark.parametrize("fitted", ["with None", "from a file", "polars"])
    def test_outputs_are_those_of_the_frame_that_it_was_fitted_on(self, fitted):
        frames = self.frames()
        model = self.fit(frames[fitted], self.Y)
        expected = model.predict_proba(frames[fitted])
        for frame in frames.values():
            inputs = targets.fitted_frames.estimator_inputs(model, dv.Records(frame, self.Y))
            np.testing.assert_array_equal(model.predict_proba(inputs), expected)

    def test_a_model_of_nullable_types_gives_its_own_outputs_too(self):
        columns = ["age", "smoker"]
        steps = [("number", SimpleImputer(), ["age"]), ("flag", OneHotEncoder(handle_unknown="ignore"), ["smoker"])]
        frames = self.frames()
        nullable = frames["nullable"][columns]
        model = make_pipeline(ColumnTransformer(steps), LogisticRegression()).fit(nullable, self.Y)
        for name in ("from a file", "nullable", "polars"):
            inputs = targets.fitted_frames.estimator_inputs(model, dv.Records(frames[name][columns], self.Y))
            np.testing.assert_array_equal(model.predict_proba(inputs), model.predict_proba(nullable))


class TestTypesThatTheEncodersKnow:
    """One table: from a file of texts (CSV) and from one of types (Parquet)."""

    TYPED = pd.DataFrame(
        {
            "day": pd.to_datetime(["2020-01-31", "2020-02-01", None, "2020-02-01"]),
            "code": [10115, 20095, 80331, 10115],
            "flag": [True, False, True, True],
        }
    )
    TEXTS = pd.DataFrame(
        {
            "day": ["2020-01-31", "2020-02-01", np.nan, "2020-02-01"],
            "code": ["10115", "20095", "80331", "10115"],
            "flag": ["true", "false", "true", "true"],
        },
        dtype=object,
    )

    @staticmethod
    def encoders(frame):
        steps = [
            ("day", OneHotEncoder(handle_unknown="ignore"), ["day"]),
            (
                "code",
                make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")),
                [1],
            ),
            ("flag", OneHotEncoder(handle_unknown="ignore"), np.array([False, False, True])),
        ]
        return ColumnTransformer(steps).fit(frame)

    @pytest.mark.parametrize("library", [lambda frame: frame, pl.from_pandas])
    def test_values_become_those_that_the_encoders_were_fitted_on(self, library):
        for fitted, table in ((self.TEXTS, self.TYPED), (self.TYPED[:2], self.TEXTS[:2])):
            encoders = self.encoders(fitted)
            expected = encoders.transform(fitted)
            restored = targets.fitted_frames.restore_types(encoders, library(table))
            if not isinstance(restored, pd.DataFrame):
                restored = restored.to_pandas().fillna(np.nan)
            np.testing.assert_array_equal(np.asarray(encoders.transform(restored)), np.asarray(expected))
            assert expected.sum() == 3 * len(fitted)  # no category is unknown
        same = library(self.TEXTS)
        assert targets.fitted_frames.restore_types(self.encoders(self.TEXTS), same) is same

    @pytest.mark.parametrize(
        ("fitted", "table", "message"),
        [
            (
                TYPED[:2],
                TEXTS[:2].assign(day="soon"),
                "column 'day' holds texts, .* fitted on dates such as '2020-01-31",
            ),
            (TYPED[:2], TEXTS[:2].assign(code="x"), "column 'code' holds texts, .* fitted on numbers such as '10115'"),
            (
                TEXTS.assign(day="31.01.2020"),
                TYPED,
                "column 'day' holds dates, .* fitted on texts such as '31.01.2020'",
            ),
            (TEXTS.assign(code="007"), TYPED, "column 'code' holds numbers, .* fitted on texts such as '007'"),
            (TEXTS.assign(flag="yes"), TYPED, "column 'flag' holds truth values, .* fitted on texts such as 'yes'"),
            (TYPED[:2], TYPED.assign(day=[1, 2, 3, 4]), "column 'day' holds numbers, .* fitted on dates"),
        ],
    )
    def test_what_cannot_be_told_in_their_types_is_refused(self, fitted, table, message):
        with pytest.raises(dv.InputError, match=message):
            targets.fitted_frames.restore_types(self.encoders(fitted), table)

    def test_an_audit_gives_the_same_scores_with_dates_and_with_their_texts(self):
        frame, y = patients()
        texts = frame.assign(admitted=frame["admitted"].dt.strftime("%Y-%m-%d"))
        for fitted in (frame, texts):
            model = pipeline(fitted[:N], y[:N])
            with_dates, with_texts = (audited(model, x, y) for x in (frame, texts))
            np.testing.assert_array_equal(with_dates.scores["loss"], with_texts.scores["loss"])
            assert with_dates["loss"].auc.low > 0.8
            assert with_dates.candidates == with_texts.candidates  # runs that can be compared


def test_a_date_and_its_text_are_duplicates():
    dates = pl.DataFrame({"day": [dt.date(2020, 1, 31), dt.date(2020, 2, 1), None]})
    texts = pl.DataFrame({"day": ["2020-01-31", "2020-02-01", None]})
    digests = columns.row_digests(read_frame(dates, "x"))
    assert digests == columns.row_digests(read_frame(texts, "x"))
    assert digests[:1] == columns.row_digests(read_frame(pl.DataFrame({"day": ["2020-01-31"]}), "x"))
    date_texts = ["2020-01-31", "2020-02-30", "soon"]  # one that is no date
    mixed = columns.row_digests(read_frame(pl.DataFrame({"day": date_texts}), "x"))
    assert mixed[0] == digests[0]
    assert len({*digests, *mixed}) == 5


def test_duplicates_are_found_on_the_typed_record():
    frame, y = patients()
    wordy = frame.assign(note=[f"{note} {i}" for i, note in enumerate(frame["note"])])
    wordy.loc[N + 5] = wordy.loc[3]  # a non-member that is a member, and one that differs by a word of free text alone
    wordy.loc[N + 6] = wordy.loc[4]
    wordy.loc[N + 6, "note"] += " again"
    model = pipeline(wordy[:N], y[:N])
    with pytest.raises(dv.InputError, match=r"1 non-members are exact duplicates of members .*rows \[5\]"):
        audited(model, wordy, y)
    numbers = pd.DataFrame({"a": np.arange(3.0 * N), "b": np.arange(3 * N) % 7})
    sets = parts(numbers, y)
    turned = numbers[2 * N :].assign(a=lambda x: x["a"].astype(int))[["b", "a"]]
    turned.iloc[0] = [numbers["b"][0], int(numbers["a"][0])]
    forest = RandomForestClassifier(5, random_state=0).fit(numbers[:N], y[:N])
    with pytest.raises(dv.InputError, match=r"1 population records are exact .*population rows \[0\]"):
        dv.audit(forest, **sets | {"population": dv.Records(turned, y[2 * N :])}, recipes=["loss"])


SPELLINGS = {
    "semicolon.csv": lambda frame, path: frame.write_csv(path, separator=";", decimal_comma=True),
    "a.parquet": lambda frame, path: frame.write_parquet(path),
    "a.jsonl": lambda frame, path: frame.write_ndjson(path),
}


def write_plan(folder, model, frame, y, write, name):
    table = pl.from_pandas(frame).with_columns(outcome=pl.Series(y), id=pl.Series([f"{i:04}" for i in range(3 * N)]))
    sets = {key: f"{key}-{name}" for key in ("members", "nonmembers", "population")}
    for k, (key, file) in enumerate(sets.items()):
        part = table[N * k : N * (k + 1)]
        write(part.select(reversed(part.columns)) if key == "nonmembers" else part, folder / file)
    sio.dump(model, folder / "model.skops")
    files = "\n".join(f'{key} = "{file}"' for key, file in sets.items())
    (folder / "plan.toml").write_text(
        f'recipes = ["loss"]\n[target]\nmodel = "model.skops"\n[data]\nlabel = "outcome"\n{files}\n'
    )
    return folder / "plan.toml"


@pytest.fixture(scope="module")
def forest_audit():
    """A forest on a table, the table, its labels and the audit of the three."""
    frame, y = patients()
    x = frame[["age", "sex", "smoker"]].assign(dose=np.random.default_rng(1).normal(size=3 * N).round(4))
    steps = [("n", SimpleImputer(), ["age", "dose"]), ("c", OneHotEncoder(handle_unknown="ignore"), ["sex", "smoker"])]
    model = make_pipeline(ColumnTransformer(steps), RandomForestClassifier(20, random_state=0)).fit(x[:N], y[:N])
    return model, x, y, audited(model, x, y)


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_plan_audits_a_pipeline_on_a_table_however_it_is_spelt(forest_audit, tmp_path, name):
    model, x, y, expected = forest_audit
    plan = write_plan(tmp_path, model, x, y, SPELLINGS[name], name)
    assert cli.run(["audit", str(plan), "--out", str(tmp_path / "run")]) == 0
    loaded = dv.auditing.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.scores["loss"], expected.scores["loss"])
    assert loaded.ids.tolist() == [f"{i:04}" for i in range(2 * N)]
    assert loaded.class_names == ("ill", "well")
    assert cli.run(["gate", str(tmp_path / "run"), "--max", "auc:0.6"]) == 1
    assert cli.run(["compare", str(tmp_path / "run"), str(tmp_path / "run")]) == 0
    report = (tmp_path / "run" / "report.html").read_text()
    assert "smoker: " in report


def test_a_column_without_a_name_is_no_part_of_a_record_unless_the_model_was_fitted_on_it():
    name = "Unnamed: 0"
    rng = np.random.default_rng(0)
    x, y = pd.DataFrame({"a": rng.normal(size=3 * N), "b": rng.normal(size=3 * N)}), rng.integers(0, 2, 3 * N)
    numbered = x.assign(**{name: rng.permutation(3 * N)})
    result = audited(LogisticRegression().fit(x, y), numbered, y)
    assert any(repr(name) in warning and "left out" in warning for warning in result.warnings)
    with_number = audited(LogisticRegression().fit(numbered, y), numbered, y)
    assert not any("left out" in warning for warning in with_number.warnings)
    for model in (LogisticRegression().fit(x, y), LogisticRegression().fit(numbered, y)):
        copied = numbered.copy()
        copied.loc[N : N + 4, ["a", "b"]] = x.loc[:4, ["a", "b"]].to_numpy()
        with pytest.raises(dv.InputError, match="5 non-members are exact duplicates"):
            audited(model, copied, y)
