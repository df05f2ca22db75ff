"""`divulge init`, `check`, `audit` and `list`: from what can be run, over a plan, to a finished audit."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import auditing, cli, datafiles, provenance, recipes, references, results, validation
from divulge import demo as demos
from divulge import plan as plan_files
from divulge.auditing import audit_page
from divulge.auditing.gates import Policy
from divulge.auditing.wording import uses_references
from divulge.candidates import forecast_identification
from divulge.cli import options, printing
from divulge.cli.printing import Exit
from divulge.errors import InputError
from divulge.references import progress
from divulge.report import page as report_page
from divulge.report.sections import model_family
from divulge.settings import AccessPlan, AuditSettings, InitSettings
from divulge.signals import classification, internals
from divulge.targets import sacro_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from divulge.plan import ResolvedPlan
    from divulge.results import AuditSummary
    from divulge.settings import Plan
    from divulge.types import Estimate

PlanFile = Annotated[Path, typer.Argument(help="Plan (TOML).", show_default=False)]


def _init_option(name: str) -> Any:
    return options.setting(InitSettings, name)


def init(
    folder: Annotated[Path, typer.Argument(help="Where plan.toml goes.")] = Path(),
    records: Annotated[str | None, _init_option("records")] = None,
    model: Annotated[str | None, _init_option("model")] = None,
    candidates: Annotated[str | None, _init_option("candidates")] = None,
    members: Annotated[str | None, _init_option("members")] = None,
    nonmembers: Annotated[str | None, _init_option("nonmembers")] = None,
    population: Annotated[str | None, _init_option("population")] = None,
    label: Annotated[str | None, _init_option("label")] = None,
    id_column: Annotated[str | None, options.setting(InitSettings, "id", "", "--id")] = None,
    references: Annotated[int | None, _init_option("references")] = None,
    task: Annotated[str | None, _init_option("task")] = None,
    json: options.Json = False,
) -> None:
    """Write a commented plan, and a stub of the code it names; on a terminal, asks for what no option says.

    Elsewhere the usual is assumed, and printed. Records of a target folder of SACRO-ML become tables beside the plan.
    """
    answers_given = {
        "records": records, "model": model, "candidates": candidates, "members": members,
        "nonmembers": nonmembers, "population": population, "label": label, "id": id_column, "references": references,
        "task": task,
    }  # fmt: skip
    is_unanswered = model is not None and members is None and candidates is None
    if is_unanswered and sacro_folders.is_sacro_folder(Path(model)):
        answers_given |= plan_files.import_sacro_folder(Path(model), folder)
        answers_given["references"] = 0 if references is None else references
    is_asking = sys.stdin.isatty() and not json
    answers = plan_files.complete_answers(answers_given, _ask if is_asking else None)
    written = plan_files.write_starting_plan(folder, answers)
    missing, blanks = plan_files.list_missing(answers), plan_files.list_blanks(answers, written)
    assumed = _list_assumptions(answers, answers_given, is_asking=is_asking)
    if json:
        paths = [str(path) for path in written]
        printing.as_json({"written": paths, "assumed": assumed, "missing": list(missing), "to fill in": list(blanks)})
        return
    for path in written:
        printing.line(f"Wrote {path}")
    if assumed:
        printing.line(f"Assumed: {', '.join(f'{name} = {value!r}' for name, value in assumed.items())}")
    absent = [text.split(_ABSENT) for text in missing if _ABSENT in text]
    if len(absent) > 1:
        keys, names = zip(*absent, strict=True)
        printing.remark(f"{', '.join(keys)}: no such files: {', '.join(names)}")
    for text in missing:
        if len(absent) < 2 or _ABSENT not in text:
            printing.remark(text)
    first = [f"put {'these files' if len(absent) > 1 else 'this file'} there"] * bool(absent)
    first += [f"fill in {'; '.join(blanks)}"] * bool(blanks)
    printing.line(f"Next: {''.join(f'{step}; then ' for step in first)}divulge check {written[0]}")


def _list_assumptions(answers: InitSettings, given: Mapping[str, Any], *, is_asking: bool) -> dict[str, Any]:
    """Return the keys of the plan that nobody gave or confirmed, with their values."""
    found = plan_files.choose_columns(answers)
    unasked = {} if is_asking else answers.model_dump(exclude={"id", "task", "known"}, exclude_unset=True)
    assumed = {name: value for name, value in unasked.items() if given.get(name) is None}
    if answers.records == "text":  # whose column of texts the option for the classes names
        text = assumed.pop("label", None)
        if found.chats and given.get("label") is None:
            assumed |= {**found.chats, "tokens": "answer"}
        elif text:
            assumed["text"] = text
        assumed |= {"label": found.label} if found.label else {}
    assumed |= {"id": found.id} if found.id and given.get("id") is None else {}
    return assumed | ({"drop": list(found.drop)} if found.drop else {})


_ABSENT = ": no such file: "  # as `divulge.plan.list_missing` says it


def _ask(question: str, default: str) -> str:
    return printing.ask(f"{question} [{default}]: ") or default


def check(plan: PlanFile, json: options.Json = False) -> None:
    """Can this plan be run? Reads everything, asks the model about a few records, says what an audit will take."""
    read = _read_plan(plan)
    is_search = read.data.candidates is not None
    offer = ""
    if is_search:
        arguments, origins = plan_files.resolve_candidates(read, plan.parent)
        _warn_of_texts(read, arguments, json=json)
        forecast = forecast_identification(**arguments)
        names, training = arguments["recipes"], arguments["references"]
    else:
        resolved = plan_files.resolve(read, plan.parent)
        subject = {key: getattr(resolved.subject, key) for key in ("members", "nonmembers", "population")}
        _warn_of_texts(read, subject, json=json)
        forecast = auditing.forecast(resolved.target, resolved.first_subject, resolved.options)
        origins, names, training = resolved.origins, read.recipes, resolved.options.references
        offer = "" if json else _offer_online(resolved)
    if json:
        printing.as_json({"plan": str(plan), "recipes": names, "forecast": results.to_json_values(forecast)})
        return
    for key, origin in origins.items():
        printing.line(f"{key}: from {origin}")
    printing.line(f"{plan} can be run: {', '.join(names)}")
    printing.line(f"Ahead: {forecast.text}")
    if forecast.fit is not None:
        printing.line(forecast.fit.text)
    doubt = "" if forecast.fit is None else forecast.fit.doubt
    untold = plan_files.describe_default_training(read, training) if forecast.models else ""
    for remark in filter(None, (doubt, "" if is_search else forecast.too_few, forecast.too_large, untold, offer)):
        printing.remark(remark)


def _warn_of_texts(plan: Plan, sets: Mapping[str, Any], *, json: bool) -> None:
    """Name texts among numbers before a model meets them, whose own error tells no row."""
    if json:
        return
    # Where access leaves out rows of the population, those that remain are no longer numbered as in the file.
    keys = ("candidates", "members", "nonmembers", "holdout", *(("population",) if plan.access == AccessPlan() else ()))
    records = {f"data.{key}": sets[key] for key in keys if sets.get(key) is not None}
    for text in datafiles.find_texts_among_numbers(records):
        printing.remark(text)
    for text in [] if plan.known else datafiles.find_empty_columns(records):
        printing.remark(f'{text}; known = "columns:…" in the plan names those that are known')


def _offer_online(resolved: ResolvedPlan) -> str:
    """Return the recipe that sees more than `auto` where it can be run, for whom; empty where it cannot."""
    options = resolved.options
    is_slow = callable(resolved.first_subject.features)  # a function of the user's, which may work for hours
    if is_slow or options.references is None or "auto" not in resolved.plan["recipes"]:
        return ""
    try:
        stronger = options.model_copy(update={"recipes": ("auto-online",)})
        auditing.prepare_audit(resolved.target, resolved.first_subject, stronger, progress.ignore_progress, None)
    except InputError:  # no reference models, classes that the auditor lacks, labels alone
        return ""
    return '"auto-online" in recipes sees more, as an attacker does who has candidates with their classes: the owner'


def list_input_files(plan: Plan, path: Path) -> dict[str, Path | None]:
    """Return the files that a plan names and that exist, by their role."""
    folder = path.parent / (plan.folder or ".")
    names = {"model": None if plan.target.endpoint else plan.target.model}
    names |= {name: getattr(plan.data, name) for name in ("candidates", "members", "nonmembers", "population")}
    return {role: folder / name if name and (folder / name).exists() else None for role, name in names.items()}


def audit(
    *,
    plan: Annotated[
        list[Path] | None,
        typer.Argument(help="Plan (TOML), or several; with --demo: images or text.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Run directory to write (default: runs/NAME-TIME); of several plans, a folder for theirs.",
            show_default=False,
        ),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Audit a model of the bundled Fashion-MNIST images, or of text.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="With --demo: a small, fast one.")] = False,
    overwrite: options.Overwrite = False,
    fpr: Annotated[
        list[float] | None, options.setting(AuditSettings, "fpr", "In place of the plan's; may be repeated.")
    ] = None,
    show_records: Annotated[
        bool | None,
        typer.Option(
            "--show-records/--no-show-records",
            help="Whether single records may be stored and shown, in place of the plan's.",
            show_default=False,
        ),
    ] = None,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> None:
    """Was this record used? Run the attacks of a plan, or of several, on its target.

    The exit code is 0 whatever is found: divulge gate holds the run to limits. Of several plans each is run, also where
    another fails; the exit code is then that of the first that failed.
    """
    plans = plan or []
    if demo:
        if fpr:
            raise InputError(
                "--fpr: goes with a plan; of the demo's run, divulge decide RUN --fpr asks for another rate"
            )
        if show_records is not None:
            raise InputError("--show-records: goes with a plan")
        if len(plans) > 1:
            raise InputError(f"--demo: images or text, one of them; got {len(plans)} names")
        finished, folder = _run_demo(str(plans[0]) if plans else "images", out, quick, overwrite)
        _show_finished(finished, folder, None, json=json, verbose=verbose)
        return
    if not plans:
        raise InputError("audit: give a plan, or --demo; divulge init writes a plan")
    if quick:
        raise InputError("audit: --quick goes with --demo")
    levels = options.check_options(AuditSettings, fpr=fpr).fpr if fpr else None
    changes = {"fpr": levels, "show_records": show_records}
    run = partial(
        _run_plan,
        changes={key: value for key, value in changes.items() if value is not None},
        overwrite=overwrite,
    )
    if len(plans) > 1:
        _run_plans(plans, out, run, json)
        return
    folder = options.run_folder(out, plans[0].stem)
    _show_finished(run(plans[0], folder), folder, plans[0], json=json, verbose=verbose)


def _show_finished(
    finished: Mapping[str, auditing.Audit], folder: Path, plan: Path | None, *, json: bool, verbose: bool
) -> None:
    if json:
        summaries = {name: result.summary() for name, result in finished.items()}
        printing.as_json(results.to_json_values(summaries.get("", summaries)))
        return
    _show_audits(finished, folder, plan, verbose=verbose)


def _run_plans(plans: Sequence[Path], out: Path | None, run: Callable[[Path, Path], Any], json: bool) -> None:
    """Run several plans one after the other, each into its own run directory; one that fails stops no other."""
    names = _name_runs(plans)
    folders = {name: options.run_folder(None if out is None else out / name, name) for name in names}
    codes: dict[str, int] = {}
    answers: dict[str, str] = {}
    # A plan that cannot be read is said at once, not after the others' hours.
    for name, path in names.items():
        codes[name] = cli.call(partial(_read_plan, path), ("audit", str(path)))
    for name in [name for name, code in codes.items() if code == Exit.OK]:
        printing.lines(sys.stderr, f"{names[name]}: into {folders[name]}")

        def run_one(name: str = name) -> None:
            provenance.declare_input_files()  # none of the plan before
            finished = run(names[name], folders[name])
            answers[name] = "; ".join(
                f"{title}: {result.verdict.answer}" if title else result.verdict.answer
                for title, result in finished.items()
            )

        codes[name] = cli.call(run_one, ("audit", str(names[name])))
        if codes[name] == Exit.INTERRUPTED:
            raise typer.Exit(Exit.INTERRUPTED)
    rows = [
        (str(names[name]), answers.get(name, f"failed (exit code {code})"), str(folders[name]) if code == 0 else "–")
        for name, code in codes.items()
    ]
    if json:
        values = {
            str(names[name]): {"exit_code": int(code), "verdict": answers.get(name), "run": str(folders[name])}
            for name, code in codes.items()
        }
        printing.as_json(values)
    else:
        printing.table("Audits", ["plan", "verdict", "run"], rows)
        printing.line(f"{len(answers):,} of {len(plans):,} plans were audited; divulge table lists runs.")
    if failed := [code for code in codes.values() if code != Exit.OK]:
        raise typer.Exit(failed[0])


def _name_runs(plans: Sequence[Path]) -> dict[str, Path]:
    """Return the name of each plan's run: that of its file, with its folder's where two files have the same.

    Raises:
        divulge.InputError: a plan that is named twice, or two that cannot be told apart so.
    """
    stems = [path.stem for path in plans]
    names: dict[str, Path] = {}
    for path, stem in zip(plans, stems, strict=True):
        name = stem if stems.count(stem) == 1 else f"{path.resolve().parent.name}-{stem}"
        if name in names:
            raise InputError(f"audit: {names[name]} and {path} would write the same run {name!r}; audit them apart")
        names[name] = path
    return names


def _read_plan(path: Path) -> Plan:
    """Read a plan and the limits in it, which a gate would refuse after the work."""
    read = plan_files.read(path)
    try:
        Policy.from_plan(read.model_dump())
    except InputError as error:
        raise InputError(f"plan: {path}: {error}") from None
    return read


def _run_demo(name: str, out: Path | None, quick: bool, overwrite: bool) -> tuple[dict[str, auditing.Audit], Path]:
    validation.check_choice(name, "--demo", ("images", "text"))
    folder = options.run_folder(out, "demo")
    shared: dict[str, Any] = {"overwrite": overwrite, "watching": references.Bar}
    if name == "text":
        size = demos.QUICK_TEXTS if quick else demos.FULL_TEXTS
        return {"": demos.audit_language_model(folder, size=size, **shared)}, folder
    run_known, run_unseen = demos.audit_images(
        folder, size=demos.QUICK_IMAGES if quick else demos.FULL_IMAGES, **shared
    )
    titles = ("All classes", f"Class {demos.UNSEEN} unseen")
    return dict(zip(titles, (run_known, run_unseen), strict=True)), folder


def _run_plan(path: Path, out: Path, changes: Mapping[str, Any], overwrite: bool) -> dict[str, auditing.Audit]:
    """Run a plan; return its audits by title, several where it names several masks of known values."""
    plan = _read_plan(path).model_copy(update=dict(changes))
    resolved = plan_files.resolve(plan, path.parent)
    for key, origin in resolved.origins.items():
        printing.lines(sys.stderr, f"{key}: from {origin}")
    run: Any = auditing.run_shares if isinstance(resolved.subject.known, tuple) else auditing.run_audit
    with references.Bar("reference models") as bar:
        finished = run(
            resolved.target,
            resolved.subject,
            resolved.options,
            out=out,
            overwrite=overwrite,
            progress=bar,
            pool=resolved.pool,
            plan=resolved.plan,
            expect=lambda forecast: printing.lines(sys.stderr, f"ahead: {forecast.text}"),
        )
    if not isinstance(finished, list):
        return {"": finished}
    return {f"known: {words}": result for words, result in zip(resolved.plan["known"], finished, strict=True)}


def _show_audits(finished: Mapping[str, auditing.Audit], folder: Path, plan: Path | None, *, verbose: bool) -> None:
    """Print the answer of each audit, one table of their best attacks, and all else with ``verbose``."""
    columns, rows = list[str](), list[list[str]]()
    further, notes, warnings, title = list[printing.TableParts](), list[str](), list[str](), ""
    runs = {name: audit_page.AuditRun(result) for name, result in finished.items()}
    for name, run in runs.items():
        summary, verdict = run.summary, run.verdict
        heading = report_page.put_heading(audit_page.HEADINGS[verdict.answer], verdict.plain)
        if name:
            printing.line()
            printing.line(name, style="bold")
        printing.verdict(verdict.tone, heading)
        # What a leak rests on is in the report; what any other answer leaves open is a part of it.
        is_leak = verdict.answer == "leak found"
        for sentence in (*verdict.caveats, *(verdict.details if verbose or not is_leak else ())):
            printing.line(sentence)
        if verdict.deciding:
            printing.line(verdict.deciding)
        title, columns, best = audit_page.best_recipes(summary, verdict)
        rows += [[name if number == 0 else "", *row] for number, row in enumerate(best)]
        prefix = f"{name}: " if name else ""
        further += [(f"{prefix}{each}", *parts) for each, parts in _all_tables(summary).items()]
        notes += [f"{prefix}{note}" for note in (*verdict.evidence, *_list_notes(summary))]
        told = [f"{prefix}{warning}" for warning in dict.fromkeys(summary.about.warnings)]
        if is_leak or verbose:
            warnings += told
        else:  # it may be why nothing was found
            for warning in told:
                printing.remark(warning)
    if len(finished) > 1:
        printing.table("The best attacks of each", ["audit", *columns], rows)
    else:
        printing.table(title, columns, [row[1:] for row in rows])
    next_step = "open the report in a browser; divulge init writes a plan for a model of your own."
    if plan is not None:
        next_step = _advise_next(next(iter(runs.values())), folder, plan)
    printing.ending(folder, next_step, further=further, notes=notes, warnings=warnings, verbose=verbose)


def _all_tables(summary: AuditSummary) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Return the tables of all recipes with all columns, by title."""
    tables = {"Unseen classes": audit_page.recipe_table(summary, unseen=True)} if summary.unseen_classes else {}
    if summary.adjusted is not None:
        tables["Adjusted, as the verdict judges"] = audit_page.recipe_table(summary, adjusted=True)
    return tables | {"All candidates": audit_page.recipe_table(summary)}


