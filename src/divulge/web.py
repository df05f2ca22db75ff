"""HTTP with servers that nobody vouches for: every answer has a deadline and a size, whatever the server does.

An answer is taken byte by byte from the wire: a server that sends one byte a second, gigabytes, or a small archive
that unpacks to gigabytes, meets the bound and costs no more. Messages never hold passwords or keys.
"""

from __future__ import annotations

import json
import math
import re
import socket
import threading
import time
import zlib
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus, urlsplit

from divulge import lazy
from divulge.errors import InputError
from divulge.validation import format_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx
else:
    httpx = lazy.module("httpx")

MAX_BYTES = 64 << 20
"""Largest answer that is read, unpacked."""

_EXCERPT = 200
_WORD = 6  # characters of a word that is no key
_NAME, _VALUE = re.compile(r"[!#-'*+.^-`|~\w-]+", re.ASCII), re.compile(r"([!-~]([ \t!-~]*[!-~])?)?")


class WebError(Exception):
    """An exchange that gave no usable answer; its text says what happened. Another attempt may succeed."""


def check_url(url: object, name: str) -> str:
    """Return ``url`` if it is an HTTP address without a password in it.

    Raises:
        divulge.InputError: no text, no http:// or https://, no host, or a user name or password in the address.

    Examples:
        >>> check_url("http://127.0.0.1:8000/v1", "endpoint")
        'http://127.0.0.1:8000/v1'
    """
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InputError(f"{name}: an http:// or https:// address is needed, got {_said(url)}")
    if parts.username is not None or parts.password is not None:
        raise InputError(
            f"{name}: {redact_url(url)} holds a user name or password, which would be saved with the results; "
            "send it as a header, or set the key in the environment"
        )
    return str(url)


def redact_url(url: object) -> str:
    """Remove user name, password and query from an address, for messages and files.

    Examples:
        >>> redact_url("https://me:secret@host/score?token=secret")
        'https://host/score'
    """
    text = str(url).split("?", 1)[0].split("#", 1)[0]
    scheme, mark, rest = text.partition("://")
    if not mark:
        return text.rpartition("@")[2]
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def check_headers(given: Mapping[str, str], name: str) -> None:
    """Check that headers can be sent; their values, which may be keys, are not shown.

    Raises:
        divulge.InputError: a name or value with line breaks, letters that are not ASCII, or spaces around it.
    """
    for key, value in given.items():
        if not _NAME.fullmatch(key) or not _VALUE.fullmatch(value):
            raise InputError(
                f"{name}: {format_value(key)} cannot be sent: its name or value holds a line break, spaces around it "
                "or characters that are not ASCII"
            )


def redact(text: str, secrets: tuple[str, ...]) -> str:
    r"""Remove secrets from a text, however it escapes them.

    Examples:
        >>> redact(r"wrong key 'a\\b'", ("a\\b",))
        "wrong key '…'"
    """
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]):
            text = text.replace(form, "…")
    return text


def _words(*sent: str) -> tuple[str, ...]:
    """List the words of header values or a query that may be a key: a server may repeat it without its "Bearer"."""
    return tuple(word for value in sent for word in re.split(r"[\s;,=&]+", value) if len(word) > _WORD)


def _said(url: object) -> str:
    return format_value(redact_url(url) if isinstance(url, str) else url)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Complete response of a server, within the size limit.

    Args:
        status: HTTP's.
        headers: names in lower case.
        body: unpacked.
        secrets: texts that no message may show.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    secrets: tuple[str, ...] = ()

    def json(self) -> Any:
        """Parse the body as JSON.

        Raises:
            WebError: not UTF-8, not JSON, NaN or infinity (which JSON has not), nested too deeply to read.
        """
        try:
            return json.loads(self.body.decode("utf-8"), parse_constant=_refused)
        except UnicodeDecodeError as error:
            raise WebError(f"the answer is not UTF-8 (byte {error.start})") from None
        except RecursionError:
            raise WebError("the answer is nested too deeply") from None
        except ValueError as error:
            raise WebError(f"the answer is not complete JSON ({str(error)[:_EXCERPT]})") from None

    def excerpt(self) -> str:
        """Return the beginning of the body for a message: printable, and without the secrets that were sent."""
        text = redact(self.body.decode("utf-8", "replace"), self.secrets)[:_EXCERPT]
        return "".join(c if c.isprintable() else " " for c in text).strip()

    def wait(self) -> float | None:
        """Return the seconds that the server asks to wait; None if it names none, or nothing that is a time.

        Examples:
            >>> HttpAnswer(429, {"x-ratelimit-reset-requests": "250ms"}, b"").wait()
            0.25
            >>> HttpAnswer(429, {"retry-after": "-5"}, b"").wait()
        """
        names = ("retry-after", "x-ratelimit-reset-requests", "x-ratelimit-reset-tokens", "ratelimit-reset")
        return next((seconds for name in names if (seconds := _seconds(self.headers.get(name))) is not None), None)


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is not a number in JSON")


