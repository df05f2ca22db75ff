"""Columns one by one: what they are read as, encoded to and back, told apart by, and refused for, at every limit."""

import datetime as dt
import decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

from divulge import columns
from divulge.columns import TableEncoder, read_column, read_frame
from divulge.errors import InputError

NAN = float("nan")
DAY = dt.date(2020, 1, 31)
DAYS = 18292  # of it since 1970
NOON = dt.datetime(2020, 1, 31, 12)


def frame_of(**values):
    return read_frame(pl.DataFrame(values, strict=False), "x")


def refused(message):
    return pytest.raises(InputError, match=message)


def read(values, library=pl):
    series = pl.Series("c", values) if library is pl else pd.Series(values, name="c", dtype=object)
    return read_column(read_frame(series.to_frame(), "x"), "c")


def fit(*sets, dtype=None):
    frames = [read_frame(pl.DataFrame({"c": pl.Series(values, dtype=dtype)}), "x") for values in sets]
    return TableEncoder.fit(frames).columns[0]


class TestReading:
    @pytest.mark.parametrize(
        ("values", "measure", "expected"),
        [
            ([1, None, 3], "number", [1, NAN, 3]),
            ([2**53, -(2**53)], "number", [2**53, -(2**53)]),
            ([1.5, NAN, None], "number", [1.5, NAN, NAN]),
            ([True, None, False], "boolean", [1, NAN, 0]),
            ([decimal.Decimal("1.5"), None], "number", [1.5, NAN]),
            ([DAY, None], "date", [DAYS, NAN]),
            ([NOON, None], "date", [DAYS + 0.5, NAN]),
            ([NOON.replace(tzinfo=dt.UTC)], "date", [DAYS + 0.5]),
            (["a", None], "category", ["a", None]),
            ([None, None], "category", [None, None]),
        ],
    )
    @pytest.mark.parametrize("library", [pl, pd])
    def test_a_column_is_read_as_what_its_values_are(self, values, measure, expected, library):
        column = read(values, library)
        assert column.measure == measure
        np.testing.assert_array_equal(column.values, np.array(expected, dtype=column.values.dtype))
        assert column.missing.tolist() == [value is None or value != value for value in values]
        assert len(column) == len(values)
        assert (column.values.dtype == np.float64) == (measure != "category")

    @pytest.mark.parametrize(
        ("values", "kinds"),
        [
            (["a", 1], "a text in row 0 and a number in row 1"), ([None, 1.5, "a"], "a number in row 1 and a text"),
            ([True, 1], None), ([True, "a", 1], "a truth value in row 0 and a text in row 1"),
            ([DAY, 3], "a date in row 0 and a number in row 1"), ([1j], "complex in row 0"),
        ],
    )  # fmt: skip
    def test_values_of_several_kinds_are_refused_with_the_first_of_each(self, values, kinds):
        if kinds is None:  # truth values among numbers are numbers
            assert read(values, pd).values.tolist() == [1, 1]
            return
        with refused(f"^column 'c': values of one kind are needed .*, got {kinds}"):
            read(values, pd)

    def test_categories_of_several_kinds_are_names(self):
        column = read_column(read_frame(pd.DataFrame({"c": pd.Categorical([1, "a", None])}), "x"), "c")
        assert (column.measure, column.values.tolist()) == ("category", ["1", "a", None])
        numbers = read_column(read_frame(pd.DataFrame({"c": pd.Categorical([1, 2])}), "x"), "c")
        assert (numbers.measure, numbers.values.tolist()) == ("number", [1, 2])

    @pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1])
    def test_whole_numbers_beyond_float64_are_refused_with_the_worst(self, value):
        with refused(f"got {value}; pass it as ids"):
            read([value, 0, None])


