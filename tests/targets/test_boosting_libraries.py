"""Classifiers of XGBoost, CatBoost and LightGBM get the columns that they were fitted on, by name."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import special

import divulge as dv
from divulge import plan

pytestmark = pytest.mark.usefixtures("scores_alone")


def make_patients(n, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 4))
    is_ill = values[:, 0] + rng.normal(size=n) > 0
    return pd.DataFrame(values, columns=["age", "height", "blood", "dose"]), is_ill.astype(int)


@pytest.fixture(scope="module")
def tables():
    return {role: make_patients(200, seed) for seed, role in enumerate(("members", "nonmembers", "population"))}


def fit_xgboost(x, y):
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=50, n_jobs=1, random_state=0).fit(x, y)


def fit_xgboost_pipeline(x, y):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = pytest.importorskip("xgboost").XGBClassifier(n_estimators=50, n_jobs=1, random_state=0)
    return make_pipeline(StandardScaler().set_output(transform="pandas"), model).fit(x, y)


def fit_catboost(x, y):
    model = pytest.importorskip("catboost").CatBoostClassifier(
        iterations=50, verbose=0, allow_writing_files=False, thread_count=1, random_seed=0
    )
    return model.fit(x, np.where(y == 1, "ill", "well"))


def fit_lightgbm(x, y):
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=50, n_jobs=1, random_state=0, verbose=-1).fit(x, y)


FITS = [fit_xgboost, fit_xgboost_pipeline, fit_catboost, fit_lightgbm]


def measure_auc(model, tables, columns, make_frame, names):
    records = {
        role: dv.Records(make_frame(x[columns]), y if names is None else names[y]) for role, (x, y) in tables.items()
    }
    return dv.audit(model, **records, recipes=["loss"], fpr=(0.05,))["loss"].auc


@pytest.mark.parametrize("fit", FITS)
def test_the_order_of_columns_and_the_library_of_the_frame_change_nothing(fit, tables):
    x, y = tables["members"]
    model = fit(x, y)
    names = np.array(["well", "ill"]) if fit is fit_catboost else None
    auc = measure_auc(model, tables, list(x), pd.DataFrame, names)
    assert auc.low > 0.5, "a model of as many trees knows its members"
    for make_frame in (pd.DataFrame, pl.from_pandas):
        assert measure_auc(model, tables, ["dose", "blood", "age", "height"], make_frame, names) == auc


@pytest.mark.parametrize("fit", FITS)
def test_columns_that_lack_are_listed(fit, tables):
    model = fit(*tables["members"])
    names = np.array(["well", "ill"]) if fit is fit_catboost else None
    with pytest.raises(dv.InputError, match=r"members: the columns .* are needed; these lack 'height', 'blood'"):
        measure_auc(model, tables, ["age", "dose"], pd.DataFrame, names)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_categories_of_any_library_are_those_that_the_model_knows(name, tables):
    library = pytest.importorskip(name)
    x, y = tables["members"]
    ward = np.random.default_rng(0).choice(["a", "b", "c"], len(x))
    texts = x.assign(ward=ward.astype(object))
    typed = texts.astype({"ward": "category"})
    if name == "xgboost":
        model = library.XGBClassifier(n_estimators=10, n_jobs=1, enable_categorical=True).fit(typed, y)
    elif name == "lightgbm":
        model = library.LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1).fit(typed, y)
    else:
        model = library.CatBoostClassifier(
            iterations=10, verbose=0, allow_writing_files=False, thread_count=1, cat_features=["ward"]
        ).fit(texts, y)
    expected = model.predict_proba(texts if name == "catboost" else typed)
    frames = [texts, typed, pl.from_pandas(texts), pl.from_pandas(typed), texts[texts.columns[::-1]]]
    for frame in frames:
        inputs = dv.targets.fitted_frames.estimator_inputs(model, dv.Records(frame, y))
        np.testing.assert_array_equal(model.predict_proba(inputs), expected)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_ordered_categories_and_those_of_numbers_are_found_in_a_csv_file(name, tables, tmp_path):
    library, skops_io = pytest.importorskip(name), pytest.importorskip("skops.io")
    types = {
        "size": pd.CategoricalDtype(["small", "medium", "large"], ordered=True),
        "ward": pd.CategoricalDtype(["north", "south", "east"]),
        "grade": pd.CategoricalDtype([1, 2, 3, 4, 5], ordered=True),
        "code": pd.CategoricalDtype(["1", "2", "10"], ordered=True),
        "floor": pd.CategoricalDtype([3, 1, 2]),
    }
    rng, frames = np.random.default_rng(0), {}
    for role, (x, _) in tables.items():
        drawn = {column: rng.choice(dtype.categories, len(x)) for column, dtype in types.items()}
        ill = (x["age"] + (drawn["size"] == "large") + (drawn["code"] == "10") + rng.normal(size=len(x)) > 1).astype(
            int
        )
        frames[role] = x.assign(**drawn, rooms=rng.integers(0, 9, len(x)), y=ill)
        frames[role].to_csv(tmp_path / f"{role}.csv", index=False)
    typed = frames["members"].drop(columns="y").astype(types)
    options = {"enable_categorical": True} if name == "xgboost" else {"verbose": -1}
    classifier = library.XGBClassifier if name == "xgboost" else library.LGBMClassifier
    model = classifier(n_estimators=10, n_jobs=1, **options).fit(typed, frames["members"]["y"])
    expected = dv.targets.adapt(model).logits(dv.Records(typed))
    np.testing.assert_allclose(special.softmax(expected, axis=1), model.predict_proba(typed), rtol=1e-5)
    plain = frames["members"].drop(columns="y")
    for frame in (plain, plain[plain.columns[::-1]], pl.from_pandas(plain), plain.astype({"code": int})):
        np.testing.assert_array_equal(dv.targets.adapt(model).logits(dv.Records(frame)), expected)
    skops_io.dump(model, tmp_path / "model.skops")
    (tmp_path / "plan.toml").write_text(
        'recipes = ["loss"]\n[target]\nmodel = "model.skops"\n[data]\nlabel = "y"\n'
        + "".join(f'{role} = "{role}.csv"\n' for role in tables)
    )
    resolved = plan.resolve(plan.read(tmp_path / "plan.toml"), tmp_path)
    np.testing.assert_array_equal(resolved.target.logits(resolved.subject.members), expected)


def test_categories_that_fit_several_columns_are_asked_for(tables):
    x, y = tables["members"]
    numbers = np.random.default_rng(0).integers(0, 3, (2, len(x)))
    frame = x.assign(grade=numbers[0], rooms=numbers[1])
    typed = frame.astype({"grade": pd.CategoricalDtype([0, 1, 2], ordered=True)})
    model = fit_lightgbm(typed, y)
    with pytest.raises(dv.InputError, match="which ones these are"):
        dv.targets.adapt(model).logits(dv.Records(frame))
    logits = dv.targets.adapt(model).logits(dv.Records(typed))
    np.testing.assert_allclose(special.softmax(logits, axis=1), model.predict_proba(typed))


@pytest.mark.parametrize(
    ("name", "file", "options"),
    [
        ("catboost", "model.cbm", {}),
        ("catboost", "model.json", {"format": "json"}),
        ("xgboost", "model.json", {}),
        ("xgboost", "model.ubj", {}),
        ("lightgbm", "model.txt", {}),
    ],
)
def test_a_librarys_own_file_is_refused_with_the_way_on(tmp_path, tables, name, file, options):
    library = pytest.importorskip(name)
    x, y = tables["members"]
    if name == "catboost":
        model = library.CatBoostClassifier(iterations=2, verbose=0, allow_writing_files=False, thread_count=1)
    else:
        classifier = library.XGBClassifier if name == "xgboost" else library.LGBMClassifier
        model = classifier(n_estimators=2, n_jobs=1)
    model.fit(x, y)
    saved = model.booster_ if name == "lightgbm" else model
    saved.save_model(str(tmp_path / file), **options)
    with pytest.raises(dv.InputError, match=f"(?i)is a file of {name}'s own.*skops.io.dump"):
        dv.targets.load(str(tmp_path / file))


def test_a_catboost_classifier_is_read_from_skops_where_it_is_trusted(tmp_path, tables):
    library, skops_io = pytest.importorskip("catboost"), pytest.importorskip("skops.io")
    x, y = tables["members"]
    city = np.random.default_rng(0).choice(["Rome", "Oslo"], len(x)).astype(object)
    frame = x.assign(city=city)
    model = library.CatBoostClassifier(
        iterations=5, verbose=0, allow_writing_files=False, thread_count=1, cat_features=["city"]
    ).fit(frame, y)
    path = str(tmp_path / "model.skops")
    skops_io.dump(model, path)
    with pytest.raises(dv.InputError, match=r"not trusted: catboost\.core\.CatBoostClassifier"):
        dv.targets.load(path)
    target = dv.targets.load(path, trust=["catboost.core.CatBoostClassifier"])
    reversed_columns = dv.Records(pl.from_pandas(frame[frame.columns[::-1]]), y)
    np.testing.assert_array_equal(
        target.logits(reversed_columns), dv.targets.SklearnTarget(model).logits(dv.Records(frame, y))
    )
