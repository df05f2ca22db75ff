"""References of the target's own kind: clones of estimators, from Python and from a plan."""

import pickle
import tomllib

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib.externals.loky.backend import reduction
from sklearn.base import is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import RadiusNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from skops import io as skops_io

import divulge as dv
from divulge import plan as plans
from divulge import targets
from divulge.errors import InputError
from divulge.references import Custom, Train, clones
from divulge.references.clones import CloneTraining, clone_as_trained, clone_estimator, digest_estimator, train_clone
from divulge.targets import SklearnTarget
from divulge.targets.estimators import describe_estimator

pytestmark = pytest.mark.usefixtures("scores_alone")


def draw(n, seed, classes=2):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    return dv.Records(x, (x[:, 0] + rng.normal(size=n) > 0).astype(int) + (classes - 2) * (x[:, 1] > 1))


SETS = {"members": draw(100, 0), "nonmembers": draw(120, 1), "population": draw(400, 2)}


def fitted(estimator, records=SETS["members"]):
    return estimator.fit(records.x, records.y)


def libraries():
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier
    from xgboost import XGBClassifier

    return {
        "forest": RandomForestClassifier(15, random_state=0),
        "pipeline": make_pipeline(StandardScaler(), RandomForestClassifier(8, random_state=0)),
        "lightgbm": LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1),
        "xgboost": XGBClassifier(n_estimators=5, n_jobs=1),
        "catboost": CatBoostClassifier(iterations=5, verbose=0, thread_count=1, allow_writing_files=False),
    }


@pytest.mark.parametrize("name", ["pipeline", "lightgbm", "xgboost", "catboost"])
def test_references_without_make_model_are_clones_of_the_target(name):
    target = fitted(libraries()[name])
    result = dv.audit(target, **SETS, recipes=["lira"], references=Train(count=2), fpr=[0.05])
    assert result.about.settings.references.startswith("CloneTraining(estimator=")
    training = CloneTraining(target, 2, target=SklearnTarget(target))
    model = train_clone(training, SETS["population"], 7, 2)
    repeat = clone_estimator(target, 7)
    repeat.fit(SETS["population"].x, SETS["population"].y)
    np.testing.assert_allclose(
        np.exp(model.logits(SETS["members"])[:, 1] - model.logits(SETS["members"])[:, 0]),
        np.exp(np.diff(SklearnTarget(repeat).logits(SETS["members"]), axis=1)[:, 0]),
    )


def test_clones_find_the_leak_and_a_pool_trains_none_twice(tmp_path):
    target = fitted(RandomForestClassifier(30, random_state=0))
    arguments = {**SETS, "recipes": ["loss", "lira"], "references": Train(count=8), "fpr": [0.05]}
    result = dv.audit(target, **arguments, options=dv.AuditOptions(pool=tmp_path / "pool"))
    assert result["lira"].auc.low > 0.65
    repeated = dv.audit(target, **arguments, options=dv.AuditOptions(pool=tmp_path / "pool"))
    assert repeated.about.engine == "nothing to train"
    np.testing.assert_array_equal(result.scores["lira"], repeated.scores["lira"])
    restricted = fitted(RandomForestClassifier(30, random_state=0, max_depth=3))
    third = dv.audit(restricted, **arguments, options=dv.AuditOptions(pool=tmp_path / "pool"))
    assert third.about.engine != "nothing to train"


def test_a_model_that_learned_nothing_of_its_members_is_not_accused():
    target = fitted(RandomForestClassifier(20, random_state=0), draw(100, 9))
    result = dv.audit(target, **SETS, recipes=["lira"], references=Train(count=4), fpr=[0.05])
    assert result["lira"].auc.low < 0.5 < result["lira"].auc.high  # 95 %; the seed is fixed


def test_another_process_trains_the_same_clones():
    training = CloneTraining(RandomForestClassifier(5), 2)
    sent = pickle.loads(reduction.dumps(training))
    logits = [
        train_clone(clone_training, SETS["population"], 3, 2).logits(SETS["members"])
        for clone_training in (training, sent)
    ]
    np.testing.assert_array_equal(*logits)
    assert np.ptp(train_clone(training, SETS["population"], 4, 2).logits(SETS["members"]) - logits[0]) > 0