class TestEncoding:
    def test_numbers_have_their_median_where_missing_and_a_column_says_where(self):
        encoder = fit([1.0, None], [5.0, 9.0])
        assert (encoder.measure, encoder.has_missing, encoder.median, encoder.width) == ("number", True, 5.0, 2)
        assert encoder.encode(read([None, 2.0])).tolist() == [[5, 1], [2, 0]]
        complete = fit([1.0, 3.0])
        assert (complete.has_missing, complete.width) == (False, 1)
        assert complete.encode(read([4.0])).tolist() == [[4]]
        empty = fit([None, None])
        assert (empty.measure, empty.median, empty.has_missing) == ("number", 0.0, True)

    @pytest.mark.parametrize(("n_categories", "has_rare"), [(32, False), (33, True)])
    def test_categories_are_told_apart_up_to_their_limit(self, n_categories, has_rare):
        names = [f"c{i:02}" for i in range(n_categories)]
        encoder = fit(names * 3)  # few enough of the values are different
        assert encoder.measure == "category"
        assert encoder.has_rare is has_rare
        assert encoder.width == 32
        assert encoder.categories == tuple(names[: 31 if has_rare else 32])
        assert encoder.encode(read([names[0], "unknown"])).argmax(axis=1).tolist() == [0, 31 if has_rare else 0]
        assert encoder.encode(read(["unknown"])).sum() == has_rare

    @pytest.mark.parametrize(
        ("n_distinct", "n_repeats", "measure"),
        [(33, 31, "text"), (33, 33, "category"), (33, 34, "category"), (33, 32, "text"), (32, 0, "category")],
    )
    def test_texts_are_free_where_most_of_many_are_different(self, n_distinct, n_repeats, measure):
        values = [f"text {i}" for i in range(n_distinct)] + ["text 0"] * n_repeats
        assert fit([*values, None, None]).measure == measure

    def test_categories_of_a_type_are_never_texts_or_dates(self):
        assert fit([f"text {i}" for i in range(40)], dtype=pl.Categorical).measure == "category"
        assert fit(["2020-01-31"], dtype=pl.Categorical).measure == "category"
        assert fit(["2020-01-31", None]).measure == "date"

    @pytest.mark.parametrize(
        ("texts", "measure"),
        [
            (["2020-01-31", "2020-01-31T12:00"], "date"), (["2020-01-31 12:00:30.5+02:00"], "date"),
            (["2020-01-31", "soon"], "category"), (["2020-02-30"], "category"), (["31.01.2020"], "category"),
        ],
    )  # fmt: skip
    def test_texts_are_dates_where_all_of_them_are(self, texts, measure):
        assert fit(texts).measure == measure

    def test_sets_hold_values_of_one_kind(self):
        assert fit([None], ["a"], [None]).categories == ("a", None)
        assert fit([None], [2.0]).median == 2
        with refused("^column 'c': its values are category in one set, number in another$"):
            fit([1.0], ["a"])


class TestDecoding:
    def test_values_come_back_by_the_nearer_half(self):
        values = {"n": [1.0, None], "f": [True, False], "c": ["a", "b"], "d": [DAY, DAY]}
        frame = frame_of(**values)
        encoder = TableEncoder.fit([frame])
        x = encoder.encode(frame)
        assert encoder.decode(x, frame).to_dict(as_series=False) == values
        moved = x.copy()
        spans = encoder.spans
        moved[:, spans["n"]] = [[4.0, 0.5], [4.0, 0.51]]
        moved[:, spans["f"]] = [[0.5], [0.51]]
        moved[:, spans["c"]] = [[0.4, 0.6], [0.6, 0.4]]
        moved[:, spans["d"]] = [[DAYS + 1], [DAYS - 30]]
        assert encoder.decode(moved, frame).to_dict(as_series=False) == {
            "n": [4.0, None], "f": [False, True], "c": ["b", "a"], "d": [dt.date(2020, 2, 1), dt.date(2020, 1, 1)],
        }  # fmt: skip


