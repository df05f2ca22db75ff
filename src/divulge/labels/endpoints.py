"""Real endpoints: submissions as CSV files, an oracle behind HTTP, and a journal of answers that survives a crash."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import store, tables, web
from divulge.errors import InputError
from divulge.labels.oracles import QuotaReachedError
from divulge.labels.plans import count_controls
from divulge.validation import (
    as_list,
    check_instance,
    check_integer,
    check_number,
    check_string,
    check_strings,
    format_value,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from divulge.labels.plans import QueryPlan
    from divulge.types import Array, Floats

_NUMBER = re.compile(r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE)
_MAX_NUMBER_LENGTH = 1000  # characters of a number


@dataclass(frozen=True, slots=True)
class Submission:
    """The CSV format of an endpoint: an identifier and one column per prediction.

    Args:
        ids: one identifier per row; 0, 1, 2, … when empty.
        columns: header, the identifier's column first; made up when empty.
        separator: between columns.

    Examples:
        >>> print(Submission(ids=("a", "b"), columns=("id", "p")).text(np.array([0.25, 0.5])), end="")
        id,p
        a,0.25
        b,0.5
    """

    ids: Sequence[str] = ()
    columns: Sequence[str] = ()
    separator: str = ","

    def __post_init__(self) -> None:
        for name in ("ids", "columns"):
            object.__setattr__(self, name, tuple(map(str, as_list(getattr(self, name), name))))
        if len(check_string(self.separator, "separator")) != 1 or self.separator in '\r\n"':
            raise InputError(f"separator: one character is needed, got {format_value(self.separator)}")

    def text(self, predictions: Any) -> str:
        """Return the submission as text; numbers read back as the very same floats.

        Raises:
            divulge.InputError: another number of rows or columns than the template has.
        """
        table = np.asarray(predictions)
        table = table[:, None] if table.ndim == 1 else table
        ids = self.ids or [str(i) for i in range(len(table))]
        columns = self.columns or ("id", *(f"p{c}" for c in range(table.shape[1])))
        if len(ids) != len(table):
            raise InputError(f"template: {len(ids)} identifiers (ids) for {len(table)} rows of predictions")
        if len(columns) != table.shape[1] + 1:
            raise InputError(
                f"template: {len(columns)} columns, but an identifier and {table.shape[1]} predictions are needed"
            )
        out = io.StringIO()
        writer = csv.writer(out, delimiter=self.separator, lineterminator="\n")
        writer.writerow(columns)
        # repr of the float type itself: 0.1 in float32 must not become 0.10000000149011612.
        writer.writerows([i, *(str(value) for value in row)] for i, row in zip(ids, table, strict=True))
        return out.getvalue()

    @classmethod
    def from_template(cls, path: Path) -> Submission:
        """Read the template of an example file, a CSV: its header, its separator and its identifiers (first column).

        Raises:
            divulge.InputError: no such file, no CSV file, no row below the header, a row without an identifier.
        """
        table = tables.scan_table(path, "template")
        formats = [part.delimited for part in table.parts]
        if len(formats) != 1 or formats[0] is None:
            raise InputError(f"template: {path}: a CSV file is needed, as the endpoint takes it")
        names, separator = formats[0].names, formats[0].separator
        ids = table.collect(names[:1], texts=names[:1])[names[0]]
        if not len(ids) or ids.null_count():
            raise InputError(f"template: {path}: a header and at least one row are needed, each with an identifier")
        return cls(tuple(ids.to_list()), names, separator)


@dataclass(frozen=True, slots=True, eq=False)
class HttpOracle:
    """An oracle that posts each submission to ``url`` and reads the score from the response.

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
        web.check_url(self.url, "url")
        check_instance(self.submission, "submission", Submission, "a labels.Submission")
        check_instance(self.headers, "headers", Mapping, "a mapping of names to texts")
        for part in self.headers.items():
            check_strings(part, "headers")
        web.check_headers(self.headers, "headers")
        check_string(self.key, "key")
        check_integer(self.retries, "retries", minimum=0)
        for name in ("pause", "patience", "timeout"):
            check_number(getattr(self, name), name, above=0)

    def __call__(self, predictions: Array) -> float:
        """Return the score of one submission."""
        body = self.submission.text(predictions)
        address = web.redact_url(self.url)
        status, problem = 0, "nothing was sent"
        # Plain http needs no certificates, and loading them takes longer than a query.
        secure = self.url.startswith("https:")
        with web.Client(timeout=self.timeout, headers=self.headers, verify=secure) as client:
            for attempt in range(self.retries + 1):
                wait = self.pause * 2**attempt
                try:
                    answer = client.post(self.url, content=body, media_type="text/csv")
                    status, problem = answer.status, f"HTTP {answer.status}"
                    if status == 429:
                        delay = answer.wait()
                        if delay is None or delay > self.patience:
                            raise QuotaReachedError(f"{address}: no more submissions for now (429)")
                        wait = delay
                    elif status < 500:
                        return self._parse_score(answer, address)
                except web.WebError as error:
                    status, problem = 0, str(error)
                if attempt < self.retries:
                    self.sleep(wait)
        if status == 429:
            raise QuotaReachedError(f"{address}: still busy after {self.retries + 1} tries (429)")
        raise InputError(f"oracle: {address} failed {self.retries + 1} times, last: {problem}")

    def _parse_score(self, answer: web.HttpAnswer, address: str) -> float:
        if answer.status >= 300:
            raise InputError(f"oracle: {address} refused: HTTP {answer.status}: {answer.excerpt()}")
        try:
            value: Any = answer.json()
        except web.WebError:
            value = answer.body.decode("utf-8", "replace")
        try:
            if isinstance(value, dict):
                value = reduce(lambda level, part: level[part], self.key.split("."), value)
            score = _parse_number(value)
        except (ValueError, KeyError, TypeError, OverflowError):
            raise InputError(
                f"oracle: {address} answered without a number at {self.key!r}: {answer.excerpt()}"
            ) from None
        if not math.isfinite(score):
            raise InputError(f"oracle: {address} answered {str(value)[:60]}; a finite number is needed")
        return score


