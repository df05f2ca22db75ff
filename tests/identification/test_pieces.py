"""Tables read piece by piece: where the pieces end makes no difference, whatever columns the files have."""

import gzip
import hashlib
import json
import tracemalloc

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import divulge as dv
from divulge import tables as readers
from divulge.identification import finished_run, redecide, score_tables
from divulge.identification import from_tables as runs
from divulge.identification.decision import Policy
from divulge.identification.score_tables import Columns, Score

LOSS_LOW = Columns((Score("loss", -1),))


@pytest.fixture(params=[1, 7, 1 << 14])
def pieces(request, monkeypatch):
    monkeypatch.setattr(readers.table, "BATCH", request.param)
    monkeypatch.setattr(readers.table, "_PIECE_ROWS", 2 * request.param)
    monkeypatch.setattr(readers.json_lines, "_BATCH", request.param)
    return request.param


def gathered(paths, tmp_path, columns, **cleaning):
    table = score_tables.scan_scores(paths, "candidates")
    score_tables.clean_table(table, columns, tmp_path / "gathered", score_tables.CleaningOptions(**cleaning))
    return pl.read_parquet(tmp_path / "gathered")


@pytest.mark.usefixtures("pieces")
def test_ties_across_pieces_and_membership_that_begins_late(tmp_path):
    """Scores tie across every border, and no row of the first pieces says whether it is a member."""
    rng = np.random.default_rng(0)
    scores, calibration = np.sort(rng.integers(-4, 3, 60)).astype(float), rng.integers(-3, 4, 80).astype(float)
    member = [None] * 40 + [True, None] * 10
    ids = [f"d{i}" for i in rng.permutation(60)]
    pl.DataFrame({"id": ids, "loss": scores, "member": member}).write_parquet(tmp_path / "judged.parquet")
    pl.DataFrame({"id": range(80), "loss": calibration}).write_csv(tmp_path / "known.csv")
    plan = runs.DecisionPlan(Columns(LOSS_LOW.scores, id="id", truth="member"), Policy(0.3))
    summary = runs.run([tmp_path / "judged.parquet"], [tmp_path / "known.csv"], tmp_path / "out", plan)
    table, want = pl.read_parquet(tmp_path / "out" / "selection.parquet"), dv.identify(-scores, -calibration, fdr=0.3)
    assert table.schema == {
        "row": pl.UInt32,
        "id": pl.String,
        "score": pl.Float64,
        "truth": pl.Boolean,
        "p": pl.Float64,
        "q": pl.Float64,
        "selected": pl.Boolean,
    }
    assert table["id"].to_list() == ids
    assert table["truth"].to_list() == member
    assert table["p"].to_list() == want.p_values.tolist()
    assert table["selected"].to_list() == want.selected.tolist()
    assert (summary.truth.known, summary.truth.members) == (10, 10)
    path, key = tmp_path / "out" / "selection.parquet", {"descending": [True, False]}
    for count in (1, 9, 100):
        best = table.sort("score", "id", **key).head(count).select("id", "score")
        assert finished_run.highest_rows(path, ["id", "score"], count) == best.to_dicts()
        chosen = table.filter("selected").sort("score", "id", **key).head(count).select("id", "score")
        assert finished_run.highest_rows(path, ["id", "score"], count, selected=True) == chosen.to_dicts()
    assert finished_run.every_nth_row(path, ["score"], 7)["score"].to_list() == table["score"].gather_every(7).to_list()


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("ending", ["parquet", "csv.gz", "jsonl"])
def test_shards_of_other_columns_stand_below_each_other_as_polars_puts_them(tmp_path, ending):
    parts = [
        pl.DataFrame({"id": ["a", "b"], "loss": [1, 2], "member": ["yes", "no"]}),
        pl.DataFrame({"other": [True, False, True], "loss": [0.5, None, -1.5], "id": ["c", "d", "e"]}),
        pl.DataFrame({"loss": [7.0], "id": ["f"], "member": ["member"], "more": ["x"]}),
    ]
    folder = tmp_path / "shards"
    folder.mkdir()
    for number, part in enumerate(parts):
        raw = folder / f"{number}.{ending.removesuffix('.gz')}"
        getattr(part, {"parquet": "write_parquet", "csv": "write_csv"}.get(raw.suffix[1:], "write_ndjson"))(raw)
        if ending.endswith(".gz"):
            raw.with_name(f"{number}.{ending}").write_bytes(gzip.compress(raw.read_bytes()))
            raw.unlink()
    result = gathered([folder], tmp_path, Columns(LOSS_LOW.scores, id="id", truth="member"), drop_nan=True)
    expected = pl.concat(parts, how="diagonal_relaxed").with_row_index("row").filter(pl.col("loss").is_not_null())
    word = pl.col("member").replace_strict({"yes": True, "member": True, "no": False}, return_dtype=pl.Boolean)
    assert_frame_equal(result, expected.select("row", "id", score0=-pl.col("loss"), truth=word), check_exact=True)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize(
    ("first_ids", "second_ids", "want"),
    [
        ([1, 2], [3, 4], ["1", "2", "3", "4"]),
        ([2**60 + 1, None], [3, 4], ["1152921504606846977", None, "3", "4"]),
        ([1, 2], ["a", "b"], ["1", "2", "a", "b"]),
        ([1, 2], [0.5, 1.5], ["1", "2", "0.5", "1.5"]),
        (["é", None], ["日本", "x"], ["é", None, "日本", "x"]),
        (["é", ""], ["日本", "007"], ["é", None, "日本", "007"]),  # an empty text is a missing value
        ([-1, -2], [-1 << 61, 2], ["-1", "-2", "-2305843009213693952", "2"]),
    ],
)
def test_ids_are_the_texts_of_the_files_across_shards(tmp_path, first_ids, second_ids, want):
    folder = tmp_path / "shards"
    folder.mkdir()
    for name, ids in (("a", first_ids), ("b", second_ids)):
        pl.DataFrame({"id": ids, "loss": [0.0, 1.0]}).write_parquet(folder / f"{name}.parquet")
    result = gathered([folder], tmp_path, Columns(LOSS_LOW.scores, id="id"))
    assert result["id"].to_list() == want
    assert result["id"].dtype == pl.String


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt64, pl.Int32])
def test_whole_ids_stay_whole_where_one_is_missing(tmp_path, monkeypatch, dtype):
    monkeypatch.setattr(readers.table, "BATCH", 2)
    ids = pl.Series([1, 2, None, 3, 4, 5], dtype=dtype)
    pl.DataFrame({"id": ids, "loss": np.arange(6.0)}).write_parquet(tmp_path / "t.parquet")
    result = gathered([tmp_path / "t.parquet"], tmp_path, Columns(LOSS_LOW.scores, id="id"))
    assert result["id"].to_list() == ["1", "2", None, "3", "4", "5"]


