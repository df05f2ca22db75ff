"""OpenAI-compatible servers: log-probabilities of a prompt, or the text that follows it, over HTTP."""

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
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from divulge import chats, store, web
from divulge.errors import InputError
from divulge.targets.token_spans import count_tokens_before
from divulge.targets.token_statistics import TokenStatistics
from divulge.validation import check_integer, check_number, check_path, check_string, format_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from divulge.chats import Turn
    from divulge.types import Floats


API_KEY_VARIABLES = ("DIVULGE_API_KEY", "OPENAI_API_KEY")
_LONGEST_WAIT = 60.0
_LONGEST_REQUESTED_WAIT = 600.0  # that a server may ask for and is given
_TOO_LONG = re.compile(r"context.{0,20}length|too long|maximum.{0,40}tokens|max_model_len|token limit", re.IGNORECASE)
_NO_ECHO = re.compile(r"\becho\b|logprobs|prompt_logprobs|\bmax_tokens\b", re.IGNORECASE)
_MOST_TOKENS = 10**9
_WHAT_WORKS = (
    "Token probabilities of a given document are shown by vLLM and SGLang (/v1/completions with echo and logprobs), "
    "not by llama.cpp's llama-server, nor by chat completions, whose log-probabilities are those of the tokens that "
    "are generated. Of a server that gives text alone, divulge extract --endpoint asks what can be asked (with --chat "
    "where it has chat completions only)"
)
_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")
Prompt: TypeAlias = "str | tuple[Mapping[str, Any], ...]"


class EndpointError(InputError):
    """The server gave no usable answer; what was answered before is kept and a second run goes on from there."""


class _TransientError(Exception):
    """Worth another attempt, after ``wait`` seconds if the server named them."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class _TooLongError(Exception):
    """The server says that it cannot take so long a document."""


class _NoEchoError(Exception):
    """The answer holds no log-probabilities of the prompt: a server that has shown none before shows none."""


@dataclass(frozen=True, slots=True)
class _Server:
    """Address of a model, and how it is asked."""

    url: str
    model: str
    concurrency: int = 8
    retries: int = 6
    backoff: float = 0.5
    timeout: float = 120.0

    def __post_init__(self) -> None:
        web.require_httpx()  # missing, it is said before work starts
        object.__setattr__(self, "url", web.check_url(self.url, "url").rstrip("/"))
        check_string(self.model, "model")
        check_integer(self.concurrency, "concurrency", minimum=1)
        check_integer(self.retries, "retries", minimum=0)
        check_number(self.backoff, "backoff", above=0)
        check_number(self.timeout, "timeout", above=0)


@dataclass(frozen=True, slots=True)
class Endpoint(_Server):
    """A model behind ``POST {url}/completions`` with ``echo`` and ``logprobs``.

    Such a server shows the log-probability of the prompt's own tokens and nothing of the rest of the
    vocabulary: perplexity, zlib and Min-K% can be had, Min-K%++ and entropies cannot. Their number is
    compared with the server's own count of the prompt's tokens, or where it gives none with the tokens
    themselves, before any is believed: some servers return none, or those of the completion alone. The text that
    a server repeats must hold the prompt, so that neither the answer to another document nor that to the part of this
    one that a server has cut off is taken for this one's; a server that repeats nothing is refused at its first answer.
    Of prompts with answers, the tokens of the answers are found by the texts of the tokens.

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

    length: int | None = None
    journal: Path | None = None

    def __post_init__(self) -> None:
        _Server.__post_init__(self)  # super() without arguments does not work in a class with slots
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
        _refuse_chats(texts)
        journal = EndpointJournal(self.journal, self.key())
        prompts = [_cut_prompt(text, self.length) for text in texts]
        new_prompts = list(dict.fromkeys(prompt for prompt in prompts if prompt.text and prompt.text not in journal))
        ask_each(self, new_prompts, lambda client, prompt: self._query_once(client, prompt, journal), journal.keep)
        rows = [journal[prompt.text] if prompt.text else np.empty(0) for prompt in prompts]
        reasons = {
            row: journal.refused[text_digest(prompt.text)]
            for row, prompt in enumerate(prompts)
            if text_digest(prompt.text) in journal.refused
        }
        return TokenStatistics.from_documents(texts, [{"logp": values} for values in rows], skipped=reasons)

    def _query_once(self, client: web.Client, prompt: _CutPrompt, journal: EndpointJournal) -> Floats | _TooLongError:
        text = prompt.shown
        body = {"model": self.model, "prompt": text, "echo": True, "logprobs": 1, "max_tokens": 0, "temperature": 0}
        try:
            try:
                return _parse_log_probabilities(post(self, client, "completions", body, text), prompt)
            except _TooLongError as error:
                return error
        except _NoEchoError as error:
            if journal.answered:  # it has shown them, so this is a fault that may pass
                raise _TransientError(str(error)) from None
            raise InputError(f"endpoint: {web.redact_url(self.url)}: {error}. {_WHAT_WORKS}") from None

    def make_prompt(self, turns: Sequence[Turn] | str) -> Prompt:
        """Return what is sent to have a text continued, or the turn after these.

        Raises:
            divulge.InputError: turns of a chat.
        """
        if isinstance(turns, str):
            return turns
        if any(turn.role for turn in turns):
            raise InputError(
                "target: completions have no chat template; chats are asked for as messages, of "
                "divulge.targets.ChatEndpoint (--chat)"
            )
        return "".join(turn.content for turn in turns)

    def generate(self, prompts: Sequence[Prompt], max_tokens: int, keep: Callable[[int, GeneratedText], None]) -> None:
        """Ask for the likeliest continuation of each prompt; see `GivesText`."""
        _generate(self, prompts, {"max_tokens": max_tokens}, "completions", "prompt", keep)