class TestTogether:
    @pytest.mark.parametrize(
        ("dtypes", "values", "expected"),
        [
            ((pl.Int8, pl.Int16), ([1], [2]), nw.Int64), ((pl.Int8, pl.Float32), ([1], [2]), nw.Float64),
            ((pl.Categorical, pl.String), (["a"], ["b"]), nw.String),
            ((pl.Null, pl.String), ([None], ["b"]), nw.String),
            ((pl.String, pl.Int8), ([None], [3]), nw.Int8), ((pl.Null, pl.String), ([None], [None]), nw.Float64),
            ((pl.Int8, pl.Int8), ([1], [2]), nw.Int8),
        ],
    )  # fmt: skip
    def test_types_become_the_widest_of_their_kind(self, dtypes, values, expected):
        frames = [
            read_frame(pl.DataFrame({"a": pl.Series(each, dtype=dtype)}), "x")
            for dtype, each in zip(dtypes, values, strict=True)
        ]
        joined = columns.concatenate(frames)
        assert isinstance(joined["a"].dtype, expected)
        assert joined["a"].to_list() == [value for each in values for value in each]

    def test_types_of_several_kinds_are_refused(self):
        with refused("^column 'a': its values are Int64 in one set, String in another$"):
            columns.concatenate([frame_of(a=[1]), frame_of(a=["x"])])


class TestDigests:
    def test_equal_values_have_equal_digests_and_others_do_not(self):
        def digest(**values):
            return columns.row_digests(frame_of(**values))[0]

        assert digest(a=[1], b=["x"]) == digest(b=["x"], a=[1.0])
        assert digest(a=[True]) == digest(a=[1])
        assert digest(a=[0.0]) == digest(a=[-0.0])
        assert digest(a=["2020-01-31"]) == digest(a=[DAY]) == digest(a=["2020-01-31T00:00:00Z"])
        different = [
            digest(a=[1]), digest(a=[2]), digest(a=["1"]), digest(a=[None]), digest(a=["-"]), digest(a=["2020-02-30"]),
            digest(a=[1], b=[2]), digest(a=[2], b=[1]), digest(a=["x|1:y"], b=["z"]), digest(a=["x"], b=["y|1:z"]),
        ]  # fmt: skip
        assert len(set(different)) == len(different)
        assert all(len(each) == 16 for each in different)

    def test_records_of_arrays_have_digests_of_their_values(self):
        rows = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])
        first, same, other = columns.digest_records(rows)
        assert first == same != other
        assert len(first) == 16
        assert len(set(columns.digest_records(np.array([[1, 2], [2, 1], [1, 2]])))) == 2
        assert len(set(columns.digest_records(np.array(["a", "b", "a"], dtype=object)))) == 2


class TestForReaders:
    def test_values_have_the_types_that_pandas_reads_from_a_file(self):
        frame = pl.DataFrame(
            {
                "whole": [1, 2], "gap": [1, None], "price": [decimal.Decimal("1.5"), decimal.Decimal(2)],
                "flag": [True, False], "unsure": [True, None], "text": ["a", None], "day": [DAY, None],
                "kind": pl.Series(["a", "b"], dtype=pl.Categorical), "single": pl.Series([1, 2], dtype=pl.Float32),
            }
        )  # fmt: skip
        found = columns.to_library(read_frame(frame, "x"), "pandas")
        names = {name: str(dtype) for name, dtype in found.dtypes.items()}
        assert names["day"].startswith("datetime64")
        assert names | {"day": ""} == {
            "whole": "int64", "gap": "float64", "price": "float64", "flag": "bool", "unsure": "object",
            "text": "object", "day": "", "kind": "category", "single": "float32",
        }  # fmt: skip
        assert np.isnan(found["unsure"][1])
        assert found["gap"][0] == 1

    def test_nullable_types_become_numpys_and_others_stay(self):
        frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1, 2], "c": ["x", "y"]}, index=[7, 8])
        found = columns.without_nullable_types(frame)
        assert found["a"].dtype == np.float64
        assert found["b"].dtype == np.int64
        assert found.index.tolist() == [7, 8]
        assert list(found.columns) == ["a", "b", "c"]
        other = object()
        assert columns.without_nullable_types(other) is other
