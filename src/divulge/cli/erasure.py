"""`divulge forget`: was it really forgotten?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import datafiles, provenance, references, results, run_directory, tables, targets, unlearning
from divulge import plan as plan_files
from divulge.cli import options, printing
from divulge.cli.printing import Exit
from divulge.errors import InputError
from divulge.settings import ColumnNames, ErasureRules
from divulge.unlearning import erasure_page
from divulge.unlearning import pipeline as erasure_check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.unlearning import Erasure

_N_SHOWN = 10  # records of a list
_HUGGING_FACE_FILES = ("config.json", "adapter_config.json")
_POOL_MARK, _POOL_SUFFIX = ".divulge-pool", ".safetensors"


@options.from_settings
def forget(
    *,
    context: typer.Context,
    before: Annotated[
        str | None, typer.Option(help="The model before the erasure, or a table of scores with columns id and score.")
    ] = None,
    after: Annotated[str | None, typer.Option(help="The model after it, or a table of scores.")] = None,
    forget: Annotated[
        list[Path] | None,
        typer.Option(help="Records that were to be forgotten; one file for each request."),
    ] = None,
    never: Annotated[Path | None, typer.Option(help="Records of the same kind that no model was trained on.")] = None,
    retrained: Annotated[
        list[str] | None,
        typer.Option(help="A model trained again without the records, or its scores; may be repeated."),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            "--references",
            help="Another model that saw neither kind of record, its scores, a folder of such, a pool of models (with "
            "--factory), or the run directory of an audit, whose reference models are used; may be repeated.",
        ),
    ] = None,
    retained: Annotated[Path | None, typer.Option(help="Training records that were not to be forgotten.")] = None,
    from_plan: Annotated[
        Path | None, typer.Option("--plan", help="A plan with a table `forget`, in place of the options above.")
    ] = None,
    factory: Annotated[str | None, typer.Option(help="module:callable that builds the empty network.")] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(help="Names of the classes in the order of the outputs, where a model does not know them."),
    ] = None,
    trust: options.Trust = None,
    settings: Annotated[ErasureRules, ("margin", "at_random")],
    columns: options.RecordColumns,
    out: options.ReportFolder = None,
    overwrite: options.Overwrite = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> None:
    """Was it really forgotten? Compare a model after an erasure with models that never saw the records.

    The exit code is 1 where records are still remembered or stand out the other way, and 3 where there is too little
    data to say.
    """
    arguments: dict[str, Any]
    if from_plan is not None:
        named = options.named_settings(context, settings)
        if surplus := _options_beside_plan(context, named):
            raise InputError(f"--plan: it names models and records itself; leave out {', '.join(surplus)}")
        arguments = _read_plan(from_plan, trust or []) | named
    else:
        if after is None or never is None or not forget:
            missing_option = "--after" if after is None else "--never" if never is None else "--forget"
            raise InputError(f"{missing_option}: needed; or give a plan with a table [forget] (--plan)")
        read = _Reader(factory, tuple(classes or ()), tuple(trust or ()), columns, tables.is_table(Path(after)))
        provenance.declare_input_files(before=before, after=after, never=never, retained=retained)
        records = read.records([*forget, *(path for path in (never, retained) if path is not None)])
        arguments = {
            "before": None if before is None else read.model(before, "--before"),
            "after": read.model(after, "--after"),
            "forget": _name_requests(forget, records),
            "never": records[never],
            "retrained": [read.model(name, "--retrained") for name in retrained or []],
            "references": read.references(reference or []),
            "retained": None if retained is None else records[retained],
            **dict(settings),
        }
    with references.Bar("reference models") as bar:
        result = unlearning.forget(**arguments, out=out, overwrite=overwrite, progress=bar)
    summary = result.summary()
    if json:
        printing.as_json(results.to_json_values(summary))
    else:
        _show(result, out, verbose=verbose)
    if summary.answer == "too little data to say":
        raise typer.Exit(Exit.UNDECIDED)
    if not summary.answer.startswith("no difference"):
        raise typer.Exit(Exit.BROKEN)


def _options_beside_plan(context: typer.Context, named: Mapping[str, Any]) -> list[str]:
    """Return the options that were named although a plan says what they say; ``named`` settings go before its own."""
    allowed = {"from_plan", "trust", "out", "overwrite", "verbose", "json", *named}
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in allowed and options.is_named(context, str(parameter.name))
    ]


_BRIEF = ("request", "records", "answer", "difference", "remembered")


def _show(result: Erasure, out: Path | None, *, verbose: bool) -> None:
    """Print the answers; the records on the lists and what the erasure cost are notes."""
    summary, columns = result.summary(), erasure_page.REQUEST_COLUMNS
    rows = erasure_page.request_rows(summary)
    places = [columns.index(name) for name in _BRIEF]
    notes = []
    for name, ids in result.remembered.items():
        if len(ids):
            first_ids = ", ".join(map(str, ids[:_N_SHOWN].tolist()))
            remainder = f" and {len(ids) - _N_SHOWN} more" if len(ids) > _N_SHOWN else ""
            notes.append(f"{name}, still remembered (FDR ≤ {summary.settings.fdr:g}): {first_ids}{remainder}")
    notes += [
        f"{change.records}: {change.measure} {change.before:.3f} before, {change.after:.3f} after"
        for change in summary.quality
    ]
    next_step = ""
    if out is not None and any(map(len, result.remembered.values())):
        next_step = f"divulge report {out} --format csv lists the records that are still remembered."
    printing.outcome(
        summary.tone,
        summary.verdict,
        caveats=summary.warnings,  # of a model to which nothing was done, say
        shown=("Requests", _BRIEF, [[row[place] for place in places] for row in rows]),
        folder=out,
        next_step=next_step,
        further=[("Requests, all numbers", columns, rows)],
        notes=notes,
        verbose=verbose,
    )


def _name_requests(paths: list[Path], records: dict[Path, Any]) -> Any:
    """Return the records of each request, by the name of its file; those of a single one as they are."""
    if len(paths) == 1:
        return records[paths[0]]
    requests = {path.stem: records[path] for path in paths}
    if len(requests) < len(paths):
        raise InputError("--forget: a request has the name of its file, and two files have the same")
    return requests


def _read_plan(path: Path, trust: list[str]) -> dict[str, Any]:
    """Return the arguments that a plan gives."""
    plan = plan_files.read(path)
    if plan.forget is None:
        raise InputError(f"--plan: {path} has no table [forget]")
    resolved = plan_files.resolve(plan, path.parent, trust)
    return plan_files.resolve_forget(plan, resolved, path.parent, trust)


class _Reader:
    """Reads models, tables of scores and records as the options say; beside tables of scores the ids of records."""

    def __init__(
        self,
        factory: str | None,
        classes: tuple[str, ...],
        trust: tuple[str, ...],
        columns: ColumnNames,
        from_tables: bool,
    ) -> None:
        self.factory, self.trust, self.from_tables = factory, trust, from_tables
        layout = datafiles.FileLayout.from_column_names(columns, real_values=True)
        self.layout = replace(layout, classes=classes or None)
        self.id = columns.id or "id"

    def references(self, names: list[str]) -> Any:
        """Return reference models and tables of scores, or those of the audit in a run directory."""
        if runs := [name for name in names if run_directory.peek_manifest(Path(name)) is not None]:
            if len(names) > 1:
                raise InputError(f"--references: the run directory of an audit stands alone, got {len(names)} of them")
            if self.from_tables:
                raise InputError(f"--references: {runs[0]} is a run; with tables of scores, give those of models")
            return erasure_check.open_audit_models(Path(runs[0]), self.trust)
        return [self.model(path, "--references") for name in names for path in _list_models(name)]

    def model(self, name: str, option: str) -> Any:
        """Return a table of scores, or a model."""
        path = Path(name)
        if tables.is_table(path):
            frame = self._table(path, option)
            value_columns = [column for column in frame.columns if column not in (self.id, "id")]
            return frame.select(self.id, *value_columns).rename({self.id: "id"})
        with options.model_errors(option):
            return targets.load(
                name,
                factory=self.factory if path.suffix == _POOL_SUFFIX else None,
                folder=Path(),
                trust=self.trust,
                labels_only=True,
            )

    def records(self, paths: list[Path]) -> dict[Path, Any]:
        """Return the records in each file, or their ids."""
        if self.from_tables:
            return {path: tables.to_array(self._table(path, str(path))[self.id]) for path in paths}
        files = {path: datafiles.read_records(path, self.layout) for path in paths}
        if codes := datafiles.find_code_columns(list(files.values())):
            files = {path: datafiles.read_records(path, replace(self.layout, codes=codes)) for path in paths}
        return {path: file.records for path, file in files.items()}

    def _table(self, path: Path, name: str) -> Any:
        if not path.exists():
            raise InputError(f"{name}: no such file: {path}")
        frame = tables.read_table(path, name, texts=[self.id])
        if self.id not in frame.columns:
            raise InputError(f"{name}: {path} has no column {self.id!r}; --id names the one of the records' ids")
        return frame


def _list_models(name: str) -> list[str]:
    """Return the models in a folder or a pool; a single model, or a table, as it is."""
    folder = Path(name)
    if not folder.is_dir() or any((folder / file).exists() for file in _HUGGING_FACE_FILES):
        return [name]
    paths = [str(path) for path in sorted(folder.iterdir()) if path.is_file() and not tables.is_hidden(path, folder)]
    if (folder / _POOL_MARK).exists():
        paths = [path for path in paths if path.endswith(_POOL_SUFFIX)]
    if not paths:
        raise InputError(f"--references: no models in {folder}")
    return paths