@dataclass(frozen=True, slots=True)
class ChatEndpoint(_Server):
    """A model behind ``POST {url}/chat/completions``, of which text alone can be had.

    It shows nothing of how likely a given document is: the log-probabilities that such a server may return are those of
    the tokens that it generates. So it can be asked whether it gives documents back (`divulge.extraction.measure`), and
    no more. Messages go as messages; the server puts them together.

    Args:
        url: base address, ``http://host:8000/v1``.
        model: name of the model on the server.
        concurrency: requests under way at a time.
        retries: further attempts after a failed one, see `Endpoint`.
        backoff: seconds before the second attempt, see `Endpoint`.
        timeout: seconds for one answer.
        instruction: what stands before the beginning of a document that is to be continued; not before prompts that
            have answers.

    Raises:
        divulge.InputError: an address that is not HTTP or holds a password, numbers out of range.
        divulge.MissingExtraError: httpx is not installed (extra "http").

    Examples:
        >>> ChatEndpoint("http://127.0.0.1:8000/v1", "tiny").make_prompt("It was a dark")[0]["role"]
        'user'
    """

    instruction: str = "Continue this text word for word. Answer with the continuation alone.\n\n"

    def __post_init__(self) -> None:
        _Server.__post_init__(self)
        if not isinstance(self.instruction, str):
            raise InputError(f"instruction: a text is needed, got {type(self.instruction).__name__}")

    def key(self) -> Mapping[str, Any]:
        """Return what decides the answers, as far as a client can know."""
        return {"chat endpoint": web.redact_url(self.url), "model": self.model, "instruction": self.instruction}

    def make_prompt(self, turns: Sequence[Turn] | str) -> Prompt:
        """Return the messages that ask for the continuation of a text, or for the turn after these."""
        if isinstance(turns, str):
            return ({"role": "user", "content": self.instruction + turns},)
        return tuple({**turn.message, "role": turn.role or "user"} for turn in turns)

    def generate(self, prompts: Sequence[Prompt], max_tokens: int, keep: Callable[[int, GeneratedText], None]) -> None:
        """Ask for the likeliest answer to each prompt; see `GivesText`."""
        _generate(self, prompts, {"max_tokens": max_tokens}, "chat/completions", "messages", keep)


