"""A model that cannot be called as it is: what its refusal says to pass instead is run here, word for word."""

import re

import numpy as np
import pandas as pd
import pytest

import divulge as dv

pytestmark = pytest.mark.usefixtures("scores_alone")

NAMES = ["age", "height", "blood"]


def make_records(n, seed, classes, frame):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    signal = x[:, 0] + rng.normal(size=n)
    y = np.digitize(signal, [-0.5, 0.5]) if classes == 3 else (signal > 0).astype(int) if classes else np.exp(signal)
    return dv.Records(pd.DataFrame(x, columns=NAMES) if frame else x, y)


def make_sets(classes, frame):
    roles = ("members", "nonmembers", "population")
    return {role: make_records(80, seed, classes, frame) for seed, role in enumerate(roles)}


def inputs(records, frame):
    return pd.DataFrame(records.x, columns=NAMES) if frame else records.x


def train_lightgbm(objective, records, classes, frame):
    library = pytest.importorskip("lightgbm")
    options = {"objective": objective, "verbose": -1, "num_threads": 1, "min_data_in_leaf": 2}
    options |= {"num_class": 3} if classes == 3 else {}
    return library, library.train(options, library.Dataset(inputs(records, frame), records.y), 40)


def train_xgboost(objective, records, classes, frame):
    library = pytest.importorskip("xgboost")
    options = {"objective": objective, "nthread": 1} | ({"num_class": 3} if classes == 3 else {})
    return library, library.train(options, library.DMatrix(inputs(records, frame), records.y), 40)


def train_catboost(objective, records, classes, frame):
    library = pytest.importorskip("catboost")
    options = {"loss_function": objective, "iterations": 40, "verbose": 0, "allow_writing_files": False}
    model = library.CatBoost(options | {"thread_count": 1, "random_seed": 0, "depth": 8, "learning_rate": 0.3})
    return library, model.fit(inputs(records, frame), records.y)


def audit_as_told(model, sets, **libraries):
    """Pass what the refusal says, with the declaration that it says."""
    with pytest.raises(dv.InputError) as caught:
        dv.audit(model, **sets, recipes=["loss"], fpr=(0.05,))
    function, name, value = re.search(r"pass (.+), with (outputs|task)='(\w+)'", str(caught.value)).groups()
    names = {"booster": model, "model": model, "divulge": dv, "numpy": np} | libraries
    return dv.audit(eval(function, names), **sets, recipes=["loss"], fpr=(0.05,), **{name: value})


BOOSTERS = [
    (train_lightgbm, "binary", 2),
    (train_lightgbm, "multiclass", 3),
    (train_lightgbm, "multiclassova", 3),
    (train_lightgbm, "regression", 0),
    (train_lightgbm, "poisson", 0),
    (train_xgboost, "binary:logistic", 2),
    (train_xgboost, "binary:logitraw", 2),
    (train_xgboost, "multi:softprob", 3),
    (train_xgboost, "multi:softmax", 3),
    (train_xgboost, "reg:squarederror", 0),
    (train_xgboost, "reg:gamma", 0),
    (train_catboost, "Logloss", 2),
    (train_catboost, "MultiClass", 3),
    (train_catboost, "MultiClassOneVsAll", 3),
    (train_catboost, "RMSE", 0),
    (train_catboost, "Poisson", 0),
]


@pytest.mark.parametrize("frame", [False, True], ids=["array", "frame"])
@pytest.mark.parametrize(("train", "objective", "classes"), BOOSTERS)
def test_a_native_booster_is_audited_by_what_its_refusal_says(train, objective, classes, frame):
    sets = make_sets(classes, frame)
    library, booster = train(objective, sets["members"], classes, frame)
    result = audit_as_told(booster, sets, **{library.__name__: library})
    assert result["loss"].auc.low > 0.5, "a booster of as many trees knows its members: is it asked for what it gives?"


