"""`divulge identify` and `divulge score`: which of these documents were used."""

from __future__ import annotations

import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divulge import lazy
from divulge.cli import options, printing
from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from divulge import results, run_directory, validation
    from divulge.decisions import methods
    from divulge.identification import (
        decision,
        document_scoring,
        finished_run,
        from_tables,
        identification_page,
        language_demo,
        score_tables,
    )
    from divulge.identification.from_tables import DecisionPlan
    from divulge.results import IdentificationSummary
    from divulge.run_directory import RunDraft
else:
    validation = lazy.module("divulge.validation")
    decision = lazy.module("divulge.identification.decision")
    document_scoring = lazy.module("divulge.identification.document_scoring")
    run_directory = lazy.module("divulge.run_directory")
    finished_run = lazy.module("divulge.identification.finished_run")
    from_tables = lazy.module("divulge.identification.from_tables")
    identification_page = lazy.module("divulge.identification.identification_page")
    language_demo = lazy.module("divulge.identification.language_demo")
    methods = lazy.module("divulge.decisions.methods")
    results = lazy.module("divulge.results")
    score_tables = lazy.module("divulge.identification.score_tables")

Paths = list[Path]


@options.unfold
def identify(
    columns: options.TextColumns,
    tables: Annotated[Paths | None, typer.Argument(help="Candidates: CSV, JSON lines or Parquet, or folders.")] = None,
    candidates: Annotated[Paths | None, typer.Option(help="The same, as an option.")] = None,
    calibration: Annotated[Paths | None, typer.Option(help="Documents known not to have been used.")] = None,
    holdout: Annotated[Paths | None, typer.Option(help="Other unused documents, to test the calibration.")] = None,
    members: Annotated[
        Paths | None, typer.Option(help="Documents known to have been used, for a better estimate of their share.")
    ] = None,
    score: Annotated[list[str] | None, typer.Option(help="Column and its member-like end, as in loss:low.")] = None,
    fdr: Annotated[float, typer.Option(help="Bound on the share of non-members among the selected.")] = 0.05,
    method: Annotated[
        str, typer.Option(help="auto, bh, ptdi, storey, adaptive, or adadetect (several --score).")
    ] = "auto",
    eta: Annotated[float, typer.Option(help="For ptdi: share of calibration beyond its threshold.")] = 0.05,
    lam: Annotated[float, typer.Option(help="For storey: grid point.")] = 0.5,
    truth: Annotated[str | None, typer.Option(help="Column of known membership: adds FDP and power.")] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Column of the score of a classifier that never saw the model, in all tables; as --score."),
    ] = None,
    drop_nan: Annotated[bool, typer.Option("--drop-nan", help="Leave out rows without a score.")] = False,
    drop_overlap: Annotated[
        bool, typer.Option("--drop-overlap", help="Leave out candidates whose text is in the calibration.")
    ] = False,
    texts: Annotated[bool, typer.Option("--texts/--no-texts", help="Whether the report may show documents.")] = True,
    model: Annotated[str | None, typer.Option(help="Score texts first: hf:NAME, or a name with --endpoint.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="OpenAI-compatible server, http://…/v1.")] = None,
    out: options.Out = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished run in --out.")] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Train a small language model and find its texts.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.", min=0)] = 0,
    json: printing.Json = False,
) -> None:
    """Which of these documents were used for training? A set with a bound on false discoveries."""
    if demo:
        _demo(out, fdr, method, seed, overwrite, json)
        return
    judged = [*(tables or []), *(candidates or [])]
    _needed(judged=judged, calibration=calibration)
    given = (judged, list(calibration or []), list(holdout or []), list(members or []))
    folder, scores = options.folder(out, "identify"), [_with_direction(one, ask=not json) for one in score or []]
    names = columns.names().required()

    def plan(first: Sequence[Path], scores: Sequence[str], names: Mapping[str, str]) -> from_tables.DecisionPlan:
        frame = score_tables.scan_scores(first, "candidates")
        wanted = score_tables.resolve_columns(
            frame, scores, id=names.get("id"), text=names.get("text"), truth=truth, baseline=baseline
        )
        policy = decision.Policy(fdr, methods.resolve_method(method, decision.METHODS, eta=eta, lam=lam))
        return from_tables.DecisionPlan(wanted, policy, drop_nan, drop_overlap, seed, texts)

    if not (model or endpoint):
        summary = _decided(folder, plan(judged, scores, names), given, overwrite)
    else:
        wanted = document_scoring.ScoringOptions(names.get("text", "text"), names.get("id"))
        with _scored(model, endpoint, folder, wanted, given, overwrite) as (draft, scored):
            # What scoring writes has columns of its own, id and text.
            summary = _decided(draft, plan(scored[0], scores or ["log_likelihood:high"], {}), scored, overwrite)
    _show(summary, folder, json)


