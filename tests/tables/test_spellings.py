"""One table in every spelling: the same ids, numbers and missing values in every command that reads it."""

import gzip
import io
import json
import re

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import divulge as dv
from divulge import columns, tables
from divulge.cli import app
from divulge.datafiles import FileLayout, read_records
from divulge.identification import document_scoring
from divulge.tables import ColumnNames

RNG = np.random.default_rng(0)
COUNT = 400
IDS = [f"{row:05d}" for row in range(COUNT - 3)] + ["1e5", "9007199254740993", "1.50"]
LOSS = np.append(RNG.normal(-3, 1, 100), RNG.normal(size=COUNT - 100)).round(6)
TABLE = pl.DataFrame(
    {
        "Exhibit": IDS,
        "Loss": LOSS,
        "Text": [f'über "{row}",\nand; more' for row in range(COUNT)],
        "Class": (np.arange(COUNT) % 2).tolist(),
        "seen": [None if row % 7 == 0 else row < 100 for row in range(COUNT)],
    }
)


def decimal_commas(frame):
    return frame.with_columns(pl.col("Loss").cast(pl.String).str.replace(".", ",", literal=True))


def write_saved(frame, folder):
    """As Hugging Face `datasets` saves a data set, in two files."""
    folder.mkdir()
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    for name, part in zip(names, (frame[:150], frame[150:]), strict=True):
        part.write_ipc_stream(folder / name)


def write_shards(frame, folder):
    folder.mkdir()
    frame[:100].write_parquet(folder / "0.parquet")
    frame[100:200].select(reversed(frame.columns)).write_csv(folder / "1.csv")
    frame[200:].write_ndjson(folder / "2.jsonl")


def write_hub(frame, folder):
    """As a data set lies on the hub."""
    (folder / "data").mkdir(parents=True)
    (folder / "README.md").write_text("a card")
    frame.write_parquet(folder / "data" / "train-00000-of-00001.parquet")


SPELLINGS = {
    "csv": ("t.csv", lambda frame, path: frame.write_csv(path)),
    "cp1252 with decimal commas": (
        "t.csv",
        lambda frame, path: path.write_bytes(decimal_commas(frame).write_csv(separator=";").encode("cp1252")),
    ),
    "utf-16 with tabs": (
        "t.tsv",
        lambda frame, path: path.write_bytes(frame.write_csv(separator="\t").encode("utf-16")),
    ),
    "csv with a mark and returns": (
        "t.csv",
        lambda frame, path: path.write_bytes(b"\xef\xbb\xbf" + frame.write_csv(line_terminator="\r\n").encode()),
    ),
    "csv.gz": ("t.csv.gz", lambda frame, path: path.write_bytes(gzip.compress(frame.write_csv().encode()))),
    "csv.zst": ("t.csv.zst", lambda frame, path: frame.write_csv(path, compression="zstd")),
    "parquet": ("t.parquet", lambda frame, path: frame.write_parquet(path)),
    "arrow file": ("t.arrow", lambda frame, path: frame.write_ipc(path)),
    "arrow stream": ("t.arrow", lambda frame, path: frame.write_ipc_stream(path)),
    "json lines": ("t.jsonl", lambda frame, path: frame.write_ndjson(path)),
    "json lines without gaps": (
        "t.ndjson.gz",
        lambda frame, path: path.write_bytes(
            gzip.compress(
                b"\n".join(
                    json.dumps({key: value for key, value in row.items() if value is not None}).encode()
                    for row in frame.to_dicts()
                )
            )
        ),
    ),
    "saved by datasets": ("saved", write_saved),
    "shards": ("shards", write_shards),
    "hub": ("hub", write_hub),
}


@pytest.fixture(params=SPELLINGS)
def spelled(request, tmp_path):
    name, write = SPELLINGS[request.param]
    write(TABLE, tmp_path / name)
    return tmp_path / name


def test_whole_and_in_batches(spelled):
    full_table = tables.read_table(spelled, texts=["Exhibit"])
    assert full_table.select(TABLE.columns).equals(TABLE)
    expected = {"Exhibit": tables.TEXT, "Loss": tables.NUMBER, "Text": tables.TEXT, "seen": tables.TEXT}
    batched = pl.concat(tables.scan_table(spelled).batches(expected, 37))
    assert batched["Exhibit"].to_list() == IDS
    assert batched["Loss"].to_list() == LOSS.tolist()
    assert batched["Text"].to_list() == TABLE["Text"].to_list()
    assert batched["seen"].to_list() == TABLE["seen"].cast(pl.String).to_list()


