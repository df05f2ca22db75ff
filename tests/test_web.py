"""Exchanges with servers that misbehave, byte by byte, on a loopback socket."""

import gzip
import json
import zlib

import numpy as np
import pytest

from divulge import labels, web
from divulge.errors import InputError
from divulge.targets import Endpoint
from wire import Wire, page

pytest.importorskip("httpx")


def post(wire, **options):
    with web.Client(**{"timeout": 5.0, "verify": False, **options}) as client:
        return client.post(wire.url, content="x", media_type="text/plain")


@pytest.mark.parametrize("delay", ["headers", "body", "silence"])
def test_a_deadline_holds_for_the_whole_answer(delay):
    """A server that sends a byte now and then never meets a time-out between two bytes."""
    full_answer = page(b"x" * 10_000)
    parts = {
        "headers": [bytes([byte]) for byte in full_answer],
        "body": [full_answer[:80], *(bytes([byte]) for byte in full_answer[80:])],
        "silence": [],
    }
    with (
        Wire(*parts[delay], hold=True).running() as wire,
        pytest.raises(web.WebError, match=r"incomplete after 0\.5 s"),
    ):
        post(wire, timeout=0.5)


def test_an_answer_has_a_largest_size():
    with Wire(page(b"x" * 50_000)).running() as wire:
        assert len(post(wire, max_bytes=50_000).body) == 50_000
        with pytest.raises(web.WebError, match="larger than 49999 bytes"):
            post(wire, max_bytes=49_999)


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_packed_answers_are_unpacked_within_bounds(encoding, pack):
    with Wire(page(pack(b"x" * 50_000), f"content-encoding: {encoding}")).running() as wire:
        assert post(wire, max_bytes=50_000).body == b"x" * 50_000
        with pytest.raises(web.WebError, match="unpacks to more than 49999 bytes"):
            post(wire, max_bytes=49_999)
    with (
        Wire(page(pack(b"x" * 50_000)[:-9], f"content-encoding: {encoding}")).running() as wire,
        pytest.raises(web.WebError),
    ):
        post(wire)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply|not complete JSON"),
        (b'{"score": -Infinity}', "-Infinity is not a number"),
        (b'{"score": NaN}', "NaN is not a number"),
        (b'{"score": 1', "not complete JSON"),
        (b"9" * 10_000, "not complete JSON"),
    ],
)
def test_json_that_is_none_is_said(body, message):
    with pytest.raises(web.WebError, match=message):
        web.HttpAnswer(200, {}, body).json()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"x-ratelimit-reset-requests": "1.5s"}, 1.5),
        ({"retry-after": "-5", "ratelimit-reset": "3"}, 3.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({}, None),
        ({"retry-after": "?"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-5"}, None),
    ],
)
def test_waits_are_those_the_server_names(headers, seconds):
    assert web.HttpAnswer(429, headers, b"").wait() == seconds


def completion(values, **usage):
    usage = {"prompt_tokens": len(values), "completion_tokens": 0, **usage}
    return json.dumps({"choices": [{"text": "x", "logprobs": {"token_logprobs": values}}], "usage": usage}).encode()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (completion([None, True]), "log-probability 0 is True"),
        (completion([None, -(10**400)]), "an integer of 1329 bits"),
        (completion([None, -1.0], prompt_tokens=-2), "prompt_tokens is -2"),
        (completion([None, -1.0], prompt_tokens=True), "prompt_tokens is True"),
        (completion([None, -1.0], prompt_tokens=2.5), "prompt_tokens is 2.5"),
        (completion([None, -1.0], prompt_tokens=10**30), "an integer of 100 bits"),
        (completion([None, -1.0], completion_tokens=-1), "completion_tokens is -1"),
        (completion([None, float("-inf")]), "-Infinity is not a number"),
        (b'{"choices": [{"logprobs": {"token_logprobs": "no"}}], "usage": {}}', "log-probabilities are 'no'"),
        (b'{"choices": [{"logprobs": {"token_logprobs": []}}], "usage": 3}', "usage is 3"),
        (b"[]", "no prompt log-probabilities"),
    ],
)
def test_impossible_answers_of_an_endpoint_are_named(body, message):
    with Wire(page(body)).running() as wire, pytest.raises(InputError, match=message):
        Endpoint(wire.url, "m", retries=0, timeout=5.0).tokens(["x"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"score": true}', "answered True; a finite number"),
        (b'{"score": "nan"}', "answered nan; a finite number"),
        (b'{"score": 1' + b"0" * 400 + b"}", "without a number"),
        (b'{"score": [1]}', "without a number"),
        (b'{"points": 1}', "without a number at 'score'"),
        (b"\xff\xff", "without a number"),
    ],
)
def test_impossible_scores_are_named(body, message):
    with Wire(page(body)).running() as wire, pytest.raises(InputError, match=message):
        labels.HttpOracle(wire.url, retries=0, timeout=5.0)(np.array([0.5, 0.5]))


