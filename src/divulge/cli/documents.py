"""Commands for documents: `divulge identify` with its steps `score` and `power`, and `extract`."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import datafiles, extraction, lazy, provenance, results, run_directory, validation
from divulge import demo as demos
from divulge import plan as plan_files
from divulge import references as progress_bars
from divulge.candidates import identify_records
from divulge.cli import options, printing
from divulge.cli.plans import list_input_files
from divulge.cli.runs import describe_sensitivity
from divulge.decisions import fdr as step_up
from divulge.decisions import methods, planning
from divulge.errors import InputError
from divulge.extraction import extraction_page
from divulge.identification import (
    case_file,
    decision,
    document_scoring,
    finished_run,
    from_tables,
    identification_page,
    score_tables,
)
from divulge.report import page as report_page
from divulge.settings import (
    ColumnNames,
    DecisionSettings,
    ExtractSettings,
    IdentifySettings,
    LanguageModelSettings,
    Plan,
    ScoreSettings,
)
from divulge.targets import ChatEndpoint
from divulge.targets import endpoint as endpoints

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from divulge.candidates import CandidateSelection
    from divulge.identification.document_scoring import ScoringOptions
    from divulge.identification.from_tables import DecisionPlan
    from divulge.results import IdentificationSummary
    from divulge.run_directory import RunDraft
    from divulge.tables import Table
    from divulge.targets import folders
    from divulge.types import Estimate
else:
    folders = lazy.module("divulge.targets.folders")  # which comes with an extra

Paths = list[Path]
Endpoint = Annotated[str | None, typer.Option(help="OpenAI-compatible server, http://…/v1.")]


@options.from_settings
def identify(
    *,
    context: typer.Context,
    tables: Annotated[
        Paths | None,
        typer.Argument(help="Candidates with scores: CSV, JSON lines or Parquet, or folders; or a plan (TOML)."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The model that is asked about records, as a plan names it.")
    ] = None,
    candidates: Annotated[Paths | None, typer.Option(help="Records or documents in question.")] = None,
    population: Annotated[Path | None, typer.Option(help="With --target: records that it was not trained on.")] = None,
    calibration: Annotated[Paths | None, typer.Option(help="Documents known not to have been used.")] = None,
    holdout: Annotated[Paths | None, typer.Option(help="Other unused documents, to test the calibration.")] = None,
    members: Annotated[
        Paths | None, typer.Option(help="Documents known to have been used, for a better estimate of their share.")
    ] = None,
    references: Annotated[
        int | None, typer.Option(help="With --target: clones of the estimator to train on the population.")
    ] = None,
    trust: options.Trust = None,
    score: Annotated[list[str] | None, typer.Option(help="Column and its member-like end, as in loss:low.")] = None,
    settings: Annotated[IdentifySettings, ("fdr", "seed", "drop_nan", "drop_overlap", "show_records")],
    columns: options.RecordColumns,
    truth: Annotated[str | None, typer.Option(help="Column of known membership: adds FDP and power.")] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Column of the score of a classifier that never saw the model, in all tables; as --score."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Score texts first: hf:NAME, or a name with --endpoint.")] = None,
    endpoint: Endpoint = None,
    out: options.RunFolder = None,
    overwrite: options.Overwrite = False,
    demo: Annotated[bool, typer.Option("--demo", help="Train a small language model and find its texts.")] = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> None:
    """Which of these records were used for training? A list with a bound on false discoveries.

    Of a model, candidates and a population of records (--target, or a plan with the key candidates); or of scores of
    documents: `divulge identify power` says how many it takes, `divulge identify score` gets them from a model.
    """
    if demo:
        _run_language_demo(out, settings, overwrite, json, verbose)
        return
    candidate_tables = [*(tables or []), *(candidates or [])]
    folder = options.run_folder(out, "identify")
    is_plan = tables is not None and tables[0].suffix == ".toml"
    if target is not None or is_plan:
        beside = _options_of_scores(context, is_plan=is_plan)
        if beside:
            raise InputError(f"{beside[0]}: does not go with {'a plan' if is_plan else '--target'}")
        if is_plan:
            plan = plan_files.read(candidate_tables[0])
        else:
            plan = _make_plan(
                {"candidates": candidate_tables, "members": members, "nonmembers": holdout},
                population,
                columns,
                target={"model": target},
                **({"references": {"count": references}} if references else {}),
            )
        named = options.named_settings(context, settings)
        home = candidate_tables[0].parent if is_plan else Path()
        found = _identify_records(plan, home, folder, named, trust or (), overwrite)
        summary = results.read_summary(folder, results.IdentificationSummary)
        _show_records_found(found, summary, folder, json, verbose)
        return
    if not candidate_tables:
        raise InputError("candidates: at least one table is needed (or --demo)")
    if population is not None:
        raise InputError("--population: goes with --target; of scores, --calibration names those to compare with")
    if not calibration:
        raise InputError("--calibration: a table of documents known not to have been used is needed")
    groups = (candidate_tables, list(calibration), list(holdout or []), list(members or []))
    scores = [_with_direction(name, ask=not json) for name in score or []]
    names = columns.required()

    if not (model or endpoint):
        table = score_tables.scan_scores(candidate_tables, "candidates")
        named = {"id": names.get("id"), "text": names.get("text"), "truth": truth, "baseline": baseline}
        plan = _make_decision_plan(table, groups[1], scores, settings, named)
        summary = _decide(folder, plan, groups, table, overwrite)
    else:
        scoring = document_scoring.ScoringOptions.from_column_names(columns)
        with _score_tables(model, endpoint, folder, scoring, groups, overwrite) as (draft, scored):
            # What scoring writes has columns of its own, id and text.
            table = score_tables.scan_scores(scored[0], "candidates")
            named = {"truth": truth, "baseline": baseline}
            plan = _make_decision_plan(table, scored[1], scores or ["log_likelihood:high"], settings, named)
            summary = _decide(draft, plan, scored, table, overwrite, listed=candidate_tables)
    _show_selection(summary, folder, json, verbose)


def _make_decision_plan(
    candidates: Table,
    calibration: Sequence[Path],
    scores: Sequence[str],
    settings: IdentifySettings,
    named: Mapping[str, str | None],
) -> DecisionPlan:
    """Return the plan of a decision on tables, and say which texts are compared where nobody named them."""
    is_named = named.get("text") is not None or "text" in candidates
    known = None if is_named else score_tables.scan_scores(calibration, "calibration")
    columns = score_tables.resolve_columns(candidates, scores, **named, calibration=known)
    if columns.is_text_found:
        printing.lines(
            sys.stderr,
            f"text: column {columns.text!r}, the longest free text that stands in both tables, is compared as the "
            f"documents; --text names another, and --text {score_tables.NO_TEXT} compares none",
        )
    method = methods.resolve_method(settings.method, decision.METHODS, eta=settings.eta, lam=settings.lam)
    return from_tables.DecisionPlan(
        columns,
        decision.Policy(settings.fdr, method),
        settings.drop_nan,
        settings.drop_overlap,
        settings.seed,
        settings.show_records,
    )


def _options_of_scores(context: typer.Context, *, is_plan: bool) -> list[str]:
    """Return the options that were named although they are for scores, or say what a plan says."""
    names = ["calibration", "score", "truth", "baseline", "model", "endpoint", "drop_nan"]
    if is_plan:
        names += ["target", "candidates", "population", "members", "holdout", "references", *ColumnNames.model_fields]
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names and options.is_named(context, str(parameter.name))
    ]


def _make_plan(
    sets: Mapping[str, Sequence[Path] | None], population: Path | None, columns: ColumnNames, **keys: Any
) -> Plan:
    """Return the plan that options of the command line describe."""
    files = {name: paths for name, paths in sets.items() if paths}
    for name, paths in files.items():
        if len(paths) != 1:
            raise InputError(f"--{'holdout' if name == 'nonmembers' else name}: one file is needed, got {len(paths)}")
    if population is None:
        raise InputError("--population: a file of records that the model was not trained on is needed")
    data = {name: str(paths[0]) for name, paths in files.items()} | {"population": str(population)}
    data |= {key: getattr(columns, key) for key in columns.model_fields_set}
    return Plan.check(data=data, **keys)


def _identify_records(
    plan: Plan, home: Path, folder: Path, named: dict[str, Any], trust: Sequence[str], overwrite: bool
) -> CandidateSelection:
    """Ask the plan's model about its candidates."""
    arguments, origins = plan_files.resolve_candidates(plan, home, trust)
    for key, origin in origins.items():
        printing.lines(sys.stderr, f"{key}: from {origin}")
    if named.pop("drop_overlap", False):
        arguments["duplicates"] = "drop"
    provenance.declare_input_files(**list_input_files(plan, home / "plan.toml"))
    with progress_bars.Bar("reference models") as bar:
        return identify_records(**arguments | named, out=folder, overwrite=overwrite, progress=bar)


