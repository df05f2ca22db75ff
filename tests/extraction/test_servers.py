"""Extraction from servers that show text alone, over real connections on loopback."""

import json
import threading
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("httpx")

import divulge as dv
from divulge import extraction
from divulge.targets import ChatEndpoint, Decoding, Endpoint
from divulge.targets.endpoint import EndpointError
from wire import Wire, page

LENGTHS = {"prefix": 8, "suffix": 6}


def documents(count, seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(list("abcdefghijklmnopqrstuvw"), 20)) + "." for _ in range(count)]


MEMBERS, OTHERS = documents(40, 0), documents(40, 1)


class Parrot(Wire):
    """A server that knows some documents by heart and goes on as they do, as a chat or as a completion.

    Args:
        known: documents.
        polite: what it says first.
        stop_after: answers after which it breaks down; None for never.
    """

    def __init__(self, known, polite="", stop_after=None):
        super().__init__()
        self.known, self.polite, self.stop_after = known, polite, stop_after
        self.prompts, self.routes, self.lock = Counter(), set(), threading.Lock()

    def reply(self, head, body):
        route, request = head.split()[1], json.loads(body)
        with self.lock:
            self.routes.add(route)
            if self.stop_after is not None and sum(self.prompts.values()) >= self.stop_after:
                return [page(b"", status="503 Gone")], False
            prompt = request["prompt"] if "prompt" in request else request["messages"][-1]["content"]
            self.prompts[json.dumps(request.get("messages", prompt))] += 1
        last = prompt.rpartition("\n\n")[2]
        text = next((text.partition(last)[2] for text in self.known if last in text), " it was not me, said the fox")
        text = self.polite + " ".join(text.split()[: request["max_tokens"]])
        choice = {"finish_reason": "stop"}
        choice |= {"message": {"role": "assistant", "content": text}} if "chat" in route else {"text": text}
        return [page(json.dumps({"choices": [choice]}).encode())], False


def client(server, **options):
    route = ChatEndpoint if options.pop("chat", True) else Endpoint
    return route(server.url, "parrot", **{"backoff": 0.01, "concurrency": 4, "retries": 1, **options})


@pytest.mark.parametrize("chat", [True, False])
def test_documents_that_a_server_knows_by_heart_are_extracted(chat, tmp_path):
    with Parrot(MEMBERS, polite="Sure: " if chat else "").running() as server:
        result = extraction.measure(client(server, chat=chat), MEMBERS, OTHERS, **LENGTHS, out=tmp_path / "run")
    assert result.finding.answer == "extracted"
    assert len(result.extracted) == 40
    assert [rate.method for rate in result.rates] == ["verbatim, greedy", "overlap of at least 0.75, greedy"]
    assert any("text alone" in note for note in result.warnings)
    assert server.routes == {"/v1/chat/completions" if chat else "/v1/completions"}
    assert set(server.prompts.values()) == {1}
    loaded = dv.load(tmp_path / "run")
    assert loaded.summary == result.summary()
    assert "8 words" in (tmp_path / "run" / "report.html").read_text()
    assert not any("answers" in path.name or path.suffix == ".jsonl" for path in (tmp_path / "run").rglob("*"))


def test_a_server_that_knows_none_of_them_shows_nothing_and_what_is_withheld_is_counted():
    with Parrot([]).running() as server:
        result = extraction.measure(client(server), MEMBERS, OTHERS, **LENGTHS)
    assert result.finding.answer == "not shown"
    filtered = {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
    with Wire(page(json.dumps(filtered).encode())).running() as server:
        result = extraction.measure(client(server), MEMBERS, OTHERS, **LENGTHS)
    assert any(note.startswith("80 of 80 answers were withheld") for note in result.warnings)


@pytest.mark.parametrize("show_records", [True, False])
def test_an_interrupted_extraction_asks_nothing_twice(show_records, tmp_path):
    options = {**LENGTHS, "out": tmp_path / "run", "show_records": show_records}
    with Parrot(MEMBERS, stop_after=50).running() as broken, pytest.raises(EndpointError, match="run the same command"):
        extraction.measure(client(broken), MEMBERS, OTHERS, **options)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*.jsonl"))
    assert kept
    assert (MEMBERS[0][16:28].encode() in kept) == show_records
    whole = Parrot(MEMBERS)
    whole.running_port = broken.port
    with whole.running(broken.port):
        result = extraction.measure(client(broken), MEMBERS, OTHERS, **options)
    assert result.finding.answer == "extracted"
    assert not set(broken.prompts) & set(whole.prompts)
    assert len(broken.prompts) + len(whole.prompts) == 80


def test_messages_go_as_messages_and_the_last_answer_is_asked_for():
    def chats(texts):
        return dv.from_messages(
            [
                [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": text[:16]},
                    {"role": "assistant", "content": text[16:]},
                ]
                for text in texts
            ]
        )

    with Parrot(MEMBERS).running() as server:
        result = extraction.measure(client(server), chats(MEMBERS), chats(OTHERS), suffix=6)
        with pytest.raises(dv.InputError, match="--chat"):
            extraction.measure(client(server, chat=False), chats(MEMBERS), chats(OTHERS), suffix=6)
    assert result.finding.answer == "extracted"
    asked = [json.loads(prompt) for prompt in server.prompts]
    assert all([message["role"] for message in messages] == ["system", "user"] for messages in asked)
    assert {messages[1]["content"] for messages in asked} >= {text[:16] for text in MEMBERS}


def test_prompts_and_answers_go_as_they_stand():
    records = [
        dv.from_prompts([text[:16] for text in texts], [text[16:] for text in texts]) for texts in (MEMBERS, OTHERS)
    ]
    for chat in (True, False):
        with Parrot(MEMBERS).running() as server:
            result = extraction.measure(client(server, chat=chat), *records, suffix=6)
        assert result.finding.answer == "extracted"
        assert all(text[:16] in str(list(server.prompts)) for text in MEMBERS)


def test_from_the_command_line(divulge, tmp_path):
    for name, texts in (("in", MEMBERS), ("out", OTHERS)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    arguments = [
        "--members",
        tmp_path / "in.jsonl",
        "--nonmembers",
        tmp_path / "out.jsonl",
        "--prefix",
        8,
        "--suffix",
        6,
    ]
    with Parrot(MEMBERS).running() as server:
        command = ["extract", "--model", "parrot", "--endpoint", server.url, "--chat", *arguments]
        code, out, errors = divulge(*command)
        sets = [dv.Records(texts) for texts in (MEMBERS, OTHERS)]
        with pytest.raises(dv.InputError, match="likeliest answer"):
            extraction.measure(client(server), *sets, decoding=Decoding(top_k=5))
    assert code == 0, errors
    assert "can be extracted" in out
    assert "draws" not in out


def test_a_chat_server_is_refused_where_token_probabilities_are_needed_and_told_what_it_can_be_asked():
    target = ChatEndpoint("http://127.0.0.1:9/v1", "parrot")
    with pytest.raises(dv.InputError, match=r"tokens that it generates.*divulge extract"):
        dv.audit(
            target, members=dv.Records(MEMBERS), nonmembers=dv.Records(OTHERS), population=dv.Records(documents(40, 2))
        )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_repeated(status):
    with Wire(page(b"no", status=f"{status} No")).running() as server:
        with pytest.raises(dv.InputError, match=f"refused with {status}"):
            extraction.measure(client(server, retries=6), MEMBERS, OTHERS, **LENGTHS)
        assert server.asked == 1
