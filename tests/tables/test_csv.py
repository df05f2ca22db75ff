"""CSV files: every value read as polars reads it, and what polars would guess at read right or refused."""

import codecs
import csv
import gzip
import io

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import divulge as dv
from divulge import tables
from divulge.tables import sources


def read(content, separator=None, **options):
    frame = tables.read_table(content, separator=separator, **options)
    return {
        name: [np.nan if value is None and frame[name].dtype.is_numeric() else value for value in frame[name]]
        for name in frame.columns
    }


def oracle(content, separator=","):
    frame = pl.read_csv(io.BytesIO(content), separator=separator, infer_schema_length=None)
    return {
        name: [np.nan if value is None and frame[name].dtype.is_numeric() else value for value in frame[name]]
        for name in frame.columns
    }


READ = {
    "whole numbers": b"a,b\n1,-2\n0001,9223372036854775807\n",
    "numbers": b"a\n1\n2.5\n-1e5\n.5\n1.\n1E-3\n",
    "odd numbers": b"a\nNaN\n-0.0\n1e400\n5e-324\n0.1\n",
    "gaps": b"a,b,c\n1,,x\n,2.5,\n",
    "truth": b"a,b\ntrue,True\nfalse,FALSE\n",
    "numbers and texts": b"a\n1\n2\nx\n",
    "numbers and truth": b"a\n1\ntrue\n",
    "dates are texts": b"a,b,c\n2020-01-01,12:30,2020-01-01T10:00:00\n",
    "not quite numbers": b"a,b\n1_000,0x10\n",
    "names of nothing are texts": b"a,b\nnull,NA\nx,y\n",
    "quotes": b'a,b\n"x ""y""","1,5"\n"line\nline",z\n',
    "quoted numbers": b'a\n"1"\n"2"\n',
    "windows": b'a,b\r\n1,"x\r\ny"\r\n2,z\r\n',
    "byte order mark": b"\xef\xbb\xbfa,b\n1,2\n",
    "no line break at the end": b"a,b\n1,x",
    "unicode": "é,日\nü,🎉\n".encode(),
    "spaces in names": b" a , b \n1,2\n",
    "no rows": b"a,b\n",
    "a gap in one column": b"a\n1\n\n2\n\n\n3\n\n",
    "a gap in one column of texts": b'a\n"x\n\ny"\n\nz\n"a\n\nb"\n',
    "a gap in the first row": b"a\r\n\r\n1\r\n",
    "empty lines before one column": b"\n\r\na\n1\n\n3\n",
    "a byte order mark before one column": b"\xef\xbb\xbfa\n1\n\n3\n",
}


@pytest.mark.parametrize("content", READ.values(), ids=READ)
def test_files_are_read_as_polars_reads_them(content):
    want = {name: [value or None for value in values] for name, values in oracle(content).items()}
    got = {name: [value or None for value in values] for name, values in read(content).items()}
    assert repr(got) == repr(want)


def test_a_text_without_letters_is_missing():
    assert read(b'a,b\n"",1\n,2\nx,3\n')["a"] == [None, None, "x"]


def test_whole_numbers_beyond_64_bits_are_texts():
    assert read(b"a\n9223372036854775808\n1\n") == {"a": ["9223372036854775808", "1"]}


def test_a_column_of_texts_is_named():
    assert read(b"a,b\n007,1\n08,2\n", texts=["a"]) == {"a": ["007", "08"], "b": [1, 2]}


def test_columns_are_chosen_and_separated():
    assert read(b"a;b;c\n1;2,5;3\n", ";", columns=["c", "b"]) == {"c": [3], "b": [2.5]}
    assert read(b"a\tb\n1\t2\n", "\t") == {"a": [1], "b": [2]}


def test_names_that_are_wanted_are_different():
    with pytest.raises(dv.InputError, match="different names are needed, got 'a' twice"):
        read(b"a,b,a\n1,2,3\n")
    assert read(b"a,b,,\n1,2,,\n", columns=["b"]) == {"b": [2]}


@pytest.mark.parametrize("content", [b"", b"\n", b"a\0,b\n1,2\n"])
def test_a_file_without_a_header_is_refused(content, capfd):
    with pytest.raises(dv.InputError, match=r"no header|zero in the header"):
        read(content)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "line"), [(b"a,b\nsecret,2,3\n", 2), (b"a,b\n1,2\nsecret\n", 3), (b'a,b\n"x\ny",1\n2\n', 4)]
)
def test_rows_of_other_lengths_are_refused_without_their_content(content, line):
    with pytest.raises(dv.InputError, match=rf"line {line} has \d values, 2 are needed") as error:
        read(content)
    assert "secret" not in str(error.value)


def test_a_compressed_file_is_read(tmp_path):
    content = b'a,b\n1,x\n2,"y\nz"\n'
    pl.read_csv(content).write_csv(tmp_path / "t.csv.zst", compression="zstd")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content))
    (tmp_path / "named as if it were plain.csv").write_bytes(gzip.compress(content))
    for path in tmp_path.iterdir():
        assert tables.read_table(path).to_dict(as_series=False) == {"a": [1, 2], "b": ["x", "y\nz"]}


