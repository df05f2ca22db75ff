"""Columns that an option names in place of the plan's, and the end of a score that is asked for on a terminal."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge import cli

pty = pytest.importorskip("pty", reason="a terminal that a test can type into")

QUESTION = "Which end of 'Loss' is member-like, high or low [high]: "


@pytest.fixture
def score_tables(tmp_path):
    """Losses of 150 candidates, the first 50 of which were trained on, and of 300 others: members are low."""
    rng = np.random.default_rng(0)
    losses = np.append(rng.normal(-4, 1, 50), rng.normal(size=100))
    pl.DataFrame({"Loss": losses}).write_csv(tmp_path / "candidates.csv")
    pl.DataFrame({"Loss": rng.normal(size=300)}).write_csv(tmp_path / "calibration.csv")
    return tmp_path


SEVERAL = """
import json, sys
from divulge import cli
from divulge.cli import printing
printing.prepare()
for words in json.loads(sys.argv[1]):
    print("code", int(cli.run(words)), flush=True)
printing.finish()
"""


def identify_on_a_terminal(folder, runs, typed):
    """Run ``divulge identify`` on a terminal, once for the options of each run; code and output of each.

    One after the other in one process, into which everything is typed beforehand: what takes time is its start.
    """
    ours, terminal = pty.openpty()
    options = ["--calibration", "calibration.csv", "--score", "Loss"]
    words = [["identify", "candidates.csv", *options, "--out", name, *more] for name, more in runs.items()]
    command = [sys.executable, "-c", SEVERAL, json.dumps(words)]
    environment = os.environ | {"PYTHONPATH": str(Path(dv.__file__).parents[1]), "COLUMNS": "200"}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    os.write(ours, typed.encode())
    output = b""
    try:
        while chunk := os.read(ours, 1 << 16):
            output += chunk
    except OSError:  # the other side of the terminal is closed
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 0, output.decode()
    said = re.findall(r"(.*?)code (\d)\s", output.decode(), re.S)
    return [(int(code), text) for text, code in said]


def summary_of(folder, run):
    return json.loads((folder / run / "summary.json").read_text(encoding="utf-8"))


def test_a_terminal_is_asked_which_end_is_member_like_and_the_answer_decides(score_tables):
    runs = {"low": [], "high": [], "neither": [], "unasked": ["--json"]}
    low, high, neither, unasked = identify_on_a_terminal(score_tables, runs, " LOW \n\nsideways\n")
    for direction, (code, output) in (("low", low), ("high", high)):
        assert code == 0, output
        assert QUESTION in output
        assert "no direction was named" not in output
        summary = summary_of(score_tables, direction)
        assert summary["settings"]["scores"] == [f"Loss:{direction}"]
        assert (summary["selected"] > 40) == (direction == "low")
    code, output = neither
    assert code == 2
    assert "--score" in output, "an answer that is no end is an error that names the ends"
    assert "high" in output.split("sideways")[-1]
    assert not (score_tables / "neither" / "summary.json").exists()
    code, output = unasked
    assert code == 0
    assert "Which end" not in output, "nothing is asked where JSON is wanted"
    assert summary_of(score_tables, "unasked")["settings"]["scores"] == ["Loss:high"]


def test_nothing_is_asked_without_a_terminal(score_tables, monkeypatch, capsys):
    monkeypatch.chdir(score_tables)
    options = ["--calibration", "calibration.csv", "--score", "Loss", "--out", "run"]
    assert cli.run(["identify", "candidates.csv", *options]) == 0
    printed = capsys.readouterr()
    assert "Which end" not in printed.out + printed.err
    assert "did you mean" in " ".join((printed.out + printed.err).split())


def test_a_plan_names_the_column_of_identifiers(tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("members", 40), ("nonmembers", 40), ("population", 80)):
        columns = {"a": rng.normal(size=n), "b": rng.normal(size=n), "label": rng.integers(0, 2, n)}
        columns |= {"key": [f"{name}-key-{i}" for i in range(n)]}
        pl.DataFrame(columns).write_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "models.py").write_text(
        "import numpy as np\n\n\ndef logits(x):\n    return np.stack([x[:, 0], -x[:, 0]], axis=1)\n"
    )
    (tmp_path / "plan.toml").write_text(
        """
recipes = ["loss"]
fpr = [0.1]

[target]
model = "models:logits"

[data]
members = "members.parquet"
nonmembers = "nonmembers.parquet"
population = "population.parquet"
id = "key"
columns = ["a", "b"]
"""
    )
    assert cli.run(["audit", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "run")]) == 0
    ids = pl.read_parquet(tmp_path / "run" / "scores.parquet")["id"].to_list()
    assert ids == [f"{side}-key-{i}" for side in ("members", "nonmembers") for i in range(40)]
