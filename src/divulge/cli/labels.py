"""`divulge labels`: what a scoring endpoint gives away, and what stops it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import datafiles, provenance, results, run_directory, user_code
from divulge import labels as label_attacks
from divulge.cli import options, printing
from divulge.cli.printing import Exit
from divulge.errors import InputError
from divulge.labels import inference as labels_summary
from divulge.report import labels_page, run_kinds
from divulge.settings import ColumnNames, DefenceSettings, OracleSettings, SeasonRules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from divulge.labels import HttpOracle, LabelInference, MenuItem, OracleSpec, QueryPlan, Submission
    from divulge.results import LabelsSummary
    from divulge.types import Ints

app = typer.Typer(
    cls=options.Group,
    help="Labels behind a scoring endpoint: what leaks, how fast, and what prevents it.",
    no_args_is_help=True,
    add_completion=False,
)

Rows = Annotated[int, typer.Option("--n", help="Number of rows in a submission.")]
Template = Annotated[Path | None, typer.Option("--template", help="An example submission: its header and identifiers.")]
Headers = Annotated[list[str] | None, typer.Option("--header", help="'Name: value', sent along; repeatable.")]
ScoreKey = Annotated[str, typer.Option("--key", help="Where the score is in a JSON answer.")]
Report = Annotated[Path | None, typer.Option("--report", help="Write an HTML report here.")]


def make_spec(settings: OracleSettings, n: int) -> OracleSpec:
    """Return the specification of an endpoint that scores ``n`` rows."""
    values: dict[str, Any] = dict(settings)
    values["metric"] = _parse_metric(settings.metric)
    values["clip"] = _parse_clip(settings.clip)
    values["scored"] = int(settings.scored) if settings.scored.isdecimal() else settings.scored
    return label_attacks.OracleSpec(n=n, **values)


def _parse_metric(text: str) -> Any:
    """Return the name of a metric, the range that is all that is known of it, or the object that is named."""
    low, colon, high = text.partition(":")
    if not colon or low in ("norm_like", "mahalanobis"):
        return text
    try:
        return label_attacks.KnownRange(float(low), float(high))
    except ValueError:
        pass
    metric = user_code.import_object(text, "metric", Path.cwd()).value
    known_types = label_attacks.Evaluated | label_attacks.KnownRange | label_attacks.Linear
    return metric if isinstance(metric, known_types) else label_attacks.Evaluated(metric, name=text)


def _parse_clip(text: str) -> float | str | None:
    if text == "none" or text.startswith("float"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise InputError(f"clip: a number, float64, float32, float16 or none is needed, got {text!r}") from None


def _make_oracle(url: str, template: Path | None, header: list[str] | None, key: str) -> HttpOracle:
    headers = {}
    for line in header or []:
        name, colon, value = line.partition(":")
        if not colon:
            raise InputError("header: 'Name: value' is needed, got one without a colon")
        headers[name.strip()] = value.strip()
    return label_attacks.HttpOracle(url, _make_submission(template), headers, key)


def _make_submission(template: Path | None) -> Submission:
    return label_attacks.Submission() if template is None else label_attacks.Submission.from_template(template)


@app.command("capacity", cls=options.subcommand("labels capacity"))
@options.from_settings
def show_capacity(n: Rows, oracle: options.SplitOracle, json: options.Json = False) -> None:
    """How many labels one score can give away at most."""
    capacity = label_attacks.capacity(make_spec(oracle, n))
    if json:
        printing.as_json(results.to_json_values(capacity))
    else:
        printing.line(capacity)


@app.command("design", cls=options.subcommand("labels design"))
@options.from_settings
def show_design(
    n: Rows,
    oracle: options.SplitOracle,
    write: Annotated[Path | None, typer.Option("--write", help="Write one submission CSV per query here.")] = None,
    template: Template = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace submissions in --write.")] = False,
    json: options.Json = False,
) -> None:
    """The plan with the fewest queries; optionally its submissions, to be scored by hand."""
    spec = make_spec(oracle, n)
    plan = label_attacks.design(spec)
    if write is not None:
        submission = _make_submission(template)
        with run_directory.RunDirectory(write).writing("submissions", plan.key, overwrite=overwrite) as draft:
            label_attacks.write_submissions(plan, draft.path, submission)
    if json:
        printing.as_json(results.to_json_values(labels_summary.summarise_plan(plan)))
        return
    printing.line(
        f"{plan.count} queries for {spec.n} labels ({plan.labels_per_query:.2f} labels per query, {plan.method})"
    )
    printing.line(str(plan.certificate))
    if write is not None:
        printing.line(
            f"{plan.count + len(plan.controls)} submissions written to {write}, the last {len(plan.controls)} of them "
            "control queries, without which nothing is proven; "
            "read the scores with: divulge labels attack --scores FILE …"
        )


@app.command("simulate", cls=options.subcommand("labels simulate"))
@options.from_settings
def show_simulation(
    labels_file: Annotated[
        Path, typer.Argument(metavar="LABELS", help="True labels: a table, one number per line, .npy, or .npz.")
    ],
    oracle: options.Oracle,
    columns: Annotated[ColumnNames, ("label",)],
    n: Annotated[int | None, typer.Option("--n", help="Number of labels, if they are to be counted.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of a local oracle's noise.")] = 0,
    report: Report = None,
    json: options.Json = False,
) -> None:
    """Recover labels we know from an oracle on this machine, and count what is right.

    Exit code 4 when the answers contradict what was declared of the endpoint.
    """
    provenance.declare_input_files(labels=labels_file)
    y = datafiles.read_labels(labels_file, columns.required().get("label"))
    if n not in (None, len(y)):
        raise InputError(f"n: {labels_file} holds {len(y):,} labels, got {n:,}; leave it out, the file says it")
    spec = make_spec(oracle, len(y))
    plan = label_attacks.design(spec)
    simulation = label_attacks.simulate(spec, y, plan, seed=seed)
    summary = _summarise(plan, simulation.inference, simulation.truth, report, json)
    if json:
        return
    certain = f"{summary.certain} certain, {summary.certain_and_wrong} of them wrong"
    printing.line(
        f"{summary.right}/{spec.n} labels recovered in {simulation.queries} queries ({plan.method}); {certain}"
    )
    _show_files(Report=report)


@app.command("attack", cls=options.subcommand("labels attack"))
@options.from_settings
def attack(
    n: Rows,
    oracle: options.SplitOracle,
    header: Headers = None,
    template: Template = None,
    key: ScoreKey = "score",
    url: Annotated[str | None, typer.Argument(help="Where submissions are posted.")] = None,
    journal: Annotated[Path | None, typer.Option("--journal", help="Keeps answers; run again to resume.")] = None,
    scores: Annotated[
        Path | None, typer.Option("--scores", help="Scores typed in by hand: one per line, or a table.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write row, label, certain, proven as CSV.")] = None,
    report: Report = None,
    json: options.Json = False,
) -> None:
    """Read the labels behind an endpoint you are responsible for; every answer is kept before the next query.

    Exit code 4, and no labels, when the answers contradict what was declared of the endpoint.
    """
    provenance.declare_input_files(scores=scores)
    spec = make_spec(oracle, n)
    plan = label_attacks.design(spec)
    if scores is not None:
        inference = label_attacks.read(plan, label_attacks.read_scores(scores, plan))
    elif url is not None:
        answers = None if journal is None else label_attacks.Journal(journal, plan)
        endpoint = _make_oracle(url, template, header, key)
        with printing.bar("queries") as progress:
            inference = label_attacks.infer(endpoint, plan, journal=answers, progress=progress)
    else:
        raise InputError("url: an endpoint, or --scores with scores typed in by hand, is needed")
    if out is not None and inference.contradiction is None:
        labels_summary.write_labels(out, spec, inference)
    summary = _summarise(plan, inference, None, report, json)
    if json:
        return
    printing.line(
        f"{inference.queries} of {plan.count} queries answered; {summary.proven} of {summary.scored} labels proven "
        f"({summary.certain} even if the noise is twice what was declared)"
    )
    if spec.name == "accuracy" and summary.proven:
        printing.line("if the scores are accuracies: the error rate in their place would give the opposite labels")
    if inference.checked:
        printing.line("the control queries were answered as these labels imply")
    if inference.caveat:
        printing.line(f"{summary.determined} labels follow if the endpoint is as declared, but {inference.caveat}")
    if spec.scored != "all":
        printing.line(f"{summary.scored} rows are scored; the others have label -1")
    if not inference.complete:
        printing.line("the quota is used up; run the same command again later" + ("" if journal else " with --journal"))
    _show_files(Labels=out, Report=report)


def _summarise(
    plan: QueryPlan, inference: LabelInference, truth: Ints | None, report: Path | None, json: bool
) -> LabelsSummary:
    """Return the summary, written and printed where that is asked for; exit where the answers contradict."""
    summary = labels_summary.summarise(plan, inference, truth)
    if report is not None:
        run = labels_page.LabelsRun(summary, labels_summary.recovery_curve(plan, inference, truth))
        run_kinds.write_report(labels_page.LABELS, run, report)
    if json:
        printing.as_json(results.to_json_values(summary))
    if inference.contradiction is not None:
        printing.error(f"{inference.contradiction}; no labels are given, as nothing follows from a wrong specification")
        if inference.contradiction.looks.startswith(("constant", "repeated")):
            printing.error(
                f"answers also repeat under a rule that shows the best score so far, {labels_summary.RULE_LEAKS}"
            )
        raise typer.Exit(Exit.CONTRADICTED)
    return summary


def _show_files(**files: Path | None) -> None:
    for name, path in files.items():
        if path is not None:
            printing.line(f"{name}: {path}")


@app.command("defend", cls=options.subcommand("labels defend"))
@options.from_settings
def show_defence(
    n: Rows,
    oracle: options.Oracle,
    defence: DefenceSettings,
    season: SeasonRules,
    json: options.Json = False,
) -> None:
    """Which noise, rounding, clip or cap holds an attacker to an accuracy; what the usual defences protect and cost."""
    spec = make_spec(oracle, n)
    result = label_attacks.defend(spec, defence.queries, defence.accuracy, seed=defence.seed)
    menu: Any = ()
    if n > 1:
        menu = label_attacks.menu(spec, **dict(season), seed=defence.seed)
    if json:
        printing.as_json({**results.to_json_values(result), "menu": results.to_json_values(menu)})
        return
    printing.table(
        f"Value of one setting that alone holds {defence.queries} queries to {defence.accuracy:.0%} of balanced labels",
        ("setting", "value", "what it is"),
        labels_page.settings(labels_summary.summarise_defence(result)),
    )
    printing.line("Each of these lines is enough by itself:")
    for number, line in enumerate(result.advice, start=1):
        printing.line(f"{number}. {line}")
    if menu:
        split = next(item for item in menu if item.name == "private split")
        if not any(remedy.keeps_ranking for remedy in result.remedies) and split.cost is not None:
            printing.line(
                "None of them keeps the ranking. What does: rank in the end by rows that no shown score touches (the "
                "private split below); these labels stay hidden, those of the public rows do not."
            )
        printing.table(
            f"The usual defences over a season: how many of {n} labels can be read, and what is left of the ranking",
            ("defence", "setting", "queries", "at most", "our attack", "Kendall's τ"),
            [
                (
                    item.name,
                    item.setting,
                    str(item.queries),
                    str(item.readable),
                    "-" if item.read is None else str(item.read),
                    "-" if item.cost is None else f"{item.cost.value:.2f} [{item.cost.low:.2f}, {item.cost.high:.2f}]",
                )
                for item in menu
            ],
        )
        for line in describe_menu(menu, n):
            printing.line(line)


def describe_menu(menu: Sequence[MenuItem], n: int) -> Iterator[str]:
    """Yield what the table of usual defences leaves to be said in words.

    Args:
        menu: what `divulge.labels.menu` returned.
        n: number of labels.
    """
    gain = next(item for item in menu if item.name == "minimum gain")
    if gain.read:
        yield (
            f"With the minimum gain ({gain.setting}) our attack still reads {gain.read} of {n} labels, one row after "
            f"the other, in {min(gain.queries, n + 1)} submissions."
        )
    if any(item.read is None for item in menu):
        yield '-: no attack of ours is known there, which is no all-clear; what holds for any attack is "at most".'