def test_each_clone_has_its_own_seed_and_one_thread_down_to_the_last_step():
    nested = make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=5, n_jobs=4))
    parameters = [clone_estimator(nested, seed).get_params() for seed in (1, 1, 2)]
    seeds = [p["randomforestclassifier__random_state"] for p in parameters]
    assert seeds[0] == seeds[1] != seeds[2]
    assert {p["randomforestclassifier__n_jobs"] for p in parameters} == {1}
    assert nested.get_params()["randomforestclassifier__random_state"] == 5


def boosted(name):
    """A booster that records of its own stopped early, its number of rounds, and what reads that of a clone."""
    held_out = (SETS["nonmembers"].x[:40], SETS["nonmembers"].y[:40])
    x, y = SETS["members"].x, SETS["members"].y
    match name:
        case "lightgbm" | "lightgbm in a pipeline":
            import lightgbm

            booster = lightgbm.LGBMClassifier(num_iterations=60, verbose=-1, n_jobs=1, early_stopping_round=2)
            if name == "lightgbm":
                model = booster.fit(x, y, eval_X=held_out[0], eval_y=held_out[1])
            else:
                model = make_pipeline(StandardScaler(), booster)
                model.fit(x, y, lgbmclassifier__eval_X=held_out[0], lgbmclassifier__eval_y=held_out[1])
            return model, booster.best_iteration_, lambda clone: clone.get_params()["num_iterations"]
        case "xgboost":
            import xgboost

            model = xgboost.XGBClassifier(n_estimators=60, n_jobs=1, early_stopping_rounds=2)
            model.fit(x, y, eval_set=[held_out], verbose=False)
            return model, model.best_iteration + 1, lambda clone: clone.n_estimators
        case _:
            import catboost

            settings = {"verbose": 0, "thread_count": 1, "allow_writing_files": False, "learning_rate": 0.5}
            model = catboost.CatBoostClassifier(
                iterations=60, early_stopping_rounds=2, use_best_model=True, **settings
            ).fit(x, y, eval_set=held_out)
            return model, model.tree_count_, lambda clone: clone.get_params()["iterations"]


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_boosting_that_was_stopped_early_has_as_many_rounds_in_its_clones(name):
    target, rounds, rounds_of = boosted(name)
    assert 0 < rounds < 60
    assert rounds_of(clone_as_trained(target)) == rounds
    result = dv.audit(target, **SETS, recipes=["lira"], references=Train(count=2, engine="serial"), fpr=[0.05])
    assert np.isfinite(result.scores["lira"]).all()
    assert f"={rounds}" in result.about.settings.references


def test_rounds_are_those_of_a_step_of_a_pipeline_and_of_a_forest_that_grew():
    pipeline, rounds, _ = boosted("lightgbm in a pipeline")
    assert clone_as_trained(pipeline).get_params()["lgbmclassifier__num_iterations"] == rounds
    forest = fitted(RandomForestClassifier(6, warm_start=True, random_state=0))
    forest.set_params(n_estimators=20)  # what it would grow to at the next call of fit
    assert clone_as_trained(forest).n_estimators == 6


def test_early_stopping_that_no_clone_can_repeat_is_refused_before_work_starts():
    import xgboost

    unfitted = xgboost.XGBClassifier(n_estimators=5, early_stopping_rounds=2)
    held_out = (SETS["nonmembers"].x[:40], SETS["nonmembers"].y[:40])
    search = GridSearchCV(unfitted, {"max_depth": [1, 2]}, cv=2)
    search.fit(SETS["members"].x, SETS["members"].y, eval_set=[held_out], verbose=False)
    for target, references in ((search, Train(count=2)), (fitted(GaussianNB()), Train(lambda: unfitted, count=2))):
        with pytest.raises(InputError, match="XGBClassifier stops early on a validation set, which clones do not have"):
            dv.audit(target, **SETS, recipes=["lira"], references=references, fpr=[0.05])
    # A booster that takes its validation set from what it is given does so in its clones, too.
    repeatable = HistGradientBoostingClassifier(max_iter=20, early_stopping=True, n_iter_no_change=2)
    assert clone_as_trained(fitted(repeatable)).get_params() == repeatable.get_params()


def real_valued(records):
    return dv.Records(records.x, records.x[:, 0] + records.x[:, 1] ** 2 / 3).with_real_values()


