"""The command line as a user meets it: real processes, plans, exit codes."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from divulge import cli

COMMAND = [sys.executable, "-c", "from divulge.cli import main; main()"]
FACTORY = """
import os, signal
from pathlib import Path
from torch import nn

def make():
    pool = os.environ.get("HALT_ONCE_STORED")  # for tests that must meet a run at work
    if pool and any(Path(pool).rglob("*.safetensors")):
        print("at work", flush=True)
        signal.pause()
    pool = os.environ.get("STOP_ONCE_STORED")
    if pool and any(Path(pool).rglob("*.safetensors")):
        raise KeyboardInterrupt
    return nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 4))
"""


def run_here(*arguments, code=0):
    """Run a command within this process, which is faster: for what neither signals nor imports can spoil."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        result = cli.run([str(argument) for argument in arguments])
    assert result == code, (result, out.getvalue(), err.getvalue())
    return SimpleNamespace(stdout=out.getvalue(), stderr=err.getvalue())


@pytest.fixture(scope="module")
def project(case, tmp_path_factory):
    """A folder as a user would have it: data files, weights, a factory, a plan."""
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("project")
    for name in ("members", "nonmembers", "population"):
        data = getattr(case, name)
        np.savez(folder / f"{name}.npz", x=data.x, y=data.y)
    save_file(case.target.state_dict(), folder / "model.safetensors")
    (folder / "cli_factory.py").write_text(FACTORY)
    (folder / "jinja2.py").write_text("raise RuntimeError('data beside the plan were run')")  # by the processes below
    write_plan(folder)
    return folder


def write_plan(folder, name="plan.toml", **changes):
    fields = {
        "head": 'recipes = ["loss", "lira"]\nfpr = [0.05]\n',
        "target": '[target]\nmodel = "model.safetensors"\nfactory = "cli_factory:make"\n',
        "data": '[data]\nmembers = "members.npz"\nnonmembers = "nonmembers.npz"\npopulation = "population.npz"\n',
        "references": '[references]\nmake_model = "cli_factory:make"\ncount = 4\nepochs = 30\nengine = "serial"\n',
    } | changes
    (folder / name).write_text("\n".join(fields.values()))
    return folder / name


@pytest.fixture(scope="module")
def finished(project):
    result = run_here("audit", project / "plan.toml", "--out", project / "run")
    assert f"target.factory: from {project / 'cli_factory.py'}" in result.stderr
    return project / "run"


def test_an_error_in_the_users_code_is_shown_as_theirs_under_one_line_of_ours(project):
    (project / "failing.py").write_text("def make():\n    return [][7]\n")
    target = '[target]\nmodel = "model.safetensors"\nfactory = "failing:make"\n'
    plan = write_plan(project, "failing.toml", target=target)
    lines = run_here("audit", plan, "--out", project / "failing", code=2).stderr.splitlines()
    error_line = next(i for i, line in enumerate(lines) if line.startswith("divulge: "))
    assert (
        lines[error_line]
        == "divulge: target.factory: 'failing:make': your code raised IndexError: list index out of range"
    )
    assert any('failing.py", line 2, in make' in line for line in lines[error_line:])
    assert not any("src/divulge" in line for line in lines[error_line:])


def test_version_and_help():
    assert run_here("--version").stdout.startswith("divulge 0.")
    assert "audit" in run_here("--help").stdout


def test_list_names_recipes_signals_and_data():
    content = json.loads(run_here("list", "--json").stdout)
    assert {"loss", "lira", "rmia", "quantile"} <= set(content["recipes"])
    assert {"hinge", "feature-angle"} <= set(content["signals"])
    assert {"weight-gradient", "learned-white-box"} <= set(content["recipes"])


def test_a_plan_runs_and_is_kept_resolved(finished):
    assert "[references]" in (finished / "plan.toml").read_text()
    assert json.loads((finished / "run.json").read_text())["state"] == "finished"
    run_here("audit", finished / "plan.toml", "--out", finished.parent / "again")
    summary, repeated_summary = (
        json.loads((run / "summary.json").read_text()) for run in (finished, finished.parent / "again")
    )
    assert summary["recipes"] == repeated_summary["recipes"]
    assert json.loads((finished / "summary.json").read_text())["recipes"]["lira"]["auc"]["value"] > 0.5


def test_a_plan_may_look_inside_the_networks(project):
    head = 'recipes = ["weight-gradient", "learned-white-box", "loss"]\nfpr = [0.05]\n'
    run_here("audit", write_plan(project, "inside.toml", head=head), "--out", project / "inside")
    content = json.loads((project / "inside" / "summary.json").read_text())["recipes"]
    assert set(content) == {"weight-gradient", "learned-white-box", "loss"}