@pytest.mark.usefixtures("pieces")
def test_ids_of_several_widths_keep_every_digit_together(tmp_path):
    for name, ids in (("a", pl.Series([2**64 - 1], dtype=pl.UInt64)), ("b", pl.Series([2**53 + 1]))):
        pl.DataFrame({"id": ids, "loss": [0.0]}).write_parquet(tmp_path / f"{name}.parquet")
    result = gathered([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path, Columns(LOSS_LOW.scores, id="id"))
    assert result["id"].to_list() == ["18446744073709551615", "9007199254740993"]


def test_ids_that_are_decimals_keep_every_digit(tmp_path):
    ids = pl.Series(["9007199254740993", "9007199254740992"]).cast(pl.Decimal(38, 0))
    pl.DataFrame({"id": ids, "loss": [0.0, 1.0]}).write_parquet(tmp_path / "t.parquet")
    result = gathered([tmp_path / "t.parquet"], tmp_path, Columns(LOSS_LOW.scores, id="id"))
    assert result["id"].to_list() == ["9007199254740993", "9007199254740992"]
    ids = pl.Series(["1.50", "0.10"]).cast(pl.Decimal(10, 2))
    pl.DataFrame({"id": ids, "loss": [0.0, 1.0]}).write_parquet(tmp_path / "u.parquet")
    assert gathered([tmp_path / "u.parquet"], tmp_path, Columns(LOSS_LOW.scores, id="id"))["id"].to_list() == [
        "1.50",
        "0.10",
    ]


def test_ids_of_json_are_as_they_are_spelled(tmp_path, monkeypatch):
    monkeypatch.setattr(readers.json_lines, "_BATCH", 2)
    spelled = ["1", "2", "3.50", "1e5", "123456789012345678901234567890", '"007"']
    (tmp_path / "t.jsonl").write_text("\n".join(f'{{"id": {spelling}, "loss": 1.5}}' for spelling in spelled))
    result = gathered([tmp_path / "t.jsonl"], tmp_path, Columns(LOSS_LOW.scores, id="id"))
    assert result["id"].to_list() == [spelling.strip('"') for spelling in spelled]


def test_ids_that_repeat_far_apart_are_named(tmp_path):
    for number in range(3):
        ids = [f"{number}-{i}" for i in range(20)] + (["both"] if number != 1 else []) + ([None] if number else [])
        table = pl.DataFrame({"id": ids, "loss": np.arange(float(len(ids)))})
        (tmp_path / "s").mkdir(exist_ok=True)
        table.write_parquet(tmp_path / "s" / f"{number}.parquet")
    with pytest.raises(dv.InputError, match=r"ids must be unique; 2 occur more than once \('both', None\)"):
        gathered([tmp_path / "s"], tmp_path, Columns(LOSS_LOW.scores, id="id"))


def test_digests_do_not_depend_on_the_process():
    digests = score_tables.digest_texts(np.array(["a", "é", "", None], object), 3)
    assert digests.tolist() == [11600821211116902817, 2835158003655156214, 0, 0]


def test_the_sample_is_of_the_distinct_texts_with_the_lowest_digests():
    rng = np.random.default_rng(0)
    texts = np.array([f"text {i}" for i in rng.integers(0, 300, 2000)] + ["", None], object)
    digests = dict(zip(texts, score_tables.digest_texts(texts, 5).tolist(), strict=True))
    want = sorted(set(texts[:-2]), key=digests.get)[:40]
    for order in (np.arange(2002), rng.permutation(2002)):
        lowest = score_tables.TextSample(40)
        for start in range(0, 2002, 13):
            piece = texts[order[start : start + 13]]
            lowest.add(score_tables.digest_texts(piece, 5), piece, piece.astype(bool))
        assert lowest.texts() == want


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"loss": 1}', "{"], r"candidates: .*t\.jsonl: line 2 is no JSON"),
        (['{"loss": 1}', "[1]"], "line 2: an object is needed, got a list"),
        (
            ['{"loss": 1}', '{"loss": "a b c d e f g h i j k l"}'],
            "line 2: loss: a number is needed, got a text of 23 char",
        ),
        (['{"loss": "1"}'], "score column 'loss' is text, not numeric"),
        (['{"loss": 1, "id": "\\ud800"}'], "line 1: id: half of a surrogate pair"),
        (['{"loss": 1, "id": [1]}'], "column 'id' is a list, which is neither text nor numeric"),
        (['{"loss": 1e999}'], r"infinite scores in 1 row \(1; the header not counted\)"),
        (['{"loss": ' + "[" * 100_000], "line 1 is no JSON"),
        (["\xff"], "line 1 is no JSON|no column 'loss'"),
        ([""], r"t\.jsonl: there is no line with an object; at least 1 row"),
    ],
)
def test_lines_that_cannot_be_read_are_named(tmp_path, lines, message):
    (tmp_path / "t.jsonl").write_text("\n".join(lines), "latin-1")
    columns = Columns(LOSS_LOW.scores, id="id" if any("id" in line for line in lines) else None)
    with pytest.raises(dv.InputError, match=message):
        gathered([tmp_path / "t.jsonl"], tmp_path, columns)


