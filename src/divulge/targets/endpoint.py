"""OpenAI-compatible completion servers (vLLM, SGLang, …): the log-probabilities of a prompt over HTTP."""

from __future__ import annotations

import hashlib
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

from divulge import chats, store, web
from divulge.errors import InputError
from divulge.targets.token_statistics import TokenStatistics
from divulge.validation import check_integer, check_number, check_path, check_string, format_exception

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Floats


API_KEY_VARIABLES = ("DIVULGE_API_KEY", "OPENAI_API_KEY")
_LONGEST_WAIT = 60.0
_TOO_LONG = re.compile(r"context.{0,20}length|too long|maximum.{0,40}tokens|max_model_len|token limit", re.IGNORECASE)
_MOST_TOKENS = 10**9


class EndpointError(InputError):
    """The server gave no usable answer; what was answered before is kept and a second run goes on from there."""


class _TransientError(Exception):
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
        check_integer(self.concurrency, "concurrency", minimum=1)
        check_integer(self.retries, "retries", minimum=0)
        check_number(self.backoff, "backoff", above=0)
        check_number(self.timeout, "timeout", above=0)
        if self.length is not None:
            check_integer(self.length, "length", minimum=1)
        if self.journal is not None:
            object.__setattr__(self, "journal", check_path(self.journal, "journal"))

    def key(self) -> Mapping[str, Any]:
        """Return what decides the numbers, as far as a client can know."""
        return {"endpoint": web.redact_url(self.url), "model": self.model, "length": self.length}

    def tokens(self, texts: Sequence[str], *, vocabulary: bool = True) -> TokenStatistics:
        """Ask for log-probabilities of each text's tokens; an empty text keeps its row without a request.

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
        texts = chats.to_plain_texts(texts, "an endpoint")
        journal = EndpointJournal(self.journal, self.key())
        prompts = [text[: self.length] for text in texts]
        new_prompts = list(dict.fromkeys(text for text in prompts if text and text not in journal))
        clients = _ClientPool(self)
        with clients, ThreadPoolExecutor(self.concurrency) as pool:
            stop = threading.Event()
            answers = [pool.submit(self._ask, clients, text, journal, stop) for text in new_prompts]
            errors = [error for error in (future.exception() for future in answers) if error is not None]
        for error in errors:
            raise error
        rows = [journal[text] if text else np.empty(0) for text in prompts]
        reasons = {
            row: journal.refused[text_digest(text)]
            for row, text in enumerate(prompts)
            if text_digest(text) in journal.refused
        }
        return TokenStatistics.from_documents(texts, [{"logp": values} for values in rows], skipped=reasons)

    def _ask(self, clients: _ClientPool, text: str, journal: EndpointJournal, stop: threading.Event) -> None:
        """Put one answer into the journal; after the first failure nothing more is asked."""
        for attempt in range(self.retries + 1):
            if stop.is_set():
                return
            try:
                journal.put(text, self._query_once(clients.thread_client(), text))
                return
            except _TooLongError as error:
                journal.refuse(text, str(error))
                return
            except _TransientError as error:
                if attempt == self.retries:
                    stop.set()
                    raise EndpointError(
                        f"endpoint: {web.redact_url(self.url)} gave no usable answer in {attempt + 1} attempts "
                        f"({clients.thread_client().hide(str(error))}); run the same command again to resume"
                    ) from None
                wait = self.backoff * 2**attempt if error.wait is None else error.wait
                stop.wait(min(wait, _LONGEST_WAIT))
            except BaseException:
                stop.set()
                raise

    def _query_once(self, client: web.Client, text: str) -> Floats:
        body = {"model": self.model, "prompt": text, "echo": True, "logprobs": 1, "max_tokens": 0, "temperature": 0}
        try:
            answer = client.post(f"{self.url}/completions", content=json.dumps(body), media_type="application/json")
            if answer.status == 429 or answer.status >= 500:
                raise _TransientError(f"status {answer.status}", answer.wait())
            if answer.status == 413 or (answer.status in (400, 422) and _TOO_LONG.search(answer.excerpt())):
                raise _TooLongError(f"{answer.status}: {redact(answer.excerpt(), text)}")
            if answer.status != 200:
                raise InputError(
                    f"endpoint: {web.redact_url(self.url)} refused with {answer.status}: "
                    f"{redact(answer.excerpt(), text)}"
                )
            return _parse_log_probabilities(answer.json(), text)
        except web.WebError as error:
            raise _TransientError(redact(str(error), text)) from None


class _ClientPool:
    """A client for each thread, closed together."""

    def __init__(self, endpoint: Endpoint) -> None:
        name = next((name for name in API_KEY_VARIABLES if os.environ.get(name)), None)
        self._headers = {"authorization": f"Bearer {os.environ[name]}"} if name else {}
        web.check_headers(self._headers, str(name))
        self._timeout, self._secure = endpoint.timeout, endpoint.url.startswith("https:")
        self._own, self._all, self._lock = threading.local(), [self._client()], threading.Lock()
        self._free = list(self._all)

    def _client(self) -> web.Client:
        return web.Client(timeout=self._timeout, headers=self._headers, verify=self._secure)

    def thread_client(self) -> web.Client:
        """Return this thread's client."""
        if not hasattr(self._own, "client"):
            with self._lock:
                if not self._free:
                    self._all.append(self._client())
                    self._free.append(self._all[-1])
                self._own.client = self._free.pop()
        return self._own.client

    def __enter__(self) -> _ClientPool:
        return self

    def __exit__(self, *error: object) -> None:
        for client in self._all:
            client.__exit__(*error)


