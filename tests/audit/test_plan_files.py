"""Which files of a plan a run directory names: those that exist, the model unless an endpoint stands in its place."""

import pytest

from divulge.auditing.pipeline import plan_files


@pytest.fixture
def home(tmp_path):
    for name in ("model.onnx", "members.csv", "below/members.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_model_and_data_that_exist_are_named_by_role(home):
    plan = {"target": {"model": "model.onnx"}, "data": {"members": "members.csv", "nonmembers": "none.csv", "fpr": 1}}
    assert plan_files(plan, home) == {"model": [home / "model.onnx"], "members": [home / "members.csv"]}


def test_beside_an_endpoint_no_model_is_named(home):
    plan = {"target": {"model": "model.onnx", "endpoint": "http://localhost"}, "data": {"members": "members.csv"}}
    assert plan_files(plan, home) == {"members": [home / "members.csv"]}


def test_names_are_looked_up_in_the_folder_of_the_plan(home):
    assert plan_files({"folder": "below", "data": {"members": "members.csv"}}, home) == {
        "members": [home / "below" / "members.csv"]
    }
    assert plan_files({}, home) == {}
