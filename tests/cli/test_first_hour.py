"""From nothing to a first audit: `init`, `check`, `audit` without `--out`, completion, `-h`."""

import json
import os
import pty
import re
import subprocess
import sys
import tomllib

import numpy as np
import polars as pl
import pytest

from divulge import plan as plans

pytestmark = pytest.mark.usefixtures("records_compared_once")

COMMAND = [sys.executable, "-m", "divulge"]
MODEL = """
import numpy as np

def scores(x):
    return np.stack([x[:, 0], -x[:, 0]], axis=1)
"""


@pytest.mark.parametrize("records", ["images", "table", "text"])
@pytest.mark.parametrize("references", ["0", "4"])
def test_every_plan_that_init_writes_is_valid(tmp_path, divulge, records, references):
    code, _, err = divulge("init", tmp_path / "new", "--records", records, "--references", references)
    assert code == 0, err
    read = plans.read(tmp_path / "new" / "plan.toml")
    assert (not isinstance(read.references, str)) == (references != "0")
    assert read.references != "auto" or records != "table"  # 0 models of an estimator are none, not its clones
    stub = tmp_path / "new" / "my_model.py"
    assert stub.exists() == (records == "images")
    if stub.exists():
        compile(stub.read_text(), "my_model.py", "exec")
    code, _, err = divulge("init", tmp_path / "new")
    assert code == 2
    assert "plan.toml is there already" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--records", "sounds"), "--records: 'sounds' is unknown"),
        (("--references", "1"), "--references: 0 or at least 2 are needed, got 1"),
        (("--references", "-3"), "--references: must be at least 0, got -3"),
        (("--model", ""), "--model"),
    ],
)
def test_what_init_cannot_use_is_refused_before_a_file_is_written(tmp_path, divulge, options, message):
    code, _, err = divulge("init", tmp_path / "new", *options)
    assert code == 2
    assert message in err
    assert not (tmp_path / "new").exists()


def test_names_that_need_quotes_come_back_as_they_were(tmp_path):
    odd = 'a "b" \\ c\x7f\x1b\né'
    arguments = {"model": odd, "members": odd, "nonmembers": odd, "population": odd, "label": odd}
    for records in ("images", "table", "text"):
        read = tomllib.loads(plans.format_starting_plan(plans.complete_answers(arguments | {"records": records}, None)))
        assert read["target"]["model"] == read["data"]["members"] == odd
        assert odd in (read["data"].get("label"), read["data"].get("text"))


def test_files_named_from_here_are_found_by_a_plan_that_lies_elsewhere(tmp_path, divulge, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "in.csv").write_text("x,label\n1,0\n")
    options = ["--records", "table", "--members", "data/in.csv", "--nonmembers", "not_there.csv"]
    assert divulge("init", "new", *options)[0] == 0
    data_table = tomllib.loads((tmp_path / "new" / "plan.toml").read_text())["data"]
    assert data_table["members"] == "../data/in.csv"
    assert data_table["nonmembers"] == "not_there.csv"


def test_init_says_what_it_assumes_and_what_is_not_there(tmp_path, divulge, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text("row_id,x,y\n1,0.5,1\n2,0.1,0\n")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "folder").mkdir()
    options = ["--records", "table", "--members", "in.csv", "--nonmembers", "empty.csv", "--population", "folder"]
    code, told, _ = divulge("init", "guessed", *options)
    assert code == 0
    assert "label = 'y', " in told
    assert "id = 'row_id'" in told
    assert [name for name in ("model", "members", "nonmembers", "population") if f"warning: {name}: " in told] == [
        "model", "nonmembers", "population",
    ]  # fmt: skip
    code, told, _ = divulge("init", "given", *options, "--label", "z", "--id", "x")
    assert code == 0
    assert "has no column 'z'" in told
    assert "id" not in told.split("Assumed: ")[1].splitlines()[0]
    data = tomllib.loads((tmp_path / "given" / "plan.toml").read_text())["data"]
    assert (data["label"], data["id"]) == ("z", "x")


