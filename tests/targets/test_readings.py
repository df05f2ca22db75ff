"""Outputs that look like others: one probability, pairs of classes, several labels, labels beside scores."""

import re

import numpy as np
import pytest
from sklearn import (
    datasets,
    ensemble,
    frozen,
    linear_model,
    model_selection,
    multiclass,
    multioutput,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

import divulge as dv
from divulge import references, targets

pytestmark = pytest.mark.usefixtures("scores_alone")

N = 300


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3 * N, 6))
    return x, (x[:, 0] + 2 * rng.normal(size=3 * N) > 0).astype(int)


def audit(target, x, y, **options):
    members, nonmembers, population = (dv.Records(x[i : i + N], y[i : i + N]) for i in (0, N, 2 * N))
    sets = {"members": members, "nonmembers": nonmembers, "population": population}
    return dv.audit(target, **sets, recipes=["loss"], progress=False, **options)


@pytest.mark.parametrize("shape", ["vector", "column"])
@pytest.mark.parametrize(
    "model",
    [
        ensemble.RandomForestClassifier(30, random_state=0),
        linear_model.LogisticRegression(),
    ],
)
def test_one_probability_per_record_is_no_log_odds(model, shape, data):
    x, y = data
    model.fit(x[:N], y[:N])

    def probability(x):
        return model.predict_proba(x)[:, 1] if shape == "vector" else model.predict_proba(x)[:, 1:]

    with pytest.raises(dv.InputError, match=r"declared as logits.*outputs='probabilities'"):
        audit(probability, x, y)
    logits = targets.adapt(probability, outputs="probabilities").logits(dv.Records(x))
    np.testing.assert_allclose(np.exp(logits), np.maximum(model.predict_proba(x), 1e-7))


def test_one_probability_of_a_reference_model_is_no_log_odds(data):
    x, y = data

    def train(records, seed):
        model = linear_model.LogisticRegression().fit(records.x, records.y)
        return lambda x: model.predict_proba(x)[:, 1]

    model = linear_model.LogisticRegression().fit(x[:N], y[:N])
    sets = {name: dv.Records(x[i : i + N], y[i : i + N]) for i, name in ((0, "members"), (N, "nonmembers"))}
    with pytest.raises(dv.InputError, match="declared as logits"):
        dv.audit(
            model, **sets, population=dv.Records(x[2 * N :], y[2 * N :]), recipes=["calibrated"], progress=False,
            references=references.Custom(train, count=2),
        )  # fmt: skip


def test_predicted_labels_are_no_log_odds(data):
    x, y = data
    model = tree.DecisionTreeClassifier(random_state=0).fit(x[:N], y[:N])
    with pytest.raises(dv.InputError, match=r"these are predicted labels.*labels\(records\)"):
        audit(model.predict, x, y)


@pytest.mark.parametrize(
    ("low", "high", "is_refused"),
    [(0.01, 0.2, True), (0.4, 0.7, True), (-0.01, 0.7, False), (0.3, 1.2, False), (0.5, 0.5, False)],
)
def test_one_column_between_0_and_1_that_varies_is_no_log_odds(low, high, is_refused, data):
    x, _ = data
    y = np.arange(3 * N) % 2
    if is_refused:
        with pytest.raises(dv.InputError, match=r"declared as logits.*outputs='probabilities'"):
            audit(lambda x: np.linspace(low, high, len(x)), x, y)
    else:
        assert audit(lambda x: np.linspace(low, high, len(x)), x, y)["loss"].auc.value > 0


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    "make",
    [
        lambda shape: svm.SVC(C=100, decision_function_shape=shape),
        lambda shape: svm.NuSVC(nu=0.1, decision_function_shape=shape),
        lambda shape: pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVC(decision_function_shape=shape)),
        lambda shape: model_selection.GridSearchCV(svm.SVC(decision_function_shape=shape), {"C": [1.0]}, cv=2),
        lambda shape: multiclass.OneVsOneClassifier(svm.SVC(decision_function_shape=shape)),
        lambda shape: multiclass.OneVsRestClassifier(svm.SVC(decision_function_shape=shape)),
    ],
)
def test_decision_values_of_pairs_of_classes_are_summed_as_scikit_learn_does(make, n_classes):
    x, y = datasets.make_classification(
        240, 12, n_informative=8, n_classes=n_classes, n_clusters_per_class=1, flip_y=0.3, random_state=0
    )
    of_classes, of_pairs = (make(shape).fit(x, y) for shape in ("ovr", "ovo"))
    answers = [
        targets.adapt(model).logits(dv.Records(x)) for model in (of_classes, of_pairs, frozen.FrozenEstimator(of_pairs))
    ]
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_array_equal(answers[0], answers[2])
    if n_classes > 2:
        with pytest.raises(dv.InputError, match="pass the estimator itself"):
            targets.adapt(of_pairs.decision_function)