def test_open_files_and_bytes(spelled):
    if spelled.is_dir():
        return
    content = spelled.read_bytes()
    with spelled.open("rb") as open_file:
        for source in (content, open_file):
            assert tables.read_table(source, texts=["Exhibit"]).select(TABLE.columns).equals(TABLE)


def test_records_of_an_audit(spelled):
    names = ColumnNames(id="Exhibit", label="Class", drop=["Text", "seen"])
    records = read_records(spelled, FileLayout.from_column_names(names))
    assert records.records.ids.tolist() == IDS
    assert records.records.y.tolist() == TABLE["Class"].to_list()
    assert records.records.x[:, 0].tolist() == LOSS.tolist()
    documents = read_records(
        spelled, FileLayout.from_column_names(ColumnNames(id="Exhibit", text="Text", label="Class", group="seen"))
    )
    assert documents.records.x.tolist() == TABLE["Text"].to_list()
    assert documents.group.tolist() == TABLE["seen"].cast(pl.String).to_list()


def test_documents_to_score(spelled, tmp_path):
    count = document_scoring.write_texts([spelled], document_scoring.ScoringOptions("Text", "Exhibit"), tmp_path / "to")
    assert count == COUNT
    written = tables.open_pieces(tmp_path / "to").collect()
    assert written.to_dict(as_series=False) == {"id": IDS, "text": TABLE["Text"].to_list()}


@pytest.mark.parametrize("spelled", ["cp1252 with decimal commas", "json lines without gaps", "shards"], indirect=True)
def test_identification(spelled, tmp_path):
    calibration = pl.DataFrame(
        {"Exhibit": [f"u{row}" for row in range(300)], "Loss": np.random.default_rng(1).normal(size=300)}
    )
    calibration = calibration.with_columns(Text=pl.col("Exhibit"))
    calibration.write_csv(tmp_path / "known.csv")
    options = ["--id", "Exhibit", "--text", "Text", "--score", "Loss:low", "--truth", "seen", "--fdr", "0.1"]
    out = tmp_path / "out"
    result = CliRunner().invoke(
        app, ["identify", str(spelled), "--calibration", str(tmp_path / "known.csv"), *options, "--out", str(out)]
    )
    assert result.exit_code == 0, result.output
    table = pl.read_parquet(out / "selection.parquet")
    want = dv.identify(-LOSS, -calibration["Loss"].to_numpy(), fdr=0.1, method="bh")
    assert table["id"].to_list() == IDS
    assert table["row"].to_list() == list(range(COUNT))
    assert table["score"].to_list() == (-LOSS).tolist()
    assert table["truth"].to_list() == TABLE["seen"].to_list()
    assert table["p"].to_list() == want.p_values.tolist()
    joined = TABLE.with_row_index("row").join(table, left_on=["row", "Exhibit"], right_on=["row", "id"])
    assert len(joined) == COUNT
    content = json.loads((out / "exhibits.json").read_text())
    texts = dict(zip(IDS, TABLE["Text"], strict=True))
    assert content
    assert all(texts[document["id"]] == document["text"] for document in content)


def test_shards_lie_in_the_order_of_their_names_and_hidden_files_are_none(tmp_path):
    for name, value in (("b.csv", "2"), ("a.csv", "1"), (".c.csv", "3")):
        (tmp_path / name).write_text(f"x\n{value}\n")
    assert tables.read_table(tmp_path)["x"].to_list() == [1, 2]


