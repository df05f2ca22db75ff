"""Recipes that have a name are made of what they were made of when that was last meant to change."""

import json

from recorded import recording


def test_named_recipes_are_as_recorded():
    recorded = json.loads((recording.FOLDER / "recipes.json").read_text(encoding="utf-8"))
    found = recording.difference(recorded, recording.named_recipes(), 0.0)
    assert not found, f"{found}; {recording.AGAIN}"
