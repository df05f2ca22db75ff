"""Reference models trained as the target was are seldom called different, others are; with models of scikit-learn.

A target learns from 200 records, references from halves of 400 others, so that each pair of halves shares a half or
nothing. Bounds: one in eight, and 3.3 standard deviations; a rate of 22 % of all kinds, and one of 42 % of any, is
noticed in nine of ten.
"""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from divulge.evaluation import agreement
from divulge.references import splits

RUNS = 32
MODELS = {
    "logistic": lambda: LogisticRegression(C=100, max_iter=300),
    "bayes": GaussianNB,
    "neighbours": lambda: KNeighborsClassifier(15),
    "shallow": lambda: DecisionTreeClassifier(max_depth=3),
    "tree": DecisionTreeClassifier,
    "stump": lambda: DecisionTreeClassifier(max_depth=1),
    "discriminant": LinearDiscriminantAnalysis,
}
# Models with few parameters vary in few directions, and chance decides how far they are from each other.
KINDS = [
    *((kind, 8, {"tree": 2, "stump": 4}.get(kind, 8)) for kind in MODELS if kind != "shallow"),
    ("logistic", 1, 8),
    ("discriminant", 2, 2),
]


def answers(model, x, y):
    """Scaled logits of the true class."""
    p = np.clip(model.predict_proba(x)[np.arange(len(y)), y], 1e-7, 1 - 1e-7)
    return np.log(p / (1 - p))


def called_different(target, reference, count, seed, columns=8):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(725, columns))
    y = (x @ np.linspace(1, 0, columns) + rng.normal(size=725) > 0).astype(int)
    own, pool, held_out = slice(200), slice(200, 600), slice(600, 725)
    trained_on = splits.offline(400, count, seed).trained_on
    t = answers(MODELS[target]().fit(x[own], y[own]), x[held_out], y[held_out])
    fitted = [MODELS[reference]().fit(x[pool][rows], y[pool][rows]) for rows in trained_on]
    r = np.stack([answers(model, x[held_out], y[held_out]) for model in fitted])
    losses = np.logaddexp(0, -t), np.logaddexp(0, -r)
    return agreement.compare_answers(t, r, overlap=agreement.mean_overlap(trained_on), losses=losses).differs


def test_the_same_kind_of_model_is_seldom_called_different():
    alarms = {
        (kind, columns, count): sum(called_different(kind, kind, count, seed, columns) for seed in range(RUNS))
        for kind, columns, count in KINDS
    }
    for n_alarms, runs in ((max(alarms.values()), RUNS), (sum(alarms.values()), RUNS * len(KINDS))):
        assert n_alarms <= runs / 8 + 3.3 * (runs * 7 / 64) ** 0.5, alarms


@pytest.mark.parametrize(
    ("target", "reference", "count", "least"),
    [
        ("logistic", "tree", 8, 0.8),
        ("tree", "logistic", 4, 0.95),
        ("tree", "shallow", 8, 0.9),
    ],
)
def test_another_kind_of_model_is_called_different(target, reference, count, least):
    """The first scatter widely about a target that is near their mean, the others are far from it."""
    assert sum(called_different(target, reference, count, seed) for seed in range(15)) >= 15 * least
