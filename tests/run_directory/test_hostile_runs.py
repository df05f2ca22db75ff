"""Run directories that somebody prepared: every command ends in one line about the file, and never waits for it."""

import contextlib
import json
import os
import shutil
import signal

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge import run_directory, store
from divulge.decisions.counts import Counts
from divulge.references.pool import DamagedError, Pool
from divulge.run_directory import RunDirectory
from run_directories import LEAKS, TRAPS, WRITERS, drop_from_mark, forge, forge_verdict, write_audit

pytestmark = pytest.mark.skipif(os.name != "posix", reason="FIFOs and devices are POSIX")

COMMANDS = {
    "audit": [
        ("report", "RUN"),
        ("report", "RUN", "--format", "json"),
        ("report", "RUN", "--format", "csv"),
        ("gate", "RUN", "--max", "auc:0.9"),
        ("compare", "RUN", "RUN"),
        ("decide", "RUN", "--fpr", "0.1"),
    ],
    "identification": [
        ("report", "RUN"),
        ("report", "RUN", "--format", "csv"),
        ("decide", "RUN", "--fdr", "0.1"),
        ("decide", "RUN", "--top", "3"),
    ],
    "extraction": [("report", "RUN"), ("report", "RUN", "--format", "json"), ("report", "RUN", "--format", "csv")],
    "canary-audit": [("report", "RUN"), ("report", "RUN", "--format", "json")],
    "erasure": [("report", "RUN"), ("report", "RUN", "--format", "csv"), ("gate", "RUN", "--max", "difference:0.1")],
    "trade-off": [("report", "RUN"), ("report", "RUN", "--format", "json")],
    "synthetic": [("report", "RUN"), ("gate", "RUN", "--max", "auc:0.9"), ("report", "RUN", "--format", "csv")],
    "attributes": [("report", "RUN"), ("gate", "RUN", "--max", "share:0.1"), ("report", "RUN", "--format", "csv")],
    "cohorts": [("report", "RUN"), ("gate", "RUN", "--max", "cohorts:0"), ("report", "RUN", "--format", "csv")],
}
REQUIRED_FILES = (
    "summary.json",
    "scores.parquet",
    "selection.parquet",
    "counts.npz",
    "scores.npz",
    "documents.parquet",
    "guesses.parquet",
    "subsets.parquet",
    "calibration.parquet",
    "records.parquet",
    "value_names.json",
)
FREE = ("plan.toml", "report.html")  # nothing is computed from them


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for run_kind, write in WRITERS.items():
        write(folder / run_kind)
        (folder / run_kind / "report.html").write_text("short")
    return folder


@contextlib.contextmanager
def no_waiting():
    """An open that waits for ever ends in an error of the test."""

    def give_up(*_):
        raise AssertionError("the command waits for a file")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ask(divulge, command, run):
    with no_waiting():
        code, _, err = divulge(*[run if word == "RUN" else word for word in command])
    assert code in (0, 1, 2, 3), (command, err)
    assert len(err.splitlines()) <= 1 or "warning" in err, err
    return code, err


def spring(runs, tmp_path, divulge, run_kind, trap, commands):
    """Put ``trap`` in the place of each file in turn, with its digest in the mark and without."""
    for name in sorted(path.name for path in (runs / run_kind).iterdir() if path.name != run_directory.LOCK_NAME):
        for trusted in (True, False):
            run = tmp_path / f"{name}-{trusted}"
            shutil.copytree(runs / run_kind, run)
            (run / name).rename(run / f"{name}.was")
            trap(run / name)
            if not trusted and name != run_directory.MANIFEST_NAME:
                drop_from_mark(run, name)
            outcomes = [(command, *ask(divulge, command, run)) for command in commands]
            assert not any("root:" in err for _, _, err in outcomes)
            if name not in FREE and (trusted or name in (run_directory.MANIFEST_NAME, *REQUIRED_FILES)):
                unread = name == "summary.json" and not trusted  # of which a table of records needs nothing
                assert all(
                    code == 2 and name in err for command, code, err in outcomes if not (unread and "csv" in command)
                )


@pytest.mark.parametrize("trap", TRAPS[1:])
@pytest.mark.parametrize("run_kind", ["audit", "identification"])  # every kind opens its files as these do
def test_nothing_is_waited_for_or_read_from_elsewhere(runs, tmp_path, divulge, run_kind, trap):
    spring(runs, tmp_path, divulge, run_kind, trap, COMMANDS[run_kind][-1:])


@pytest.mark.parametrize("run_kind", WRITERS)
def test_no_command_waits_for_a_fifo(runs, tmp_path, divulge, run_kind):
    spring(runs, tmp_path, divulge, run_kind, TRAPS[0], COMMANDS[run_kind])


