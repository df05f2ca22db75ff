"""The release keeps its limits: ``divulge audit plans/*.toml --out runs``, then ``pytest test_release.py``."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import divulge as dv

RUNS = sorted(Path("runs").glob("*/run.json"))


@pytest.mark.parametrize("run", [path.parent for path in RUNS], ids=lambda run: run.name)
def test_a_model_keeps_the_limits_of_its_plan(run):
    assert dv.gate(run)  # true only if every limit is kept; what failed stands in the message


def test_runs_are_there():
    """Without it, no run would be no failure."""
    assert len(RUNS) == len(list(Path("plans").glob("*.toml")))


def test_a_model_that_is_trained_here_keeps_its_limits():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(3).permutation(len(x))
    members, nonmembers, population = (dv.Records(x[rows], y[rows]) for rows in np.split(order, [600, 1200]))
    model = LogisticRegression(C=1e-4).fit(members.x, members.y)
    result = dv.audit(model, members=members, nonmembers=nonmembers, population=population, recipes=["loss"])
    assert dv.gate(result, ["auc:0.6"], by="none")
