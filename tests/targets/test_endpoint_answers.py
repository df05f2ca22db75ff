"""What an answer of an endpoint means by its status, its words and its numbers, without a server."""

from types import SimpleNamespace

import pytest

from divulge import web
from divulge.errors import InputError
from divulge.targets.endpoint import Endpoint, EndpointError

TEXT = "some text"
TOO_LONG = [
    "This model's maximum context length is 40", "the prompt is TOO LONG", "maximum of 4096 tokens",
    "exceeds max_model_len", "over the token limit",
]  # fmt: skip


@pytest.fixture
def ask(monkeypatch):
    """Ask a client that gives these answers, one after the other; returns what was waited for, too."""

    def run(*answers, retries=0):
        replies = iter(answers)
        client = SimpleNamespace(
            post=lambda *_, **__: next(replies), hide=lambda text: text, __exit__=lambda *error: None
        )
        monkeypatch.setattr(web, "Client", lambda **options: client)
        return Endpoint("http://127.0.0.1:9/v1", "tiny", retries=retries, backoff=1e-9).tokens([TEXT])

    return run


def reply(status=200, words="", wait=0.0, json=None):
    return SimpleNamespace(status=status, excerpt=lambda: words, wait=lambda: wait, json=lambda: json)


@pytest.mark.parametrize(
    ("status", "words"), [(400, words) for words in TOO_LONG] + [(422, TOO_LONG[0]), (413, TOO_LONG[0]), (413, "no")]
)
def test_a_text_that_is_too_long_is_refused_alone(ask, status, words):
    assert str(status) in ask(reply(status, words)).skipped[0]


@pytest.mark.parametrize("status", [400, 401, 404, 412, 414, 418, 422, 428, 430, 499])
def test_any_other_refusal_ends_the_work(ask, status):
    words = "no" if status in (400, 422) else TOO_LONG[0]
    with pytest.raises(InputError, match=f"refused with {status}: "):
        ask(reply(status, words))


@pytest.mark.parametrize("status", [429, 500, 502, 599])
@pytest.mark.parametrize("wait", [0.0, None])
def test_a_busy_or_broken_server_is_asked_again(ask, status, wait):
    busy = reply(status, TOO_LONG[0], wait)
    assert ask(busy, busy, reply(json=answer()), retries=2).logp.tolist() == [-1.0]
    with pytest.raises(EndpointError, match=rf"gave no usable answer in 2 attempts \(status {status}\)"):
        ask(busy, busy, retries=1)


def choice(text=TEXT, logprobs=(None, -1.0), **more):
    return {"text": text, "logprobs": {"token_logprobs": list(logprobs)} | more}


def answer(n_prompt=2, n_completion=0, **options):
    return {"choices": [choice(**options)], "usage": {"prompt_tokens": n_prompt, "completion_tokens": n_completion}}


@pytest.mark.parametrize(
    ("json", "expected"),
    [
        (answer(), [-1.0]),
        (answer(logprobs=[-2.0, -1.0]), [-2.0, -1.0]),
        (answer(logprobs=[None, -1.0, -3.0], n_completion=1), [-1.0]),
        (answer(text="<s> Some  TEXT and more"), [-1.0]),
        (answer(logprobs=[None, 1e-6]), [1e-6]),
        ({"choices": [choice()], "usage": {"prompt_tokens": 2}}, [-1.0]),
        ({"choices": [choice(tokens=["some ", "text"])]}, [-1.0]),
        ({"choices": [choice(tokens=["<|begin_of_text|>", "some text"])]}, [-1.0]),
        ({"choices": [choice(tokens=["some ", "words"])]}, "the tokens of the answer are not those of the prompt"),
        ({"choices": [choice(tokens=["some text"])]}, "the tokens of the answer are not those of the prompt"),
        ({"choices": [choice(tokens=["some text", 3])]}, "neither a token count"),
        ({"choices": [choice()]}, "neither a token count"),
        ({}, "no prompt log-probabilities"),
        (answer(n_prompt=3), "2 log-probabilities for 3 prompt and 0 other tokens"),
        (answer(n_completion=1), [-1.0]),
        (answer(n_completion=1, logprobs=[-1.0, -2.0]), "2 log-probabilities for 2 prompt and 1 other tokens"),
        (answer(n_prompt=1), "2 log-probabilities for 1 prompt and 0 other tokens"),
        (answer(n_prompt=10**9 + 1), "not a count of tokens"),
        (answer(logprobs=[None, 1e-5]), "prompt log-probability 0 is 1e-05"),
        (answer(logprobs=[-1.0, None]), "prompt log-probability 1 is None"),
        (answer(text="other words"), "repeats another text than the prompt"),
        (answer(text="some"), "the server cut the prompt"),
        (answer(text=""), "does not repeat the prompt"),
        (answer(text=None), "does not repeat the prompt"),
    ],
)
def test_an_answer_is_believed_where_it_is_checked_against_the_prompt(ask, json, expected):
    if isinstance(expected, list):
        assert ask(reply(json=json)).logp.tolist() == expected
        return
    with pytest.raises(InputError, match=expected):
        ask(reply(json=json))
