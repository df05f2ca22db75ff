"""Columns one by one: what they are read as, encoded to and back, told apart by, and refused for, at every limit."""

import datetime as dt
import decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
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


class TestFrames:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (pl.DataFrame({"a": [1]}), True), (pl.DataFrame(), True), (pl.DataFrame({"a": [1]}).lazy(), True),
            (pd.DataFrame({"a": [1]}), True), (pd.DataFrame({0: [1]}), False), (pd.DataFrame({0: [1], "a": [2]}), True),
            (pd.DataFrame([[1, 2]], columns=["a", "a"]), True), (pa.table({"a": [1]}), True),
            (pa.record_batch({"a": [1]}), True), (pa.array([1]), False), (pl.Series([1]), False),
            (np.zeros((2, 2)), False), ([[1]], False), (None, False),
        ],
    )  # fmt: skip
    def test_a_frame_has_columns_with_names(self, value, expected):
        assert columns.is_frame(value) is expected

    def test_numbered_columns_are_all_truth_values_or_all_numbers(self):
        columns.check_numbered_columns(pd.DataFrame({0: [1.0], 1: [2]}), "x")
        columns.check_numbered_columns(pd.DataFrame({0: [True], 1: [False]}), "x")
        columns.check_numbered_columns(np.zeros((1, 2)), "x")
        with refused("^x: column 1 holds values of type .*, and columns without names are read as an array of numbers"):
            columns.check_numbered_columns(pd.DataFrame({0: [1.0], 1: ["a"]}), "x")
        with refused("^x: column 1 holds values of type Boolean"):
            columns.check_numbered_columns(pd.DataFrame({0: [1.0], 1: [True]}), "x")

    @pytest.mark.parametrize(
        ("frame", "message"),
        [
            (pl.DataFrame({"a": [[1]], "b": [b"x"], "c": [1]}), "the columns 'a', 'b' hold lists or images"),
            (pl.DataFrame({"*": [1]}), "name is a pattern"),
            (pd.DataFrame({"a": [1], 7: [2]}), "column names must be texts, got 7"),
            (pl.DataFrame({"a": [dt.timedelta(1)]}), "column 'a' holds values of type Duration"),
        ],
    )
    def test_frames_of_other_things_are_refused(self, frame, message):
        with refused(f"^x: .*{message}"):
            read_frame(frame, "x")

    def test_numbers_of_128_bits_are_read_up_to_what_float64_tells_apart(self):
        def wide(*values):
            return pl.DataFrame({"a": pl.Series(values, dtype=pl.Int128), "b": [1] * len(values)})

        frame = read_frame(wide(2**53, -(2**53), None), "x")
        assert frame["a"].to_list() == [2**53, -(2**53), None]
        assert isinstance(frame["a"].dtype, nw.Int64)
        assert isinstance(read_frame(wide(None, None), "x")["a"].dtype, nw.Int64)
        for value in (2**53 + 1, -(2**53) - 1):
            with refused(f"column 'a' holds whole numbers beyond ±2\\^53, .* got {value};"):
                read_frame(wide(value, 0), "x")


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

    def test_infinite_values_are_counted_from_the_first(self):
        with refused(r"^column 'c': infinite values: 2 \(first: row 1, counted from 0\)$"):
            read([0.0, np.inf, -np.inf])
        with refused(r"^column 'c': infinite values: 1 \(first: row 0, counted from 0\)$"):
            read([float("inf"), None], pd)

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

    def test_a_table_is_its_own_encoding_where_it_is_of_numbers_and_none_is_missing(self):
        plain = frame_of(a=[1.0, 2.0], b=[True, False])
        encoder = TableEncoder.fit([plain])
        assert encoder.is_plain
        assert encoder.encode(plain).tolist() == [[1, 1], [2, 0]]
        assert encoder.encode(plain).dtype == np.float64
        assert not TableEncoder.fit([frame_of(a=[1.0, None])]).is_plain
        assert not TableEncoder.fit([frame_of(a=[1.0], b=["x"])]).is_plain
        single = read_frame(pl.DataFrame({"a": [1.0], "b": [2.0]}, schema=dict.fromkeys("ab", pl.Float32)), "x")
        assert TableEncoder.fit([single]).encode(single).dtype == np.float32
        mixed = read_frame(pl.DataFrame({"a": [1.0], "b": [2.0]}, schema={"a": pl.Float32, "b": pl.Float64}), "x")
        assert TableEncoder.fit([mixed]).encode(mixed).dtype == np.float64

    def test_spans_name_the_columns_of_the_encoding(self):
        frame = frame_of(a=[1.0, None], b=["x", "y"], c=[1.0, 2.0])
        encoder = TableEncoder.fit([frame])
        assert encoder.names == ("a", "b", "c")
        assert encoder.spans == {"a": slice(0, 2), "b": slice(2, 4), "c": slice(4, 5)}
        assert encoder.encode(frame).tolist() == [[1, 0, 1, 0, 1], [1, 1, 0, 1, 2]]

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

    def test_the_most_frequent_stay_and_a_missing_one_is_a_category_too(self):
        names = ["z"] * 9 + [None] * 8 + [f"c{i:02}" for i in range(31)] * 2 + ["y"]
        encoder = fit(names)
        assert encoder.categories == (*(f"c{i:02}" for i in range(29)), "z", None)
        assert fit(["b", None, "a"]).categories == ("a", "b", None)

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

    def test_words_stand_for_texts_where_there_are_enough(self):
        texts = [f"{a} {b} {c} number{i}" for i, (a, b, c) in enumerate([("cough", "fever", "pain")] * 40)]
        encoder = fit(texts)
        assert encoder.words is not None
        assert encoder.width == 1 + 2  # three words that occur twice, less one
        encoded = encoder.encode(read([texts[0], None]))
        assert encoded.shape == (2, 3)
        assert encoded[:, 0].tolist() == np.log1p([len(texts[0]), 0]).tolist()
        for unique in ([f"w{i}" for i in range(40)], [f"same w{i}" for i in range(40)]):
            lone = fit(unique)  # no word, or one, occurs twice
            assert (lone.measure, lone.words, lone.width) == ("text", None, 1)
            assert lone.encode(read(["abc"])).tolist() == [[np.log1p(3)]]
        many = fit([f"{' '.join(f'word{(i * 7 + k) % 25}' for k in range(6))} n{i}" for i in range(60)])
        assert many.width == 1 + columns.TEXT_COMPONENTS

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

    def test_columns_that_are_missing_throughout_become_numbers_where_others_are(self):
        encoder = TableEncoder.fit([frame_of(a=[1.0, None], b=["x", "y"])])
        empty = read_frame(pl.DataFrame({"a": pl.Series([None], dtype=pl.Null), "b": [None]}), "x")
        typed = encoder.type_missing(empty)
        assert isinstance(typed["a"].dtype, nw.Float64)
        assert not typed["b"].dtype.is_numeric()
        same = frame_of(a=[1.0], b=["x"])
        assert encoder.type_missing(same) is same
        texts = frame_of(a=["z"], b=["x"])
        assert encoder.type_missing(texts) is texts


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

    def test_rare_categories_and_texts_stay_what_they_are(self):
        names = [f"c{i:02}" for i in range(33)] * 3
        encoder = fit(names)
        x = np.zeros((2, 32))
        x[0, 31] = x[1, 3] = 1
        series = nw.from_native(pl.Series(["mine", "yours"]), series_only=True)
        assert encoder.decode(x, series) == ["mine", "c03"]
        assert columns.ColumnEncoder("c", "text").decode(np.zeros((2, 1)), series) is None
        texts = TableEncoder((columns.ColumnEncoder("c", "text"),))
        frame = frame_of(c=["a", "b"])
        assert texts.decode(np.zeros((2, 1)), frame) is frame


