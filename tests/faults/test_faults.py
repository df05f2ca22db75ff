"""Killed (-9) before every step, and two at once, for every command that writes: the old whole or the new one."""

import functools
import shutil

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge.run_directory import RunDirectory
from faults import steps

AUDIT = ("audit", "plan.toml", "--out", "run")
PLAN = """
recipes = ["loss"]

[target]
model = "predictor:guess"
outputs = "logits"

[data]
members = "members.npz"
nonmembers = "others.npz"
population = "population.npz"
"""
IDENTIFY = ("identify", "t.csv", "--calibration", "u.csv", "--score", "loss:low", "--out", "run")


@pytest.fixture(autouse=True, scope="module")
def one_moment():
    """The date is all that two equal runs may differ in."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SOURCE_DATE_EPOCH", "1700000000")
        yield


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Tables, a network and labels, small."""
    folder = tmp_path_factory.mktemp("inputs") / "inputs"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name, loss in (("t", np.append(rng.normal(-3, 1, 20), rng.normal(size=40))), ("u", rng.normal(size=80))):
        pl.DataFrame({"loss": loss}).write_csv(folder / f"{name}.csv")
    for name in ("members", "others", "population"):
        np.savez(folder / f"{name}.npz", x=rng.normal(size=(150, 2)), y=rng.integers(0, 2, 150))
    (folder / "predictor.py").write_text("def guess(x):\n    return x[:, :2]\n")
    (folder / "plan.toml").write_text(PLAN)
    (folder / "other.toml").write_text("seed = 1\n" + PLAN)
    return folder


def prepared(inputs, destination, *commands):
    """A copy of the inputs in which some commands have been run."""
    shutil.copytree(inputs, destination)
    for command in commands:
        code, output = steps.run_command(command, destination)
        assert code == 0, output
    return destination


COMMANDS = {
    "audit": ((), AUDIT),
    "audit --overwrite": ((AUDIT,), ("audit", "other.toml", "--out", "run", "--overwrite")),
    "report": ((AUDIT,), ("report", "run")),
    "identify": ((), IDENTIFY),
    "decide": ((IDENTIFY,), ("decide", "run", "--fdr", "0.4")),
    "labels design": ((), ("labels", "design", "--n", "6", "--write", "run")),
}


@pytest.fixture(scope="module")
def started(inputs, tmp_path_factory):
    """Return a function: the folder in which a command starts, and its files where nothing disturbs it, made once."""
    folder = tmp_path_factory.mktemp("started")

    @functools.cache
    def start_command(name):
        before, command = COMMANDS[name]
        start = prepared(inputs, folder / name / "start", *before)
        return start, steps.read_run(prepared(start, folder / name / "undisturbed", command) / "run")

    return start_command


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_anywhere_a_command_leaves_the_old_run_or_the_new_one(started, tmp_path, name):
    before, command = COMMANDS[name]
    start, new = started(name)
    old = steps.read_run(start / "run") if before else None
    shutil.copytree(start, tmp_path / "followed")
    snapshots, (code, output) = steps.snapshots(command, tmp_path / "followed", tmp_path / "left")
    assert code == 0, output
    assert steps.read_run(tmp_path / "followed" / "run") == new
    outcomes = [classify(folder / "run", old, new) for folder in snapshots]
    for i, folder in enumerate(snapshots):
        # Every thirtieth, and wherever what a reader finds has just changed.
        if i % 30 and outcomes[i] == outcomes[i - 1]:
            continue
        code, output = steps.run_command(command, folder)
        if code:
            assert "holds a finished run" in output
            assert outcomes[i] == "new"
        assert steps.read_run(folder / "run") == new
    assert outcomes == sorted(outcomes, key=["none", "old", "unfinished", "new"].index)  # never back
    assert outcomes[0] == ("none" if not before else "old" if old != new else "new")
    assert len(snapshots) > 5


@pytest.mark.parametrize("name", ["audit --overwrite", "identify", "decide", "labels design"])
def test_two_at_once_leave_what_one_leaves(started, tmp_path, name):
    """While the first works, the second is refused; nothing of the first is lost."""
    command = COMMANDS[name][1]
    start, new = started(name)
    folder = prepared(start, tmp_path / "both")
    second_runs = []

    def run_again():
        if not second_runs and any(folder.glob("run/.staged-*/*")):
            second_runs.append(steps.run_command(command, folder))

    _, (code, output) = steps.snapshots(command, folder, tmp_path / "left", run_again)
    assert code == 0, output
    assert steps.read_run(folder / "run") == new
    [(code, output)] = second_runs
    assert code == 2
    assert "in use" in output or "another" in output


def classify(run, old, new):
    """What a reader finds in a directory; anything but a whole run, or that there is none yet, fails."""
    try:
        run_kind = RunDirectory(run).kind()
        content = RunDirectory(run).read(run_kind, lambda: steps.read_run(run))
    except dv.InputError as error:
        message = str(error)
        assert "not finished; repeat its command to go on" in message or "not a run directory" in message
        return "unfinished" if "not finished" in message else "none"
    assert content in (old, new)
    return "new" if content == new else "old"