def test_lines_after_the_first_ones_may_say_more(tmp_path, monkeypatch):
    """Kinds are told by all lines; a value of another kind than the first is named by its line."""
    monkeypatch.setattr(readers.json_lines, "_BATCH", 2)
    rows = [{"loss": 1, "member": None}, {"loss": 2}, {"loss": 0.5, "member": "yes"}, {"member": False, "loss": 3}]
    path = tmp_path / "t.jsonl"
    path.write_text("\n\n".join(map(json.dumps, rows)))
    result = gathered([path], tmp_path, Columns(LOSS_LOW.scores, truth="member"))
    assert result["score0"].to_list() == [-1.0, -2.0, -0.5, -3.0]
    assert result["truth"].to_list() == [None, None, True, False]
    for odd, description in (("text", "'text'"), (True, "True"), ([1], "a list"), ({}, "an object")):
        path.write_text("\n".join(map(json.dumps, [*rows, {"loss": odd}])))
        with pytest.raises(dv.InputError, match=rf"t\.jsonl: line 5: loss: a number is needed, got {description}"):
            gathered([path], tmp_path, LOSS_LOW)


@pytest.mark.parametrize("end", [0, 20, -200])
@pytest.mark.parametrize("ending", ["parquet", "csv.gz", "jsonl.gz"])
def test_a_file_that_ends_early_is_named_with_its_argument(tmp_path, capfd, ending, end):
    table = pl.DataFrame({"id": [f"d{i}" for i in range(500)], "loss": np.random.default_rng(0).normal(size=500)})
    content = {
        "parquet": lambda: table.write_parquet(tmp_path / "w.parquet") or (tmp_path / "w.parquet").read_bytes(),
        "csv.gz": lambda: gzip.compress(table.write_csv().encode()),
        "jsonl.gz": lambda: gzip.compress(table.write_ndjson().encode()),
    }[ending]()
    path = tmp_path / f"t.{ending}"
    path.write_bytes(content[:end])
    with pytest.raises(dv.InputError, match=r"candidates: "):
        gathered([path], tmp_path, LOSS_LOW)
    assert capfd.readouterr().err == ""


