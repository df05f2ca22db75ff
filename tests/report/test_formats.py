"""`divulge report`: the same run as a page, for a model card, as data, one row per record; and where it comes from."""

import csv
import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from divulge import auditing, provenance, results
from divulge.report.page import Page
from divulge.report.sections import add_provenance
from divulge.run_directory import RunDirectory
from score_audits import scored, sizes


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder, members = tmp_path_factory.mktemp("run"), sizes(200, 200)
    data = folder / "members.npz"
    data.write_bytes(b"records")
    scores = np.random.default_rng(0).normal(size=400) + members
    audit = scored({"loss": scores}, members, fpr=(0.01, 0.05), labels=np.arange(400) % 2)
    with RunDirectory(folder / "run").writing("audit", "key") as draft:
        audit.save(draft, {"members": [data]})
    return folder / "run"


def test_a_run_keeps_when_by_which_command_and_of_what_it_was_made(run):
    origin = provenance.read_provenance(run)
    assert origin.sources == (provenance.describe_source("members", run.parent / "members.npz"),)
    assert origin.sources[0].size == 7
    assert len(origin.sources[0].digest) == 64
    assert origin.date.endswith("+00:00")
    assert origin.command == ""
    text = (run / "report.html").read_text(encoding="utf-8")
    assert origin.sources[0].digest in text
    assert "used from Python" in text
    assert str(run.parent) not in text


def test_a_command_is_noted_as_it_was_given_and_only_while_it_runs(divulge, tmp_path, run):
    report_file = tmp_path / "labels.html"
    (tmp_path / "y.txt").write_text("0\n1\n" * 10)
    code, _, _ = divulge("labels", "simulate", tmp_path / "y.txt", "--noise", "1e-4", "--report", report_file)
    assert code == 0
    assert "--noise 1e-4" in report_file.read_text(encoding="utf-8")
    assert provenance.COMMAND.get() == ()


def test_no_text_of_a_csv_is_a_formula_and_numbers_stay_numbers(divulge, run, tmp_path):
    grouped = replace(auditing.load(run), groups=np.array(["-4.5", "b"] * 200))
    hostile = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "＝1", "-7", "1e5", "a=b", ""]
    ids = np.array([*hostile, *(f"r{i}" for i in range(389))])
    with RunDirectory(tmp_path / "run").writing("audit", "key") as draft:
        replace(grouped, ids=ids).save(draft)
    assert divulge("report", tmp_path / "run", "--format", "csv")[0] == 0
    rows = list(csv.reader((tmp_path / "run" / "records.csv").read_bytes().decode().splitlines(True)))
    id_column = [row[0] for row in rows[1:12]]
    assert id_column == [*(f"'{text}" for text in hostile[:7]), *hostile[7:]]
    assert rows[1][rows[0].index("group")] == "-4.5"
    score = rows[0].index("loss score")
    assert [float(row[score]) for row in rows[1:]] == grouped.scores["loss"].tolist()
    assert divulge("report", tmp_path / "run", "--format", "parquet")[0] == 0
    assert pl.read_parquet(tmp_path / "run" / "records.parquet")["id"].to_list()[:11] == hostile


@pytest.mark.parametrize("name", ["md", "json", "csv", "parquet"])
def test_every_format_says_the_same(divulge, run, tmp_path, name):
    file_out, summary = tmp_path / f"out.{name}", auditing.load(run).summary()
    assert divulge("report", run, "--format", name, "--to", file_out)[0] == 0
    if name == "md":
        text = file_out.read_text(encoding="utf-8")
        assert auditing.load(run).verdict.plain in text
        assert text.startswith("## Privacy: ")
    elif name == "json":
        content = json.loads(file_out.read_text(encoding="utf-8"))
        expected = results.to_json_values(summary)
        assert content["results"] == {name: part for name, part in expected.items() if name not in ("heat", "texts")}
        assert content["provenance"]["sources"][0]["name"] == "members.npz"
    else:
        frame = pl.read_csv(file_out) if name == "csv" else pl.read_parquet(file_out)
        assert frame["member"].sum() == 200
        assert frame["loss called at FPR 0.05"].sum() == summary.recipes["loss"].decisions["0.05"].selected
        np.testing.assert_allclose(frame["loss score"], auditing.load(run).scores["loss"])


def test_an_unknown_format_is_refused_by_name(divulge, run):
    code, _, error = divulge("report", run, "--format", "doc")
    assert code == 2
    assert "--format: 'doc' is unknown" in error


def test_a_run_that_noted_nothing_says_so():
    page = add_provenance(Page("t", "v", "plain", ()), None)
    assert "Neither date, command nor files were noted" in page.sections[-1].blocks[0].text


def test_no_value_of_a_header_stands_where_a_run_comes_from():
    command = ("divulge", "labels", "attack", "--header", "Authorization: Bearer 42", "--header=X-Key: 42", "--n", "4")
    with provenance.record_command(command):
        recorded_command = provenance.collect_provenance({}).command
    assert "42" not in recorded_command
    assert {"Authorization", "X-Key"} <= set(
        recorded_command.replace("'", " ").replace("=", " ").replace(":", " ").split()
    )
    assert recorded_command.endswith("--n 4")