def _show_records_found(
    found: CandidateSelection, summary: IdentificationSummary, folder: Path, json: bool, verbose: bool
) -> None:
    """Print the list of all but unseen classes, and where the others are."""
    _show_selection(summary, folder, json, verbose)
    if json:
        return
    for number, (name, selection) in enumerate(found.by_class.items(), start=1):
        printing.line(f"Class {name}, a list of its own: {selection}; {folder / f'class-{number}'}")


def _with_direction(score: str, *, ask: bool) -> str:
    """Return a score with its member-like end, which is asked for where somebody can answer."""
    if ":" in score or not (ask and sys.stdin.isatty() and sys.stdout.isatty()):
        return score
    answer = typer.prompt(f"Which end of {score!r} is member-like, high or low", default="high")
    return f"{score}:{validation.check_choice(answer.strip().lower(), '--score', ('high', 'low'))}"


@contextlib.contextmanager
def _score_tables(
    model: str | None,
    endpoint: str | None,
    out: Path,
    scoring: ScoringOptions,
    groups: tuple[Sequence[Path], ...],
    overwrite: bool,
) -> Generator[tuple[RunDraft, tuple[list[Path], ...]]]:
    """Open a run in ``out`` in which each group of tables has been scored; also give the folders of the signals."""
    target = document_scoring.load_target(model, endpoint)
    key = document_scoring.run_key(target.key(), scoring)
    with run_directory.RunDirectory(out).writing(
        finished_run.RUN_TYPE, key, overwrite=overwrite, keep=("token-statistics",)
    ) as draft:
        signal_folders = []
        for name, paths in zip(("candidates", "calibration", "holdout", "members"), groups, strict=True):
            place = f"token-statistics/{name}"
            if paths:
                with (
                    printing.bar(f"scoring {name}") as progress,
                    draft.part(place, document_scoring.RUN_TYPE, key) as inner,
                ):
                    document_scoring.score_into(inner, paths, target, scoring, progress)
            signal_folders.append([draft.path / place] if paths else [])
        yield draft, tuple(signal_folders)