def test_columns_in_another_order_are_found_by_their_names():
    sets = make_sets(2, True)
    library, booster = train_xgboost("binary:logistic", sets["members"], 2, True)
    reordered = {role: dv.Records(records.table.to_native()[NAMES[::-1]], records.y) for role, records in sets.items()}
    assert (
        audit_as_told(booster, reordered, xgboost=library)["loss"].auc
        == audit_as_told(booster, sets, xgboost=library)["loss"].auc
    )


def test_a_booster_whose_objective_ranks_is_refused_by_name():
    library = pytest.importorskip("xgboost")
    x, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    booster = library.train({"objective": "rank:pairwise"}, library.DMatrix(x, y, qid=np.zeros(20)), 1)
    with pytest.raises(dv.InputError, match=r"'rank:pairwise': no function around it is known here. Pass a function"):
        dv.targets.adapt(booster)
    booster = library.train({"objective": "survival:cox"}, library.DMatrix(x, y + 1.0), 1)
    with pytest.raises(dv.InputError, match=r"'survival:cox': survival models are not covered"):
        dv.targets.adapt(booster)


class Steps:
    """A step function as scikit-survival gives it."""

    def __init__(self, x, y):
        self.x, self.y = x, y


class NearestTimes:
    """A survival model that looks up the nearest record that it was fitted on."""

    def __init__(self, x, times):
        self.x, self.times = x, times

    def predict_survival_function(self, x):
        nearest = ((np.asarray(x)[:, None] - self.x) ** 2).sum(axis=2).argmin(axis=1)
        grid = np.sort(self.times)
        return [Steps(grid, (grid < time).astype(float)) for time in self.times[nearest]]


class NearestHazards(NearestTimes):
    predict_survival_function = None

    def predict_cumulative_hazard_function(self, x):
        curves = NearestTimes(self.x, self.times).predict_survival_function(x)
        return [Steps(curve.x, np.where(curve.y, 0.0, 700.0)) for curve in curves]


class NearestExpectations(NearestTimes):
    def predict_expectation(self, x):
        nearest = ((np.asarray(x)[:, None] - self.x) ** 2).sum(axis=2).argmin(axis=1)
        return self.times[nearest]


@pytest.mark.parametrize("model_class", [NearestTimes, NearestHazards, NearestExpectations])
def test_the_expected_time_of_a_survival_model_is_audited_by_what_its_refusal_says(model_class):
    sets = make_sets(0, False)
    model = model_class(sets["members"].x, sets["members"].y)
    result = audit_as_told(model, sets)
    assert result["loss"].auc.value > 0.99, "the expected time of a member is its own"


def test_times_with_events_are_refused_with_the_way_to_the_times():
    x, times = np.arange(6.0).reshape(3, 2), np.array([(True, 1.5), (False, 2.0), (True, 3.0)], "?,f8")
    times.dtype.names = ("event", "time")
    with pytest.raises(
        dv.InputError, match=r"y: .*the fields event, time; of survival data, leave out the records wit"
    ):
        dv.Records(x, times)


def test_one_of_several_labels_is_audited_as_the_refusal_of_all_says():
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.multiclass import OneVsRestClassifier

    x = np.random.default_rng(0).normal(size=(240, 3))
    y = (x[:, :2] + np.random.default_rng(1).normal(size=(240, 2)) > 0).astype(int)
    with pytest.raises(
        dv.InputError, match=r"y: .* got shape \(240, 2\); audit one label at a time: y\[:, 0\]"
    ) as caught:
        dv.Records(x, y)
    function, declared = re.search(r"such as (.+) with outputs='(\w+)'", str(caught.value)).groups()
    model = OneVsRestClassifier(RandomForestClassifier(10, random_state=0)).fit(x[:80], y[:80])
    members, nonmembers, population = (dv.Records(x[i : i + 80], y[i : i + 80, 0]) for i in (0, 80, 160))
    result = dv.audit(
        eval(function, {"model": model}), outputs=declared,
        members=members, nonmembers=nonmembers, population=population, recipes=["loss"], fpr=(0.05,),
    )  # fmt: skip
    assert result.verdict.answer == "leak found"


def test_classes_as_ones_among_zeros_are_told_to_be_numbered():
    with pytest.raises(dv.InputError, match=r"each row holds a single one: pass y\.argmax\(axis=1\)"):
        dv.Records(np.zeros((3, 2)), np.eye(3, dtype=int))