def test_a_link_within_the_directory_is_followed(runs, tmp_path, divulge):
    run = tmp_path / "run"
    shutil.copytree(runs / "audit", run)
    (run / "scores.parquet").rename(run / "elsewhere.parquet")
    (run / "scores.parquet").symlink_to("elsewhere.parquet")
    (tmp_path / "latest").symlink_to("run")
    assert divulge("gate", tmp_path / "latest", "--max", "auc:0.9")[0] != 2


def test_a_folder_that_is_a_link_leads_nowhere(tmp_path):
    dossier = RunDirectory(tmp_path / "run")
    with dossier.writing("audit", "k") as draft:
        draft.write_json("inner/value", {"a": 1})
    (tmp_path / "run" / "inner").rename(tmp_path / "moved")
    (tmp_path / "run" / "inner").symlink_to(tmp_path / "moved")
    with pytest.raises(dv.InputError, match="leaves"):
        dossier.open("audit")
    with pytest.raises(dv.InputError, match="leaves"):
        dossier.read_json("inner/value")


@pytest.mark.parametrize("obstacle", ["fifo", "link", "folder"])
def test_a_lock_that_is_no_file_is_neither_opened_nor_emptied(runs, tmp_path, divulge, obstacle):
    run, victim = tmp_path / "run", tmp_path / "victim"
    shutil.copytree(runs / "audit", run)
    victim.write_text("precious")
    (run / run_directory.LOCK_NAME).unlink()
    if obstacle == "fifo":
        os.mkfifo(run / run_directory.LOCK_NAME)
    elif obstacle == "link":
        (run / run_directory.LOCK_NAME).symlink_to(victim)
    else:
        (run / run_directory.LOCK_NAME).mkdir()
    code, err = ask(divulge, ("report", "RUN"), run)
    assert (code, victim.read_text()) == (2, "precious")
    assert ".lock" in err


def test_moving_published_files_never_removes_one_outside(runs, tmp_path, divulge):
    """A mark that says files are still to be moved also says which files of an older run are to go."""
    run, victim = tmp_path / "run", tmp_path / "victim"
    shutil.copytree(runs / "audit", run)
    victim.write_text("precious")
    staged = run / (".staged-" + "0" * 32)
    staged.mkdir()
    (staged / ".superseded.json").write_text(json.dumps({"../victim": untrusted_digest(victim)}))
    content = json.loads((run / run_directory.MANIFEST_NAME).read_text()) | {"staged": staged.name}
    (run / run_directory.MANIFEST_NAME).write_text(json.dumps(content))
    code, err = ask(divulge, ("gate", "RUN", "--max", "auc:0.9"), run)
    assert victim.read_text() == "precious"
    assert code == 2
    assert "superseded" in err


def untrusted_digest(path):
    from divulge import store

    return store.hash_file(path)


@pytest.mark.parametrize("run_kind", WRITERS)
def test_a_forged_summary_changes_no_verdict(runs, tmp_path, divulge, run_kind):
    run = tmp_path / "run"
    shutil.copytree(runs / run_kind, run)
    forge_verdict(run, run_kind)
    code, _, err = divulge("report", run, "--format", "md")
    assert code == 0, err
    page = (run / "model_card.md").read_text()
    assert LEAKS[run_kind].lower() in page.lower()
    assert "No leak found" not in page
    if run_kind != "audit":  # whose other statistics are all computed from scores already
        honest = tmp_path / "honest"
        shutil.copytree(runs / run_kind, honest)
        results = []
        for folder in (run, honest):
            assert divulge("report", folder, "--format", "json")[0] == 0
            results.append(json.loads((folder / "results.json").read_text())["results"])
        assert results[0] == results[1]


@pytest.mark.parametrize("run_kind", WRITERS)
def test_what_is_computed_again_is_what_the_run_wrote(runs, tmp_path, divulge, run_kind):
    assert (
        divulge("report", runs / run_kind, "--format", "json", "--show-records", "--to", tmp_path / "told.json")[0] == 0
    )
    written_again = json.loads((tmp_path / "told.json").read_text())["results"]
    assert written_again == json.loads((runs / run_kind / "summary.json").read_text())


@pytest.mark.parametrize("rows", [[], slice(1), slice(1, 2), "without loss"])
def test_a_trade_off_without_a_setting_is_refused(runs, tmp_path, divulge, rows):
    def drop_row(summary):
        if rows == "without loss":
            summary["rows"][1]["loss"] = None
        else:
            summary["rows"] = summary["rows"][rows] if rows else []

    run = tmp_path / "run"
    shutil.copytree(runs / "trade-off", run)
    forge(run, "summary.json", drop_row)
    code, err = ask(divulge, ("report", "RUN"), run)
    assert (code, "summary.json" in err) == (2, True)


