"""A real completions server on loopback that also misbehaves on demand."""

import contextlib
import itertools
import json
import socket
import threading
import time
from collections import Counter

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from divulge import checks
from divulge.cli.app import app
from divulge.identification import document_scoring
from divulge.signals import tokens as signals
from divulge.targets.endpoint import Endpoint, EndpointError
from divulge.targets.text import CausalLM

fastapi = pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")
torch = pytest.importorskip("torch")


class Server:
    """An OpenAI-compatible server of a tiny model; `faults` gives what to do with a prompt's next requests."""

    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model, tokenizer
        self.asked, self.answered, self.keys = Counter(), Counter(), set()
        self.faults, self.cut_at, self.lock = {}, None, threading.Lock()
        self.longest, self.usage, self.tokens = None, True, False
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def app(self):
        app = fastapi.FastAPI()

        @app.post("/v1/completions")
        def completions(body: dict, authorization: str = fastapi.Header(default="")):
            return self.answer(body, authorization)

        return app

    def answer(self, body, authorization):
        prompt = body["prompt"]
        with self.lock:
            self.asked[prompt] += 1
            self.keys.add(authorization)
            fault = self.faults.get(prompt, []).pop(0) if self.faults.get(prompt) else None
            if self.cut_at is not None and sum(self.answered.values()) >= self.cut_at:
                self.server.should_exit = self.server.force_exit = True
                fault = 500
        if fault == 429:
            return fastapi.Response(status_code=429, headers={"retry-after": "0.01"})
        if isinstance(fault, int):
            return fastapi.Response("no", status_code=fault)
        if self.longest is not None and len(prompt) > self.longest:
            return fastapi.Response("This model's maximum context length is 40 characters.", status_code=400)
        found = self.completion(prompt, body)
        if fault == "truncated":
            return fastapi.Response(json.dumps(found)[:-20], media_type="application/json")
        if fault == "missing":
            found["choices"][0]["logprobs"] = None
        if fault == "count":
            found["choices"][0]["logprobs"]["token_logprobs"].pop()
        if fault == "hole":
            found["choices"][0]["logprobs"]["token_logprobs"][1:] = [None] * (found["usage"]["prompt_tokens"] - 1)
        with self.lock:
            self.answered[prompt] += fault is None
        return found

    def completion(self, prompt, body):
        assert body["echo"]
        assert body["logprobs"]
        ids = self.tokenizer(prompt)["input_ids"]
        with torch.no_grad():
            logp = self.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        shown = {"token_logprobs": [None, *(logp[i, token].item() for i, token in enumerate(ids[1:]))]}
        if self.tokens:
            cuts = [len(self.tokenizer.decode(ids[:k])) for k in range(len(ids) + 1)]
            shown["tokens"] = [prompt[a:b] for a, b in itertools.pairwise(cuts)]
        usage = {"usage": {"prompt_tokens": len(ids), "completion_tokens": 0}} if self.usage else {}
        return {"choices": [{"text": prompt, "logprobs": shown}], **usage}

    @contextlib.contextmanager
    def running(self):
        config = uvicorn.Config(self.app(), host="127.0.0.1", port=self.port, log_level="critical", lifespan="off")
        self.server = uvicorn.Server(config)
        thread = threading.Thread(target=self.server.run)
        thread.start()
        while not self.server.started and thread.is_alive():
            time.sleep(0.01)
        try:
            yield self
        finally:
            self.server.should_exit = True
            thread.join(timeout=20)


@pytest.fixture
def server(model, tokenizer):
    with Server(model, tokenizer).running() as found:
        yield found


def client(server, **options):
    return Endpoint(server.url, "tiny", **{"backoff": 0.01, "concurrency": 4, **options})


TEXTS = ["hello world", "", "the quick brown fox", "a model remembers", "lazy dog", "what it has read"]


def test_log_probabilities_are_those_of_the_model(server, model, tokenizer):
    found = client(server).tokens(TEXTS)
    want = CausalLM(model, tokenizer).tokens(TEXTS)
    assert found.lengths.tolist() == want.lengths.tolist()
    assert np.abs(found.logp - want.logp).max() < 1e-5
    with pytest.raises(checks.InputError, match="shows only"):
        signals.min_k_plus(found)


def test_misbehaviour_is_survived_and_nothing_wrong_is_believed(server, model, tokenizer):
    faults = [[429, 429], [500, 503], ["truncated"], ["missing", "count"], ["hole", "count", 502]]
    server.faults = dict(zip([text for text in TEXTS if text], faults, strict=True))
    found = client(server).tokens(TEXTS)
    assert np.abs(found.logp - CausalLM(model, tokenizer).tokens(TEXTS).logp).max() < 1e-5
    assert sorted(server.asked.values()) == [2, 3, 3, 3, 4]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("missing", "no prompt log-probabilities"),
        ("count", "log-probabilities for"),
        ("hole", "missing or positive"),
        (500, "status 500"),
    ],
)
def test_a_server_that_stays_wrong_is_given_up_with_the_reason(server, fault, message):
    server.faults = {"hello world": [fault] * 9}
    with pytest.raises(EndpointError, match=message):
        client(server, retries=2).tokens(["hello world"])
    assert server.asked["hello world"] == 3


def test_a_refusal_is_not_repeated(server):
    server.faults = {"hello world": [401] * 9}
    with pytest.raises(checks.InputError, match="refused with 401"):
        client(server).tokens(["hello world"])
    assert server.asked["hello world"] == 1


