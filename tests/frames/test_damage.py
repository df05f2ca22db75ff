"""Damaged and hostile files: an error of ours, and nothing else, whatever stands in them.

Arrow's readers end the process where they meet the impossible in the middle of a file: every file here that is opened
without the trial that `divulge.frames.trial` makes of it would end the tests.
"""

import io
import pathlib
import random
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from arro3 import io as readers

import divulge as dv
from divulge import checks, frames, store
from divulge.datafiles import FileLayout
from divulge.datafiles import read as read_records
from divulge.frames import trial

FRAME = frames.Frame(
    {
        "t": np.array(["one", "two", None, "one"], object),
        "n": np.array([1, 2, 3, 4]),
        "f": np.array([0.5, np.nan, 1.5, 2.5]),
        "b": np.array([True, None, False, True], object),
    }
)


def parquet():
    file = io.BytesIO()
    readers.write_parquet(FRAME.table(), file, compression="uncompressed")
    return file.getvalue()


def stream():
    file = io.BytesIO()
    readers.write_ipc_stream(FRAME.table(), file)
    return file.getvalue()


FILES = {"parquet": (parquet(), frames.parquet), "ipc": (stream(), frames.ipc_stream)}


def said(read, content):
    """What is said of a file, or nothing where it can be read."""
    try:
        with store.tables("file"):
            read(io.BytesIO(content))
    except dv.InputError as error:
        answer = str(error)
    else:
        answer = ""
    assert not answer or answer.startswith("file: damaged or half-written (")
    return answer


@pytest.mark.parametrize("kind", FILES)
def test_half_a_file_is_refused(kind, capfd):
    content, read = FILES[kind]
    assert said(read, content) == ""
    cuts = {*range(0, len(content) - 9, 29), *range(len(content) - 9, len(content))}
    # A stream that lacks only the mark of its end is whole.
    assert all(said(read, content[:cut]) for cut in cuts if kind == "parquet" or cut < len(content) - 8)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", FILES)
def test_other_bytes_are_read_or_refused(kind, capfd):
    content, read = FILES[kind]
    rng = random.Random(0)
    answers = []
    for _ in range(150):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        answers.append(said(read, bytes(damaged)))
    assert 0 < sum(map(bool, answers)) < len(answers)
    assert capfd.readouterr() == ("", "")


def deadly(content, kind):
    """A damaged copy that ends the process that reads it."""
    rng = random.Random(1)
    while True:
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] = rng.choice([0, 0x7F, 0xFF])
        try:
            trial.size(io.BytesIO(bytes(damaged)), kind)
        except ValueError as error:
            if str(error) == "the reader cannot go on":
                return bytes(damaged)


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_ends_its_reader_ends_nothing_else(kind, tmp_path):
    content, read = FILES[kind]
    damaged = deadly(content, kind)
    assert said(read, damaged) == "file: damaged or half-written (the reader cannot go on)"
    path = tmp_path / "t.parquet"
    path.write_bytes(damaged)
    code = f"from arro3 import io; io.read_{'ipc_stream' if kind == 'ipc' else 'parquet'}({str(path)!r}).read_all()"
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert alone.returncode not in (0, 1)
    if kind == "parquet":
        with pytest.raises(ValueError, match="cannot go on"):
            frames.Scan(path).schema()
        with pytest.raises(dv.InputError, match="the reader cannot go on"):
            read_records(path, FileLayout())


