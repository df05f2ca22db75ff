"""Arrays to Parquet files and back: every kind that NumPy has and files take, without a digit lost."""

import datetime as dt
import decimal
import io
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import divulge as dv
from divulge import tables


def written(columns, dtypes=None):
    file = io.BytesIO()
    tables.write_parquet(tables.from_arrays(columns, dtypes), file)
    return file.getvalue()


def read_arrays(file):
    frame = tables.read_parquet(file)
    return {name: tables.to_array(frame[name]) for name in frame.columns}


def write_with_polars(column):
    file = io.BytesIO()
    pl.DataFrame({"a": column}).write_parquet(file)
    file.seek(0)
    return file


NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_keep_their_width_both_ways(dtype):
    ends = np.iinfo(dtype) if dtype[0] in "iu" else np.finfo(dtype)
    values = np.array([ends.min, 0, 1, ends.max], dtype)
    back = pl.read_parquet(written({"a": values}))["a"].to_numpy()
    read = read_arrays(write_with_polars(values))["a"]
    for got in (back, read):
        assert got.dtype == values.dtype
        assert got.tolist() == values.tolist()


@pytest.mark.parametrize("dtype", NUMBERS)
def test_of_numbers_with_gaps_those_are_nan(dtype):
    values = read_arrays(write_with_polars(pl.Series([1, None, 3]).cast(pl.Series(np.empty(0, dtype)).dtype)))["a"]
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [1, np.nan, 3])
    nothing = read_arrays(write_with_polars(pl.Series([None, None]).cast(pl.Series(np.empty(0, dtype)).dtype)))["a"]
    np.testing.assert_array_equal(nothing, [np.nan, np.nan])


def test_whole_numbers_with_gaps_are_not_rounded():
    values = [2**53 + 1, None, -(2**63)]
    assert read_arrays(write_with_polars(values))["a"].tolist() == values
    assert pl.read_parquet(written({"a": np.array(values, object)}))["a"].to_list() == values


OBJECTS = {
    "texts": ["a", "", "ünï 🎉", 'q"uo,te\n', "x" * 5000],
    "texts with gaps": ["a", None, ""],
    "nothing": [None, None],
    "truth with gaps": [True, None, False],
    "lists": [[1.0, 2.5], [], None, [-0.0]],
    "lists of texts": [["a", "b"], [], None],
    "bytes": [b"a", None, b""],
}


@pytest.mark.parametrize("values", OBJECTS.values(), ids=OBJECTS)
def test_objects_come_back(values):
    array = np.empty(len(values), object)
    array[:] = values
    content = written({"a": array})
    assert pl.read_parquet(content)["a"].to_list() == values
    assert list(read_arrays(io.BytesIO(content))["a"]) == values
    assert list(read_arrays(write_with_polars(values))["a"]) == values


@pytest.mark.parametrize("values", [np.empty(0), np.empty(0, int), np.empty(0, bool), np.empty(0, object)])
def test_no_rows_keep_their_columns(values):
    read = read_arrays(io.BytesIO(written({"a": values, "b": values})))
    assert (len(read["a"]), tuple(read), read["a"].dtype) == (0, ("a", "b"), values.dtype)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array(["ab", "c"]), ["ab", "c"]),
        (np.array(["ab", "c"], np.dtypes.StringDType()), ["ab", "c"]),
        (np.array([b"ab", b"c"]), [b"ab", b"c"]),
        (np.array([1.5, 2], ">f8"), [1.5, 2.0]),
        (np.array([7, 8], ">i4"), [7, 8]),
        (np.arange(6)[::-2], [5, 3, 1]),
        (np.array([1.5], "longdouble"), [1.5]),
        (np.array([0.5], "f2"), [0.5]),
        (np.array([True, False])[::-1], [False, True]),
        (np.array(["2020-01-01"], "datetime64[D]"), ["2020-01-01"]),
        (np.array([1, 2.5, None], object), [1.0, 2.5, None]),
        (np.array([np.float64(1), np.int64(2)], object), [1.0, 2.0]),
        (np.array([np.str_("a")], object), ["a"]),
    ],
)
def test_every_array_of_numpy_is_written(array, expected):
    assert pl.read_parquet(written({"a": array}))["a"].to_list() == expected


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([1, "a"], object), "values of one kind are needed for a file, got int, str"),
        (np.array([2**70], object), "more than 64 bits"),
        (np.array(["\ud800"], object), "surrogate"),
        (np.array(["\ud800"]), "surrogate"),
        (np.array([1j]), "values of one kind are needed for a file, got complex"),
        (np.ones((2, 3)), r"one dimension is needed for a file, got shape \(2, 3\)"),
        (np.array([[["a"]], None, []], object), "lists of lists"),
    ],
)
def test_what_no_file_takes_is_refused(array, message):
    with pytest.raises(dv.InputError, match=f"^a: .*{message}"):
        written({"a": array})