@pytest.mark.filterwarnings("ignore:.*torchvision.*")
def test_an_image_classifier_of_transformers_is_audited_by_what_the_refusal_of_its_folder_says(tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    pytest.importorskip("PIL")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=16, patch_size=8,
        num_labels=3,
    )  # fmt: skip
    network = transformers.ViTForImageClassification(config)
    network.save_pretrained(tmp_path)
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(tmp_path)
    with pytest.raises(dv.InputError, match="holds ViTForImageClassification, an image classifier") as caught:
        dv.targets.load(str(tmp_path))
    told = re.search(r"pass (.+) for images .*where model = (.+) and processor = (.+);", str(caught.value))
    function, model, processor = told.groups()
    names = {
        name: eval(text, {"transformers": transformers}) for name, text in (("model", model), ("processor", processor))
    }
    target = dv.targets.adapt(eval(function, names))
    images = np.random.default_rng(0).integers(0, 256, (5, 3, 16, 16)).astype(np.float32) / 255
    expected = network.eval()(torch.from_numpy((images - 0.5) / 0.5)).logits.detach().numpy()
    np.testing.assert_allclose(target.logits(dv.Records(images)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("model.rds", "an R file holds .*divulge.targets.TableTarget"),
        ("model.RData", "an R file holds .*divulge.targets.TableTarget"),
        ("model.rda", "an R file holds .*divulge.targets.TableTarget"),
        ("model.pmml", "a PMML file is read by evaluators of its own; .*divulge.targets.TableTarget"),
        ("model.keras", r"a Keras file may .*model\.export\('model.onnx', format='onnx'\)"),
        ("model.h5", r"an HDF5 file may .*model\.export\('model.onnx', format='onnx'\)"),
        ("model.tflite", "a TensorFlow file is no .onnx file; tf2onnx makes one"),
        ("model.pt", "a torch.save file is a pickle; save the weights with safetensors.torch.save_file"),
        ("model.ckpt", "a torch.save file is a pickle; save the weights with safetensors.torch.save_file"),
        (
            "model.cbm",
            r"a file of CatBoost's own.*load the file in your own code by catboost\.CatBoost\(\)\.load_model",
        ),
        ("model.ubj", r"a file of XGBoost's own.*load the file in your own code by xgboost\.Booster\(model_file="),
        ("model.docx", "a document file is no model"),
        ("model.txt", r"its kind \(\.txt\) is not known here; .*divulge.targets.TableTarget"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_a_way(tmp_path, name, way):
    (tmp_path / name).write_bytes(b"anything")
    with pytest.raises(dv.InputError, match=f"(?s)target.model: .*{name} .*{way}"):
        dv.targets.load(str(tmp_path / name))


def test_saved_answers_are_audited_as_the_refusals_say(tmp_path):
    sets = make_sets(2, False)
    ids = {role: [f"{role} {row}" for row in range(len(records))] for role, records in sets.items()}
    sets = {role: dv.Records(records.x, records.y, ids[role]) for role, records in sets.items()}
    model = (
        pytest.importorskip("sklearn.tree")
        .DecisionTreeClassifier(random_state=0)
        .fit(sets["members"].x, sets["members"].y)
    )
    answers = pd.concat([pd.DataFrame(model.predict_proba(sets[role].x), index=ids[role]) for role in sets])
    answers.to_csv(tmp_path / "answers.csv")
    (tmp_path / "saved_answers.py").write_text(
        "import divulge, pandas\n"
        "def load():\n"
        f"    table = pandas.read_csv({str(tmp_path / 'answers.csv')!r}, index_col=0)\n"
        "    return divulge.targets.TableTarget(table.index, table.to_numpy(), outputs='probabilities')\n"
    )
    target = dv.targets.load("saved_answers:load", folder=tmp_path)
    result = dv.audit(target, **sets, recipes=["loss"], fpr=(0.05,))
    assert result["loss"].auc == dv.audit(model, **sets, recipes=["loss"], fpr=(0.05,))["loss"].auc
