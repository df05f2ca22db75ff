"""Classifiers whose probabilities are counts of votes."""

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import divulge as dv
from divulge import targets
from divulge.evidence import signals_from_logits
from divulge.targets import SklearnTarget

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(90, 4)), np.arange(90) % 3
VOTING = {
    "forest": (RandomForestClassifier(20, random_state=0), 20),
    "bag": (BaggingClassifier(n_estimators=12, random_state=0), 12),
    "neighbours": (KNeighborsClassifier(5), 5),
    "pipeline": (make_pipeline(StandardScaler(), RandomForestClassifier(9, random_state=0)), 9),
}


@pytest.mark.parametrize("name", VOTING)
def test_half_a_vote_is_added_to_each_class(name):
    model, votes = VOTING[name]
    model.fit(X, Y)
    odds = np.exp(SklearnTarget(model).logits(dv.Records(X, Y)))
    expected = (model.predict_proba(X) * votes + 0.5) / (votes + 1.5)
    np.testing.assert_allclose(odds, expected)
    np.testing.assert_allclose(odds.sum(axis=1), 1.0)


@pytest.mark.parametrize("name", VOTING)
def test_a_class_it_never_saw_has_no_vote(name):
    model, votes = VOTING[name]
    model.fit(X[Y > 0], Y[Y > 0])
    odds = np.exp(SklearnTarget(model, classes=5).logits(dv.Records(X)))
    np.testing.assert_allclose(odds[:, [0, 3, 4]], 0.5 / (votes + 2.5))
    np.testing.assert_allclose(odds.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "model",
    [ExtraTreesClassifier(20, random_state=0), KNeighborsClassifier(5, weights="distance")],
    ids=["no bootstrap", "by distance"],
)
def test_probabilities_that_are_no_counts_stay_as_they_are(model):
    model.fit(X, Y)
    logits = SklearnTarget(model).logits(dv.Records(X))
    np.testing.assert_allclose(logits, np.log(np.maximum(model.predict_proba(X), 1e-7)))


def test_no_certain_vote_stands_alone_and_the_order_is_kept():
    model, _ = VOTING["forest"]
    model.fit(X, Y)
    probability = model.predict_proba(X)[np.arange(90), Y]
    logits = signals_from_logits(SklearnTarget(model).logits(dv.Records(X, Y)), Y, ("scaled-logit", "confidence"))
    assert probability.max() == 1.0
    for signal in logits.T:
        order = np.argsort(probability, kind="stable")
        assert (np.diff(signal[order]) >= -1e-12).all()
    steps = np.diff(np.unique(logits[:, 0].round(9)))
    assert steps.max() < 1.5  # with the floor at 1e-7, the last step was 13


@pytest.mark.parametrize(
    "names", [["benign", "malignant"], ["malignant", "benign"], ["malignant", "unknown", "benign"]]
)
@pytest.mark.parametrize("estimator", [LogisticRegression(), RandomForestClassifier(20, random_state=0), GaussianNB()])
def test_classes_that_have_names_are_numbered_as_the_labels_are(names, estimator):
    rng = np.random.default_rng(0)
    x, sick = rng.normal(size=(60, 3)), rng.random(60) < 0.5
    x[sick] += 2
    model = estimator.fit(x, np.where(sick, "malignant", "benign"))
    numbers = np.where(sick, names.index("malignant"), names.index("benign"))
    target = targets.adapt(model, names=names)
    assert target.logits(dv.Records(x)).shape == (60, len(names))
    assert (target.labels(dv.Records(x)) == numbers).mean() > 0.8


def test_names_that_lack_a_class_of_the_model_are_refused():
    model = LogisticRegression().fit([[0.0], [1.0]], ["benign", "malignant"])
    with pytest.raises(dv.InputError, match="lacks 'malignant'"):
        targets.adapt(model, names=["benign", "other"])
    assert targets.adapt(model).class_names == ("benign", "malignant")
