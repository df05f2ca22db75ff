"""Damaged and hostile files: one error of ours that names the file, and nothing else, whatever stands in them."""

import io
import json
import random
import zlib

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import divulge as dv
from divulge import tables, validation
from divulge.datafiles import FileLayout
from divulge.datafiles import read_records as read_records
from divulge.tables import sources

FRAME = pl.DataFrame(
    {
        "t": ["one", "two", None, "one"],
        "n": [1, 2, 3, 4],
        "f": [0.5, np.nan, 1.5, 2.5],
        "b": [True, None, False, True],
    }
)


def content_of(file_type):
    file = io.BytesIO()
    if file_type == "parquet":
        FRAME.write_parquet(file, compression="uncompressed")
    elif file_type == "arrow file":
        FRAME.write_ipc(file)
    else:
        FRAME.write_ipc_stream(file)
    return file.getvalue()


FILE_TYPES = ("parquet", "arrow file", "arrow stream")


def error_of(content):
    """What is said of a file, or nothing where it can be read."""
    try:
        with tables.table_errors("file"):
            tables.read_table(content)
            for _ in tables.scan_table(content).batches({"n": tables.NUMBER, "t": tables.TEXT}):
                pass
    except dv.InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("file_type", FILE_TYPES)
def test_half_a_file_is_refused(file_type, capfd):
    content = content_of(file_type)
    assert error_of(content) == ""
    cuts = {*range(0, len(content) - 9, 29), *range(len(content) - 9, len(content))}
    # A stream that lacks only the mark of its end is whole.
    assert all(error_of(content[:size]) for size in cuts if file_type != "arrow stream" or size < len(content) - 8)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("file_type", FILE_TYPES)
def test_other_bytes_are_read_or_refused(file_type, capfd):
    content = content_of(file_type)
    rng = random.Random(0)
    answers = []
    for _ in range(60):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        answers.append(error_of(bytes(damaged)))
    assert 0 < sum(map(bool, answers)) < len(answers)
    assert capfd.readouterr() == ("", "")


def test_a_page_that_cannot_be_unpacked_is_an_error_that_names_the_file(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"n": np.arange(5000)}).write_parquet(path, compression="zstd")
    content = bytearray(path.read_bytes())
    begin = content.index(b"\x28\xb5\x2f\xfd")
    content[begin : begin + 60] = bytes(60)
    path.write_bytes(content)
    with pytest.raises(dv.InputError, match=r"candidates: .*t\.parquet: damaged or half-written"):
        list(tables.scan_table(path, "candidates").batches({"n": tables.NUMBER}))
    with pytest.raises(dv.InputError, match=r"t\.parquet: damaged or half-written"):
        read_records(path, FileLayout())


def test_checksums_of_pages_are_not_verified_as_the_manual_says():
    """Should polars begin to verify them, docs/security.md is to say so."""
    file = io.BytesIO()
    table = pa.table({"a": list(range(1000))})
    pq.write_table(table, file, write_page_checksum=True, compression="none", use_dictionary=False)
    content = bytearray(file.getvalue())
    content[content.find((5).to_bytes(8, "little"))] = 99
    assert tables.read_table(bytes(content))["a"][5] == 99


def test_a_file_that_unpacks_to_more_than_memory_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": np.zeros(3_000_000)}).write_parquet(path)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(validation, "available_memory", lambda: 30_000_000)
    for read in (tables.read_table, tables.read_parquet):
        with pytest.raises(dv.InputError, match="split the file"):
            read(path)


def test_several_streams_are_one_table(tmp_path):
    for name, frame in {"a": FRAME, "b": FRAME, "c": FRAME.drop("t"), "d": FRAME.with_columns(n=pl.lit("x"))}.items():
        frame.write_ipc_stream(tmp_path / f"{name}.arrow")
    first_file, two, three, four = (tmp_path / f"{name}.arrow" for name in "abcd")
    assert tables.read_table([first_file, two])["n"].to_list() == [1, 2, 3, 4] * 2
    assert tables.read_table([first_file, three])["t"].to_list() == [*FRAME["t"], *[None] * 4]
    with pytest.raises(dv.InputError, match=r"a\.arrow: column 'n' holds numbers here and texts in .*d\.arrow"):
        tables.read_table([first_file, four])
    two.write_bytes(content_of("arrow stream")[:300])
    with pytest.raises(dv.InputError, match=r"b\.arrow: damaged or half-written"):
        tables.read_table([first_file, two])
    with pytest.raises(dv.InputError, match=r"no\.arrow: no such file"):
        tables.read_table([tmp_path / "no.arrow"])


def test_whole_numbers_of_several_streams_are_not_rounded(tmp_path):
    paths = [tmp_path / "a.arrow", tmp_path / "b.arrow"]
    for path, values in zip(paths, ([2**53 + 1], [None, 5]), strict=True):
        pl.DataFrame({"id": values}).write_ipc_stream(path)
    assert tables.read_table(paths)["id"].to_list() == [2**53 + 1, None, 5]


