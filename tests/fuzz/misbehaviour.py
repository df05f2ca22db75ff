"""What a server can do wrong with a right answer: bytes by a name."""

import gzip
import itertools
import json
import zlib

from divulge import web
from wire import page

SECRET = "very-secret-key"  # was sent with the request, and comes back wherever a server can put it
_HEAD = b"HTTP/1.1 200 OK\r\nconnection: close\r\n"
_BOMB = gzip.compress(bytes(web.MAX_BYTES + 1), 1)
_LATER = "Fri, 31 Dec 9999 23:59:59 GMT"


def _plain(body):
    return [page(body)]


def _encoded(pack, encoding):
    return lambda body: [page(pack(body), f"content-encoding: {encoding}")]


def _with(*headers, status="200 OK", content=None):
    return lambda body: [page(body if content is None else content, *headers, status=status)]


def _raw(head, after=b""):
    return lambda body: [head + body + after]


def _chunked(content):
    return lambda body: [_HEAD + b"transfer-encoding: chunked\r\n\r\n" + content(body)]


def _forever(start, part):
    return lambda body: itertools.chain([start], itertools.repeat(part))


def _chunk(body):
    return b"%x\r\n%s\r\n" % (len(body), body)


def _busy(status, *headers):
    return {f"{status[:3]}, {header}": _with(header, status=status) for header in headers}


WAITS = [f"retry-after: {value}" for value in ("-5", "nan", "1e9", "inf", "9" * 400, _LATER, "soon", "", "0", SECRET)]

# The answer is right, and so must be what is made of it.
RIGHT = {
    "as it should be": _plain,
    "without a length": _raw(_HEAD + b"\r\n"),
    "in chunks": _chunked(lambda body: _chunk(body[:3]) + _chunk(body[3:]) + b"0\r\n\r\n"),
    "packed though not asked": _encoded(gzip.compress, "gzip"),
    "deflated though not asked": _encoded(zlib.compress, "deflate"),
    "packed, and more behind": _encoded(lambda body: gzip.compress(body) + b"more", "gzip"),
    "of another type": _with("content-type: text/html"),
    "of another alphabet, it says": _with("content-type: application/json; charset=utf-16"),
    "more behind its length": lambda body: [page(body + b"more", length=len(body))],
    "of a later HTTP": _raw(b"HTTP/9.9 200 OK\r\n\r\n"),
    "told to go on": lambda body: [b"HTTP/1.1 100 Continue\r\n\r\n" + page(body)],
}