def _parse_log_probabilities(answer: Any, text: str) -> Floats:
    """Parse the log-probabilities of the prompt's tokens, checked against the server's count, or the tokens themselves.

    Raises:
        _PassingError: none, or another number than the prompt has tokens, or values that are none.
        divulge.InputError: nothing to check them by, which another attempt would not change.
    """
    try:
        choice = answer["choices"][0]
        logprobs_field = choice["logprobs"]
        logprobs = logprobs_field["token_logprobs"]
        echo = choice.get("text")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise _TransientError("the answer has no prompt log-probabilities") from None
    if not isinstance(logprobs, list):
        raise _TransientError(f"log-probabilities are {abbreviate(logprobs, text)}, not a list")
    n_prompt_tokens = _count_prompt_tokens(answer, logprobs_field, text, len(logprobs))
    # A prompt that the server cut would be scored as if it were whole.
    if not isinstance(echo, str) or not echo:
        raise InputError(
            "endpoint: the answer does not repeat the prompt (echo), so a prompt that was cut could not be told; the "
            "server cannot be used"
        )
    if _normalise_text(text) not in _normalise_text(echo):
        is_truncated = _normalise_text(echo) and _normalise_text(echo) in _normalise_text(text)
        raise _TransientError(
            "the server cut the prompt: only part of it is repeated"
            if is_truncated
            else "the answer repeats another text than the prompt"
        )
    values = logprobs[:n_prompt_tokens]
    values = values[1:] if values and values[0] is None else values  # nothing predicts a first token without a BOS
    for position, value in enumerate(values):
        if not is_log_probability(value):
            raise _TransientError(
                f"prompt log-probability {position} is {abbreviate(value, text)}; some are missing or positive"
            )
    return np.array(values, np.float64)


