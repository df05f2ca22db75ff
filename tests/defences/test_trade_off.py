"""Settings of an estimator: trained again, audited on the same candidates, set side by side."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
import skops.io
from lightgbm import LGBMClassifier
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import divulge as dv
from divulge.defences import measure_settings, suggest_settings
from divulge.defences.trade_off import AS_IT_IS

pytestmark = pytest.mark.usefixtures("records_compared_once")


def sets(load=load_breast_cancer, n=120, seed=0):
    x, y = load(return_X_y=True)
    rows = np.random.default_rng(seed).permutation(len(y))
    parts = np.split(rows[: 3 * n], [n, 2 * n])
    return dict(zip(("members", "nonmembers", "population"), (dv.Records(x[p], y[p]) for p in parts), strict=True))


def fitted(model, data):
    return model.fit(data["members"].x, data["members"].y)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(), DecisionTreeClassifier(), GradientBoostingClassifier(), LGBMClassifier(),
        HistGradientBoostingClassifier(), KNeighborsClassifier(), SVC(), LogisticRegression(), Ridge(), MLPClassifier(),
        make_pipeline(StandardScaler(), RandomForestClassifier()),
    ],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_suggested_settings_are_parameters_of_the_estimator(model):
    estimator = model.steps[-1][1] if hasattr(model, "steps") else model
    suggested = suggest_settings(model)
    assert suggested
    default = estimator.get_params()
    regularising = (
        "min_samples_leaf",
        "min_child_samples",
        "min_data_in_leaf",
        "n_neighbors",
        "alpha",
        "early_stopping",
    )
    for setting in suggested:
        estimator.set_params(**setting)
        for name, value in setting.items():  # each lets the model fit less closely than it does by default
            without_limit = default[name] is None or (name == "max_depth" and default[name] == -1)
            assert without_limit or (value > default[name] if name in regularising else value < default[name]), setting


def test_a_model_that_keeps_records_is_not_recommended_for_its_auc():
    data = sets()
    result = measure_settings(fitted(SVC(), data), **data, settings=[{"C": 0.1}], recipes=["gap"], fpr=0.1)
    assert all(row.stored for row in result.rows)
    assert "no setting takes them out of it" in result.verdict


def test_a_setting_with_which_the_model_answers_everybody_alike_is_not_recommended():
    """Of a rare class it may be as accurate as the target, and gives nothing away: it says nothing."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1800, 4)), (rng.random(1800) < 0.1).astype(int)
    names = ("members", "nonmembers", "population")
    data = {name: dv.Records(x[i::3], y[i::3]) for i, name in enumerate(names)}
    target = fitted(DecisionTreeClassifier(random_state=0), data)
    result = measure_settings(target, **data, recipes=["loss"], settings=[{"max_depth": 1}], max_loss=0.3, fpr=0.1)
    assert [row.constant for row in result.rows] == [False, True]
    assert result.recommended is None
    assert "predicts the same for all records" in result.verdict


def test_a_setting_that_changes_nothing_is_not_recommended():
    """Trained again as it is, a model gives away what it gives away: no luck of a draw may speak for the setting."""
    for seed in range(3):
        data = sets(n=80, seed=seed)
        target = fitted(RandomForestClassifier(10, random_state=0), data)
        settings = [{"random_state": seed + each} for each in range(1, 3)]
        result = measure_settings(target, **data, settings=settings, recipes=["loss"], fpr=0.1, max_loss=1.0)
        assert result.recommended is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": [{"leaves": 3}]}, "RandomForestClassifier has no parameter 'leaves'"),
        ({"settings": []}, "settings: at least 1 entry is needed"),
        ({"settings": {"max_depth": 3}}, "settings: a list is needed"),
        ({"max_loss": -1}, "max_loss"),
        ({"fpr": 2.0}, "fpr"),
        ({"references": 3}, "references: divulge.Train is needed"),
        ({"target": lambda x: np.c_[x[:, 0], -x[:, 0]]}, "an estimator is trained again here"),
    ],
)
def test_odd_requests_are_refused_by_name(options, message):
    data = sets(n=40)
    arguments = {"target": fitted(RandomForestClassifier(3, random_state=0), data)} | data | options
    with pytest.raises(dv.InputError, match=message):
        measure_settings(**arguments)


