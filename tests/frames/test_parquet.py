"""Parquet files: what polars writes is read, and what is written polars reads."""

import datetime as dt
import decimal
import io

import numpy as np
import polars as pl
import pytest
from arro3.core import DataType
from hypothesis import given, settings
from hypothesis import strategies as st

import divulge as dv
from divulge import frames
from divulge.frames import Frame, Scan


def written(frame, kinds=None):
    file = io.BytesIO()
    frames.write_parquet(frame, file, kinds)
    return file.getvalue()


def by_polars(column):
    file = io.BytesIO()
    pl.DataFrame({"a": column}).write_parquet(file)
    file.seek(0)
    return file


NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_keep_their_width_both_ways(kind):
    ends = np.iinfo(kind) if kind[0] in "iu" else np.finfo(kind)
    values = np.array([ends.min, 0, 1, ends.max], kind)
    back = pl.read_parquet(written(Frame({"a": values})))["a"].to_numpy()
    read = frames.parquet(by_polars(values))["a"]
    for got in (back, read):
        assert got.dtype == values.dtype
        assert got.tolist() == values.tolist()


@pytest.mark.parametrize("kind", NUMBERS)
def test_of_numbers_with_gaps_those_are_nan(kind):
    values = frames.parquet(by_polars(pl.Series([1, None, 3]).cast(pl.Series(np.empty(0, kind)).dtype)))["a"]
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [1, np.nan, 3])
    nothing = frames.parquet(by_polars(pl.Series([None, None]).cast(pl.Series(np.empty(0, kind)).dtype)))["a"]
    np.testing.assert_array_equal(nothing, [np.nan, np.nan])


def test_whole_numbers_with_gaps_are_not_rounded():
    values = [2**53 + 1, None, -(2**63)]
    assert frames.parquet(by_polars(values))["a"].tolist() == values
    assert pl.read_parquet(written(Frame({"a": np.array(values, object)})))["a"].to_list() == values


def test_pieces_whose_gaps_differ_make_one_file(tmp_path):
    path, columns = tmp_path / "t.parquet", {"n": [1, 2, None, 4, 5, 2**53 + 1], "m": [None, 2, 3, 4, 5, None]}
    columns["b"] = [True, False, None, None, True, True]
    for kind in (pl.Int8, pl.Int64, pl.UInt32):
        numbers = columns if kind == pl.Int64 else columns | {"n": [1, 2, None, 4, 5, 6]}
        pl.DataFrame(numbers, schema_overrides={"n": kind}).write_parquet(path)
        read = pl.read_parquet(written(Scan(path).frames(size=2)))
        assert read["n"].dtype == kind
        assert read["m"].dtype == pl.Float64
        assert read.with_columns(pl.col("m").fill_nan(None)).to_dict(as_series=False) == numbers


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
    content = written(Frame({"a": array}))
    assert pl.read_parquet(content)["a"].to_list() == values
    assert list(frames.parquet(io.BytesIO(content))["a"]) == values
    assert list(frames.parquet(by_polars(values))["a"]) == values


@pytest.mark.parametrize("values", [np.empty(0), np.empty(0, int), np.empty(0, bool), np.empty(0, object)])
def test_no_rows_keep_their_columns(values):
    read = frames.parquet(io.BytesIO(written(Frame({"a": values, "b": values}))))
    assert (len(read), read.names, read["a"].dtype) == (0, ("a", "b"), values.dtype)


@pytest.mark.parametrize(
    ("array", "wanted"),
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
def test_every_array_of_numpy_is_written(array, wanted):
    assert pl.read_parquet(written(Frame({"a": array})))["a"].to_list() == wanted


@pytest.mark.parametrize(
    ("array", "said"),
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
def test_what_no_file_takes_is_refused(array, said):
    with pytest.raises(dv.InputError, match=f"^a: .*{said}"):
        written(Frame({"a": array}))


D = decimal.Decimal
KINDS = {
    "categories": (pl.Series(["x", "y", None], dtype=pl.Categorical), ["x", "y", None]),
    "enum": (pl.Series(["x", "y", None], dtype=pl.Enum(["y", "x"])), ["x", "y", None]),
    "decimals": (pl.Series([D("1.50"), D("-2.25")], dtype=pl.Decimal(10, 2)), [1.5, -2.25]),
    "whole decimals": (pl.Series([D(2**53 + 1), None], dtype=pl.Decimal(38, 0)), [2**53 + 1, None]),
    "dates": ([dt.date(2020, 1, 31), None], ["2020-01-31", None]),
    "times": ([dt.datetime(2020, 1, 31, 1, 2, 3), None], ["2020-01-31T01:02:03", None]),
    "hours": ([dt.time(1, 2, 3), None], ["01:02:03", None]),
    "durations": ([dt.timedelta(days=1), None], ["PT86400S", None]),
    "whole numbers beyond int64": (pl.Series([2**64 - 1, 0], dtype=pl.UInt64), [2**64 - 1, 0]),
    "structs": ([{"a": 1}, None], [{"a": 1}, None]),
    "lists of lists": ([[[1], []], None], [[[1], []], None]),
    "arrays": (pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int64, 2)), [[1, 2], [3, 4]]),
    "nothing": (pl.Series([None, None], dtype=pl.Null), [None, None]),
}


