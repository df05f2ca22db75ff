"""Answers that survive a crash, and submissions that people carry by hand."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import store, untrusted
from divulge.errors import InputError
from divulge.validation import as_list, check_string, format_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.labels.plans import QueryPlan
    from divulge.types import Floats


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
        head = {"plan": self.plan.key, "method": self.plan.method, "queries": self.plan.count}
        text = store.read_text(self.path, limit=untrusted.LINES) if self.path.exists() else ""
        if not text:
            store.write_text(self.path, json.dumps(head) + "\n")
            return
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            store.write_text(self.path, whole or json.dumps(head) + "\n")
        lines = whole.splitlines() or [json.dumps(head)]
        try:
            first, *rest = [json.loads(line) for line in lines]
            self._answers.update({int(line["query"]): float(line["score"]) for line in rest})
            key = first["plan"]
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise InputError(f"{self.path}: not a journal of answers") from None
        if not all(map(math.isfinite, self._answers.values())):
            raise InputError(f"{self.path}: an answer is not a finite number")
        if key != self.plan.key:
            raise InputError(
                f"{self.path}: holds answers to another plan ({first.get('method')}, {first.get('queries')} queries); "
                "its queries differ, so its answers cannot be used here"
            )
        if any(not 0 <= index <= self.plan.count for index in self._answers):
            raise InputError(f"{self.path}: names a query the plan does not have")

    def answers(self) -> Mapping[int, float]:
        """Answers kept so far, by query number."""
        return dict(self._answers)

    def keep(self, index: int, answer: float) -> None:
        """Append one answer and wait until it is on the disk."""
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"query": index, "score": answer}) + "\n")
            out.flush()
            os.fsync(out.fileno())
        self._answers[index] = answer


@dataclass(frozen=True, slots=True)
class Submission:
    """How an endpoint wants predictions: a CSV with an identifier and one column per prediction.

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
        """The submission as text; numbers are written so that they read back as the very same floats.

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
    def like(cls, path: Path) -> Submission:
        """The template of an example file: its header and its identifiers (first column).

        Raises:
            divulge.InputError: no such file, or no row below the header.
        """
        try:
            rows = list(csv.reader(io.StringIO(store.read_text(path, limit=untrusted.LINES), newline="")))
        except csv.Error as error:
            raise InputError(f"template: {path}: not a CSV file ({error})") from None
        if len(rows) < 2 or not all(rows):
            raise InputError(f"template: {path}: a header and at least one row are needed, and no empty line")
        return cls(tuple(row[0] for row in rows[1:]), tuple(rows[0]))


def write_submissions(plan: QueryPlan, folder: Path, submission: Submission) -> list[Path]:
    """One CSV per query in ``folder``, to be scored by hand, the control query last; returns their paths in order."""
    width = len(str(plan.count))
    paths = [folder / f"query_{index:0{width}d}.csv" for index in range(plan.count + 1)]
    for path, query in zip(paths, (*plan.queries, plan.control), strict=True):
        store.write_text(path, submission.text(query))
    return paths


def read_scores(path: Path, plan: QueryPlan) -> Floats:
    """Scores typed in by hand: one per line, in the order of the queries, the control query's last.

    Raises:
        divulge.InputError: a line that is no number, or another number of lines than there are submissions.
    """
    lines = [line.strip() for line in store.read_text(path, limit=untrusted.LINES).splitlines() if line.strip()]
    scores = np.empty(len(lines))
    for number, line in enumerate(lines, start=1):
        try:
            scores[number - 1] = float(line)
        except ValueError:
            scores[number - 1] = math.nan
        if not math.isfinite(scores[number - 1]):
            raise InputError(f"scores: line {number} of {path} is {format_value(line)}; a number is needed")
    if len(scores) != plan.count + 1:
        raise InputError(
            f"scores: {plan.count + 1} are needed (one per submission, the control query's last), got {len(scores)} "
            f"in {path}"
        )
    return scores