class TestTogether:
    def test_frames_are_joined_in_the_order_of_the_first(self):
        joined = columns.concatenate([frame_of(a=[1], b=["x"]), frame_of(b=["y"], a=[2])])
        assert joined.to_dict(as_series=False) == {"a": [1, 2], "b": ["x", "y"]}
        other = read_frame(pd.DataFrame({"a": [3], "b": ["z"]}), "x")
        joined = columns.concatenate([frame_of(a=[1], b=["x"]), other])
        assert joined.implementation.is_pandas()
        assert joined["a"].to_list() == [1, 3]
        both = columns.concatenate([frame_of(a=[1], b=["x"]), frame_of(a=[2], b=["y"])])
        assert both.implementation.is_polars()

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

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            ("a", "these lack 'b'$"), ("abc", r"these have 'c' besides \(leave them out"),
            ("ac", r"these lack 'b' and have 'c' besides \(leave them out"), ("ba", None),
        ],
    )  # fmt: skip
    def test_columns_are_just_those_that_are_required(self, names, message):
        frame = frame_of(**{name: [1] for name in names})
        if message is None:
            assert columns.match_columns(frame, "ab", "x").columns == ["a", "b"]
            return
        with refused(f"^x: the columns of the other records are needed; {message}"):
            columns.match_columns(frame, "ab", "x")
        with refused("^x: the columns that the target was fitted on are needed; "):
            columns.match_columns(frame, "ab", "x", required_by_model=True)

    def test_names_are_found_in_any_order_and_listed_up_to_twenty(self):
        assert columns.find_names(["ab", "cd", "dc"], "dc") == ("c", "d")
        assert columns.find_names(["ab"], "abc") == ()
        assert columns.format_names("ab") == "'a', 'b'"
        names = [f"c{i}" for i in range(21)]
        assert columns.format_names(names[:20]) == ", ".join(map(repr, names[:20]))
        assert columns.format_names(names) == ", ".join(map(repr, names[:20])) + ", … (21 in all)"


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
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (None, "missing"), (NAN, "missing"), (1.0, "1"), (0.12345678, "0.123457"), (3, "3"), (True, "True"),
            (NOON, "2020-01-31 12:00:00"), (dt.datetime(2020, 1, 31), "2020-01-31"), (DAY, "2020-01-31"),
            (dt.datetime(2020, 1, 31, tzinfo=dt.UTC), "2020-01-31 00:00:00+00:00"), ("a", "a"),
        ],
    )  # fmt: skip
    def test_a_cell_is_short(self, value, text):
        assert columns.format_cell(value) == text

    def test_a_copy_is_of_the_library_that_is_asked_for(self):
        own = pd.DataFrame({"a": [1.0], "b": ["x"]})
        frame = read_frame(own, "x")
        for library in ("own", "pandas"):
            copied = columns.to_library(frame, library)
            assert isinstance(copied, pd.DataFrame)
            copied.loc[0, "a"] = 7.0
            assert own["a"].tolist() == [1.0]
        assert isinstance(columns.to_library(frame, "polars"), pl.DataFrame)
        from_polars = frame_of(a=[1.0], b=["x"])
        assert isinstance(columns.to_library(from_polars, "own"), pl.DataFrame)
        assert isinstance(columns.to_library(from_polars, "pandas"), pd.DataFrame)

    def test_values_keep_their_types_in_polars(self):
        native = pl.DataFrame({"a": [1]})
        assert columns.to_polars(read_frame(native, "x")) is native
        frame = pd.DataFrame({
            "small": np.array([1, 2], np.int8), "single": np.array([1, NAN], np.float32), "double": [1.0, 2.0],
            "kind": pd.Categorical(["u", None]), "text": ["t", None],
        })  # fmt: skip
        found = columns.to_polars(read_frame(frame, "x"))
        assert found.dtypes == [pl.Int8, pl.Float32, pl.Float64, pl.Categorical, pl.String]
        assert found.rows() == [(1, 1.0, 1.0, "u", "t"), (2, None, 2.0, None, None)]

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
