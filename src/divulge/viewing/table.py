"""Runs below directories as a table: what each says, and how it differs from the last version of the same model."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from divulge.auditing import compare, gates
from divulge.auditing.audit_page import AuditRun
from divulge.auditing.result import AUDIT, Audit
from divulge.errors import InputError
from divulge.report.formatting import capitalize, format_estimate
from divulge.report.page import HEADINGS
from divulge.run_directory import MANIFEST_NAME
from divulge.runs import RUN_KINDS
from divulge.synthetic.comparison import compare_releases
from divulge.synthetic.page import SYNTHETIC
from divulge.synthetic.result import CANNOT_JUDGE, SyntheticAudit
from divulge.synthetic.scores import AUTO
from divulge.viewing.shelf import Shelf, is_full, read_date, read_headline

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from divulge.auditing.compare import Difference
    from divulge.report.run_kinds import Headline
    from divulge.types import Estimate
    from divulge.viewing.shelf import Place

    Result = Audit | SyntheticAudit

_STAMP = re.compile(r"[-_.]?\d{4}-?\d{2}-?\d{2}(?:[-_.T ]?\d{2}(?:[-_:]?\d{2}){0,2}Z?)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run in a table of many; None where it has no such number.

    Args:
        name: of the model: the run's path below the directory that was given, without dates and times.
        run: its directory.
        date: when it was made, in ISO 8601 and UTC.
        kind: of run.
        verdict: the heading of its report.
        recipe: attack with the largest AUC among those that the verdict judges.
        auc: its AUC, with the interval of the report.
        stored_records: number of training records that were proven to stand in the model, or in the released table.
        gate: whether the limits in the run's plan are kept, as `divulge.auditing.gates.Rulings.answer` says it, with
            what is missing from "kept"; None where there are none.
        previous: directory of the last version before it, a run of the same name and kind; one whose numbers may be of
            another model, or of a confounded split, only where no other is before it.
        change: of the AUC since then, of the attack that is strongest in either; record by record. None where the
            numbers of that version say nothing of its model.
        change_recipe: that attack, which need not be the one whose AUC is shown: the two runs must have it in common.
        changed: what became of it since then, in words, over all that both runs measured; or why they cannot be
            compared.
        problem: why the run could not be read; empty where it could.
    """

    name: str
    run: str
    date: str
    kind: str
    verdict: str
    recipe: str | None = None
    auc: Estimate | None = None
    stored_records: int | None = None
    gate: str | None = None
    previous: str | None = None
    change: Estimate | None = None
    change_recipe: str | None = None
    changed: str | None = None
    problem: str = ""


def list_runs(folders: Sequence[Path]) -> list[RunRow]:
    """Return a row for each run below some directories, the latest first.

    Runs of one name are versions of one model, and each is compared with the one before it where both audited the same
    records. All changes between two runs hold together with 95 %; those of different pairs do not.

    Args:
        folders: runs, or directories that hold some.

    Raises:
        divulge.InputError: no directory, one that is none, or more runs than are listed.
    """
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"table: no such directory: {folder}")
    shelf = Shelf(tuple(folders))
    if is_full(shelf):
        raise InputError("table: too many runs; name directories further down")
    places = [(read_date(place.path, _last_change(place)), place.name, place) for place in shelf.places()]
    rows: list[RunRow] = []
    latest: dict[tuple[str, str], tuple[str, Result, str]] = {}
    for date, _, place in sorted(places, key=lambda entry: entry[:2]):
        name = _name_model(place, folders)
        shared: dict[str, Any] = {"name": name, "run": str(place.path), "date": date, "kind": place.kind}
        if not (place.finished and place.kind in (AUDIT.name, SYNTHETIC.name)):
            rows.append(RunRow(**shared, **_describe_verdict(place)))
            continue
        try:
            result, heading, policy = RUN_KINDS[place.kind].open(place.path, partial(_read_result, place))
        except (InputError, OSError) as error:
            rows.append(RunRow(**shared, verdict=_UNREADABLE, problem=str(error)))
            continue
        before = latest.get((name, place.kind))
        doubt = _describe_doubt(result, heading)
        if before is None or before[2] or not doubt:
            latest[name, place.kind] = str(place.path), result, doubt
        since = {} if before is None else _compare(*before, result)
        rows.append(RunRow(**shared, **_describe(result, heading, policy), **since))
    return rows[::-1]


_UNREADABLE = "cannot be read"


def tabulate(rows: Sequence[RunRow]) -> pl.DataFrame:
    """Return rows as a table, in which an estimate is three columns: itself, ``…_low`` and ``…_high``."""
    flat = [_flatten(row) for row in rows]
    return pl.DataFrame({name: [row[name] for row in flat] for name in _SCHEMA}, schema=_SCHEMA)


