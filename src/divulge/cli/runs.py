"""Commands for finished work: `divulge report`, `decide`, `compare`, `gate`, `table`, `view` and `pool`."""

from __future__ import annotations

import datetime as dt
import os
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import polars as pl
import typer

from divulge import auditing, identification, provenance, results, run_directory, store, tables, validation, viewing
from divulge import runs as finished_runs
from divulge.auditing import compare as comparison
from divulge.auditing import gates, sacro_export
from divulge.auditing import summary as audit_summary
from divulge.auditing.junit import render_junit, render_junit_error
from divulge.cli import options, printing
from divulge.cli.printing import Exit
from divulge.errors import InputError
from divulge.identification import case_file, finished_run
from divulge.references.pool import Pool, PoolEntry
from divulge.report import figures, formatting, html, markdown, run_kinds, sections
from divulge.report import one_page as one_page_report
from divulge.report import page as report_page
from divulge.settings import DecisionSettings
from divulge.synthetic.comparison import ReleaseComparison

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.gates import Rulings
    from divulge.results import IdentificationSummary

Run = Annotated[Path, typer.Argument(help="Run directory.", show_default=False)]

_FILES = {
    "html": "report.html",
    "pdf": "report.pdf",
    "md": "model_card.md",
    "json": "results.json",
    "csv": "records.csv",
    "parquet": "records.parquet",
    "sacro": "egress",
    "svg": "figures",
    "png": "figures",
}
_ONE_PAGE = {"html": "one_page.html", "pdf": "one_page.pdf", "md": "one_page.md"}


