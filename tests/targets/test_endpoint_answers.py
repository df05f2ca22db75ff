"""What an answer of an endpoint means by its status and its words, without a server."""

from types import SimpleNamespace

import pytest

from divulge.errors import InputError
from divulge.targets import endpoint
from divulge.targets.endpoint import Endpoint

TOO_LONG = [
    "This model's maximum context length is 40", "the prompt is TOO LONG", "maximum of 4096 tokens",
    "exceeds max_model_len", "over the token limit",
]  # fmt: skip


def ask(status, words):
    answer = SimpleNamespace(status=status, excerpt=lambda: words, wait=lambda: 7.0, json=dict)
    client = SimpleNamespace(post=lambda *_, **__: answer)
    return Endpoint("http://127.0.0.1:9/v1", "tiny")._query_once(client, "some text")


@pytest.mark.parametrize("status", [413, 400, 422])
@pytest.mark.parametrize("words", TOO_LONG)
def test_a_text_that_is_too_long_is_refused_alone(status, words):
    with pytest.raises(endpoint._TooLongError, match=str(status)):
        ask(status, words)


@pytest.mark.parametrize("status", [400, 401, 404, 412, 414, 418, 422, 428, 430, 499])
def test_any_other_refusal_ends_the_work(status):
    words = "no" if status in (400, 422) else TOO_LONG[0]
    with pytest.raises(InputError, match=f"refused with {status}: "):
        ask(status, words)


def test_a_body_that_is_too_large_needs_no_words():
    with pytest.raises(endpoint._TooLongError, match="413: no"):
        ask(413, "no")


@pytest.mark.parametrize("status", [429, 500, 502, 599])
def test_a_busy_or_broken_server_is_asked_again_after_the_wait_it_names(status):
    with pytest.raises(endpoint._TransientError) as error:
        ask(status, TOO_LONG[0])
    assert error.value.wait == 7.0
