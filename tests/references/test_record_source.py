"""Training records that stay in Parquet files: the same models as from arrays, and errors that name the file."""

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import RandomForestClassifier

import divulge as dv
from divulge import InputError
from divulge.references import Custom, Train, scan_records
from divulge.references.clones import CloneTraining

N, WIDTH, CLASSES = 500, 6, 3


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, WIDTH))
    return pl.DataFrame({f"c{i}": x[:, i] for i in range(WIDTH)} | {"y": (x[:, :CLASSES]).argmax(axis=1)})


@pytest.fixture(scope="module")
def files(table, tmp_path_factory):
    """Three files of unequal length, each with several row groups."""
    folder = tmp_path_factory.mktemp("pool")
    for number, (start, end) in enumerate(((0, 201), (201, 202), (202, N))):
        table[start:end].write_parquet(folder / f"part-{number}.parquet", row_group_size=40)
    return folder


@pytest.fixture(scope="module")
def in_memory(table):
    return dv.Records(table.drop("y").to_numpy(), table["y"].to_numpy())


def _train_lookup(records, seed):
    weights = np.random.default_rng(seed).normal(size=(WIDTH, CLASSES)) * records.x.mean() * records.y.mean()
    return lambda x: x @ weights


def _make_mlp():
    from torch import nn

    return nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def _make_lazy():
    from torch import nn

    return nn.Sequential(nn.LazyLinear(8), nn.GELU(), nn.Linear(8, CLASSES))