class GeneratedText(NamedTuple):
    """What a server says after a prompt.

    Attributes:
        text: as it came.
        is_cut: whether it ended because no more tokens were asked for.
        is_withheld: whether the server filtered it, or the model refused to answer by the server's own account.
    """

    text: str
    is_cut: bool
    is_withheld: bool


@runtime_checkable
class GivesText(Protocol):
    """A model that can be asked what follows a prompt, and shows text alone."""

    def make_prompt(self, turns: Sequence[Turn] | str) -> Prompt:
        """Return what is sent to have a text continued, or the turn after these."""
        ...

    def generate(self, prompts: Sequence[Prompt], max_tokens: int, keep: Callable[[int, GeneratedText], None]) -> None:
        """Ask for the likeliest continuation of each prompt.

        Args:
            prompts: from `make_prompt`.
            max_tokens: largest number of tokens that are generated.
            keep: called with the place of a prompt and its answer as soon as that has come, from several threads.

        Raises:
            EndpointError: no usable answer after all attempts; what was kept before is complete.
            divulge.InputError: refused requests.
        """
        ...

    def key(self) -> Mapping[str, Any]:
        """Return what determines the answers."""
        ...


def _generate(
    server: _Server,
    prompts: Sequence[Prompt],
    options: Mapping[str, Any],
    route: str,
    field: str,
    keep: Callable[[int, GeneratedText], None],
) -> None:
    def query(client: web.Client, place: int) -> GeneratedText:
        prompt = prompts[place]
        body = {"model": server.model, field: prompt, "temperature": 0, **options}
        secret = prompt if isinstance(prompt, str) else "\n".join(str(message.get("content")) for message in prompt)
        try:
            return _parse_text(post(server, client, route, body, secret))
        except _TooLongError as error:
            raise InputError(f"endpoint: a prompt is too long for it ({error}); ask with shorter ones") from None

    ask_each(server, range(len(prompts)), query, keep)


def _parse_text(answer: Any) -> GeneratedText:
    """Parse the text of an answer of either route.

    Raises:
        _TransientError: no text.
    """
    try:
        choice = answer["choices"][0]
        message = choice.get("message", {})
        text = message.get("content") if message else choice["text"]
        reason = choice.get("finish_reason")
        is_withheld = reason == "content_filter" or bool(message and message.get("refusal"))
    except (KeyError, IndexError, TypeError, AttributeError):
        raise _TransientError("the answer holds no text") from None
    if text is not None and not isinstance(text, str):
        raise _TransientError(f"the text of the answer is of type {type(text).__name__}")
    return GeneratedText(text or "", reason == "length", is_withheld)


def post(server: _Server, client: web.Client, route: str, body: Mapping[str, Any], secret: str) -> Any:
    """Post a request and return the JSON of the answer; messages hold nothing of ``secret``.

    Raises:
        _TransientError: 429, 5xx, no complete answer.
        _TooLongError: the prompt is too long.
        divulge.InputError: any other refusal, which another attempt would not change.
    """
    try:
        answer = client.post(f"{server.url}/{route}", content=json.dumps(body), media_type="application/json")
        excerpt = redact(answer.excerpt(), secret) if answer.status != 200 else ""
        asks_echo = bool(body.get("echo"))
        cannot_echo = asks_echo and answer.status not in (401, 403, 413, 429) and _NO_ECHO.search(excerpt)
        if (answer.status == 429 or answer.status >= 500) and not cannot_echo:
            raise _TransientError(f"status {answer.status}", answer.wait())
        if answer.status == 413 or (answer.status in (400, 422) and _TOO_LONG.search(answer.excerpt())):
            raise _TooLongError(f"{answer.status}: {excerpt}")
        if answer.status != 200:
            message = f"endpoint: {web.redact_url(server.url)} refused with {answer.status}: {excerpt}"
            is_hint_needed = cannot_echo or (asks_echo and answer.status in (404, 405, 501))
            raise InputError(f"{message}. {_WHAT_WORKS}" if is_hint_needed else message)
        return answer.json()
    except web.WebError as error:
        raise _TransientError(redact(str(error), secret)) from None


