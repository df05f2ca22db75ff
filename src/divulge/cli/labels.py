"""`divulge labels`: what a scoring endpoint gives away, and what stops it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divulge import lazy
from divulge.cli import printing
from divulge.cli.exit_codes import Exit
from divulge.cli.options import unfold
from divulge.cli.printing import Json
from divulge.errors import InputError

if TYPE_CHECKING:
    from divulge import datafiles, labels, results, run_directory, user_code
    from divulge.labels import HttpOracle, Journal, LabelInference, QueryPlan
    from divulge.labels import summary as labels_summary
    from divulge.report import labels_page, run_kinds
    from divulge.results import LabelsSummary, provenance
    from divulge.types import Ints
else:
    datafiles = lazy.module("divulge.datafiles")
    run_directory = lazy.module("divulge.run_directory")
    user_code = lazy.module("divulge.user_code")
    run_kinds = lazy.module("divulge.report.run_kinds")
    provenance = lazy.module("divulge.results.provenance")
    labels = lazy.module("divulge.labels")
    labels_page = lazy.module("divulge.report.labels_page")
    labels_summary = lazy.module("divulge.labels.summary")
    results = lazy.module("divulge.results")

app = typer.Typer(
    help="Labels behind a scoring endpoint: what leaks, how fast, and what prevents it.", no_args_is_help=True
)

Rows = Annotated[int, typer.Option("--n", help="Number of rows in a submission.")]
Method = Annotated[str, typer.Option("--method", help="auto, dense, weighing, positional, theorem3, …")]
Template = Annotated[Path | None, typer.Option("--template", help="An example submission: its header and identifiers.")]
Report = Annotated[Path | None, typer.Option("--report", help="Write an HTML report here.")]


@dataclass(frozen=True, slots=True)
class Oracle:
    """What is known of the scoring endpoint, as given on the command line."""

    metric: Annotated[
        str,
        typer.Option(
            "--metric",
            help="log_loss, accuracy, f1, auc, mse, rmse, mae, mape, r2, balanced_accuracy, mcc, "
            "quadratic_weighted_kappa, map_at_k, …; 'module:callable'; or 'LOW:HIGH', where only the range is known.",
        ),
    ] = "log_loss"
    classes: Annotated[int, typer.Option("--classes", help="Number of classes.")] = 2
    clip: Annotated[str, typer.Option("--clip", help="A number, float64/32/16 (its epsilon), or 'none'.")] = "float64"
    decimals: Annotated[int | None, typer.Option("--decimals", help="Decimals of a score, if it is rounded.")] = None
    noise: Annotated[float, typer.Option("--noise", help="Bound, or standard deviation, of a score's noise.")] = 0.0
    noise_kind: Annotated[str, typer.Option("--noise-kind", help="bounded, gaussian or laplace.")] = "bounded"
    submission: Annotated[
        str, typer.Option("--submission", help="rows (one column per class), positive (one), labels.")
    ] = "rows"
    class_weight: Annotated[
        str | None, typer.Option("--class-weight", help="Weights of the classes in a log loss, as 1,3.")
    ] = None
    scored: Annotated[str, typer.Option("--scored", help="Rows that count: all, their number, or unknown.")] = "all"

    def spec(self, n: int) -> labels.OracleSpec:
        """The specification for n rows."""
        return labels.OracleSpec(
            metric=self._metric(),
            n=n,
            classes=self.classes,
            clip=self._clip(),
            decimals=self.decimals,
            noise=self.noise,
            noise_kind=self.noise_kind,  # ty: ignore[invalid-argument-type] (checked by OracleSpec)
            submission=self.submission,
            class_weight=self._class_weight(),
            scored=int(self.scored) if self.scored.isdecimal() else self.scored,
        )

    def _metric(self) -> Any:
        """The metric's name, the range that is all that is known of it, or the object that is named."""
        low, colon, high = self.metric.partition(":")
        if not colon:
            return self.metric
        try:
            return labels.KnownRange(float(low), float(high))
        except ValueError:
            pass
        named = user_code.import_object(self.metric, "metric", Path.cwd()).value
        known = labels.Evaluated | labels.KnownRange | labels.Linear
        return named if isinstance(named, known) else labels.Evaluated(named, name=self.metric)

    def _class_weight(self) -> tuple[float, ...] | None:
        if self.class_weight is None:
            return None
        try:
            return tuple(float(part) for part in self.class_weight.split(","))
        except ValueError:
            raise InputError(f"class-weight: numbers with commas are needed, got {self.class_weight!r}") from None

    def _clip(self) -> float | str | None:
        if self.clip == "none" or self.clip.startswith("float"):
            return None if self.clip == "none" else self.clip
        try:
            return float(self.clip)
        except ValueError:
            raise InputError(
                f"clip: a number, float64, float32, float16 or none is needed, got {self.clip!r}"
            ) from None


