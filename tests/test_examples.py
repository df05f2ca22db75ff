"""Every example runs as its first line says."""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import divulge as dv
from run_directories import write_audit

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run an example as a script, in this process; what it printed."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("name", ["own_model", "scikit_learn", "score_table"])
def test_an_example_prints_how_well_members_are_told(name, run):
    if name == "own_model":
        pytest.importorskip("torch")
    assert "AUC" in run(name)


def test_a_network_gives_away_more_after_each_epoch(run):
    pytest.importorskip("torch")
    areas = [float(area) for area in re.findall(r"canaries (\d\.\d+)", run("leak_per_epoch"))]
    assert areas[-1] > max(areas[0], 0.9)


def test_one_model_seen_from_five_sides_leaves_one_folder_of_reports(run, tmp_path):
    pytest.importorskip("torch")
    printed = run("one_model", tmp_path / "out")
    links = re.findall('href="([^"]+)"', (tmp_path / "out" / "index.html").read_text())
    assert len(links) == 5
    assert all("<html" in (tmp_path / "out" / link).read_text(encoding="utf-8") for link in links)
    assert "60 of 60 diagnoses" in printed
    listed, true = map(int, re.search(r"(\d+) of 400 images are listed, (\d+) of them", printed).groups())
    assert true > 50
    assert true > 0.75 * listed
    assert int(re.search(r"(\d+) of 400 candidates are recognised", printed)[1]) > 100


def test_a_network_that_carries_a_query_is_that_of_equation_11(run):
    torch = pytest.importorskip("torch")
    assert run("query_in_a_model").count("20 of 20 labels read") == 2
    overwrite_batch = runpy.run_path(str(EXAMPLES / "query_in_a_model.py"))["overwrite_batch"]
    expected = np.array([1e-30, 0.25, 0.999])
    for dtype in (torch.float32, torch.float64):
        network = overwrite_batch(expected, 5, dtype=dtype, seed=3)
        assert (network[1].weight < 0).all()
        for scale in (0.0, 1.0, 1e3):
            batch = scale * torch.rand(3, 5, dtype=dtype)
            assert np.allclose(network(batch).detach().numpy(), expected, rtol=1e-5)
        # "Any real vector" is too much said: a batch of negative values is not overwritten.
        assert not np.allclose(network(-1 - torch.rand(3, 5, dtype=dtype)).detach().numpy(), expected)


PIPELINE = EXAMPLES / "pipeline"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of the example project, and an environment in which `divulge` and `python` are these."""
    shutil.copytree(PIPELINE, tmp_path / "project")
    (tmp_path / "bin").mkdir()
    for name, words in {"divulge": "-m divulge", "python": ""}.items():
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent / "src"))
    return tmp_path / "project"


@pytest.mark.skipif(os.name != "posix", reason="a runner's shell")
def test_the_workflow_of_the_pipeline_runs_step_by_step(project, divulge):
    """All but the installation and other people's actions; a plan with a limit that is broken fails it."""
    workflow = yaml.safe_load((project / ".github" / "workflows" / "privacy.yml").read_text())
    assert set(workflow) == {"name", True, "permissions", "jobs"}  # YAML takes the key `on` for a truth value
    steps = workflow["jobs"]["audit"]["steps"]
    assert all(("run" in step) != ("uses" in step) for step in steps)
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in steps if "uses" in step)
    commands = {step["name"]: step["run"] for step in steps if "run" in step}
    assert commands.pop("Install") == "python -m pip install ./wheels/divulge-*.whl pytest"

    def run(name):
        # As GitHub's runner does it where no shell is named.
        return subprocess.run(
            ["bash", "-e", "-c", commands[name]], cwd=project, capture_output=True, text=True, check=False
        )

    logistic = project / "plans" / "logistic.toml"
    broken = logistic.read_text().replace("auc:0.6", "auc:0.5001").replace("tpr@fpr=0.05:0.2", "epsilon:9")
    logistic.unlink()  # one run takes all steps; a second one joins at the gate
    for name in commands:
        process = run(name)
        assert process.returncode == 0, (name, process.stdout, process.stderr)
    reports = {path.name for path in (project / "reports").iterdir()}
    assert reports == {"runs.csv", "pytest.xml", "forest.html", "forest.xml"}
    assert "3 passed" in process.stdout
    for path in (project / "data").glob("*.npz"):  # fewer records, which are audited sooner
        with np.load(path) as whole:
            fewer = {name: whole[name][:200] for name in whole}
        np.savez(path, **fewer)
    logistic.write_text(broken)
    code, _, error = divulge("audit", logistic, "--out", project / "runs" / "a_broken_one")
    assert code == 0, error
    (project / "reports" / "forest.xml").unlink()
    assert run("Gate").returncode in (1, 3)
    assert "<failure" in (project / "reports" / "a_broken_one.xml").read_text()
    assert "<failure" not in (project / "reports" / "forest.xml").read_text()  # judged all the same


def test_an_audit_is_logged_to_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    write_audit(tmp_path / "run")
    log_audit = runpy.run_path(str(EXAMPLES / "mlflow_recipe.py"))["log_audit"]
    result = dv.load(tmp_path / "run")
    for whole_run in (False, True):
        logged = mlflow.get_run(log_audit(tmp_path / "run", whole_run=whole_run))
        assert logged.data.tags["divulge.verdict"] == "leak found"
        auc = result["loss"].auc
        metrics = [logged.data.metrics[f"loss/all/auc{end}"] for end in ("", "_low", "_high")]
        assert metrics == pytest.approx([auc.value, auc.low, auc.high])
        artifacts = Path(logged.info.artifact_uri.removeprefix("file://")) / "divulge"
        page = (artifacts / "one_page.html").read_text(encoding="utf-8")
        assert "training records" in page
        assert not any(str(record) in page for record in result.ids)
        assert json.loads((artifacts / "roc.vl.json").read_text())["$schema"].startswith("https://vega.github.io")
        assert (artifacts / "run" / "scores.parquet").exists() == whole_run


def test_the_dockerfile_names_files_that_are_there_and_runs_the_demo_of_the_makefile():
    text = (EXAMPLES / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    instructions = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    assert {word for word, _ in instructions} == {"FROM", "RUN", "COPY", "WORKDIR", "USER", "ENTRYPOINT", "CMD"}
    for word, rest in instructions:
        if word == "COPY":
            assert all((EXAMPLES.parent / source).exists() for source in rest.split()[:-1])
    last = dict(instructions)
    command = [*json.loads(last["ENTRYPOINT"]), *json.loads(last["CMD"])]
    assert last["USER"] == "divulge"
    assert " ".join(command) in (EXAMPLES.parent / "Makefile").read_text(encoding="utf-8")