@pytest.mark.parametrize(
    ("model", "members", "expected"),
    [
        ("m.onnx", "a.csv", "table"),
        ("m.safetensors", "a.npz", "images"),
        ("hf:any", "a.csv", "text"),
        ("m", "a.jsonl", "text"),
    ],
)
def test_init_sees_from_names_what_a_record_is(divulge, tmp_path, monkeypatch, model, members, expected):
    monkeypatch.chdir(tmp_path)
    _, told, _ = divulge("init", "--model", model, "--members", members, "--json")
    assert json.loads(told)["assumed"]["records"] == expected


def test_init_asks_a_person_what_no_option_says(tmp_path):
    ours, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "init", str(tmp_path / "new"), "--records", "table"], stdin=terminal, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.write(ours, b"mine.onnx\n\n\n\n\nclass\n0\n")
    _, err = process.communicate(timeout=120)  # another question would wait for an answer
    os.close(ours)
    os.close(terminal)
    assert process.returncode == 0, err
    assert err.count("[") == 7
    read = plans.read(tmp_path / "new" / "plan.toml")
    assert (read.target.model, read.data.members, read.data.label) == ("mine.onnx", "members.csv", "class")


@pytest.fixture
def project(tmp_path):
    """A model in a module, tables as people have them: semicolons, classes with names, columns that are no values."""
    rng = np.random.default_rng(0)
    for name in ("members", "nonmembers", "population"):
        x = rng.normal(size=(120, 2))
        names = np.where(x[:, 1] > 0, "up", "down")
        frame = pl.DataFrame({"note": ["n"] * 120, "a": x[:, 0], "b": x[:, 1], "class": names})
        frame.write_csv(tmp_path / f"{name}.csv", separator=";")
    (tmp_path / "first_hour_model.py").write_text(MODEL)
    (tmp_path / "plan.toml").write_text(
        """recipes = ["loss", "quantile-trees"]
fpr = [0.05]
[target]
model = "first_hour_model:scores"
[data]
members = "members.csv"
nonmembers = "nonmembers.csv"
population = "population.csv"
label = "class"
columns = ["a", "b"]
classes = ["up", "down"]
"""
    )
    return tmp_path


@pytest.mark.parametrize(("members", "is_told"), [(4, True), (120, False)])
def test_check_says_whether_there_are_too_few_records_for_no_leak_found(project, divulge, members, is_told):
    file = project / "members.csv"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[: members + 1]))
    code, told, _ = divulge("check", project / "plan.toml")
    assert code == 0
    assert ("too little data" in told) == is_told
    if is_told:
        _, told, _ = divulge("audit", project / "plan.toml", "--out", project / "run")
        assert "x_members" not in told
        assert "no leak found" not in told.lower()


def test_recipes_without_reference_models_are_told_what_a_plan_needs(project, divulge):
    plan_file = project / "plan.toml"
    plan_file.write_text(plan_file.read_text().replace('"quantile-trees"', '"lira"'))
    code, _, err = divulge("check", plan_file)
    assert code == 2
    assert "[references] with count" in err


def test_check_says_what_the_audit_will_take_and_writes_nothing(project, divulge):
    before = sorted(project.iterdir())
    code, out, err = divulge("check", project / "plan.toml")
    assert code == 0, err
    assert "plan.toml can be run: loss, quantile-trees" in out
    assert re.search(
        r"Ahead: 360 records; scoring at most about \d+ s; attacks and checks about \d+ s; memory about",
        out,
    )
    assert [path for path in sorted(project.iterdir()) if path.name != "__pycache__"] == before
    code, out, _ = divulge("check", project / "plan.toml", "--json")
    assert json.loads(out)["forecast"]["models"] == 0
    (project / "members.csv").write_text("a;b;class\n1;2;sideways\n3;4;up\n")
    code, out, err = divulge("check", project / "plan.toml")
    assert code == 2
    assert "'sideways' is unknown" in err


