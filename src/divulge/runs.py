"""Every kind of run that is kept in a directory, and finished runs read back whatever their kind."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from divulge import results
from divulge.attributes.result import ATTRIBUTES
from divulge.auditing import compare, gates
from divulge.auditing import result as audits
from divulge.auditing.findings import CONFIDENCE
from divulge.auditing.result import AUDIT
from divulge.canaries.canary_audit import CANARY_AUDIT
from divulge.canaries.label_coins import LABEL_PRIVACY
from divulge.defences.trade_off import TRADE_OFF
from divulge.errors import InputError
from divulge.extraction.result import EXTRACTION
from divulge.identification import finished_run
from divulge.identification.from_tables import IDENTIFICATION
from divulge.published_fits import COHORTS
from divulge.report import formatting, notebook
from divulge.run_directory import MANIFEST_NAME, RunDirectory
from divulge.study import Study
from divulge.synthetic.comparison import compare_releases
from divulge.synthetic.page import SYNTHETIC
from divulge.synthetic.result import SyntheticAudit
from divulge.unlearning.result import ERASURE
from divulge.validation import check_choice, check_path, format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from divulge.auditing import Audit
    from divulge.auditing.gates import Rulings
    from divulge.report import Page, Section
    from divulge.report.run_kinds import Run, RunKind
    from divulge.synthetic.comparison import ReleaseComparison

RUN_KINDS: dict[str, RunKind[Any]] = {
    kind.name: kind
    for kind in (
        AUDIT,
        IDENTIFICATION,
        EXTRACTION,
        CANARY_AUDIT,
        LABEL_PRIVACY,
        ERASURE,
        ATTRIBUTES,
        TRADE_OFF,
        SYNTHETIC,
        COHORTS,
    )
}


RESULT_TYPES: dict[str, type[results.Summary]] = {
    str(summary_type.__dataclass_fields__["kind"].default): summary_type
    for summary_type in (
        *(kind.summary_type for kind in RUN_KINDS.values()),
        results.CohortsSummary,
        results.LabelsSummary,
        results.ReconstructionSummary,
        results.WeightsSummary,
    )
}
"""Key ``kind`` of a summary → its type: what ``summary.json`` of a run holds, and what ``--json`` prints."""


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON schema of the summaries of one kind, which ``docs/reference/schemas`` publishes.

    A summary has every key that the schema names and no other, apart from those that name single records, which may be
    left out. The version of the schema is the constant of its key ``version``.

    Args:
        kind: a key of `RESULT_TYPES`.

    Raises:
        divulge.InputError: another kind.

    Examples:
        >>> schema = json_schema("audit")
        >>> schema["$id"], schema["properties"]["version"]
        ('urn:divulge:summary:audit:2', {'const': 2})
    """
    summary_type = RESULT_TYPES[check_choice(kind, "kind", RESULT_TYPES)]
    schema = TypeAdapter(summary_type).json_schema(mode="serialization", schema_generator=_SummarySchema)
    schema["properties"]["version"] = {"const": results.VERSION}
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:divulge:summary:{kind}:{results.VERSION}",
    }
    return head | schema


class _SummarySchema(GenerateJsonSchema):
    """JSON schema in which an object has all its keys, as summaries are written and read, and no default."""

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        names_records = results.SINGLE_RECORDS.items()
        optional = {each.name for each in fields(schema["cls"]) if names_records <= each.metadata.items()}
        return self._close(super().dataclass_schema(schema), optional)

    def model_schema(self, schema: Any) -> dict[str, Any]:
        return self._close(super().model_schema(schema), set())

    def _close(self, described: dict[str, Any], optional: set[str]) -> dict[str, Any]:
        properties = described.get("properties", {})
        for each in properties.values():
            each.pop("title", None)
        text = described.get("description", "").split("\n", 1)[0]
        return described | {
            "description": text,
            "required": [name for name in properties if name not in optional],
            "additionalProperties": False,
        }


def register(kind: RunKind[Any]) -> None:
    """Add a kind of run, so that `divulge report` and `divulge view` show it.

    Raises:
        divulge.InputError: another kind has its name.
    """
    if RUN_KINDS.setdefault(kind.name, kind) is not kind:
        raise InputError(f"kind: {kind.name!r} is registered already")


def find_kind(folder: Path) -> RunKind[Any]:
    """Return the kind of the run in ``folder``.

    Raises:
        divulge.InputError: no run, or one of which no report is made.
    """
    name = RunDirectory(folder).kind()
    if name not in RUN_KINDS:
        raise InputError(f"{folder}: a run of kind {name!r} has no report; one of {', '.join(RUN_KINDS)} is needed")
    return RUN_KINDS[name]


def load_run(folder: Path) -> Run:
    """Return the finished run in ``folder``, with everything that scores decide computed from them again.

    Raises:
        divulge.InputError: no finished, undamaged run of a registered kind.
    """
    return find_kind(folder).load(folder)


def load_page(folder: Path) -> Page:
    """Return the report of the finished run in ``folder``; errors as for `load_run`."""
    return find_kind(folder).load_page(folder)


def load_limits(folder: Path) -> tuple[Section, ...]:
    """Return what an audit's report says of the limits in its plan; nothing where there are none."""
    if find_kind(folder) is not AUDIT:
        return ()
    audit, planned = AUDIT.open(folder, lambda run: (run.audit, gates.Policy.read(folder)))
    if not planned.limits:
        return ()
    return (gates.limits_section(gates.gate(audit, planned.limits, by=planned.by)),)


