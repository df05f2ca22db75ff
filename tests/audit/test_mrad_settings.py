"""MRAD from a plan: its settings, the names of its variants, a target without gradients."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import divulge as dv
from divulge import signals
from divulge.recipes import MRAD

pytestmark = pytest.mark.usefixtures("scores_alone")


def test_a_target_without_gradients_is_audited_in_a_black_box():
    rng = np.random.default_rng(0)

    def draw(n):
        y = rng.integers(0, 2, n)
        return dv.Records(rng.normal(y[:, None], 1, size=(n, 4)), y)

    members, nonmembers, population = draw(60), draw(70), draw(200)
    sets = {"members": members, "nonmembers": nonmembers, "population": population}
    options = dv.AuditOptions(known=np.arange(4) < 2)
    target = LogisticRegression().fit(members.x, members.y)
    with pytest.raises(dv.InputError, match="use 'black'"):
        dv.audit(target, recipes=["mrad"], fpr=(0.1,), options=options, **sets)
    black = MRAD.from_table({"access": "black", "directions": 3, "step": 1.0, "clip": "range"}, "[recipe.mrad]")
    assert black == MRAD(access="black", directions=3, step=1.0, clip="range")
    assert list(dv.audit(target, recipes=[black], fpr=(0.1,), options=options, **sets)) == [
        "mrad-black-range-step-1-directions-3"
    ]


def test_the_papers_name_is_for_the_papers_definition():
    assert MRAD().recipe().name == "mrad"
    assert MRAD().recipe().signal == signals.MRAD()
    assert MRAD(detector="nci").recipe().name == "mrad-nci"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"directions": 0, "access": "black"}, "directions"),
        ({"step": -1.0}, "step"),
        ({"iterations": 1.5}, "iterations"),
        ({"directions": 3}, "access"),
        ({"method": "gradient-matching", "step": 2.0}, "method"),
        ({"detector": "mrad"}, "detector"),
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(settings, named):
    with pytest.raises(dv.InputError, match=named):
        MRAD(**settings)
