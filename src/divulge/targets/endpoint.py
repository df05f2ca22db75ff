"""OpenAI-compatible completion servers (vLLM, SGLang, …): the log-probabilities of a prompt over HTTP."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks
from divulge.targets.statistics import TokenStatistics

try:
    import httpx
except ImportError:  # pragma: no cover - exercised by the light install
    raise checks.extra("httpx", "http") from None

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Floats

KEYS = ("DIVULGE_API_KEY", "OPENAI_API_KEY")
_LONGEST_WAIT = 60.0


class EndpointError(checks.InputError):
    """The server gave no usable answer; what was answered before is kept and a second run goes on from there."""


class _PassingError(Exception):
    """Worth another attempt, after ``wait`` seconds if the server named them."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model behind ``POST {url}/completions`` with ``echo`` and ``logprobs``.

    Such a server shows the log-probability of the prompt's own tokens and nothing of the rest of the
    vocabulary: perplexity, zlib and Min-K% can be had, Min-K%++ and entropies cannot. Their number is
    compared with the server's own count of the prompt's tokens before any is believed, as some servers
    return none, or those of the completion alone.

    The key is read from the environment (DIVULGE_API_KEY, else OPENAI_API_KEY) and never written.

    Args:
        url: base address, ``http://host:8000/v1``.
        model: name of the model on the server.
        concurrency: requests under way at a time.
        retries: further attempts after a failed one (429, 5xx, cut connection, damaged answer).
        backoff: seconds before the second attempt, doubled each time, at most a minute; a Retry-After or
            rate-limit header of the server takes precedence.
        timeout: seconds to wait for an answer.
        journal: file that takes each answer as it comes, so that a second run asks for none of them again.

    Raises:
        divulge.InputError: an address that is not HTTP, numbers out of range.

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
    journal: Path | None = None

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise checks.InputError(f"endpoint: an http:// or https:// address is needed, got {self.url!r}")
        if not self.model:
            raise checks.InputError("model: the name of the model on the server is needed")
        object.__setattr__(self, "url", self.url.rstrip("/"))
        checks.integer(self.concurrency, "concurrency", least=1)
        checks.integer(self.retries, "retries", least=0)
        checks.number(self.backoff, "backoff", above=0)
        checks.number(self.timeout, "timeout", above=0)

    def key(self) -> Mapping[str, Any]:
        """What decides the numbers, as far as a client can know."""
        return {"endpoint": self.url, "model": self.model}

    def tokens(self, texts: Sequence[str], *, vocabulary: bool = True) -> TokenStatistics:
        """Log-probabilities of each text's tokens; an empty text keeps its row without asking.

        Args:
            texts: the documents.
            vocabulary: other targets show more when it is asked for; this one cannot.

        Raises:
            EndpointError: no usable answer after all attempts; the answers that came are in the journal.
            divulge.InputError: refused requests (wrong key, unknown model, text too long).
        """
        known = _Journal(self.journal)
        wanted = list(dict.fromkeys(text for text in texts if text and text not in known))
        with self._client() as client, ThreadPoolExecutor(self.concurrency) as pool:
            stop = threading.Event()
            found = [pool.submit(self._ask, client, text, known, stop) for text in wanted]
            errors = [error for error in (future.exception() for future in found) if error is not None]
        for error in errors:
            raise error
        return TokenStatistics.of(texts, [{"logp": known[text] if text else np.empty(0)} for text in texts])

    def _client(self) -> httpx.Client:
        key = next((os.environ[name] for name in KEYS if os.environ.get(name)), None)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=self.concurrency)
        return httpx.Client(base_url=self.url, headers=headers, timeout=self.timeout, limits=limits)

    def _ask(self, client: httpx.Client, text: str, known: _Journal, stop: threading.Event) -> None:
        """Put one answer into the journal; after the first failure nothing more is asked."""
        for attempt in range(self.retries + 1):
            if stop.is_set():
                return
            try:
                known.put(text, self._once(client, text))
                return
            except _PassingError as error:
                if attempt == self.retries:
                    stop.set()
                    raise EndpointError(
                        f"endpoint: {self.url} gave no usable answer in {attempt + 1} attempts ({error}); "
                        "run the same command again to go on from here"
                    ) from None
                wait = self.backoff * 2**attempt if error.wait is None else error.wait
                time.sleep(min(wait, _LONGEST_WAIT))
            except BaseException:
                stop.set()
                raise

    def _once(self, client: httpx.Client, text: str) -> Floats:
        body = {"model": self.model, "prompt": text, "echo": True, "logprobs": 1, "max_tokens": 0, "temperature": 0}
        try:
            answer = client.post("/completions", json=body)
        except httpx.TransportError as error:
            raise _PassingError(f"{type(error).__name__}: {error}") from None
        if answer.status_code == 429 or answer.status_code >= 500:
            raise _PassingError(f"status {answer.status_code}", _wait(answer.headers))
        if answer.status_code != 200:
            raise checks.InputError(f"endpoint: {self.url} refused with {answer.status_code}: {answer.text[:300]}")
        try:
            return _logprobs(answer.json())
        except json.JSONDecodeError:
            raise _PassingError("the answer is not whole JSON") from None