def format_rows(rows: Sequence[RunRow]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the table that a terminal shows."""
    columns = ["name", "run", "date (UTC)", "verdict", "AUC", "stored", "gate", "change", "what changed"]
    paths = [os.path.abspath(row.run) for row in rows]  # noqa: PTH100  symbolic links are not followed
    above = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""  # noqa: PTH120

    def tell_change(row: RunRow) -> str:
        return "–" if row.previous is None else f"since {os.path.relpath(row.previous, above)}: {row.changed}"

    return columns, [
        [
            row.name,
            os.path.relpath(row.run, above),
            f"{row.date[:10]} {row.date[11:16]}",
            capitalize(row.verdict),
            _format_area(row.recipe, row.auc),
            "–" if row.stored_records is None else f"{row.stored_records:,}",
            row.gate or "–",
            _format_area(row.change_recipe, row.change, "+"),
            tell_change(row),
        ]
        for row in rows
    ]


def _format_area(recipe: str | None, area: Estimate | None, sign: str = "") -> str:
    return format_estimate(area, sign) if area is None else f"{recipe}: {format_estimate(area, sign)}"


_ESTIMATES = ("auc", "change")
_SCHEMA: dict[str, Any] = {
    column: pl.Float64 if field.name in _ESTIMATES else pl.Int64 if field.name == "stored_records" else pl.String
    for field in fields(RunRow)
    for column in (
        [field.name, f"{field.name}_low", f"{field.name}_high"] if field.name in _ESTIMATES else [field.name]
    )
}


def _flatten(row: RunRow) -> dict[str, Any]:
    values = {field.name: getattr(row, field.name) for field in fields(RunRow)}
    for name in _ESTIMATES:
        estimate: Estimate | None = values[name]
        ends = (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
        values |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
    return values


def _last_change(place: Place) -> float:
    with contextlib.suppress(OSError):
        return (place.path / MANIFEST_NAME).stat().st_mtime
    return 0.0  # removed since


def _name_model(place: Place, folders: Sequence[Path]) -> str:
    """Return the path of a run below the directory that was given, without the dates and times in it.

    Where nothing else is left, as of one plan with a folder a night, the folder above has the name.
    """
    root = max((root for root in folders if place.path.is_relative_to(root)), key=lambda root: len(root.parts))
    parts = [_STAMP.sub("", part) for part in place.path.relative_to(root).parts]
    folder = place.path.resolve()
    own_names = (_STAMP.sub("", path.name) for path in (folder, folder.parent))
    return "/".join(filter(None, parts)) or next(filter(None, own_names), folder.name)


def _describe_verdict(place: Place) -> dict[str, str]:
    """Return the verdict of a run that no other is compared with."""
    top = read_headline(place)
    if not place.finished:
        return {"verdict": "not finished"}
    if top.text.startswith(f"{_UNREADABLE}: "):
        return {"verdict": _UNREADABLE, "problem": top.text.removeprefix(f"{_UNREADABLE}: ")}
    return {"verdict": _heading(top) if place.kind in RUN_KINDS else top.text}


def _heading(top: Headline) -> str:
    return top.heading or HEADINGS[top.tone].words


def _read_result(place: Place, run: Any) -> tuple[Result, str, gates.Policy]:
    result = run.audit if isinstance(run, AuditRun) else run.result
    return result, _heading(RUN_KINDS[place.kind].headline(run)), gates.Policy.read(place.path)


def _describe(result: Result, heading: str, policy: gates.Policy) -> dict[str, Any]:
    """Return what a run says by itself."""
    if isinstance(result, SyntheticAudit):
        auc = result[AUTO].auc if AUTO in result.scores else None
        return {
            "verdict": heading,
            "recipe": None if auc is None else AUTO,
            "auc": auc,
            "stored_records": result.released_members,
        }
    summary = result.summary()
    judged = summary.recipes if summary.adjusted is None else summary.adjusted.recipes
    areas = {name: recipe.auc for name, recipe in judged.items() if recipe.auc is not None}
    strongest = max(areas, key=lambda name: areas[name].value, default=None)
    return {
        "verdict": heading,
        "recipe": strongest,
        "auc": None if strongest is None else areas[strongest],
        "stored_records": compare.count_stored_records(result),
        "gate": gates.gate(result, policy.limits, by=policy.by).answer if policy.limits else None,
    }


def _describe_doubt(result: Result, heading: str) -> str:
    """Return the heading of a run whose numbers say nothing of its model; empty for any other."""
    is_doubtful = (
        result.verdict.answer == CANNOT_JUDGE if isinstance(result, SyntheticAudit) else compare.describe_doubt(result)
    )
    return heading if is_doubtful else ""


def _compare(run: str, before: Result, doubt: str, after: Result) -> dict[str, Any]:
    """Return how a run differs from the last version of its model."""
    if doubt:
        return {"previous": run, "changed": f"cannot be told, as that run says: {doubt}"}
    try:
        changes, changed = _measure_changes(before, after)
    except InputError as error:
        return {"previous": run, "changed": f"cannot be compared: {str(error).removeprefix('compare: ')}"}
    areas = [change for change in changes if change.statistic == "auc"]
    strongest = max(areas, key=lambda change: max(change.before.value, change.after.value), default=None)
    measured = {} if strongest is None else {"change": strongest.change, "change_recipe": strongest.recipe}
    return {"previous": run, **measured, "changed": changed}


def _measure_changes(before: Result, after: Result) -> tuple[Sequence[Difference], str]:
    if isinstance(before, SyntheticAudit) and isinstance(after, SyntheticAudit):
        releases = compare_releases(before, after)
        (name,) = releases.changes
        return releases.changes[name], releases.judge(name)[0]
    assert isinstance(before, Audit)
    assert isinstance(after, Audit)
    compared = compare.Comparison.from_runs({"before": before, "after": after})
    left_out = compared.left_out["after"]
    further = f"; left out: {compare.describe_left_out(left_out)}" if left_out else ""
    return compared.changes["after"], compared.judge("after")[0] + further
