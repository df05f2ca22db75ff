"""OpenAI-compatible completion servers (vLLM, SGLang, …): the log-probabilities of a prompt over HTTP."""

from __future__ import annotations

import json
import os
import re
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import web
from divulge.errors import InputError
from divulge.targets.endpoint_journal import EndpointJournal, digest, likely, short, without
from divulge.targets.statistics import TokenStatistics
from divulge.validation import check_integer, check_number, check_path, check_string

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Floats

KEYS = ("DIVULGE_API_KEY", "OPENAI_API_KEY")
_LONGEST_WAIT = 60.0
_TOO_LONG = re.compile(r"context.{0,20}length|too long|maximum.{0,40}tokens|max_model_len|token limit", re.IGNORECASE)
_MOST_TOKENS = 10**9


class EndpointError(InputError):
    """The server gave no usable answer; what was answered before is kept and a second run goes on from there."""


class _PassingError(Exception):
    """Worth another attempt, after ``wait`` seconds if the server named them."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class _TooLongError(Exception):
    """The server says that it cannot take so long a document."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model behind ``POST {url}/completions`` with ``echo`` and ``logprobs``.

    Such a server shows the log-probability of the prompt's own tokens and nothing of the rest of the
    vocabulary: perplexity, zlib and Min-K% can be had, Min-K%++ and entropies cannot. Their number is
    compared with the server's own count of the prompt's tokens, or where it gives none with the tokens
    themselves, before any is believed: some servers return none, or those of the completion alone. The text that
    a server repeats must hold the prompt, so that neither the answer to another document nor that to the part of this
    one that a server has cut off is taken for this one's; a server that repeats nothing cannot be used.

    A document that the server finds too long gets no score and is named in the result; with ``length`` the
    beginnings of documents are scored instead.

    The key is read from the environment (DIVULGE_API_KEY, else OPENAI_API_KEY) and never written.

    Args:
        url: base address, ``http://host:8000/v1``.
        model: name of the model on the server.
        concurrency: requests under way at a time.
        retries: further attempts after a failed one (429, 5xx, cut connection, damaged answer).
        backoff: seconds before the second attempt, doubled each time, at most a minute; a Retry-After or
            rate-limit header of the server takes precedence.
        timeout: seconds for one answer, from connecting to its last byte.
        length: characters of a document that are sent; all of them when None.
        journal: file that takes each answer as it comes, so that a second run asks for none of them again.

    Raises:
        divulge.InputError: an address that is not HTTP or holds a password, numbers out of range.
        divulge.MissingExtraError: httpx is not installed (extra "http").

    Examples:
        >>> Endpoint("http://127.0.0.1:8000/v1/", "tiny").url
        'http://127.0.0.1:8000/v1'
    """

    url: str
    model: str
    concurrency: int = 8
    retries: int = 6
    backoff: float = 0.5
    timeout: float = 120.0
    length: int | None = None
    journal: Path | None = None

    def __post_init__(self) -> None:
        web.require_httpx()  # missing, it is said before work starts
        object.__setattr__(self, "url", web.check_url(self.url, "url").rstrip("/"))
        check_string(self.model, "model")
        check_integer(self.concurrency, "concurrency", least=1)
        check_integer(self.retries, "retries", least=0)
        check_number(self.backoff, "backoff", above=0)
        check_number(self.timeout, "timeout", above=0)
        if self.length is not None:
            check_integer(self.length, "length", least=1)
        if self.journal is not None:
            object.__setattr__(self, "journal", check_path(self.journal, "journal"))

    def key(self) -> Mapping[str, Any]:
        """What decides the numbers, as far as a client can know."""
        return {"endpoint": web.redact_url(self.url), "model": self.model, "length": self.length}

    def tokens(self, texts: Sequence[str], *, vocabulary: bool = True) -> TokenStatistics:
        """Log-probabilities of each text's tokens; an empty text keeps its row without asking.

        Args:
            texts: the documents.
            vocabulary: other targets show more when it is asked for; this one cannot.

        Raises:
            EndpointError: no usable answer after all attempts; the answers that came are in the journal.
            divulge.InputError: refused requests (wrong key, unknown model), answers that cannot be checked, a
                journal of another model.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InputError("texts: a sequence of strings is needed")
        known = EndpointJournal(self.journal, self.key())
        cut = [text[: self.length] for text in texts]
        wanted = list(dict.fromkeys(text for text in cut if text and text not in known))
        clients = _Clients(self)
        with clients, ThreadPoolExecutor(self.concurrency) as pool:
            stop = threading.Event()
            answers = [pool.submit(self._ask, clients, text, known, stop) for text in wanted]
            errors = [error for error in (future.exception() for future in answers) if error is not None]
        for error in errors:
            raise error
        rows = [known[text] if text else np.empty(0) for text in cut]
        reasons = {row: known.refused[digest(text)] for row, text in enumerate(cut) if digest(text) in known.refused}
        return TokenStatistics.of(texts, [{"logp": values} for values in rows], skipped=reasons)

    def _ask(self, clients: _Clients, text: str, known: EndpointJournal, stop: threading.Event) -> None:
        """Put one answer into the journal; after the first failure nothing more is asked."""
        for attempt in range(self.retries + 1):
            if stop.is_set():
                return
            try:
                known.put(text, self._once(clients.mine(), text))
                return
            except _TooLongError as error:
                known.refuse(text, str(error))
                return
            except _PassingError as error:
                if attempt == self.retries:
                    stop.set()
                    raise EndpointError(
                        f"endpoint: {web.redact_url(self.url)} gave no usable answer in {attempt + 1} attempts "
                        f"({clients.mine().hide(str(error))}); run the same command again to resume"
                    ) from None
                wait = self.backoff * 2**attempt if error.wait is None else error.wait
                stop.wait(min(wait, _LONGEST_WAIT))
            except BaseException:
                stop.set()
                raise

    def _once(self, client: web.Client, text: str) -> Floats:
        body = {"model": self.model, "prompt": text, "echo": True, "logprobs": 1, "max_tokens": 0, "temperature": 0}
        try:
            answer = client.post(f"{self.url}/completions", content=json.dumps(body), kind="application/json")
            if answer.status == 429 or answer.status >= 500:
                raise _PassingError(f"status {answer.status}", answer.wait())
            if answer.status == 413 or (answer.status in (400, 422) and _TOO_LONG.search(answer.excerpt())):
                raise _TooLongError(f"{answer.status}: {without(answer.excerpt(), text)}")
            if answer.status != 200:
                raise InputError(
                    f"endpoint: {web.redact_url(self.url)} refused with {answer.status}: "
                    f"{without(answer.excerpt(), text)}"
                )
            return _logprobs(answer.json(), text)
        except web.WebError as error:
            raise _PassingError(without(str(error), text)) from None