def _with_direction(score: str, *, ask: bool) -> str:
    """Return a score with its member-like end, which is asked for where somebody can answer."""
    if ":" in score or not (ask and sys.stdin.isatty() and sys.stdout.isatty()):
        return score
    answer = typer.prompt(f"Which end of {score!r} is member-like, high or low", default="high")
    return f"{score}:{validation.check_choice(answer.strip().lower(), '--score', ('high', 'low'))}"


def _decided(
    out: Path | RunDraft, plan: DecisionPlan, given: tuple[Sequence[Path], ...], overwrite: bool
) -> IdentificationSummary:
    judged, unseen, apart, used = given
    with printing.bar("deciding") as progress:
        return from_tables.run(
            judged, unseen, out, plan, holdout=apart, members=used, overwrite=overwrite, progress=progress
        )


def _needed(*, judged: Sequence[Path], calibration: Sequence[Path] | None) -> None:
    if not judged:
        raise InputError("candidates: at least one table is needed (or --demo)")
    if not calibration:
        raise InputError("--calibration: a table of documents known not to have been used is needed")


@options.unfold
def score(
    columns: options.TextColumns,
    texts: Annotated[Paths, typer.Argument(help="Documents: CSV, JSON lines or Parquet, or folders.")],
    model: Annotated[str, typer.Option(help="hf:NAME[@REVISION], a folder, or a name with --endpoint.")],
    out: Annotated[Path, typer.Option(help="Folder for token statistics and signals.")],
    endpoint: Annotated[str | None, typer.Option(help="OpenAI-compatible server, http://…/v1.")] = None,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or map for several devices.")] = "auto",
    bos: Annotated[str, typer.Option(help="tokenizer, add or none.")] = "tokenizer",
    length: Annotated[
        int | None,
        typer.Option(help="Window length in tokens (default: the model's context); in characters for an endpoint."),
    ] = None,
    stride: Annotated[int | None, typer.Option(help="Step between windows (default: half the length).")] = None,
    truncation: Annotated[str, typer.Option(help="windows, or head.")] = "windows",
    budget: Annotated[int | None, typer.Option(help="Tokens per batch (default: by device).")] = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Also compute the lower-case ratio; doubles the work.")
    ] = False,
    reference: Annotated[str | None, typer.Option(help="Another model, to add the difference from it.")] = None,
    engine: Annotated[str, typer.Option(help="local, or ray for a cluster.")] = "local",
    shard: Annotated[int, typer.Option(help="Documents per file.")] = 512,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished run in --out.")] = False,
    json: printing.Json = False,
) -> None:
    """Token statistics and membership signals of documents under a language model; resumes where it stopped."""
    local = {
        "dtype": dtype,
        "device": device,
        "bos": bos,
        "length": length,
        "stride": stride,
        "truncation": truncation,
        "budget": budget,
    }
    with options.naming("--reference"):
        other = document_scoring.load_target(reference, None, **local) if reference else None
    names = columns.names()
    asked = document_scoring.ScoringOptions(names.text or "text", names.required().get("id"), lowercase, other, shard)
    validation.check_choice(engine, "--engine", ("local", "ray"))
    with printing.bar("scoring") as progress:
        if engine == "ray":
            factory = partial(document_scoring.load_target, model, endpoint, **local)
            counted = document_scoring.score_on_ray(texts, factory, out, asked, overwrite=overwrite, progress=progress)
        else:
            target = document_scoring.load_target(model, endpoint, **local)
            counted = document_scoring.score(texts, target, out, asked, overwrite=overwrite, progress=progress)
    if json:
        printing.as_json(results.to_json_values(counted))
        return
    rows = [("documents", counted.documents), ("without a score", counted.unscored), ("scored before", counted.resumed)]
    printing.table(f"Scored with {model}", ["what", "value"], [(name, f"{count:,}") for name, count in rows])
    if (skipped := counted.skipped) is not None:
        printing.line(
            f"warning: the server could not take {skipped.documents} documents ({', '.join(skipped.first)}): "
            f"{skipped.reason}. They have no score; --length N, in another folder, scores the first N characters "
            "of each."
        )
    printing.line(f"Signals: {out / 'documents'}")


