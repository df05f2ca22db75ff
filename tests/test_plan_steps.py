"""Steps from a plan to an audit: what is read, refused, imported and left out, and what a starting plan says."""

import tomllib
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from divulge import plan
from divulge.datafiles import DataFile
from divulge.errors import InputError
from divulge.settings import AccessPlan, InitSettings, Plan
from divulge.types import AuditData, Records


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
        path.write_text('target = "CallableTarget"')
        with refused(f"^plan: {path} records an audit started from Python"):
            plan.read(path)
        path.write_text('[target]\nmodel = "m.onnx"')
        with refused(f"^plan: {path}: .*data"):
            plan.read(path)
        path.write_text('[target]\nmodel = "m"\n[data]\nmembers = "a"\nnonmembers = "b"\npopulation = "c"')
        assert plan.read(str(path)).data.population == "c"

    def test_the_first_of_several_masks_stands_for_them(self):
        subject = AuditData(members=records(), nonmembers=records(), known=(1, 2))
        resolved = plan.ResolvedPlan("target", {}, subject, plan.AuditOptions(), None, {"recipes": []})
        assert resolved.first_subject.known == 1
        arguments = resolved.arguments()
        assert arguments["members"] is subject.members
        assert arguments["known"] == (1, 2)
        assert arguments["pool"] is None
        assert arguments["plan"] == {"recipes": []}
        assert "target" not in arguments
        one = AuditData(members=records(), nonmembers=records(), known=3)
        assert plan.replace(resolved, subject=one).first_subject is one

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