def _decide(
    out: Path | RunDraft,
    plan: DecisionPlan,
    groups: tuple[Sequence[Path], ...],
    scanned: Table,
    overwrite: bool,
    listed: Sequence[Path] = (),
) -> IdentificationSummary:
    candidates, calibration, holdout, members = groups
    with printing.bar("deciding") as progress:
        return from_tables.run(
            candidates,
            calibration,
            out,
            plan,
            holdout=holdout,
            members=members,
            scanned=scanned,
            overwrite=overwrite,
            progress=progress,
            listed=listed,
        )


def _run_language_demo(
    out: Path | None, settings: IdentifySettings, overwrite: bool, json: bool, verbose: bool
) -> None:
    with tempfile.TemporaryDirectory(prefix="divulge-demo-") as temporary:
        folder = Path(temporary) if out is None else out
        with printing.bar("training a small language model") as progress:
            summary = demos.identify_documents(
                folder,
                fdr=settings.fdr,
                method=settings.method,
                seed=settings.seed,
                overwrite=overwrite,
                progress=progress,
            )
        _show_selection(summary, out, json, verbose)


def _show_selection(summary: IdentificationSummary, folder: Path | None, json: bool, verbose: bool) -> None:
    if json:
        printing.as_json(results.to_json_values(summary))
        return
    text, tone = case_file.state_finding(summary)
    stated = [
        (f"{report_page.MARKS[each.mark]} {each.title} {each.text}", each.mark)
        for each in case_file.conditions(summary)
    ]
    next_step = "the same with --out FOLDER saves the selection and a report."
    # Where the promise does not stand, everything that it rests on and that is not known to hold is told.
    is_doubtful = tone in ("doubt", "void")
    told = [condition for condition, mark in stated if mark == "not met" or (is_doubtful and mark != "met")]
    caveats, notes = list(told), [condition for condition, _ in stated if condition not in told]
    notes += filter(None, [summary.why])
    (caveats if is_doubtful else notes).append(summary.claim)
    hints = case_file.direction_hints(summary)
    caveats += [f"warning: {hint}" for hint in hints]
    if folder is not None:
        next_step = ""
        if summary.guarantee.standing == "void":
            next_step = case_file.name_records(case_file.VOID_REMEDY, summary)
        elif summary.selected:
            next_step = f"{folder / case_file.LIST_FILE} lists them; divulge decide {folder} --top "
            next_step += f"{summary.selected} says how many of them can be wrong."
        if summary.selected and summary.guarantee.says:
            notes.append(describe_sensitivity(folder))
        notes.append(f"every score and decision: {folder / 'selection.parquet'}")
    printing.outcome(
        tone,
        text,
        caveats=[
            *caveats,
            *(f"warning: {warning}" for warning in case_file.other_warnings(summary) if warning not in hints),
        ],
        shown=("Selection", ["what", "value"], identification_page.facts(summary)),
        folder=folder,
        next_step=next_step,
        notes=notes,
        verbose=verbose,
    )


