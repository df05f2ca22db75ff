"""CSV files: read as polars reads them, and written so that polars reads the same."""

import gzip
import io

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import divulge as dv
from divulge import frames, store
from divulge.frames import Frame, Scan
from divulge.frames.blank_lines import Filled


def read(content, *more, **options):
    read = frames.csv(io.BytesIO(content), *more, **options)
    return {name: values.tolist() for name, values in read.columns.items()}


def oracle(content, separator=","):
    frame = pl.read_csv(io.BytesIO(content), separator=separator, infer_schema_length=None)
    return {name: frame[name].to_numpy().tolist() for name in frame.columns}


READ = {
    "whole numbers": b"a,b\n1,-2\n0001,9223372036854775807\n",
    "numbers": b"a\n1\n2.5\n-1e5\n.5\n1.\n1E-3\n",
    "odd numbers": b"a\nNaN\n-0.0\n1e400\n5e-324\n0.1\n",
    "gaps": b"a,b,c\n1,,x\n,2.5,\n",
    "truth": b"a,b\ntrue,True\nfalse,FALSE\n",
    "numbers and texts": b"a\n1\n2\nx\n",
    "numbers and truth": b"a\n1\ntrue\n",
    "dates are texts": b"a,b,c\n2020-01-01,12:30,2020-01-01T10:00:00\n",
    "not quite numbers": b"a,b,c,d\n+1, 1,1_000,0x10\n",
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
    assert read(b"a,b\n007,1\n08,2\n", texts="a") == {"a": ["007", "08"], "b": [1, 2]}


def test_columns_are_chosen_and_separated():
    assert read(b"a;b;c\n1;2,5;3\n", ";", names=["c", "b"]) == {"c": [3], "b": ["2,5"]}
    assert read(b"a\tb\n1\t2\n", "\t") == {"a": [1], "b": [2]}
    with pytest.raises(KeyError):
        read(b"a,b\n1,2\n", names=["c"])


def test_names_that_are_wanted_are_different():
    with pytest.raises(dv.InputError, match="different names are needed, got 'a' twice"):
        read(b"a,b,a\n1,2,3\n")
    assert read(b"a,b,,\n1,2,,\n", names=["b"]) == {"b": [2]}


@pytest.mark.parametrize("content", [b"", b"\n", b"a\0,b\n1,2\n", "a,b\n1,2\n".encode("utf-16")])
def test_a_file_without_a_header_is_refused(content, capfd):
    with pytest.raises(Exception, match=r"no header|zero in the header|invalid utf-8"):
        read(content)
    assert capfd.readouterr().err == ""


def test_rows_of_other_lengths_are_refused_without_their_content(tmp_path):
    with pytest.raises(Exception, match="line 2") as said:
        read(b"a,b\nsecret,2,3\n")
    assert "secret" not in str(said.value)


def test_a_compressed_file_is_read(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,x\n"))
    assert frames.csv(path)["a"].tolist() == [1]
    assert [piece["b"].tolist() for piece in Scan(path, ",").frames()] == [["x"]]
    assert frames.header(path, ",") == ["a", "b"]


def test_a_scan_knows_all_values_before_the_first(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 500 + "x,\n")
    pieces = list(Scan(path, ",").frames(size=100))
    assert max(map(len, pieces)) <= 100
    whole = frames.concat(pieces)
    assert whole["a"].tolist() == ["1"] * 500 + ["x"]
    assert np.isnan(whole["b"][-1])


def test_many_columns():
    names = [f"c{i}" for i in range(3000)]
    content = ("\n".join([",".join(names), *(",".join([str(row)] * 3000) for row in range(3))])).encode()
    assert read(content) == {name: [0, 1, 2] for name in names}


def plain_filled(content):
    """Empty lines outside of quotes as `""`, by reading one letter after the other, from the header on."""
    out, quoted, start, rest = b"", False, True, content
    while rest:
        end = next((end for end in (b"\r\n", b"\n", b"\r") if rest.startswith(end)), b"")
        if end and start and not quoted:
            out, rest = out + b'""\n', rest[len(end) :]
            continue
        if quoted and rest.startswith(b'""'):
            out, rest, start = out + b'""', rest[2:], False
            continue
        if rest[:1] == b'"' and (quoted or start):
            quoted = not quoted
        start = bool(end)
        out, rest = out + (end or rest[:1]), rest[len(end) or 1 :]
    return out


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b'"', b'""', b"a", b"1,", b"\n\n"]), max_size=14),
    st.integers(1, 5),
)
def test_empty_lines_are_filled_as_letter_by_letter(parts, size):
    content = b"a\n" + b"".join(parts)
    file, got = Filled(io.BytesIO(content)), b""
    while piece := file.read(size):
        assert len(piece) <= size
        got += piece
    assert got == b"a\n" + plain_filled(content.removeprefix(b"a\n"))


