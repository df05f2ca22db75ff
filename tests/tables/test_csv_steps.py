"""Steps of reading CSV, one at a time, against rules that are written down again: bytes, quotes, marks, gaps."""

import csv
import io
import itertools

import polars as pl
import pytest

from divulge.errors import InputError
from divulge.tables import delimited, sources, table
from divulge.tables.sources import TableFile


def encoding_of(content):
    return delimited._find_encoding(TableFile.from_source(content), "")


@pytest.mark.parametrize(
    ("content", "encoding", "mark"),
    [
        (b"a,b\n1,2\n", "utf-8", 0),
        (b"\xef\xbb\xbfa,b\n", "utf-8", 3),
        (b"\xff\xfea\0,\0", "utf-16-le", 2),
        (b"\xfe\xff\0a\0,", "utf-16-be", 2),
        (b"a\0,\0b\0", "utf-16-le", 0),
        (b"\0a\0,\0b", "utf-16-be", 0),
        (b"a,\0b", "utf-8", 0),  # one byte of zero alone makes no pairs of bytes
        (b"\0a,b", "utf-8", 0),
        (b"a\n" + b"letters \xe9 and more\n", "cp1252", 0),
        (b"a", "utf-8", 0),
        (b"", "utf-8", 0),
    ],
)
def test_the_first_bytes_tell_the_encoding_and_how_many_of_them_are_a_mark(content, encoding, mark):
    assert encoding_of(content) == (encoding, mark)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"\xef\xbb\xbfa\nletter \xe9\n", 2),  # a mark of UTF-8 before what is none
        (b"a\nb\nc \xe9 and \x01\n", 3),
        (b"a\n\xc3\xa9 beside \xe9 \n", 2),
        (b"\x81 is no sign of code page 1252\n", 1),
        (b"a\n" + b"\xe9" * 9, 2),
    ],
)
def test_what_is_in_no_known_encoding_is_refused_with_its_first_line(content, line):
    with pytest.raises(InputError, match=f"^line {line} is not UTF-8"):
        encoding_of(content)


@pytest.mark.parametrize("control", range(32))
def test_of_control_signs_only_those_of_texts_stand_in_a_text(control):
    assert delimited._is_western(b"a letter \xe9" + bytes([control])) == (chr(control) in "\t\n\f\r")


@pytest.mark.parametrize(("high", "low", "is_text"), [(1, 2, True), (1, 1, False), (3, 2, False), (49, 50, True)])
def test_a_text_of_the_west_has_more_plain_letters_than_others(high, low, is_text):
    assert delimited._is_western(b"\xe9" * high + b"a" * low) == is_text
    assert delimited._is_western(b"\x80" * high + b"a" * low) == is_text


@pytest.mark.parametrize("letter", ["é", "日", "🎉", "\x80", "\u07ff", "\u0800", "\uffff", "\U0010ffff"])
def test_no_letter_of_utf8_stands_in_a_text_of_another_encoding(letter):
    block = b"plain letters " + letter.encode() + b" and others"
    assert not delimited._is_western(block)


def header_of(content, skipped=0):
    return delimited._read_header(TableFile.from_source(content), "", "utf-8", skipped)


@pytest.mark.parametrize(
    ("content", "header"),
    [
        (b"a,b\n1,2\n", "a,b\n"),
        (b"\n\r\n\na,b\r\n1\n", "a,b\r\n"),
        (b'"a\nb",c\n1,2\n', '"a\nb",c\n'),
        (b'"a""\n\n",c\n1,2\n', '"a""\n\n",c\n'),
        (b'"a\nb', '"a\nb'),
        (b"a", "a"),
    ],
)
def test_a_header_is_the_first_line_with_signs_and_those_that_its_quotes_go_on_in(content, header):
    assert header_of(content) == header
    assert header_of(b"xyz" + content, 3) == header


