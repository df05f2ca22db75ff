"""Runs on the shelf: their order, their first sentence, and how deep they are looked for."""

from dataclasses import replace

import pytest

from divulge import InputError
from divulge.viewing import shelf
from divulge.viewing.shelf import Entry, Place, Shelf


def test_the_latest_run_comes_first_and_those_of_one_time_by_name(tmp_path, monkeypatch):
    dates = {"b": "2026-01-02", "a": "2026-01-02", "c": "2026-01-03", "d": "2026-01-01", "e": ""}
    places = [Place(f"key-{name}", tmp_path / name, name, "audit", True) for name in dates]
    monkeypatch.setattr(shelf, "_places_below", lambda root: iter(places))
    monkeypatch.setattr(
        Shelf, "_entry", lambda self, place: shelf._entry_of(place, "plain", "words.", dates[place.name])
    )
    listed = Shelf((tmp_path,))
    assert [entry.name for entry in listed.entries()] == ["c", "a", "b", "d", "e"]
    assert [place.name for place in listed.places()] == ["a", "b", "c", "d", "e"]
    monkeypatch.setattr(shelf, "_MAX_RUNS", 3)
    assert [place.name for place in listed.places()] == ["a", "b", "c"]
    assert listed.entry("key-b").name == "b"
    with pytest.raises(KeyError):
        listed.entry("key-e")  # beyond the runs that are listed


def test_a_run_that_vanished_is_left_out_and_one_that_is_replaced_says_so(tmp_path, monkeypatch):
    def entry(self, place):
        if place.name == "gone":
            raise KeyError(place.key)
        raise shelf.ReplacedError("try again")

    places = [Place(name, tmp_path, name, "audit", True) for name in ("gone", "busy")]
    monkeypatch.setattr(shelf, "_places_below", lambda root: iter(places))
    monkeypatch.setattr(Shelf, "_entry", entry)
    (told,) = Shelf((tmp_path,)).entries()
    assert (told.name, told.tone, told.verdict, told.date) == ("busy", "void", "cannot be read: try again", "")


@pytest.mark.parametrize(
    ("tone", "verdict", "expected"),
    [
        ("leak", "Leak found. More follows.", "Leak found."),
        ("doubt", "Leak found. More follows.", "In doubt: Leak found."),
        ("leak", "Leak found. Of 5.5 records 3 leak. More follows: 4.", "Leak found. Of 5.5 records 3 leak."),
        ("leak", "None. None at all. In 3. Last.", "None. None at all. In 3."),
        ("plain", "no full stop", "no full stop"),
        ("plain", "AUC 0.5 is at most 0.6. Next.", "AUC 0.5 is at most 0.6."),
    ],
)
def test_the_first_sentence_is_that_of_the_verdict(tone, verdict, expected, tmp_path):
    entry = Entry("k", tmp_path, "name", "audit", True, tone, verdict, "")
    assert entry.first_sentence == expected
    assert entry.comparable
    assert entry.has_report
    assert not replace(entry, finished=False).comparable
    assert not replace(entry, finished=False).has_report
    assert not replace(entry, kind="scores").comparable
    assert not replace(entry, kind="scores").has_report


def test_directories_are_given_and_are_there(tmp_path):
    with pytest.raises(InputError, match="at least 1 directory is needed"):
        Shelf(())
    with pytest.raises(InputError, match="no such directory"):
        Shelf((tmp_path, tmp_path / "missing"))


def test_runs_are_found_four_folders_deep_and_not_in_hidden_ones_nor_in_pools(tmp_path, monkeypatch):
    deep = tmp_path
    for name in ("1", "2", "3", "4", "5"):
        deep = deep / name
        deep.mkdir()
        (deep / "run.json").write_text("{}")
    for name in (".hidden", "pool"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")

    class Manifest:
        kind, key = "audit", "k"

        def is_finished(self, kind, key):
            return (kind, key) == ("audit", "k")

    monkeypatch.setattr(shelf.run_directory, "peek_manifest", lambda path: Manifest())
    found = list(shelf._places_below(tmp_path))
    assert [place.path.relative_to(tmp_path).as_posix() for place in found] == ["1", "1/2", "1/2/3", "1/2/3/4"]
    assert [place.name for place in found][:2] == [f"{tmp_path.name}/1", f"{tmp_path.name}/1/2"]
    assert all(place.finished for place in found)
    assert len({place.key for place in found}) == 4
    (itself,) = [place for place in shelf._places_below(deep) if place.path == deep]
    assert itself.name == "5"


def test_a_run_that_is_not_finished_or_that_decides_nothing_says_that(tmp_path):
    def verdict(kind, finished):
        return shelf._verdict(Place("k", tmp_path, "name", kind, finished))

    assert verdict("audit", False) == ("plain", "not finished; repeat its command to go on")
    assert verdict("canaries", True) == ("plain", "Canaries, made and not yet audited.")
    assert verdict("unheard of", True) == ("plain", "unheard of")
    assert verdict("audit", True)[0] == "void"