def ask_each(
    server: _Server,
    items: Sequence[_Item],
    query: Callable[[web.Client, _Item], _Answer],
    keep: Callable[[_Item, _Answer], None],
) -> None:
    """Ask about each item, several at a time, and keep each answer as it comes; after the first failure nothing more.

    The first is asked alone: a server that shows nothing is asked once, not as often as there are threads.

    Raises:
        EndpointError: no usable answer after all attempts.
        divulge.InputError: a refusal.
    """
    stop, clients = threading.Event(), _ClientPool(server)

    def ask(item: _Item) -> None:
        for attempt in range(server.retries + 1):
            if stop.is_set():
                return
            try:
                keep(item, query(clients.thread_client(), item))
                return
            except _TransientError as error:
                is_wait_too_long = error.wait is not None and error.wait > _LONGEST_REQUESTED_WAIT
                if attempt == server.retries or is_wait_too_long:
                    stop.set()
                    asks = f"; it asks for {error.wait:.0f} seconds of patience" if is_wait_too_long else ""
                    raise EndpointError(
                        f"endpoint: {web.redact_url(server.url)} gave no usable answer in {attempt + 1} attempts "
                        f"({clients.thread_client().hide(str(error))}){asks}; run the same command again to resume"
                    ) from None
                stop.wait(min(server.backoff * 2**attempt, _LONGEST_WAIT) if error.wait is None else error.wait)
            except BaseException:
                stop.set()
                raise

    with clients, ThreadPoolExecutor(server.concurrency) as pool:
        try:
            errors: list[BaseException] = []
            for batch in (items[:1], items[1:]):
                futures = [pool.submit(ask, item) for item in batch]
                errors += [error for error in (future.exception() for future in futures) if error is not None]
        except BaseException:  # Ctrl-C: what waits for its turn is not asked any more
            stop.set()
            raise
    for error in errors:
        raise error


class _CutPrompt(NamedTuple):
    """A document as a server is asked about it.

    Attributes:
        text: the document, with its marks, which stands for the answer in the journal.
        shown: what is sent.
        answer_start: where its answer begins in that; None where all of it is scored.
    """

    text: str
    shown: str
    answer_start: int | None


def _cut_prompt(text: str, length: int | None) -> _CutPrompt:
    dialogue = chats.parse_dialogue(text)
    shown = text if dialogue is None else chats.show_text(text)
    if dialogue is None or dialogue.tokens == "all":
        return _CutPrompt(shown[:length], shown[:length], None)
    if length is not None and len(shown) > length:
        raise InputError(
            f"length: a document of {len(shown)} characters would lose its answer, or a part of it, at {length}; where "
            "answers are scored alone, documents go whole"
        )
    return _CutPrompt(text, shown, chats.find_answer_spans(text)[-1][0])


def _refuse_chats(texts: Sequence[str]) -> None:
    if any(dialogue is not None and dialogue.is_chat for dialogue in map(chats.parse_dialogue, texts)):
        raise InputError(
            "target: an endpoint that scores texts puts no chat together, as no chat template is known here; render "
            "chats by the model's template and give what stands before the answer as prompt and the rest as answer "
            "(dv.from_prompts), or audit the model here (divulge.targets.CausalLM)"
        )


class _ClientPool:
    """A client for each thread, closed together."""

    def __init__(self, endpoint: _Server) -> None:
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