def test_a_header_is_read_to_a_limit_and_not_beyond():
    """Short lines too, whose signs were counted again with every line before, which took minutes."""
    for width in (9999, 1):
        endless = b'"' + (b"x" * width + b"\n") * ((3 << 20) // (width + 1))
        assert 1 << 20 <= len(header_of(endless)) <= 1 << 21
    assert len(header_of(b"x" * (3 << 20))) <= 1 << 21


def naive_separator(header):
    def count(sign):
        quoted, names = False, 1
        for letter in header.rstrip("\r\n"):
            quoted ^= letter == '"'
            names += letter == sign and not quoted
        return names

    return max(",;\t|", key=count)  # the first of equals: a comma where none cuts


@pytest.mark.parametrize(
    "header", ["a", "a;b", "a;b,c", "a,b;c|d|e", '"a;b;c",d', 'a\tb;"c;d;e"', "a|b\n", "a;b;c,d\r\n", "a,b\tc\td"]
)
def test_the_separator_is_the_sign_that_cuts_into_most_names(header):
    assert delimited._find_separator(header) == naive_separator(header)


def test_a_sign_by_which_a_quote_ends_within_a_name_is_not_the_separator():
    assert delimited._find_separator('"a";"b";c,d,e,f') == ";"  # by commas the quote ends within a name
    assert delimited._find_separator('"a",b;c;d;e') == ","


@pytest.mark.parametrize("block", [1, 3, 1 << 20])
def test_regular_files_are_those_whose_every_line_has_so_many_values(monkeypatch, block):
    """All files of up to five signs, against csv, which reads what is regular as lines of so many values."""
    monkeypatch.setattr(sources, "_BLOCK", block)
    n_regular = 0
    for n in range(6):
        for signs in itertools.product('x,"\n', repeat=n):
            content = "a,b\n" + "".join(signs)
            regular = delimited._is_regular(io.BytesIO(content.encode()), ",", 2)
            lines = content.split("\n") if not content.endswith("\n") else content[:-1].split("\n")
            plain = '"' not in content
            if plain:
                assert regular == all(line.count(",") == 1 for line in lines)
            if regular:
                rows = list(csv.reader(io.StringIO(content, newline=""), strict=True))
                assert all(len(row) == 2 for row in rows)
                n_regular += 1
    assert n_regular > 20


@pytest.mark.parametrize(
    ("content", "columns", "regular"),
    [
        (b'a,b\n"x","y"\n', 2, True),
        (b'a,b\n"x\ny",z\n', 2, True),
        (b'a,b\n"x ""y""",z\n', 2, True),
        (b'a,b\n"x,y",z\n', 2, True),
        (b'a,b\n"x,y"\n', 2, False),
        (b'a,b\nx"y,z\n', 2, False),
        (b'a,b\n"x"y,z\n', 2, False),
        (b'a,b\n"x,y\n', 2, False),
        (b'"a","b"', 2, True),
        (b'"a"', 1, True),
        (b"a,b\r\n1,2\r\n", 2, True),
        (b'a,b\r\n1,"2"\r\n', 2, True),
        (b"a,b\r1,2\r", 2, False),
        (b"\na,b\n", 2, False),
        (b"\r\na,b\r\n", 2, False),
        (b"a,b\n1,2,3\n", 3, False),
        (b"a,b\n1,2", 2, True),
        (b"a,b\n1", 2, False),
    ],
)
def test_which_files_are_regular(content, columns, regular):
    assert delimited._is_regular(io.BytesIO(content), ",", columns) == regular
    assert not delimited._is_regular(io.BytesIO(content.replace(b",", "§".encode())), "§", columns)


def rows_of(content, separator=",", columns=2):
    text = io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="")
    return [list(row) for row in delimited._checked_rows(text, separator, columns)]


def test_empty_lines_are_rows_of_one_column_alone_and_only_below_the_header():
    assert rows_of(b"\n\na,b\n\n1,2\n\n") == [["a", "b"], ["1", "2"]]
    assert rows_of(b"\n\na\n\n1\n\n", columns=1) == [["a"], [""], ["1"], [""]]


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        (b"a,b\n1,2\n3\n", 2, "^line 3 has 1 values, 2 are needed as in the header$"),
        (b"\n\na,b\n\n1,2,3\n", 2, "^line 5 has 3 values"),
        (b'a,b\n"x\ny",2\n3\n', 2, "^line 4 has 1 values"),
        (
            b"a\n1,2\n",
            1,
            "^line 2 has 2 values, 1 are needed as in the header; put values that hold commas into quotes$",
        ),
        (b'a,b\n1,2\n"x\n', 2, r"quote is opened and not closed \(the row begins in line 3\)"),
        (b'a,b\n"x"y,1\n', 2, "^line 2: a quote is closed before the value ends"),
        (b"a,b\n1,2\n3,\xff\n", 2, r"^line \d cannot be decoded"),
    ],
)
def test_rows_that_do_not_fit_are_named_by_the_line_in_which_they_begin(content, columns, message):
    limit = csv.field_size_limit()
    with pytest.raises(InputError, match=message):
        rows_of(content, columns=columns)
    assert csv.field_size_limit() == limit


def test_cells_longer_than_pythons_limit_are_read():
    cell = "x" * (csv.field_size_limit() + 10)
    assert rows_of(f"a,b\n1,{cell}\n".encode())[1] == ["1", cell]
    assert delimited._LONGEST_CELL == 2**30


def test_quoting_is_advised_by_the_separators_name_where_there_is_one_column():
    hints = [delimited._quoting_hint(1, sign) for sign in ",;\t|:"]
    assert [hint.split("hold ")[1].split(" into")[0] for hint in hints] == [
        "commas", "semicolons", "tabs", "bars", "the separator",
    ]  # fmt: skip
    assert delimited._quoting_hint(2, ",") == ""


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


@pytest.mark.parametrize("bad", [b"a\x01b\n", "日本\n".encode(), b"\x81\n"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_text_of_the_west_is_one_in_all_its_blocks(bad, place, monkeypatch):
    monkeypatch.setattr(sources, "_BLOCK", 4)
    lines = [b"caf\xe9s\n", b"plain\n", b"na\xefve\n"]
    assert encoding_of(b"".join(lines)) == ("cp1252", 0)
    lines.insert(place, bad)
    with pytest.raises(InputError, match=r"is not UTF-8"):
        encoding_of(b"".join(lines))


def test_columns_without_a_value_in_a_part_are_left_to_the_parts_that_have_some():
    first = pl.DataFrame({"a": [1, 2], "b": [None, None], "c": [None, None]}, schema_overrides={"c": pl.String})
    second = pl.DataFrame({"a": [None], "b": [3.5], "c": [None]}, schema_overrides={"a": pl.String, "c": pl.String})
    kept = [frame.columns for frame in table._without_empty([first, second])]
    assert kept == [["a", "c"], ["b", "c"]]  # of "c" nobody knows more
    pairs = [first.select("a", "b"), second.select("a", "b")]
    assert [frame.columns for frame in table._without_empty(pairs)] == [["a"], ["b"]]
    alone = [first.select("a"), second.select("a")]
    assert [frame.columns for frame in table._without_empty(alone)] == [["a"], ["a"]]  # no rows without columns
