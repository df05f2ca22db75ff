"""Steps from a plan to an audit: what is read, refused, imported and left out, and what a starting plan says."""

import pathlib
import tomllib

import numpy as np
import polars as pl
import pytest

from divulge import plan
from divulge.errors import InputError
from divulge.settings import InitSettings, Plan
from divulge.types import Records


def refused(message):
    return pytest.raises(InputError, match=message)


def checked(**changes):
    files = {"members": "a.csv", "nonmembers": "b.csv", "population": "c.csv"}
    content = {"target": {"model": "m.onnx"}, "data": files} | changes
    return Plan.check(**content)


def records(n=4, **options):
    return Records(np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2, **options)


class TestReading:
    def test_a_plan_is_a_toml_file_of_files(self, tmp_path):
        path = tmp_path / "plan.toml"
        with refused(f"^plan: no such file: {path}$"):
            plan.read(path)
        for text in (b"target = ", b"\xff"):
            path.write_bytes(text)
            with refused(f"^plan: {path} is not readable TOML"):
                plan.read(path)
        table = tmp_path / "scores.csv"
        table.write_text("score,member\n0.1,1\n")
        with refused(f"^plan: {table} is a table, not a plan.*docs/evaluation.md"):
            plan.read(table)
        path.write_text('target = "CallableTarget"')
        with refused(f"^plan: {path} records an audit started from Python"):
            plan.read(path)
        (tmp_path / "m.onnx").touch()
        path.write_text('target = "m.onnx"')
        with refused(f"^plan: {path}: target: a table is needed"):
            plan.read(path)
        path.write_text('[target]\nmodel = "m.onnx"')
        with refused(f"^plan: {path}: .*data"):
            plan.read(path)
        path.write_text('[target]\nmodel = "m"\n[data]\nmembers = "a"\nnonmembers = "b"\npopulation = "c"')
        assert plan.read(str(path)).data.population == "c"

    @pytest.mark.parametrize(
        ("target", "expected"),
        [
            ({"model": "mine:net"}, {"target.model": "mine:net"}), ({"model": "hf:org/name"}, {}),
            ({"model": "m.onnx"}, {}), ({"model": "there:file"}, {}),
            ({"model": "m.safetensors", "factory": "mine:make"}, {"target.factory": "mine:make"}),
            ({"model": "x:y", "endpoint": "http://localhost:1"}, {}),
        ],
    )  # fmt: skip
    def test_code_that_a_plan_names_is_listed_by_its_key(self, target, expected, tmp_path):
        (tmp_path / "there:file").write_text("")
        assert plan.list_named_code(checked(target=target), tmp_path) == expected

    def test_code_of_references_features_and_recipes_is_listed_too(self, tmp_path):
        files = {"members": "a", "nonmembers": "b", "population": "c"}
        named = checked(
            references={"make_model": "mine:net", "count": 2}, data=files | {"features": "mine:embed"},
            recipes=["loss", "mine:attack"],
        )  # fmt: skip
        assert plan.list_named_code(named, tmp_path) == {
            "references.make_model": "mine:net", "data.features": "mine:embed", "recipes mine:attack": "mine:attack",
        }  # fmt: skip
        custom = checked(references={"train": "mine:train", "count": 2}, data=files | {"features": "f"})
        assert plan.list_named_code(custom, tmp_path) == {"references.train": "mine:train"}


def test_arrays_whose_columns_are_in_another_order_are_refused(tmp_path):
    for name, columns in (("a", ["p", "q"]), ("b", ["p", "q"]), ("c", ["q", "p"])):
        np.savez(tmp_path / f"{name}.npz", x=np.zeros((4, 2)), y=np.arange(4) % 2, columns=np.array(columns))
    files = {"members": "a.npz", "nonmembers": "b.npz", "population": "c.npz"}
    with refused("^data.population: the columns are in another order than in data.members$"):
        plan.resolve(checked(data=files), tmp_path)


def find(tmp_path, monkeypatch, content, features=(), classes=(), **options):
    path = tmp_path / "members.csv"
    pl.DataFrame(content).write_csv(path)
    monkeypatch.setattr(plan, "_read_model_columns", lambda model: (tuple(features), frozenset(classes)))
    return plan.find_columns("m.skops", str(path), **options)


CONTENT = {"a": [1, 2, 2], "b": [3, 3, 4], "y": [0, 1, 0], "user_id": [7, 8, 9], "row": [4, 5, 6], "w": [1, 1, 1]}


