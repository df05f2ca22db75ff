"""The demo, made small: the whole way from a corpus to a report."""

import json

import polars as pl
import pytest
from typer.testing import CliRunner

from divulge import demo
from divulge.cli import app
from divulge.identification import finished_run
from divulge.results import to_json_values

pytest.importorskip("torch")
pytest.importorskip("transformers")

SMALL = demo.DemoModelConfig(epochs=1, width=16, layers=1, vocabulary=300, longest=32)


def test_demo_knows_the_truth_and_reports_it(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "load_paragraphs", lambda seed: shortened(seed))
    progress_calls = []
    summary = demo.identify_documents(tmp_path, fdr=0.5, config=SMALL, progress=lambda *at: progress_calls.append(at))
    candidates = pl.read_parquet(tmp_path / "candidates.parquet")
    assert summary.truth.members == candidates["member"].sum()
    assert summary.candidates == len(candidates) == summary.truth.known
    assert {control.name for control in summary.controls} == {"blind text", "exchangeability", "low end", "low scores"}
    assert progress_calls[-1][0] == progress_calls[-1][1]
    assert json.loads((tmp_path / "summary.json").read_text()) == to_json_values(summary)
    assert "Training-data identification" in (tmp_path / "report.html").read_text()
    documents = finished_run.read_documents(tmp_path)
    assert documents
    assert all(document.heat is not None for document in documents.values())  # its tokens are marked


def shortened(seed, load=demo.load_paragraphs):
    return load(seed)[:120]


def test_corpus_is_the_same_for_the_same_seed():
    assert demo.load_paragraphs(1) == demo.load_paragraphs(1)
    assert demo.load_paragraphs(1) != demo.load_paragraphs(2)
    assert len(set(demo.load_paragraphs(1))) == len(demo.load_paragraphs(1)) > 500


def test_demo_needs_no_folder(monkeypatch):
    monkeypatch.setattr(demo, "load_paragraphs", lambda seed: shortened(seed))
    monkeypatch.setattr(demo, "DemoModelConfig", lambda: SMALL)
    result = CliRunner().invoke(app, ["identify", "--demo", "--fdr", "0.5"])
    assert result.exit_code == 0, result.exception
    assert "realised power" in result.stdout
    assert "the same with --out FOLDER" in " ".join(result.stdout.split())
