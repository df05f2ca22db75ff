"""Whatever a model's file holds, opening it runs nothing: each kind with a payload that would leave a mark."""

import io
import json
import pickle
import shutil
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

import divulge as dv
from divulge import store, targets
from divulge.targets.files import REFUSED

X = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
RECORDS = dv.Records(X, np.arange(30) % 3)


class Payload:
    """Unpickled, it writes a file."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return exec, (f"open({self.mark!r}, 'w').close()",)


class Saves(nn.Module):
    def forward(self, x):
        torch.save(x, "MARK")
        return x


@pytest.fixture
def mark(tmp_path):
    return tmp_path / "mark"


def refused(mark, message, read):
    with pytest.raises(dv.InputError, match=message) as caught:
        read()
    assert not mark.exists()
    assert "allow_pickle" not in str(caught.value)
    return str(caught.value)


def zipped(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def torch_saved(value, **options):
    out = io.BytesIO()
    torch.save(value, out, **options)
    return out.getvalue()


def pickles(mark):
    evil = Payload(mark)
    return {
        "a pickle": pickle.dumps(evil),
        "a text pickle": pickle.dumps(evil, protocol=0),
        "torch.save": torch_saved(evil),
        "an old torch.save": torch_saved(evil, _use_new_zipfile_serialization=False),
        "a pickle in a zip": zipped({"data.pkl": pickle.dumps(evil)}),
        "a pickle in a zip in a zip": zipped({"inner.zip": zipped({"data.pkl": pickle.dumps(evil)})}),
        "an object array": _object_array(np.save, evil),
        "an archive of object arrays": _object_array(np.savez, evil),
    }


def _object_array(save, evil):
    out = io.BytesIO()
    save(out, np.array([evil], dtype=object))
    return out.getvalue()


@pytest.mark.parametrize("ending", ["pt", "pkl", "joblib", "safetensors", "onnx", "skops", "pt2", "x"])
def test_pickles_are_refused_by_any_name(tmp_path, mark, ending):
    for content in pickles(mark).values():
        path = tmp_path / f"model.{ending}"
        path.write_bytes(content)
        refused(mark, r"target\.model: ", lambda path=path: targets.load(str(path), factory=lambda: nn.Linear(4, 3)))


def test_the_payload_would_leave_its_mark(mark):
    pickle.loads(pickle.dumps(Payload(mark)))
    assert mark.exists()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("ending", ["pt", "ts", "pt2"])
def test_torchscript_can_write_files_and_is_refused(tmp_path, mark, ending):
    script = torch.jit.script(Saves())
    path = tmp_path / "plain.pt"
    script.save(str(path))
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name).replace(b"MARK", str(mark).encode()) for name in archive.namelist()}
    path = tmp_path / f"model.{ending}"
    path.write_bytes(zipped(members))
    torch.jit.load(str(path))(torch.zeros(1))
    assert mark.exists()
    mark.unlink()
    message = refused(
        mark, "without running code from it: a TorchScript file is a program", lambda: targets.load(str(path))
    )
    assert "package.module:callable" in message


@pytest.mark.filterwarnings("ignore:.*:FutureWarning", "ignore:.*:DeprecationWarning", "ignore:.*:UserWarning")
@pytest.mark.parametrize("door", ["sample inputs", "weights"])
def test_exported_programs_are_unpickled_by_torch_and_refused(tmp_path, mark, door):
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(nn.Linear(4, 3), (torch.zeros(2, 4),)), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    evil = torch_saved(Payload(mark))
    for name in members:
        if door == "sample inputs" and name.endswith("sample_inputs/model.pt"):
            members[name] = evil
        if door == "weights" and name.endswith("weights/weight_0"):
            members[name] = evil
        if door == "weights" and name.endswith("model_weights_config.json"):
            config = json.loads(members[name])
            next(iter(config["config"].values()))["use_pickle"] = True
            members[name] = json.dumps(config).encode()
    path.write_bytes(zipped(members))
    for name in ("model.pt2", "model.pt"):
        shutil.copy(path, tmp_path / name) if name != "model.pt2" else None
        message = refused(
            mark, "a torch.export file is unpickled", lambda name=name: targets.load(str(tmp_path / name))
        )
        assert "package.module:callable" in message


def test_onnx_reads_no_file_outside_its_folder_and_runs_no_operator_of_its_own(tmp_path, mark):
    from onnx import TensorProto, helper

    def model(location):
        weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 3], data_location=TensorProto.EXTERNAL)
        weight.external_data.add(key="location", value=location)
        ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None, k]) for n, k in (("x", 4), ("z", 3))]
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["z"])], "g", ends[:1], ends[1:], [weight])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    folder = tmp_path / "model"
    folder.mkdir()
    weights = np.arange(12, dtype=np.float32)
    (tmp_path / "secret").write_bytes(weights.tobytes())
    (folder / "weights").write_bytes(weights.tobytes())
    (folder / "link").symlink_to(tmp_path / "secret")
    path = folder / "model.onnx"
    for location in ("../secret", str(tmp_path / "secret"), "link"):
        path.write_bytes(model(location).SerializeToString())
        refused(mark, "is not a readable ONNX model", lambda: targets.load(str(path)))
    path.write_bytes(model("weights").SerializeToString())
    np.testing.assert_allclose(targets.load(str(path)).logits(RECORDS), X @ weights.reshape(4, 3), rtol=1e-5)
    foreign_model = model("weights")
    foreign_model.graph.node[0].domain = "evil"
    foreign_model.opset_import.add(domain="evil", version=1)
    path.write_bytes(foreign_model.SerializeToString())
    refused(mark, "is not a readable ONNX model", lambda: targets.load(str(path)))


class TestSkops:
    """Types are named and trusted one by one; trees are looked at before they are followed."""

    def calls(self, mark):
        """A pipeline whose first step calls a function on the records."""
        import operator

        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer

        model = make_pipeline(FunctionTransformer(operator.methodcaller("tofile", str(mark))), LogisticRegression())
        model.steps[1][1].fit(X, RECORDS.y)
        return model

    def test_a_call_is_named_and_refused(self, tmp_path, mark):
        import skops.io

        path = tmp_path / "model.skops"
        skops.io.dump(self.calls(mark), path)
        refused(mark, r"asks for types that are not trusted: operator\.methodcaller", lambda: targets.load(str(path)))

    def test_a_function_by_name_is_refused(self, tmp_path, mark):
        import skops.io
        from sklearn.preprocessing import FunctionTransformer

        path = tmp_path / "model.skops"
        skops.io.dump(FunctionTransformer(np.linalg.norm), path)
        with zipfile.ZipFile(path) as archive:
            schema = archive.read("schema.json").replace(b"numpy.linalg", b"os").replace(b'"norm"', b'"system"')
        path.write_bytes(zipped({"schema.json": schema}))
        refused(mark, r"not trusted: os\.system", lambda: targets.load(str(path)))

    def test_what_is_trusted_by_name_is_built(self, tmp_path):
        import skops.io
        from sklearn.neighbors import KNeighborsClassifier

        model = KNeighborsClassifier(algorithm="ball_tree", metric="canberra").fit(X, RECORDS.y)
        skops.io.dump(model, tmp_path / "model.skops")
        with pytest.raises(dv.InputError, match=r"not trusted: .*Canberra.*; if you made the file.*--trust") as caught:
            targets.load("model.skops", folder=tmp_path)
        untrusted = str(caught.value).partition("not trusted: ")[2].partition(". ")[0].split(", ")
        logits = targets.load("model.skops", folder=tmp_path, trust=untrusted).logits(RECORDS)
        np.testing.assert_array_equal(logits, targets.adapt(model).logits(RECORDS))
        for bad in ("all", [1], None):
            with pytest.raises(dv.InputError, match="trust: "):
                targets.load("model.skops", folder=tmp_path, trust=bad)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize(
        "name", ["RandomForest", "ExtraTrees", "GradientBoosting", "HistGradientBoosting", "AdaBoost", "Bagging", "MLP"]
    )
    def test_scikit_learns_own_classifiers_are_read(self, tmp_path, name):
        import sklearn.ensemble
        import sklearn.neural_network
        import skops.io

        room = sklearn.neural_network if name == "MLP" else sklearn.ensemble
        small_settings = {
            "max_iter" if name in ("MLP", "HistGradientBoosting") else "n_estimators": 4,
            "random_state": 0,
        }
        model = getattr(room, f"{name}Classifier")(**small_settings)
        skops.io.dump(model.fit(X, RECORDS.y), tmp_path / "model.skops")
        logits = targets.load("model.skops", folder=tmp_path).logits(RECORDS)
        np.testing.assert_array_equal(logits, targets.adapt(model).logits(RECORDS))

    def test_pipelines_searches_and_calibrated_models_are_read(self, tmp_path):
        import skops.io
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
        from sklearn.feature_selection import SelectKBest
        from sklearn.impute import SimpleImputer
        from sklearn.model_selection import GridSearchCV
        from sklearn.pipeline import make_pipeline

        forest = RandomForestClassifier(3, random_state=0)
        models = [
            make_pipeline(SimpleImputer(), SelectKBest(k=2), forest),
            CalibratedClassifierCV(forest, cv=2),
            GridSearchCV(forest, {"max_depth": [1, 2]}, cv=2),
            VotingClassifier([("a", forest), ("b", forest)], voting="soft"),
            HistGradientBoostingClassifier(max_iter=3, categorical_features=[0]),
        ]
        x = np.abs(X).round()
        for model in models:
            skops.io.dump(model.fit(x, RECORDS.y), tmp_path / "model.skops")
            logits = targets.load("model.skops", folder=tmp_path).logits(dv.Records(x))
            np.testing.assert_array_equal(logits, targets.adapt(model).logits(dv.Records(x)))

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("left_child", 10**9),
            ("right_child", -7),
            ("left_child", 0),
            ("feature", 4),
            ("feature", -2),
            ("feature", 2**40),
        ],
    )
    @pytest.mark.parametrize("ensemble", ["DecisionTree", "GradientBoosting", "Bagging"])
    def test_a_tree_that_leads_astray_is_refused(self, tmp_path, ensemble, field, value):
        model = self.fitted(ensemble)
        tree = np.ravel(model.estimators_)[-1] if hasattr(model, "estimators_") else model
        self.broken(tree.tree_, field, value)
        self.refuse(tmp_path, model)

    @pytest.mark.parametrize("field", ["left", "right", "feature_idx"])
    def test_a_boosted_histogram_that_leads_astray_is_refused(self, tmp_path, field):
        model = self.fitted("HistGradientBoosting")
        model._predictors[-1][0].nodes[field][0] = 10**6
        self.refuse(tmp_path, model)

    @pytest.mark.parametrize("ensemble", ["RandomForest", "GradientBoosting", "HistGradientBoosting"])
    def test_trees_for_more_features_than_their_model_are_refused(self, tmp_path, ensemble):
        model = self.fitted(ensemble)
        model.n_features_in_ = 2
        self.refuse(tmp_path, model)

    def test_more_trees_a_step_than_classes_are_refused(self, tmp_path):
        model = self.fitted("GradientBoosting")
        model.estimators_ = np.hstack([model.estimators_, model.estimators_])
        self.refuse(tmp_path, model)

    @pytest.mark.parametrize("place", ["list", "tuple", "dict", "array", "array in a dict in a list"])
    def test_broken_trees_are_found_wherever_they_stand(self, place):
        from divulge.targets.skops_files import check_trees

        def at(model):
            box = np.empty(2, object)
            box[1] = model
            places = {"list": [model], "tuple": (1, model), "dict": {"a": model}, "array": box}
            return places.get(place, [{"a": {"b": box}}])

        check_trees(at(self.fitted("DecisionTree")), "model")
        model = self.fitted("DecisionTree")
        self.broken(model.tree_, "left_child", 10**6)
        with pytest.raises(dv.InputError, match="cannot be followed safely"):
            check_trees(at(model), "model")

    def fitted(self, ensemble):
        import sklearn.ensemble
        import sklearn.tree

        room = sklearn.tree if ensemble == "DecisionTree" else sklearn.ensemble
        small_settings = {"HistGradientBoosting": {"min_samples_leaf": 2, "max_iter": 3}, "DecisionTree": {}}
        small_settings = small_settings.get(ensemble, {"n_estimators": 3})
        return getattr(room, f"{ensemble}Classifier")(random_state=0, **small_settings).fit(X, RECORDS.y)

    def broken(self, tree, field, value):
        state = tree.__getstate__()
        state["nodes"][field][np.flatnonzero(state["nodes"]["left_child"] != -1)[-1]] = value
        tree.__setstate__(state)

    def refuse(self, tmp_path, model):
        import skops.io

        skops.io.dump(model, tmp_path / "model.skops")
        with pytest.raises(dv.InputError, match="cannot be followed safely"):
            targets.load("model.skops", folder=tmp_path)


class TestFolders:
    """Language models of Hugging Face: safetensors and the library's own code, nothing else."""

    @pytest.fixture
    def folder(self, tmp_path):
        from transformers import GPT2Config

        GPT2Config(vocab_size=300, n_positions=32, n_embd=8, n_layer=1, n_head=1).save_pretrained(tmp_path)
        return tmp_path

    def test_pickled_weights_are_not_read(self, folder, mark):
        (folder / "pytorch_model.bin").write_bytes(torch_saved(Payload(mark)))
        refused(mark, "model: .* cannot be loaded", lambda: targets.CausalLM.load(str(folder), device="cpu"))

    def test_code_of_the_folders_own_is_not_run(self, folder, mark):
        config = json.loads((folder / "config.json").read_text())
        config |= {"model_type": "evil", "auto_map": {n: f"evil.{n}" for n in ("AutoConfig", "AutoModelForCausalLM")}}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
        refused(mark, "model: .* cannot be loaded", lambda: targets.CausalLM.load(str(folder), device="cpu"))

    @pytest.mark.parametrize("place", ["", "text_config"])
    def test_compiled_code_from_the_hub_is_not_fetched(self, folder, mark, place):
        config = json.loads((folder / "config.json").read_text())
        setting = {"attn_implementation": "somebody/kernel"}
        (folder / "config.json").write_text(json.dumps(config | ({place: setting} if place else setting)))
        refused(mark, "asks for code from the hub", lambda: targets.CausalLM.load(str(folder), device="cpu"))


