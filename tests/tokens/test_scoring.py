"""Scoring files with a model: shards, resume after a kill, from texts to a selection on the command line."""

import json
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from typer.testing import CliRunner

from divulge.cli import app
from divulge.errors import InputError
from divulge.identification import document_scoring, finished_run, score_tables
from divulge.signals import tokens as signals
from divulge.targets.language_models import CausalLM

TEXTS = [f"the {word} fox of {i} jumps" for i, word in enumerate(["quick", "lazy", "brown"] * 40)]


@pytest.fixture
def folder(model, tokenizer, tmp_path):
    """A saved model, and documents of which two are empty."""
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    texts = [*TEXTS[:50], "", None, *TEXTS[50:]]
    pl.DataFrame({"id": [f"d{i}" for i in range(len(texts))], "text": texts}).write_parquet(tmp_path / "t.parquet")
    return tmp_path


def test_documents_keep_their_rows_and_statistics_their_tokens(folder, model, tokenizer):
    target, out = CausalLM(model, tokenizer), folder / "out"
    scores = document_scoring.score(
        [folder / "t.parquet"], target, out, document_scoring.ScoringOptions(shard=32, lowercase=True)
    )
    assert scores.documents == 122
    assert scores.unscored == 2
    documents, tokens = pl.read_parquet(out / "documents"), pl.read_parquet(out / "tokens")
    assert documents["id"].to_list() == tokens["id"].to_list() == [f"d{i}" for i in range(122)]
    want = target.tokens([text or "" for text in pl.read_parquet(folder / "t.parquet")["text"]])
    for name, values in signals.all_signals(want).items():
        assert np.allclose(documents[name].to_numpy(), values, equal_nan=True, atol=1e-5), name
    assert documents["log_likelihood"].is_nan().to_numpy().nonzero()[0].tolist() == [50, 51]
    joined = np.concatenate(tokens["renyi_half"].to_list())
    assert np.abs(joined - want.renyi_half).max() < 1e-5
    assert "lowercase" in documents.columns


def test_the_difference_to_a_reference_model(folder, model, make, tokenizer):
    options = document_scoring.ScoringOptions(reference=CausalLM(make("llama"), tokenizer))
    document_scoring.score([folder / "t.parquet"], CausalLM(model, tokenizer), folder / "out", options)
    result = pl.read_parquet(folder / "out" / "documents")["reference"].drop_nans()
    want = signals.log_likelihood(CausalLM(model, tokenizer).tokens(TEXTS)) - signals.log_likelihood(
        CausalLM(make("llama"), tokenizer).tokens(TEXTS)
    )
    assert np.allclose(result.to_numpy(), want, atol=1e-5)


class Counting:
    """A target that counts the texts it is asked for."""

    def __init__(self, target):
        self.target, self.asked = target, []

    def tokens(self, texts, **options):
        self.asked += texts
        return self.target.tokens(texts, **options)

    def key(self):
        return self.target.key()