def report(
    run: Run,
    to: Annotated[Path | None, typer.Option(help="File or folder to write (default: in the run directory).")] = None,
    format: Annotated[  # noqa: A002  the option's name
        str,
        typer.Option(
            help="html, pdf, md (for a model card), json; csv or parquet: one row per record (canary, document, "
            "setting); svg or png: a folder with every figure; of an audit, sacro: a folder with SACRO-ML's "
            "target.yaml and attack_results.json."
        ),
    ] = "html",
    one_page: Annotated[
        bool, typer.Option("--one-page", help="A summary on one sheet, for a file: html, pdf or md; no single records.")
    ] = False,
    show_records: Annotated[
        bool | None,
        typer.Option(
            "--show-records/--no-show-records",
            help="Whether single records are shown (default: in the HTML report, as far as the run holds them; not in "
            "pdf, md, json, svg and png).",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Render the report of a finished run again, in another format if one is named."""
    files = _ONE_PAGE if one_page else _FILES
    name = validation.check_choice(format, "--format", files)
    run_kind, path = finished_runs.find_kind(run), to or run / files[name]
    if show_records is not None and (one_page or name in ("csv", "parquet", "sacro")):
        reason = "there are none" if one_page or name == "sacro" else f"{name} has one row per record"
        raise InputError(f"--show-records: {reason}; leave it out")
    is_shown = name == "html" if show_records is None else show_records
    match name:
        case "html" if is_shown and not one_page:
            run_kind.render_again(run, to)
        case "html" | "pdf" | "md":
            if name == "html" and to is None and not one_page:
                raise InputError("--to: needed with --no-show-records; report.html in the run directory shows records")
            _write_page(_load_page(run, one_page, is_shown), name, path, one_page=one_page)
        case "svg" | "png":
            figures.write(_load_page(run, False, is_shown), path, name)
        case "sacro":
            _write_egress_files(run, path)
        case "json":
            origin = provenance.read_provenance(run)
            values = {
                "provenance": None if origin is None else results.to_json_values(origin),
                "results": results.to_json_values(
                    run_kind.open(run, lambda opened: opened.summary), show_records=is_shown
                ),
            }
            store.write_json(path, values)
        case "csv":
            frame = tables.escape_formulas(run_kind.load_records(run))
            columns = run_kinds.read_input_columns(run)
            dialect = {} if columns is None else columns.dialect
            store.write_file(path, lambda out: tables.write_csv(frame, out, **dialect))
        case "parquet":
            frame = run_kind.load_records(run)
            store.write_file(path, lambda out: tables.write_parquet(frame, out))
    printing.as_json({"report": str(path)}) if json else printing.line(f"Report: {path}")


def _load_page(run: Path, one_page: bool, show_records: bool) -> report_page.Page:
    """Return the report of a run: whole or on one sheet, with or without single records."""
    page = finished_runs.load_page(run)
    if one_page:
        limits = finished_runs.load_limits(run)
        return one_page_report.one_page(page, provenance.read_provenance(run), limits)
    return page if show_records else report_page.hide_records(page)


def _write_page(page: report_page.Page, format_name: str, path: Path, *, one_page: bool) -> None:
    if format_name == "html":
        html.write(page, path)
    elif format_name == "md":
        store.write_text(path, markdown.render(page) if one_page else markdown.card(page))
    else:
        with tempfile.TemporaryDirectory(prefix="divulge-report-") as folder:
            document = Path(folder) / "report.html"
            html.write(page, document)
            html.write_pdf(document, path)


def _write_egress_files(run: Path, folder: Path) -> None:
    if run_directory.RunDirectory(run).kind() != "audit":
        raise InputError("--format sacro: SACRO-ML's files hold attacks on membership; an audit's run is needed")
    sacro_export.write_egress_files(auditing.load(run), folder, provenance.read_provenance(run))


def decide(
    run: Run,
    fpr: Annotated[float | None, typer.Option(help="Bound on the share of non-members selected.")] = None,
    fdr: Annotated[float | None, options.setting(DecisionSettings, "fdr")] = None,
    top: Annotated[
        int | None,
        typer.Option(
            help="Of an identification: bound how many of this many highest scores can be non-members. At least 1.",
            min=1,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Decide again from saved scores, without running any model."""
    if run_directory.RunDirectory(run).kind() == "identification":
        if top is not None:
            _describe_top(run, top, fpr, fdr, json)
        else:
            _decide_identification(run, fpr, fdr, json)
        return
    if top is not None:
        raise InputError("--top: only the candidates of an identification have an order of their own")
    result = auditing.load(run)
    names = list(result)
    selections = {name: result[name].selection(fpr=fpr, fdr=fdr) for name in names}
    decisions = {
        name: audit_summary.summarise_decision(result[name], selection, fpr, len(names))
        for name, selection in selections.items()
    }
    if json:
        printing.as_json(results.to_json_values(decisions))
        return
    columns = ["recipe", "selected", "realised FPR", "realised TPR", "precision"]
    rows = [
        [name, f"{d.selected:,}", *map(formatting.format_percent_estimate, (d.fpr, d.tpr, d.precision))]
        for name, d in decisions.items()
    ]
    if any(d.fpr_unseen for d in decisions.values()):
        columns.append("FPR, unseen classes")
        for row, d in zip(rows, decisions.values(), strict=True):
            row.append(formatting.format_percent_estimate(d.fpr_unseen))
    title = f"FPR ≤ {fpr:g}" if fpr is not None else f"FDR ≤ {fdr:g}"
    printing.table(f"Decisions at {title}", columns, rows)
    for guarantee in dict.fromkeys(d.guarantee for d in decisions.values()):
        names = [name for name, d in decisions.items() if d.guarantee == guarantee]
        printing.line(guarantee if len(names) == len(decisions) else f"{', '.join(names)}: {guarantee}")
    for note in dict.fromkeys(warning for d in decisions.values() for warning in d.warnings):
        names = [name for name, d in decisions.items() if note in d.warnings]
        # A warning for some recipes only is printed with their names.
        is_named = len(names) == len(decisions) or note.startswith(f"{names[0]}: ")
        printing.remark(note if is_named else f"{', '.join(names)}: {note}")


def _decide_identification(run: Path, fpr: float | None, fdr: float | None, json: bool) -> None:
    if fpr is not None or fdr is None:
        raise InputError("decide: an identification is decided by --fdr, or looked at by --top")
    summary = identification.redecide(run, fdr=fdr)
    if json:
        printing.as_json(results.to_json_values(summary))
        return
    _show_finding(summary)
    printing.line(summary.claim)
    if summary.selected and summary.guarantee.says:
        printing.line(describe_sensitivity(run))


def _show_finding(summary: IdentificationSummary) -> None:
    """Print what an identification found, the conditions that it rests on, and what else its reader must know."""
    text, tone = case_file.state_finding(summary)
    printing.verdict(tone, text)
    for condition in case_file.conditions(summary):
        printing.line(f"{report_page.MARKS[condition.mark]} {condition.title} {condition.text}")
    for warning in case_file.other_warnings(summary):
        printing.remark(warning)


def describe_sensitivity(folder: Path) -> str:
    """Say how much doubt the selection of an identification survives."""
    consequence = finished_run.sensitivity(folder)
    return f"If non-members may be Γ times likelier, or less likely, to have any score, {consequence}."


def _describe_top(run: Path, top: int, fpr: float | None, fdr: float | None, json: bool) -> None:
    if fpr is not None or fdr is not None:
        raise InputError(
            "--top: it says what holds of the best candidates and decides nothing; leave out --fdr and --fpr"
        )
    bounds = identification.envelope(run)
    validation.check_integer(top, "--top", minimum=1, maximum=len(bounds))
    if not json:
        printing.line(finished_run.describe_best(bounds, top))
        n_members = finished_run.read_run(run, lambda summary, folder: case_file.count_members_shown(summary))
        if top == len(bounds) and top - bounds.false(top) < n_members:
            printing.line(
                f"By another bound, which counts low scores and assumes the same, at least {n_members} of all {top} "
                "were used."
            )
        return
    printing.as_json(
        {
            "top": top,
            "false": bounds.false(top) if bounds.guarantee.says else None,
            "confidence": bounds.confidence,
            "guarantee": results.to_json_values(bounds.guarantee),
        }
    )


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="The run before the defence, then one or several after it, on the same candidates.", show_default=False
        ),
    ],
    report: Annotated[Path | None, typer.Option(help="Report (HTML) to write.")] = None,
    json: options.Json = False,
) -> None:
    """What defences changed: paired differences, whose intervals hold together with 95 % confidence, and their cost."""
    compared = finished_runs.compare_runs(*runs)
    names = list(compared.runs)
    if isinstance(compared, ReleaseComparison):
        _show_releases(compared, runs, report, as_json=json)
        return
    if report is not None:
        origin = provenance.collect_provenance({"before": runs[:1], "after": runs[1:]})
        html.write(sections.add_provenance(comparison.comparison_page(compared), origin), report)
    if json:
        printing.as_json(
            [
                results.to_json_values(d) | {"run": name, "candidates": candidates}
                for name, candidates, d in compared.iterate_changes()
            ]
        )
        return
    for name, changes in compared.changes.items():
        heading, text, tone = compared.judge(name)
        printing.verdict(tone, f"{name}: {heading}. {text}" if len(compared.changes) > 1 else f"{heading}. {text}")
        printing.table(f"{name} minus {names[0]}", *comparison.change_table(changes))
        if classes := compared.describe_classes(name):
            printing.line(classes)
    printing.table("Runs", *comparison.overview_table(compared))
    if report is not None:
        printing.line(f"Report: {report}")