def _seconds(value: str | None) -> float | None:
    text = (value or "").strip()
    unit = 1e-3 if text.endswith("ms") else 1.0
    try:
        seconds = float(text.removesuffix("ms").removesuffix("s").strip()) * unit
    except ValueError:
        try:
            seconds = max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def require_httpx() -> None:
    """Raise where there is no HTTP library, before work starts.

    Raises:
        divulge.MissingExtraError: httpx is not installed (extra "http").
    """
    _ = httpx.__version__


class Client:
    """Posts to one server, one exchange at a time; a thread of its own each.

    Args:
        timeout: seconds for a whole exchange, from connecting to the last byte of the answer.
        headers: sent with every request; their values are kept out of messages.
        most: largest answer in bytes, packed or unpacked.
        secure: whether certificates will be needed (loading them takes longer than a plain exchange).

    Raises:
        divulge.MissingExtraError: httpx is not installed (extra "http").
    """

    def __init__(
        self,
        *,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        most: int = MAX_BYTES,
        secure: bool = True,
    ) -> None:
        given = dict(headers or {})
        self._timeout, self._most = timeout, most
        self._secrets = (*given.values(), *_words(*given.values()))
        # Packed answers are not asked for; a server that packs all the same is unpacked with a bound, below.
        sent = {"accept-encoding": "identity", **given}
        self._client = httpx.Client(headers=sent, timeout=timeout, verify=secure)
        self._sockets: list[socket.socket] = []
        self._late = threading.Event()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def post(self, url: str, *, content: str, kind: str) -> HttpAnswer:
        """Send ``content`` as the media type ``kind``, and return the answer.

        Raises:
            WebError: no connection, the deadline or the size exceeded, an answer that cannot be unpacked.
        """
        query = urlsplit(url).query
        secrets = (*self._secrets, *_words(query, unquote_plus(query)))
        try:
            status, headers, body = self._exchange(url, content, kind)
        except WebError as error:
            raise WebError(redact(str(error), secrets)[:_EXCERPT]) from None
        return HttpAnswer(status, headers, body, secrets)

    def hide(self, text: str) -> str:
        """Remove the values of the headers from a text."""
        return redact(text, self._secrets)

    def _exchange(self, url: str, content: str, kind: str) -> tuple[int, dict[str, str], bytes]:
        late = self._late = threading.Event()
        alarm = threading.Timer(self._timeout, self._cut, [late])
        alarm.daemon = True
        alarm.start()
        try:
            with self._client.stream(
                "POST", url, content=content, headers={"content-type": kind}, extensions={"trace": self._watch}
            ) as response:
                body = self._body(response)
                headers = {name.lower(): value for name, value in response.headers.items()}
                return response.status_code, headers, body
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            if late.is_set() or isinstance(error, httpx.TimeoutException):  # whichever clock is first
                raise WebError(f"the answer was incomplete after {self._timeout:g} seconds") from None
            raise WebError(f"{type(error).__name__}: {error}") from None
        finally:
            alarm.cancel()

    def _watch(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep the sockets of this client, so that an exchange past its deadline can be cut off."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            socket = info["return_value"].get_extra_info("socket")
            if socket is not None:
                self._sockets = [*(known for known in self._sockets if known.fileno() != -1), socket]
            if self._late.is_set():  # looking the name up took all the time there was
                self._cut(self._late)

    def _cut(self, late: threading.Event) -> None:
        """Close the connection under a read that would never end."""
        late.set()
        for known in self._sockets:
            try:
                known.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed before

    def _body(self, response: httpx.Response) -> bytes:
        sent = response.headers.get("content-encoding", "").strip()
        packed = sent.lower()
        if packed not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise WebError(f"the answer is packed as {sent!r}, which was not requested")
        body = bytearray()  # not a list of parts, which may be of a byte each
        for part in response.iter_raw():
            if len(body) + len(part) > self._most:
                raise WebError(f"the answer is larger than {self._most} bytes")
            body += part
        whole = bytes(body)
        return whole if packed in ("", "identity") else _unpacked(whole, packed, self._most)


def _unpacked(packed: bytes, kind: str, most: int) -> bytes:
    """Unpack a gzip or deflate stream of at most ``most`` bytes.

    Raises:
        WebError: a damaged or unfinished stream, or one that unpacks to more.
    """
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | (16 if "gzip" in kind else 0))
    try:
        content = unpack.decompress(packed, most + 1)
    except zlib.error as error:
        raise WebError(f"the answer cannot be unpacked ({error})") from None
    if len(content) > most:
        raise WebError(f"the answer unpacks to more than {most} bytes")
    if not unpack.eof:
        raise WebError("the answer's packed content is cut off")
    return content