def test_values_that_the_estimator_refuses_are_its_own_error():
    data = sets(n=40)
    target = fitted(RandomForestClassifier(3, random_state=0), data)
    with pytest.raises(dv.errors.UserCodeError, match="min_samples_leaf"):
        measure_settings(target, **data, settings=[{"min_samples_leaf": -3}], recipes=["loss"], fpr=0.1)


def write_project(folder, recipes, more):
    """Write the files of a plan whose settings are tried; return the plan."""
    data = sets(n=60)
    for name, records in data.items():
        columns = {f"x{i}": records.x[:, i] for i in range(records.x.shape[1])} | {"label": records.y}
        pl.DataFrame(columns).write_parquet(folder / f"{name}.parquet")
    model = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0))
    skops.io.dump(fitted(model, data), folder / "model.skops")
    files = "\n".join(f'{name} = "{name}.parquet"' for name in data)
    (folder / "plan.toml").write_text(
        f'recipes = {recipes}\nfpr = [0.1]\n[target]\nmodel = "model.skops"\n[data]\n{files}\nlabel = "label"\n'
        "[defend]\nsettings = [{ min_samples_leaf = 20 }, { max_depth = 1 }]\nmax_loss = 0.3\n" + more
    )
    return folder / "plan.toml"


def test_a_plan_is_defended_and_its_run_read_back(tmp_path, divulge):
    write_project(tmp_path, '["loss"]', "")
    code, out, err = divulge("defend", tmp_path / "plan.toml", "--out", tmp_path / "run", "--json")
    assert code == 0, err
    content = json.loads(out)
    assert [row["name"] for row in content["rows"]] == [AS_IT_IS, "min_samples_leaf = 20", "max_depth = 1"]
    assert content["max_loss"] == 0.3
    run = dv.load(tmp_path / "run")
    assert run.summary.recipes == ("loss",)
    assert err.startswith("ahead: about ")
    assert "for 2 settings and the model as it is" in err
    assert "Privacy against utility" in (tmp_path / "run" / "report.html").read_text()
    assert divulge("report", tmp_path / "run", "--format", "md", "--to", tmp_path / "a.md")[0] == 0


def stop_when(plan, out, pattern, how):
    """Start the command, and send it a signal once a file of this pattern stands in the run directory."""
    started = subprocess.Popen(
        [sys.executable, "-m", "divulge", "defend", str(plan), "--out", str(out)], stderr=subprocess.PIPE, text=True
    )
    while not any(out.glob(pattern)):
        assert started.poll() is None, f"ended before it could be stopped: {started.stderr.read()}"
        time.sleep(0.01)
    started.send_signal(how)
    return started, started.communicate(timeout=120)[1]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this platform cannot kill -9")
def test_stopped_at_any_time_the_same_command_goes_on(tmp_path, divulge):
    """kill -9 during the first audit, SIGTERM after it: nothing finished is done again."""
    plan, out = write_project(tmp_path, '["rmia"]', "[references]\ncount = 4\n"), tmp_path / "run"
    kept = ".staged-*/.finished"
    stop_when(plan, out, "pool/[0-9a-z]*.json", signal.SIGKILL)
    assert not any(out.glob(f"{kept}/0.json"))
    clones = {path: path.stat().st_mtime_ns for path in out.glob("pool/[0-9a-z]*.json")}
    started, errors = stop_when(plan, out, f"{kept}/0.json", signal.SIGTERM)
    assert started.returncode == 130
    assert "Traceback" not in errors
    assert "the same c" in errors  # command, or call where a clone was being trained
    seconds = [json.loads(file.read_text())["row"]["seconds"] for file in sorted(out.glob(f"{kept}/*.json"))]
    code, _, err = divulge("defend", plan, "--out", out)
    assert code == 0, err
    assert all(path.stat().st_mtime_ns == when for path, when in clones.items())
    rows = json.loads((out / "summary.json").read_text())["rows"]
    assert [row["seconds"] for row in rows][: len(seconds)] == seconds
    assert divulge("defend", plan, "--out", tmp_path / "whole")[0] == 0
    whole = json.loads((tmp_path / "whole" / "summary.json").read_text())["rows"]
    assert [row | {"seconds": 0} for row in rows] == [row | {"seconds": 0} for row in whole]
    assert not any(out.glob(".staged-*"))
