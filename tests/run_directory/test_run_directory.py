"""Run directories: one writer, whole or nothing, private, checked when read."""

import json
import os
import stat
from dataclasses import asdict

import numpy as np
import pytest

import divulge as dv
from divulge import tables
from divulge.run_directory import Manifest, RunDirectory, read_manifest


def write(path, value=1, key="k", also=None, **options):
    with RunDirectory(path).writing("audit", key, **options) as draft:
        fill(draft, value)
        if also is not None:
            also(draft)


def fill(draft, value):
    draft.write_json("summary", {"value": value})
    draft.write_table("scores", tables.from_arrays({"x": np.array([value])}))
    draft.write_arrays("more/arrays", {"a": np.array([value])})
    (draft.path / "report.html").write_text(str(value))


def value(path):
    dossier = RunDirectory(path)
    return dossier.read("audit", lambda: (dossier.read_json("summary")["value"], dossier.read_table("scores")["x"][0]))


@pytest.fixture
def run(tmp_path):
    write(tmp_path / "run")
    return tmp_path / "run"


def test_what_was_written_is_read(run):
    assert value(run) == (1, 1)
    assert RunDirectory(run).kind() == "audit"
    assert sorted(entry.name for entry in run.iterdir()) == [
        ".lock",
        "more",
        "report.html",
        "run.json",
        "scores.parquet",
        "summary.json",
    ]


def test_an_error_leaves_the_old_run_or_an_empty_directory(run, tmp_path):
    for path in (run, tmp_path / "new"):
        with pytest.raises(ZeroDivisionError):
            write(path, 2, overwrite=True, also=lambda draft: 1 / 0)
    assert value(run) == (1, 1)
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == [".lock"]
    write(tmp_path / "new", key="another")


def test_a_new_run_takes_the_place_of_all_that_the_old_one_wrote_and_of_nothing_else(run):
    (run / "pool").mkdir()
    (run / "mine.txt").write_text("mine")
    (run / "more" / "mine.txt").write_text("mine")
    (run / "report.html").write_text("edited")
    with RunDirectory(run).writing("identification", "other", overwrite=True) as draft:
        draft.write_json("summary", {})
    files_left = sorted(str(path.relative_to(run)) for path in run.rglob("*"))
    assert files_left == [
        ".lock",
        "mine.txt",
        "more",
        "more/mine.txt",
        "pool",
        "report.html",
        "run.json",
        "summary.json",
    ]
    assert (run / "report.html").read_text() == "edited"  # no longer what the old run wrote, so not ours to remove


def test_parts_are_runs_of_their_own_and_go_with_the_whole(tmp_path):
    path = tmp_path / "run"
    with RunDirectory(path).writing("audit", "k") as draft:
        fill(draft, 1)
        with draft.part("inner/deep", "audit", "k") as part:
            fill(part, 7)
            assert not (path / "inner").exists()
    assert value(path / "inner" / "deep") == (7, 7)
    with RunDirectory(path / "inner" / "deep").changing("audit") as draft:
        draft.write_json("summary", {"value": 8})
    assert value(path / "inner" / "deep") == (8, 7)
    write(path, 2, overwrite=True)
    assert not (path / "inner").exists()
    assert value(path) == (2, 2)


def test_refusals_name_the_way_on(run, tmp_path):
    with pytest.raises(dv.InputError, match="holds a finished run; give another directory, or overwrite=True"):
        write(run)
    with pytest.raises(dv.InputError, match="kind 'audit', not 'identification'"):
        RunDirectory(run).open("identification")
    with pytest.raises(dv.InputError, match="not a run directory"):
        RunDirectory(tmp_path).open("audit")
    Manifest("audit", "k").write(run)
    with pytest.raises(dv.InputError, match="not finished; repeat its command to go on"):
        RunDirectory(run).open("audit")
    with pytest.raises(dv.InputError, match="not finished; repeat its command"), RunDirectory(run).changing("audit"):
        pass
    with pytest.raises(dv.InputError, match="an unfinished run of another plan"):
        write(run, key="another")
    (run / "run.json").write_text(json.dumps({"format": 1, "kind": "audit", "key": "", "state": "finished"}))
    with pytest.raises(dv.InputError, match="format 1 is not 2"):
        RunDirectory(run).open("audit")


def test_a_directory_that_is_not_ours_is_never_written_to(tmp_path):
    foreign = {"format": 2, "kind": "experiment"}
    (tmp_path / "run.json").write_text(json.dumps(foreign))
    with pytest.raises(dv.InputError, match=r"damaged, not the mark of a run|damaged at"):
        write(tmp_path, overwrite=True)
    assert json.loads((tmp_path / "run.json").read_text()) == foreign
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(dv.InputError, match="cannot be created"):
        write(blocked)