def _list_notes(summary: AuditSummary) -> list[str]:
    """Return everything that is said beside the tables, each once."""
    notes = audit_page.recipe_notes(summary)
    if summary.adjusted is not None:
        notes.append(summary.adjusted.text)
    if (matched := summary.about.matched) is not None:
        notes.append(f"reference models were matched: {matched.chosen}, nearest of {len(matched.tried)} settings")
    if (compared := summary.about.measured(results.ReferenceComparison)) is not None:
        notes += [*(each.text for each in compared.agreement), *compared.uncompared]
    return [note for note in notes if note not in summary.about.warnings]


def _advise_next(run: audit_page.AuditRun[auditing.Audit], folder: Path, plan: Path) -> str:
    """Return what to do after an audit of a plan, in a sentence."""
    estimator = run.audit.about.estimator
    match run.verdict.answer:
        case "leak found" if estimator is not None and model_family(estimator.name):
            return f"divulge defend {plan} says which settings of this model give away less."
        case "leak found":
            return f"change the training as the report says, audit again, and divulge compare {folder} OTHER_RUN."
        case "no leak found" if Policy.read(folder).limits:
            return f"divulge gate {folder} holds the run to the limits of its plan."
        case "no leak found" if not uses_references(run.audit):
            return f"give [references] in {plan} and audit again: attacks with reference models see more."
        case "no leak found":
            return f"divulge gate {folder} --max auc:0.6 holds a release to a limit."
        case _:
            return "the report says what stands in the way."