def test_a_selection_that_its_counts_do_not_lead_to_is_refused(runs, tmp_path, divulge):
    run = tmp_path / "run"
    shutil.copytree(runs / "identification", run)
    forge(run, "summary.json", lambda summary: summary["settings"].update(fdr=0.5))
    code, _, err = divulge("report", run)
    assert code == 2
    assert "another selection" in err


def forge_table(run, name, change):
    """Change a table of a run, and its digest in the mark with it."""
    path = run / name
    change(pl.read_parquet(path)).write_parquet(path)
    content = json.loads((run / run_directory.MANIFEST_NAME).read_text())
    content["files"][name] = store.hash_file(path)
    (run / run_directory.MANIFEST_NAME).write_text(json.dumps(content))


FORGED_SELECTIONS = {
    "others are marked": lambda rows: rows.with_columns(pl.col("selected").reverse()),
    "marks are gone": lambda rows: rows.with_columns(pl.lit(None, pl.Boolean).alias("selected")),
    "marks are words": lambda rows: rows.with_columns(pl.col("selected").cast(pl.String)),
    "scores are other ones": lambda rows: rows.with_columns(pl.col("score") * 2),
    "scores are missing": lambda rows: rows.with_columns(pl.lit(None, pl.Float64).alias("score")),
    "scores are words": lambda rows: rows.with_columns(pl.col("score").cast(pl.String)),
    "scores changed places": lambda rows: rows.with_columns(pl.col("score").reverse()),
    "rows are gone": lambda rows: rows.head(150),
    "p-values are small": lambda rows: rows.with_columns(pl.col("p") / 10),
    "p-values are words": lambda rows: rows.with_columns(pl.col("p").cast(pl.String)),
    "q-values are small": lambda rows: rows.with_columns(pl.col("q") / 10),
}


@pytest.mark.parametrize("forgery", FORGED_SELECTIONS)
def test_marks_and_scores_of_an_identification_are_compared_row_by_row(runs, tmp_path, divulge, forgery):
    """Also where just as many rows are marked as the counts say."""
    run = tmp_path / "run"
    shutil.copytree(runs / "identification", run)
    forge_table(run, "selection.parquet", FORGED_SELECTIONS[forgery])
    for command in COMMANDS["identification"]:
        code, err = ask(divulge, command, run)
        assert code == 2
        assert "selection.parquet" in err
    with pytest.raises(dv.InputError, match=r"selection\.parquet"):
        dv.load(run)


@pytest.mark.parametrize("run_kind", WRITERS)
def test_no_command_reads_a_table_that_is_not_what_the_run_wrote(runs, tmp_path, divulge, run_kind):
    """Records that change their names, without a change of the mark: nobody is named in the place of another."""
    tables = [path.name for path in (runs / run_kind).glob("*.parquet")]
    assert tables or run_kind in ("canary-audit", "trade-off")
    for name in tables:
        run = tmp_path / name
        shutil.copytree(runs / run_kind, run)
        rows = pl.read_parquet(run / name)
        rows.with_columns(pl.col(rows.columns[0]).reverse()).write_parquet(run / name)
        for command in COMMANDS[run_kind]:
            code, err = ask(divulge, command, run)
            assert code == 2, command
            assert f"{name}: damaged" in err


@pytest.mark.parametrize("column", ["id", "suffix", "verbatim", "log_p", "overlap"])
def test_documents_of_an_extraction_are_what_their_columns_say(runs, tmp_path, divulge, column):
    """A list in a column is refused, or told as a text; no table of records fails on it."""
    run = tmp_path / "run"
    shutil.copytree(runs / "extraction", run)
    table = pl.read_parquet(run / "documents.parquet")
    assert dv.load(run).to_frame().equals(table)
    lists = pl.Series(column, [[1.0, 2.0]] * len(table))
    forge_table(run, "documents.parquet", lambda rows: rows.with_columns(lists))
    for command in COMMANDS["extraction"]:
        code, err = ask(divulge, command, run)
        assert code in (0, 2)
        assert code == 0 or "documents.parquet" in err


FORGED_COUNTS = {
    "calibration": [("words", lambda a: a.astype(str)), ("pairs", lambda a: np.zeros(a.shape, [("a", "f8")]))]
    + [("missing", lambda a: a * np.nan), ("descending", lambda a: a[::-1]), ("fewer", lambda a: a[1:])],
    "above": [("real", lambda a: a + 0.5), ("negative", lambda a: -a - 1), ("rising", lambda a: a[::-1])]
    + [("vast", lambda a: np.full(a.shape, 2**63 + 5, np.uint64)), ("a table", lambda a: np.stack([a, a]))],
    "tied": [("words", lambda a: a.astype(str)), ("more than there are", lambda a: a + 10**6)],
    "total": [("several", lambda a: np.array([a, a])), ("real", lambda a: np.array(200.5)), ("fewer", lambda a: a - 1)],
}


