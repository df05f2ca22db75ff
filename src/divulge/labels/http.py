"""An oracle behind HTTP: submissions go up as CSV, scores come down as JSON or plain text."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from divulge import web
from divulge.errors import InputError
from divulge.labels.journal import Submission
from divulge.labels.quota import QuotaReachedError
from divulge.validation import check_instance, check_integer, check_number, check_string, check_strings

if TYPE_CHECKING:
    from divulge.types import Array

_NUMBER = re.compile(r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE)
_LONGEST = 1000  # characters of a number


@dataclass(frozen=True, slots=True, eq=False)
class HttpOracle:
    """Posts each submission to ``url`` and reads the score from the answer.

    Args:
        url: where submissions are posted (body: the CSV).
        submission: the format of the file.
        headers: sent along (a token, a team's name).
        key: where the score stands in a JSON answer, levels separated by dots; an answer that is a plain number
            is read as it is.
        retries: how often a failed request (no connection, a status of 500 or above) is tried again.
        pause: seconds before the first retry; doubled each time.
        patience: a "429 too many requests" that asks to wait no longer than this is waited for; a longer one
            means that the quota is used up.
        timeout: seconds for one answer, from connecting to its last byte.

    Raises:
        divulge.InputError: an address that is not HTTP or holds a password.

    Raises (when called):
        divulge.labels.QuotaReachedError: the endpoint accepts no more submissions for now.
        divulge.InputError: the endpoint refuses the submission, keeps failing, or answers without a score.
        divulge.MissingExtraError: httpx is not installed (extra "http").
    """

    url: str
    submission: Submission = field(default_factory=Submission)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    key: str = "score"
    retries: int = 5
    pause: float = 0.5
    patience: float = 30.0
    timeout: float = 60.0
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        web.address(self.url, "url")
        check_instance(self.submission, "submission", Submission, "a labels.Submission")
        check_instance(self.headers, "headers", Mapping, "a mapping of names to texts")
        for part in self.headers.items():
            check_strings(part, "headers")
        web.headers(self.headers, "headers")
        check_string(self.key, "key")
        check_integer(self.retries, "retries", least=0)
        for name in ("pause", "patience", "timeout"):
            check_number(getattr(self, name), name, above=0)

    def __call__(self, predictions: Array) -> float:
        """The score of one submission."""
        body = self.submission.text(predictions)
        where = web.shown(self.url)
        status, trouble = 0, "nothing was sent"
        # Plain http needs no certificates, and loading them takes longer than a query.
        secure = self.url.startswith("https:")
        with web.Client(timeout=self.timeout, headers=self.headers, secure=secure) as client:
            for attempt in range(self.retries + 1):
                wait = self.pause * 2**attempt
                try:
                    answer = client.post(self.url, content=body, kind="text/csv")
                    status, trouble = answer.status, f"HTTP {answer.status}"
                    if status == 429:
                        wait = self._patience(answer, where)
                    elif status < 500:
                        return self._score(answer, where)
                except web.WebError as error:
                    status, trouble = 0, str(error)
                if attempt < self.retries:
                    self.sleep(wait)
        if status == 429:
            raise QuotaReachedError(f"{where}: still busy after {self.retries + 1} tries (429)")
        raise InputError(f"oracle: {where} failed {self.retries + 1} times, last: {trouble}")

    def _patience(self, answer: web.Answer, where: str) -> float:
        """Seconds to wait for a busy server; one that names none, or too many, takes no more submissions."""
        wait = answer.wait()
        if wait is None or wait > self.patience:
            raise QuotaReachedError(f"{where}: no more submissions for now (429)")
        return wait

    def _score(self, answer: web.Answer, where: str) -> float:
        if answer.status >= 300:
            raise InputError(f"oracle: {where} refused: HTTP {answer.status}: {answer.excerpt()}")
        try:
            value: Any = answer.json()
        except web.WebError:
            value = answer.body.decode("utf-8", "replace")
        try:
            if isinstance(value, dict):
                value = reduce(lambda level, part: level[part], self.key.split("."), value)
            score = _number(value)
        except (ValueError, KeyError, TypeError, OverflowError):
            raise InputError(f"oracle: {where} answered without a number at {self.key!r}: {answer.excerpt()}") from None
        if not math.isfinite(score):
            raise InputError(f"oracle: {where} answered {str(value)[:60]}; a finite number is needed")
        return score


def _number(value: object) -> float:
    """The number that was sent, as JSON or as text.

    Raises:
        ValueError, OverflowError: none, or one that no float is.
    """
    if isinstance(value, bool):
        return math.nan
    if isinstance(value, str) and not (len(value) <= _LONGEST and _NUMBER.fullmatch(value.strip())):
        raise ValueError  # what Python would read, as 1_000 or the digits of other scripts, is not what was meant
    if not isinstance(value, int | float | str):
        raise ValueError
    return float(value)
