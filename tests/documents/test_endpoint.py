"""Audits of a language model that can only be asked over HTTP."""

import json

import numpy as np
import polars as pl
import pytest

pytest.importorskip("httpx")

import divulge as dv
import wire
from completions import Server
from divulge.auditing import load
from divulge.auditing.language_modality import LanguageModel
from divulge.recipes import Auto, resolve
from divulge.targets import CausalLM, Endpoint
from divulge.targets.endpoint import EndpointError

RECIPES = ("loss", "zlib", "min-k", "base-ratio", "wbc")


@pytest.fixture(scope="module")
def plain(base):
    """The base as a server shows it: without a BOS before the text."""
    return CausalLM(base.model, base.tokenizer, name="base", bos="tokenizer")


@pytest.fixture(scope="module")
def leaking(plain, tuning, sets):
    return tuning(plain).train_model(sets["members"], seed=5)


@pytest.fixture
def server(leaking):
    with Server(leaking.model, leaking.tokenizer).running() as running:
        yield running


REPEATED = 8  # documents that are asked about again, to see whether answers repeat


def count_repeated(asked):
    return sum(count > 1 for count in asked.values())


def audited(target, sets, **more):
    return dv.audit(target, **sets, **{"fpr": (0.05,), "seed": 0, "recipes": RECIPES} | more)


def test_scores_are_those_of_the_model_behind_it(server, leaking, plain, tuning, sets, tmp_path, monkeypatch):
    monkeypatch.setenv("DIVULGE_API_KEY", "very-secret")
    endpoint = Endpoint(server.url, "tiny")
    run = audited(endpoint, sets, references=tuning(plain, count=0), out=tmp_path / "run")
    local_run = audited(leaking, sets, references=tuning(plain, count=0))
    for name in RECIPES:
        np.testing.assert_allclose(run.scores[name], local_run.scores[name], atol=1e-4)
    assert run.verdict.answer == "leak found"
    assert count_repeated(server.asked) <= REPEATED
    assert {run.about.recipes[name].queries for name in RECIPES} == {len(server.asked)} == {320}
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert server.keys == {"Bearer very-secret"}
    assert not any(b"very-secret" in path.read_bytes() or path.name == "answers.jsonl" for path in files)


