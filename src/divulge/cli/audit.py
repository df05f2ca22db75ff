"""`divulge audit`, and what is done with a finished run: report, decide, compare, gate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import lazy
from divulge.cli import options, printing
from divulge.cli.exit_codes import Exit
from divulge.cli.identify import stands, warn
from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge import auditing, identification, references, results, run_directory, text_demo, validation
    from divulge import demo as fashion_demo
    from divulge import plan as plans
    from divulge.auditing import compare as comparison
    from divulge.auditing import page as audit_page
    from divulge.auditing import plausibility
    from divulge.auditing import summary as audit_summary
    from divulge.identification import finished_run
    from divulge.report import formatting, html, markdown, sections
    from divulge.results import provenance
    from divulge.settings import ColumnNames
else:
    validation = lazy.module("divulge.validation")
    audit_page = lazy.module("divulge.auditing.page")
    audit_summary = lazy.module("divulge.auditing.summary")
    auditing = lazy.module("divulge.auditing")
    finished_run = lazy.module("divulge.identification.finished_run")
    comparison = lazy.module("divulge.auditing.compare")
    run_directory = lazy.module("divulge.run_directory")
    fashion_demo = lazy.module("divulge.demo")
    formatting = lazy.module("divulge.report.formatting")
    html = lazy.module("divulge.report.html")
    identification = lazy.module("divulge.identification")
    markdown = lazy.module("divulge.report.markdown")
    sections = lazy.module("divulge.report.sections")
    plans = lazy.module("divulge.plan")
    plausibility = lazy.module("divulge.auditing.plausibility")
    provenance = lazy.module("divulge.results.provenance")
    references = lazy.module("divulge.references")
    results = lazy.module("divulge.results")
    text_demo = lazy.module("divulge.text_demo")

Run = Annotated[Path, typer.Argument(help="Run directory.", show_default=False)]

# Of a gate that fails; 2 is wrong usage.
_EXIT_CODES = {"undecided": Exit.UNDECIDED, "broken": Exit.BROKEN}


@options.unfold
def audit(
    columns: options.RecordColumns,
    plan: Annotated[
        Path | None, typer.Argument(help="Plan (TOML); with --demo: images or text.", show_default=False)
    ] = None,
    out: options.Out = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Audit a model of the bundled Fashion-MNIST images, or of text.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="With --demo: a small, fast one.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished run in --out.")] = False,
    seed: Annotated[int | None, typer.Option(help="With --demo: seed of every random draw.", min=0)] = None,
    fpr: Annotated[
        list[float] | None, typer.Option(help="False-positive rate to report, in place of the plan's; may be repeated.")
    ] = None,
    covariate: Annotated[
        list[str] | None,
        typer.Option(help="Column to adjust scores for, in place of the plan's; may be repeated.", show_default=False),
    ] = None,
    trust: options.Trust = None,
    json: printing.Json = False,
) -> None:
    """Was this record used? Run the attacks of a plan on its target."""
    if not demo and plan is None:
        raise InputError("audit: give a plan, or --demo; divulge init writes a plan")
    if not demo and (quick or seed is not None):
        raise InputError("audit: --quick and --seed go with --demo; a plan names its own seed")
    if demo and columns.names().model_fields_set:
        raise InputError(
            "--label, --id, --text, --group, --person, --drop: name columns of a plan's tables, not of --demo"
        )
    if demo and fpr:
        raise InputError("--fpr: goes with a plan; of the demo's run, divulge decide RUN --fpr asks for another rate")
    if demo and covariate:
        raise InputError("--covariate: goes with a plan")
    wanted = "images" if plan is None else str(plan)
    if demo:
        validation.check_choice(wanted, "--demo", _DEMOS)
    folder = options.folder(out, "demo" if demo else Path(wanted).stem)
    if demo:
        finished = _DEMOS[wanted](folder, seed or 0, quick, overwrite)
    else:
        finished = _planned(Path(wanted), folder, overwrite, trust or (), fpr, columns.names(), covariate)
    if json:
        told = {name: result.summary() for name, result in finished.items()}
        printing.as_json(results.to_json_values(told.get("", told)))
        return
    for title, result in finished.items():
        _show(result, title)
    printing.line(f"Report: {folder / 'report.html'}")


def _demo(out: Path, seed: int, quick: bool, overwrite: bool) -> dict[str, auditing.Audit]:
    size = fashion_demo.QUICK if quick else fashion_demo.FULL
    known, unseen = fashion_demo.run(out, seed=seed, size=size, overwrite=overwrite, watching=references.Bar)
    return {"All classes known to the auditor": known, f"Class {fashion_demo.UNSEEN} unseen by the auditor": unseen}


def _text_demo(out: Path, seed: int, quick: bool, overwrite: bool) -> dict[str, auditing.Audit]:
    size = text_demo.QUICK if quick else text_demo.FULL
    return {"": text_demo.run(out, seed=seed, size=size, overwrite=overwrite, watching=references.Bar)}


_DEMOS = {"images": _demo, "text": _text_demo}


def _planned(
    where: Path,
    out: Path,
    overwrite: bool,
    trust: Sequence[str],
    fpr: Sequence[float] | None,
    names: ColumnNames,
    covariates: Sequence[str] | None,
) -> dict[str, auditing.Audit]:
    plan = plans.read(where)
    if fpr:
        plan = plan.model_copy(
            update={"fpr": tuple(validation.check_number(rate, "--fpr", above=0, below=1) for rate in fpr)}
        )
    named: dict[str, Any] = {key: getattr(names, key) for key in names.model_fields_set}
    if covariates:
        named["covariates"] = list(covariates)
    if named:
        plan = plan.model_copy(update={"data": plan.data.model_copy(update=named)})
    ready = plans.resolve(plan, where.parent, trust)
    for key, origin in ready.origins.items():
        printing.lines(sys.stderr, f"{key}: from {origin}")
    work: Any = auditing.over_shares if isinstance(ready.subject.known, tuple) else auditing.audit
    with references.Bar("reference models") as bar:
        finished = work(ready.target, out=out, overwrite=overwrite, progress=bar, expect=_expect, **ready.arguments())
    if not isinstance(finished, list):
        return {"": finished}
    return {f"known: {words}": result for words, result in zip(ready.plan["known"], finished, strict=True)}


def _expect(forecast: auditing.Forecast) -> None:
    printing.lines(sys.stderr, f"ahead: {forecast.text}")


def _show(result: auditing.Audit, title: str) -> None:
    summary = result.summary()
    if title:
        printing.line()
        printing.line(title)
    printing.verdict(summary.verdict.tone, summary.verdict.text)
    if result.unseen_classes:
        printing.table("Unseen classes", *audit_page.recipe_table(summary, unseen=True))
    if summary.adjusted is not None:
        printing.line(summary.adjusted.text)
        printing.table("Adjusted, as the verdict judges", *audit_page.recipe_table(summary, adjusted=True))
    printing.table("All candidates", *audit_page.recipe_table(summary))
    for note in audit_page.recipe_notes(summary):
        printing.line(f"note: {note}")
    for warning in result.warnings:
        printing.remark(warning)


def _identified(run: Path) -> bool:
    """Whether a run directory is that of an identification, not of an audit."""
    return run_directory.RunDirectory(run).kind() == "identification"


def decide(
    run: Run,
    fpr: Annotated[float | None, typer.Option(help="Bound on the share of non-members selected.")] = None,
    fdr: Annotated[float | None, typer.Option(help="Bound on the share of non-members among the selected.")] = None,
    method: Annotated[str, typer.Option(help="For --fdr: auto, bh, ptdi, storey or adaptive.")] = "auto",
    recipe: Annotated[str | None, typer.Option(help="One recipe of an audit (default: all).")] = None,
    top: Annotated[
        int | None, typer.Option(help="Of an identification: how many of so many best can be non-members.", min=1)
    ] = None,
    json: printing.Json = False,
) -> None:
    """Decide again from saved scores, without running any model."""
    if _identified(run):
        _top(run, top, fpr, fdr, json) if top is not None else _redecide(run, fpr, fdr, method, json)
        return
    if top is not None:
        raise InputError("--top: only the candidates of an identification have an order of their own")
    result = auditing.load(run)
    names = list(result) if recipe is None else [validation.check_choice(recipe, "--recipe", result.scores)]
    chosen = {name: result[name].selection(fpr=fpr, fdr=fdr, method=method) for name in names}
    decisions = {
        name: audit_summary.summarise_decision(result[name], selection, fpr, len(names))
        for name, selection in chosen.items()
    }
    if json:
        printing.as_json(results.to_json_values(decisions))
        return
    columns = ["recipe", "selected", "FPR", "TPR", "precision"]
    rows = [
        [name, d.selected, *map(formatting.format_estimate, (d.fpr, d.tpr, d.precision))]
        for name, d in decisions.items()
    ]
    title = f"FPR ≤ {fpr:g}" if fpr is not None else f"FDR ≤ {fdr:g}"
    printing.table(f"Decisions at {title}", columns, rows)
    for guarantee in dict.fromkeys(d.guarantee for d in decisions.values()):
        whose = [name for name, d in decisions.items() if d.guarantee == guarantee]
        printing.line(guarantee if len(whose) == len(decisions) else f"{', '.join(whose)}: {guarantee}")
    for note in dict.fromkeys(warning for d in decisions.values() for warning in d.warnings):
        whose = [name for name, d in decisions.items() if note in d.warnings]
        # What is said of some recipes only names them.
        named = len(whose) == len(decisions) or note.startswith(f"{whose[0]}: ")
        printing.remark(note if named else f"{', '.join(whose)}: {note}")


def _redecide(run: Path, fpr: float | None, fdr: float | None, method: str, json: bool) -> None:
    if fpr is not None or fdr is None:
        raise InputError("decide: an identification is decided by --fdr, or looked at by --top")
    summary = identification.redecide(run, fdr=fdr, method=method)
    if json:
        printing.as_json(results.to_json_values(summary))
        return
    warn(summary)
    printing.line(f"{summary.selected} of {summary.candidates}: {summary.claim}")
    stands(summary, run)


def _top(run: Path, top: int, fpr: float | None, fdr: float | None, json: bool) -> None:
    if fpr is not None or fdr is not None:
        raise InputError(
            "--top: it says what holds of the best candidates and decides nothing; leave out --fdr and --fpr"
        )
    bounds = identification.envelope(run)
    validation.check_integer(top, "--top", least=1, most=len(bounds))
    if not json:
        printing.line(finished_run.describe_best(bounds, top))
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
    before: Annotated[Path, typer.Argument(help="Run before the defence.", show_default=False)],
    after: Annotated[Path, typer.Argument(help="Run after it, on the same candidates.", show_default=False)],
    report: Annotated[Path | None, typer.Option(help="Report (HTML) to write.")] = None,
    json: printing.Json = False,
) -> None:
    """What a defence changed: paired differences, whose intervals hold together with 95 % confidence."""
    first, second = auditing.load(before), auditing.load(after)
    changes = comparison.compare_simultaneously(first, second)
    if report is not None:
        page = comparison.comparison_page(first, second, changes)
        html.write(
            sections.add_provenance(page, provenance.collect_provenance({"before": [before], "after": [after]})), report
        )
    if json:
        printing.as_json(results.to_json_values(changes))
        return
    said, tone = comparison.summarise_changes(changes, plausibility.describe_doubt(second))
    printing.verdict(tone, said)
    printing.table("After minus before", *comparison.change_table(changes))
    if report is not None:
        printing.line(f"Report: {report}")


def gate(
    run: Run,
    limits: Annotated[
        list[str],
        typer.Option("--max", help="METRIC:LIMIT, such as tpr@fpr=0.001:0.02; may be repeated.", show_default=False),
    ],
    passing: Annotated[
        str, typer.Option("--pass", help="What else passes: undecided, broken, or both with a comma.")
    ] = "kept",
    json: printing.Json = False,
) -> None:
    """Hold a run to a policy, for CI: exit code 0 when it is kept, 1 when it is broken, 3 when that is undecided.

    Kept: the upper end of every interval is at most its limit. Broken: the lower end of one is above it.
    """
    passed = {
        "kept",
        *(validation.check_choice(word.strip(), "--pass", comparison.STATES) for word in passing.split(",")),
    }
    rulings = comparison.gate(auditing.load(run), limits)
    worst = max((ruling.state for ruling in rulings), key=comparison.STATES.index)
    failed = max((r.state for r in rulings if r.state not in passed), key=comparison.STATES.index, default="kept")
    if json:
        ruled = [results.to_json_values(r) | {"state": r.state, "reason": r.reason} for r in rulings]
        printing.as_json({"state": worst, "passed": failed == "kept", "rulings": ruled})
    else:
        shout = {"broken": "BROKEN"}
        rows = [
            [
                r.recipe,
                r.scope,
                f"adjusted {r.metric}" if r.adjusted else r.metric,
                r.estimate or "–",
                f"{r.limit:g}",
                shout.get(r.state, r.state),
            ]
            for r in rulings
        ]
        printing.table("Policy", ["recipe", "candidates", "metric", "estimate", "limit", "policy"], rows)
        printing.line("The intervals hold simultaneously with 95 % confidence, however many there are.")
        for reason in dict.fromkeys(r.reason for r in rulings if r.reason):
            printing.line(f"undecided: {reason}")
    if failed != "kept":
        raise typer.Exit(_EXIT_CODES[failed])