@dataclass(frozen=True, slots=True)
class Exchange:
    """How submissions and scores travel."""

    header: Annotated[list[str] | None, typer.Option("--header", help="'Name: value', sent along; repeatable.")] = None
    template: Template = None
    key: Annotated[str, typer.Option("--key", help="Where the score is in a JSON answer.")] = "score"

    def oracle(self, url: str) -> labels.HttpOracle:
        """The endpoint at this address."""
        headers = {}
        for line in self.header or []:
            name, colon, value = line.partition(":")
            if not colon:
                raise InputError("header: 'Name: value' is needed, got one without a colon")
            headers[name.strip()] = value.strip()
        return labels.HttpOracle(url, _submission(self.template), headers, self.key)


@app.command("capacity")
@unfold
def show_capacity(
    n: Rows,
    oracle: Oracle,
    json: Json = False,
) -> None:
    """How many labels one score can give away at most."""
    bound = labels.capacity(oracle.spec(n))
    if json:
        printing.as_json(results.to_json_values(bound))
    else:
        printing.line(bound)


@app.command("design")
@unfold
def show_design(
    n: Rows,
    oracle: Oracle,
    method: Method = "auto",
    write: Annotated[Path | None, typer.Option("--write", help="Write one submission CSV per query here.")] = None,
    template: Template = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace submissions in --write.")] = False,
    json: Json = False,
) -> None:
    """The plan with the fewest queries; optionally its submissions, to be scored by hand."""
    spec = oracle.spec(n)
    plan = labels.design(spec, method)
    if write is not None:
        submission = _submission(template)
        with run_directory.RunDirectory(write).writing("submissions", plan.key, overwrite=overwrite) as draft:
            labels.write_submissions(plan, draft.path, submission)
    if json:
        printing.as_json(results.to_json_values(labels_summary.summarise_plan(plan)))
        return
    printing.line(
        f"{plan.count} queries for {spec.n} labels ({plan.labels_per_query:.2f} labels per query, {plan.method})"
    )
    printing.line(str(plan.certificate))
    if write is not None:
        printing.line(
            f"{plan.count + 1} submissions written to {write}, the last a control query; "
            "read the scores with: divulge labels attack --scores FILE …"
        )


@app.command("simulate")
@unfold
def show_simulation(
    labels_file: Annotated[
        Path, typer.Argument(metavar="LABELS", help="True labels: one number per line, .npy, or .npz.")
    ],
    oracle: Oracle,
    exchange: Exchange,
    method: Method = "auto",
    seed: Annotated[int, typer.Option("--seed", help="Seed of a local oracle's noise.")] = 0,
    url: Annotated[str | None, typer.Option("--url", help="Score through this endpoint, not on this machine.")] = None,
    public: Annotated[Path | None, typer.Option("--public", help="Rows that are scored: 0 or 1 per line.")] = None,
    report: Report = None,
    json: Json = False,
) -> None:
    """Recover labels we know, from a local oracle or from a real endpoint, and count what is right.

    Exit code 4 when the answers contradict what was declared of the endpoint.
    """
    provenance.declare_input_files(labels=labels_file, public=public)
    y = datafiles.read_labels(labels_file)
    spec = oracle.spec(len(y))
    plan = labels.design(spec, method)
    endpoint = None if url is None else exchange.oracle(url)
    scored = None if public is None else datafiles.read_labels(public) == 1
    simulated = labels.simulate(spec, y, plan, oracle=endpoint, seed=seed, scored=scored)
    summary = _told(plan, simulated.inference, simulated.truth, report, json)
    if json:
        return
    certain = f"{summary.certain} certain, {summary.certain_and_wrong} of them wrong"
    printing.line(
        f"{summary.right}/{spec.n} labels recovered in {simulated.queries} queries ({plan.method}); {certain}"
    )
    _written(Report=report)