@pytest.mark.parametrize("ending", ["npz", "npy", "parquet", "csv", "json", "jsonl"])
def test_tables_and_arrays_are_never_unpickled(tmp_path, mark, ending):
    from divulge import plan
    from divulge.identification import score_tables

    for content in pickles(mark).values():
        path = tmp_path / f"file.{ending}"
        path.write_bytes(content)
        refused(mark, "file", lambda path=path: store.read_arrays(path))
        refused(mark, "file", lambda path=path: store.read_array(path))
        refused(mark, "file", lambda path=path: store.read_json(path))
        data = plan.DataPlan(members=path.name, nonmembers="-", population="-")
        refused(mark, r"data\.members", lambda data=data: plan._read_records(tmp_path, data, "members"))
        if ending in ("parquet", "csv", "jsonl"):
            columns = score_tables.Columns((score_tables.Score("loss"),))
            out = tmp_path / "out.parquet"
            refused(
                mark,
                "candidates: ",
                lambda path=path, out=out, columns=columns: score_tables.clean_table(
                    score_tables.scan_scores([path], "candidates"), columns, out
                ),
            )


@pytest.mark.parametrize(
    ("content", "file_type"),
    [
        (zipped({"metadata.json": "{}", "config.json": '{"class_name": "Lambda"}', "model.weights.h5": ""}), "Keras"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5"),
    ],
)
def test_keras_files_are_refused(tmp_path, mark, content, file_type):
    path = tmp_path / "model.keras"
    path.write_bytes(content)
    refused(mark, f"an? {file_type} file may hold pickled functions", lambda: targets.load(str(path)))


def test_plans_are_plain_text(tmp_path, mark):
    from divulge import plan

    for content in pickles(mark).values():
        path = tmp_path / "plan.toml"
        path.write_bytes(content)
        refused(mark, "plan: ", lambda path=path: plan.read(path))


def test_every_refused_kind_names_a_way_on():
    assert all(
        any(alternative in message for alternative in ("factory", ".onnx", "callable", "TableTarget"))
        for message in REFUSED.values()
    )
