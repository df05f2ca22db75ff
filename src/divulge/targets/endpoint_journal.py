"""Answers of an endpoint that survive a crash: each is on disk before the next is asked for."""

from __future__ import annotations

import hashlib
import json
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import store
from divulge.errors import InputError
from divulge.validation import format_exception

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from divulge.types import Floats


_RUN = 6  # letters and digits in a row that a message and a document share by more than chance


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
        self._read(path, dict(key))

    def _read(self, path: Path, key: dict[str, Any]) -> None:
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
        if head != key:
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
        if not isinstance(values, list) or not all(likely(value) for value in values):
            raise InputError(f"{path}: an entry holds no log-probabilities: {short(entry)}")
        self._known[str(name)] = np.array(values, np.float64)

    def __contains__(self, text: str) -> bool:
        return digest(text) in self._known

    def __getitem__(self, text: str) -> Floats:
        return self._known[digest(text)]

    def put(self, text: str, values: Floats) -> None:
        """Keep an answer."""
        with self._lock:
            self._known[digest(text)] = values
            self._write({"text": digest(text), "logp": values.tolist()})

    def refuse(self, text: str, reason: str) -> None:
        """Keep that the server cannot take a document."""
        with self._lock:
            self._known[digest(text)] = np.empty(0)
            self.refused[digest(text)] = reason
            self._write({"text": digest(text), "refused": reason})

    def _write(self, entry: Mapping[str, Any]) -> None:
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as out:
                # A leading line break ends whatever a killed run left half-written.
                out.write("\n" + json.dumps(entry))


def digest(text: str) -> str:
    """What stands for a document."""
    return hashlib.sha256(text.encode()).hexdigest()


def likely(value: object) -> bool:
    """Whether a value is a log-probability: a finite number of at most 0, rounding apart.

    Examples:
        >>> likely(-1.5), likely(True), likely(float("-inf"))
        (True, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value <= 1e-6


def short(value: object, text: str = "") -> str:
    """A value a server sent, short enough for a message, and without what it repeats of a document."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**18:
        return f"an integer of {value.bit_length()} bits"
    said = repr(value)
    return without(said if len(said) <= 60 else f"{said[:57]}…", text)


def without(said: str, text: str) -> str:
    r"""What a server says, without what it repeats of a document: messages and journals hold no text.

    Runs of six letters or digits that stand in the document are left out, however many marks or escapes lie between.

    Examples:
        >>> without("bad input 'I was\\nborn in May' (max 40 tokens)", "I was\nborn in May")
        "bad input '…' (max 40 tokens)"
    """
    forms = {_plain(form) for form in (text, json.dumps(text), json.dumps(text, ensure_ascii=False))}
    places = [at for at, sign in enumerate(said) for _ in _plain(sign)]
    plain, needed = _plain(said), min(_RUN, *map(len, forms))
    out: set[int] = set()
    for first in range(len(plain) - needed + 1 if needed else 0):
        if any(plain[first : first + needed] in form for form in forms):
            out.update(range(places[first], places[first + needed - 1] + 1))
    return "".join("" if at in out and at - 1 in out else "…" if at in out else sign for at, sign in enumerate(said))


def _plain(text: str) -> str:
    return "".join(sign for sign in text.casefold() if sign.isalnum())
