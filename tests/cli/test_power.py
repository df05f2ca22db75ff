"""`divulge power`: what a calibration can do, before it is collected."""

import json

import pytest

from divulge.decisions import planning
from divulge.decisions.planning import Setting

QUESTION = ("--candidates", "200", "--members", "100", "--auc", "0.95", "--fdr", "0.1")


def test_it_says_what_the_library_says(divulge):
    question = ("--candidates", "60", "--members", "30", "--auc", "0.97", "--fdr", "0.1")
    plan = planning.calibration(Setting(60, 30, 0.97), 0.8, fdr=0.1)
    content = json.loads(divulge("power", *question, "--json")[1])["storey"]
    assert (content["calibration"], content["power"]["value"]) == (plan.calibration, plan.power.value)
    output = divulge("power", *question)[1]
    assert "select 80 %" in output
    assert f"[{plan.power.low:.3f}, {plan.power.high:.3f}]" in output
    assert str(plan.calibration) in output


@pytest.mark.parametrize(("n", "says"), [(19, "100 candidates or more"), (8, "no selection at this level; 9 can")])
def test_of_a_calibration_it_says_what_it_can_prove_at_most(divulge, n, says):
    output = divulge("power", *QUESTION, "--calibration", n)[1]
    assert says in " ".join(output.split())


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (("--calibration", "0"), "--calibration"),
        (("--members", "300"), "members"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(divulge, options, option):
    code, _, errors = divulge("power", *QUESTION, *options)
    assert code == 2
    assert option in errors
