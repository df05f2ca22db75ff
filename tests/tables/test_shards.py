"""Folders of many small files: the same rows in the same order as one file, and errors that name the one at fault."""

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge import cli, tables
from divulge.tables import NUMBER, TEXT

ROWS = 1000
WRITE = {
    ".parquet": pl.DataFrame.write_parquet,
    ".arrow": pl.DataFrame.write_ipc,
    ".csv": pl.DataFrame.write_csv,
    ".jsonl": pl.DataFrame.write_ndjson,
}
TYPES = {"id": TEXT, "score": NUMBER, "text": TEXT}


def frame():
    rng = np.random.default_rng(0)
    gaps = pl.Series(rng.random(ROWS) < 0.1)
    return pl.DataFrame(
        {
            "id": [f"{i:03d}" for i in range(ROWS)],
            "score": pl.Series(rng.normal(size=ROWS)).set(gaps, None),
            "text": [f"document {i % 700}" for i in range(ROWS)],
        }
    )


def write_shards(folder, ending, sizes, table):
    folder.mkdir()
    start = 0
    for number, size in enumerate(sizes):
        WRITE[ending](table[start : start + size], folder / f"{number:03d}{ending}")
        start += size
    return folder


def joined(table, size):
    batches = list(table.batches(TYPES, size))
    assert all(len(batch) == size for batch in batches[:-1])
    return pl.concat(batches)


@pytest.mark.parametrize(
    ("ending", "sizes"),
    [(".parquet", [50] * 20), (".parquet", [0, 1, 499, 500]), (".arrow", [333, 0, 667]), (".csv", [0, 1, 499, 500]),
     (".jsonl", [333, 667])],
)  # fmt: skip
def test_shards_are_the_rows_of_one_file(tmp_path, ending, sizes):
    table = tables.scan_table(write_shards(tmp_path / "shards", ending, sizes, frame()))
    for size in (64, 5000):
        assert joined(table, size).equals(frame())
    assert table.collect(texts=["id"]).equals(frame())
    rows = [0, 1, 332, 333, 999]
    ids = {row: {"id": f"{row:03d}", "text": f"document {row % 700}"} for row in rows}
    assert table.take(rows, {"id": TEXT, "text": TEXT}) == ids
    assert table.has_rows()


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_files_of_other_columns_in_between_keep_their_place(tmp_path, ending):
    parts = [frame()[i : i + 100] for i in range(0, ROWS, 100)]
    parts[3] = parts[3].drop("text")
    parts[4] = parts[4].select("text", "score", "id")
    parts[7] = parts[7].cast({"score": pl.Float32})
    parts[8] = parts[8].cast({"id": pl.Categorical})
    folder = tmp_path / "shards"
    folder.mkdir()
    for number, part in enumerate(parts):
        WRITE[ending](part, folder / f"{number}{ending}")
    result = joined(tables.scan_table(folder), 64)
    expected = pl.concat([part.cast({"id": pl.String, "score": pl.Float64}) for part in parts], how="diagonal")
    assert result.equals(expected.select(result.columns))


READ = {
    "batches": lambda table: joined(table, 64),
    "collect": lambda table: table.collect(),
    "take": lambda table: table.take([650], {"text": TEXT, "id": TEXT}),
}


@pytest.mark.parametrize("read", READ)
def test_a_damaged_file_among_many_is_named(tmp_path, capfd, read):
    folder = write_shards(tmp_path / "shards", ".parquet", [100] * 10, frame())
    path = folder / "006.parquet"
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)  # pages, not the description of the columns at the end
    path.write_bytes(content)
    table = tables.scan_table(folder)
    with pytest.raises(dv.InputError, match=r"006\.parquet: damaged or half-written"):
        READ[read](table)
    assert "panicked" not in capfd.readouterr().err


def test_a_column_of_another_type_in_one_file_is_an_error_that_names_it(tmp_path):
    folder = write_shards(tmp_path / "shards", ".parquet", [100] * 10, frame())
    frame()[600:700].with_columns(score=pl.lit("high")).write_parquet(folder / "006.parquet")
    with pytest.raises(dv.InputError, match=r"006\.parquet: column 'score' is text, not numeric"):
        joined(tables.scan_table(folder), 64)


def test_a_selection_does_not_depend_on_the_sharding(tmp_path):
    ending, rng = ".parquet", np.random.default_rng(1)
    scores = np.append(rng.normal(3, 1, 100), rng.normal(size=900))
    candidates = frame().with_columns(score=pl.Series(scores), text=pl.format("text {}", pl.int_range(ROWS)))
    known_texts = pl.DataFrame({"id": [f"k{i}" for i in range(500)], "score": rng.normal(size=500)})
    known_texts = known_texts.with_columns(text=pl.format("other {}", pl.int_range(500)))
    WRITE[ending](known_texts, tmp_path / f"known{ending}")
    for name, sizes in (("one", [ROWS]), ("many", [27] * 37 + [1])):
        folder = write_shards(tmp_path / name, ending, sizes, candidates)
        arguments = [
            "identify",
            str(folder),
            "--calibration",
            str(tmp_path / f"known{ending}"),
            "--score",
            "score:high",
        ]
        assert cli.run([*arguments, "--out", str(tmp_path / f"run {name}")]) == 0
    in_one_file, in_shards = (
        pl.read_parquet(tmp_path / f"run {name}" / "selection.parquet") for name in ("one", "many")
    )
    assert in_one_file.equals(in_shards)
    assert in_one_file["selected"].sum() > 0