def _parse_number(value: object) -> float:
    """Return the number in a JSON value or a text.

    Raises:
        ValueError, OverflowError: none, or one that no float is.
    """
    if isinstance(value, bool):
        return math.nan
    if isinstance(value, str) and not (len(value) <= _MAX_NUMBER_LENGTH and _NUMBER.fullmatch(value.strip())):
        raise ValueError  # what Python would read, as 1_000 or the digits of other scripts, is not what was meant
    if not isinstance(value, int | float | str):
        raise ValueError
    return float(value)


@dataclass(frozen=True, slots=True, eq=False)
class Journal:
    """A file with one line per answer, written through to the disk before the next query is asked.

    The first line names the plan; a half-written last line (a crash while writing) is dropped.

    Args:
        path: the file; made when it does not exist.
        plan: the plan the answers belong to.

    Raises:
        divulge.InputError: the file belongs to another plan, or is damaged.
    """

    path: Path
    plan: QueryPlan
    _answers: dict[int, float] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        expected_header = {"plan": self.plan.key, "method": self.plan.method, "queries": self.plan.count}
        text = store.read_text(self.path, limit=store.MAX_LINES_BYTES) if self.path.exists() else ""
        if not text:
            store.write_text(self.path, json.dumps(expected_header) + "\n")
            return
        complete = text[: text.rfind("\n") + 1]
        if complete != text:
            store.write_text(self.path, complete or json.dumps(expected_header) + "\n")
        lines = complete.splitlines() or [json.dumps(expected_header)]
        try:
            header, *entries = [json.loads(line) for line in lines]
            self._answers.update({int(line["query"]): float(line["score"]) for line in entries})
            key = header["plan"]
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise InputError(f"{self.path}: not a journal of answers") from None
        if not all(map(math.isfinite, self._answers.values())):
            raise InputError(f"{self.path}: an answer is not a finite number")
        if key != self.plan.key:
            raise InputError(
                f"{self.path}: holds answers to another plan ({header.get('method')}, {header.get('queries')} "
                "queries); its queries differ, so its answers cannot be used here"
            )
        if any(not 0 <= index < self.plan.count + count_controls(self.plan.spec) for index in self._answers):
            raise InputError(f"{self.path}: names a query the plan does not have")

    def answers(self) -> Mapping[int, float]:
        """Return the answers kept so far, by query number."""
        return dict(self._answers)

    def keep(self, index: int, answer: float) -> None:
        """Append one answer and wait until it is on the disk."""
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"query": index, "score": answer}) + "\n")
            out.flush()
            os.fsync(out.fileno())
        self._answers[index] = answer