def test_kinds_of_columns_of_several_files_must_agree(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,\n")
    pl.DataFrame({"y": [5], "x": ["two"]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(dv.InputError, match=r"a\.csv: column 'x' holds numbers here and texts in .*b\.parquet"):
        tables.read_table(tmp_path)
    (tmp_path / "b.parquet").unlink()
    (tmp_path / "b.csv").write_text("y,x\n5,\n")
    assert tables.read_table(tmp_path).rows() == [(1, None), (None, 5)]


def test_shards_of_csv_are_read_as_the_one_file_that_they_were_cut_from(tmp_path):
    rows = ["007;1,234;true;", "A1;2,5;no;", "3;;true;x"]
    one_file = tables.read_table(("code;dose;flag;note\n" + "\n".join(rows)).encode())
    for i, row in enumerate(rows):
        (tmp_path / f"{i}.csv").write_text(f"code;dose;flag;note\n{row}\n")
    assert tables.read_table(tmp_path).equals(one_file, null_equal=True)
    assert one_file.rows() == [("007", 1.234, "true", None), ("A1", 2.5, "no", None), ("3", None, "true", "x")]


def test_splits_of_the_hub_are_several_data_sets(tmp_path):
    for split in ("train", "test"):
        TABLE.write_parquet(tmp_path / f"{split}-00000-of-00001.parquet")
    with pytest.raises(dv.InputError, match=r"several data sets \(test, train\)"):
        tables.read_table(tmp_path)


def test_files_called_by_splits_are_several_data_sets(tmp_path):
    for split in ("train", "test"):
        TABLE.write_csv(tmp_path / f"{split}.csv")
    with pytest.raises(dv.InputError, match=r"several data sets \(test, train\)"):
        tables.read_table(tmp_path)
    (tmp_path / "test.csv").unlink()
    assert len(tables.read_table(tmp_path)) == COUNT


def test_folders_inside_a_folder_are_not_read(tmp_path):
    (tmp_path / "year=2020").mkdir()
    TABLE.write_parquet(tmp_path / "year=2020" / "0.parquet")
    with pytest.raises(dv.InputError, match="folders inside it are not read"):
        tables.read_table(tmp_path)


def test_names_that_repeat_in_a_parquet_file_are_said(tmp_path):
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(dv.InputError, match="columns of different names are needed"):
        tables.read_table(tmp_path / "t.parquet")


def test_five_hundred_shards_are_one_table(tmp_path):
    for number in range(500):
        pl.DataFrame({"id": [number], "loss": [float(number)]}).write_ipc(tmp_path / f"{number:04d}.arrow")
    table = tables.scan_table(tmp_path)
    batches = pl.concat(table.batches({"id": tables.TEXT, "loss": tables.NUMBER}))
    assert batches["loss"].to_list() == list(range(500))


def test_persons_are_records(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("Text,who,sex\none,ann,f\ntwo,bob,m\nthree,ann,f\n")
    records = read_records(path, FileLayout.from_column_names(ColumnNames(text="Text", person="who", group="sex")))
    assert records.records.ids.tolist() == ["ann", "bob"]
    assert records.records.x.tolist() == ["one\x1ethree", "two"]
    assert records.group.tolist() == ["f", "m"]
    path.write_text("Text,who\none,\n")
    with pytest.raises(dv.InputError, match=r"data\.person: 1 records have no person"):
        read_records(path, FileLayout.from_column_names(ColumnNames(text="Text", person="who")))


def test_names_of_columns():
    assert ColumnNames.from_options(id="a", text=None, drop=[]).required() == {"id": "a"}
    assert ColumnNames(group="g", drop=["d"]).special() == ["label", "id", "g", "d"]
    with pytest.raises(dv.InputError, match="'a' is named for two things"):
        ColumnNames.from_options(id="a", text="a")


DIRECTIONS = {
    "members are high": (1, ""),
    "members are low": (-1, r"did you mean Loss:low\?"),
}


@pytest.mark.parametrize(("sign", "suggests"), DIRECTIONS.values(), ids=DIRECTIONS)
def test_a_score_without_a_direction_says_what_it_assumes(tmp_path, sign, suggests):
    rng = np.random.default_rng(3)
    losses = np.append(rng.normal(3 * sign, 1, 150), rng.normal(size=350))
    pl.DataFrame({"Loss": losses}).write_csv(tmp_path / "t.csv")
    pl.DataFrame({"Loss": rng.normal(size=400)}).write_csv(tmp_path / "u.csv")
    files = [
        str(tmp_path / "t.csv"),
        "--calibration",
        str(tmp_path / "u.csv"),
        "--json",
        "--out",
        str(tmp_path / "out"),
    ]
    result = CliRunner().invoke(app, ["identify", *files, "--score", "Loss"])
    assert result.exit_code == 0, result.output
    warnings = " ".join(json.loads(result.stdout)["warnings"])
    assert "no direction was named for the score 'Loss': high was taken as member-like" in warnings
    assert ("did you mean" in warnings) == bool(suggests)
    with_direction = CliRunner().invoke(app, ["identify", *files, "--score", "Loss:high", "--overwrite"])
    assert "no direction" not in with_direction.stdout


def test_directions_of_honest_scores_are_seldom_doubted():
    """The other end is suggested for at most 1 of 1000 tables whose candidates score like the calibration."""
    from divulge.decisions.counts import Counts
    from divulge.identification.decision import direction_note
    from divulge.identification.score_tables import Score

    rng = np.random.default_rng(11)
    score, doubted, rounds = Score.parse("Loss"), 0, 3000
    for number in range(rounds):
        m, n = rng.integers(5, 60, 2)
        values = rng.normal(size=m + n)
        if number % 3 == 1:
            values = values.round()  # ties
        doubted += "did you mean" in direction_note(score, Counts.empty(values[:n]).add(values[n:]))
    assert doubted <= 9  # of 3 expected at most; 10 or more have a chance of 0.1 %


def test_the_content_tells_the_kind_of_a_file_without_a_name():
    for content in (b"a,b\n1,2\n", b'{"a": 1, "b": 2}\n', gzip.compress(b'\n {"a": 1, "b": 2}\n')):
        assert tables.read_table(io.BytesIO(content)).rows() == [(1, 2)]


@pytest.mark.parametrize("name", ["*", "^a.*$"])
@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow", ".jsonl"])
def test_a_name_that_is_a_pattern_to_polars_is_refused_where_the_column_is_read(name, ending, tmp_path):
    """Other columns were read in its place, or polars failed; where it is not asked for, it is in nobody's way."""
    frame = pl.DataFrame({"ab": [1.0, 2.0], name: [3.0, 4.0], "ac": [5.0, 6.0]})
    path = tmp_path / f"a{ending}"
    write = {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".arrow": frame.write_ipc}
    write.get(ending, frame.write_ndjson)(path)
    table = tables.scan_table(path)
    message = f"column {name!r} cannot be read, as its name is a pattern to polars"
    for read in (
        table.collect,
        lambda: list(table.batches({name: tables.NUMBER})),
        lambda: table.take([0], {name: tables.TEXT}),
        lambda: read_records(path, FileLayout()),
        lambda: dv.Records(frame),
        *([lambda: dv.Records(frame.to_pandas())] if columns.has_pandas() else []),
    ):
        with pytest.raises(dv.InputError, match=re.escape(message)):
            read()
    assert table.collect(["ab", "ac"]).rows() == [(1.0, 5.0), (2.0, 6.0)]
    assert [batch.rows() for batch in table.batches({"ac": tables.NUMBER})] == [[(5.0,), (6.0,)]]


@pytest.mark.parametrize(("mark", "decimal"), [(".", ","), (",", ".")])
def test_numbers_that_may_be_thousands_are_read_rightly_or_refused(tmp_path, mark, decimal):
    path = tmp_path / "table.csv"

    def read(*cells):
        path.write_text(
            "income;rate;label\n" + "".join(f"{cell};2{decimal}5;{row % 2}\n" for row, cell in enumerate(cells))
        )
        return read_records(path, FileLayout()).records.x[:, 0].tolist()

    for cells in (("1_234", "12_500"), ("1_234", "5", "")):
        with pytest.raises(dv.InputError, match="income"):
            read(*(cell.replace("_", mark) for cell in cells))
    assert read(f"1{mark}234{decimal}5", f"5{mark}678", "12") == [1234.5, 5678.0, 12.0]
    assert read(f"0{decimal}234", f"12{decimal}500") == [0.234, 12.5]


def test_a_word_for_a_missing_class_is_no_class_unless_it_is_named(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,country\n1,FR\n2,NA\n3,NA\n")
    with pytest.raises(dv.InputError, match=r"'country': 2 records .*'NA'.*data\.classes"):
        read_records(path, FileLayout(label="country"))
    with pytest.raises(dv.InputError, match="2 records"):
        read_records(path, FileLayout(label="country", classes=("FR", "DE")))
    declared = read_records(path, FileLayout(label="country", classes=("FR", "NA"))).records
    assert declared.y.tolist() == [0, 1, 1]
