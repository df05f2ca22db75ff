"""Reference models that nobody named: clones of an estimator, where they take little time."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier

import divulge as dv
from divulge import plan as plans
from divulge.auditing import forecast
from divulge.settings import ResolvedAuditSettings
from divulge.types import AuditData

pytestmark = pytest.mark.usefixtures("records_compared_once")


class SlowInProportion(ClassifierMixin, BaseEstimator):
    """Nearest mean, whose training burns processor time in proportion to its records."""

    def fit(self, x, y):
        total = 0
        for _ in range(len(x)):
            total += sum(range(120_000))  # about two milliseconds
        self.classes_ = np.unique(y)
        self.means_ = np.stack([x[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict_proba(self, x):
        closeness = np.exp(-((x[:, None] - self.means_) ** 2).sum(axis=2))
        return closeness / closeness.sum(axis=1, keepdims=True)

    def predict(self, x):
        return self.classes_[self.predict_proba(x).argmax(axis=1)]


class Uncloneable(SlowInProportion):
    """One that fits the target's records and no others."""

    def fit(self, x, y):
        if len(x) != 120:
            raise ValueError("no such records")
        return super().fit(x[:2].repeat(2, axis=0), np.array([0, 0, 1, 1]))


def draw(n, seed=0, real=False):
    rng = np.random.default_rng((seed, n))
    x = rng.normal(size=(n, 4))
    y = x[:, 0] + rng.normal(size=n)
    return dv.Records(x, y if real else (y > 0).astype(int))


def sets(n_population=240, real=False):
    return {"members": draw(120, 1, real), "nonmembers": draw(120, 2, real), "population": draw(n_population, 3, real)}


def fit_tree(records):
    return DecisionTreeClassifier(random_state=0).fit(records.x, records.y)


def notes(result):
    return [note for note in result.about.warnings if note.startswith("references: ")]


def test_a_tree_is_audited_with_clones_unless_none_are_wanted():
    data = sets()
    tree = fit_tree(data["members"])
    unasked, asked, without = (
        dv.audit(tree, **data, fpr=(0.1,), **options)
        for options in ({}, {"references": dv.references.Train(count=16)}, {"references": None})
    )
    assert np.array_equal(unasked.scores["auto"], asked.scores["auto"])
    assert unasked.about.settings == asked.about.settings
    assert without.about.settings.references == "none"
    assert [len(notes(result)) for result in (unasked, asked, without)] == [1, 0, 0]


def test_a_regressor_has_clones_too():
    data = sets(real=True)
    result = dv.audit(Ridge().fit(data["members"].x, data["members"].y), **data, recipes=["auto"], fpr=(0.1,))
    assert "Ridge" in result.about.settings.references


@pytest.mark.parametrize("recipes", [["loss"], ["loss", "quantile-trees"]])
def test_none_are_trained_where_no_recipe_reads_them(recipes):
    data = sets()
    result = dv.audit(fit_tree(data["members"]), **data, recipes=recipes, fpr=(0.1,))
    assert (result.about.settings.references, notes(result)) == ("none", [])


def test_a_function_has_no_clones():
    data = sets()
    tree = fit_tree(data["members"])
    result = dv.audit(tree.predict_proba, **data, outputs="probabilities", recipes=["auto"], fpr=(0.1,))
    assert result.about.settings.references == "none"


def test_those_that_take_minutes_are_named_and_not_trained():
    data = sets(n_population=12_000)
    slow = SlowInProportion().fit(data["members"].x, data["members"].y)
    result = dv.audit(slow, **data, recipes=["auto"], fpr=(0.1,))
    assert result.about.settings.references == "none"
    assert "min on one core" in notes(result)[0]


def test_those_that_cannot_be_trained_are_told_of_and_the_audit_goes_on():
    data = sets()
    target = Uncloneable().fit(data["members"].x, data["members"].y)
    result = dv.audit(target, **data, recipes=["auto"], fpr=(0.1,))
    assert result.about.settings.references == "none"
    assert "no such records" in notes(result)[0]


def test_a_word_that_means_nothing_is_refused():
    data = sets()
    with pytest.raises(dv.InputError, match="references: 'all' is unknown"):
        dv.audit(fit_tree(data["members"]), **data, references="all")


def test_a_forecast_times_a_clone():
    data = sets()
    found = forecast(fit_tree(data["members"]), AuditData(**data), ResolvedAuditSettings.check(fpr=(0.1,)))
    assert found.models == 16
    assert found.training is not None
    assert 0 < found.training < 60


@pytest.mark.parametrize("word", ["auto", "none"])
def test_the_plan_of_a_run_says_what_was_decided_and_gives_the_same_run(tmp_path, divulge, word):
    columns, files = list("abcd"), {}
    data = sets()
    for name, records in data.items():
        frame = pd.DataFrame(records.x, columns=columns)
        frame["label"] = records.y
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        files[name] = f"{name}.csv"
    members = pd.read_csv(tmp_path / "members.csv")
    skops.io.dump(fit_tree(dv.Records(members[columns], members["label"])), tmp_path / "model.skops")
    named = "".join(f'{name} = "{file}"\n' for name, file in files.items())
    (tmp_path / "plan.toml").write_text(
        f'references = "{word}"\nrecipes = ["auto"]\nfpr = [0.1]\n[target]\nmodel = "model.skops"\n'
        f'[data]\nlabel = "label"\n{named}'
    )
    code, _, err = divulge("audit", tmp_path / "plan.toml", "--out", tmp_path / "first")
    assert code == 0, err
    kept = plans.read(tmp_path / "first" / "plan.toml").references
    assert kept == "none" if word == "none" else kept.count == 16
    code, _, err = divulge("audit", tmp_path / "first" / "plan.toml", "--out", tmp_path / "second")
    assert code == 0, err
    first, second = (dv.auditing.load(tmp_path / name) for name in ("first", "second"))
    assert np.array_equal(first.scores["auto"], second.scores["auto"])
    assert first.about.settings == second.about.settings


def test_the_online_default_averages_two_attacks_and_leaves_out_what_needs_more_models():
    data = sets()
    tree = fit_tree(data["members"])
    many, few = (
        dv.audit(tree, **data, recipes=["auto-online"], references=dv.references.Train(count=count), fpr=(0.1,))
        for count in (8, 2)
    )
    assert many.about.recipes["auto-online"].chosen == "rmia-online + learned-online"
    assert few.about.recipes["auto-online"].chosen == "rmia-online"
    assert many["auto-online"].auc.value > 0.6


class Waiting(DecisionTreeClassifier):
    """One that waits, as for a server: the processor is idle, the user is not."""

    def fit(self, x, y):
        time.sleep(0.01 * len(x))
        return super().fit(x, y)


def test_waiting_counts_too():
    data = sets(n_population=12_000)
    waiting = Waiting(random_state=0)
    DecisionTreeClassifier.fit(waiting, data["members"].x, data["members"].y)
    result = dv.audit(waiting, **data, recipes=["auto"], fpr=(0.1,))
    assert result.about.settings.references == "none"