TRAININGS = {
    "own function": Custom(_train_lookup, 4),
    "clones": CloneTraining(RandomForestClassifier(5, random_state=0), 4),
    "clones in processes": CloneTraining(RandomForestClassifier(5, random_state=0), 4, "processes", 2),
    "stack of networks": Train(_make_mlp, 4, epochs=1, engine="stacked"),
    "one network after the other": Train(_make_lazy, 4, epochs=1, engine="serial"),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_models_are_those_of_the_same_records_in_memory(name, files, in_memory, tmp_path):
    training, splits = TRAININGS[name], dv.references.splits.online(N, 4, 1)
    options = {"seed": 1, "observe": [in_memory[:50]]}
    from_files = training.fit(scan_records(files, label="y"), splits, pool=tmp_path / "pool", **options)
    expected = training.fit(in_memory, splits, **options)
    assert (from_files.outputs[0] == expected.outputs[0]).all()
    assert (from_files.trained_on == expected.trained_on).all()
    again = training.fit(scan_records(files, label="y"), splits, pool=tmp_path / "pool", **options)
    assert again.reused == 4
    assert (again.outputs[0] == expected.outputs[0]).all()


def test_a_model_of_other_records_is_not_taken_from_the_pool(table, tmp_path, in_memory):
    splits, training = dv.references.splits.online(N, 2, 1), Custom(_train_lookup, 2)
    for version in (table, table.with_columns(c0=pl.col("c0") + 1e-9)):
        version.write_parquet(tmp_path / "pool.parquet")
        source = scan_records(tmp_path / "pool.parquet", label="y")
        trained = training.fit(source, splits, seed=1, observe=[in_memory], pool=tmp_path / "models")
        assert not trained.reused


@pytest.mark.parametrize("rows", [[0], [200, 201, 202], [499], list(range(N)), list(range(3, N, 7))])
def test_rows_are_counted_through_all_files(files, in_memory, rows):
    read = scan_records([files / f"part-{i}.parquet" for i in range(3)], label="y")[np.array(rows)]
    assert (read.x == in_memory.x[rows]).all()
    assert (read.y == in_memory.y[rows]).all()
    assert read.x.dtype == in_memory.x.dtype


def test_files_are_named_by_folder_pattern_or_list(files):
    for source in (files, f"{files}/part-*.parquet", sorted(files.glob("*"))):
        assert len(scan_records(source, label="y")) == N


def test_texts_arrays_real_values_and_chosen_columns(tmp_path):
    images = np.arange(24.0).reshape(4, 2, 3)
    frame = pl.DataFrame(
        {
            "text": ["a", "b", "c", "d"],
            "image": pl.Series(images, dtype=pl.Array(pl.Float64, (2, 3))),
            "is_new": [True, False, True, True],
            "value": [1.0, 2.0, 3.0, 4.0],
        }
    )
    frame.write_parquet(tmp_path / "all.parquet")
    rows = np.array([1, 3])
    assert scan_records(tmp_path, columns=["text"])[rows].x.tolist() == ["b", "d"]
    assert (scan_records(tmp_path, columns=["image"])[rows].x == images[rows]).all()
    real = scan_records(tmp_path, columns=["is_new"], label="value")[rows]
    assert real.y.dtype == float
    assert real.y.tolist() == [2.0, 4.0]
    assert (real.x == [[0], [1]]).all()


BAD = {
    "no such file": ({}, {}, "no such file or folder"),
    "another kind of file": ({"a.csv": None}, {}, "a Parquet file is needed"),
    "no such label": ({"a.parquet": {"x": [1.0]}}, {"label": "z"}, "no column 'z'"),
    "no such column": ({"a.parquet": {"x": [1.0]}}, {"columns": ["z"]}, "no column 'z'"),
    "names of classes": ({"a.parquet": {"x": [1.0], "y": ["a"]}}, {"label": "y"}, "number the classes from 0"),
    "negative classes": ({"a.parquet": {"x": [1.0], "y": [-1]}}, {"label": "y"}, "numbered from 0, got -1"),
    "a missing label": ({"a.parquet": {"x": [1.0, 2.0], "y": [None, 1]}}, {"label": "y"}, "missing.* in 1 rows"),
    "texts among numbers": ({"a.parquet": {"x": [1.0], "t": ["a"]}}, {}, "column 't' is String"),
    "the label alone": ({"a.parquet": {"y": [1]}}, {"label": "y"}, "at least 1 column beside the label"),
    "no rows": ({"a.parquet": {"x": []}}, {}, "at least 1 record is needed"),
    "files that differ": (
        {"a.parquet": {"x": [1.0]}, "b.parquet": {"x": [1]}},
        {},
        r"b\.parquet: other columns or types",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_refused_with_its_name(name, tmp_path):
    written, options, message = BAD[name]
    for file, columns in written.items():
        if columns is None:
            (tmp_path / file).write_text("a\n1\n")
        else:
            pl.DataFrame(columns).write_parquet(tmp_path / file)
    with pytest.raises(InputError, match=message):
        scan_records(tmp_path if written else tmp_path / "none", **options)


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf")])
def test_a_missing_value_ends_the_training_of_models_that_learn_from_it(bad, table, tmp_path):
    values = table["c0"].to_list()
    table.with_columns(c0=pl.Series([*values[:-1], bad])).write_parquet(tmp_path / "a.parquet")
    source = scan_records(tmp_path, label="y")
    splits = np.arange(N)[None] >= N - 10
    with pytest.raises(InputError, match=r"missing|NaN|infinit"):
        Custom(_train_lookup, 1).fit(source, splits, seed=0)
    assert len(Custom(_train_lookup, 1).fit(source, ~splits, seed=0)) == 1


def test_a_file_that_shrinks_is_noticed(table, tmp_path):
    table.write_parquet(tmp_path / "a.parquet")
    source = scan_records(tmp_path, label="y")
    table[:100].write_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="fewer rows than when the training began"):
        source[np.array([5, 300])]


def test_classes_without_label_are_refused_before_training(table, tmp_path):
    table.write_parquet(tmp_path / "a.parquet")
    calls = []
    with pytest.raises(InputError, match="name their column as label"):
        Custom(lambda records, seed: calls.append(seed), 1).fit(
            scan_records(tmp_path, columns=["c0"]), np.ones((1, N), bool), seed=0
        )
    assert not calls
    with pytest.raises(InputError, match="labels below 2"):
        Custom(lambda records, seed: calls.append(seed), 1).fit(
            scan_records(tmp_path, label="y"), np.ones((1, N), bool), seed=0, classes=2
        )
    assert not calls
