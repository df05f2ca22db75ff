"""A small audit that certainly leaks, and one that leaks nothing."""

import numpy as np
import pytest
import torch
from torch import nn

import divulge as dv


@pytest.fixture(autouse=True, scope="module")
def _records_are_compared_once(records_compared_once):
    """Many tests here audit the same records."""


def make_model():
    return nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 4))


def records(seed, n, classes=4):
    """Labels that are mostly noise: a network can only remember them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 12)).astype(np.float32)
    y = np.where(rng.random(n) < 0.7, rng.integers(0, classes, n), (x[:, 0] > 0).astype(int))
    return dv.Records(x, y)


def train(data, steps=300):
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


class Case:
    """Sets, a target trained on the members, and how reference models are trained."""

    def __init__(self):
        self.members, self.nonmembers, self.population = records(1, 200), records(2, 200), records(3, 500)
        self.target = train(self.members)
        self.references = dv.references.Train(
            make_model, count=4, epochs=40, optimizer="adam", lr=0.01, engine="serial"
        )

    def arguments(self, **more):
        return {
            "members": self.members,
            "nonmembers": self.nonmembers,
            "population": self.population,
            "references": self.references,
            **more,
        }

    def audit(self, **more):
        return dv.audit(self.target, **self.arguments(**more))


@pytest.fixture(scope="session")
def case():
    return Case()


@pytest.fixture(scope="session")
def run(case, tmp_path_factory):
    """A finished run on disk, of every recipe."""
    from divulge.recipes import recipes

    out = tmp_path_factory.mktemp("runs") / "all"
    return case.audit(recipes=tuple(recipe.name for recipe in recipes()), fpr=(0.05, 0.01), out=out)


@pytest.fixture(scope="session")
def honest():
    """The same audit of a target that was trained on other data."""
    case = Case()
    case.target = train(records(99, 200))
    return case.audit(recipes=("loss", "calibrated", "lira", "rmia", "quantile-trees"))