def _wait(headers: httpx.Headers) -> float | None:
    """Seconds the server asks to wait, from Retry-After or the rate-limit headers in use.

    Examples:
        >>> _wait(httpx.Headers({"x-ratelimit-reset-requests": "250ms"}))
        0.25
    """
    for name in ("retry-after", "x-ratelimit-reset-requests", "x-ratelimit-reset-tokens", "ratelimit-reset"):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|)", headers.get(name, "").strip())
        if found:
            return float(found[1]) * (1e-3 if found[2] == "ms" else 1.0)
    return None


def _logprobs(answer: Any) -> Floats:
    """The log-probabilities of the prompt's tokens, checked against the server's own count.

    Raises:
        _PassingError: none, or another number than the prompt has tokens.
    """
    try:
        found = answer["choices"][0]["logprobs"]["token_logprobs"]
        prompt = int(answer["usage"]["prompt_tokens"])
        extra = int(answer["usage"].get("completion_tokens") or 0)
    except (KeyError, IndexError, TypeError, ValueError):
        raise _PassingError("the answer has no prompt log-probabilities, or no token count to check them by") from None
    if not isinstance(found, list) or len(found) != prompt + extra:
        number = len(found) if isinstance(found, list) else 0
        raise _PassingError(f"{number} log-probabilities for {prompt} prompt and {extra} other tokens")
    values = found[:prompt]
    values = values[1:] if values and values[0] is None else values  # nothing predicts a first token without a BOS
    if not all(isinstance(value, int | float) and value <= 1e-6 for value in values):
        raise _PassingError("some prompt log-probabilities are missing or positive")
    return np.array(values, np.float64)


class _Journal:
    """Answers so far by digest of the text, in memory and, line by line, in a file."""

    def __init__(self, path: Path | None) -> None:
        self.path, self._lock = path, threading.Lock()
        self._known: dict[str, Floats] = {}
        if path is None or not path.exists():
            return
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
                self._known[entry["text"]] = np.array(entry["logp"], np.float64)
            except (json.JSONDecodeError, KeyError, TypeError):
                continue  # the last line of a killed run may be cut

    def __contains__(self, text: str) -> bool:
        return _digest(text) in self._known

    def __getitem__(self, text: str) -> Floats:
        return self._known[_digest(text)]

    def put(self, text: str, values: Floats) -> None:
        with self._lock:
            self._known[_digest(text)] = values
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a", encoding="utf-8") as out:
                    # A leading line break ends whatever a killed run left half-written.
                    out.write("\n" + json.dumps({"text": _digest(text), "logp": values.tolist()}))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