@contextmanager
def _scored(
    model: str | None,
    endpoint: str | None,
    out: Path,
    wanted: document_scoring.ScoringOptions,
    groups: tuple[Sequence[Path], ...],
    overwrite: bool,
) -> Generator[tuple[RunDraft, tuple[list[Path], ...]]]:
    """A run in ``out`` for which each group of tables has been scored, and the folders of the signals."""
    target = document_scoring.load_target(model, endpoint)
    key = document_scoring.run_key(target.key(), wanted)
    with run_directory.RunDirectory(out).writing(
        finished_run.RUN_TYPE, key, overwrite=overwrite, keep=("token-statistics",)
    ) as draft:
        folders = []
        for name, paths in zip(("candidates", "calibration", "holdout", "members"), groups, strict=True):
            place = f"token-statistics/{name}"
            if paths:
                with (
                    printing.bar(f"scoring {name}") as progress,
                    draft.part(place, document_scoring.RUN_TYPE, key) as inner,
                ):
                    document_scoring.score_into(inner, paths, target, wanted, progress)
            folders.append([draft.path / place] if paths else [])
        yield draft, tuple(folders)


def _demo(out: Path | None, fdr: float, method: str, seed: int, overwrite: bool, json: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="divulge-demo-") as passing:
        folder = Path(passing) if out is None else out
        with printing.bar("training a small language model") as progress:
            summary = language_demo.run(
                folder, fdr=fdr, method=method, seed=seed, overwrite=overwrite, progress=progress
            )
        _show(summary, out, json)


def warn(summary: IdentificationSummary) -> None:
    """Print the warnings; what voids the guarantee or puts it in doubt stands first, in its colour."""
    colour = {"void": "red", "doubtful": "yellow"}.get(summary.guarantee.standing)
    for number, warning in enumerate(summary.warnings):
        printing.remark(warning, style=f"bold {colour}" if colour and not number else "")


def stands(summary: IdentificationSummary, folder: Path) -> None:
    """Print how much doubt the selection survives, where anything is claimed about it."""
    if summary.selected and summary.guarantee.says:
        told = finished_run.sensitivity(folder)
        printing.line(f"If non-members may be Γ times likelier, or less likely, to have any score, {told}.")


def _show(summary: IdentificationSummary, folder: Path | None, json: bool) -> None:
    if json:
        printing.as_json(results.to_json_values(summary))
        return
    warn(summary)
    printing.table(summary.claim, ["what", "value"], identification_page.facts(summary))
    if folder is None:
        printing.line("Nothing was saved; use --out to save the selection and the report.")
        return
    stands(summary, folder)
    printing.line(f"Selection: {folder / 'selection.parquet'}")
    printing.line(f"Report: {folder / 'report.html'}")