# Nothing of it is an answer.
WRONG = {
    "nothing": lambda body: [],
    "a line and no more": lambda body: [b"HTTP/1.1 200 OK\r\n"],
    "no HTTP": lambda body: [b"220 mail ready " + SECRET.encode() + b"\r\n\r\n" + body],
    "status 99": _with(status="099 Low"),
    "status 1000": _with(status="1000 High"),
    "status -200": _with(status="-200 No"),
    "status 204": _with(status="204 Nothing"),
    "status 304": _with(status="304 As before"),
    "another protocol": lambda body: [b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n" + body],
    "a reason with the key": _with(status=f"403 {SECRET} \x1b[31m"),
    "a name with spaces": _with(f"a {SECRET} b: c"),
    "zero bytes in a header": _with(f"a: \0{SECRET}"),
    "a header without end": _forever(b"HTTP/1.1 200 OK\r\na: ", b"a" * 65536),
    "headers without end": _forever(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 1000),
    "a body without end": _forever(_HEAD + b"\r\n", b"1" * (1 << 20)),
    "a length beyond all bounds": lambda body: [page(body, length=10**18)],
    "a length of -1": lambda body: [page(body, length=-1)],
    "no number as length": lambda body: [page(body, length=SECRET)],
    "two lengths": lambda body: [page(body, "content-length: 3")],
    "cut off": lambda body: [page(body[: len(body) // 2], length=len(body))],
    "cut off without a length": lambda body: [_HEAD + b"\r\n" + body[: len(body) // 2]],
    "a length too short": lambda body: [page(body, length=len(body) - 1)],
    "chunks cut off": _chunked(_chunk),
    "a chunk cut off": _chunked(lambda body: _chunk(body)[:-4]),
    "no size of a chunk": _chunked(lambda body: SECRET.encode() + b"\r\n" + body),
    "a negative chunk": _chunked(lambda body: b"-5\r\n" + body + b"\r\n0\r\n\r\n"),
    "a vast chunk": _chunked(lambda body: b"f" * 19 + b"\r\n" + body),
    "an encoding of no name": _with("transfer-encoding: " + SECRET),
    "packed by no name": _with("content-encoding: " + SECRET),
    "packed as br": _with("content-encoding: br"),
    "packed twice": _encoded(lambda body: gzip.compress(gzip.compress(body)), "gzip"),
    "packed twice, it says": _encoded(lambda body: gzip.compress(gzip.compress(body)), "gzip, gzip"),
    "packed, cut off": _encoded(lambda body: gzip.compress(body)[:-9], "gzip"),
    "packed, damaged": _encoded(lambda body: gzip.compress(body)[:12] + b"\xff\0" + gzip.compress(body)[14:], "gzip"),
    "packed, not": _with("content-encoding: gzip"),
    "packed nothing": _with("content-encoding: gzip", content=b""),
    "packed by far": _encoded(lambda body: _BOMB, "gzip"),
    "empty": _with(content=b""),
    "spaces": _with(content=b"  \r\n "),
    "zeros": lambda body: [page(bytes(len(body)))],
    "a page": _with("content-type: text/html", content=b"<html><h1>Welcome</h1></html>"),
    "bad UTF-8": lambda body: [page(b"\xff\xfe" + body)],
    "bad UTF-8 inside": lambda body: [page(body.replace(b"{", b'{"\xed\xa0\x80": 1, ', 1))],
    "UTF-16": lambda body: [page(body.decode().encode("utf-16"))],
    "two documents": lambda body: [page(body + body)],
    "a comma too many": lambda body: [page(body[:-1] + b",}")],
    "deep": _with(content=b"[" * 200_000),
    "deep, closed": _with(content=b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "digits": _with(content=b"9" * 100_000),
    "a refusal with the key": _with(status="401 No", content=f"wrong key: {SECRET}\x1b[2J\u202e".encode()),
    "a refusal that is long": _with(status="400 No", content=b"x" * 100_000),
    "a refusal that is binary": _with(status="422 No", content=bytes(range(256))),
    **{
        f"sent on with {status} to {to}": _with(f"location: {to}", status=f"{status} Elsewhere", content=b"")
        for status, to in itertools.product(
            (301, 307), ("/v1/elsewhere", "http://localhost:1/", "file:///etc/passwd", "", "//", SECRET, "\x7f\xff")
        )
    },
    **_busy("429 Busy", *WAITS, "x-ratelimit-reset-requests: 1e9s", "ratelimit-reset: -1"),
    **_busy("503 Busy", *WAITS),
    **_busy("500 Broken", "a: b"),
}

# Nothing comes of it unless somebody stops waiting.
SLOW = {
    "silence": lambda body: [],
    "a byte now and then": lambda body: [bytes([byte]) for byte in page(body, "a: " + "b" * 1000)],
    "a body of a byte now and then": lambda body: [page(body, length=10**6), *itertools.repeat(b"1", 10**4)],
    "told to go on without end": _forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "the end is missing": lambda body: [page(body, length=len(body) + 1)],
}

# In the place of a number: the JSON, and the number that it is; None: there is no number in it.
NUMBERS = {
    "-0": 0.0,
    "-0.0": 0.0,
    "-1e-320": -1e-320,
    "-5": -5.0,
    "-1e200": -1e200,
    "1e400": None,
    "-1e400": None,
    "1" + "0" * 400: None,
    "-1" + "0" * 400: None,
    "9" * 5000: None,
    "NaN": None,
    "Infinity": None,
    "-Infinity": None,
    "true": None,
    "false": None,
    '""': None,
    '"abc"': None,
    '"NaN"': None,
    '"-1_000"': None,
    '"\u0663"': None,
    '"0x10"': None,
    f'"{SECRET}"': None,
    "[]": None,
    "[-0.5]": None,
    "{}": None,
    "+1": None,
    ".5": None,
    "01": None,
    "1.": None,
}

# In the place of the whole answer.
SHAPES = [
    *("[]", "{}", "null", "true", "NaN", '""', "[1]", "1 2", "1_000", "1e999", "9" * 600, "0x10", "\u0663", "1;2"),
    json.dumps([[SECRET]]),
    json.dumps({SECRET: SECRET}),
    '{"score": {"score": 1}}',
    *(json.dumps({"choices": part}) for part in ([], {}, "ab", 3, [None], [[]], [{}], [{"logprobs": SECRET}])),
    *(json.dumps({"choices": [{"logprobs": {"token_logprobs": part}}]}) for part in (None, {}, SECRET, [[]], [SECRET])),
]

# In the place of a count of tokens that is 3: none of these is.
COUNTS = ["-3", "-0", "true", "3.0", "3e0", '"3"', "null", "[]", "{}", "1" + "0" * 400, "NaN", "Infinity", "2", "4"]