def test_whole_columns_tell_their_types(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 500 + "x,\n")
    frame = tables.read_table(path)
    assert frame["a"].to_list() == ["1"] * 500 + ["x"]
    assert frame["b"].to_list() == [2] * 500 + [None]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_encodings_and_line_ends_are_found_out(encoding, newline):
    text = newline.join(["id,größe", "007,é", '08,"ü, ß"', ""])
    marks = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
    for mark in {b"", marks.get(encoding, b"")}:
        assert read(mark + text.encode(encoding), texts=["id"]) == {"id": ["007", "08"], "größe": ["é", "ü, ß"]}


def test_a_damaged_letter_is_no_other_encoding():
    with pytest.raises(dv.InputError, match="line 3 is not UTF-8"):
        read("a,b\n1,é€\n2,x\n".encode().replace(b"2,x", b"2,\xff"))


def test_signs_and_spaces_are_no_part_of_numbers():
    assert read(b"a,b\n+1, 1.5\n-2,2\n") == {"a": [1, -2], "b": [1.5, 2]}


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_separators_are_found_out(sign):
    content = sign.join("abc") + "\n" + sign.join(["1", "x y", "2.5"]) + "\n"
    assert read(content.encode()) == {"a": [1], "b": ["x y"], "c": [2.5]}


DECIMALS = {
    "commas": (b"a;b\n0,5;1\n-1,25e3;2\n", [0.5, -1250]),
    "commas and whole numbers": (b"a;b\n0,5;1\n2;2\n", [0.5, 2]),
    "three digits, cut by semicolons": (b"a;b\n1,250;1\n", [1.25]),
    "commas between tabs": (b"a\tb\n1,5\t1\n", [1.5]),
    "quoted commas": (b'a,b\n"0,125",1\n', [0.125]),
}


@pytest.mark.parametrize(("content", "want"), DECIMALS.values(), ids=DECIMALS)
def test_decimal_commas_are_read(content, want):
    assert read(content)["a"] == want
    part = tables.scan_table(content)
    assert [batch["a"].to_list() for batch in part.batches({"a": tables.NUMBER})] == [want]


AMBIGUOUS = {
    "thousands or decimals": (b"a\tb\n1,500\t1\n2,250\t2\n", "'1,500' may be a number with a decimal comma"),
    "both marks": (
        b"a;b\n1,5;1\n2.5;2\n",
        r"row 1 \(the header not counted\): column 'a': one decimal mark in the whole column is needed",
    ),
    "a word": (b"a;b\n1;1\nx;2\n", r"row 2 \(the header not counted\): column 'a': a number is needed, got 'x'"),
    "a long text": (
        b"a;b\n1;1\nsecret letter to nobody;2\n",
        r"row 2 \(the header not counted\): column 'a': .* got a text of 23 characters",
    ),
}


@pytest.mark.parametrize(("content", "message"), AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_numbers_that_could_be_others_are_refused(content, message):
    with pytest.raises(dv.InputError, match=message):
        list(tables.scan_table(content).batches({"a": tables.NUMBER}))
    assert isinstance(read(content)["a"][0], str)


def test_many_columns():
    names = [f"c{i}" for i in range(1000)]
    content = ("\n".join([",".join(names), *(",".join([str(row)] * 1000) for row in range(3))])).encode()
    assert read(content) == {name: [0, 1, 2] for name in names}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from([b"\n", b"\r\n", b'"', b'""', b"a", b"1", b",", b",", b"\n\n", b'"x\ny"', b" "]), max_size=16
    ),
    st.integers(1, 7),
)
@example([b'"', b"\n", b'"', b","], 1)
def test_a_file_is_read_as_python_reads_it_whatever_the_blocks(parts, block):
    content = b"a,b\n" + b"".join(parts)
    try:
        rows = [row for row in csv.reader(io.StringIO(content.decode(), newline=""), strict=True) if row]
        fits = all(len(row) == 2 for row in rows)
    except csv.Error:
        fits = False
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sources, "_BLOCK", block)
        try:
            result = tables.scan_table(content).collect(texts=["a", "b"])
        except dv.InputError:
            assert not fits
            return
    assert fits
    assert result.rows() == [tuple(cell or None for cell in row) for row in rows[1:]]


def test_lines_of_one_column_may_end_in_a_carriage_return():
    assert read(b"a\r1\r\r3\r") == {"a": pytest.approx([1, np.nan, 3], nan_ok=True)}