def test_the_kept_plan_runs_again_from_where_it_lies(finished, tmp_path):
    """It names the folder its files are in; the reference models are the same."""
    from divulge import plan

    stored_plan = finished / "plan.toml"
    ready = plan.resolve(plan.read(stored_plan), stored_plan.parent)
    assert len(ready.subject.members) == 200
    read = plan.read(stored_plan)
    data = read.data.model_dump(exclude_none=True, exclude_unset=True)  # columns that are named must be there
    assert ready.plan == read.model_dump(exclude_none=True) | {"data": data}


def test_decide_again_without_models(finished):
    content = json.loads(run_here("decide", finished, "--fpr", "0.05", "--json").stdout)
    assert set(content) == {"loss", "lira"}
    assert content["loss"]["guarantee"].startswith("marginal FPR ≤ 0.05")
    assert "known non-members are needed" in run_here("decide", finished, "--fpr", "0.0001", code=2).stderr
    assert "exactly one" in run_here("decide", finished, code=2).stderr


def test_an_audit_is_decided_with_a_bound_on_false_discoveries_too(finished):
    content = json.loads(run_here("decide", finished, "--fdr", "0.05", "--json").stdout)
    assert set(content) == {"loss", "lira"}
    assert all("FDR ≤ 0.05" in decision["guarantee"] for decision in content.values())
    wide = json.loads(run_here("decide", finished, "--fdr", "0.5", "--json").stdout)
    assert wide["lira"]["selected"] >= content["lira"]["selected"]
    assert wide["lira"]["selected"] > 0
    assert wide["lira"]["precision"]["high"] >= 0.5
    output = run_here("decide", finished, "--fdr", "0.05").stdout
    assert "Decisions at FDR ≤ 0.05" in output


def test_what_is_said_of_one_recipe_names_it(finished):
    content = json.loads(run_here("decide", finished, "--fdr", "0.05", "--json").stdout)
    output = " ".join(run_here("decide", finished, "--fdr", "0.05").stdout.split())
    only_loss, only_lira = (set(content[name]["warnings"]) for name in ("loss", "lira"))
    assert only_loss - only_lira
    assert only_loss & only_lira
    for name, messages in (
        ("loss: ", only_loss - only_lira),
        ("lira: ", only_lira - only_loss),
        ("", only_loss & only_lira),
    ):
        assert all(any(f"{severity}: {name}{text}" in output for severity in ("note", "warning")) for text in messages)


def test_gate_has_three_answers_and_an_exit_code_for_each(finished):
    assert "kept" in run_here("gate", finished, "--max", "auc:0.999").stdout
    broken = json.loads(run_here("gate", finished, "--max", "auc:0.5", "--json", code=1).stdout)
    assert (broken["state"], broken["passed"]) == ("broken", False)
    assert {ruling["state"] for ruling in broken["rulings"]} == {"broken"}
    area = json.loads((finished / "summary.json").read_text())["recipes"]["lira"]["auc"]["value"]
    undecided = run_here("gate", finished, "--max", f"auc:{area}", code=3).stdout
    assert "undecided: the limit of auc lies within the interval" in undecided
    assert "METRIC:LIMIT" in run_here("gate", finished, "--max", "auc", code=2).stderr


def test_gate_lets_a_pipeline_choose_what_passes(finished):
    epsilon = ["gate", finished, "--max", "epsilon:50"]
    assert "never shown kept" in run_here(*epsilon, code=3).stdout
    content = json.loads(run_here(*epsilon, "--pass", "kept,undecided", "--json").stdout)
    assert (content["state"], content["passed"]) == ("undecided", True)
    assert content["rulings"][0]["estimate"]["high"] is None
    limits = [*epsilon, "--max", "auc:0.5"]
    assert "BROKEN" in run_here(*limits, code=1).stdout
    run_here(*limits, "--pass", "undecided", code=1)
    run_here(*limits, "--pass", "broken", code=3)
    run_here(*limits, "--pass", "broken, undecided")
    assert "did you mean 'broken'" in run_here(*epsilon, "--pass", "brokn", code=2).stderr


def test_compare_pairs_records(finished, project):
    same = json.loads(run_here("compare", finished, finished, "--json").stdout)
    assert all(row["change"]["low"] <= 0 <= row["change"]["high"] for row in same)
    assert all(row["change"]["value"] == 0 for row in same)