class Wrapped:
    """A classifier of the user's own that does not say what its columns are."""

    def __init__(self, model, method, columns):
        self.model, self.classes_, self.columns = model, model.classes_, columns
        setattr(self, method, lambda x: getattr(model, method)(x)[:, columns])

    def predict(self, x):
        return self.model.predict(x)


@pytest.mark.parametrize("n_classes", [3, 4])
def test_pairs_of_an_unknown_estimator_show_by_its_predictions(n_classes):
    x, y = datasets.make_classification(240, 12, n_informative=8, n_classes=n_classes, random_state=0)
    of_classes, of_pairs = (svm.SVC(decision_function_shape=shape).fit(x, y) for shape in ("ovr", "ovo"))
    wrapped = [Wrapped(model, "decision_function", slice(None)) for model in (of_classes, of_pairs)]
    if n_classes == 3:  # as many pairs as classes
        with pytest.raises(dv.InputError, match="pairs of classes"):
            targets.adapt(wrapped[1]).logits(dv.Records(x))
    else:
        answers = [targets.adapt(model).logits(dv.Records(x)) for model in wrapped]
        np.testing.assert_array_equal(*answers)
        np.testing.assert_array_equal(targets.adapt(wrapped[1]).logits(dv.Records(x[:1])), answers[0][:1])


@pytest.mark.parametrize(
    ("method", "columns"), [("decision_function", [0, 1]), ("predict_proba", [0, 1]), ("predict_proba", [0, 1, 2, 0])]
)
def test_columns_that_are_not_those_of_the_classes_are_refused(method, columns):
    x, y = datasets.make_classification(120, 12, n_informative=8, n_classes=3, random_state=0)
    model = Wrapped(linear_model.LogisticRegression().fit(x, y), method, columns)
    with pytest.raises(dv.InputError, match="each of the 3 classes"):
        targets.adapt(model).logits(dv.Records(x))


def fit_several_labels(name):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 6))
    y = (x[:, :3] + rng.normal(size=(120, 3)) > 0).astype(int)
    if name.startswith("xgboost"):
        model = pytest.importorskip("xgboost").XGBClassifier(n_estimators=3, n_jobs=1)
        y = y[:, : int(name[-1])]
    elif name == "catboost":
        options = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
        model = pytest.importorskip("catboost").CatBoostClassifier(3, loss_function="MultiLogloss", **options)
    else:
        model = {
            "one-vs-rest": multiclass.OneVsRestClassifier(tree.DecisionTreeClassifier(max_depth=3)),
            "decisions": multiclass.OneVsRestClassifier(svm.LinearSVC()),
            "network": neural_network.MLPClassifier((8,), max_iter=5),
            "ridge": linear_model.RidgeClassifier(),
            "chain": multioutput.ClassifierChain(linear_model.LogisticRegression()),
            "outputs": multioutput.MultiOutputClassifier(linear_model.LogisticRegression()),
            "forest": ensemble.RandomForestClassifier(3),
        }[name]
    return model, x, y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "around"),
    [("one-vs-rest", "alone"), ("decisions", "search"), ("network", "pipeline"), ("ridge", "alone"),
     ("chain", "search"), ("outputs", "pipeline"), ("forest", "search"), ("xgboost 2", "pipeline"),
     ("xgboost 3", "alone"), ("catboost", "alone")],
)  # fmt: skip
def test_models_of_several_labels_are_refused_with_code_that_audits_one(name, around):
    model, x, y = fit_several_labels(name)
    if around != "alone":
        wrap = {
            "pipeline": lambda model: pipeline.make_pipeline(preprocessing.StandardScaler(), model),
            "search": lambda model: model_selection.GridSearchCV(model, {}, cv=2),
        }[around]
        model = wrap(model)
    model.fit(x, y)
    with pytest.raises(dv.InputError, match=f"predicts {y.shape[1]} outcomes at once; audit one label") as refusal:
        targets.adapt(model, labels_only=True)
    code, rest = re.split(", with |, and ", str(refusal.value).split("such as ")[1], maxsplit=1)
    declared = "probabilities" if "probabilities" in rest else "logits"
    one = targets.adapt(eval(code, {"model": model}), outputs=declared)
    assert one.logits(dv.Records(x)).shape == (120, 2)


@pytest.mark.filterwarnings("ignore")
def test_independent_probabilities_of_an_unknown_estimator_are_refused():
    model, x, y = fit_several_labels("network")
    unknown = Wrapped(model.fit(x, y), "predict_proba", slice(None))
    with pytest.raises(dv.InputError, match=r"not to one.*audit one label"):
        targets.adapt(unknown).logits(dv.Records(x))
