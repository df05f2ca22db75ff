"""HTTP client for untrusted servers: every exchange has a total deadline and a maximum size.

The raw body is counted and unpacked here, so a server that sends one byte a second, gigabytes, or a small archive that
unpacks to gigabytes is cut off at the limit. Messages never hold passwords or keys.
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

_MAX_EXCERPT = 200  # characters of an answer in a message
_MAX_PLAIN_WORD = 6  # characters up to which a word is taken to be no key
_HEADER_NAME, _HEADER_VALUE = re.compile(r"[!#-'*+.^-`|~\w-]+", re.ASCII), re.compile(r"([!-~]([ \t!-~]*[!-~])?)?")


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
        shown_url = redact_url(url) if isinstance(url, str) else url
        raise InputError(f"{name}: an http:// or https:// address is needed, got {format_value(shown_url)}")
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
    scheme, mark, location = text.partition("://")
    if not mark:
        return text.rpartition("@")[2]
    host, slash, path = location.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def check_headers(headers: Mapping[str, str], name: str) -> None:
    """Check that headers can be sent; their values, which may be keys, are not shown.

    Raises:
        divulge.InputError: a name or value with line breaks, letters that are not ASCII, or spaces around it.
    """
    for key, value in headers.items():
        if not _HEADER_NAME.fullmatch(key) or not _HEADER_VALUE.fullmatch(value):
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


def _possible_keys(*values: str) -> tuple[str, ...]:
    """List the words of header values or a query that may be a key: a server may repeat it without its "Bearer"."""
    return tuple(word for value in values for word in re.split(r"[\s;,=&]+", value) if len(word) > _MAX_PLAIN_WORD)


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
            return json.loads(self.body.decode("utf-8"), parse_constant=_refuse_constant)
        except UnicodeDecodeError as error:
            raise WebError(f"the answer is not UTF-8 (byte {error.start})") from None
        except RecursionError:
            raise WebError("the answer is nested too deeply") from None
        except ValueError as error:
            raise WebError(f"the answer is not complete JSON ({str(error)[:_MAX_EXCERPT]})") from None

    def excerpt(self) -> str:
        """Return the beginning of the body for a message: printable, and without the secrets that were sent."""
        text = redact(self.body.decode("utf-8", "replace"), self.secrets)[:_MAX_EXCERPT]
        return "".join(c if c.isprintable() else " " for c in text).strip()

    def wait(self) -> float | None:
        """Return the seconds that the server asks to wait; None if it names none, or nothing that is a time.

        Examples:
            >>> HttpAnswer(429, {"x-ratelimit-reset-requests": "250ms"}, b"").wait()
            0.25
            >>> HttpAnswer(429, {"retry-after": "-5"}, b"").wait()
        """
        names = ("retry-after", "x-ratelimit-reset-requests", "x-ratelimit-reset-tokens", "ratelimit-reset")
        return next(
            (seconds for name in names if (seconds := _parse_seconds(self.headers.get(name))) is not None), None
        )


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not a number in JSON")


def _parse_seconds(value: str | None) -> float | None:
    """Parse a number of seconds or milliseconds, or an HTTP date; None for anything else."""
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
    """Client for one server and one exchange at a time; each thread needs its own.

    Args:
        timeout: seconds for a whole exchange, from connecting to the last byte of the answer.
        headers: sent with every request; their values are kept out of messages.
        max_bytes: largest answer, packed or unpacked.
        verify: whether certificates are needed (loading them takes longer than a plain exchange).

    Raises:
        divulge.MissingExtraError: httpx is not installed (extra "http").
    """

    def __init__(
        self,
        *,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = MAX_BYTES,
        verify: bool = True,
    ) -> None:
        values = tuple((headers or {}).values())
        self._timeout, self._max_bytes = timeout, max_bytes
        self._secrets = (*values, *_possible_keys(*values))
        # No packed answer is requested; one that comes all the same is unpacked within the limit.
        all_headers = {"accept-encoding": "identity", **(headers or {})}
        self._client = httpx.Client(headers=all_headers, timeout=timeout, verify=verify)
        self._sockets: list[socket.socket] = []
        self._is_late = threading.Event()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def post(self, url: str, *, content: str, media_type: str) -> HttpAnswer:
        """Post ``content`` and return the answer.

        Raises:
            WebError: no connection, the deadline or the size exceeded, an answer that cannot be unpacked.
        """
        query = urlsplit(url).query
        secrets = (*self._secrets, *_possible_keys(query, unquote_plus(query)))
        try:
            status, headers, body = self._exchange(url, content, media_type)
        except WebError as error:
            raise WebError(redact(str(error), secrets)[:_MAX_EXCERPT]) from None
        return HttpAnswer(status, headers, body, secrets)

    def hide(self, text: str) -> str:
        """Remove the values of the headers from a text."""
        return redact(text, self._secrets)

    def _exchange(self, url: str, content: str, media_type: str) -> tuple[int, dict[str, str], bytes]:
        is_late = self._is_late = threading.Event()
        alarm = threading.Timer(self._timeout, self._cut_off, [is_late])
        alarm.daemon = True
        alarm.start()
        try:
            with self._client.stream(
                "POST",
                url,
                content=content,
                headers={"content-type": media_type},
                extensions={"trace": self._track_socket},
            ) as response:
                body = self._read_body(response)
                headers = {name.lower(): value for name, value in response.headers.items()}
                return response.status_code, headers, body
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            if is_late.is_set() or isinstance(error, httpx.TimeoutException):  # whichever clock is first
                raise WebError(f"the answer was incomplete after {self._timeout:g} seconds") from None
            raise WebError(f"{type(error).__name__}: {error}") from None
        finally:
            alarm.cancel()

    def _track_socket(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep the sockets of this client, so that an exchange past its deadline can be cut off."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            new_socket = info["return_value"].get_extra_info("socket")
            if new_socket is not None:
                self._sockets = [*(each for each in self._sockets if each.fileno() != -1), new_socket]
            if self._is_late.is_set():  # looking the name up took all the time there was
                self._cut_off(self._is_late)

    def _cut_off(self, is_late: threading.Event) -> None:
        """Close the connection under a read that would never end."""
        is_late.set()
        for each in self._sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed before

    def _read_body(self, response: httpx.Response) -> bytes:
        encoding = response.headers.get("content-encoding", "").strip()
        if encoding.lower() not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise WebError(f"the answer is packed as {encoding!r}, which was not requested")
        body = bytearray()  # not a list of parts, which may be of a byte each
        for part in response.iter_raw():
            if len(body) + len(part) > self._max_bytes:
                raise WebError(f"the answer is larger than {self._max_bytes} bytes")
            body += part
        if encoding.lower() in ("", "identity"):
            return bytes(body)
        return _unpack(bytes(body), encoding.lower(), self._max_bytes)


def _unpack(packed: bytes, encoding: str, max_bytes: int) -> bytes:
    """Unpack a gzip or deflate stream of at most ``max_bytes``.

    Raises:
        WebError: a damaged or unfinished stream, or one that unpacks to more.
    """
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | (16 if "gzip" in encoding else 0))
    try:
        content = unpack.decompress(packed, max_bytes + 1)
    except zlib.error as error:
        raise WebError(f"the answer cannot be unpacked ({error})") from None
    if len(content) > max_bytes:
        raise WebError(f"the answer unpacks to more than {max_bytes} bytes")
    if not unpack.eof:
        raise WebError("the answer's packed content is cut off")
    return content