def test_a_file_is_tried_once_until_it_changes(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    path.write_bytes(parquet())
    runs = []
    run = subprocess.run
    monkeypatch.setattr(trial.subprocess, "run", lambda *args, **more: runs.append(1) or run(*args, **more))
    assert frames.parquet(path)["n"].tolist() == frames.parquet(path)["n"].tolist() == [1, 2, 3, 4]
    assert len(runs) == 1
    path.write_bytes(b"PAR1" + bytes(40) + b"PAR1")
    with pytest.raises(ValueError, match=r"\S"):
        frames.parquet(path)
    assert len(runs) == 2


def test_without_processes_files_are_read_untried(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(trial.subprocess, "run", None)
    assert frames.parquet(io.BytesIO(parquet()))["n"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("program", ["/nonexistent", "/bin/true", "/bin/false"])
def test_where_no_python_starts_files_are_read_untried(program, monkeypatch):
    monkeypatch.setattr(sys, "executable", program)
    assert frames.parquet(io.BytesIO(parquet()))["n"].tolist() == [1, 2, 3, 4]


def test_places_of_modules_may_be_no_texts(monkeypatch):
    monkeypatch.setattr(sys, "path", [pathlib.Path("elsewhere"), *sys.path])
    assert trial.size(io.BytesIO(parquet()), "parquet") > 0


def test_the_trial_takes_nothing_from_the_folder_it_is_started_in(tmp_path, monkeypatch):
    for name in ("arro3.py", "io.py", "sitecustomize.py"):
        (tmp_path / name).write_text("raise SystemExit(0)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    with pytest.raises(ValueError, match="Unexpected EOF"):
        frames.parquet(io.BytesIO(b"PAR1" + bytes(40) + b"PAR1"))


def test_a_file_that_unpacks_to_more_than_memory_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": np.zeros(3_000_000)}).write_parquet(path)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(checks.sizes, "available", lambda: 30_000_000)
    with pytest.raises(dv.InputError, match="split the file"):
        frames.parquet(path)


def test_several_streams_have_the_same_columns(tmp_path):
    for name, frame in {"a": FRAME, "b": FRAME, "c": FRAME.drop(["t"])}.items():
        readers.write_ipc_stream(frame.table(), tmp_path / f"{name}.arrow")
    one, two, three = (tmp_path / f"{name}.arrow" for name in "abc")
    assert frames.ipc_streams([one, two])["n"].tolist() == [1, 2, 3, 4] * 2
    with pytest.raises(dv.InputError, match=r"c\.arrow: the columns of a\.arrow are needed"):
        frames.ipc_streams([one, three])
    two.write_bytes(stream()[:300])
    with pytest.raises(dv.InputError, match=r"b\.arrow: damaged or half-written"):
        frames.ipc_streams([one, two])
    with pytest.raises(dv.InputError, match=r"no\.arrow: cannot be read \(No such file"):
        frames.ipc_streams([tmp_path / "no.arrow"])


def test_whole_numbers_of_several_streams_are_not_rounded(tmp_path):
    paths = [tmp_path / "a.arrow", tmp_path / "b.arrow"]
    for path, values in zip(paths, ([2**53 + 1], [None, 5]), strict=True):
        readers.write_ipc_stream(pl.DataFrame({"id": values}), path)
    assert frames.ipc_streams(paths)["id"].tolist() == [2**53 + 1, None, 5]


def test_random_csv_is_read_or_refused(capfd):
    rng = random.Random(0)
    whole = b'a,b,c\n1,"x ""q"" y",2.5\n-3,"line\nline",NaN\n,,\n7,plain,1e5\n'
    refused = 0
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 2, 5, 20])):
            at = rng.randrange(len(damaged))
            damaged[at : at + rng.randrange(3)] = bytes(rng.choice(b'",\n\r;0\x00\xff 1eE.-') for _ in range(2))
        refused += bool(_csv(bytes(damaged)))
    assert 0 < refused < 3000
    assert capfd.readouterr() == ("", "")


def _csv(content):
    try:
        with store.tables("file"):
            frames.csv(io.BytesIO(content))
    except dv.InputError as error:
        return str(error)
    return ""


PANIC = type("PanicException", (BaseException,), {})


@pytest.mark.parametrize(
    "error",
    [
        Exception("Csv error: Error while parsing value 'secret' as type 'Int64' for column 0. Row data: '[secret]'"),
        Exception("Parser error: Error while parsing value secret as type Int64"),
        PANIC('called `Result::unwrap()` on an `Err` value: FromUtf8Error { bytes: [115, 101], text: "secret" }'),
        PANIC("called `Option::unwrap()` on a `None` value"),
        ValueError('invalid digit in "secret"'),
        ValueError(""),
    ],
)
def test_no_message_quotes_a_file(error):
    with pytest.raises(dv.InputError, match=r"^file: damaged or half-written") as refused, store.tables("file"):
        raise error
    assert "secret" not in str(refused.value)
    assert "()" not in str(refused.value)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_ends_the_process_is_let_through(error):
    with pytest.raises(type(error)), store.tables("file"):
        raise error