def _normalise_text(text: str) -> str:
    """Reduce a text to what tokenizers keep of it: without spaces, and one form of each character."""
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def _count_prompt_tokens(answer: Any, logprobs_field: Any, text: str, count: int) -> int:
    """Count the log-probabilities that are the prompt's."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    if usage is None:
        tokens = logprobs_field.get("tokens") if isinstance(logprobs_field, dict) else None
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise InputError(
                "endpoint: the answer has neither a token count (usage) nor the tokens, so its log-probabilities "
                "cannot be checked against the prompt; the server cannot be used"
            )
        if len(tokens) != count or "".join(tokens) not in (text, f"<s>{text}", f"<|begin_of_text|>{text}"):
            raise _TransientError("the tokens of the answer are not those of the prompt")
        return count
    if not isinstance(usage, dict):
        raise _TransientError(f"usage is {abbreviate(usage, text)}, not a token count")
    # Servers that complete nothing may leave the second count out.
    counts = {"prompt_tokens": usage.get("prompt_tokens"), "completion_tokens": usage.get("completion_tokens") or 0}
    for name, value in counts.items():
        if type(value) is not int or not 0 <= value <= _MOST_TOKENS:
            raise _TransientError(f"usage.{name} is {abbreviate(value, text)}, not a count of tokens")
    n_prompt, n_completion = counts.values()
    if count != n_prompt + n_completion:
        raise _TransientError(f"{count} log-probabilities for {n_prompt} prompt and {n_completion} other tokens")
    return n_prompt


_MIN_SHARED_RUN = 6  # letters and digits in a row that a message and a document share by more than chance


class EndpointJournal:
    """Answers so far by digest of the text, in memory and, line by line, in a file.

    The first line of the file says which model and settings they are of.

    Raises:
        divulge.InputError: a file with answers of another model or other settings, or with entries that are none.
    """

    def __init__(self, path: Path | None, key: Mapping[str, Any]) -> None:
        self.path, self._lock = path, threading.Lock()
        self._known: dict[str, Floats] = {}
        self.refused: dict[str, str] = {}
        if path is None:
            return
        if not path.exists():
            store.write_text(path, json.dumps({"journal": dict(key)}) + "\n")
            return
        entries = []
        try:
            for line in store.read_text(path, limit=store.MAX_LINES_BYTES).split("\n"):
                try:
                    entries.append(json.loads(line))
                except json.JSONDecodeError:
                    continue  # the last line of a killed run may be cut
        except (ValueError, RecursionError) as error:  # digits or nesting without end
            raise InputError(f"{path}: not a journal of answers ({format_exception(error)})") from None
        head = entries[0].get("journal") if entries and isinstance(entries[0], dict) else None
        if head != dict(key):
            raise InputError(f"{path}: holds answers of another model or other settings; remove it or keep it apart")
        for entry in entries[1:]:
            self._take(path, entry)

    def _take(self, path: Path, entry: Any) -> None:
        name = entry.get("text") if isinstance(entry, dict) else None
        if isinstance(name, str) and isinstance(entry.get("refused"), str):
            self.refused[name] = entry["refused"]
            self._known[name] = np.empty(0)
            return
        values = entry.get("logp") if isinstance(name, str) else None
        if not isinstance(values, list) or not all(is_log_probability(value) for value in values):
            raise InputError(f"{path}: an entry holds no log-probabilities: {abbreviate(entry)}")
        self._known[str(name)] = np.array(values, np.float64)

    def __contains__(self, text: str) -> bool:
        return text_digest(text) in self._known

    def __getitem__(self, text: str) -> Floats:
        return self._known[text_digest(text)]

    def put(self, text: str, values: Floats) -> None:
        """Keep an answer."""
        with self._lock:
            self._known[text_digest(text)] = values
            self._write({"text": text_digest(text), "logp": values.tolist()})

    def refuse(self, text: str, reason: str) -> None:
        """Keep that the server cannot take a document."""
        with self._lock:
            self._known[text_digest(text)] = np.empty(0)
            self.refused[text_digest(text)] = reason
            self._write({"text": text_digest(text), "refused": reason})

    def _write(self, entry: Mapping[str, Any]) -> None:
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as out:
                # A leading line break ends whatever a killed run left half-written.
                out.write("\n" + json.dumps(entry))


def text_digest(text: str) -> str:
    """Return a digest that stands for a document."""
    return hashlib.sha256(text.encode()).hexdigest()


def is_log_probability(value: object) -> bool:
    """Check that a value is a log-probability: a finite number of at most 0, rounding apart.

    Examples:
        >>> is_log_probability(-1.5), is_log_probability(True), is_log_probability(float("-inf"))
        (True, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value <= 1e-6


def abbreviate(value: object, text: str = "") -> str:
    """Shorten a value that a server sent for a message, without what it repeats of a document."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**18:
        return f"an integer of {value.bit_length()} bits"
    shown_value = repr(value)
    return redact(shown_value if len(shown_value) <= 60 else f"{shown_value[:57]}…", text)


def redact(message: str, text: str) -> str:
    r"""Remove from a server's message what it repeats of a document: messages and journals hold no text.

    Runs of six letters or digits that stand in the document are left out, however many marks or escapes lie between.

    Examples:
        >>> redact("bad input 'I was\\nborn in May' (max 40 tokens)", "I was\nborn in May")
        "bad input '…' (max 40 tokens)"
    """
    document_forms = {
        _letters_and_digits(form) for form in (text, json.dumps(text), json.dumps(text, ensure_ascii=False))
    }
    positions = [position for position, character in enumerate(message) for _ in _letters_and_digits(character)]
    message_letters, run_length = _letters_and_digits(message), min(_MIN_SHARED_RUN, *map(len, document_forms))
    hidden_positions: set[int] = set()
    for run_start in range(len(message_letters) - run_length + 1 if run_length else 0):
        if any(message_letters[run_start : run_start + run_length] in form for form in document_forms):
            hidden_positions.update(range(positions[run_start], positions[run_start + run_length - 1] + 1))
    return "".join(
        ""
        if position in hidden_positions and position - 1 in hidden_positions
        else "…"
        if position in hidden_positions
        else character
        for position, character in enumerate(message)
    )


def _letters_and_digits(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())