def test_check_finds_a_text_among_numbers_by_row_and_column(project, divulge):
    _, clean, _ = divulge("check", project / "plan.toml")
    assert "stands among numbers" not in clean
    lines = (project / "nonmembers.csv").read_text().splitlines()
    cells = lines[17].split(";")
    lines[17] = ";".join([cells[0], "not known", *cells[2:]])
    (project / "nonmembers.csv").write_text("\n".join(lines) + "\n")
    # The model cannot negate a text, and its own error names no row.
    code, told, _ = divulge("check", project / "plan.toml")
    assert code == 2
    assert "data.nonmembers: row 17 (the header not counted), column 'a': the text 'not known' stands among" in told


def test_an_audit_prints_answer_table_report_and_next_step_and_all_else_when_asked(project, divulge):
    code, out, err = divulge("audit", project / "plan.toml", "--out", project / "run")
    assert code == 0, err
    lines = out.splitlines()
    assert len(lines) < 20
    assert "AUC" in out
    for word in ("advantage", "ε", "queries", "note:"):
        assert word not in out, f"{word} is for -v, the report and JSON"
    report, following, hidden = lines[-3:]
    assert report == f"Report: {project / 'run' / 'report.html'}"
    assert following.startswith("Next: ")
    assert re.fullmatch(r"\(.*further table.*: in the report, or with -v\)", hidden)
    _, full, _ = divulge("audit", project / "plan.toml", "--out", project / "run", "--overwrite", "-v")
    for word in ("advantage", "ε", "queries"):
        assert word in full
    assert "with -v)" not in full
    assert full.startswith(lines[0])


def test_an_audit_says_what_is_ahead_and_finds_itself_a_folder(project, divulge, monkeypatch):
    monkeypatch.chdir(project)
    code, out, err = divulge("audit", "plan.toml", "--fpr", 0.1, "--fpr", 0.2)
    assert code == 0, err
    assert "ahead: 360 records; memory" in err
    (run,) = (project / "runs").iterdir()
    assert re.fullmatch(r"plan-\d{8}-\d{6}", run.name)
    assert f"Report: runs/{run.name}/report.html" in out
    assert tomllib.loads((run / "plan.toml").read_text())["fpr"] == [0.1, 0.2]
    code, _, err = divulge("audit", "plan.toml", "--fpr", 1.5)
    assert code == 2
    assert "--fpr" in err


def test_help_has_a_short_name(divulge):
    for command in ((), ("audit",), ("labels", "attack"), ("canaries", "plan")):
        code, out, _ = divulge(*command, "-h")
        assert code == 0
        assert "Usage: divulge" in out


def test_the_shell_completes_commands():
    environment = os.environ | {"_DIVULGE_COMPLETE": "complete_bash", "COMP_WORDS": "divulge ca", "COMP_CWORD": "1"}
    process = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["canaries"]


def test_a_model_that_nobody_should_unpickle_is_refused_before_a_plan_is_written(divulge, tmp_path):
    (tmp_path / "forest.pkl").write_bytes(b"\x80\x04N.")
    code, _, err = divulge("init", tmp_path / "new", "--records", "table", "--model", tmp_path / "forest.pkl")
    assert code == 2
    assert "a pickle file is a program" in err
    assert not (tmp_path / "new").exists()


def test_files_that_are_not_there_are_said_once_and_come_before_the_check(divulge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {"model": "m.skops", "members": "a.csv", "nonmembers": "b.csv", "population": "c.csv"}
    options = ["--records", "table", *(word for key, name in files.items() for word in (f"--{key}", name))]
    code, out, _ = divulge("init", "none", *options)
    assert code == 0
    assert out.count("warning") == 1
    assert all(name in out for name in files.values())
    assert re.search(r"Next: put these files there; then divulge check", out)
    (tmp_path / "c.csv").write_text("x,label\n1,0\n")
    _, out, _ = divulge("init", "some", *options)
    assert "a.csv, b.csv" in out
    assert "b.csv, c.csv" not in out