@pytest.mark.parametrize("wait", ["-5", "nan", "soon"])
def test_a_busy_leaderboard_that_names_no_time_is_not_waited_for(wait):
    with (
        Wire(page(b"", f"retry-after: {wait}", status="429 Busy")).running() as wire,
        pytest.raises(labels.QuotaReachedError),
    ):
        labels.HttpOracle(wire.url, timeout=5.0)(np.array([0.5]))
    assert wire.asked == 1


def test_keys_are_in_no_message(monkeypatch):
    monkeypatch.setenv("DIVULGE_API_KEY", "very-secret")
    body = b"Incorrect API key provided: very-secret (Bearer very-secret)\x1b[31m"
    with Wire(page(body, status="401 No")).running() as wire:
        with pytest.raises(InputError, match="refused with 401: Incorrect") as refused:
            Endpoint(wire.url, "m").tokens(["x"])
        oracle = labels.HttpOracle(wire.url, headers={"authorization": "very-secret"})
        with pytest.raises(InputError, match="refused") as second_error:
            oracle(np.array([0.5]))
    all_text = f"{refused.value} {second_error.value} {oracle!r}"
    assert "very-secret" not in all_text
    assert "\x1b" not in all_text


@pytest.mark.parametrize("key", ["very-secret\n", "very-secrét", "very\x00secret"])
def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(key, monkeypatch):
    if "\0" not in key:  # no environment holds one
        monkeypatch.setenv("DIVULGE_API_KEY", key)
        with pytest.raises(InputError, match=r"DIVULGE_API_KEY: .*cannot be sent") as refused:
            Endpoint("http://127.0.0.1:1", "m").tokens(["x"])
        assert "secr" not in str(refused.value)
    with pytest.raises(InputError, match=r"headers: .*authorization.* cannot be sent") as refused:
        labels.HttpOracle("http://127.0.0.1:1", headers={"authorization": key})
    assert "secr" not in str(refused.value)


def test_parts_of_a_header_and_of_the_address_are_secrets_too():
    body = b"no: very-secret, other-secret, third secret\\"
    with Wire(page(body, status="401 No")).running() as wire:
        headers = {"authorization": "Bearer very-secret", "x-key": "third secret\\"}
        oracle = labels.HttpOracle(f"{wire.url}?token=other-secret", headers=headers)
        with pytest.raises(InputError, match=r"HTTP 401: no: …, …, …$"):
            oracle(np.array([0.5]))