class TestStartingPlans:
    def test_columns_that_the_model_does_not_read_are_left_out(self, tmp_path, monkeypatch):
        found = find(tmp_path, monkeypatch, CONTENT, "ab", "01")
        assert found == plan.TableColumns("y", "user_id", "", ("row", "w"))
        without_id = {name: values for name, values in CONTENT.items() if name != "user_id"}
        assert find(tmp_path, monkeypatch, without_id, "ab", "01") == plan.TableColumns("y", "row", "", ("w",))
        unread = find(tmp_path, monkeypatch, without_id)
        assert unread == plan.TableColumns("y")
        # The model's columns are not those of this table.
        assert find(tmp_path, monkeypatch, CONTENT, "abc", "01") == plan.TableColumns("y", "user_id")

    def test_a_regression_model_predicts_the_one_number_it_does_not_read(self, tmp_path, monkeypatch):
        content = {"a": [1, 2], "pay": [5.5, 6.5], "n_id": [3, 4], "note": ["u", "v"]}
        assert find(tmp_path, monkeypatch, content, "a").label == "pay"
        assert find(tmp_path, monkeypatch, content | {"more": [1, 2]}, "a").label == ""
        assert find(tmp_path, monkeypatch, content).label == ""
        assert find(tmp_path, monkeypatch, content, "a", ("p", "q")).label == ""

    @pytest.mark.parametrize(
        ("n", "level"),
        [
            (0, 0.01),
            (1, 0.2),
            (8, 0.2),
            (9, 0.1),
            (18, 0.1),
            (19, 0.05),
            (48, 0.05),
            (49, 0.02),
            (98, 0.02),
            (99, 0.01),
        ],
    )
    def test_the_false_positive_rate_is_one_that_so_many_nonmembers_support(self, n, level, tmp_path):
        """The lowest rate α that a p-value of 1 / (n + 1) reaches."""
        path = tmp_path / "n.csv"
        pl.DataFrame({"a": np.arange(n)}).write_csv(path)
        for name, expected in ((str(path), level), (str(tmp_path / "none.csv"), 0.01), ("x.npz", 0.01)):
            folder = tmp_path / pathlib.Path(name).stem / "new"
            answers = InitSettings.check(model="m.onnx", members="a", nonmembers=name, population="c", label="y")
            plan.write_starting_plan(folder, answers)
            assert tomllib.loads((folder / "plan.toml").read_text())["fpr"] == [expected]

    def test_paths_are_renamed_relative_to_the_plan(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "here.csv").write_text("")
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub" / "there.csv").write_text("")
        files = {"model": "here.csv", "members": "there.csv", "nonmembers": "sub/there.csv", "population": "none.csv"}
        plan.write_starting_plan(tmp_path / "sub", InitSettings.check(**files, label="y"))
        content = tomllib.loads((tmp_path / "sub" / "plan.toml").read_text())
        data = content["data"]
        written = [content["target"]["model"], data["members"], data["nonmembers"], data["population"]]
        assert written == ["../here.csv", "there.csv", "there.csv", "none.csv"]

    def test_nothing_is_overwritten(self, tmp_path):
        answers = InitSettings.check(model="m.safetensors", members="a", nonmembers="b", population="c", label="y")
        written = plan.write_starting_plan(tmp_path / "new", answers)
        assert [path.name for path in written] == ["plan.toml", "my_model.py"]
        with refused("^folder: .*plan.toml is there already; move it away"):
            plan.write_starting_plan(tmp_path / "new", answers)
        (tmp_path / "file").write_text("")
        with refused("^folder: .*file.* cannot be written"):
            plan.write_starting_plan(tmp_path / "file" / "sub", answers)

    @pytest.mark.parametrize(
        ("options", "has_code"),
        [
            ({"model": "m.safetensors", "records": "images"}, True), ({"model": "m.onnx", "records": "images"}, False),
            ({"model": "m.onnx", "records": "images", "references": 2}, True),
            ({"model": "m.skops", "records": "table", "references": 2}, False),
            ({"model": "m", "records": "text", "references": 2}, False),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("task", ["auto", "regression"])
    def test_a_stub_is_written_where_the_plan_names_code(self, options, has_code, task, tmp_path):
        answers = InitSettings.check(members="a", nonmembers="b", population="c", label="y", task=task, **options)
        plan.write_starting_plan(tmp_path, answers)
        stub = tmp_path / "my_model.py"
        assert stub.exists() == has_code
        if has_code:
            assert ("256, 1))" in stub.read_text()) == (task == "regression")
            assert ("256, 10))" in stub.read_text()) == (task == "auto")
        content = tomllib.loads((tmp_path / "plan.toml").read_text())
        assert content.get("task") == (None if task == "auto" else task)
        assert ("factory" in content["target"]) == options["model"].endswith(".safetensors")

    def test_a_whole_plan_has_the_rate_and_reads_back(self):
        answers = InitSettings.check(
            model="m.skops", records="table", label="y", members="a", nonmembers="b", population="c"
        )
        content = tomllib.loads(plan.format_starting_plan(answers, fpr=0.05))
        assert content["fpr"] == [0.05]
        assert tomllib.loads(plan.format_starting_plan(answers))["fpr"] == [0.01]
        assert Plan.check(**content).data.label == "y"