def _show_releases(compared: ReleaseComparison, runs: Sequence[Path], report: Path | None, *, as_json: bool) -> None:
    if report is not None:
        origin = provenance.collect_provenance({"before": runs[:1], "after": runs[1:]})
        html.write(sections.add_provenance(compared.page(), origin), report)
    if as_json:
        printing.as_json(compared.to_frame().to_dicts())
        return
    for name, changes in compared.changes.items():
        heading, text, tone = compared.judge(name)
        printing.verdict(tone, f"{heading}. {text}")
        printing.table(f"{name} minus {next(iter(compared.runs))}", *comparison.change_table(changes))
    printing.table("Releases", *compared.overview())
    if report is not None:
        printing.line(f"Report: {report}")


def gate(
    run: Run,
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--max",
            help="METRIC:LIMIT, such as tpr@fpr=0.001:0.02, or exposed:5 for 5 records; of an erasure check "
            "difference:0.05 or share:0.1; of "
            "attribute inference share:0.05 or value:0.2; of a released table auc:0.6, share:0.05 or copies:0; of a "
            "published regression cohorts:0 or records:0. May be repeated (default: of an audit, the limits of its "
            "plan).",
            show_default=False,
        ),
    ] = None,
    passing: Annotated[
        str, typer.Option("--pass", help="What else passes: undecided, broken, or both with a comma.")
    ] = "kept",
    junit: Annotated[
        Path | None, typer.Option(help="JUnit XML to write, for test reports of CI servers: one test case a limit.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Hold a run to a policy, for CI: exit code 0 when it is kept, 1 when it is broken, 3 when that is undecided.

    Kept: the upper end of every interval is at most its limit. Broken: the lower end of one is above it.
    """
    states = [validation.check_choice(word.strip(), "--pass", gates.STATES) for word in passing.split(",")]
    passing_states = {"kept", *states}
    try:
        rulings = finished_runs.gate(run, limits or None)
    except InputError as error:
        message = str(error).replace("policy: ", "--max: ", 1)
        if junit is not None:  # in the place of what an earlier gate may have said
            store.write_text(junit, render_junit_error(message, str(run)))
        raise InputError(message) from None
    if junit is not None:
        store.write_text(junit, render_junit(rulings, str(run), passing_states))
    answers = {limit: held.state for limit, held in rulings.group_by_limit().items()}
    failed = max(
        (state for state in answers.values() if state not in passing_states),
        key=gates.STATES.index,
        default="kept",
    )
    if json:
        values = [results.to_json_values(r) | {"state": r.state, "reason": r.reason} for r in rulings]
        printing.as_json({"state": rulings.state, "passed": failed == "kept", "limits": answers, "rulings": values})
    else:
        _show_rulings(rulings, run_directory.RunDirectory(run).kind())
    if failed != "kept":
        raise typer.Exit({"undecided": Exit.UNDECIDED, "broken": Exit.BROKEN}[failed])


def _show_rulings(rulings: Rulings, kind: str) -> None:
    """Print the rulings on each limit, those that decide its answer first; of classes and groups, those alone."""
    rows, shown = [], list[gates.Ruling]()
    for held in rulings.group_by_limit().values():
        for r in (r for r in held if not r.by or (r.state == held.state and held.state != "kept")):
            metric = f"adjusted {r.metric}" if r.adjusted else r.metric
            estimate = gates.format_statistic(r.metric, r.estimate)
            rows.append([r.answer, metric, f"{r.limit:g}", estimate, r.recipe, r.scope])
            shown.append(r)
    by_kind = {"erasure": "request", "attributes": "guess by", "synthetic": "score", "cohorts": "read off"}
    printing.table("Policy", ["ruling", "metric", "limit", "estimate", by_kind.get(kind, "recipe"), "candidates"], rows)
    printing.line("The intervals hold simultaneously with 95 % confidence, however many there are.")
    within = [r.state for r in rulings if r.by]
    if counts := [f"{within.count(state):,} {state}" for state in gates.STATES if state in within]:
        printing.line(f"Within classes or groups: {formatting.join_words(counts)}.")
    for reason, ruled in gates.Rulings(shown).group_by_reason().items():
        if reason:
            whose = f", {ruled.list_subjects()}" if len(ruled) < len(shown) else ""
            printing.line(f"{ruled.answer.lower()}{whose}: {reason}")


def table(
    folders: Annotated[list[Path], typer.Argument(help="Runs, or directories that hold some.", show_default=False)],
    csv: Annotated[bool, typer.Option("--csv", help="Print the table as CSV on standard output.")] = False,
    json: options.Json = False,
) -> None:
    """List runs by date: verdict, AUC, stored records, gate, and the change since the last version of the same model.

    Runs whose folders have the same name, dates and times apart, are versions of one model. The exit code is 2 where a
    run cannot be read; the others are listed all the same.
    """
    if csv and json:
        raise InputError("--csv: goes without --json")
    rows = viewing.list_runs(folders)
    if json:
        printing.as_json(results.to_json_values(rows))
    elif csv:
        frame = tables.escape_formulas(viewing.tabulate(rows))
        printing.lines(
            sys.stdout, frame.with_columns(pl.col(pl.String).map_elements(printing.escape, pl.String)).write_csv()
        )
    else:
        printing.table(formatting.format_count(len(rows), "run"), *viewing.format_rows(rows))
        if any(row.change is not None for row in rows):
            printing.line(
                "Change: of the AUC on the same records, since the last run of the same name that is in no doubt, at "
                "95 % confidence in each pair of runs. Two trainings of one model differ, too."
            )
    problems = [row for row in rows if row.problem]
    for row in problems:
        printing.error(row.problem)
    if problems:
        raise typer.Exit(Exit.INPUT)


def view(
    folders: Annotated[list[Path], typer.Argument(help="Runs, or directories that hold some.", show_default=False)],
    port: Annotated[int, typer.Option(help="To listen at; 0 for a free one.")] = 8765,
    host: Annotated[str, typer.Option(help="To listen at; any other can be reached from elsewhere.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in the usual browser.")] = False,
) -> None:
    """Look at runs in a browser: list, filter, compare, move thresholds. Nothing is written; Ctrl-C ends it."""

    def announce(address: str) -> None:
        printing.line(f"Open {address}")
        if browser:
            webbrowser.open(address)

    if viewing.serve(viewing.Shelf(tuple(folders)), host=host, port=port, ready=announce):
        # Compiled code that is still at work cannot be asked to stop, and nothing is written: there is nothing to lose.
        printing.finish()
        os._exit(Exit.OK)


pool_app = typer.Typer(
    cls=options.Group,
    name="pool",
    help="Finished reference models: list, check, clean up.",
    no_args_is_help=True,
    add_completion=False,
)

PoolFolder = Annotated[Path, typer.Argument(help="The pool's folder.", show_default=False)]


@pool_app.command("ls", cls=options.subcommand("pool ls"))
def list_pool(folder: PoolFolder, json: options.Json = False) -> None:
    """List stored models."""
    _show_pool(f"{folder}", Pool(folder).entries(), json=json)


@pool_app.command("verify", cls=options.subcommand("pool verify"))
def verify_pool(folder: PoolFolder, json: options.Json = False) -> None:
    """Read every model and compare its checksum; exit code 5 when one is damaged."""
    entries = Pool(folder).entries(verify=True)
    _show_pool(f"{folder}, checksums compared", entries, json=json)
    if any(entry.state == "damaged" for entry in entries):
        raise typer.Exit(Exit.DAMAGED)


@pool_app.command("prune", cls=options.subcommand("pool prune"))
def prune_pool(
    folder: PoolFolder,
    older_than: Annotated[
        int | None,
        typer.Option(
            help="Also remove good models older than this many days. At least 0 and at most 100,000.",
            min=0,
            max=100_000,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: options.Json = False,
) -> None:
    """Remove damaged and unfinished models, after asking; files that are not a pool's stay."""
    if json and not (yes or dry_run):
        raise InputError("--json: give --yes to remove, or --dry-run to see what would be removed")
    before = ""
    if older_than is not None:
        before = (dt.datetime.now(dt.UTC) - dt.timedelta(days=older_than)).isoformat(timespec="seconds")
    pool = Pool(folder)
    doomed = pool.prunable(before=before)
    if dry_run or not (yes or json):
        _show_pool(f"to be removed from {folder}", doomed, json=json)
    if dry_run:
        return
    if yes or (doomed and printing.confirm(f"Remove {len(doomed)} of them? [y/N] ")):
        removed = pool.prune(before=before, keys=[entry.key for entry in doomed])
        _show_pool(f"removed from {folder}", removed, json=json)


def _show_pool(title: str, entries: Sequence[PoolEntry], *, json: bool) -> None:
    if json:
        fields = ("key", "state", "bytes", "stored", "about", "problem")
        printing.as_json([{name: getattr(entry, name) for name in fields} for entry in entries])
        return
    rows = [
        (e.key[:32], e.state, f"{e.bytes / 1e6:.2f}", e.stored, e.about.get("records", ""), e.problem) for e in entries
    ]
    printing.table(title, ("model", "state", "MB", "stored", "records", "problem"), rows)