@pytest.mark.parametrize(("column", "wanted"), KINDS.values(), ids=KINDS)
def test_other_kinds_are_read_as_the_nearest(column, wanted):
    assert frames.parquet(by_polars(column))["a"].tolist() == wanted


def test_columns_are_chosen_in_the_order_asked_for(tmp_path):
    pl.DataFrame({"a": [1], "b": ["x"], "c": [2.5]}).write_parquet(tmp_path / "t[1]*.parquet")
    path = tmp_path / "t[1]*.parquet"
    assert frames.parquet(path, ["c", "a"]).names == ("c", "a")
    assert frames.header(path) == ["a", "b", "c"]
    assert list(Scan(path).kinds()) == ["a", "b", "c"]
    with pytest.raises(KeyError):
        frames.parquet(path, ["d"])


def test_a_scan_reads_piece_by_piece(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": range(1000), "b": [f"t{i}" for i in range(1000)]}).write_parquet(path, row_group_size=300)
    pieces = list(Scan(path).frames(["b"], size=128))
    assert max(map(len, pieces)) <= 128
    assert frames.concat(pieces)["b"].tolist() == [f"t{i}" for i in range(1000)]


def test_many_frames_make_one_file():
    none, lists = np.array([None, None], object), np.empty(2, object)
    lists[:] = [[1.0], None]
    parts = [Frame({"t": none, "f": none, "l": none}), Frame({"l": lists, "f": np.ones(2), "t": np.array(["a", None])})]
    kinds = {"f": DataType.float64(), "l": DataType.large_list(DataType.float32())}
    read = pl.read_parquet(written(iter(parts), kinds))
    assert read.to_dict(as_series=False) == {
        "t": [None, None, "a", None],
        "f": [None, None, 1.0, 1.0],
        "l": [None, None, [1.0], None],
    }
    assert written(parts, kinds) == written(iter(parts), kinds)


def test_what_goes_wrong_in_a_stream_is_said_as_it_is():
    def parts(error):
        yield Frame({"a": np.arange(3)})
        raise error

    for error in (dv.InputError("a.csv: row 3"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            written(parts(error))
    with pytest.raises(dv.InputError, match=r"a: values of one kind are needed, got Int64 and later Float64"):
        written([Frame({"a": np.arange(3)}), Frame({"a": np.ones(3) / 2})])
    with pytest.raises(ValueError, match="values of type Int64 do not fit into Int8"):
        written([Frame({"a": np.ones(3, np.int8)}), Frame({"a": np.array([300])})])
    words = np.empty(1, object)
    words[0] = ["x"]
    with pytest.raises(ValueError, match="values of type text do not fit into Float32"):
        written(Frame({"a": words}), {"a": DataType.large_list(DataType.float32())})
    with pytest.raises(KeyError):
        written([Frame({"a": np.arange(3)}), Frame({"b": np.ones(3)})])
    with pytest.raises(ValueError, match="at least 1 frame"):
        written([])


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
cells = st.sampled_from([st.none() | texts, st.floats(), st.integers(-(2**63), 2**63 - 1), st.booleans()])


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 9))
def test_tables_come_back(data, n):
    columns = {}
    for name in data.draw(st.lists(texts.filter(lambda name: "\0" not in name), min_size=1, max_size=4, unique=True)):
        values = data.draw(st.lists(data.draw(cells), min_size=n, max_size=n))
        columns[name] = np.array(values, object if any(one is None for one in values) else None)
    content = written(Frame(columns))
    want = {name: values.tolist() for name, values in columns.items()}
    assert repr(pl.read_parquet(content).to_dict(as_series=False)) == repr(want)
    read = frames.parquet(io.BytesIO(content))
    assert repr({name: values.tolist() for name, values in read.columns.items()}) == repr(want)
