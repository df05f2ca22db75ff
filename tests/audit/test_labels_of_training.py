"""Audits whose labels are not those of the training: a leak that needs no label is found, and no limit is kept."""

from itertools import combinations, product

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import divulge as dv
from divulge.auditing.checks.training_labels import (
    FALSE_ALARM,
    LabelsOfTraining,
    find_exchanged_classes,
    members_worse_p_value,
)

X, Y = load_digits(return_X_y=True)


class LabelsAlone:
    def __init__(self, model):
        self.model = model

    def labels(self, records):
        return self.model.predict(records.x)


def audited(fit, given, truth, target=lambda model: model, copies=1):
    """Audit a model that was trained on the members with ``given``, with ``truth`` for labels."""
    members, nonmembers, population = np.split(np.random.default_rng(0).permutation(900), 3)
    model = target(fit.fit(X[members], given[members]))
    sets = {"members": np.repeat(members, copies), "nonmembers": nonmembers, "population": population}
    records = {name: dv.Records(X[rows], truth[rows]) for name, rows in sets.items()}
    few = {} if isinstance(model, LabelsAlone) else {"references": dv.references.Train(count=4)}
    return dv.audit(model, **records, **few)


def replaced(share):
    rng = np.random.default_rng(1)
    return np.where(rng.random(len(Y)) < share, rng.integers(0, 10, len(Y)), Y)


def states(result):
    return {ruling.recipe: ruling.state for ruling in dv.gate(result, ["auc:0.9"])}


def test_a_leak_that_attacks_on_the_labels_miss_is_found_without_them():
    result = audited(RandomForestClassifier(30, random_state=0), replaced(0.5), Y)
    assert result["max-probability"].auc.low > 0.8 > result["loss"].auc.high
    assert result.verdict.answer == "leak found"
    assert "labels" in result.verdict.text
    assert "kept" not in states(result).values()


def test_of_labels_alone_members_answered_worse_keep_no_limit():
    result = audited(RandomForestClassifier(30, random_state=0), replaced(0.5), Y, LabelsAlone)
    assert LabelsOfTraining.name in {finding.check for finding in result.about.findings}
    assert "kept" not in states(result).values()


def test_real_values_that_were_noised_before_the_training_are_doubted():
    values = Y + 0.5
    noised = values + 8 * np.random.default_rng(2).normal(size=len(Y))
    result = audited(RandomForestRegressor(30, random_state=0), noised, values)
    assert LabelsOfTraining.name in {finding.check for finding in result.about.findings}


@pytest.mark.parametrize(
    ("model", "given"),
    [
        # Members are right as often as others, and their labels less probable.
        (HistGradientBoostingClassifier(max_iter=10, random_state=0), replaced(0.9)),
        (HistGradientBoostingClassifier(max_iter=10, random_state=0), np.select([Y == 3, Y == 8], [8, 3], Y)),
        (GaussianNB(), replaced(0.9)),  # nothing is memorised; its clones are better
    ],
    ids=["labels less probable", "two classes exchanged", "surer than right"],
)
def test_labels_that_members_are_answered_no_worse_by_keep_no_limit(model, given):
    result = audited(model, given, Y)
    assert LabelsOfTraining.name in {finding.check for finding in result.about.findings}
    assert result.verdict.answer != "no leak found"
    assert "kept" not in states(result).values()


@pytest.mark.parametrize("model", [RandomForestClassifier(30, random_state=0), GaussianNB()])
def test_labels_of_the_training_are_not_doubted(model):
    """Not of a model that is surer than right by itself either."""
    sound = audited(model, Y, Y)
    assert LabelsOfTraining.name not in {finding.check for finding in sound.about.findings}


def test_labels_of_few_records_are_not_doubted_by_a_weak_model():
    """Ten members that a stump is right on by chance less often than it is sure."""
    x, y = make_classification(460, 8, n_informative=5, n_classes=3, flip_y=0.2, random_state=2)
    model = DecisionTreeClassifier(max_depth=1).fit(np.r_[x[:10], x[60:]], np.r_[y[:10], y[60:]])
    rows = {"members": slice(10), "nonmembers": slice(10, 20), "population": slice(20, 60)}
    sets = {name: dv.Records(x[part], y[part]) for name, part in rows.items()}
    sound = dv.audit(model, **sets, recipes=["max-probability"], fpr=[0.2])
    assert LabelsOfTraining.name not in {finding.check for finding in sound.about.findings}


def test_weights_of_classes_exchange_none():
    """A rare class to which most of a frequent one is given keeps its own."""
    labels = np.repeat([0, 1, 2], [600, 30, 300])
    predicted = np.where(labels < 2, 1, np.arange(930) % 3)
    assert not find_exchanged_classes(labels, predicted)
    assert find_exchanged_classes(labels, np.array([1, 2, 0])[labels]) == [0, 1, 2]


def test_the_p_value_is_that_of_all_divisions_within_the_classes():
    rng = np.random.default_rng(3)
    is_right, strata = rng.random(11) < 0.6, np.repeat([0, 1], [6, 5])
    is_member = np.isin(np.arange(11), [0, 1, 2, 6, 7])
    divisions = product(combinations(range(6), 3), combinations(range(6, 11), 2))
    counts = [is_right[[*first, *second]].sum() for first, second in divisions]
    expected = np.mean(np.array(counts) <= is_right[is_member].sum())
    assert members_worse_p_value(is_right, is_member, strata) == pytest.approx(expected)


def test_a_random_division_is_hardly_ever_called_worse():
    """Of 4,000, lopsided and of rare classes among them; more than 12 alarms have a chance below .001."""
    rng, alarms = np.random.default_rng(4), 0
    for _ in range(4_000):
        n = int(rng.integers(6, 80))
        is_member = rng.permutation(n) < rng.integers(1, n)
        strata = (rng.random(n) < rng.random()).astype(int)
        is_right = rng.random(n) < np.where(strata == 0, rng.random(), rng.random())
        alarms += members_worse_p_value(is_right, is_member, strata) <= FALSE_ALARM
    assert alarms <= 12