@app.command("attack")
@unfold
def attack(
    n: Rows,
    oracle: Oracle,
    exchange: Exchange,
    url: Annotated[str | None, typer.Argument(help="Where submissions are posted.")] = None,
    method: Method = "auto",
    journal: Annotated[Path | None, typer.Option("--journal", help="Keeps answers; run again to resume.")] = None,
    scores: Annotated[Path | None, typer.Option("--scores", help="Scores typed in by hand, one per line.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write row, label, certain, proven as CSV.")] = None,
    report: Report = None,
    control: Annotated[bool, typer.Option(help="Check the labels with one more query.")] = True,
    json: Json = False,
) -> None:
    """Read the labels behind an endpoint you are responsible for; every answer is kept before the next query.

    Exit code 4, and no labels, when the answers contradict what was declared of the endpoint.
    """
    provenance.declare_input_files(scores=scores)
    spec = oracle.spec(n)
    plan = labels.design(spec, method)
    if scores is not None:
        read = labels.read(plan, labels.read_scores(scores, plan))
    elif url is not None:
        kept = None if journal is None else labels.Journal(journal, plan)
        read = _ask(exchange.oracle(url), plan, kept, control)
    else:
        raise InputError("url: an endpoint, or --scores with scores typed in by hand, is needed")
    if out is not None and read.contradiction is None:
        labels_summary.write_labels(out, spec, read)
    summary = _told(plan, read, None, report, json)
    if json:
        return
    printing.line(
        f"{read.queries} of {plan.count} queries answered; {summary.proven} of {n} labels proven "
        f"({summary.certain} even if the noise is twice what was declared)"
    )
    if read.checked:
        printing.line("the control query was answered as these labels imply")
    if spec.scored != "all":
        printing.line(f"{summary.scored} rows are scored; the others have label -1")
    if not read.complete:
        printing.line("the quota is used up; run the same command again later" + ("" if journal else " with --journal"))
    _written(Labels=out, Report=report)


@app.command("defend")
@unfold
def show_defence(
    n: Rows,
    oracle: Oracle,
    queries: Annotated[int, typer.Option("--queries", help="What an attacker may ask.")] = 100,
    accuracy: Annotated[float, typer.Option("--accuracy", help="What an attacker may reach, above chance.")] = 0.55,
    days: Annotated[int, typer.Option("--days", help="Length of a season, for the menu of usual defences.")] = 90,
    per_day: Annotated[int, typer.Option("--per-day", help="Submissions a day.")] = 5,
    public: Annotated[float, typer.Option("--public", help="Share of the rows a public leaderboard scores.")] = 0.3,
    coarse: Annotated[int, typer.Option("--coarse", help="Decimals that the menu rounds to.")] = 3,
    step: Annotated[float | None, typer.Option("--step", help="Step of the menu's Ladder.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of simulated submissions.")] = 0,
    json: Json = False,
) -> None:
    """Which noise, rounding, clip or cap holds an attacker to an accuracy; what the usual defences protect and cost."""
    spec = oracle.spec(n)
    defended = labels.defend(spec, queries, accuracy, seed=seed)
    options = {"days": days, "per_day": per_day, "public": public, "decimals": coarse, "step": step, "seed": seed}
    usual = labels.menu(spec, **options) if spec.scored == "all" and n > 1 else ()
    if json:
        printing.as_json({**results.to_json_values(defended), "menu": results.to_json_values(usual)})
        return
    printing.table(
        f"each setting alone holds {queries} queries to {accuracy:.0%} of balanced labels",
        ("setting", "value", "what it is"),
        labels_page.settings(labels_summary.summarise_defence(defended)),
    )
    printing.line("each of these lines suffices by itself:")
    for number, line in enumerate(defended.advice, start=1):
        printing.line(f"{number}. {line}")
    if usual:
        printing.table(
            f"the usual defences over a season: labels of {n} that can be read, and the cost for a ranking",
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
                for item in usual
            ],
        )


def _submission(template: Path | None) -> labels.Submission:
    return labels.Submission() if template is None else labels.Submission.like(template)


def _ask(oracle: HttpOracle, plan: QueryPlan, journal: Journal | None, control: bool) -> LabelInference:
    with printing.bar("queries") as progress:
        return labels.infer(oracle, plan, journal=journal, progress=progress, control=control)


def _written(**files: Path | None) -> None:
    for name, path in files.items():
        if path is not None:
            printing.line(f"{name}: {path}")


def _told(
    plan: QueryPlan, inference: LabelInference, truth: Ints | None, report: Path | None, json: bool
) -> LabelsSummary:
    """The summary, written and printed where that is asked for; ends here when the answers contradict."""
    summary = labels_summary.summarise(plan, inference, truth)
    if report is not None:
        run = labels_page.LabelsRun(summary, labels_summary.recovery_curve(plan, inference, truth))
        run_kinds.write_report(labels_page.LABELS, run, report)
    if json:
        printing.as_json(results.to_json_values(summary))
    if inference.contradiction is not None:
        printing.error(f"{inference.contradiction}; no labels are given, as nothing follows from a wrong specification")
        raise typer.Exit(Exit.CONTRADICTED)
    return summary
