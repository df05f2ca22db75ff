"""The table of exit codes on the page of commands is what the commands do."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from divulge import cli
from divulge.cli.printing import Exit
from run_directories import write_audit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| .+ \|$", PAGE, re.M)
FILES = {"labels": "labels", "canaries": "canaries", "forget": "erasure", "attribute": "attributes"}
FILES |= {"gate": "runs", "table": "runs", "pool": "runs", "inspect": "inspection", "synthetic": "synthetic"}
FILES |= {"audit": "plans"}


def test_every_code_has_its_meaning_in_one_table():
    assert {int(code) for code, _ in ROWS} == {int(code) for code in Exit}
    assert PAGE.count("| code | command | when |") == 1


def test_a_command_has_a_code_of_its_own_in_the_table_and_in_its_file():
    """Which file of the command line ends with which code, apart from codes that every command has."""
    listed = {
        (Exit(int(code)).name, FILES[name.split()[0]])
        for code, commands in ROWS
        if commands != "every command"
        for name in re.findall("`([^`]+)`", commands)
    }
    raised = {
        (name, path.stem)
        for path in (ROOT / "src" / "divulge" / "cli").glob("*.py")
        if path.stem not in ("__init__", "printing")
        for name in re.findall(r"Exit\.([A-Z]+)\b", path.read_text(encoding="utf-8"))
        if name not in ("OK", "INTERRUPTED")
    }
    raised |= {("INPUT", "plans")}  # what a plan failed with
    assert listed == raised, "docs/reference/commands.md: name in the table of exit codes what a command ends with"


@pytest.mark.parametrize(
    ("code", "limits"),
    [(0, ["auc:0.999"]), (1, ["auc:0.55"]), (3, ["epsilon:50"]), (1, ["epsilon:50", "auc:0.55"]), (2, ["acc:0.5"])],
)
def test_a_gate(code, limits, tmp_path, divulge):
    write_audit(tmp_path / "run")
    options = [word for limit in limits for word in ("--max", limit)]
    assert divulge("gate", tmp_path / "run", *options)[0] == code


@pytest.mark.parametrize(("code", "copied", "n"), [(1, 60, 120), (0, 0, 400), (3, 0, 20)])
def test_a_release(code, copied, n, tmp_path, divulge):
    rng = np.random.default_rng(0)
    sets = {name: rng.normal(size=(n, 3)).round(3) for name in ("members", "nonmembers", "population")}
    sets["released"] = np.concatenate([sets["members"][:copied], rng.normal(size=(n, 3)).round(3)])
    for name, values in sets.items():
        pl.DataFrame(values, schema=["a", "b", "c"]).write_csv(tmp_path / f"{name}.csv")
    options = [word for name in list(sets)[:3] for word in (f"--{name}", tmp_path / f"{name}.csv")]
    assert divulge("synthetic", tmp_path / "released.csv", *options)[0] == code


def test_a_table_of_runs_and_a_pool_that_are_damaged(tmp_path, divulge):
    write_audit(tmp_path / "runs" / "one")
    assert divulge("table", tmp_path / "runs")[0] == 0
    (tmp_path / "runs" / "one" / "summary.json").write_text("{}")
    assert divulge("table", tmp_path / "runs")[0] == 2


@pytest.mark.parametrize(("raised", "code"), [("KeyboardInterrupt", 130), ("ValueError", 2)])
def test_what_the_code_of_a_plan_raises(raised, code, tmp_path, divulge):
    (tmp_path / "own.py").write_text(f"raise {raised}()\n")
    for name in ("members", "nonmembers", "population"):
        np.savez(tmp_path / f"{name}.npz", x=np.zeros((9, 2)), y=np.arange(9) % 2)
    (tmp_path / "plan.toml").write_text(
        'recipes = ["loss"]\n[target]\nmodel = "own:model"\n[data]\nmembers = "members.npz"\n'
        'nonmembers = "nonmembers.npz"\npopulation = "population.npz"\n'
    )
    assert divulge("audit", tmp_path / "plan.toml", "--out", tmp_path / "run")[0] == code


def test_a_fault_of_divulge(capsys):
    def fail():
        raise AssertionError("secret")

    assert cli.call(fail, ()) == 70
    assert "secret" not in capsys.readouterr().err