class TestRecordsOfAPlan:
    def test_a_layout_has_the_columns_of_the_plan_each_once(self):
        files = {"members": "a", "nonmembers": "b", "population": "c"}
        layout = plan._layout(checked(data=files | {"columns": ["p", "q"], "drop": ["r"], "features": "emb"}).data)
        assert (layout.columns, layout.drop, layout.features) == (("p", "q"), ("r",), "emb")
        assert layout.real_values
        assert {"columns", "drop", "features"} <= layout.user_set
        assert "label" not in layout.user_set
        assert plan._layout(checked(data=files | {"features": "mine:embed"}).data).features is None
        assert plan._layout(checked(data=files).data).columns is None
        for key in ("columns", "classes", "drop", "covariates"):
            with refused(f"^data.{key}: each may be named once, got 'p' more than once"):
                plan._layout(checked(data=files | {key: ["q", "p", "p"]}).data)

    def test_all_files_have_the_columns_of_the_members(self):
        def file(columns=(), folders=(), frame=False):
            content = pl.DataFrame({name: [1.0] for name in columns}) if frame else np.zeros((1, 2))
            return DataFile(Records(content), columns=columns, folders=folders)

        def check(members, other):
            plan._check_same_columns({"members": members, "population": other})

        check(file(("a", "b")), file(("a", "b")))
        check(file(("a", "b"), frame=True), file(("b", "a"), frame=True))
        check(file(folders=("cat",)), file())
        with refused("^data.population: the columns are in another order than in data.members$"):
            check(file(("a", "b")), file(("b", "a")))
        with refused(": b only in data.members; c only in data.population$"):
            check(file(("a", "b")), file(("a", "c")))
        with refused("^data.population: the columns differ from those of data.members: b only in data.members$"):
            check(file(("a", "b"), frame=True), file(("a",), frame=True))
        with refused("^data.population: the folders of the classes differ from those of data.members in cat, dog;"):
            check(file(folders=("cat", "x")), file(folders=("x", "dog")))

    @pytest.mark.parametrize(
        ("access", "kept", "dropped"),
        [
            ({}, [0, 1, 2, 3, 4, 5], ()), ({"drop_classes": [2]}, [0, 1, 3, 4], (2,)),
            ({"drop_groups": ["u"]}, [1, 3, 5], ()), ({"drop_classes": [0], "drop_groups": ["v"]}, [2, 4], (0,)),
        ],
    )  # fmt: skip
    def test_the_population_loses_what_the_auditor_does_not_hold(self, access, kept, dropped):
        population = Records(np.arange(6.0)[:, None], [0, 1, 2, 0, 1, 2])
        file = DataFile(population, group=np.array(list("uvuvuv")))
        found, classes = plan._apply_access(AccessPlan(**access), file, 0)
        assert found.x[:, 0].tolist() == kept
        assert classes == dropped

    def test_shares_of_classes_and_records_of_each_are_drawn(self):
        file = DataFile(Records(np.arange(12.0)[:, None], np.arange(12) % 3))
        found, classes = plan._apply_access(AccessPlan(drop_share=0.34, drop_classes=[0]), file, 0)
        assert classes[0] == 0
        assert len(classes) >= 2
        assert not set(found.y.tolist()) & set(classes)
        found, classes = plan._apply_access(AccessPlan(keep_per_class=2), file, 0)
        assert (np.bincount(found.y).tolist(), classes) == ([2, 2, 2], ())
        with refused("^access: DropClasses"):
            plan._apply_access(AccessPlan(drop_classes=[7]), file, 0)

    def test_training_records_that_were_asked_to_be_erased_are_not_retained(self):
        members = records(ids=["a", "b", "c", "d"])
        assert plan._without_requests(members, {}) is members
        assert plan._without_requests(records(), {"one": members}).ids is None
        assert plan._without_requests(members, {"one": records()}) is members
        requests = {"one": members[[1]], "two": members[[3]]}
        assert plan._without_requests(members, requests).ids.tolist() == ["a", "c"]
        assert plan._without_requests(members, {"all": members}) is None
        assert plan._without_requests(members, {"other": members.with_ids(list("wxyz"))}) is members

    def test_a_model_is_given_frames_where_it_knows_names_or_the_table_needs_them(self, monkeypatch):
        plain, mixed = Records(pl.DataFrame({"a": [1.0]})), Records(pl.DataFrame({"a": [1.0], "b": ["u"]}))
        named = SimpleNamespace(feature_names=("a",), estimator=object())
        nameless = SimpleNamespace(feature_names=(), estimator=object())
        monkeypatch.setattr(plan, "fitted_frame_library", lambda estimator: None)
        monkeypatch.setattr(plan, "has_pandas", lambda: True)
        assert plan._choose_frames("polars", named, mixed) == "polars"
        assert plan._choose_frames("auto", nameless, plain) == "auto"
        assert plan._choose_frames("auto", nameless, records()) == "auto"
        assert plan._choose_frames("auto", nameless, mixed) == "pandas"
        assert plan._choose_frames("auto", named, plain) == "pandas"
        monkeypatch.setattr(plan, "has_pandas", lambda: False)
        assert plan._choose_frames("auto", named, plain) == "polars"
        monkeypatch.setattr(plan, "fitted_frame_library", lambda estimator: "polars")
        monkeypatch.setattr(plan, "has_pandas", lambda: True)
        assert plan._choose_frames("auto", named, plain) == "polars"

    def test_masks_are_of_columns_or_of_the_values_of_an_array(self):
        table = DataFile(Records(pl.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"]})), columns=("a", "b"))
        assert plan._read_masks(checked(), table, 4) is None
        one = plan._read_masks(checked(known="columns:a"), table, 4)
        assert np.broadcast_to(one, (4, 2)).tolist() == [[True, False]] * 4
        several = plan._read_masks(checked(known=["columns:a", "columns:b"]), table, 4)
        assert isinstance(several, tuple)
        assert len(several) == 2
        images = DataFile(Records(np.zeros((2, 3, 2))))
        assert plan._read_masks(checked(known="share:0.5"), images, 4).shape[-2:] == (3, 2)


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

    def test_files_that_show_nothing_leave_it_to_the_user(self, tmp_path):
        nothing = plan.TableColumns()
        (tmp_path / "empty.csv").write_text("a,y\n")
        (tmp_path / "odd.parquet").write_bytes(b"PAR1")
        for name in ("empty.csv", "odd.parquet", "none.csv", "x.npz"):
            assert plan.find_columns("none", str(tmp_path / name)) == nothing

    def test_a_model_that_cannot_be_read_has_no_columns(self, tmp_path):
        (tmp_path / "m.skops").write_bytes(b"no archive")
        for name in ("m.onnx", str(tmp_path / "m.skops"), str(tmp_path / "none.skops")):
            assert plan._read_model_columns(name) == ((), frozenset())

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
        assert plan._lowest_fpr(str(path)) == level
        assert plan._lowest_fpr(str(tmp_path / "none.csv")) == plan._lowest_fpr("x.npz") == 0.01

    def test_suggestions_follow_from_the_files(self, tmp_path, monkeypatch):
        def usual(name, records="table", model="m.skops", members="none.csv"):
            return plan._usual_answer(name, {"records": records, "model": model, "members": members}, {"model": model})

        assert usual("records") == "table"
        assert usual("records", model="m.onnx") == "images"
        assert plan._usual_answer("records", {}, {}) == "images"
        assert usual("references") == "8"
        assert usual("references", model="m.onnx") == "0"
        assert usual("references", records="text", model="m") == "4"
        assert usual("label") == "label"
        monkeypatch.setattr(plan, "find_columns", lambda *_, is_text: plan.TableColumns("y", text="note"))
        assert usual("label") == "y"
        assert usual("label", records="text") == "note"
        monkeypatch.setattr(plan, "find_columns", lambda *_, is_text: plan.TableColumns("y"))
        assert usual("label", records="text") == "y"

    def test_paths_are_renamed_relative_to_the_plan(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "here.csv").write_text("")
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub" / "there.csv").write_text("")
        folder = tmp_path / "sub"
        assert plan._relative_to(folder, "here.csv") == "../here.csv"
        assert plan._relative_to(folder, "there.csv") == "there.csv"
        assert plan._relative_to(folder, "sub/there.csv") == "there.csv"
        assert plan._relative_to(folder, "none.csv") == "none.csv"
        assert plan._relative_to(folder, "a\0b") == "a\0b"

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

    @pytest.mark.parametrize(
        ("options", "lines"),
        [
            ({"model": "m.onnx"}, ["# outputs = "]), ({"model": "mine:net"}, ["# outputs = "]),
            ({"model": "m.skops"}, ["# frames = "]), ({"model": "m", "records": "text"}, ["# base = "]),
            ({"model": "m"}, []),
        ],
    )  # fmt: skip
    def test_further_keys_of_a_target_are_shown_as_comments(self, options, lines):
        text = plan._target_keys(InitSettings.check(**options))
        comments = [line for line in text.splitlines() if line.startswith("# ")]
        assert len(comments) == len(lines)
        assert all(line.startswith(start) for line, start in zip(comments, lines, strict=True))

    def test_columns_that_were_found_are_keys_and_the_rest_comments(self):
        answers = InitSettings.check(records="table", label="y", members="a.csv")
        text = plan._data_keys(answers, plan.TableColumns("y", "user", "", ("w",)))
        assert tomllib.loads(text)["data"] == {
            "members": "a.csv", "nonmembers": "", "population": "", "label": "y", "id": "user", "drop": ["w"],
        }  # fmt: skip
        comments = [line.split(" = ")[0] for line in text.splitlines() if line.startswith("#")]
        assert comments == ["# columns", "# classes"]
        bare = plan._data_keys(answers, plan.TableColumns())
        assert [line.split(" = ")[0] for line in bare.splitlines() if line.startswith("#")] == [
            "# id", "# columns", "# drop", "# classes",
        ]  # fmt: skip
        documents = InitSettings.check(records="text", label="note")
        with_classes = tomllib.loads(plan._data_keys(documents, plan.TableColumns("y", text="note")))["data"]
        assert (with_classes["text"], with_classes["label"]) == ("note", "y")
        assert "label" not in tomllib.loads(plan._data_keys(documents, plan.TableColumns()))["data"]

    @pytest.mark.parametrize(
        ("options", "keys"),
        [
            ({"references": 0}, None), ({"records": "text", "references": 3}, {"base", "count", "epochs"}),
            ({"records": "table", "model": "m.skops", "references": 3}, {"count"}),
            ({"records": "images", "model": "m.onnx", "references": 3}, {"make_model", "count", "epochs"}),
        ],
    )  # fmt: skip
    def test_references_are_trained_as_the_target_was(self, options, keys):
        text = plan._reference_keys(InitSettings.check(**options))
        if keys is None:
            assert text.startswith("# [references]")
            return
        found = tomllib.loads(text)["references"]
        assert set(found) == keys
        assert found["count"] == 3

    def test_a_whole_plan_has_the_rate_and_reads_back(self):
        answers = InitSettings.check(
            model="m.skops", records="table", label="y", members="a", nonmembers="b", population="c"
        )
        content = tomllib.loads(plan.format_starting_plan(answers, fpr=0.05))
        assert content["fpr"] == [0.05]
        assert tomllib.loads(plan.format_starting_plan(answers))["fpr"] == [0.01]
        assert Plan.check(**content).data.label == "y"
        assert plan._to_toml("a\x7fü") == '"a\\u007fü"'

    @pytest.mark.parametrize(("n_test", "halves"), [(2, (1, 1)), (5, (2, 3))])
    def test_test_records_of_a_target_folder_are_halved(self, n_test, halves, tmp_path, monkeypatch):
        def folder_of(n):
            sides = {"train": pl.DataFrame({"a": [0.5]}), "test": pl.DataFrame({"a": np.arange(n)})}
            return SimpleNamespace(model=tmp_path / "m.skops", tables=lambda: sides)

        monkeypatch.setattr(plan, "read_sacro_folder", lambda model: folder_of(n_test))
        answers = plan.import_sacro_folder(tmp_path / "sacro", tmp_path / "new")
        assert answers["records"] == "table"
        parts = [pl.read_parquet(answers[name])["a"].to_list() for name in ("nonmembers", "population")]
        assert tuple(map(len, parts)) == halves
        assert sorted(parts[0] + parts[1]) == list(range(n_test))
        assert all(part == sorted(part) for part in parts)
        assert pl.read_parquet(answers["members"])["a"].to_list() == [0.5]
        with refused("^folder: .*members.parquet is there already"):
            plan.import_sacro_folder(tmp_path / "sacro", tmp_path / "new")
        monkeypatch.setattr(plan, "read_sacro_folder", lambda model: folder_of(1))
        with refused("has 1 test records; at least 2 are needed"):
            plan.import_sacro_folder(tmp_path / "sacro", tmp_path / "other")