def write_submissions(plan: QueryPlan, folder: Path, submission: Submission) -> list[Path]:
    """Write one CSV per query into ``folder``, the control queries last; return their paths in order."""
    controls = plan.controls
    count = plan.count + len(controls)
    width = len(str(count - 1))
    paths = [folder / f"query_{index:0{width}d}.csv" for index in range(count)]
    for path, query in zip(paths, (*plan.queries, *controls), strict=True):
        store.write_text(path, submission.text(query))
    return paths


def read_scores(path: Path, plan: QueryPlan) -> Floats:
    """Read scores typed in by hand, in the order of the queries, the control queries' last.

    Args:
        path: of a table with one column, or with one that is called score, or of a text with one score per line; a
            decimal comma and a line that says "score" above them are read as such.
        plan: whose submissions were scored.

    Raises:
        divulge.InputError: a score that is no number, several columns that may be it, or another number of scores than
            there are submissions.
    """
    texts = _read_score_column(path) if tables.is_table(path) else _read_score_lines(path)
    scores = np.empty(len(texts))
    for number, (line, text) in enumerate(texts):
        try:
            scores[number] = float(_DECIMAL_COMMA.sub(r"\1.\2", text))
        except ValueError:
            scores[number] = math.nan
        if not math.isfinite(scores[number]):
            raise InputError(f"scores: {line} of {path} is {format_value(text)}; a number is needed")
    most = plan.count + count_controls(plan.spec)
    if not plan.count <= len(scores) <= most:
        raise InputError(
            f"scores: {most} are needed (one per submission, the {most - plan.count} control queries' last, without "
            f"which nothing is proven), got {len(scores)} in {path}"
        )
    return scores


_DECIMAL_COMMA = re.compile(r"^([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)$")


def _read_score_lines(path: Path) -> list[tuple[str, str]]:
    """Return the lines that are not empty, and which each is."""
    content = store.read_text(path, limit=store.MAX_LINES_BYTES).removeprefix("\ufeff")
    lines = [(f"line {number}", line.strip()) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    return lines[1:] if lines and _is_score_name(lines[0][1]) else lines


def _read_score_column(path: Path) -> list[tuple[str, str]]:
    """Return the scores in a table as texts, and in which row each is; a single column may lack a name."""
    table = tables.scan_table(path, "scores")
    names = [name for name in table.columns if _is_score_name(name)] or list(table.columns)
    if len(names) != 1:
        raise InputError(f"scores: {path}: one column is needed, or one that is called score, got {', '.join(names)}")
    (name,) = names
    values = table.collect([name], texts=[name])[name].to_list()
    rows = [(f"row {row}", "" if value is None else str(value)) for row, value in enumerate(values)]
    has_name = re.search(r"[^\d.,eE+-]", name.strip()) is not None or not name.strip()
    return rows if has_name else [("the first line", name.strip()), *rows]


def _is_score_name(text: str) -> bool:
    return text.strip('"').lower() in ("score", "scores")
