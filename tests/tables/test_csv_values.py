"""Values of CSV files: decimal marks, thousands, truth values, gaps, and rows that do not fit."""

import csv

import polars as pl
import pytest

from divulge import tables
from divulge.errors import InputError
from divulge.tables import delimited
from divulge.tables.sources import TableFile


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n3\n", "line 3 has 1 values, 2 are needed as in the header$"),
        (b"\n\na,b\n\n1,2,3\n", "line 5 has 3 values"),
        (b'a,b\n"x\ny",2\n3\n', "line 4 has 1 values"),
        (
            b"a\n1,2\n",
            "line 2 has 2 values, 1 are needed as in the header; put values that hold commas into quotes$",
        ),
        (b'a,b\n1,2\n"x\n', r"quote is opened and not closed \(the row begins in line 3\)"),
        (b'a,b\n"x"y,1\n', "line 2: a quote is closed before the value ends"),
    ],
)
def test_rows_that_do_not_fit_are_named_by_the_line_in_which_they_begin(content, message):
    limit = csv.field_size_limit()
    with pytest.raises(InputError, match=message):
        tables.read_table(content)
    assert csv.field_size_limit() == limit


def numbers(*batches, separator=";"):
    reader = delimited.NumberReader(separator)
    values = [reader.read(pl.Series("a", batch, dtype=pl.String)).to_list() for batch in batches]
    reader.check()
    return values


def test_numbers_are_read_batch_by_batch_with_one_mark():
    assert numbers(["1", "2,5", None, ""], ["3,25", "4"]) == [[1.0, 2.5, None, None], [3.25, 4.0]]
    assert numbers(["1", " 2.5 "], ["3"]) == [[1.0, 2.5], [3.0]]
    assert numbers(["-1,5e2", "+,5", "7,"]) == [[-150.0, 0.5, 7.0]]
    assert numbers(["1"], ["2,5"]) == [[1.0], [2.5]]


@pytest.mark.parametrize(
    ("batches", "row", "message"),
    [
        ((["1", "2.5"], ["3", "4,5"]), 1, "one decimal mark"),
        ((["1", "2,5"], ["3", "4.5"]), 1, "one decimal mark"),
        ((["2,5"], [None, "3", "4.5", "5.5"]), 2, "one decimal mark"),
        ((["1", "x", "y"],), 1, "a number"),
        ((["1,5", "2", "x"],), 2, "a number"),
        ((["1,5"], ["1,2,3"]), 0, "a number"),
    ],
)
def test_the_first_value_that_is_no_number_is_named_by_its_row(batches, row, message):
    with pytest.raises(delimited.BadCell, match=message) as error:
        numbers(*batches)
    assert error.value.row == row


@pytest.mark.parametrize(
    ("values", "ambiguous"),
    [
        (["1,500", "2,250"], True),
        (["1,500", "2,25"], False),
        (["0,500"], False),
        (["12,500"], True),
        (["123,500"], True),
        (["1234,500"], False),
        (["1,5000"], False),
        (["-1,500"], True),
        (["1,500e3"], False),
        (["1500", "2"], False),
    ],
)
def test_three_digits_after_a_comma_may_be_thousands_unless_semicolons_or_another_value_tell(values, ambiguous):
    assert numbers(values, separator=";") == [[float(value.replace(",", ".")) for value in values]]
    if not ambiguous:
        assert numbers(values, separator="\t") == [[float(value.replace(",", ".")) for value in values]]
        return
    with pytest.raises(InputError, match=f"^'{values[0]}' may be"):
        numbers(values, separator="\t")
    assert numbers([*values], ["0,5"], separator="\t")[0] == [float(value.replace(",", ".")) for value in values]
    with pytest.raises(InputError, match=f"^'{values[0]}' may be"):  # the first of them is shown
        numbers(values, ["9,999"], separator="\t")


@pytest.mark.parametrize(
    ("values", "dtype", "read"),
    [
        (["true", "FALSE", ""], pl.Boolean, [True, False, None]),
        (["true", "1"], pl.String, ["true", "1"]),
        (["TRUE", "True", "false"], pl.Boolean, [True, True, False]),
        (["tRUE"], pl.String, ["tRUE"]),
        (["1", "-2", "+3", ""], pl.Int64, [1, -2, 3, None]),
        (["9223372036854775807"], pl.Int64, [2**63 - 1]),
        (["9223372036854775808", "1"], pl.String, ["9223372036854775808", "1"]),
        (["1", "2.5"], pl.Float64, [1.0, 2.5]),
        (["1,5", "2"], pl.Float64, [1.5, 2.0]),
        (["1", "x"], pl.String, ["1", "x"]),
        (["", ""], pl.String, [None, None]),
        (["1", "NA"], pl.String, ["1", "NA"]),
    ],
)
def test_a_column_is_what_all_of_its_values_are(values, dtype, read):
    column = delimited.infer_column(pl.Series("a", values), ";")
    assert (column.name, column.dtype, column.to_list()) == ("a", dtype, read)


@pytest.mark.parametrize("word", delimited.MISSING)
def test_words_for_a_gap_are_gaps_where_gaps_were_asked_for(word):
    texts = pl.Series("a", ["1", word, "2"])
    assert delimited.infer_column(texts, ",", with_gaps=True).to_list() == [1, None, 2]
    plain = delimited.infer_column(texts, ",")
    assert plain.dtype == (pl.Int64 if word == "" else pl.Float64 if word.lower().lstrip("-") == "nan" else pl.String)


def test_names_that_repeat_are_told_apart_by_their_place():
    file = TableFile.from_source(b"")
    assert delimited.DelimitedFile(file, ",", ("a", "b", "a")).unique_names == ["a\0000", "b", "a\0002"]
    assert delimited.DelimitedFile(file, ",", ("a", "b")).unique_names == ["a", "b"]
