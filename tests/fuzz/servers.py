"""Every reader of answers from a server, and a server that misbehaves: one for all cases, which are its addresses."""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

import divulge as dv
from divulge import labels, web
from divulge.cli.printing import Exit
from divulge.targets import Endpoint
from faults import steps
from fuzz import judge
from fuzz import misbehaviour as bad
from wire import Wire, page

if TYPE_CHECKING:
    from collections.abc import Callable

LONG, SHORT = 30.0, 0.3  # seconds; the second where nothing else ends an exchange
TEXTS = ("one two three", "four five six")
SCORE = 0.25
DAMAGES = 40  # answers of which a byte was lost or turned
ANY = "any"  # such an answer may still be one


@dataclass(frozen=True)
class Reader:
    """What asks a server.

    Args:
        name: in the counts.
        body: the right answer to what was posted; the mark stands for a number.
        ask: an address and a deadline into an answer.
        number: the answer where that number is sent.
        kinds: of misbehaviour that it is asked for.
    """

    name: str
    body: Callable[[bytes, str], str]
    ask: Callable[[str, float], Any]
    number: Callable[[float], Any]
    kinds: tuple[str, ...]


def _score(posted, number):
    return f'{{"score": {number}}}'


def _completion(posted, number, count="3"):
    prompt = json.loads(posted)["prompt"]
    return (
        f'{{"choices": [{{"text": {json.dumps(prompt)}, "logprobs": {{"token_logprobs": [null, {number}, '
        f'{-len(prompt)}]}}}}], "usage": {{"prompt_tokens": {count}, "completion_tokens": 0}}}}'
    )


def _client(url, timeout):
    with web.Client(timeout=timeout, headers={"x-key": bad.SECRET}, verify=False) as client:
        try:
            answer = client.post(url, content="x", media_type="text/plain")
            wait = answer.wait()
            assert wait is None or 0 <= wait < float("inf")
            if answer.status != 200:
                raise web.WebError(f"status {answer.status}: {answer.excerpt()}")
            return answer.json()
        except web.WebError as error:
            raise dv.InputError(f"server: {error}") from None


def _endpoint(url, timeout):
    with mock.patch.dict(os.environ, {"DIVULGE_API_KEY": bad.SECRET}):
        return Endpoint(url, "tiny", concurrency=1, retries=0, backoff=1e-3, timeout=timeout).tokens(TEXTS).logp


def _oracle(url, timeout):
    return _ask_oracle(url, timeout)(np.array([0.5, 0.5]))


def _ask_oracle(url, timeout):
    def sleep(seconds):
        assert 0 <= seconds <= 30.0

    return labels.HttpOracle(f"{url}?token={bad.SECRET}", retries=1, timeout=timeout, sleep=sleep)


def _refused(ask):
    """A server that takes no more is an answer of an oracle that says so."""

    def ask_oracle(url, timeout):
        try:
            return ask(url, timeout)
        except labels.QuotaReachedError as error:
            raise dv.InputError(str(error)) from None

    return ask_oracle


def _attack(url, timeout):
    command = ("labels", "attack", url, "--n", "6", "--decimals", "6", "--header", f"x-key: {bad.SECRET}")
    code, output = steps.run_command(command, ".")
    if code == Exit.INPUT:
        raise dv.InputError(" ".join(output.split("\n")))
    assert code in (Exit.OK, Exit.CONTRADICTED), output  # a number that no labels give is read rightly
    return "read"


_WIRE, _CONTENT = ("right", "damaged", "wrong", "slow"), ("shapes", "numbers")
READERS = (
    Reader("web.Client", _score, _client, lambda number: {"score": number}, _WIRE),
    Reader(
        "targets.Endpoint",
        _completion,
        _endpoint,
        lambda number: np.ravel([(number, -len(text)) for text in TEXTS]),
        (*_WIRE, *_CONTENT, "counts", "texts"),
    ),
    Reader("labels.HttpOracle", _score, _refused(_oracle), lambda number: number, (*_WIRE, *_CONTENT)),
    # Broken exchanges it tries again for a quarter of a minute.
    Reader("divulge labels attack", _score, _attack, lambda _: "read", ("right", *_CONTENT)),
)


