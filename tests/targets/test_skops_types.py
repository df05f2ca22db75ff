"""skops files of neighbours, support vectors and boosting open without named types, and hostile ones are refused."""

import json
import zipfile

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, NuSVC
from skops import io as skops_io

from divulge.errors import InputError
from divulge.targets.skops_files import TRUSTED, _check_lightgbm, _check_xgboost, read_skops

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = RNG.integers(0, 3, 60)

MODELS = {
    "neighbours": KNeighborsClassifier(3),
    "ball tree": KNeighborsClassifier(3, algorithm="ball_tree", metric="manhattan"),
    "minkowski": KNeighborsClassifier(3, p=3, weights="distance"),
    "brute": KNeighborsClassifier(3, algorithm="brute"),
    "radius": RadiusNeighborsClassifier(5.0),
    "pipeline": make_pipeline(StandardScaler(), KNeighborsClassifier(3)),
    "svc": SVC(),
    "nu": NuSVC(nu=0.3),
    "svr": SVR(),
    "lightgbm": lightgbm.LGBMClassifier(n_estimators=4, verbose=-1, n_jobs=1),
    "dart": lightgbm.LGBMClassifier(n_estimators=4, boosting_type="dart", verbose=-1, n_jobs=1),
    "xgboost": xgboost.XGBClassifier(n_estimators=4, n_jobs=1),
    "linear": xgboost.XGBClassifier(n_estimators=4, booster="gblinear", n_jobs=1),
    "xgboost dart": xgboost.XGBClassifier(n_estimators=4, booster="dart", n_jobs=1),
}


@pytest.mark.parametrize("name", MODELS)
def test_they_open_and_answer_as_before(name, tmp_path):
    model = MODELS[name].fit(X, Y)
    skops_io.dump(model, tmp_path / "model.skops")
    read = read_skops(tmp_path / "model.skops")
    method = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    np.testing.assert_array_equal(getattr(read, method)(X), getattr(model, method)(X))


def test_a_search_tree_of_the_file_is_never_followed(tmp_path):
    model = KNeighborsClassifier(3).fit(X, Y)
    expected = model.predict_proba(X)
    foreign = KNeighborsClassifier(3).fit(RNG.normal(size=(9000, 3)) + 50, RNG.integers(0, 3, 9000))
    model._tree = foreign._tree  # its indices reach far beyond the 60 records
    skops_io.dump(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(read_skops(tmp_path / "model.skops").predict_proba(X), expected)


@pytest.mark.parametrize(
    ("model", "attribute", "value", "message"),
    [
        (KNeighborsClassifier(3, algorithm="brute"), "_y", np.zeros(7, dtype=int), "labels than of records"),
        (SVC(), "_n_support", np.array([9999, 1, 1], dtype=np.int32), "support vectors than counted"),
        (SVC(), "_intercept_", np.zeros(1), "intercepts"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(model, attribute, value, message, tmp_path):
    model.fit(X, Y)
    setattr(model, attribute, value)
    skops_io.dump(model, tmp_path / "model.skops")
    with pytest.raises(InputError, match=message):
        read_skops(tmp_path / "model.skops")


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("left_child", lambda v: [0, *v[1:]], "after its parent"),
        ("right_child", lambda v: [999, *v[1:]], "a node that is not there"),
        ("right_child", lambda v: [-999, *v[1:]], "a leaf that is not there"),
        ("split_feature", lambda v: [77, *v[1:]], "feature out of range"),
        ("split_feature", lambda v: v[1:], "nodes that are missing"),
    ],
)
def test_paths_of_lightgbm_end_inside_the_tree(key, change, message):
    text = MODELS["lightgbm"].fit(X, Y).booster_.model_to_string()
    _check_lightgbm(text)
    line = next(line for line in text.splitlines() if line.startswith(f"{key}="))
    changed = change([int(v) for v in line.partition("=")[2].split()])
    with pytest.raises(ValueError, match=message):
        _check_lightgbm(text.replace(line, f"{key}={' '.join(map(str, changed))}", 1))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [("left_children", 0, "cycle"), ("right_children", 999, "not there"), ("split_indices", 55, "feature")],
)
def test_paths_of_xgboost_end_inside_the_tree(key, value, message):
    model = json.loads(MODELS["xgboost"].fit(X, Y).get_booster().save_raw("json"))
    _check_xgboost(model)
    model["learner"]["gradient_booster"]["model"]["trees"][0][key][0] = value
    with pytest.raises(ValueError, match=message):
        _check_xgboost(model)


def test_types_that_run_code_are_not_on_the_list(tmp_path):
    assert not [name for name in TRUSTED if name.split(".")[0] in ("os", "subprocess", "builtins", "operator", "types")]
    model = KNeighborsClassifier(3, metric=np.linalg.norm)  # a function of somebody's choice
    skops_io.dump(model, tmp_path / "model.skops")
    with pytest.raises(InputError, match="not trusted"):
        read_skops(tmp_path / "model.skops")
    with zipfile.ZipFile(tmp_path / "model.skops") as archive:
        assert "numpy.linalg" in archive.read("schema.json").decode()