def test_lines_of_one_column_may_end_in_a_carriage_return():
    assert read(b"a\r1\r\r3\r") == {"a": pytest.approx([1, np.nan, 3], nan_ok=True)}


@pytest.mark.parametrize("content", [b'a\nx\n"y\nz\n', b'a,b\n1,x\n2,"y\n3,z\n', b'a,b\n1,"x', b'a,b\n1,"x""'])
def test_a_quote_that_is_never_closed_is_refused(content, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="a quote is opened and not closed"):
        read(content)
    with pytest.raises(ValueError, match="a quote is opened and not closed"):
        list(Scan(path, ",").frames(size=1))


@pytest.mark.parametrize(
    ("content", "last"),
    [(b'a,b\n1,5" pipe\n', '5" pipe'), (b'a,b\n1,"x"', "x"), (b'a,b\n1,"x""y"\r\n', 'x"y'), (b'a\nx\n""', None)],
)
def test_quotes_that_are_closed_or_letters_are_read(content, last):
    assert list(read(content).values())[-1][-1] == last


def test_digits_of_other_scripts_are_refused_in_words():
    with pytest.raises(dv.InputError, match=r"t: .*\(a value in column 2 that looks like Int64 and is none\)"):  # noqa: SIM117
        with store.tables("t"):
            read("a,b\nx,\u0661\n".encode())


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6)
numbers = st.floats() | st.integers(-(2**63), 2**63 - 1)
cells = st.sampled_from([st.none() | words, st.floats(), st.integers(-(2**63), 2**63 - 1), st.booleans(), numbers])


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 6), st.sampled_from(",;\t|"))
def test_tables_that_polars_writes_are_read(data, n, separator):
    columns = {}
    for name in data.draw(st.lists(words, min_size=1, max_size=4, unique=True)):
        columns[name] = data.draw(st.lists(data.draw(cells), min_size=n, max_size=n))
    assume(not any(name.startswith("\ufeff") for name in columns))
    frame = pl.DataFrame(columns, strict=False)
    content = frame.write_csv(separator=separator).encode()
    assert repr(read(content, separator)) == repr(wanted(content, frame, separator))


def wanted(content, frame, separator):
    """What polars reads, under the names that were written (it keeps quotes doubled in them)."""
    return dict(zip(frame.columns, oracle(content, separator).values(), strict=True))


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 6))
def test_tables_that_are_written_polars_reads(data, n):
    columns = {"of which none is missing": np.arange(n)}  # polars takes `""` in a file of one column for a text
    for name in data.draw(st.lists(words, min_size=1, max_size=4, unique=True)):
        values = data.draw(st.lists(data.draw(cells), min_size=n, max_size=n))
        columns[name] = np.array(values, object if any(one is None or isinstance(one, str) for one in values) else None)
    assume(not any(name.startswith("\ufeff") for name in columns))
    file = io.BytesIO()
    frames.write_csv(Frame(columns), file)
    theirs = pl.DataFrame({name: pl.Series(values.tolist(), strict=False) for name, values in columns.items()})
    want = oracle(theirs.write_csv().encode())
    assert repr(oracle(file.getvalue())) == repr(want)