class Server(Wire):
    """Answers by address: what a reader asks at ``/v1/case/reader/number`` misbehaves in the way of that number.

    Args:
        seed: of the damage.
    """

    def __init__(self, seed=0):
        super().__init__()
        self.seed, self.strayed = seed, None

    def reply(self, head, body):
        path = head.split()[1].partition("?")[0]
        if not path.startswith("/v1/case/"):
            self.strayed = head
            return [page(b"")], False
        reader_index, number = map(int, path.split("/")[3:5])
        reader = READERS[reader_index]
        misbehaviour, name, _ = CASES[reader_index][number]
        match misbehaviour:
            case "damaged":
                full_page = page(reader.body(body, -SCORE).encode(), f"x-key: {bad.SECRET}")
                return [_damaged(full_page, random.Random(f"{self.seed} {name}"))], False
            case "numbers":
                return [page(reader.body(body, name).encode())], False
            case "counts":
                return [page(_completion(body, -SCORE, name).encode())], False
            case "shapes":
                return [page(name.encode())], False
            case "texts":
                return TEXTUAL[name](json.loads(body)["prompt"])
        return getattr(bad, misbehaviour.upper())[name](reader.body(body, -SCORE).encode()), misbehaviour == "slow"


def _damaged(content, random_):
    """An answer cut short, or with a bit turned."""
    position = random_.randrange(len(content))
    if random_.random() < 0.3:
        return content[:position]
    return content[:position] + bytes([content[position] ^ 1 << random_.randrange(8)]) + content[position + 1 :]


def _answer(prompt):
    return page(_completion(json.dumps({"prompt": prompt}), -SCORE).encode())


def _other_text(prompt):
    return TEXTS[1 - TEXTS.index(prompt)]


def _ahead(prompt):
    """Two answers to one request, on a connection that stays open: the second would be taken for the next one's."""
    two_answers = (_answer(prompt) + _answer("something else")).replace(b"connection: close", b"connection: keep-alive")
    return [two_answers], True


# Answers to other documents than were asked for.
TEXTUAL = {
    "in another order": lambda prompt: ([_answer(_other_text(prompt))], False),
    "ahead of the request": _ahead,
}


def cases(reader):
    """All that a server can do to one reader: a kind, a name, and what the answer is, if there is one."""
    answers = {"right": dict.fromkeys(bad.RIGHT, -SCORE), "numbers": bad.NUMBERS}
    names = {"wrong": bad.WRONG, "slow": bad.SLOW, "shapes": bad.SHAPES, "counts": bad.COUNTS, "texts": TEXTUAL}
    names["damaged"] = range(DAMAGES)
    for misbehaviour in reader.kinds:
        for name in answers.get(misbehaviour) or names[misbehaviour]:
            number = answers.get(misbehaviour, {}).get(name)
            yield (
                misbehaviour,
                name,
                ANY if misbehaviour == "damaged" else None if number is None else reader.number(number),
            )


CASES = [list(cases(reader)) for reader in READERS]


def run(tally, reader, server):
    """Ask the server for each of its misbehaviours."""
    reader_index = READERS.index(reader)
    for number, (misbehaviour, name, answer) in enumerate(CASES[reader_index]):
        if reader.ask is _attack and number % 3:
            continue  # the whole command is slow, and its oracle is asked all cases above
        timeout = SHORT if misbehaviour == "slow" or name == "ahead of the request" else LONG
        result = outcome(reader, f"{server.url}/case/{reader_index}/{number}", timeout, answer)
        if server.strayed:
            result, server.strayed = f"went on to {server.strayed[:100]!r}", None
        tally.add(f"{reader.name}({misbehaviour}: {str(name)[:60]})", result)


def outcome(reader, url, timeout, answer):
    """What came of asking once."""
    messages = []

    def ask():
        try:
            return reader.ask(url, timeout)
        except dv.InputError as error:
            messages.append(str(error))
            raise

    def right(answer_found):
        if answer is None:
            return f"an answer, where there is none: {answer_found!r}"
        return (
            None
            if answer is ANY or judge.same(answer_found, answer)
            else f"{answer_found!r} in the place of {answer!r}"
        )

    verdict_words = judge.outcome(ask, "endpoint", "oracle", "server", "127.0.0.1", right=right)
    if any(bad.SECRET in message for message in messages):
        return f"shows the key: {messages[0][:300]!r}"
    if any(not character.isprintable() for message in messages for character in message):
        return f"control characters: {messages[0][:300]!r}"
    if verdict_words == "InputError" and answer not in (None, ANY):
        return f"a right answer is refused: {messages[0][:300]!r}"
    return verdict_words