@options.from_settings
def score(
    *,
    texts: Annotated[Paths, typer.Argument(help="Documents: CSV, JSON lines or Parquet, or folders.")],
    model: Annotated[str, typer.Option(help="hf:NAME[@REVISION], a folder, a .gguf file, or a name with --endpoint.")],
    out: Annotated[Path, typer.Option(help="Folder for token statistics and signals.")],
    endpoint: Endpoint = None,
    columns: options.ScoredColumns,
    settings: Annotated[ScoreSettings, ("dtype", "length")],
    reference: Annotated[str | None, typer.Option(help="Another model, to add the difference from it.")] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Token statistics and membership signals of documents under a language model; resumes where it stopped."""
    model_options = settings.model_dump(include={"dtype", "length"})
    with options.model_errors("--reference"):
        reference_model = document_scoring.load_target(reference, None, **model_options) if reference else None
    scoring = document_scoring.ScoringOptions.from_column_names(columns, reference=reference_model)
    target = document_scoring.load_target(model, endpoint, **model_options)
    with printing.bar("scoring") as progress:
        summary = document_scoring.score(texts, target, out, scoring, overwrite=overwrite, progress=progress)
    if json:
        printing.as_json(results.to_json_values(summary))
        return
    rows = [("documents", summary.documents), ("without a score", summary.unscored), ("scored before", summary.resumed)]
    printing.table(f"Scored with {model}", ["what", "value"], [(name, f"{count:,}") for name, count in rows])
    if (skipped := summary.skipped) is not None:
        printing.line(
            f"warning: the server could not take {skipped.documents} documents ({', '.join(skipped.first)}): "
            f"{skipped.reason}. They have no score; --length N, in another folder, scores the first N characters "
            "of each."
        )
    printing.line(f"Signals: {out / 'documents'}")


_SELECTED = "share of members selected"


@options.from_settings
def power(
    *,
    candidates: Annotated[int, typer.Option(help="Documents to be judged.")],
    members: Annotated[int, typer.Option(help="How many of them are expected to have been used.")],
    auc: Annotated[float, typer.Option(help="How well scores tell members from non-members, as a pilot shows.")],
    settings: Annotated[DecisionSettings, ("fdr", "seed")],
    calibration: Annotated[
        int | None,
        typer.Option(
            help="Say what share of members this many calibration scores find. At least 1 and at most 10,000,000.",
            min=1,
            max=10**7,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """How much calibration does an identification take? By simulation, before any is collected."""
    setting = planning.Setting(candidates, members, auc)
    if calibration is None:
        _show_calibration(setting, settings, json)
    else:
        _show_power(setting, calibration, settings, json)


_WANTED_POWER = 0.8  # share of the members


def _show_calibration(setting: planning.Setting, settings: DecisionSettings, json: bool) -> None:
    """Print the calibration that `_WANTED_POWER` takes under each method."""
    plans = {
        name: planning.calibration(setting, _WANTED_POWER, fdr=settings.fdr, method=name, seed=settings.seed)
        for name in step_up.METHODS
    }
    if json:
        printing.as_json(results.to_json_values(plans))
        return
    sizes = {name: "over 20,000" if p.calibration is None else f"{p.calibration:,}" for name, p in plans.items()}
    rows = [(name, sizes[name], _format_interval(p.power)) for name, p in plans.items()]
    printing.table(f"To select {100 * _WANTED_POWER:.3g} % of the members", ["method", "calibration", _SELECTED], rows)
    first_plan = next(iter(plans.values()))
    _show_caveat(first_plan.power.method)
    printing.line(f"With fewer than {first_plan.least:,} no method selects anything.")


def _show_power(setting: planning.Setting, calibration: int, settings: DecisionSettings, json: bool) -> None:
    """Print the power that a calibration has under each method."""
    powers = {
        name: planning.power(calibration, setting, fdr=settings.fdr, method=name, seed=settings.seed)
        for name in step_up.METHODS
    }
    if json:
        printing.as_json(results.to_json_values(powers))
        return
    rows = [(name, _format_interval(power)) for name, power in powers.items()]
    printing.table(f"With {calibration:,} calibration scores", ["method", _SELECTED], rows)
    _show_caveat(next(iter(powers.values())).method)
    min_selected = step_up.min_selected(calibration, setting.candidates, settings.fdr)
    if min_selected is None:
        required = step_up.required_calibration(1, settings.fdr, 1)
        printing.line(f"They can prove no selection at this level; {required:,} can prove one.")
    else:
        printing.line(
            f"With bh they can prove a selection of {min_selected:,} candidates or more, and none that is smaller."
        )


def _show_caveat(simulated: str) -> None:
    printing.line(f"Means of {simulated}. Real scores of the same AUC differ: measure the power on a pilot.")


def _format_interval(power: Estimate) -> str:
    return f"{power.value:.3f} [{power.low:.3f}, {power.high:.3f}]"


@options.from_settings
def extract(
    *,
    model: Annotated[
        str,
        typer.Option(help="A folder, also of a LoRA adapter, a .gguf file, hf:NAME, or a name with --endpoint."),
    ],
    members: Annotated[Path, typer.Option(help="Documents it was trained on: .jsonl, .parquet or .csv.")],
    nonmembers: Annotated[Path, typer.Option(help="Documents of the same kind that it was not trained on.")],
    endpoint: Endpoint = None,
    chat: Annotated[
        bool,
        typer.Option("--chat", help="Ask --endpoint for chat completions."),
    ] = False,
    base: Annotated[str | None, typer.Option(help="Of an adapter (default: what it names).")] = None,
    reference: Annotated[
        str | None, typer.Option(help="Another model with this tokenizer, such as the base of a fine-tune.")
    ] = None,
    columns: options.ChatColumns,
    settings: Annotated[ExtractSettings, ("prefix", "suffix", "duplicates", "seed", "show_records")],
    loading: Annotated[LanguageModelSettings, ("dtype",)],
    out: options.ReportFolder = None,
    overwrite: options.Overwrite = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> None:
    """Can training documents be extracted from a language model? Measured against documents it never saw.

    No document is printed; --out writes those that are given back most easily into its report.
    """
    if chat and endpoint is None:
        raise InputError("--chat: goes with --endpoint")
    extraction.Cut(settings.prefix, settings.suffix, settings.place)  # checked before anything is read
    layout = datafiles.FileLayout.from_column_names(columns, text="text", label="")  # classes are not read
    provenance.declare_input_files(
        model=None if endpoint else model, base=base, members=members, nonmembers=nonmembers, reference=reference
    )
    inside, outside = (datafiles.read_records(path, layout).records for path in (members, nonmembers))
    model_options: dict[str, Any] = loading.model_dump()
    if endpoint is None:
        target = folders.load_folder(model, base=base, **model_options)
        with options.model_errors("--reference"):
            reference_model = None if reference is None else folders.load_folder(reference, **model_options)
    else:
        if base is not None or loading != LanguageModelSettings():
            raise InputError("--endpoint: how a model is loaded (--base, --dtype) is the server's choice")
        server = ChatEndpoint if chat else endpoints.Endpoint
        target = server(endpoint, model)
        reference_model = None if reference is None else server(endpoint, reference)
    with _explain_interruption(out), printing.bar("asking the model") as progress:
        result = extraction.measure(
            target,
            inside,
            outside,
            **dict(settings),
            reference=reference_model,
            out=out,
            overwrite=overwrite,
            progress=progress,
        )
    if json:
        printing.as_json(results.to_json_values(result.summary()))
        return
    most_extractable = extraction_page.most_extractable_rows(result.members)
    printing.outcome(
        result.finding.tone,
        result.verdict,
        shown=("Given back, %", *extraction_page.rate_rows(result.summary())),
        folder=out,
        further=[("Members that are given back most easily", *most_extractable)],
        warnings=result.warnings,
        verbose=verbose,
    )


@contextlib.contextmanager
def _explain_interruption(out: Path | None) -> Generator[None]:
    """Say on an interruption that nothing is kept, where there is no run directory."""
    try:
        yield
    except KeyboardInterrupt:
        if out is not None:
            raise
        raise KeyboardInterrupt("interrupted; nothing is kept: with --out it would be") from None
