"""Documents behind a real completions server on loopback."""

import json
import time

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from completions import Server
from divulge import chats
from divulge.cli import app
from divulge.errors import InputError
from divulge.identification import document_scoring
from divulge.signals import tokens as signals
from divulge.targets.endpoint import Endpoint, EndpointError
from divulge.targets.language_models import CausalLM

pytest.importorskip("httpx")


@pytest.fixture
def server(model, tokenizer):
    with Server(model, tokenizer).running() as running:
        yield running


def client(server, **options):
    return Endpoint(server.url, "tiny", **{"backoff": 0.01, "concurrency": 4, **options})


TEXTS = ["hello world", "", "the quick brown fox", "a model remembers", "lazy dog", "what it has read"]


def test_log_probabilities_are_those_of_the_model(server, model, tokenizer):
    tokens = client(server).tokens(TEXTS)
    want = CausalLM(model, tokenizer).tokens(TEXTS)
    assert tokens.lengths.tolist() == want.lengths.tolist()
    assert np.abs(tokens.logp - want.logp).max() < 1e-5
    with pytest.raises(InputError, match="shows only"):
        signals.min_k_plus(tokens)


def test_misbehaviour_is_survived_and_nothing_wrong_is_believed(server, model, tokenizer):
    faults = [[429, 429], [500, 503], ["truncated"], ["missing", "count"], ["hole", "count", 502]]
    server.faults = dict(zip([text for text in TEXTS if text], faults, strict=True))
    tokens = client(server).tokens(TEXTS)
    assert np.abs(tokens.logp - CausalLM(model, tokenizer).tokens(TEXTS).logp).max() < 1e-5
    assert sorted(server.asked.values()) == [2, 3, 3, 3, 4]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("count", "log-probabilities for"),
        ("cut", "cut the prompt"),
        (500, "status 500"),
    ],
)
def test_a_server_that_stays_wrong_is_given_up_with_the_reason(server, fault, message):
    server.faults = {"hello world": [fault] * 9}
    with pytest.raises(EndpointError, match=message):
        client(server, retries=2).tokens(["hello world"])
    assert server.asked["hello world"] == 3


@pytest.mark.parametrize("fault", [400, 401, 403, 404, 422, "silent", "missing", "hole", "generated only", "no echo"])
def test_a_refusal_is_not_repeated(server, fault):
    server.faults = {"hello world": [fault] * 9}
    with pytest.raises(InputError) as refused:
        client(server).tokens(TEXTS)
    assert sum(server.asked.values()) == 1
    assert ("vLLM" in str(refused.value)) == (fault not in (400, 401, 403, 422))


def test_a_server_that_has_echoed_is_asked_again_where_it_once_does_not(server, model, tokenizer):
    server.faults = {"lazy dog": ["missing", "hole", "silent"]}
    tokens = client(server).tokens(TEXTS)
    assert np.abs(tokens.logp - CausalLM(model, tokenizer).tokens(TEXTS).logp).max() < 1e-5


def test_a_wait_that_the_server_asks_for_is_kept(server):
    server.faults, server.retry_after = {"hello world": [429]}, "0.3"
    start = time.perf_counter()
    client(server, backoff=1e-3).tokens(["hello world"])
    assert time.perf_counter() - start >= 0.3
    server.faults, server.retry_after = {"hello": [429]}, "86400"
    with pytest.raises(EndpointError, match="86400 seconds"):
        client(server).tokens(["hello"])


def test_the_key_is_sent_and_never_written(server, monkeypatch, tmp_path):
    monkeypatch.setenv("DIVULGE_API_KEY", "very-secret")
    target = client(server)
    pl.DataFrame({"text": TEXTS}).write_ndjson(tmp_path / "t.jsonl")
    document_scoring.score([tmp_path / "t.jsonl"], target, tmp_path / "out", document_scoring.ScoringOptions())
    assert server.keys == {"Bearer very-secret"}
    assert "very-secret" not in repr(target) + repr(target.key())
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or b"very-secret" not in path.read_bytes()


def test_a_cut_at_document_100_of_200_loses_nothing_and_scores_nothing_twice(model, tokenizer, tmp_path):
    texts = [f"document {i}" for i in range(200)]
    pl.DataFrame({"id": range(200), "text": texts}).write_ndjson(tmp_path / "t.jsonl")
    server, out = Server(model, tokenizer), tmp_path / "out"
    options = document_scoring.ScoringOptions(shard=60)
    server.cut_at = 100
    with server.running(), pytest.raises(EndpointError, match="run the same command again"):
        document_scoring.score([tmp_path / "t.jsonl"], client(server, retries=1), out, options)
    before = sum(server.answered.values())
    assert before >= 100
    server.cut_at = None
    with server.running():
        scores = document_scoring.score([tmp_path / "t.jsonl"], client(server), out, options)
    assert scores.documents == 200
    assert scores.resumed == 60
    documents = pl.read_parquet(out / "documents")
    assert documents["text"].to_list() == texts
    want = CausalLM(model, tokenizer).tokens(texts)
    assert np.abs(documents["log_likelihood"].to_numpy() - signals.log_likelihood(want)).max() < 1e-5
    # Only what was under way when the connection broke may have been answered in vain.
    assert set(server.answered) == set(texts)
    assert sum(server.answered.values()) <= 200 + 4
    assert not (out / "journal.jsonl").exists()