def test_report_is_rendered_again(finished, tmp_path):
    run_here("report", finished, "--to", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == (finished / "report.html").read_text()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"head": 'recipe = ["loss"]\n'},
            "tables of settings are needed, such as [recipe.lira]; the list of attacks is recipes",
        ),
        ({"head": "fpr = [1.5]\n"}, "fpr: must lie in (0, 1), got 1.5"),
        ({"head": "seed = -1\n"}, "seed: must be at least 0, got -1"),
        ({"head": 'recipes = ["lirra"]\n'}, "did you mean 'lira'"),
        ({"data": '[data]\nmembers = "members.npz"\npopulation = "population.npz"\n'}, "data: nonmembers is needed"),
        ({"target": '[target]\nmodel = "model.pkl"\n'}, "no such file"),
        ({"references": '[references]\nmake_model = "cli_factory:make"\ncount = 1\n'}, "references.count"),
        ({"references": '[references]\nmake_model = "cli_factory:make"\nepoch = 3\n'}, "did you mean 'epochs'"),
        ({"references": '[references]\nmake_model = "cli_factory:mak"\n'}, "references.make_model: 'cli_factory:mak'"),
        ({"head": "recipes = [\n"}, "not readable TOML"),
    ],
)
def test_plans_are_checked_whole_before_work(project, tmp_path, changes, message):
    plan = write_plan(project, name="broken.toml", **changes)
    assert message in run_here("audit", plan, "--out", tmp_path / "never", code=2).stderr
    assert not (tmp_path / "never").exists()


def test_usage_errors(project, tmp_path):
    assert "give a plan, or --demo" in run_here("audit", "--out", tmp_path / "x", code=2).stderr
    quick = run_here("audit", project / "plan.toml", "--out", tmp_path / "x", "--quick", code=2)
    assert "goes with --demo" in quick.stderr
    assert "no such file" in run_here("audit", tmp_path / "absent.toml", "--out", tmp_path / "x", code=2).stderr


def test_pickles_and_damaged_data_are_refused(project, tmp_path):
    import torch

    torch.save({"a": torch.zeros(1)}, project / "whole.pt")
    plan = write_plan(project, name="pickle.toml", target='[target]\nmodel = "whole.pt"\n')
    assert "without running code from it" in run_here("audit", plan, "--out", tmp_path / "x", code=2).stderr
    (project / "half.npz").write_bytes((project / "members.npz").read_bytes()[:100])
    data = '[data]\nmembers = "half.npz"\nnonmembers = "nonmembers.npz"\npopulation = "population.npz"\n'
    plan = write_plan(project, name="half.toml", data=data)
    assert "data.members" in run_here("audit", plan, "--out", tmp_path / "x", code=2).stderr


def test_tables_as_data(project, case, finished, tmp_path):
    for name in ("members", "nonmembers", "population"):
        data = getattr(case, name)
        frame = pl.DataFrame(data.x.astype(float), schema=[f"f{i}" for i in range(12)]).with_columns(label=data.y)
        frame.write_csv(project / f"{name}.csv")
    data = "[data]\n" + "".join(f'{n} = "{n}.csv"\n' for n in ("members", "nonmembers", "population"))
    plan = write_plan(project, name="csv.toml", head='recipes = ["loss"]\n', data=data, references="")
    summary = json.loads(run_here("audit", plan, "--out", tmp_path / "csv", "--json").stdout)
    expected = json.loads((finished / "summary.json").read_text())
    assert summary["recipes"]["loss"]["auc"]["value"] == expected["recipes"]["loss"]["auc"]["value"]


def interrupted(project, out, signal_sent, **streams):
    """A run of the plan that got the signal when it was about to train its second network."""
    started = subprocess.Popen(
        [*COMMAND, "audit", str(project / "plan.toml"), "--out", str(out)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"HALT_ONCE_STORED": str(out / "pool")},
        **streams,
    )
    assert "at work\n" in iter(started.stdout.readline, ""), "the run ended before it could be interrupted"
    started.send_signal(signal_sent)
    return started


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this platform cannot kill -9")
def test_killed_or_stopped_while_training_the_same_command_goes_on(project, finished, tmp_path, monkeypatch):
    """kill -9 in the middle of reference training, SIGTERM, Ctrl-C; the result equals an uninterrupted run's."""
    out = tmp_path / "killed"
    interrupted(project, out, signal.SIGKILL, stderr=subprocess.DEVNULL).communicate()
    assert json.loads((out / "run.json").read_text())["state"] == "running"
    # A model is whole once its description is written.
    whole = [path for path in (out / "pool").rglob("*.safetensors") if path.with_suffix(".json").exists()]
    times = {path: path.stat().st_mtime_ns for path in whole}
    stopped = interrupted(project, out, signal.SIGTERM, stderr=subprocess.PIPE)
    errors = [stopped.communicate(timeout=120)[1]]
    assert stopped.returncode == 130
    with monkeypatch.context() as patch:
        patch.setenv("STOP_ONCE_STORED", str(out / "pool"))
        errors.append(run_here("audit", project / "plan.toml", "--out", out, code=130).stderr)
    for said in errors:
        assert "resumes" in said
        assert "Traceback" not in said
    run_here("audit", project / "plan.toml", "--out", out)
    assert all(path.stat().st_mtime_ns == when for path, when in times.items())
    ours, expected = (json.loads((place / "summary.json").read_text())["recipes"] for place in (out, finished))
    assert ours == expected


def test_a_report_that_cannot_be_written_is_one_line(finished):
    assert "divulge: " in run_here("report", finished, "--to", "/proc/x.html", code=2).stderr
