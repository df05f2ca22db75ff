"""Runs on the shelf: their order, their first sentence, and how deep they are looked for."""

from dataclasses import replace

import pytest

from divulge import InputError
from divulge.viewing import shelf
from divulge.viewing.shelf import Entry, Place, Shelf


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