_RECORD_TYPES: dict[recipes.RecordType, str] = {
    "classifiers": "attacks",
    "documents": "attacks on documents, under language models",
}
_N_DETAILED = 5  # recipes shown with their figures; the others by name


def list_all(
    json: options.Json = False,
    situation: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="Only what can run in your circumstances, best measured first: 'labels only, 2 references', say.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Attacks with their settings, signals and embedded data sets; with --for, the recipes that suit you."""
    if situation is not None:
        _list_suitable(situation, json)
        return
    signals = {name: str(f.__doc__).split("\n", 1)[0] for name, f in classification.SIGNALS.items()}
    signals |= dict(internals.SIGNALS)
    data_sets = {
        "images": "10,000 images of clothing in 10 classes (Fashion-MNIST; Zalando, MIT licence)",
        "text": "the 1,233 paragraphs of 80 to 1,200 characters of Python's manual, as Python ships it",
    }
    if json:
        printing.as_json(
            {
                "recipes": {recipe.name: recipe.summary for recipe in recipes.everything()},
                "recipes for documents": {recipe.name: recipe.summary for recipe in recipes.document_recipes()},
                "recipes for regression models": {
                    recipe.name: recipe.summary for recipe in recipes.regression_recipes()
                },
                "signals": signals,
                "data sets": data_sets,
                "attacks": [_attack_as_json(attack) for attack in recipes.ATTACKS],
                "aliases": {
                    record_type: {
                        name: {"attack": settings.name, "settings": settings.changes()}
                        for name, settings in recipes.aliases(documents=record_type == "documents").items()
                    }
                    for record_type in _RECORD_TYPES
                },
            }
        )
        return
    for record_type, title in _RECORD_TYPES.items():
        rows = [
            (attack.name, attack.description(), "; ".join(map(str, attack.settings(record_type))) or "–")
            for attack in recipes.ATTACKS
            if record_type in attack.record_types()
        ]
        printing.table(title, ["name", "what it is", "settings, the default first"], rows)
    names = dict.fromkeys([*recipes.aliases(), *recipes.aliases(documents=True)])
    printing.paragraph(f"Also by name, each an attack with settings (docs/methods): {', '.join(names)}")
    regression_names = ", ".join(recipe.name for recipe in recipes.regression_recipes())
    printing.paragraph(f"Of regression models, whose labels are real values: {regression_names}")
    for title, entries in {"signals": signals, "data sets": data_sets}.items():
        printing.table(title, ["name", "what it is"], entries.items())


def _attack_as_json(attack: type[recipes.AttackSettings]) -> dict[str, Any]:
    return {
        "name": attack.name,
        "what it is": attack.description(),
        "settings": {
            record_type: [
                {
                    "name": setting.name,
                    "default": setting.default,
                    "choices": list(setting.choices),
                    "meaning": setting.meaning,
                }
                for setting in attack.settings(record_type)
            ]
            for record_type in attack.record_types()
        },
    }


def _list_suitable(words: str, json: bool) -> None:
    circumstances = recipes.Circumstances.parse(words)
    suggestions = recipes.advise(circumstances)
    if json:
        printing.as_json({"for": str(circumstances), "recipes": [_to_json(each) for each in suggestions]})
        return
    measured = [each for each in suggestions if each.figures]
    printing.line(f"For: {circumstances}", style="bold")
    if circumstances.references and not any(each.recipe.references != "none" for each in suggestions):
        printing.paragraph("No recipe for these circumstances uses reference models.")
    if measured:
        printing.paragraph(
            "Best first: TPR at 1 % as a share of the best recipe's, mean over the data sets. Figures whose intervals "
            "overlap are in no certain order."
        )
    for suggestion in measured[:_N_DETAILED]:
        _show_suggestion(suggestion)
    if names := [each.recipe.name for each in measured[_N_DETAILED:]]:
        printing.paragraph(f"Then: {', '.join(names)}. Their figures: --json")
    if names := [each.recipe.name for each in suggestions if not each.figures]:
        printing.paragraph(f"Not measured in these circumstances: {', '.join(names)}")
    if measured:
        data = {figure.data.title: figure.data for each in measured for figure in each.figures}
        sizes = "; ".join(f"{d.title}: {d.members:,} members, {d.nonmembers:,} others" for d in data.values())
        first_data_set = next(iter(data.values()))
        printing.paragraph(
            f"Measured on targets of one kind ({first_data_set.target}), {first_data_set.seeds} runs each; 95 % "
            f"intervals over runs and records. {sizes}. Other targets may leak more or less, and the order may differ."
        )


def _show_suggestion(suggestion: recipes.Suggestion) -> None:
    count = suggestion.figures[0].references
    models = f"{count} reference{'s' * (count != 1)}" if count else "no references"
    models += ", trained on candidates too" * (suggestion.recipe.references == "in and out")
    printing.line()
    printing.line(f"{suggestion.recipe.name} ({models})", style="bold")
    printing.line(f"  {'':14}{'AUC':19}TPR at 1 %")
    for figure in suggestion.figures:
        printing.line(f"  {figure.data.title:14}{_format_short(figure.auc):19}{_format_short(figure.tpr)}")


def _format_short(estimate: Estimate) -> str:
    value, low, high = (f"{x:.3f}".removeprefix("0") for x in (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"


def _to_json(suggestion: recipes.Suggestion) -> dict[str, Any]:
    def interval(estimate: Estimate) -> dict[str, float]:
        return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "confidence": estimate.confidence}

    return {
        "name": suggestion.recipe.name,
        "summary": suggestion.recipe.summary,
        "measured": [
            {
                "data set": figure.data.title,
                "kind": figure.data.kind,
                "unseen classes": figure.unseen,
                "references": figure.references,
                "auc": interval(figure.auc),
                "tpr at 1 %": interval(figure.tpr),
                "tpr at 0.1 %": None if figure.strict is None else interval(figure.strict),
                "seconds": figure.seconds,
            }
            for figure in suggestion.figures
        ],
    }
