"""Canaries of tables as people have them: texts, categories, dates, codes such as 007, and missing values."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import divulge as dv
from divulge import datafiles
from divulge.canaries import Canaries, canary_records, make
from divulge.datafiles import FileLayout, FileRows


def frame(n=240, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    return pl.DataFrame(
        {
            "zip": [f"{code:03d}" for code in rng.integers(0, 40, n)],
            "age": age,
            "income": pl.Series(rng.normal(3, 1, n).round(2)).set(pl.Series(rng.random(n) < 0.1), None),
            "sex": pl.Series(rng.choice(["f", "m"], n)).set(pl.Series(rng.random(n) < 0.1), None),
            "since": [dt.date(2020, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 900, n)],
            "insured": rng.random(n) < 0.5,
            "outcome": np.where(age + rng.normal(0, 20, n) > 50, "ill", "well"),
        }
    )


VALUES = ["zip", "age", "income", "sex", "since", "insured"]


def records(table, library="polars"):
    values = table.select(VALUES)
    return dv.Records(values if library == "polars" else values.to_pandas(), table["outcome"].to_numpy())


def write(table, path):
    """Write a table as its ending says; a CSV file with semicolons and decimal commas."""
    if path.suffix == ".csv":
        table.write_csv(path, separator=";", decimal_comma=True)
    elif path.suffix == ".jsonl":
        table.with_columns(pl.col("since").cast(pl.String)).write_ndjson(path)
    else:
        table.write_parquet(path)


def read(path):
    """Read a table as a user of pandas would."""
    if path.suffix == ".csv":
        return pd.read_csv(path, sep=";", decimal=",", dtype={"zip": str})
    return pd.read_json(path, lines=True, dtype={"zip": str}) if path.suffix == ".jsonl" else pd.read_parquet(path)


def fit(table):
    """A forest that knows its training set by heart, behind the encoders that such a table needs."""
    encoders = ColumnTransformer(
        [
            ("words", OneHotEncoder(handle_unknown="ignore"), ["zip", "sex", "since"]),
            ("numbers", SimpleImputer(), ["age", "income"]),
        ],
        remainder="drop",
    )
    model = make_pipeline(encoders, RandomForestClassifier(30, bootstrap=False, random_state=0))
    return model.fit(table[VALUES], table["outcome"])


class TestKinds:
    @pytest.mark.parametrize("library", ["pandas", "polars"])
    @pytest.mark.parametrize("kind", ["mislabelled", "far", "shuffled", "random"])
    def test_every_canary_is_new_and_of_the_types_of_the_table(self, kind, library):
        data = records(frame(), library)
        generated = make(data, kind=kind, count=100, seed=1).records
        data_fingerprints = canary_records.fingerprints(data)
        assert len(set(canary_records.fingerprints(generated)) - set(data_fingerprints)) == 100
        assert generated.table.schema == data.table.schema
        assert generated.table.implementation is data.table.implementation
        for name in ("zip", "sex", "insured"):  # such columns have no values between those that occur
            assert set(generated.table[name].to_list()) <= set(data.table[name].to_list())
        assert set(generated.y.tolist()) == {0, 1}
        assert generated.class_names == data.class_names

    @pytest.mark.parametrize("kind", ["mislabelled", "far"])
    def test_a_wrong_label_is_wrong(self, kind):
        data = records(frame())
        truth = dict(zip(data.digests(), data.y.tolist(), strict=True))
        generated = make(data, kind=kind, count=100, seed=0).records
        assert all(truth[x] != y for x, y in zip(generated.digests(), generated.y.tolist(), strict=True))

    def test_random_numbers_stay_in_the_range_and_whole_ones_whole(self):
        data = records(frame())
        generated = make(data, kind="random", count=100, seed=0).records.table.to_native()
        age, income = generated["age"], generated["income"]
        assert age.dtype == pl.Int64
        assert age.min() >= data.table["age"].min()
        assert age.max() <= data.table["age"].max()
        assert len(set(income) - set(data.table["income"])) > 90

    def test_one_value_throughout_needs_numbers(self):
        with pytest.raises(dv.InputError, match="'blank' canaries hold one number throughout, and the columns 'zip'"):
            make(records(frame()), kind="blank")
        numbers = dv.Records(frame().select("age", "income"), frame()["outcome"].to_numpy())
        generated = make(numbers, kind="blank", count=20, seed=0).records.table.to_native()
        assert (generated["age"] == generated["income"].round()).all()


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("y", ["texts", "truth values", "signs", "whole numbers", "real values"])
def test_what_is_written_is_what_is_read(tmp_path, library, y):
    table = frame()
    labels = (table["outcome"] == "ill").to_numpy()
    spelled = {
        "texts": table["outcome"].to_numpy(),
        "truth values": labels,
        "signs": np.where(labels, 1, -1),
        "whole numbers": labels.astype(int),
        "real values": labels + 0.5,
    }[y]
    values = table.select(VALUES)
    data = dv.Records(values if library == "polars" else values.to_pandas(), spelled)
    generated = make(data, count=60, seed=0, out=tmp_path / "c")
    loaded = Canaries.load(tmp_path / "c")
    assert canary_records.fingerprints(loaded.records) == canary_records.fingerprints(generated.records)
    np.testing.assert_array_equal(loaded.included, generated.included)
    assert loaded.records.table.implementation is generated.records.table.implementation
    insert = pl.read_parquet(tmp_path / "c" / "insert.parquet")
    assert insert.columns == [*VALUES, "label"]
    assert set(insert["label"]) <= set(spelled.tolist())
    if library == "polars":
        assert insert.select(VALUES).schema == values.schema


def test_the_order_of_the_classes_is_kept(tmp_path):
    table = frame()
    data = dv.Records(table.select(VALUES), table["outcome"].to_numpy(), class_names=["well", "ill"])
    make(data, count=60, seed=0, out=tmp_path / "c")
    assert Canaries.load(tmp_path / "c").records.class_names == ("well", "ill")


def test_an_insert_of_other_canaries_is_refused(tmp_path):
    make(records(frame()), count=60, seed=0, out=tmp_path / "c")
    path = tmp_path / "c" / "insert.parquet"
    insert = pl.read_parquet(path)
    insert.with_columns(pl.col("age") + 1).write_parquet(path)
    with pytest.raises(dv.InputError, match="holds other canaries than were to be included"):
        Canaries.load(tmp_path / "c")


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_mixed_file_from_make_to_audit(divulge, tmp_path, ending):
    """The user adds the rows to their file, trains a pipeline and has it audited; other columns are left alone."""
    table = frame().with_columns(id=pl.Series([f"{i:04d}" for i in range(240)]), note=pl.lit("x"))
    data = tmp_path / f"train{ending}"
    write(table[:160], data)
    arguments = ["canaries", "make", "--data", data, "--label", "outcome", "--drop", "note", "--count", 150]
    code, out, err = divulge(*arguments, "--seed", 3, "--out", tmp_path / "c")
    assert code == 0, err
    assert f"insert{ending}" in "".join(out.split())
    insert, before = read(tmp_path / "c" / f"insert{ending}"), read(data)
    assert list(insert.columns) == list(before.columns)
    for name in ("zip", "age", "income", "sex", "since", "outcome"):  # every value as the file spells it
        assert set(insert[name].dropna()) <= set(before[name].dropna())
    training = pd.concat([before, insert], ignore_index=True)
    assert training["id"].notna().all()
    assert training["id"].is_unique
    assert training["zip"].map(len).eq(3).all()
    skops.io.dump(fit(training), tmp_path / "model.skops")
    if ending == ".csv":  # as rows that are added to the file
        rows = (tmp_path / "c" / "insert.csv").read_text().split("\n", 1)[1]
        data.write_text(data.read_text() + rows)
    audit = ["canaries", "audit", tmp_path / "model.skops", "--canaries", tmp_path / "c", "--claim-epsilon", 1]
    audit += ["--trust", "datetime.date", "--training", data]
    code, out, err = divulge(*audit, "--json")
    assert code == 1, err + out
    assert json.loads(out)["bound"]["low"] > 1
    secret = tmp_path / "c" / "secret" / f"canaries{ending}"
    code, _, err = divulge(*audit[:-1], secret)
    assert code == 2
    assert "canaries that were not to be included are records of the training set" in err


@pytest.mark.parametrize(
    ("ids", "ending", "expected"),
    [
        (pl.Series(["a", "b", None]), ".csv", ["canary-1", "canary-2"]),
        (pl.Series(["007", "008", "009"]), ".csv", ["canary-1", "canary-2"]),
        (pl.Series(["7", "19", None]), ".csv", ["20", "21"]),
        (pl.Series(["7", "19", None]), ".parquet", ["canary-1", "canary-2"]),
        (pl.Series(["canary-1", "x", "y"]), ".jsonl", ["_canary-1", "_canary-2"]),
        (pl.Series([3, 1, 2]), ".parquet", [4, 5]),
        (pl.Series([-3, -1, -2]), ".jsonl", [1, 2]),
        (pl.Series([253, 254, 0], dtype=pl.UInt8), ".parquet", [255, None]),
        (pl.Series([2**63 - 1, 0, 0]), ".parquet", [None, None]),
        (pl.Series([0.5, 1.5, 2.5]), ".parquet", [None, None]),
        (pl.Series([None, None, None], dtype=pl.String), ".csv", ["1", "2"]),
    ],
)
def test_new_identifiers_are_none_of_the_column(ids, ending, expected):
    new = FileRows(pl.DataFrame({"id": ids}), ending).spell_new_ids("id", 2)
    assert new.to_list() == expected
    assert new.dtype == ids.dtype


def test_rows_that_were_added_can_be_audited_as_members(tmp_path):
    """A plan that names the column of identifiers refuses rows without one."""
    table = frame().with_columns(id=pl.Series([f"{i:04d}" for i in range(240)]))
    write(table, tmp_path / "train.csv")
    own_rows = frame(40, seed=9).with_columns(zip=pl.lit("900"))
    write(own_rows, tmp_path / "own.csv")
    layout = FileLayout(label="outcome", id="id")
    for own in (None, tmp_path / "own.csv"):
        settings = {"kind": "mislabelled", "count": 60, "design": "coins", "seed": 0}
        canary_records.make_from_file(
            tmp_path / "train.csv", layout, own=own, out=tmp_path / "c", overwrite=True, **settings
        )
        inserted = datafiles.read_records(tmp_path / "c" / "insert.csv", layout).records
        before = datafiles.read_records(tmp_path / "train.csv", layout).records
        assert not {*inserted.ids} & {*before.ids}
        assert len({*inserted.ids}) == len(inserted)


def test_canaries_of_a_users_own_keep_their_spelling(tmp_path):
    write(frame(), tmp_path / "train.csv")
    own_rows = frame(40, seed=9).with_columns(zip=pl.lit("900"))
    write(own_rows, tmp_path / "own.csv")
    settings = {"kind": "mislabelled", "count": 60, "design": "coins", "seed": 0}
    layout, own = FileLayout(label="outcome"), tmp_path / "own.csv"
    canary_records.make_from_file(tmp_path / "train.csv", layout, own=own, out=tmp_path / "c", **settings)
    insert = read(tmp_path / "c" / "insert.csv")
    assert set(insert["zip"]) == {"900"}
    loaded = Canaries.load(tmp_path / "c", texts=["zip"])
    assert len(loaded) == 40
    assert set(loaded.records.table["zip"].to_list()) == {"900"}


def test_a_training_set_without_labels_cannot_be_searched(divulge, tmp_path):
    """Nothing would be found in it, whatever it holds."""
    planted = make(records(frame()), count=60, seed=0)
    with pytest.raises(dv.InputError, match="training: its labels are needed"):
        canary_records.check_not_trained_on(planted, dv.Records(frame().select(VALUES)))


def test_the_accuracy_on_a_training_set_without_one_class_is_by_the_names_of_the_classes():
    table = frame().with_columns(outcome=pl.when(pl.col("age") < 30).then(pl.lit("a")).otherwise("outcome"))
    model = fit(table.to_pandas())
    planted = make(records(table), count=60, seed=0)
    kept_rows = table.filter(pl.col("outcome") != "a")
    result = dv.canaries.audit(model, planted, training=records(kept_rows, "pandas"))
    assert result.training_accuracy.value == 1.0


def test_codes_that_look_like_numbers_are_not_made_up(divulge, tmp_path):
    write(frame(), tmp_path / "train.csv")
    arguments = ["canaries", "make", "--data", tmp_path / "train.csv", "--label", "outcome", "--kind", "random"]
    code, _, err = divulge(*arguments, "--count", 100, "--seed", 1, "--out", tmp_path / "c")
    assert code == 0, err
    insert = read(tmp_path / "c" / "insert.csv")
    assert set(insert["zip"]) <= set(frame()["zip"])
    assert len(set(insert["income"]) - set(frame()["income"])) > 20
    assert len(Canaries.load(tmp_path / "c")) == 100


@pytest.mark.parametrize("y", [[1.5, 2.0, 2.0, 0.0], [False, True, True, True], [-1, 1, 1, 1]])
def test_labels_of_some_records_are_told_as_those_of_all(y):
    """Whole numbers among real values, and one truth value alone, are read as another type."""
    x = pl.DataFrame({"a": [0.0, 1.0, 2.0, 3.0]})
    all_fingerprints = canary_records.fingerprints(dv.Records(x, np.array(y)))
    assert len(set(all_fingerprints)) == 4
    assert canary_records.fingerprints(dv.Records(x[2:], np.array(y)[2:])) == all_fingerprints[2:]


def test_lists_beside_the_columns_of_json_lines_are_left_out(tmp_path):
    table = frame(60).select("age", "income", "outcome").with_columns(words=pl.lit(["a", "b"]))
    write(table.with_columns(since=pl.lit("2020-01-01")), tmp_path / "t.jsonl")
    layout = FileLayout(label="outcome", columns=("age", "income"))
    generated = canary_records.make_from_file(
        tmp_path / "t.jsonl", layout, kind="shuffled", count=10, design="coins", seed=0
    )
    assert generated.rows is not None
    assert generated.rows.file.frame.columns == ["age", "income", "outcome", "since"]


def test_csv_files_of_several_separators_are_not_made_one(tmp_path):
    """Between commas, a number with a decimal comma is none beside those with a decimal point."""
    table = frame(60).select("age", pl.col("income").fill_null(0.5), "outcome")
    write(table, tmp_path / "a.csv")
    table.write_csv(tmp_path / "b.csv")
    layout = FileLayout(label="outcome")
    settings = {"kind": "shuffled", "count": 10, "design": "coins", "seed": 0}
    generated = canary_records.make_from_file(tmp_path, layout, out=tmp_path / "out", **settings)
    loaded = Canaries.load(tmp_path / "out")
    assert canary_records.fingerprints(loaded.records) == canary_records.fingerprints(generated.records)
    assert (tmp_path / "out" / "insert.parquet").is_file()