def test_answers_alone_are_scored_behind_it_as_here(server, leaking, plain, tuning, sets):
    server.tokens = True
    pairs = {}
    for name, records in sets.items():
        cuts = [text.rindex(" ", 0, 2 * len(text) // 3) for text in records.x]
        halves = zip(*((text[:cut], text[cut:]) for text, cut in zip(records.x, cuts, strict=True)), strict=True)
        pairs[name] = dv.from_prompts(*halves)
    options = {"references": tuning(plain, count=0), "recipes": ("loss", "base-ratio")}
    run, local_run = (audited(target, pairs, **options) for target in (Endpoint(server.url, "tiny"), leaking))
    for name in run.scores:
        np.testing.assert_allclose(run.scores[name], local_run.scores[name], atol=1e-4)
    assert run.verdict.answer == local_run.verdict.answer == "leak found"


@pytest.mark.parametrize("recipe", ["min-k++", "recall"])
def test_what_it_does_not_show_is_refused_before_it_is_asked(server, sets, recipe):
    with pytest.raises(dv.InputError, match=f"{recipe[:5]}.* more than an endpoint shows".replace("+", r"\+")):
        audited(Endpoint(server.url, "tiny"), sets, recipes=("loss", recipe))
    assert not server.asked
    with pytest.raises(dv.InputError, match="recipes: ez, auto read more than an endpoint shows"):
        LanguageModel().check_target(
            Endpoint(server.url, "tiny"),
            [resolve("ez", documents=True), resolve("loss", documents=True), Auto().recipe_in(documents=True)],
        )


def test_an_interrupted_audit_repeats_no_question(leaking, sets, tmp_path):
    server = Server(leaking.model, leaking.tokenizer)
    server.cut_at = 100
    endpoint = Endpoint(server.url, "tiny", retries=0, concurrency=1)
    with server.running(), pytest.raises(EndpointError, match="run the same command again to resume"):
        audited(endpoint, sets, recipes=("loss",), out=tmp_path / "run")
    server.cut_at = None
    with server.running():
        run = audited(endpoint, sets, recipes=("loss",), out=tmp_path / "run")
    assert count_repeated(server.answered) <= REPEATED
    assert run["loss"].auc.low > 0.8


PLAN = """
recipes = ["loss", "min-k"]
fpr = [0.05]

[target]
model = "tiny:latest"
endpoint = "{url}"

[data]
members = "members.jsonl"
nonmembers = "nonmembers.jsonl"
population = "population.jsonl"
text = "text"
"""


def test_a_plan_is_audited_and_a_check_says_how_much_the_server_will_be_asked(server, sets, divulge, tmp_path):
    for name, records in sets.items():
        pl.DataFrame({"text": list(records.x)}).write_ndjson(tmp_path / f"{name}.jsonl")
    (tmp_path / "plan.toml").write_text(PLAN.format(url=server.url))
    code, out, errors = divulge("check", tmp_path / "plan.toml", "--json")
    assert code == 0, errors
    forecast = json.loads(out)["forecast"]
    assert sum(server.asked.values()) == 10
    server.asked.clear()
    server.n_tokens = 0
    code, out, errors = divulge("audit", tmp_path / "plan.toml", "--out", tmp_path / "run", "--json")
    assert code == 0, errors
    assert json.loads(out)["verdict"]["answer"] == "leak found"
    assert sum(server.asked.values()) <= forecast["requests"] <= 1.1 * sum(server.asked.values())
    assert 0.8 < forecast["prompt_tokens"] / server.n_tokens < 1.25


def test_a_server_that_echoes_nothing_is_asked_once_by_a_check(server, sets, divulge, tmp_path):
    for name, records in sets.items():
        pl.DataFrame({"text": list(records.x)}).write_ndjson(tmp_path / f"{name}.jsonl")
    (tmp_path / "plan.toml").write_text(PLAN.format(url=server.url))
    server.faults = {text: ["missing"] * 9 for text in sets["population"].x}
    code, _, errors = divulge("check", tmp_path / "plan.toml")
    assert code == 2
    assert "vLLM" in errors
    assert sum(server.asked.values()) == 1


def test_from_a_plan_documents_of_one_author_are_one_record(server, sets, divulge, tmp_path):
    for name, records in sets.items():
        authors = [f"{name} {row // 2}" for row in range(len(records))]
        pl.DataFrame({"text": list(records.x), "author": authors}).write_ndjson(tmp_path / f"{name}.jsonl")
    (tmp_path / "plan.toml").write_text(PLAN.format(url=server.url) + 'person = "author"\n')
    code, out, errors = divulge("audit", tmp_path / "plan.toml", "--out", tmp_path / "run", "--json")
    assert code == 0, errors
    run = load(tmp_path / "run")
    assert set(run.ids) == {
        f"{name} {row}" for name in ("members", "nonmembers") for row in range(len(sets[name]) // 2)
    }
    assert len(run.scores["loss"]) == len(run.ids)
    assert json.loads(out)["verdict"]["answer"] in ("leak found", "undecided")
    queries = run.about.recipes["loss"].queries
    assert queries == len(server.asked) == sum(map(len, sets.values()))  # every document is asked about
    assert count_repeated(server.asked) <= REPEATED


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('endpoint = "ftp://x"', "url: "),
        ('endpoint = "http://me:secret@x/v1"', "holds a user name or password"),
        ('endpoint = "http://127.0.0.1:9/v1"\nbos = "add"', "target.bos: a model behind an endpoint has none"),
    ],
)
def test_bad_addresses_in_a_plan(sets, divulge, tmp_path, line, message):
    for name, records in sets.items():
        pl.DataFrame({"text": list(records.x)}).write_ndjson(tmp_path / f"{name}.jsonl")
    plan = PLAN.replace('endpoint = "{url}"', line)
    (tmp_path / "plan.toml").write_text(plan)
    code, _, errors = divulge("audit", tmp_path / "plan.toml", "--out", tmp_path / "run")
    assert code == 2
    assert message in errors


SECRET = 'Dear Ann,\nthe "safe" opens – with café 471147 and 日本語の秘密です'


@pytest.mark.parametrize(
    ("status", "page"),
    [
        (422, lambda text: {"detail": [{"type": "missing", "input": {"prompt": text}}]}),
        (400, lambda text: {"error": f"maximum context length exceeded by {text!r}"}),
        (400, lambda text: {"error": json.dumps({"prompt": text})}),
        (200, lambda text: {"choices": [{"text": text, "logprobs": {"token_logprobs": [None, text]}}]}),
        (200, lambda text: {"choices": [{"text": text, "logprobs": {"token_logprobs": text}}]}),
        (200, lambda text: {"choices": [{"text": text, "logprobs": {"token_logprobs": []}}], "usage": text}),
        (200, lambda text: {"choices": [{"logprobs": {"token_logprobs": []}}], "usage": {"prompt_tokens": text}}),
    ],
)
@pytest.mark.parametrize("escaped", [True, False])
def test_a_server_that_repeats_a_document_in_its_error_puts_it_in_no_message(status, page, escaped, tmp_path):
    body = json.dumps(page(SECRET), ensure_ascii=escaped).encode()
    answer = wire.page(body, status=f"{status} Told")
    with wire.Wire(answer).running() as server:
        target = Endpoint(server.url, "tiny", retries=0, journal=tmp_path / "answers.jsonl")
        try:
            message = str(target.tokens([SECRET]).skipped)
        except dv.InputError as error:
            message = str(error)
    assert "endpoint" in message or "400" in message
    for text in (message, (tmp_path / "answers.jsonl").read_text()):
        assert not any(word in text for word in ("safe", "opens", "caf", "471147", "Ann", "日本語", "u65e5"))