NESTED = {
    "search": lambda: GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 3]}, cv=KFold(3, shuffle=True)),
    "calibrated": lambda: CalibratedClassifierCV(DecisionTreeClassifier(max_depth=3), cv=KFold(3, shuffle=True)),
    "vote": lambda: VotingClassifier([("a", DecisionTreeClassifier()), ("b", GaussianNB())], voting="soft"),
    "stack of regressors": lambda: StackingRegressor([("a", RandomForestRegressor(3)), ("b", Ridge())], cv=2),
    "target that is transformed": lambda: TransformedTargetRegressor(
        RandomForestRegressor(3), func=np.arcsinh, inverse_func=np.sinh
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_clones_of_nested_estimators_depend_on_the_seed_alone(name):
    estimator = NESTED[name]()  # random_state is None everywhere
    sets = {k: real_valued(r) for k, r in SETS.items()} if is_regressor(estimator) else SETS
    target = fitted(estimator, sets["members"])
    options = {"recipes": ["lira"], "references": Train(count=2, engine="serial"), "fpr": [0.05]}
    np.random.seed(1)  # noqa: NPY002  what random_state=None draws from
    result = dv.audit(target, **sets, **options)
    np.random.seed(2)  # noqa: NPY002
    repeated = dv.audit(target, **sets, **options)
    np.testing.assert_array_equal(result.scores["lira"], repeated.scores["lira"])


class Shift(StandardScaler):
    """A step of the user's own."""


def test_the_key_in_the_pool_holds_all_that_a_clone_depends_on(tmp_path, monkeypatch):
    def trained(seed=0, records=SETS["population"], **changes):
        estimator = RandomForestClassifier(**({"n_estimators": 3} | changes))
        splits = dv.references.splits.offline(len(records), 2, 0)
        observe = [SETS["members"]]
        return CloneTraining(estimator, 2).fit(records, splits, seed=seed, observe=observe, pool=tmp_path / "pool")

    assert trained().reused == 0
    assert trained().reused == 2
    assert trained(random_state=5, n_jobs=2).reused == 2  # a clone has its own
    assert trained(max_depth=3).reused == 0
    assert trained(seed=1).reused == 0
    assert trained(records=dv.Records(SETS["population"].x, 1 - SETS["population"].y)).reused == 0
    version = clones.metadata.version
    monkeypatch.setattr(clones.metadata, "version", lambda package: version(package) + ".1")
    assert trained().reused == 0
    monkeypatch.undo()
    functions = [FunctionTransformer(func) for func in (lambda x: x + 1, lambda x: x + 2)]
    assert len({digest_estimator(make_pipeline(each, GaussianNB())) for each in functions}) == 2
    long = [FunctionTransformer(kw_args={"weights": pd.Series(np.arange(500) == hit)}) for hit in (250, 251)]
    assert len({digest_estimator(each) for each in long}) == 2
    assert digest_estimator(Shift()) != digest_estimator(StandardScaler())
    assert digest_estimator(LogisticRegression(C=2)) != digest_estimator(LogisticRegression(C=3))
    search = [GridSearchCV(GaussianNB(), {"var_smoothing": grid}) for grid in ([1e-9, 1e-3], [1e-9, 1e-2])]
    assert len({digest_estimator(each) for each in search}) == 2


def test_clones_keep_nothing_in_the_users_cache(tmp_path):
    target = fitted(make_pipeline(StandardScaler(), GaussianNB(), memory=str(tmp_path)))
    before = sorted(tmp_path.rglob("*"))
    dv.audit(target, **SETS, recipes=["lira"], references=Train(count=2, engine="serial"), fpr=[0.05])
    assert sorted(tmp_path.rglob("*")) == before


def test_a_model_with_weights_has_references_that_are_trained_with_theirs():
    """Weights are no parameters: clones know nothing of them, and the user's own training finds them by identifier."""
    rng = np.random.default_rng(3)
    sets = {k: dv.Records(r.x, r.y, [f"{k}{i}" for i in range(len(r))]) for k, r in SETS.items()}
    weights = {i: w for r in sets.values() for i, w in zip(r.ids, rng.uniform(0.1, 5, len(r)), strict=True)}

    def train(records, seed):
        w = [weights[i] for i in records.ids]
        return LogisticRegression(C=100).fit(records.x, records.y, sample_weight=w)

    target = train(sets["members"], 0)
    options = {"recipes": ["lira"], "fpr": [0.05]}
    weighted = dv.audit(target, **sets, references=Custom(train, count=4, engine="serial"), **options)
    plain = dv.audit(target, **sets, references=Train(count=4, engine="serial"), **options)
    assert np.abs(weighted.scores["lira"] - plain.scores["lira"]).max() > 0.1
    balanced = fitted(LogisticRegression(class_weight="balanced"))
    assert clone_estimator(balanced, 0).class_weight == "balanced"


@pytest.mark.parametrize("library", ["forest", "xgboost"])
def test_a_class_that_a_clone_never_saw_gets_the_floor(library):
    target = fitted(libraries()[library], draw(300, 3, classes=3))
    without_one = SETS["population"]
    two = dv.Records(without_one.x, np.where(without_one.y == 1, 2, 0))
    logits = train_clone(CloneTraining(target, 2, target=SklearnTarget(target)), two, 0, 3).logits(two)
    assert logits.shape == (400, 3)
    assert (logits[:, 1] <= logits.min(axis=1)).all()
    assert (logits.argmax(axis=1) == two.y).mean() > 0.7


def test_classes_by_name_and_their_weights_and_columns_by_name():
    frame = pl.DataFrame(SETS["members"].x, schema=["a", "b", "c", "d"])
    names = np.array(["no", "yes"])
    model = LogisticRegression(class_weight={"no": 1.0, "yes": 3.0}).fit(frame.to_pandas(), names[SETS["members"].y])
    sets = {
        key: dv.Records(pl.DataFrame(r.x, schema=["a", "b", "c", "d"]).select("d", "a", "c", "b"), names[r.y])
        for key, r in SETS.items()
    }
    result = dv.audit(model, **sets, recipes=["lira"], references=Train(count=4), fpr=[0.05])
    assert np.isfinite(result.scores["lira"]).all()


def test_catboost_with_columns_of_texts_is_cloned_though_its_constructor_copies_them():
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(iterations=3, verbose=0, cat_features=["city"], allow_writing_files=False)
    cities = np.array(["Ulm", "Bern", "Wien"])
    frames = {
        key: pl.DataFrame({"a": r.x[:, 0], "city": cities[np.digitize(r.x[:, 1], [0, 1])]}).to_pandas()
        for key, r in SETS.items()
    }
    for estimator in (model, make_pipeline("passthrough", model)):
        target = estimator.fit(frames["members"], SETS["members"].y)
        sets = {key: dv.Records(frames[key], SETS[key].y) for key in SETS}
        result = dv.audit(target, **sets, recipes=["lira"], references=Train(count=2), fpr=[0.05])
        assert np.isfinite(result.scores["lira"]).all()
        assert "__sklearn_clone__" not in vars(model)


def test_a_vote_by_majority_is_audited_by_its_labels_and_has_references(tmp_path):
    voting = VotingClassifier([("a", RandomForestClassifier(5, random_state=0)), ("b", GaussianNB())])
    names = np.array(["no", "yes"])
    sets = {key: dv.Records(r.x, names[r.y]) for key, r in SETS.items()}
    target = make_pipeline(StandardScaler(), voting).fit(sets["members"].x, names[SETS["members"].y])
    result = dv.audit(target, **sets, recipes=["correct", "correct-calibrated"], references=Train(count=2), fpr=[0.05])
    right = target.predict(SETS["members"].x) == names[SETS["members"].y]
    assert 0.5 < result["correct"].auc.value < 1
    with pytest.raises(InputError, match="labels alone"):
        dv.audit(target, **sets, recipes=["loss"], fpr=[0.05])
    skops_io.dump(target, tmp_path / "model.skops")
    loaded = targets.load(str(tmp_path / "model.skops"), labels_only=True)
    assert (loaded.labels(sets["members"]) == SETS["members"].y).mean() == right.mean()
    assert targets.is_label_only(loaded)


def test_neighbours_within_a_radius_are_asked_though_they_have_no_number():
    target = fitted(RadiusNeighborsClassifier(radius=10.0))
    result = dv.audit(target, **SETS, recipes=["loss", "lira"], references=Train(count=2), fpr=[0.05])
    assert np.isfinite(result.scores["loss"]).all()


def test_make_model_may_return_an_estimator_for_any_target():
    train = Train(lambda: GaussianNB(), count=2)
    target = fitted(GaussianNB())
    for model in (target, lambda x: target.predict_log_proba(x)):
        result = dv.audit(model, **SETS, recipes=["lira"], references=train, fpr=[0.05])
        assert "GaussianNB" in result.about.settings.references
    splits = dv.references.splits.offline(len(SETS["population"]), 2, 0)
    assert train.fit(SETS["population"], splits, seed=0, observe=[SETS["members"]]).outputs[0].shape == (2, 100, 2)


@pytest.mark.parametrize(
    ("model", "references", "message"),
    [
        (lambda x: np.stack([x[:, 0], -x[:, 0]], axis=1), Train(count=2), "make_model is needed"),
        (fitted(GaussianNB()), Train(count=2, epochs=3), "epochs is a setting of networks"),
        (
            CalibratedClassifierCV(FrozenEstimator(fitted(GaussianNB()))).fit(SETS["members"].x, SETS["members"].y),
            Train(count=2),
            "fitted already",
        ),
    ],
)
def test_what_cannot_be_cloned_is_refused_before_work_starts(model, references, message):
    with pytest.raises(InputError, match=message):
        dv.audit(model, **SETS, recipes=["lira"], references=references, fpr=[0.05])


def test_a_clone_is_described_by_all_its_parameters():
    assert "max_depth=3" in describe_estimator(RandomForestClassifier(max_depth=3))
    nested = describe_estimator(make_pipeline(StandardScaler(), GaussianNB()))
    assert "GaussianNB(priors=None" in nested
    assert " at 0x" not in nested


def write_tables(folder, *, with_id=True):
    for key, records in SETS.items():
        frame = pl.DataFrame(records.x, schema=["a", "b", "c", "d"])
        columns = {"patient_id": [f"{key}{i}" for i in range(len(records))]} if with_id else {}
        frame = frame.with_columns(**{k: pl.Series(v) for k, v in columns.items()}, outcome=pl.Series(records.y))
        frame.write_csv(folder / f"{key}.csv")
    frame = pl.DataFrame(SETS["members"].x, schema=["a", "b", "c", "d"]).to_pandas()
    skops_io.dump(RandomForestClassifier(10, random_state=0).fit(frame, SETS["members"].y), folder / "model.skops")


def test_init_with_a_skops_model_writes_a_plan_that_runs(tmp_path, monkeypatch, divulge):
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert divulge("init", "--model", "model.skops")[0] == 0
    text = tomllib.loads((tmp_path / "plan.toml").read_text())
    assert text["data"]["label"] == "outcome"
    assert text["data"]["id"] == "patient_id"
    assert text["references"] == {"count": 8}
    assert not (tmp_path / "my_model.py").exists()
    code, out, err = divulge("audit", "plan.toml", "--out", "run", "--json")
    assert code == 0, err
    assert '"CloneTraining' in out


@pytest.mark.parametrize(
    ("columns", "model_columns", "expected"),
    [
        ({"a": [0.1, 0.2], "y": ["0", "1"], "note": ["q", "q"]}, ("a",), ("y", "", ("note",))),
        ({"a": [0.1, 0.2], "row_id": [5, 6], "sick": [0, 1]}, ("a",), ("sick", "row_id", ())),
        ({"x": [0.1, 0.2], "label": [0, 1]}, ("a",), ("label", "", ())),  # another model's columns
    ],
)
def test_columns_are_found_by_what_the_model_was_fitted_on(tmp_path, columns, model_columns, expected):
    frame = pl.DataFrame(columns)
    frame.write_csv(tmp_path / "members.csv")
    fitting = pl.DataFrame({name: [0.0, 1.0] for name in model_columns}).to_pandas()
    skops_io.dump(GaussianNB().fit(fitting, [0, 1]), tmp_path / "model.skops")
    fitted_columns = plans.find_columns(str(tmp_path / "model.skops"), str(tmp_path / "members.csv"))
    assert (fitted_columns.label, fitted_columns.id, fitted_columns.drop) == expected


def test_a_plan_names_the_users_own_training(tmp_path, divulge):
    write_tables(tmp_path, with_id=False)
    (tmp_path / "own_training.py").write_text(
        "from sklearn.naive_bayes import GaussianNB\n\n\n"
        "def train(records, seed):\n    return GaussianNB().fit(records.x, records.y)\n"
    )
    (tmp_path / "plan.toml").write_text(
        'recipes = ["lira"]\nfpr = [0.05]\n[target]\nmodel = "model.skops"\n[data]\nmembers = "members.csv"\n'
        'nonmembers = "nonmembers.csv"\npopulation = "population.csv"\nlabel = "outcome"\n'
        '[references]\ntrain = "own_training:train"\ncount = 2\n'
    )
    code, out, err = divulge("audit", tmp_path / "plan.toml", "--out", tmp_path / "run", "--json")
    assert code == 0, err
    assert "own_training.train" in out
    (tmp_path / "two.toml").write_text((tmp_path / "plan.toml").read_text() + 'make_model = "own_training:train"\n')
    with pytest.raises(InputError, match="one of make_model, train and base"):
        plans.read(tmp_path / "two.toml")


CLASS = """
from sklearn.base import BaseEstimator
from sklearn.naive_bayes import GaussianNB


class Parent(GaussianNB):
    def fit(self, x, y):
        return super().fit({parent}, y)


class Own(Parent):
    @property
    def kind(self):
        return {child}
"""


@pytest.mark.parametrize("change", [{"parent": "x"}, {"child": 2}, {}])
def test_the_key_tells_classes_apart_whose_source_is_not_kept(change):
    """As in `python -c` or code that a program makes: there the name alone would be the key."""

    def digest(**parts):
        namespace = {"__name__": "made_on_the_way"}
        exec(CLASS.format(**({"parent": "x + 1", "child": 1} | parts)), namespace)
        return clones.digest_estimator(namespace["Own"]())

    assert (digest(**change) == digest()) == (not change)


def test_the_key_tells_functions_of_one_line_apart():
    steps = [FunctionTransformer(f) for f in (lambda x: np.sin(x), lambda x: np.cos(x), lambda x: (lambda y: y)(x))]
    inner = [FunctionTransformer(f) for f in (lambda x: (lambda y: y + 1)(x), lambda x: (lambda y: y + 2)(x))]
    digests = [clones.digest_estimator(step) for step in (*steps, *inner)]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize(
    ("library", "threads", "is_step"),
    [
        ("sklearn", 3, True),
        ("lightgbm", 3, False),
        ("xgboost", None, True),
        ("catboost", 3, True),
        ("catboost", None, False),
    ],
)
def test_a_clone_has_one_thread_and_its_own_seed_whatever_was_set(library, threads, is_step):
    if library == "catboost":
        catboost = pytest.importorskip("catboost")
        model = catboost.CatBoostClassifier(iterations=3, **({} if threads is None else {"thread_count": threads}))
    elif library == "lightgbm":
        model = pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=3, n_jobs=threads)
    elif library == "xgboost":
        model = pytest.importorskip("xgboost").XGBClassifier(n_estimators=3, n_jobs=threads)
    else:
        model = RandomForestClassifier(n_estimators=3, n_jobs=threads)
    clones = [clone_estimator(make_pipeline(model) if is_step else model, seed) for seed in (0, 0, 1)]
    parts = [clone.steps[-1][1].get_params() if is_step else clone.get_params() for clone in clones]
    for parameters in parts:
        assert parameters["thread_count" if library == "catboost" else "n_jobs"] == 1
        assert parameters["iterations" if library == "catboost" else "n_estimators"] == 3
    seeds = [part["random_seed" if library == "catboost" else "random_state"] for part in parts]
    assert seeds[0] == seeds[1] != seeds[2]
    if library == "catboost":
        assert parts[0]["allow_writing_files"] is False


def test_catboost_without_a_validation_set_is_cloned_where_it_is_hidden():
    catboost = pytest.importorskip("catboost")
    inner = catboost.CatBoostClassifier(iterations=3, verbose=0, allow_writing_files=False, thread_count=1)
    x = np.random.default_rng(0).normal(size=(40, 3))
    model = CalibratedClassifierCV(inner, cv=2).fit(x, (x[:, 0] > 0).astype(int))
    assert clone_as_trained(model).estimator.get_params()["iterations"] == 3