def test_candidates_are_never_held_in_memory(tmp_path, monkeypatch):
    """Long texts pass through: what is held of them is bounded by the sample and a piece."""
    text = ["x" * 2000 + str(i) for i in range(6_000)]
    table = pl.DataFrame({"loss": np.random.default_rng(0).normal(size=6_000), "text": text})
    table.write_parquet(tmp_path / "t.parquet", row_group_size=1000)
    scan = score_tables.scan_scores([tmp_path / "t.parquet"], "candidates")
    monkeypatch.setattr(score_tables, "_TEXTS_PER_BATCH", 500)
    monkeypatch.setattr(readers.table, "_PIECE_ROWS", 500)
    tracemalloc.start()
    try:
        score_tables.clean_table(
            scan, Columns(LOSS_LOW.scores, text="text"), tmp_path / "to", score_tables.CleaningOptions(sample_size=100)
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8e6 < sum(map(len, text))


def test_a_run_without_numbers_of_rows_is_decided_and_shown(tables, tmp_path):
    """Runs of earlier versions have none, and ids of the kind of the file."""
    files = [tables / "candidates.parquet"], [tables / "calibration.jsonl"]
    columns = Columns(LOSS_LOW.scores, id="id", truth="member")
    runs.run(*files, tmp_path / "old", runs.DecisionPlan(columns, Policy(0.1)))
    path = tmp_path / "old" / "selection.parquet"
    pl.read_parquet(path).drop("row").write_parquet(path)
    sign(tmp_path / "old", "selection.parquet")
    repeat = redecide(tmp_path / "old", fdr=0.3)
    runs.run(*files, tmp_path / "new", runs.DecisionPlan(columns, Policy(0.3)))
    assert repeat == finished_run.read_run(tmp_path / "new", lambda summary, _: summary)
    old, new = (pl.read_parquet(tmp_path / name / "selection.parquet") for name in ("old", "new"))
    assert_frame_equal(old, new.drop("row"), check_exact=True)


def sign(folder, name):
    """Write the digest of a file that a test changed into the mark of its run."""
    path = folder / "run.json"
    mark = json.loads(path.read_text())
    mark["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(mark))


def test_a_selection_joins_back_to_the_users_file(tmp_path):
    """By the id as text, or by the number of the row, whatever the file's own type of ids."""
    rng = np.random.default_rng(0)
    ids = pl.Series([2**60 + 1, *range(2**53, 2**53 + 299)])
    pl.DataFrame({"id": ids, "loss": rng.normal(-2, 1, 300)}).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame({"id": range(500), "loss": rng.normal(size=500)}).write_csv(tmp_path / "b.csv")
    plan = runs.DecisionPlan(Columns(LOSS_LOW.scores, id="id"))
    runs.run([tmp_path / "a.parquet"], [tmp_path / "b.csv"], tmp_path / "out", plan)
    table = pl.read_parquet(tmp_path / "out" / "selection.parquet")
    user_table = pl.read_parquet(tmp_path / "a.parquet").with_row_index("row")
    joined = user_table.with_columns(pl.col("id").cast(pl.String)).join(table, on=["row", "id"])
    assert len(joined) == 300
    assert joined["score"].to_list() == (-joined["loss"]).to_list()
