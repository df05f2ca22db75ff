"""Targets that answer differently from call to call, or with what else is in the batch."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from torch import nn

import divulge as dv
from divulge.auditing.checks import determinism

RNG = np.random.default_rng(0)
X = RNG.normal(size=(450, 6)).astype(np.float32)
Y = ((X[:, 0] + RNG.normal(size=450)) > 0).astype(int)
SETS = {
    name: dv.Records(X[start : start + 150], Y[start : start + 150])
    for name, start in (("members", 0), ("nonmembers", 150), ("population", 300))
}
VALUES = {name: dv.Records(records.x, records.x[:, 0] + 0.01) for name, records in SETS.items()}


def audit(target, sets=SETS, **options):
    recipes = ["correct" if hasattr(target, "labels") else "loss"]
    return dv.audit(target, **sets, recipes=recipes, progress=False, **options)


def network(*layers):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), *layers, nn.ReLU(), nn.Linear(16, 2))


def function(module):
    return lambda x: module(torch.as_tensor(np.asarray(x, dtype=np.float32))).detach().numpy()


def with_noise(scale, size):
    rng = np.random.default_rng(1)
    return lambda x: np.outer(2 * np.asarray(x)[:, 0] + rng.normal(0, scale, len(x)), size)


class LabelsAtRandom:
    """Gives labels alone, a fifth of them at random."""

    def __init__(self):
        self.rng = np.random.default_rng(2)

    def labels(self, records):
        return np.where(self.rng.random(len(records)) < 0.4, self.rng.integers(0, 2, len(records)), records.x[:, 0] > 0)


class NoisyValues:
    def __init__(self):
        self.rng = np.random.default_rng(3)

    def predictions(self, records):
        return records.x[:, 0] + self.rng.normal(0, 0.01, len(records))


@pytest.mark.parametrize(
    ("target", "sets"),
    [
        (function(network(nn.Dropout(0.5)).train()), SETS),
        (with_noise(0.01, [-1, 1]), SETS),
        (LabelsAtRandom(), SETS),
        (NoisyValues(), VALUES),
    ],
    ids=["dropout", "little noise", "labels", "real values"],
)
def test_answers_that_differ_from_call_to_call_are_warned_of(target, sets):
    assert determinism.BY_CALL in audit(target, sets).warnings


def test_statistics_of_the_batch_are_warned_of():
    assert audit(function(network(nn.BatchNorm1d(16)).train())).warnings == (determinism.BY_BATCH,)


@pytest.mark.parametrize(
    ("target", "sets"),
    [
        (network(nn.Dropout(0.5), nn.BatchNorm1d(16)).train(), SETS),
        (function(network().eval().to(torch.float32)), SETS),
        (lambda x: function(network().eval())(x).round(1), SETS),
        (RandomForestClassifier(50, n_jobs=2, random_state=0).fit(X[:150], Y[:150]), SETS),
        (HistGradientBoostingClassifier(max_iter=20).fit(X[:150], Y[:150]), SETS),
        (RandomForestRegressor(50, n_jobs=2, random_state=0).fit(X[:150], X[:150, 0]), VALUES),
    ],
    ids=["module", "function", "rounded", "forest", "boosting", "regressor"],
)
def test_deterministic_targets_are_never_warned_of(target, sets):
    warnings = audit(target, sets).warnings
    assert not {determinism.BY_CALL, determinism.BY_BATCH} & {*warnings}


def test_a_noisy_target_is_not_cleared_by_one_call():
    result = audit(with_noise(4.0, [-1, 1]))
    assert result.verdict.answer != "no leak found"


def test_averaging_over_calls_finds_the_leak_that_noise_hides():
    rng = np.random.default_rng(4)
    members = {row.tobytes() for row in SETS["members"].x}

    def noisy(x):
        rows = np.ascontiguousarray(x, dtype=np.float32)
        is_member = np.array([row.tobytes() in members for row in rows])
        margin = np.where(rows[:, 0] > 0, 1, -1) * (1.0 + is_member) + rng.normal(0, 6, len(x))
        return np.outer(margin, [-0.5, 0.5])

    once, often = audit(noisy), audit(noisy, options=dv.AuditOptions(calls=200))
    assert often["loss"].auc.value > once["loss"].auc.value + 0.05
    assert often.summary().about.recipes["loss"].queries == 200 * once.summary().about.recipes["loss"].queries


def test_calls_are_checked():
    with pytest.raises(dv.InputError, match="calls"):
        audit(network(), options=dv.AuditOptions(calls=0))