def test_random_csv_is_read_or_refused(capfd):
    rng = random.Random(0)
    intact = b'a,t,n\n1,"x ""q"" y",2.5\n-3,"line\nline",NaN\n,,\n7,plain,1e5\n'
    refused = 0
    for _ in range(300):
        damaged = bytearray(intact)
        for _ in range(rng.choice([1, 2, 5, 20])):
            position = rng.randrange(len(damaged))
            damaged[position : position + rng.randrange(3)] = bytes(
                rng.choice(b'",\n\r;0\x00\xff 1eE.-') for _ in range(2)
            )
        refused += bool(error_of(bytes(damaged)))
    assert 0 < refused < 300
    assert capfd.readouterr() == ("", "")


PANIC = type("PanicException", (BaseException,), {})


@pytest.mark.parametrize(
    "error",
    [
        pl.exceptions.ComputeError("could not parse `secret` as dtype `str` at column 'b'"),
        pl.exceptions.ComputeError("cannot parse 'secret' (string) as Float64"),
        zlib.error("Error -3: 'secret'"),
        PANIC('called `Result::unwrap()` on an `Err` value: FromUtf8Error { bytes: [115, 101], text: "secret" }'),
        PANIC("called `Option::unwrap()` on a `None` value"),
        ValueError('invalid digit in "secret"'),
        ValueError(""),
    ],
)
def test_no_message_quotes_a_file(error):
    with pytest.raises(dv.InputError, match=r"^file: damaged or half-written") as refused, tables.table_errors("file"):
        raise error
    assert "secret" not in str(refused.value)
    assert "()" not in str(refused.value)


def test_types_of_files_that_do_not_go_together_are_refused(tmp_path):
    for name, dtype in {"a": pl.Categorical(), "b": pl.Enum(["u", "v"])}.items():
        pl.DataFrame({"c": pl.Series(["u", "v"], dtype=dtype)}).write_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(dv.InputError, match=r"a\.parquet: .* types that do not go together .*cat and enum"):
        tables.read_table(tmp_path)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_ends_the_process_is_let_through(error):
    with pytest.raises(type(error)), tables.table_errors("file"):
        raise error


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"id": "a", "s": 1}\n\n{"id": "b", "s": 2, "id": "c"}\n', "line 3: the key 'id' occurs twice"),
        ('{"id":"a","s":1}\n{"id":"b","s":2,"\\u0069d":"c"}\n', "line 2: the key 'id' occurs twice"),
        ('{"id":"a","":1,"":2}\n', "line 1: the key '' occurs twice"),
        ('{"id":"a","inner":{"k":1,"k":2}}\n', "line 1: the key 'k' occurs twice"),
        ('{"id":"a","s":1,"id"  :"b"}\n', "line 1: the key 'id' occurs twice"),
        ('{"id":"a","s":1,"id"\t:"b"}\n', "line 1: the key 'id' occurs twice"),
    ],
)
def test_a_key_that_an_object_has_twice_is_refused(tmp_path, lines, message):
    """Python's reader keeps the last value and says nothing, so that a score may be another one."""
    path = tmp_path / "t.jsonl"
    path.write_text(lines)
    with pytest.raises(dv.InputError, match=message):
        tables.read_table(path)


def test_what_looks_like_a_key_within_a_text_is_none(tmp_path):
    texts = ['say "id": x', '"id":', '\\"id\\":', "\\", '\\\\":']
    rows = [{"id": text, "s\\": 1.0} for text in texts]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert tables.read_table(path).to_dicts() == rows


def test_a_stream_is_whole_after_each_of_its_messages_and_nowhere_else():
    """Cut anywhere: the messages as Arrow itself reads them say where it may end."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, pa.schema([("n", pa.int64()), ("t", pa.string())])) as writer:
        for rows in (3, 1):
            writer.write_batch(pa.record_batch({"n": pa.array(range(rows), pa.int64()), "t": ["ab"] * rows}))
    content = sink.getvalue()
    lengths = [len(message.serialize()) for message in pa.ipc.MessageReader.open_stream(content)]
    ends = {0, *np.cumsum(lengths).tolist(), len(content)}
    assert len(ends) == 5
    assert max(ends - {len(content)}) == len(content) - 8  # the mark of the end

    def is_whole(part):
        try:
            sources.check_stream(sources.TableFile.from_source(part))
        except dv.InputError:
            return False
        return True

    assert {size for size in range(len(content) + 1) if is_whole(content[:size])} == ends
    for position in (0, 1, 3, sum(lengths[:1]), sum(lengths[:2]) + 2):  # of the mark with which each message begins
        assert not is_whole(content[:position] + b"\x07" + content[position + 1 :])