class _Clients:
    """A client for each thread, closed together."""

    def __init__(self, endpoint: Endpoint) -> None:
        name = next((name for name in KEYS if os.environ.get(name)), None)
        self._headers = {"authorization": f"Bearer {os.environ[name]}"} if name else {}
        web.check_headers(self._headers, str(name))
        self._timeout, self._secure = endpoint.timeout, endpoint.url.startswith("https:")
        self._own, self._all, self._lock = threading.local(), [self._client()], threading.Lock()
        self._free = list(self._all)

    def _client(self) -> web.Client:
        return web.Client(timeout=self._timeout, headers=self._headers, secure=self._secure)

    def mine(self) -> web.Client:
        """This thread's client."""
        if not hasattr(self._own, "client"):
            with self._lock:
                if not self._free:
                    self._all.append(self._client())
                    self._free.append(self._all[-1])
                self._own.client = self._free.pop()
        return self._own.client

    def __enter__(self) -> _Clients:
        return self

    def __exit__(self, *error: object) -> None:
        for client in self._all:
            client.__exit__(*error)


def _logprobs(answer: Any, text: str) -> Floats:
    """The log-probabilities of the prompt's tokens, checked against the server's own count, or the tokens themselves.

    Raises:
        _PassingError: none, or another number than the prompt has tokens, or values that are none.
        divulge.InputError: nothing to check them by, which another attempt would not change.
    """
    try:
        choice = answer["choices"][0]
        shown = choice["logprobs"]
        logprobs = shown["token_logprobs"]
        echo = choice.get("text")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise _PassingError("the answer has no prompt log-probabilities") from None
    if not isinstance(logprobs, list):
        raise _PassingError(f"log-probabilities are {short(logprobs, text)}, not a list")
    prompt = _prompt_tokens(answer, shown, text, len(logprobs))
    _refuse_other_text(echo, text)
    values = logprobs[:prompt]
    values = values[1:] if values and values[0] is None else values  # nothing predicts a first token without a BOS
    for at, value in enumerate(values):
        if not likely(value):
            raise _PassingError(f"prompt log-probability {at} is {short(value, text)}; some are missing or positive")
    return np.array(values, np.float64)


def _refuse_other_text(echo: Any, text: str) -> None:
    """Pass if the answer repeats the prompt, and all of it."""
    if not isinstance(echo, str) or not echo:
        raise InputError(
            "endpoint: the answer does not repeat the prompt (echo), so a prompt that was cut could not be told; the "
            "server cannot be used"
        )
    if _plain(text) not in _plain(echo):
        cut = _plain(echo) and _plain(echo) in _plain(text)
        raise _PassingError(
            "the server cut the prompt: only part of it is repeated"
            if cut
            else "the answer repeats another text than the prompt"
        )


def _plain(text: str) -> str:
    """What tokenizers leave of a text: without spaces, and one form of each character."""
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def _prompt_tokens(answer: Any, shown: Any, text: str, count: int) -> int:
    """How many of the log-probabilities are the prompt's."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    if usage is None:
        tokens = shown.get("tokens") if isinstance(shown, dict) else None
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise InputError(
                "endpoint: the answer has neither a token count (usage) nor the tokens, so its log-probabilities "
                "cannot be checked against the prompt; the server cannot be used"
            )
        if len(tokens) != count or "".join(tokens) not in (text, f"<s>{text}", f"<|begin_of_text|>{text}"):
            raise _PassingError("the tokens of the answer are not those of the prompt")
        return count
    if not isinstance(usage, dict):
        raise _PassingError(f"usage is {short(usage, text)}, not a token count")
    # Servers that complete nothing may leave the second count out.
    counts = {"prompt_tokens": usage.get("prompt_tokens"), "completion_tokens": usage.get("completion_tokens") or 0}
    for name, value in counts.items():
        if type(value) is not int or not 0 <= value <= _MOST_TOKENS:
            raise _PassingError(f"usage.{name} is {short(value, text)}, not a count of tokens")
    prompt, others = counts.values()
    if count != prompt + others:
        raise _PassingError(f"{count} log-probabilities for {prompt} prompt and {others} other tokens")
    return prompt
