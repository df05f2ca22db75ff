"""An oracle behind HTTP: submissions go up as CSV, scores come down as JSON or plain text."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from divulge import checks
from divulge.labels.inference import QuotaReachedError
from divulge.labels.journal import Submission

if TYPE_CHECKING:
    import httpx

    from divulge.types import Array


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
        timeout: seconds to wait for an answer.

    Raises (when called):
        divulge.labels.QuotaReachedError: the endpoint accepts no more submissions for now.
        divulge.InputError: the endpoint refuses the submission, keeps failing, or answers without a score.
        divulge.MissingExtraError: httpx is not installed (extra "http").
    """

    url: str
    submission: Submission = field(default_factory=Submission)
    headers: Mapping[str, str] = field(default_factory=dict)
    key: str = "score"
    retries: int = 5
    pause: float = 0.5
    patience: float = 30.0
    timeout: float = 60.0
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, predictions: Array) -> float:
        """The score of one submission."""
        body = self.submission.text(predictions)
        answer, trouble = None, "nothing was sent"
        for attempt in range(self.retries + 1):
            answer, trouble = self._post(body)
            if answer is not None and answer.status_code == 429:
                wait = _seconds(answer.headers.get("retry-after"))
                if wait > self.patience:
                    raise QuotaReachedError(f"{self.url}: no more submissions for now (429)")
            elif answer is not None and answer.status_code < 500:
                return self._score(answer)
            else:
                wait = self.pause * 2**attempt
            if attempt < self.retries:
                self.sleep(wait)
        if answer is not None and answer.status_code == 429:
            raise QuotaReachedError(f"{self.url}: still busy after {self.retries + 1} tries (429)")
        raise checks.InputError(f"oracle: {self.url} failed {self.retries + 1} times, last: {trouble}")

    def _post(self, body: str) -> tuple[httpx.Response | None, str]:
        try:
            import httpx
        except ImportError:
            raise checks.extra("httpx", "http") from None
        headers = {"content-type": "text/csv", **self.headers}
        # Plain http needs no certificates, and loading them takes longer than a query.
        secure = self.url.startswith("https:")
        try:
            answer = httpx.post(self.url, content=body, headers=headers, timeout=self.timeout, verify=secure)
        except httpx.TransportError as error:
            return None, f"{type(error).__name__}: {error}"
        return answer, f"HTTP {answer.status_code}"

    def _score(self, answer: httpx.Response) -> float:
        if answer.status_code >= 400:
            raise checks.InputError(f"oracle: {self.url} refused: HTTP {answer.status_code}: {answer.text[:200]}")
        try:
            found: Any = json.loads(answer.text)
            for part in self.key.split(".") if isinstance(found, dict) else ():
                found = found[part]
            score = float(found)
        except (ValueError, KeyError, TypeError):
            raise checks.InputError(
                f"oracle: {self.url} answered without a number at {self.key!r}: {answer.text[:200]}"
            ) from None
        if not math.isfinite(score):
            raise checks.InputError(f"oracle: {self.url} answered {score}; a finite number is needed")
        return score


def _seconds(value: str | None) -> float:
    try:
        return float(value) if value else math.inf
    except ValueError:
        return math.inf
