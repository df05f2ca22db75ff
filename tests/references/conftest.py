"""A small labelled data set with some structure, and networks of several kinds."""

from types import SimpleNamespace

import numpy as np
import pytest

import divulge as dv

pytest.importorskip("torch", reason="reference models are networks")

CLASSES = 4


@pytest.fixture(scope="session")
def records():
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, 203)
    centres = rng.normal(size=(CLASSES, 1, 6, 6))
    return dv.Records(centres[y] + rng.normal(size=(len(y), 1, 6, 6)), y)


@pytest.fixture(scope="session")
def networks():
    """Makers of networks; local functions travel to other processes by value."""

    def linear():
        from torch import nn

        return nn.Sequential(nn.Flatten(), nn.Linear(36, CLASSES))

    def mlp():
        from torch import nn

        hidden = nn.Sequential(nn.Linear(36, 24), nn.ReLU(), nn.Linear(24, 16, bias=False), nn.Tanh())
        return nn.Sequential(nn.Flatten(), hidden, nn.Linear(16, CLASSES))

    def cnn():
        from torch import nn

        # No bias before the normalisation: its gradient is zero, and Adam would blow up the rounding error in it.
        conv = nn.Conv2d(1, 4, 3, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, CLASSES))

    def custom():
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.outer = nn.Linear(36, 12), nn.Linear(12, CLASSES)

            def forward(self, x):
                return self.outer(nn.functional.gelu(self.inner(x.flatten(1))))

        return Net()

    def dropout():
        from torch import nn

        return nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.Dropout(0.5), nn.Linear(24, CLASSES))

    return SimpleNamespace(linear=linear, mlp=mlp, cnn=cnn, own=custom, dropout=dropout)


@pytest.fixture
def fit(records):
    """Fit a configuration on the shared records; returns what `fit` returns."""

    def run(train, *, seed=0, data=records, **more):
        splits = dv.references.splits.online(len(data), train.count, seed, labels=data.y)
        return train.fit(data, splits, seed=seed, **{"observe": [data], "classes": CLASSES, **more})

    return run