def test_from_texts_behind_an_endpoint_to_a_selection(server, tmp_path):
    for name, word in (("candidates", "fox"), ("calibration", "dog")):
        texts = [f"the {word} of {i}" for i in range(40)]
        pl.DataFrame({"text": texts}).write_ndjson(tmp_path / f"{name}.jsonl")
    arguments = ["identify", tmp_path / "candidates.jsonl", "--calibration", tmp_path / "calibration.jsonl"]
    arguments += ["--endpoint", server.url, "--model", "tiny", "--out", tmp_path / "run", "--json"]
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 0, result.exception
    summary = json.loads(result.stdout)
    assert (summary["candidates"], summary["calibration"]) == (40, 40)
    assert summary["settings"]["scores"] == ["log_likelihood:high"]
    assert len(server.answered) == 80


def test_a_document_too_long_for_the_server_is_named_and_skipped(server, model, tokenizer, tmp_path):
    server.longest = 40
    long = "a model remembers what it has read " * 3
    texts = ["hello world", long, "lazy dog"]
    tokens = client(server).tokens(texts)
    assert list(tokens.skipped) == [1]
    assert "maximum context length" in tokens.skipped[1]
    assert tokens.lengths.tolist()[1] == 0
    assert server.asked[long] == 1
    scored = client(server, length=40).tokens(texts)
    assert not scored.skipped
    want = CausalLM(model, tokenizer).tokens([text[:40] for text in texts])
    assert np.abs(scored.logp - want.logp).max() < 1e-5

    pl.DataFrame({"id": ["a", "b", "c"], "text": texts}).write_ndjson(tmp_path / "t.jsonl")
    arguments = ["score", tmp_path / "t.jsonl", "--endpoint", server.url, "--model", "tiny", "--out", tmp_path / "out"]
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 0, result.exception
    assert "could not take 1 documents (b)" in result.stdout
    assert "--length" in result.stdout


def test_a_server_without_a_count_is_understood_by_its_tokens_or_refused_at_once(server, model, tokenizer):
    server.usage, server.tokens = False, True
    tokens = client(server).tokens(TEXTS)
    assert np.abs(tokens.logp - CausalLM(model, tokenizer).tokens(TEXTS).logp).max() < 1e-5
    server.tokens = False
    with pytest.raises(InputError, match=r"neither a token count \(usage\) nor the tokens"):
        client(server).tokens(["hello again"])
    assert server.asked["hello again"] == 1


@pytest.mark.parametrize(
    "options", [{"url": "ftp://x"}, {"model": ""}, {"concurrency": 0}, {"timeout": 0}, {"length": 0}]
)
def test_options_are_checked(options):
    with pytest.raises(InputError):
        Endpoint(**{"url": "http://x/v1", "model": "m", **options})


def test_a_password_in_the_address_is_refused_without_being_shown():
    with pytest.raises(InputError, match="holds a user name or password") as refused:
        Endpoint("http://me:very-secret@x/v1", "m")
    assert "very-secret" not in str(refused.value)


def journal(path, target, **entry):
    path.write_text(json.dumps({"journal": dict(target.key())}) + "\n" + json.dumps(entry) + "\n")


@pytest.mark.parametrize(
    "logp", ["x", None, [1.0], [True], [float("nan")], [float("-inf")], [10**400], [[-1.0]], [-1.0, "a"]]
)
def test_a_journal_with_impossible_answers_is_refused(tmp_path, logp):
    path = tmp_path / "j"
    target = Endpoint("http://127.0.0.1:9/v1", "m", journal=path)
    journal(path, target, text="0" * 64, logp=logp)
    with pytest.raises(InputError, match="an entry holds no log-probabilities"):
        target.tokens([""])


def test_a_journal_of_another_model_is_refused(tmp_path):
    path = tmp_path / "j"
    journal(path, Endpoint("http://127.0.0.1:9/v1", "m"), text="0" * 64, logp=[-1.0])
    assert len(Endpoint("http://127.0.0.1:9/v1", "m", journal=path).tokens([""])) == 1
    for other_endpoint in (
        Endpoint("http://127.0.0.1:9/v1", "n", journal=path),
        Endpoint("http://x/v1", "m", journal=path),
    ):
        with pytest.raises(InputError, match="answers of another model"):
            other_endpoint.tokens([""])


def test_answers_are_scored_as_the_model_itself_scores_them(server, model, tokenizer):
    server.tokens = True
    pairs = [("hello ", "world"), ("the quick", " brown fox"), ("a model", " remembers"), ("lazy d", "og and a fox")]
    texts = list(chats.from_prompts(*zip(*pairs, strict=True)).x)
    tokens, want = client(server).tokens(texts), CausalLM(model, tokenizer).tokens(texts)
    assert tokens.lengths.tolist() == want.lengths.tolist()
    assert np.abs(tokens.logp - want.logp).max() < 1e-5
    assert set(server.asked) == {"".join(pair) for pair in pairs}


def test_where_answers_cannot_be_told_from_prompts_it_is_said_at_once(server):
    texts = list(chats.from_prompts(["hello ", "the "], ["world", "fox"]).x)
    with pytest.raises(InputError, match=r"do not show where the answer"):
        client(server).tokens(texts)
    assert sum(server.asked.values()) == 1
    (chat,) = chats.from_messages([[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]]).x
    with pytest.raises(InputError, match=r"chat template.*from_prompts"):
        client(server).tokens([chat])