D = decimal.Decimal
COLUMN_TYPES = {
    "categories": (pl.Series(["x", "y", None], dtype=pl.Categorical), ["x", "y", None]),
    "enum": (pl.Series(["x", "y", None], dtype=pl.Enum(["y", "x"])), ["x", "y", None]),
    "decimals": (pl.Series([D("1.50"), D("-2.25")], dtype=pl.Decimal(10, 2)), [1.5, -2.25]),
    "whole decimals": (pl.Series([D(2**53 + 1), None], dtype=pl.Decimal(38, 0)), [2**53 + 1, None]),
    "dates": ([dt.date(2020, 1, 31), None], ["2020-01-31", None]),
    "times": ([dt.datetime(2020, 1, 31, 1, 2, 3), None], ["2020-01-31T01:02:03.000000", None]),
    "hours": ([dt.time(1, 2, 3), None], ["01:02:03", None]),
    "durations": ([dt.timedelta(days=1), None], ["P1D", None]),
    "whole numbers beyond int64": (pl.Series([2**64 - 1, 0], dtype=pl.UInt64), [2**64 - 1, 0]),
    "structs": ([{"a": 1}, None], [{"a": 1}, None]),
    "lists of lists": ([[[1], []], None], [[[1], []], None]),
    "arrays": (pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int64, 2)), [[1, 2], [3, 4]]),
    "nothing": (pl.Series([None, None], dtype=pl.Null), [None, None]),
}


@pytest.mark.parametrize(("column", "expected"), COLUMN_TYPES.values(), ids=COLUMN_TYPES)
def test_other_kinds_are_read_as_the_nearest(column, expected):
    assert read_arrays(write_with_polars(column))["a"].tolist() == expected


def test_columns_are_chosen_in_the_order_asked_for(tmp_path):
    path = tmp_path / "t[1]*.parquet"
    pl.DataFrame({"a": [1], "b": ["x"], "c": [2.5]}).write_parquet(path)
    assert tables.read_parquet(path, ["c", "a"]).columns == ["c", "a"]
    assert tables.read_table(path, columns=["c", "a"]).columns == ["c", "a"]
    assert tables.scan_table(path).columns == ("a", "b", "c")


@pytest.mark.parametrize("size", [1, 128, 301, 5000])
def test_rows_come_in_batches_of_one_size(tmp_path, size):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"b": [f"t{i}" for i in range(1000)]}).write_parquet(path, row_group_size=300)
    pieces = list(tables.row_batches(tables.open_parquet(path), size))
    assert {len(piece) for piece in pieces[:-1]} <= {size}
    assert pl.concat(pieces)["b"].to_list() == [f"t{i}" for i in range(1000)]


def test_columns_have_one_length():
    with pytest.raises(dv.InputError, match="one length"):
        tables.from_arrays({"a": np.ones(2), "b": np.ones(3)})


def test_pieces_are_one_table(tmp_path):
    writer = tables.PieceWriter(tmp_path / "pieces")
    parts = [pl.DataFrame({"a": [i], "t": [None if i % 2 else "x"]}) for i in range(5)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tables.table, "_PIECE_ROWS", 2)
        for part in parts:
            writer.add(part)
        writer.close()
    assert len(list((tmp_path / "pieces").iterdir())) == 3
    assert tables.open_pieces(tmp_path / "pieces").collect().equals(pl.concat(parts))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = texts.filter(lambda name: "\0" not in name and not PATTERN.fullmatch(name))
PATTERN = re.compile(r"\*|\^.*\$", re.DOTALL)  # names that polars takes for patterns
cells = st.sampled_from([st.none() | texts, st.floats(), st.integers(-(2**63), 2**63 - 1), st.booleans()])


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 9))
def test_tables_come_back(data, n):
    columns = {}
    for name in data.draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        values = data.draw(st.lists(data.draw(cells), min_size=n, max_size=n))
        columns[name] = np.array(values, object if any(value is None for value in values) else None)
    content = written(columns)
    want = {name: values.tolist() for name, values in columns.items()}
    assert repr(pl.read_parquet(content).to_dict(as_series=False)) == repr(want)
    read = read_arrays(io.BytesIO(content))
    assert repr({name: values.tolist() for name, values in read.items()}) == repr(want)
