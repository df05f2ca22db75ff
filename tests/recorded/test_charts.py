"""Pictures of fixed numbers are drawn as they were drawn when that was last meant to change."""

import json

import pytest

from recorded import charts, recording

RECORDED = json.loads((recording.FOLDER / "charts.json").read_text(encoding="utf-8"))


def test_every_picture_is_recorded():
    assert RECORDED.keys() == charts.PICTURES.keys(), recording.AGAIN


@pytest.mark.parametrize("name", charts.PICTURES)
def test_a_picture_is_drawn_as_recorded(name):
    found = recording.difference(RECORDED[name], recording.picture(name), recording.TOLERANCE)
    assert not found, f"{name} is drawn otherwise: {found}; {recording.AGAIN}"
