"""What a report says of the estimator that was audited: its class, the steps before it, and its parameters."""

import numpy as np
import pytest
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from divulge.auditing.prepared import summarise_estimator
from divulge.targets import CallableTarget, SklearnTarget

X, Y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2


def test_numbers_texts_and_none_stand_as_they_are():
    forest = RandomForestClassifier(5, max_features="sqrt", min_impurity_decrease=0.25, n_jobs=None, random_state=0)
    summary = summarise_estimator(SklearnTarget(forest.fit(X, Y)))
    assert summary.name == "RandomForestClassifier"
    assert summary.steps == ()
    expected = {"n_estimators": 5, "max_features": "sqrt", "min_impurity_decrease": 0.25, "n_jobs": None}
    assert expected.items() <= summary.parameters.items()
    assert list(summary.parameters) == sorted(summary.parameters)


def test_of_a_pipeline_the_last_step_is_described_and_the_others_are_named():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=0.5)).fit(X, Y)
    summary = summarise_estimator(SklearnTarget(pipeline))
    assert (summary.name, summary.steps) == ("LogisticRegression", ("StandardScaler",))
    assert summary.parameters["C"] == 0.5


def test_numbers_that_are_not_finite_and_estimators_within_are_described_in_words():
    boosting = AdaBoostClassifier(LogisticRegression(C=2.0), n_estimators=2).fit(X, Y)
    boosting.set_params(learning_rate=np.inf)
    parameters = summarise_estimator(SklearnTarget(boosting)).parameters
    assert parameters["learning_rate"] == "inf"
    assert "LogisticRegression" in parameters["estimator"]


def test_other_targets_have_no_estimator():
    assert summarise_estimator(CallableTarget(lambda x: np.full((len(x), 2), 0.5))) is None


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_every_value_can_be_written_as_json(value):
    model = LogisticRegression().fit(X, Y).set_params(tol=value)
    assert isinstance(summarise_estimator(SklearnTarget(model)).parameters["tol"], str)