def test_a_run_is_not_published_over_what_stands_in_its_way(run, tmp_path):
    (run / "elsewhere").symlink_to(tmp_path)
    (run / "folder").mkdir()
    for name in ("elsewhere/x", "folder"):

        def blocked(draft, name=name):
            (draft.path / name).parent.mkdir(exist_ok=True)
            (draft.path / name).write_text("")

        with pytest.raises(dv.InputError, match="is where a"):
            write(run, 2, overwrite=True, also=blocked)
    assert value(run) == (1, 1)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["summary.json", "scores.parquet", "more/arrays.npz"])
def test_every_flipped_bit_of_data_is_found(run, name):
    intact = (run / name).read_bytes()
    for i in range(0, len(intact), 7):
        damaged = bytearray(intact)
        damaged[i] ^= 1 << i % 8
        (run / name).write_bytes(damaged)
        with pytest.raises(dv.InputError, match=f"{name}: damaged"):
            RunDirectory(run).open("audit")
    (run / name).unlink()
    with pytest.raises(dv.InputError, match=f"{name}: cannot be read"):
        RunDirectory(run).open("audit")


def test_plan_and_report_may_be_edited(run):
    (run / "report.html").write_text("mine")
    RunDirectory(run).open("audit")


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"../outside": "0" * 64}},
        {"files": {"/etc/passwd": "0" * 64}},
        {"files": {"summary.json": 3}},
        {"files": []},
        {"parts": ["../.."]},
        {"staged": "pool"},
        {"staged": "../.staged-" + "0" * 32},
        {"state": "done"},
        {"kind": None},
        {"format": "2"},
        {"format": 3},
        {"more": 1},
    ],
)
def test_a_mark_of_another_shape_is_refused(run, change):
    (run / "run.json").write_text(json.dumps(asdict(read_manifest(run)) | change))
    with pytest.raises(dv.InputError, match=r"damaged|format 3"):
        RunDirectory(run).open("audit")
    with pytest.raises(dv.InputError, match=r"damaged|format 3"):
        write(run, overwrite=True)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "3", '"audit"', '{"format": 2}'])
def test_a_damaged_mark_is_an_error_in_words(run, content):
    (run / "run.json").write_text(content)
    with pytest.raises(dv.InputError, match=r"run\.json"):
        RunDirectory(run).open("audit")


@pytest.mark.skipif(os.name != "posix", reason="permissions of this kind are POSIX")
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o277])
def test_nobody_else_can_read_a_run_whatever_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        with RunDirectory(tmp_path / "new" / "run").writing("audit", "k") as draft:
            mode_seen = stat.S_IMODE(draft.path.stat().st_mode)
            fill(draft, 1)
            with draft.part("inner", "audit", "k") as part:
                fill(part, 1)
            with draft.scratch_folder() as folder:
                assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0
    finally:
        os.umask(before)
    assert mode_seen == 0o700
    for path in (tmp_path / "new").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_the_lock_outlives_its_holder_so_two_never_hold_it(run, tmp_path):
    """Removing a lock file on release lets one process hold the old file and another the new one."""
    path = tmp_path / "new"
    with RunDirectory(path).writing("audit", "k") as draft:
        fill(draft, 1)
        lock = (path / ".lock").stat().st_ino
        with pytest.raises(dv.InputError, match="another process is writing"):
            write(path)
        with pytest.raises(dv.InputError, match="not finished"):
            RunDirectory(path).open("audit")
    assert (path / ".lock").stat().st_ino == lock


def test_work_worth_keeping_outlives_an_error(tmp_path):
    def begin(key="k", **options):
        with RunDirectory(tmp_path / "run").writing("scores", key, keep=("shards",), **options) as draft:
            result = sorted(path.name for path in draft.path.rglob("*.json"))
            draft.write_json("shards/one", 1)
            draft.write_json("rest", 1)
            raise ZeroDivisionError(result)

    with pytest.raises(ZeroDivisionError, match=r"\[\]"):
        begin()
    with pytest.raises(ZeroDivisionError, match=r"\['one.json'\]"):
        begin()
    with pytest.raises(dv.InputError, match="unfinished run of another plan"):
        begin("other")
    with pytest.raises(ZeroDivisionError, match=r"\[\]"):
        begin("other", overwrite=True)
