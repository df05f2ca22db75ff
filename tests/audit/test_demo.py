"""The embedded demo: two audits whose plans can be run again."""

import pytest

from divulge import demo, plan
from divulge.auditing import audit, run_audit
from divulge.errors import InputError

RECIPES = ("loss", "rmia")  # the cheap ones are run twice
SMALL = demo.ImageDemoSize(members=120, population=240, count=3, epochs=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "run"
    return out, demo.audit_images(out, seed=3, size=SMALL)


def run_plan_again(path, out):
    ready = plan.resolve(plan.read(path), path.parent)
    settings = ready.options.model_copy(update={"recipes": RECIPES})
    return run_audit(ready.target, ready.subject, settings, out=out)


@pytest.mark.parametrize("plan_index", [0, 1])
def test_its_plans_give_the_same_numbers_again(run, tmp_path, plan_index):
    out, results = run
    path = (out / "plan.toml", out / "unseen" / "plan.toml")[plan_index]
    repeated = run_plan_again(path, tmp_path / "again")
    assert repeated.unseen_classes == results[plan_index].unseen_classes == ((), (demo.UNSEEN,))[plan_index]
    for name in RECIPES:
        # Fewer recipes have shorter intervals, and the same estimates.
        assert repeated[name].auc.value == results[plan_index][name].auc.value
        assert repeated.outcome(name).tpr_at_fpr(0.05) == results[plan_index].outcome(name).tpr_at_fpr(0.05)


def test_an_audit_of_objects_says_that_its_plan_is_a_record(tmp_path, run):
    ready = plan.resolve(plan.read(run[0] / "plan.toml"), run[0])
    sets = {name: getattr(ready.subject, name) for name in ("members", "nonmembers", "population")}
    audit(ready.target, **sets, recipes=["loss"], out=tmp_path / "objects")
    with pytest.raises(InputError, match="started from Python"):
        plan.read(tmp_path / "objects" / "plan.toml")