@pytest.mark.parametrize(
    ("body", "score"), [(b" 0.25\n", 0.25), (b'{"score": "1.5e-3"}', 0.0015), (b"0." + b"1" * 900, 1 / 9)]
)
def test_scores_may_be_text(body, score):
    with Wire(page(body)).running() as wire:
        assert labels.HttpOracle(wire.url, retries=0, timeout=5.0)(np.array([0.5])) == score


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://host", ""),
        ("https://host:1/v1?a=b", ""),
        ("http://[::1]:8000", ""),
        ("http://host:65535", ""),
        ("http://host:65536", "an http:// or https:// address is needed"),
        ("http://host:0", "an http:// or https:// address is needed"),
        ("http://host:x", "an http:// or https:// address is needed"),
        ("http://[::1", "an http:// or https:// address is needed"),
        ("ftp://host", "an http:// or https:// address is needed"),
        ("host/v1", "an http:// or https:// address is needed"),
        ("http://", "an http:// or https:// address is needed"),
        ("http://:8000", "an http:// or https:// address is needed"),
        ("", "an http:// or https:// address is needed"),
        (None, "an http:// or https:// address is needed, got None"),
        (b"http://host", "an http:// or https:// address is needed"),
        ("http://me@host", "http://host holds a user name or password"),
        ("http://:word@host", "http://host holds a user name or password"),
        ("http://@host", "http://host holds a user name or password"),
        ("ftp://me:word@host", "got 'ftp://host'"),
    ],
)
def test_an_address_is_one_of_http_without_a_password(url, message):
    if not message:
        assert web.check_url(url, "endpoint") == url
        return
    with pytest.raises(InputError, match=f"^endpoint: .*{message}") as refused:
        web.check_url(url, "endpoint")
    assert "word@" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:a@b@host/p?q#f", "http://host/p"),
        ("http://host/a@b", "http://host/a@b"),
        ("http://host#me@x", "http://host"),
        ("me:secret@host/x", "host/x"),
        ("host", "host"),
        (3, "3"),
    ],
)
def test_addresses_are_shown_without_names_passwords_and_queries(url, shown):
    assert web.redact_url(url) == shown


@pytest.mark.parametrize(
    ("name", "value", "can_be_sent"),
    [
        ("X-Key", "a b\tc", True),
        ("X-Key", "", True),
        ("X-Key", "~", True),
        ("X-Key", " a", False),
        ("X-Key", "a ", False),
        ("X-Key", "a\r\nb", False),
        ("X-Key", "é", False),
        ("X Key", "a", False),
        ("", "a", False),
        ("X:Key", "a", False),
        ("Xé", "a", False),
    ],
)
def test_headers_that_cannot_be_sent_are_refused_without_their_values(name, value, can_be_sent):
    if can_be_sent:
        web.check_headers({name: value}, "headers")
        return
    with pytest.raises(InputError, match=r"^headers: .* cannot be sent") as refused:
        web.check_headers({"fine": "x", name: value}, "headers")
    assert repr(value) not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "secrets", "shown"),
    [
        ("a secret here", ("secret",), "a … here"),
        ("secretive secret", ("secret", "secretive"), "… …"),
        ("nothing", ("",), "nothing"),
        ('a"b and a\\"b', ('a"b',), "… and …"),
        ("é \\u00e9", ("é",), "… …"),
        ("tab\there and tab\\there", ("tab\there",), "… and …"),
    ],
)
def test_secrets_are_left_out_of_texts_however_they_are_escaped(text, secrets, shown):
    assert web.redact(text, secrets) == shown


class Socket:
    def __init__(self, number, fails=False):
        self.number, self.fails, self.shut = number, fails, 0

    def fileno(self):
        return self.number

    def shutdown(self, how):
        self.shut += 1
        if self.fails:
            raise OSError


def test_every_open_connection_is_cut_off_past_the_deadline():
    def connect(client, connection, event="connection.connect_tcp.complete"):
        stream = type("Stream", (), {"get_extra_info": lambda self, name: connection})()
        client._track_socket(event, {"return_value": stream})

    with web.Client(timeout=1.0, verify=False) as client:
        first, gone, last = Socket(3), Socket(-1), Socket(5)
        connect(client, first, "http11.send_request_headers.complete")
        assert client._sockets == []
        connect(client, None)
        assert client._sockets == []
        connect(client, first)
        connect(client, gone, "connection.start_tls.complete")
        connect(client, last)
        assert client._sockets == [first, last]
        assert (first.shut, last.shut) == (0, 0)
        first.fails = True
        client._cut_off(client._is_late)
        assert (first.shut, last.shut) == (1, 1)
        late = Socket(6)
        connect(client, late)
        assert late.shut == 1
