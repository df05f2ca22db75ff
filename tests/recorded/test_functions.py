"""Public functions answer to fixed input what they answered when that was last meant to change."""

import json

import pytest

from fuzz import functions, models
from recorded import recording

RECORDED = json.loads((recording.FOLDER / "functions.json").read_text(encoding="utf-8"))
LEARNERS = {name for name in functions.CALLS if "regressors" in name} | {
    "attacks.Learned", "attacks.QuantileRegression", "attacks.Auto", "attacks.OnErrors",
}  # fmt: skip


def test_every_valid_call_is_recorded():
    differ = sorted(RECORDED.keys() ^ (functions.CALLS.keys() - recording.UNSTEADY))
    assert not differ, f"not recorded, or recorded and gone: {', '.join(differ)}; {recording.AGAIN}"


@pytest.mark.parametrize("name", [name for name in functions.CALLS if name not in recording.UNSTEADY])
def test_a_function_answers_as_recorded(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tolerance = recording.TRAINED if name in models.CALLS or name in LEARNERS else recording.TOLERANCE
    content = json.loads(json.dumps(recording.answers(name)))
    found = recording.difference(RECORDED[name], content, tolerance)
    assert not found, f"{name} answers otherwise: {found}; {recording.AGAIN}"