@dataclass(frozen=True, slots=True, repr=False)
class FinishedRun:
    """A finished run that is no audit: an identification, an extraction, an audit of canaries.

    Args:
        folder: its directory.
        kind: what kind of run it is.
        summary: the content of ``summary.json``, with everything that scores decide computed from them again.
    """

    folder: Path
    kind: str
    summary: Any

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        top = load_page(self.folder)
        return formatting.as_sentence(top.verdict)

    def report(self, path: str | Path) -> Path:
        """Write the HTML report to ``path`` and return it."""
        return find_kind(self.folder).render_again(self.folder, check_path(path, "path"))

    def to_frame(self) -> pl.DataFrame:
        """Return one row per record; of an identification, per candidate; of settings compared, per setting.

        Raises:
            divulge.InputError: a kind of run that keeps no records.
        """
        if self.kind == IDENTIFICATION.name:
            return finished_run.load_selection(self.folder)
        return find_kind(self.folder).load_records(self.folder)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the verdict, and the first table of the report."""
        return notebook.render_page(load_page(self.folder))

    def __repr__(self) -> str:
        return f"FinishedRun({str(self.folder)!r}, {self.kind})"


def load(directory: str | Path) -> Audit | FinishedRun:
    """Load a finished run; nothing is computed with a model again.

    Args:
        directory: what ``out`` was when it was made.

    Returns:
        The `divulge.auditing.Audit`; of other kinds of run a `FinishedRun` with ``verdict``, ``summary``,
        ``to_frame()`` and ``report(path)``.

    Raises:
        divulge.InputError: no finished, undamaged run there.

    Examples:
        >>> load("runs/demo")  # doctest: +SKIP
        Audit(auto, loss; 500 members of 1000 candidates)
    """
    folder = check_path(directory, "directory")
    run_kind = find_kind(folder)
    return (
        audits.load(folder) if run_kind is AUDIT else FinishedRun(folder, run_kind.name, run_kind.load(folder).summary)
    )


def compare_runs(
    *runs: Audit | SyntheticAudit | str | Path, recipes: Sequence[str] | None = None
) -> compare.Comparison | ReleaseComparison:
    """Compare audits of the same candidates, or audits of releases of one table, each with the first.

    Args:
        *runs: results or run directories, at least two and of one kind.
        recipes: attacks (of releases: scores) to compare; by default all that the runs share.

    Returns:
        A `Comparison` of audits, or a `divulge.synthetic.comparison.ReleaseComparison`; of both
        ``report(path)`` writes a page and ``to_frame()`` returns a table.

    Raises:
        divulge.InputError: fewer than two runs, other candidates, nothing in common, no such run.
    """
    opened: Any = runs
    if runs and all(is_release(run) for run in runs):
        return compare_releases(*opened, scores=recipes)
    return compare.compare_runs(*opened, recipes=recipes)


def is_release(run: object) -> bool:
    """Check whether a result, or what a run directory holds, is an audit of a release."""
    if isinstance(run, str | Path):
        return (Path(run) / MANIFEST_NAME).is_file() and find_kind(Path(run)) is SYNTHETIC
    return isinstance(run, SyntheticAudit)


def gate(
    run: Audit | Study | FinishedRun | str | Path,
    policy: str | Sequence[str] | None = None,
    *,
    confidence: float = CONFIDENCE,
    by: str | Sequence[str] | None = None,
) -> Rulings:
    """Hold an audit, an erasure check, attribute inference or a released table against policies.

    Args:
        run: the result, or its run directory.
        policy: ``METRIC:LIMIT``, or several: of an audit see `divulge.auditing.gate`; of an erasure check with METRIC
            "difference" or "share", of attribute inference with "share" or "value", of a released table with "auc",
            "share" or "tpr@fpr=LEVEL", each held to the limit by every request, attack or score (`Study.rule` of their
            results says when); of cohorts behind a regression with "cohorts" or "records", the number that is proven.
            None for the limits in the plan of an audit that is read from its run directory.
        confidence: probability that all rulings are right.
        by: of an audit: what is held to the limits besides all candidates: "class", "group", both, or "none"; None for
            what its plan says, or both.

    Returns:
        A sequence of rulings, each with its ``state``: "kept", "broken" or "undecided". It is true only if all are
        kept, so that a test can assert it; its own ``state`` is the worst.

    Raises:
        divulge.InputError: another kind of run, no policy, one that cannot be read, a confidence outside (0, 1),
            another grouping.

    Examples:
        >>> assert gate("runs/demo", ["auc:0.55", "exposed:5"])  # doctest: +SKIP
        >>> assert gate("runs/demo")  # limits of the plan's [gate]  # doctest: +SKIP
    """
    result: Any = run.folder if isinstance(run, FinishedRun) else run
    planned = gates.Policy()
    got = f", got {format_value(run)}"
    if isinstance(result, str | Path):
        folder = check_path(result, "run")
        run_kind = find_kind(folder)
        got = f"; {folder} is a run of kind {run_kind.name!r}"
        if run_kind is AUDIT:
            result, planned = AUDIT.open(folder, lambda run: (run.audit, gates.Policy.read(folder)))
        elif run_kind.metrics:
            result = run_kind.load(folder).result
    if isinstance(result, audits.Audit):
        if policy is None and not planned.limits:
            raise InputError("policy: METRIC:LIMIT is needed, such as auc:0.6; the run's plan has no table [gate]")
        limits = planned.limits if policy is None else policy
        return gates.gate(result, limits, confidence=confidence, by=planned.by if by is None else by)
    if policy is None:
        raise InputError("policy: METRIC:LIMIT is needed; only the plan of an audit can hold limits")
    if isinstance(result, Study) and result.run_kind.metrics:
        return result.gate(policy, confidence=confidence)
    *nouns, last = ["an audit", *(kind.noun for kind in RUN_KINDS.values() if kind.metrics)]
    raise InputError(f"run: a policy can hold {', '.join(nouns)} or {last}{got}")