def _parse_log_probabilities(answer: Any, prompt: _CutPrompt) -> Floats:
    """Parse the log-probabilities of the prompt's tokens, checked against the server's count, or the tokens themselves.

    Raises:
        _TransientError: no answer, or another number than the prompt has tokens, or values that are none.
        _NoEchoError: an answer without them.
        divulge.InputError: nothing to check them by, or to find an answer by, which another attempt would not change.
    """
    text = prompt.shown
    echo, logprobs_field = _find_log_probabilities(answer, text)
    logprobs = logprobs_field["token_logprobs"]
    n_prompt_tokens = _count_prompt_tokens(answer, logprobs_field, text, len(logprobs))
    # A prompt that the server cut would be scored as if it were whole.
    if not isinstance(echo, str) or not echo:
        raise _NoEchoError("the answer does not repeat the prompt (echo), so a prompt that was cut could not be told")
    if _normalise_text(text) not in _normalise_text(echo):
        is_truncated = _normalise_text(echo) and _normalise_text(echo) in _normalise_text(text)
        raise _TransientError(
            "the server cut the prompt: only part of it is repeated"
            if is_truncated
            else "the answer repeats another text than the prompt"
        )
    values = logprobs[:n_prompt_tokens]
    n_skipped = int(bool(values) and values[0] is None)  # nothing predicts a first token without a BOS
    if prompt.answer_start is not None:
        n_skipped = max(n_skipped, _count_before_answer(logprobs_field, prompt, n_prompt_tokens))
    values = values[n_skipped:]
    for position, value in enumerate(values):
        if not is_log_probability(value):
            raise _TransientError(
                f"prompt log-probability {position} is {abbreviate(value, text)}; some are missing or positive"
            )
    return np.array(values, np.float64)


def _find_log_probabilities(answer: Any, text: str) -> tuple[Any, Mapping[str, Any]]:
    """Return the text that an answer repeats, and the field that lists log-probabilities, those of the prompt first."""
    try:
        choice = answer["choices"][0]
        echo, field = choice.get("text"), choice.get("logprobs")
        usage = answer.get("usage")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise _TransientError("the answer has no prompt log-probabilities") from None
    logprobs = field.get("token_logprobs") if isinstance(field, dict) else None
    if field is None or (isinstance(field, dict) and logprobs is None):
        raise _NoEchoError("the answer has no prompt log-probabilities")
    if not isinstance(logprobs, list):
        raise _TransientError(f"log-probabilities are {abbreviate(logprobs, text)}, not a list")
    if len(logprobs) > 1 and all(value is None for value in logprobs):
        raise _NoEchoError("all log-probabilities of the answer are missing")
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens", 0)) if isinstance(usage, dict) else (0, 0)
    if counts[0] and counts[1] == len(logprobs) != counts[0] and logprobs[:1] != [None]:
        raise _NoEchoError("the answer has log-probabilities of generated tokens alone, and none of the prompt's")
    return echo, field


def _count_before_answer(logprobs_field: Mapping[str, Any], prompt: _CutPrompt, n_prompt_tokens: int) -> int:
    """Count the tokens before the answer of a document, by the text of each token."""
    tokens, n_before = logprobs_field.get("tokens"), None
    is_readable = isinstance(tokens, list) and len(tokens) == len(logprobs_field["token_logprobs"])
    if is_readable and all(isinstance(token, str) for token in tokens):
        n_before = count_tokens_before(tokens[:n_prompt_tokens], prompt.shown, int(prompt.answer_start or 0))
    if n_before is None:
        raise InputError(
            "endpoint: the texts of its tokens (logprobs.tokens) do not show where the answer of a document begins, so "
            "answers cannot be scored alone; a model that runs here does (divulge.targets.CausalLM), and prompts with "
            'answers can be whole texts (tokens = "all")'
        )
    return n_before


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
    if count == n_prompt and n_completion == 1 and logprobs_field["token_logprobs"][:1] == [None]:
        return count  # vLLM generates, counts and does not show one token where none is asked for
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

    @property
    def answered(self) -> int:
        """Number of documents with log-probabilities."""
        return len(self._known) - len(self.refused)

    def keep(self, prompt: _CutPrompt, answer: Floats | _TooLongError) -> None:
        """Keep an answer, or that there will be none."""
        if isinstance(answer, _TooLongError):
            self.refuse(prompt.text, str(answer))
        else:
            self.put(prompt.text, answer)

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