@pytest.mark.parametrize("content", [b'a\nx\n"y\nz\n', b'a,b\n1,x\n2,"y\n3,z\n', b'a,b\n1,"x', b'a,b\n1,"x""'])
def test_a_quote_that_is_never_closed_is_refused(content, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    for source in (content, path):
        with pytest.raises(dv.InputError, match=r"a quote is opened and not closed \(the row begins in line \d\)"):
            tables.read_table(source)


@pytest.mark.parametrize(
    ("content", "last_value"),
    [
        (b'a,b\n1,5" pipe\n', '5" pipe'),
        (b'a,b\n1,5" pipe\n2,"6"" pipe"\n', '6" pipe'),
        (b'a,b\n1,"x"', "x"),
        (b'a,b\n1,"x""y"\r\n', 'x"y'),
        (b'a\nx\n""', None),
    ],
)
def test_quotes_that_are_closed_or_letters_are_read(content, last_value):
    assert list(read(content).values())[-1][-1] == last_value


def test_digits_of_other_scripts_are_no_numbers():
    assert read("a,b\nx,\u0661\n".encode())["b"] == ["\u0661"]
    with pytest.raises(dv.InputError, match=r"row 1 \(the header not counted\): column 'b': a number is needed"):
        list(tables.scan_table("a,b\nx,\u0661\n".encode()).batches({"b": tables.NUMBER}))


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6)
numbers = st.floats() | st.integers(-(2**63), 2**63 - 1)
cells = st.sampled_from([st.none() | words, st.floats(), st.integers(-(2**63), 2**63 - 1), st.booleans(), numbers])


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 6), st.sampled_from(",;\t|"))
def test_tables_that_polars_writes_are_read(data, n, separator):
    columns = {}
    for name in data.draw(st.lists(words, min_size=1, max_size=4, unique=True)):
        columns[name] = data.draw(st.lists(data.draw(cells), min_size=n, max_size=n))
    assume(not any(name.startswith(("\ufeff", "{")) for name in columns))  # of bytes, "{" begins JSON
    assume(not any(name == "*" or (name.startswith("^") and name.endswith("$")) for name in columns))  # refused
    frame = pl.DataFrame(columns, strict=False)
    content = frame.write_csv(separator=separator).encode()
    want = expected_table(content, frame, separator)
    assert repr(read(content, separator)) == repr(
        {name: [None if value == "" else value for value in want[name]] for name in want}
    )


def expected_table(content, frame, separator):
    """What polars reads, under the names that were written (it keeps quotes doubled in them)."""
    return dict(zip(frame.columns, oracle(content, separator).values(), strict=True))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 6))
def test_tables_that_are_written_polars_reads(data, n):
    columns = {"of which none is missing": np.arange(n)}  # polars takes `""` in a file of one column for a text
    for name in data.draw(st.lists(words, min_size=1, max_size=4, unique=True)):
        values = data.draw(st.lists(data.draw(cells), min_size=n, max_size=n))
        columns[name] = np.array(
            values, object if any(value is None or isinstance(value, str) for value in values) else None
        )
    assume(not any(name.startswith("\ufeff") for name in columns))
    file = io.BytesIO()
    tables.write_csv(tables.from_arrays(columns), file)
    polars_frame = pl.DataFrame({name: pl.Series(values.tolist(), strict=False) for name, values in columns.items()})
    want = oracle(polars_frame.write_csv().encode())
    assert repr(oracle(file.getvalue())) == repr(want)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"sep=;\na;b\n1;x\n", [(1, "x")]),  # what Excel writes before the header
        (b'"sep=|"\r\na|b\r\n1|x\r\n', [(1, "x")]),
        ("sep=;\na;b\n1;é\n".encode("utf-16"), [(1, "é")]),
        (b'"Name, first";"Name, last"\n1;x\n', [(1, "x")]),  # signs inside quotes are part of a name
        ("a;b\n1;«café» Ü\n".encode("cp1252"), [(1, "«café» Ü")]),  # é» begins as a letter of UTF-8 does, and is none
        ("a;b\n1;é€\n".encode("cp1252"), [(1, "é€")]),
        ("a\tb\n1\té€\n".encode("cp1252"), [(1, "é€")]),
    ],
)
def test_files_as_office_programs_write_them(content, rows):
    assert tables.read_table(content).rows() == rows


def test_a_column_called_sep_is_a_column():
    assert tables.read_table(b"sep=x,b\n1,2\n").columns == ["sep=x", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04 and more", "an Excel file or a ZIP archive"),
        (b"BZh91AY&SY and more", "packed by bzip2"),
        (b"FEA1 and more", "Feather of version 1"),
    ],
)
def test_files_of_other_kinds_are_named(content, message, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(dv.InputError, match=message):
        tables.read_table(tmp_path / "t.csv")


def test_names_of_other_files_are_said(tmp_path):
    (tmp_path / "t.json").write_text('{"a": 1}\n')
    with pytest.raises(dv.InputError, match=r"JSON lines are named \.jsonl"):
        tables.read_table(tmp_path / "t.json")
    (tmp_path / "t.jsonl").write_text('[{"a": 1},\n{"a": 2}]')
    with pytest.raises(dv.InputError, match="one array holds everything"):
        tables.read_table(tmp_path / "t.jsonl")


def test_a_packed_file_in_another_encoding_is_said(tmp_path):
    with pa.output_stream(str(tmp_path / "t.csv.zst"), compression="zstd") as out:
        out.write("a\né\n".encode("cp1252"))
    with pytest.raises(dv.InputError, match="not UTF-8; unpack the file"):
        tables.read_table(tmp_path / "t.csv.zst")