@pytest.mark.parametrize(
    ("name", "change"), [(name, change) for name, changes in FORGED_COUNTS.items() for _, change in changes]
)
def test_counts_that_are_none_are_refused(runs, tmp_path, divulge, name, change):
    run = tmp_path / "run"
    shutil.copytree(runs / "identification", run)
    arrays = dict(np.load(run / "counts.npz"))
    arrays[name] = change(arrays[name])
    np.savez(run / "counts.npz", **arrays)
    with pytest.raises(dv.InputError, match=r"counts\.npz"):
        Counts.load(run / "counts.npz")
    drop_from_mark(run, "counts.npz")
    code, err = ask(divulge, ("report", "RUN"), run)
    assert code == 2
    assert "counts.npz" in err


@pytest.mark.parametrize(
    ("run_kind", "name", "column", "values"),
    [
        ("extraction", "documents", "longest match", pl.Series([[1.0, 2.0]])),
        ("extraction", "documents", "set", pl.Series([True])),
        ("extraction", "documents", "verbatim", pl.Series(["a"]).cast(pl.Categorical)),
        ("attributes", "guesses", "id", pl.Series([b"\xff"])),
        ("audit", "scores", "id", pl.Series([{"a": 1}])),
    ],
)
def test_columns_of_another_type_are_refused(runs, tmp_path, divulge, run_kind, name, column, values):
    run = tmp_path / "run"
    shutil.copytree(runs / run_kind, run)
    forge_table(
        run, f"{name}.parquet", lambda rows: rows.with_columns(values.new_from_index(0, len(rows)).alias(column))
    )
    for command in COMMANDS[run_kind]:
        code, err = ask(divulge, command, run)
        assert code == 2
        assert f"{name}.parquet" in err


@pytest.mark.parametrize("column", ["id", "part"])
def test_records_of_an_erasure_that_are_tables_are_refused(runs, tmp_path, divulge, column):
    run = tmp_path / "run"
    shutil.copytree(runs / "erasure", run)
    forge_table(run, "records.parquet", lambda rows: rows.with_columns(pl.Series(column, [{"a": 1}] * len(rows))))
    for command in COMMANDS["erasure"]:
        code, err = ask(divulge, command, run)
        assert code == 2
        assert "records.parquet" in err


def test_rows_of_an_identification_are_those_of_its_file(runs):
    assert (
        dv.load(runs / "identification")
        .to_frame()
        .equals(pl.read_parquet(runs / "identification" / "selection.parquet"))
    )


@pytest.mark.parametrize("trap", TRAPS)
def test_no_pool_waits_for_a_file(tmp_path, trap):
    import numpy as np

    for suffix in ("json", "safetensors"):
        pool = Pool(tmp_path / suffix)
        pool.put("abc", {"w": np.ones(3)}, {})
        path = pool.path / f"abc.{suffix}"
        path.rename(pool.path / f"abc.{suffix}.was")
        trap(path)
        (pool.path / f"abc.{suffix}.was").unlink()
        with no_waiting():
            with pytest.raises(DamagedError):
                pool.get("abc")
            assert all(entry.state != "good" for entry in pool.entries(verify=True))


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    (tmp_path / "large").write_bytes(b"x" * 101)
    with pytest.raises(dv.InputError, match="more than such a file may have"):
        store.read_untrusted(tmp_path / "large", limit=100)
    assert store.read_untrusted(tmp_path / "large", limit=101) == b"x" * 101


def test_what_is_put_there_between_the_look_and_the_open_is_seen(tmp_path, monkeypatch):
    """The file is looked at again once it is open, and opening does not wait."""
    path = tmp_path / "file"
    path.write_text("good")
    honest = os.open

    def swap(place, *arguments, **options):
        path.unlink()
        os.mkfifo(path)
        monkeypatch.setattr(os, "open", honest)
        return honest(place, *arguments, **options)

    monkeypatch.setattr(os, "open", swap)
    with no_waiting(), pytest.raises(dv.InputError, match="got a FIFO"):
        store.open_untrusted(path)


def test_a_run_that_is_replaced_for_ever_ends_in_an_error(tmp_path):
    write_audit(tmp_path / "run")
    dossier, count = RunDirectory(tmp_path / "run"), 0

    def replaced():
        nonlocal count
        count += 1
        forge(tmp_path / "run", "summary.json", lambda summary: summary.update(divulge=str(count)))

    with pytest.raises(dv.InputError, match="other runs are being published"):
        dossier.read("audit", replaced)
    assert count == 3