def test_only_what_is_missing_or_changed_is_scored_again(folder, model, tokenizer):
    target, out, options = (
        Counting(CausalLM(model, tokenizer)),
        folder / "out",
        document_scoring.ScoringOptions(shard=32),
    )

    def score(target=target):
        return document_scoring.score([folder / "t.parquet"], target, out, options, overwrite=True)

    score()
    assert len(target.asked) == 122
    next((out / "documents").glob("00000001-*")).unlink()
    score()
    assert len(target.asked) == 122 + 32
    damaged = next((out / "documents").glob("00000002-*"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    score()
    assert len(target.asked) == 122 + 32 + 32
    changed = pl.read_parquet(folder / "t.parquet").with_columns(text=pl.col("text").replace(TEXTS[0], "another"))
    changed.write_parquet(folder / "t.parquet")
    score()
    assert len(target.asked) == 122 + 32 + 32 + 32
    assert pl.read_parquet(out / "documents")["text"][0] == "another"
    assert len(list((out / "documents").iterdir())) == len(list((out / "tokens").iterdir())) == 4
    counting_model = Counting(CausalLM(model, tokenizer, bos="add"))
    with pytest.raises(InputError, match="made with another bos"):
        document_scoring.score([folder / "t.parquet"], counting_model, out, options)
    with pytest.raises(InputError, match="holds a finished run"):
        document_scoring.score([folder / "t.parquet"], target, out, options)
    score(counting_model)
    assert len(counting_model.asked) == 122


HALTING = """
import signal, sys

written = []

def halt(event, arguments):
    if event == "os.rename" and "documents/" in str(arguments[1]):
        written.append(arguments)
        if len(written) == 6:
            print("at work", flush=True)
            signal.pause()

sys.addaudithook(halt)
from pathlib import Path
from divulge.identification import document_scoring
from divulge.targets import CausalLM
texts, model, out = sys.argv[1:]
options = document_scoring.ScoringOptions(shard=10)
document_scoring.score([Path(texts)], CausalLM.load(model, device="cpu"), Path(out), options)
"""


def test_a_killed_run_rescans_nothing_that_was_written(folder):
    """The run says when it is about to write its sixth shard, and waits there to be killed."""
    out, path = folder / "out", folder / "many.jsonl"
    texts = [f"{text} again" for text in TEXTS]
    pl.DataFrame({"text": texts}).write_ndjson(path)
    command = [sys.executable, "-c", HALTING, str(path), str(folder / "model"), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert "at work\n" in iter(running.stdout.readline, "")
        running.send_signal(signal.SIGKILL)
    written = {shard.name: shard.stat().st_mtime_ns for shard in out.glob(".staged-*/documents/0*.parquet")}
    with pytest.raises(InputError, match="not finished; repeat its command"):
        score_tables.scan_scores([out], "candidates")
    assert len(written) == 5
    target = Counting(CausalLM.load(str(folder / "model"), device="cpu"))
    scores = document_scoring.score([path], target, out, document_scoring.ScoringOptions(shard=10))
    assert scores.resumed == 10 * len(written)
    assert len(target.asked) == len(texts) - 10 * len(written)
    assert all(
        (out / "documents" / shard).stat().st_mtime_ns == modified_time for shard, modified_time in written.items()
    )
    assert pl.read_parquet(out / "documents")["text"].to_list() == texts


def test_from_texts_to_a_selection_in_one_command(folder):
    nonmember_texts = [f"a model of {i} remembers what it read" for i in range(60)]
    pl.DataFrame({"text": nonmember_texts}).write_csv(folder / "known.csv")
    arguments = ["identify", "--candidates", folder / "t.parquet", "--calibration", folder / "known.csv"]
    arguments = [*map(str, arguments), "--model", str(folder / "model"), "--out", str(folder / "run"), "--json"]
    refused = CliRunner().invoke(app, arguments)
    assert isinstance(refused.exception, InputError)
    assert "in 2 rows (51, 52; the header not counted)" in str(refused.exception)
    result = CliRunner().invoke(app, [*arguments, "--drop-nan"])
    assert result.exit_code == 0, result.exception
    summary = json.loads(result.stdout)
    assert summary["candidates"] == 120
    # Other words on either side: the control sees it before anything is believed.
    assert summary["warnings"][0].startswith("the guarantee is in doubt: blind text (p = ")
    assert (folder / "run" / "token-statistics" / "candidates" / "key.json").exists()
    documents = finished_run.read_documents(folder / "run")
    assert documents
    read = pl.read_parquet(folder / "run" / "token-statistics" / "candidates" / "tokens")
    for document in documents.values():
        row = read.filter(id=document.id).row(0, named=True)
        assert document.heat.ends == tuple(row["end"])
        assert document.heat.ends[-1] == len(document.text)
        assert np.allclose(document.heat.values, np.add(row["logp"], row["entropy"]), atol=1e-3)


def test_titles_of_scored_documents_stand_in_the_list(folder):
    titles = {"used": [f"Letter {i}" for i in range(60)], "unused": [f"Note {i}" for i in range(200)]}
    for name, column in titles.items():
        words = ["the quick fox jumps"] * 60 if name == "used" else ["remembers 77 what it read of models"] * 200
        texts = [f"{text} {i}" for i, text in enumerate(words)]
        table = pl.DataFrame({"key": [f"{name}{i}" for i in range(len(texts))], "Title": column, "text": texts})
        table.write_csv(folder / f"{name}.csv")
        scored = ["identify", "score", str(folder / f"{name}.csv"), "--model", str(folder / "model"), "--id", "key"]
        assert CliRunner().invoke(app, [*scored, "--out", str(folder / f"scored-{name}")]).exit_code == 0
    used, unused = (folder / f"scored-{name}" for name in titles)
    arguments = [
        "identify",
        str(used),
        "--calibration",
        str(unused),
        "--score",
        "tokens:low",
        "--out",
        str(folder / "run"),
    ]
    result = CliRunner().invoke(app, [*arguments, "--fdr", "0.5"])
    assert result.exit_code == 0, result.exception
    listed = pl.read_csv(folder / "run" / "selected.csv")
    assert len(listed)
    assert listed["Title"].to_list() == [f"Letter {key.removeprefix('used')}" for key in listed["id"]]


@pytest.mark.parametrize(("device", "in_threads"), [("cpu", True), ("cuda", False)])
def test_batches_stand_side_by_side_on_a_processor_alone(device, in_threads):
    """A graphics card is given one batch after the other, by the thread that asks."""
    thread_ids = []

    def run(batch, reduce, shared):
        thread_ids.append(threading.get_ident())
        return [batch]

    target = SimpleNamespace(device=SimpleNamespace(type=device), _run=run)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert list(CausalLM.side_by_side(target, [1, 2, 3], None)) == [[1], [2], [3]]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert (threading.get_ident() not in thread_ids) == in_threads