def test_the_key_is_sent_and_never_written(server, monkeypatch, tmp_path):
    monkeypatch.setenv("DIVULGE_API_KEY", "very-secret")
    target = client(server)
    pl.DataFrame({"text": TEXTS}).write_ndjson(tmp_path / "t.jsonl")
    document_scoring.score([tmp_path / "t.jsonl"], target, tmp_path / "out", document_scoring.ScoringOptions())
    assert server.keys == {"Bearer very-secret"}
    assert "very-secret" not in repr(target) + repr(target.key())
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or b"very-secret" not in path.read_bytes()


def test_a_cut_at_document_500_of_1000_loses_nothing_and_scores_nothing_twice(model, tokenizer, tmp_path):
    texts = [f"document {i}" for i in range(1000)]
    pl.DataFrame({"id": range(1000), "text": texts}).write_ndjson(tmp_path / "t.jsonl")
    server, out = Server(model, tokenizer), tmp_path / "out"
    options = document_scoring.ScoringOptions(shard=300)
    server.cut_at = 500
    with server.running(), pytest.raises(EndpointError, match="run the same command again"):
        document_scoring.score([tmp_path / "t.jsonl"], client(server, retries=1), out, options)
    before = sum(server.answered.values())
    assert before >= 500
    server.cut_at = None
    with server.running():
        found = document_scoring.score([tmp_path / "t.jsonl"], client(server), out, options)
    assert found.documents == 1000
    assert found.resumed == 300
    documents = pl.read_parquet(out / "documents")
    assert documents["text"].to_list() == texts
    want = CausalLM(model, tokenizer).tokens(texts)
    assert np.abs(documents["log_likelihood"].to_numpy() - signals.log_likelihood(want)).max() < 1e-5
    # Only what was under way when the connection broke may have been answered in vain.
    assert set(server.answered) == set(texts)
    assert sum(server.answered.values()) <= 1000 + 4
    assert not (out / "journal.jsonl").exists()


def test_from_texts_behind_an_endpoint_to_a_selection(server, tmp_path):
    for name, word in (("candidates", "fox"), ("calibration", "dog")):
        texts = [f"the {word} of {i}" for i in range(40)]
        pl.DataFrame({"text": texts}).write_ndjson(tmp_path / f"{name}.jsonl")
    arguments = ["identify", tmp_path / "candidates.jsonl", "--calibration", tmp_path / "calibration.jsonl"]
    arguments += ["--endpoint", server.url, "--model", "tiny", "--out", tmp_path / "run", "--json"]
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.exception
    summary = json.loads(done.stdout)
    assert (summary["candidates"], summary["calibration"]) == (40, 40)
    assert summary["settings"]["scores"] == ["log_likelihood:high"]
    assert len(server.answered) == 80


def test_a_document_too_long_for_the_server_is_named_and_skipped(server, model, tokenizer, tmp_path):
    server.longest = 40
    long = "a model remembers what it has read " * 3
    texts = ["hello world", long, "lazy dog"]
    found = client(server).tokens(texts)
    assert list(found.skipped) == [1]
    assert "maximum context length" in found.skipped[1]
    assert found.lengths.tolist()[1] == 0
    assert server.asked[long] == 1
    cut = client(server, length=40).tokens(texts)
    assert not cut.skipped
    want = CausalLM(model, tokenizer).tokens([text[:40] for text in texts])
    assert np.abs(cut.logp - want.logp).max() < 1e-5

    pl.DataFrame({"id": ["a", "b", "c"], "text": texts}).write_ndjson(tmp_path / "t.jsonl")
    arguments = ["score", tmp_path / "t.jsonl", "--endpoint", server.url, "--model", "tiny", "--out", tmp_path / "out"]
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.exception
    assert "could not take 1 documents (b)" in done.stdout
    assert "--length" in done.stdout


def test_a_server_without_a_count_is_understood_by_its_tokens_or_refused_at_once(server, model, tokenizer):
    server.usage, server.tokens = False, True
    found = client(server).tokens(TEXTS)
    assert np.abs(found.logp - CausalLM(model, tokenizer).tokens(TEXTS).logp).max() < 1e-5
    server.tokens = False
    with pytest.raises(checks.InputError, match=r"neither a token count \(usage\) nor the tokens"):
        client(server).tokens(["hello again"])
    assert server.asked["hello again"] == 1


@pytest.mark.parametrize(
    "options", [{"url": "ftp://x"}, {"model": ""}, {"concurrency": 0}, {"timeout": 0}, {"length": 0}]
)
def test_options_are_checked(options):
    with pytest.raises(checks.InputError):
        Endpoint(**{"url": "http://x/v1", "model": "m", **options})


def test_a_password_in_the_address_is_refused_without_being_shown():
    with pytest.raises(checks.InputError, match="holds a user name or password") as refused:
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
    with pytest.raises(checks.InputError, match="an entry holds no log-probabilities"):
        target.tokens([""])


def test_a_journal_of_another_model_is_refused(tmp_path):
    path = tmp_path / "j"
    journal(path, Endpoint("http://127.0.0.1:9/v1", "m"), text="0" * 64, logp=[-1.0])
    assert len(Endpoint("http://127.0.0.1:9/v1", "m", journal=path).tokens([""])) == 1
    for other in (Endpoint("http://127.0.0.1:9/v1", "n", journal=path), Endpoint("http://x/v1", "m", journal=path)):
        with pytest.raises(checks.InputError, match="answers of another model"):
            other.tokens([""])
